//! Numbers that the environment may set.

use std::env;
use std::str::FromStr;

/// Whether benches are only tested, not measured.
pub(crate) fn is_test() -> bool {
    env::args().any(|argument| argument == "--test")
}

/// The variable `name`; without it `usual`, or `tested` where benches are only tested.
pub(crate) fn setting<T: FromStr>(name: &str, usual: T, tested: T) -> T {
    match env::var(name) {
        Ok(text) => {
            text.trim().parse().unwrap_or_else(|_| panic!("{name} must be a number, not {text:?}"))
        }
        Err(_) if is_test() => tested,
        Err(_) => usual,
    }
}

/// The variable `name`, numbers separated by commas; without it `usual`, or `tested` where benches
/// are only tested.
pub(crate) fn list(name: &str, usual: &[usize], tested: &[usize]) -> Vec<usize> {
    match env::var(name) {
        Ok(text) => text.split(',').map(|size| size.trim().parse().unwrap()).collect(),
        Err(_) if is_test() => tested.to_vec(),
        Err(_) => usual.to_vec(),
    }
}
