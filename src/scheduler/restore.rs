//! A scheduler from a snapshot, every part of which is checked.

mod parts;

use std::collections::HashSet;

use self::parts::{
    MAX_STEPS, check_breaker, check_quota, ensure, ensure_count, stats, sums, trail,
};
use super::Scheduler;
use crate::account::{Account, AccountError, Status};
use crate::config::Config;
use crate::names::Names;
use crate::roster::{Departed, MAX_DEPARTED, Roster};
use crate::slot::Slot;
use crate::snapshot::saved::{SavedAccount, SavedBlock, SavedDeparted, SavedTarget};
use crate::snapshot::{Snapshot, SnapshotError};
use crate::state::AccountState;
use crate::state::cooldown::{Block, Cooldowns, Target};
use crate::state::health::{Health, MAX_EVENTS};
use crate::sticky::{Binding, BindingKey, Bindings};
use crate::time::Timestamp;

impl Scheduler {
    /// The scheduler that a snapshot describes, under `config`, at `now` or at the time of the
    /// snapshot, whichever is later.
    ///
    /// It goes on as the one of the snapshot would have gone on had all its requests under way
    /// been cancelled: nothing is in flight, no probe is out, nobody waits, and events are not
    /// collected. What has expired by `now` counts for nothing: bindings have lapsed, windows are
    /// free, blocks are over. Tickets from before count as late.
    ///
    /// A configuration other than before applies as by [`set_config`](Self::set_config). A
    /// snapshot may come from anywhere: whatever it holds, this does not panic. O(snapshot).
    ///
    /// # Errors
    ///
    /// [`SnapshotError`] says what is wrong with the snapshot, its format version above all, or
    /// with the configuration.
    pub fn restore(
        config: Config,
        snapshot: &Snapshot,
        now: Timestamp,
    ) -> Result<Self, SnapshotError> {
        Self::restore_as(config, snapshot, snapshot.origin, now)
    }

    /// The same, whose tickets are marked with `origin`.
    pub(crate) fn restore_as(
        config: Config,
        snapshot: &Snapshot,
        origin: u32,
        now: Timestamp,
    ) -> Result<Self, SnapshotError> {
        if snapshot.version != Snapshot::VERSION {
            return Err(SnapshotError::Version { found: snapshot.version });
        }
        let mut scheduler = Self::with_origin(config, origin)?;
        ensure_count(snapshot.next_sequence, "next_sequence")?;
        ensure_count(snapshot.turn, "turn")?;
        ensure_count(snapshot.generation, "generation")?;
        scheduler.now = snapshot.at;
        scheduler.next_sequence = snapshot.next_sequence.max(1);
        scheduler.turn = snapshot.turn;
        scheduler.generation = snapshot.generation;
        scheduler.stats = stats(&snapshot.counters)?;

        // The names are the canonical ones already, as they were when they were declared.
        let mut reader = Reader { names: Names::default(), snapshot };
        scheduler.roster = reader.roster()?;
        scheduler.departed = reader.departed(&scheduler.roster)?;
        scheduler.bindings = reader.bindings(&scheduler.roster)?;
        scheduler.names = reader.names;
        scheduler.names.set_models(&scheduler.config.aliases, &scheduler.config.unmetered);

        scheduler.recount_bindings();
        scheduler.trim_bindings();
        scheduler.advance(now);
        Ok(scheduler)
    }
}

/// Reads the parts of a snapshot that hold names.
struct Reader<'a> {
    names: Names,
    snapshot: &'a Snapshot,
}

impl Reader<'_> {
    fn roster(&mut self) -> Result<Roster, SnapshotError> {
        let snapshot = self.snapshot;
        let mut ids = HashSet::new();
        let mut accounts = Vec::with_capacity(snapshot.accounts.len());
        for saved in &snapshot.accounts {
            let refused = |error| Err(SnapshotError::Account { account: saved.id.clone(), error });
            if saved.id.as_str().trim().is_empty() {
                return refused(AccountError::BlankId);
            }
            if !ids.insert(&saved.id) {
                return refused(AccountError::Duplicate(saved.id.clone()));
            }
            if let Err(error) = saved.plan.validate() {
                return refused(error);
            }
            if saved.status == Status::Error {
                return refused(AccountError::Status);
            }
            accounts.push((saved.place.into(), self.account(saved)?));
        }
        let vacant: Vec<Slot> = snapshot.vacant.iter().copied().map(Slot::from).collect();
        let places = SnapshotError::Inconsistent { part: "accounts.place" };
        Roster::of(accounts, &vacant).ok_or(places)
    }

    fn account(&mut self, saved: &SavedAccount) -> Result<AccountState, SnapshotError> {
        let at = self.snapshot.at;
        ensure(saved.added_at <= at, "accounts.added_at")?;
        ensure(saved.last_used <= at, "accounts.last_used")?;
        let turn = SnapshotError::Inconsistent { part: "accounts.turn" };
        (saved.turn <= self.snapshot.turn).then_some(()).ok_or(turn)?;
        let account = Account::new(saved.id.clone())
            .plan(saved.plan.clone())
            .models(saved.models.clone())
            .selectors(saved.selectors.clone())
            .blocked_models(saved.blocked_models.clone());
        let mut state = AccountState::new(account, &mut self.names, saved.added_at);
        state.number = saved.number;
        state.set_standing(saved.status);
        state.maintenance = saved.maintenance;
        state.draining = saved.draining;
        state.load.last_used = saved.last_used;
        state.load.turn = saved.turn;
        let requests = sums(&saved.requests, at, "accounts.requests")?;
        state.windows.set_taken(requests, sums(&saved.tokens, at, "accounts.tokens")?);
        state.health = Health::of(sums(&saved.trouble, at, "accounts.trouble")?)
            .ok_or(SnapshotError::TooLong { part: "accounts.trouble", most: MAX_EVENTS })?;
        let blocks = self.blocks(&saved.blocks, "accounts.blocks")?;
        state.cooldowns =
            Cooldowns::of(blocks).ok_or(SnapshotError::Duplicate { part: "accounts.blocks" })?;
        check_breaker(&saved.breaker, at)?;
        state.breaker = (&saved.breaker).into();
        check_quota(&saved.quota, at)?;
        state.quota.store(&saved.quota, at);
        state.record.usage = saved.usage;
        Ok(state)
    }

    fn blocks(
        &mut self,
        saved: &[SavedBlock],
        part: &'static str,
    ) -> Result<Vec<Block>, SnapshotError> {
        saved.iter().map(|block| self.block(block, part)).collect()
    }

    fn block(&mut self, saved: &SavedBlock, part: &'static str) -> Result<Block, SnapshotError> {
        let in_order = saved.set_at <= self.snapshot.at && saved.until <= saved.announced;
        ensure(in_order && saved.set_at <= saved.until, part)?;
        if saved.steps > MAX_STEPS {
            return Err(SnapshotError::Range { part });
        }
        if saved.generation > self.snapshot.generation {
            return Err(SnapshotError::Inconsistent { part });
        }
        let target = match &saved.target {
            SavedTarget::Account => Target::Account,
            SavedTarget::Model(name) => Target::Model(self.names.intern_model(name)),
            SavedTarget::Selector(name) => Target::Selector(self.names.intern_selector(name)),
        };
        Ok(Block {
            target,
            dimension: saved.dimension,
            set_at: saved.set_at,
            until: saved.until,
            announced: saved.announced,
            steps: saved.steps,
            generation: saved.generation,
            upstream: saved.upstream,
        })
    }

    fn departed(&mut self, roster: &Roster) -> Result<Departed, SnapshotError> {
        let most = MAX_DEPARTED;
        if self.snapshot.departed.len() > most {
            return Err(SnapshotError::TooLong { part: "departed", most });
        }
        let mut departed = Departed::default();
        for SavedDeparted { id, blocks } in &self.snapshot.departed {
            let blocks = self.blocks(blocks, "departed.blocks")?;
            if roster.find(id.as_str()).is_some() || !departed.insert(id.clone(), blocks) {
                return Err(SnapshotError::Duplicate { part: "departed" });
            }
        }
        Ok(departed)
    }

    fn bindings(&mut self, roster: &Roster) -> Result<Bindings, SnapshotError> {
        let snapshot = self.snapshot;
        let mut bindings = Bindings::default();
        let mut last_used = Timestamp::ZERO;
        for saved in &snapshot.bindings {
            ensure(last_used <= saved.last_used, "bindings.last_used")?;
            last_used = saved.last_used;
            let model = saved.model.as_deref().map(|name| self.names.intern_model(name));
            let selector = saved.selector.as_deref().map(|name| self.names.intern_selector(name));
            let key = BindingKey::of(saved.caller, model, selector);
            if bindings.peek(&key).is_some() {
                return Err(SnapshotError::Duplicate { part: "bindings" });
            }
            let trail = trail(saved, roster)?.into();
            let (tenant, usage) = (saved.tenant, saved.usage.into());
            bindings.insert(key, Binding { trail, tenant, last_used, usage });
        }
        ensure(last_used <= snapshot.at, "bindings.last_used")?;
        if snapshot.lapsed > snapshot.bindings.len() {
            return Err(SnapshotError::Inconsistent { part: "lapsed" });
        }
        bindings.mark_lapsed(snapshot.lapsed);
        Ok(bindings)
    }
}
