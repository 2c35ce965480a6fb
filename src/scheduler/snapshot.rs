//! The state as a value.

use std::collections::BTreeMap;

use super::Scheduler;
use crate::account::{AccountId, Plan, Tier};
use crate::names::NameId;
use crate::refusal::Reason;
use crate::slot::Slot;
use crate::snapshot::Snapshot;
use crate::snapshot::saved::{
    SavedAccount, SavedBinding, SavedBlock, SavedCounters, SavedDeparted, SavedPlace, SavedStop,
    SavedTarget,
};
use crate::state::cooldown::{Block, Target};
use crate::state::{AccountState, Entitled};
use crate::sticky::{Binding, BindingKey};
use crate::time::Timestamp;

impl Scheduler {
    /// The whole state as of `now` apart from the configuration and from what is under way
    /// (leases, probes, places in queues), for [`restore`](Self::restore).
    ///
    /// O(accounts + bindings + requests in rate windows), and it allocates as much.
    pub fn snapshot(&self, now: Timestamp) -> Snapshot {
        let at = now.max(self.now);
        let lapsed = self.lapsed_by(at);
        Snapshot {
            version: Snapshot::VERSION,
            at,
            origin: self.origin,
            next_sequence: self.next_sequence,
            turn: self.turn,
            generation: self.generation,
            accounts: self.roster.iter().map(|(slot, it)| self.save_account(slot, it)).collect(),
            vacant: self.roster.vacant().map(SavedPlace::from).collect(),
            departed: self.departed.iter().filter_map(|it| self.save_departed(it, at)).collect(),
            bindings: self.bindings.all().map(|(key, it)| self.save_binding(key, it)).collect(),
            lapsed,
            counters: self.save_counters(lapsed),
        }
    }

    /// How many bindings, from the least recently used on, will have been counted out at `at`.
    fn lapsed_by(&self, at: Timestamp) -> usize {
        let policy = &self.config.sticky;
        let counted = self.bindings.places() - self.bindings.len();
        let later = self.bindings.all().skip(counted);
        counted + later.take_while(|(_, binding)| binding.has_lapsed(policy, at)).count()
    }

    fn save_account(&self, slot: Slot, state: &AccountState) -> SavedAccount {
        let Entitled { models, selectors, blocked_models } =
            state.entitled.get().cloned().unwrap_or_default();
        SavedAccount {
            id: state.id().clone(),
            place: slot.into(),
            number: state.number,
            added_at: state.record.added_at,
            plan: plan(state),
            models: models.declared(&self.names),
            selectors: selectors.declared(&self.names),
            blocked_models: blocked_models.iter().map(|&name| self.name(name)).collect(),
            status: state.standing(),
            maintenance: state.maintenance,
            draining: state.draining,
            last_used: state.load.last_used,
            turn: state.load.turn,
            requests: state.windows.requests().collect(),
            tokens: state.windows.tokens().collect(),
            trouble: state.health.events().collect(),
            blocks: state.cooldowns.all().map(|block| self.save_block(block)).collect(),
            breaker: (&state.breaker).into(),
            quota: state.quota.reading(),
            usage: state.record.usage,
        }
    }

    fn save_block(&self, block: &Block) -> SavedBlock {
        let target = match block.target {
            Target::Account => SavedTarget::Account,
            Target::Model(name) => SavedTarget::Model(self.name(name)),
            Target::Selector(name) => SavedTarget::Selector(self.name(name)),
        };
        SavedBlock {
            target,
            dimension: block.dimension,
            set_at: block.set_at,
            until: block.until,
            announced: block.announced,
            steps: block.steps,
            generation: block.generation,
            upstream: block.upstream,
        }
    }

    /// An account that was removed, if any of its blocks still matters.
    fn save_departed(
        &self,
        (id, blocks): (&AccountId, &[Block]),
        at: Timestamp,
    ) -> Option<SavedDeparted> {
        let live = blocks.iter().filter(|block| block.is_live(at));
        let blocks: Vec<SavedBlock> = live.map(|block| self.save_block(block)).collect();
        (!blocks.is_empty()).then(|| SavedDeparted { id: id.clone(), blocks })
    }

    fn save_binding(&self, key: &BindingKey, binding: &Binding) -> SavedBinding {
        let (caller, model, selector) = key.parts();
        let trail = binding.trail.trail();
        let stops = trail.stops();
        let account = |slot| self.roster.get(slot).map(|state| state.id().clone());
        SavedBinding {
            caller,
            model: model.map(|name| self.name(name)),
            selector: selector.map(|name| self.name(name)),
            tenant: binding.tenant,
            last_used: binding.last_used,
            trail: stops
                .iter()
                .map(|stop| SavedStop { account: account(stop.slot), at: stop.at })
                .collect(),
            home: stops.iter().position(|stop| stop.slot == trail.home()).unwrap_or(0),
            usage: binding.usage.totals(),
        }
    }

    fn save_counters(&self, lapsed: usize) -> SavedCounters {
        let stats = &self.stats;
        let counted = self.bindings.places() - self.bindings.len();
        let mut sticky = stats.sticky;
        sticky.expiries += (lapsed - counted) as u64;
        let by_reason = Reason::ALL.iter().map(|&reason| (reason, stats.refused_for(reason)));
        SavedCounters {
            selected: stats.selected,
            refused: stats.refused,
            refused_by_reason: by_reason
                .filter(|&(_, count)| count > 0)
                .collect::<BTreeMap<_, _>>(),
            waits: stats.waits,
            settled: stats.settled,
            reaped: stats.reaped,
            refunded: stats.refunded,
            sticky,
            usage: stats.usage,
        }
    }

    fn name(&self, name: NameId) -> String {
        self.names.text(name).to_owned()
    }
}

impl From<Slot> for SavedPlace {
    fn from(Slot { index, generation }: Slot) -> Self {
        Self { index, generation }
    }
}

impl From<SavedPlace> for Slot {
    fn from(SavedPlace { index, generation }: SavedPlace) -> Self {
        Self { index, generation }
    }
}

/// The plan as it was declared, the weight in thousandths.
fn plan(state: &AccountState) -> Plan {
    let mut plan = Plan::default()
        .weight(f64::from(state.weight) / 1_000.0)
        .tier(Tier(state.tier))
        .fallback_only(state.fallback_only);
    plan.requests = state.windows.usage(Timestamp::ZERO).map(|(limit, _)| limit).collect();
    plan.tokens = state.windows.token_usage(Timestamp::ZERO).map(|(limit, _)| limit);
    plan.max_in_flight = state.max_in_flight;
    plan
}
