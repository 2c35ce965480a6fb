//! What no implementation of this shape can go below: the lock, one clock reading, the caller's
//! hash, a look-up, and a reservation and a release that keep an index of bare keys current. No
//! windows, no filters, no exclusion, no counters.

use std::hint::black_box;
use std::num::NonZeroUsize;

use account_pool::{Clock, SystemClock};
use criterion::Criterion;
use lru::LruCache;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use crate::groups::{by_size, sizes};
use crate::tree::Tree;
use crate::workload::CONVERSATIONS;
use crate::workload::requests::caller;

/// Beyond this many accounts only this crate is measured.
pub(crate) const LARGEST: usize = 32_768;

/// How accounts are ordered.
#[derive(Clone, Copy)]
enum Order {
    /// In-flight, then least recently used: one is the best.
    Recency,
    /// In-flight alone: all that are idle are tied.
    InFlight,
}

struct Accounts {
    tree: Tree,
    in_flight: Vec<u32>,
    order: Order,
    turn: u64,
    now: u64,
}

impl Accounts {
    fn new(order: Order, accounts: usize) -> Self {
        let tree = Tree::new(vec![0; accounts]);
        Self { tree, in_flight: vec![0; accounts], order, turn: 0, now: 0 }
    }

    fn pick(&mut self, hash: u64, now: u64) -> usize {
        self.now = now;
        let tied = u64::from(self.tree.tied());
        let index = self.tree.kth_tied(u32::try_from(hash % tied).unwrap());
        self.turn += 1;
        self.count(index, 1);
        index
    }

    fn release(&mut self, index: usize) {
        self.count(index, -1);
    }

    fn count(&mut self, index: usize, by: i32) {
        let in_flight = &mut self.in_flight[index];
        *in_flight = in_flight.wrapping_add_signed(by);
        let recency = match self.order {
            Order::Recency => self.turn,
            Order::InFlight => 0,
        };
        self.tree.set(index, u64::from(*in_flight) << 48 | recency);
    }
}

/// Conversations by the hash of their caller, beside what the accounts carry.
struct Sticky {
    bound: LruCache<u64, usize>,
    in_flight: Vec<u32>,
    now: u64,
}

fn hash(key: &str) -> u64 {
    let digest = Sha256::digest(key.as_bytes());
    u64::from_be_bytes(digest[..8].try_into().unwrap())
}

pub(crate) fn floors(c: &mut Criterion) {
    let sizes: Vec<usize> = sizes().into_iter().filter(|&size| size <= LARGEST).collect();

    by_size(c, "floor/tree", &sizes, |accounts| {
        let mut pool = Accounts::new(Order::Recency, accounts);
        move || {
            let index = pool.pick(0, 0);
            pool.release(index);
            index
        }
    });

    by_size(c, "floor/anonymous", &sizes, |accounts| {
        let (clock, pool) =
            (SystemClock::new(), Mutex::new(Accounts::new(Order::Recency, accounts)));
        move || {
            let now = clock.now().as_millis();
            let index = pool.lock().pick(0, now);
            pool.lock().release(index);
            index
        }
    });

    by_size(c, "floor/caller", &sizes, |accounts| {
        let (clock, pool) =
            (SystemClock::new(), Mutex::new(Accounts::new(Order::InFlight, accounts)));
        let keys: Vec<String> = (0..4_096).map(|number| caller(number).0).collect();
        let mut next = 0;
        move || {
            next = (next + 1) % keys.len();
            let (hash, now) = (hash(black_box(&keys[next])), clock.now().as_millis());
            let index = pool.lock().pick(hash, now);
            pool.lock().release(index);
            index
        }
    });

    by_size(c, "floor/sticky", &sizes, |accounts| {
        let keys: Vec<String> = (0..CONVERSATIONS).map(|number| caller(number).0).collect();
        let mut bound = LruCache::new(NonZeroUsize::new(10_000).unwrap());
        for (number, key) in keys.iter().enumerate() {
            bound.put(hash(key), number * accounts / CONVERSATIONS);
        }
        let pool = Mutex::new(Sticky { bound, in_flight: vec![0; accounts], now: 0 });
        let (clock, mut next) = (SystemClock::new(), 0);
        move || {
            next = (next + 1) % keys.len();
            let (hash, now) = (hash(black_box(&keys[next])), clock.now().as_millis());
            let index = {
                let mut pool = pool.lock();
                pool.now = now;
                let index = *pool.bound.get(&hash).unwrap();
                pool.in_flight[index] += 1;
                index
            };
            pool.lock().in_flight[index] -= 1;
            index
        }
    });
}
