//! The digest of a state.

use std::fmt;

use serde::Serialize;

use super::canonical::Canonical;

/// A SHA-256, of which people see the hexadecimal digits: see
/// [`Scheduler::digest`](crate::Scheduler::digest).
#[derive(Clone, Copy, Eq, Hash, PartialEq)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest of a value's canonical form.
    pub(crate) fn of(value: &impl Serialize) -> Self {
        let mut canonical = Canonical::default();
        value.serialize(&mut canonical).expect("the state is made of plain values");
        Self(canonical.finish())
    }

    /// The 32 bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}
