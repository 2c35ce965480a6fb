//! The accounts, by id and by place, in the order of their insertion.

pub(crate) mod touched;
mod weights;

use std::hash::BuildHasher;
use std::num::NonZeroUsize;

use hashbrown::DefaultHashBuilder;
use lru::LruCache;

use self::touched::{Touch, Touched};
use self::weights::Weights;
use crate::account::AccountId;
use crate::chunks::Chunks;
use crate::lookup::Lookup;
use crate::slot::Slot;
use crate::state::AccountState;
use crate::state::cooldown::Block;
use crate::time::Timestamp;

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Roster {
    places: Chunks<Place>,
    vacant: Vec<u32>,
    /// Places in the order of insertion.
    order: Vec<u32>,
    by_id: ById,
    weights: Weights,
    touched: Touched,
}

/// The generation lies before the state, next to what is always read of it.
#[derive(Clone, Debug, PartialEq)]
#[repr(C)]
struct Place {
    generation: u32,
    state: Option<AccountState>,
}

/// The places by the accounts' ids.
#[derive(Clone, Debug, Default)]
struct ById {
    lookup: Lookup,
    /// Seeded at random, since ids may come from whoever signs up.
    hasher: DefaultHashBuilder,
}

impl PartialEq for ById {
    /// What is derived from the accounts, and the seed, make no difference between rosters.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl ById {
    fn find(&self, id: &str, places: &Chunks<Place>) -> Option<u32> {
        self.lookup.find(self.hasher.hash_one(id), |place| places[place as usize].is(id))
    }

    fn insert(&mut self, id: &str, place: u32) {
        self.lookup.insert(self.hasher.hash_one(id), place);
    }

    fn remove(&mut self, id: &str, place: u32) {
        self.lookup.remove(self.hasher.hash_one(id), |it| it == place);
    }
}

/// The account at `slot`.
#[inline(always)]
fn state_in(places: &mut Chunks<Place>, slot: Slot) -> Option<&mut AccountState> {
    let place = places.get_mut(slot.index as usize)?;
    place.state.as_mut().filter(|_| place.generation == slot.generation)
}

impl Place {
    /// Whether the account in it has this id.
    fn is(&self, id: &str) -> bool {
        self.state.as_ref().is_some_and(|state| state.id().as_str() == id)
    }
}

impl Roster {
    /// The roster of `accounts` in the order of insertion, each in its place; `None` unless their
    /// places and the vacant ones are all places there are, once each, their numbers grow and the
    /// ids differ.
    pub(crate) fn of(accounts: Vec<(Slot, AccountState)>, vacant: &[Slot]) -> Option<Self> {
        let count = accounts.len() + vacant.len();
        let mut places: Vec<Option<Place>> = vec![None; count];
        let mut roster = Self::default();
        let mut last_number = None;
        for slot in vacant {
            let place = places.get_mut(slot.index as usize)?;
            let vacated = Place { generation: slot.generation, state: None };
            place.is_none().then(|| *place = Some(vacated))?;
            roster.vacant.push(slot.index);
        }
        for (slot, state) in accounts {
            let place = places.get_mut(slot.index as usize)?;
            let follows = last_number.is_none_or(|last| last < state.number);
            last_number = Some(state.number);
            roster.weights.add(state.weight);
            let taken = Place { generation: slot.generation, state: Some(state) };
            (place.is_none() && follows).then(|| *place = Some(taken))?;
            roster.order.push(slot.index);
            roster.touched.note(slot.index, Touch::Seat);
        }
        roster.places = places.into_iter().collect::<Option<_>>()?;
        for &index in &roster.order {
            if let Some(state) = &roster.places[index as usize].state {
                let id = state.id().as_str();
                let is_new = roster.by_id.find(id, &roster.places).is_none();
                is_new.then(|| roster.by_id.insert(id, index))?;
            }
        }
        Some(roster)
    }

    /// The places without an account, the one to be taken next last.
    pub(crate) fn vacant(&self) -> impl Iterator<Item = Slot> {
        let generation = |index: u32| self.places[index as usize].generation;
        self.vacant.iter().map(move |&index| Slot { index, generation: generation(index) })
    }

    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    /// Adds an account at the end of the order; `None` when all places that can be numbered are
    /// taken. The id must be new.
    pub(crate) fn insert(&mut self, mut state: AccountState) -> Option<Slot> {
        let is_first = self.order.is_empty();
        state.number = if is_first { 0 } else { self.last_number().checked_add(1)? };
        let index = match self.vacant.pop() {
            Some(index) => index,
            None => {
                let next = u32::try_from(self.places.len()).ok().filter(|&next| next < u32::MAX)?;
                self.places.push(Place { generation: 0, state: None });
                next
            }
        };
        self.by_id.insert(state.id().as_str(), index);
        self.weights.add(state.weight);
        self.order.push(index);
        self.touched.note(index, Touch::Seat);
        let place = &mut self.places[index as usize];
        place.state = Some(state);
        Some(Slot { index, generation: place.generation })
    }

    /// Takes an account out. Its slot is not given to another account.
    pub(crate) fn remove(&mut self, slot: Slot) -> Option<AccountState> {
        let place = self.places.get_mut(slot.index as usize)?;
        let state = place.state.take_if(|_| place.generation == slot.generation)?;
        place.generation = place.generation.wrapping_add(1);
        self.by_id.remove(state.id().as_str(), slot.index);
        self.weights.remove(state.weight);
        let is_before = |&index: &u32| index != slot.index && self.number(index) < state.number;
        self.order.remove(self.order.partition_point(is_before));
        self.vacant.push(slot.index);
        self.touched.note(slot.index, Touch::Seat);
        Some(state)
    }

    pub(crate) fn find(&self, id: &str) -> Option<Slot> {
        let index = self.by_id.find(id, &self.places)?;
        Some(Slot { index, generation: self.places[index as usize].generation })
    }

    #[inline]
    pub(crate) fn get(&self, slot: Slot) -> Option<&AccountState> {
        let place = self.places.get(slot.index as usize)?;
        place.state.as_ref().filter(|_| place.generation == slot.generation)
    }

    /// The account at `slot`, to be changed: it counts as touched.
    #[inline]
    pub(crate) fn get_mut(&mut self, slot: Slot) -> Option<&mut AccountState> {
        let state = state_in(&mut self.places, slot)?;
        self.touched.note(slot.index, Touch::All);
        Some(state)
    }

    /// The account at `slot`, for the start or the end of a request. While the breaker rests, that
    /// must change nothing that an answer depends on but load and windows.
    #[inline(always)]
    pub(crate) fn serving_mut(&mut self, slot: Slot) -> Option<&mut AccountState> {
        let state = state_in(&mut self.places, slot)?;
        let rests = state.breaker.is_at_rest();
        self.touched.note(slot.index, if rests { Touch::Load } else { Touch::All });
        Some(state)
    }

    /// How many callers are bound to the account at `slot`, to be changed; it counts as touched if
    /// an answer depends on that.
    pub(crate) fn bound_mut(&mut self, slot: Slot, counts: bool) -> Option<&mut u32> {
        let state = state_in(&mut self.places, slot)?;
        if counts {
            self.touched.note(slot.index, Touch::All);
        }
        Some(&mut state.load.bound)
    }

    /// Counts all accounts as touched.
    pub(crate) fn touch_all(&mut self) {
        self.touched.note_all(self.order.iter().copied(), Touch::All);
    }

    /// The places whose account may have changed since they were last forgotten.
    #[inline]
    pub(crate) fn touched(&self) -> &Touched {
        &self.touched
    }

    /// Counts these as touched too.
    pub(crate) fn touch_again(&mut self, touched: &Touched) {
        touched.iter().for_each(|(place, touch)| self.touched.note(place, touch));
    }

    /// Counts no place as touched.
    pub(crate) fn forget_touched(&mut self) {
        self.touched.clear();
    }

    /// The places in the order of their accounts' insertion.
    pub(crate) fn in_order(&self) -> impl DoubleEndedIterator<Item = u32> {
        self.order.iter().copied()
    }

    /// The slot of the account in a place.
    pub(crate) fn slot_at(&self, index: u32) -> Slot {
        Slot { index, generation: self.places[index as usize].generation }
    }

    /// The account in a place.
    pub(crate) fn at(&self, index: u32) -> Option<(Slot, &AccountState)> {
        let place = self.places.get(index as usize)?;
        Some((Slot { index, generation: place.generation }, place.state.as_ref()?))
    }

    /// How many places there are, vacant ones included.
    pub(crate) fn places(&self) -> u32 {
        u32::try_from(self.places.len()).unwrap_or(u32::MAX)
    }

    /// No account is heavier than this, in thousandths: 1, 2, 4, … times the default weight.
    pub(crate) fn heaviest(&self) -> u64 {
        self.weights.bound()
    }

    /// Notes that an account has another weight than before.
    pub(crate) fn reweigh(&mut self, before: u32, weight: u32) {
        self.weights.remove(before);
        self.weights.add(weight);
    }

    /// The number of the account that was added last; 0 when there is none.
    pub(crate) fn last_number(&self) -> u32 {
        self.order.last().map_or(0, |&place| self.number(place))
    }

    /// The account of a number.
    pub(crate) fn numbered(&self, number: u32) -> Option<(Slot, &AccountState)> {
        let rank = self.order.partition_point(|&place| self.number(place) < number);
        let (slot, state) = self.at(*self.order.get(rank)?)?;
        (state.number == number).then_some((slot, state))
    }

    /// All accounts in the order of their insertion.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Slot, &AccountState)> {
        self.order.iter().filter_map(|&index| self.at(index))
    }

    /// So many of the accounts, spread evenly over the order of insertion.
    pub(crate) fn spread(&self, count: usize) -> impl Iterator<Item = &AccountState> {
        let places = (0..count).map(move |turn| self.order[turn * self.order.len() / count]);
        places.filter_map(|place| Some(self.at(place)?.1))
    }

    fn number(&self, place: u32) -> u32 {
        self.places[place as usize].state.as_ref().map_or(0, |state| state.number)
    }
}

/// What upstreams said about accounts that were removed, for the case that they come back.
#[derive(Clone, Debug)]
pub(crate) struct Departed {
    blocks: LruCache<AccountId, Vec<Block>>,
}

/// How many departed accounts are remembered at most.
pub(crate) const MAX_DEPARTED: usize = 1_024;

impl Default for Departed {
    fn default() -> Self {
        let capacity = NonZeroUsize::new(MAX_DEPARTED).expect("the constant is not zero");
        Self { blocks: LruCache::new(capacity) }
    }
}

impl PartialEq for Departed {
    fn eq(&self, other: &Self) -> bool {
        self.blocks.iter().eq(&other.blocks)
    }
}

impl Departed {
    /// Remembers the live upstream blocks of an account that leaves.
    pub(crate) fn remember(&mut self, state: &AccountState, now: Timestamp) {
        let live = state.cooldowns.live(now).filter(|block| block.upstream);
        let blocks: Vec<Block> = live.copied().collect();
        if !blocks.is_empty() {
            self.blocks.put(state.id().clone(), blocks);
        }
    }

    /// The blocks of an account that comes back.
    pub(crate) fn recall(&mut self, id: &AccountId) -> Vec<Block> {
        self.blocks.pop(id).unwrap_or_default()
    }

    /// The accounts that are remembered with their blocks; the first to be forgotten comes first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&AccountId, &[Block])> {
        self.blocks.iter().rev().map(|(id, blocks)| (id, blocks.as_slice()))
    }

    /// Remembers the blocks of an account as the last to be forgotten; `false` when it is
    /// remembered already or there is no room.
    pub(crate) fn insert(&mut self, id: AccountId, blocks: Vec<Block>) -> bool {
        let fits = self.blocks.len() < MAX_DEPARTED && !self.blocks.contains(&id);
        if fits {
            self.blocks.put(id, blocks);
        }
        fits
    }

    /// All that is remembered.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = &Block> {
        self.blocks.iter().flat_map(|(_, blocks)| blocks)
    }
}
