//! Aligned ranges of numbers.

/// A range of numbers: those whose digits above `level` are `prefix`. Its children are told apart
/// by the digit at `level`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Range {
    pub(crate) prefix: u32,
    pub(crate) level: u32,
}

/// How many children a range has.
pub(crate) const WIDTH: usize = 1 << DIGIT_BITS;
pub(super) const DIGIT_BITS: u32 = 4;
/// The height at which all numbers have room.
pub(super) const MAX_HEIGHT: u32 = u32::BITS / DIGIT_BITS;

impl Range {
    /// All numbers that a trie of this height has room for.
    pub(super) fn whole(height: u32) -> Self {
        Self { prefix: 0, level: height - 1 }
    }

    /// A range with `number` and all before it.
    pub(crate) fn up_to(number: u32) -> Self {
        Self::whole(height_for(number))
    }

    /// What tells its part under `digit` from all other ranges.
    pub(crate) fn id(self, digit: u32) -> u64 {
        u64::from(self.level) << u32::BITS | u64::from(self.prefix << DIGIT_BITS | digit)
    }

    /// Which child a number belongs to, if it is in the range.
    pub(crate) fn digit(self, number: u32) -> Option<usize> {
        let above = number.checked_shr((self.level + 1) * DIGIT_BITS).unwrap_or(0);
        (above == self.prefix).then(|| digit(number, self.level))
    }

    /// The range below a digit; `None` at the bottom.
    pub(crate) fn below(self, digit: u32) -> Option<Self> {
        let prefix = self.prefix << DIGIT_BITS | digit;
        self.level.checked_sub(1).map(|level| Self { prefix, level })
    }

    /// The numbers that are in its part under `digit`, of `numbers` in order.
    pub(super) fn among(self, numbers: &[u32], digit: u32) -> &[u32] {
        let width = self.level * DIGIT_BITS;
        let first = u64::from(self.prefix << DIGIT_BITS | digit) << width;
        let end = first + (1 << width);
        let start = numbers.partition_point(|&number| u64::from(number) < first);
        let len = numbers[start..].partition_point(|&number| u64::from(number) < end);
        &numbers[start..start + len]
    }
}

/// The height of a trie that has room for `number`.
pub(crate) fn height_for(number: u32) -> u32 {
    let bits = u32::BITS - number.leading_zeros();
    bits.div_ceil(DIGIT_BITS).clamp(1, MAX_HEIGHT)
}

/// The digit of a number at a level.
pub(super) fn digit(number: u32, level: u32) -> usize {
    (number >> (level * DIGIT_BITS)) as usize % WIDTH
}
