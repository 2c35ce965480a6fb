//! A pool's state as a value, and back.

use std::sync::Arc;

use super::Pool;
use crate::account::AccountId;
use crate::clock::Clock;
use crate::config::Config;
use crate::scheduler::Scheduler;
use crate::shared::{Handle, next_origin};
use crate::snapshot::{Snapshot, SnapshotError};

impl<T: Send + Sync + 'static, C: Clock> Pool<T, C> {
    /// The state now, without payloads: see [`Scheduler::snapshot`]. The lock is held meanwhile.
    pub fn snapshot(&self) -> Snapshot {
        self.read(Scheduler::snapshot)
    }

    /// The pool that a snapshot describes, under `config`: see [`Scheduler::restore`]. `attach`
    /// gives each account its payload. Accounts for which it gives none are left out, as if they
    /// had been removed, and returned.
    ///
    /// Until the clock has passed the time of the snapshot, that time is the pool's.
    ///
    /// ```
    /// use account_pool::{Account, Config, ManualClock, Pool, Timestamp};
    ///
    /// let pool = Pool::with_clock(Config::default(), ManualClock::new(Timestamp::ZERO))?;
    /// pool.add(Account::new("acct-1"), "key-1")?;
    /// pool.add(Account::new("acct-2"), "key-2")?;
    ///
    /// let clock = ManualClock::new(Timestamp::from_millis(60_000));
    /// let keys = |id: &account_pool::AccountId| (*id == "acct-1").then_some("new-key-1");
    /// let (restored, left_out) = Pool::restore(pool.config(), &pool.snapshot(), clock, keys)?;
    /// assert_eq!(**restored.payload("acct-1").unwrap(), *"new-key-1");
    /// assert_eq!(left_out, ["acct-2"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`SnapshotError`], as from [`Scheduler::restore`].
    pub fn restore(
        config: Config,
        snapshot: &Snapshot,
        clock: C,
        mut attach: impl FnMut(&AccountId) -> Option<T>,
    ) -> Result<(Self, Vec<AccountId>), SnapshotError> {
        let now = clock.now();
        let mut scheduler = Scheduler::restore_as(config, snapshot, next_origin(), now)?;
        let ids: Vec<AccountId> = scheduler.accounts().cloned().collect();
        let (mut payloads, mut left_out) = (Vec::with_capacity(ids.len()), Vec::new());
        for id in ids {
            match attach(&id) {
                Some(payload) => payloads.push((id, payload)),
                None => {
                    scheduler.remove(id.as_str(), now);
                    left_out.push(id);
                }
            }
        }
        let handle = Handle::around(scheduler, clock);
        handle.run(|state, _| {
            for (id, payload) in payloads {
                if let Some(slot) = state.scheduler.slot(id.as_str()) {
                    state.put(slot, handle.member(id, Arc::new(payload)));
                }
            }
        });
        Ok((Self { handle: Arc::new(handle) }, left_out))
    }
}
