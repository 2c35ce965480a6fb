//! Chance that is the same in every run of a seed.

use sha2::{Digest, Sha256};

/// A number that depends on the seed and the parts alone.
pub(super) fn roll(seed: u64, parts: &[&[u8]]) -> u64 {
    let mut hash = Sha256::new();
    hash.update(seed.to_be_bytes());
    for part in parts {
        hash.update(part.len().to_be_bytes());
        hash.update(part);
    }
    let digest = hash.finalize();
    digest.iter().take(8).fold(0, |number, &byte| number << 8 | u64::from(byte))
}
