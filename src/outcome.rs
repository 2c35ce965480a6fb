//! What became of a request, as facts that the host reports.

use serde::{Deserialize, Serialize};

use crate::time::{Millis, Timestamp};

/// How far an upstream's limit reaches, relative to the request that met it.
///
/// A model or selector scope of a request that names none falls back to the account.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::exhaustive_enums, reason = "accounts know just these two kinds of names")]
pub enum Scope {
    /// Every request on the account.
    #[default]
    Account,
    /// Requests for the same model on the account.
    Model,
    /// Requests with the same selector on the account.
    Selector,
}

/// When an upstream said that a limit ends.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::exhaustive_enums, reason = "upstreams give either a delay or an instant")]
pub enum Reset {
    /// A delay from now on.
    After(Millis),
    /// An instant of the pool's clock; one in the past counts as the shortest cooldown.
    At(Timestamp),
}

impl Reset {
    /// The announced instant.
    pub(crate) fn at(self, now: Timestamp) -> Timestamp {
        match self {
            Self::After(delay) => now.plus(delay),
            Self::At(instant) => instant,
        }
    }
}

/// Tokens and money that a success used.
///
/// `input` counts tokens that were neither read from nor written to the prompt cache; use
/// [`Usage::from_prompt_total`] for upstreams whose prompt total includes the cached ones.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Usage {
    /// Input tokens outside the cache.
    pub input: u64,
    /// Output tokens, reasoning included.
    pub output: u64,
    /// Input tokens read from the prompt cache.
    pub cache_read: u64,
    /// Input tokens written to the prompt cache.
    pub cache_write: u64,
    /// Output tokens spent on reasoning, a part of `output`.
    pub reasoning: u64,
    /// The total that the upstream reported, 0 when it reported none.
    pub reported_total: u64,
    /// Cost in millionths of the currency unit, 0 when unknown.
    pub cost_micros: u64,
}

impl Usage {
    /// Usage of an upstream whose prompt total includes the cached tokens (`cached` more than
    /// `prompt` counts as `prompt`).
    ///
    /// ```
    /// use account_pool::Usage;
    ///
    /// let usage = Usage::from_prompt_total(1_000, 900, 50);
    /// assert_eq!((usage.input, usage.cache_read, usage.output), (100, 900, 50));
    /// ```
    #[must_use]
    pub fn from_prompt_total(prompt: u64, cached: u64, output: u64) -> Self {
        let cache_read = cached.min(prompt);
        Self { input: prompt - cache_read, output, cache_read, ..Self::default() }
    }

    /// Whether it is all zeros, as that of a success of unknown usage.
    #[inline]
    pub(crate) fn is_zero(&self) -> bool {
        let &Self { input, output, cache_read, cache_write, reasoning, .. } = self;
        let tokens = input | output | cache_read | cache_write | reasoning | self.reported_total;
        tokens | self.cost_micros == 0
    }

    /// The tokens to count against a token window: the larger of the reported total and
    /// `input + output + cache_write`, so that it does not depend on what an upstream's total
    /// includes.
    #[must_use]
    pub fn billable(&self) -> u64 {
        let counted = self.input.saturating_add(self.output).saturating_add(self.cache_write);
        counted.max(self.reported_total)
    }
}

/// What became of a request.
///
/// The host reports what happened, not what to do about it; the rules of the
/// [`Config`](crate::Config) turn it into cooldowns, health, breaker and quota state. Mapping an
/// upstream's answer to an outcome is the host's part.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Outcome {
    /// The answer is complete.
    Success {
        /// What it used; zeros when unknown.
        usage: Usage,
    },
    /// The upstream throttled the request (429).
    RateLimited {
        /// How far the limit reaches.
        scope: Scope,
        /// When it ends, if the upstream said so.
        reset: Option<Reset>,
    },
    /// A quota is spent: days or weeks rather than seconds.
    QuotaExhausted {
        /// How far the quota reaches.
        scope: Scope,
        /// When it is renewed, if the upstream said so.
        reset: Option<Reset>,
    },
    /// The provider is overloaded (503, 529): not the account's fault.
    Overloaded {
        /// How far it reaches.
        scope: Scope,
        /// When to come back, if the upstream said so.
        reset: Option<Reset>,
    },
    /// The upstream failed internally (500).
    Internal,
    /// The upstream rejected the credential (401, 403).
    AuthFailed,
    /// The upstream said that the credential is gone for good (revoked, deleted).
    DeadToken,
    /// The upstream hinted at a ban of the account.
    BanSignal,
    /// No answer: connection refused, reset, broken off.
    Network,
    /// No answer in time, or a stream that stalled.
    Timeout,
    /// The request itself was at fault (400, 413, 422): neutral for the account.
    ClientFault,
    /// The client left: neutral for the account.
    Cancelled,
}

impl Outcome {
    /// A success of unknown usage.
    #[must_use]
    pub fn success() -> Self {
        Self::Success { usage: Usage::default() }
    }

    /// A throttle of the whole account, with the upstream's hint if it gave one.
    #[must_use]
    pub fn rate_limited(reset: Option<Reset>) -> Self {
        Self::RateLimited { scope: Scope::Account, reset }
    }

    /// A spent quota of the whole account, with its renewal if the upstream gave one.
    #[must_use]
    pub fn quota_exhausted(reset: Option<Reset>) -> Self {
        Self::QuotaExhausted { scope: Scope::Account, reset }
    }
}

/// What a report of an outcome did.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "a ticket is known, past or foreign")]
pub enum Settlement {
    /// The lease was held and has ended; the outcome counted in full, if its account is still there.
    Settled,
    /// The lease had ended before (settled twice, or reaped): only the account's health took note.
    Late,
    /// No such lease was ever given here, or it has ended and its account is gone: nothing changed.
    Unknown,
}

/// One window of an upstream quota, in percent remaining.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[non_exhaustive]
pub struct QuotaWindow {
    /// Percent remaining, 0 to 100. `None`, NaN and infinities mean unknown; the rest is clamped.
    pub remaining: Option<f64>,
    /// When the window is renewed, if known. From then on the reading says nothing.
    pub reset: Option<Timestamp>,
    /// Whether a dry reading blocks the account, rather than ranking it alone.
    pub gates: bool,
}

impl QuotaWindow {
    /// A window of which `remaining` percent are left and that blocks the account when dry.
    #[must_use]
    pub fn new(remaining: impl Into<Option<f64>>) -> Self {
        Self { remaining: remaining.into(), reset: None, gates: true }
    }

    /// Sets when the window is renewed.
    #[must_use]
    pub fn reset(mut self, reset: Timestamp) -> Self {
        self.reset = Some(reset);
        self
    }

    /// Makes the reading rank the account without ever blocking it.
    #[must_use]
    pub fn rank_only(mut self) -> Self {
        self.gates = false;
        self
    }
}

/// A reading of an account's quota, replacing the one before.
///
/// ```
/// use account_pool::{QuotaReading, QuotaWindow, Timestamp};
///
/// let reading = QuotaReading::at(Timestamp::from_millis(5_000))
///     .window(QuotaWindow::new(40.0))
///     .window(QuotaWindow::new(85.0).rank_only());
/// # let _ = reading;
/// ```
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[non_exhaustive]
pub struct QuotaReading {
    /// When the upstream was asked. A reading older than the stored one is ignored.
    pub observed_at: Timestamp,
    /// The windows, such as five hours and a week; at most [`QuotaReading::MAX_WINDOWS`] count.
    pub windows: Vec<QuotaWindow>,
    /// On-demand balance that may be spent when the windows are dry.
    pub balance: Option<f64>,
}

impl QuotaReading {
    /// How many windows are kept; further ones are ignored.
    pub const MAX_WINDOWS: usize = 4;

    /// An empty reading taken at `observed_at`.
    #[must_use]
    pub fn at(observed_at: Timestamp) -> Self {
        Self { observed_at, windows: Vec::new(), balance: None }
    }

    /// Adds a window.
    #[must_use]
    pub fn window(mut self, window: QuotaWindow) -> Self {
        self.windows.push(window);
        self
    }

    /// Sets the on-demand balance; NaN and infinities mean unknown.
    #[must_use]
    pub fn balance(mut self, balance: f64) -> Self {
        self.balance = Some(balance);
        self
    }
}
