//! Recent trouble, as points that fade.

use crate::config::HealthPolicy;
use crate::sliding::SlidingSum;
use crate::state::rare::Rare;
use crate::time::Timestamp;

/// How many events an account remembers.
pub(crate) const MAX_EVENTS: usize = 240;

/// The trouble events of one account.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Health {
    events: Rare<SlidingSum>,
}

impl Health {
    /// Notes an event of `points`.
    pub(crate) fn note(&mut self, points: u32, policy: &HealthPolicy, now: Timestamp) {
        if points == 0 {
            return;
        }
        let events = self.events.make();
        events.prune(policy.window, now);
        events.add(points.into(), now);
        events.truncate(MAX_EVENTS);
    }

    /// Whether no event is remembered.
    #[inline]
    pub(crate) fn is_spotless(&self) -> bool {
        self.events.get().is_none()
    }

    /// The points of the events within the window.
    #[inline]
    pub(crate) fn score(&self, policy: &HealthPolicy, now: Timestamp) -> u64 {
        self.events.get().map_or(0, |events| events.sum(policy.window, now))
    }

    /// When the next event leaves the window.
    #[inline]
    pub(crate) fn next_exit(&self, policy: &HealthPolicy, now: Timestamp) -> Option<Timestamp> {
        self.events.get()?.next_exit(policy.window, now)
    }

    /// The events that are remembered, with their points.
    pub(crate) fn events(&self) -> impl Iterator<Item = (Timestamp, u64)> {
        self.events.get().into_iter().flat_map(SlidingSum::amounts)
    }

    /// The health that events make; `None` when they are more than are remembered.
    pub(crate) fn of(events: SlidingSum) -> Option<Self> {
        (events.amounts().count() <= MAX_EVENTS).then(|| Self { events: Rare::new(events) })
    }

    /// Forgets all trouble.
    pub(crate) fn clear(&mut self) {
        self.events = Rare::default();
    }
}
