//! The order of preference, ties, and sharding.

use serde::{Deserialize, Serialize};

use super::check::{ConfigError, PERCENT, ensure};

/// The order of preference among eligible accounts.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Ranking {
    /// The terms, most important first, each at most once. Reserves and accounts past a soft
    /// limit always come last. [`Term::Recency`], if used, is the last term; accounts equal in
    /// all terms are taken in the order of their insertion.
    pub terms: Vec<Term>,
    /// Which accounts count as equal for sharding. Default [`Ties::Exact`].
    pub ties: Ties,
    /// Which of the tied accounts a caller gets. Default [`Shard::Rendezvous`].
    pub shard: Shard,
    /// What "least recently used" compares. Default [`Recency::Turn`].
    pub recency: Recency,
}

impl Default for Ranking {
    fn default() -> Self {
        Self {
            terms: vec![
                Term::ModelCooldown,
                Term::Tier,
                Term::InFlight,
                Term::Trouble,
                Term::Quota,
                Term::Headroom,
                Term::Recency,
            ],
            ties: Ties::Exact,
            shard: Shard::Rendezvous,
            recency: Recency::Turn,
        }
    }
}

impl Ranking {
    pub(super) fn windsurf() -> Self {
        Self {
            terms: vec![Term::InFlight, Term::Trouble, Term::Quota, Term::Headroom, Term::Recency],
            ties: Ties::Exact,
            shard: Shard::Modulo,
            recency: Recency::Millisecond,
        }
    }

    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        let repeated = |(index, term): (usize, &Term)| self.terms[..index].contains(term);
        let unique = !self.terms.iter().enumerate().any(repeated);
        ensure(unique, "rank.terms", "must not name a term twice")?;
        let both = [Term::InFlight, Term::WeightedInFlight];
        let single = !both.iter().all(|term| self.terms.contains(term));
        ensure(single, "rank.terms", "takes in_flight or weighted_in_flight, not both")?;
        let recency = self.terms.iter().position(|&term| term == Term::Recency);
        let last = recency.is_none_or(|index| index + 1 == self.terms.len());
        ensure(last, "rank.terms", "takes recency as the last term only")?;
        if let Ties::Health { headroom_steps, .. } = self.ties {
            let steps = headroom_steps > 0;
            ensure(steps, "rank.ties.health.headroom_steps", "must be at least 1")?;
        }
        Ok(())
    }
}

/// One term of the order; the smaller value is better.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Term {
    /// For requests that name no model: accounts without a live model cooldown first; likewise for
    /// selectors.
    ModelCooldown,
    /// The plan's priority tier.
    Tier,
    /// Leases held now.
    InFlight,
    /// Leases held now, divided by the plan's weight.
    WeightedInFlight,
    /// Recent trouble, in buckets of [`HealthPolicy::bucket`](crate::config::HealthPolicy::bucket).
    Trouble,
    /// Quota left in the worst window, in buckets of
    /// [`QuotaPolicy::bucket_points`](crate::config::QuotaPolicy::bucket_points), fuller first.
    Quota,
    /// The free fraction of the tightest request window, more first; exact for limits up to
    /// 65 536.
    Headroom,
    /// Callers bound to the account.
    BoundCallers,
    /// The soonest quota reset that lies ahead, so that quota about to lapse is spent first.
    QuotaReset,
    /// Least recently used.
    Recency,
}

impl Term {
    /// A short stable label.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ModelCooldown => "model_cooldown",
            Self::Tier => "tier",
            Self::InFlight => "in_flight",
            Self::WeightedInFlight => "weighted_in_flight",
            Self::Trouble => "trouble",
            Self::Quota => "quota",
            Self::Headroom => "headroom",
            Self::BoundCallers => "bound_callers",
            Self::QuotaReset => "quota_reset",
            Self::Recency => "recency",
        }
    }
}

/// Which accounts count as equal to the best one.
///
/// Equality is that of the sort key itself, or of the part before recency.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Ties {
    /// Equal in every term, recency included: load is spread to the last request, and sharding
    /// acts only on accounts that were never used.
    #[default]
    Exact,
    /// Equal in all terms before recency, with headroom and in-flight compared in coarse steps: a
    /// caller's own place stays stable in a warm pool, and load may lean a little. A request
    /// without a caller takes the least recently used of them.
    Health {
        /// Steps into which the free fraction is divided, at least 1. 4 is a good start.
        headroom_steps: u32,
        /// How many leases more still count as equal; 0: none.
        in_flight_slack: u32,
    },
}

/// How a caller's place among tied accounts is chosen.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Shard {
    /// By hashes of the caller, each account with callers in proportion to its weight.
    ///
    /// Among up to 64 tied accounts the highest weighted hash of caller and account decides: one
    /// that leaves moves only its own callers. Among more a caller draws accounts of the pool by
    /// lot, up to eight times, until it gets one that ties. As long as half of the pool ties,
    /// hardly anyone else moves when one leaves or comes: less than a fiftieth of the callers that
    /// it has. Where a tenth or less ties, about as many others move, and up to twice as many in a
    /// pool of tens of thousands.
    ///
    /// Callers without a binding move when the number of tied accounts crosses 64, and up to half
    /// of those among more than 64 when the weight of the pool's heaviest account crosses 1, 2, 4,
    /// … times the default. When the pool outgrows 64, 128, 256, … places, less than one in two
    /// hundred of them does.
    #[default]
    Rendezvous,
    /// The first four bytes of the SHA-256 of the caller's key, big-endian, modulo the number of
    /// tied accounts.
    Modulo,
    /// No place of its own: the first by the whole key, like a request without a caller.
    Off,
}

/// What "least recently used" compares.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Recency {
    /// The count of selections: accounts used within one millisecond still rotate.
    #[default]
    Turn,
    /// The stamp of the last selection: accounts used within one millisecond are equal.
    Millisecond,
}

/// Thresholds past which an account is left to the callers bound to it, as long as another
/// account can serve the unbound ones. They never move a conversation and never refuse.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct SoftLimits {
    /// Percent of the tightest request window in use, at or above which the limit is felt.
    /// Default none.
    pub rate_used_percent: Option<f64>,
    /// Percent of quota left, below which the limit is felt. Default none.
    pub quota_left_percent: Option<f64>,
}

impl SoftLimits {
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        let percent = |value: Option<f64>| value.is_none_or(|it| (0.0..=100.0).contains(&it));
        ensure(percent(self.rate_used_percent), "soft.rate_used_percent", PERCENT)?;
        ensure(percent(self.quota_left_percent), "soft.quota_left_percent", PERCENT)
    }
}
