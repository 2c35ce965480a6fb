//! Selecting, refusing, settling and previewing allocate nothing once the pool is warm.

#![allow(clippy::unwrap_used, reason = "a set-up that does not fit is a failed test")]

#[path = "../benches/workload/mod.rs"]
mod workload;

use std::alloc::System;

use account_pool::{
    Account, AccountId, Affinity, Caller, Config, Millis, Outcome, Request, Reset, Scheduler,
    Timestamp,
};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

use self::workload::Workload;
use self::workload::drive::{OnPool, OnScheduler};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn allocations_of(steps: impl FnOnce()) -> usize {
    let region = Region::new(ALLOCATOR);
    steps();
    let change = region.change();
    change.allocations + change.reallocations
}

/// Repeats `round` until it allocates nothing, which it must within 40 times: warm is a pool whose
/// logs have seen their busiest minute; they grow by doubling until then.
fn warm_up(what: &str, mut round: impl FnMut()) {
    for _ in 0..40 {
        if allocations_of(&mut round) == 0 {
            return;
        }
    }
    panic!("{what}: the logs must stop growing");
}

/// One test, because the allocator counts for the whole process.
#[test]
fn a_warm_pool_allocates_nothing() {
    for workload in Workload::ALL {
        on_the_scheduler(workload);
        through_the_pool(workload);
    }
    with_a_full_table_and_every_outcome();
}

const ACCOUNTS: usize = 96;
const PAIRS: usize = 5_000;

fn on_the_scheduler(workload: Workload) {
    let name = workload.name();
    let mut driver = OnScheduler::new(workload, ACCOUNTS);
    let mut pairs = || {
        for _ in 0..PAIRS {
            assert_eq!(driver.pair(), workload.is_served(), "{name}");
        }
    };
    warm_up(name, &mut pairs);
    assert_eq!(allocations_of(pairs), 0, "{name}: select and settle");

    let previews = allocations_of(|| {
        for _ in 0..PAIRS {
            assert_eq!(driver.preview().is_ok(), workload.is_served(), "{name}");
        }
    });
    assert_eq!(previews, 0, "{name}: preview");
}

fn through_the_pool(workload: Workload) {
    let name = workload.name();
    let mut driver = OnPool::new(workload, ACCOUNTS);
    let mut pairs = || {
        for _ in 0..PAIRS {
            assert_eq!(driver.pair(), workload.is_served(), "{name}");
        }
    };
    warm_up(name, &mut pairs);
    let pairs = allocations_of(pairs);
    assert_eq!(pairs, 0, "{name}: select and settle through the pool");
}

fn with_a_full_table_and_every_outcome() {
    let mut mix = Mix::new();
    let rounds = |mix: &mut Mix| (0..PAIRS).for_each(|step| mix.round(step));
    warm_up("a full table", || rounds(&mut mix));
    let before = mix.scheduler.stats().clone();
    let rounds = allocations_of(|| rounds(&mut mix));
    let after = mix.scheduler.stats();
    assert!(after.sticky.evictions > before.sticky.evictions + 100, "the table is full");
    assert!(after.selected.total() > before.selected.total() + 10_000);
    assert_eq!(rounds, 0, "select, preview, touch and settle, with evictions");
}

/// Every kind of request and outcome, on few accounts with a small, full table of bindings.
struct Mix {
    scheduler: Scheduler,
    callers: Vec<Caller>,
    excluded: Vec<AccountId>,
    now: Timestamp,
}

impl Mix {
    fn new() -> Self {
        let mut config = Config::default();
        config.sticky.capacity = 50;
        let mut scheduler = Scheduler::new(config).unwrap();
        let now = Timestamp::from_millis(1_000_000);
        for index in 0..32 {
            let account = Account::new(format!("account-{index}")).rpm(60).tokens_per_minute(1_000);
            scheduler.add(account, now).unwrap();
        }
        let callers = (0..200).map(|n| Caller::new(&format!("tenant-{}:x:{n}", n % 7)).unwrap());
        let excluded = (0..3).map(|n| AccountId::from(format!("account-{n}")));
        Self { scheduler, callers: callers.collect(), excluded: excluded.collect(), now }
    }

    fn round(&mut self, step: usize) {
        self.now = self.now.plus(Millis::new(97));
        let now = self.now;
        let caller = self.callers[step * 31 % self.callers.len()];
        let requests = [
            Request::new(),
            Request::new().digested(caller).model("opus").cost(3),
            Request::new().digested(caller).affinity(Affinity::Ignore).selector("eu"),
            Request::new().model("sonnet").exclude(&self.excluded),
        ];
        for (kind, request) in requests.iter().enumerate() {
            let preview = self.scheduler.preview(request, now);
            let Ok(grant) = self.scheduler.select(request, now) else {
                continue;
            };
            assert_eq!(preview.unwrap().account, grant.account);
            let hint = Some(Reset::After(Millis::new(1_500)));
            let outcome = match (step + kind) % 61 {
                0 => Outcome::rate_limited(hint),
                1 => Outcome::Timeout,
                2 => Outcome::Cancelled,
                _ => Outcome::success(),
            };
            self.scheduler.touch(grant.ticket, now);
            self.scheduler.settle(grant.ticket, &outcome, now);
        }
    }
}
