//! When time alone changes what is known about an account.

use crate::time::Timestamp;

/// The next deadline of each place, and the earliest of every 16, 256, … places: a tree of minima
/// in arrays. Setting a deadline costs O(height), and stops where no minimum changes; finding
/// what is due costs O(height) per account that is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Deadlines {
    /// The places first; each level is 16 times shorter than the one before, the last has one.
    levels: Vec<Vec<Timestamp>>,
}

const WIDTH: usize = 16;

impl Deadlines {
    /// The earliest of all.
    pub(crate) fn first(&self) -> Timestamp {
        self.levels.last().map_or(Timestamp::MAX, |top| top[0])
    }

    /// Sets the deadline of a place; [`Timestamp::MAX`] is none.
    pub(crate) fn set(&mut self, place: u32, deadline: Timestamp) {
        let mut index = place as usize;
        self.grow(index);
        let mut before = std::mem::replace(&mut self.levels[0][index], deadline);
        let mut minimum = deadline;
        for level in 1..self.levels.len() {
            let first = index / WIDTH * WIDTH;
            let below = &self.levels[level - 1];
            index /= WIDTH;
            let known = self.levels[level][index];
            if minimum >= known {
                if before > known {
                    return;
                }
                let last = below.len().min(first + WIDTH);
                minimum = below[first..last].iter().copied().min().unwrap_or(Timestamp::MAX);
            }
            if minimum == known {
                return;
            }
            before = std::mem::replace(&mut self.levels[level][index], minimum);
        }
    }

    /// Moves the places that are due at `now` to `into`, in their order, and takes their
    /// deadlines away.
    pub(crate) fn take_due(&mut self, now: Timestamp, into: &mut Vec<u32>) {
        if self.first() <= now && !self.levels.is_empty() {
            self.take_below(self.levels.len() - 1, 0, now, into);
        }
    }

    fn take_below(&mut self, level: usize, index: usize, now: Timestamp, into: &mut Vec<u32>) {
        if level == 0 {
            into.push(u32::try_from(index).expect("places are numbered with 32 bits"));
            self.levels[0][index] = Timestamp::MAX;
            return;
        }
        let mut minimum = Timestamp::MAX;
        let first = index * WIDTH;
        for child in first..self.levels[level - 1].len().min(first + WIDTH) {
            if self.levels[level - 1][child] <= now {
                self.take_below(level - 1, child, now, into);
            }
            minimum = minimum.min(self.levels[level - 1][child]);
        }
        self.levels[level][index] = minimum;
    }

    fn grow(&mut self, index: usize) {
        if self.levels.is_empty() {
            self.levels.push(Vec::new());
        }
        let mut needed = index + 1;
        for level in 0.. {
            if level == self.levels.len() {
                self.levels.push(vec![self.levels[level - 1][0]]);
            }
            let here = &mut self.levels[level];
            if here.len() < needed {
                here.resize(needed, Timestamp::MAX);
            }
            needed = here.len().div_ceil(WIDTH);
            if here.len() == 1 {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests;
