//! Random configurations, accounts, requests and operations.
//!
//! All numbers are tiny, so that windows, cooldowns and idle times end within a few steps and
//! their edges are met exactly.

use std::collections::BTreeSet;
use std::fmt;

use account_pool::config::{
    Backoff, BindAt, BindingLimit, Degraded, Escalation, Order, Recency, Refresh, Shard,
    StickyMode, Term, Ties,
};
use account_pool::{
    Affinity, BlockScope, Config, Dimension, Entitlement, Millis, Outcome, Plan, QuotaReading,
    QuotaWindow, RateLimit, Reset, Scope, Status, Tier, Timestamp, TrafficClass, Usage,
};
use proptest::collection::{btree_set, vec};
use proptest::prelude::*;
use proptest::sample::select;

use crate::naive::Declared;

pub(crate) const fn ms(millis: u64) -> Millis {
    Millis::new(millis)
}

type Change = fn(&mut Config);

const TWEAKS: &[(&str, Change)] = &[
    ("trail = 1", |c| c.sticky.trail = 1),
    ("trail = 2", |c| c.sticky.trail = 2),
    ("trail = 3", |c| c.sticky.trail = 3),
    ("trail = 8", |c| c.sticky.trail = 8),
    ("home first", |c| c.sticky.order = Order::HomeFirst),
    ("drop when blocked", |c| c.sticky.drop_when_blocked = true),
    ("no fallback", |c| c.sticky.no_fallback = true),
    ("bind at selection", |c| c.sticky.bind_at = BindAt::Select),
    ("refresh on look-up", |c| c.sticky.refresh = Refresh::OnLookup),
    ("bind by caller only", |c| c.sticky.bind_by_caller_only = true),
    ("strict pin", |c| {
        c.sticky.bind_by_caller_only = true;
        c.sticky.no_fallback = true;
    }),
    ("queue on pin 10", |c| c.sticky.queue_on_pin = ms(10)),
    ("queue on pin 50", |c| c.sticky.queue_on_pin = ms(50)),
    ("one waiter", |c| c.sticky.max_waiters = 1),
    ("no waiter", |c| c.sticky.max_waiters = 0),
    ("capacity 0", |c| c.sticky.capacity = 0),
    ("capacity 1", |c| c.sticky.capacity = 1),
    ("capacity 2", |c| c.sticky.capacity = 2),
    ("capacity 8", |c| c.sticky.capacity = 8),
    ("binding limit 1", |c| c.sticky.binding_limit = limit(1, false)),
    ("binding limit 2", |c| c.sticky.binding_limit = limit(2, false)),
    ("refusing binding limit 1", |c| c.sticky.binding_limit = limit(1, true)),
    ("drain", |c| c.sticky.mode = StickyMode::Drain),
    ("sticky off", |c| c.sticky.mode = StickyMode::Off),
    ("idle 0", |c| c.sticky.time_to_idle = ms(0)),
    ("idle 30", |c| c.sticky.time_to_idle = ms(30)),
    ("idle 1000", |c| c.sticky.time_to_idle = ms(1_000)),
    ("cache 0", |c| c.sticky.cache_lifetime = ms(0)),
    ("cache 10", |c| c.sticky.cache_lifetime = ms(10)),
    ("cache 300", |c| c.sticky.cache_lifetime = ms(300)),
    ("weighted", |c| c.rank.terms = vec![Term::WeightedInFlight, Term::Recency]),
    ("bound callers", |c| c.rank.terms = vec![Term::BoundCallers, Term::InFlight]),
    ("quota reset", |c| c.rank.terms = vec![Term::QuotaReset, Term::Quota, Term::Recency]),
    ("trouble first", |c| {
        c.rank.terms = vec![Term::Trouble, Term::Headroom, Term::InFlight, Term::Tier];
    }),
    ("headroom first", |c| c.rank.terms = vec![Term::Headroom, Term::Tier, Term::Recency]),
    ("no terms", |c| c.rank.terms.clear()),
    ("all terms", |c| {
        c.rank.terms = vec![
            Term::QuotaReset,
            Term::BoundCallers,
            Term::Tier,
            Term::ModelCooldown,
            Term::WeightedInFlight,
            Term::Quota,
            Term::Trouble,
            Term::Headroom,
            Term::Recency,
        ];
    }),
    ("health ties", |c| c.rank.ties = Ties::Health { headroom_steps: 4, in_flight_slack: 0 }),
    ("slack ties", |c| c.rank.ties = Ties::Health { headroom_steps: 1, in_flight_slack: 2 }),
    ("modulo", |c| c.rank.shard = Shard::Modulo),
    ("no shard", |c| c.rank.shard = Shard::Off),
    ("millisecond recency", |c| c.rank.recency = Recency::Millisecond),
    ("soft rate 50", |c| c.soft.rate_used_percent = Some(50.0)),
    ("soft rate 75", |c| c.soft.rate_used_percent = Some(75.0)),
    ("soft quota 50", |c| c.soft.quota_left_percent = Some(50.0)),
    ("degraded off", |c| c.degraded = Degraded::Off),
    ("degraded inferred", |c| c.degraded = Degraded::Inferred),
    ("breaker at once", |c| c.breaker.threshold = Some(1)),
    ("no breaker", |c| c.breaker.threshold = None),
    ("two probes", |c| c.breaker.half_open_probes = Some(2)),
    ("no half-open", |c| c.breaker.half_open_probes = None),
    ("long probes", |c| c.breaker.probe_timeout = ms(400)),
    ("no escalation", |c| c.breaker.escalation = None),
    ("escalation at once", |c| {
        c.breaker.escalation = Some(Escalation {
            base: ms(12),
            factor: 2.0,
            cap: ms(70),
            from_episode: 1,
            grace: ms(0),
        });
    }),
    ("quarantine at once", |c| c.breaker.internal_threshold = Some(1)),
    ("no quarantine", |c| c.breaker.quarantine = ms(0)),
    ("ban at once", |c| c.breaker.ban_threshold = Some(1)),
    ("no exemption", |c| c.last_usable_exempt = false),
    ("no exemption again", |c| c.last_usable_exempt = false),
    ("no lease timeout", |c| c.lease_timeout = None),
    ("short leases", |c| c.lease_timeout = Some(ms(15))),
    ("no baseline", |c| c.new_account_baseline = false),
    ("baseline jitter", |c| c.baseline_jitter = 3),
    ("boundless baseline jitter", |c| c.baseline_jitter = u64::MAX),
    ("no floor", |c| c.cooldown.floor = ms(0)),
    ("jitter", |c| c.cooldown.jitter = ms(7)),
    ("short decay", |c| c.cooldown.decay = ms(9)),
    ("steep throttle", |c| c.cooldown.throttle = backoff(3, 3.0, 1_000)),
    ("no throttle", |c| c.cooldown.throttle.base = ms(0)),
    ("capped throttle", |c| c.cooldown.throttle.cap = ms(8)),
    ("no auth", |c| c.cooldown.auth.base = ms(0)),
    ("long quota", |c| c.cooldown.quota = backoff(300, 2.0, 5_000)),
    ("steep overload", |c| c.cooldown.overload = backoff(4, 1.5, 40)),
    ("health window 10", |c| c.health.window = ms(10)),
    ("health bucket 1", |c| c.health.bucket = 1),
    ("health weights", |c| {
        (c.health.throttle, c.health.capacity, c.health.dead, c.health.error) = (4, 0, 7, 2);
    }),
    ("no gate", |c| c.quota.gate = false),
    ("dry at 20", |c| c.quota.dry_percent = 20.0),
    ("reserve", |c| c.quota.on_demand_reserve = 5.0),
    ("no on-demand", |c| c.quota.spend_on_demand = false),
    ("unknown is empty", |c| c.quota.unknown_percent = 0.0),
    ("coarse quota", |c| c.quota.bucket_points = 40),
    ("drought at 60", |c| c.quota.drought_percent = 60.0),
    ("aliases", |c| {
        c.aliases.insert(" alias ".to_owned(), "m0 ".to_owned());
        c.aliases.insert("m2".to_owned(), "m1".to_owned());
    }),
    ("unmetered", |c| {
        c.unmetered.insert("m1 ".to_owned());
    }),
    ("unmetered by another name", |c| {
        c.aliases.insert("alias".to_owned(), "m0".to_owned());
        c.unmetered.insert(" alias".to_owned());
    }),
    ("defaults", |c| *c = Config::default()),
    ("reference", |c| *c = Config::windsurf()),
];

pub(crate) fn limit(callers: u32, refuse: bool) -> Option<BindingLimit> {
    Some(BindingLimit { callers, refuse })
}

fn backoff(base: u64, factor: f64, cap: u64) -> Backoff {
    Backoff { base: ms(base), factor, cap: ms(cap) }
}

pub(crate) fn tiny() -> Config {
    let mut config = Config::default();
    config.sticky.time_to_idle = ms(200);
    config.sticky.cache_lifetime = ms(80);
    config.sticky.capacity = 4;
    config.cooldown.floor = ms(3);
    config.cooldown.decay = ms(50);
    config.cooldown.throttle = backoff(10, 2.0, 60);
    config.cooldown.quota = backoff(30, 1.0, 200);
    config.cooldown.auth = backoff(12, 2.0, 50);
    config.cooldown.overload = backoff(8, 1.0, 40);
    config.breaker.threshold = Some(2);
    config.breaker.window = ms(60);
    config.breaker.recovery = ms(25);
    config.breaker.probe_timeout = ms(20);
    config.breaker.quarantine = ms(20);
    config.breaker.ban_window = ms(60);
    config.breaker.escalation =
        Some(Escalation { base: ms(20), factor: 1.5, cap: ms(90), from_episode: 2, grace: ms(10) });
    config.health.window = ms(50);
    config.quota.max_age = ms(35);
    config.lease_timeout = Some(ms(100));
    config
}

/// Changes to the base configuration, by their place in the table.
#[derive(Clone)]
pub(crate) struct Policy(Vec<usize>);

impl Policy {
    /// The changes of these names.
    pub(crate) fn of(names: &[&str]) -> Self {
        let place = |name: &&str| TWEAKS.iter().position(|tweak| tweak.0 == *name).unwrap();
        Self(names.iter().map(place).collect())
    }

    pub(crate) fn config(&self) -> Config {
        let mut config = tiny();
        for &tweak in &self.0 {
            TWEAKS[tweak].1(&mut config);
        }
        config
    }
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|&tweak| TWEAKS[tweak].0)).finish()
    }
}

pub(crate) fn policy() -> impl Strategy<Value = Policy> {
    vec(0..TWEAKS.len(), 0..10).prop_map(Policy)
}

/// A request, with its accounts and its wait given by place.
#[derive(Clone, Debug)]
pub(crate) struct AskSpec {
    pub(crate) caller: Option<u8>,
    pub(crate) tenant: Option<&'static str>,
    pub(crate) model: Option<&'static str>,
    pub(crate) selector: Option<&'static str>,
    pub(crate) excluded: Vec<u8>,
    pub(crate) cost: u64,
    pub(crate) affinity: Affinity,
    pub(crate) class: TrafficClass,
    pub(crate) after_wait: Option<u8>,
    /// Whether another scheduler advised that wait.
    pub(crate) foreign_wait: bool,
}

/// How far the clock moves.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    By(u64),
    /// To the next deadline, or so many milliseconds before it.
    ToDeadline(u64),
    Back(u64),
}

#[derive(Clone, Debug)]
pub(crate) enum Op {
    Tick(Step),
    Select(AskSpec),
    /// A selection that settles with success at once.
    Turn(AskSpec),
    Preview(AskSpec, u64),
    Acquire(u8, AskSpec),
    Settle(u8, Outcome),
    Cancel(u8),
    Abandon(u8),
    Refund(u8),
    Touch(u8),
    Report(u8, Outcome),
    /// A settle of another scheduler's ticket of the same numbers.
    SettleForeign(u8),
    Reap(u64),
    Observe(u8, AskSpec, Outcome),
    ObserveQuota(u8, ReadingSpec),
    Add(Declared),
    Remove(u8),
    SetPlan(u8, Plan),
    SetModels(u8, Entitlement),
    SetSelectors(u8, Entitlement),
    SetBlockedModels(u8, BTreeSet<String>),
    SetStatus(u8, Status),
    SetMaintenance(u8, bool),
    SetDraining(u8, bool),
    Block(u8, BlockScope, Dimension, u64),
    ClearBlocks(u8, Option<Dimension>),
    /// One of the newest blocks, by its generation.
    ClearBlock(u8, u64),
    Bind(u8, AskSpec),
    Unbind(AskSpec),
    UnbindCaller(u8),
    UnbindAccount(u8),
    GiveUp(u8),
    SetConfig(Policy),
    /// Only the order of preference of a policy, and how long a binding lives.
    SetOrder(Policy),
    /// A policy that is to come, and how many accounts are looked at for it before the next
    /// operation. From then on it is one before each.
    Prepare(Policy, usize),
    /// That policy comes.
    SetPrepared,
}

/// A quota reading, its instants relative to the clock.
#[derive(Clone, Debug)]
pub(crate) struct ReadingSpec {
    pub(crate) age: i64,
    /// Percent left, milliseconds to the reset, whether it gates.
    pub(crate) windows: Vec<(Option<f64>, Option<i64>, bool)>,
    pub(crate) balance: Option<f64>,
}

impl ReadingSpec {
    pub(crate) fn at(&self, now: Timestamp) -> QuotaReading {
        let shifted = |by: i64| Timestamp::from_millis(now.as_millis().saturating_add_signed(by));
        let mut reading = QuotaReading::at(shifted(-self.age));
        for &(left, reset, gates) in &self.windows {
            let mut window = QuotaWindow::new(left);
            window.reset = reset.map(shifted);
            window.gates = gates;
            reading.windows.push(window);
        }
        reading.balance = self.balance;
        reading
    }
}

pub(crate) fn caller_key(caller: u8) -> String {
    match caller {
        0 => "solo".to_owned(),
        1 => "t1:x".to_owned(),
        _ => format!("t{}:x:user{caller}", caller % 3),
    }
}

pub(crate) fn account_id(account: u8) -> String {
    format!("a{account}")
}

/// Mostly one of the first accounts, which are there more often than not.
fn account() -> impl Strategy<Value = u8> {
    prop_oneof![6 => 0_u8..4, 2 => 0_u8..10, 1 => 0_u8..42]
}

/// Mostly one of the newest tickets.
fn ticket() -> impl Strategy<Value = u8> {
    prop_oneof![6 => 0_u8..3, 2 => 0_u8..8, 1 => any::<u8>()]
}

const MODELS: &[&str] = &["m0", "m1", " m0 ", "m2", "alias", "Ⅿ0", " "];
const SELECTORS: &[&str] = &["s0", "m0", "s1 "];

/// Any request, or one of two conversations that go on often enough to become interesting.
pub(crate) fn ask() -> impl Strategy<Value = AskSpec> {
    let turn = (0_u8..2, 0_u64..3, 0_u8..20, proptest::option::weighted(0.3, 0_u8..2));
    let turn = turn.prop_map(|(caller, cost, kind, after_wait)| AskSpec {
        caller: Some(caller),
        tenant: None,
        model: None,
        selector: None,
        excluded: if kind == 1 { vec![0] } else { Vec::new() },
        cost,
        affinity: if kind == 2 { Affinity::Require } else { Affinity::Prefer },
        class: TrafficClass::User,
        after_wait,
        foreign_wait: kind == 3,
    });
    prop_oneof![5 => turn, 2 => any_ask()]
}

fn any_ask() -> impl Strategy<Value = AskSpec> {
    let caller = prop_oneof![
        2 => Just(None),
        6 => (0_u8..2).prop_map(Some),
        2 => (0_u8..6).prop_map(Some),
        2 => (0_u8..30).prop_map(Some),
    ];
    let tenant = proptest::option::weighted(0.1, select(&["t0:x", "other"][..]));
    let model = prop_oneof![
        6 => Just(None),
        4 => Just(Some("m0")),
        2 => select(MODELS).prop_map(Some),
    ];
    let selector = proptest::option::weighted(0.12, select(SELECTORS));
    let excluded = prop_oneof![6 => Just(Vec::new()), 1 => vec(account(), 1..4)];
    let cost = prop_oneof![5 => Just(0), 3 => 1_u64..6, 1 => Just(10), 1 => Just(u64::MAX)];
    let affinity = prop_oneof![
        6 => Just(Affinity::Prefer),
        1 => Just(Affinity::Ignore),
        2 => Just(Affinity::Require),
    ];
    let class = prop_oneof![4 => Just(TrafficClass::User), 1 => Just(TrafficClass::Background)];
    let wait = (proptest::option::weighted(0.2, 0_u8..3), prop::bool::weighted(0.1));
    let who = (caller, tenant, model, selector);
    (who, excluded, cost, affinity, class, wait).prop_map(
        |(who, excluded, cost, affinity, class, (after_wait, foreign_wait))| {
            let (caller, tenant, model, selector) = who;
            AskSpec {
                caller,
                tenant,
                model,
                selector,
                excluded,
                cost,
                affinity,
                class,
                after_wait,
                foreign_wait,
            }
        },
    )
}

fn names() -> impl Strategy<Value = BTreeSet<String>> {
    btree_set(select(&["m0", "m1 ", "alias", "s0", ""][..]).prop_map(str::to_owned), 0..3)
}

fn entitlement() -> impl Strategy<Value = Entitlement> {
    prop_oneof![
        8 => Just(Entitlement::Any),
        1 => names().prop_map(Entitlement::Only),
        1 => names().prop_map(Entitlement::AllBut),
    ]
}

fn window() -> impl Strategy<Value = RateLimit> {
    let limit = prop_oneof![6 => 1_u64..5, 1 => Just(0), 1 => Just(u64::MAX)];
    (limit, select(&[5_u64, 10, 30, 60][..]))
        .prop_map(|(limit, per)| RateLimit::new(limit, ms(per)))
}

/// A plan, with a limit on leases held or without one.
pub(crate) fn plan(loads: bool) -> impl Strategy<Value = Plan> {
    let requests = prop_oneof![3 => Just(Vec::new()), 3 => vec(window(), 1..3)];
    let tokens = proptest::option::weighted(
        0.3,
        (window(), 1_u64..4).prop_map(|(window, scale)| RateLimit {
            limit: window.limit.saturating_mul(scale),
            ..window
        }),
    );
    let in_flight = prop_oneof![5 => 1_u32..4, 1 => Just(0)];
    let max_in_flight =
        proptest::option::weighted(0.3, in_flight).prop_map(move |most| most.filter(|_| loads));
    let tier = prop_oneof![5 => Just(0_u8), 2 => Just(1_u8), 1 => Just(255_u8)];
    let weight = prop_oneof![5 => Just(1.0), 1 => Just(0.0004), 1 => Just(2.5), 1 => Just(1_000.0)];
    let fallback = prop_oneof![5 => Just(false), 1 => Just(true)];
    (requests, tokens, max_in_flight, tier, weight, fallback).prop_map(
        |(requests, tokens, max_in_flight, tier, weight, fallback)| {
            let mut plan = Plan::default().tier(Tier(tier)).weight(weight).fallback_only(fallback);
            plan.requests = requests;
            plan.tokens = tokens;
            plan.max_in_flight = max_in_flight;
            plan
        },
    )
}

fn any_plan(loads: bool) -> impl Strategy<Value = Plan> {
    let unsound = select(&[0.0, -1.0, f64::NAN, f64::INFINITY, 1e9][..]);
    prop_oneof![
        30 => plan(loads),
        1 => unsound.prop_map(|weight| Plan::default().weight(weight)),
        1 => Just(Plan::default().window(1, Millis::ZERO)),
    ]
}

pub(crate) fn declared(loads: bool) -> impl Strategy<Value = Declared> {
    let id = prop_oneof![40 => account().prop_map(account_id), 1 => Just("  ".to_owned())];
    let blocked = prop_oneof![5 => Just(BTreeSet::new()), 1 => names()];
    (id, any_plan(loads), entitlement(), entitlement(), blocked).prop_map(
        |(id, plan, models, selectors, blocked_models)| Declared {
            id,
            plan,
            models,
            selectors,
            blocked_models,
        },
    )
}

fn scope() -> impl Strategy<Value = Scope> {
    select(&[Scope::Account, Scope::Account, Scope::Model, Scope::Selector][..])
}

fn reset() -> impl Strategy<Value = Option<Reset>> {
    prop_oneof![
        4 => Just(None),
        3 => select(&[0_u64, 1, 5, 12, 30, 70, 500][..]).prop_map(|it| Some(Reset::After(ms(it)))),
        1 => select(&[0_u64, 50, 100, 200, u64::MAX][..])
            .prop_map(|it| Some(Reset::At(Timestamp::from_millis(it)))),
    ]
}

fn usage() -> impl Strategy<Value = Usage> {
    let amounts = (0_u64..4, 0_u64..4, 0_u64..4, 0_u64..4, select(&[0_u64, 0, 9, u64::MAX][..]));
    amounts.prop_map(|(input, output, cache_read, cache_write, reported_total)| {
        let mut usage = Usage::default();
        (usage.input, usage.output, usage.cache_read) = (input, output, cache_read);
        (usage.cache_write, usage.reported_total) = (cache_write, reported_total);
        (usage.reasoning, usage.cost_micros) = (output / 2, input * 7);
        usage
    })
}

pub(crate) fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        24 => Just(Outcome::success()),
        4 => usage().prop_map(|usage| Outcome::Success { usage }),
        5 => (scope(), reset()).prop_map(|(scope, reset)| Outcome::RateLimited { scope, reset }),
        2 => (scope(), reset()).prop_map(|(scope, reset)| Outcome::QuotaExhausted { scope, reset }),
        2 => (scope(), reset()).prop_map(|(scope, reset)| Outcome::Overloaded { scope, reset }),
        2 => Just(Outcome::Internal),
        1 => Just(Outcome::AuthFailed),
        1 => Just(Outcome::DeadToken),
        1 => Just(Outcome::BanSignal),
        7 => Just(Outcome::Network),
        1 => Just(Outcome::Timeout),
        1 => Just(Outcome::ClientFault),
        1 => Just(Outcome::Cancelled),
    ]
}

pub(crate) fn reading() -> impl Strategy<Value = ReadingSpec> {
    let percents = [0.0, 0.0, 3.0, 20.0, 49.9, 50.0, 100.0, 300.0, -5.0, f64::NAN, f64::INFINITY];
    let left = proptest::option::weighted(0.9, select(percents.to_vec()));
    let reset = proptest::option::weighted(0.5, select(&[-5_i64, 0, 1, 20, 60, 1_500, 90_000][..]));
    let windows = vec((left, reset, prop::bool::weighted(0.8)), 0..6);
    let balance = proptest::option::weighted(0.3, select(&[0.0, 5.0, 6.0, f64::NAN, -1.0][..]));
    (select(&[0_i64, 0, 0, 5, 30, 500, -20][..]), windows, balance)
        .prop_map(|(age, windows, balance)| ReadingSpec { age, windows, balance })
}

pub(crate) fn step() -> impl Strategy<Value = Step> {
    let short = [0, 1, 2, 3, 5, 8, 10, 12, 15, 19, 20, 25, 30, 39, 40, 50, 60];
    let long = [100, 119, 120, 200, 1_000, 60_000, 900_000, 1_800_000, 4_000_000_000];
    prop_oneof![
        12 => select(short.to_vec()).prop_map(Step::By),
        1 => select(long.to_vec()).prop_map(Step::By),
        4 => (0_u64..2).prop_map(Step::ToDeadline),
        1 => select(&[1_u64, 10, 100_000][..]).prop_map(Step::Back),
    ]
}

fn block_scope() -> impl Strategy<Value = BlockScope> {
    prop_oneof![
        3 => Just(BlockScope::Account),
        1 => select(MODELS).prop_map(|name| BlockScope::Model(name.to_owned())),
        1 => select(SELECTORS).prop_map(|name| BlockScope::Selector(name.to_owned())),
    ]
}

pub(crate) fn dimension() -> impl Strategy<Value = Dimension> {
    select(
        &[
            Dimension::Throttle,
            Dimension::Quota,
            Dimension::Auth,
            Dimension::Overload,
            Dimension::Quarantine,
            Dimension::Breaker,
            Dimension::Operator,
        ][..],
    )
}

/// Requests and their ends.
fn traffic() -> BoxedStrategy<Op> {
    prop_oneof![
        16 => ask().prop_map(Op::Select),
        16 => ask().prop_map(Op::Turn),
        3 => (ask(), select(&[0_u64, 1, 20, 110][..])).prop_map(|(ask, ahead)| Op::Preview(ask, ahead)),
        3 => (account(), ask()).prop_map(|(account, ask)| Op::Acquire(account, ask)),
        20 => (ticket(), outcome()).prop_map(|(ticket, outcome)| Op::Settle(ticket, outcome)),
        1 => ticket().prop_map(Op::Cancel),
        1 => ticket().prop_map(Op::Abandon),
        2 => ticket().prop_map(Op::Refund),
        1 => ticket().prop_map(Op::Touch),
        2 => (ticket(), outcome()).prop_map(|(ticket, outcome)| Op::Report(ticket, outcome)),
        1 => ticket().prop_map(Op::SettleForeign),
        1 => select(&[0_u64, 10, 30][..]).prop_map(Op::Reap),
        3 => (account(), ask(), outcome())
            .prop_map(|(account, ask, outcome)| Op::Observe(account, ask, outcome)),
        2 => (account(), reading()).prop_map(|(account, reading)| Op::ObserveQuota(account, reading)),
        1 => (0_u8..3).prop_map(Op::GiveUp),
    ]
    .boxed()
}

/// What an operator does.
fn administration(loads: bool) -> BoxedStrategy<Op> {
    let status = select(
        &[Status::Active, Status::Active, Status::Disabled, Status::Banned, Status::Error][..],
    );
    let until = select(&[0_u64, 1, 7, 25, 60, 300][..]);
    let block = (account(), block_scope(), dimension(), until);
    prop_oneof![
        4 => declared(loads).prop_map(Op::Add),
        2 => account().prop_map(Op::Remove),
        2 => (account(), any_plan(loads)).prop_map(|(account, plan)| Op::SetPlan(account, plan)),
        1 => (account(), entitlement()).prop_map(|(account, it)| Op::SetModels(account, it)),
        1 => (account(), entitlement()).prop_map(|(account, it)| Op::SetSelectors(account, it)),
        1 => (account(), names()).prop_map(|(account, it)| Op::SetBlockedModels(account, it)),
        2 => (account(), status).prop_map(|(account, it)| Op::SetStatus(account, it)),
        1 => (account(), any::<bool>()).prop_map(|(account, on)| Op::SetMaintenance(account, on)),
        2 => (account(), any::<bool>()).prop_map(|(account, on)| Op::SetDraining(account, on)),
        3 => block.prop_map(|(account, scope, kind, until)| Op::Block(account, scope, kind, until)),
        2 => (account(), proptest::option::of(dimension()))
            .prop_map(|(account, dimension)| Op::ClearBlocks(account, dimension)),
        1 => (account(), 0_u64..4).prop_map(|(account, back)| Op::ClearBlock(account, back)),
        2 => (account(), ask()).prop_map(|(account, ask)| Op::Bind(account, ask)),
        1 => ask().prop_map(Op::Unbind),
        1 => (0_u8..5).prop_map(Op::UnbindCaller),
        1 => account().prop_map(Op::UnbindAccount),
        2 => policy().prop_map(Op::SetConfig),
        4 => policy().prop_map(Op::SetOrder),
        4 => (policy(), 0_usize..6).prop_map(|(policy, most)| Op::Prepare(policy, most)),
        4 => Just(Op::SetPrepared),
    ]
    .boxed()
}

pub(crate) fn op(loads: bool) -> impl Strategy<Value = Op> {
    prop_oneof![14 => traffic(), 4 => step().prop_map(Op::Tick), 2 => administration(loads)]
}

/// A configuration, accounts, and what happens to them.
#[derive(Clone, Debug)]
pub(crate) struct Story {
    pub(crate) policy: Policy,
    pub(crate) accounts: Vec<Declared>,
    pub(crate) ops: Vec<Op>,
}

pub(crate) fn story(loads: bool) -> impl Strategy<Value = Story> {
    let accounts = prop_oneof![
        9 => vec(declared(loads), 1..6).prop_map(numbered),
        1 => vec((0_u8..40, plan(loads)), 8..40).prop_map(|plans| plans.into_iter().map(many).collect()),
    ];
    (policy(), accounts, vec(op(loads), 1..120)).prop_map(|(policy, accounts, ops)| Story {
        policy,
        accounts,
        ops,
    })
}

/// Accounts of the ids that operations use most.
fn numbered(mut accounts: Vec<Declared>) -> Vec<Declared> {
    for (place, account) in (0..).zip(&mut accounts) {
        account.id = account_id(place);
    }
    accounts
}

pub(crate) fn many((account, plan): (u8, Plan)) -> Declared {
    Declared {
        id: account_id(account),
        plan,
        models: Entitlement::Any,
        selectors: Entitlement::Any,
        blocked_models: BTreeSet::new(),
    }
}
