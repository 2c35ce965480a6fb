//! What a binding keeps, in few bytes: most bindings of a large table are short and small.

use arrayvec::ArrayVec;

use crate::config::{Order, Stickiness};
use crate::outcome::Usage;
use crate::slot::Slot;
use crate::state::usage::UsageTotals;
use crate::sticky::trail::{Stop, Trail};
use crate::time::{Millis, Timestamp};

/// A [`Trail`] in the table.
///
/// It is short while it has at most [`SHORT`] stops within less than 50 days. One that becomes
/// longer takes an allocation, which it keeps for the rest of the binding's life.
#[derive(Clone, Debug)]
pub(crate) struct KeptTrail(Form);

#[derive(Clone, Debug)]
enum Form {
    Short(Short),
    Long(Box<Trail>),
}

/// As many stops as a trail has by default.
const SHORT: usize = 4;

/// Some stops, one of which is the home.
#[derive(Clone, Debug)]
struct Short {
    /// When the first stop served.
    newest: Timestamp,
    /// The accounts, and how many milliseconds before the first one each served.
    stops: ArrayVec<(Slot, u32), SHORT>,
    /// Which stop is the home.
    home: u8,
}

impl Short {
    /// The short form of a trail that has one.
    fn of(trail: &Trail) -> Option<Self> {
        let newest = trail.stops().first()?.at;
        let home = trail.stops().iter().position(|stop| stop.slot == trail.home())?;
        let mut short =
            Self { newest, stops: ArrayVec::new(), home: u8::try_from(home).unwrap_or_default() };
        for stop in trail.stops() {
            let age = newest.as_millis().checked_sub(stop.at.as_millis())?;
            short.stops.try_push((stop.slot, u32::try_from(age).ok()?)).ok()?;
        }
        Some(short)
    }

    fn stop(&self, index: usize) -> Option<Stop> {
        self.stops.get(index).map(|&kept| self.unfolded(kept))
    }

    fn unfolded(&self, (slot, age): (Slot, u32)) -> Stop {
        Stop { slot, at: self.newest.minus(Millis::new(age.into())) }
    }
}

impl From<Trail> for KeptTrail {
    fn from(trail: Trail) -> Self {
        Self(match Short::of(&trail) {
            Some(short) => Form::Short(short),
            None => Form::Long(Box::new(trail)),
        })
    }
}

impl PartialEq for KeptTrail {
    /// Equal trails are equal, however they are kept.
    fn eq(&self, other: &Self) -> bool {
        self.trail() == other.trail()
    }
}

impl KeptTrail {
    /// Keeps another trail.
    pub(crate) fn replace(&mut self, trail: Trail) {
        match &mut self.0 {
            Form::Long(kept) => **kept = trail,
            Form::Short(kept) => match Short::of(&trail) {
                Some(short) => *kept = short,
                None => self.0 = Form::Long(Box::new(trail)),
            },
        }
    }

    /// The trail.
    pub(crate) fn trail(&self) -> Trail {
        match &self.0 {
            Form::Short(short) => {
                let home = self.home();
                Trail::of((0..SHORT).map_while(|index| short.stop(index)).collect(), home)
            }
            Form::Long(trail) => Trail::clone(trail),
        }
    }

    /// See [`Trail::current`].
    pub(crate) fn current(
        &self,
        left: impl Fn(Slot) -> bool,
        policy: &Stickiness,
        now: Timestamp,
    ) -> Trail {
        self.trail().current(left, policy, now)
    }

    /// Whether the trail counts at `now` as it is, so that [`current`](Self::current) would only
    /// unfold it.
    #[inline]
    pub(crate) fn is_current(
        &self,
        left: impl Fn(Slot) -> bool,
        policy: &Stickiness,
        now: Timestamp,
    ) -> bool {
        match &self.0 {
            // Most trails are of one account, and no trail is too short for that.
            Form::Short(Short { newest, stops, .. }) if stops.len() == 1 => {
                let only = Stop { slot: stops[0].0, at: *newest };
                only.is_warm(true, policy, now) && !left(only.slot)
            }
            _ => self.is_current_whole(left, policy, now),
        }
    }

    /// The same of any trail.
    #[inline(never)]
    fn is_current_whole(
        &self,
        left: impl Fn(Slot) -> bool,
        policy: &Stickiness,
        now: Timestamp,
    ) -> bool {
        let stays = |(index, stop): (usize, Stop)| {
            stop.is_warm(index == 0, policy, now) && !left(stop.slot)
        };
        self.len() <= policy.trail_len() && self.stops().iter().enumerate().all(stays)
    }

    /// Notes that the only account of the trail has served again; `false`, and nothing noted, when
    /// it is another one or not the only one.
    pub(crate) fn serves_again(&mut self, slot: Slot, now: Timestamp) -> bool {
        match &mut self.0 {
            Form::Short(short) if matches!(*short.stops, [(only, _)] if only == slot) => {
                short.newest = now;
                true
            }
            _ => false,
        }
    }

    fn len(&self) -> usize {
        match &self.0 {
            Form::Short(short) => short.stops.len(),
            Form::Long(trail) => trail.stops().len(),
        }
    }

    /// See [`Trail::home`].
    pub(crate) fn home(&self) -> Slot {
        match &self.0 {
            Form::Short(short) => short.stops[usize::from(short.home)].0,
            Form::Long(trail) => trail.home(),
        }
    }

    /// See [`Trail::first`].
    pub(crate) fn first(&self, order: Order) -> Option<Slot> {
        match &self.0 {
            Form::Short(short) => match order {
                Order::MostRecent => short.stops.first().map(|&(slot, _)| slot),
                Order::HomeFirst => Some(self.home()),
            },
            Form::Long(trail) => trail.first(order),
        }
    }

    /// See [`Trail::stops`].
    pub(crate) fn stops(&self) -> Stops<'_> {
        Stops(self)
    }

    /// When `slot` leaves the trail by time alone, in a binding that lapses at `lapses`; `None`
    /// when it is not in it.
    pub(crate) fn stays_until(
        &self,
        slot: Slot,
        lapses: Timestamp,
        policy: &Stickiness,
    ) -> Option<Timestamp> {
        self.trail().stays_until(slot, lapses, policy)
    }

    fn stop(&self, index: usize) -> Option<Stop> {
        match &self.0 {
            Form::Short(short) => short.stop(index),
            Form::Long(trail) => trail.stops().get(index).copied(),
        }
    }
}

/// The stops of a [`KeptTrail`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stops<'a>(&'a KeptTrail);

impl<'a> Stops<'a> {
    pub(crate) fn iter(self) -> impl Iterator<Item = Stop> + use<'a> {
        (0..).map_while(move |index| self.0.stop(index))
    }
}

/// [`UsageTotals`] in the table: in half of the bytes while all of them are small, and out of
/// line from then on.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct KeptUsage {
    /// In the order of the fields; zero once `large` is there.
    small: [u32; 8],
    large: Option<Box<UsageTotals>>,
}

impl KeptUsage {
    /// Adds up a success.
    #[inline]
    pub(crate) fn add(&mut self, usage: &Usage) {
        if usage.is_zero() && self.large.is_none() && self.small[0] < u32::MAX {
            self.small[0] += 1;
        } else {
            self.add_amounts(usage);
        }
    }

    #[inline(never)]
    fn add_amounts(&mut self, usage: &Usage) {
        let more = amounts(usage);
        let sums: [u64; 8] = std::array::from_fn(|at| more[at].wrapping_add(self.small[at].into()));
        // Where all of what is added is small, no sum has wrapped.
        let all = more.iter().chain(&sums).fold(0, |all, number| all | number);
        if self.large.is_none() && all <= u32::MAX.into() {
            self.small = sums.map(low);
        } else {
            self.add_large(usage);
        }
    }

    #[cold]
    fn add_large(&mut self, usage: &Usage) {
        let mut totals = self.totals();
        totals.add(usage);
        self.replace(totals);
    }

    /// The totals.
    pub(crate) fn totals(&self) -> UsageTotals {
        if let Some(large) = &self.large {
            return **large;
        }
        let [successes, input, output, cache_read, cache_write, reasoning, billable, cost_micros] =
            self.small.map(u64::from);
        UsageTotals {
            successes,
            input,
            output,
            cache_read,
            cache_write,
            reasoning,
            billable,
            cost_micros,
        }
    }

    fn replace(&mut self, totals: UsageTotals) {
        let small = in_order(totals).map(|total| u32::try_from(total).ok());
        match &mut self.large {
            Some(large) => **large = totals,
            None if small.contains(&None) => {
                *self = Self { small: [0; 8], large: Some(Box::new(totals)) };
            }
            None => self.small = small.map(Option::unwrap_or_default),
        }
    }
}

/// The fields of the totals.
#[inline]
fn in_order(totals: UsageTotals) -> [u64; 8] {
    let UsageTotals {
        successes,
        input,
        output,
        cache_read,
        cache_write,
        reasoning,
        billable,
        cost_micros,
    } = totals;
    [successes, input, output, cache_read, cache_write, reasoning, billable, cost_micros]
}

/// A small number in half of the bytes.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the upper half is zero")]
fn low(small: u64) -> u32 {
    small as u32
}

/// What a success adds, in the order of the totals.
#[inline]
fn amounts(usage: &Usage) -> [u64; 8] {
    let mut totals = UsageTotals::default();
    totals.add(usage);
    in_order(totals)
}

impl From<UsageTotals> for KeptUsage {
    fn from(totals: UsageTotals) -> Self {
        let mut kept = Self::default();
        kept.replace(totals);
        kept
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Form, KeptTrail, KeptUsage, SHORT};
    use crate::config::{MAX_TRAIL, Order, Stickiness};
    use crate::outcome::Usage;
    use crate::slot::Slot;
    use crate::state::usage::UsageTotals;
    use crate::sticky::trail::{Stop, Trail};
    use crate::time::Timestamp;

    fn slot(index: u32) -> Slot {
        Slot { index, generation: index / 2 }
    }

    prop_compose! {
        fn trails()(
            ages in prop::collection::vec(
                prop_oneof![4 => 0..4_000_000_u64, 1 => 0..2_u64 << 32], 0..=MAX_TRAIL,
            ),
            newest in prop_oneof![1 => Just(0), 9 => 1_u64 << 34..1 << 60],
            home in 0..MAX_TRAIL + 2,
            is_sorted in prop::bool::weighted(0.9),
        ) -> Trail {
            let mut ages = ages;
            if is_sorted {
                ages.sort_unstable();
            }
            let stop = |(index, age): (u32, &u64)| {
                Stop { slot: slot(index), at: Timestamp::from_millis(newest.saturating_sub(*age)) }
            };
            Trail::of((0..).zip(&ages).map(stop).collect(), slot(u32::try_from(home).unwrap()))
        }
    }

    proptest! {
        #[test]
        fn a_kept_trail_answers_as_the_trail_itself(one in trails(), other in trails()) {
            let mut kept = KeptTrail::from(one.clone());
            for (round, trail) in [one, other.clone()].iter().enumerate() {
                if round > 0 {
                    kept.replace(other.clone());
                    prop_assert_eq!(&kept, &KeptTrail::from(other.clone()));
                }
                prop_assert_eq!(&kept.trail(), trail);
                prop_assert!(kept.stops().iter().eq(trail.stops().iter().copied()));
                prop_assert_eq!(kept.home(), trail.home());
                let now = trail.stops().first().map_or(Timestamp::ZERO, |stop| stop.at);
                let left = |slot: Slot| slot.index % 3 == 1;
                let policy = Stickiness { trail: 2, ..Stickiness::default() };
                let current = trail.clone().current(left, &policy, now);
                prop_assert_eq!(kept.current(left, &policy, now), current.clone());
                if trail.stops().iter().any(|stop| stop.slot == trail.home()) {
                    prop_assert_eq!(kept.is_current(left, &policy, now), current == *trail);
                }
                for order in [Order::MostRecent, Order::HomeFirst] {
                    prop_assert_eq!(kept.first(order), trail.first(order));
                }
                let policy = Stickiness::default();
                for index in 0..10 {
                    let stays = |at| trail.stays_until(slot(index), at, &policy);
                    let kept_until = kept.stays_until(slot(index), Timestamp::MAX, &policy);
                    prop_assert_eq!(kept_until, stays(Timestamp::MAX));
                }
            }
        }
    }

    #[test]
    fn a_trail_of_the_default_length_is_short() {
        let policy = Stickiness::default();
        assert_eq!(policy.trail_len(), SHORT);
        let mut trail = Trail::new(slot(999), Timestamp::ZERO);
        for turn in 0..100 {
            let now = Timestamp::from_millis(u64::from(turn) * 40_000_000);
            trail.served(slot(turn), &policy, now);
            assert_eq!(trail.stops().len(), SHORT.min(2 + turn as usize));
            let kept = KeptTrail::from(trail.clone());
            assert!(matches!(kept.0, Form::Short(_)));
        }
        assert!(size_of::<KeptTrail>() * 2 <= size_of::<Trail>());
    }

    fn amounts() -> impl Strategy<Value = u64> {
        let half = u64::from(u32::MAX);
        prop_oneof![
            4 => Just(0), 4 => 0..100_u64, 2 => half - 2..half + 3, 1 => u64::MAX - 2..=u64::MAX,
        ]
    }

    prop_compose! {
        fn usages()(amounts in prop::array::uniform7(amounts()), unknown in any::<bool>()) -> Usage {
            let [input, output, cache_read, cache_write, reasoning, reported_total, cost_micros] =
                if unknown { [0; 7] } else { amounts };
            Usage { input, output, cache_read, cache_write, reasoning, reported_total, cost_micros }
        }
    }

    proptest! {
        #[test]
        fn kept_use_adds_up_as_the_totals_do(
            successes in amounts(), usages in prop::collection::vec(usages(), 1..6),
        ) {
            let mut totals = UsageTotals { successes, ..UsageTotals::default() };
            let mut kept = KeptUsage::from(totals);
            for usage in &usages {
                kept.add(usage);
                totals.add(usage);
                prop_assert_eq!(kept.totals(), totals);
            }
        }
    }

    #[test]
    fn no_use_is_lost_where_totals_grow_out_of_small_numbers() {
        let (mut kept, mut totals) = (KeptUsage::default(), UsageTotals::default());
        for turn in 0..70_u64 {
            let usage = Usage {
                input: turn,
                output: 1,
                cost_micros: u64::from(u32::MAX) / 60,
                ..Usage::default()
            };
            kept.add(&usage);
            totals.add(&usage);
            assert_eq!(kept.totals(), totals);
            assert_eq!(kept, KeptUsage::from(totals));
        }
        assert!(kept.large.is_some());
        let most = UsageTotals { input: u64::MAX, ..UsageTotals::default() };
        let mut most = KeptUsage::from(most);
        most.add(&Usage { input: 1, output: 2, ..Usage::default() });
        assert_eq!((most.totals().input, most.totals().output), (u64::MAX, 2));
    }
}
