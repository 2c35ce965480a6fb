//! Quota readings.

use serde::{Deserialize, Serialize};

use super::check::{ConfigError, PERCENT, ensure};
use crate::time::Millis;

/// What quota readings mean.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct QuotaPolicy {
    /// Whether a dry reading blocks its account. Default on; off, readings rank only.
    pub gate: bool,
    /// Percent left at or below which a window is dry. Default 0.
    pub dry_percent: f64,
    /// How long a dry reading without a reset blocks. Default 30 min. With a reset it blocks
    /// until then.
    pub max_age: Millis,
    /// Whether an on-demand balance keeps a dry account in service. Default on.
    pub spend_on_demand: bool,
    /// Balance that is not to be spent. Default 0.
    pub on_demand_reserve: f64,
    /// The quota, in percent, that an account without a reading ranks with. Default 100: as full,
    /// so that it is tried and becomes known.
    pub unknown_percent: f64,
    /// Percent points per step in the order, 1 to 100. Default 5.
    pub bucket_points: u32,
    /// Percent below which an account counts towards a drought. Default 5.
    pub drought_percent: f64,
}

impl Default for QuotaPolicy {
    fn default() -> Self {
        Self {
            gate: true,
            dry_percent: 0.0,
            max_age: Millis::from_mins(30),
            spend_on_demand: true,
            on_demand_reserve: 0.0,
            unknown_percent: 100.0,
            bucket_points: 5,
            drought_percent: 5.0,
        }
    }
}

impl QuotaPolicy {
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        let percent = |value: f64| (0.0..=100.0).contains(&value);
        ensure(percent(self.dry_percent), "quota.dry_percent", PERCENT)?;
        ensure(percent(self.unknown_percent), "quota.unknown_percent", PERCENT)?;
        ensure(percent(self.drought_percent), "quota.drought_percent", PERCENT)?;
        let reserve = self.on_demand_reserve >= 0.0 && self.on_demand_reserve.is_finite();
        ensure(reserve, "quota.on_demand_reserve", "must be a finite number of at least 0")?;
        let points = (1..=100).contains(&self.bucket_points);
        ensure(points, "quota.bucket_points", "must be from 1 to 100")
    }
}
