//! The error of a configuration, and the test that makes it.

/// A configuration that makes no sense; nothing was changed.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("`{field}` {problem}")]
pub struct ConfigError {
    field: &'static str,
    problem: &'static str,
}

impl ConfigError {
    /// The path of the field, such as `sticky.trail`.
    #[must_use]
    pub fn field(&self) -> &str {
        self.field
    }
}

pub(super) const POSITIVE: &str = "must be longer than zero";
pub(super) const POSITIVE_OR_NONE: &str = "must be longer than zero; leave it out to switch it off";
pub(super) const ONE_OR_NONE: &str = "must be at least 1; leave it out to switch it off";
pub(super) const PERCENT: &str = "must be a number from 0 to 100";
pub(super) const FACTOR: &str = "must be a finite number of at least 1";

pub(super) fn ensure(
    holds: bool,
    field: &'static str,
    problem: &'static str,
) -> Result<(), ConfigError> {
    if holds { Ok(()) } else { Err(ConfigError { field, problem }) }
}
