//! What happens to a large pool: requests, and things that befall many accounts at once.

use account_pool::{
    Affinity, BlockScope, Config, Dimension, Outcome, Reset, Scope, Status, TrafficClass,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::crowd::{Crowd, MODELS, SELECTORS, config, crowd, model, selector};
use crate::ops::{ReadingSpec, Step, dimension, ms, outcome, reading, step};

/// A request.
#[derive(Clone, Debug)]
pub(crate) struct AskSpec {
    pub(crate) caller: Option<u8>,
    pub(crate) model: Option<u64>,
    pub(crate) selector: Option<u64>,
    pub(crate) excluded: Excluded,
    pub(crate) cost: u64,
    pub(crate) affinity: Affinity,
    pub(crate) class: TrafficClass,
    /// Whether an account has changed just before, so that the preview asks all accounts.
    pub(crate) stirred: bool,
}

impl AskSpec {
    /// A request of nobody for nothing in particular.
    pub(crate) fn plain() -> Self {
        Self {
            caller: None,
            model: None,
            selector: None,
            excluded: Excluded::These(Vec::new()),
            cost: 0,
            affinity: Affinity::Prefer,
            class: TrafficClass::User,
            stirred: false,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Excluded {
    /// These, whatever they are.
    These(Vec<u32>),
    /// The best so many.
    Best(usize),
    /// All accounts of the caller's conversation, and the best so many.
    Last(usize),
}

/// Which accounts something happens to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Slice {
    /// Some in a row, from one on.
    Row(u32, u32),
    /// All but some in a row.
    AllBut(u32, u32),
    /// One in so many.
    OneIn(u32),
}

impl Slice {
    pub(crate) fn of(self, accounts: u32) -> impl Iterator<Item = u32> {
        (0..accounts).filter(move |&account| match self {
            Self::Row(from, most) => account >= from && account - from < most,
            Self::AllBut(from, most) => account < from || account - from >= most,
            Self::OneIn(step) => account % step == 0,
        })
    }
}

/// What happens to an account.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    Block(BlockScope, Dimension, u64),
    Clear(Option<Dimension>),
    Observe(Option<u64>, Option<u64>, Outcome),
    Quota(ReadingSpec),
    Remove,
    Add,
    Plan(u64),
    /// The entitlements of a kind.
    Kind(u64),
    Status(Status),
    Maintenance(bool),
    Draining(bool),
    /// Callers from one on are bound, one to each.
    Bind(u8, Option<u64>),
}

#[derive(Clone, Debug)]
pub(crate) enum Op {
    Tick(Step),
    /// A selection and how its lease ends, if it does.
    Select(AskSpec, Option<Outcome>),
    /// Selections of callers one after the other.
    Burst(AskSpec, u8),
    /// The end of the newest leases.
    Settle(u8, Outcome),
    Each(Slice, Act),
    SetConfig(Box<Config>),
    /// Only the order of preference of a configuration.
    SetOrder(Box<Config>),
    /// A configuration that is to come, and how many accounts are looked at for it before each
    /// operation from now on.
    Prepare(Box<Config>, usize),
    /// It comes.
    SetPrepared,
}

#[derive(Clone, Debug)]
pub(crate) struct Story {
    pub(crate) crowd: Crowd,
    pub(crate) config: Config,
    pub(crate) ops: Vec<Op>,
}

impl Story {
    /// Equal accounts, before anything happens.
    pub(crate) fn of(accounts: u32, config: Config) -> Self {
        Self { crowd: Crowd::of_equals(accounts), config, ops: Vec::new() }
    }
}

fn name(names: u64) -> impl Strategy<Value = Option<u64>> {
    prop_oneof![2 => Just(None), 3 => (0..3_u64).prop_map(Some), 1 => (0..names).prop_map(Some)]
}

fn ask() -> impl Strategy<Value = AskSpec> {
    let excluded = prop_oneof![
        6 => Just(Excluded::These(Vec::new())),
        1 => vec(0_u32..2_000, 1..20).prop_map(Excluded::These),
        2 => (1_usize..20).prop_map(Excluded::Best),
        1 => (0_usize..3).prop_map(Excluded::Last),
    ];
    let affinity = prop_oneof![
        12 => Just(Affinity::Prefer),
        8 => Just(Affinity::Ignore),
        1 => Just(Affinity::Require),
    ];
    let selector = prop_oneof![4 => Just(None), 1 => name(SELECTORS)];
    let cost = prop_oneof![5 => Just(0_u64), 2 => 1_u64..9, 1 => Just(1_000)];
    let class = prop_oneof![6 => Just(TrafficClass::User), 1 => Just(TrafficClass::Background)];
    let caller =
        prop_oneof![2 => Just(None), 4 => (0_u8..6).prop_map(Some), 4 => (0_u8..60).prop_map(Some)];
    (caller, name(MODELS), selector, excluded, cost, affinity, class, prop::bool::weighted(0.3))
        .prop_map(|(caller, model, selector, excluded, cost, affinity, class, stirred)| AskSpec {
            caller,
            model,
            selector,
            excluded,
            cost,
            affinity,
            class,
            stirred,
        })
}

fn slice() -> impl Strategy<Value = Slice> {
    let from = || prop_oneof![2 => 0_u32..100, 3 => 0_u32..2_000];
    prop_oneof![
        3 => (from(), 1_u32..4).prop_map(|(from, most)| Slice::Row(from, most)),
        2 => (from(), 16_u32..1_500).prop_map(|(from, most)| Slice::Row(from, most)),
        3 => (from(), 1_u32..5).prop_map(|(from, most)| Slice::AllBut(from, most)),
        2 => (from(), 50_u32..200).prop_map(|(from, most)| Slice::AllBut(from, most)),
        3 => (1_u32..30).prop_map(Slice::OneIn),
        2 => Just(Slice::OneIn(1)),
    ]
}

/// Cooldowns at a common end, in most cases of the whole account.
fn block() -> impl Strategy<Value = Act> {
    let scope = prop_oneof![
        4 => Just(BlockScope::Account),
        2 => (0..3_u64).prop_map(|it| BlockScope::Model(model(it))),
        1 => (0..3_u64).prop_map(|it| BlockScope::Selector(selector(it))),
    ];
    (scope, dimension(), select(&[1_u64, 7, 25, 60, 300][..]))
        .prop_map(|(scope, dimension, until)| Act::Block(scope, dimension, until))
}

/// A throttle whose end the upstream knows, which the cap may cut.
fn throttle() -> impl Strategy<Value = Outcome> {
    let scope = select(&[Scope::Account, Scope::Model, Scope::Selector][..]);
    (scope, select(&[5_u64, 15, 30, 90, 400][..])).prop_map(|(scope, after)| Outcome::RateLimited {
        scope,
        reset: Some(Reset::After(ms(after))),
    })
}

fn bind() -> impl Strategy<Value = Act> {
    (0_u8..60, name(MODELS)).prop_map(|(caller, model)| Act::Bind(caller, model))
}

fn act() -> impl Strategy<Value = Act> {
    let status = select(&[Status::Active, Status::Active, Status::Disabled, Status::Banned][..]);
    let kind = prop_oneof![2 => Just(0), 3 => 0_u64..8, 1 => any::<u64>()];
    let outcome = prop_oneof![1 => throttle(), 1 => outcome()];
    prop_oneof![
        8 => block(),
        2 => proptest::option::of(dimension()).prop_map(Act::Clear),
        6 => (name(MODELS), name(SELECTORS), outcome)
            .prop_map(|(model, selector, outcome)| Act::Observe(model, selector, outcome)),
        3 => reading().prop_map(Act::Quota),
        2 => Just(Act::Remove),
        3 => Just(Act::Add),
        2 => (0_u64..3).prop_map(Act::Plan),
        2 => kind.prop_map(Act::Kind),
        2 => status.prop_map(Act::Status),
        1 => any::<bool>().prop_map(Act::Maintenance),
        2 => any::<bool>().prop_map(Act::Draining),
        3 => bind(),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let end = prop_oneof![
        2 => Just(None),
        2 => Just(Some(Outcome::success())),
        1 => throttle().prop_map(Some),
        1 => outcome().prop_map(Some),
    ];
    prop_oneof![
        20 => (ask(), end).prop_map(|(ask, end)| Op::Select(ask, end)),
        4 => (ask(), 2_u8..12).prop_map(|(ask, count)| Op::Burst(ask, count)),
        3 => (1_u8..40, outcome()).prop_map(|(count, outcome)| Op::Settle(count, outcome)),
        9 => step().prop_map(Op::Tick),
        3 => Just(Op::Tick(Step::ToDeadline(0))),
        12 => (slice(), act()).prop_map(|(slice, act)| Op::Each(slice, act)),
        1 => config().prop_map(|config| Op::SetConfig(Box::new(config))),
        3 => config().prop_map(|config| Op::SetOrder(Box::new(config))),
        2 => (config(), 0_usize..1_500)
            .prop_map(|(config, most)| Op::Prepare(Box::new(config), most)),
        2 => Just(Op::SetPrepared),
    ]
}

fn select_one() -> impl Strategy<Value = Op> {
    ask().prop_map(|ask| Op::Select(ask, None))
}

/// Things that happen together.
fn scene() -> impl Strategy<Value = Vec<Op>> {
    prop_oneof![
        12 => op().prop_map(|op| vec![op]),
        2 => recovery(),
        1 => (slice(), bind(), select_one(), select_one())
            .prop_map(|(slice, bind, one, other)| vec![Op::Each(slice, bind), one, other]),
        1 => (slice(), slice(), select_one()).prop_map(|(gone, back, ask)| {
            vec![Op::Each(gone, Act::Remove), Op::Each(back, Act::Add), ask]
        }),
    ]
}

/// Many are blocked until one instant; then comes that instant, or the one before.
fn recovery() -> impl Strategy<Value = Vec<Op>> {
    let dimension = select(&[Dimension::Throttle, Dimension::Overload, Dimension::Operator][..]);
    let asks = (select_one(), select_one(), ask(), vec(op(), 0..3));
    (slice(), dimension, select(&[1_u64, 7, 25][..]), asks).prop_map(
        |(slice, dimension, length, (one, other, many, more))| {
            let block = Act::Block(BlockScope::Account, dimension, length);
            let mut ops = vec![
                Op::Each(slice, block),
                one,
                Op::Tick(Step::By(length - 1)),
                other,
                Op::Tick(Step::By(1)),
                Op::Burst(many, 4),
            ];
            ops.extend(more);
            ops
        },
    )
}

pub(crate) fn story() -> impl Strategy<Value = Story> {
    (crowd(), config(), vec(scene(), 5..40)).prop_map(|(crowd, config, scenes)| Story {
        crowd,
        config,
        ops: scenes.concat(),
    })
}
