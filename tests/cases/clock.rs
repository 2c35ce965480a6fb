//! Clocks that step back, jump ahead, or are two.

use account_pool::{
    Account, BreakerView, Config, Outcome, QuotaReading, QuotaWindow, Request, Reset, Settlement,
};

use crate::scenario::{Scenario, anyone, at, by, conventions, ms, throttled_for};
use crate::threads::pool;

#[test]
fn c122_a_step_back_counts_as_no_step() {
    let mut s = Scenario::of(conventions(), [Account::new("A").rpm(1)]);

    s.turn(100_000, &anyone());
    assert_eq!(s.retry_after(40_000, &anyone()), Some(59_999));
    assert_eq!(s.retry_after(100_500, &anyone()), Some(59_500));
    assert_eq!(s.retry_after(159_999, &anyone()), Some(1));
    s.hold(160_000, &anyone());
}

#[test]
fn c122_sibling_through_a_pool_whose_clock_is_set_back() {
    let pool = pool(conventions(), [Account::new("A").rpm(1)], 100_000);
    pool.select(&Request::new()).unwrap().settle(Outcome::success());

    pool.clock().set(at(40_000));
    let refusal = pool.select(&Request::new()).unwrap_err();
    assert_eq!(refusal.retry_after(), Some(ms(60_000)));
    assert_eq!(refusal.retry_at(), Some(at(160_000)));
}

#[test]
fn c122_sibling_no_operation_steps_back() {
    let mut config = conventions();
    config.breaker.threshold = Some(3);
    config.lease_timeout = Some(ms(300_000));
    let mut s = Scenario::with(config, &["A", "B"]);
    let l1 = s.hold(100_000, &by("u1"));
    assert_eq!(l1.account, "A");

    assert!(s.touch(&l1, 10));
    s.errors(10, "B", 3);
    assert_eq!(s.inspect(10, "B").breaker, BreakerView::Open { until: at(130_000) });
    s.fail(&l1, 10, throttled_for(5_000));
    assert_eq!(s.inspect(10, "A").blocks[0].until, at(105_000));
    assert_eq!(s.retry_after(10, &anyone()), Some(5_000));
    s.block(10, "A", 100_000);
    assert_eq!(s.retry_after(104_999, &anyone()), Some(1));
    s.hold(105_000, &anyone());
}

#[test]
fn c122_sibling_a_binding_made_after_a_step_back_lives_its_full_time() {
    let mut s = Scenario::new(&["A"]);
    s.turn(100_000, &anyone());

    s.turn(40_000, &by("u1"));
    assert!(s.bound_to(700_000, &by("u1")).is_some());
    assert!(s.bound_to(700_001, &by("u1")).is_none());
}

#[test]
fn c122_sibling_a_reading_from_the_future_counts_as_taken_now() {
    let mut config = conventions();
    config.quota.max_age = ms(900_000);
    let mut s = Scenario::with(config, &["A"]);

    s.quota_read_at(1_000, 9_000_000, "A", 0.0, None);
    assert_eq!(s.retry_after(1_000, &anyone()), Some(900_000));
    s.quota(2_000, "A", 50.0, None);
    s.hold(2_000, &anyone());
}

fn before_suspend() -> (Scenario, crate::scenario::Held) {
    let mut config: Config = conventions();
    config.breaker.threshold = Some(3);
    config.lease_timeout = Some(ms(900_000));
    let mut s = Scenario::of(config, [Account::new("A"), Account::new("B").rpm(2)]);
    s.errors(0, "A", 3);
    s.block(0, "A", 60_000);
    s.scheduler.bind(&by("u1").request(), "B", at(0)).unwrap();
    let l1 = s.hold(0, &by("u1"));
    s.hold(0, &by("u1"));
    assert_eq!(s.retry_after(0, &by("u1")), Some(60_000));
    (s, l1)
}

#[test]
fn c124_a_long_sleep_expires_everything_in_one_call() {
    let (mut s, l1) = before_suspend();

    let held = s.hold(28_800_000, &by("u1"));
    assert_eq!(held.account, "A", "the binding has lapsed, and A was used least recently");
    assert_eq!(s.inspect(28_800_000, "A").breaker, BreakerView::HalfOpen);
    assert!(s.inspect(28_800_000, "A").blocks.is_empty());
    let view = s.inspect(28_800_000, "B");
    assert_eq!((view.in_flight, view.requests[0].used, view.bound), (0, 0, 0));
    assert_eq!(s.scheduler.stats().sticky.expiries, 1);
    assert_eq!(s.scheduler.stats().reaped, 2);

    let late = s.scheduler.settle(l1.ticket, &Outcome::success(), at(28_800_001));
    assert_eq!(late, Settlement::Late);
    assert_eq!(s.scheduler.in_flight(), 1);
}

#[test]
fn c124_a_sign_of_life_keeps_a_request_through_the_sleep() {
    let (mut s, l1) = before_suspend();

    assert!(s.touch(&l1, 28_800_000));
    s.hold(28_800_000, &by("u1"));
    assert_eq!(s.inspect(28_800_000, "B").in_flight, 1);
    let end = s.scheduler.settle(l1.ticket, &Outcome::success(), at(28_800_001));
    assert_eq!(end, Settlement::Settled);
}

#[test]
fn c124_sibling_questions_see_the_same_future_as_the_next_call() {
    let (s, _) = before_suspend();

    let view = s.inspect(28_800_000, "B");
    assert_eq!((view.in_flight, view.requests[0].used, view.bound), (0, 0, 0));
    assert_eq!(s.bound_to(28_800_000, &by("u1")), None);
    assert_eq!(s.scheduler.bindings(at(28_800_000)), 0);
    let preview = s.scheduler.preview(&by("u1").request(), at(28_800_000)).unwrap();
    assert_eq!(preview.account, "A");
}

#[test]
fn c124_sibling_the_end_of_time_overflows_nothing() {
    let mut config = conventions();
    config.breaker.threshold = Some(1);
    config.lease_timeout = Some(account_pool::Millis::MAX);
    let mut s = Scenario::of(config, [Account::new("A").rpm(2), Account::new("B")]);
    let end = u64::MAX;

    let held = s.hold(end - 1, &by("u1"));
    s.fail(&held, end, throttled_for(u64::MAX));
    s.errors(end, "B", 1);
    assert!(s.pick(end, &by("u1")).is_ok(), "a deadline past the end of time is over there");
    s.block(end, "A", end);
    s.inspect(end, "A");
    assert!(s.scheduler.next_deadline(at(end)).is_none());
}

#[test]
fn c125_a_relative_hint_counts_from_the_scheduler_s_own_now() {
    let mut s = Scenario::new(&["A", "B"]);
    let [l1, l2] = ["A", "B"].map(|account| s.hold_on(0, account, &anyone()));
    s.fail(&l1, 100, throttled_for(60_000));
    s.fail(&l2, 100, Outcome::rate_limited(Some(Reset::At(at(90_000)))));

    // Whatever the wall clock does meanwhile, the scheduler's time goes on.
    assert_eq!(s.inspect(1_000, "A").blocks[0].until, at(60_100));
    assert_eq!(s.inspect(1_000, "B").blocks[0].until, at(90_000));
    assert_eq!(s.retry_after(60_099, &anyone()), Some(1));
    assert_eq!(s.hold(60_100, &anyone()).account, "A");
    assert_eq!(s.pick_on(89_999, "B", &anyone()).unwrap_err().retry_after(), Some(ms(1)));
    s.hold_on(90_000, "B", &anyone());
}

#[test]
fn c125_sibling_quota_resets_are_instants_of_the_same_clock() {
    let mut s = Scenario::new(&["A"]);
    let window = QuotaWindow::new(0.0).reset(at(90_000));
    let reading = QuotaReading::at(at(50)).window(window);
    s.scheduler.observe_quota("A", &reading, at(100)).unwrap();

    assert_eq!(s.retry_after(1_000, &anyone()), Some(89_000));
    s.hold(90_000, &anyone());
}
