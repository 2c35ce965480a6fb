//! When time alone changes what is known about an account.

use crate::time::Timestamp;

/// The next deadline of each place, and the earliest of every 16, 256, … places: a tree of minima
/// in arrays. Setting a deadline costs O(height), and stops where no minimum changes; finding
/// what is due costs O(height) per account that is.
#[derive(Clone, Debug)]
pub(crate) struct Deadlines {
    /// The places first; each level is 16 times shorter than the one before, the last has one
    /// part.
    levels: Vec<Vec<Part>>,
    first: Timestamp,
}

/// Sixteen deadlines side by side, of places or of the parts below.
type Part = [Timestamp; WIDTH];

const WIDTH: usize = 16;
const NONE: Part = [Timestamp::MAX; WIDTH];

impl Default for Deadlines {
    fn default() -> Self {
        Self { levels: Vec::new(), first: Timestamp::MAX }
    }
}

impl Deadlines {
    /// The earliest of all.
    pub(crate) fn first(&self) -> Timestamp {
        self.first
    }

    /// Sets the deadline of a place; [`Timestamp::MAX`] is none.
    pub(crate) fn set(&mut self, place: u32, deadline: Timestamp) {
        let mut index = place as usize;
        if self.levels.first().is_none_or(|places| places.len() <= index / WIDTH) {
            self.grow(index);
        }
        let mut minimum = deadline;
        for level in 0..self.levels.len() {
            let (part, digit) = (index / WIDTH, index % WIDTH);
            let known = match self.levels.get(level + 1) {
                Some(above) => above[part / WIDTH][part % WIDTH],
                None => self.first,
            };
            let deadlines = &mut self.levels[level][part];
            let before = std::mem::replace(&mut deadlines[digit], minimum);
            if minimum >= known {
                if before > known {
                    return;
                }
                minimum = earliest(deadlines);
            }
            if minimum == known {
                return;
            }
            index = part;
        }
        self.first = minimum;
    }

    /// Moves the places that are due at `now` to `into`, in their order, and takes their
    /// deadlines away.
    pub(crate) fn take_due(&mut self, now: Timestamp, into: &mut Vec<u32>) {
        if self.first <= now {
            self.first = take_due(&mut self.levels, 0, now, into);
        }
    }

    #[cold]
    fn grow(&mut self, index: usize) {
        let mut parts = index / WIDTH + 1;
        for level in 0.. {
            if level == self.levels.len() {
                let mut part = NONE;
                part[0] = self.first;
                self.levels.push(vec![part]);
            }
            let here = &mut self.levels[level];
            if here.len() < parts {
                here.resize(parts, NONE);
            }
            if here.len() == 1 {
                return;
            }
            parts = here.len().div_ceil(WIDTH);
        }
    }
}

/// Takes what is due in a part of the last of these levels; the earliest that is left in it.
fn take_due(
    levels: &mut [Vec<Part>],
    part: usize,
    now: Timestamp,
    into: &mut Vec<u32>,
) -> Timestamp {
    let Some((here, below)) = levels.split_last_mut() else {
        return Timestamp::MAX;
    };
    let deadlines = &mut here[part];
    for (index, deadline) in (part * WIDTH..).zip(&mut *deadlines) {
        if *deadline > now || *deadline == Timestamp::MAX {
            continue;
        }
        if below.is_empty() {
            into.push(u32::try_from(index).expect("places are numbered with 32 bits"));
        }
        *deadline = take_due(below, index, now, into);
    }
    earliest(deadlines)
}

fn earliest(part: &Part) -> Timestamp {
    part.iter().fold(Timestamp::MAX, |earliest, &it| earliest.min(it))
}

#[cfg(test)]
mod tests;
