//! What the imitation is told to be like.

use std::time::Duration;

/// How the imitation behaves.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Behaviour {
    /// Makes chance repeatable.
    pub seed: u64,
    /// Accounts per API.
    pub accounts: usize,
    /// Requests per minute that an account takes; none for any number.
    pub rpm: Option<u64>,
    /// Of a hundred questions, how many are throttled when they are first asked.
    pub throttle_percent: u64,
    /// Of a hundred questions, how many meet an overload when they are first asked.
    pub overload_percent: u64,
    /// How long a throttle lasts.
    pub throttle_secs: u64,
    /// Whether distance and reading take their time.
    pub latency: bool,
    /// How long a prompt cache keeps what nobody reads.
    pub cache_lifetime: Duration,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            seed: 1,
            accounts: 4,
            rpm: Some(120),
            throttle_percent: 3,
            overload_percent: 1,
            throttle_secs: 1,
            latency: true,
            cache_lifetime: Duration::from_secs(300),
        }
    }
}

impl Behaviour {
    /// Answers at once and without limits, to measure what is in front.
    #[must_use]
    pub fn fast() -> Self {
        let usual = Self::default();
        Self { rpm: None, throttle_percent: 0, overload_percent: 0, latency: false, ..usual }
    }
}
