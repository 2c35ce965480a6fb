//! The accounts, by id and by place, in the order of their insertion.

use std::collections::HashMap;
use std::num::NonZeroUsize;

use lru::LruCache;

use crate::account::AccountId;
use crate::slot::Slot;
use crate::state::AccountState;
use crate::state::cooldown::Block;
use crate::time::Timestamp;

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Roster {
    places: Vec<Place>,
    vacant: Vec<u32>,
    /// Places in the order of insertion.
    order: Vec<u32>,
    by_id: HashMap<AccountId, u32>,
}

#[derive(Clone, Debug, PartialEq)]
struct Place {
    generation: u32,
    state: Option<AccountState>,
}

impl Roster {
    /// The roster of `accounts` in the order of insertion, each in its place; `None` unless their
    /// places and the vacant ones are all places there are, once each, and the ids differ.
    pub(crate) fn of(accounts: Vec<(Slot, AccountState)>, vacant: &[Slot]) -> Option<Self> {
        let count = accounts.len() + vacant.len();
        let mut places: Vec<Option<Place>> = vec![None; count];
        let mut roster = Self::default();
        for slot in vacant {
            let place = places.get_mut(slot.index as usize)?;
            let vacated = Place { generation: slot.generation, state: None };
            place.is_none().then(|| *place = Some(vacated))?;
            roster.vacant.push(slot.index);
        }
        for (slot, state) in accounts {
            let place = places.get_mut(slot.index as usize)?;
            let is_new = roster.by_id.insert(state.id.clone(), slot.index).is_none();
            let taken = Place { generation: slot.generation, state: Some(state) };
            (place.is_none() && is_new).then(|| *place = Some(taken))?;
            roster.order.push(slot.index);
        }
        roster.places = places.into_iter().collect::<Option<_>>()?;
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
    pub(crate) fn insert(&mut self, state: AccountState) -> Option<Slot> {
        let index = match self.vacant.pop() {
            Some(index) => index,
            None => {
                let next = u32::try_from(self.places.len()).ok().filter(|&next| next < u32::MAX)?;
                self.places.push(Place { generation: 0, state: None });
                next
            }
        };
        self.by_id.insert(state.id.clone(), index);
        self.order.push(index);
        let place = &mut self.places[index as usize];
        place.state = Some(state);
        Some(Slot { index, generation: place.generation })
    }

    /// Takes an account out. Its slot is not given to another account. O(accounts).
    pub(crate) fn remove(&mut self, slot: Slot) -> Option<AccountState> {
        let place = self.places.get_mut(slot.index as usize)?;
        let state = place.state.take_if(|_| place.generation == slot.generation)?;
        place.generation = place.generation.wrapping_add(1);
        self.by_id.remove(&state.id);
        self.order.retain(|&index| index != slot.index);
        self.vacant.push(slot.index);
        Some(state)
    }

    pub(crate) fn find(&self, id: &str) -> Option<Slot> {
        let index = *self.by_id.get(id)?;
        Some(Slot { index, generation: self.places[index as usize].generation })
    }

    pub(crate) fn get(&self, slot: Slot) -> Option<&AccountState> {
        let place = self.places.get(slot.index as usize)?;
        place.state.as_ref().filter(|_| place.generation == slot.generation)
    }

    pub(crate) fn get_mut(&mut self, slot: Slot) -> Option<&mut AccountState> {
        let place = self.places.get_mut(slot.index as usize)?;
        place.state.as_mut().filter(|_| place.generation == slot.generation)
    }

    /// Changes every account.
    pub(crate) fn each(&mut self, change: impl FnMut(&mut AccountState)) {
        self.places.iter_mut().filter_map(|place| place.state.as_mut()).for_each(change);
    }

    /// All accounts in the order of their insertion.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Slot, &AccountState)> {
        self.order.iter().filter_map(|&index| {
            let place = &self.places[index as usize];
            Some((Slot { index, generation: place.generation }, place.state.as_ref()?))
        })
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
            self.blocks.put(state.id.clone(), blocks);
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
