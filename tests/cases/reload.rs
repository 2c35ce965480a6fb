//! New configuration over old state.

use account_pool::config::{Order, Recency, Shard, StickyMode, Term, Ties};
use account_pool::{
    Account, AccountError, BlockScope, BreakerView, Config, Dimension, Entitlement, Millis,
    Outcome, Plan, RateLimit, Reason, Scheduler, Status, Tier,
};

use crate::scenario::{Scenario, anyone, at, by, conventions, ms, throttled, throttled_for};

fn in_use() -> Scenario {
    let mut config = conventions();
    config.breaker.threshold = Some(3);
    let accounts = [Account::new("A").rpm(2), Account::new("B"), Account::new("C")];
    let mut s = Scenario::of(config, accounts);
    s.turn(0, &by("u1").without(&["B", "C"]));
    s.turn(1, &by("u1").without(&["B", "C"]));
    s.hold(4, &anyone().without(&["A", "C"]));
    s.block(4, "C", 60_000);
    s.errors(5, "B", 2);
    s
}

#[test]
fn c126_a_reload_forgets_and_refills_nothing() {
    let mut s = in_use();

    let before = s.scheduler.clone();
    let views = ["A", "B", "C"].map(|account| s.inspect(10, account));
    s.scheduler.set_config(s.scheduler.config().clone(), at(10)).unwrap();
    assert_eq!(["A", "B", "C"].map(|account| s.inspect(10, account)), views);
    assert_eq!(s.bound_to(10, &by("u1")).as_deref(), Some("A"));
    let mut moved_on = before;
    moved_on.reap(Millis::MAX, at(10));
    assert_eq!(s.scheduler, moved_on);

    let refusal = s.refused(11, &anyone().without(&["B", "C"]));
    assert_eq!(refusal.tally().count(Reason::RateLimit), 1);
    assert_eq!(s.inspect(11, "B").in_flight, 1);
    assert_eq!(s.inspect(11, "B").breaker, BreakerView::Closed { errors: 2 });
    assert_eq!(s.inspect(11, "C").blocks[0].until, at(60_000));
}

#[test]
fn c126_sibling_declaring_an_account_anew_forgets_and_refills_nothing() {
    let mut s = in_use();

    let views = ["A", "B", "C"].map(|account| s.inspect(10, account));
    for (account, plan) in [("A", Plan::default().rpm(2)), ("B", Plan::default())] {
        s.scheduler.set_plan(account, &plan, at(10)).unwrap();
        s.scheduler.set_models(account, &Entitlement::Any, at(10)).unwrap();
        s.scheduler.set_selectors(account, &Entitlement::Any, at(10)).unwrap();
        s.scheduler.set_blocked_models(account, &[].into(), at(10)).unwrap();
        s.scheduler.set_draining(account, false, at(10)).unwrap();
    }
    assert_eq!(["A", "B", "C"].map(|account| s.inspect(10, account)), views);
    assert_eq!(s.retry_after(11, &anyone().without(&["B", "C"])), Some(59_989));
}

#[test]
fn c126_sibling_another_limit_counts_what_was_used() {
    let mut s = in_use();

    s.scheduler.set_plan("A", &Plan::default().rpm(3), at(10)).unwrap();
    assert_eq!(s.inspect(10, "A").requests[0].used, 2);
    s.hold_on(11, "A", &anyone());
    s.scheduler.set_plan("A", &Plan::default().rpm(1), at(12)).unwrap();
    // One slot has to be left after the last of three has gone.
    let refusal = s.pick_on(12, "A", &anyone()).unwrap_err();
    assert_eq!(refusal.retry_at(), Some(at(60_011)));
}

#[test]
fn c126_sibling_levels_and_last_uses_survive() {
    let mut config = conventions();
    config.cooldown.throttle.factor = 2.0;
    let mut s = Scenario::with(config.clone(), &["A", "B"]);
    s.observe(0, "A", &anyone(), throttled());
    s.observe(60_000, "A", &anyone(), throttled());
    s.turn(60_001, &anyone());

    s.scheduler.set_config(config, at(60_010)).unwrap();
    let block = &s.inspect(60_010, "A").blocks[0];
    assert_eq!((block.level, block.until), (1, at(180_000)));
    assert_eq!(s.inspect(60_010, "B").last_used, Some(at(60_001)));
    s.observe(180_000, "A", &anyone(), throttled());
    assert_eq!(s.inspect(180_000, "A").blocks[0].until, at(420_000));
}

#[test]
fn c126_sibling_a_longer_life_of_bindings_counts_them_right() {
    let mut s = Scenario::new(&["A", "B"]);
    s.turn(0, &by("u1"));
    // Counted out here.
    s.turn(700_000, &anyone());
    assert_eq!(s.inspect(700_000, "A").bound, 0);

    let mut config = conventions();
    config.sticky.time_to_idle = ms(6_000_000);
    s.scheduler.set_config(config.clone(), at(700_010)).unwrap();
    let bound = usize::from(s.bound_to(700_010, &by("u1")).is_some());
    assert_eq!(s.scheduler.bindings(at(700_010)), bound);
    assert_eq!(s.inspect(700_010, "A").bound as usize, bound);
    let account = s.turn(700_020, &by("u1"));
    assert_eq!(s.inspect(700_021, &account).bound, 1);
    assert_eq!(s.scheduler.bindings(at(700_021)), 1);

    config.sticky.binding_limit =
        Some(account_pool::config::BindingLimit { callers: 1, refuse: true });
    s.scheduler.set_config(config, at(700_030)).unwrap();
    let refusal = s.pick_on(700_031, &account, &by("u2")).unwrap_err();
    assert_eq!(refusal.tally().count(Reason::BindingLimit), 1);
}

#[test]
fn c126_sibling_a_shorter_life_of_bindings_applies_at_once() {
    let mut s = Scenario::new(&["A", "B"]);
    s.turn(0, &by("u1"));
    s.turn(10, &by("u2"));

    let mut config = conventions();
    config.sticky.time_to_idle = ms(100);
    s.scheduler.set_config(config, at(105)).unwrap();
    assert_eq!(s.scheduler.bindings(at(105)), 1);
    assert_eq!(s.bound_to(105, &by("u1")), None);
    assert_eq!(s.bound_to(105, &by("u2")).as_deref(), Some("B"));
    assert_eq!((s.inspect(105, "A").bound, s.inspect(105, "B").bound), (0, 1));
}

#[test]
fn c126_sibling_another_order_counts_callers_under_their_new_first_account() {
    let mut s = Scenario::new(&["A", "B"]);
    s.turn(0, &by("u1"));
    s.block(10, "A", 1_000);
    s.turn(20, &by("u1"));
    assert_eq!((s.inspect(30, "A").bound, s.inspect(30, "B").bound), (1, 0));

    let mut config = conventions();
    config.sticky.order = Order::MostRecent;
    config.sticky.binding_limit =
        Some(account_pool::config::BindingLimit { callers: 1, refuse: true });
    s.scheduler.set_config(config, at(30)).unwrap();
    assert_eq!((s.inspect(30, "A").bound, s.inspect(30, "B").bound), (0, 1));
    assert!(s.pick_on(1_000, "B", &by("u2")).is_err());
    s.hold_on(1_000, "A", &by("u2"));
}

#[test]
fn c126_sibling_a_returning_account_keeps_what_its_upstream_said() {
    let mut s = Scenario::of(conventions(), [Account::new("A").rpm(1)]);
    let held = s.hold(0, &by("u1"));
    s.fail(&held, 0, throttled_for(60_000));
    let operator = Dimension::Operator;
    s.scheduler.block("A", &BlockScope::Account, operator, at(90_000), at(1)).unwrap();
    s.scheduler.block("A", &BlockScope::Account, Dimension::Quarantine, at(90_000), at(1)).unwrap();

    s.remove(10, "A");
    s.add(20, Account::new("A").rpm(1));
    let blocks = s.inspect(20, "A").blocks;
    let throttle = blocks.iter().find(|block| block.dimension == Dimension::Throttle).unwrap();
    assert_eq!(throttle.until, at(60_000));
    assert!(blocks.iter().all(|block| block.dimension != operator));
    s.remove(30, "A");
    s.add(60_000, Account::new("A").rpm(1));
    assert!(s.inspect(60_000, "A").blocks.iter().all(|it| it.dimension != Dimension::Throttle));
}

#[test]
fn c126_sibling_no_reload_is_half_done() {
    let mut s = in_use();

    let before = s.scheduler.clone();
    let mut config = conventions();
    config.sticky.capacity = 0;
    config.breaker.threshold = Some(0);
    assert_eq!(s.scheduler.set_config(config, at(10)).unwrap_err().field(), "breaker.threshold");
    assert_eq!(s.scheduler, before);
    let plan = Plan::default().rpm(100).window(1, ms(0));
    assert_eq!(s.scheduler.set_plan("A", &plan, at(10)), Err(AccountError::Window));
    assert_eq!(s.scheduler, before);
}

#[test]
fn c126_sibling_what_orders_the_pool_may_change_without_loss() {
    let mut s = in_use();

    let mut config = s.scheduler.config().clone();
    config.rank.recency = Recency::Millisecond;
    config.rank.shard = Shard::Rendezvous;
    config.rank.ties = Ties::Health { headroom_steps: 4, in_flight_slack: 1 };
    s.scheduler.set_config(config, at(10)).unwrap();
    assert_eq!(s.inspect(10, "A").last_used, Some(at(1)));
    assert_eq!(s.bound_to(10, &by("u1")).as_deref(), Some("A"));
}

#[test]
fn c126_sibling_another_soft_limit_applies_at_once() {
    let mut config = conventions();
    config.rank.terms = vec![Term::Tier, Term::Recency];
    let accounts = [Account::new("A").rpm(4), Account::new("B").rpm(4).tier(Tier(1))];
    let mut s = Scenario::of(config, accounts);
    assert_eq!(s.turns(&[0, 1], &anyone()), ["A", "A"]);
    let mut served = |t, percent| {
        let mut config = s.scheduler.config().clone();
        config.soft.rate_used_percent = percent;
        s.scheduler.set_config(config, at(t)).unwrap();
        // A refusal brings what is known up to date, and changes nothing.
        s.refused(t, &anyone().without(&["A", "B"]));
        s.scheduler.preview(&anyone().request(), at(t)).unwrap().account
    };
    // Half of A's window is in use, and not a single term weighs otherwise than before.
    let by_limit = [served(10, Some(51.0)), served(11, Some(50.0)), served(12, None)];
    assert_eq!(by_limit, ["A", "B", "A"]);
}

#[test]
fn c126_sibling_another_rule_of_ties_applies_at_once() {
    let mut config = conventions();
    config.rank.terms = vec![Term::Tier, Term::Recency];
    let accounts = ["A", "B", "C"];
    let mut s = Scenario::with(config, &accounts);
    for (t, account) in (0..).zip(accounts) {
        let held = s.hold_on(t, account, &anyone());
        s.ok(&held, t);
    }
    let mut tied = |t, ties| {
        let mut config = s.scheduler.config().clone();
        config.rank.ties = ties;
        s.scheduler.set_config(config, at(t)).unwrap();
        // A refusal brings what is known up to date, and changes nothing.
        s.refused(t, &anyone().without(&accounts));
        s.scheduler.preview(&anyone().request(), at(t)).unwrap().tied
    };
    // Not a single key is another one: what changes is which of them are equal.
    let health = Ties::Health { headroom_steps: 4, in_flight_slack: 0 };
    assert_eq!([tied(10, Ties::Exact), tied(11, health), tied(12, Ties::Exact)], [1, 3, 1]);
}

fn two_bound() -> Scenario {
    let mut s = Scenario::new(&["A", "B"]);
    s.turn(0, &by("u1"));
    s.turn(10, &by("u2"));
    s
}

fn switch(s: &mut Scenario, t: u64, mode: StickyMode) {
    let mut config = conventions();
    config.sticky.mode = mode;
    s.scheduler.set_config(config, at(t)).unwrap();
}

#[test]
fn c128_turning_affinity_off_drains() {
    let mut s = two_bound();

    switch(&mut s, 100, StickyMode::Drain);
    assert_eq!(s.turn(110, &by("u1")), "A");
    assert_eq!(s.turn(120, &by("u2")), "B");
    assert_eq!(s.turns(&[130, 140], &by("u3")), ["A", "B"]);
    assert_eq!(s.bound_to(150, &by("u3")), None);
    // Use keeps a binding alive, silence ends it.
    assert_eq!(s.turn(600_000, &by("u1")), "A");
    assert_eq!(s.bound_to(600_121, &by("u2")), None);
    assert_eq!(s.bound_to(600_121, &by("u1")).as_deref(), Some("A"));
}

#[test]
fn c128_turning_affinity_off_at_once() {
    let mut s = two_bound();

    switch(&mut s, 100, StickyMode::Off);
    assert_eq!(s.turns(&[110, 120, 130], &by("u1")), ["A", "B", "A"]);
    assert_eq!(s.bound_to(140, &by("u1")), None);

    // Switched on again in time, the conversations that were left are where they were.
    switch(&mut s, 200, StickyMode::On);
    assert_eq!(s.bound_to(200, &by("u2")).as_deref(), Some("B"));
}

#[test]
fn c128_sibling_draining_binds_by_no_other_way() {
    let mut s = two_bound();
    let in_flight = s.hold(50, &by("u3"));
    switch(&mut s, 100, StickyMode::Drain);

    s.ok(&in_flight, 110);
    s.scheduler.bind(&by("u4").request(), "A", at(120)).unwrap();
    assert_eq!(s.bound_to(130, &by("u3")), None);
    assert_eq!(s.bound_to(130, &by("u4")), None);
    assert_eq!(s.scheduler.bindings(at(130)), 2);
}

#[test]
fn c128_sibling_a_draining_account_keeps_its_callers() {
    let mut s = two_bound();

    s.scheduler.set_draining("A", true, at(100)).unwrap();
    assert_eq!(s.turns(&[110, 120], &by("u1")), ["A", "A"]);
    assert_eq!(s.turns(&[130, 140], &by("u3")), ["B", "B"]);
    s.scheduler.set_draining("A", false, at(150)).unwrap();
    assert_eq!(s.hold(160, &anyone()).account, "A");
}

#[test]
fn c129_request_limits_of_none_zero_one_and_many() {
    let rpm = |limit: Option<u64>| match limit {
        Some(limit) => Account::new("A").rpm(limit),
        None => Account::new("A"),
    };
    for (limit, served) in [
        (None, 50),
        (Some(0), 0),
        (Some(1), 1),
        (Some(u64::from(u32::MAX)), 50),
        (Some(u64::MAX), 50),
    ] {
        let mut s = Scenario::of(conventions(), [rpm(limit)]);
        let granted = (0..50).filter(|_| s.pick(0, &anyone()).is_ok()).count();
        assert_eq!(granted, served, "{limit:?}");
    }
    let mut s = Scenario::of(conventions(), [rpm(Some(0))]);
    let refusal = s.refused(0, &anyone());
    assert_eq!(refusal.tally().count(Reason::RateLimit), 1);
    assert_eq!(refusal.retry_after(), None);
}

#[test]
fn c129_sibling_token_limits_of_zero_and_many() {
    let tokens = |limit| Account::new("A").tokens_per_minute(limit);
    let mut s = Scenario::of(conventions(), [tokens(0)]);
    let refusal = s.refused(0, &anyone());
    assert_eq!(refusal.tally().count(Reason::TokenLimit), 1);
    assert_eq!(refusal.retry_after(), None);

    let mut s = Scenario::of(conventions(), [tokens(u64::MAX)]);
    for _ in 0..3 {
        let held = s.hold(0, &anyone().costing(u64::MAX >> 30));
        let mut usage = account_pool::Usage::default();
        (usage.input, usage.output, usage.cache_write) = (u64::MAX, u64::MAX, u64::MAX);
        s.ok_using(&held, 0, usage);
    }
    assert_eq!(s.inspect(0, "A").usage.billable, u64::MAX);
    s.hold(0, &anyone());
}

#[test]
fn c129_in_flight_limits_of_none_and_zero() {
    let mut s = Scenario::new(&["A"]);
    assert!((0..1_000).all(|_| s.pick(0, &anyone()).is_ok()));

    let mut s = Scenario::of(conventions(), [Account::new("A").max_in_flight(0)]);
    let refusal = s.refused(0, &anyone());
    assert_eq!(refusal.tally().count(Reason::InFlight), 1);
    assert_eq!(refusal.retry_after(), None);
    assert!(!refusal.is_load_only(), "no end of a request helps");
}

#[test]
fn c129_a_window_of_no_length_is_rejected() {
    let mut scheduler = Scheduler::new(conventions()).unwrap();
    let none = ms(0);
    let refused = scheduler.add(Account::new("A").window(5, none), at(0));
    assert_eq!(refused, Err(AccountError::Window));
    let mut plan = Plan::default();
    plan.tokens = Some(RateLimit::new(5, none));
    assert_eq!(scheduler.add(Account::new("A").plan(plan), at(0)), Err(AccountError::Window));
    assert_eq!(scheduler.accounts().count(), 0);
}

#[test]
fn c129_thresholds_of_zero_are_rejected() {
    type Change = fn(&mut Config);
    let fields: [(Change, &str); 8] = [
        (|config| config.breaker.threshold = Some(0), "breaker.threshold"),
        (|config| config.breaker.half_open_probes = Some(0), "breaker.half_open_probes"),
        (|config| config.breaker.internal_threshold = Some(0), "breaker.internal_threshold"),
        (|config| config.breaker.ban_threshold = Some(0), "breaker.ban_threshold"),
        (|config| config.breaker.recovery = ms(0), "breaker.recovery"),
        (|config| config.health.window = ms(0), "health.window"),
        (|config| config.sticky.trail = 0, "sticky.trail"),
        (|config| config.lease_timeout = Some(ms(0)), "lease_timeout"),
    ];
    for (change, field) in fields {
        let mut config = conventions();
        change(&mut config);
        assert_eq!(Scheduler::new(config).unwrap_err().field(), field);
    }
}

#[test]
fn c129_a_life_a_table_and_a_cap_of_zero_switch_affinity_off() {
    let zeros: [fn(&mut Config); 3] = [
        |config| config.sticky.time_to_idle = ms(0),
        |config| config.sticky.capacity = 0,
        |config| {
            let none = account_pool::config::BindingLimit { callers: 0, refuse: false };
            config.sticky.binding_limit = Some(none);
        },
    ];
    for zero in zeros {
        let mut config = conventions();
        zero(&mut config);
        let mut s = Scenario::with(config, &["A", "B"]);
        assert_eq!(s.turns(&[0, 10, 20, 30], &by("u1")), ["A", "B", "A", "B"]);
        assert_eq!(s.scheduler.bindings(at(40)), 0);
    }
}

#[test]
fn c129_sibling_affinity_switched_on_again_minds_full_accounts() {
    let nobody = account_pool::config::BindingLimit { callers: 0, refuse: true };
    let switches: [fn(&mut Config, bool); 3] = [
        |config, on| config.sticky.time_to_idle = if on { ms(600_000) } else { ms(0) },
        |config, on| config.sticky.capacity = if on { 100 } else { 0 },
        |config, on| config.sticky.mode = if on { StickyMode::Drain } else { StickyMode::Off },
    ];
    for switch in switches {
        let mut config = conventions();
        config.sticky.binding_limit = Some(nobody);
        switch(&mut config, false);
        let mut s = Scenario::with(config.clone(), &["A", "B"]);
        assert_eq!(s.turn(0, &by("u1")), "A");
        switch(&mut config, true);
        s.scheduler.set_config(config, at(10)).unwrap();
        assert_eq!(s.refused(20, &by("u1")).tally().count(Reason::BindingLimit), 2);
        assert_eq!(s.turn(30, &anyone()), "B");
    }
}

#[test]
fn c129_a_wait_budget_of_zero_never_waits() {
    let budgets: [fn(&mut Config); 2] = [
        |config| config.sticky.queue_on_pin = ms(0),
        |config| (config.sticky.queue_on_pin, config.sticky.max_waiters) = (ms(5_000), 0),
    ];
    for budget in budgets {
        let mut config = conventions();
        budget(&mut config);
        let mut s = Scenario::of(config, [Account::new("A").max_in_flight(1), Account::new("B")]);
        s.turn(0, &by("u1"));
        s.hold(10, &by("u1"));
        assert_eq!(s.hold(20, &by("u1")).account, "B");
    }
}

#[test]
fn c129_sibling_huge_spans_saturate() {
    let mut config = conventions();
    config.sticky.time_to_idle = Millis::MAX;
    config.sticky.cache_lifetime = Millis::MAX;
    config.cooldown.throttle.cap = Millis::MAX;
    config.cooldown.throttle.base = Millis::MAX;
    config.cooldown.throttle.factor = 1e300;
    config.cooldown.jitter = Millis::MAX;
    config.breaker.threshold = Some(1);
    config.breaker.recovery = Millis::MAX;
    let mut s = Scenario::of(config, [Account::new("A").window(1, Millis::MAX), Account::new("B")]);

    s.turn(5, &by("u1"));
    s.observe(10, "A", &anyone(), throttled());
    s.observe(10, "B", &anyone(), Outcome::Network);
    assert_eq!(s.inspect(20, "B").status, Status::Error);
    assert_eq!(s.refused(20, &by("u1")).retry_at(), Some(at(u64::MAX)));
}
