//! Several instances: what one learns from another, and that equal states decide equally.

use account_pool::config::{Shard, Ties};
use account_pool::{
    Account, BlockScope, Config, Dimension, Outcome, Plan, Reason, Request, Scheduler, Status,
};

use crate::scenario::{Scenario, anyone, at, by, conventions, ms, throttled, throttled_for};

/// Only A can serve, and a throttle without a hint lasts 30 s.
fn alone() -> Scenario {
    let mut config = conventions();
    config.cooldown.throttle.base = ms(30_000);
    let mut s = Scenario::with(config, &["A", "B"]);
    s.set_status(0, "B", Status::Disabled);
    s
}

#[test]
fn c130_a_block_of_unknown_length_lasts_as_long_as_our_own() {
    let mut s = alone();
    // The peer saw a refusal without a reset at 0, and says so at 5.
    s.block(5, "A", 30_000);

    let refusal = s.refused(6, &anyone());
    assert_eq!(refusal.tally().count(Reason::Throttled), 1);
    assert_eq!(s.retry_after(29_999, &anyone()), Some(1));
    s.hold(30_000, &anyone());
}

#[test]
fn c130_blocks_merge_by_maximum_in_any_order() {
    for untils in [[10_000, 30_000, 20_000], [30_000, 20_000, 10_000], [20_000, 10_000, 30_000]] {
        let mut s = alone();
        for until in untils {
            s.block(5, "A", until);
        }
        s.block(6, "A", 6);
        s.block(6, "A", 0);
        assert_eq!(s.retry_after(29_999, &anyone()), Some(1));
        s.hold(30_000, &anyone());
    }
}

#[test]
fn c130_a_peer_without_knowledge_lifts_nothing() {
    let mut s = alone();
    s.observe(0, "A", &anyone(), throttled());

    s.observe(5, "A", &anyone(), Outcome::success());
    s.quota(6, "A", 100.0, None);
    s.set_status(7, "A", Status::Active);
    assert_eq!(s.retry_after(29_999, &anyone()), Some(1));
    s.hold(30_000, &anyone());
}

#[test]
fn c130_sibling_an_observed_refusal_is_judged_like_our_own() {
    let mut own = alone();
    let held = own.hold(5, &anyone().on("m1"));
    own.fail(&held, 5, throttled_for(20_000));
    let mut told = alone();
    told.observe(5, "A", &anyone().on("m1"), throttled_for(20_000));

    assert_eq!(own.inspect(5, "A").blocks[0].until, told.inspect(5, "A").blocks[0].until);
    assert_eq!(own.inspect(5, "A").trouble, told.inspect(5, "A").trouble);
}

#[test]
fn c130_sibling_an_unknown_quota_lifts_no_quota_block() {
    let mut s = alone();
    s.quota(0, "A", 0.0, Some(30_000));

    s.quota(5, "A", f64::NAN, None);
    assert_eq!(s.retry_after(29_999, &anyone()), Some(1));
    s.hold(30_000, &anyone());
}

#[test]
fn c130_sibling_the_message_of_a_peer_touches_no_load_and_no_order() {
    let mut s = Scenario::new(&["A", "B"]);
    s.block(0, "A", 10);
    s.observe(0, "A", &anyone(), Outcome::success());

    let view = s.inspect(20, "A");
    assert_eq!((view.in_flight, view.last_used, view.trouble), (0, None, 0));
    assert_eq!(s.hold(20, &anyone()).account, "A");
}

#[test]
fn c130_sibling_the_message_of_a_peer_does_not_restart_the_escalation() {
    let mut config = conventions();
    config.cooldown.throttle.factor = 2.0;
    let mut s = Scenario::with(config, &["A"]);
    s.observe(0, "A", &anyone(), throttled());
    s.observe(60_000, "A", &anyone(), throttled());
    assert_eq!(s.inspect(60_000, "A").blocks[0].level, 1);

    s.block(70_000, "A", 80_000);
    assert_eq!(s.inspect(70_000, "A").blocks[0].level, 1);
    s.observe(180_000, "A", &anyone(), throttled());
    assert_eq!(s.inspect(180_000, "A").blocks[0].until, at(180_000 + 240_000));
}

#[test]
fn c132_replicas_with_their_share_of_a_limit_stay_within_it() {
    let share = Plan::default().rpm(10 / 3);
    let mut granted = 0;
    for _ in 0..3 {
        let mut s = Scenario::of(conventions(), [Account::new("A").plan(share.clone())]);
        let own = (0..4).filter(|&t| s.pick(t, &anyone()).is_ok()).count();
        assert_eq!(own, 3);
        granted += own;
    }
    assert!(granted <= 10);
}

/// A trace of 1 000 selections by 50 callers, with outcomes, readings and administration.
fn play(config: Config) -> (Vec<String>, Scheduler) {
    let accounts =
        [("A", 60), ("B", 30), ("C", 20), ("D", 90)].map(|(id, rpm)| Account::new(id).rpm(rpm));
    let mut s = Scenario::of(config, accounts);
    let mut decisions = Vec::new();
    for step in 0..1_000_u64 {
        let t = step * 97;
        let caller = format!("u{}", step * 31 % 50);
        let ask = by(&caller).on(["m1", "m2", ""][(step % 3) as usize]);
        let answer = s.pick(t, &ask);
        decisions.push(match &answer {
            Ok(held) => format!("{} by {:?} of {}", held.account, held.grant.path, held.grant.tied),
            Err(refusal) => refusal.to_string(),
        });
        let Ok(held) = answer else { continue };
        match step % 13 {
            0 => s.fail(&held, t + 5, throttled_for(3_000 + step)),
            1 => s.fail(&held, t + 5, Outcome::Network),
            2 => s.cancel(&held, t + 5),
            3 => {}
            _ => s.ok(&held, t + 5),
        }
        if step % 17 == 0 {
            s.quota(t + 6, &held.account, (step % 101) as f64, Some(t + 20_000));
        }
        if step % 211 == 0 {
            s.remove(t + 7, "B");
            s.add(t + 8, Account::new("B").rpm(30));
        }
    }
    (decisions, s.scheduler)
}

#[test]
fn c133_equal_instances_decide_equally() {
    for config in [conventions(), Config::default(), Config::windsurf()] {
        let (one, first) = play(config.clone());
        let (other, second) = play(config);
        assert_eq!(one, other);
        assert_eq!(first, second);
    }
}

/// An instance whose unused and used accounts are all equally good.
fn tied(accounts: &[&str]) -> Scenario {
    let mut config = conventions();
    config.rank.shard = Shard::Rendezvous;
    config.rank.ties = Ties::Health { headroom_steps: 4, in_flight_slack: 0 };
    Scenario::with(config, accounts)
}

/// What an instance chooses for new callers.
fn new_places(s: &Scenario) -> Vec<String> {
    let place = |index: u32| {
        let preview = s.scheduler.preview(&by(&format!("new-{index}")).request(), at(10_000));
        preview.unwrap().account.to_string()
    };
    (0..200).map(place).collect()
}

/// What an instance of its own history chooses for a new caller.
fn places(accounts: &[&str], history: &[&str]) -> Vec<String> {
    let mut s = tied(accounts);
    for (t, caller) in (0..).zip(history) {
        s.turn(t * 10, &by(caller));
    }
    new_places(&s)
}

#[test]
fn c133_a_new_caller_has_the_same_place_whatever_others_did() {
    let accounts = ["A", "B", "C", "D"];

    let places_here = places(&accounts, &["u1", "u2", "u3"]);
    assert_eq!(places_here, places(&accounts, &["u9", "", "u8", "u7", ""]));
    assert_eq!(places_here, places(&accounts, &[]));
}

#[test]
fn c133_sibling_the_order_of_insertion_does_not_matter() {
    let here = places(&["A", "B", "C", "D"], &[]);
    let there = places(&["D", "B", "A", "C"], &["u1"]);
    assert_eq!(here, there);
}

#[test]
fn c133_sibling_an_account_that_took_the_place_of_the_last_has_its_own_callers() {
    let mut s = tied(&["A", "B", "Z"]);
    s.turn(0, &anyone());
    s.remove(10, "Z");
    s.add(10, Account::new("C"));
    // A refusal brings what is known up to date, and changes nothing that a preview rests on.
    s.refused(20, &anyone().without(&["A", "B", "C"]));
    assert_eq!(new_places(&s), places(&["A", "B", "C"], &[""]));
}

#[test]
fn c133_sibling_asking_between_the_calls_changes_no_decision() {
    let mut s = Scenario::new(&["A", "B", "C"]);
    let mut asked = s.clone();

    for t in 0..100 {
        let ask = by(&format!("u{}", t % 7));
        let before = asked.scheduler.clone();
        let preview = asked.scheduler.preview(&ask.request(), at(t * 10)).unwrap();
        asked.inspect(t * 10, "B");
        asked.bound_to(t * 10, &ask);
        assert_eq!(asked.scheduler, before);
        let account = asked.turn(t * 10, &ask);
        assert_eq!(account, preview.account.as_str());
        assert_eq!(s.turn(t * 10, &ask), account);
    }
    assert_eq!(s.scheduler, asked.scheduler);
}

#[test]
fn c133_sibling_a_block_of_a_peer_reaches_models_and_selectors_by_name() {
    let mut s = Scenario::new(&["A"]);
    let (model, selector) = (BlockScope::Model("m1".into()), BlockScope::Selector("s1".into()));
    s.scheduler.block("A", &model, Dimension::Throttle, at(1_000), at(0)).unwrap();
    s.scheduler.block("A", &selector, Dimension::Throttle, at(2_000), at(0)).unwrap();

    assert_eq!(s.retry_after(0, &anyone().on("m1")), Some(1_000));
    assert_eq!(s.retry_after(0, &anyone().via("s1")), Some(2_000));
    s.hold(0, &anyone().on("s1").via("m1"));
    assert!(s.scheduler.select(&Request::new(), at(0)).is_ok());
}
