//! What observers are told, and when.

#![allow(clippy::unwrap_used, reason = "a set-up that does not fit is a failed test")]

use std::sync::{Arc, Mutex};

use account_pool::{
    Account, Config, Event, ManualClock, Millis, Outcome, OutcomeKind, Path, Pool, Reason, Request,
    Reset, Status, Timestamp,
};

type Watched = (Pool<(), ManualClock>, ManualClock, Arc<Mutex<Vec<Event>>>);

fn watched(config: Config, accounts: &[&str]) -> Watched {
    let clock = ManualClock::new(Timestamp::from_millis(1_000));
    let pool = Pool::with_clock(config, clock.clone()).unwrap();
    for &id in accounts {
        pool.add(Account::new(id), ()).unwrap();
    }
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let note = move |event: &Event, _at: Timestamp| log.lock().unwrap().push(event.clone());
    assert!(pool.set_observer(note));
    (pool, clock, seen)
}

fn take(seen: &Mutex<Vec<Event>>) -> Vec<Event> {
    std::mem::take(&mut seen.lock().unwrap())
}

#[test]
fn a_turn_is_selected_settled_and_bound_in_that_order() {
    let (pool, _, seen) = watched(Config::default(), &["a"]);
    pool.select(&Request::new().caller("u")).unwrap().settle(Outcome::success());
    let account = || "a".into();
    let expected = [
        Event::Selected { account: account(), path: Path::Rank, tied: 1 },
        Event::Settled { account: account(), outcome: OutcomeKind::Success },
        Event::Bound { account: account() },
    ];
    assert_eq!(take(&seen), expected);
}

#[test]
fn a_refusal_tells_its_reasons_and_its_deadline() {
    let (pool, clock, seen) = watched(Config::default(), &["a"]);
    pool.set_status("a", Status::Disabled).unwrap();
    take(&seen);
    pool.select(&Request::new()).unwrap_err();
    let events = take(&seen);
    let [Event::Refused { tally, retry_at, wait_for }] = events.as_slice() else {
        panic!("one refusal: {events:?}");
    };
    assert_eq!((tally.count(Reason::Disabled), *retry_at, wait_for), (1, None, &None));
    drop(clock);
}

#[test]
fn a_conversation_moves_warm_and_cold() {
    let (pool, clock, seen) = watched(Config::default(), &["a", "b", "c"]);
    let request = Request::new().caller("u");
    let throttle = || Outcome::rate_limited(Some(Reset::After(Millis::from_secs(20))));
    let turn = || {
        let lease = pool.select(&request).unwrap();
        let account = lease.account().clone();
        lease.settle(Outcome::success());
        account
    };
    let first = turn();
    pool.observe(first.as_str(), &request, &throttle()).unwrap();
    take(&seen);
    let second = turn();
    assert!(take(&seen).contains(&Event::MovedCold));

    pool.observe(second.as_str(), &request, &throttle()).unwrap();
    clock.advance(Millis::from_secs(20));
    pool.observe(second.as_str(), &request, &throttle()).unwrap();
    take(&seen);
    assert_eq!(turn(), first, "the first account is still warm");
    assert!(take(&seen).contains(&Event::MovedWarm { account: first }));
}

#[test]
fn a_breaker_opens_half_opens_and_closes_once_each() {
    let mut config = Config::default();
    config.last_usable_exempt = false;
    let (pool, clock, seen) = watched(config, &["a"]);
    for _ in 0..4 {
        pool.observe("a", &Request::new(), &Outcome::Network).unwrap();
    }
    clock.advance(pool.config().breaker.recovery);
    pool.select(&Request::new()).unwrap().settle(Outcome::success());
    pool.select(&Request::new()).unwrap().settle(Outcome::success());
    let about_breaker = |event: &Event| {
        matches!(
            event,
            Event::BreakerOpened { .. }
                | Event::BreakerHalfOpen { .. }
                | Event::BreakerClosed { .. }
        )
    };
    let account = || "a".into();
    let expected = [
        Event::BreakerOpened { account: account() },
        Event::BreakerHalfOpen { account: account() },
        Event::BreakerClosed { account: account() },
    ];
    let seen: Vec<Event> = take(&seen).into_iter().filter(about_breaker).collect();
    assert_eq!(seen, expected);
}

#[test]
fn an_observer_may_call_the_pool() {
    let pool = Pool::new(Config::default()).unwrap();
    pool.add(Account::new("a"), ()).unwrap();
    let inner = pool.clone();
    let in_flight = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&in_flight);
    pool.set_observer(move |_: &Event, _: Timestamp| {
        log.lock().unwrap().push(inner.in_flight());
    });
    drop(pool.select(&Request::new()).unwrap());
    assert_eq!(*in_flight.lock().unwrap(), [1, 0]);
}

#[test]
fn a_second_observer_is_refused() {
    let (pool, _, _) = watched(Config::default(), &["a"]);
    assert!(!pool.set_observer(|_: &Event, _: Timestamp| ()));
}
