//! A caller's own place among accounts that are equally good.

use std::cmp::Ordering;

use crate::request::Caller;
use crate::select::survey::{Share, Survey, Tied};

/// The index of a caller's account among `tied`, in the order of insertion.
pub(crate) fn modulo(caller: Caller, tied: u32) -> u32 {
    caller.prefix() % tied.max(1)
}

/// The place of the account at an index among those that tie with the best, in the order of insertion.
pub(super) fn nth(index: u32, tied: u32, survey: &impl Survey) -> Option<u32> {
    let (mut range, mut left, mut index) = (survey.whole(), tied, index);
    while left > COMPARED {
        let mut shares = (0_u32..).zip(survey.shares(range));
        let (digit, share) = shares.find(|(_, share)| {
            let is_here = index < share.tied;
            index -= if is_here { 0 } else { share.tied };
            is_here
        })?;
        (range, left) = (range.below(digit)?, share.tied);
    }
    let mut found = None;
    survey.each_tied(range, &mut |tied| {
        if index == 0 {
            found = found.or(Some(tied.place));
        }
        index = index.saturating_sub(1);
    });
    found
}

/// How many accounts are looked at one by one.
pub(crate) const COMPARED: u32 = 64;

/// The place of the account to which a caller is drawn most, among those that tie with the best.
///
/// Accounts get callers in proportion to their weights, and one that leaves takes only its own
/// callers with it. Among more than 64 that holds for parts of 16, 256, … accounts in
/// the order of insertion first, each with the weights of those that tie; then the part that
/// loses an account also loses callers to the others: about as many as the account had, for each
/// size of parts that was compared.
pub(super) fn nearest(caller: Caller, tied: u32, survey: &impl Survey) -> Option<u32> {
    let (mut range, mut left) = (survey.whole(), tied);
    while left > COMPARED {
        let shares = (0_u32..).zip(survey.shares(range)).filter(|(_, share)| share.tied > 0);
        let place =
            |&(digit, share): &(u32, Share)| distance(caller, mix(range.id(digit)), share.weight);
        let (digit, share) = shares.min_by(|one, other| place(one).cmp(&place(other)))?;
        (range, left) = (range.below(digit)?, share.tied);
    }
    let mut nearest: Option<(Distance, u32)> = None;
    survey.each_tied(range, &mut |Tied { place, hash, weight, .. }| {
        let distance = distance(caller, hash, weight);
        if nearest.is_none_or(|(so_far, _)| distance < so_far) {
            nearest = Some((distance, place));
        }
    });
    nearest.map(|(_, place)| place)
}

/// How strongly a caller is drawn to something of that hash and weight; the smallest has it.
///
/// Weighted rendezvous hashing: for a hash h, uniform in (0, 1], the smallest −ln(h) ÷ weight
/// wins. The logarithm is taken in integers, so that every machine agrees.
pub(super) fn distance(caller: Caller, hash: u64, weight: u64) -> Distance {
    Distance { hash: mix(caller.hash() ^ hash), weight }
}

/// Compares by the logarithm over the weight; among equal ones the larger hash is nearer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Distance {
    hash: u64,
    weight: u64,
}

impl Distance {
    fn scaled(self) -> u128 {
        u128::from(negative_log2(self.hash)) * 1_000_000_000_000 / u128::from(self.weight.max(1))
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
pub(crate) fn mix(mut bits: u64) -> u64 {
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
