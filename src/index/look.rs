//! What the index learns of an account that it looks at.

use super::group::{Barring, Leaf, Membership, Settled};
use super::kind::is_quota_apart;
use super::{Index, Ranked, Summary};
use crate::roster::touched::Touch;
use crate::select::eligible::{eligible, has_capacity};
use crate::select::query::{Query, View};
use crate::select::rank;
use crate::slot::Slot;
use crate::state::AccountState;
use crate::state::cooldown::Target;
use crate::state::window::Reading;
use crate::time::{Timestamp, earliest};

impl Index {
    /// Notes what is known about the account in a place, about which so much may have changed
    /// beside what time has.
    #[inline]
    pub(super) fn look_at(&mut self, place: u32, touch: Touch, plain: &Query<'_>, view: &View<'_>) {
        let Some((slot, state)) = view.roster.at(place) else {
            return self.deadlines.set(place, Timestamp::MAX);
        };
        let is_known =
            touch <= Touch::Load && self.look_again(place, slot, state, plain, view).is_some();
        if !is_known {
            self.look_closely(place, slot, state, plain, view);
        }
    }

    /// Notes the load and the windows of an account about which nothing else has changed; `None`
    /// where that may not be so, or where something bars it.
    fn look_again(
        &mut self,
        place: u32,
        slot: Slot,
        state: &AccountState,
        plain: &Query<'_>,
        view: &View<'_>,
    ) -> Option<()> {
        let leaf = self.leaves.get_mut(place as usize)?;
        let Membership::Of(index) = leaf.group else {
            return None;
        };
        let until = leaf.settled.until;
        let reading = state.windows.read(view.now);
        if view.now >= until || !has_capacity(state, slot, reading, plain, view) {
            return None;
        }
        if leaf.order != self.order_number {
            leaf.settle_anew(self.order_number, state, slot, plain, view);
        }
        let bottom = leaf.bottom;
        let key = rank::moving(state, slot, reading, plain, view).with(leaf.settled.merit);
        debug_assert_eq!(key, rank::key(state, slot, plain, view), "the rest has not changed");
        debug_assert_eq!(eligible(state, slot, false, plain, view), Ok(()), "nothing else bars it");
        debug_assert_eq!(until, settled_until(state, view), "nothing else ends");
        let rules = self.rules();
        let group = &mut self.groups[index as usize];
        let ranked = Ranked::of(state, place, key, view.now);
        group.ranked.set_in(bottom, state.number, &ranked, rules);
        if !self.is_behind {
            self.reorder(index as usize);
        }
        self.deadlines.set(place, moves_at(state, reading, until, view));
        Some(())
    }

    /// Notes all that is known about an account.
    #[inline(never)]
    fn look_closely(
        &mut self,
        place: u32,
        slot: Slot,
        state: &AccountState,
        plain: &Query<'_>,
        view: &View<'_>,
    ) {
        let joins = self.sort_in(place, slot, state, view);
        let until = settled_until(state, view);
        let reading = state.windows.read(view.now);
        let mut deadline = moves_at(state, reading, until, view);
        let rules = self.rules();
        let leaf = &mut self.leaves[place as usize];
        let Membership::Of(index) = leaf.group else {
            self.deadlines.set(place, deadline);
            return;
        };

        let group = &mut self.groups[index as usize];
        let base = eligible(state, slot, false, plain, view).err();
        let feeling = group.kind.feeling(view.config);
        let felt = feeling.and_then(|query| eligible(state, slot, false, &query, view).err());
        let merit = rank::settled(state, slot, plain, view);
        let key = rank::moving(state, slot, reading, plain, view).with(merit);
        let ranked = Ranked::of(state, place, key, view.now);
        let serves = if base.is_none() { &ranked } else { &Ranked::EMPTY };
        if joins {
            leaf.bottom = group.ranked.bottom(state.number, place);
        }
        group.ranked.set_in(leaf.bottom, state.number, serves, rules);
        if joins || leaf.is_barred() || base.is_some() || felt.is_some() {
            let ends = base.as_ref().and_then(|_| view.next_lift(state));
            let barring = Barring { base, felt, ends };
            let until = group.bar(place, leaf, ranked, barring, joins, rules);
            deadline = until.map_or(deadline, |until| until.min(deadline));
            self.quiet_until =
                leaf.wakes_at.map_or(self.quiet_until, |at| at.min(self.quiet_until));
        }
        let until = if leaf.is_barred() { Timestamp::ZERO } else { until };
        leaf.settled = Settled { merit, until };
        leaf.order = self.order_number;
        if !self.is_behind {
            self.reorder(index as usize);
        }
        self.deadlines.set(place, deadline);
    }
}

impl Leaf {
    /// Notes the settled part of the key anew, by another order of preference.
    #[cold]
    fn settle_anew(
        &mut self,
        order: u32,
        state: &AccountState,
        slot: Slot,
        plain: &Query<'_>,
        view: &View<'_>,
    ) {
        self.settled.merit = rank::settled(state, slot, plain, view);
        self.order = order;
    }
}

/// When time alone next changes an account's kind, or the part of its key that is
/// [settled](rank::settled); [`Timestamp::MAX`] is never.
fn settled_until(state: &AccountState, view: &View<'_>) -> Timestamp {
    let now = view.now;
    let trouble = state.health.next_exit(&view.config.health, now);
    let mut change = earliest(trouble, state.quota.next_reset(now));
    for block in state.cooldowns.all() {
        // Most cooldowns of the whole account show in the rejection alone.
        let is_apart = is_quota_apart(block.dimension, view.config);
        let only_bars = block.target == Target::Account && !is_apart;
        if !(only_bars && block.is_live(now) && !block.is_cut()) {
            change = earliest(change, block.changes_at(now));
        }
    }
    change.unwrap_or(Timestamp::MAX)
}

/// When time alone next changes the account's key, its kind or the tokens that it has left, given
/// what its request windows say.
#[inline]
fn moves_at(
    state: &AccountState,
    reading: Reading,
    settled_until: Timestamp,
    view: &View<'_>,
) -> Timestamp {
    let exit = earliest(reading.next_exit, state.windows.next_token_exit(view.now));
    exit.map_or(settled_until, |exit| exit.min(settled_until))
}
