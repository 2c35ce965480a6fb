//! The waiting room of a build in which nobody can wait.

use crate::scheduler::Scheduler;
use crate::time::Timestamp;

#[derive(Debug, Default)]
pub(crate) struct Room(());

#[derive(Debug)]
pub(crate) struct WakeUps;

impl Room {
    pub(crate) fn serve(&self, _: &mut Scheduler, _: Timestamp) {}

    pub(crate) fn sort(&self, _: &Scheduler, _: Timestamp) {}

    pub(crate) fn take_wake_ups(&self) -> WakeUps {
        WakeUps
    }
}

impl WakeUps {
    pub(crate) fn wake(self) {}
}
