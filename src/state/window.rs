//! Request and token windows.

use serde::Serialize;

use crate::account::{Plan, RateLimit};
use crate::refusal::Lift;
use crate::sliding::SlidingSum;
use crate::time::{Millis, Timestamp};

/// The full fraction of [`Windows::headroom`]: an unused or unlimited account.
pub(crate) const FULL_HEADROOM: u64 = 1 << 32;

/// What one lease took: only what was counted can be given back.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Taken {
    at: Timestamp,
    request: bool,
    tokens: u64,
}

/// What an account took from its rate limits. One log serves all request windows, so that
/// replacing the limits keeps the usage.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Windows {
    limits: Vec<RateLimit>,
    token_limit: Option<RateLimit>,
    requests: SlidingSum,
    tokens: SlidingSum,
}

impl Windows {
    /// Replaces the limits.
    pub(crate) fn set_limits(&mut self, plan: &Plan) {
        self.limits.clone_from(&plan.requests);
        self.token_limit = plan.tokens;
    }

    /// What was taken: requests and tokens.
    pub(crate) fn taken(&self) -> (&SlidingSum, &SlidingSum) {
        (&self.requests, &self.tokens)
    }

    /// Replaces what was taken.
    pub(crate) fn set_taken(&mut self, requests: SlidingSum, tokens: SlidingSum) {
        (self.requests, self.tokens) = (requests, tokens);
    }

    /// What lifts the request windows: free when each has room for one more.
    pub(crate) fn request_lift(&self, now: Timestamp) -> Lift {
        let lifts = self.limits.iter().map(|limit| lift(*limit, &self.requests, 1, now));
        lifts.max().unwrap_or_default()
    }

    /// What lifts the token window for a request of `cost` tokens. A request of unknown cost
    /// needs the window not to be full.
    pub(crate) fn token_lift(&self, cost: u64, now: Timestamp) -> Lift {
        self.token_limit.map_or(Lift::Free, |limit| lift(limit, &self.tokens, cost.max(1), now))
    }

    /// The free fraction of the tightest request window, in units of 2⁻³², exact for limits up to
    /// 65 536.
    pub(crate) fn headroom(&self, now: Timestamp) -> u64 {
        let free = |window: &RateLimit| {
            let used = self.requests.sum(window.per, now).min(window.limit);
            share(window.limit - used, window.limit)
        };
        self.limits.iter().map(free).min().unwrap_or(FULL_HEADROOM)
    }

    /// The tokens that a request may be charged; `u64::MAX` without a limit.
    pub(crate) fn tokens_left(&self, now: Timestamp) -> u64 {
        self.token_limit
            .map_or(u64::MAX, |limit| limit.limit.saturating_sub(self.tokens.sum(limit.per, now)))
    }

    /// When the next request or token leaves a window.
    pub(crate) fn next_exit(&self, now: Timestamp) -> Option<Timestamp> {
        let requests =
            self.limits.iter().filter_map(|limit| self.requests.next_exit(limit.per, now)).min();
        let tokens = self.token_limit.and_then(|limit| self.tokens.next_exit(limit.per, now));
        match (requests, tokens) {
            (Some(request), Some(token)) => Some(request.min(token)),
            (request, token) => request.or(token),
        }
    }

    /// Takes one request and `cost` tokens; says what was counted.
    pub(crate) fn take(&mut self, cost: u64, now: Timestamp) -> Taken {
        if let Some(span) = self.request_span() {
            self.requests.prune(span, now);
            self.requests.add(1, now);
        }
        self.take_tokens(cost, now);
        let tokens = if self.token_limit.is_some() { cost } else { 0 };
        Taken { at: now, request: !self.limits.is_empty(), tokens }
    }

    /// Takes `amount` tokens.
    pub(crate) fn take_tokens(&mut self, amount: u64, now: Timestamp) {
        if let Some(limit) = self.token_limit
            && amount > 0
        {
            self.tokens.prune(limit.per, now);
            self.tokens.add(amount, now);
        }
    }

    /// Gives back what was taken; whether a request slot was still in a window.
    pub(crate) fn give_back(&mut self, taken: Taken, now: Timestamp) -> bool {
        let Taken { at, request, tokens } = taken;
        if let Some(limit) = self.token_limit
            && tokens > 0
            && !at.is_over(limit.per, now)
        {
            self.tokens.take_back(tokens, at);
        }
        match self.request_span() {
            Some(span) if request && !at.is_over(span, now) => self.requests.take_back(1, at),
            _ => false,
        }
    }

    /// The request windows with their use.
    pub(crate) fn usage(&self, now: Timestamp) -> impl Iterator<Item = (RateLimit, u64)> + '_ {
        self.limits.iter().map(move |limit| (*limit, self.requests.sum(limit.per, now)))
    }

    /// The token window with its use.
    pub(crate) fn token_usage(&self, now: Timestamp) -> Option<(RateLimit, u64)> {
        self.token_limit.map(|limit| (limit, self.tokens.sum(limit.per, now)))
    }

    fn request_span(&self) -> Option<Millis> {
        self.limits.iter().map(|limit| limit.per).max()
    }
}

fn lift(limit: RateLimit, log: &SlidingSum, amount: u64, now: Timestamp) -> Lift {
    let Some(allowed) = limit.limit.checked_sub(amount) else {
        return Lift::Never;
    };
    if log.sum(limit.per, now) <= allowed {
        Lift::Free
    } else {
        Lift::At(log.free_at(limit.per, allowed))
    }
}

/// `part ÷ whole` in units of 2⁻³², rounded down; nothing of nothing is nothing.
fn share(part: u64, whole: u64) -> u64 {
    if whole <= u64::from(u32::MAX) {
        // The common case, without the slow 128-bit division.
        return (part << 32).checked_div(whole).unwrap_or(0);
    }
    let scaled = u128::from(part) * u128::from(FULL_HEADROOM) / u128::from(whole);
    u64::try_from(scaled).unwrap_or(FULL_HEADROOM)
}
