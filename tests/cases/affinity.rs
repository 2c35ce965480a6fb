//! Sticky bindings, pins and prompt-cache locality: cases C01 to C25.

use std::collections::BTreeSet;

use account_pool::config::{BindAt, BindingLimit, Degraded, Order, Refresh, Shard, Term, Ties};
use account_pool::{
    Account, Affinity, BlockScope, Config, Dimension, Entitlement, Millis, Outcome, Path, Plan,
    Reason, Reset, Scheduler, Scope, Status, Tier,
};

use crate::scenario::{
    Ask, Held, Scenario, anyone, at, by, conventions, exhausted_until, model_throttled_for, ms,
    throttled_for,
};

/// Something that happens to a pool.
type Event = fn(&mut Scenario);

fn configured(change: impl FnOnce(&mut Config)) -> Config {
    let mut config = conventions();
    change(&mut config);
    config
}

/// A waits for 5 s, at most `depth` requests at once; B takes what spills.
fn queueing(depth: u32) -> Scenario {
    let config = configured(|config| {
        config.sticky.queue_on_pin = ms(5_000);
        config.sticky.max_waiters = depth;
    });
    Scenario::of(config, [Account::new("A").max_in_flight(1), Account::new("B")])
}

/// The conventions under each order of the trail.
fn both_orders() -> [Config; 2] {
    [Order::HomeFirst, Order::MostRecent].map(|order| configured(|it| it.sticky.order = order))
}

#[test]
fn c01_a_better_account_that_recovers_does_not_steal_a_warm_caller() {
    for config in both_orders() {
        let mut pool = Scenario::with(config, &["A", "B"]);
        pool.quota(0, "A", 50.0, None);
        pool.quota(0, "B", 90.0, None);
        pool.block(0, "B", 60_000);

        assert_eq!(pool.turn(1_000, &by("u1").on("m1")), "A");
        assert_eq!(pool.bound_to(1_002, &by("u1").on("m1")).unwrap(), "A");
        assert_eq!(pool.hold(60_001, &by("u1").on("m1")).account, "A");
        assert_eq!(pool.hold(60_002, &by("u2").on("m1")).account, "B");
    }
}

#[test]
fn c01_sibling_no_term_of_the_order_moves_a_warm_caller() {
    let account = |id| Account::new(id).rpm(10);
    let mut pool = Scenario::of(conventions(), [account("A"), account("B")]);
    assert_eq!(pool.turn(0, &by("u1")), "A");

    // A becomes worse in every term that ranks: load, trouble, quota, headroom, recency, tier.
    pool.hold_on(10, "A", &anyone());
    pool.observe(11, "A", &anyone(), Outcome::Network);
    pool.quota(12, "A", 5.0, None);
    let plan = Plan::default().rpm(10).tier(Tier(1));
    pool.scheduler.set_plan("A", &plan, at(13)).unwrap();

    assert_eq!(pool.turn(20, &by("u1")), "A");
    assert_eq!(pool.turn(30, &by("u2")), "B");
}

#[test]
fn c02_a_short_block_is_a_detour() {
    let mut pool = Scenario::new(&["A", "B", "C"]);
    let u1 = by("u1");
    assert_eq!(pool.turn(0, &u1), "A");
    pool.block(1_000, "A", 31_000);

    assert_eq!(pool.turn(2_000, &u1), "B");
    assert_eq!(pool.turn(3_000, &u1), "B", "the stand-in is warm now, though C is less used");
    for t in [2_000, 3_000, 30_999] {
        assert_eq!(pool.bound_to(t, &u1).unwrap(), "A");
    }
    assert_eq!(pool.turn(30_999, &u1), "B");
    assert_eq!(pool.turn(31_000, &u1), "A");
}

#[test]
fn c02_sibling_the_most_recent_order_stays_and_finds_the_first_account_again() {
    let config = configured(|config| config.sticky.order = Order::MostRecent);
    let mut pool = Scenario::with(config, &["A", "B", "C"]);
    let u1 = by("u1");
    assert_eq!(pool.turn(0, &u1), "A");
    pool.block(1_000, "A", 31_000);
    assert_eq!(pool.turns(&[2_000, 31_000], &u1), ["B", "B"]);

    pool.block(32_000, "B", 62_000);
    let back = pool.hold(33_000, &u1);
    assert_eq!((back.account.as_str(), back.grant.path), ("A", Path::Warm));
}

#[test]
fn c02_sibling_the_first_account_is_home_as_long_as_its_cache_is_warm() {
    // A served at 1; its cache is cold at 600 001.
    for (until, account) in [(599_999, "A"), (600_000, "A"), (600_001, "B")] {
        let mut pool = Scenario::new(&["A", "B", "C"]);
        let u1 = by("u1");
        assert_eq!(pool.turn(0, &u1), "A");
        pool.block(1, "A", until);
        assert_eq!(pool.turn(500_000, &u1), "B");
        assert_eq!(pool.turn(until, &u1), account, "until {until}");
    }
}

#[test]
fn c02_sibling_a_full_trail_keeps_its_home() {
    let config = configured(|config| config.sticky.trail = 2);
    let mut pool = Scenario::with(config, &["A", "B", "C"]);
    let u1 = by("u1");
    assert_eq!(pool.turn(0, &u1), "A");
    pool.block(10, "A", 1_000);
    assert_eq!(pool.turn(20, &u1), "B");
    pool.block(30, "B", 1_000);
    assert_eq!(pool.turns(&[40, 50, 1_000], &u1), ["C", "C", "A"]);
}

#[test]
fn c02_sibling_blocks_of_the_model_and_the_selector_are_detours_too() {
    let block_model: Event = |pool| pool.block_model(1_000, "A", "m1", 31_000);
    let block_selector: Event = |pool| pool.block_selector(1_000, "A", "s1", 31_000);
    for block in [block_model, block_selector] {
        let mut pool = Scenario::new(&["A", "B", "C"]);
        let u1 = by("u1").on("m1").via("s1");
        assert_eq!(pool.turn(0, &u1), "A");
        block(&mut pool);
        assert_eq!(pool.turns(&[2_000, 3_000, 30_999, 31_000], &u1), ["B", "B", "B", "A"]);
    }
}

#[test]
fn c02_sibling_a_trail_of_one_moves_with_each_block() {
    // The stand-in replaces the binding: the price of the shortest trail, named in its setting.
    let config = configured(|config| config.sticky.trail = 1);
    let mut pool = Scenario::with(config, &["A", "B", "C"]);
    let u1 = by("u1");
    assert_eq!(pool.turn(0, &u1), "A");
    pool.block(1_000, "A", 31_000);
    assert_eq!(pool.turns(&[2_000, 3_000, 31_000], &u1), ["B", "B", "B"]);
}

#[test]
fn c04_waiting_for_a_pin_is_bounded_in_depth() {
    let mut pool = queueing(1);
    let u1 = by("u1");
    assert_eq!(pool.turn(0, &u1), "A");
    assert_eq!(pool.hold(100, &u1).account, "A");

    let refusal = pool.refused(110, &u1);
    let wait = refusal.wait().unwrap();
    assert_eq!((wait.account.as_str(), wait.wake_at, wait.deadline), ("A", None, at(5_110)));
    assert_eq!(pool.inspect(110, "A").waiting, 1);
    assert_eq!(pool.hold(120, &u1).account, "B", "the queue is full");
}

#[test]
fn c04_waiting_for_a_pin_is_bounded_in_time() {
    let mut pool = queueing(1);
    let u1 = by("u1");
    assert_eq!(pool.turn(0, &u1), "A");
    pool.hold(100, &u1);
    let wait = pool.refused(110, &u1).wait().unwrap().ticket;

    let again = pool.refused(5_109, &u1.clone().after_wait(wait));
    assert_eq!(again.wait().unwrap().deadline, at(5_110), "a wait is not renewed");
    assert_eq!(pool.hold(5_110, &u1.clone().after_wait(wait)).account, "B");
    assert_eq!(pool.inspect(5_110, "A").waiting, 0);
}

#[test]
fn c04_a_waiter_gets_the_account_when_it_is_released() {
    let mut pool = queueing(1);
    let u1 = by("u1");
    assert_eq!(pool.turn(0, &u1), "A");
    let l1 = pool.hold(100, &u1);
    let wait = pool.refused(110, &u1).wait().unwrap().ticket;

    pool.ok(&l1, 2_000);
    assert_eq!(pool.hold(2_000, &u1.clone().after_wait(wait)).account, "A");
    assert_eq!(pool.inspect(2_000, "A").waiting, 0);
}

#[test]
fn c04_without_a_budget_nobody_waits() {
    let accounts = [Account::new("A").max_in_flight(1), Account::new("B")];
    let mut pool = Scenario::of(conventions(), accounts);
    assert_eq!(pool.turn(0, &by("u1")), "A");
    pool.hold(100, &by("u1"));
    assert_eq!(pool.hold(110, &by("u1")).account, "B");
}

#[test]
fn c04_sibling_a_place_in_the_queue_is_given_back_once() {
    let mut pool = queueing(1);
    let u1 = by("u1");
    assert_eq!(pool.turn(0, &u1), "A");
    pool.hold(100, &u1);

    let wait = pool.refused(110, &u1).wait().unwrap().ticket;
    assert!(pool.scheduler.give_up(wait));
    assert!(!pool.scheduler.give_up(wait));
    assert!(pool.refused(120, &u1).wait().is_some(), "the place is free for the next");

    // A place whose holder never came back is free at its deadline.
    assert_eq!(pool.hold(5_119, &u1).account, "B");
    assert!(pool.refused(5_120, &u1).wait().is_some());
}

#[test]
fn c04_sibling_an_account_that_goes_away_ends_the_wait() {
    let mut pool = queueing(1);
    let u1 = by("u1");
    assert_eq!(pool.turn(0, &u1), "A");
    pool.hold(100, &u1);
    let wait = pool.refused(110, &u1).wait().unwrap().ticket;
    pool.set_status(200, "A", Status::Disabled);
    assert_eq!(pool.hold(201, &u1.clone().after_wait(wait)).account, "B");
    assert_eq!(pool.inspect(201, "A").waiting, 0);
}

#[test]
fn c04_sibling_a_foreign_wait_takes_nobodys_place() {
    let u1 = by("u1");
    let waiting = |origin| {
        let mut pool = queueing(2);
        let config = pool.scheduler.config().clone();
        pool.scheduler = Scheduler::with_origin(config, origin).unwrap();
        pool.add(0, Account::new("A").max_in_flight(1));
        pool.add(0, Account::new("B"));
        assert_eq!(pool.turn(0, &u1), "A");
        pool.hold(100, &u1);
        let wait = pool.refused(110, &u1).wait().unwrap().ticket;
        (pool, wait)
    };
    let (mut pool, own) = waiting(1);
    let (_, foreign) = waiting(2);

    pool.refused(120, &u1.clone().after_wait(foreign));
    assert_eq!(pool.inspect(120, "A").waiting, 2, "both wait here");
    assert!(pool.scheduler.give_up(own), "the first one kept its place");
}

#[test]
fn c04_sibling_the_queue_of_an_account_is_shared_by_its_callers() {
    let mut pool = queueing(2);
    for caller in ["u1", "u2", "u3"] {
        pool.scheduler.bind(&by(caller).request(), "A", at(0)).unwrap();
    }
    pool.hold_on(100, "A", &anyone());
    assert!(pool.refused(110, &by("u1")).wait().is_some());
    assert!(pool.refused(110, &by("u2")).wait().is_some());
    assert_eq!(pool.hold(110, &by("u3")).account, "B");
}

#[test]
fn c05_no_wait_for_a_pin_that_cannot_recover_in_time() {
    let mut pool = queueing(3);
    let u1 = by("u1");
    assert_eq!(pool.turn(0, &u1), "A");

    let mut short = pool.clone();
    short.block(1_000, "A", 3_000);
    let refusal = short.refused(1_001, &u1);
    assert_eq!(refusal.wait().unwrap().wake_at, Some(at(3_000)));
    let ticket = refusal.wait().unwrap().ticket;
    assert!(short.refused(2_999, &u1.clone().after_wait(ticket)).wait().is_some());
    assert_eq!(short.hold(3_000, &u1.clone().after_wait(ticket)).account, "A");

    let mut long = pool.clone();
    long.block(1_000, "A", 8_000);
    assert_eq!(long.hold(1_001, &u1).account, "B");

    pool.block(1_000, "A", 8_000);
    pool.set_status(1_000, "B", Status::Disabled);
    let refusal = pool.refused(1_001, &u1);
    assert!(refusal.wait().is_none());
    assert_eq!(refusal.retry_after(), Some(ms(6_999)));
}

#[test]
fn c05_sibling_the_budget_ends_with_its_last_millisecond() {
    // The budget of a request at 1 001 ends at 6 001.
    for (until, waits) in [(6_000, true), (6_001, true), (6_002, false)] {
        let mut pool = queueing(3);
        let u1 = by("u1");
        assert_eq!(pool.turn(0, &u1), "A");
        pool.block(1_000, "A", until);
        let answer = pool.pick(1_001, &u1);
        assert_eq!(answer.is_err_and(|refusal| refusal.wait().is_some()), waits, "until {until}");
    }
}

#[test]
fn c05_sibling_a_busy_account_that_is_blocked_as_well_is_not_worth_waiting_for() {
    for (until, waits) in [(6_001, true), (6_002, false)] {
        let mut pool = queueing(3);
        let u1 = by("u1");
        assert_eq!(pool.turn(0, &u1), "A");
        pool.hold(100, &u1);
        pool.block(1_000, "A", until);
        let answer = pool.pick(1_001, &u1);
        assert_eq!(answer.is_err_and(|refusal| refusal.wait().is_some()), waits, "until {until}");
    }
}

#[test]
fn c05_sibling_a_full_window_is_waited_for_until_its_slot_is_free() {
    // The slot taken at 0 is free at 60 000.
    for (t, waits) in [(54_999, false), (55_000, true), (59_999, true)] {
        let config = configured(|config| config.sticky.queue_on_pin = ms(5_000));
        let mut pool = Scenario::of(config, [Account::new("A").rpm(1), Account::new("B")]);
        assert_eq!(pool.turn(0, &by("u1")), "A");
        match pool.pick(t, &by("u1")) {
            Ok(held) => assert_eq!((held.account.as_str(), waits), ("B", false), "at {t}"),
            Err(refusal) => {
                let wait = refusal.wait().unwrap();
                assert_eq!((wait.wake_at, waits), (Some(at(60_000)), true), "at {t}");
                let ask = by("u1").after_wait(wait.ticket);
                assert_eq!(pool.hold(60_000, &ask).account, "A");
            }
        }
    }
}

#[test]
fn c05_sibling_what_never_lifts_is_not_waited_for() {
    let changes: [Event; 3] = [
        |pool| pool.scheduler.set_maintenance("A", true, at(10)).unwrap(),
        |pool| {
            let plan = Plan::default().max_in_flight(0);
            pool.scheduler.set_plan("A", &plan, at(10)).unwrap();
        },
        |pool| pool.scheduler.set_models("A", &Entitlement::only(["m2"]), at(10)).unwrap(),
    ];
    for change in changes {
        let mut pool = queueing(3);
        let u1 = by("u1").on("m1");
        assert_eq!(pool.turn(0, &u1), "A");
        change(&mut pool);
        assert_eq!(pool.hold(11, &u1).account, "B");
    }
}

#[test]
fn c06_picks_and_successes_alone_write_the_binding() {
    let mut pool = Scenario::new(&["A", "B"]);
    assert_eq!(pool.turns(&[0, 10, 20], &by("u1")), ["A", "A", "A"]);

    let mut pool = Scenario::new(&["A", "B"]);
    assert_eq!(pool.turns(&[0, 10, 20], &anyone()), ["A", "B", "A"]);
}

#[test]
fn c06_sibling_every_way_to_a_lease_writes_the_binding() {
    let u1 = by("u1");
    let mut acquired = Scenario::new(&["A", "B"]);
    let lease = acquired.hold_on(0, "B", &u1);
    acquired.ok(&lease, 1);
    assert_eq!(acquired.turns(&[10, 20], &u1), ["B", "B"]);

    // Served degraded, after a wait, and at selection.
    let degraded = configured(|config| config.degraded = Degraded::Transient);
    let mut degraded = Scenario::with(degraded, &["A", "B"]);
    degraded.block(0, "A", 20_000);
    degraded.block(0, "B", 10_000);
    assert_eq!(degraded.turn(1, &u1), "B");
    assert_eq!(degraded.turn(20_000, &u1), "B");

    let mut waited = queueing(1);
    assert_eq!(waited.turn(0, &u1), "A");
    let first = waited.hold(100, &u1);
    let wait = waited.refused(110, &u1).wait().unwrap().ticket;
    waited.cancel(&first, 500_000);
    let second = waited.hold(500_000, &u1.clone().after_wait(wait));
    waited.ok(&second, 500_001);
    assert_eq!(waited.turn(1_100_000, &u1), "A", "the success after the wait refreshed it");
}

#[test]
fn c07_a_wait_keeps_the_callers_identity() {
    let mut pool = queueing(3);
    let u1 = by("u1");
    assert_eq!(pool.turn(0, &u1), "A");
    let l1 = pool.hold(100, &by("u2").without(&["B"]));
    assert_eq!(l1.account, "A");

    let refusal = pool.refused(110, &u1);
    assert_eq!(refusal.wait().unwrap().account, "A");
    pool.ok(&l1, 500);
    let woken = pool.hold(500, &u1.clone().after_wait(refusal.wait().unwrap().ticket));
    assert_eq!((woken.account.as_str(), woken.grant.path), ("A", Path::Sticky));

    assert_eq!(pool.turn(600, &u1.clone().without(&["A"])), "B");
    assert_eq!(pool.bound_to(602, &u1).unwrap(), "A");
}

#[test]
fn c08_bindings_are_per_caller_and_model() {
    let accounts = || [Account::new("A").models(Entitlement::only(["m1"])), Account::new("B")];
    let alternate = |pool: &mut Scenario| {
        [(0, "m1"), (10, "m2"), (20, "m1"), (30, "m2")]
            .map(|(t, model)| pool.turn(t, &by("u1").on(model)))
    };

    let mut pool = Scenario::of(conventions(), accounts());
    assert_eq!(alternate(&mut pool), ["A", "B", "A", "B"]);
    assert_eq!(pool.scheduler.bindings(at(32)), 2);

    // One binding for all models does not flap either: A stays its home.
    let config = configured(|config| config.sticky.bind_by_caller_only = true);
    let mut pool = Scenario::of(config, accounts());
    assert_eq!(alternate(&mut pool), ["A", "B", "A", "B"]);
    assert_eq!(pool.scheduler.bindings(at(32)), 1);
    assert_eq!(pool.bound_to(32, &by("u1").on("m2")).unwrap(), "A");
}

#[test]
fn c08_sibling_a_shared_binding_settles_on_an_account_that_serves_all_models() {
    for (order, trail) in [(Order::MostRecent, 4), (Order::MostRecent, 1), (Order::HomeFirst, 1)] {
        let config = configured(|config| {
            config.sticky.bind_by_caller_only = true;
            (config.sticky.order, config.sticky.trail) = (order, trail);
        });
        let accounts = [Account::new("A").models(Entitlement::only(["m1"])), Account::new("B")];
        let mut pool = Scenario::of(config, accounts);
        let served = ["m1", "m2", "m1", "m2"].map(|model| pool.turn(0, &by("u1").on(model)));
        assert_eq!(served, ["A", "B", "B", "B"], "{order:?}, {trail}");
    }
}

#[test]
fn c08_sibling_bindings_are_per_selector() {
    let accounts = [Account::new("A").selectors(Entitlement::only(["s1"])), Account::new("B")];
    let mut pool = Scenario::of(conventions(), accounts);
    let served = [(0, "s1"), (10, "s2"), (20, "s1"), (30, "s2")]
        .map(|(t, selector)| pool.turn(t, &by("u1").on("m1").via(selector)));
    assert_eq!(served, ["A", "B", "A", "B"]);

    // A model and a selector of the same name are different names.
    let mut pool = Scenario::new(&["A", "B", "C"]);
    let conversations = [by("u1").on("x"), by("u1").via("x"), by("u1").on("x").via("x")];
    for t in [0, 10] {
        let served: Vec<String> = conversations.iter().map(|ask| pool.turn(t, ask)).collect();
        assert_eq!(served, ["A", "B", "C"]);
    }
}

#[test]
fn c09_a_binding_lives_by_idle_time() {
    for config in both_orders() {
        let mut pool = Scenario::with(config, &["A", "B"]);
        let times = [0, 300_000, 600_000, 900_000, 1_400_000];
        assert_eq!(pool.turns(&times, &by("u1")), ["A"; 5]);
        assert_eq!(pool.bound_to(2_100_000, &by("u1")), None);
        assert_eq!(pool.turn(2_100_000, &by("u1")), "B");
    }
}

#[test]
fn c09_sibling_it_lapses_exactly_at_the_end_of_the_idle_time() {
    // The success at 1 counts: the idle time ends at 600 001.
    for (t, account) in [(600_000, "A"), (600_001, "B"), (600_002, "B")] {
        let mut pool = Scenario::new(&["A", "B"]);
        assert_eq!(pool.turn(0, &by("u1")), "A");
        assert_eq!(pool.bound_to(t, &by("u1")).is_some(), account == "A", "at {t}");
        assert_eq!(pool.scheduler.bindings(at(t)) == 1, account == "A", "at {t}");
        assert_eq!(pool.turn(t, &by("u1")), account, "at {t}");
    }
}

#[test]
fn c09_sibling_reading_does_not_keep_a_binding_alive() {
    let mut pool = Scenario::new(&["A", "B"]);
    let u1 = by("u1");
    assert_eq!(pool.turn(0, &u1), "A");
    assert!(pool.bound_to(600_000, &u1).is_some());
    assert_eq!(pool.scheduler.preview(&u1.request(), at(600_000)).unwrap().account, "A");
    pool.inspect(600_000, "A");
    assert_eq!(pool.turn(600_001, &u1), "B");
}

#[test]
fn c09_sibling_a_binding_that_lapsed_does_not_come_back_with_a_longer_idle_time() {
    let mut pool = Scenario::new(&["A", "B"]);
    let u1 = by("u1");
    assert_eq!(pool.turn(0, &u1), "A");
    assert_eq!(pool.turn(600_001, &by("u2")), "B");
    pool.scheduler
        .set_config(configured(|it| it.sticky.time_to_idle = Millis::from_days(1)), at(600_003))
        .unwrap();
    assert_eq!(pool.scheduler.bindings(at(600_004)), 1);
    assert_eq!(pool.bound_to(600_004, &u1), None);
    assert!(!pool.scheduler.unbind(&u1.request(), at(600_004)));
}

#[test]
fn c11_a_bound_account_that_is_spent_is_left() {
    for config in both_orders() {
        let mut pool = Scenario::with(config, &["A", "B"]);
        let u1 = by("u1");
        assert_eq!(pool.turn(0, &u1), "A");
        let l1 = pool.hold(10, &u1);
        pool.fail(&l1, 20, exhausted_until(3_600_000));
        assert_eq!(pool.turn(21, &u1.clone().without(&["A"])), "B");
        assert_eq!(pool.turns(&[1_000, 5_000], &u1), ["B", "B"]);
        assert_eq!(pool.bound_to(5_002, &u1).unwrap(), "B");

        // B is the warm one at the reset.
        for t in (500_000..3_600_000).step_by(500_000) {
            assert_eq!(pool.turn(t, &u1), "B", "at {t}");
        }
        assert_eq!(pool.turn(3_600_000, &u1), "B");
    }
}

#[test]
fn c11_sibling_a_spent_model_or_selector_is_left_like_a_spent_account() {
    for scope in [Scope::Account, Scope::Model, Scope::Selector] {
        let mut pool = Scenario::with(configured(|it| it.sticky.no_fallback = true), &["A", "B"]);
        let u1 = by("u1").on("m1").via("s1");
        assert_eq!(pool.turn(0, &u1), "A");
        let l1 = pool.hold(10, &u1);
        let reset = Some(Reset::At(at(3_600_000)));
        pool.fail(&l1, 20, Outcome::QuotaExhausted { scope, reset });
        assert_eq!(pool.turn(21, &u1), "B", "{scope:?}");
        assert_eq!(pool.bound_to(23, &u1).unwrap(), "B", "{scope:?}");
    }
}

#[test]
fn c11_sibling_a_model_that_the_quota_does_not_meter_keeps_its_account() {
    let config = configured(|it| it.unmetered = BTreeSet::from(["free".to_owned()]));
    let mut pool = Scenario::with(config, &["A", "B"]);
    let (free, paid) = (by("u1").on("free"), by("u2").on("m1").without(&["B"]));
    assert_eq!(pool.turn(0, &free), "A");
    assert_eq!(pool.turn(5, &paid), "A");
    pool.observe(20, "A", &anyone(), exhausted_until(3_600_000));

    let spent = by("u2").on("m1");
    assert_eq!(pool.turns(&[30, 40], &free), ["A", "A"]);
    assert_eq!(pool.bound_to(50, &free).unwrap(), "A");
    assert_eq!(pool.turn(60, &spent), "B");
}

#[test]
fn c11_sibling_a_quota_block_no_longer_than_the_cache_is_a_detour() {
    // At the look-up at 1 000 exactly the cache lifetime is left, or 1 ms more.
    for (reset, home) in [(601_000, "A"), (601_001, "B")] {
        let mut pool = Scenario::new(&["A", "B"]);
        let u1 = by("u1");
        assert_eq!(pool.turn(999, &u1), "A");
        pool.observe(1_000, "A", &u1, exhausted_until(reset));
        assert_eq!(pool.turn(1_000, &u1), "B");
        assert_eq!(pool.bound_to(1_002, &u1).unwrap(), home, "reset {reset}");
    }
}

#[test]
fn c11_sibling_a_rejected_credential_is_left_at_once() {
    for outcome in [Outcome::AuthFailed, Outcome::DeadToken] {
        let mut pool = Scenario::new(&["A", "B"]);
        let u1 = by("u1");
        assert_eq!(pool.turn(0, &u1), "A");
        let l1 = pool.hold(10, &u1);
        pool.fail(&l1, 20, outcome);
        assert_eq!(pool.turn(21, &u1), "B");
        assert_eq!(pool.bound_to(23, &u1).unwrap(), "B");
    }
}

/// The conversation that the blockers of C12 are tried on.
fn conversation() -> Ask {
    by("u1").on("m1").via("s1").costing(10)
}

/// What can keep A from serving that conversation from 10 on, the exclude list aside.
fn blockers() -> Vec<(&'static str, Event)> {
    fn fail(pool: &mut Scenario, outcome: Outcome) {
        pool.observe(10, "A", &conversation(), outcome);
    }
    fn plan(pool: &mut Scenario, plan: &Plan) {
        pool.scheduler.set_plan("A", plan, at(10)).unwrap();
    }
    vec![
        ("disabled", |pool| pool.set_status(10, "A", Status::Disabled)),
        ("banned", |pool| pool.set_status(10, "A", Status::Banned)),
        ("maintenance", |pool| pool.scheduler.set_maintenance("A", true, at(10)).unwrap()),
        ("account cooldown", |pool| pool.block(10, "A", 60_000)),
        ("model cooldown", |pool| pool.block_model(10, "A", "m1", 60_000)),
        ("selector cooldown", |pool| pool.block_selector(10, "A", "s1", 60_000)),
        ("operator block", |pool| {
            let (scope, dimension) = (BlockScope::Account, Dimension::Operator);
            pool.scheduler.block("A", &scope, dimension, at(60_000), at(10)).unwrap();
        }),
        ("overload", |pool| fail(pool, Outcome::Overloaded { scope: Scope::Model, reset: None })),
        ("quarantine", |pool| fail(pool, Outcome::Internal)),
        ("breaker open", |pool| fail(pool, Outcome::Network)),
        ("rejected credential", |pool| fail(pool, Outcome::AuthFailed)),
        ("quota exhausted", |pool| fail(pool, exhausted_until(60_000))),
        ("dry reading", |pool| pool.quota(10, "A", 0.0, Some(60_000))),
        ("request window full", |pool| plan(pool, &Plan::default().rpm(1))),
        ("token window full", |pool| plan(pool, &Plan::default().tokens_per_minute(9))),
        ("in-flight full", |pool| {
            pool.hold_on(10, "A", &anyone());
            plan(pool, &Plan::default().max_in_flight(1));
        }),
        ("not entitled to the model", |pool| {
            pool.scheduler.set_models("A", &Entitlement::all_but(["m1"]), at(10)).unwrap();
        }),
        ("not entitled to the selector", |pool| {
            pool.scheduler.set_selectors("A", &Entitlement::only(["s2"]), at(10)).unwrap();
        }),
        ("model blocked", |pool| {
            let blocked = BTreeSet::from(["m1".to_owned()]);
            pool.scheduler.set_blocked_models("A", &blocked, at(10)).unwrap();
        }),
    ]
}

/// For each blocker its name, a pool in which the conversation is bound to A, which is blocked,
/// and the request.
fn bound_but_blocked(config: &Config) -> Vec<(&'static str, Scenario, Ask)> {
    let mut config = config.clone();
    config.breaker.threshold = Some(1);
    config.breaker.internal_threshold = Some(1);
    let mut bound = Scenario::of(config, [Account::new("A").rpm(100), Account::new("B")]);
    let lease = bound.hold_on(0, "A", &conversation());
    bound.ok(&lease, 1);

    let blocked = blockers().into_iter().map(|(name, block)| {
        let mut pool = bound.clone();
        block(&mut pool);
        (name, pool, conversation())
    });
    let excluded = ("excluded", bound.clone(), conversation().without(&["A"]));
    blocked.chain([excluded]).collect()
}

#[test]
fn c12_a_sticky_caller_meets_the_same_conditions_as_any_other() {
    for (name, mut pool, ask) in bound_but_blocked(&conventions()) {
        let preview = pool.scheduler.preview(&ask.request(), at(11)).unwrap();
        assert_eq!(preview.account, "B", "{name}");
        assert_eq!(pool.hold(11, &ask).account, "B", "{name}");
    }

    let mut pool = Scenario::new(&["A", "B"]);
    assert_eq!(pool.turn(0, &by("u1").on("m1")), "A");
    pool.block_model(10, "A", "m2", 60_000);
    assert_eq!(pool.hold(11, &by("u1").on("m1")).account, "A");
}

#[test]
fn c12_sibling_acquire_uses_the_same_predicate() {
    for (name, mut pool, ask) in bound_but_blocked(&conventions()) {
        let answer = pool.scheduler.select_account("A", &ask.request(), at(11));
        assert!(answer.is_err(), "{name}");
    }
}

#[test]
fn c12_sibling_require_uses_the_same_predicate() {
    for (name, mut pool, ask) in bound_but_blocked(&conventions()) {
        let refusal = pool.refused(11, &ask.insisting(Affinity::Require));
        assert_eq!(refusal.tally().total(), 1, "{name}");
    }
}

#[test]
fn c12_sibling_a_later_stop_of_the_trail_meets_the_same_conditions() {
    for (name, mut pool, ask) in bound_but_blocked(&conventions()) {
        pool.add(11, Account::new("C"));
        pool.scheduler.bind(&ask.request(), "B", at(11)).unwrap();
        pool.block(11, "B", 60_000);
        assert_eq!(pool.hold(12, &ask).account, "C", "{name}");
    }
}

#[test]
fn c12_sibling_no_switch_lets_a_blocked_account_serve() {
    let ties = Ties::Health { headroom_steps: 1, in_flight_slack: 9 };
    for config in [
        configured(|config| config.rank.ties = ties),
        configured(|config| config.rank.shard = Shard::Rendezvous),
        configured(|config| config.rank.shard = Shard::Modulo),
        configured(|config| config.sticky.trail = 1),
        configured(|config| config.sticky.drop_when_blocked = true),
        configured(|config| config.sticky.bind_at = BindAt::Select),
        configured(|config| config.sticky.bind_by_caller_only = true),
        configured(|config| config.sticky.order = Order::MostRecent),
        configured(|config| config.degraded = Degraded::Transient),
    ] {
        for (name, mut pool, ask) in bound_but_blocked(&config) {
            assert_eq!(pool.hold(11, &ask).account, "B", "{name} under {config:?}");
        }
    }
}

#[test]
fn c13_a_paused_account_is_left_and_its_late_success_does_not_rebind() {
    for config in both_orders() {
        let mut pool = Scenario::with(config, &["A", "B"]);
        let u1 = by("u1");
        assert_eq!(pool.turn(0, &u1), "A");
        let l1 = pool.hold(100, &u1);
        pool.set_status(150, "A", Status::Disabled);
        pool.ok(&l1, 200);
        assert_eq!(pool.inspect(200, "A").in_flight, 0);
        assert_eq!(pool.scheduler.peek(&u1.request(), at(200)).unwrap().last_used, at(1));

        assert_eq!(pool.turn(210, &u1), "B");
        pool.set_status(300, "A", Status::Active);
        assert_eq!(pool.hold(310, &u1).account, "B", "B is the warm one now");
    }
}

#[test]
fn c13_sibling_no_way_of_pausing_lets_a_late_success_bind() {
    let pauses: [Event; 5] = [
        |pool| pool.set_status(150, "A", Status::Disabled),
        |pool| pool.set_status(150, "A", Status::Banned),
        |pool| pool.scheduler.set_maintenance("A", true, at(150)).unwrap(),
        |pool| pool.remove(150, "A"),
        |pool| {
            pool.remove(150, "A");
            pool.add(160, Account::new("A"));
        },
    ];
    for pause in pauses {
        let mut pool = Scenario::new(&["A", "B"]);
        let l1 = pool.hold(100, &by("u1"));
        pause(&mut pool);
        pool.ok(&l1, 200);
        assert_eq!(pool.bound_to(200, &by("u1")), None);
        assert_eq!(pool.scheduler.bindings(at(200)), 0);
    }
}

#[test]
fn c13_sibling_a_success_after_the_breaker_opened_does_not_bind() {
    let mut pool = Scenario::with(configured(|it| it.breaker.threshold = Some(1)), &["A", "B"]);
    let l1 = pool.hold(100, &by("u1"));
    pool.observe(150, "A", &anyone(), Outcome::Network);
    pool.ok(&l1, 200);
    assert_eq!(pool.bound_to(200, &by("u1")), None);
}

#[test]
fn c13_sibling_a_binding_written_at_selection_is_left_too() {
    let mut pool = Scenario::with(configured(|it| it.sticky.bind_at = BindAt::Select), &["A", "B"]);
    let u1 = by("u1");
    let l1 = pool.hold(100, &u1);
    assert_eq!(pool.bound_to(100, &u1).unwrap(), "A");
    pool.set_status(150, "A", Status::Disabled);
    pool.ok(&l1, 200);
    assert_eq!(pool.turn(210, &u1), "B");
    pool.set_status(300, "A", Status::Active);
    assert_eq!(pool.turn(310, &u1), "B");
}

#[test]
fn c15_a_soft_quota_threshold_redirects_new_callers_only() {
    let config = || configured(|config| config.soft.quota_left_percent = Some(20.0));
    for reset in [300_000, 3_600_000] {
        let mut pool = Scenario::with(config(), &["A", "B"]);
        pool.quota(0, "A", 30.0, None);
        pool.quota(0, "B", 60.0, None);
        assert_eq!(pool.turn(0, &by("u1").without(&["B"])), "A");
        pool.quota(10, "A", 19.0, None);
        assert_eq!(pool.turn(20, &by("u1")), "A");
        assert_eq!(pool.turn(30, &by("u2")), "B");

        pool.quota(40, "A", 0.0, Some(reset));
        assert_eq!(pool.turn(50, &by("u1")), "B");
    }
}

#[test]
fn c15_sibling_the_threshold_is_felt_below_it() {
    for (left, account) in [(19.0, "B"), (20.0, "A"), (21.0, "A")] {
        let config = configured(|config| config.soft.quota_left_percent = Some(20.0));
        let mut pool = Scenario::with(config, &["A", "B"]);
        pool.quota(0, "A", left, None);
        // B is far worse in the order, but not past its limit.
        pool.quota(0, "B", 20.0, None);
        pool.hold_on(0, "B", &anyone());
        assert_eq!(pool.hold(1, &by("u2")).account, account, "{left} % left");
    }
}

#[test]
fn c15_sibling_a_soft_rate_limit_redirects_new_callers_only() {
    let config = configured(|config| config.soft.rate_used_percent = Some(50.0));
    let account = |id| Account::new(id).rpm(4);
    let mut pool = Scenario::of(config, [account("A"), account("B")]);
    let u1 = by("u1");
    assert_eq!(pool.turns(&[0, 10], &u1), ["A", "A"]);
    pool.hold_on(20, "B", &anyone());
    assert_eq!(pool.turn(30, &u1), "A", "half is used, and the caller is bound");
    assert_eq!(pool.turn(40, &by("u2")), "B", "though B is busier");

    // Past the limit everywhere, the limit is no limit.
    assert_eq!(pool.turn(50, &by("u3").without(&["B"])), "A");
    assert_eq!(pool.refused(60, &by("u3").without(&["B"])).tally().count(Reason::RateLimit), 1);
}

#[test]
fn c16_a_reserve_gives_its_callers_back() {
    for config in both_orders() {
        let reserve = Account::new("R").fallback_only(true);
        let mut pool = Scenario::of(config.clone(), [Account::new("P"), reserve]);
        let u1 = by("u1");
        pool.block(0, "P", 10_000);
        assert_eq!(pool.turns(&[100, 9_999], &u1), ["R", "R"]);
        assert_eq!(pool.turn(10_000, &u1), "P");
        assert_eq!(pool.bound_to(10_002, &u1).unwrap(), "P", "the binding has moved");
        assert_eq!(pool.inspect(10_002, "P").bound, 1);
        assert_eq!(pool.inspect(10_002, "R").bound, 0);

        let mut pool = Scenario::with(config, &["P", "R"]);
        pool.block(0, "P", 10_000);
        assert_eq!(pool.turn(100, &u1), "R");
        assert_eq!(pool.turn(10_000, &u1), "R", "without the flag it is an account like any");
    }
}

#[test]
fn c16_a_reserve_keeps_its_callers_while_nobody_else_can_serve() {
    let accounts = [Account::new("P").max_in_flight(1), Account::new("R").fallback_only(true)];
    let mut pool = Scenario::of(conventions(), accounts);
    let u1 = by("u1");
    pool.block(0, "P", 10_000);
    assert_eq!(pool.turn(100, &u1), "R");

    let busy = pool.hold_on(10_000, "P", &anyone());
    assert_eq!(pool.turn(10_001, &u1), "R", "P is full");
    pool.ok(&busy, 10_002);
    pool.block(10_003, "P", 20_000);
    assert_eq!(pool.turn(10_004, &u1), "R", "P is blocked");
    assert_eq!(pool.turn(20_000, &u1), "P");
}

#[test]
fn c16_sibling_a_conversation_given_back_stays_where_it_went() {
    for config in both_orders() {
        let accounts =
            [Account::new("P"), Account::new("Q"), Account::new("R").fallback_only(true)];
        let mut pool = Scenario::of(config, accounts);
        let u1 = by("u1");
        pool.block(0, "P", 10_000);
        pool.block(0, "Q", 10_000);
        assert_eq!(pool.turn(100, &u1), "R");
        assert_eq!(pool.turns(&[10_000, 10_010, 10_020, 10_030], &u1), ["P"; 4]);

        // The reserve is still warm when nobody else can serve, and yields again to a warm one.
        pool.block(10_040, "P", 20_000);
        pool.block(10_040, "Q", 15_000);
        assert_eq!(pool.turn(10_050, &u1), "R");
        assert_eq!(pool.turns(&[20_000, 20_010], &u1), ["P", "P"], "P is warm, Q never was");
    }
}

#[test]
fn c16_sibling_a_reserve_under_no_fallback_gives_back_too() {
    let config = configured(|config| config.sticky.no_fallback = true);
    let accounts = [Account::new("P"), Account::new("R").fallback_only(true)];
    let mut pool = Scenario::of(config, accounts);
    let u1 = by("u1");
    pool.block(0, "P", 10_000);
    assert_eq!(pool.turn(100, &u1), "R");
    assert_eq!(pool.turn(10_000, &u1), "P");
    assert_eq!(pool.bound_to(10_002, &u1).unwrap(), "P");
}

#[test]
fn c16_sibling_a_reserve_is_neither_waited_for_nor_insisted_on() {
    let queueing = configured(|config| config.sticky.queue_on_pin = ms(5_000));
    let insisting = configured(|config| config.sticky.no_fallback = true);
    for config in [queueing, insisting] {
        let reserve = Account::new("R").fallback_only(true).max_in_flight(1);
        let mut pool = Scenario::of(config, [Account::new("P"), reserve]);
        let u1 = by("u1");
        pool.block(0, "P", 10_000);
        assert_eq!(pool.turn(100, &u1), "R");
        pool.hold(200, &u1);
        pool.refused(9_999, &u1);
        assert_eq!(pool.hold(10_000, &u1).account, "P");
    }
}

#[test]
fn c16_sibling_a_warm_reserve_comes_before_a_cold_one() {
    for config in both_orders() {
        let reserve = |id| Account::new(id).fallback_only(true);
        let accounts = [Account::new("P"), reserve("R"), reserve("S")];
        let mut pool = Scenario::of(config, accounts);
        let u1 = by("u1");
        assert_eq!(pool.turn(0, &u1), "P");
        pool.block(10, "P", 10_000);
        assert_eq!(pool.turns(&[20, 30, 40], &u1), ["R", "R", "R"]);
        assert_eq!(pool.turn(10_000, &u1), "P");
    }
}

#[test]
fn c16_sibling_a_strict_pin_does_not_start_on_a_reserve() {
    let config = configured(|config| {
        config.sticky.bind_by_caller_only = true;
        config.sticky.no_fallback = true;
    });
    let accounts = [Account::new("R").fallback_only(true), Account::new("P"), Account::new("Q")];
    let mut pool = Scenario::of(config, accounts);
    for caller in 0..50 {
        let ask = by(&format!("u{caller}"));
        let first = pool.turn(caller, &ask);
        assert_ne!(first, "R");
        assert_eq!(pool.turn(caller, &ask), first);
    }
    pool.block(100, "P", 200);
    pool.block(100, "Q", 200);
    assert_eq!(pool.turn(100, &by("late")), "R");
}

#[test]
fn c17_two_first_requests_make_one_binding() {
    for (config, home) in both_orders().into_iter().zip(["B", "A"]) {
        let mut pool = Scenario::with(config, &["A", "B"]);
        let u1 = by("u1");
        let l1 = pool.hold(0, &u1);
        let l2 = pool.hold(1, &u1);
        assert_eq!((l1.account.as_str(), l2.account.as_str()), ("A", "B"));
        pool.ok(&l2, 500);
        pool.ok(&l1, 600);
        assert_eq!(pool.scheduler.bindings(at(600)), 1);
        assert_eq!(pool.bound_to(600, &u1).unwrap(), home);
        assert_eq!(pool.turns(&[700, 800, 900], &u1), [home; 3]);
    }
}

#[test]
fn c17_bound_at_selection_they_stay_together() {
    let mut pool = Scenario::with(configured(|it| it.sticky.bind_at = BindAt::Select), &["A", "B"]);
    let u1 = by("u1");
    let l1 = pool.hold(0, &u1);
    let l2 = pool.hold(1, &u1);
    assert_eq!((l1.account.as_str(), l2.account.as_str()), ("A", "A"));
    pool.ok(&l2, 500);
    pool.ok(&l1, 600);
    assert_eq!(pool.scheduler.bindings(at(600)), 1);
    assert_eq!(pool.turns(&[700, 800], &u1), ["A", "A"]);
}

#[test]
fn c17_a_cancelled_first_request_holds_nobody_up() {
    for bind_at in [BindAt::Success, BindAt::Select] {
        let mut pool = Scenario::with(configured(|it| it.sticky.bind_at = bind_at), &["A", "B"]);
        let l1 = pool.hold(0, &by("u1"));
        pool.cancel(&l1, 5);
        pool.hold(6, &by("u1"));
    }
}

#[test]
fn c17_sibling_acquire_binds_at_selection_like_select() {
    let config = || configured(|it| it.sticky.bind_at = BindAt::Select);
    let u1 = by("u1");
    let mut pool = Scenario::with(config(), &["A", "B"]);
    pool.hold_on(0, "B", &u1);
    assert_eq!(pool.hold(1, &u1).account, "B");

    // A binding that has lapsed is no binding.
    let mut pool = Scenario::with(config(), &["A", "B"]);
    assert_eq!(pool.turn(0, &u1), "A");
    pool.hold_on(600_001, "B", &u1);
    assert_eq!(pool.bound_to(600_001, &u1).unwrap(), "B");
    assert_eq!(pool.hold(600_002, &u1).account, "B");
}

#[test]
fn c18_blank_callers_are_anonymous() {
    for caller in ["", "   ", "\t\n", "\u{3000}"] {
        for bind_at in [BindAt::Success, BindAt::Select] {
            let config = configured(|it| it.sticky.bind_at = bind_at);
            let mut pool = Scenario::with(config, &["A", "B"]);
            let blank = by(caller).of("T1");
            assert_eq!(pool.turns(&[0, 10, 20, 30], &blank), ["A", "B", "A", "B"]);
            assert_eq!(pool.scheduler.bindings(at(31)), 0);
        }
    }
}

#[test]
fn c18_sibling_anonymous_traffic_rotates_under_every_shard_and_tie() {
    let health = Ties::Health { headroom_steps: 4, in_flight_slack: 0 };
    for shard in [Shard::Off, Shard::Modulo, Shard::Rendezvous] {
        for ties in [Ties::Exact, health] {
            let config = configured(|it| (it.rank.shard, it.rank.ties) = (shard, ties));
            let mut pool = Scenario::with(config, &["A", "B"]);
            assert_eq!(pool.turns(&[0, 10, 20, 30], &anyone()), ["A", "B", "A", "B"]);
        }
    }
}

#[test]
fn c18_sibling_an_anonymous_request_can_neither_be_bound_nor_require_it() {
    let mut pool = Scenario::new(&["A", "B"]);
    assert_eq!(pool.scheduler.bind(&by("  ").request(), "A", at(0)), Ok(()));
    assert_eq!(pool.scheduler.bindings(at(0)), 0);
    let refusal = pool.refused(0, &by("  ").insisting(Affinity::Require));
    assert_eq!(refusal.tally().count(Reason::Unbound), 1);
    assert_eq!(refusal.retry_after(), None);
}

#[test]
fn c20_only_caller_model_and_selector_make_the_key() {
    let mut pool = Scenario::new(&["A", "B", "C"]);
    let turn = || by("T:s");
    assert_eq!(pool.turn(0, &turn()), "A");
    assert_eq!(pool.turn(10, &turn().costing(7)), "A");
    assert_eq!(pool.turn(20, &turn().in_background()), "A");
    assert_eq!(pool.turn(30, &turn().without(&["C"])), "A");
    assert_eq!(pool.turn(40, &turn().of("T")), "A");
    assert_eq!(pool.scheduler.bindings(at(41)), 1);

    // Names are trimmed, so that stray blanks are not per-turn material either.
    assert_eq!(pool.turn(50, &turn().on("  ").via(" ")), "A");
    let named = pool.turn(60, &turn().on("m1").via("s1"));
    assert_eq!(pool.turn(70, &turn().on(" m1 ").via("\ts1")), named);

    assert_ne!(pool.turn(80, &by("U:s")), "A", "the same session of another tenant");
}

#[test]
fn c21_a_time_out_does_not_bind() {
    for outcome in [
        Outcome::Timeout,
        Outcome::Network,
        Outcome::Internal,
        Outcome::ClientFault,
        Outcome::Cancelled,
        throttled_for(60_000),
    ] {
        let mut pool = Scenario::new(&["A", "B"]);
        let l1 = pool.hold(0, &by("u1"));
        assert_eq!(l1.account, "A");
        pool.fail(&l1, 5_000, outcome);
        assert_eq!(pool.bound_to(5_001, &by("u1")), None, "{outcome:?}");
        assert_eq!(pool.hold(5_001, &by("u1")).account, "B", "{outcome:?}");
    }
}

#[test]
fn c21_a_cancelled_turn_does_not_refresh() {
    // (refresh, the end of the idle time)
    for (refresh, end) in [(Refresh::OnSuccess, 600_001), (Refresh::OnLookup, 1_199_000)] {
        for (t, alive) in [(end - 1, true), (end, false), (1_199_500, false)] {
            let config = configured(|it| it.sticky.refresh = refresh);
            let mut pool = Scenario::with(config, &["A", "B"]);
            assert_eq!(pool.turn(0, &by("u1")), "A");
            let l2 = pool.hold(599_000, &by("u1"));
            pool.cancel(&l2, 599_900);
            assert_eq!(pool.bound_to(t, &by("u1")).is_some(), alive, "{refresh:?} at {t}");
        }
    }
}

#[test]
fn c21_sibling_nothing_but_a_success_refreshes() {
    let ends: [fn(&mut Scenario, &Held); 6] = [
        |pool, held| pool.fail(held, 599_900, Outcome::Timeout),
        |pool, held| pool.fail(held, 599_900, Outcome::ClientFault),
        |pool, held| pool.abandon(held, 599_900),
        |pool, held| assert!(pool.touch(held, 599_900)),
        |pool, held| pool.report(held, 599_900, &Outcome::success()),
        |pool, held| {
            pool.cancel(held, 599_000);
            pool.ok(held, 599_900);
        },
    ];
    for end in ends {
        let mut pool = Scenario::new(&["A", "B"]);
        assert_eq!(pool.turn(0, &by("u1")), "A");
        let held = pool.hold(599_000, &by("u1"));
        end(&mut pool, &held);
        assert!(pool.bound_to(600_000, &by("u1")).is_some());
        assert_eq!(pool.bound_to(600_001, &by("u1")), None);
    }
}

#[test]
fn c22_a_heavy_caller_does_not_draw_others() {
    for config in both_orders() {
        let mut pool = Scenario::with(config, &["A", "B"]);
        let times: Vec<u64> = (0..10).map(|k| k * 10).collect();
        assert_eq!(pool.turns(&times, &by("u1")), ["A"; 10]);
        assert_eq!(pool.turn(100, &by("u2")), "B");
    }
}

#[test]
fn c22_load_ranks_before_the_number_of_bindings() {
    let by_bindings = configured(|config| {
        config.rank.terms.insert(3, Term::BoundCallers);
    });
    for config in [conventions(), by_bindings] {
        let mut pool = Scenario::with(config, &["A", "B"]);
        for caller in 0..100 {
            let ask = by(&format!("v{caller}"));
            pool.scheduler.bind(&ask.request(), "B", at(0)).unwrap();
        }
        assert_eq!(pool.inspect(0, "B").bound, 100);
        for _ in 0..5 {
            pool.hold_on(0, "A", &anyone());
        }
        assert_eq!(pool.hold(0, &by("u9")).account, "B");
    }
}

#[test]
fn c24_the_exclude_list_decides_about_a_retry() {
    for config in both_orders() {
        let mut pool = Scenario::with(config, &["A", "B"]);
        let u1 = by("u1");
        assert_eq!(pool.turn(0, &u1), "A");
        let l1 = pool.hold(10, &u1);
        pool.fail(&l1, 20, Outcome::Network);
        let l2 = pool.hold(21, &u1);
        assert_eq!(l2.account, "A");
        pool.fail(&l2, 30, Outcome::Network);
        assert_eq!(pool.hold(31, &u1.clone().without(&["A"])).account, "B");
    }
}

#[test]
fn c24_sibling_an_excluded_account_is_never_seen() {
    let excluding = |affinity| by("u1").without(&["A"]).insisting(affinity);
    let mut pool = Scenario::new(&["A", "B"]);
    assert_eq!(pool.turn(0, &by("u1")), "A");
    pool.set_status(1, "B", Status::Disabled);
    for affinity in [Affinity::Prefer, Affinity::Ignore, Affinity::Require] {
        assert!(pool.refused(10, &excluding(affinity)).retry_after().is_none());
    }
    assert!(
        pool.scheduler.select_account("A", &excluding(Affinity::Prefer).request(), at(10)).is_err()
    );

    // Not by waiting, not by degraded serving, not by a pin.
    let mut waiting = queueing(3);
    assert_eq!(waiting.turn(0, &by("u1")), "A");
    waiting.hold(5, &by("u1"));
    assert_eq!(waiting.hold(10, &excluding(Affinity::Prefer)).account, "B");

    let degraded = configured(|config| config.degraded = Degraded::Transient);
    let mut degraded = Scenario::with(degraded, &["A", "B"]);
    degraded.block(0, "A", 1_000);
    degraded.block(0, "B", 2_000);
    assert_eq!(degraded.hold(10, &excluding(Affinity::Prefer)).account, "B");

    let strict = configured(|config| config.sticky.no_fallback = true);
    let mut strict = Scenario::with(strict, &["A", "B"]);
    assert_eq!(strict.turn(0, &by("u1")), "A");
    assert_eq!(strict.refused(10, &excluding(Affinity::Prefer)).tally().count(Reason::Excluded), 1);
}

#[test]
fn c25_a_hard_pin_never_serves_elsewhere() {
    // (a) by id, and by the conversation's own account.
    let mut pool = Scenario::new(&["A", "B"]);
    pool.scheduler.bind(&by("u1").request(), "A", at(0)).unwrap();
    pool.block(0, "A", 9_000);
    let by_id = pool.scheduler.select_account("A", &by("u1").request(), at(0)).unwrap_err();
    let required = pool.refused(0, &by("u1").insisting(Affinity::Require));
    for refusal in [by_id, required] {
        assert_eq!(refusal.tally().count(Reason::Throttled), 1);
        assert_eq!(refusal.retry_after(), Some(ms(9_000)));
    }
    assert!(pool.scheduler.select_account("A", &by("u1").request(), at(8_999)).is_err());
    assert_eq!(pool.hold_on(9_000, "A", &by("u1")).account, "A");
    assert_eq!(pool.hold(9_000, &by("u1").insisting(Affinity::Require)).account, "A");

    // (c) a preference goes on.
    let mut pool = Scenario::new(&["A", "B"]);
    pool.scheduler.bind(&by("u1").request(), "A", at(0)).unwrap();
    pool.block(0, "A", 9_000);
    assert_eq!(pool.hold(0, &by("u1")).account, "B");
}

#[test]
fn c25_a_soft_limit_does_not_refuse_a_pinned_request() {
    let config = configured(|config| {
        config.soft.rate_used_percent = Some(0.0);
        config.soft.quota_left_percent = Some(100.0);
    });
    let mut pool = Scenario::of(config, [Account::new("A").rpm(10), Account::new("B")]);
    pool.quota(0, "A", 1.0, None);
    pool.scheduler.bind(&by("u1").request(), "A", at(0)).unwrap();
    assert_eq!(pool.hold_on(0, "A", &by("u1")).account, "A");
    assert_eq!(pool.hold(0, &by("u1").insisting(Affinity::Require)).account, "A");
}

#[test]
fn c25_sibling_a_limit_on_bindings_does_not_refuse_a_pinned_request() {
    for refuse in [false, true] {
        let config = configured(|config| {
            config.sticky.binding_limit = Some(BindingLimit { callers: 1, refuse });
        });
        let mut pool = Scenario::with(config, &["A", "B"]);
        assert_eq!(pool.turn(0, &by("u1")), "A");
        assert_eq!(pool.turn(10, &by("u1").insisting(Affinity::Require)), "A");
        assert_eq!(pool.hold_on(20, "A", &by("u1")).account, "A");
        // A caller of no conversation there meets the limit only where it is to refuse.
        let other = pool.scheduler.select_account("A", &by("u2").request(), at(30));
        assert_eq!(other.is_err(), refuse);
    }
}

#[test]
fn c25_sibling_a_pool_of_hard_pins_refuses_with_the_accounts_own_deadline() {
    let config = configured(|config| config.sticky.no_fallback = true);
    let mut pool = Scenario::with(config, &["A", "B"]);
    assert_eq!(pool.turn(0, &by("u1").on("m1")), "A");
    let l1 = pool.hold(10, &by("u1").on("m1"));
    pool.fail(&l1, 20, model_throttled_for(9_000));
    assert_eq!(pool.retry_after(20, &by("u1").on("m1")), Some(9_000));
    assert_eq!(pool.retry_after(9_019, &by("u1").on("m1")), Some(1));
    assert_eq!(pool.hold(9_020, &by("u1").on("m1")).account, "A");
}

#[test]
fn c25_sibling_a_hard_pin_to_an_account_that_is_gone_says_so() {
    let mut pool = Scenario::new(&["A", "B"]);
    assert_eq!(pool.turn(0, &by("u1")), "A");
    pool.remove(10, "A");
    let by_id = pool.scheduler.select_account("A", &by("u1").request(), at(11)).unwrap_err();
    assert_eq!(by_id.tally().count(Reason::UnknownAccount), 1);
    let required = pool.refused(11, &by("u1").insisting(Affinity::Require));
    assert_eq!(required.tally().count(Reason::Unbound), 1);
    assert_eq!((by_id.retry_after(), required.retry_after()), (None, None));
}
