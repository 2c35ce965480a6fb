//! A digest of the whole state.

use serde::Serialize;

use super::Scheduler;
use crate::config::Config;
use crate::digest::Digest;
use crate::names::NameId;
use crate::request::TrafficClass;
use crate::slot::Slot;
use crate::snapshot::Snapshot;
use crate::snapshot::saved::SavedPlace;
use crate::state::window::Taken;
use crate::time::Timestamp;

/// All that answers depend on.
#[derive(Serialize)]
struct Whole<'a> {
    config: &'a Config,
    snapshot: Snapshot,
    under_way: Vec<UnderWay>,
    leases: Vec<SavedLease<'a>>,
    vacant_leases: Vec<u32>,
}

/// What is under way on an account.
#[derive(Serialize)]
struct UnderWay {
    in_flight: u32,
    bound: u32,
    waiters: Vec<(u64, Timestamp)>,
    probes: Vec<(u64, Timestamp)>,
}

#[derive(Serialize)]
struct SavedLease<'a> {
    index: u32,
    sequence: u64,
    account: SavedPlace,
    taken: Taken,
    seen: Timestamp,
    model: Option<&'a str>,
    selector: Option<&'a str>,
    binding: Option<SavedKey<'a>>,
    cost: u64,
    class: TrafficClass,
    probe: bool,
    epoch: u32,
    refunded: bool,
}

#[derive(Serialize)]
struct SavedKey<'a> {
    #[serde(with = "crate::hex")]
    caller: u128,
    model: Option<&'a str>,
    selector: Option<&'a str>,
    tenant: u64,
}

impl Scheduler {
    /// The SHA-256 of the whole state: configuration, all that a [`snapshot`](Self::snapshot)
    /// holds, and what is under way. Schedulers of equal digests give the same answers to the
    /// same calls, on whatever machine; events aside, which are not part of the state.
    ///
    /// O(state), as a snapshot. Digests are comparable within one release of this crate.
    #[must_use]
    pub fn digest(&self) -> Digest {
        let text = |name: Option<NameId>| name.map(|name| self.names.text(name));
        let leases = self.leases.by_silence().map(|(index, seen, lease)| SavedLease {
            index,
            sequence: lease.sequence,
            account: lease.slot.into(),
            taken: lease.taken,
            seen,
            model: text(lease.model),
            selector: text(lease.selector),
            binding: lease.binding.map(|(bound, tenant)| {
                let (caller, model, selector) = bound.key.parts();
                SavedKey { caller, model: text(model), selector: text(selector), tenant }
            }),
            cost: lease.cost,
            class: lease.class,
            probe: lease.probe,
            epoch: lease.epoch,
            refunded: lease.refunded,
        });
        let under_way = self.roster.iter().map(|(_, state): (Slot, _)| UnderWay {
            in_flight: state.load.in_flight,
            bound: state.load.bound,
            waiters: state.load.waiters().collect(),
            probes: state.breaker.probes().collect(),
        });
        Digest::of(&Whole {
            config: &self.config,
            snapshot: self.snapshot(self.now),
            under_way: under_way.collect(),
            leases: leases.collect(),
            vacant_leases: self.leases.vacant().collect(),
        })
    }

    /// What its tickets are marked with.
    pub(crate) fn origin(&self) -> u32 {
        self.origin
    }
}
