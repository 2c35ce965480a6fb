//! The table against a list of its bindings, the least recently used first.

use proptest::collection::vec;
use proptest::prelude::*;

use super::{Binding, Bindings, Bound};
use crate::slot::Slot;
use crate::sticky::kept::KeptUsage;
use crate::sticky::trail::Trail;
use crate::sticky::{BindingKey, Tenant};
use crate::time::Timestamp;

#[derive(Clone, Debug)]
enum Act {
    /// A new binding of a tenant, for which another gives way if there are too many.
    Bind(Tenant),
    /// One is used again, given its place in the list.
    Use(usize),
    Drop(usize),
    /// Whichever gives way, though there is room.
    Evict,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        8 => (0_u64..20).prop_map(|tenant| Act::Bind(tenant * tenant / 9)),
        9 => (0_usize..60).prop_map(Act::Use),
        1 => (0_usize..60).prop_map(Act::Drop),
        1 => Just(Act::Evict),
    ]
}

const CAPACITY: usize = 50;
const NOW: Timestamp = Timestamp::ZERO;

fn binding(tenant: Tenant) -> Binding {
    let slot = Slot { index: 0, generation: 0 };
    let (trail, usage) = (Trail::new(slot, NOW).into(), KeptUsage::default());
    Binding { trail, tenant, last_used: NOW, usage }
}

/// The bindings with their tenants, and the one of them that gives way.
fn victim(list: &[(BindingKey, Tenant)], newcomer: Option<Tenant>) -> Option<BindingKey> {
    let held = |tenant: Tenant| {
        let own = list.iter().filter(|(_, owner)| *owner == tenant).count();
        own + usize::from(newcomer == Some(tenant))
    };
    let most = list.iter().map(|&(_, tenant)| held(tenant)).max()?;
    let furthest = list.iter().find(|&&(_, tenant)| held(tenant) == most);
    furthest.map(|&(key, _)| key)
}

proptest! {
    #[test]
    fn the_oldest_of_those_who_hold_the_most_gives_way(acts in vec(act(), 1..400)) {
        let (mut table, mut list) = (Bindings::default(), Vec::new());
        for (number, act) in (0_u64..).zip(acts) {
            match act {
                Act::Bind(tenant) => {
                    while list.len() >= CAPACITY {
                        let key = table.victim(Some(tenant)).unwrap();
                        prop_assert_eq!(Some(key), victim(&list, Some(tenant)));
                        table.remove(&key);
                        list.retain(|(other, _)| *other != key);
                    }
                    let key = BindingKey::of(u128::from(number), None, None);
                    table.insert(key, binding(tenant));
                    list.push((key, tenant));
                }
                Act::Use(place) if place < list.len() => {
                    let used = list.remove(place);
                    table.refresh(&Bound::nowhere(used.0), NOW);
                    list.push(used);
                }
                Act::Drop(place) if place < list.len() => {
                    table.remove(&list.remove(place).0);
                }
                Act::Evict => {
                    let key = table.victim(None);
                    prop_assert_eq!(key, victim(&list, None));
                    if let Some(key) = key {
                        table.remove(&key);
                        list.retain(|(other, _)| *other != key);
                    }
                }
                Act::Use(_) | Act::Drop(_) => {}
            }
            let keys: Vec<BindingKey> = list.iter().map(|&(key, _)| key).collect();
            prop_assert!(table.keys().eq(&keys));
        }
    }
}
