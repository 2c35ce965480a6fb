//! Selecting, refusing, settling and previewing allocate nothing once the pool is warm.

#![allow(clippy::unwrap_used, reason = "a set-up that does not fit is a failed test")]

use std::alloc::System;

use account_pool::{
    Account, AccountId, Affinity, BlockScope, Caller, Config, Dimension, Millis, Outcome, Request,
    Reset, Scheduler, Timestamp,
};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const ACCOUNTS: usize = 32;

struct Load {
    scheduler: Scheduler,
    callers: Vec<Caller>,
    excluded: Vec<AccountId>,
    now: Timestamp,
}

impl Load {
    /// A pool with a small, full table of bindings.
    fn new() -> Self {
        let mut config = Config::default();
        config.sticky.capacity = 50;
        let mut scheduler = Scheduler::new(config).unwrap();
        let now = Timestamp::from_millis(1_000_000);
        for index in 0..ACCOUNTS {
            let account = Account::new(format!("account-{index}")).rpm(60).tokens_per_minute(1_000);
            scheduler.add(account, now).unwrap();
        }
        let callers = (0..200).map(|n| Caller::new(&format!("tenant-{}:x:{n}", n % 7)).unwrap());
        let excluded = (0..3).map(|n| AccountId::from(format!("account-{n}")));
        Self { scheduler, callers: callers.collect(), excluded: excluded.collect(), now }
    }

    /// One round of every kind of request and outcome.
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

    fn allocations_of(&mut self, mut rounds: impl FnMut(&mut Self)) -> usize {
        let region = Region::new(ALLOCATOR);
        rounds(self);
        let change = region.change();
        change.allocations + change.reallocations
    }
}

/// One test, because the allocator counts for the whole process.
#[test]
fn a_warm_pool_allocates_nothing() {
    let mut load = Load::new();
    // Warm is a pool whose logs have seen their busiest minute; they grow by doubling until then.
    let mut blocks = 0;
    while load.allocations_of(|load| (0..5_000).for_each(|step| load.round(step))) > 0 {
        blocks += 1;
        assert!(blocks < 40, "the logs of {ACCOUNTS} accounts must stop growing");
    }
    let before = load.scheduler.stats().clone();
    let selecting = load.allocations_of(|load| (0..5_000).for_each(|step| load.round(step)));
    let after = load.scheduler.stats().clone();
    assert!(after.sticky.evictions > before.sticky.evictions + 100, "the table is full");
    assert!(after.selected.total() > before.selected.total() + 10_000);
    assert_eq!(selecting, 0, "select, preview, touch and settle, with evictions");

    let now = load.now;
    for index in 0..ACCOUNTS {
        let (id, until) = (format!("account-{index}"), Timestamp::MAX);
        let account = BlockScope::Account;
        load.scheduler.block(&id, &account, Dimension::Quota, until, now).unwrap();
    }
    let refusing = load.allocations_of(|load| {
        for _ in 0..1_000 {
            assert!(load.scheduler.select(&Request::new().model("opus"), now).is_err());
        }
    });
    assert_eq!(refusing, 0, "refusals");
}
