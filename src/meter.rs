//! Events of a pool as `metrics`.

use metrics::counter;

use crate::events::{Event, Observer};
use crate::time::Timestamp;

/// An [`Observer`] that counts every [`Event`] through the `metrics` facade.
///
/// | counter | labels |
/// | --- | --- |
/// | `account_pool_selected_total` | `path`: as [`Path::as_str`](crate::Path::as_str) |
/// | `account_pool_refused_total` | – |
/// | `account_pool_rejections_total` | `reason`: accounts kept away in refusals, as [`Reason::as_str`](crate::Reason::as_str) |
/// | `account_pool_waits_total` | – |
/// | `account_pool_settled_total` | `outcome`: as [`OutcomeKind::as_str`](crate::OutcomeKind::as_str) |
/// | `account_pool_reaped_total` | – |
/// | `account_pool_blocked_total`, `account_pool_unblocked_total` | `reason` of the cooldown |
/// | `account_pool_breaker_total` | `state`: `opened`, `half_open`, `closed` |
/// | `account_pool_banned_total` | – |
/// | `account_pool_bindings_total` | `event`: `bound`, `moved_warm`, `moved_cold`, `evicted` |
///
/// No label carries an account or a caller, so their number is bounded by the crate's own enums.
///
/// ```
/// use account_pool::{Config, MetricsObserver, Pool};
///
/// let pool: Pool = Pool::new(Config::default())?;
/// assert!(pool.set_observer(MetricsObserver));
/// # Ok::<(), account_pool::ConfigError>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "it has nothing to configure")]
pub struct MetricsObserver;

impl Observer for MetricsObserver {
    fn on_event(&self, event: &Event, _at: Timestamp) {
        match event {
            Event::Selected { path, .. } => {
                counter!("account_pool_selected_total", "path" => path.as_str()).increment(1);
            }
            Event::Refused { wait_for: Some(_), .. } => {
                counter!("account_pool_waits_total").increment(1);
            }
            Event::Refused { tally, .. } => {
                counter!("account_pool_refused_total").increment(1);
                for (reason, count) in tally.iter() {
                    counter!("account_pool_rejections_total", "reason" => reason.as_str())
                        .increment(count.into());
                }
            }
            Event::Settled { outcome, .. } => {
                counter!("account_pool_settled_total", "outcome" => outcome.as_str()).increment(1);
            }
            Event::Reaped { .. } => counter!("account_pool_reaped_total").increment(1),
            Event::Blocked { dimension, .. } => {
                let reason = dimension.reason().as_str();
                counter!("account_pool_blocked_total", "reason" => reason).increment(1);
            }
            Event::Unblocked { dimension, .. } => {
                let reason = dimension.reason().as_str();
                counter!("account_pool_unblocked_total", "reason" => reason).increment(1);
            }
            Event::BreakerOpened { .. } => breaker("opened"),
            Event::BreakerHalfOpen { .. } => breaker("half_open"),
            Event::BreakerClosed { .. } => breaker("closed"),
            Event::Banned { .. } => counter!("account_pool_banned_total").increment(1),
            Event::Bound { .. } => binding("bound"),
            Event::MovedWarm { .. } => binding("moved_warm"),
            Event::MovedCold => binding("moved_cold"),
            Event::Evicted => binding("evicted"),
        }
    }
}

fn breaker(state: &'static str) {
    counter!("account_pool_breaker_total", "state" => state).increment(1);
}

fn binding(event: &'static str) {
    counter!("account_pool_bindings_total", "event" => event).increment(1);
}
