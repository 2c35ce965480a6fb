//! When time alone changes what is known about an account.

use crate::time::Timestamp;

/// The next deadline of each place, and which of every two, four, … places has the earliest one: a
/// tournament in an array. Setting a deadline costs O(log places), and stops where another place
/// stays first; the place that is first of all is at hand.
#[derive(Clone, Debug)]
pub(crate) struct Deadlines {
    /// By place.
    deadlines: Vec<Timestamp>,
    /// The place that is first of all at 1; at any index, which of the two at twice the index and
    /// after it is first. The second half are the places themselves. (In a tree of the deadlines
    /// alone one would have to walk down to find it, and at each step it is anybody's guess which
    /// way.)
    first: Vec<u32>,
    /// The earliest of all.
    earliest: Timestamp,
    /// Whether deadlines that are set wait to be compared.
    compares_later: bool,
}

impl Default for Deadlines {
    fn default() -> Self {
        let (deadlines, first) = (Vec::new(), Vec::new());
        Self { deadlines, first, earliest: Timestamp::MAX, compares_later: false }
    }
}

impl Deadlines {
    /// The earliest of all.
    #[inline]
    pub(crate) fn earliest(&self) -> Timestamp {
        self.earliest
    }

    /// Sets the deadline of a place; [`Timestamp::MAX`] is none.
    #[inline]
    pub(crate) fn set(&mut self, place: u32, deadline: Timestamp) {
        if self.deadlines.len() <= place as usize {
            self.make_room(place);
        }
        let known = &mut self.deadlines[place as usize];
        if *known != deadline {
            *known = deadline;
            if !self.compares_later {
                self.compare(place, deadline);
            }
        }
    }

    /// Compares the deadline of a place with those of others.
    fn compare(&mut self, place: u32, deadline: Timestamp) {
        let (mut first, mut earliest) = (place, deadline);
        let mut index = self.deadlines.len() + place as usize;
        while index > 1 {
            let other = self.first[index ^ 1];
            let its = self.deadlines[other as usize];
            if its < earliest {
                (first, earliest) = (other, its);
            }
            index /= 2;
            if self.first[index] == first && first != place {
                return;
            }
            self.first[index] = first;
        }
        self.earliest = earliest;
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
        for index in (1..self.deadlines.len()).rev() {
            let (one, other) = (self.first[2 * index], self.first[2 * index + 1]);
            let is_first = self.deadlines[one as usize] <= self.deadlines[other as usize];
            self.first[index] = if is_first { one } else { other };
        }
        let first = self.first.get(1).map(|&first| self.deadlines[first as usize]);
        self.earliest = first.unwrap_or(Timestamp::MAX);
    }

    /// A place that is due at `now`, one whose deadline is the earliest. It stays due until its
    /// deadline is set.
    #[inline]
    pub(crate) fn first_due(&self, now: Timestamp) -> Option<u32> {
        (self.earliest <= now.min(LAST)).then(|| self.first[1])
    }

    /// Adds all places that are due at `now` to `into`, in their order: O(log places) for each.
    pub(crate) fn due(&self, now: Timestamp, into: &mut Vec<u32>) {
        let is_due = |index: usize| self.deadlines[self.first[index] as usize] <= now.min(LAST);
        let room = self.deadlines.len();
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

    #[cold]
    fn make_room(&mut self, place: u32) {
        let room = (place as usize + 1).next_power_of_two();
        self.deadlines.resize(room, Timestamp::MAX);
        self.first.clear();
        self.first.resize(room, 0);
        self.first.extend((0..).take(room));
        if !self.compares_later {
            self.compare_all();
        }
    }
}

/// The last instant at which something may be due.
const LAST: Timestamp = Timestamp::from_millis(u64::MAX - 1);

#[cfg(test)]
mod tests;
