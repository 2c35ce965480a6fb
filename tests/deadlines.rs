//! Every deadline and window at three points: 1 ms before its end, at its end, and after it.

#![allow(clippy::unwrap_used, reason = "a value that is not there is a failed test")]

use account_pool::config::{Degraded, Escalation, Order};
use account_pool::{
    Account, Affinity, BlockScope, BreakerView, Config, Dimension, Millis, Outcome, Path,
    QuotaReading, QuotaWindow, Reason, Request, Reset, Scheduler, Scope, Status, Ticket, Timestamp,
    Usage,
};

const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const START: u64 = 7_000;

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

/// A strict policy: nothing is served that is blocked, and nobody is spared.
fn strict() -> Config {
    let mut config = Config::default();
    config.degraded = Degraded::Off;
    config.last_usable_exempt = false;
    config
}

fn with(config: Config, accounts: impl IntoIterator<Item = Account>) -> Scheduler {
    let mut scheduler = Scheduler::new(config).unwrap();
    for account in accounts {
        scheduler.add(account, at(0)).unwrap();
    }
    scheduler
}

fn one() -> Scheduler {
    with(strict(), [Account::new("a")])
}

fn any() -> Request<'static> {
    Request::new()
}

fn take(scheduler: &mut Scheduler, request: &Request<'_>, now: u64) -> Ticket {
    scheduler.select(request, at(now)).unwrap().ticket
}

fn turn(scheduler: &mut Scheduler, account: &str, request: &Request<'_>, now: u64) {
    let ticket = scheduler.select_account(account, request, at(now)).unwrap().ticket;
    scheduler.settle(ticket, &Outcome::success(), at(now));
}

fn fail(scheduler: &mut Scheduler, outcome: Outcome, now: u64) {
    scheduler.observe("a", &any(), &outcome, at(now)).unwrap();
}

fn fail_on(scheduler: &mut Scheduler, request: &Request<'_>, outcome: Outcome, now: u64) {
    scheduler.observe("a", request, &outcome, at(now)).unwrap();
}

/// `answer` 1 ms before `end`, at it, and 1 ms after it, each from the same state.
fn around<R>(
    scheduler: &Scheduler,
    end: u64,
    answer: impl Fn(&mut Scheduler, Timestamp) -> R,
) -> [R; 3] {
    [end - 1, end, end + 1].map(|now| answer(&mut scheduler.clone(), at(now)))
}

/// The request is refused for `reason` until `end` and served from then on; the refusal, the next
/// deadline and the preview say so.
fn lifts(scheduler: &Scheduler, request: &Request<'_>, reason: Reason, end: u64) {
    for now in [START + 1, end - 1] {
        let refusal = scheduler.clone().select(request, at(now)).unwrap_err();
        assert_eq!(refusal.tally().count(reason), 1, "at {now}: {refusal}");
        assert_eq!(refusal.retry_at(), Some(at(end)), "at {now}");
        assert_eq!(refusal.retry_after(), Some(Millis::new(end - now)), "at {now}");
        assert_eq!(scheduler.preview(request, at(now)), Err(refusal), "at {now}");
    }
    for now in [end, end + 1] {
        let preview = scheduler.preview(request, at(now)).unwrap();
        let grant = scheduler.clone().select(request, at(now)).unwrap();
        assert_eq!(preview.account, grant.account, "at {now}");
    }
    assert_eq!(scheduler.next_deadline(at(end - 1)), Some(at(end)));
}

mod windows {
    use super::*;

    #[test]
    fn the_minute() {
        let mut scheduler = with(strict(), [Account::new("a").rpm(1)]);
        take(&mut scheduler, &any(), START);
        lifts(&scheduler, &any(), Reason::RateLimit, START + MINUTE);
    }

    #[test]
    fn the_minute_lifts_with_the_oldest_of_two() {
        let mut scheduler = with(strict(), [Account::new("a").rpm(2)]);
        take(&mut scheduler, &any(), START);
        take(&mut scheduler, &any(), START + 1);
        lifts(&scheduler, &any(), Reason::RateLimit, START + MINUTE);
    }

    #[test]
    fn a_second_window() {
        let account = Account::new("a").rpm(60).window(2, Millis::from_secs(10));
        let mut scheduler = with(strict(), [account]);
        take(&mut scheduler, &any(), START);
        take(&mut scheduler, &any(), START);
        lifts(&scheduler, &any(), Reason::RateLimit, START + 10 * SECOND);
    }

    #[test]
    fn the_longer_of_two_full_windows() {
        let account = Account::new("a").rpm(2).window(2, Millis::from_secs(10));
        let mut scheduler = with(strict(), [account]);
        take(&mut scheduler, &any(), START);
        take(&mut scheduler, &any(), START);
        lifts(&scheduler, &any(), Reason::RateLimit, START + MINUTE);
    }

    #[test]
    fn the_tokens_by_declared_cost() {
        let mut scheduler = with(strict(), [Account::new("a").tokens_per_minute(100)]);
        take(&mut scheduler, &any().cost(60), START);
        assert!(scheduler.preview(&any().cost(40), at(START)).is_ok());
        let refusal = scheduler.preview(&any().cost(41), at(START)).unwrap_err();
        assert_eq!(refusal.retry_at(), Some(at(START + MINUTE)));
        take(&mut scheduler, &any().cost(40), START);
        lifts(&scheduler, &any(), Reason::TokenLimit, START + MINUTE);
    }

    #[test]
    fn the_tokens_by_use() {
        let mut scheduler = with(strict(), [Account::new("a").tokens_per_minute(100)]);
        let ticket = take(&mut scheduler, &any(), 0);
        let usage = Usage::from_prompt_total(100, 0, 0);
        scheduler.settle(ticket, &Outcome::Success { usage }, at(START));
        let full = START + MINUTE;
        let served = around(&scheduler, full, |it, now| it.select(&any(), now).is_ok());
        assert_eq!(served, [false, true, true]);
    }

    #[test]
    fn a_refund() {
        let mut scheduler = with(strict(), [Account::new("a").rpm(1)]);
        let ticket = take(&mut scheduler, &any(), START);
        let given = around(&scheduler, START + MINUTE, |it, now| it.refund(ticket, now));
        assert_eq!(given, [true, false, false]);
    }
}

mod cooldowns {
    use super::*;

    fn after(millis: u64) -> Option<Reset> {
        Some(Reset::After(Millis::new(millis)))
    }

    #[test]
    fn a_throttle_with_a_hint() {
        let mut scheduler = one();
        fail(&mut scheduler, Outcome::rate_limited(after(42_000)), START);
        lifts(&scheduler, &any(), Reason::Throttled, START + 42_000);
    }

    #[test]
    fn a_throttle_with_an_instant() {
        let mut scheduler = one();
        let reset = Some(Reset::At(at(START + 42_000)));
        fail(&mut scheduler, Outcome::rate_limited(reset), START);
        lifts(&scheduler, &any(), Reason::Throttled, START + 42_000);
    }

    #[test]
    fn a_throttle_without_a_hint() {
        let mut scheduler = one();
        fail(&mut scheduler, Outcome::rate_limited(None), START);
        lifts(&scheduler, &any(), Reason::Throttled, START + 15 * SECOND);
    }

    #[test]
    fn the_cap_of_a_throttle() {
        let mut scheduler = one();
        fail(&mut scheduler, Outcome::rate_limited(after(60 * MINUTE)), START);
        lifts(&scheduler, &any(), Reason::Throttled, START + 15 * MINUTE);
    }

    #[test]
    fn the_floor_of_a_throttle() {
        let mut scheduler = one();
        fail(&mut scheduler, Outcome::rate_limited(after(1)), START);
        lifts(&scheduler, &any(), Reason::Throttled, START + SECOND);
    }

    #[test]
    fn the_later_of_two_throttles() {
        let mut scheduler = one();
        fail(&mut scheduler, Outcome::rate_limited(after(42_000)), START);
        fail(&mut scheduler, Outcome::rate_limited(after(2_000)), START);
        lifts(&scheduler, &any(), Reason::Throttled, START + 42_000);
    }

    #[test]
    fn a_spent_quota() {
        let mut scheduler = one();
        fail(&mut scheduler, Outcome::quota_exhausted(None), START);
        lifts(&scheduler, &any(), Reason::QuotaExhausted, START + 30 * MINUTE);
    }

    #[test]
    fn a_spent_quota_with_a_renewal() {
        let mut scheduler = one();
        let month = 30 * 24 * 60 * MINUTE;
        fail(&mut scheduler, Outcome::quota_exhausted(after(month)), START);
        lifts(&scheduler, &any(), Reason::QuotaExhausted, START + month);
    }

    #[test]
    fn a_rejected_credential() {
        let mut scheduler = one();
        fail(&mut scheduler, Outcome::AuthFailed, START);
        lifts(&scheduler, &any(), Reason::AuthFailed, START + MINUTE);
    }

    #[test]
    fn a_dead_credential() {
        let mut scheduler = one();
        fail(&mut scheduler, Outcome::DeadToken, START);
        lifts(&scheduler, &any(), Reason::AuthFailed, START + 60 * MINUTE);
    }

    #[test]
    fn an_overloaded_provider() {
        let mut scheduler = one();
        let overloaded = Outcome::Overloaded { scope: Scope::Account, reset: None };
        fail(&mut scheduler, overloaded, START);
        lifts(&scheduler, &any(), Reason::Overloaded, START + 10 * SECOND);
    }

    #[test]
    fn a_quarantine() {
        let mut scheduler = one();
        fail(&mut scheduler, Outcome::Internal, 0);
        assert!(scheduler.preview(&any(), at(0)).is_ok(), "once is no pattern");
        fail(&mut scheduler, Outcome::Internal, START);
        lifts(&scheduler, &any(), Reason::Quarantined, START + 2 * MINUTE);
    }

    #[test]
    fn a_block_by_the_operator() {
        let mut scheduler = one();
        let (account, end) = (BlockScope::Account, START + 1_234);
        scheduler.block("a", &account, Dimension::Operator, at(end), at(START)).unwrap();
        lifts(&scheduler, &any(), Reason::OperatorBlock, end);
    }

    #[test]
    fn a_model() {
        let mut scheduler = one();
        let (model, other) = (any().model("opus"), any().model("haiku"));
        let limited = Outcome::RateLimited { scope: Scope::Model, reset: after(42_000) };
        fail_on(&mut scheduler, &model, limited, START);
        lifts(&scheduler, &model, Reason::Throttled, START + 42_000);
        assert!(scheduler.preview(&other, at(START)).is_ok());
        assert!(scheduler.preview(&any(), at(START)).is_ok());
    }

    #[test]
    fn a_selector() {
        let mut scheduler = one();
        let (selector, other) = (any().selector("eu"), any().selector("us"));
        let limited = Outcome::RateLimited { scope: Scope::Selector, reset: after(42_000) };
        fail_on(&mut scheduler, &selector, limited, START);
        lifts(&scheduler, &selector, Reason::Throttled, START + 42_000);
        assert!(scheduler.preview(&other, at(START)).is_ok());
        assert!(scheduler.preview(&any(), at(START)).is_ok());
    }

    #[test]
    fn the_longest_of_several_kinds() {
        let mut scheduler = one();
        fail(&mut scheduler, Outcome::rate_limited(after(10 * SECOND)), START);
        fail(&mut scheduler, Outcome::AuthFailed, START);
        let overloaded = Outcome::Overloaded { scope: Scope::Account, reset: after(30 * SECOND) };
        fail(&mut scheduler, overloaded, START);
        lifts(&scheduler, &any(), Reason::AuthFailed, START + MINUTE);
    }

    #[test]
    fn the_first_of_several_accounts() {
        let mut scheduler = with(strict(), [Account::new("a"), Account::new("b")]);
        fail(&mut scheduler, Outcome::rate_limited(after(50_000)), START);
        let shorter = Outcome::rate_limited(after(42_000));
        scheduler.observe("b", &any(), &shorter, at(START)).unwrap();
        let refusal = scheduler.preview(&any(), at(START)).unwrap_err();
        assert_eq!(refusal.tally().count(Reason::Throttled), 2);
        let by = around(&scheduler, START + 42_000, |it, now| {
            it.select(&any(), now).map(|grant| grant.account.to_string()).ok()
        });
        assert_eq!(by, [None, Some("b".to_owned()), Some("b".to_owned())]);
    }

    fn next_throttle(scheduler: &mut Scheduler, now: Timestamp) -> Millis {
        scheduler.observe("a", &any(), &Outcome::rate_limited(None), now).unwrap();
        scheduler.inspect("a", now).unwrap().blocks[0].until.since(now)
    }

    #[test]
    fn the_end_of_one_is_where_escalation_begins() {
        let mut scheduler = one();
        fail(&mut scheduler, Outcome::rate_limited(None), START);
        let next = around(&scheduler, START + 15 * SECOND, next_throttle);
        // While it runs the same step applies, from the new evidence on.
        assert_eq!(next.map(Millis::as_millis), [15_000, 30_000, 30_000]);
    }

    #[test]
    fn decay_takes_back_one_step() {
        let mut scheduler = one();
        fail(&mut scheduler, Outcome::rate_limited(None), START);
        let end = START + 15 * SECOND;
        let next = around(&scheduler, end + 10 * MINUTE, next_throttle);
        assert_eq!(next.map(Millis::as_millis), [30_000, 15_000, 15_000]);
    }

    #[test]
    fn decay_takes_back_one_step_per_span() {
        let mut scheduler = one();
        fail(&mut scheduler, Outcome::rate_limited(None), START);
        fail(&mut scheduler, Outcome::rate_limited(None), START + 15 * SECOND);
        let end = START + 45 * SECOND;
        let first = around(&scheduler, end + 10 * MINUTE, next_throttle);
        assert_eq!(first.map(Millis::as_millis), [60_000, 30_000, 30_000]);
        let second = around(&scheduler, end + 20 * MINUTE, next_throttle);
        assert_eq!(second.map(Millis::as_millis), [30_000, 15_000, 15_000]);
    }

    #[test]
    fn a_capped_throttle_is_trouble_until_the_announced_end() {
        let mut config = strict();
        config.rank.terms = vec![account_pool::config::Term::Trouble];
        let mut scheduler = with(config, [Account::new("a"), Account::new("b")]);
        fail(&mut scheduler, Outcome::rate_limited(after(60 * MINUTE)), START);
        let by = around(&scheduler, START + 60 * MINUTE, |it, now| {
            it.select(&any(), now).unwrap().account.to_string()
        });
        assert_eq!(by, ["b", "a", "a"]);
    }
}

mod breaker {
    use super::*;

    const OPEN: u64 = 15 * MINUTE;

    fn opened() -> Scheduler {
        let mut scheduler = one();
        for _ in 0..3 {
            fail(&mut scheduler, Outcome::Network, START);
        }
        scheduler
    }

    fn status(scheduler: &Scheduler, now: Timestamp) -> Status {
        scheduler.inspect("a", now).unwrap().status
    }

    #[test]
    fn open_becomes_half_open() {
        let scheduler = opened();
        lifts(&scheduler, &any(), Reason::BreakerOpen, START + OPEN);
        let phases = around(&scheduler, START + OPEN, |it, now| {
            let view = it.inspect("a", now).unwrap();
            (view.status, view.breaker)
        });
        let open = (Status::Error, BreakerView::Open { until: at(START + OPEN) });
        let half_open = (Status::Active, BreakerView::HalfOpen);
        assert_eq!(phases, [open, half_open, half_open]);
    }

    #[test]
    fn a_probe_holds_its_place_until_it_times_out() {
        let mut scheduler = opened();
        let probe = START + OPEN;
        take(&mut scheduler, &any(), probe);
        let end = probe + 2 * MINUTE;
        for now in [probe, end - 1] {
            let refusal = scheduler.clone().select(&any(), at(now)).unwrap_err();
            assert_eq!(refusal.retry_at(), Some(at(end)));
        }
        let served = around(&scheduler, end, |it, now| it.select(&any(), now).is_ok());
        assert_eq!(served, [false, true, true]);
        assert_eq!(scheduler.next_deadline(at(probe)), Some(at(end)));
    }

    #[test]
    fn a_probe_is_heard_until_it_times_out() {
        let mut scheduler = opened();
        let probe = START + OPEN;
        let ticket = take(&mut scheduler, &any(), probe);
        let closed = around(&scheduler, probe + 2 * MINUTE, |it, now| {
            it.settle(ticket, &Outcome::success(), now);
            it.inspect("a", now).unwrap().breaker == BreakerView::Closed { errors: 0 }
        });
        assert_eq!(closed, [true, false, false]);
    }

    #[test]
    fn touch_keeps_a_probe_its_place() {
        let mut scheduler = opened();
        let probe = START + OPEN;
        let ticket = take(&mut scheduler, &any(), probe);
        assert!(scheduler.touch(ticket, at(probe + MINUTE)));
        let served =
            around(&scheduler, probe + 3 * MINUTE, |it, now| it.select(&any(), now).is_ok());
        assert_eq!(served, [false, true, true]);
    }

    #[test]
    fn a_lease_that_is_reaped_frees_its_probe() {
        let mut config = strict();
        config.lease_timeout = Some(Millis::new(MINUTE));
        let mut scheduler = with(config, [Account::new("a")]);
        for _ in 0..3 {
            fail(&mut scheduler, Outcome::Network, START);
        }
        let probe = START + OPEN;
        take(&mut scheduler, &any(), probe);
        let end = probe + MINUTE;
        let refusal = scheduler.preview(&any(), at(probe)).unwrap_err();
        assert_eq!(refusal.retry_at(), Some(at(end)));
        let answers = around(&scheduler, end, |it, now| {
            (it.preview(&any(), now).is_ok(), it.select(&any(), now).is_ok())
        });
        assert_eq!(answers, [(false, false), (true, true), (true, true)]);
    }

    #[test]
    fn errors_add_up_within_the_window() {
        let mut scheduler = one();
        fail(&mut scheduler, Outcome::Network, 0);
        fail(&mut scheduler, Outcome::Timeout, START);
        let opens = around(&scheduler, START + 30 * MINUTE, |it, now| {
            fail(it, Outcome::Network, now.as_millis());
            status(it, now)
        });
        assert_eq!(opens, [Status::Error, Status::Active, Status::Active]);
    }

    #[test]
    fn ban_signals_add_up_within_the_window() {
        let mut scheduler = one();
        fail(&mut scheduler, Outcome::BanSignal, START);
        let bans = around(&scheduler, START + 30 * MINUTE, |it, now| {
            fail(it, Outcome::BanSignal, now.as_millis());
            status(it, now)
        });
        assert_eq!(bans, [Status::Banned, Status::Active, Status::Active]);
    }

    /// The second opening at `now` of an account added at 0; whether it escalates.
    fn escalates(scheduler: &mut Scheduler, now: Timestamp) -> bool {
        fail(scheduler, Outcome::Network, now.as_millis());
        let blocks = scheduler.inspect("a", now).unwrap().blocks;
        blocks.iter().any(|block| block.dimension == Dimension::Breaker)
    }

    #[test]
    fn an_account_of_the_age_of_the_grace_does_not_escalate() {
        let mut config = strict();
        config.breaker.recovery = Millis::new(MINUTE);
        let mut scheduler = with(config, [Account::new("a")]);
        for _ in 0..3 {
            fail(&mut scheduler, Outcome::Network, START);
        }
        // Accounts younger than the grace are spared; the boundary itself is still young.
        let due = around(&scheduler, 10 * MINUTE, escalates);
        assert_eq!(due, [false, false, true]);
    }

    #[test]
    fn an_escalated_breaker_stays_away_longer() {
        let mut config = strict();
        config.breaker.escalation =
            Some(Escalation { grace: Millis::ZERO, ..Escalation::default() });
        let mut scheduler = with(config, [Account::new("a")]);
        for _ in 0..3 {
            fail(&mut scheduler, Outcome::Network, 0);
        }
        fail(&mut scheduler, Outcome::Network, OPEN);
        let longer = 15 * MINUTE * 3 / 2;
        let served = around(&scheduler, OPEN + longer, |it, now| it.select(&any(), now).is_ok());
        assert_eq!(served, [false, true, true]);
    }

    #[test]
    fn trouble_fades_with_the_health_window() {
        let mut scheduler = one();
        fail(&mut scheduler, Outcome::Network, START);
        let points =
            around(&scheduler, START + 5 * MINUTE, |it, now| it.inspect("a", now).unwrap().trouble);
        assert_eq!(points, [3, 0, 0]);
    }
}

mod sticky {
    use super::*;

    fn caller() -> Request<'static> {
        Request::new().caller("tenant:a:conversation")
    }

    fn two(config: Config) -> Scheduler {
        with(config, [Account::new("a"), Account::new("b")])
    }

    #[test]
    fn a_binding_lapses_when_idle() {
        let mut scheduler = two(strict());
        turn(&mut scheduler, "a", &caller(), START);
        let end = START + 30 * MINUTE;
        let paths = around(&scheduler, end, |it, now| {
            (it.peek(&caller(), now).is_some(), it.select(&caller(), now).unwrap().path)
        });
        let rank = (false, Path::Rank);
        assert_eq!(paths, [(true, Path::Sticky), rank, rank]);
    }

    #[test]
    fn a_binding_that_lapsed_counts_for_nothing() {
        let mut scheduler = two(strict());
        turn(&mut scheduler, "a", &caller(), START);
        let counts = around(&scheduler, START + 30 * MINUTE, |it, now| {
            let bound = it.inspect("a", now).unwrap().bound;
            let bindings = it.bindings(now);
            it.select(&any(), now).unwrap();
            (bound, bindings, it.stats().sticky.expiries)
        });
        assert_eq!(counts, [(1, 1, 0), (0, 0, 1), (0, 0, 1)]);
    }

    #[test]
    fn a_required_account_is_required_while_it_is_bound() {
        let mut scheduler = two(strict());
        let request = caller().affinity(Affinity::Require);
        turn(&mut scheduler, "b", &caller(), START);
        let by = around(&scheduler, START + 30 * MINUTE, |it, now| {
            it.select(&request, now).map(|grant| grant.account.to_string()).ok()
        });
        assert_eq!(by, [Some("b".to_owned()), None, None]);
    }

    #[test]
    fn another_account_of_the_trail_stays_warm_for_the_cache_lifetime() {
        let mut scheduler = two(strict());
        turn(&mut scheduler, "a", &caller(), START);
        turn(&mut scheduler, "b", &caller(), START + 1);
        scheduler.set_maintenance("b", true, at(START + 1)).unwrap();
        let paths = around(&scheduler, START + 5 * MINUTE, |it, now| {
            it.select(&caller(), now).unwrap().path
        });
        assert_eq!(paths, [Path::Warm, Path::Rank, Path::Rank]);
    }

    #[test]
    fn the_home_stays_home_for_the_cache_lifetime() {
        let mut config = strict();
        config.sticky.order = Order::HomeFirst;
        let mut scheduler = two(config);
        turn(&mut scheduler, "a", &caller(), START);
        turn(&mut scheduler, "b", &caller(), START + 1);
        let by = around(&scheduler, START + 5 * MINUTE, |it, now| {
            it.select(&caller(), now).unwrap().account.to_string()
        });
        assert_eq!(by, ["a", "b", "b"]);
    }

    #[test]
    fn a_quota_block_beyond_the_cache_lifetime_leaves_the_trail() {
        let mut config = strict();
        config.sticky.time_to_idle = Millis::from_mins(120);
        let mut scheduler = two(config);
        turn(&mut scheduler, "a", &caller(), START);
        let reset = Some(Reset::At(at(START + 60 * MINUTE)));
        fail(&mut scheduler, Outcome::quota_exhausted(reset), START);
        // What is left of the block is just more, or not more, than the lifetime of a cache.
        let kept = around(&scheduler, START + 55 * MINUTE, |it, now| {
            it.select(&caller(), now).unwrap();
            it.peek(&caller(), now).is_some()
        });
        assert_eq!(kept, [false, true, true]);
    }

    fn queueing() -> Scheduler {
        let mut config = strict();
        config.sticky.queue_on_pin = Millis::from_secs(30);
        let mut scheduler = with(config, [Account::new("a").max_in_flight(1), Account::new("b")]);
        turn(&mut scheduler, "a", &caller(), 0);
        scheduler.select_account("a", &any(), at(0)).unwrap();
        scheduler
    }

    #[test]
    fn waiting_ends_at_the_deadline() {
        let mut scheduler = queueing();
        let refusal = scheduler.select(&caller(), at(START)).unwrap_err();
        let wait = refusal.wait().unwrap().clone();
        let end = START + 30 * SECOND;
        assert_eq!((wait.wake_at, wait.deadline), (None, at(end)));
        assert_eq!(refusal.retry_at(), Some(at(end)));
        let answers = around(&scheduler, end, |it, now| {
            let answer = it.select(&caller().after_wait(wait.ticket), now);
            answer.map(|grant| grant.account.to_string()).map_err(|it| it.wait().is_some())
        });
        assert_eq!(answers, [Err(true), Ok("b".to_owned()), Ok("b".to_owned())]);
    }

    #[test]
    fn a_place_in_the_queue_lapses_at_the_deadline() {
        let mut scheduler = queueing();
        scheduler.select(&caller(), at(START)).unwrap_err();
        let waiting = around(&scheduler, START + 30 * SECOND, |it, now| {
            it.inspect("a", now).unwrap().waiting
        });
        assert_eq!(waiting, [1, 0, 0]);
    }

    #[test]
    fn a_block_is_worth_waiting_for_within_the_budget() {
        let mut config = strict();
        config.sticky.queue_on_pin = Millis::from_secs(30);
        let mut scheduler = two(config);
        turn(&mut scheduler, "a", &caller(), 0);
        let end = START + 60 * SECOND;
        let reset = Some(Reset::At(at(end)));
        fail(&mut scheduler, Outcome::rate_limited(reset), START);
        let wakes = around(&scheduler, end - 30 * SECOND, |it, now| {
            it.select(&caller(), now).err().map(|refusal| refusal.wait().unwrap().wake_at)
        });
        assert_eq!(wakes, [None, Some(Some(at(end))), Some(Some(at(end)))]);
    }

    #[test]
    fn a_caller_that_may_not_go_elsewhere_is_served_when_its_block_ends() {
        let mut config = strict();
        config.sticky.no_fallback = true;
        let mut scheduler = two(config);
        turn(&mut scheduler, "a", &caller(), 0);
        let reset = Some(Reset::After(Millis::from_mins(10)));
        fail(&mut scheduler, Outcome::rate_limited(reset), START);
        lifts(&scheduler, &caller(), Reason::Throttled, START + 10 * MINUTE);
    }

    #[test]
    fn a_caller_that_may_not_go_elsewhere_goes_when_its_binding_has_lapsed() {
        let mut config = strict();
        config.sticky.no_fallback = true;
        config.sticky.time_to_idle = Millis::from_mins(5);
        let mut scheduler = two(config);
        turn(&mut scheduler, "a", &caller(), START);
        let reset = Some(Reset::After(Millis::from_mins(10)));
        fail(&mut scheduler, Outcome::rate_limited(reset), START);
        let end = START + 5 * MINUTE;
        let refusal = scheduler.preview(&caller(), at(START)).unwrap_err();
        assert_eq!(refusal.retry_at(), Some(at(end)));
        let served = around(&scheduler, end, |it, now| it.select(&caller(), now).is_ok());
        assert_eq!(served, [false, true, true]);
    }
}

mod leases {
    use super::*;

    #[test]
    fn a_silent_lease_is_freed() {
        let mut scheduler = with(strict(), [Account::new("a").max_in_flight(1)]);
        take(&mut scheduler, &any(), START);
        let end = START + 15 * MINUTE;
        let answers = around(&scheduler, end, |it, now| {
            let seen = it.inspect("a", now).unwrap().in_flight;
            let preview = it.preview(&any(), now).is_ok();
            (seen, preview, it.select(&any(), now).is_ok(), it.stats().reaped)
        });
        assert_eq!(answers, [(1, false, false, 0), (0, true, true, 1), (0, true, true, 1)]);
        assert_eq!(scheduler.next_deadline(at(START)), Some(at(end)));
    }

    #[test]
    fn a_settle_after_the_timeout_is_late() {
        let mut scheduler = one();
        let ticket = take(&mut scheduler, &any(), START);
        let settled = around(&scheduler, START + 15 * MINUTE, |it, now| {
            it.settle(ticket, &Outcome::success(), now) == account_pool::Settlement::Settled
        });
        assert_eq!(settled, [true, false, false]);
    }

    #[test]
    fn a_touched_lease_is_silent_from_then_on() {
        let mut scheduler = one();
        let ticket = take(&mut scheduler, &any(), 0);
        assert!(scheduler.touch(ticket, at(START)));
        let held = around(&scheduler, START + 15 * MINUTE, |it, now| {
            it.inspect("a", now).unwrap().in_flight
        });
        assert_eq!(held, [1, 0, 0]);
    }

    #[test]
    fn reaping_by_hand_takes_what_has_been_silent_that_long() {
        let mut scheduler = one();
        take(&mut scheduler, &any(), START);
        let reaped =
            around(&scheduler, START + 5 * MINUTE, |it, now| it.reap(Millis::from_mins(5), now));
        assert_eq!(reaped, [0, 1, 1]);
    }
}

mod quota {
    use super::*;

    fn dry(reset: Option<u64>) -> Scheduler {
        let mut scheduler = one();
        let window = QuotaWindow::new(0.0);
        let window = reset.into_iter().fold(window, |window, reset| window.reset(at(reset)));
        let reading = QuotaReading::at(at(START)).window(window);
        scheduler.observe_quota("a", &reading, at(START)).unwrap();
        scheduler
    }

    #[test]
    fn a_dry_reading_blocks_until_its_reset() {
        let end = START + 3 * 60 * MINUTE;
        lifts(&dry(Some(end)), &any(), Reason::QuotaExhausted, end);
    }

    #[test]
    fn a_dry_reading_without_a_reset_blocks_for_its_age() {
        lifts(&dry(None), &any(), Reason::QuotaExhausted, START + 30 * MINUTE);
    }

    #[test]
    fn a_reading_past_its_reset_says_nothing() {
        let end = START + 3 * 60 * MINUTE;
        let worst = around(&dry(Some(end)), end, |it, now| {
            (it.inspect("a", now).unwrap().quota.worst, it.drought(now))
        });
        assert_eq!(worst, [(Some(0.0), true), (None, false), (None, false)]);
    }

    #[test]
    fn a_drought_ends_with_the_reset() {
        let mut scheduler = one();
        let end = START + MINUTE;
        let window = QuotaWindow::new(1.0).reset(at(end));
        let reading = QuotaReading::at(at(START)).window(window);
        scheduler.observe_quota("a", &reading, at(START)).unwrap();
        let drought = around(&scheduler, end, |it, now| it.drought(now));
        assert_eq!(drought, [true, false, false]);
    }

    #[test]
    fn a_reading_that_comes_late_blocks_from_when_it_was_taken() {
        let mut scheduler = one();
        let reading = QuotaReading::at(at(START)).window(QuotaWindow::new(0.0));
        let blocked = around(&scheduler, START + 30 * MINUTE, |it, now| {
            it.observe_quota("a", &reading, now).unwrap();
            it.select(&any(), now).is_err()
        });
        assert_eq!(blocked, [true, false, false]);
        scheduler.observe_quota("a", &reading, at(START + MINUTE)).unwrap();
        let refusal = scheduler.preview(&any(), at(START + MINUTE)).unwrap_err();
        assert_eq!(refusal.retry_at(), Some(at(START + 30 * MINUTE)));
    }

    #[test]
    fn a_newer_reading_lifts_the_block_and_one_as_old_does_not() {
        let mut scheduler = one();
        fail(&mut scheduler, Outcome::quota_exhausted(None), START);
        let served = around(&scheduler, START, |it, observed_at| {
            let reading = QuotaReading::at(observed_at).window(QuotaWindow::new(50.0));
            it.observe_quota("a", &reading, at(START + 1)).unwrap();
            it.select(&any(), at(START + 1)).is_ok()
        });
        assert_eq!(served, [false, false, true]);
    }
}
