//! Which differences between configurations leave every account as it stands.

use super::{
    Backoff, BindAt, BindingLimit, Config, Degraded, Effect, Order, Recency, Refresh, Shard,
    StickyMode, Term, Ties,
};
use crate::time::Millis;

type Change = (&'static str, fn(&mut Config));

/// What each request or outcome reads anew.
const READ_ANEW: &[Change] = &[
    ("cooldown", |it| it.cooldown.throttle = Backoff { factor: 7.0, ..it.cooldown.throttle }),
    ("last_usable_exempt", |it| it.last_usable_exempt = false),
    ("max_waiting", |it| it.max_waiting = 7),
    ("new_account_baseline", |it| it.new_account_baseline = false),
    ("baseline_jitter", |it| it.baseline_jitter = 7),
    ("rank.shard", |it| it.rank.shard = Shard::Off),
    ("aliases", |it| it.aliases.extend([("alias".into(), "name".into())])),
    ("sticky.mode", |it| it.sticky.mode = StickyMode::Drain),
    ("sticky.time_to_idle", |it| it.sticky.time_to_idle = Millis::new(7)),
    ("sticky.capacity", |it| it.sticky.capacity = 7),
    ("sticky.order", |it| it.sticky.order = Order::HomeFirst),
    ("sticky.cache_lifetime", |it| it.sticky.cache_lifetime = Millis::new(7)),
    ("sticky.trail", |it| it.sticky.trail = 1),
    ("sticky.drop_when_blocked", |it| it.sticky.drop_when_blocked ^= true),
    ("sticky.no_fallback", |it| it.sticky.no_fallback ^= true),
    ("sticky.bind_at", |it| it.sticky.bind_at = BindAt::Select),
    ("sticky.refresh", |it| it.sticky.refresh = Refresh::OnLookup),
    ("sticky.bind_by_caller_only", |it| it.sticky.bind_by_caller_only ^= true),
    ("sticky.queue_on_pin", |it| it.sticky.queue_on_pin = Millis::new(7)),
    ("sticky.max_waiters", |it| it.sticky.max_waiters = 7),
];

/// What the order alone rests on.
const RANKED_BY: &[Change] = &[
    ("rank.terms", |it| it.rank.terms = vec![Term::Tier]),
    ("rank.ties", |it| it.rank.ties = Ties::Health { headroom_steps: 7, in_flight_slack: 7 }),
    ("rank.recency", |it| it.rank.recency = Recency::Millisecond),
    ("soft", |it| it.soft.rate_used_percent = Some(7.0)),
];

/// What eligibility rests on.
const RESTED_ON: &[Change] = &[
    ("sticky.mode", |it| it.sticky.mode = StickyMode::Off),
    ("sticky.time_to_idle", |it| it.sticky.time_to_idle = Millis::ZERO),
    ("sticky.capacity", |it| it.sticky.capacity = 0),
    ("sticky.binding_limit", |it| {
        it.sticky.binding_limit = Some(BindingLimit { callers: 7, refuse: true });
    }),
    ("breaker", |it| it.breaker.threshold = Some(7)),
    ("health", |it| it.health.error = 7),
    ("quota", |it| it.quota.unknown_percent = 7.0),
    ("degraded", |it| it.degraded = Degraded::Off),
    ("lease_timeout", |it| it.lease_timeout = Some(Millis::new(7))),
    ("unmetered", |it| it.unmetered.extend(["name".into()])),
];

fn effect(change: fn(&mut Config)) -> Effect {
    let before = Config::default();
    let mut next = before.clone();
    change(&mut next);
    assert_ne!(next, before, "a change");
    before.effect_of(&next)
}

#[test]
fn what_is_read_anew_leaves_accounts_as_they_stand() {
    for &(name, change) in READ_ANEW {
        assert_eq!(effect(change), Effect::None, "{name}");
    }
}

#[test]
fn what_accounts_are_ranked_by_touches_their_order() {
    for &(name, change) in RANKED_BY {
        assert_eq!(effect(change), Effect::Order, "{name}");
    }
}

#[test]
fn what_accounts_are_judged_by_touches_all_of_them() {
    for &(name, change) in RESTED_ON {
        assert_eq!(effect(change), Effect::All, "{name}");
    }
    let both = |it: &mut Config| {
        it.rank.terms = vec![Term::Tier];
        it.degraded = Degraded::Off;
    };
    assert_eq!(effect(both), Effect::All, "an order besides");
}
