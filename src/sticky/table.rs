//! The table of bindings: bounded, least recently used first out, shared fairly by the tenants.

use std::cmp::Reverse;
use std::fmt;
use std::num::NonZeroU32;

use crate::chunks::Chunks;
use crate::config::{Order, Stickiness};
use crate::lookup::Lookup;
use crate::outcome::Usage;
use crate::slot::Slot;
use crate::sticky::holders::{Holders, NONE};
use crate::sticky::kept::{KeptTrail, KeptUsage};
use crate::sticky::{BindingKey, Tenant};
use crate::time::Timestamp;

/// A conversation's binding.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Binding {
    pub(crate) trail: KeptTrail,
    pub(crate) tenant: Tenant,
    pub(crate) last_used: Timestamp,
    pub(crate) usage: KeptUsage,
}

impl Binding {
    /// Whether it has been silent too long.
    pub(crate) fn has_lapsed(&self, policy: &Stickiness, now: Timestamp) -> bool {
        self.lapses(policy) <= now
    }

    /// When it will have been silent too long.
    pub(crate) fn lapses(&self, policy: &Stickiness) -> Timestamp {
        policy.lapses(self.last_used)
    }
}

/// A binding that changed the account under which it counts; `None` is no account.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Shift {
    pub(crate) from: Option<Slot>,
    pub(crate) to: Option<Slot>,
}

/// A key, and where its binding lay when it was looked up, so that it is found again without
/// another search. The place is a hint: it may hold another binding by now, or none.
#[derive(Clone, Copy)]
pub(crate) struct Bound {
    pub(crate) key: BindingKey,
    /// One more than the index of the node.
    hint: NonZeroU32,
}

impl Bound {
    /// A key that was not found, or not looked up.
    #[inline]
    pub(crate) fn nowhere(key: BindingKey) -> Self {
        Self { key, hint: NonZeroU32::MAX }
    }

    /// A key whose binding was found there.
    #[inline]
    pub(crate) fn at(key: BindingKey, node: u32) -> Self {
        Self { key, hint: NonZeroU32::MIN.saturating_add(node) }
    }

    #[inline]
    fn node(&self) -> u32 {
        self.hint.get() - 1
    }
}

impl PartialEq for Bound {
    /// Where it lies makes no difference between keys.
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl fmt::Debug for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.key.fmt(f)
    }
}

/// All bindings, in a slab whose nodes form a list from the least to the most recently used, and
/// one such list for each tenant.
///
/// Lapsed bindings are a prefix of that list. They count for nothing, but keep their place until
/// they are looked up, which tells an expiry from a miss, or until the place is needed.
///
/// Look-up and refresh cost O(1), insertion and removal O(log tenants), and so does finding who
/// gives way in a full table: where tenants have used their oldest bindings since, amortised over
/// these uses.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bindings {
    index: Lookup,
    nodes: Chunks<Node>,
    vacant: u32,
    /// The least recently used.
    head: u32,
    /// The most recently used.
    tail: u32,
    /// The least recently used that has not lapsed.
    fresh: u32,
    lapsed: usize,
    holders: Holders,
    /// How often a binding was made or used.
    uses: u64,
}

#[derive(Clone, Debug, PartialEq)]
struct Node {
    key: BindingKey,
    binding: Option<Binding>,
    lapsed: bool,
    previous: u32,
    next: u32,
    /// The number of its last use.
    used: u64,
    /// Whose it is, and its neighbours among what that tenant holds.
    holder: u32,
    older: u32,
    newer: u32,
}

/// Where a node was, and whether its binding had lapsed.
#[derive(Clone, Copy)]
struct Left {
    previous: u32,
    next: u32,
    lapsed: bool,
}

impl Node {
    /// Whether it holds the binding of `key`.
    #[inline]
    fn holds(&self, key: &BindingKey) -> bool {
        self.key == *key && self.binding.is_some()
    }

    /// Follows the tail of the list, if it is another node, as that of a binding used just now.
    #[inline]
    fn move_behind(&mut self, tail: u32) -> Left {
        let Self { previous, next, lapsed, .. } = *self;
        self.lapsed = false;
        if next != NONE {
            (self.previous, self.next) = (tail, NONE);
        }
        Left { previous, next, lapsed }
    }
}

impl Default for Bindings {
    fn default() -> Self {
        Self {
            index: Lookup::default(),
            nodes: Chunks::default(),
            vacant: NONE,
            head: NONE,
            tail: NONE,
            fresh: NONE,
            lapsed: 0,
            holders: Holders::default(),
            uses: 0,
        }
    }
}

impl Bindings {
    /// Bindings that have not lapsed.
    pub(crate) fn len(&self) -> usize {
        self.index.len() - self.lapsed
    }

    /// Bindings that hold a place, lapsed ones included.
    pub(crate) fn places(&self) -> usize {
        self.index.len()
    }

    /// The binding of `key`, lapsed or not, without freshening it.
    pub(crate) fn peek(&self, key: &BindingKey) -> Option<&Binding> {
        self.nodes[self.find(key)? as usize].binding.as_ref()
    }

    /// The binding of `key` if it is alive at `now`. One that has been counted out stays lapsed,
    /// whatever the policy has become since.
    #[inline]
    pub(crate) fn alive(
        &self,
        key: &BindingKey,
        policy: &Stickiness,
        now: Timestamp,
    ) -> Option<&Binding> {
        self.find_alive(key, policy, now).map(|(_, binding)| binding)
    }

    /// The same, and where it lies.
    #[inline]
    pub(crate) fn find_alive(
        &self,
        key: &BindingKey,
        policy: &Stickiness,
        now: Timestamp,
    ) -> Option<(u32, &Binding)> {
        let index = self.find(key)?;
        let node = &self.nodes[index as usize];
        let binding = node.binding.as_ref()?;
        let is_alive = !node.lapsed && !binding.has_lapsed(policy, now);
        is_alive.then_some((index, binding))
    }

    /// The binding of `key`, without freshening it.
    pub(crate) fn peek_mut(&mut self, key: &BindingKey) -> Option<&mut Binding> {
        let node = self.find(key)?;
        self.nodes[node as usize].binding.as_mut()
    }

    /// Makes a binding the most recently used.
    pub(crate) fn refresh(&mut self, bound: &Bound, now: Timestamp) {
        let Some(node) = self.find_again(bound) else {
            return;
        };
        if let Some(binding) = &mut self.nodes[node as usize].binding {
            binding.last_used = now;
        }
        self.renew(node);
    }

    /// Notes that the only account of a binding has served again, which makes the binding the most
    /// recently used; `false`, and nothing noted, when that is not what the key has.
    #[inline]
    pub(crate) fn serves_again(
        &mut self,
        bound: &Bound,
        slot: Slot,
        usage: &Usage,
        now: Timestamp,
    ) -> bool {
        let Some(index) = self.find_again(bound) else {
            return false;
        };
        let node = &mut self.nodes[index as usize];
        let Some(binding) = node.binding.as_mut().filter(|_| !node.lapsed) else {
            return false;
        };
        let again = binding.trail.serves_again(slot, now);
        if again {
            binding.last_used = now;
            binding.usage.add(usage);
            let left = node.move_behind(self.tail);
            self.fill_in(left, index);
        }
        again
    }

    /// Removes the binding of `key`.
    pub(crate) fn remove(&mut self, key: &BindingKey) -> Option<Binding> {
        let nodes = &self.nodes;
        let node = self.index.remove(key.hash(), |node| nodes[node as usize].key == *key)?;
        self.unlink(node);
        self.leave_holder(node);
        let place = &mut self.nodes[node as usize];
        let binding = place.binding.take();
        place.next = self.vacant;
        self.vacant = node;
        if let Some(binding) = &binding {
            self.holders.count_out(binding.tenant, place.holder);
        }
        binding
    }

    /// Adds a binding, which is the most recently used, under a key that has none.
    pub(crate) fn insert(&mut self, key: BindingKey, binding: Binding) {
        self.uses += 1;
        let used = self.uses;
        let holder = self.holders.count_in(binding.tenant, used);
        let [previous, next, older, newer] = [NONE; 4];
        let (binding, lapsed) = (Some(binding), false);
        let node = Node { key, binding, lapsed, previous, next, used, holder, older, newer };
        let index = if self.vacant == NONE {
            self.nodes.push(node);
            u32::try_from(self.nodes.len() - 1).expect("the capacity is less than 2^32")
        } else {
            let index = self.vacant;
            self.vacant = self.nodes[index as usize].next;
            self.nodes[index as usize] = node;
            index
        };
        self.append(index);
        self.join_holder(index);
        self.index.insert(key.hash(), index);
    }

    /// Which binding gives way: a lapsed one, else the least recently used of the tenants that
    /// hold the most, the new one of `newcomer` counted. These are furthest over their fair share,
    /// since all shares are equal.
    pub(crate) fn victim(&mut self, newcomer: Option<Tenant>) -> Option<BindingKey> {
        let oldest = self.nodes.get(self.head as usize)?;
        if oldest.lapsed {
            return Some(oldest.key);
        }
        let used = |node| self.nodes[node as usize].used;
        let first = self.holders.first(used)?;
        let own = newcomer.and_then(|tenant| self.holders.find(tenant));
        let oldest_of = |holder| self.holders.get(holder).oldest;
        let gives = match own.filter(|&own| own != first) {
            Some(own) => {
                // The more, and of equally many the older one.
                let own_order = (self.holders.held(own) + 1, Reverse(used(oldest_of(own))));
                let order = (self.holders.held(first), Reverse(used(oldest_of(first))));
                if own_order > order { own } else { first }
            }
            None => first,
        };
        Some(self.nodes[oldest_of(gives) as usize].key)
    }

    /// Marks what has lapsed by `now`; reports each shift to `shifted`.
    pub(crate) fn lapse(
        &mut self,
        policy: &Stickiness,
        now: Timestamp,
        mut shifted: impl FnMut(Shift),
    ) {
        while let Some(node) = self.nodes.get_mut(self.fresh as usize)
            && let Some(binding) = &node.binding
            && binding.has_lapsed(policy, now)
        {
            shifted(Shift { from: binding.trail.first(policy.order), to: None });
            node.lapsed = true;
            self.fresh = node.next;
            self.lapsed += 1;
        }
    }

    /// The bindings that have lapsed by `now` and are not counted out yet.
    pub(crate) fn overdue(
        &self,
        policy: &Stickiness,
        now: Timestamp,
    ) -> impl Iterator<Item = &Binding> {
        let first = self.nodes.get(self.fresh as usize);
        let nodes = std::iter::successors(first, |node| self.nodes.get(node.next as usize));
        let bindings = nodes.filter_map(|node| node.binding.as_ref());
        bindings.take_while(move |binding| binding.has_lapsed(policy, now))
    }

    /// When the next binding lapses that is not counted out.
    pub(crate) fn next_lapse(&self, policy: &Stickiness) -> Option<Timestamp> {
        let oldest = self.nodes.get(self.fresh as usize)?.binding.as_ref();
        oldest.map(|binding| binding.lapses(policy))
    }

    /// Whether the binding of `key` has been counted out as lapsed.
    pub(crate) fn is_lapsed(&self, key: &BindingKey) -> bool {
        self.find(key).is_some_and(|node| self.nodes[node as usize].lapsed)
    }

    /// The live bindings, least recently used first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&BindingKey, &Binding)> {
        let live = self.by_age().filter(|node| !node.lapsed);
        live.filter_map(|node| Some((&node.key, node.binding.as_ref()?)))
    }

    /// All places, lapsed ones included, least recently used first.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&BindingKey, &Binding)> {
        self.by_age().filter_map(|node| Some((&node.key, node.binding.as_ref()?)))
    }

    /// Marks the `count` least recently used as lapsed, in a table where none is.
    pub(crate) fn mark_lapsed(&mut self, count: usize) {
        while self.lapsed < count
            && let Some(node) = self.nodes.get_mut(self.fresh as usize)
        {
            node.lapsed = true;
            self.fresh = node.next;
            self.lapsed += 1;
        }
    }

    /// The keys of all places, lapsed ones included.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &BindingKey> {
        self.by_age().map(|node| &node.key)
    }

    /// Recounts under which account each live binding counts, after a change of the order.
    pub(crate) fn firsts(&self, order: Order) -> impl Iterator<Item = Slot> {
        self.iter().filter_map(move |(_, binding)| binding.trail.first(order))
    }

    /// The node of a key that was found before.
    #[inline]
    fn find_again(&self, bound: &Bound) -> Option<u32> {
        let node = self.nodes.get(bound.node() as usize);
        let is_there = node.is_some_and(|node| node.holds(&bound.key));
        if is_there { Some(bound.node()) } else { self.find_anew(&bound.key) }
    }

    #[inline(never)]
    fn find_anew(&self, key: &BindingKey) -> Option<u32> {
        self.find(key)
    }

    #[inline]
    fn find(&self, key: &BindingKey) -> Option<u32> {
        self.index.find(key.hash(), |node| self.nodes[node as usize].key == *key)
    }

    fn by_age(&self) -> impl Iterator<Item = &Node> {
        let oldest = self.nodes.get(self.head as usize);
        std::iter::successors(oldest, |node| self.nodes.get(node.next as usize))
    }

    /// Makes a node the last of the list, as that of a binding used just now.
    #[inline]
    fn renew(&mut self, index: u32) {
        let left = self.nodes[index as usize].move_behind(self.tail);
        self.fill_in(left, index);
    }

    /// Joins what a node has left, and makes it the last of the list.
    #[inline]
    fn fill_in(&mut self, left: Left, index: u32) {
        let Left { previous, next, lapsed } = left;
        if lapsed {
            self.lapsed -= 1;
        }
        if next != NONE {
            if self.fresh == index {
                self.fresh = next;
            }
            self.join(previous, next);
            self.follow_tail(index);
            self.use_again(index);
        }
        if self.fresh == NONE {
            self.fresh = index;
        }
    }

    /// Makes a node the most recently used of its tenant.
    #[inline]
    fn use_again(&mut self, index: u32) {
        self.uses += 1;
        let node = &mut self.nodes[index as usize];
        node.used = self.uses;
        let Node { holder, older, newer, .. } = *node;
        if newer == NONE {
            return;
        }
        // As if it left and joined, in one step, since every use of a binding comes here.
        let holder = self.holders.get_mut(holder);
        (node.older, node.newer) = (holder.newest, NONE);
        let newest = std::mem::replace(&mut holder.newest, index);
        match self.nodes.get_mut(older as usize) {
            Some(node) => node.newer = newer,
            None => holder.oldest = newer,
        }
        self.nodes[newer as usize].older = older;
        self.nodes[newest as usize].newer = index;
    }

    /// Takes a node out of what its tenant holds.
    fn leave_holder(&mut self, index: u32) {
        let Node { holder, older, newer, .. } = self.nodes[index as usize];
        match self.nodes.get_mut(older as usize) {
            Some(node) => node.newer = newer,
            None => self.holders.get_mut(holder).oldest = newer,
        }
        match self.nodes.get_mut(newer as usize) {
            Some(node) => node.older = older,
            None => self.holders.get_mut(holder).newest = older,
        }
    }

    /// Puts a node at the end of what its tenant holds.
    fn join_holder(&mut self, index: u32) {
        let holder = self.holders.get_mut(self.nodes[index as usize].holder);
        let newest = std::mem::replace(&mut holder.newest, index);
        if newest == NONE {
            holder.oldest = index;
        }
        let node = &mut self.nodes[index as usize];
        (node.older, node.newer) = (newest, NONE);
        if let Some(node) = self.nodes.get_mut(newest as usize) {
            node.newer = index;
        }
    }

    fn append(&mut self, index: u32) {
        let node = &mut self.nodes[index as usize];
        (node.previous, node.next) = (self.tail, NONE);
        self.follow_tail(index);
        if self.fresh == NONE {
            self.fresh = index;
        }
    }

    fn unlink(&mut self, index: u32) {
        let node = &mut self.nodes[index as usize];
        let (previous, next) = (node.previous, node.next);
        if std::mem::take(&mut node.lapsed) {
            self.lapsed -= 1;
        }
        if self.fresh == index {
            self.fresh = next;
        }
        self.join(previous, next);
    }

    /// Makes a node that follows the tail the tail.
    #[inline]
    fn follow_tail(&mut self, index: u32) {
        let tail = std::mem::replace(&mut self.tail, index);
        match self.nodes.get_mut(tail as usize) {
            Some(last) => last.next = index,
            None => self.head = index,
        }
    }

    /// Lets one node follow the other, which takes what was between them out of the list.
    #[inline]
    fn join(&mut self, previous: u32, next: u32) {
        match self.nodes.get_mut(previous as usize) {
            Some(node) => node.next = next,
            None => self.head = next,
        }
        match self.nodes.get_mut(next as usize) {
            Some(node) => node.previous = previous,
            None => self.tail = previous,
        }
    }
}

#[cfg(test)]
mod tests;
