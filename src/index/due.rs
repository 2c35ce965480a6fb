//! When time alone changes what is known about an account.

use crate::time::Timestamp;

/// The next deadline of each place, and which of every two, four, … places has the earliest one: a
/// tournament in an array. Setting a deadline costs O(log places), and stops where nothing changes;
/// the place that is first of all is at hand.
#[derive(Clone, Debug, Default)]
pub(crate) struct Deadlines {
    /// The earliest deadline of all at 1; at any index, the earlier one of those at twice the
    /// index and after it. The second half are the places.
    earliest: Vec<Timestamp>,
    /// At the same indices, the place that has it: without, one would have to walk down to find
    /// it, and at each step it is anybody's guess which way.
    first: Vec<u32>,
    /// Whether deadlines that are set wait to be compared.
    compares_later: bool,
}

impl Deadlines {
    /// The earliest of all.
    #[inline]
    pub(crate) fn earliest(&self) -> Timestamp {
        self.earliest.get(1).copied().unwrap_or(Timestamp::MAX)
    }

    /// Sets the deadline of a place; [`Timestamp::MAX`] is none.
    #[inline]
    pub(crate) fn set(&mut self, place: u32, deadline: Timestamp) {
        if self.room() <= place as usize {
            self.make_room(place);
        }
        let index = self.room() + place as usize;
        if self.earliest[index] != deadline {
            self.earliest[index] = deadline;
            if !self.compares_later {
                self.compare(index);
            }
        }
    }

    /// Compares the deadline at an index with those of others.
    fn compare(&mut self, mut index: usize) {
        let (mut earliest, mut first) = (self.earliest[index], self.first[index]);
        while index > 1 {
            let (its, other) = (self.earliest[index ^ 1], self.first[index ^ 1]);
            if its < earliest {
                (earliest, first) = (its, other);
            }
            index /= 2;
            if self.earliest[index] == earliest && self.first[index] == first {
                return;
            }
            (self.earliest[index], self.first[index]) = (earliest, first);
        }
    }

    /// Until [`catch_up`](Self::catch_up), setting a deadline compares it with no other: what is
    /// cheaper where most are set at once. No question may be asked in between.
    pub(crate) fn fall_behind(&mut self) {
        self.compares_later = true;
    }

    /// Compares all deadlines anew if it has to: O(places).
    pub(crate) fn catch_up(&mut self) {
        if std::mem::take(&mut self.compares_later) {
            self.compare_all();
        }
    }

    fn compare_all(&mut self) {
        for index in (1..self.room()).rev() {
            let (one, other) = (2 * index, 2 * index + 1);
            let first = if self.earliest[one] <= self.earliest[other] { one } else { other };
            (self.earliest[index], self.first[index]) = (self.earliest[first], self.first[first]);
        }
    }

    /// A place that is due at `now`, one whose deadline is the earliest. It stays due until its
    /// deadline is set.
    #[inline]
    pub(crate) fn first_due(&self, now: Timestamp) -> Option<u32> {
        (self.earliest() <= now.min(LAST)).then(|| self.first[1])
    }

    /// Adds all places that are due at `now` to `into`, in their order: O(log places) for each.
    pub(crate) fn due(&self, now: Timestamp, into: &mut Vec<u32>) {
        let is_due = |index: usize| self.earliest[index] <= now.min(LAST);
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
            into.push(self.first[index]);
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
        self.earliest.len() / 2
    }

    #[cold]
    fn make_room(&mut self, place: u32) {
        let deadlines = self.earliest.split_off(self.room());
        let room = (place as usize + 1).next_power_of_two();
        self.earliest.clear();
        self.earliest.resize(2 * room, Timestamp::MAX);
        self.earliest[room..room + deadlines.len()].copy_from_slice(&deadlines);
        self.first.clear();
        self.first.resize(room, 0);
        self.first.extend((0..).take(room));
        self.compare_all();
    }
}

/// The last instant at which something may be due.
const LAST: Timestamp = Timestamp::from_millis(u64::MAX - 1);

#[cfg(test)]
mod tests;
