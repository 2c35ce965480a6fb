//! A ranking against a list of its entries.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::Ranking;
use crate::config::Ties;
use crate::index::ranked::{Ranked, Rules};
use crate::index::trie::{Except, Range, Summary, WIDTH};
use crate::select::rank::{RankKey, TieMask};
use crate::time::Timestamp;

#[derive(Clone, Debug)]
enum Change {
    Set(u32, Ranked),
    /// All entries that are there, by their order, under the other rules.
    SetAnew(Vec<Ranked>),
    /// The keys of those that can serve, by their numbers, under the other rules.
    Rekey(Vec<RankKey>),
    Remove(u32),
}

fn key() -> impl Strategy<Value = RankKey> {
    (0_u128..4, 0_u64..12).prop_map(|(merit, recency)| RankKey { merit, recency })
}

fn ranked() -> impl Strategy<Value = Ranked> {
    let able = (key(), 1_u64..4).prop_map(|(key, weight)| Ranked {
        key,
        tied: 1,
        weight,
        ..Ranked::EMPTY
    });
    prop_oneof![1 => Just(Ranked::EMPTY), 9 => able]
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        20 => (0_u32..40, ranked()).prop_map(|(number, ranked)| Change::Set(number, ranked)),
        1 => vec(ranked(), 40).prop_map(Change::SetAnew),
        1 => vec(key(), 40).prop_map(Change::Rekey),
        3 => (0_u32..40).prop_map(Change::Remove),
    ]
}

fn rules() -> impl Strategy<Value = Rules> {
    let ties = prop_oneof![
        Just(Ties::Exact),
        Just(Ties::Health { headroom_steps: 1, in_flight_slack: 0 }),
    ];
    let tokens = prop_oneof![3 => Just(false), 1 => Just(true)];
    (ties, tokens).prop_map(|(ties, tokens)| Rules { ties: TieMask::under(ties), tokens })
}

/// An account's number and place in its summary.
fn numbered(ranked: Ranked, number: u32) -> Ranked {
    if ranked.tied > 0 { Ranked { first: number, place: number + 7, ..ranked } } else { ranked }
}

struct Pair {
    ranking: Ranking,
    entries: BTreeMap<u32, Ranked>,
    rules: Rules,
    other_rules: Rules,
}

impl Pair {
    fn change(&mut self, change: Change) {
        match change {
            Change::Set(number, ranked) => self.set(number, ranked),
            Change::SetAnew(all) => {
                std::mem::swap(&mut self.rules, &mut self.other_rules);
                self.ranking.fall_behind();
                let numbers: Vec<u32> = self.entries.keys().copied().collect();
                for (number, ranked) in numbers.into_iter().zip(all) {
                    self.set(number, ranked);
                }
                self.ranking.catch_up(self.rules);
            }
            Change::Rekey(keys) => {
                std::mem::swap(&mut self.rules, &mut self.other_rules);
                self.ranking.change_all(self.rules, |ranked, place| {
                    assert_eq!(place, ranked.first + 7, "of the account");
                    ranked.key = keys[ranked.first as usize];
                });
                for (&number, ranked) in self.entries.iter_mut().filter(|it| it.1.tied > 0) {
                    ranked.key = keys[number as usize];
                }
                self.ranking.catch_up(self.rules);
            }
            Change::Remove(number) => {
                self.ranking.remove(number, self.rules);
                self.entries.remove(&number);
            }
        }
    }

    fn set(&mut self, number: u32, ranked: Ranked) {
        let ranked = numbered(ranked, number);
        self.ranking.set(number, number + 7, &ranked, self.rules);
        self.entries.insert(number, ranked);
    }

    /// The best of some accounts, and the numbers of those that tie with it.
    fn best(&self, entries: &BTreeMap<u32, Ranked>) -> (u32, Vec<u32>) {
        let able = entries.values().filter(|it| it.tied > 0);
        let exact = self.rules.ties == TieMask::under(Ties::Exact);
        let key = |it: &Ranked| (it.key.merit, if exact { it.key.recency } else { 0 });
        let order = |it: &&Ranked| (it.key.merit, it.key.recency, it.first);
        let Some(best) = able.clone().min_by_key(order) else {
            return (u32::MAX, Vec::new());
        };
        let ties = able.filter(|it| key(it) == key(best)).map(|it| it.first);
        (best.first, ties.collect())
    }

    fn ask(&self, except: &[u32]) {
        let except = Except { numbers: except, at: Timestamp::ZERO };
        let left = self.entries.iter().filter(|(number, _)| !except.numbers.contains(number));
        let left: BTreeMap<u32, Ranked> = left.map(|(&number, &ranked)| (number, ranked)).collect();

        let (first, tied) = self.best(&left);
        let found = self.ranking.without(except, self.rules);
        assert_eq!((found.first, found.tied as usize), (first, tied.len()), "of {left:?}");
        if except.numbers.is_empty() {
            let whole = self.ranking.whole();
            assert_eq!((whole.first, whole.tied as usize), (first, tied.len()), "of all");
        }

        let is_best = |it: &Ranked| it.ties_with(found.key, self.rules.ties);
        let (mut visited, mut best) = (Vec::new(), Vec::new());
        let range = self.ranking.range();
        self.ranking.visit(
            range,
            except,
            |_| true,
            |number, place, &ranked| {
                assert_eq!(place, number + 7);
                visited.push((number, ranked));
            },
        );
        visited.sort_by_key(|&(number, _)| number);
        assert_eq!(visited, left.iter().map(|(&number, &it)| (number, it)).collect::<Vec<_>>());
        self.ranking.visit(range, except, is_best, |number, _, _| best.push(number));
        assert_eq!(best, tied, "those that tie with the best, in order");

        for range in [Range { prefix: 0, level: 1 }, Range { prefix: 1, level: 0 }] {
            let mut counts = [0; WIDTH];
            self.ranking.each_part(range, except, self.rules, |digit, part| {
                counts[digit as usize] += if is_best(part) { part.tied } else { 0 };
            });
            for (digit, count) in (0_u32..).zip(counts) {
                let is_here = |&&number: &&u32| range.digit(number) == Some(digit as usize);
                assert_eq!(count as usize, tied.iter().filter(is_here).count(), "in part {digit}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_ranking_is_that_of_the_list(
        rules in [rules(), rules()],
        steps in vec((change(), prop_oneof![Just(Vec::new()), vec(0_u32..40, 1..6)]), 1..80),
    ) {
        let [rules, other_rules] = rules;
        let mut pair =
            Pair { ranking: Ranking::new(2), entries: BTreeMap::new(), rules, other_rules };
        for (change, mut except) in steps {
            pair.change(change);
            except.sort_unstable();
            except.dedup();
            pair.ask(&except);
            for (&number, ranked) in &pair.entries {
                let place = number + 7;
                let bottom = pair.ranking.bottom(number, place);
                prop_assert_eq!(pair.ranking.get_in(bottom, number), Some(ranked));
                prop_assert_eq!(pair.ranking.place(number), Some(place));
            }
        }
    }
}
