//! Which differences between configurations leave every account as it stands.

use super::{Backoff, BindAt, BindingLimit, Config, Degraded, Order, Refresh, StickyMode, Term};
use crate::time::Millis;

type Change = (&'static str, fn(&mut Config));

/// What each request or outcome reads anew.
const READ_ANEW: &[Change] = &[
    ("cooldown", |it| it.cooldown.throttle = Backoff { factor: 7.0, ..it.cooldown.throttle }),
    ("last_usable_exempt", |it| it.last_usable_exempt = false),
    ("max_waiting", |it| it.max_waiting = 7),
    ("new_account_baseline", |it| it.new_account_baseline = false),
    ("baseline_jitter", |it| it.baseline_jitter = 7),
    ("aliases", |it| it.aliases.extend([("alias".into(), "name".into())])),
    ("sticky.time_to_idle", |it| it.sticky.time_to_idle = Millis::new(7)),
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

/// What eligibility, the order and the counts of bindings rest on.
const RESTED_ON: &[Change] = &[
    ("sticky.mode", |it| it.sticky.mode = StickyMode::Off),
    ("sticky.capacity", |it| it.sticky.capacity = 7),
    ("sticky.order", |it| it.sticky.order = Order::HomeFirst),
    ("sticky.binding_limit", |it| {
        it.sticky.binding_limit = Some(BindingLimit { callers: 7, refuse: true });
    }),
    ("rank.terms", |it| it.rank.terms = vec![Term::Tier]),
    ("soft", |it| it.soft.rate_used_percent = Some(7.0)),
    ("breaker", |it| it.breaker.threshold = Some(7)),
    ("health", |it| it.health.error = 7),
    ("quota", |it| it.quota.unknown_percent = 7.0),
    ("degraded", |it| it.degraded = Degraded::Off),
    ("lease_timeout", |it| it.lease_timeout = Some(Millis::new(7))),
    ("unmetered", |it| it.unmetered.extend(["name".into()])),
];

fn judges_like_the_default(change: fn(&mut Config)) -> bool {
    let before = Config::default();
    let mut next = before.clone();
    change(&mut next);
    assert_ne!(next, before, "a change");
    before.judges_like(&next)
}

#[test]
fn what_is_read_anew_leaves_accounts_as_they_stand() {
    for &(name, change) in READ_ANEW {
        assert!(judges_like_the_default(change), "{name}");
    }
}

#[test]
fn what_accounts_are_judged_by_does_not() {
    for &(name, change) in RESTED_ON {
        assert!(!judges_like_the_default(change), "{name}");
    }
}
