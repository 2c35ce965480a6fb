//! Quota readings: what they exclude, what they only rank, and when they stop saying anything.

use account_pool::config::{Order, Term};
use account_pool::{
    Account, Config, Dimension, Outcome, QuotaReading, QuotaWindow, Reason, Status,
};

use crate::scenario::{Ask, Scenario, anyone, at, by, conventions, exhausted_until, ms};

fn assert_dry(s: &mut Scenario, t: u64, ask: &Ask, retry_after: u64) {
    let refusal = s.refused(t, ask);
    assert_eq!(refusal.tally().count(Reason::QuotaExhausted), 1, "at {t}: {refusal}");
    assert_eq!(refusal.retry_after(), Some(ms(retry_after)), "at {t}");
}

#[test]
fn c93_a_reading_says_nothing_after_its_reset() {
    let mut s = Scenario::new(&["A", "B"]);
    s.quota(0, "A", 0.0, Some(3_600_000));
    s.set_status(0, "B", Status::Disabled);

    assert_dry(&mut s, 3_599_999, &anyone(), 1);
    assert_eq!(s.hold(3_600_000, &anyone()).account, "A");
    assert_eq!(s.inspect(3_600_000, "A").quota.worst, None);
}

#[test]
fn c93_sibling_a_spent_quota_that_an_answer_told_of_ends_at_its_reset() {
    let mut s = Scenario::new(&["A"]);
    let held = s.hold(0, &anyone());
    s.fail(&held, 0, exhausted_until(3_600_000));

    assert_dry(&mut s, 3_599_999, &anyone(), 1);
    s.hold(3_600_000, &anyone());
}

#[test]
fn c93_sibling_each_of_several_windows_lasts_to_its_own_reset() {
    let mut s = Scenario::new(&["A"]);
    let dry = |reset| QuotaWindow::new(0.0).reset(at(reset));
    let reading = QuotaReading::at(at(0)).window(dry(1_000)).window(dry(5_000));
    s.scheduler.observe_quota("A", &reading, at(0)).unwrap();

    assert_dry(&mut s, 1_000, &anyone(), 4_000);
    assert_dry(&mut s, 4_999, &anyone(), 1);
    s.hold(5_000, &anyone());
}

#[test]
fn c93_sibling_a_reading_past_its_reset_no_longer_ranks() {
    for (t, first) in [(9_999, "B"), (10_000, "A"), (10_001, "A")] {
        let mut s = Scenario::new(&["A", "B"]);
        s.quota(0, "A", 10.0, Some(10_000));
        s.quota(0, "B", 90.0, None);
        assert_eq!(s.hold(t, &anyone()).account, first, "at {t}");
    }
}

#[test]
fn c94_old_telemetry_excludes_nobody() {
    let mut config = conventions();
    config.quota.max_age = ms(900_000);
    let mut s = Scenario::with(config, &["A", "B"]);
    s.quota(0, "A", 0.0, None);
    for t in (0..900_000).step_by(60_000) {
        if t == 60_000 {
            assert_dry(&mut s, 1_000, &anyone().without(&["B"]), 899_000);
        }
        s.quota(t, "B", 50.0, None);
    }

    assert_dry(&mut s, 899_999, &anyone().without(&["B"]), 1);
    assert_eq!(s.hold(900_000, &anyone().without(&["B"])).account, "A");
}

#[test]
fn c94_sibling_a_reading_that_arrives_late_is_as_old_as_it_was_taken() {
    let mut config = conventions();
    config.quota.max_age = ms(900_000);
    let mut s = Scenario::with(config, &["A"]);

    s.quota_read_at(800_000, 100_000, "A", 0.0, None);
    assert_dry(&mut s, 999_999, &anyone(), 1);
    s.hold(1_000_000, &anyone());
    // Read before the restart, restored long after.
    s.quota_read_at(2_000_000, 1_100_000, "A", 0.0, None);
    s.hold(2_000_000, &anyone());
}

#[test]
fn c94_sibling_an_older_reading_does_not_replace_a_newer_one() {
    let mut s = Scenario::new(&["A"]);
    s.quota(1_000, "A", 50.0, None);

    s.quota_read_at(2_000, 999, "A", 0.0, None);
    s.hold(2_000, &anyone());
    assert_eq!(s.inspect(2_000, "A").quota.worst, Some(50.0));
}

#[test]
fn c94_sibling_newer_evidence_lifts_the_block_and_older_does_not() {
    let mut s = Scenario::new(&["A"]);
    s.quota(1_000, "A", 0.0, Some(1_000_000));

    s.quota_read_at(2_000, 999, "A", 50.0, None);
    assert_dry(&mut s, 2_000, &anyone(), 998_000);
    s.quota(3_000, "A", 50.0, None);
    s.hold(3_000, &anyone());
}

#[test]
fn c96_headroom_is_the_worst_window() {
    let mut s = Scenario::new(&["A", "B"]);
    let reading = |hours: f64, week: f64| {
        let windows = [QuotaWindow::new(hours), QuotaWindow::new(week)];
        windows.into_iter().fold(QuotaReading::at(at(0)), QuotaReading::window)
    };
    s.scheduler.observe_quota("A", &reading(90.0, 5.0), at(0)).unwrap();
    s.scheduler.observe_quota("B", &reading(50.0, 60.0), at(0)).unwrap();

    assert_eq!(s.hold(1, &anyone()).account, "B");
}

#[test]
fn c96_sibling_soft_limit_and_drought_look_at_the_worst_window_too() {
    let mut config = conventions();
    config.soft.quota_left_percent = Some(10.0);
    config.rank.terms = vec![Term::Recency];
    let mut s = Scenario::with(config, &["A", "B"]);
    let reading = QuotaReading::at(at(0)).window(QuotaWindow::new(90.0));
    s.scheduler.observe_quota("A", &reading.window(QuotaWindow::new(4.0)), at(0)).unwrap();

    assert_eq!(s.hold(1, &anyone()).account, "B");
    assert!(!s.scheduler.drought(at(1)), "half of the accounts are measured");
    s.quota(1, "B", 3.0, None);
    assert!(s.scheduler.drought(at(1)));
}

#[test]
fn c96_sibling_the_tightest_request_window_ranks() {
    let slow = Account::new("A").window(2, ms(60_000)).window(1_000, ms(3_600_000));
    let mut s = Scenario::of(conventions(), [slow, Account::new("B").rpm(4)]);

    assert_eq!(s.turn(0, &anyone()), "A");
    assert_eq!(s.turn(10, &anyone()), "B");
    // Half of A's tightest window is free, three quarters of B's.
    assert_eq!(s.turn(20, &anyone()), "B");
}

fn with_free_model() -> Config {
    let mut config = conventions();
    config.unmetered.insert("f".to_owned());
    config.aliases.insert("free".to_owned(), "f".to_owned());
    config
}

#[test]
fn c97_a_spent_quota_does_not_block_models_that_do_not_draw_on_it() {
    let mut s = Scenario::with(with_free_model(), &["A"]);
    s.quota(0, "A", 0.0, Some(100_000_000));

    assert_eq!(s.hold(0, &anyone().on("f")).account, "A");
    assert_eq!(s.hold(0, &anyone().on("free")).account, "A");
    assert_dry(&mut s, 0, &anyone().on("m1"), 100_000_000);
    assert_dry(&mut s, 0, &anyone(), 100_000_000);
}

#[test]
fn c97_sibling_a_quota_that_an_answer_told_of_does_not_block_them_either() {
    let mut s = Scenario::with(with_free_model(), &["A"]);
    let held = s.hold(0, &anyone().on("m1"));
    s.fail(&held, 0, exhausted_until(100_000_000));

    s.hold(1, &anyone().on("f"));
    s.hold_on(1, "A", &anyone().on("f"));
    assert_dry(&mut s, 1, &anyone().on("m1"), 99_999_999);
}

#[test]
fn c97_sibling_other_blocks_do() {
    let mut s = Scenario::with(with_free_model(), &["A"]);
    s.block(0, "A", 10_000);

    assert_eq!(s.retry_after(0, &anyone().on("f")), Some(10_000));
}

#[test]
fn c97_sibling_a_conversation_on_a_free_model_stays() {
    for order in [Order::HomeFirst, Order::MostRecent] {
        let mut config = with_free_model();
        config.sticky.order = order;
        let mut s = Scenario::with(config, &["A", "B"]);
        let (free, metered) = (by("u1").on("f"), by("u1").on("m1"));
        s.scheduler.bind(&free.request(), "B", at(0)).unwrap();
        s.scheduler.bind(&metered.request(), "B", at(0)).unwrap();

        s.quota(10, "B", 0.0, Some(100_000_000));
        assert_eq!(s.turns(&[20, 30, 40], &free), ["B", "B", "B"]);
        assert_eq!(s.turns(&[50, 60], &metered), ["A", "A"]);
        assert_eq!(s.bound_to(70, &free).as_deref(), Some("B"));
    }
}

/// 2026-09-08 23:59:59 at +08:00.
const BEFORE_MIDNIGHT: u64 = 1_788_883_199_000;

#[test]
fn c98_a_calendar_reset_is_an_instant_that_the_host_computes() {
    // Midnight at +08:00, and midnight at UTC, both after the same use.
    for (reset, left) in [(1_788_883_200_000, 1_000), (1_788_912_000_000, 28_801_000)] {
        let mut s = Scenario::new(&["A"]);
        let held = s.hold(BEFORE_MIDNIGHT, &anyone());
        s.fail(&held, BEFORE_MIDNIGHT, exhausted_until(reset));

        assert_dry(&mut s, BEFORE_MIDNIGHT + 999, &anyone(), left - 999);
        let at_midnight = s.pick(BEFORE_MIDNIGHT + 1_000, &anyone());
        assert_eq!(at_midnight.is_ok(), left == 1_000);
        assert!(s.pick(reset, &anyone()).is_ok());
    }
}

#[test]
fn c98_sibling_a_reading_of_the_new_day_starts_from_what_it_says() {
    let mut s = Scenario::new(&["A"]);
    let midnight = 1_788_883_200_000;
    s.quota(BEFORE_MIDNIGHT, "A", 0.0, Some(midnight));

    s.turn(midnight, &anyone());
    s.quota(midnight + 10, "A", 99.0, Some(midnight + 86_400_000));
    assert_eq!(s.inspect(midnight + 10, "A").quota.worst, Some(99.0));
    s.hold(midnight + 11, &anyone());
}

fn expiring(config: Config) -> Scenario {
    let mut s = Scenario::with(config, &["B", "A"]);
    s.quota(0, "A", 50.0, Some(3_600_000));
    s.quota(0, "B", 50.0, Some(600_000_000));
    s
}

#[test]
fn c99_by_default_the_reset_does_not_rank() {
    let mut s = expiring(conventions());

    assert_eq!(s.turn(1, &anyone()), "B", "both are tied, and B was added first");
    assert_eq!(s.turn(10, &anyone()), "A");
}

#[test]
fn c99_spending_first_what_expires_first_moves_no_bound_caller() {
    let mut config = conventions();
    config.rank.terms = vec![Term::Quota, Term::QuotaReset, Term::Recency];
    let mut s = expiring(config);
    s.scheduler.bind(&by("u1").request(), "B", at(0)).unwrap();

    assert_eq!(s.turns(&[1, 10, 20], &anyone()), ["A", "A", "A"]);
    assert_eq!(s.turn(30, &by("u1")), "B");
    // A's window is renewed, and what comes after it is not known.
    assert_eq!(s.turn(3_600_000, &by("u1")), "A", "the binding has idled out");
}

#[test]
fn c99_sibling_a_reset_that_has_passed_is_not_the_soonest() {
    let mut config = conventions();
    config.rank.terms = vec![Term::QuotaReset, Term::Recency];
    let mut s = expiring(config);

    assert_eq!(s.turn(3_599_000, &anyone()), "A");
    assert_eq!(s.turn(3_600_000, &anyone()), "B");
}

#[test]
fn c93_sibling_a_dry_account_cools_on_its_own_dimension() {
    let mut s = Scenario::new(&["A"]);
    s.quota(0, "A", 0.0, Some(50_000));
    s.block(0, "A", 20_000);

    s.scheduler.clear_blocks("A", Some(Dimension::Throttle), at(1)).unwrap();
    assert_dry(&mut s, 1, &anyone(), 49_999);
    s.observe(2, "A", &anyone(), Outcome::success());
    assert_dry(&mut s, 2, &anyone(), 49_998);
}
