//! Summaries over accounts in the order of their insertion.

mod node;
mod range;

use arrayvec::ArrayVec;

use self::node::{Child, Node};
use self::range::{DIGIT_BITS, MAX_HEIGHT, digit};
pub(crate) use self::range::{Range, WIDTH, height_for};
use crate::time::Timestamp;

/// What is known about a set of accounts, so that sets can be joined.
pub(crate) trait Summary: Copy + PartialEq {
    /// What joining depends on besides.
    type Rules: Copy;
    /// The summary of no account.
    const EMPTY: Self;
    /// Whether it is to be joined before the other, whatever the rules.
    fn precedes(&self, other: &Self) -> bool;
    /// Makes it the summary of both sets; whether those that come after `other` add anything.
    fn add(&mut self, other: &Self, rules: Self::Rules) -> bool;
    /// The same where nothing in it comes after `other`.
    #[inline]
    fn add_next(&mut self, other: &Self, rules: Self::Rules) -> bool {
        self.add(other, rules)
    }

    /// Whether joining the other, or one that comes after it, would change nothing.
    fn outdoes(&self, other: &Self, rules: Self::Rules) -> bool;
    /// Which of the set count at an instant.
    fn counts(&self, _: Timestamp) -> Count {
        Count::All
    }
}

/// How many of a set count.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Count {
    None,
    Some,
    All,
}

/// What is left out of a question.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Except<'a> {
    /// The entries of these numbers, in order.
    pub(crate) numbers: &'a [u32],
    /// Those that do not count at this instant.
    pub(crate) at: Timestamp,
}

impl Except<'_> {
    /// The part of it that concerns a part of a range.
    #[inline]
    fn within(self, range: Range, digit: u32) -> Self {
        if self.numbers.is_empty() {
            return self;
        }
        Self { numbers: range.among(self.numbers, digit), ..self }
    }

    /// Which of a set count.
    #[inline]
    fn count<S: Summary>(self, summary: &S) -> Count {
        match summary.counts(self.at) {
            Count::All if !self.numbers.is_empty() => Count::Some,
            count => count,
        }
    }
}

/// A map from numbers to summaries that also holds the summary of every aligned range of 16,
/// 256, 4 096, … numbers: a radix tree, 16 wide, of which only what is used is there.
///
/// Each node knows the order of its children, so that setting an entry costs a few comparisons per
/// level, and stops where nothing changes; after all entries were joined anew, it looks for the
/// order once one is set.
/// All tries of an index are equally high, so that they can be walked side by side.
#[derive(Clone, Debug)]
pub(crate) struct Trie<S> {
    nodes: Vec<Node<S>>,
    vacant: Vec<u32>,
    root: u32,
    height: u32,
    whole: S,
    /// Whether entries that are set wait to be joined.
    joins_later: bool,
    /// Whether there are some that wait, and say something.
    is_behind: bool,
}

impl<S: Summary> Trie<S> {
    /// An empty trie.
    pub(crate) fn new(height: u32) -> Self {
        let (nodes, vacant) = (vec![Node::EMPTY], Vec::new());
        let (joins_later, is_behind) = (false, false);
        Self { nodes, vacant, root: 0, height, whole: S::EMPTY, joins_later, is_behind }
    }

    /// Makes it higher.
    pub(crate) fn grow(&mut self, height: u32) {
        while self.height < height {
            let below = self.root;
            let child = Child { summary: self.whole, below };
            self.root = self.new_node(0);
            self.nodes[below as usize].above = self.root;
            self.nodes[self.root as usize].insert(0, child);
            self.height += 1;
        }
    }

    /// The summary of all entries.
    pub(crate) fn whole(&self) -> &S {
        &self.whole
    }

    /// Whether no entry says anything.
    fn is_empty(&self) -> bool {
        self.whole == S::EMPTY
    }

    /// The range of all its numbers.
    pub(crate) fn range(&self) -> Range {
        Range::whole(self.height)
    }

    /// Sets the summary of a number, whose account is in that place.
    pub(crate) fn set(&mut self, number: u32, place: u32, summary: &S, rules: S::Rules) {
        let bottom = self.bottom(number, place);
        self.set_in(bottom, number, summary, rules);
    }

    /// The node at the bottom that holds a number, whose account is in that place. It stays that
    /// until the number is removed.
    pub(crate) fn bottom(&mut self, number: u32, place: u32) -> u32 {
        let mut node = self.root;
        for level in (1..self.height).rev() {
            let digit = digit(number, level);
            node = match self.nodes[node as usize].below(digit) {
                Some(below) => below,
                None => {
                    let below = self.new_node(node);
                    self.nodes[node as usize].insert(digit, Child { summary: S::EMPTY, below });
                    below
                }
            };
        }
        let (node_at, digit) = (&mut self.nodes[node as usize], digit(number, 0));
        if node_at.below(digit).is_none() {
            node_at.insert(digit, Child { summary: S::EMPTY, below: place });
        }
        node
    }

    /// Sets the summary of a number that is held by that node at the bottom.
    pub(crate) fn set_in(&mut self, bottom: u32, number: u32, summary: &S, rules: S::Rules) {
        let mut node = &mut self.nodes[bottom as usize];
        if self.joins_later {
            node.put(digit(number, 0), summary);
            self.is_behind |= *summary != S::EMPTY;
            return;
        }
        let mut summary = *summary;
        for level in 0..self.height {
            if !node.set(digit(number, level), &summary) {
                return;
            }
            summary = node.summary_in_order(rules);
            let above = node.above as usize;
            node = &mut self.nodes[above];
        }
        self.whole = summary;
    }

    /// Until [`catch_up`](Self::catch_up), setting an entry joins nothing: what is cheaper where
    /// most entries are set at once. No question may be asked in between.
    pub(crate) fn fall_behind(&mut self) {
        self.joins_later = true;
    }

    /// Whether entries that are set wait to be joined.
    pub(crate) fn joins_later(&self) -> bool {
        self.joins_later
    }

    /// Changes every entry that says something, given the place of its account, and
    /// [falls behind](Self::fall_behind).
    pub(crate) fn change_all(&mut self, mut change: impl FnMut(&mut S, u32)) {
        self.fall_behind();
        self.is_behind = true;
        self.change_below(self.root, self.height - 1, &mut change);
    }

    fn change_below(&mut self, node: u32, level: u32, change: &mut impl FnMut(&mut S, u32)) {
        if level == 0 {
            return self.nodes[node as usize].change_all(change);
        }
        for digit in 0..WIDTH {
            if let Some(below) = self.nodes[node as usize].below(digit) {
                self.change_below(below, level - 1, change);
            }
        }
    }

    /// Joins all entries anew, if it has fallen behind.
    pub(crate) fn catch_up(&mut self, rules: S::Rules) {
        if !std::mem::take(&mut self.joins_later) {
            return;
        }
        // Where no entry said anything and none does now, nothing is to be joined.
        if std::mem::take(&mut self.is_behind) || !self.is_empty() {
            self.whole = self.join_below(self.root, self.height - 1, rules);
        }
    }

    fn join_below(&mut self, node: u32, level: u32, rules: S::Rules) -> S {
        if level > 0 {
            for digit in 0..WIDTH {
                if let Some(below) = self.nodes[node as usize].below(digit) {
                    let summary = self.join_below(below, level - 1, rules);
                    self.nodes[node as usize].put(digit, &summary);
                }
            }
        }
        self.nodes[node as usize].summary(rules)
    }

    /// Takes an entry out, with the nodes that only it needed.
    pub(crate) fn remove(&mut self, number: u32, rules: S::Rules) {
        self.whole = self.remove_below(self.root, self.height - 1, number, rules);
    }

    fn remove_below(&mut self, node: u32, level: u32, number: u32, rules: S::Rules) -> S {
        let digit = digit(number, level);
        if let Some(below) = self.nodes[node as usize].below(digit) {
            if level == 0 {
                self.nodes[node as usize].remove(digit);
            } else {
                let summary = self.remove_below(below, level - 1, number, rules);
                if self.nodes[below as usize].is_empty() {
                    self.nodes[node as usize].remove(digit);
                    self.vacant.push(below);
                } else {
                    self.nodes[node as usize].set(digit, &summary);
                }
            }
        }
        self.nodes[node as usize].summary(rules)
    }

    /// An empty node below another; one that was vacated has kept room for children.
    fn new_node(&mut self, above: u32) -> u32 {
        let node = self.vacant.pop().unwrap_or_else(|| {
            self.nodes.push(Node::EMPTY);
            u32::try_from(self.nodes.len() - 1).expect("fewer nodes than numbers")
        });
        self.nodes[node as usize].above = above;
        node
    }

    /// The summary of all entries but some.
    #[inline]
    pub(crate) fn without(&self, except: Except<'_>, rules: S::Rules) -> S {
        match except.count(&self.whole) {
            Count::All => self.whole,
            Count::None => S::EMPTY,
            Count::Some => {
                let root = &self.nodes[self.root as usize];
                self.without_below(root, self.range(), except, rules)
            }
        }
    }

    fn without_below(
        &self,
        node: &Node<S>,
        range: Range,
        except: Except<'_>,
        rules: S::Rules,
    ) -> S {
        let mut all = S::EMPTY;
        for (digit, child) in node.by_order() {
            // Without some of its entries, a set is no better than with them.
            if all.outdoes(&child.summary, rules) {
                if node.is_sorted {
                    break;
                }
                continue;
            }
            all.add(&self.partial(child, range, digit, except, rules), rules);
        }
        all
    }

    /// Visits the summaries of the parts of a range with their digits, but for some entries.
    #[inline]
    pub(crate) fn each_part(
        &self,
        range: Range,
        except: Except<'_>,
        rules: S::Rules,
        mut visit: impl FnMut(u32, &S),
    ) {
        for (digit, child) in self.node(range).into_iter().flat_map(Node::children) {
            match except.within(range, digit).count(&child.summary) {
                Count::All => visit(digit, &child.summary),
                _ => visit(digit, &self.partial(child, range, digit, except, rules)),
            }
        }
    }

    /// The summary of a child but for some entries.
    fn partial(
        &self,
        child: &Child<S>,
        range: Range,
        digit: u32,
        except: Except<'_>,
        rules: S::Rules,
    ) -> S {
        let except = except.within(range, digit);
        match (except.count(&child.summary), range.below(digit)) {
            (Count::All, _) => child.summary,
            (Count::None, _) | (Count::Some, None) => S::EMPTY,
            (Count::Some, Some(below)) => {
                self.without_below(&self.nodes[child.below as usize], below, except, rules)
            }
        }
    }

    /// Visits the numbers, places and summaries of the entries of a range whose summary `wanted`
    /// accepts, but for some. It must accept the summary of a set when it accepts that of a part.
    #[inline]
    pub(crate) fn visit(
        &self,
        range: Range,
        except: Except<'_>,
        wanted: impl Fn(&S) -> bool,
        mut visit: impl FnMut(u32, u32, &S),
    ) {
        let mut left: ArrayVec<(&Node<S>, Range, Except<'_>), { WIDTH * MAX_HEIGHT as usize }> =
            self.node(range).map(|node| (node, range, except)).into_iter().collect();
        while let Some((node, range, except)) = left.pop() {
            if range.level == 0 {
                for (digit, child) in node.children() {
                    let counts = except.within(range, digit).count(&child.summary) == Count::All;
                    if counts && wanted(&child.summary) {
                        visit(range.prefix << DIGIT_BITS | digit, child.below, &child.summary);
                    }
                }
                continue;
            }
            let start = left.len();
            for (digit, child) in node.children() {
                let except = except.within(range, digit);
                let is_wanted = match except.count(&child.summary) {
                    Count::None => false,
                    Count::All => wanted(&child.summary),
                    // The summary is also that of others: it says nothing.
                    Count::Some => true,
                };
                if let Some(below) = range.below(digit).filter(|_| is_wanted) {
                    left.push((&self.nodes[child.below as usize], below, except));
                }
            }
            // The first comes next.
            left[start..].reverse();
        }
    }

    /// Adds the places of at most `most` entries to `places`, but for some entries.
    pub(crate) fn visit_some(&self, most: usize, except: Except<'_>, places: &mut Vec<u32>) {
        if except.count(&self.whole) != Count::None {
            let end = places.len() + most;
            self.some_below(&self.nodes[self.root as usize], self.range(), end, except, places);
        }
    }

    fn some_below(
        &self,
        node: &Node<S>,
        range: Range,
        end: usize,
        except: Except<'_>,
        places: &mut Vec<u32>,
    ) {
        for (digit, child) in node.children() {
            let except = except.within(range, digit);
            if places.len() == end {
                return;
            }
            match (except.count(&child.summary), range.below(digit)) {
                (Count::None, _) | (Count::Some, None) => {}
                (_, Some(below)) => {
                    let node = &self.nodes[child.below as usize];
                    self.some_below(node, below, end, except, places);
                }
                (Count::All, None) => places.push(child.below),
            }
        }
    }

    /// The place of the account of a number.
    pub(crate) fn place(&self, number: u32) -> Option<u32> {
        if height_for(number) > self.height {
            return None;
        }
        let mut levels = (0..self.height).rev();
        levels.try_fold(self.root, |node, level| {
            self.nodes[node as usize].below(digit(number, level))
        })
    }

    /// The summary of a number.
    pub(crate) fn get(&self, number: u32) -> Option<&S> {
        let node = self.node(Range { prefix: number >> DIGIT_BITS, level: 0 })?;
        node.get(digit(number, 0))
    }

    /// The summary of a number that is held by that node at the bottom.
    pub(crate) fn get_in(&self, bottom: u32, number: u32) -> Option<&S> {
        self.nodes[bottom as usize].get(digit(number, 0))
    }

    fn node(&self, range: Range) -> Option<&Node<S>> {
        let mut levels = (range.level + 1..self.height).rev();
        let node = levels.try_fold(self.root, |node, level| {
            self.nodes[node as usize].below(digit(range.prefix, level - range.level - 1))
        });
        Some(&self.nodes[node? as usize])
    }
}

#[cfg(test)]
mod tests;
