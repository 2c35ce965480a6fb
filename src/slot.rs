//! The place of an account.

use serde::{Deserialize, Serialize};

/// An account's place in the roster. The generation tells it from an account that had the same
/// place before.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub(crate) struct Slot {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}
