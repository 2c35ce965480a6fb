//! Request and token windows: what is counted, when, and until when.

use account_pool::config::{BindingLimit, Degraded, Escalation};
use account_pool::{
    Account, Affinity, Outcome, Plan, Reason, Request, Scheduler, Timestamp, Usage,
};

use crate::scenario::{Ask, Scenario, anyone, at, by, conventions, ms, throttled_for};
use crate::threads::{at_once, pool};

fn limited(rpm: u64) -> Scenario {
    Scenario::of(conventions(), [Account::new("A").rpm(rpm)])
}

/// An account of which a turn may use `tokens` in a minute.
fn budgeted(tokens: u64) -> Scenario {
    Scenario::of(conventions(), [Account::new("A").tokens_per_minute(tokens)])
}

fn using(tokens: u64) -> Usage {
    let mut usage = Usage::default();
    usage.input = tokens;
    usage
}

#[test]
fn c49_five_requests_at_once_share_a_limit_of_one() {
    let mut s = limited(1);

    s.hold(0, &anyone());
    for _ in 0..4 {
        let refusal = s.refused(0, &anyone());
        assert_eq!(refusal.retry_after(), Some(ms(60_000)));
        assert_eq!(refusal.tally().count(Reason::RateLimit), 1);
    }
}

#[test]
fn c49_five_threads_at_once_share_a_limit_of_one() {
    let pool = pool(conventions(), [Account::new("A").rpm(1)], 0);

    let answers = at_once(5, |_| pool.select(&Request::new()));

    let (leases, refusals): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
    assert_eq!(leases.len(), 1);
    for refusal in refusals {
        let refusal = refusal.unwrap_err();
        assert_eq!(refusal.retry_after(), Some(ms(60_000)));
        assert_eq!(refusal.tally().count(Reason::RateLimit), 1);
    }
}

#[test]
fn c49_sibling_asking_for_an_account_counts_like_selecting_it() {
    let mut s = limited(1);

    s.hold_on(0, "A", &anyone());
    assert_eq!(s.retry_after(0, &anyone()), Some(60_000));
    let refusal = s.pick_on(0, "A", &anyone()).unwrap_err();
    assert_eq!(refusal.retry_after(), Some(ms(60_000)));
}

#[test]
fn c49_sibling_token_costs_are_charged_at_selection() {
    let mut s = budgeted(100);

    s.hold(0, &anyone().costing(60));
    let refusal = s.refused(0, &anyone().costing(60));
    assert_eq!(refusal.tally().count(Reason::TokenLimit), 1);
    assert_eq!(refusal.retry_after(), Some(ms(60_000)));
    s.hold(0, &anyone().costing(40));
}

#[test]
fn c50_exactly_the_limit_fits_a_window() {
    for limit in [1, 2, 10] {
        let mut s = limited(limit);
        for t in 0..limit {
            assert_eq!(s.turn(t, &anyone()), "A");
        }
        assert_eq!(s.retry_after(limit, &anyone()), Some(60_000 - limit));
    }
}

#[test]
fn c50_a_token_budget_used_to_the_limit_is_full() {
    for (used, is_full) in [(99, false), (100, true), (101, true)] {
        let mut s = budgeted(100);
        let held = s.hold(0, &anyone());
        s.ok_using(&held, 1, using(used));

        let answer = s.pick(2, &anyone());
        assert_eq!(answer.is_err(), is_full, "{used} of 100 tokens are used");
        if let Err(refusal) = answer {
            assert_eq!(refusal.tally().count(Reason::TokenLimit), 1);
            // The tokens were used at 1, when the answer was complete.
            assert_eq!(refusal.retry_after(), Some(ms(59_999)));
        }
    }
}

#[test]
fn c50_sibling_a_cost_fits_to_the_last_token() {
    let mut s = budgeted(100);

    s.turn(0, &anyone().costing(99));
    assert!(s.pick(1, &anyone().costing(2)).is_err());
    s.turn(1, &anyone().costing(1));
    assert!(s.pick(2, &anyone()).is_err());
}

#[test]
fn c50_sibling_a_cost_beyond_the_whole_window_is_never_served() {
    let mut s = budgeted(100);

    let refusal = s.refused(0, &anyone().costing(101));
    assert_eq!(refusal.tally().count(Reason::TokenLimit), 1);
    assert_eq!(refusal.retry_after(), None);
}

#[test]
fn c51_a_slot_is_free_exactly_one_window_later() {
    let mut s = limited(1);

    s.turn(0, &anyone());
    assert_eq!(s.retry_after(59_999, &anyone()), Some(1));
    assert_eq!(s.turn(60_000, &anyone()), "A");
}

#[test]
fn c51_sibling_token_window() {
    let mut s = budgeted(100);

    s.turn(0, &anyone().costing(100));
    assert_eq!(s.retry_after(59_999, &anyone().costing(100)), Some(1));
    s.turn(60_000, &anyone().costing(100));
}

#[test]
fn c51_sibling_headroom_ranks_by_the_same_edge() {
    for (t, next) in [(59_999, "B"), (60_000, "A"), (60_001, "A")] {
        let mut s = Scenario::of(conventions(), [Account::new("A").rpm(2), Account::new("B")]);
        s.turn(0, &anyone().without(&["B"]));
        s.turn(1, &anyone().without(&["A"]));
        // A was used before B and wins as soon as its window is as free as B's.
        assert_eq!(s.hold(t, &anyone()).account, next, "at {t}");
    }
}

#[test]
fn c53_every_window_has_to_have_room() {
    let account = Account::new("A").window(60, ms(60_000)).window(10, ms(10_000));
    let mut s = Scenario::of(conventions(), [account]);

    for t in 0..10 {
        assert_eq!(s.turn(t, &anyone()), "A");
    }
    assert_eq!(s.retry_after(10, &anyone()), Some(9_990));
    assert_eq!(s.retry_after(9_999, &anyone()), Some(1));
    assert_eq!(s.turn(10_000, &anyone()), "A");
}

#[test]
fn c53_sibling_the_longest_of_several_full_windows_is_advertised() {
    let account = Account::new("A").window(2, ms(1_000)).window(4, ms(60_000));
    let mut s = Scenario::of(conventions(), [account]);

    s.turns(&[0, 1, 1_001, 1_002], &anyone());
    assert_eq!(s.retry_after(1_003, &anyone()), Some(58_997));
    assert_eq!(s.retry_after(59_999, &anyone()), Some(1));
    assert_eq!(s.turn(60_000, &anyone()), "A");
}

#[test]
fn c53_sibling_requests_and_tokens_have_to_fit_both() {
    let account = Account::new("A").rpm(2).tokens_per_minute(100);
    let mut s = Scenario::of(conventions(), [account]);

    s.turn(0, &anyone().costing(10));
    s.turn(1_000, &anyone().costing(90));
    assert_eq!(s.retry_after(1_001, &anyone().costing(10)), Some(58_999));
    assert_eq!(s.retry_after(1_001, &anyone().costing(11)), Some(59_999));
}

#[test]
fn c54_a_refusal_for_load_takes_no_rate_slot() {
    let account = Account::new("A").rpm(2).max_in_flight(1);
    let mut s = Scenario::of(conventions(), [account]);

    let l1 = s.hold(0, &anyone());
    let refusal = s.refused(1, &anyone());
    assert_eq!(refusal.tally().count(Reason::InFlight), 1);
    s.ok(&l1, 2);
    let l2 = s.hold(3, &anyone());
    s.ok(&l2, 4);
    let refusal = s.refused(5, &anyone());
    assert_eq!(refusal.tally().count(Reason::RateLimit), 1);
    assert_eq!(refusal.retry_after(), Some(ms(59_995)));
}

#[test]
fn c54_sibling_no_refusal_changes_any_account() {
    let account = Account::new("A").rpm(1).tokens_per_minute(100).max_in_flight(1);
    let mut s = Scenario::of(conventions(), [account]);
    let l1 = s.hold(0, &anyone().costing(10));
    let before = s.inspect(1, "A");

    s.refused(1, &anyone());
    s.refused(1, &by("u1").on("m1").costing(1_000));
    s.pick_on(1, "A", &anyone()).unwrap_err();
    s.refused(1, &by("u1").insisting(Affinity::Require));
    assert_eq!(s.inspect(1, "A"), before);

    s.ok(&l1, 2);
    assert_eq!(s.inspect(2, "A").requests[0].used, 1);
    assert_eq!(s.inspect(2, "A").tokens.unwrap().used, 10);
}

#[test]
fn c56_a_request_that_was_never_sent_is_refunded() {
    let mut s = limited(1);

    let l1 = s.hold(0, &anyone());
    s.abandon(&l1, 10);
    s.hold(11, &anyone());
}

#[test]
fn c56_a_request_that_failed_upstream_is_not_refunded() {
    let mut s = limited(1);

    let l1 = s.hold(0, &anyone());
    s.fail(&l1, 10, Outcome::Network);
    let refusal = s.refused(11, &anyone());
    assert_eq!(refusal.tally().count(Reason::RateLimit), 1);
    assert_eq!(refusal.retry_after(), Some(ms(59_989)));
}

#[test]
fn c56_a_throttled_request_is_not_refunded() {
    let mut s = limited(1);

    let l1 = s.hold(0, &anyone());
    s.fail(&l1, 10, throttled_for(1_000));
    let refusal = s.refused(1_011, &anyone());
    assert_eq!(refusal.tally().count(Reason::RateLimit), 1);
    assert_eq!(refusal.retry_after(), Some(ms(58_989)));
}

#[test]
fn c56_sibling_no_other_end_refunds() {
    let ends = [
        Outcome::success(),
        Outcome::Timeout,
        Outcome::ClientFault,
        Outcome::Cancelled,
        Outcome::BanSignal,
    ];
    for end in ends {
        let mut s = limited(1);
        let l1 = s.hold(0, &anyone());
        s.fail(&l1, 10, end);
        assert_eq!(s.retry_after(11, &anyone()), Some(59_989), "{end:?}");
    }
}

#[test]
fn c56_sibling_a_refund_gives_back_its_own_slots_once() {
    let account = Account::new("A").rpm(2).tokens_per_minute(100);
    let mut s = Scenario::of(conventions(), [account]);
    let used = |s: &Scenario, t| {
        let view = s.inspect(t, "A");
        (view.requests[0].used, view.tokens.unwrap().used)
    };

    let l1 = s.hold(0, &anyone().costing(30));
    let l2 = s.hold(0, &anyone().costing(20));
    assert!(s.scheduler.refund(l1.ticket, at(1)));
    assert!(!s.scheduler.refund(l1.ticket, at(1)));
    assert_eq!(used(&s, 1), (1, 20));
    s.abandon(&l1, 2);
    s.abandon(&l1, 2);
    assert_eq!(used(&s, 2), (1, 20));
    s.abandon(&l2, 3);
    assert_eq!(used(&s, 3), (0, 0));
}

#[test]
fn c56_sibling_a_refund_after_the_window_gives_nothing_back() {
    for (t, refunded) in [(59_999, true), (60_000, false), (60_001, false)] {
        let mut s = limited(1);
        let l1 = s.hold(0, &anyone());
        assert_eq!(s.scheduler.refund(l1.ticket, at(t)), refunded, "at {t}");
        assert_eq!(s.inspect(t, "A").requests[0].used, 0);
    }
}

#[test]
fn c56_sibling_a_refund_never_takes_the_slot_of_another_request() {
    let mut s = Scenario::new(&["A"]);
    let plan = Plan::default().rpm(1).tokens_per_minute(100);

    // The first request was not counted, since there was no window yet.
    let l1 = s.hold(0, &anyone().costing(10));
    s.scheduler.set_plan("A", &plan, at(0)).unwrap();
    s.hold(0, &anyone().costing(10));
    s.abandon(&l1, 1);

    let view = s.inspect(1, "A");
    assert_eq!((view.requests[0].used, view.tokens.unwrap().used), (1, 10));
    assert_eq!(s.retry_after(1, &anyone()), Some(59_999));
}

#[test]
fn c58_idle_time_banks_nothing() {
    let mut s = Scenario::of(conventions(), [Account::new("A").window(5, ms(1_000))]);

    s.turns(&[0, 1, 2, 3, 4], &anyone());
    assert!(s.pick(5, &anyone()).is_err());
    for _ in 0..5 {
        s.hold(2_000, &anyone());
    }
    assert_eq!(s.retry_after(2_000, &anyone()), Some(1_000));
}

#[test]
fn c58_sibling_idle_tokens_bank_nothing() {
    let mut s = budgeted(100);

    s.turn(0, &anyone().costing(100));
    s.turn(600_000, &anyone().costing(100));
    assert_eq!(s.retry_after(600_001, &anyone()), Some(59_999));
}

#[test]
fn c59_a_burst_is_not_forgiven_by_and_by() {
    let mut s = limited(60);

    for t in 0..60 {
        assert_eq!(s.turn(t, &anyone()), "A");
    }
    for second in 1..60 {
        assert!(s.pick(second * 1_000, &anyone()).is_err(), "second {second}");
    }
    s.hold(60_000, &anyone());
    assert_eq!(s.retry_after(60_000, &anyone()), Some(1));
}

#[test]
fn c59_sibling_no_window_of_any_position_holds_more_than_the_limit() {
    let mut s = Scenario::of(conventions(), [Account::new("A").window(7, ms(1_000))]);
    let mut granted = Vec::new();

    for t in (0..20_000).step_by(13) {
        if s.pick(t, &anyone()).is_ok() {
            granted.push(t);
        }
    }
    assert!(granted.windows(8).all(|eight| eight[7] - eight[0] >= 1_000));
    assert!(granted.len() >= 7 * 19, "the limit is used: {}", granted.len());
}

/// A fixed sequence of numbers that looks random.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    fn one_of<T: Copy>(&mut self, things: &[T]) -> T {
        things[usize::try_from(self.roll(things.len() as u64)).unwrap()]
    }
}

/// Checks a refusal's promise: the same request succeeds then, and not 1 ms before.
fn assert_tight(
    scheduler: &Scheduler,
    t: u64,
    trace: u64,
    attempt: impl Fn(&mut Scheduler, u64) -> Result<(), Option<u64>>,
) {
    let mut refused = scheduler.clone();
    let Err(retry_at) = attempt(&mut refused, t) else {
        return;
    };
    let again = |t| attempt(&mut refused.clone(), t);
    match retry_at {
        Some(retry_at) => {
            assert!(retry_at > t, "trace {trace} at {t}: a hint of 0");
            assert!(again(retry_at - 1).is_err(), "trace {trace} at {t}: free before {retry_at}");
            assert!(again(retry_at).is_ok(), "trace {trace} at {t}: not free at {retry_at}");
        }
        None => {
            let ever = again(t + 4_000_000);
            assert!(ever.is_err(), "trace {trace} at {t}: time helps, but there is no hint");
        }
    }
}

#[test]
fn c60_the_advertised_wait_is_tight() {
    for trace in 0..400 {
        let mut dice = Dice(trace);
        let mut config = conventions();
        config.breaker.threshold = Some(2);
        config.breaker.half_open_probes = if dice.roll(3) == 0 { None } else { Some(1) };
        config.breaker.escalation = (dice.roll(2) == 0).then(Escalation::default);
        config.degraded = match dice.roll(3) {
            0 => Degraded::Off,
            1 => Degraded::Transient,
            _ => Degraded::Inferred,
        };
        config.sticky.no_fallback = dice.roll(3) == 0;
        config.sticky.drop_when_blocked = dice.roll(4) == 0;
        config.sticky.time_to_idle = ms(dice.one_of(&[5_000, 60_000, 600_000]));
        config.sticky.cache_lifetime = ms(20_000);
        if dice.roll(3) == 0 {
            // Places that other callers' bindings free by lapsing are not foretold.
            config.sticky.time_to_idle = ms(10_000_000);
            config.sticky.binding_limit = Some(BindingLimit { callers: 1, refuse: true });
        }
        let accounts = [
            Account::new("A").rpm(2),
            Account::new("B").window(1, ms(5_000)).window(3, ms(60_000)),
            Account::new("C").tokens_per_minute(50).rpm(4),
        ];
        let mut s = Scenario::of(config, accounts);
        s.scheduler.set_draining("B", dice.roll(2) == 0, at(0)).unwrap();

        let mut t = 1;
        for _ in 0..60 {
            t += dice.roll(4_000);
            let account = dice.one_of(&["A", "B", "C"]);
            let (caller, model) = (dice.one_of(&["", "u1", "u2"]), dice.one_of(&["", "m1", "m2"]));
            let ask = by(caller).on(model).costing(dice.roll(30));
            match dice.roll(9) {
                0 => s.block(t, account, t + dice.roll(30_000)),
                1 => s.block_model(t, account, "m1", t + dice.roll(30_000)),
                2 => s.errors(t, account, 1),
                3 => s.quota(t, account, (dice.roll(3) * 40) as f64, Some(t + dice.roll(30_000))),
                4 => s.observe(t, account, &ask, throttled_for(dice.roll(30_000))),
                _ => {
                    if let Ok(held) = s.pick(t, &ask) {
                        s.ok(&held, t + dice.roll(50));
                        t += 50;
                    }
                }
            }
            let asks = |ask: Ask| {
                move |scheduler: &mut Scheduler, t: u64| {
                    let answer = scheduler.select(&ask.request(), at(t));
                    answer.map(drop).map_err(|it| it.retry_at().map(Timestamp::as_millis))
                }
            };
            assert_tight(&s.scheduler, t, trace, asks(anyone()));
            assert_tight(&s.scheduler, t, trace, asks(by("u1").on("m1").costing(20)));
            assert_tight(&s.scheduler, t, trace, asks(by("u2")));
            let required = by("u1").on("m1").insisting(Affinity::Require);
            let preview = s.scheduler.preview(&required.request(), at(t));
            if preview.is_err_and(|refusal| refusal.tally().count(Reason::Unbound) == 0) {
                assert_tight(&s.scheduler, t, trace, asks(required));
            }
            assert_tight(&s.scheduler, t, trace, |scheduler, t| {
                let answer = scheduler.select_account("B", &by("u1").on("m1").request(), at(t));
                answer.map(drop).map_err(|it| it.retry_at().map(Timestamp::as_millis))
            });
        }
    }
}
