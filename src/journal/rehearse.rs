//! A recorded journal under another policy.

use std::collections::HashMap;

use super::{Answer, Journal, JournalError, Operation, Replayed};
use crate::config::Config;
use crate::grant::Ticket;
use crate::refusal::WaitTicket;

/// A journal under two policies, answer by answer.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Rehearsal {
    /// Under the policy of the recording.
    pub recorded: Replayed,
    /// Under the other one.
    pub other: Replayed,
}

impl Journal {
    /// What the recorded traffic would have met under another configuration. `recorded` is the
    /// one of the recording.
    ///
    /// The same operations run side by side under both. Tickets differ, so an operation on one
    /// goes, under the other configuration, to the ticket that the same selecting operation got
    /// there; likewise for waits. Where that selection was refused, the operation is skipped
    /// ([`Answer::Skipped`]). One that was refused in the recording and is served under the other
    /// configuration has no outcome; it counts as selected and is cancelled at once. Changes of
    /// the configuration are skipped.
    ///
    /// So an outcome stays with its request, also when another account serves it: a throttle of
    /// the recording strikes whichever account has the request now. That compares policies fairly
    /// where trouble comes by chance, and not where an account was throttled for its own load.
    ///
    /// Costs both runs and two digests.
    ///
    /// ```
    /// use account_pool::Config;
    /// use account_pool::config::StickyMode;
    /// use account_pool::journal::Journal;
    ///
    /// # let scheduler = account_pool::Scheduler::new(Config::default())?;
    /// # let journal = Journal::new(&scheduler);
    /// let mut loose = Config::default();
    /// loose.sticky.mode = StickyMode::Off;
    /// let rehearsal = journal.rehearse(Config::default(), loose)?;
    /// for (recorded, other) in rehearsal.recorded.answers.iter().zip(&rehearsal.other.answers) {
    ///     println!("{recorded:?} would have been {other:?}");
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Journal::replay`], for either configuration.
    pub fn rehearse(&self, recorded: Config, other: Config) -> Result<Rehearsal, JournalError> {
        let (mut original, mut variant) = (self.begin(recorded)?, self.begin(other)?);
        let mut actors = Counterparts::default();
        let (mut original_answers, mut variant_answers) = (Vec::new(), Vec::new());
        for entry in &self.entries {
            let answer = entry.operation.apply(&mut original, entry.at);
            let operation = actors.translate(&entry.operation);
            let varied = operation.map(|operation| operation.apply(&mut variant, entry.at));
            let varied = varied.unwrap_or(Answer::Skipped);
            if let Some(unanswered) = actors.learn(&answer, &varied) {
                variant.cancel(unanswered, entry.at);
            }
            original_answers.push(answer);
            variant_answers.push(varied);
        }
        let replayed = |scheduler: crate::Scheduler, answers| {
            let digest = scheduler.digest();
            Replayed { scheduler, answers, digest }
        };
        Ok(Rehearsal {
            recorded: replayed(original, original_answers),
            other: replayed(variant, variant_answers),
        })
    }
}

/// What stands under the other policy for the tickets of the recording, by their numbers.
#[derive(Default)]
struct Counterparts {
    tickets: HashMap<u64, Ticket>,
    waits: HashMap<u64, WaitTicket>,
}

impl Counterparts {
    /// The operation for the other scheduler, if there is one.
    fn translate(&self, operation: &Operation) -> Option<Operation> {
        let mut operation = operation.clone();
        match &mut operation {
            Operation::Settle(ticket, _)
            | Operation::Report(ticket, _)
            | Operation::Cancel(ticket)
            | Operation::Abandon(ticket)
            | Operation::Refund(ticket)
            | Operation::Touch(ticket) => *ticket = *self.tickets.get(&ticket.sequence)?,
            Operation::GiveUp(wait) => *wait = *self.waits.get(&wait.sequence)?,
            Operation::Select(request) | Operation::SelectAccount(_, request) => {
                let waited = request.waited;
                request.waited = waited.and_then(|wait| self.waits.get(&wait.sequence).copied());
            }
            Operation::SetConfig(_) => return None,
            _ => {}
        }
        Some(operation)
    }

    /// Notes which tickets belong together; returns one that the recording has no outcome for.
    fn learn(&mut self, recorded: &Answer, other: &Answer) -> Option<Ticket> {
        if let Answer::Refused(refusal) = recorded
            && let Some(wait) = refusal.wait()
        {
            let counterpart = match other {
                Answer::Refused(refusal) => refusal.wait().map(|wait| wait.ticket),
                _ => None,
            };
            match counterpart {
                Some(ticket) => self.waits.insert(wait.ticket.sequence, ticket),
                None => self.waits.remove(&wait.ticket.sequence),
            };
        }
        match (recorded, other) {
            (Answer::Granted(recorded), Answer::Granted(other)) => {
                self.tickets.insert(recorded.ticket.sequence, other.ticket);
                None
            }
            (_, Answer::Granted(other)) => Some(other.ticket),
            _ => None,
        }
    }
}
