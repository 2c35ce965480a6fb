//! Requests under way: counted from the choice to the end, once.

use std::panic::{AssertUnwindSafe, catch_unwind};

use account_pool::{
    Account, Config, Entitlement, Outcome, Reason, Request, Scope, Settlement, Unavailable,
    WaitTicket,
};

use crate::scenario::{Scenario, anyone, at, by, conventions, ms};
use crate::threads::{at_once, pool};

fn narrow() -> Account {
    Account::new("A").max_in_flight(1)
}

/// No failure keeps an account away.
fn forgiving() -> Config {
    let mut config = conventions();
    config.cooldown.throttle.base = ms(0);
    config.cooldown.quota.base = ms(0);
    config.cooldown.auth.base = ms(0);
    config.cooldown.overload.base = ms(0);
    config
}

fn outcomes() -> Vec<Outcome> {
    vec![
        Outcome::success(),
        Outcome::rate_limited(None),
        Outcome::quota_exhausted(None),
        Outcome::Overloaded { scope: Scope::Model, reset: None },
        Outcome::Internal,
        Outcome::AuthFailed,
        Outcome::DeadToken,
        Outcome::BanSignal,
        Outcome::Network,
        Outcome::Timeout,
        Outcome::ClientFault,
        Outcome::Cancelled,
    ]
}

#[test]
fn c61_every_outcome_releases_the_slot() {
    for outcome in outcomes() {
        let mut s = Scenario::of(forgiving(), [narrow()]);
        let l1 = s.hold(0, &anyone());
        assert_eq!(s.inspect(9, "A").in_flight, 1);
        s.fail(&l1, 10, outcome);
        assert_eq!(s.inspect(10, "A").in_flight, 0, "{outcome:?}");
        s.hold(11, &anyone());
    }
}

#[test]
fn c61_an_abandoned_request_releases_the_slot() {
    let mut s = Scenario::of(conventions(), [narrow()]);

    let l1 = s.hold(0, &anyone());
    s.abandon(&l1, 10);
    assert_eq!(s.inspect(10, "A").in_flight, 0);
    s.hold(11, &anyone());
}

#[test]
fn c61_a_dropped_lease_releases_the_slot() {
    let pool = pool(conventions(), [narrow()], 0);

    let lease = pool.select(&Request::new()).unwrap();
    pool.clock().set(at(10));
    drop(lease);
    assert_eq!(pool.inspect("A").unwrap().in_flight, 0);
    pool.clock().set(at(11));
    let _lease = pool.select(&Request::new()).unwrap();
}

#[test]
fn c61_sibling_a_panic_releases_the_slot() {
    let pool = pool(conventions(), [narrow()], 0);

    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _lease = pool.select(&Request::new()).unwrap();
        std::panic::resume_unwind(Box::new("the handler failed"));
    }));
    assert!(panicked.is_err());
    assert_eq!(pool.in_flight(), 0);
}

#[test]
fn c61_sibling_no_end_releases_twice() {
    let mut s = Scenario::of(conventions(), [Account::new("A").max_in_flight(2)]);

    let l1 = s.hold(0, &anyone());
    s.hold(0, &anyone());
    s.ok(&l1, 10);
    let again = s.scheduler.settle(l1.ticket, &Outcome::success(), at(11));
    assert_eq!(again, Settlement::Late);
    s.cancel(&l1, 12);
    s.abandon(&l1, 13);
    assert_eq!(s.inspect(13, "A").in_flight, 1);
    s.hold(14, &anyone());
    assert!(s.pick(14, &anyone()).is_err());
}

#[test]
fn c61_sibling_a_report_before_the_end_releases_nothing() {
    for outcome in outcomes() {
        let mut s = Scenario::of(forgiving(), [narrow()]);
        let l1 = s.hold(0, &anyone());
        s.scheduler.report(l1.ticket, &outcome, at(10));
        assert_eq!(s.inspect(10, "A").in_flight, 1, "{outcome:?}");
        s.ok(&l1, 11);
        assert_eq!(s.inspect(11, "A").in_flight, 0, "{outcome:?}");
    }
}

#[test]
fn c61_sibling_a_success_counts_its_usage_once() {
    let mut s = Scenario::new(&["A"]);

    let l1 = s.hold(0, &by("u1"));
    s.scheduler.report(l1.ticket, &Outcome::success(), at(5));
    s.ok(&l1, 10);
    assert_eq!(s.inspect(10, "A").usage.successes, 1);
    assert_eq!(s.scheduler.stats().usage.successes, 1);
    s.observe(11, "A", &anyone(), Outcome::success());
    assert_eq!(s.inspect(11, "A").usage.successes, 2);
    assert_eq!(s.scheduler.stats().usage.successes, 2);
}

#[test]
fn c61_sibling_a_ticket_of_another_scheduler_releases_nothing() {
    let mut s = Scenario::of(conventions(), [narrow()]);
    let mut other = account_pool::Scheduler::with_origin(conventions(), 7).unwrap();
    other.add(narrow(), at(0)).unwrap();

    s.hold(0, &anyone());
    let foreign = other.select(&Request::new(), at(0)).unwrap().ticket;
    assert_eq!(s.scheduler.settle(foreign, &Outcome::success(), at(1)), Settlement::Unknown);
    assert!(!s.scheduler.touch(foreign, at(1)));
    assert_eq!(s.inspect(1, "A").in_flight, 1);
}

fn reaping() -> Config {
    let mut config = conventions();
    config.lease_timeout = Some(ms(300_000));
    config
}

#[test]
fn c64_the_reaper_spares_requests_that_are_alive() {
    let mut s = Scenario::of(reaping(), [narrow()]);

    let l1 = s.hold(0, &anyone());
    for t in [60_000, 120_000, 180_000, 240_000] {
        assert!(s.touch(&l1, t));
    }
    assert!(s.pick(299_999, &anyone()).is_err());
    assert!(s.touch(&l1, 300_000));
    assert!(s.pick(300_001, &anyone()).is_err());
    for t in (360_000..=840_000).step_by(60_000) {
        assert!(s.touch(&l1, t));
    }
    assert!(s.pick(900_000, &anyone()).is_err());
    assert!(s.pick(1_139_999, &anyone()).is_err());
    s.hold(1_140_000, &anyone());
}

#[test]
fn c64_the_reaper_frees_silent_requests() {
    let mut s = Scenario::of(reaping(), [narrow()]);

    let l1 = s.hold(0, &anyone());
    assert!(s.pick(299_999, &anyone()).is_err());
    s.hold(300_000, &anyone());
    assert!(!s.touch(&l1, 300_001));
}

#[test]
fn c64_sibling_only_the_silent_ones_are_freed() {
    let mut s = Scenario::of(conventions(), [Account::new("A")]);

    let l1 = s.hold(0, &anyone());
    let l2 = s.hold(0, &anyone());
    let l3 = s.hold(100, &anyone());
    s.touch(&l1, 200);
    assert_eq!(s.scheduler.reap(ms(1_000), at(999)), 0);
    assert_eq!(s.scheduler.reap(ms(1_000), at(1_000)), 1);
    assert_eq!(s.scheduler.settle(l2.ticket, &Outcome::success(), at(1_001)), Settlement::Late);
    assert_eq!(s.inspect(1_001, "A").in_flight, 2);
    s.ok(&l1, 1_002);
    s.ok(&l3, 1_003);
    assert_eq!(s.inspect(1_003, "A").in_flight, 0);
}

#[test]
fn c64_sibling_a_preview_sees_the_slot_free_when_the_selection_does() {
    let mut s = Scenario::of(reaping(), [narrow()]);

    s.hold(0, &anyone());
    for (t, free) in [(299_999, false), (300_000, true), (300_001, true)] {
        assert_eq!(s.scheduler.preview(&Request::new(), at(t)).is_ok(), free, "at {t}");
        assert_eq!(s.inspect(t, "A").in_flight, u32::from(!free), "at {t}");
    }
}

#[test]
fn c64_sibling_a_reaped_request_neither_binds_nor_uses_a_slot_again() {
    let mut s = Scenario::of(reaping(), [narrow()]);

    let l1 = s.hold(0, &by("u1"));
    let l2 = s.hold(300_000, &anyone());
    s.ok(&l1, 300_001);
    assert_eq!(s.bound_to(300_001, &by("u1")), None);
    assert_eq!(s.inspect(300_001, "A").in_flight, 1);
    s.ok(&l2, 300_002);
    assert_eq!(s.inspect(300_002, "A").in_flight, 0);
}

#[test]
fn c65_a_binding_holds_no_slot() {
    let mut s = Scenario::of(conventions(), [Account::new("A").max_in_flight(8)]);

    for user in 0..22 {
        assert_eq!(s.turn(user * 10, &by(&format!("u{user}"))), "A");
    }
    let view = s.inspect(211, "A");
    assert_eq!((view.in_flight, view.bound), (0, 22));
    assert_eq!(s.scheduler.bindings(at(211)), 22);
}

#[test]
fn c66_the_slot_is_held_to_the_end_of_the_stream() {
    let mut s = Scenario::of(conventions(), [narrow(), Account::new("B")]);

    let l1 = s.hold(0, &anyone().without(&["B"]));
    s.touch(&l1, 100);
    assert_eq!(s.turn(200, &anyone()), "B");
    assert_eq!(s.inspect(4_999, "A").in_flight, 1);
    s.ok(&l1, 5_000);
    assert_eq!(s.inspect(5_000, "A").in_flight, 0);
    assert_eq!(s.hold(5_001, &anyone()).account, "A");
}

#[test]
fn c66_sibling_a_limit_that_the_headers_announce_holds_the_slot_too() {
    let mut s = Scenario::of(conventions(), [narrow(), Account::new("B")]);

    let l1 = s.hold(0, &anyone().without(&["B"]));
    s.scheduler.report(l1.ticket, &crate::scenario::throttled_for(2_000), at(100));
    let refusal = s.pick_on(2_100, "A", &anyone()).unwrap_err();
    assert_eq!(refusal.tally().count(Reason::InFlight), 1);
    s.ok(&l1, 2_101);
    s.hold_on(2_101, "A", &anyone());
}

#[test]
fn c67_load_counts_from_the_choice_on() {
    let mut s = Scenario::new(&["A", "B", "C"]);

    let accounts: Vec<String> = (0..6).map(|_| s.hold(0, &anyone()).account).collect();
    assert_eq!(accounts, ["A", "B", "C", "A", "B", "C"]);
}

#[test]
fn c67_sibling_an_account_asked_for_counts_from_then_on() {
    let mut s = Scenario::new(&["A", "B"]);

    s.hold_on(0, "A", &anyone());
    s.hold_on(0, "A", &anyone());
    let accounts: Vec<String> = (0..3).map(|_| s.hold(0, &anyone()).account).collect();
    assert_eq!(accounts, ["B", "B", "A"]);
}

#[test]
fn c67_sibling_threads_at_once_spread_evenly() {
    let accounts = ["A", "B", "C"].map(Account::new);
    let pool = pool(conventions(), accounts, 0);

    let leases = at_once(6, |_| pool.select(&Request::new()).unwrap());
    for account in ["A", "B", "C"] {
        assert_eq!(pool.inspect(account).unwrap().in_flight, 2);
    }
    drop(leases);
    assert_eq!(pool.in_flight(), 0);
}

/// A is narrow and u1 is bound to it; others may not serve.
fn queueing(depth: u32) -> Scenario {
    let mut config = conventions();
    config.sticky.queue_on_pin = ms(5_000);
    config.sticky.max_waiters = depth;
    let mut s = Scenario::of(config, [narrow()]);
    s.scheduler.bind(&by("u1").request(), "A", at(0)).unwrap();
    s
}

fn place(refusal: &Unavailable) -> WaitTicket {
    refusal.wait().expect("a place in the queue").ticket
}

#[test]
fn c69_a_waiter_that_gives_up_leaves_no_trace() {
    let mut s = queueing(1);

    s.hold(0, &by("u1"));
    for round in 0..1_000 {
        let t = 10 + round * 30;
        let w1 = place(&s.refused(t, &by("u1")));
        assert_eq!(s.inspect(t, "A").waiting, 1);
        assert!(s.refused(t + 5, &by("u1")).wait().is_none(), "the queue is full");
        assert!(s.scheduler.give_up(w1));
        assert_eq!(s.inspect(t + 10, "A").waiting, 0);
    }
}

#[test]
fn c69_sibling_a_place_is_given_up_once() {
    let mut s = queueing(2);

    s.hold(0, &by("u1"));
    let w1 = place(&s.refused(10, &by("u1")));
    let w2 = place(&s.refused(11, &by("u1")));
    assert!(s.scheduler.give_up(w1));
    assert!(!s.scheduler.give_up(w1));
    assert_eq!(s.inspect(12, "A").waiting, 1);
    assert!(s.scheduler.give_up(w2));
    assert_eq!(s.inspect(12, "A").waiting, 0);
}

#[test]
fn c69_sibling_a_forgotten_waiter_is_gone_at_its_deadline() {
    let mut s = queueing(1);

    s.hold(0, &by("u1"));
    let refusal = s.refused(10, &by("u1"));
    assert_eq!(refusal.wait().unwrap().deadline, at(5_010));
    assert!(s.refused(5_009, &by("u1")).wait().is_none());
    assert!(s.refused(5_010, &by("u1")).wait().is_some());
}

#[test]
fn c70_a_freed_slot_goes_to_the_waiter_that_is_left() {
    let mut s = queueing(3);

    let l1 = s.hold(0, &by("u1"));
    let w1 = place(&s.refused(10, &by("u1")));
    let w2 = place(&s.refused(20, &by("u1")));
    s.ok(&l1, 500);
    assert!(s.scheduler.give_up(w1));
    assert_eq!(s.hold(500, &by("u1").after_wait(w2)).account, "A");
    assert_eq!(s.inspect(500, "A").waiting, 0);
}

#[test]
fn c72_parallel_callers_keep_their_own_accounts() {
    let entitled = |id: &str| Account::new(id).models(Entitlement::only(["m1"]));
    let other = Account::new("F").models(Entitlement::only(["m2"]));
    let mut s = Scenario::of(conventions(), [other, entitled("P1"), entitled("P2")]);

    assert_eq!(s.turn(0, &by("u1").on("m1")), "P1");
    assert_eq!(s.turn(1, &by("u2").on("m1")), "P2");
    for round in 0..10 {
        assert_eq!(s.turn(10 + round * 20, &by("u1").on("m1")), "P1");
        assert_eq!(s.turn(20 + round * 20, &by("u2").on("m1")), "P2");
    }
}

#[test]
fn c72_sibling_held_requests_of_one_caller_leave_the_other_its_account() {
    let mut s = Scenario::new(&["P1", "P2"]);

    s.turn(0, &by("u1").on("m1"));
    s.turn(1, &by("u2").on("m1"));
    for t in 10..20 {
        assert_eq!(s.hold(t, &by("u1").on("m1")).account, "P1");
    }
    assert_eq!(s.hold(20, &by("u2").on("m1")).account, "P2");
}
