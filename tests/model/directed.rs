//! Stories too unlikely to be met at random.

use account_pool::{Affinity, Plan, TrafficClass};

use crate::ops::{AskSpec, Op, Policy, many};
use crate::world::World;

fn costly(cost: u64) -> AskSpec {
    AskSpec {
        caller: None,
        tenant: None,
        model: None,
        selector: None,
        excluded: Vec::new(),
        cost,
        affinity: Affinity::Prefer,
        class: TrafficClass::User,
        after_wait: None,
    }
}

#[test]
fn a_refund_gives_back_only_what_its_own_lease_took() {
    let limited = Plan::default().rpm(5).tokens_per_minute(50);
    let mut world = World::new(&Policy::default(), &[many((0, Plan::default()))]);
    world.apply(&Op::Select(costly(3)));
    world.apply(&Op::SetPlan(0, limited));
    world.apply(&Op::Select(costly(3)));
    world.apply(&Op::Refund(1));
    world.apply(&Op::Refund(0));
}
