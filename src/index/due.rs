//! When time alone changes what is known about an account.

use crate::time::{Millis, Timestamp};

/// The next deadline of each place, and the earlier one of every two, four, … places: a binary
/// tree of minima in one array. Setting a deadline costs O(log places), and stops where no minimum
/// changes; finding what is due costs O(log places) per place that is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Deadlines {
    /// The earliest of all at 1; what is at an index is the earlier one of those at twice the
    /// index and after it. The second half are the places.
    tree: Vec<Timestamp>,
}

impl Deadlines {
    /// The earliest of all.
    #[inline]
    pub(crate) fn first(&self) -> Timestamp {
        self.tree.get(1).copied().unwrap_or(Timestamp::MAX)
    }

    /// Sets the deadline of a place; [`Timestamp::MAX`] is none.
    #[inline]
    pub(crate) fn set(&mut self, place: u32, deadline: Timestamp) {
        if self.room() <= place as usize {
            self.make_room(place);
        }
        let mut index = self.room() + place as usize;
        let mut earliest = deadline;
        while index > 0 && self.tree[index] != earliest {
            self.tree[index] = earliest;
            earliest = earliest.min(self.tree[index ^ 1]);
            index /= 2;
        }
    }

    /// Adds the places that are due at `now` to `into`, in their order. Their deadlines stay until
    /// they are set.
    pub(crate) fn due(&self, now: Timestamp, into: &mut Vec<u32>) {
        let last = Timestamp::MAX.minus(Millis::new(1));
        let is_due = |index: usize| self.tree[index] <= now.min(last);
        let room = self.room();
        let mut index = 1;
        if room == 0 || !is_due(index) {
            return;
        }
        loop {
            // Down to the first place below that is due.
            while index < room {
                index *= 2;
                index += usize::from(!is_due(index));
            }
            into.push(u32::try_from(index - room).expect("places have 32 bits"));
            // Up to where the other half is due as well.
            while index % 2 == 1 || !is_due(index + 1) {
                index /= 2;
                if index == 0 {
                    return;
                }
            }
            index += 1;
        }
    }

    /// How many places there are.
    #[inline]
    fn room(&self) -> usize {
        self.tree.len() / 2
    }

    #[cold]
    fn make_room(&mut self, place: u32) {
        let deadlines = self.tree.split_off(self.room());
        self.tree.clear();
        self.tree.resize(2 * (place as usize + 1).next_power_of_two(), Timestamp::MAX);
        let room = self.room();
        self.tree[room..room + deadlines.len()].copy_from_slice(&deadlines);
        for index in (1..room).rev() {
            self.tree[index] = self.tree[2 * index].min(self.tree[2 * index + 1]);
        }
    }
}

#[cfg(test)]
mod tests;
