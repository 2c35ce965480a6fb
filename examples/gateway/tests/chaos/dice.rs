//! Chance that is the same in every run of a seed.

/// A number that depends on the parts alone (the finaliser of `SplitMix64` over each of them).
pub(crate) fn roll(parts: &[u64]) -> u64 {
    parts.iter().fold(0, |state, part| {
        let mut it = (state ^ part).wrapping_add(0x9e37_79b9_7f4a_7c15);
        it = (it ^ (it >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        it = (it ^ (it >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        it ^ (it >> 31)
    })
}

/// A number below `limit`.
pub(crate) fn below(limit: u64, parts: &[u64]) -> u64 {
    roll(parts) % limit
}
