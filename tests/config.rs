//! The configuration: what it reads and writes, that replacing it loses nothing, and that every
//! switch has both of its behaviours.

#![allow(clippy::unwrap_used, reason = "a value that is not there is a failed test")]

use std::collections::BTreeSet;

use account_pool::config::{
    BindAt, BindingLimit, Degraded, Order, Recency, Refresh, Shard, StickyMode, Term, Ties,
};
use account_pool::{
    Account, AccountId, BlockScope, Config, Dimension, Entitlement, Millis, Outcome, Path, Plan,
    QuotaReading, QuotaWindow, Reason, Request, Reset, Scheduler, Scope, Settlement, Status,
    Ticket, Tier, Timestamp, TrafficClass, Unavailable,
};

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

const MINUTE: u64 = 60_000;

fn default_with(change: impl FnOnce(&mut Config)) -> Config {
    let mut config = Config::default();
    config.rank.shard = Shard::Off;
    change(&mut config);
    config
}

fn with(config: Config, accounts: impl IntoIterator<Item = Account>) -> Scheduler {
    let mut scheduler = Scheduler::new(config).unwrap();
    for account in accounts {
        scheduler.add(account, at(0)).unwrap();
    }
    scheduler
}

fn two(change: impl FnOnce(&mut Config)) -> Scheduler {
    with(default_with(change), [Account::new("a"), Account::new("b")])
}

fn three(change: impl FnOnce(&mut Config)) -> Scheduler {
    with(default_with(change), ["a", "b", "c"].map(Account::new))
}

fn any() -> Request<'static> {
    Request::new()
}

fn caller() -> Request<'static> {
    by("c")
}

fn by(caller: &str) -> Request<'static> {
    Request::new().caller(caller)
}

/// The account and path of a selection, cancelled at once.
fn pick(scheduler: &mut Scheduler, request: &Request<'_>, now: u64) -> (String, Path) {
    let grant = scheduler.select(request, at(now)).unwrap();
    scheduler.cancel(grant.ticket, at(now));
    (grant.account.to_string(), grant.path)
}

fn account(scheduler: &mut Scheduler, request: &Request<'_>, now: u64) -> String {
    pick(scheduler, request, now).0
}

fn path(scheduler: &mut Scheduler, request: &Request<'_>, now: u64) -> Path {
    pick(scheduler, request, now).1
}

/// A success on that very account.
fn turn(scheduler: &mut Scheduler, account: &str, request: &Request<'_>, now: u64) {
    let ticket = hold(scheduler, account, request, now);
    scheduler.settle(ticket, &Outcome::success(), at(now));
}

fn hold(scheduler: &mut Scheduler, account: &str, request: &Request<'_>, now: u64) -> Ticket {
    scheduler.select_account(account, request, at(now)).unwrap().ticket
}

fn refused(scheduler: &mut Scheduler, request: &Request<'_>, now: u64) -> Unavailable {
    scheduler.select(request, at(now)).unwrap_err()
}

fn fail(scheduler: &mut Scheduler, account: &str, outcome: Outcome, now: u64) {
    scheduler.observe(account, &any(), &outcome, at(now)).unwrap();
}

fn throttled(millis: u64) -> Outcome {
    Outcome::rate_limited(Some(Reset::After(Millis::new(millis))))
}

fn block(scheduler: &mut Scheduler, account: &str, until: u64, now: u64) {
    let scope = BlockScope::Account;
    scheduler.block(account, &scope, Dimension::Throttle, at(until), at(now)).unwrap();
}

fn read(scheduler: &mut Scheduler, account: &str, reading: &QuotaReading) {
    let now = reading.observed_at;
    scheduler.observe_quota(account, reading, now).unwrap();
}

fn left(percent: f64) -> QuotaReading {
    QuotaReading::at(at(0)).window(QuotaWindow::new(percent))
}

fn bound(scheduler: &Scheduler, account: &str, now: u64) -> u32 {
    scheduler.inspect(account, at(now)).unwrap().bound
}

mod text {
    use super::*;

    fn round_trip(config: &Config) -> Config {
        serde_json::from_str(&serde_json::to_string(config).unwrap()).unwrap()
    }

    #[test]
    fn both_profiles_survive_a_round_trip() {
        for config in [Config::default(), Config::windsurf()] {
            assert_eq!(round_trip(&config), config);
            assert_eq!(config.validate(), Ok(()));
        }
    }

    #[test]
    fn every_switch_survives_a_round_trip() {
        let mut config = Config::default();
        config.sticky.mode = StickyMode::Drain;
        config.sticky.order = Order::HomeFirst;
        config.sticky.bind_at = BindAt::Select;
        config.sticky.refresh = Refresh::OnLookup;
        config.sticky.binding_limit = Some(BindingLimit { callers: 7, refuse: true });
        config.rank.ties = Ties::Health { headroom_steps: 4, in_flight_slack: 1 };
        config.rank.shard = Shard::Modulo;
        config.rank.recency = Recency::Millisecond;
        config.rank.terms = vec![Term::QuotaReset, Term::BoundCallers, Term::WeightedInFlight];
        config.soft.rate_used_percent = Some(80.5);
        config.breaker.escalation = None;
        config.breaker.threshold = None;
        config.degraded = Degraded::Inferred;
        config.lease_timeout = None;
        config.cooldown.throttle.cap = Millis::MAX;
        config.aliases.insert("fast".into(), "haiku".into());
        config.unmetered.insert("haiku".into());
        assert_eq!(round_trip(&config), config);
    }

    #[test]
    fn what_is_left_out_keeps_its_default() {
        let parse = |json: &str| serde_json::from_str::<Config>(json).unwrap();
        assert_eq!(parse("{}"), Config::default());
        let json = r#"{
            "sticky": {"trail": 2},
            "breaker": {"escalation": {"factor": 3.0}},
            "lease_timeout": null
        }"#;
        let mut expected = Config::default();
        expected.sticky.trail = 2;
        expected.breaker.escalation.as_mut().unwrap().factor = 3.0;
        expected.lease_timeout = None;
        assert_eq!(parse(json), expected);
    }

    #[test]
    fn spans_are_milliseconds_and_switches_are_words() {
        let json = serde_json::to_value(Config::default()).unwrap();
        assert_eq!(json["sticky"]["time_to_idle"], 1_800_000);
        assert_eq!(json["sticky"]["order"], "most_recent");
        assert_eq!(json["degraded"], "transient");
        assert_eq!(json["rank"]["terms"][0], "model_cooldown");
    }
}

mod replacement {
    use super::*;

    /// A scheduler in the middle of its work.
    fn busy() -> (Scheduler, Ticket) {
        let accounts = [Account::new("a").rpm(10), Account::new("b").tokens_per_minute(500)];
        let mut scheduler = with(Config::default(), accounts);
        turn(&mut scheduler, "a", &caller().model("m"), 1);
        turn(&mut scheduler, "b", &by("d").cost(100), 2);
        fail(&mut scheduler, "b", throttled(60_000), 3);
        fail(&mut scheduler, "a", Outcome::Network, 4);
        read(&mut scheduler, "a", &QuotaReading::at(at(4)).window(QuotaWindow::new(40.0)));
        let held = hold(&mut scheduler, "a", &caller(), 5);
        (scheduler, held)
    }

    #[test]
    fn no_state_is_lost() {
        let (mut scheduler, held) = busy();
        let views = |it: &Scheduler| ["a", "b"].map(|id| it.inspect(id, at(6)).unwrap());
        let (before, stats) = (views(&scheduler), scheduler.stats().clone());
        let binding = scheduler.peek(&caller().model("m"), at(6));
        let mut config = Config::default();
        config.degraded = Degraded::Off;
        config.sticky.trail = 1;
        config.sticky.capacity = 2;
        config.rank.ties = Ties::Health { headroom_steps: 4, in_flight_slack: 0 };
        scheduler.set_config(config, at(6)).unwrap();
        assert_eq!(views(&scheduler), before);
        assert_eq!(scheduler.stats(), &stats);
        assert_eq!(scheduler.peek(&caller().model("m"), at(6)), binding);
        assert_eq!(scheduler.settle(held, &Outcome::success(), at(6)), Settlement::Settled);
    }

    #[test]
    fn there_and_back_is_no_change() {
        let (mut scheduler, _held) = busy();
        scheduler.select(&any(), at(5)).unwrap();
        let before = scheduler.clone();
        let config = scheduler.config().clone();
        scheduler.set_config(Config::windsurf(), at(5)).unwrap();
        assert_ne!(scheduler, before);
        scheduler.set_config(config, at(5)).unwrap();
        assert_eq!(scheduler, before);
    }

    #[test]
    fn deadlines_stay_and_new_ones_follow_the_new_policy() {
        let mut scheduler = two(|_| {});
        fail(&mut scheduler, "a", Outcome::rate_limited(None), 0);
        let config = default_with(|it| it.cooldown.throttle.base = Millis::from_secs(40));
        scheduler.set_config(config, at(1)).unwrap();
        fail(&mut scheduler, "b", Outcome::rate_limited(None), 1);
        let until = |id| scheduler.inspect(id, at(1)).unwrap().blocks[0].until;
        assert_eq!((until("a"), until("b")), (at(15_000), at(40_001)));
    }

    #[test]
    fn a_smaller_table_evicts_the_least_recently_used() {
        let mut scheduler = two(|_| {});
        for (now, caller) in (0..).zip(["x", "y", "z"]) {
            turn(&mut scheduler, "a", &by(caller), now);
        }
        scheduler.set_config(default_with(|it| it.sticky.capacity = 1), at(3)).unwrap();
        assert_eq!((scheduler.bindings(at(3)), bound(&scheduler, "a", 3)), (1, 1));
        assert!(scheduler.peek(&by("z"), at(3)).is_some());
        assert_eq!(scheduler.stats().sticky.evictions, 2);
    }

    #[test]
    fn bound_callers_count_under_the_first_account_of_the_new_order() {
        let mut scheduler = two(|_| {});
        turn(&mut scheduler, "a", &caller(), 0);
        turn(&mut scheduler, "b", &caller(), 1);
        assert_eq!((bound(&scheduler, "a", 1), bound(&scheduler, "b", 1)), (0, 1));
        let order = default_with(|it| it.sticky.order = Order::HomeFirst);
        scheduler.set_config(order, at(1)).unwrap();
        assert_eq!((bound(&scheduler, "a", 1), bound(&scheduler, "b", 1)), (1, 0));
        let home_first = default_with(|it| {
            it.sticky.order = Order::HomeFirst;
            it.sticky.binding_limit = Some(BindingLimit { callers: 1, refuse: true });
        });
        scheduler.set_config(home_first, at(1)).unwrap();
        assert_eq!((bound(&scheduler, "a", 1), bound(&scheduler, "b", 1)), (1, 0));
        assert_eq!(account(&mut scheduler, &by("new"), 1), "b");
    }

    #[test]
    fn a_longer_life_does_not_bring_back_what_has_lapsed() {
        let mut scheduler = two(|_| {});
        turn(&mut scheduler, "a", &caller(), 0);
        turn(&mut scheduler, "a", &by("d"), 10 * MINUTE);
        assert_eq!(account(&mut scheduler, &any(), 30 * MINUTE), "b");
        assert_eq!(
            (scheduler.bindings(at(30 * MINUTE)), scheduler.stats().sticky.expiries),
            (1, 1)
        );
        let longer = default_with(|it| {
            it.sticky.time_to_idle = Millis::from_mins(60);
            it.rank.terms = vec![Term::BoundCallers];
        });
        let now = 31 * MINUTE;
        scheduler.set_config(longer, at(now)).unwrap();
        assert_eq!(pick(&mut scheduler, &caller(), now), ("b".to_owned(), Path::Rank));
        assert_eq!((scheduler.bindings(at(now)), bound(&scheduler, "a", now)), (1, 1));
        assert_eq!(pick(&mut scheduler, &by("d"), now), ("a".to_owned(), Path::Sticky));
    }

    #[test]
    fn a_shorter_life_lapses_bindings_at_once() {
        let mut scheduler = two(|_| {});
        turn(&mut scheduler, "a", &caller(), 0);
        let shorter = default_with(|it| it.sticky.time_to_idle = Millis::from_mins(1));
        scheduler.set_config(shorter, at(2 * MINUTE)).unwrap();
        assert_eq!(scheduler.bindings(at(2 * MINUTE)), 0);
        assert_eq!(path(&mut scheduler, &caller(), 2 * MINUTE), Path::Rank);
    }

    #[test]
    fn stickiness_switched_off_and_on_keeps_its_bindings() {
        let mut scheduler = two(|_| {});
        turn(&mut scheduler, "b", &caller(), 0);
        scheduler.set_config(default_with(|it| it.sticky.mode = StickyMode::Off), at(1)).unwrap();
        assert_eq!(path(&mut scheduler, &caller(), 1), Path::Rank);
        scheduler.set_config(default_with(|_| {}), at(2)).unwrap();
        assert_eq!(pick(&mut scheduler, &caller(), 2), ("b".to_owned(), Path::Sticky));
    }

    #[test]
    fn a_new_plan_keeps_the_usage() {
        let mut scheduler = with(Config::default(), [Account::new("a").rpm(10)]);
        for _ in 0..5 {
            pick(&mut scheduler, &any(), 0);
        }
        scheduler.set_plan("a", &Plan::default().rpm(5), at(1)).unwrap();
        assert_eq!(refused(&mut scheduler, &any(), 1).tally().count(Reason::RateLimit), 1);
        scheduler.set_plan("a", &Plan::default().rpm(6), at(1)).unwrap();
        assert_eq!(account(&mut scheduler, &any(), 1), "a");
    }
}

mod stickiness {
    use super::*;

    /// Served by `a`, then by `b`.
    fn moved(order: Order) -> Scheduler {
        let mut scheduler = three(|it| it.sticky.order = order);
        turn(&mut scheduler, "a", &caller(), 0);
        turn(&mut scheduler, "b", &caller(), 1);
        scheduler
    }

    #[test]
    fn order() {
        assert_eq!(account(&mut moved(Order::MostRecent), &caller(), 2), "b");
        assert_eq!(account(&mut moved(Order::HomeFirst), &caller(), 2), "a");
        for (order, blocked, next) in [(Order::MostRecent, "b", "a"), (Order::HomeFirst, "a", "b")]
        {
            let mut scheduler = moved(order);
            block(&mut scheduler, blocked, 100, 2);
            assert_eq!(pick(&mut scheduler, &caller(), 2), (next.to_owned(), Path::Warm));
        }
    }

    #[test]
    fn trail() {
        for (length, warm) in [(1, Path::Rank), (2, Path::Warm)] {
            let mut scheduler = three(|it| it.sticky.trail = length);
            turn(&mut scheduler, "a", &caller(), 0);
            turn(&mut scheduler, "b", &caller(), 1);
            block(&mut scheduler, "b", 100, 2);
            assert_eq!(path(&mut scheduler, &caller(), 2), warm);
        }
    }

    #[test]
    fn drop_when_blocked() {
        for dropped in [false, true] {
            let mut scheduler = two(|it| it.sticky.drop_when_blocked = dropped);
            turn(&mut scheduler, "a", &caller(), 0);
            block(&mut scheduler, "a", 100, 1);
            assert_eq!(pick(&mut scheduler, &caller(), 1), ("b".to_owned(), Path::Rank));
            assert_eq!(scheduler.peek(&caller(), at(1)).is_none(), dropped);
            let back = path(&mut scheduler, &caller(), 100);
            assert_eq!(back, if dropped { Path::Rank } else { Path::Sticky });
        }
    }

    #[test]
    fn no_fallback() {
        let blocked = |no_fallback| {
            let mut scheduler = two(|it| it.sticky.no_fallback = no_fallback);
            turn(&mut scheduler, "a", &caller(), 0);
            block(&mut scheduler, "a", 100, 1);
            scheduler
        };
        assert_eq!(account(&mut blocked(false), &caller(), 1), "b");
        let mut pinned = blocked(true);
        let refusal = refused(&mut pinned, &caller(), 1);
        assert_eq!(refusal.retry_at(), Some(at(100)));
        assert!(pinned.peek(&caller(), at(1)).is_some(), "the binding stays");
        pinned.set_status("a", Status::Disabled, at(1)).unwrap();
        assert_eq!(account(&mut pinned, &caller(), 1), "b", "a lasting block moves the caller");
    }

    #[test]
    fn a_caller_that_may_not_go_elsewhere_has_one_account() {
        for (no_fallback, trail) in [(false, 2), (true, 1)] {
            let mut scheduler = two(|it| it.sticky.no_fallback = no_fallback);
            turn(&mut scheduler, "a", &caller(), 0);
            turn(&mut scheduler, "b", &caller(), 1);
            let accounts = scheduler.peek(&caller(), at(1)).unwrap().trail;
            assert_eq!((accounts[0].as_str(), accounts.len()), ("b", trail));
        }
    }

    #[test]
    fn bind_at() {
        for (bind_at, second) in [(BindAt::Success, "b"), (BindAt::Select, "a")] {
            let mut scheduler = two(|it| it.sticky.bind_at = bind_at);
            let first = scheduler.select(&caller(), at(0)).unwrap();
            let parallel = scheduler.select(&caller(), at(0)).unwrap();
            assert_eq!((first.account.as_str(), parallel.account.as_str()), ("a", second));
        }
    }

    #[test]
    fn only_a_success_binds() {
        let outcomes = [
            Outcome::Cancelled,
            Outcome::ClientFault,
            Outcome::Timeout,
            Outcome::Network,
            Outcome::Internal,
            throttled(1_000),
        ];
        for outcome in outcomes {
            let mut scheduler = two(|_| {});
            let ticket = hold(&mut scheduler, "a", &caller(), 0);
            scheduler.settle(ticket, &outcome, at(0));
            assert_eq!(scheduler.bindings(at(0)), 0, "{outcome:?}");
        }
    }

    #[test]
    fn refresh() {
        for (refresh, path_then) in
            [(Refresh::OnSuccess, Path::Rank), (Refresh::OnLookup, Path::Sticky)]
        {
            let mut scheduler = two(|it| it.sticky.refresh = refresh);
            turn(&mut scheduler, "a", &caller(), 0);
            assert_eq!(path(&mut scheduler, &caller(), 29 * MINUTE), Path::Sticky);
            assert_eq!(path(&mut scheduler, &caller(), 31 * MINUTE), path_then);
        }
    }

    #[test]
    fn a_peek_refreshes_nothing() {
        let mut scheduler = two(|it| it.sticky.refresh = Refresh::OnLookup);
        turn(&mut scheduler, "a", &caller(), 0);
        assert!(scheduler.peek(&caller(), at(29 * MINUTE)).is_some());
        assert_eq!(path(&mut scheduler, &caller(), 31 * MINUTE), Path::Rank);
    }

    #[test]
    fn bind_by_caller_only() {
        for (only, path_on_other) in [(false, Path::Rank), (true, Path::Sticky)] {
            let mut scheduler = two(|it| it.sticky.bind_by_caller_only = only);
            turn(&mut scheduler, "b", &caller().model("m").selector("s"), 0);
            for other in [caller().model("other"), caller().model("m"), caller()] {
                assert_eq!(path(&mut scheduler, &other, 1), path_on_other);
            }
            let same = caller().model("m").selector("s");
            assert_eq!(pick(&mut scheduler, &same, 1), ("b".to_owned(), Path::Sticky));
        }
    }

    fn pin(pool: &[&str], tiers: bool, caller: &str) -> (String, Path) {
        let config = default_with(|it| {
            it.sticky.bind_by_caller_only = true;
            it.sticky.no_fallback = true;
        });
        let accounts = pool
            .iter()
            .zip(0..)
            .map(|(&id, tier)| Account::new(id).tier(Tier(if tiers { tier } else { 0 })));
        pick(&mut with(config, accounts), &by(caller), 0)
    }

    #[test]
    fn a_strict_pin_is_the_same_whatever_the_rank_and_the_order() {
        let callers: Vec<String> = (0..50).map(|number| format!("caller-{number}")).collect();
        for caller in &callers {
            let (account, path) = pin(&["a", "b", "c"], false, caller);
            assert_eq!(path, Path::Pin);
            assert_eq!(pin(&["c", "a", "b"], true, caller).0, account);
            let rest: Vec<&str> = ["a", "b", "c"].into_iter().filter(|&id| id != account).collect();
            let gone = if account == "a" { "c" } else { "a" };
            let without: Vec<&str> = ["a", "b", "c"].into_iter().filter(|&id| id != gone).collect();
            assert_eq!(pin(&without, false, caller).0, account, "another account has gone");
            assert!(rest.contains(&pin(&rest, false, caller).0.as_str()));
        }
        let on_a = callers.iter().filter(|caller| pin(&["a", "b", "c"], false, caller).0 == "a");
        assert!((5..30).contains(&on_a.count()), "callers spread over the accounts");
    }

    #[test]
    fn without_the_strict_pin_the_rank_decides() {
        let config = default_with(|it| it.sticky.bind_by_caller_only = true);
        let accounts = [Account::new("a").tier(Tier(1)), Account::new("b")];
        let mut scheduler = with(config, accounts);
        for number in 0..20 {
            let caller = format!("caller-{number}");
            assert_eq!(pick(&mut scheduler, &by(&caller), 0), ("b".to_owned(), Path::Rank));
        }
    }

    fn full(change: impl FnOnce(&mut Config)) -> Scheduler {
        let accounts = [Account::new("a").max_in_flight(1), Account::new("b")];
        let mut scheduler = with(default_with(change), accounts);
        turn(&mut scheduler, "a", &caller(), 0);
        hold(&mut scheduler, "a", &any(), 0);
        scheduler
    }

    #[test]
    fn queue_on_pin() {
        assert_eq!(account(&mut full(|_| {}), &caller(), 1), "b");
        let mut scheduler = full(|it| it.sticky.queue_on_pin = Millis::from_secs(5));
        let refusal = refused(&mut scheduler, &caller(), 1);
        let wait = refusal.wait().unwrap();
        assert_eq!((wait.account.as_str(), wait.deadline), ("a", at(5_001)));
        assert_eq!(scheduler.inspect("a", at(1)).unwrap().waiting, 1);
        assert_eq!((scheduler.stats().waits, scheduler.stats().refused), (1, 0));
    }

    #[test]
    fn max_waiters() {
        let mut scheduler = full(|it| {
            it.sticky.queue_on_pin = Millis::from_secs(5);
            it.sticky.max_waiters = 2;
        });
        let first = refused(&mut scheduler, &caller(), 1);
        assert!(refused(&mut scheduler, &caller(), 1).wait().is_some());
        assert_eq!(account(&mut scheduler, &caller(), 1), "b", "two wait already");
        let again = caller().after_wait(first.wait().unwrap().ticket);
        assert!(refused(&mut scheduler, &again, 2).wait().is_some(), "it keeps its own place");
        assert!(scheduler.give_up(first.wait().unwrap().ticket));
        assert!(refused(&mut scheduler, &caller(), 3).wait().is_some());
    }

    #[test]
    fn binding_limit() {
        let limited = |refuse| {
            let mut scheduler = with(
                default_with(|it| {
                    it.sticky.binding_limit = Some(BindingLimit { callers: 1, refuse });
                }),
                [Account::new("a")],
            );
            turn(&mut scheduler, "a", &caller(), 0);
            scheduler
        };
        let mut soft = limited(false);
        turn(&mut soft, "a", &by("d"), 1);
        assert_eq!(soft.peek(&by("d"), at(1)), None, "served without a binding");
        let mut hard = limited(true);
        let refusal = refused(&mut hard, &by("d"), 1);
        assert_eq!(refusal.tally().count(Reason::BindingLimit), 1);
        assert_eq!(account(&mut hard, &any(), 1), "a", "anonymous callers bind nothing");
        assert_eq!(path(&mut hard, &caller(), 1), Path::Sticky);
    }

    #[test]
    fn a_binding_that_lapsed_frees_its_place_under_the_limit() {
        let config = default_with(|it| {
            it.sticky.binding_limit = Some(BindingLimit { callers: 1, refuse: true });
        });
        let mut scheduler = with(config, [Account::new("a")]);
        turn(&mut scheduler, "a", &caller(), 0);
        let now = at(30 * MINUTE);
        assert!(scheduler.preview(&by("d"), now).is_ok(), "the preview says what follows");
        assert!(scheduler.select(&by("d"), now).is_ok());
    }

    #[test]
    fn a_binding_that_lapsed_does_not_count_in_the_order() {
        let mut scheduler = two(|it| it.rank.terms = vec![Term::BoundCallers]);
        turn(&mut scheduler, "a", &caller(), 0);
        let now = at(30 * MINUTE);
        let preview = scheduler.preview(&any(), now).unwrap();
        let grant = scheduler.select(&any(), now).unwrap();
        assert_eq!((preview.account.as_str(), grant.account.as_str()), ("a", "a"));
        assert_eq!((preview.tied, grant.tied), (2, 2));
    }

    #[test]
    fn mode_drain() {
        let mut scheduler = two(|_| {});
        turn(&mut scheduler, "b", &caller(), 0);
        scheduler.set_config(default_with(|it| it.sticky.mode = StickyMode::Drain), at(1)).unwrap();
        turn(&mut scheduler, "a", &by("new"), 1);
        assert_eq!(scheduler.peek(&by("new"), at(1)), None);
        turn(&mut scheduler, "b", &caller(), 29 * MINUTE);
        assert_eq!(path(&mut scheduler, &caller(), 58 * MINUTE), Path::Sticky, "it is refreshed");
    }

    #[test]
    fn mode_off() {
        let mut scheduler = two(|it| it.sticky.mode = StickyMode::Off);
        turn(&mut scheduler, "b", &caller(), 0);
        assert_eq!(scheduler.bindings(at(0)), 0);
        assert_eq!(scheduler.bind(&caller(), "b", at(0)), Ok(()));
        assert_eq!(path(&mut scheduler, &caller(), 1), Path::Rank);
        assert_eq!(scheduler.stats().sticky.misses, 0);
    }

    #[test]
    fn a_full_table_evicts_and_never_refuses() {
        let mut scheduler = two(|it| it.sticky.capacity = 2);
        for (now, key) in (0..).zip(["x", "y", "z"]) {
            turn(&mut scheduler, "a", &by(key), now);
        }
        assert_eq!(scheduler.bindings(at(3)), 2);
        assert_eq!(scheduler.peek(&by("x"), at(3)), None);
        assert_eq!(scheduler.stats().sticky.evictions, 1);
    }
}

mod ranking {
    use super::*;

    #[test]
    fn ties() {
        // Warm accounts differ in recency alone.
        let warm = |ties| {
            let mut scheduler = two(|it| {
                it.rank.ties = ties;
                it.rank.shard = Shard::Rendezvous;
            });
            for now in 0..10 {
                pick(&mut scheduler, &any(), now);
            }
            scheduler
        };
        let health = Ties::Health { headroom_steps: 4, in_flight_slack: 0 };
        let exact = warm(Ties::Exact).preview(&caller(), at(10)).unwrap();
        assert_eq!((exact.account.as_str(), exact.tied), ("a", 1));
        let mut scheduler = warm(health);
        let places: Vec<String> =
            (10..16).map(|now| account(&mut scheduler, &caller(), now)).collect();
        assert!(places.iter().all(|place| *place == places[0]), "a caller keeps its place");
        assert_eq!(scheduler.preview(&caller(), at(16)).unwrap().tied, 2);
        let rotation: Vec<String> =
            (16..20).map(|now| account(&mut scheduler, &any(), now)).collect();
        assert_ne!(rotation[0], rotation[1], "anonymous traffic rotates");
        assert_eq!(rotation[0], rotation[2]);
    }

    #[test]
    fn in_flight_slack() {
        for (in_flight_slack, tied) in [(0, 1), (1, 2)] {
            let mut scheduler = two(|it| {
                it.rank.ties = Ties::Health { headroom_steps: 4, in_flight_slack };
            });
            hold(&mut scheduler, "a", &any(), 0);
            assert_eq!(scheduler.preview(&any(), at(0)).unwrap().tied, tied);
        }
    }

    fn spread(shard: Shard, accounts: &[&str]) -> Vec<String> {
        let callers = (0..60).map(|number| format!("caller-{number}"));
        let place = |caller: String| {
            let accounts = accounts.iter().map(|&id| Account::new(id));
            account(&mut with(default_with(|it| it.rank.shard = shard), accounts), &by(&caller), 0)
        };
        callers.map(place).collect()
    }

    #[test]
    fn shard_rendezvous_moves_only_the_callers_of_the_account_that_leaves() {
        let before = spread(Shard::Rendezvous, &["a", "b", "c", "d"]);
        let after = spread(Shard::Rendezvous, &["a", "b", "c"]);
        for (before, after) in before.iter().zip(&after) {
            assert!(before == after || before == "d", "{before} became {after}");
        }
        assert!(before.iter().any(|place| place == "d"));
    }

    #[test]
    fn shard_modulo_depends_on_the_number_tied() {
        let before = spread(Shard::Modulo, &["a", "b", "c", "d"]);
        let after = spread(Shard::Modulo, &["a", "b", "c"]);
        let moved = before.iter().zip(&after).filter(|(before, after)| before != after);
        assert!(moved.filter(|(before, _)| *before != "d").count() > 20);
        assert!(["a", "b", "c", "d"].iter().all(|id| before.iter().any(|place| place == id)));
    }

    #[test]
    fn shard_off_takes_the_first() {
        assert!(spread(Shard::Off, &["a", "b", "c"]).iter().all(|place| place == "a"));
    }

    #[test]
    fn weights_draw_callers_in_proportion() {
        let config = default_with(|it| it.rank.shard = Shard::Rendezvous);
        let callers = (0..400).map(|number| format!("caller-{number}"));
        let heavy = callers.filter(|caller| {
            let accounts = [Account::new("a").weight(3.0), Account::new("b")];
            account(&mut with(config.clone(), accounts), &by(caller), 0) == "a"
        });
        assert!((260..340).contains(&heavy.count()), "three of four");
    }

    #[test]
    fn recency() {
        let within_one_millisecond = |recency| {
            let mut scheduler = three(|it| it.rank.recency = recency);
            let turns = (0..6).map(|_| account(&mut scheduler, &any(), 5));
            turns.collect::<Vec<_>>().concat()
        };
        assert_eq!(within_one_millisecond(Recency::Turn), "abcabc");
        assert_eq!(within_one_millisecond(Recency::Millisecond), "abcaaa");
    }

    #[test]
    fn terms_decide_in_their_order() {
        let first = |terms: &[Term]| {
            let accounts = [Account::new("a").tier(Tier(1)), Account::new("b")];
            let mut scheduler = with(default_with(|it| it.rank.terms = terms.to_vec()), accounts);
            hold(&mut scheduler, "b", &any(), 0);
            account(&mut scheduler, &any(), 0)
        };
        assert_eq!(first(&[Term::Tier, Term::InFlight]), "b");
        assert_eq!(first(&[Term::InFlight, Term::Tier]), "a");
    }

    #[test]
    fn every_term_prefers_the_better_account() {
        type Change = fn(&mut Scheduler);
        let worse: [(Term, Change); 9] = [
            (Term::ModelCooldown, |it| {
                let limited = Outcome::RateLimited { scope: Scope::Model, reset: None };
                it.observe("a", &any().model("m"), &limited, at(0)).unwrap();
            }),
            (Term::Tier, |it| it.set_plan("a", &Plan::default().tier(Tier(1)), at(0)).unwrap()),
            (Term::InFlight, |it| {
                hold(it, "a", &any(), 0);
            }),
            (Term::WeightedInFlight, |it| {
                it.set_plan("b", &Plan::default().weight(3.0), at(0)).unwrap();
                hold(it, "a", &any(), 0);
                hold(it, "b", &any(), 0);
                hold(it, "b", &any(), 0);
            }),
            (Term::Trouble, |it| fail(it, "a", Outcome::Network, 0)),
            (Term::Quota, |it| read(it, "a", &left(50.0))),
            (Term::Headroom, |it| {
                it.set_plan("a", &Plan::default().rpm(1_000), at(0)).unwrap();
                pick(it, &any(), 0);
            }),
            (Term::BoundCallers, |it| turn(it, "a", &caller(), 0)),
            (Term::QuotaReset, |it| {
                let soon = QuotaWindow::new(50.0).reset(at(5_000));
                read(it, "b", &QuotaReading::at(at(0)).window(soon));
            }),
        ];
        for (term, change) in worse {
            let mut scheduler = two(|it| it.rank.terms = vec![term]);
            assert_eq!(scheduler.preview(&any(), at(0)).unwrap().account, "a");
            change(&mut scheduler);
            assert_eq!(scheduler.preview(&any(), at(0)).unwrap().account, "b", "{term:?}");
        }
    }

    #[test]
    fn soft_rate_limit() {
        for (percent, unbound) in [(None, "a"), (Some(50.0), "b")] {
            let accounts = [Account::new("a").rpm(10), Account::new("b").tier(Tier(1)).rpm(10)];
            let config = default_with(|it| it.soft.rate_used_percent = percent);
            let mut scheduler = with(config, accounts);
            turn(&mut scheduler, "a", &caller(), 0);
            for _ in 0..4 {
                pick(&mut scheduler, &any(), 0);
            }
            assert_eq!(account(&mut scheduler, &caller(), 0), "a", "a bound caller stays");
            assert_eq!(account(&mut scheduler, &any(), 0), unbound);
            scheduler.set_maintenance("b", true, at(0)).unwrap();
            assert_eq!(account(&mut scheduler, &any(), 0), "a", "a soft limit never refuses");
        }
    }

    #[test]
    fn soft_quota_limit() {
        for (percent, unbound) in [(None, "a"), (Some(20.0), "b")] {
            let accounts = [Account::new("a"), Account::new("b").tier(Tier(1))];
            let mut scheduler =
                with(default_with(|it| it.soft.quota_left_percent = percent), accounts);
            read(&mut scheduler, "a", &left(20.0));
            assert_eq!(account(&mut scheduler, &any(), 0), "a");
            read(&mut scheduler, "a", &left(19.9));
            assert_eq!(account(&mut scheduler, &any(), 0), unbound);
        }
    }

    #[test]
    fn fallback_only() {
        for (reserve, first) in [(false, "a"), (true, "b")] {
            let accounts =
                [Account::new("a").fallback_only(reserve), Account::new("b").tier(Tier(9))];
            let mut scheduler = with(default_with(|_| {}), accounts);
            assert_eq!(account(&mut scheduler, &any(), 0), first);
            turn(&mut scheduler, "a", &caller(), 0);
            assert_eq!(account(&mut scheduler, &caller(), 1), first, "it gives conversations back");
        }
    }

    #[test]
    fn new_account_baseline() {
        for (baseline, next) in [(true, "a"), (false, "c")] {
            let mut scheduler = two(|it| it.new_account_baseline = baseline);
            for now in 0..10 {
                account(&mut scheduler, &any(), now);
            }
            scheduler.add(Account::new("c"), at(10)).unwrap();
            assert_eq!(account(&mut scheduler, &any(), 11), next);
        }
    }

    /// When a newcomer counts as used, in a pool of so many accounts of which each was used at the
    /// time that `used` gives.
    fn entry(accounts: u64, used: impl Fn(u64) -> u64) -> u64 {
        let id = |number: u64| format!("a{number}");
        let declared = (0..accounts).map(|number| Account::new(id(number)));
        let mut scheduler = with(default_with(|it| it.new_account_baseline = false), declared);
        scheduler.set_config(default_with(|_| {}), at(0)).unwrap();
        let mut turns: Vec<(u64, u64)> =
            (0..accounts).map(|number| (used(number), number)).collect();
        turns.sort_unstable();
        for &(now, number) in &turns {
            turn(&mut scheduler, &id(number), &any(), now);
        }
        scheduler.add(Account::new("newcomer"), at(1_000_000)).unwrap();
        let newcomer = scheduler.inspect("newcomer", at(1_000_000)).unwrap();
        newcomer.last_used.unwrap().as_millis()
    }

    #[test]
    fn the_baseline_of_up_to_1024_accounts_is_exact() {
        assert_eq!(entry(1_023, |number| 10 * (number + 1)), 5_120);
        assert_eq!(entry(1_024, |number| 10 * (number + 1)), 5_125);
        assert_eq!(entry(1_024, |number| if number < 512 { 7 } else { 9 }), 8);
        assert_eq!(entry(1_024, |number| if number < 513 { 7 } else { 9 }), 7);
    }

    #[test]
    fn the_baseline_of_more_accounts_is_that_of_1024_spread_evenly() {
        for accounts in [1_025, 2_047, 2_500] {
            let spread: BTreeSet<u64> = (0..1_024).map(|turn| turn * accounts / 1_024).collect();
            assert_eq!(spread.len(), 1_024);
            let of_spread = |number| if spread.contains(&number) { number } else { 900_000 };
            let mut stamps = spread.iter().skip(511);
            let (lower, upper) = (stamps.next().unwrap(), stamps.next().unwrap());
            assert_eq!(entry(accounts, of_spread), (lower + upper).div_ceil(2));
        }
    }

    #[test]
    fn baseline_jitter() {
        let next = |jitter: u64| {
            let mut scheduler = two(|it| it.baseline_jitter = jitter);
            for now in 0..10 {
                account(&mut scheduler, &any(), now);
            }
            scheduler.add(Account::new("c"), at(10)).unwrap();
            account(&mut scheduler, &any(), 11)
        };
        assert_eq!((next(0).as_str(), next(u64::MAX).as_str()), ("a", "c"));
    }
}

mod service {
    use super::*;

    #[test]
    fn degraded_for_what_upstreams_said() {
        for (degraded, served) in
            [(Degraded::Off, None), (Degraded::Transient, Some("b")), (Degraded::Inferred, None)]
        {
            let mut scheduler = two(|it| it.degraded = degraded);
            fail(&mut scheduler, "a", throttled(60_000), 0);
            fail(&mut scheduler, "b", throttled(30_000), 0);
            let grant = scheduler.select(&any(), at(1)).ok();
            assert!(grant.iter().all(|grant| grant.path == Path::Degraded));
            assert_eq!(grant.as_ref().map(|grant| grant.account.as_str()), served);
        }
    }

    #[test]
    fn degraded_for_what_was_inferred() {
        let quarantined = |degraded| {
            let mut scheduler = two(|it| {
                it.degraded = degraded;
                it.last_usable_exempt = false;
            });
            fail(&mut scheduler, "a", throttled(60_000), 0);
            fail(&mut scheduler, "b", Outcome::Internal, 0);
            fail(&mut scheduler, "b", Outcome::Internal, 0);
            scheduler.select(&any(), at(1)).map(|grant| grant.account.to_string()).ok()
        };
        assert_eq!(quarantined(Degraded::Off), None);
        assert_eq!(quarantined(Degraded::Transient).as_deref(), Some("a"), "it recovers first");
        assert_eq!(quarantined(Degraded::Inferred).as_deref(), Some("b"));
    }

    #[test]
    fn degraded_for_an_open_breaker() {
        for (degraded, served) in
            [(Degraded::Off, false), (Degraded::Transient, false), (Degraded::Inferred, true)]
        {
            let config = default_with(|it| {
                it.degraded = degraded;
                it.last_usable_exempt = false;
            });
            let mut scheduler = with(config, [Account::new("a")]);
            for _ in 0..3 {
                fail(&mut scheduler, "a", Outcome::Network, 0);
            }
            assert_eq!(scheduler.select(&any(), at(1)).is_ok(), served);
        }
    }

    #[test]
    fn degraded_respects_everything_else() {
        let excluded = [AccountId::from("a")];
        let changes: [fn(&mut Scheduler); 5] = [
            |it| fail(it, "a", Outcome::quota_exhausted(None), 0),
            |it| fail(it, "a", Outcome::AuthFailed, 0),
            |it| it.set_status("a", Status::Disabled, at(0)).unwrap(),
            |it| it.set_maintenance("a", true, at(0)).unwrap(),
            |it| it.set_plan("a", &Plan::default().max_in_flight(0), at(0)).unwrap(),
        ];
        for change in changes {
            let mut scheduler = with(default_with(|_| {}), [Account::new("a")]);
            fail(&mut scheduler, "a", throttled(60_000), 0);
            assert!(scheduler.preview(&any(), at(1)).is_ok());
            assert!(scheduler.preview(&any().exclude(&excluded), at(1)).is_err());
            change(&mut scheduler);
            assert!(scheduler.preview(&any(), at(1)).is_err());
        }
    }

    #[test]
    fn last_usable_exempt() {
        for exempt in [true, false] {
            let mut scheduler = two(|it| it.last_usable_exempt = exempt);
            scheduler.set_status("b", Status::Disabled, at(0)).unwrap();
            for _ in 0..3 {
                fail(&mut scheduler, "a", Outcome::Network, 0);
                fail(&mut scheduler, "a", Outcome::Internal, 0);
            }
            let view = scheduler.inspect("a", at(0)).unwrap();
            let expected = if exempt { Status::Active } else { Status::Error };
            assert_eq!((view.status, view.blocks.is_empty()), (expected, exempt));
        }
    }

    #[test]
    fn the_exemption_is_for_the_last_of_its_tier() {
        let accounts = [Account::new("a"), Account::new("b").tier(Tier(1))];
        let mut scheduler = with(default_with(|_| {}), accounts);
        for id in ["a", "b"] {
            for _ in 0..3 {
                fail(&mut scheduler, id, Outcome::Network, 0);
            }
        }
        let status = |id| scheduler.inspect(id, at(0)).unwrap().status;
        assert_eq!((status("a"), status("b")), (Status::Active, Status::Error));
    }

    #[test]
    fn half_open_probes() {
        for (probes, served) in [(Some(1), 1), (Some(2), 2), (None, 5)] {
            let config = default_with(|it| {
                it.breaker.half_open_probes = probes;
                it.last_usable_exempt = false;
            });
            let mut scheduler = with(config, [Account::new("a")]);
            for _ in 0..3 {
                fail(&mut scheduler, "a", Outcome::Network, 0);
            }
            let now = at(15 * MINUTE);
            let leases = (0..5).filter(|_| scheduler.select(&any(), now).is_ok());
            assert_eq!(leases.count(), served, "{probes:?}");
        }
    }

    #[test]
    fn a_probe_decides() {
        let half_open = |outcome: Outcome| {
            let config = default_with(|it| it.last_usable_exempt = false);
            let mut scheduler = with(config, [Account::new("a")]);
            for _ in 0..3 {
                fail(&mut scheduler, "a", Outcome::Network, 0);
            }
            let ticket = hold(&mut scheduler, "a", &any(), 15 * MINUTE);
            scheduler.settle(ticket, &outcome, at(15 * MINUTE));
            let served = (0..3).filter(|_| scheduler.select(&any(), at(15 * MINUTE)).is_ok());
            served.count()
        };
        assert_eq!(half_open(Outcome::success()), 3, "closed");
        assert_eq!(half_open(Outcome::Network), 0, "open again");
        assert_eq!(half_open(Outcome::Cancelled), 1, "another probe");
    }

    #[test]
    fn thresholds_switched_off() {
        let mut scheduler = two(|it| {
            it.breaker.threshold = None;
            it.breaker.internal_threshold = None;
            it.breaker.ban_threshold = None;
        });
        for outcome in [Outcome::Network, Outcome::Internal, Outcome::BanSignal] {
            for _ in 0..10 {
                fail(&mut scheduler, "a", outcome, 0);
            }
        }
        let view = scheduler.inspect("a", at(0)).unwrap();
        assert_eq!((view.status, view.blocks.len()), (Status::Active, 0));
    }

    #[test]
    fn lease_timeout() {
        for (timeout, freed) in [(None, false), (Some(Millis::from_mins(1)), true)] {
            let config = default_with(|it| it.lease_timeout = timeout);
            let mut scheduler = with(config, [Account::new("a").max_in_flight(1)]);
            hold(&mut scheduler, "a", &any(), 0);
            assert_eq!(scheduler.select(&any(), at(MINUTE)).is_ok(), freed);
            let load_only = scheduler.preview(&any(), at(MINUTE)).unwrap_err().is_load_only();
            assert!(load_only);
        }
    }

    #[test]
    fn quota_gate() {
        for (gate, served) in [(true, "b"), (false, "a")] {
            let mut scheduler = two(|it| {
                it.quota.gate = gate;
                it.rank.terms = vec![];
            });
            read(&mut scheduler, "a", &left(0.0));
            assert_eq!(account(&mut scheduler, &any(), 0), served);
        }
    }

    #[test]
    fn dry_percent() {
        for (dry_percent, dry) in [(0.0, false), (10.0, true)] {
            let mut scheduler = two(|it| it.quota.dry_percent = dry_percent);
            read(&mut scheduler, "a", &left(10.0));
            assert_eq!(scheduler.select_account("a", &any(), at(0)).is_err(), dry);
        }
    }

    #[test]
    fn a_window_that_ranks_only_does_not_block() {
        let mut scheduler = two(|_| {});
        let reading = QuotaReading::at(at(0)).window(QuotaWindow::new(0.0).rank_only());
        read(&mut scheduler, "a", &reading);
        assert_eq!(account(&mut scheduler, &any(), 0), "b");
        assert!(scheduler.select_account("a", &any(), at(0)).is_ok());
    }

    #[test]
    fn spend_on_demand() {
        for (spend, reserve, served) in [(true, 0.0, true), (true, 5.0, false), (false, 0.0, false)]
        {
            let mut scheduler = two(|it| {
                it.quota.spend_on_demand = spend;
                it.quota.on_demand_reserve = reserve;
            });
            read(&mut scheduler, "a", &left(0.0).balance(5.0));
            assert_eq!(scheduler.select_account("a", &any(), at(0)).is_ok(), served);
        }
    }

    #[test]
    fn unknown_percent() {
        for (percent, first) in [(100.0, "a"), (0.0, "b")] {
            let mut scheduler = two(|it| it.quota.unknown_percent = percent);
            read(&mut scheduler, "b", &left(50.0));
            assert_eq!(account(&mut scheduler, &any(), 0), first);
        }
    }

    #[test]
    fn unmetered() {
        for unmetered in [false, true] {
            let config = default_with(|it| {
                it.aliases.insert("fast".into(), "haiku".into());
                if unmetered {
                    it.unmetered.insert("haiku".into());
                }
            });
            let mut scheduler = with(config, [Account::new("a")]);
            fail(&mut scheduler, "a", Outcome::quota_exhausted(None), 0);
            for model in ["haiku", "fast"] {
                let served = scheduler.preview(&any().model(model), at(1)).is_ok();
                assert_eq!(served, unmetered, "{model}");
            }
            assert!(scheduler.preview(&any().model("opus"), at(1)).is_err());
            assert!(scheduler.preview(&any(), at(1)).is_err());
        }
    }

    #[test]
    fn aliases() {
        for aliased in [false, true] {
            let config = default_with(|it| {
                if aliased {
                    it.aliases.insert("fast".into(), "haiku".into());
                }
            });
            let account = Account::new("a").models(Entitlement::only(["haiku"]));
            let mut scheduler = with(config, [account]);
            assert_eq!(scheduler.preview(&any().model("fast"), at(0)).is_ok(), aliased);
            turn(&mut scheduler, "a", &caller().model("haiku"), 0);
            assert_eq!(scheduler.peek(&caller().model("fast"), at(0)).is_some(), aliased);
            let scope = BlockScope::Model("fast".into());
            scheduler.block("a", &scope, Dimension::Operator, at(9), at(0)).unwrap();
            assert_eq!(scheduler.preview(&any().model("haiku"), at(0)).is_err(), aliased);
        }
    }

    #[test]
    fn cooldown_jitter_lengthens_and_stays_within_its_bound() {
        let mut scheduler = three(|it| it.cooldown.jitter = Millis::from_secs(5));
        let mut spans = Vec::new();
        for id in ["a", "b", "c"] {
            fail(&mut scheduler, id, throttled(10_000), 0);
            spans.push(scheduler.inspect(id, at(0)).unwrap().blocks[0].until.as_millis());
        }
        assert!(spans.iter().all(|span| (10_000..=15_000).contains(span)), "{spans:?}");
        assert!(spans[0] != spans[1] || spans[1] != spans[2]);
    }

    #[test]
    fn background_traffic_cools_nobody_without_the_upstreams_word() {
        for (class, blocks) in [(TrafficClass::User, 1), (TrafficClass::Background, 0)] {
            let mut scheduler = two(|it| it.last_usable_exempt = false);
            let request = any().class(class);
            let unhinted = Outcome::rate_limited(None);
            scheduler.observe("a", &request, &unhinted, at(0)).unwrap();
            assert_eq!(scheduler.inspect("a", at(0)).unwrap().blocks.len(), blocks);
            for _ in 0..3 {
                scheduler.observe("a", &request, &Outcome::Network, at(0)).unwrap();
            }
            let down = scheduler.inspect("a", at(0)).unwrap().status == Status::Error;
            assert_eq!(down, class == TrafficClass::User);
            scheduler.observe("b", &request, &throttled(10_000), at(0)).unwrap();
            assert_eq!(scheduler.inspect("b", at(0)).unwrap().blocks.len(), 1, "a hint counts");
        }
    }

    #[test]
    fn a_base_of_zero_makes_no_cooldown() {
        for (base, blocks) in [(15_000, 1), (0, 0)] {
            let mut scheduler = two(|it| it.cooldown.throttle.base = Millis::new(base));
            fail(&mut scheduler, "a", Outcome::rate_limited(None), 0);
            assert_eq!(scheduler.inspect("a", at(0)).unwrap().blocks.len(), blocks);
            fail(&mut scheduler, "b", throttled(10_000), 0);
            assert_eq!(scheduler.inspect("b", at(0)).unwrap().blocks.len(), 1, "a hint counts");
        }
    }
}
