//! A caller's own place among accounts that are equally good.

mod draws;

use std::cmp::Ordering;

use self::draws::drawn;
use crate::request::Caller;
use crate::roster::Roster;
use crate::select::survey::{Survey, Tied};

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
    survey.each_tied(range, |tied| {
        if index == 0 {
            found = found.or(Some(tied.place));
        }
        index = index.saturating_sub(1);
    });
    found
}

/// How many accounts are looked at one by one.
pub(crate) const COMPARED: u32 = 64;

/// The place of a caller's account, among those that tie with the best.
///
/// Among up to 64 it is the one to which the caller is [drawn most](nearest_of); among more the
/// first that it [draws by lot](draws), if it draws one. Either way accounts get callers in
/// proportion to their weights.
pub(super) fn nearest(
    caller: Caller,
    tied: u32,
    roster: &Roster,
    survey: &impl Survey,
) -> Option<u32> {
    if tied > COMPARED
        && let Some(place) = drawn(caller, roster, survey)
    {
        return Some(place);
    }
    nearest_of(caller, tied, survey)
}

/// The place of the account to which a caller is drawn most, among those that tie with the best.
///
/// One that leaves takes only its own callers with it. Among more than 64 that holds for parts of
/// 16, 256, … accounts in the order of insertion first, each with the weights of those that tie;
/// then the part that loses an account also loses callers to the others: about as many as the
/// account had, for each size of parts that was compared.
fn nearest_of(caller: Caller, tied: u32, survey: &impl Survey) -> Option<u32> {
    let (mut range, mut left) = (survey.whole(), tied);
    while left > COMPARED {
        let mut nearest = Nearest::default();
        for (digit, share) in (0_u32..).zip(survey.shares(range)) {
            if share.tied > 0 {
                let part = distance(caller, mix(range.id(digit)), share.weight);
                nearest.offer(part, (digit, share.tied));
            }
        }
        let (digit, tied) = nearest.found()?;
        (range, left) = (range.below(digit)?, tied);
    }
    let mut nearest = Nearest::default();
    survey.each_tied(range, |Tied { place, hash, weight, .. }| {
        nearest.offer(distance(caller, hash, weight), place);
    });
    nearest.found()
}

/// How strongly a caller is drawn to something of that hash and weight; the smallest has it.
///
/// Weighted rendezvous hashing: for a hash h, uniform in (0, 1], the smallest −log(h) ÷ weight
/// wins.
pub(super) fn distance(caller: Caller, hash: u64, weight: u64) -> Distance {
    Distance { hash: mix(caller.hash() ^ hash), weight: weight.max(1) }
}

/// Compares by the logarithm over the weight; among equal ones the larger hash is nearer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Distance {
    hash: u64,
    weight: u64,
}

impl Distance {
    fn scaled(self) -> f64 {
        negative_ln(self.hash) / to_float(self.weight)
    }

    /// Whether the scaled distance is more than that, as can be told without a logarithm:
    /// −ln(1 − u) is more than u.
    fn is_beyond(self, scaled: f64) -> bool {
        // Rounded down, for what the logarithm may have been rounded.
        let least = to_float((u64::MAX - self.hash) >> 11) * (1.0 - 1e-9) / TWO_TO_53;
        least > scaled * to_float(self.weight)
    }

    /// Compares two, of which the scaled distances are known.
    fn compare(self, scaled: f64, other: Self, other_scaled: f64) -> Ordering {
        // With equal weights the larger hash is the nearer one, without any logarithm.
        let by_distance = if self.weight == other.weight {
            Ordering::Equal
        } else {
            scaled.total_cmp(&other_scaled)
        };
        by_distance.then(other.hash.cmp(&self.hash)).then(self.weight.cmp(&other.weight))
    }
}

impl Ord for Distance {
    fn cmp(&self, other: &Self) -> Ordering {
        self.compare(self.scaled(), *other, other.scaled())
    }
}

impl PartialOrd for Distance {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The nearest of those that were offered, of equal ones the first. Most of them take no
/// logarithm, and none does where all weights are equal.
struct Nearest<T> {
    found: Option<(Distance, T)>,
    /// How far that is, once it was asked for.
    scaled: Option<f64>,
}

impl<T> Default for Nearest<T> {
    fn default() -> Self {
        Self { found: None, scaled: None }
    }
}

impl<T> Nearest<T> {
    #[inline]
    fn offer(&mut self, distance: Distance, what: T) {
        if let Some((nearest, found)) = &mut self.found
            && nearest.weight == distance.weight
        {
            if distance.hash > nearest.hash {
                (nearest.hash, *found, self.scaled) = (distance.hash, what, None);
            }
            return;
        }
        self.offer_other(distance, what);
    }

    /// Offers something of another weight than the nearest.
    fn offer_other(&mut self, distance: Distance, what: T) {
        let Some((nearest, _)) = &self.found else {
            self.found = Some((distance, what));
            return;
        };
        let nearest_scaled = *self.scaled.get_or_insert_with(|| nearest.scaled());
        if distance.is_beyond(nearest_scaled) {
            return;
        }
        let scaled = distance.scaled();
        if distance.compare(scaled, *nearest, nearest_scaled).is_lt() {
            (self.found, self.scaled) = (Some((distance, what)), Some(scaled));
        }
    }

    fn found(self) -> Option<T> {
        self.found.map(|(_, what)| what)
    }
}

/// The finalizer of splitmix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number
/// Generators, 2014).
pub(crate) fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

const TWO_TO_53: f64 = 9_007_199_254_740_992.0;
const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;

#[expect(clippy::cast_precision_loss, reason = "a hash is drawn by chance in all of its bits")]
fn to_float(number: u64) -> f64 {
    number as f64
}

/// −ln(hash ÷ 2⁶⁴), to 13 digits. Taken from sums, products and quotients alone, which every
/// machine rounds alike; the library's logarithm differs between machines.
fn negative_ln(hash: u64) -> f64 {
    let bits = hash.max(1);
    let zeros = bits.leading_zeros();
    // In [1, 2), then in [√½, √2).
    let mantissa = to_float(bits << zeros) / TWO_TO_63;
    let halved = mantissa > std::f64::consts::SQRT_2;
    let mantissa = if halved { mantissa / 2.0 } else { mantissa };
    let halvings = f64::from(zeros + 1) - f64::from(u8::from(halved));
    // ln m = 2 (r + r³ ÷ 3 + r⁵ ÷ 5 + …) with r = (m − 1) ÷ (m + 1).
    let ratio = (mantissa - 1.0) / (mantissa + 1.0);
    let square = ratio * ratio;
    let odd = [15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0, 1.0];
    let series = odd.iter().fold(1.0 / 17.0, |sum, divisor| sum * square + 1.0 / divisor);
    halvings * std::f64::consts::LN_2 - 2.0 * ratio * series
}

#[cfg(test)]
mod tests;
