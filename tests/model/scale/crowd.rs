//! Pools of many accounts, told by a few numbers so that they can be printed and shrunk.

use std::collections::BTreeSet;

use account_pool::config::{Degraded, Recency, Shard, Term, Ties};
use account_pool::{Config, Entitlement, Plan, RateLimit, Tier};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use crate::naive::Declared;
use crate::ops::{limit, ms, tiny};
use crate::rules::mix;

pub(crate) const MODELS: u64 = 40;
pub(crate) const SELECTORS: u64 = 4;

/// The accounts of a pool: so many of so many kinds, some of which have each trait.
#[derive(Clone, Debug)]
pub(crate) struct Crowd {
    pub(crate) accounts: u32,
    /// How many different entitlements there are.
    pub(crate) kinds: u64,
    pub(crate) traits: Traits,
    pub(crate) seed: u64,
}

/// One account in how many has the trait; 0 is none.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Traits {
    weights: u64,
    tiers: u64,
    reserves: u64,
    requests: u64,
    tokens: u64,
    in_flight: u64,
}

pub(crate) fn account_id(account: u32) -> String {
    format!("a{account}")
}

fn roll(seed: u64, what: u64, sides: u64) -> u64 {
    mix(mix(seed) ^ what) % sides
}

impl Crowd {
    /// Accounts without any trait, of one kind.
    pub(crate) fn of_equals(accounts: u32) -> Self {
        Self { accounts, kinds: 1, traits: Traits::default(), seed: 0 }
    }

    /// The account of an index as it is first added.
    pub(crate) fn account(&self, account: u32) -> Declared {
        let kind = roll(self.seed ^ u64::from(account) << 16, 0, self.kinds);
        Declared {
            id: account_id(account),
            plan: self.plan(account, 0),
            models: models(kind),
            selectors: selectors(kind),
            blocked_models: blocked_models(kind),
        }
    }

    /// One of the plans of an account.
    pub(crate) fn plan(&self, account: u32, version: u64) -> Plan {
        let seed = self.seed ^ u64::from(account) << 16 ^ version << 48;
        let has = |trait_of: u64, one_in: u64| one_in > 0 && roll(seed, trait_of, one_in) == 0;
        let Traits { weights, tiers, reserves, requests, tokens, in_flight } = self.traits;
        let mut plan = Plan::default();
        if has(1, weights) {
            plan.weight = [0.5, 2.0, 2.5, 30.0][roll(seed, 11, 4) as usize];
        }
        if has(2, tiers) {
            plan.tier = Tier(1 + roll(seed, 12, 2) as u8);
        }
        plan.fallback_only = has(3, reserves);
        if has(4, requests) {
            let per = [10, 30, 60][roll(seed, 14, 3) as usize];
            plan.requests = vec![RateLimit::new(roll(seed, 15, 4), ms(per))];
        }
        if has(5, tokens) {
            plan.tokens = Some(RateLimit::new(1 + roll(seed, 16, 12), ms(30)));
        }
        if has(6, in_flight) {
            plan.max_in_flight = Some(roll(seed, 17, 3) as u32);
        }
        plan
    }
}

/// A set of models that a kind tells from others.
fn names(kind: u64, one_in: u64) -> BTreeSet<String> {
    let chosen = (0..MODELS).filter(|&model| roll(kind, 100 + model, one_in) == 0);
    chosen.map(model).collect()
}

pub(crate) fn model(model: u64) -> String {
    format!("m{model}")
}

pub(crate) fn selector(selector: u64) -> String {
    format!("s{selector}")
}

/// The entitlement of a kind; the first one has all.
pub(crate) fn models(kind: u64) -> Entitlement {
    match kind % 4 {
        1 => Entitlement::Only(names(kind, 2)),
        2 => Entitlement::AllBut(names(kind, 8)),
        3 => Entitlement::Only(names(kind, 6)),
        _ => Entitlement::Any,
    }
}

pub(crate) fn blocked_models(kind: u64) -> BTreeSet<String> {
    if kind == 0 || kind % 4 == 1 { BTreeSet::new() } else { names(kind ^ 1 << 40, 12) }
}

pub(crate) fn selectors(kind: u64) -> Entitlement {
    match kind % 12 {
        5 => Entitlement::only([selector(kind % SELECTORS)]),
        6 => Entitlement::all_but([selector(kind % SELECTORS)]),
        _ => Entitlement::Any,
    }
}

pub(crate) fn crowd() -> impl Strategy<Value = Crowd> {
    let accounts = prop_oneof![1 => 1_u32..70, 2 => 66_u32..400, 7 => 1_900_u32..2_100];
    // More kinds than the index tells apart are met in the last case.
    let kinds = prop_oneof![3 => Just(1), 4 => 2_u64..6, 3 => 6_u64..60, 1 => Just(1_000_000)];
    (accounts, kinds, traits(), any::<u64>()).prop_map(|(accounts, kinds, traits, seed)| Crowd {
        accounts,
        kinds,
        traits,
        seed,
    })
}

fn traits() -> impl Strategy<Value = Traits> {
    let one_in = || prop_oneof![4 => Just(0_u64), 1 => Just(1_u64), 2 => select(&[3, 40][..])];
    let all = (one_in(), one_in(), one_in(), one_in(), one_in(), one_in());
    all.prop_map(|(weights, tiers, reserves, requests, tokens, in_flight)| Traits {
        weights,
        tiers,
        reserves,
        requests,
        tokens,
        in_flight,
    })
}

/// Any order of any terms, in all its switches.
pub(crate) fn config() -> impl Strategy<Value = Config> {
    let rank = (terms(), ties(), shard(), any::<bool>());
    let limit = prop_oneof![
        5 => Just(None),
        2 => (1_u32..3).prop_map(|callers| limit(callers, true)),
        1 => (1_u32..3).prop_map(|callers| limit(callers, false)),
    ];
    let degraded = select(&[Degraded::Off, Degraded::Inferred, Degraded::Transient][..]);
    let soft =
        (proptest::option::weighted(0.2, Just(50.0)), proptest::option::weighted(0.2, Just(50.0)));
    let switches = (any::<[bool; 6]>(), select(&[12_usize, 100][..]));
    (rank, limit, degraded, soft, switches).prop_map(
        |((terms, ties, shard, stamped), limit, degraded, soft, (switches, capacity))| {
            let mut config = tiny();
            config.rank.terms = terms;
            config.rank.ties = ties;
            config.rank.shard = shard;
            config.rank.recency = if stamped { Recency::Millisecond } else { Recency::Turn };
            config.sticky.binding_limit = limit;
            config.sticky.capacity = capacity;
            config.degraded = degraded;
            (config.soft.rate_used_percent, config.soft.quota_left_percent) = soft;
            let [unmetered, coarse, exempt, baseline, drops, cut] = switches;
            if unmetered {
                config.unmetered.extend([model(1), model(2)]);
                config.aliases.insert("alias".to_owned(), model(1));
            }
            config.health.bucket = if coarse { 5 } else { 1 };
            config.last_usable_exempt = exempt;
            config.new_account_baseline = baseline;
            config.sticky.drop_when_blocked = drops;
            if cut {
                config.cooldown.throttle.cap = ms(12);
            }
            config
        },
    )
}

const TERMS: &[Term] = &[
    Term::ModelCooldown,
    Term::Tier,
    Term::InFlight,
    Term::WeightedInFlight,
    Term::Trouble,
    Term::Quota,
    Term::Headroom,
    Term::BoundCallers,
    Term::QuotaReset,
];

fn terms() -> impl Strategy<Value = Vec<Term>> {
    let some = subsequence(TERMS, 0..=TERMS.len()).prop_shuffle();
    let some = (some, any::<bool>()).prop_map(|(mut terms, recent)| {
        // Only one of the two may be there: the first.
        let loads = |term: &Term| matches!(term, Term::InFlight | Term::WeightedInFlight);
        let first = terms.iter().copied().find(loads);
        terms.retain(|term| !loads(term) || Some(*term) == first);
        terms.extend(recent.then_some(Term::Recency));
        terms
    });
    prop_oneof![2 => Just(Config::default().rank.terms), 3 => some]
}

fn ties() -> impl Strategy<Value = Ties> {
    prop_oneof![
        Just(Ties::Exact),
        (1_u32..5, 0_u32..3).prop_map(|(headroom_steps, in_flight_slack)| Ties::Health {
            headroom_steps,
            in_flight_slack,
        }),
    ]
}

fn shard() -> impl Strategy<Value = Shard> {
    prop_oneof![4 => Just(Shard::Rendezvous), 2 => Just(Shard::Modulo), 1 => Just(Shard::Off)]
}
