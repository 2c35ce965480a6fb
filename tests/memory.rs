//! What a pool weighs: bytes per account and per binding, and a large pool as a whole.

#![allow(clippy::unwrap_used, reason = "a set-up that does not fit is a failed test")]

use std::alloc::System;

use account_pool::{Account, Caller, Config, Outcome, Request, Scheduler, Timestamp};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Requests a minute, and so few that a log has room for more from its first request on.
const RPM: usize = 60;
const FEW: usize = 5;

/// What an account takes in tables that grow by chunks: its state, and what the index knows of it.
const ACCOUNT: usize = 256 + 72;
/// What an account takes in tables that grow by doubling: the order, what was touched, hashes,
/// deadlines.
const ACCOUNT_DOUBLED: usize = 33;
/// What an account takes besides its log: its record with its id (up to 23 bytes), and its part of
/// the tries of the index.
const ACCOUNT_OWN: usize = 96 + 244;
/// What each request takes in the log, and for how many there is room at first.
const REQUEST: usize = 8;
const FIRST_ROOM: usize = 16;
/// What an account takes in the look-up by id, per bucket.
const ACCOUNT_BUCKET: usize = 9;
/// What a binding takes in the table, which grows by chunks.
const BINDING: usize = 184;
/// What a binding takes in the look-up by key, per bucket; its part of what is known about its
/// tenant is in here too.
const BINDING_BUCKET: usize = 10;
/// What a pool takes besides.
const POOL: usize = 48 * 1_024;

/// The most bytes that so many accounts, of so many requests a minute, and bindings take.
fn formula(accounts: usize, rpm: usize, bindings: usize) -> usize {
    POOL + ACCOUNT * chunked(accounts)
        + ACCOUNT_DOUBLED * doubled(accounts)
        + (ACCOUNT_OWN + REQUEST * doubled(rpm).max(FIRST_ROOM)) * accounts
        + ACCOUNT_BUCKET * buckets(accounts)
        + BINDING * chunked(bindings)
        + BINDING_BUCKET * buckets(bindings)
}

/// Places in a table that grows by chunks of 256; the first one grows by doubling.
fn chunked(entries: usize) -> usize {
    doubled(entries).min(entries.next_multiple_of(256))
}

/// Places in a table that grows by doubling.
fn doubled(entries: usize) -> usize {
    if entries == 0 { 0 } else { entries.next_power_of_two() }
}

/// Buckets of a hash table, which fills seven eighths of them at most.
fn buckets(entries: usize) -> usize {
    doubled(entries * 8 / 7)
}

/// A pool whose accounts have all used their requests of a minute, each in a millisecond of its
/// own, and that many bindings, spread over the accounts and over tenants of fifty.
fn full(accounts: usize, rpm: usize, bindings: usize) -> Scheduler {
    let mut config = Config::default();
    config.sticky.capacity = bindings.max(1);
    config.new_account_baseline = false;
    let mut scheduler = Scheduler::new(config).unwrap();
    for index in 0..accounts {
        scheduler.add(Account::new(id(index)).rpm(rpm as u64), Timestamp::ZERO).unwrap();
    }
    let mut callers = (0..bindings).map(|number| format!("api:{}:user:{number}", number / 50));
    for round in 0..rpm {
        let now = Timestamp::from_millis(1_000 * round as u64);
        for index in 0..accounts {
            let key = callers.next();
            let caller = key.and_then(|key| Caller::new(&key));
            let request = Request::new().model("opus");
            let request = caller.map_or(request, |caller| request.digested(caller));
            let grant = scheduler.select_account(&id(index), &request, now).unwrap();
            scheduler.settle(grant.ticket, &Outcome::success(), now);
        }
    }
    assert_eq!(scheduler.bindings(Timestamp::ZERO), bindings);
    // Whoever asks for any account brings the index up to date.
    let refusal = scheduler.select(&Request::new(), Timestamp::from_millis(59_000));
    assert!(refusal.is_err(), "all windows are full");
    scheduler
}

fn id(index: usize) -> String {
    format!("account-{index:06}")
}

fn bytes_of(accounts: usize, rpm: usize, bindings: usize) -> usize {
    let region = Region::new(ALLOCATOR);
    let scheduler = full(accounts, rpm, bindings);
    let change = region.change();
    drop(scheduler);
    change.bytes_allocated - change.bytes_deallocated
}

/// One test, because the allocator counts for the whole process.
#[test]
fn a_pool_weighs_what_the_formula_says() {
    let sizes =
        [(1_024, 0), (1_025, 0), (2_048, 0), (2_048, 8_192), (500, 8_193), (200, 200), (28_673, 0)];
    for (accounts, bindings) in sizes {
        check(accounts, RPM, bindings);
    }
    check(2_048, FEW, 0);
    let (accounts, bindings) = (50_000, 200_000);
    let bytes = check(accounts, RPM, bindings);
    assert!(bytes <= 128 << 20, "{accounts} accounts with {bindings} bindings take {bytes} bytes");
}

/// What they weigh, which is at most what the formula says, and hardly less.
fn check(accounts: usize, rpm: usize, bindings: usize) -> usize {
    let (bytes, most) = (bytes_of(accounts, rpm, bindings), formula(accounts, rpm, bindings));
    let about = format!(
        "{accounts} accounts of {rpm} a minute, {bindings} bindings: {bytes} bytes, not {most}"
    );
    assert!(bytes <= most, "more than the formula says: {about}");
    assert!(bytes * 20 >= most * 19, "a twentieth less than the formula says: {about}");
    bytes
}
