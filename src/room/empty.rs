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

    #[expect(clippy::needless_pass_by_ref_mut, reason = "as where somebody can wait")]
    pub(crate) fn take_wake_ups(&mut self) -> Option<WakeUps> {
        None
    }
}

impl WakeUps {
    pub(crate) fn wake(self) {}
}
