//! The circuit breaker: when it opens, who probes, whose verdict counts.

use std::sync::Mutex;

use account_pool::config::{Degraded, Escalation};
use account_pool::{
    Account, BreakerView, Config, Dimension, Outcome, Path, Reason, Request, Settlement, Status,
};

use crate::scenario::{Held, Scenario, anyone, at, by, conventions, ms, throttled_for};
use crate::threads::{at_once, pool};

/// Three errors in a row open the breaker for 30 s; one probe at a time, for 30 s.
fn breaking() -> Config {
    let mut config = conventions();
    config.breaker.threshold = Some(3);
    config
}

/// Only A, whose breaker is open until 30 002.
fn opened(config: Config) -> Scenario {
    let mut s = Scenario::with(config, &["A"]);
    let leases: Vec<Held> = (0..3).map(|_| s.hold(0, &anyone())).collect();
    for (t, lease) in (0..).zip(&leases) {
        s.fail(lease, t, Outcome::Network);
    }
    assert_eq!(s.inspect(2, "A").breaker, BreakerView::Open { until: at(30_002) });
    s
}

fn assert_refused_by_breaker(s: &mut Scenario, t: u64, retry_after: u64) {
    let refusal = s.refused(t, &anyone());
    assert_eq!(refusal.tally().count(Reason::BreakerOpen), 1, "at {t}: {refusal}");
    assert_eq!(refusal.retry_after(), Some(ms(retry_after)), "at {t}");
}

#[test]
fn c83_a_probe_that_never_reports_frees_its_place() {
    let mut s = opened(breaking());

    assert_refused_by_breaker(&mut s, 30_001, 1);
    let p1 = s.hold(30_002, &anyone());
    assert_refused_by_breaker(&mut s, 30_003, 29_999);
    assert_refused_by_breaker(&mut s, 60_001, 1);
    let p2 = s.hold(60_002, &anyone());
    s.ok(&p1, 60_003);
    assert_eq!(s.inspect(60_003, "A").breaker, BreakerView::HalfOpen);
    assert_refused_by_breaker(&mut s, 60_004, 29_998);
    s.ok(&p2, 60_005);
    assert_eq!(s.inspect(60_005, "A").breaker, BreakerView::Closed { errors: 0 });
}

#[test]
fn c83_sibling_the_late_failure_of_an_overdue_probe_reopens_nothing() {
    let mut s = opened(breaking());

    let p1 = s.hold(30_002, &anyone());
    let p2 = s.hold(60_002, &anyone());
    s.fail(&p1, 60_003, Outcome::Network);
    assert_eq!(s.inspect(60_003, "A").breaker, BreakerView::HalfOpen);
    s.ok(&p2, 60_004);
    s.hold(60_005, &anyone());
    s.hold(60_005, &anyone());
}

#[test]
fn c83_sibling_a_probe_that_shows_signs_of_life_keeps_its_place() {
    let mut s = opened(breaking());

    let p1 = s.hold(30_002, &anyone());
    s.touch(&p1, 60_001);
    assert_refused_by_breaker(&mut s, 60_002, 29_999);
    s.ok(&p1, 90_000);
    assert_eq!(s.inspect(90_000, "A").breaker, BreakerView::Closed { errors: 0 });
}

#[test]
fn c83_sibling_every_neutral_end_frees_the_probe() {
    for end in [Outcome::Cancelled, Outcome::ClientFault, Outcome::BanSignal] {
        let mut s = opened(breaking());
        let p1 = s.hold(30_002, &anyone());
        s.fail(&p1, 30_100, end);
        assert_eq!(s.inspect(30_100, "A").breaker, BreakerView::HalfOpen, "{end:?}");
        s.hold(30_100, &anyone());
        assert_refused_by_breaker(&mut s, 30_100, 30_000);
    }
}

#[test]
fn c83_sibling_abandoned_and_reaped_probes_free_their_place() {
    let mut s = opened(breaking());

    let p1 = s.hold(30_002, &anyone());
    s.abandon(&p1, 30_003);
    s.hold(30_004, &anyone());
    assert_eq!(s.scheduler.reap(ms(1_000), at(31_004)), 1);
    s.hold(31_004, &anyone());
}

#[test]
fn c85_exactly_one_probe_at_a_time() {
    let mut s = opened(breaking());

    let p1 = s.hold(30_002, &anyone());
    for _ in 0..4 {
        assert_refused_by_breaker(&mut s, 30_002, 30_000);
    }
    s.ok(&p1, 30_500);
    for _ in 0..5 {
        s.hold(30_501, &anyone());
    }
}

#[test]
fn c85_exactly_one_probe_of_threads_at_once() {
    let pool = pool(breaking(), [Account::new("A")], 2);
    for _ in 0..3 {
        pool.observe("A", &Request::new(), &Outcome::Network).unwrap();
    }
    pool.clock().set(at(30_002));

    let answers = at_once(5, |_| pool.select(&Request::new()));
    let (leases, refusals): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
    assert_eq!((leases.len(), refusals.len()), (1, 4));
    for refusal in refusals {
        let refusal = refusal.unwrap_err();
        assert_eq!(refusal.tally().count(Reason::BreakerOpen), 1);
        assert!(refusal.retry_after().is_some());
    }

    pool.clock().set(at(30_500));
    for lease in leases {
        lease.unwrap().settle(Outcome::success());
    }
    pool.clock().set(at(30_501));
    let answers = at_once(5, |_| pool.select(&Request::new()));
    assert!(answers.iter().all(Result::is_ok));
}

#[test]
fn c85_sibling_as_many_probes_as_configured() {
    let mut config = breaking();
    config.breaker.half_open_probes = Some(2);
    let mut s = opened(config);

    s.hold(30_002, &anyone());
    s.hold(30_100, &anyone());
    // The older of the two is the first to overrun its time.
    assert_refused_by_breaker(&mut s, 30_200, 29_802);
    s.hold(60_002, &anyone());
    assert_refused_by_breaker(&mut s, 60_002, 98);
}

#[test]
fn c85_sibling_asking_for_the_account_is_a_probe_too() {
    let mut s = opened(breaking());

    s.hold_on(30_002, "A", &anyone());
    assert_refused_by_breaker(&mut s, 30_003, 29_999);
    let refusal = s.pick_on(30_003, "A", &anyone()).unwrap_err();
    assert_eq!(refusal.tally().count(Reason::BreakerOpen), 1);
}

#[test]
fn c85_sibling_a_bound_caller_is_a_probe_too() {
    let mut s = Scenario::with(breaking(), &["A"]);
    s.turn(0, &by("u1"));
    s.errors(2, "A", 3);

    s.hold(30_002, &by("u1"));
    assert!(s.pick(30_003, &by("u1")).is_err());
}

#[test]
fn c86_a_failed_probe_opens_for_a_full_period() {
    let mut s = opened(breaking());

    let p1 = s.hold(30_002, &anyone());
    s.fail(&p1, 30_100, Outcome::Network);
    assert_refused_by_breaker(&mut s, 40_000, 20_100);
    assert_refused_by_breaker(&mut s, 60_099, 1);
    s.hold(60_100, &anyone());
}

#[test]
fn c86_with_a_factor_the_second_period_is_longer() {
    let mut config = breaking();
    let (base, cap) = (ms(30_000), ms(600_000));
    config.breaker.escalation =
        Some(Escalation { base, factor: 2.0, cap, from_episode: 2, grace: ms(0) });
    let mut s = opened(config);

    let p1 = s.hold(30_002, &anyone());
    s.fail(&p1, 30_100, Outcome::Network);
    assert_refused_by_breaker(&mut s, 90_099, 1);
    s.hold(90_100, &anyone());
}

#[test]
fn c86_sibling_a_probe_that_times_out_upstream_or_reports_early_reopens() {
    let mut s = opened(breaking());
    let p1 = s.hold(30_002, &anyone());
    s.fail(&p1, 30_100, Outcome::Timeout);
    assert_refused_by_breaker(&mut s, 60_099, 1);

    let mut s = opened(breaking());
    let p1 = s.hold(30_002, &anyone());
    s.scheduler.report(p1.ticket, &Outcome::Network, at(30_100));
    s.fail(&p1, 30_200, Outcome::Network);
    assert_refused_by_breaker(&mut s, 60_099, 1);
    s.hold(60_100, &anyone());
}

#[test]
fn c86_sibling_after_a_success_the_count_starts_over() {
    let mut s = opened(breaking());
    let p1 = s.hold(30_002, &anyone());
    s.ok(&p1, 30_100);

    s.errors(30_200, "A", 2);
    assert_eq!(s.inspect(30_200, "A").breaker, BreakerView::Closed { errors: 2 });
    s.errors(30_201, "A", 1);
    assert_refused_by_breaker(&mut s, 30_202, 29_999);
}

#[test]
fn c87_verdicts_from_before_the_opening_are_ignored() {
    let mut s = Scenario::with(breaking(), &["A"]);

    let l0 = s.hold(0, &anyone());
    let l9 = s.hold(1, &anyone());
    let failing: Vec<Held> = (0..3).map(|_| s.hold(2, &anyone())).collect();
    for (t, lease) in (10..).zip(&failing) {
        s.fail(lease, t, Outcome::Network);
    }
    s.ok(&l0, 5_000);
    assert_refused_by_breaker(&mut s, 5_001, 25_011);
    let p1 = s.hold(30_012, &anyone());
    s.fail(&l9, 30_050, Outcome::Network);
    assert_eq!(s.inspect(30_050, "A").breaker, BreakerView::HalfOpen);
    s.ok(&p1, 30_100);
    s.hold(30_101, &anyone());
}

#[test]
fn c87_sibling_old_verdicts_do_not_count_after_the_breaker_has_closed() {
    let mut s = Scenario::with(breaking(), &["A"]);
    let old: Vec<Held> = (0..3).map(|_| s.hold(0, &anyone())).collect();
    s.errors(10, "A", 3);
    let p1 = s.hold(30_010, &anyone());
    s.ok(&p1, 30_020);

    for lease in &old {
        s.fail(lease, 30_030, Outcome::Timeout);
    }
    assert_eq!(s.inspect(30_030, "A").breaker, BreakerView::Closed { errors: 0 });
}

#[test]
fn c87_sibling_reports_before_the_end_are_judged_alike() {
    let mut s = Scenario::with(breaking(), &["A"]);
    let old = s.hold(0, &anyone());
    s.errors(10, "A", 3);

    s.scheduler.report(old.ticket, &Outcome::success(), at(20));
    assert_refused_by_breaker(&mut s, 20, 29_990);
    let p1 = s.hold(30_010, &anyone());
    s.scheduler.report(old.ticket, &Outcome::Network, at(30_020));
    assert_eq!(s.inspect(30_020, "A").breaker, BreakerView::HalfOpen);
    s.scheduler.report(p1.ticket, &Outcome::success(), at(30_030));
    assert_eq!(s.inspect(30_030, "A").breaker, BreakerView::Closed { errors: 0 });
}

#[test]
fn c87_sibling_the_report_of_an_overdue_probe_is_ignored() {
    for verdict in [Outcome::success(), Outcome::Network] {
        let mut s = opened(breaking());
        let p1 = s.hold(30_002, &anyone());
        s.scheduler.report(p1.ticket, &verdict, at(60_002));
        assert_eq!(s.inspect(60_002, "A").breaker, BreakerView::HalfOpen, "{verdict:?}");
    }
}

#[test]
fn c87_sibling_a_repeated_verdict_counts_once() {
    let mut s = Scenario::with(breaking(), &["A"]);
    let l1 = s.hold(0, &anyone());

    s.fail(&l1, 10, Outcome::Network);
    for t in 11..20 {
        let again = s.scheduler.settle(l1.ticket, &Outcome::Network, at(t));
        assert_eq!(again, Settlement::Late);
    }
    assert_eq!(s.inspect(20, "A").breaker, BreakerView::Closed { errors: 1 });
}

#[test]
fn c89_looking_takes_no_probe() {
    let mut s = opened(breaking());

    let before = s.scheduler.clone();
    for _ in 0..100 {
        assert_eq!(s.inspect(30_002, "A").breaker, BreakerView::HalfOpen);
        s.scheduler.preview(&Request::new(), at(30_002)).unwrap();
        assert_eq!(s.scheduler.next_deadline(at(30_002)), None);
        assert_eq!(s.bound_to(30_002, &by("u1")), None);
    }
    assert_eq!(s.scheduler, before);
    s.hold(30_003, &anyone());
}

#[test]
fn c89_a_transition_needs_no_looking() {
    let mut s = opened(breaking());

    let forced = s.hold_on(31_000, "A", &anyone());
    s.ok(&forced, 32_000);
    s.errors(33_000, "A", 1);
    assert_eq!(s.inspect(33_000, "A").breaker, BreakerView::Closed { errors: 1 });
    assert_eq!(s.inspect(33_000, "A").status, Status::Active);
}

#[test]
fn c89_sibling_without_probes_the_first_error_after_the_recovery_is_number_one() {
    let mut config = breaking();
    config.breaker.half_open_probes = None;
    let mut s = opened(config);

    s.errors(30_002, "A", 1);
    assert_eq!(s.inspect(30_002, "A").breaker, BreakerView::Closed { errors: 1 });
    s.errors(30_003, "A", 1);
    s.hold(30_004, &anyone());
    s.errors(30_005, "A", 1);
    assert_refused_by_breaker(&mut s, 30_005, 30_000);
}

/// A's breaker is open until 30 000; B was really throttled until 60 000.
fn in_trouble(degraded: Degraded) -> Scenario {
    let mut config = breaking();
    config.degraded = degraded;
    let mut s = Scenario::with(config, &["A", "B"]);
    s.errors(0, "A", 3);
    let held = s.hold_on(0, "B", &anyone());
    s.fail(&held, 0, throttled_for(60_000));
    s
}

#[test]
fn c90_the_last_resort_is_inferred_trouble_never_a_real_refusal() {
    let mut s = in_trouble(Degraded::Inferred);

    let held = s.hold(1_000, &anyone());
    assert_eq!((held.account.as_str(), held.grant.path), ("A", Path::Degraded));
    let refusal = s.refused(1_000, &anyone().without(&["A"]));
    assert_eq!(refusal.tally().count(Reason::Throttled), 1);
}

#[test]
fn c90_without_a_last_resort_the_first_recovery_is_advertised() {
    let mut s = in_trouble(Degraded::Off);

    assert_eq!(s.retry_after(1_000, &anyone()), Some(29_000));
}

#[test]
fn c90_the_last_account_is_not_ejected() {
    let mut config = breaking();
    config.last_usable_exempt = true;
    let mut s = Scenario::with(config, &["A", "B", "C"]);

    for (t, account) in [(0, "A"), (1, "B"), (2, "C")] {
        s.errors(t, account, 3);
    }
    let status = ["A", "B", "C"].map(|account| s.inspect(3, account).status);
    assert_eq!(status, [Status::Error, Status::Error, Status::Active]);
    assert_eq!(s.hold(3, &anyone()).account, "C");
}

#[test]
fn c90_sibling_the_last_account_respects_a_real_refusal() {
    let mut config = breaking();
    config.last_usable_exempt = true;
    let mut s = Scenario::with(config, &["A"]);

    let held = s.hold(0, &anyone());
    s.fail(&held, 0, throttled_for(60_000));
    assert_eq!(s.retry_after(1, &anyone()), Some(59_999));
}

#[test]
fn c90_sibling_the_quarantine_spares_the_last_account_too() {
    let mut config = breaking();
    config.last_usable_exempt = true;
    config.breaker.internal_threshold = Some(2);
    let mut s = Scenario::with(config, &["A", "B"]);

    for account in ["A", "B"] {
        s.observe(0, account, &anyone(), Outcome::Internal);
        s.observe(0, account, &anyone(), Outcome::Internal);
    }
    assert_eq!(s.inspect(1, "A").blocks[0].dimension, Dimension::Quarantine);
    assert!(s.inspect(1, "B").blocks.is_empty());
}

#[test]
fn c92_threads_at_once_count_every_failure_and_open_once() {
    for _ in 0..1_000 {
        let mut config = breaking();
        let (base, cap) = (ms(60_000), ms(600_000));
        // A second opening would double the time away.
        config.breaker.escalation =
            Some(Escalation { base, factor: 2.0, cap, from_episode: 1, grace: ms(0) });
        let pool = pool(config, [Account::new("A")], 0);
        let lease = |_| Mutex::new(Some(pool.select(&Request::new()).unwrap()));
        let leases: Vec<_> = (0..3).map(lease).collect();
        pool.clock().set(at(100));

        at_once(3, |index| {
            let lease = leases[index].lock().unwrap().take().unwrap();
            lease.settle(Outcome::Network)
        });
        let view = pool.inspect("A").unwrap();
        assert_eq!(view.breaker, BreakerView::Open { until: at(30_100) });
        assert_eq!(view.blocks.len(), 1);
        assert_eq!(view.blocks[0].until, at(60_100));
    }
}

#[test]
fn c92_sibling_failures_beyond_the_threshold_do_not_open_again() {
    let mut s = Scenario::with(breaking(), &["A"]);
    let leases: Vec<Held> = (0..10).map(|_| s.hold(0, &anyone())).collect();

    for (t, lease) in (100..).zip(&leases) {
        s.fail(lease, t, Outcome::Network);
    }
    assert_eq!(s.inspect(110, "A").breaker, BreakerView::Open { until: at(30_102) });
}

#[test]
fn c92_sibling_failures_count_whichever_way_they_are_reported() {
    let mut s = Scenario::with(breaking(), &["A"]);
    let [l1, l2] = [0, 0].map(|t| s.hold(t, &anyone()));

    s.fail(&l1, 100, Outcome::Network);
    s.scheduler.report(l2.ticket, &Outcome::Network, at(101));
    assert_eq!(s.inspect(101, "A").breaker, BreakerView::Closed { errors: 2 });
    s.errors(102, "A", 1);
    assert_eq!(s.inspect(102, "A").breaker, BreakerView::Open { until: at(30_102) });
}
