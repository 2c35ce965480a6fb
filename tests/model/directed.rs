//! Stories too unlikely to be met at random.

use account_pool::{Affinity, Outcome, Plan, Status, TrafficClass};

use crate::ops::{AskSpec, Op, Policy, Step, many};
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
