//! The place of a caller in a large pool, drawn by lot.
//!
//! Each caller has a list of places, and gets the account in the first of them whose account ties
//! with the best. So one that leaves moves no caller but its own, and one that comes takes callers
//! to itself alone; and as long as most of the pool ties, a caller looks at one account or two.

use crate::request::Caller;
use crate::roster::Roster;
use crate::select::shard::mix;
use crate::select::survey::Survey;

/// How many places of its list a caller looks at.
const MOST: u32 = 8;

/// For each place that it looks at, one lot in so many must be a winning one: where hardly any
/// would win, none is drawn.
const ONE_IN: u64 = 32;

/// Lists begin with those for 2⁶ places.
const LOWEST: u32 = 6;
const LEVELS: usize = u32::BITS as usize + 1;

/// The step of splitmix64.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The place that a caller draws, whose account ties with the best; `None` when it draws none
/// within a few.
///
/// A place is drawn with a number of 32 bits, and wins if that is below 2³² × the account's weight
/// ÷ the bound of all weights.
pub(super) fn drawn(caller: Caller, roster: &Roster, survey: &impl Survey) -> Option<u32> {
    let heaviest = roster.heaviest();
    let mut list = List::new(caller, roster.places());
    let price = u128::from((heaviest << list.level) / ONE_IN);
    // Part of a look is a whole one for that part of the callers: so the number of looks never
    // changes for all of them at once.
    let part = (price * u128::from(low_half(caller.hash()))) >> u32::BITS;
    let mut left = u128::from(survey.weight()) + part;
    for _ in 0..MOST {
        left = left.checked_sub(price)?;
        let (place, number) = list.draw();
        let wins = |weight| u64::from(number) * heaviest < weight << u32::BITS;
        if survey.weight_at(place).is_some_and(wins) {
            return Some(place);
        }
    }
    None
}

/// A caller's list of places.
///
/// The one for 2ᵏ⁺¹ places is the one for 2ᵏ, among which places of the upper half are strewn by
/// the toss of a coin. So each entry is any of the places with equal chance, and a pool that grows
/// reshuffles no list.
struct List {
    caller: Caller,
    /// It has room for 2 to this power places.
    level: u32,
    /// How often each level was asked for an entry.
    asked: [u8; LEVELS],
}

impl List {
    fn new(caller: Caller, places: u32) -> Self {
        let bits = u32::BITS - places.saturating_sub(1).leading_zeros();
        Self { caller, level: bits.max(LOWEST), asked: [0; LEVELS] }
    }

    /// The next place, with a number for its lot.
    fn draw(&mut self) -> (u32, u32) {
        let mut level = self.level;
        loop {
            let bits = self.toss(level);
            let place = high_half(bits) >> (u32::BITS - level);
            if level == LOWEST || place >> (level - 1) == 1 {
                return (place, low_half(bits));
            }
            level -= 1;
        }
    }

    /// What chance says the next time that a level is asked.
    fn toss(&mut self, level: u32) -> u64 {
        let asked = &mut self.asked[level as usize];
        *asked += 1;
        let turn = u64::from(level) << 8 | u64::from(*asked);
        mix(self.caller.hash().wrapping_add(STEP.wrapping_mul(turn)))
    }
}

fn high_half(bits: u64) -> u32 {
    low_half(bits >> u32::BITS)
}

#[expect(clippy::cast_possible_truncation, reason = "the other half is cut off")]
fn low_half(bits: u64) -> u32 {
    bits as u32
}
