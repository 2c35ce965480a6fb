//! How heavy the accounts are at most.

/// Counts accounts by the size of their weight.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Weights([u32; SIZES]);

/// The least bound of all weights, that of the default weight, in thousandths.
const LEAST: u32 = 1_000;

/// It is doubled so many times at most: a weight is at most a million.
const SIZES: usize = 21;

impl Weights {
    pub(super) fn add(&mut self, weight: u32) {
        self.0[size(weight)] += 1;
    }

    pub(super) fn remove(&mut self, weight: u32) {
        self.0[size(weight)] -= 1;
    }

    /// A bound of all weights, in thousandths.
    pub(super) fn bound(&self) -> u64 {
        let largest = self.0.iter().rposition(|&count| count > 0);
        u64::from(LEAST) << largest.unwrap_or(0)
    }
}

/// How often the least bound is to be doubled for a weight.
fn size(weight: u32) -> usize {
    let times = weight.saturating_sub(1) / LEAST;
    (u32::BITS - times.leading_zeros()) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_is_the_next_one_above_the_heaviest() {
        let mut weights = Weights::default();
        assert_eq!(weights.bound(), 1_000);
        let heavier = [(1, 1_000), (1_000, 1_000), (1_001, 2_000), (2_000, 2_000), (2_001, 4_000)];
        for (weight, bound) in heavier.into_iter().chain([(1_000_000_000, 1_048_576_000)]) {
            weights.add(weight);
            assert_eq!(weights.bound(), bound, "{weight}");
        }
        weights.remove(1_000_000_000);
        assert_eq!(weights.bound(), 4_000);
    }
}
