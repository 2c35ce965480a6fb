//! Administration of accounts.

use std::collections::BTreeSet;

use arrayvec::ArrayVec;
use serde::{Deserialize, Serialize};

use super::Scheduler;
use crate::account::{Account, AccountError, AccountId, Entitlement, Plan, Status};
use crate::events::Event;
use crate::names::NameId;
use crate::refusal::Dimension;
use crate::state::cooldown::Target;
use crate::state::{AccountState, NameFilter, interned};
use crate::time::{Millis, Timestamp};

/// Among so many accounts at most the median recency is looked for: the step that adds an account
/// is short in a pool of any size.
const MAX_SAMPLE: usize = 1_024;

/// What a block applies to, by name.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::exhaustive_enums, reason = "accounts know just these two kinds of names")]
pub enum BlockScope {
    /// Every request on the account.
    Account,
    /// Requests for this model.
    Model(String),
    /// Requests with this selector.
    Selector(String),
}

impl Scheduler {
    /// Adds an account, last in the order of insertion. One that was removed before starts clean,
    /// except for blocks that an upstream's answer made and that have not ended.
    ///
    /// # Errors
    ///
    /// [`AccountError::BlankId`], [`AccountError::Duplicate`], [`AccountError::Weight`],
    /// [`AccountError::Window`] and [`AccountError::Full`].
    pub fn add(&mut self, account: Account, now: Timestamp) -> Result<(), AccountError> {
        let now = self.advance(now);
        let id = account.id.clone();
        if id.as_str().trim().is_empty() {
            return Err(AccountError::BlankId);
        }
        if self.roster.find(id.as_str()).is_some() {
            return Err(AccountError::Duplicate(id));
        }
        account.plan.validate()?;
        let mut state = AccountState::new(account, &mut self.names, now);
        if self.config.new_account_baseline && self.turn > 0 {
            self.enter_at_median(&mut state, now);
        }
        for block in self.departed.recall(&id) {
            if block.is_live(now) {
                state.cooldowns.extend(block, self.config.cooldown.decay, now);
            }
        }
        self.roster.insert(state).map(drop).ok_or(AccountError::Full)
    }

    /// Removes an account; `false` when it is not there. Its leases end as they settle, without
    /// effect. O(accounts).
    pub fn remove(&mut self, account: &str, now: Timestamp) -> bool {
        let now = self.advance(now);
        let slot = self.roster.find(account);
        let Some(state) = slot.and_then(|slot| self.roster.remove(slot)) else {
            return false;
        };
        self.departed.remember(&state, now);
        true
    }

    /// Replaces an account's plan; usage, load, blocks and bindings stay. A window longer than
    /// any before starts with what the longest one remembers.
    ///
    /// # Errors
    ///
    /// [`AccountError::Unknown`], [`AccountError::Weight`] and [`AccountError::Window`].
    pub fn set_plan(
        &mut self,
        account: &str,
        plan: &Plan,
        now: Timestamp,
    ) -> Result<(), AccountError> {
        plan.validate()?;
        let (before, weight) = self.update(account, now, |state| {
            let before = state.weight;
            state.set_plan(plan);
            (before, state.weight)
        })?;
        self.roster.reweigh(before, weight);
        Ok(())
    }

    /// Replaces the models that an account may serve.
    ///
    /// # Errors
    ///
    /// [`AccountError::Unknown`].
    pub fn set_models(
        &mut self,
        account: &str,
        models: &Entitlement,
        now: Timestamp,
    ) -> Result<(), AccountError> {
        self.slot_of(account)?;
        let models = NameFilter::new(models, |name| self.names.intern_model(name));
        self.update(account, now, |state| state.entitled.change(|it| it.models = models))
    }

    /// Replaces the selectors that an account may serve.
    ///
    /// # Errors
    ///
    /// [`AccountError::Unknown`].
    pub fn set_selectors(
        &mut self,
        account: &str,
        selectors: &Entitlement,
        now: Timestamp,
    ) -> Result<(), AccountError> {
        self.slot_of(account)?;
        let selectors = NameFilter::new(selectors, |name| self.names.intern_selector(name));
        self.update(account, now, |state| state.entitled.change(|it| it.selectors = selectors))
    }

    /// Replaces the models that the operator blocks on an account.
    ///
    /// # Errors
    ///
    /// [`AccountError::Unknown`].
    pub fn set_blocked_models(
        &mut self,
        account: &str,
        models: &BTreeSet<String>,
        now: Timestamp,
    ) -> Result<(), AccountError> {
        self.slot_of(account)?;
        let blocked = interned(models, |name| self.names.intern_model(name));
        self.update(account, now, |state| state.entitled.change(|it| it.blocked_models = blocked))
    }

    /// Sets an account's status. Making it active closes its breaker; cooldowns stay.
    ///
    /// # Errors
    ///
    /// [`AccountError::Unknown`], and [`AccountError::Status`] for [`Status::Error`].
    pub fn set_status(
        &mut self,
        account: &str,
        status: Status,
        now: Timestamp,
    ) -> Result<(), AccountError> {
        if status == Status::Error {
            return Err(AccountError::Status);
        }
        self.update(account, now, |state| state.set_standing(status))
    }

    /// Takes an account out for maintenance, or back in.
    ///
    /// # Errors
    ///
    /// [`AccountError::Unknown`].
    pub fn set_maintenance(
        &mut self,
        account: &str,
        maintenance: bool,
        now: Timestamp,
    ) -> Result<(), AccountError> {
        self.update(account, now, |state| state.maintenance = maintenance)
    }

    /// Lets an account finish its conversations and take no new ones, or ends that.
    ///
    /// # Errors
    ///
    /// [`AccountError::Unknown`].
    pub fn set_draining(
        &mut self,
        account: &str,
        draining: bool,
        now: Timestamp,
    ) -> Result<(), AccountError> {
        self.update(account, now, |state| state.draining = draining)
    }

    /// Blocks an account, or one of its models or selectors, until `until`; a later deadline that
    /// is there stays. Neither health nor escalation takes note. A deadline that has passed does
    /// nothing.
    ///
    /// # Errors
    ///
    /// [`AccountError::Unknown`].
    pub fn block(
        &mut self,
        account: &str,
        scope: &BlockScope,
        dimension: Dimension,
        until: Timestamp,
        now: Timestamp,
    ) -> Result<(), AccountError> {
        let now = self.advance(now);
        let slot = self.slot_of(account)?;
        if until > now {
            let target = self.target(scope);
            let upstream = dimension != Dimension::Operator;
            self.feedback(now).block(slot, (target, dimension), until, upstream);
        }
        Ok(())
    }

    /// Lifts the blocks of one kind, or of all kinds, from an account and its models and
    /// selectors, escalation included; returns whether there were any.
    ///
    /// # Errors
    ///
    /// [`AccountError::Unknown`].
    pub fn clear_blocks(
        &mut self,
        account: &str,
        dimension: Option<Dimension>,
        now: Timestamp,
    ) -> Result<bool, AccountError> {
        let now = self.advance(now);
        let chosen = |kind| dimension.is_none_or(|dimension| dimension == kind);
        let lifted = self.update(account, now, |state| {
            let live = state.cooldowns.live(now).map(|block| block.dimension);
            let lifted: Vec<Dimension> = live.filter(|&kind| chosen(kind)).collect();
            state.cooldowns.lift(|block| chosen(block.dimension));
            if dimension.is_none() {
                state.health.clear();
                state.breaker.reset();
            }
            lifted
        })?;
        for &dimension in &lifted {
            self.events.emit(|| Event::Unblocked { account: account.into(), dimension });
        }
        Ok(!lifted.is_empty())
    }

    /// Lifts one block as it was seen; `false` when it has ended or newer evidence has renewed
    /// it.
    ///
    /// # Errors
    ///
    /// [`AccountError::Unknown`].
    pub fn clear_block(
        &mut self,
        account: &str,
        generation: u64,
        now: Timestamp,
    ) -> Result<bool, AccountError> {
        let now = self.advance(now);
        let lifted = self.update(account, now, |state| {
            let seen = state.cooldowns.live(now).find(|block| block.generation == generation);
            let dimension = seen.map(|block| block.dimension);
            state.cooldowns.lift(|block| block.generation == generation && block.is_live(now));
            dimension
        })?;
        if let Some(dimension) = lifted {
            self.events.emit(|| Event::Unblocked { account: account.into(), dimension });
        }
        Ok(lifted.is_some())
    }

    fn update<R>(
        &mut self,
        account: &str,
        now: Timestamp,
        change: impl FnOnce(&mut AccountState) -> R,
    ) -> Result<R, AccountError> {
        self.advance(now);
        let state = self.roster.find(account).and_then(|slot| self.roster.get_mut(slot));
        state.map(change).ok_or_else(|| AccountError::Unknown(AccountId::from(account)))
    }

    fn target(&mut self, scope: &BlockScope) -> Target {
        let named = |name: &str| Some(name.trim().to_owned()).filter(|name| !name.is_empty());
        let model = |name: String| Target::Model(self.names.intern_model(&name));
        match scope {
            BlockScope::Account => Target::Account,
            BlockScope::Model(name) => named(name).map_or(Target::Account, model),
            BlockScope::Selector(name) => {
                let selector: Option<NameId> =
                    named(name).map(|name| self.names.intern_selector(&name));
                selector.map_or(Target::Account, Target::Selector)
            }
        }
    }

    /// Gives a new account the median recency of the active, used accounts, less its jitter.
    fn enter_at_median(&self, state: &mut AccountState, now: Timestamp) {
        let active = self.roster.spread(self.roster.len().min(MAX_SAMPLE)).filter(|state| {
            state.load.turn > 0 && state.status(&self.config.breaker, now) == Status::Active
        });
        // On the stack: an allocator may use the occasion to sort all that was freed before.
        let (mut stamps, mut turns) = (Recencies::new(), Recencies::new());
        for account in active {
            stamps.push(account.load.last_used.as_millis());
            turns.push(account.load.turn);
        }
        let jitter = state.jitter(Millis::new(self.config.baseline_jitter)).as_millis();
        let enter =
            |recency: &mut Recencies| median(recency).map_or(0, |it| it.saturating_sub(jitter));
        state.load.last_used = Timestamp::from_millis(enter(&mut stamps));
        state.load.turn = enter(&mut turns);
    }
}

type Recencies = ArrayVec<u64, MAX_SAMPLE>;

/// The median; of an even number, the mean of the two middle ones, rounded half up.
fn median(values: &mut [u64]) -> Option<u64> {
    let (middle, is_odd) = (values.len() / 2, values.len() % 2 == 1);
    if values.is_empty() {
        return None;
    }
    let (below, &mut upper, _) = values.select_nth_unstable(middle);
    let lower = below.iter().copied().max().filter(|_| !is_odd).unwrap_or(upper);
    Some(lower + (upper - lower).div_ceil(2))
}
