//! The members of a group that can serve, and those of them that are ahead of all others.

use arrayvec::ArrayVec;

use super::ranked::{Ranked, Rules};
use super::trie::{Except, Range, Summary, Trie};

/// How many accounts are kept apart.
const MOST_AHEAD: usize = 8;

/// A trie of those that can serve, of which a few that come to be better than all others are kept
/// apart. As a rule such a one is there because a request left its window, is chosen soon and then
/// is the last of all: so the trie changes once instead of twice.
#[derive(Clone, Debug)]
pub(super) struct Ranking {
    /// What it says of those that are ahead is older, and worse.
    trie: Trie<Ranked>,
    /// Each better than the one before, not just equally good, and than all others. The best is
    /// last.
    ahead: ArrayVec<Ahead, MOST_AHEAD>,
}

/// One that is ahead.
#[derive(Clone, Copy, Debug)]
struct Ahead {
    ranked: Ranked,
    /// The node of the trie that holds it.
    bottom: u32,
}

impl Ahead {
    fn number(&self) -> u32 {
        self.ranked.first
    }

    /// Whether a question leaves it out.
    fn is_left_out(&self, except: Except<'_>) -> bool {
        !except.numbers.is_empty() && except.numbers.binary_search(&self.number()).is_ok()
    }
}

impl Ranking {
    pub(super) fn new(height: u32) -> Self {
        Self { trie: Trie::new(height), ahead: ArrayVec::new() }
    }

    /// The best of all, and those that tie with it.
    #[inline]
    pub(super) fn whole(&self) -> &Ranked {
        self.ahead.last().map_or_else(|| self.trie.whole(), |best| &best.ranked)
    }

    /// The range of all numbers.
    pub(super) fn range(&self) -> Range {
        self.trie.range()
    }

    /// See [`Trie::grow`].
    pub(super) fn grow(&mut self, height: u32) {
        self.trie.grow(height);
    }

    /// See [`Trie::bottom`].
    pub(super) fn bottom(&mut self, number: u32, place: u32) -> u32 {
        self.trie.bottom(number, place)
    }

    /// See [`Trie::set`].
    pub(super) fn set(&mut self, number: u32, place: u32, ranked: &Ranked, rules: Rules) {
        let bottom = self.bottom(number, place);
        self.set_in(bottom, number, ranked, rules);
    }

    /// See [`Trie::set_in`].
    pub(super) fn set_in(&mut self, bottom: u32, number: u32, ranked: &Ranked, rules: Rules) {
        self.leave(number);
        if rules.tokens && !self.ahead.is_empty() {
            // None outdoes another any more.
            self.join_all(rules);
        }
        let is_ahead = !self.trie.joins_later() && ranked.outdoes(self.trie.whole(), rules);
        if !is_ahead || !self.get_ahead(Ahead { ranked: *ranked, bottom }, rules) {
            self.trie.set_in(bottom, number, ranked, rules);
        }
    }

    /// Puts one that is better than all in the trie where it belongs among those that are ahead;
    /// `false` when it has to join the trie, and those that were ahead have done so.
    fn get_ahead(&mut self, it: Ahead, rules: Rules) -> bool {
        let outdoes = |other: &Ahead| it.ranked.outdoes(&other.ranked, rules);
        if self.ahead.is_full() {
            self.join_all(rules);
            return false;
        }
        // As a rule, it is better than those too.
        if self.ahead.last().is_none_or(outdoes) {
            self.ahead.push(it);
            return true;
        }
        let place = self.ahead.partition_point(outdoes);
        if !self.ahead[place].ranked.outdoes(&it.ranked, rules) {
            self.join_all(rules);
            return false;
        }
        self.ahead.insert(place, it);
        true
    }

    /// Takes one out of those that are ahead, if it is among them.
    #[inline]
    fn leave(&mut self, number: u32) {
        // As a rule, it is the best of them or none.
        if self.ahead.last().is_some_and(|it| it.number() == number) {
            self.ahead.pop();
        } else if let Some(place) = self.ahead.iter().rposition(|it| it.number() == number) {
            self.ahead.remove(place);
        }
    }

    /// Puts those that are ahead where they belong among the others.
    #[cold]
    fn join_all(&mut self, rules: Rules) {
        for Ahead { ranked, bottom } in self.ahead.take() {
            self.trie.set_in(bottom, ranked.first, &ranked, rules);
        }
    }

    /// See [`Trie::remove`].
    pub(super) fn remove(&mut self, number: u32, rules: Rules) {
        self.leave(number);
        self.trie.remove(number, rules);
    }

    /// See [`Trie::fall_behind`].
    pub(super) fn fall_behind(&mut self) {
        self.trie.fall_behind();
    }

    /// See [`Trie::change_all`]. Nobody is ahead then.
    pub(super) fn change_all(&mut self, rules: Rules, change: impl FnMut(&mut Ranked, u32)) {
        self.trie.fall_behind();
        self.join_all(rules);
        self.trie.change_all(change);
    }

    /// See [`Trie::catch_up`].
    pub(super) fn catch_up(&mut self, rules: Rules) {
        self.join_all(rules);
        self.trie.catch_up(rules);
    }

    /// See [`Trie::without`].
    #[inline]
    pub(super) fn without(&self, except: Except<'_>, rules: Rules) -> Ranked {
        let best = self.ahead.iter().rfind(|it| !it.is_left_out(except));
        best.map_or_else(|| self.trie.without(except, rules), |it| it.ranked)
    }

    /// See [`Trie::each_part`]. Those that are ahead come once more, one by one.
    #[inline]
    pub(super) fn each_part(
        &self,
        range: Range,
        except: Except<'_>,
        rules: Rules,
        mut visit: impl FnMut(u32, &Ranked),
    ) {
        self.trie.each_part(range, except, rules, &mut visit);
        for it in self.ahead.iter().filter(|it| !it.is_left_out(except)) {
            if let Some(digit) = range.digit(it.number()) {
                visit(u32::try_from(digit).expect("digits are small"), &it.ranked);
            }
        }
    }

    /// See [`Trie::visit`]. Those that are ahead come last, and tie with nobody.
    #[inline]
    pub(super) fn visit(
        &self,
        range: Range,
        except: Except<'_>,
        wanted: impl Fn(&Ranked) -> bool,
        mut visit: impl FnMut(u32, u32, &Ranked),
    ) {
        if self.ahead.is_empty() {
            return self.trie.visit(range, except, wanted, visit);
        }
        let is_ahead = |number| self.ahead.iter().any(|it| it.number() == number);
        self.trie.visit(range, except, &wanted, |number, place, ranked| {
            if !is_ahead(number) {
                visit(number, place, ranked);
            }
        });
        for it @ Ahead { ranked, .. } in self.ahead.iter().filter(|it| !it.is_left_out(except)) {
            if range.digit(it.number()).is_some() && wanted(ranked) {
                visit(it.number(), ranked.place, ranked);
            }
        }
    }

    /// See [`Trie::place`].
    pub(super) fn place(&self, number: u32) -> Option<u32> {
        self.trie.place(number)
    }

    /// See [`Trie::get_in`].
    pub(super) fn get_in(&self, bottom: u32, number: u32) -> Option<&Ranked> {
        let ahead = self.ahead.iter().find(|it| it.number() == number);
        ahead.map_or_else(|| self.trie.get_in(bottom, number), |it| Some(&it.ranked))
    }
}

#[cfg(test)]
mod tests;
