//! What tells accounts apart for a request's names: accounts of one kind are open to the same
//! requests, their own trouble and load aside.

use super::ranked::NO_KEY;
use crate::account::AccountId;
use crate::config::{Config, Term};
use crate::names::{NameId, Named};
use crate::refusal::{Dimension, Reason};
use crate::request::{Affinity, Caller};
use crate::select::eligible::excluded_by_name;
use crate::select::query::{Query, View};
use crate::select::rank::{self, Layout, RankKey};
use crate::slot::Slot;
use crate::state::cooldown::Target;
use crate::state::rare::Rare;
use crate::state::{AccountState, Entitled};

/// Something that holds for an account, but not for every request.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Condition {
    /// A cooldown of that model.
    Model(NameId),
    /// A cooldown of that selector.
    Selector(NameId),
    /// A cooldown of the account's quota, which only metered models feel.
    Quota,
    /// As many bound callers as are allowed, which only callers that might be bound feel.
    BindingLimit,
    /// A cut throttle of that model that is over for us, but not for the upstream.
    PastCapModel(NameId),
    /// The same of a selector.
    PastCapSelector(NameId),
}

/// A kind of accounts.
#[derive(Clone, Debug)]
pub(crate) struct Kind {
    entitled: Rare<Entitled>,
    /// In order, each once.
    conditions: Vec<Condition>,
    /// Whether the accounts have no other trouble, so that a throttle past its cap shows in their
    /// keys; said only where there is one.
    calm: bool,
}

/// Which conditions of a kind a request feels.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Felt {
    None,
    All,
    Some,
}

/// The conditions of an account, in order, each once.
pub(crate) fn conditions(
    state: &AccountState,
    slot: Slot,
    view: &View<'_>,
    into: &mut Vec<Condition>,
) {
    into.clear();
    for block in state.cooldowns.all() {
        let past_cap = block.is_past_cap(view.now);
        into.extend(match (block.target, block.is_live(view.now)) {
            (Target::Model(model), true) => Some(Condition::Model(model)),
            (Target::Selector(selector), true) => Some(Condition::Selector(selector)),
            (Target::Account, true) if is_quota_apart(block.dimension, view.config) => {
                Some(Condition::Quota)
            }
            (Target::Model(model), false) if past_cap => Some(Condition::PastCapModel(model)),
            (Target::Selector(name), false) if past_cap => Some(Condition::PastCapSelector(name)),
            _ => None,
        });
    }
    if view.is_at_binding_limit(state, slot) {
        into.push(Condition::BindingLimit);
    }
    if into.len() > 1 {
        into.sort_unstable();
        into.dedup();
    }
}

/// Whether not every request feels a cooldown of this dimension on the whole account: a spent
/// quota, where there are models that do not draw on it.
pub(crate) fn is_quota_apart(dimension: Dimension, config: &Config) -> bool {
    dimension == Dimension::Quota && !config.unmetered.is_empty()
}

/// The request that no condition of any kind concerns: it names nothing, draws on no quota if that
/// is possible, and is nobody's.
pub(crate) fn plain(config: &Config) -> Query<'static> {
    const NOBODY: &[AccountId] = &[];
    Query {
        caller: None,
        model: Named::Absent,
        selector: Named::Absent,
        metered: config.unmetered.is_empty(),
        excluded: NOBODY,
        cost: 0,
        affinity: Affinity::Prefer,
        waited: None,
    }
}

impl Kind {
    /// The kind of an account with these conditions.
    pub(crate) fn new(state: &AccountState, conditions: &[Condition], view: &View<'_>) -> Self {
        Self {
            entitled: state.entitled.clone(),
            conditions: conditions.to_vec(),
            calm: is_calm(state, conditions, view),
        }
    }

    /// Whether an account with these conditions is of this kind.
    pub(crate) fn fits(
        &self,
        state: &AccountState,
        conditions: &[Condition],
        view: &View<'_>,
    ) -> bool {
        let alike = if conditions.is_empty() {
            self.conditions.is_empty()
        } else {
            self.conditions == conditions && self.calm == is_calm(state, conditions, view)
        };
        alike && self.entitled == state.entitled
    }

    pub(crate) fn has_conditions(&self) -> bool {
        !self.conditions.is_empty()
    }

    /// Why the accounts may never serve a request of these names; `None` when they may.
    pub(crate) fn excludes(&self, query: &Query<'_>) -> Option<Reason> {
        excluded_by_name(&self.entitled, query)
    }

    /// Which of the conditions a request feels.
    #[inline]
    pub(crate) fn felt(&self, query: &Query<'_>, config: &Config) -> Felt {
        if self.has_conditions() { self.felt_of_some(query, config) } else { Felt::None }
    }

    fn felt_of_some(&self, query: &Query<'_>, config: &Config) -> Felt {
        let (mut felt, mut all) = (false, true);
        for condition in &self.conditions {
            let feels = match *condition {
                Condition::Model(model) => query.concerns(Target::Model(model)),
                Condition::Selector(selector) => query.concerns(Target::Selector(selector)),
                Condition::Quota => query.feels_on(Target::Account, Dimension::Quota),
                Condition::BindingLimit => query.is_sticky(config),
                Condition::PastCapModel(_) | Condition::PastCapSelector(_) => continue,
            };
            felt |= feels;
            all &= feels;
        }
        match (felt, all) {
            (false, _) => Felt::None,
            (true, true) => Felt::All,
            (true, false) => Felt::Some,
        }
    }

    /// Whether callers that might be bound find these accounts full.
    pub(crate) fn is_at_binding_limit(&self) -> bool {
        self.conditions.contains(&Condition::BindingLimit)
    }

    /// A request that feels all conditions; `None` when there is none to feel, or no request can.
    pub(crate) fn feeling(&self, config: &Config) -> Option<Query<'static>> {
        if !self.has_conditions() {
            return None;
        }
        let mut query = plain(config);
        let mut feels = false;
        for condition in &self.conditions {
            let name = match *condition {
                Condition::Model(model) => Some((&mut query.model, model)),
                Condition::Selector(selector) => Some((&mut query.selector, selector)),
                Condition::Quota => {
                    query.metered = true;
                    None
                }
                Condition::BindingLimit => {
                    query.caller = Some(&Caller::ANYBODY);
                    None
                }
                Condition::PastCapModel(_) | Condition::PastCapSelector(_) => continue,
            };
            feels = true;
            if let Some((named, name)) = name {
                if *named != Named::Absent {
                    return None;
                }
                *named = Named::Known(name);
            }
        }
        feels.then_some(query)
    }

    /// The key for a request that names another model and selector than those that are cooled: the
    /// least that [`key`](Self::key) makes of this key or a later one. `cooled` is what a cooldown
    /// costs where it might be met.
    pub(crate) fn least(&self, plain: RankKey, cooled: u128) -> RankKey {
        let names = |it: &Condition| matches!(it, Condition::Model(_) | Condition::Selector(_));
        if plain == NO_KEY || !self.conditions.iter().any(names) {
            return plain;
        }
        RankKey { merit: plain.merit.saturating_sub(cooled), ..plain }
    }

    /// The key that an account of this kind has for a request, from the one that it has for the
    /// plain one.
    #[inline]
    pub(crate) fn key(&self, plain: RankKey, query: &Query<'_>, layout: &Layout) -> RankKey {
        if self.has_conditions() { self.key_under_some(plain, query, layout) } else { plain }
    }

    fn key_under_some(&self, plain: RankKey, query: &Query<'_>, layout: &Layout) -> RankKey {
        let (mut unnamed, mut past_cap) = (false, false);
        for condition in &self.conditions {
            match *condition {
                Condition::Model(model) => {
                    unnamed |= rank::might_meet(Target::Model(model), query);
                }
                Condition::Selector(selector) => {
                    unnamed |= rank::might_meet(Target::Selector(selector), query);
                }
                Condition::PastCapModel(model) => past_cap |= query.concerns(Target::Model(model)),
                Condition::PastCapSelector(selector) => {
                    past_cap |= query.concerns(Target::Selector(selector));
                }
                Condition::Quota | Condition::BindingLimit => {}
            }
        }
        let mut key = plain;
        if !unnamed {
            key = self.least(plain, layout.unit(Term::ModelCooldown));
        }
        if past_cap && self.calm {
            key.merit += layout.unit(Term::Trouble);
        }
        key
    }
}

fn is_calm(state: &AccountState, conditions: &[Condition], view: &View<'_>) -> bool {
    let past_cap =
        |it: &Condition| matches!(it, Condition::PastCapModel(_) | Condition::PastCapSelector(_));
    conditions.iter().any(past_cap) && rank::is_calm(state, &plain(view.config), view)
}
