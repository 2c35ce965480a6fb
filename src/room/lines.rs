//! Who is next: a line per need, in which tenants take turns.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::need::Need;
use crate::time::Timestamp;

/// A waiter's place in the order; the smallest is first.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Turn {
    background: bool,
    /// The tenant's place among the tenants.
    place: u64,
    pub(super) id: u64,
}

/// The lines. Every operation on one waiter is O(log waiters), times the lines of its tenant when
/// that one goes to the back.
#[derive(Debug, Default)]
pub(super) struct Lines {
    lines: BTreeMap<Arc<Need>, Line>,
    tenants: BTreeMap<u64, Tenant>,
    next_place: u64,
}

#[derive(Debug, Default)]
struct Line {
    /// The waiters, oldest first, by the place of their tenant.
    places: BTreeMap<u64, BTreeSet<u64>>,
    /// When each goes on by itself, those apart that know already that waiting will not help.
    limits: BTreeSet<(Timestamp, u64)>,
}

#[derive(Debug)]
struct Tenant {
    place: u64,
    /// How many of its requests wait in each line.
    lines: BTreeMap<Arc<Need>, usize>,
}

impl Lines {
    /// Enters a waiter; a tenant that had none goes to the back.
    pub(super) fn join(&mut self, need: Need, tenant: u64, id: u64, until: Timestamp) -> Arc<Need> {
        let need = match self.lines.get_key_value(&need) {
            Some((need, _)) => Arc::clone(need),
            None => Arc::new(need),
        };
        let next_place = &mut self.next_place;
        let tenant = self.tenants.entry(tenant).or_insert_with(|| {
            *next_place += 1;
            Tenant { place: *next_place, lines: BTreeMap::new() }
        });
        *tenant.lines.entry(Arc::clone(&need)).or_default() += 1;
        let line = self.lines.entry(Arc::clone(&need)).or_default();
        line.places.entry(tenant.place).or_default().insert(id);
        line.limits.insert((until, id));
        need
    }

    /// Takes a waiter out.
    pub(super) fn leave(&mut self, need: &Arc<Need>, tenant: u64, id: u64, until: Timestamp) {
        let Some(owner) = self.tenants.get_mut(&tenant) else { return };
        if let Some(line) = self.lines.get_mut(need) {
            line.limits.remove(&(until, id));
            if let Some(ids) = line.places.get_mut(&owner.place) {
                ids.remove(&id);
                if ids.is_empty() {
                    line.places.remove(&owner.place);
                }
            }
            if line.places.is_empty() {
                self.lines.remove(need);
            }
        }
        if let Some(count) = owner.lines.get_mut(need) {
            *count -= 1;
            if *count == 0 {
                owner.lines.remove(need);
            }
        }
        if owner.lines.is_empty() {
            self.tenants.remove(&tenant);
        }
    }

    /// Moves a waiter to the line of another need, where it keeps its tenant's place.
    pub(super) fn transfer(
        &mut self,
        from: &Arc<Need>,
        to: Need,
        tenant: u64,
        id: u64,
        until: Timestamp,
    ) -> Arc<Need> {
        if **from == to {
            return Arc::clone(from);
        }
        let to = self.join(to, tenant, id, until);
        self.leave(from, tenant, id, until);
        to
    }

    /// A tenant was served: it goes to the back.
    pub(super) fn served(&mut self, tenant: u64) {
        let Some(tenant) = self.tenants.get_mut(&tenant) else { return };
        self.next_place += 1;
        let before = std::mem::replace(&mut tenant.place, self.next_place);
        for need in tenant.lines.keys() {
            if let Some(line) = self.lines.get_mut(need)
                && let Some(ids) = line.places.remove(&before)
            {
                line.places.insert(tenant.place, ids);
            }
        }
    }

    /// Changes when a waiter goes on by itself.
    pub(super) fn limit(&mut self, need: &Need, id: u64, before: Timestamp, until: Timestamp) {
        if let Some(line) = self.lines.get_mut(need) {
            line.limits.remove(&(before, id));
            line.limits.insert((until, id));
        }
    }

    /// The waiters of a line that go on before `hope`, or all when there is none; each is named
    /// once.
    pub(super) fn hopeless(&mut self, need: &Need, hope: Option<Timestamp>) -> Vec<u64> {
        let mut hopeless = Vec::new();
        let Some(line) = self.lines.get_mut(need) else { return hopeless };
        while let Some(&(until, id)) = line.limits.first()
            && hope.is_none_or(|hope| until < hope)
        {
            line.limits.pop_first();
            hopeless.push(id);
        }
        hopeless
    }

    /// The first of a line.
    pub(super) fn head(&self, need: &Need) -> Option<Turn> {
        let (&place, ids) = self.lines.get(need)?.places.first_key_value()?;
        Some(Turn { background: need.background, place, id: *ids.first()? })
    }

    /// The first of every line.
    pub(super) fn heads(&self) -> impl Iterator<Item = (Turn, &Arc<Need>)> {
        self.lines.keys().filter_map(|need| Some((self.head(need)?, need)))
    }

    /// Whether nobody is in any line, and nothing is kept about anybody.
    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.tenants.is_empty()
    }
}
