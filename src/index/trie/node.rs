//! A node of a trie: up to 16 children, and the order in which they are joined.

use super::Summary;

/// Children by their digits.
#[derive(Clone, Debug)]
pub(super) struct Node<S> {
    /// The node that this one is a child of; nothing at the root.
    pub(super) above: u32,
    /// The digits that have a child.
    present: u16,
    /// Whether the order is known: it is not after children were [put](Self::put).
    pub(super) is_sorted: bool,
    /// In the order of their digits.
    children: Vec<Child<S>>,
    order: Order,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Child<S> {
    pub(super) summary: S,
    /// The node below, or at the bottom the account's place.
    pub(super) below: u32,
}

impl<S> Node<S> {
    pub(super) const EMPTY: Self =
        Self { above: 0, present: 0, is_sorted: true, children: Vec::new(), order: Order(0) };

    pub(super) fn is_empty(&self) -> bool {
        self.present == 0
    }

    fn len(&self) -> usize {
        self.children.len()
    }

    /// The index of the child under a digit, if there is one, or where it would be.
    #[inline]
    fn index(&self, digit: usize) -> usize {
        let (before, all) = (self.present & ((1 << digit) - 1), (1 << digit) - 1);
        // Counting bits takes a dozen instructions where it is not one.
        if before == all { digit } else { before.count_ones() as usize }
    }

    #[inline]
    fn has(&self, digit: usize) -> bool {
        self.present >> digit & 1 == 1
    }

    /// What is below a digit.
    #[inline]
    pub(super) fn below(&self, digit: usize) -> Option<u32> {
        self.has(digit).then(|| self.children[self.index(digit)].below)
    }

    /// The summary of the child under a digit.
    pub(super) fn get(&self, digit: usize) -> Option<&S> {
        self.has(digit).then(|| &self.children[self.index(digit)].summary)
    }

    /// The children with their digits, in the order of these.
    #[inline]
    pub(super) fn children(&self) -> impl Iterator<Item = (u32, &Child<S>)> {
        let mut left = self.present;
        self.children.iter().map(move |child| {
            let digit = left.trailing_zeros();
            left &= left.wrapping_sub(1);
            (digit, child)
        })
    }

    /// The children with their digits, in the order in which they are joined if that is known.
    pub(super) fn by_order(&self) -> impl Iterator<Item = (u32, &Child<S>)> {
        let indices = self.order.indices(self.len());
        indices.map(|index| (self.digit(index), &self.children[index]))
    }

    /// The digit of a child.
    fn digit(&self, index: usize) -> u32 {
        if self.present == u16::MAX {
            return u32::try_from(index).expect("an index is a digit here");
        }
        let mut left = self.present;
        for _ in 0..index {
            left &= left - 1;
        }
        left.trailing_zeros()
    }

    /// Puts a child under a digit that has none; it comes last until it is set.
    pub(super) fn insert(&mut self, digit: usize, child: Child<S>) {
        let index = self.index(digit);
        self.order.insert(index, self.len());
        self.present |= 1 << digit;
        self.children.insert(index, child);
    }

    /// Takes the child under a digit out.
    pub(super) fn remove(&mut self, digit: usize) {
        if self.has(digit) {
            let index = self.index(digit);
            self.order.remove(index, self.len());
            self.present &= !(1 << digit);
            self.children.remove(index);
        }
    }
}

impl<S: Summary> Node<S> {
    /// The summary of all children.
    pub(super) fn summary(&self, rules: S::Rules) -> S {
        if self.is_sorted {
            return self.summary_in_order(rules);
        }
        let mut all = S::EMPTY;
        for child in &self.children {
            all.add(&child.summary, rules);
        }
        all
    }

    /// The same where the order is known.
    #[inline(always)]
    pub(super) fn summary_in_order(&self, rules: S::Rules) -> S {
        let mut indices = self.order.indices(self.len());
        let Some(best) = indices.next() else {
            return S::EMPTY;
        };
        let mut all = self.children[best].summary;
        for index in indices {
            if !all.add_next(&self.children[index].summary, rules) {
                break;
            }
        }
        all
    }

    /// Sets the summary of the child under a digit, whose place in the order is left open: what is
    /// cheaper where most children are set at once.
    pub(super) fn put(&mut self, digit: usize, summary: &S) {
        let index = self.index(digit);
        self.children[index].summary = *summary;
        self.is_sorted = false;
    }

    /// Changes the summaries of all children that say something, given what is below; their places
    /// in the order are left open.
    pub(super) fn change_all(&mut self, change: &mut impl FnMut(&mut S, u32)) {
        for child in self.children.iter_mut().filter(|child| child.summary != S::EMPTY) {
            change(&mut child.summary, child.below);
        }
        self.is_sorted = false;
    }

    /// Sets the summary of the child under a digit and moves it to its place in the order;
    /// `false` when it was that already.
    #[inline(always)]
    pub(super) fn set(&mut self, digit: usize, summary: &S) -> bool {
        let index = self.index(digit);
        let child = &mut self.children[index];
        if child.summary == *summary {
            return false;
        }
        child.summary = *summary;
        if self.is_sorted {
            let others = self.order.without(index);
            let rank = self.rank_among(others, self.len() - 1, summary);
            self.order = others.with(index, rank);
        } else {
            self.sort();
        }
        true
    }

    /// Moves all children to their places in the order.
    #[inline(never)]
    fn sort(&mut self) {
        let mut order = Order(0);
        for index in 0..self.len() {
            let rank = self.rank_among(order, index, &self.children[index].summary);
            order = order.with(index, rank);
        }
        self.order = order;
        self.is_sorted = true;
    }

    /// Where a summary belongs among the first `count` of an order.
    #[inline(always)]
    fn rank_among(&self, order: Order, count: usize, summary: &S) -> usize {
        let precedes = |rank| self.children[order.at(rank)].summary.precedes(summary);
        // As a rule, one that was chosen comes last, and one that recovered comes first.
        if count == 0 || precedes(count - 1) {
            return count;
        }
        if !precedes(0) {
            return 0;
        }
        let (mut start, mut end) = (1, count - 1);
        while start < end {
            let middle = (start + end) / 2;
            if precedes(middle) {
                start = middle + 1;
            } else {
                end = middle;
            }
        }
        start
    }
}

/// The indices of children in the order in which they are joined, four bits each, the first
/// lowest.
#[derive(Clone, Copy, Debug)]
struct Order(u64);

/// One in each of the sixteen.
const ONES: u64 = 0x1111_1111_1111_1111;

impl Order {
    /// The index at a rank.
    #[inline]
    fn at(self, rank: usize) -> usize {
        (self.0 >> (rank * 4) & 15) as usize
    }

    /// The indices of the first `count`.
    #[inline]
    fn indices(self, count: usize) -> impl Iterator<Item = usize> {
        let mut left = self.0;
        (0..count).map(move |_| {
            let index = (left & 15) as usize;
            left >>= 4;
            index
        })
    }

    /// The rank of an index that is in it.
    #[inline]
    fn rank(self, index: usize) -> u32 {
        let differs = self.0 ^ (index as u64 * ONES);
        // The lowest four bits that are zero borrow from their highest one.
        let zeros = differs.wrapping_sub(ONES) & !differs & (ONES << 3);
        zeros.trailing_zeros() / 4
    }

    /// The order without an index that is in it.
    #[inline]
    fn without(self, index: usize) -> Self {
        let before = (1 << (self.rank(index) * 4)) - 1;
        Self((self.0 & before) | (self.0 >> 4 & !before))
    }

    /// The order with an index put in at a rank.
    #[inline]
    fn with(self, index: usize, rank: usize) -> Self {
        let before = (1 << (rank * 4)) - 1;
        Self((self.0 & before) | (index as u64) << (rank * 4) | (self.0 & !before) << 4)
    }

    /// Makes room for a new index among `count`, which comes last.
    fn insert(&mut self, index: usize, count: usize) {
        let shifted = (0..count).fold(Self(0), |order, rank| {
            let other = self.at(rank);
            order.with(other + usize::from(other >= index), rank)
        });
        *self = shifted.with(index, count);
    }

    /// Takes an index out of `count`.
    fn remove(&mut self, index: usize, count: usize) {
        let left = self.without(index);
        *self = (0..count - 1).fold(Self(0), |order, rank| {
            let other = left.at(rank);
            order.with(other - usize::from(other > index), rank)
        });
    }
}
