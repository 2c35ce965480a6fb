//! What the host declares about an account: identity, plan, entitlement.

use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::time::Millis;

/// The host's name for an account, unique within a pool. Cheap to clone: up to 23 bytes are copied,
/// clones of a longer one share it.
///
/// ```
/// use account_pool::AccountId;
///
/// let id = AccountId::from("acct-1");
/// assert_eq!(id.as_str(), "acct-1");
/// ```
#[derive(Clone, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(from = "String", into = "String")]
pub struct AccountId(SmolStr);

impl AccountId {
    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for AccountId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl fmt::Display for AccountId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<&str> for AccountId {
    fn from(id: &str) -> Self {
        Self(id.into())
    }
}

impl From<String> for AccountId {
    fn from(id: String) -> Self {
        Self(id.into())
    }
}

impl From<AccountId> for String {
    fn from(id: AccountId) -> Self {
        id.as_str().to_owned()
    }
}

impl Borrow<str> for AccountId {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl PartialEq<str> for AccountId {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for AccountId {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

/// Priority tier: accounts of a smaller tier are used before those of a larger one.
///
/// `Tier(0)` is the best and the default.
#[derive(
    Clone, Copy, Debug, Default, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize,
)]
#[serde(transparent)]
#[expect(clippy::exhaustive_structs, reason = "a plain number with a name")]
pub struct Tier(pub u8);

/// At most `limit` units in any span of `per`: a sliding window, exact, half-open.
///
/// A limit of 0 means never; no limit at all is expressed by not declaring one.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[expect(clippy::exhaustive_structs, reason = "both numbers are the whole meaning")]
pub struct RateLimit {
    /// Units (requests or tokens) per window.
    pub limit: u64,
    /// Length of the window, longer than zero.
    pub per: Millis,
}

impl RateLimit {
    /// `limit` units per `per`.
    #[must_use]
    pub const fn new(limit: u64, per: Millis) -> Self {
        Self { limit, per }
    }

    /// `limit` units per minute.
    #[must_use]
    pub const fn per_minute(limit: u64) -> Self {
        Self::new(limit, Millis::from_mins(1))
    }
}

/// What an account may take: request windows, tokens, concurrency, place in the order.
///
/// The default is unlimited, tier 0, weight 1. Replace it at any time with
/// [`Scheduler::set_plan`](crate::Scheduler::set_plan); usage, load, blocks and bindings stay.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Plan {
    /// Request windows, all of which must have room. Empty: unlimited.
    pub requests: Vec<RateLimit>,
    /// Token window. `None`: unlimited. A request is charged its declared
    /// [cost](crate::Request::cost) when it is selected, and what it used beyond that when it
    /// succeeds.
    pub tokens: Option<RateLimit>,
    /// Leases held at once. `None`: unlimited; 0: never selectable.
    pub max_in_flight: Option<u32>,
    /// Priority tier, smaller first.
    pub tier: Tier,
    /// Share of the callers that shard onto this account, relative to the others, and divisor of
    /// the weighted in-flight term. More than 0, at most 1 000 000, kept to three decimals.
    pub weight: f64,
    /// Serve only when no other account can, and give conversations back as soon as one can.
    pub fallback_only: bool,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            requests: Vec::new(),
            tokens: None,
            max_in_flight: None,
            tier: Tier::default(),
            weight: 1.0,
            fallback_only: false,
        }
    }
}

impl Plan {
    /// Sets the requests per minute, replacing an earlier one-minute window.
    #[must_use]
    pub fn rpm(self, limit: u64) -> Self {
        self.window(limit, Millis::from_mins(1))
    }

    /// Adds a request window, replacing an earlier one of the same length.
    #[must_use]
    pub fn window(mut self, limit: u64, per: Millis) -> Self {
        self.requests.retain(|window| window.per != per);
        self.requests.push(RateLimit { limit, per });
        self
    }

    /// Sets the tokens per minute.
    #[must_use]
    pub fn tokens_per_minute(mut self, limit: u64) -> Self {
        self.tokens = Some(RateLimit::per_minute(limit));
        self
    }

    /// Sets the number of leases held at once.
    #[must_use]
    pub fn max_in_flight(mut self, limit: u32) -> Self {
        self.max_in_flight = Some(limit);
        self
    }

    /// Sets the priority tier.
    #[must_use]
    pub fn tier(mut self, tier: Tier) -> Self {
        self.tier = tier;
        self
    }

    /// Sets the weight.
    #[must_use]
    pub fn weight(mut self, weight: f64) -> Self {
        self.weight = weight;
        self
    }

    /// Makes the account a reserve.
    #[must_use]
    pub fn fallback_only(mut self, fallback_only: bool) -> Self {
        self.fallback_only = fallback_only;
        self
    }

    /// Checks the numbers.
    ///
    /// # Errors
    ///
    /// [`AccountError::Weight`] and [`AccountError::Window`].
    pub(crate) fn validate(&self) -> Result<(), AccountError> {
        if !(self.weight > 0.0 && self.weight <= 1_000_000.0) {
            return Err(AccountError::Weight);
        }
        let mut windows = self.requests.iter().chain(&self.tokens);
        if windows.any(|window| window.per.is_zero()) {
            return Err(AccountError::Window);
        }
        Ok(())
    }

    /// The weight in thousandths, at least 1.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "validated to lie in (0, 1_000_000]"
    )]
    pub(crate) fn weight_thousandths(&self) -> u32 {
        ((self.weight * 1_000.0).round() as u32).max(1)
    }
}

/// Which names of one kind (models, or selectors) an account may serve.
///
/// A request that names none is served by any entitlement.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::exhaustive_enums, reason = "the three cases are complete")]
pub enum Entitlement {
    /// All names.
    #[default]
    Any,
    /// Only these names.
    Only(BTreeSet<String>),
    /// All names but these.
    AllBut(BTreeSet<String>),
}

impl Entitlement {
    /// Only `names`.
    pub fn only<N: Into<String>>(names: impl IntoIterator<Item = N>) -> Self {
        Self::Only(names.into_iter().map(Into::into).collect())
    }

    /// All names but `names`.
    pub fn all_but<N: Into<String>>(names: impl IntoIterator<Item = N>) -> Self {
        Self::AllBut(names.into_iter().map(Into::into).collect())
    }
}

/// The operator's and the upstream's word on an account.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Status {
    /// May serve.
    #[default]
    Active,
    /// Switched off by the operator.
    Disabled,
    /// Given up after repeated ban signals, or by the operator.
    Banned,
    /// The breaker is open after repeated errors; it ends by itself. Reported, not settable.
    Error,
}

/// An account as the host declares it.
///
/// ```
/// use account_pool::{Account, Entitlement, Tier};
///
/// let account = Account::new("acct-1")
///     .rpm(60)
///     .max_in_flight(8)
///     .tier(Tier(1))
///     .models(Entitlement::only(["opus", "sonnet"]));
/// assert_eq!(account.id().as_str(), "acct-1");
/// ```
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Account {
    pub(crate) id: AccountId,
    #[serde(default)]
    pub(crate) plan: Plan,
    #[serde(default)]
    pub(crate) models: Entitlement,
    #[serde(default)]
    pub(crate) selectors: Entitlement,
    #[serde(default)]
    pub(crate) blocked_models: BTreeSet<String>,
}

impl Account {
    /// An account with unlimited plan and entitlement. Ids are compared as they are; a blank one
    /// is refused when the account is added.
    #[must_use]
    pub fn new(id: impl Into<AccountId>) -> Self {
        Self {
            id: id.into(),
            plan: Plan::default(),
            models: Entitlement::Any,
            selectors: Entitlement::Any,
            blocked_models: BTreeSet::new(),
        }
    }

    /// The account's id.
    #[must_use]
    pub fn id(&self) -> &AccountId {
        &self.id
    }

    /// Replaces the whole plan.
    #[must_use]
    pub fn plan(mut self, plan: Plan) -> Self {
        self.plan = plan;
        self
    }

    /// Sets the requests per minute ([`Plan::rpm`]).
    #[must_use]
    pub fn rpm(self, limit: u64) -> Self {
        let plan = self.plan.clone().rpm(limit);
        self.plan(plan)
    }

    /// Adds a request window ([`Plan::window`]).
    #[must_use]
    pub fn window(self, limit: u64, per: Millis) -> Self {
        let plan = self.plan.clone().window(limit, per);
        self.plan(plan)
    }

    /// Sets the tokens per minute ([`Plan::tokens_per_minute`]).
    #[must_use]
    pub fn tokens_per_minute(mut self, limit: u64) -> Self {
        self.plan.tokens = Some(RateLimit::per_minute(limit));
        self
    }

    /// Sets the number of leases held at once ([`Plan::max_in_flight`]).
    #[must_use]
    pub fn max_in_flight(mut self, limit: u32) -> Self {
        self.plan.max_in_flight = Some(limit);
        self
    }

    /// Sets the priority tier ([`Plan::tier`]).
    #[must_use]
    pub fn tier(mut self, tier: Tier) -> Self {
        self.plan.tier = tier;
        self
    }

    /// Sets the weight ([`Plan::weight`]).
    #[must_use]
    pub fn weight(mut self, weight: f64) -> Self {
        self.plan.weight = weight;
        self
    }

    /// Makes the account a reserve ([`Plan::fallback_only`]).
    #[must_use]
    pub fn fallback_only(mut self, fallback_only: bool) -> Self {
        self.plan.fallback_only = fallback_only;
        self
    }

    /// Sets the models that the account may serve.
    #[must_use]
    pub fn models(mut self, models: Entitlement) -> Self {
        self.models = models;
        self
    }

    /// Sets the selectors that the account may serve.
    #[must_use]
    pub fn selectors(mut self, selectors: Entitlement) -> Self {
        self.selectors = selectors;
        self
    }

    /// Sets the models that the operator blocks on this account, entitled or not.
    #[must_use]
    pub fn blocked_models<N: Into<String>>(mut self, models: impl IntoIterator<Item = N>) -> Self {
        self.blocked_models = models.into_iter().map(Into::into).collect();
        self
    }
}

/// Why a change of an account was refused. Nothing was changed.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum AccountError {
    /// The id is empty or blank.
    #[error("the account id is blank: give each account a name")]
    BlankId,
    /// An account of this id is in the pool already; it was left as it was.
    #[error("account {0} is in the pool already: update it, or remove it first")]
    Duplicate(AccountId),
    /// No account of this id is in the pool.
    #[error("account {0} is not in the pool")]
    Unknown(AccountId),
    /// The weight is not a number in (0, 1 000 000].
    #[error("the weight must be more than 0 and at most 1 000 000")]
    Weight,
    /// A rate window of zero length.
    #[error("a rate window must be longer than zero")]
    Window,
    /// [`Status::Error`] was to be set by hand.
    #[error("the status `error` belongs to the breaker: set active, disabled or banned")]
    Status,
    /// The pool holds as many accounts as it can number (2³² − 1).
    #[error("the pool is full")]
    Full,
}
