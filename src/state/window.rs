//! Request and token windows.

use serde::Serialize;

use crate::account::{Plan, RateLimit};
use crate::refusal::Lift;
use crate::sliding::SlidingSum;
use crate::state::rare::Rare;
use crate::time::{Millis, Timestamp, earliest};

/// The full fraction of [`Reading::headroom`]: an unused or unlimited account.
pub(crate) const FULL_HEADROOM: u64 = 1 << 32;

/// What one lease took: only what was counted can be given back.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Taken {
    at: Timestamp,
    request: bool,
    tokens: u64,
}

/// What the request windows say at an instant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Reading {
    /// Whether each has room for one more request.
    pub(crate) has_room: bool,
    /// The free fraction of the tightest, in units of 2⁻³², exact for limits up to 65 536.
    pub(crate) headroom: u64,
    /// When the next request leaves one.
    pub(crate) next_exit: Option<Timestamp>,
}

impl Reading {
    /// What one limit says.
    #[inline(always)]
    fn of(limit: RateLimit, log: &SlidingSum, now: Timestamp) -> Self {
        let (used, next_exit) = log.read(limit.per, now);
        Self {
            has_room: has_room(limit, used, 1),
            headroom: share(limit.limit.saturating_sub(used), limit.limit),
            next_exit,
        }
    }

    /// What two limits say.
    fn and(self, other: Self) -> Self {
        Self {
            has_room: self.has_room && other.has_room,
            headroom: self.headroom.min(other.headroom),
            next_exit: earliest(self.next_exit, other.next_exit),
        }
    }

    /// What no limit says.
    const UNLIMITED: Self = Self { has_room: true, headroom: FULL_HEADROOM, next_exit: None };
}

/// What an account took from its rate limits. One log serves all request windows, so that
/// replacing the limits keeps the usage.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Windows {
    limits: Limits,
    requests: SlidingSum,
    tokens: Rare<Tokens>,
}

/// The limits of requests. The first is mostly the only one.
#[derive(Clone, Debug, Default, PartialEq)]
struct Limits {
    first: Option<RateLimit>,
    others: Rare<Vec<RateLimit>>,
}

/// The token window, and what was taken from it.
#[derive(Clone, Debug, Default, PartialEq)]
struct Tokens {
    limit: Option<RateLimit>,
    log: SlidingSum,
}

impl Limits {
    fn of(limits: &[RateLimit]) -> Self {
        let (first, others) = limits.split_at(limits.len().min(1));
        Self { first: first.first().copied(), others: Rare::new(others.to_vec()) }
    }

    #[inline]
    fn iter(&self) -> impl Iterator<Item = &RateLimit> {
        self.first.iter().chain(self.others.get().into_iter().flatten())
    }

    /// What `value` makes of each limit, joined by `pick`; `None` without limits.
    #[inline(always)]
    fn join<T>(&self, value: impl Fn(RateLimit) -> T, pick: impl Fn(T, T) -> T) -> Option<T> {
        let first = value(self.first?);
        match self.others.get() {
            None => Some(first),
            Some(others) => Some(Self::join_others(others, first, value, pick)),
        }
    }

    #[inline(never)]
    fn join_others<T>(
        others: &[RateLimit],
        first: T,
        value: impl Fn(RateLimit) -> T,
        pick: impl Fn(T, T) -> T,
    ) -> T {
        others.iter().map(|&limit| value(limit)).fold(first, pick)
    }

    /// The length of the longest window.
    #[inline]
    fn span(&self) -> Option<Millis> {
        self.join(|limit| limit.per, Ord::max)
    }
}

impl Windows {
    /// Replaces the limits.
    pub(crate) fn set_limits(&mut self, plan: &Plan) {
        self.limits = Limits::of(&plan.requests);
        self.tokens.change(|tokens| tokens.limit = plan.tokens);
    }

    /// The requests that were taken.
    pub(crate) fn requests(&self) -> impl Iterator<Item = (Timestamp, u64)> {
        self.requests.amounts()
    }

    /// The tokens that were taken.
    pub(crate) fn tokens(&self) -> impl Iterator<Item = (Timestamp, u64)> {
        self.tokens.get().into_iter().flat_map(|tokens| tokens.log.amounts())
    }

    /// Replaces what was taken.
    pub(crate) fn set_taken(&mut self, requests: SlidingSum, tokens: SlidingSum) {
        self.requests = requests;
        self.tokens.change(|taken| taken.log = tokens);
    }

    /// What the request windows say now.
    #[inline(always)]
    pub(crate) fn read(&self, now: Timestamp) -> Reading {
        let reading = self.limits.join(|it| Reading::of(it, &self.requests, now), Reading::and);
        reading.unwrap_or(Reading::UNLIMITED)
    }

    /// What lifts the request windows: free when each has room for one more.
    #[inline]
    pub(crate) fn request_lift(&self, now: Timestamp) -> Lift {
        let lift = self.limits.join(|limit| lift(limit, &self.requests, 1, now), Ord::max);
        lift.unwrap_or_default()
    }

    /// What lifts the token window for a request of `cost` tokens. A request of unknown cost
    /// needs the window not to be full.
    #[inline]
    pub(crate) fn token_lift(&self, cost: u64, now: Timestamp) -> Lift {
        self.token_window().map_or(Lift::Free, |(limit, log)| lift(limit, log, cost.max(1), now))
    }

    /// The tokens that a request may be charged; `u64::MAX` without a limit.
    #[inline]
    pub(crate) fn tokens_left(&self, now: Timestamp) -> u64 {
        let left = |(limit, used): (RateLimit, u64)| limit.limit.saturating_sub(used);
        self.token_usage(now).map_or(u64::MAX, left)
    }

    /// When the next token leaves its window.
    #[inline]
    pub(crate) fn next_token_exit(&self, now: Timestamp) -> Option<Timestamp> {
        self.token_window().and_then(|(limit, log)| log.next_exit(limit.per, now))
    }

    /// Takes one request and `cost` tokens; says what was counted.
    #[inline]
    pub(crate) fn take(&mut self, cost: u64, now: Timestamp) -> Taken {
        let span = self.limits.span();
        if let Some(span) = span {
            self.requests.prune(span, now);
            self.requests.add(1, now);
        }
        let counts = self.take_tokens(cost, now);
        Taken { at: now, request: span.is_some(), tokens: if counts { cost } else { 0 } }
    }

    /// Takes `amount` tokens; whether they are counted.
    #[inline]
    pub(crate) fn take_tokens(&mut self, amount: u64, now: Timestamp) -> bool {
        let Some(Tokens { limit: Some(limit), log }) = self.tokens.get_mut() else {
            return false;
        };
        if amount > 0 {
            log.prune(limit.per, now);
            log.add(amount, now);
        }
        true
    }

    /// Gives back what was taken; whether a request slot was still in a window.
    pub(crate) fn give_back(&mut self, taken: Taken, now: Timestamp) -> bool {
        let Taken { at, request, tokens } = taken;
        if let Some(Tokens { limit: Some(limit), log }) = self.tokens.get_mut()
            && tokens > 0
            && !at.is_over(limit.per, now)
        {
            log.take_back(tokens, at);
        }
        match self.limits.span() {
            Some(span) if request && !at.is_over(span, now) => self.requests.take_back(1, at),
            _ => false,
        }
    }

    /// The request windows with their use.
    pub(crate) fn usage(&self, now: Timestamp) -> impl Iterator<Item = (RateLimit, u64)> + '_ {
        self.limits.iter().map(move |limit| (*limit, self.requests.sum(limit.per, now)))
    }

    /// The token window with its use.
    #[inline]
    pub(crate) fn token_usage(&self, now: Timestamp) -> Option<(RateLimit, u64)> {
        self.token_window().map(|(limit, log)| (limit, log.sum(limit.per, now)))
    }

    /// The token window with its log.
    #[inline]
    fn token_window(&self) -> Option<(RateLimit, &SlidingSum)> {
        let Tokens { limit, log } = self.tokens.get()?;
        limit.map(|limit| (limit, log))
    }
}

#[inline]
fn lift(limit: RateLimit, log: &SlidingSum, amount: u64, now: Timestamp) -> Lift {
    let used = log.sum(limit.per, now);
    if has_room(limit, used, amount) {
        return Lift::Free;
    }
    let allowed = limit.limit.checked_sub(amount);
    allowed.map_or(Lift::Never, |allowed| Lift::At(log.free_at(limit.per, allowed)))
}

/// Whether a limit of which so much is used has room for an amount.
#[inline]
fn has_room(limit: RateLimit, used: u64, amount: u64) -> bool {
    limit.limit.checked_sub(amount).is_some_and(|allowed| used <= allowed)
}

#[inline]
fn share(part: u64, whole: u64) -> u64 {
    if whole <= u64::from(u32::MAX) {
        // The common case, without the slow 128-bit division.
        (part << 32).checked_div(whole).unwrap_or(0)
    } else {
        share_of_many(part, whole)
    }
}

#[cold]
fn share_of_many(part: u64, whole: u64) -> u64 {
    let scaled = u128::from(part) * u128::from(FULL_HEADROOM) / u128::from(whole);
    u64::try_from(scaled).unwrap_or(FULL_HEADROOM)
}
