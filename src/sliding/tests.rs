use proptest::prelude::*;

use super::{Form, SlidingSum};
use crate::time::{Millis, Timestamp};

/// The same answers by looking at every amount.
#[derive(Clone, Debug, Default)]
struct Naive(Vec<(Timestamp, u64)>);

impl Naive {
    fn add(&mut self, amount: u64, now: Timestamp) {
        match self.0.last_mut().filter(|last| last.0 == now) {
            Some(last) => last.1 += amount,
            None => self.0.push((now, amount)),
        }
    }

    fn inside(&self, span: Millis, now: Timestamp) -> impl Iterator<Item = &(Timestamp, u64)> {
        self.0.iter().filter(move |(at, _)| !at.is_over(span, now))
    }

    fn sum(&self, span: Millis, now: Timestamp) -> u64 {
        self.inside(span, now).map(|(_, amount)| amount).sum()
    }

    fn next_exit(&self, span: Millis, now: Timestamp) -> Option<Timestamp> {
        self.inside(span, now).next().map(|(at, _)| at.plus(span))
    }

    fn free_at(&self, span: Millis, allowed: u64) -> Timestamp {
        let mut left: u64 = self.0.iter().map(|(_, amount)| amount).sum();
        let mut leave = self.0.iter();
        let last = leave.find(|(_, amount)| {
            left -= amount;
            left <= allowed
        });
        last.map_or(Timestamp::ZERO, |(at, _)| at.plus(span))
    }

    fn take_back(&mut self, amount: u64, at: Timestamp) -> bool {
        let entry = self.0.iter_mut().find(|entry| entry.0 == at && entry.1 >= amount);
        let held = entry.map(|entry| entry.1 -= amount);
        self.0.retain(|entry| entry.1 > 0);
        held.is_some()
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Add(u64),
    Pass(u64),
    Prune,
    Truncate(usize),
    /// Of an entry from the end, some of what it holds.
    TakeBack(usize, u64),
    /// Save and restore.
    Reread,
}

const DAY: u64 = 86_400_000;

fn amounts() -> impl Strategy<Value = u64> {
    let edge = u64::from(u32::MAX);
    prop_oneof![6 => 1..100_u64, 2 => edge / 2 - 2..edge / 2 + 3, 1 => edge - 2..edge + 3]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let edge = u64::from(u32::MAX);
    let passes = prop_oneof![
        8 => 0..3_u64,
        4 => 0..90_000_u64,
        1 => 0..60 * DAY,
        1 => edge - 2..edge + 3,
        1 => Just(u64::MAX / 64),
    ];
    let step = prop_oneof![
        8 => amounts().prop_map(Step::Add),
        8 => passes.prop_map(Step::Pass),
        2 => Just(Step::Prune),
        1 => (0..40_usize).prop_map(Step::Truncate),
        3 => (0..6_usize, amounts()).prop_map(|(back, most)| Step::TakeBack(back, most)),
        1 => Just(Step::Reread),
    ];
    prop::collection::vec(step, 1..120)
}

proptest! {
    #[test]
    fn sums_are_those_of_a_naive_list(
        start in prop_oneof![Just(0), 0..1_u64 << 40],
        span in prop_oneof![Just(60_000), 1..200_000_u64, Just(30 * DAY), Just(60 * DAY)],
        steps in steps(),
    ) {
        let (span, mut now) = (Millis::new(span), Timestamp::from_millis(start));
        let (mut sums, mut naive) = (SlidingSum::default(), Naive::default());
        for step in steps {
            match step {
                Step::Add(amount) => {
                    sums.add(amount, now);
                    naive.add(amount, now);
                }
                Step::Pass(millis) => now = now.plus(Millis::new(millis)),
                Step::Prune => {
                    sums.prune(span, now);
                    naive.0.retain(|(at, _)| !at.is_over(span, now));
                }
                Step::Truncate(count) => {
                    sums.truncate(count);
                    naive.0.drain(..naive.0.len().saturating_sub(count));
                }
                Step::TakeBack(back, most) => {
                    let at = naive.0.iter().rev().nth(back).map_or(now, |entry| entry.0);
                    prop_assert_eq!(sums.take_back(most, at), naive.take_back(most, at));
                }
                Step::Reread => {
                    let again = SlidingSum::of(&naive.0).unwrap();
                    prop_assert_eq!(&again, &sums);
                    sums = again;
                }
            }
            prop_assert!(sums.amounts().eq(naive.0.iter().copied()), "{:?} {:?}", sums, naive);
            prop_assert_eq!(sums.sum(span, now), naive.sum(span, now));
            prop_assert_eq!(sums.next_exit(span, now), naive.next_exit(span, now));
            let half = naive.sum(Millis::MAX, now) / 2;
            if half > 0 {
                prop_assert_eq!(sums.free_at(span, half), naive.free_at(span, half));
            }
        }
    }
}

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn is_wide(sums: &SlidingSum) -> bool {
    matches!(sums.0, Form::Wide(_))
}

#[test]
fn the_narrow_form_lasts_as_long_as_it_is_exact() {
    let edge = u64::from(u32::MAX);
    let mut sums = SlidingSum::default();
    // A hundred times more than it holds at once, and over years.
    for minute in 0..100_000 {
        let now = at(1_700_000_000_000 + minute * 600_000);
        sums.prune(Millis::from_mins(60), now);
        sums.add(edge / 6, now);
    }
    assert!(!is_wide(&sums));
    let large = [(at(5), 1), (at(6), edge - 1)];
    let long = [(at(0), 1), (at(edge), 1)];
    for (held, later) in [(large, 7), (long, edge + 1)] {
        let mut sums = SlidingSum::of(&held).unwrap();
        assert!(!is_wide(&sums));
        sums.add(1, at(later));
        assert!(is_wide(&sums));
        assert_eq!(sums.sum(Millis::MAX, at(later)), held[0].1 + held[1].1 + 1);
        sums.prune(Millis::from_secs(1), at(later + 1_000));
        assert!(!is_wide(&sums), "narrow again once it is empty");
    }
}

#[test]
fn what_cannot_be_counted_is_refused_or_cut() {
    assert_eq!(SlidingSum::of(&[(at(1), u64::MAX), (at(2), 1)]), None);
    assert_eq!(SlidingSum::of(&[(at(1), 0)]), None);
    assert_eq!(SlidingSum::of(&[(at(2), 1), (at(2), 1)]), None);
    let mut most = SlidingSum::of(&[(at(1), u64::MAX)]).unwrap();
    most.add(7, at(2));
    assert_eq!(most.sum(Millis::MAX, at(2)), u64::MAX);
}
