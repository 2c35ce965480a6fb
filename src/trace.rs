//! Events of a pool as `tracing` events.

use tracing::{debug, info, warn};

use crate::events::{Event, Observer};
use crate::time::Timestamp;

/// An [`Observer`] that writes every [`Event`] to `tracing`, under the target `account_pool`:
/// selections and settlements at debug level, blocks, breakers and bans at warn, the rest at info.
///
/// Fields are account ids, reasons and times; callers and payloads never appear.
///
/// ```
/// use account_pool::{Config, Pool, TracingObserver};
///
/// let pool: Pool = Pool::new(Config::default())?;
/// assert!(pool.set_observer(TracingObserver));
/// # Ok::<(), account_pool::ConfigError>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "it has nothing to configure")]
pub struct TracingObserver;

impl Observer for TracingObserver {
    fn on_event(&self, event: &Event, at: Timestamp) {
        let at = at.as_millis();
        match event {
            Event::Selected { account, path, tied } => {
                debug!(target: "account_pool", at, %account, path = path.as_str(), tied, "selected");
            }
            Event::Refused { tally, retry_at, wait_for } => {
                let retry_at = retry_at.map(Timestamp::as_millis);
                let wait_for = wait_for.as_ref().map(tracing::field::display);
                let rejected = tally.total();
                info!(target: "account_pool", at, rejected, retry_at, wait_for, "refused");
            }
            Event::Settled { account, outcome } => {
                let outcome = outcome.as_str();
                debug!(target: "account_pool", at, %account, outcome, "settled");
            }
            Event::Reaped { account } => {
                warn!(target: "account_pool", at, %account, "reaped a silent lease");
            }
            Event::Blocked { account, scope, dimension, until } => {
                let (dimension, until) = (dimension.reason().as_str(), until.as_millis());
                warn!(target: "account_pool", at, %account, ?scope, dimension, until, "blocked");
            }
            Event::Unblocked { account, dimension } => {
                let dimension = dimension.reason().as_str();
                info!(target: "account_pool", at, %account, dimension, "unblocked");
            }
            Event::BreakerOpened { account } => {
                warn!(target: "account_pool", at, %account, "breaker opened");
            }
            Event::BreakerHalfOpen { account } => {
                info!(target: "account_pool", at, %account, "breaker half-open");
            }
            Event::BreakerClosed { account } => {
                info!(target: "account_pool", at, %account, "breaker closed");
            }
            Event::Banned { account } => {
                warn!(target: "account_pool", at, %account, "banned");
            }
            Event::Bound { account } => {
                debug!(target: "account_pool", at, %account, "bound");
            }
            Event::MovedWarm { account } => {
                info!(target: "account_pool", at, %account, "moved to a warm account");
            }
            Event::MovedCold => info!(target: "account_pool", at, "moved to a cold account"),
            Event::Evicted => debug!(target: "account_pool", at, "evicted a binding"),
        }
    }
}
