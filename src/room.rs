//! The waiting room: who waits, in which order they are served, and when somebody has to look.
//!
//! It lives under the same lock as the scheduler. After every command the first of each line is
//! asked for; what frees is reserved for the first that can use it, before anybody else comes in.

mod lines;
mod need;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;
use std::task::Waker;

use self::lines::{Lines, Turn};
use self::need::{Need, Waiter, worth_waiting_until};
use crate::grant::Reservation;
use crate::refusal::Unavailable;
use crate::request::{OwnedRequest, Request};
use crate::scheduler::Scheduler;
use crate::time::{Millis, Timestamp, earliest};

/// The requests that wait.
#[derive(Debug, Default)]
pub(crate) struct Room {
    /// In the order of arrival.
    waiting: BTreeMap<u64, (Waiter, Arc<Need>)>,
    /// Those that were served and have not come to fetch it.
    ready: BTreeMap<u64, (Waiter, Reservation)>,
    lines: Lines,
    next_id: u64,
    /// When time alone may help somebody.
    alarm: Option<Timestamp>,
    /// Who sleeps until then on behalf of all, and until when.
    armed: Option<(u64, Timestamp)>,
    wake_ups: WakeUps,
}

/// Wakers that may run foreign code, for when the lock is released.
#[derive(Debug, Default)]
pub(crate) struct WakeUps {
    due: Vec<Waker>,
    spent: Vec<Waker>,
}

impl WakeUps {
    #[cold]
    pub(crate) fn wake(self) {
        self.due.into_iter().for_each(Waker::wake);
        drop(self.spent);
    }
}

/// Where a request that may wait stands.
#[derive(Debug)]
pub(crate) enum Stand {
    /// It is served.
    Served(Reservation),
    /// It waits under this number, and has to look at that time at the latest.
    Waits(u64, Timestamp),
    Refused(Unavailable),
}

enum Attempt {
    Served,
    /// It was refused, and belongs to another line now.
    Moved(Arc<Need>, Unavailable),
    Refused(Unavailable),
}

impl Room {
    /// The requests that wait, those aside that are served and have not noticed yet.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Serves whoever can be served: one question per line, and one more per waiter served.
    #[inline]
    pub(crate) fn serve(&mut self, scheduler: &mut Scheduler, now: Timestamp) {
        if !self.waiting.is_empty() {
            self.serve_lines(scheduler, now);
        }
    }

    #[cold]
    fn serve_lines(&mut self, scheduler: &mut Scheduler, now: Timestamp) {
        let heads = self.lines.heads().map(|(turn, need)| Reverse((turn, Arc::clone(need))));
        let mut heads: BinaryHeap<Reverse<(Turn, Arc<Need>)>> = heads.collect();
        let mut alarm = None;
        while let Some(Reverse((turn, need))) = heads.pop() {
            let Some(head) = self.lines.head(&need) else { continue };
            if head != turn {
                heads.push(Reverse((head, need)));
                continue;
            }
            match self.attempt(turn.id, scheduler, now) {
                Attempt::Served => heads.extend(self.first_of(&need)),
                Attempt::Moved(other, _) => {
                    heads.extend(self.first_of(&need));
                    heads.extend(self.first_of(&other));
                }
                Attempt::Refused(refusal) => {
                    self.flag_hopeless(&need, &refusal);
                    alarm = earliest(alarm, refusal.retry_at);
                }
            }
        }
        self.alarm = earliest(alarm, scheduler.reaps_at());
    }

    /// Asks for a new request, behind those that wait.
    pub(crate) fn enter(
        &mut self,
        request: &Request<'_>,
        deadline: Timestamp,
        waker: &Waker,
        scheduler: &mut Scheduler,
        now: Timestamp,
    ) -> Stand {
        self.serve(scheduler, now);
        let mut request = *request;
        let refusal = match scheduler.select_or_wait(&mut request, deadline, now) {
            Ok(reserved) => return Stand::Served(reserved),
            Err(refusal) => refusal,
        };
        let Some(until) = worth_waiting_until(&refusal, deadline, now) else {
            return finish(&request, scheduler, now);
        };
        if self.waiting.len() >= scheduler.config().max_waiting {
            return turn_away(&mut request, scheduler, now);
        }
        let request = OwnedRequest::from(&request);
        let waker = waker.clone();
        let waiter = Waiter { request, deadline, until, flagged: false, waker };
        self.next_id += 1;
        self.file(self.next_id, waiter, &refusal, scheduler, now);
        self.stand(self.next_id, now)
    }

    /// Looks after a request that waits.
    pub(crate) fn look(
        &mut self,
        id: u64,
        waker: &Waker,
        scheduler: &mut Scheduler,
        now: Timestamp,
    ) -> Stand {
        let is_due = |(waiter, _): &(Waiter, _)| waiter.flagged || waiter.until <= now;
        let due = self.waiting.get(&id).is_some_and(is_due);
        if due || self.alarm.is_some_and(|alarm| alarm <= now) {
            self.serve(scheduler, now);
        }
        if let Some((waiter, reserved)) = self.ready.remove(&id) {
            self.wake_ups.spent.push(waiter.waker);
            return Stand::Served(reserved);
        }
        if due {
            return self.look_for_itself(id, scheduler, now);
        }
        if let Some((waiter, _)) = self.waiting.get_mut(&id)
            && !waiter.waker.will_wake(waker)
        {
            let spent = std::mem::replace(&mut waiter.waker, waker.clone());
            self.wake_ups.spent.push(spent);
        }
        self.stand(id, now)
    }

    /// Takes a request out that waits no longer; what it was given passes on.
    pub(crate) fn leave(&mut self, id: u64, scheduler: &mut Scheduler, now: Timestamp) {
        if let Some((waiter, reserved)) = self.ready.remove(&id) {
            scheduler.abandon(reserved.ticket, now);
            self.wake_ups.spent.push(waiter.waker);
        } else if let Some(waiter) = self.unfile(id) {
            if let Some(waited) = waiter.request.waited {
                scheduler.give_up(waited);
            }
            self.wake_ups.spent.push(waiter.waker);
        }
    }

    /// Sorts all waiters into their lines anew, after a change of what makes them differ.
    pub(crate) fn sort(&mut self, scheduler: &Scheduler, now: Timestamp) {
        for (&id, (waiter, need)) in &mut self.waiting {
            let request = waiter.request.as_request();
            let refusal = scheduler.preview(&request, now).err();
            let refusal = refusal.unwrap_or_else(|| Unavailable::new(now));
            let pins = scheduler.pins(&request, &refusal, now);
            let other = Need::new(&waiter.request, pins, scheduler);
            *need = self.lines.transfer(need, other, waiter.request.tenant(), id, waiter.until);
        }
    }

    /// Takes the wake-ups that have come together, if there are any; wakes the one who keeps time
    /// if it has to get up earlier.
    #[inline]
    pub(crate) fn take_wake_ups(&mut self) -> Option<WakeUps> {
        let WakeUps { due, spent } = &self.wake_ups;
        let is_quiet = self.waiting.is_empty() && due.is_empty() && spent.is_empty();
        if is_quiet { None } else { Some(self.collect_wake_ups()) }
    }

    #[cold]
    fn collect_wake_ups(&mut self) -> WakeUps {
        if let Some((&first, (waiter, _))) = self.waiting.first_key_value() {
            let at = waiter.until.min(self.alarm.unwrap_or(Timestamp::MAX));
            if self.armed.is_none_or(|(keeper, armed)| keeper != first || armed > at) {
                self.armed = Some((first, at));
                self.wake_ups.due.push(waiter.waker.clone());
            }
        }
        std::mem::take(&mut self.wake_ups)
    }

    fn first_of(&self, need: &Arc<Need>) -> Option<Reverse<(Turn, Arc<Need>)>> {
        Some(Reverse((self.lines.head(need)?, Arc::clone(need))))
    }

    /// Asks for one that waits.
    fn attempt(&mut self, id: u64, scheduler: &mut Scheduler, now: Timestamp) -> Attempt {
        let (waiter, need) = self.waiting.get_mut(&id).expect("who is in a line waits");
        let mut request = waiter.request.as_request();
        let outcome = scheduler.select_or_wait(&mut request, waiter.deadline, now);
        waiter.request.waited = request.waited;
        let refusal = match outcome {
            Ok(reserved) => {
                self.hand_over(id, reserved);
                return Attempt::Served;
            }
            Err(refusal) => refusal,
        };
        let until = refusal.wait.as_ref().map_or(waiter.deadline, |wait| wait.deadline);
        let pins = scheduler.pins(&waiter.request.as_request(), &refusal, now);
        let before = std::mem::replace(&mut waiter.until, until);
        self.lines.limit(need, id, before, until);
        if pins == need.pins {
            return Attempt::Refused(refusal);
        }
        let other = Need::new(&waiter.request, pins, scheduler);
        *need = self.lines.transfer(need, other, waiter.request.tenant(), id, until);
        Attempt::Moved(Arc::clone(need), refusal)
    }

    fn hand_over(&mut self, id: u64, reserved: Reservation) {
        let waiter = self.unfile(id).expect("who is served waited");
        self.lines.served(waiter.request.tenant());
        self.wake_ups.due.push(waiter.waker.clone());
        self.ready.insert(id, (waiter, reserved));
    }

    /// Lets those of a line look for themselves who cannot be served in time.
    fn flag_hopeless(&mut self, need: &Need, refusal: &Unavailable) {
        let hope = match &refusal.wait {
            Some(wait) if wait.wake_at.is_none() => return,
            Some(wait) => wait.wake_at,
            None => earliest(refusal.retry_at, refusal.release_at),
        };
        for id in self.lines.hopeless(need, hope) {
            if let Some((waiter, _)) = self.waiting.get_mut(&id) {
                waiter.flagged = true;
                self.wake_ups.due.push(waiter.waker.clone());
            }
        }
    }

    /// Asks for one whose time is up, after all who go before it.
    fn look_for_itself(&mut self, id: u64, scheduler: &mut Scheduler, now: Timestamp) -> Stand {
        let refusal = match self.attempt(id, scheduler, now) {
            Attempt::Moved(_, refusal) | Attempt::Refused(refusal) => refusal,
            Attempt::Served => {
                let (waiter, reserved) = self.ready.remove(&id).expect("it was served just now");
                self.wake_ups.spent.push(waiter.waker);
                return Stand::Served(reserved);
            }
        };
        self.alarm = earliest(self.alarm, refusal.retry_at);
        let (waiter, _) = self.waiting.get_mut(&id).expect("who is not served waits");
        if worth_waiting_until(&refusal, waiter.deadline, now).is_some() {
            waiter.flagged = false;
            return self.stand(id, now);
        }
        let waiter = self.unfile(id).expect("who is not served waits");
        let stand = finish(&waiter.request.as_request(), scheduler, now);
        self.wake_ups.spent.push(waiter.waker);
        stand
    }

    /// When one that waits has to look at the latest.
    fn stand(&mut self, id: u64, now: Timestamp) -> Stand {
        let mut at = self.waiting.get(&id).map_or(now, |(waiter, _)| waiter.until);
        if self.waiting.first_key_value().is_some_and(|(&first, _)| first == id) {
            at = at.min(self.alarm.unwrap_or(Timestamp::MAX));
            self.armed = Some((id, at));
        }
        Stand::Waits(id, at.max(now.plus(Millis::new(1))))
    }

    fn file(
        &mut self,
        id: u64,
        waiter: Waiter,
        refusal: &Unavailable,
        scheduler: &Scheduler,
        now: Timestamp,
    ) {
        let pins = scheduler.pins(&waiter.request.as_request(), refusal, now);
        let need = Need::new(&waiter.request, pins, scheduler);
        let need = self.lines.join(need, waiter.request.tenant(), id, waiter.until);
        self.alarm = earliest(self.alarm, refusal.retry_at);
        self.alarm = earliest(self.alarm, scheduler.reaps_at());
        self.waiting.insert(id, (waiter, need));
    }

    fn unfile(&mut self, id: u64) -> Option<Waiter> {
        let (waiter, need) = self.waiting.remove(&id)?;
        self.lines.leave(&need, waiter.request.tenant(), id, waiter.until);
        debug_assert_eq!(self.waiting.is_empty(), self.lines.is_empty());
        Some(waiter)
    }
}

impl Drop for Room {
    /// The pool is gone: all who wait learn it.
    fn drop(&mut self) {
        let waiting = std::mem::take(&mut self.waiting).into_values().map(|(waiter, _)| waiter);
        let ready = std::mem::take(&mut self.ready).into_values().map(|(waiter, _)| waiter);
        waiting.chain(ready).for_each(|waiter| waiter.waker.wake());
    }
}

/// The refusal that a selection gives, with all its marks.
fn finish(request: &Request<'_>, scheduler: &mut Scheduler, now: Timestamp) -> Stand {
    match scheduler.reserve_best(request, now) {
        Ok(reserved) => Stand::Served(reserved),
        Err(refusal) => Stand::Refused(refusal),
    }
}

/// No room: whoever could have waited for its own account may still be served by another.
fn turn_away(request: &mut Request<'_>, scheduler: &mut Scheduler, now: Timestamp) -> Stand {
    if let Some(waited) = &mut request.waited {
        scheduler.give_up(*waited);
        waited.deadline = now;
    }
    let mut stand = finish(request, scheduler, now);
    if let Stand::Refused(refusal) = &mut stand {
        refusal.queue_full = true;
    }
    stand
}
