//! Recent trouble, as points that fade.

use crate::config::HealthPolicy;
use crate::sliding::SlidingSum;
use crate::time::Timestamp;

/// How many events an account remembers.
pub(crate) const MAX_EVENTS: usize = 240;

/// The trouble events of one account.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Health {
    events: SlidingSum,
}

impl Health {
    /// Notes an event of `points`.
    pub(crate) fn note(&mut self, points: u32, policy: &HealthPolicy, now: Timestamp) {
        if points == 0 {
            return;
        }
        self.events.prune(policy.window, now);
        self.events.add(points.into(), now);
        self.events.truncate(MAX_EVENTS);
    }

    /// The points of the events within the window.
    pub(crate) fn score(&self, policy: &HealthPolicy, now: Timestamp) -> u64 {
        self.events.sum(policy.window, now)
    }

    /// When the next event leaves the window.
    pub(crate) fn next_exit(&self, policy: &HealthPolicy, now: Timestamp) -> Option<Timestamp> {
        self.events.next_exit(policy.window, now)
    }

    /// The events that are remembered.
    pub(crate) fn events(&self) -> &SlidingSum {
        &self.events
    }

    /// The health that events make; `None` when they are more than are remembered.
    pub(crate) fn of(events: SlidingSum) -> Option<Self> {
        (events.amounts().count() <= MAX_EVENTS).then_some(Self { events })
    }

    /// Forgets all trouble.
    pub(crate) fn clear(&mut self) {
        self.events = SlidingSum::default();
    }
}
