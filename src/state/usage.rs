//! What was used, added up.

use serde::{Deserialize, Serialize};

use crate::outcome::Usage;

/// Tokens and money added up over successes, saturating.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct UsageTotals {
    /// Successes.
    pub successes: u64,
    /// Input tokens outside the prompt cache.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
    /// Input tokens read from the prompt cache.
    pub cache_read: u64,
    /// Input tokens written to the prompt cache.
    pub cache_write: u64,
    /// Output tokens spent on reasoning.
    pub reasoning: u64,
    /// Billable tokens ([`Usage::billable`]).
    pub billable: u64,
    /// Cost in millionths of the currency unit.
    pub cost_micros: u64,
}

impl UsageTotals {
    #[inline]
    pub(crate) fn add(&mut self, usage: &Usage) {
        self.successes = self.successes.saturating_add(1);
        if !usage.is_zero() {
            self.add_amounts(usage);
        }
    }

    fn add_amounts(&mut self, usage: &Usage) {
        let add = |total: &mut u64, amount: u64| *total = total.saturating_add(amount);
        add(&mut self.input, usage.input);
        add(&mut self.output, usage.output);
        add(&mut self.cache_read, usage.cache_read);
        add(&mut self.cache_write, usage.cache_write);
        add(&mut self.reasoning, usage.reasoning);
        add(&mut self.billable, usage.billable());
        add(&mut self.cost_micros, usage.cost_micros);
    }

    /// The share of the input that was read from the prompt cache, 0 to 1: what stickiness is
    /// for. `None` before any input.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a share for people to read")]
    pub fn cached_share(&self) -> Option<f64> {
        let input = self.input.saturating_add(self.cache_read).saturating_add(self.cache_write);
        (input > 0).then(|| self.cache_read as f64 / input as f64)
    }
}
