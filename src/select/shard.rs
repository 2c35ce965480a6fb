//! A caller's own place among accounts that are equally good.

use std::cmp::Ordering;

use crate::request::Caller;
use crate::state::AccountState;

/// The index of a caller's account among `tied`, in the order of insertion.
pub(crate) fn modulo(caller: Caller, tied: u32) -> u32 {
    caller.prefix() % tied.max(1)
}

/// How strongly a caller is drawn to an account; the smallest value has it. Accounts get callers
/// in proportion to their weights, and one that leaves takes only its own callers with it.
///
/// Weighted rendezvous hashing: for a hash h, uniform in (0, 1], the account with the smallest
/// −ln(h) ÷ weight wins. The logarithm is taken in integers, so that every machine agrees.
pub(crate) fn distance(caller: Caller, state: &AccountState) -> Distance {
    Distance { hash: mix(caller.hash() ^ state.hash), weight: state.weight }
}

/// Compares by the logarithm over the weight; among equal ones the larger hash is nearer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Distance {
    hash: u64,
    weight: u32,
}

impl Distance {
    fn scaled(self) -> u128 {
        u128::from(negative_log2(self.hash)) * 1_000_000_000 / u128::from(self.weight)
    }
}

impl Ord for Distance {
    fn cmp(&self, other: &Self) -> Ordering {
        // With equal weights the larger hash is the nearer one, without any logarithm.
        let scaled = if self.weight == other.weight {
            Ordering::Equal
        } else {
            self.scaled().cmp(&other.scaled())
        };
        scaled.then(other.hash.cmp(&self.hash)).then(self.weight.cmp(&other.weight))
    }
}

impl PartialOrd for Distance {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The finalizer of splitmix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number
/// Generators, 2014).
fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// −log₂((hash + 1) ÷ 2⁶⁴) with 24 fractional bits.
fn negative_log2(hash: u64) -> u64 {
    const FRACTION_BITS: u32 = 24;
    let bits = hash.max(1);
    let zeros = bits.leading_zeros();
    let mut mantissa = bits << zeros;
    let mut fraction = 0_u64;
    for _ in 0..FRACTION_BITS {
        let square = u128::from(mantissa) * u128::from(mantissa);
        let carry = square >> 127;
        mantissa = u64::try_from(square >> (63 + carry)).unwrap_or(u64::MAX);
        fraction = fraction << 1 | u64::try_from(carry).unwrap_or_default();
    }
    (u64::from(zeros + 1) << FRACTION_BITS) - fraction
}
