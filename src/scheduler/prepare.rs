//! A policy that is to come: the index under it, made a few accounts at a time.

use super::Scheduler;
use crate::config::{Config, ConfigError, Effect};
use crate::index::Index;
use crate::roster::Roster;
use crate::roster::touched::{Touch, Touched};
use crate::select::query::View;
use crate::select::rank::Layout;
use crate::time::Timestamp;

/// What is prepared for a policy that is to come, if any is.
#[derive(Clone, Debug, Default)]
pub(super) struct Preparation(Option<Box<Prepared>>);

#[derive(Clone, Debug)]
pub(super) struct Prepared {
    config: Config,
    layout: Layout,
    /// What is known under that policy.
    index: Index,
    /// Those that are still to be looked at.
    touched: Touched,
}

impl PartialEq for Preparation {
    /// What is derived from the accounts, and when, makes no difference between schedulers.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Preparation {
    /// Notes which accounts have changed, so that they are looked at (again).
    #[inline]
    pub(super) fn note_touched(&mut self, roster: &Roster) {
        if let Some(prepared) = &mut self.0 {
            prepared.note_touched(roster);
        }
    }

    pub(super) fn is_under_way(&self) -> bool {
        self.0.is_some()
    }

    /// Takes what is prepared for this policy; what is for another one goes.
    pub(super) fn take(&mut self, config: &Config) -> Option<Prepared> {
        self.0.take().map(|prepared| *prepared).filter(|prepared| prepared.config == *config)
    }
}

impl Prepared {
    fn new(config: &Config, roster: &Roster) -> Self {
        let mut touched = Touched::default();
        // What is noted last is looked at first; so the index grows from its beginning.
        touched.note_all(roster.in_order().rev(), Touch::Seat);
        let layout = Layout::under(&config.rank);
        Self { config: config.clone(), layout, index: Index::to_be_filled(), touched }
    }

    #[cold]
    fn note_touched(&mut self, roster: &Roster) {
        self.index.let_go(roster.touched(), roster);
        roster.touched().iter().for_each(|(place, touch)| self.touched.note(place, touch));
    }
}

impl Scheduler {
    /// Does part of the work of a [`set_config`](Self::set_config) that is to come, so that it
    /// need not be done in one call; `true` when nothing is left to do before it.
    ///
    /// Each call looks at up to so many `accounts` under that policy, at about 0.2 µs each. In
    /// between everything goes on under the one in force, and what changes is looked at again.
    /// Once `true` is the answer, `set_config` with an equal policy and the first selection after
    /// it together cost a quarter to a fifteenth of what they would without. `accounts` should be more than
    /// what changes between two calls; 1 024 is a good number. Preparing changes no answer of any
    /// call. It may be left out, done in vain, or begun anew for another policy: what was prepared
    /// last is kept until the next `set_config`, in as much memory as the index takes (some 330
    /// bytes an account).
    ///
    /// [`Pool::set_config`](crate::Pool::set_config) does so by itself. Worth it from some
    /// thousands of accounts on.
    ///
    /// ```
    /// use account_pool::{Account, Config, Millis, Scheduler, Timestamp};
    ///
    /// let now = Timestamp::from_millis(1_000);
    /// let mut scheduler = Scheduler::new(Config::default())?;
    /// for number in 0..5_000 {
    ///     scheduler.add(Account::new(format!("acct-{number}")).rpm(60), now)?;
    /// }
    /// let mut config = scheduler.config().clone();
    /// config.breaker.recovery = Millis::from_mins(5);
    /// while !scheduler.prepare_config(&config, 1_024, now)? {
    ///     // Serve requests that came in meanwhile.
    /// }
    /// scheduler.set_config(config, now)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ConfigError`] names the field that is wrong; then nothing was changed.
    pub fn prepare_config(
        &mut self,
        config: &Config,
        accounts: usize,
        now: Timestamp,
    ) -> Result<bool, ConfigError> {
        config.validate()?;
        let now = self.advance(now);
        if self.config.effect_of(config) == Effect::None {
            return Ok(true);
        }
        self.refresh_index(now);
        let mut prepared = match self.preparation.take(config) {
            Some(prepared) => prepared,
            None => Prepared::new(config, &self.roster),
        };
        let Self { roster, leases, bindings, quiet, .. } = &*self;
        let Prepared { config, layout, index, touched } = &mut prepared;
        let view = View::new(config, layout, roster, leases, bindings, quiet.until, now);
        let is_done = index.learn_some(touched, accounts, &view);
        self.preparation = Preparation(Some(Box::new(prepared)));
        Ok(is_done)
    }

    /// Puts what was prepared for the policy that comes into force in the place of what is known
    /// under the former one. What was not looked at yet counts as touched.
    pub(super) fn adopt(&mut self, prepared: Prepared) {
        self.index = prepared.index;
        self.roster.touch_again(&prepared.touched);
    }
}
