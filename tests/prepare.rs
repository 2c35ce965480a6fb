//! A policy that is prepared before it comes into force: nothing is different until then, and
//! all that happened in between counts afterwards.

#![allow(clippy::unwrap_used, reason = "a value that is not there is a failed test")]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use account_pool::config::Term;
use account_pool::{
    Account, Clock, Config, ManualClock, Millis, Outcome, Plan, Pool, Request, Scheduler, Scope,
    Status, Tier, Timestamp,
};

const ACCOUNTS: usize = 40;

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn id(number: usize) -> String {
    format!("a{number}")
}

/// Later accounts are better by tier.
fn account(number: usize) -> Account {
    let tier = u8::try_from((ACCOUNTS - number.min(ACCOUNTS)) % 50).unwrap();
    Account::new(id(number)).rpm(3).tier(Tier(tier))
}

fn scheduler() -> Scheduler {
    let mut scheduler = Scheduler::new(Config::default()).unwrap();
    for number in 0..ACCOUNTS {
        scheduler.add(account(number), at(0)).unwrap();
    }
    scheduler
}

fn by_tier() -> Config {
    let mut config = Config::default();
    config.rank.terms = vec![Term::Tier, Term::Trouble, Term::Recency];
    config
}

fn by_health() -> Config {
    let mut config = Config::default();
    config.health.bucket += 7;
    config
}

fn select(scheduler: &mut Scheduler, now: u64) -> String {
    let grant = scheduler.select(&Request::new(), at(now)).unwrap();
    scheduler.settle(grant.ticket, &Outcome::success(), at(now));
    grant.account.to_string()
}

/// What an operator, an upstream and time may do.
fn upheaval(scheduler: &mut Scheduler, now: u64) {
    let throttled = Outcome::RateLimited { scope: Scope::Account, reset: None };
    scheduler.observe(&id(ACCOUNTS - 1), &Request::new(), &throttled, at(now)).unwrap();
    // The last account goes, and another one gets its number in the order.
    scheduler.remove(&id(ACCOUNTS - 2), at(now));
    scheduler.remove(&id(0), at(now));
    scheduler.add(account(ACCOUNTS + 1), at(now)).unwrap();
    scheduler.remove(&id(ACCOUNTS + 1), at(now));
    scheduler.add(account(ACCOUNTS + 2), at(now)).unwrap();
    scheduler.set_status(&id(ACCOUNTS - 3), Status::Disabled, at(now)).unwrap();
    scheduler.set_plan(&id(ACCOUNTS - 4), &Plan::default().tier(Tier(9)), at(now)).unwrap();
}

#[test]
fn a_policy_is_prepared_once_all_accounts_were_looked_at() {
    let (mut scheduler, config) = (scheduler(), by_health());
    let looked = [10, 10, 10, 9].map(|some| scheduler.prepare_config(&config, some, at(1)));
    assert_eq!(looked.map(Result::unwrap), [false; 4]);
    let mut ready = false;
    for _ in 0..2 {
        ready = scheduler.prepare_config(&config, 10, at(1)).unwrap();
    }
    assert!(ready);
    // What changes is looked at again.
    scheduler.set_status(&id(7), Status::Disabled, at(1)).unwrap();
    assert!(!scheduler.prepare_config(&config, 0, at(1)).unwrap());
    assert!(scheduler.prepare_config(&config, 10, at(1)).unwrap());
}

#[test]
fn a_few_accounts_at_a_time_are_enough_while_requests_come_in() {
    let (mut scheduler, config) = (scheduler(), by_health());
    let mut calls = 0;
    while !scheduler.prepare_config(&config, 2, at(1)).unwrap() {
        select(&mut scheduler, 1);
        calls += 1;
        assert!(calls <= 2 * ACCOUNTS, "it comes to an end");
    }
}

#[test]
fn preparing_changes_no_answer() {
    let mut prepared = scheduler();
    let mut other = prepared.clone();
    for now in 1..60 {
        prepared.prepare_config(&by_tier(), 3, at(now)).unwrap();
        assert_eq!(select(&mut prepared, now), select(&mut other, now));
        if now == 30 {
            upheaval(&mut prepared, now);
            upheaval(&mut other, now);
        }
    }
    assert_eq!(prepared, other);
    assert_eq!(prepared.config(), &Config::default());
}

#[test]
fn what_happened_while_a_policy_was_prepared_counts_under_it() {
    for config in [by_tier(), by_health()] {
        for at_once in [0, 7, 19, 100] {
            let mut prepared = scheduler();
            let mut other = prepared.clone();
            for now in 1..4 {
                prepared.prepare_config(&config, at_once, at(now)).unwrap();
                assert_eq!(select(&mut prepared, now), select(&mut other, now));
            }
            upheaval(&mut prepared, 5);
            upheaval(&mut other, 5);
            prepared.prepare_config(&config, at_once, at(5)).unwrap();
            prepared.set_config(config.clone(), at(6)).unwrap();
            other.set_config(config.clone(), at(6)).unwrap();
            for now in [6, 7, 59_999, 60_001, 60_002, 60_003, 60_004, 60_005, 300_000] {
                assert_eq!(select(&mut prepared, now), select(&mut other, now), "{at_once} {now}");
            }
            assert_eq!(prepared, other);
        }
    }
}

#[test]
fn another_policy_than_the_prepared_one_applies_as_it_is() {
    let mut scheduler = scheduler();
    while !scheduler.prepare_config(&by_health(), 100, at(1)).unwrap() {}
    scheduler.set_config(by_tier(), at(2)).unwrap();
    assert_eq!(select(&mut scheduler, 3), id(ACCOUNTS - 1));
    assert_eq!(select(&mut scheduler, 3), id(ACCOUNTS - 1));
}

#[test]
fn a_policy_that_is_wrong_is_not_prepared() {
    let mut scheduler = scheduler();
    let mut config = Config::default();
    config.sticky.trail = 0;
    let error = scheduler.prepare_config(&config, 10, at(1)).unwrap_err();
    assert_eq!(error.field(), "sticky.trail");
}

#[test]
fn a_policy_under_which_accounts_stand_as_they_do_needs_no_preparation() {
    let mut scheduler = scheduler();
    let mut config = Config::default();
    config.cooldown.floor = Millis::from_secs(7);
    assert!(scheduler.prepare_config(&config, 0, at(1)).unwrap());
}

#[test]
fn time_goes_on_while_a_policy_is_prepared() {
    let mut scheduler = scheduler();
    scheduler.select(&Request::new(), at(0)).unwrap();
    let timeout = scheduler.config().lease_timeout.unwrap();
    scheduler.prepare_config(&by_tier(), 1, at(0).plus(timeout)).unwrap();
    assert_eq!(scheduler.in_flight(), 0);
}

/// More than a pool looks at before others get its lock.
const MANY: usize = 2_500;

#[test]
fn a_large_pool_replaces_its_policy_while_others_are_served() {
    let pool = Pool::with_clock(Config::default(), ManualClock::new(at(1))).unwrap();
    for number in 0..MANY {
        pool.add(Account::new(id(number)).tier(Tier(u8::from(number != MANY - 7))), ()).unwrap();
    }
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                pool.select(&Request::new()).unwrap().settle(Outcome::success());
            }
        });
        for _ in 0..5 {
            pool.set_config(by_tier()).unwrap();
            assert_eq!(pool.preview(&Request::new()).unwrap().account, *id(MANY - 7));
            pool.set_config(by_health()).unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert_eq!(pool.in_flight(), 0);
}

/// A clock that stands still and counts how often it is read: once per turn of a pool's lock.
#[derive(Debug, Default)]
struct Counting(AtomicUsize);

impl Clock for Counting {
    fn now(&self) -> Timestamp {
        self.0.fetch_add(1, Ordering::Relaxed);
        at(1)
    }
}

#[test]
fn a_large_pool_gives_its_lock_away_while_it_replaces_its_policy() {
    let pool = Pool::with_clock(Config::default(), Counting::default()).unwrap();
    for number in 0..MANY {
        pool.add(Account::new(id(number)), ()).unwrap();
    }
    let turns = || pool.clock().0.load(Ordering::Relaxed);
    let before = turns();
    pool.set_config(by_health()).unwrap();
    assert!(turns() - before > MANY / 1_024, "{} turns", turns() - before);
}
