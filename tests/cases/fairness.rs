//! Who is next among equals, and what counts as equal.

use std::collections::BTreeMap;

use account_pool::config::{Shard, StickyMode, Term, Ties};
use account_pool::{
    Account, AccountError, Config, Dimension, Millis, QuotaReading, QuotaWindow, Scheduler, Status,
};

use crate::scenario::{Scenario, anyone, at, by, conventions, ms, throttled, throttled_for};

#[test]
fn c73_equal_accounts_rotate() {
    let mut s = Scenario::new(&["A", "B", "C"]);

    let accounts = s.turns(&[0, 10, 20, 30, 40, 50], &anyone());
    assert_eq!(accounts, ["A", "B", "C", "A", "B", "C"]);
}

#[test]
fn c73_equal_accounts_rotate_within_one_millisecond() {
    let mut s = Scenario::new(&["A", "B", "C"]);

    let turn = |_| {
        let held = s.hold(0, &anyone());
        s.ok(&held, 0);
        held.account
    };
    let accounts: Vec<String> = (0..6).map(turn).collect();
    assert_eq!(accounts, ["A", "B", "C", "A", "B", "C"]);
}

#[test]
fn c73_sibling_the_first_burst_of_anonymous_requests_rotates_under_any_ties() {
    let mut config = conventions();
    config.rank.ties = Ties::Health { headroom_steps: 4, in_flight_slack: 0 };
    config.rank.shard = Shard::Rendezvous;
    let mut s = Scenario::with(config, &["A", "B", "C"]);

    let accounts = s.turns(&[0, 10, 20, 30, 40, 50], &anyone());
    assert_eq!(accounts, ["A", "B", "C", "A", "B", "C"]);
}

#[test]
fn c75_an_account_of_unknown_quota_gets_its_chance() {
    let mut s = Scenario::new(&["A", "B"]);
    s.quota(0, "A", 60.0, None);

    let times: Vec<u64> = (1..=10).map(|round| round * 10).collect();
    assert!(s.turns(&times, &anyone()).contains(&"B".to_owned()));
}

#[test]
fn c75_unknown_quota_is_neither_full_nor_empty_for_exclusion() {
    let mut s = Scenario::new(&["A", "B", "C"]);
    s.quota(0, "A", 60.0, None);
    s.quota(0, "C", 5.0, None);
    s.block(0, "A", 60_000);

    assert_eq!(s.hold(1, &anyone()).account, "B");
}

#[test]
fn c75_sibling_a_neutral_bucket_ranks_unknown_quota_between() {
    let mut config = conventions();
    config.quota.unknown_percent = 50.0;
    let mut s = Scenario::with(config, &["A", "B", "C"]);
    s.quota(0, "A", 60.0, None);
    s.quota(0, "C", 5.0, None);

    assert_eq!(s.turn(1, &anyone()), "A");
    assert_eq!(s.turn(2, &anyone().without(&["A"])), "B");
}

#[test]
fn c75_sibling_of_two_windows_the_known_one_decides() {
    let mut s = Scenario::new(&["A", "B"]);
    let reading = |window| {
        QuotaReading::at(at(0)).window(QuotaWindow::new(None)).window(QuotaWindow::new(window))
    };
    s.scheduler.observe_quota("A", &reading(20.0), at(0)).unwrap();
    s.scheduler.observe_quota("B", &reading(80.0), at(0)).unwrap();

    assert_eq!(s.turn(1, &anyone()), "B");
    assert_eq!(s.turn(2, &anyone()), "B");
    s.scheduler.observe_quota("B", &reading(0.0), at(3)).unwrap();
    assert_eq!(s.turn(4, &anyone()), "A");
}

#[test]
fn c76_reports_do_not_restart_the_rotation() {
    let mut s = Scenario::new(&["A", "B", "C", "D", "E"]);
    for account in ["A", "B", "C", "D", "E"] {
        s.quota(0, account, 50.0, None);
    }

    let mut accounts = Vec::new();
    for round in 1..=10 {
        let account = s.turn(round * 10, &anyone());
        s.quota(round * 10 + 2, &account, 50.0, None);
        s.set_status(round * 10 + 3, &account, Status::Active);
        accounts.push(account);
    }
    assert_eq!(accounts, ["A", "B", "C", "D", "E", "A", "B", "C", "D", "E"]);
}

#[test]
fn c76_sibling_no_administration_restarts_the_rotation() {
    let mut s = Scenario::new(&["A", "B", "C"]);

    let mut accounts = Vec::new();
    for round in 1..=6 {
        let t = round * 10;
        let account = s.turn(t, &anyone());
        s.scheduler.set_plan(&account, &account_pool::Plan::default(), at(t + 2)).unwrap();
        s.scheduler.set_maintenance(&account, true, at(t + 2)).unwrap();
        s.scheduler.set_maintenance(&account, false, at(t + 3)).unwrap();
        s.scheduler.clear_blocks(&account, None, at(t + 3)).unwrap();
        s.scheduler.set_config(conventions(), at(t + 4)).unwrap();
        s.add(t + 5, Account::new("X"));
        s.remove(t + 5, "X");
        accounts.push(account);
    }
    assert_eq!(accounts, ["A", "B", "C", "A", "B", "C"]);
}

fn with_newcomer(config: Config) -> Scenario {
    let mut s = Scenario::with(config, &["A", "B"]);
    s.turn(99_000, &anyone());
    s.turn(100_000, &anyone());
    s.add(100_000, Account::new("C"));
    s
}

fn three_held(s: &mut Scenario) -> Vec<String> {
    let held: Vec<_> = (100_001..=100_003).map(|t| s.hold(t, &anyone())).collect();
    for lease in &held {
        s.ok(lease, 100_004);
    }
    held.into_iter().map(|lease| lease.account).collect()
}

#[test]
fn c78_a_new_account_is_next_but_takes_no_more_than_its_turn() {
    let mut s = with_newcomer(conventions());

    assert_eq!(three_held(&mut s), ["C", "A", "B"]);
    assert_eq!(s.turns(&[100_010, 100_020, 100_030], &anyone()), ["C", "A", "B"]);
}

#[test]
fn c78_sibling_a_newcomer_at_the_median_takes_its_turn_too() {
    let mut config = conventions();
    config.new_account_baseline = true;
    let mut s = with_newcomer(config);

    let mut accounts = three_held(&mut s);
    accounts.sort();
    assert_eq!(accounts, ["A", "B", "C"]);
    let mut accounts = s.turns(&[100_010, 100_020, 100_030], &anyone());
    accounts.sort();
    assert_eq!(accounts, ["A", "B", "C"]);
}

fn recovering() -> Scenario {
    let mut s = Scenario::new(&["A", "B", "C"]);
    s.block(0, "A", 60_000);
    s
}

#[test]
fn c79_a_recovered_account_takes_no_bound_caller() {
    let mut s = recovering();
    let callers: Vec<String> = (0..30).map(|index| format!("u{index}")).collect();
    let homes: Vec<String> = (1_u64..).zip(&callers).map(|(t, u)| s.turn(t * 10, &by(u))).collect();

    for (caller, home) in callers.iter().zip(&homes) {
        assert_eq!(s.hold(60_000, &by(caller)).account, *home);
    }
    assert_eq!(s.inspect(60_000, "A").in_flight, 0);
}

#[test]
fn c79_a_recovered_account_takes_its_share_of_unbound_requests() {
    let mut s = recovering();

    for _ in 0..30 {
        s.hold(60_000, &anyone());
    }
    for account in ["A", "B", "C"] {
        assert_eq!(s.inspect(60_000, account).in_flight, 10);
    }
}

#[test]
fn c79_jitter_keeps_accounts_from_recovering_together() {
    let deadlines = || {
        let mut config = conventions();
        config.cooldown.jitter = ms(5_000);
        let mut s = Scenario::with(config, &["A", "B", "C"]);
        ["A", "B", "C"].map(|account| {
            let held = s.hold_on(0, account, &anyone());
            s.fail(&held, 0, throttled_for(60_000));
            s.inspect(0, account).blocks[0].until.as_millis()
        })
    };

    let [a, b, c] = deadlines();
    assert!(a != b && b != c && a != c);
    assert!([a, b, c].iter().all(|until| (60_000..=65_000).contains(until)));
    assert_eq!(deadlines(), [a, b, c]);
}

#[test]
fn c79_sibling_jitter_lengthens_cooldowns_without_a_hint_and_past_the_cap() {
    let mut config = conventions();
    config.cooldown.jitter = ms(5_000);
    for (outcome, announced) in [(throttled(), 60_000), (throttled_for(9_000_000), 900_000)] {
        let mut s = Scenario::with(config.clone(), &["A"]);
        let held = s.hold(0, &anyone());
        s.fail(&held, 0, outcome);
        let until = s.inspect(0, "A").blocks[0].until.as_millis();
        assert!((announced..=announced + 5_000).contains(&until), "{until}");
        assert_eq!(s.retry_after(until - 1, &anyone()), Some(1));
        s.hold(until, &anyone());
    }
}

fn sharding(shard: Shard) -> Config {
    let mut config = conventions();
    config.sticky.mode = StickyMode::Off;
    config.rank.shard = shard;
    config
}

/// The accounts of 10 000 callers, each asking an untouched pool.
fn map_callers(scheduler: &Scheduler) -> Vec<String> {
    let place = |index: u32| {
        let caller = format!("caller-{index}");
        scheduler.preview(&by(&caller).request(), at(1)).unwrap().account.to_string()
    };
    (0..10_000).map(place).collect()
}

fn counts(accounts: &[String]) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for account in accounts {
        *counts.entry(account.as_str()).or_default() += 1;
    }
    counts
}

#[test]
fn c80_a_leaving_account_moves_only_its_own_callers() {
    let mut s = Scenario::with(sharding(Shard::Rendezvous), &["A", "B", "C", "D"]);

    let before = map_callers(&s.scheduler);
    let held = counts(&before);
    assert_eq!(held.len(), 4);
    assert!(held.values().all(|count| (2_300..=2_700).contains(count)), "{held:?}");

    s.set_status(1, "D", Status::Disabled);
    let after = map_callers(&s.scheduler);
    let pairs = || before.iter().zip(&after);
    assert!(pairs().all(|(old, new)| old == new || old == "D"));
    let moved: Vec<String> =
        pairs().filter(|(old, _)| *old == "D").map(|(_, new)| new.clone()).collect();
    let third = moved.len() / 3;
    let spread = counts(&moved);
    assert!(spread.values().all(|count| count.abs_diff(third) * 10 <= third), "{spread:?}");
}

#[test]
fn c80_sibling_removal_and_return_move_the_same_callers() {
    let mut s = Scenario::with(sharding(Shard::Rendezvous), &["A", "B", "C", "D"]);

    let before = map_callers(&s.scheduler);
    s.remove(1, "B");
    let without = map_callers(&s.scheduler);
    assert!(before.iter().zip(&without).all(|(old, new)| old == new || old == "B"));
    s.add(1, Account::new("B"));
    assert_eq!(map_callers(&s.scheduler), before, "the order of insertion does not matter");
}

#[test]
fn c80_sibling_weights_share_the_callers_in_proportion() {
    let weighted = |(id, weight)| Account::new(id).weight(weight);
    let accounts = [("A", 1.0), ("B", 2.0), ("C", 1.0)].map(weighted);
    let mut s = Scenario::of(sharding(Shard::Rendezvous), accounts);

    let before = map_callers(&s.scheduler);
    let held = counts(&before);
    assert!(held["B"].abs_diff(5_000) < 400, "{held:?}");
    assert!(held["A"].abs_diff(2_500) < 200, "{held:?}");
    s.set_status(1, "C", Status::Disabled);
    let after = map_callers(&s.scheduler);
    assert!(before.iter().zip(&after).all(|(old, new)| old == new || old == "C"));
}

#[test]
fn c80_sibling_the_strict_pin_moves_only_the_callers_of_the_leaving_account() {
    let mut config = conventions();
    config.sticky.no_fallback = true;
    config.sticky.bind_by_caller_only = true;
    let mut s = Scenario::with(config, &["A", "B", "C", "D"]);

    let before = map_callers(&s.scheduler);
    s.set_status(1, "D", Status::Disabled);
    let after = map_callers(&s.scheduler);
    assert!(before.iter().zip(&after).all(|(old, new)| old == new || old == "D"));
}

#[test]
fn c82_quota_numbers_of_any_kind_rank_in_one_order() {
    let percents = [f64::NAN, -50.0, 0.0, 0.4, 100.0, 170.0, f64::INFINITY];
    let order = || {
        let ids = ["A", "B", "C", "D", "E", "F", "G"];
        let mut s = Scenario::new(&ids);
        for (id, percent) in ids.iter().zip(percents) {
            s.quota(0, id, percent, Some(1_000_000));
        }
        let held = |s: &mut Scenario| s.pick(1, &anyone()).map(|held| held.account).ok();
        let mut order = Vec::new();
        while let Some(account) = held(&mut s) {
            s.set_status(1, &account, Status::Disabled);
            order.push(account);
        }
        let is_dry = |it: &account_pool::BlockView| it.dimension == Dimension::Quota;
        let dry = |id: &&str| s.inspect(1, id).blocks.iter().any(is_dry);
        let dry: Vec<&str> = ids.into_iter().filter(dry).collect();
        assert_eq!(dry, ["B", "C"], "negative means none left; unknown does not");
        order
    };

    // Unknown counts as full, and so does more than everything.
    assert_eq!(order(), ["A", "E", "F", "G", "D"]);
    assert_eq!(order(), order());
}

#[test]
fn c82_sibling_weights_are_checked_when_they_are_set() {
    let mut s = Scenario::new(&["A"]);

    for weight in [0.0, -1.0, f64::NAN, f64::INFINITY, 1_000_000.1] {
        let refused = s.scheduler.add(Account::new("B").weight(weight), at(0));
        assert_eq!(refused, Err(AccountError::Weight), "{weight}");
        let plan = account_pool::Plan::default().weight(weight);
        assert_eq!(s.scheduler.set_plan("A", &plan, at(0)), Err(AccountError::Weight));
    }
    assert_eq!(s.scheduler.accounts().count(), 1);
}

#[test]
fn c82_sibling_a_tiny_weight_still_gets_callers() {
    let mut config = sharding(Shard::Rendezvous);
    config.rank.terms = vec![Term::WeightedInFlight, Term::Recency];
    let accounts = [Account::new("A").weight(0.000_001), Account::new("B").weight(0.02)];
    let s = Scenario::of(config, accounts);

    let held = map_callers(&s.scheduler);
    let tiny = held.iter().filter(|account| *account == "A").count();
    assert!((300..700).contains(&tiny), "0.001 of 0.021: {tiny}");
}

#[test]
fn c82_sibling_a_balance_that_is_no_number_is_unknown() {
    for balance in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 0.0] {
        let mut s = Scenario::new(&["A"]);
        let dry = QuotaWindow::new(0.0).reset(at(1_000));
        let reading = QuotaReading::at(at(0)).window(dry).balance(balance);
        s.scheduler.observe_quota("A", &reading, at(0)).unwrap();
        assert_eq!(s.retry_after(0, &anyone()), Some(1_000), "{balance}");
    }
}

#[test]
fn c82_sibling_a_policy_of_numbers_that_make_no_sense_is_refused() {
    let breaks: [fn(&mut Config); 6] = [
        |config| config.quota.dry_percent = f64::NAN,
        |config| config.quota.unknown_percent = -1.0,
        |config| config.quota.on_demand_reserve = f64::INFINITY,
        |config| config.soft.rate_used_percent = Some(f64::NAN),
        |config| config.cooldown.throttle.factor = 0.5,
        |config| config.cooldown.auth.factor = f64::NAN,
    ];
    for change in breaks {
        let mut config = conventions();
        change(&mut config);
        assert!(Scheduler::new(config.clone()).is_err());
        let mut s = Scenario::new(&["A"]);
        assert!(s.scheduler.set_config(config, at(0)).is_err());
        assert_eq!(*s.scheduler.config(), conventions(), "nothing was changed");
    }
    assert_eq!(Millis::from_mins(u64::MAX), Millis::MAX);
}
