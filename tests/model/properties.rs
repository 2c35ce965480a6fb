//! Properties that hold whatever happened before.

use account_pool::config::{Term, Ties};
use account_pool::{
    Account, AccountView, Affinity, Config, Grant, Lift, Millis, Outcome, Path, Reason, Request,
    Scheduler, Timestamp, Unavailable,
};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::cases;
use crate::facts::Serial;
use crate::naive::Model;
use crate::ops::{AskSpec, Op, Story, ask, story};
use crate::world::World;

fn told(story: &Story) -> World {
    let mut world = World::new(&story.policy, &story.accounts);
    for op in &story.ops {
        world.apply(op);
    }
    world
}

/// Checks every selection of a story, given the model as it was before.
fn each_grant(story: &Story, check: impl Fn(&Model, &AskSpec, &World, Serial, &Grant)) {
    let mut world = World::new(&story.policy, &story.accounts);
    for op in &story.ops {
        if let Op::Select(spec) | Op::Turn(spec) = op {
            let before = world.model.at(world.clock);
            let owned = world.owned(spec);
            if let Ok(grant) = world.scheduler.clone().select(&owned.request(), world.clock) {
                let serial = before.find(grant.account.as_str()).unwrap().serial;
                check(&before, spec, &world, serial, &grant);
            }
        }
        world.apply(op);
    }
}

fn windows(scheduler: &Scheduler, at: Timestamp) -> Vec<(u64, Vec<u64>)> {
    let used = |view: AccountView| {
        let tokens = view.tokens.map_or(0, |window| window.used);
        (tokens, view.requests.iter().map(|window| window.used).collect())
    };
    scheduler.accounts().map(|id| used(scheduler.inspect(id.as_str(), at).unwrap())).collect()
}

/// A refusal's deadline is the first millisecond at which the same call succeeds.
fn assert_tight(
    scheduler: &Scheduler,
    now: Timestamp,
    call: impl Fn(&mut Scheduler, Timestamp) -> Result<Grant, Unavailable>,
) {
    let mut refused = scheduler.clone();
    let Err(refusal) = call(&mut refused, now) else { return };
    // Advice to wait is another answer, with its own deadline.
    if refusal.wait().is_some() {
        return;
    }
    let succeeds = |at| call(&mut refused.clone(), at).is_ok();
    if let Some(retry_at) = refusal.retry_at() {
        // By then the first account of a trail may have become worth waiting for.
        let waits = call(&mut refused.clone(), retry_at).is_err_and(|it| it.wait().is_some());
        assert!(waits || succeeds(retry_at), "{refusal} should succeed at {retry_at:?}");
        let before = Timestamp::from_millis(retry_at.as_millis() - 1);
        assert!(!succeeds(before), "{refusal} should not succeed before {retry_at:?}");
    }
    for span in [1, 2, 5, 10, 20, 35, 60, 100, 250, 1_000, 10_000, 10_000_000, 1 << 50] {
        let at = now.plus(Millis::new(span));
        let too_early = refusal.retry_at().is_none_or(|retry_at| at < retry_at);
        assert!(!too_early || !succeeds(at), "{refusal} should not succeed at {at:?}");
    }
}

/// Whether time changes what an account is to a caller: a lapsed binding frees its place under a
/// binding limit that refuses, which counts as never lifted.
fn has_refusing_limit(config: &Config) -> bool {
    config.sticky.binding_limit.is_some_and(|limit| limit.refuse)
}

proptest! {
    #![proptest_config(cases(150))]

    #[test]
    fn whoever_serves_is_eligible(story in story(true)) {
        each_grant(&story, |before, spec, world, serial, grant| {
            let query = before.query(&world.owned(spec).ask);
            let member = before.member(serial).unwrap();
            let binding = before.key_of(&query).and_then(|key| before.binding(&key).cloned());
            let binding = binding.filter(|binding| !binding.lapsed);
            let is_own = binding.as_ref().is_some_and(|binding| {
                binding.trail.stops.iter().any(|stop| stop.0 == serial)
            });
            // A place that the look-up gives up does not count against a refusing limit.
            let first = binding.and_then(|it| before.in_order(&it.trail).first().copied());
            let gives_up_its_place = first == Some(serial);
            let bound = match grant.path {
                Path::Sticky | Path::Warm => true,
                // An account of the trail is open to its conversation here too.
                Path::Degraded => is_own,
                _ => false,
            };
            let verdict = before.verdict(member, bound, &query);
            if grant.path == Path::Degraded {
                assert_eq!(verdict.unwrap().firm, Lift::Free);
            } else if let Some(verdict) = verdict {
                let own_place = verdict.reason == Reason::BindingLimit && gives_up_its_place;
                assert!(own_place, "{grant:?} in spite of {verdict:?}");
            }
        });
    }

    #[test]
    fn a_tie_is_equality_of_keys(story in story(true)) {
        each_grant(&story, |before, spec, world, serial, grant| {
            let query = before.query(&world.owned(spec).ask);
            let health = matches!(before.config.rank.ties, Ties::Health { .. });
            let tie = |member| {
                let (merit, recency) = before.rank_key(member, &query);
                (merit, if health { 0 } else { recency })
            };
            if grant.path != Path::Rank {
                assert_eq!(grant.tied, 1);
                return;
            }
            // The look-up may give up the caller's place, which is then not counted in its key.
            let binding = before.key_of(&query).and_then(|key| before.binding(&key));
            let first = binding.and_then(|it| before.in_order(&it.trail).first().copied());
            if before.config.rank.terms.contains(&Term::BoundCallers) && first.is_some() {
                return;
            }
            // The chosen one may be eligible only because its caller gives up a place there.
            let members = before.accounts.iter();
            let eligible = members.filter(|it| {
                it.serial == serial || before.verdict(it, false, &query).is_none()
            });
            let keys: Vec<_> = eligible.map(tie).collect();
            let own = tie(before.member(serial).unwrap());
            assert_eq!(Some(&own), keys.iter().min(), "the best is chosen");
            assert_eq!(grant.tied as usize, keys.iter().filter(|it| **it == own).count());
        });
    }

    #[test]
    fn no_busier_account_serves_while_an_equal_idle_one_exists(
        accounts in 1_usize..12,
        turns in vec((0_u8..10, any::<bool>(), 0_u64..3_000), 1..80),
    ) {
        let mut scheduler = Scheduler::new(Config::default()).unwrap();
        let mut now = Timestamp::from_millis(1_000);
        for account in 0..accounts {
            scheduler.add(Account::new(format!("a{account}")), now).unwrap();
        }
        let mut held = Vec::new();
        for (caller, ends, pause) in turns {
            now = now.plus(Millis::new(pause));
            if ends && !held.is_empty() {
                let grant: Grant = held.remove(usize::from(caller) % held.len());
                scheduler.settle(grant.ticket, &Outcome::success(), now);
                continue;
            }
            let load = |id: &str| scheduler.inspect(id, now).unwrap().in_flight;
            let least = scheduler.accounts().map(|id| load(id.as_str())).min();
            let key = format!("user{caller}");
            let request = Request::new().caller(&key).affinity(Affinity::Ignore);
            let preview = scheduler.preview(&request, now).unwrap();
            prop_assert_eq!(Some(load(preview.account.as_str())), least);
            held.push(scheduler.select(&request, now).unwrap());
        }
    }

    #[test]
    fn a_refund_restores_the_windows(story in story(true), spec in ask()) {
        let world = told(&story);
        let owned = world.owned(&spec);
        let (now, untouched) = (world.clock, world.scheduler.clone());
        for abandoned in [false, true] {
            let mut scheduler = world.scheduler.clone();
            let Ok(grant) = scheduler.select(&owned.request(), now) else { continue };
            if abandoned {
                scheduler.abandon(grant.ticket, now);
            } else {
                scheduler.refund(grant.ticket, now);
                assert!(!scheduler.refund(grant.ticket, now), "only once");
            }
            for ahead in [0, 1, 5, 10, 30, 60] {
                let at = now.plus(Millis::new(ahead));
                assert_eq!(windows(&scheduler, at), windows(&untouched, at));
            }
        }
    }

    #[test]
    fn a_refusal_names_the_first_moment_of_success(
        story in story(false),
        specs in vec(ask(), 1..6),
    ) {
        let world = told(&story);
        if has_refusing_limit(world.scheduler.config()) {
            return Ok(());
        }
        for mut spec in specs {
            spec.after_wait = None;
            let owned = world.owned(&spec);
            assert_tight(&world.scheduler, world.clock, |scheduler, at| {
                scheduler.select(&owned.request(), at)
            });
        }
    }

    #[test]
    fn a_refusal_of_one_account_names_the_first_moment_of_success(
        story in story(false),
        specs in vec((0_u8..4, ask()), 1..6),
    ) {
        let world = told(&story);
        if has_refusing_limit(world.scheduler.config()) {
            return Ok(());
        }
        for (account, mut spec) in specs {
            spec.after_wait = None;
            let (id, owned) = (format!("a{account}"), world.owned(&spec));
            assert_tight(&world.scheduler, world.clock, |scheduler, at| {
                scheduler.select_account(&id, &owned.request(), at)
            });
        }
    }

    #[test]
    fn the_same_operations_make_the_same_scheduler(story in story(true)) {
        let (one, other) = (told(&story), told(&story));
        assert!(one.scheduler == other.scheduler);
        assert_eq!(one.tickets, other.tickets);
    }
}
