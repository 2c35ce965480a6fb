//! Summaries over accounts in the order of their insertion.

use crate::time::Timestamp;

/// What is known about a set of accounts, so that sets can be joined.
pub(crate) trait Summary: Copy + PartialEq {
    /// What joining depends on besides.
    type Rules: Copy;
    /// The summary of no account.
    const EMPTY: Self;
    /// Whether it is to be joined before the other.
    fn precedes(&self, other: &Self, rules: Self::Rules) -> bool;
    /// Makes it the summary of both sets; whether those that come after `other` add anything.
    fn add(&mut self, other: &Self, rules: Self::Rules) -> bool;
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
    fn within(self, range: Range, digit: u32) -> Self {
        if self.numbers.is_empty() {
            return self;
        }
        Self { numbers: among(self.numbers, range, digit), ..self }
    }

    /// Which of a set count.
    fn count<S: Summary>(self, summary: &S) -> Count {
        match summary.counts(self.at) {
            Count::All if !self.numbers.is_empty() => Count::Some,
            count => count,
        }
    }
}

/// An account's summary, with its number and place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<S> {
    /// Its number in the order of insertion.
    pub(crate) number: u32,
    /// Its place in the roster.
    pub(crate) place: u32,
    pub(crate) summary: S,
}

/// A map from numbers to summaries that also holds the summary of every aligned range of 16,
/// 256, 4 096, … numbers: a radix tree, 16 wide, of which only what is used is there.
///
/// Each node knows the order of its children, so that setting an entry costs a few comparisons per
/// level, and stops where nothing changes.
/// All tries of an index are equally high, so that they can be walked side by side.
#[derive(Clone, Debug)]
pub(crate) struct Trie<S> {
    nodes: Vec<Node<S>>,
    vacant: Vec<u32>,
    root: u32,
    height: u32,
    whole: S,
}

#[derive(Clone, Debug)]
struct Node<S> {
    /// The digits that have a child.
    present: u16,
    /// In the order of their digits.
    children: Vec<Child<S>>,
    /// The indices of the children in the order in which they are joined, four bits each, the
    /// first lowest.
    order: u64,
}

#[derive(Clone, Copy, Debug)]
struct Child<S> {
    summary: S,
    /// The node below, or at the bottom the account's place.
    below: u32,
}

/// A range of numbers: those whose digits above `level` are `prefix`. Its children are told apart
/// by the digit at `level`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Range {
    pub(crate) prefix: u32,
    pub(crate) level: u32,
}

/// How many children a range has.
pub(crate) const WIDTH: usize = 1 << DIGIT_BITS;
const DIGIT_BITS: u32 = 4;
/// The height at which all numbers have room.
const MAX_HEIGHT: u32 = u32::BITS / DIGIT_BITS;

impl Range {
    /// All numbers that a trie of this height has room for.
    fn whole(height: u32) -> Self {
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

    fn holds(self, number: u32, digit: u32) -> bool {
        self.digit(number) == Some(digit as usize)
    }

    /// The range below a digit; `None` at the bottom.
    pub(crate) fn below(self, digit: u32) -> Option<Self> {
        let prefix = self.prefix << DIGIT_BITS | digit;
        self.level.checked_sub(1).map(|level| Self { prefix, level })
    }
}

/// The height of a trie that has room for `number`.
pub(crate) fn height_for(number: u32) -> u32 {
    let bits = u32::BITS - number.leading_zeros();
    bits.div_ceil(DIGIT_BITS).clamp(1, MAX_HEIGHT)
}

fn digit(number: u32, level: u32) -> usize {
    (number >> (level * DIGIT_BITS)) as usize % WIDTH
}

impl<S> Node<S> {
    fn find(&self, digit: usize) -> Result<usize, usize> {
        if self.present == u16::MAX {
            return Ok(digit);
        }
        let before = self.present & ((1 << digit) - 1);
        let index = before.count_ones() as usize;
        if self.present & (1 << digit) == 0 { Err(index) } else { Ok(index) }
    }

    /// The children in the order in which they are joined, with their digits.
    fn by_order(&self) -> impl Iterator<Item = (u32, &Child<S>)> {
        (0..self.children.len()).map(|place| {
            let index = nibble(self.order, place);
            (self.digit(index), &self.children[index])
        })
    }

    /// The digit of a child.
    fn digit(&self, index: usize) -> u32 {
        let mut left = self.present;
        for _ in 0..index {
            left &= left - 1;
        }
        left.trailing_zeros()
    }

    fn children(&self) -> impl Iterator<Item = (u32, &Child<S>)> {
        let digits = (0..16).filter(|digit| self.present & (1 << digit) != 0);
        digits.zip(&self.children)
    }
}

impl<S: Summary> Node<S> {
    const EMPTY: Self = Self { present: 0, children: Vec::new(), order: 0 };

    fn summary(&self, rules: S::Rules) -> S {
        let Some(best) = self.children.get(nibble(self.order, 0)) else {
            return S::EMPTY;
        };
        let mut all = best.summary;
        for place in 1..self.children.len() {
            if !all.add(&self.children[nibble(self.order, place)].summary, rules) {
                break;
            }
        }
        all
    }

    /// Sets the summary of a child and moves it to its place in the order.
    fn set(&mut self, index: usize, summary: S, rules: S::Rules) {
        self.children[index].summary = summary;
        let count = self.children.len();
        let from = (0..count).find(|&place| nibble(self.order, place) == index);
        let others = cut(self.order, from.unwrap_or(count - 1));
        let (mut start, mut end) = (0, count - 1);
        while start < end {
            let middle = (start + end) / 2;
            let other = &self.children[nibble(others, middle)].summary;
            if other.precedes(&summary, rules) {
                start = middle + 1;
            } else {
                end = middle;
            }
        }
        self.order = paste(others, start, index);
    }

    /// Puts a child under a digit that has none; it comes last until it is set.
    fn insert(&mut self, index: usize, digit: usize, child: Child<S>) {
        let count = self.children.len();
        self.present |= 1 << digit;
        self.children.insert(index, child);
        let shifted = (0..count).fold(0, |order, place| {
            let other = nibble(self.order, place);
            paste(order, place, other + usize::from(other >= index))
        });
        self.order = paste(shifted, count, index);
    }

    fn remove(&mut self, index: usize, digit: usize) {
        let count = self.children.len();
        self.present &= !(1 << digit);
        self.children.remove(index);
        let left = (0..count).map(|place| nibble(self.order, place)).filter(|&it| it != index);
        self.order = left.enumerate().fold(0, |order, (place, other)| {
            paste(order, place, other - usize::from(other > index))
        });
    }
}

/// The index at a place of an order.
fn nibble(order: u64, place: usize) -> usize {
    (order >> (place * 4) & 15) as usize
}

/// An order without the index at a place.
fn cut(order: u64, place: usize) -> u64 {
    let before = (1 << (place * 4)) - 1;
    (order & before) | (order >> 4 & !before)
}

/// An order with an index put in at a place.
fn paste(order: u64, place: usize, index: usize) -> u64 {
    let before = (1 << (place * 4)) - 1;
    (order & before) | (index as u64) << (place * 4) | (order & !before) << 4
}

impl<S: Summary> Trie<S> {
    /// An empty trie.
    pub(crate) fn new(height: u32) -> Self {
        Self { nodes: vec![Node::EMPTY], vacant: Vec::new(), root: 0, height, whole: S::EMPTY }
    }

    /// Makes it higher.
    pub(crate) fn grow(&mut self, height: u32) {
        while self.height < height {
            let below = self.root;
            let child = Child { summary: self.whole, below };
            self.root = self.new_node();
            self.nodes[self.root as usize].insert(0, 0, child);
            self.height += 1;
        }
    }

    /// The range of all its numbers.
    pub(crate) fn range(&self) -> Range {
        Range::whole(self.height)
    }

    /// Sets an entry.
    pub(crate) fn set(&mut self, entry: Entry<S>, rules: S::Rules) {
        let mut path = [(0, 0); MAX_HEIGHT as usize];
        let mut node = self.root;
        for level in (0..self.height).rev() {
            let index = self.child(node, digit(entry.number, level), level, entry.place);
            path[level as usize] = (node, index);
            node = self.nodes[node as usize].children[index].below;
        }
        let mut summary = entry.summary;
        for &(node, index) in &path[..self.height as usize] {
            let node = &mut self.nodes[node as usize];
            if node.children[index].summary == summary {
                return;
            }
            node.set(index, summary, rules);
            summary = node.summary(rules);
        }
        self.whole = summary;
    }

    /// The index of the child under `digit`, which is made if there is none.
    fn child(&mut self, node: u32, digit: usize, level: u32, place: u32) -> usize {
        match self.nodes[node as usize].find(digit) {
            Ok(index) => index,
            Err(index) => {
                let below = if level == 0 { place } else { self.new_node() };
                let child = Child { summary: S::EMPTY, below };
                self.nodes[node as usize].insert(index, digit, child);
                index
            }
        }
    }

    /// Takes an entry out, with the nodes that only it needed.
    pub(crate) fn remove(&mut self, number: u32, rules: S::Rules) {
        self.whole = self.remove_below(self.root, self.height - 1, number, rules);
    }

    fn remove_below(&mut self, node: u32, level: u32, number: u32, rules: S::Rules) -> S {
        let digit = digit(number, level);
        if let Ok(index) = self.nodes[node as usize].find(digit) {
            let below = self.nodes[node as usize].children[index].below;
            if level == 0 {
                self.nodes[node as usize].remove(index, digit);
            } else {
                let summary = self.remove_below(below, level - 1, number, rules);
                if self.nodes[below as usize].present == 0 {
                    self.nodes[node as usize].remove(index, digit);
                    self.vacant.push(below);
                } else {
                    self.nodes[node as usize].set(index, summary, rules);
                }
            }
        }
        self.nodes[node as usize].summary(rules)
    }

    /// An empty node; one that was vacated has kept room for children.
    fn new_node(&mut self) -> u32 {
        self.vacant.pop().unwrap_or_else(|| {
            self.nodes.push(Node::EMPTY);
            u32::try_from(self.nodes.len() - 1).expect("fewer nodes than numbers")
        })
    }

    /// The summary of all entries but some.
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
                break;
            }
            all.add(&self.partial(child, range, digit, except, rules), rules);
        }
        all
    }

    /// The summaries of the parts of a range by digit, but for some entries.
    pub(crate) fn children<'a>(
        &'a self,
        range: Range,
        except: Except<'a>,
        rules: S::Rules,
    ) -> impl Iterator<Item = (u32, S)> + 'a
    where
        S::Rules: 'a,
    {
        let node = self.node(range).into_iter();
        node.flat_map(move |node| self.children_of(node, range, except, rules))
    }

    fn children_of<'a>(
        &'a self,
        node: &'a Node<S>,
        range: Range,
        except: Except<'a>,
        rules: S::Rules,
    ) -> impl Iterator<Item = (u32, S)> + 'a
    where
        S::Rules: 'a,
    {
        let partial = move |digit, child| self.partial(child, range, digit, except, rules);
        node.children().map(move |(digit, child)| (digit, partial(digit, child)))
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

    /// Visits the entries of a range whose summary `wanted` accepts, but for some. It must accept
    /// the summary of a set when it accepts that of a part.
    pub(crate) fn visit(
        &self,
        range: Range,
        except: Except<'_>,
        wanted: &impl Fn(&S) -> bool,
        visit: &mut impl FnMut(Entry<S>),
    ) {
        if let Some(node) = self.node(range) {
            self.visit_below(node, range, except, wanted, visit);
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

    fn visit_below(
        &self,
        node: &Node<S>,
        range: Range,
        except: Except<'_>,
        wanted: &impl Fn(&S) -> bool,
        visit: &mut impl FnMut(Entry<S>),
    ) {
        for (digit, child) in node.children() {
            let except = except.within(range, digit);
            let is_wanted = match except.count(&child.summary) {
                Count::None => false,
                Count::All => wanted(&child.summary),
                // The summary is also that of others: it says nothing.
                Count::Some => range.level > 0,
            };
            match range.below(digit) {
                _ if !is_wanted => {}
                Some(below) => {
                    let node = &self.nodes[child.below as usize];
                    self.visit_below(node, below, except, wanted, visit);
                }
                None => visit(Entry {
                    number: range.prefix << DIGIT_BITS | digit,
                    place: child.below,
                    summary: child.summary,
                }),
            }
        }
    }

    /// The place of the account of a number.
    pub(crate) fn place(&self, number: u32) -> Option<u32> {
        let node = self.node(Range { prefix: number >> DIGIT_BITS, level: 0 })?;
        let index = node.find(digit(number, 0)).ok()?;
        Some(node.children[index].below)
    }

    fn node(&self, range: Range) -> Option<&Node<S>> {
        let mut node = &self.nodes[self.root as usize];
        for level in (range.level + 1..self.height).rev() {
            let index = node.find(digit(range.prefix, level - range.level - 1)).ok()?;
            node = &self.nodes[node.children[index].below as usize];
        }
        Some(node)
    }
}

/// The numbers that are in a part of a range, of `numbers` in order.
fn among(numbers: &[u32], range: Range, digit: u32) -> &[u32] {
    let Some(first) = numbers.iter().position(|&number| range.holds(number, digit)) else {
        return &[];
    };
    let from = &numbers[first..];
    let count = from.iter().take_while(|&&number| range.holds(number, digit)).count();
    &from[..count]
}

#[cfg(test)]
mod tests;
