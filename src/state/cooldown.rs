//! Cooldowns: who is kept away by what, and until when.

use crate::names::NameId;
use crate::refusal::Dimension;
use crate::time::{Millis, Timestamp};

/// What a cooldown applies to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Target {
    Account,
    Model(NameId),
    Selector(NameId),
}

impl Target {
    /// The name it refers to.
    pub(crate) fn name(self) -> Option<NameId> {
        match self {
            Self::Account => None,
            Self::Model(name) | Self::Selector(name) => Some(name),
        }
    }
}

/// One cooldown: holds in `[set_at, until)`. It is kept for a while after its end, as the memory
/// that escalation and capped hints need.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Block {
    pub(crate) target: Target,
    pub(crate) dimension: Dimension,
    /// The date of the newest evidence for it.
    pub(crate) set_at: Timestamp,
    pub(crate) until: Timestamp,
    /// The upstream's own deadline, which a cap may have cut.
    pub(crate) announced: Timestamp,
    /// The failures in a row that escalation counts, this one included; 0 when no failure made it,
    /// or a success has come since.
    pub(crate) steps: u32,
    /// Changes with each write, so that a block can be cleared as it was seen.
    pub(crate) generation: u64,
    /// Whether an upstream's answer, rather than inference or the operator, made it.
    pub(crate) upstream: bool,
}

impl Block {
    pub(crate) fn is_live(&self, now: Timestamp) -> bool {
        now < self.until
    }

    /// Whether it is a throttle that a cap has cut.
    pub(crate) fn is_cut(&self) -> bool {
        self.dimension == Dimension::Throttle && self.until < self.announced
    }

    /// Whether it is a cut throttle that is over for us but not for the upstream.
    pub(crate) fn is_past_cap(&self, now: Timestamp) -> bool {
        self.is_cut() && !self.is_live(now) && now < self.announced
    }

    /// When it next changes by time: at its end for us, then at that of the upstream.
    pub(crate) fn changes_at(&self, now: Timestamp) -> Option<Timestamp> {
        let announced = Some(self.announced).filter(|_| self.is_cut());
        let ends = [Some(self.until), announced].into_iter().flatten();
        ends.filter(|&end| now < end).min()
    }

    /// Whether its end is so long past that it says nothing any more.
    fn is_forgotten(&self, decay: Millis, now: Timestamp) -> bool {
        let ended = !self.is_live(now) && self.announced <= now;
        ended && self.steps_left(decay, now) == 0
    }

    /// The steps that have not decayed at `now`.
    fn steps_left(&self, decay: Millis, now: Timestamp) -> u32 {
        let decayed = now.since(self.until).as_millis() / decay.as_millis().max(1);
        self.steps.saturating_sub(u32::try_from(decayed).unwrap_or(u32::MAX))
    }
}

/// The cooldowns of one account, at most one per target and dimension.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Cooldowns {
    blocks: Vec<Block>,
}

impl Cooldowns {
    /// The cooldowns in `blocks`; `None` when two are of one target and dimension.
    pub(crate) fn of(blocks: Vec<Block>) -> Option<Self> {
        let mut cooldowns = Self::default();
        for block in blocks {
            if cooldowns.find(block.target, block.dimension).is_some() {
                return None;
            }
            cooldowns.blocks.push(block);
        }
        Some(cooldowns)
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// The cooldowns that hold at `now`.
    pub(crate) fn live(&self, now: Timestamp) -> impl Iterator<Item = &Block> {
        self.blocks.iter().filter(move |block| block.is_live(now))
    }

    /// All that is remembered, past ones included.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Block> {
        self.blocks.iter()
    }

    /// Merges `block` with what is there: the later deadline wins, whatever the order.
    pub(crate) fn extend(&mut self, block: Block, decay: Millis, now: Timestamp) {
        self.blocks.retain(|old| !old.is_forgotten(decay, now));
        match self.find_mut(block.target, block.dimension) {
            Some(old) => {
                *old = Block {
                    set_at: old.set_at.max(block.set_at),
                    until: old.until.max(block.until),
                    announced: old.announced.max(block.announced),
                    upstream: block.upstream || (old.upstream && old.is_live(now)),
                    ..block
                };
            }
            None => self.blocks.push(block),
        }
    }

    /// The steps of escalation of the next failure without a hint, at least 1: one more when the
    /// last cooldown is over and not decayed, the same while it runs.
    pub(crate) fn next_steps(
        &self,
        place: (Target, Dimension),
        decay: Millis,
        now: Timestamp,
    ) -> u32 {
        let runs = self.find(place.0, place.1).is_some_and(|block| block.is_live(now));
        let steps = self.current_steps(place, decay, now);
        if runs { steps.max(1) } else { steps.saturating_add(1) }
    }

    /// The steps of escalation that are left.
    pub(crate) fn current_steps(
        &self,
        (target, dimension): (Target, Dimension),
        decay: Millis,
        now: Timestamp,
    ) -> u32 {
        self.find(target, dimension).map_or(0, |block| block.steps_left(decay, now))
    }

    /// After a success: the escalation of the cooldowns on `targets` starts over.
    pub(crate) fn relax(&mut self, concerns: impl Fn(Target) -> bool) {
        for block in self.blocks.iter_mut().filter(|block| concerns(block.target)) {
            block.steps = 0;
        }
    }

    /// Lifts the cooldowns that `lifted` picks, their memory included; whether there were any.
    pub(crate) fn lift(&mut self, lifted: impl Fn(&Block) -> bool) -> bool {
        let before = self.blocks.len();
        self.blocks.retain(|block| !lifted(block));
        self.blocks.len() < before
    }

    /// Whether a cut throttle on one of `targets` is over for us but not for the upstream.
    pub(crate) fn is_past_cap(&self, concerns: impl Fn(Target) -> bool, now: Timestamp) -> bool {
        self.blocks.iter().any(|block| block.is_past_cap(now) && concerns(block.target))
    }

    fn find(&self, target: Target, dimension: Dimension) -> Option<&Block> {
        self.blocks.iter().find(|block| (block.target, block.dimension) == (target, dimension))
    }

    fn find_mut(&mut self, target: Target, dimension: Dimension) -> Option<&mut Block> {
        self.blocks.iter_mut().find(|block| (block.target, block.dimension) == (target, dimension))
    }
}
