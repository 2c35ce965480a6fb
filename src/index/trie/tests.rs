//! Tries against sorted lists of their entries.

use std::fmt::Debug;

use proptest::collection::{btree_map, btree_set, vec};
use proptest::prelude::*;
use proptest::sample::select;

use super::{Count, Except, Range, Summary, Trie, height_for};
use crate::config::Ties;
use crate::index::barred::Barred;
use crate::index::ranked::{Ranked, Rules, Sleeper};
use crate::select::rank::{RankKey, TieMask};
use crate::time::Timestamp;

/// An account's summary, with its number and place.
#[derive(Clone, Copy, Debug)]
struct Entry<S> {
    number: u32,
    place: u32,
    summary: S,
}

/// What the tests know of a summary besides: what it means.
trait Plain: Summary + Debug {
    /// What the entries come to together.
    fn joined(entries: &[Entry<Self>], rules: Self::Rules) -> Self;

    /// Whether an entry counts at an instant.
    fn counts_at(&self, _: Timestamp) -> bool {
        true
    }

    /// Whether an entry is one of the best, given what all come to.
    fn is_best(&self, _: &Self, _: Self::Rules) -> bool {
        true
    }

    /// Without the parts that mean nothing under the rules.
    fn meant(self, _: Self::Rules) -> Self {
        self
    }
}

impl Plain for Ranked {
    fn joined(entries: &[Entry<Self>], rules: Rules) -> Self {
        let able = entries.iter().filter(|entry| entry.summary.tied > 0);
        let order = |entry: &&Entry<Self>| {
            let RankKey { merit, recency } = entry.summary.key;
            (merit, recency, entry.number)
        };
        let Some(best) = able.clone().min_by_key(order) else {
            return Self::EMPTY;
        };
        let exact = rules.ties == TieMask::under(Ties::Exact);
        let ties = |entry: &&Entry<Self>| {
            let (one, other) = (entry.summary.key, best.summary.key);
            one.merit == other.merit && (!exact || one.recency == other.recency)
        };
        let tied: Vec<_> = able.clone().filter(ties).collect();
        Self {
            key: best.summary.key,
            first: best.number,
            place: best.summary.place,
            tied: u32::try_from(tied.len()).unwrap(),
            weight: tied.iter().map(|entry| entry.summary.weight).sum(),
            tokens: able.map(|entry| entry.summary.tokens).min().unwrap(),
        }
    }

    fn is_best(&self, all: &Self, rules: Rules) -> bool {
        self.ties_with(all.key, rules.ties)
    }

    fn meant(self, rules: Rules) -> Self {
        Self { tokens: if rules.tokens { self.tokens } else { 0 }, ..self }
    }
}

impl Plain for Sleeper {
    fn joined(entries: &[Entry<Self>], rules: Rules) -> Self {
        let ranked = |entry: &Entry<Self>| Entry {
            number: entry.number,
            place: entry.place,
            summary: entry.summary.ranked,
        };
        let ranked: Vec<_> = entries.iter().map(ranked).collect();
        let asleep = entries.iter().filter(|entry| entry.summary.ranked.tied > 0);
        Self {
            ranked: Ranked::joined(&ranked, rules),
            first: asleep.clone().map(|it| it.summary.first).min().unwrap_or(Timestamp::MAX),
            last: asleep.map(|it| it.summary.last).max().unwrap_or(Timestamp::ZERO),
        }
    }

    fn counts_at(&self, at: Timestamp) -> bool {
        self.ranked.tied > 0 && self.first <= at
    }

    fn is_best(&self, all: &Self, rules: Rules) -> bool {
        self.ranked.is_best(&all.ranked, rules)
    }

    fn meant(self, rules: Rules) -> Self {
        Self { ranked: self.ranked.meant(rules), ..self }
    }
}

impl Plain for Barred {
    fn joined(entries: &[Entry<Self>], (): ()) -> Self {
        let all = || entries.iter().map(|entry| entry.summary);
        Self {
            retry_at: all().filter_map(|it| it.retry_at).min(),
            release_at: all().filter_map(|it| it.release_at).min(),
            loaded: all().any(|it| it.loaded),
            recovers: all().filter_map(|it| it.recovers).min(),
        }
    }
}

/// A change of a trie: entries by number, each with the place of the account if it is new.
#[derive(Clone, Debug)]
enum Change<S> {
    Set(Vec<(u32, (u32, S))>),
    /// The same by joining all anew, under the other rules, with one removed in between.
    SetAnew(Vec<(u32, (u32, S))>, usize),
    Remove(u32),
    /// One of those that are there.
    RemoveOne(usize),
    Grow(u32),
}

/// A question about a trie.
#[derive(Clone, Debug)]
struct Question {
    /// A number in the range that is asked about, if the trie is that high, and its level.
    near: u32,
    level: u32,
    /// Numbers that are left out, and which of those that are there.
    except: Vec<u32>,
    except_some: Vec<usize>,
    at: Timestamp,
    most: usize,
}

/// A trie and the list of its entries, in order.
struct Pair<S: Summary> {
    trie: Trie<S>,
    entries: Vec<Entry<S>>,
    rules: S::Rules,
    /// Which come into force when all is joined anew.
    other_rules: S::Rules,
}

fn number() -> impl Strategy<Value = u32> {
    prop_oneof![
        4 => 0_u32..20,
        4 => 0_u32..300,
        2 => 0_u32..5_000,
        1 => 60_000_u32..70_000,
        1 => u32::MAX - 40..=u32::MAX,
    ]
}

fn instant() -> impl Strategy<Value = Timestamp> {
    (0_u64..5).prop_map(Timestamp::from_millis)
}

/// An account that can serve; its number and place are filled in later.
fn ranked() -> impl Strategy<Value = Ranked> {
    let key = (0_u128..3, 0_u64..4).prop_map(|(merit, recency)| RankKey { merit, recency });
    let able = (key, 1_u64..4, select(&[0, 1, 2, u64::MAX][..]));
    let able = able.prop_map(|(key, weight, tokens)| Ranked {
        key,
        first: 0,
        place: 0,
        tied: 1,
        weight,
        tokens,
    });
    prop_oneof![1 => Just(Ranked::EMPTY), 5 => able]
}

fn sleeper() -> impl Strategy<Value = Sleeper> {
    (instant(), ranked()).prop_map(|(at, ranked)| {
        if ranked.tied > 0 { Sleeper::until(at, ranked) } else { Sleeper::EMPTY }
    })
}

fn barred() -> impl Strategy<Value = Barred> {
    let time = || proptest::option::of(instant());
    let barred = (time(), time(), any::<bool>(), proptest::option::of((instant(), 0_u32..9)));
    let barred = barred.prop_map(|(retry_at, release_at, loaded, recovers)| Barred {
        retry_at,
        release_at,
        loaded,
        recovers,
    });
    prop_oneof![1 => Just(Barred::EMPTY), 3 => barred]
}

fn rules() -> impl Strategy<Value = Rules> {
    let ties = prop_oneof![
        Just(Ties::Exact),
        Just(Ties::Health { headroom_steps: 1, in_flight_slack: 0 }),
    ];
    (ties, any::<bool>()).prop_map(|(ties, tokens)| Rules { ties: TieMask::under(ties), tokens })
}

fn changes<S: Clone + Debug, T: Strategy<Value = S>>(
    summary: fn() -> T,
) -> impl Strategy<Value = Vec<(Change<S>, Question)>> {
    let place = 0_u32..1_000;
    let set = |numbers| btree_map(number(), (place.clone(), summary()), numbers);
    let change = prop_oneof![
        4 => set(1..4).prop_map(|entries| Change::Set(entries.into_iter().collect())),
        2 => set(4..60).prop_map(|entries| Change::Set(entries.into_iter().collect())),
        2 => (set(0..60), any::<usize>()).prop_map(|(entries, removed)| {
            Change::SetAnew(entries.into_iter().collect(), removed)
        }),
        1 => number().prop_map(Change::Remove),
        4 => any::<usize>().prop_map(Change::RemoveOne),
        1 => (1_u32..=8).prop_map(Change::Grow),
    ];
    vec((change, question()), 1..40)
}

fn question() -> impl Strategy<Value = Question> {
    let except = prop_oneof![2 => Just(Vec::new()), 1 => btree_set(number(), 0..4)
        .prop_map(|numbers| numbers.into_iter().collect())];
    let except_some = prop_oneof![1 => Just(Vec::new()), 2 => vec(any::<usize>(), 1..20)];
    (number(), 0_u32..8, except, except_some, instant(), 0_usize..20).prop_map(
        |(near, level, except, except_some, at, most)| Question {
            near,
            level,
            except,
            except_some,
            at,
            most,
        },
    )
}

impl<S: Plain> Pair<S> {
    fn new([rules, other_rules]: [S::Rules; 2]) -> Self {
        Self { trie: Trie::new(1), entries: Vec::new(), rules, other_rules }
    }

    /// Changes both; `numbered` puts an account's number and place into its summary.
    fn change(&mut self, change: Change<S>, numbered: fn(S, u32, u32) -> S) {
        match change {
            Change::Set(entries) => self.set_all(&entries, numbered),
            Change::SetAnew(entries, removed) => {
                std::mem::swap(&mut self.rules, &mut self.other_rules);
                self.trie.fall_behind();
                self.set_all(&entries, numbered);
                self.remove_one(removed);
                self.trie.catch_up(self.rules);
            }
            Change::Remove(number) => self.remove(number),
            Change::RemoveOne(which) => self.remove_one(which),
            Change::Grow(height) => self.trie.grow(height),
        }
    }

    fn set_all(&mut self, entries: &[(u32, (u32, S))], numbered: fn(S, u32, u32) -> S) {
        let last = entries.last().map_or(0, |last| last.0);
        self.trie.grow(height_for(last));
        for &(number, (place, summary)) in entries {
            let entry = Entry { number, place, summary: numbered(summary, number, place) };
            self.trie.set(entry.number, entry.place, &entry.summary, self.rules);
            self.set(entry);
        }
    }

    /// Whoever is there stays in its place.
    fn set(&mut self, entry: Entry<S>) {
        match self.entries.binary_search_by_key(&entry.number, |it| it.number) {
            Ok(index) => self.entries[index].summary = entry.summary,
            Err(index) => self.entries.insert(index, entry),
        }
    }

    fn remove_one(&mut self, which: usize) {
        if !self.entries.is_empty() {
            self.remove(self.entries[which % self.entries.len()].number);
        }
    }

    fn remove(&mut self, number: u32) {
        if height_for(number) <= self.trie.height {
            self.trie.remove(number, self.rules);
        }
        self.entries.retain(|entry| entry.number != number);
    }

    fn ask(&self, question: &Question) {
        let Question { level, at, most, .. } = *question;
        let room = 1_u64 << (4 * self.trie.height);
        let near = u32::try_from(u64::from(question.near) % room).unwrap();
        let mut numbers = question.except.clone();
        if !self.entries.is_empty() {
            let entry = |&which: &usize| self.entries[which % self.entries.len()].number;
            numbers.extend(question.except_some.iter().map(entry));
        }
        numbers.sort_unstable();
        numbers.dedup();
        let except = Except { numbers: &numbers, at };

        let all = Except { numbers: &[], at: Timestamp::MAX };
        self.assert_same(self.trie.without(all, self.rules), &self.entries);
        let left = self
            .entries
            .iter()
            .filter(|entry| !numbers.contains(&entry.number) && entry.summary.counts_at(at));
        let left: Vec<Entry<S>> = left.copied().collect();
        self.assert_same(self.trie.without(except, self.rules), &left);

        let level = level.min(self.trie.height - 1);
        let prefix = near.checked_shr((level + 1) * 4).unwrap_or(0);
        let range = Range { prefix, level };
        let is_inside =
            |entry: &&Entry<S>| (u64::from(entry.number) >> (level * 4 + 4)) == u64::from(prefix);
        let inside: Vec<Entry<S>> = left.iter().filter(is_inside).copied().collect();
        let mut parts = vec![S::EMPTY; 16];
        self.trie.each_part(range, except, self.rules, |digit, summary| {
            parts[digit as usize] = *summary;
        });
        for (digit, part) in (0..).zip(parts) {
            let is_here = |entry: &&Entry<S>| entry.number >> (level * 4) & 15 == digit;
            let here: Vec<Entry<S>> = inside.iter().filter(is_here).copied().collect();
            self.assert_same(part, &here);
        }

        let mut visited = Vec::new();
        let note = |number, place, summary: &S| {
            visited.push(Entry { number, place, summary: *summary });
        };
        self.trie.visit(range, except, |_| true, note);
        assert_eq!(visited.len(), inside.len(), "visited");
        for (one, other) in visited.iter().zip(&inside) {
            assert_eq!((one.number, one.place), (other.number, other.place), "visited in order");
            assert_eq!(one.summary, other.summary, "as it was set");
        }

        let all = S::joined(&left, self.rules);
        let wanted = |summary: &S| summary.is_best(&all, self.rules);
        let mut best = Vec::new();
        self.trie.visit(range, except, wanted, |number, _, _| best.push(number));
        let listed = inside.iter().filter(|entry| wanted(&entry.summary));
        let listed: Vec<u32> = listed.map(|entry| entry.number).collect();
        assert_eq!(best, listed, "those that are as good as the best of {left:?}");

        let mut some = vec![u32::MAX];
        self.trie.visit_some(most, except, &mut some);
        let places: Vec<u32> = left.iter().map(|entry| entry.place).collect();
        assert_eq!(some[1..], places[..most.min(places.len())], "at most {most}");

        let own = self.entries.binary_search_by_key(&near, |entry| entry.number).ok();
        let place = own.map(|index| self.entries[index].place);
        assert_eq!(self.trie.place(near), place, "place of {near}");
        for entry in &self.entries {
            assert_eq!(self.trie.place(entry.number), Some(entry.place));
        }
    }

    fn assert_same(&self, summary: S, entries: &[Entry<S>]) {
        let expected = S::joined(entries, self.rules).meant(self.rules);
        assert_eq!(summary.meant(self.rules), expected, "of {entries:?}");
    }
}

fn check<S: Plain>(
    rules: [S::Rules; 2],
    numbered: fn(S, u32, u32) -> S,
    changes: Vec<(Change<S>, Question)>,
) -> Pair<S> {
    let mut pair = Pair::new(rules);
    for (change, question) in changes {
        pair.change(change, numbered);
        pair.ask(&question);
    }
    pair
}

fn numbered(ranked: Ranked, number: u32, place: u32) -> Ranked {
    if ranked.tied > 0 { Ranked { first: number, place, ..ranked } } else { ranked }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn ranked_accounts_are_those_of_the_list(rules in [rules(), rules()], changes in changes(ranked)) {
        let pair = check(rules, numbered, changes);
        if pair.rules.tokens {
            let everyone = Except { numbers: &[], at: Timestamp::ZERO };
            let is_short = |summary: &Ranked| summary.tokens < 2;
            let mut short = Vec::new();
            let (range, visit) = (pair.trie.range(), |number, _, _: &Ranked| short.push(number));
            pair.trie.visit(range, everyone, is_short, visit);
            let listed = pair.entries.iter().filter(|entry| is_short(&entry.summary));
            let listed: Vec<u32> = listed.map(|entry| entry.number).collect();
            assert_eq!(short, listed, "those that are short of tokens");
        }
    }

    #[test]
    fn sleepers_are_those_of_the_list(rules in [rules(), rules()], changes in changes(sleeper)) {
        check(
            rules,
            |it, number, place| Sleeper { ranked: numbered(it.ranked, number, place), ..it },
            changes,
        );
    }

    #[test]
    fn barred_accounts_are_those_of_the_list(changes in changes(barred)) {
        check([(), ()], |it, _, _| it, changes);
    }
}

#[test]
fn a_trie_that_was_emptied_needs_no_more_nodes_to_be_filled_again() {
    let mut trie: Trie<Barred> = Trie::new(height_for(5_000));
    let entries: Vec<_> =
        (0..5_000).map(|number| Entry { number, place: number, summary: Barred::EMPTY }).collect();
    for &entry in &entries {
        trie.set(entry.number, entry.place, &entry.summary, ());
    }
    let nodes = trie.nodes.len();
    (0..5_000).for_each(|number| trie.remove(number, ()));
    assert_eq!(trie.without(Except { numbers: &[], at: Timestamp::ZERO }, ()), Barred::EMPTY);
    for &entry in &entries {
        trie.set(entry.number, entry.place, &entry.summary, ());
    }
    assert_eq!(trie.nodes.len(), nodes);
}

#[test]
fn what_does_not_count_is_told_from_what_may() {
    let sleeper =
        |at| Sleeper::until(Timestamp::from_millis(at), Ranked { tied: 1, ..Ranked::EMPTY });
    let rules = Rules::default();
    let mut both = sleeper(3);
    both.add(&sleeper(5), rules);
    let at = |at| both.counts(Timestamp::from_millis(at));
    assert_eq!((at(2), at(3), at(4), at(5)), (Count::None, Count::Some, Count::Some, Count::All));
}
