//! What a refusal says: how long, and why.

use std::time::Duration;

use account_pool::config::Degraded;
use account_pool::{
    Account, Entitlement, Millis, Outcome, Reason, Reset, Scope, Status, Timestamp, Unavailable,
};

use crate::scenario::{Scenario, anyone, at, by, conventions, exhausted_until, ms, throttled_for};

fn reasons(refusal: &Unavailable) -> Vec<(Reason, u32)> {
    refusal.tally().iter().collect()
}

/// The case's pool, with its t = 0 at 100 000.
fn in_many_ways() -> Scenario {
    let mut config = conventions();
    config.breaker.threshold = Some(1);
    let accounts = [
        Account::new("A"),
        Account::new("B"),
        Account::new("C").rpm(1),
        Account::new("D").models(Entitlement::only(["m2"])),
    ];
    let mut s = Scenario::of(config, accounts);
    let slot = s.hold_on(65_000, "C", &anyone());
    s.ok(&slot, 65_001);
    s.errors(100_000, "A", 1);
    s.block_model(100_000, "A", "m1", 110_000);
    s.block(100_000, "A", 140_000);
    s.set_status(100_000, "B", Status::Disabled);
    s.block(100_000, "C", 120_000);
    s
}

#[test]
fn c108_the_pool_waits_for_the_first_account_whose_last_block_ends() {
    let mut s = in_many_ways();

    let refusal = s.refused(100_000, &anyone().on("m1"));
    assert_eq!(refusal.retry_after(), Some(ms(25_000)));
    assert_eq!(refusal.tally().total(), 4);
    assert_eq!(s.retry_after(124_999, &anyone().on("m1")), Some(1));
    assert_eq!(s.hold(125_000, &anyone().on("m1")).account, "C");
}

#[test]
fn c108_sibling_each_account_names_its_own_last_block() {
    let mut s = in_many_ways();

    let ask = anyone().on("m1");
    for (account, reason, retry_after) in [
        ("A", Reason::Throttled, Some(ms(40_000))),
        ("B", Reason::Disabled, None),
        ("C", Reason::RateLimit, Some(ms(25_000))),
        ("D", Reason::NotEntitled, None),
        ("E", Reason::UnknownAccount, None),
    ] {
        let refusal = s.pick_on(100_000, account, &ask).unwrap_err();
        assert_eq!(reasons(&refusal), [(reason, 1)]);
        assert_eq!(refusal.retry_after(), retry_after, "{account}");
    }
}

#[test]
fn c108_sibling_what_degraded_serving_may_pass_over_does_not_count() {
    let mut config = conventions();
    config.degraded = Degraded::Transient;
    let mut s = Scenario::of(config, [Account::new("A").rpm(1)]);
    s.turn(0, &anyone());
    s.block(10, "A", 90_000);

    assert_eq!(s.retry_after(20, &anyone()), Some(59_980));
    s.hold(60_000, &anyone());
}

#[test]
fn c108_sibling_a_bound_caller_counts_what_only_it_may_use() {
    let mut s = Scenario::new(&["A"]);
    s.turn(0, &by("u1"));
    s.scheduler.set_draining("A", true, at(10)).unwrap();
    s.block(10, "A", 5_000);

    let refusal = s.refused(20, &by("u1"));
    assert_eq!(reasons(&refusal), [(Reason::Throttled, 1)]);
    assert_eq!(refusal.retry_after(), Some(ms(4_980)));
    let refusal = s.refused(20, &by("u2"));
    assert_eq!(reasons(&refusal), [(Reason::Draining, 1)]);
    assert_eq!(refusal.retry_after(), None);
    assert_eq!(s.hold(5_000, &by("u1")).account, "A");
}

#[test]
fn c110_a_spent_account_contributes_its_reset() {
    let mut s = Scenario::new(&["A", "B"]);
    s.quota(0, "A", 0.0, Some(7_200_000));
    s.scheduler.set_maintenance("B", true, at(0)).unwrap();

    let refusal = s.refused(0, &anyone());
    assert_eq!(refusal.retry_after(), Some(ms(7_200_000)));
    assert_eq!(reasons(&refusal), [(Reason::Maintenance, 1), (Reason::QuotaExhausted, 1)]);
}

#[test]
fn c110_sibling_an_answer_and_the_host_contribute_theirs() {
    let mut s = Scenario::new(&["A"]);
    let held = s.hold(0, &anyone());
    s.fail(&held, 0, exhausted_until(7_200_000));
    assert_eq!(s.retry_after(0, &anyone()), Some(7_200_000));
    s.block(0, "A", 8_000_000);
    assert_eq!(s.retry_after(0, &anyone()), Some(8_000_000));
}

#[test]
fn c110_sibling_an_account_with_many_blocks_is_counted_once() {
    let mut s = Scenario::of(conventions(), [Account::new("A").rpm(1).max_in_flight(1)]);
    s.hold(0, &anyone());
    s.quota(1, "A", 0.0, Some(7_200_000));
    s.block(1, "A", 5_000);

    let refusal = s.refused(2, &anyone());
    assert_eq!(refusal.tally().total(), 1);
    assert!(!refusal.is_load_only());
}

#[test]
fn c111_there_is_no_hint_when_time_does_not_help() {
    let mut empty = Scenario::new(&[]);
    let refusal = empty.refused(0, &anyone());
    assert_eq!((refusal.tally().total(), refusal.retry_after()), (0, None));

    let mut s = Scenario::of(conventions(), [Account::new("A").models(Entitlement::only(["m2"]))]);
    let refusal = s.refused(0, &anyone().on("m1"));
    assert_eq!((reasons(&refusal), refusal.retry_after()), (vec![(Reason::NotEntitled, 1)], None));
    let refusal = s.refused(0, &anyone().without(&["A"]));
    assert_eq!((reasons(&refusal), refusal.retry_after()), (vec![(Reason::Excluded, 1)], None));
    s.set_status(0, "A", Status::Disabled);
    let refusal = s.refused(0, &anyone());
    assert_eq!((reasons(&refusal), refusal.retry_after()), (vec![(Reason::Disabled, 1)], None));
    assert!(!refusal.is_load_only());
}

#[test]
fn c111_sibling_a_block_does_not_lend_its_hint_to_what_lasts() {
    let mut s = Scenario::new(&["A"]);
    s.block(0, "A", 5_000);

    assert_eq!(s.retry_after(0, &anyone().without(&["A"])), None);
    s.set_status(0, "A", Status::Banned);
    assert_eq!(s.retry_after(0, &anyone()), None);
}

#[test]
fn c111_sibling_an_account_that_is_not_in_the_pool_is_never_used() {
    let mut s = Scenario::new(&["A"]);
    let refusal = s.pick_on(0, "Z", &anyone()).unwrap_err();

    assert_eq!(
        (reasons(&refusal), refusal.retry_after()),
        (vec![(Reason::UnknownAccount, 1)], None)
    );
    assert_eq!(s.hold(0, &anyone().without(&["Z"])).account, "A");
}

const NOW: u64 = 1_785_224_566_558;

#[test]
fn c112_seconds_by_mistake_are_a_reset_in_the_past() {
    let mut s = Scenario::new(&["A"]);
    let held = s.hold(NOW, &anyone());
    let in_seconds = Reset::At(Timestamp::from_millis(1_785_228_000));
    s.fail(&held, NOW, Outcome::rate_limited(Some(in_seconds)));

    assert_eq!(s.retry_after(NOW, &anyone()), Some(1_000));
    s.hold(NOW + 1_000, &anyone());
}

#[test]
fn c112_seconds_on_the_way_out_are_rounded_up() {
    for (remaining, secs) in [(1_400, 2), (1, 1), (999, 1), (1_000, 1), (1_001, 2)] {
        let mut s = Scenario::new(&["A"]);
        s.block(NOW, "A", NOW + remaining);
        let refusal = s.refused(NOW, &anyone());
        assert_eq!(refusal.retry_after(), Some(ms(remaining)));
        assert_eq!(refusal.retry_after().unwrap().as_secs_ceil(), secs);
    }
}

#[test]
fn c112_sibling_spans_on_the_way_in_are_rounded_up() {
    assert_eq!(Millis::from(Duration::from_micros(1)), ms(1));
    assert_eq!(Millis::from(Duration::from_nanos(1_000_001)), ms(2));
    assert_eq!(Millis::from(Duration::MAX), Millis::MAX);
    assert_eq!(Millis::MAX.as_secs_ceil(), 18_446_744_073_709_552);
}

#[test]
fn c112_sibling_milliseconds_taken_for_seconds_are_capped() {
    for reset in [Reset::After(ms(NOW)), Reset::At(Timestamp::MAX), Reset::After(Millis::MAX)] {
        let mut s = Scenario::new(&["A"]);
        let held = s.hold(NOW, &anyone());
        s.fail(&held, NOW, Outcome::rate_limited(Some(reset)));
        assert_eq!(s.retry_after(NOW, &anyone()), Some(900_000), "{reset:?}");
    }
}

#[test]
fn c112_sibling_every_kind_of_hint_has_the_floor() {
    let scope = Scope::Account;
    let past = Some(Reset::At(at(5)));
    for outcome in [
        Outcome::RateLimited { scope, reset: past },
        Outcome::QuotaExhausted { scope, reset: past },
        Outcome::Overloaded { scope, reset: past },
        throttled_for(0),
    ] {
        let mut s = Scenario::new(&["A"]);
        let held = s.hold(NOW, &anyone());
        s.fail(&held, NOW, outcome);
        assert_eq!(s.retry_after(NOW, &anyone()), Some(1_000), "{outcome:?}");
    }
}

#[test]
fn c114_load_alone_has_no_deadline() {
    let mut s = Scenario::of(conventions(), [Account::new("A").max_in_flight(1)]);
    s.hold(0, &anyone());

    let refusal = s.refused(10, &anyone());
    assert_eq!(reasons(&refusal), [(Reason::InFlight, 1)]);
    assert_eq!(refusal.retry_after(), None);
    assert!(refusal.is_load_only());
}

#[test]
fn c114_next_to_a_cooldown_its_end_is_the_hint() {
    let mut s =
        Scenario::of(conventions(), [Account::new("A").max_in_flight(1), Account::new("B")]);
    s.hold_on(0, "A", &anyone());
    s.block(0, "B", 2_000);

    let refusal = s.refused(10, &anyone());
    assert_eq!(refusal.retry_after(), Some(ms(1_990)));
    assert!(!refusal.is_load_only());
}

#[test]
fn c114_sibling_a_full_account_that_is_cooled_is_not_kept_away_by_load_alone() {
    let mut s = Scenario::of(conventions(), [Account::new("A").max_in_flight(1)]);
    let held = s.hold(0, &anyone());
    s.block(0, "A", 2_000);

    let refusal = s.refused(10, &anyone());
    assert_eq!(refusal.retry_after(), None);
    assert!(!refusal.is_load_only());
    let refusal = s.pick_on(10, "A", &anyone()).unwrap_err();
    assert_eq!((refusal.retry_after(), refusal.is_load_only()), (None, false));
    s.ok(&held, 20);
    assert_eq!(s.retry_after(20, &anyone()), Some(1_980));
}

#[test]
fn only_what_nobody_can_ever_serve_is_final() {
    let mut config = conventions();
    config.degraded = Degraded::Off;
    let full = || Account::new("A").max_in_flight(1);
    let mut s = Scenario::of(config.clone(), []);
    assert!(s.refused(0, &anyone()).is_final(), "nobody is there");

    let mut s = Scenario::of(config.clone(), [full()]);
    s.hold(0, &anyone());
    assert!(!s.refused(10, &anyone()).is_final(), "a request will end");
    s.block(10, "A", 2_000);
    let refusal = s.refused(20, &anyone());
    assert_eq!((refusal.retry_after(), refusal.is_load_only()), (None, false));
    assert!(!refusal.is_final(), "a request and a block will end");
    s.set_status(30, "A", Status::Disabled);
    assert!(s.refused(40, &anyone()).is_final(), "the operator has to act");

    let mut s = Scenario::of(config, [full(), Account::new("B")]);
    s.set_status(0, "A", Status::Disabled);
    s.block(0, "B", 2_000);
    assert!(!s.refused(10, &anyone()).is_final(), "one recovers");
    assert!(s.refused(10, &anyone().without(&["B"])).is_final());
}
