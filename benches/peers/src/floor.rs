//! What no implementation of this shape can go below: the lock, one clock reading, a hash of what
//! the request names (its model, or its caller), a look-up, and a reservation and a release that
//! keep an index of bare keys current. No windows, no filters, no exclusion, no counters. It is
//! driven as this crate is: by requests in turn, at their pace.

use std::hash::BuildHasher;
use std::hint::black_box;
use std::num::NonZeroUsize;

use account_pool::Clock;
use criterion::Criterion;
use foldhash::fast::FixedState;
use lru::LruCache;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use crate::groups::{by_size, sizes};
use crate::tree::Tree;
use crate::workload::pace::{PacedClock, START, Ticker};
use crate::workload::requests::{Requests, Spelling, caller};
use crate::workload::{CONVERSATIONS, Workload};

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

impl Sticky {
    fn new(accounts: usize) -> Self {
        let mut bound = LruCache::new(NonZeroUsize::new(10_000).unwrap());
        for number in 0..CONVERSATIONS {
            bound.put(hash(&caller(number).0), number * accounts / CONVERSATIONS);
        }
        Self { bound, in_flight: vec![0; accounts], now: 0 }
    }

    fn pick(&mut self, hash: u64, now: u64) -> usize {
        self.now = now;
        let index = *self.bound.get(&hash).unwrap();
        self.in_flight[index] += 1;
        index
    }
}

/// The hashes of callers in turn.
struct Callers {
    keys: Vec<(String, u64)>,
    spelling: Spelling,
    next: usize,
}

impl Callers {
    fn new(count: usize, spelling: Spelling) -> Self {
        let keys = (0..count).map(|number| caller(number).0);
        let keys = keys.map(|key| (key.clone(), hash(&key))).collect();
        Self { keys, spelling, next: 0 }
    }

    fn draw(&mut self) -> u64 {
        self.next = (self.next + 1) % self.keys.len();
        let (key, hashed) = &self.keys[self.next];
        match self.spelling {
            Spelling::Hashed => *hashed,
            Spelling::Text => hash(key),
        }
    }
}

/// The machine's clock, read at the pace of a workload.
struct Pace {
    clock: PacedClock,
    ticker: Ticker,
}

impl Pace {
    fn of(workload: Workload, accounts: usize) -> Self {
        let ticker = Ticker::of(workload, accounts, START);
        Self { clock: PacedClock::new(START), ticker }
    }

    #[inline]
    fn next(&mut self) -> u64 {
        self.clock.set(self.ticker.tick());
        self.clock.now().as_millis()
    }
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
        let pool = Mutex::new(Accounts::new(Order::Recency, accounts));
        let mut pace = Pace::of(Workload::Anonymous, accounts);
        let mut requests = Requests::new(Workload::Anonymous, Spelling::Text, accounts);
        let hasher = FixedState::default();
        move || {
            let _ = black_box(requests.draw());
            black_box(hasher.hash_one(black_box("opus")));
            let index = pool.lock().pick(0, pace.next());
            pool.lock().release(index);
            index
        }
    });

    for spelling in [Spelling::Hashed, Spelling::Text] {
        by_size(c, &format!("floor/caller-{}", name(spelling)), &sizes, |accounts| {
            let pool = Mutex::new(Accounts::new(Order::InFlight, accounts));
            let mut pace = Pace::of(Workload::Sharded, accounts);
            let mut callers = Callers::new(4_096, spelling);
            move || {
                let (hash, now) = (callers.draw(), pace.next());
                let index = pool.lock().pick(hash, now);
                pool.lock().release(index);
                index
            }
        });
        by_size(c, &format!("floor/sticky-{}", name(spelling)), &sizes, |accounts| {
            let pool = Mutex::new(Sticky::new(accounts));
            let mut pace = Pace::of(Workload::Bound, accounts);
            let mut callers = Callers::new(CONVERSATIONS, spelling);
            move || {
                let (hash, now) = (callers.draw(), pace.next());
                let index = pool.lock().pick(hash, now);
                pool.lock().in_flight[index] -= 1;
                index
            }
        });
    }
}

fn name(spelling: Spelling) -> &'static str {
    match spelling {
        Spelling::Hashed => "hashed",
        Spelling::Text => "text",
    }
}
