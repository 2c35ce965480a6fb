//! Stories too unlikely to be met at random.

use account_pool::{
    Affinity, BlockScope, Dimension, Millis, Outcome, Plan, Reset, Scope, Status, TrafficClass,
};

use crate::ops::{AskSpec, Op, Policy, ReadingSpec, Step, many};
use crate::world::World;

fn costly(cost: u64) -> AskSpec {
    AskSpec {
        caller: None,
        tenant: None,
        model: None,
        selector: None,
        excluded: Vec::new(),
        cost,
        affinity: Affinity::Prefer,
        class: TrafficClass::User,
        after_wait: None,
        foreign_wait: false,
    }
}

#[test]
fn a_refund_gives_back_only_what_its_own_lease_took() {
    let limited = Plan::default().rpm(5).tokens_per_minute(50);
    let mut world = World::new(&Policy::of(&[]), &[many((0, Plan::default()))]);
    world.apply(&Op::Select(costly(3)));
    world.apply(&Op::SetPlan(0, limited));
    world.apply(&Op::Select(costly(3)));
    world.apply(&Op::Refund(1));
    world.apply(&Op::Refund(0));
}

/// A world with one account, whose breaker is half-open and has two probes under way.
fn probed() -> World {
    let policy = Policy::of(&["breaker at once", "no exemption", "two probes"]);
    let mut world = World::new(&policy, &[many((0, Plan::default()))]);
    world.apply(&Op::Select(costly(0)));
    world.apply(&Op::Settle(0, Outcome::Network));
    world.apply(&Op::Tick(Step::ToDeadline(0)));
    world.apply(&Op::Select(costly(0)));
    world.apply(&Op::Select(costly(0)));
    world
}

#[test]
fn a_probe_is_heard_after_another_one_has_closed_the_breaker() {
    let mut world = probed();
    world.apply(&Op::Settle(1, Outcome::success()));
    world.apply(&Op::Settle(0, Outcome::Network));
}

#[test]
fn a_probe_is_heard_after_the_operator_has_closed_the_breaker() {
    let mut world = probed();
    world.apply(&Op::SetStatus(0, Status::Active));
    world.apply(&Op::Settle(0, Outcome::Network));
}

#[test]
fn accounts_that_come_at_once_take_the_numbers_and_places_of_others() {
    let account = |id| many((id, Plan::default()));
    let mut world = World::new(&Policy::of(&[]), &[account(0), account(1), account(2)]);
    world.apply(&Op::Select(costly(0)));
    world.apply(&Op::Remove(1));
    world.apply(&Op::Remove(2));
    world.apply(&Op::Add(account(3)));
    world.apply(&Op::Add(account(4)));
    for _ in 0..4 {
        world.apply(&Op::Select(costly(0)));
    }
}

fn of_caller() -> AskSpec {
    AskSpec { caller: Some(0), ..costly(0) }
}

fn overload(account: u8) -> Op {
    Op::Block(account, BlockScope::Account, Dimension::Overload, 25)
}

#[test]
fn a_refusal_counts_a_draining_account_as_open_to_its_own_conversation() {
    let accounts = [many((0, Plan::default())), many((1, Plan::default()))];
    let mut world = World::new(&Policy::of(&["degraded off"]), &accounts);
    world.apply(&Op::Turn(of_caller()));
    for account in 0..2 {
        world.apply(&Op::SetDraining(account, true));
        world.apply(&overload(account));
    }
    world.apply(&Op::Select(of_caller()));
}

#[test]
fn a_place_that_is_given_up_does_not_count_against_a_limit() {
    let policy = Policy::of(&["degraded off", "drop when blocked", "refusing binding limit 1"]);
    let mut world = World::new(&policy, &[many((0, Plan::default()))]);
    world.apply(&Op::Turn(of_caller()));
    world.apply(&overload(0));
    world.apply(&Op::Select(of_caller()));
}

#[test]
fn a_throttle_of_a_model_that_was_cut_makes_its_account_worse_for_that_model() {
    let policy = Policy::of(&["capped throttle", "health window 10"]);
    let accounts = [many((0, Plan::default())), many((1, Plan::default()))];
    let mut world = World::new(&policy, &accounts);
    let named = AskSpec { model: Some("m0"), ..costly(0) };
    let reset = Some(Reset::After(Millis::new(30)));
    let throttled = Outcome::RateLimited { scope: Scope::Model, reset };
    world.apply(&Op::Observe(0, named.clone(), throttled));
    world.apply(&Op::Tick(Step::By(12)));
    world.apply(&Op::Preview(costly(0), 0));
    world.apply(&Op::Select(named));
}

#[test]
fn a_cut_throttle_adds_nothing_to_other_trouble() {
    let policy = Policy::of(&["capped throttle", "health window 10"]);
    let accounts = [0, 1, 2].map(|account| many((account, Plan::default())));
    let mut world = World::new(&policy, &accounts);
    let named = AskSpec { model: Some("m0"), ..costly(0) };
    let reset = Some(Reset::After(Millis::new(30)));
    for account in 0..2 {
        let throttled = Outcome::RateLimited { scope: Scope::Model, reset };
        world.apply(&Op::Observe(account, named.clone(), throttled));
    }
    world.apply(&Op::Tick(Step::By(12)));
    world.apply(&Op::Observe(0, costly(0), Outcome::Network));
    world.apply(&Op::Select(named));
}

#[test]
fn a_quota_reset_changes_the_order_by_itself() {
    let accounts = [many((0, Plan::default())), many((1, Plan::default()))];
    let mut world = World::new(&Policy::of(&["quota reset"]), &accounts);
    let windows = vec![(Some(50.0), Some(2_000), true)];
    world.apply(&Op::ObserveQuota(0, ReadingSpec { age: 0, windows, balance: None }));
    for excluded in [vec![0], vec![1], vec![0, 1]] {
        world.apply(&Op::Turn(AskSpec { excluded, ..costly(0) }));
    }
    world.apply(&Op::Tick(Step::By(2_000)));
    world.apply(&Op::Select(costly(0)));
}

#[test]
fn an_account_that_wakes_is_still_cool_for_a_model() {
    let mut world = World::new(&Policy::of(&[]), &[many((0, Plan::default()))]);
    let model = BlockScope::Model("m0".to_owned());
    world.apply(&Op::Block(0, BlockScope::Account, Dimension::Operator, 25));
    world.apply(&Op::Block(0, model, Dimension::Throttle, 60));
    world.apply(&Op::Select(costly(0)));
    world.apply(&Op::Tick(Step::By(25)));
    world.apply(&Op::Select(AskSpec { model: Some("m0"), ..costly(0) }));
}
