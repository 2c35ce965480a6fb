//! The tenants that hold bindings: whose binding gives way where there is no room.

use std::collections::HashMap;

use super::Tenant;

/// One of so many may be moved on before all are looked at.
const FEW: usize = 16;

/// No node.
pub(super) const NONE: u32 = u32::MAX;

/// The tenants that hold bindings, those that hold the most first; of several the one whose least
/// recently used binding is the oldest.
///
/// A heap that may be out of date. A use makes a tenant's oldest binding younger, so the tenant
/// can only come later than where it is; [`first`](Self::first) looks, and moves on who comes too
/// early. So a use, of which there are many, changes nothing here.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Holders {
    by_tenant: HashMap<Tenant, u32>,
    all: Vec<Holder>,
    /// Entries of `all` that nobody has.
    vacant: Vec<u32>,
    heap: Vec<Rank>,
}

/// What a tenant holds: a list of nodes, from the least to the most recently used.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Holder {
    pub(super) oldest: u32,
    pub(super) newest: u32,
    /// Its place in the heap.
    place: u32,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Rank {
    held: u32,
    holder: u32,
    /// When its oldest binding was last used, or earlier.
    used: u64,
}

impl Rank {
    fn precedes(&self, other: &Self) -> bool {
        (other.held, self.used) < (self.held, other.used)
    }
}

impl Holders {
    pub(super) fn get(&self, holder: u32) -> &Holder {
        &self.all[holder as usize]
    }

    pub(super) fn get_mut(&mut self, holder: u32) -> &mut Holder {
        &mut self.all[holder as usize]
    }

    /// The entry of a tenant that holds something.
    pub(super) fn find(&self, tenant: Tenant) -> Option<u32> {
        self.by_tenant.get(&tenant).copied()
    }

    /// How many bindings a tenant holds.
    pub(super) fn held(&self, holder: u32) -> u32 {
        self.heap[self.all[holder as usize].place as usize].held
    }

    /// Counts one more binding of a tenant, used at `used` if it is the first; its entry.
    pub(super) fn count_in(&mut self, tenant: Tenant, used: u64) -> u32 {
        if let Some(holder) = self.find(tenant) {
            let place = self.all[holder as usize].place as usize;
            self.heap[place].held += 1;
            self.rise(place);
            return holder;
        }
        let place = self.heap.len();
        let entry = Holder { oldest: NONE, newest: NONE, place: number(place) };
        let holder = match self.vacant.pop() {
            Some(holder) => {
                self.all[holder as usize] = entry;
                holder
            }
            None => {
                self.all.push(entry);
                number(self.all.len() - 1)
            }
        };
        self.by_tenant.insert(tenant, holder);
        self.heap.push(Rank { held: 1, holder, used });
        self.rise(place);
        holder
    }

    /// Counts one binding of a tenant less.
    pub(super) fn count_out(&mut self, tenant: Tenant, holder: u32) {
        let place = self.all[holder as usize].place as usize;
        self.heap[place].held -= 1;
        if self.heap[place].held > 0 {
            self.sink(place);
            return;
        }
        self.by_tenant.remove(&tenant);
        self.vacant.push(holder);
        self.heap.swap_remove(place);
        if place < self.heap.len() {
            self.settle(place);
            self.rise(place);
            self.sink(place);
        }
    }

    /// Who holds the most; of several, whose oldest binding was used first. `used` says when a
    /// node was last used.
    pub(super) fn first(&mut self, used: impl Fn(u32) -> u64) -> Option<u32> {
        for _ in 0..=self.heap.len() / FEW {
            let first = self.heap.first_mut()?;
            let known = first.used;
            first.used = used(self.all[first.holder as usize].oldest);
            if first.used == known {
                return Some(first.holder);
            }
            self.sink(0);
        }
        self.look_at_all(used);
        self.heap.first().map(|first| first.holder)
    }

    /// Notes when each oldest binding was last used, which is cheaper than to find one after the
    /// other where that is out of date for many.
    #[cold]
    fn look_at_all(&mut self, used: impl Fn(u32) -> u64) {
        for rank in &mut self.heap {
            rank.used = used(self.all[rank.holder as usize].oldest);
        }
        (0..self.heap.len() / 2).rev().for_each(|place| self.sink(place));
    }

    /// Moves an entry of the heap up to where it belongs.
    fn rise(&mut self, mut place: usize) {
        while place > 0 {
            let above = (place - 1) / 2;
            if !self.heap[place].precedes(&self.heap[above]) {
                return;
            }
            self.swap(place, above);
            place = above;
        }
    }

    /// Moves an entry of the heap down to where it belongs.
    fn sink(&mut self, mut place: usize) {
        loop {
            let precedes = |one: usize, other: usize| {
                self.heap.get(one).is_some_and(|rank| rank.precedes(&self.heap[other]))
            };
            let (left, right) = (2 * place + 1, 2 * place + 2);
            let first = if precedes(left, place) { left } else { place };
            let first = if precedes(right, first) { right } else { first };
            if first == place {
                return;
            }
            self.swap(place, first);
            place = first;
        }
    }

    fn swap(&mut self, one: usize, other: usize) {
        self.heap.swap(one, other);
        self.settle(one);
        self.settle(other);
    }

    /// Notes where an entry of the heap is.
    fn settle(&mut self, place: usize) {
        let holder = self.heap[place].holder;
        self.all[holder as usize].place = number(place);
    }
}

fn number(index: usize) -> u32 {
    u32::try_from(index).expect("there are fewer tenants than bindings, and these are numbered")
}
