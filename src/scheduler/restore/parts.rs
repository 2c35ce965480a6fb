//! The parts of a snapshot that stand for themselves, checked.

use arrayvec::ArrayVec;

use crate::account::AccountId;
use crate::config::MAX_TRAIL;
use crate::outcome::QuotaReading;
use crate::roster::Roster;
use crate::sliding::SlidingSum;
use crate::slot::Slot;
use crate::snapshot::SnapshotError;
use crate::snapshot::saved::{
    SavedAmounts, SavedBinding, SavedBreaker, SavedCounters, SavedStreak,
};
use crate::stats::Stats;
use crate::sticky::trail::{Stop, Trail};
use crate::time::Timestamp;

/// The largest count that is believed: none can get there by counting, and adding to it never
/// overflows.
const MAX_COUNT: u64 = 1 << 53;

/// The highest step of escalation that is believed; lengths are computed step by step.
pub(super) const MAX_STEPS: u32 = 1 << 20;

pub(super) fn trail(saved: &SavedBinding, roster: &Roster) -> Result<Trail, SnapshotError> {
    const PART: &str = "bindings.trail";
    if saved.trail.len() > MAX_TRAIL {
        return Err(SnapshotError::TooLong { part: PART, most: MAX_TRAIL });
    }
    let mut stops = ArrayVec::<Stop, MAX_TRAIL>::new();
    let mut latest = saved.last_used;
    for (gone, stop) in (0..).zip(&saved.trail) {
        ensure(stop.at <= latest, PART)?;
        latest = stop.at;
        let slot = match &stop.account {
            Some(id) => slot(id, roster)?,
            // No account is ever in the last place; the generations only tell the stops apart.
            None => Slot { index: u32::MAX, generation: gone },
        };
        if stops.iter().any(|other| other.slot == slot) {
            return Err(SnapshotError::Duplicate { part: PART });
        }
        stops.push(Stop { slot, at: stop.at });
    }
    let home = stops.get(saved.home).map(|stop| stop.slot);
    let home = home.ok_or(SnapshotError::Inconsistent { part: "bindings.home" })?;
    Ok(Trail::of(stops, home))
}

fn slot(id: &AccountId, roster: &Roster) -> Result<Slot, SnapshotError> {
    roster.find(id.as_str()).ok_or_else(|| SnapshotError::UnknownAccount(id.clone()))
}

pub(super) fn sums(
    amounts: &SavedAmounts,
    at: Timestamp,
    part: &'static str,
) -> Result<SlidingSum, SnapshotError> {
    ensure(amounts.is_sorted_by(|one, next| one.0 < next.0), part)?;
    ensure(amounts.last().is_none_or(|last| last.0 <= at), part)?;
    SlidingSum::of(amounts).ok_or(SnapshotError::Range { part })
}

pub(super) fn check_breaker(saved: &SavedBreaker, at: Timestamp) -> Result<(), SnapshotError> {
    let part = "accounts.breaker";
    for SavedStreak { count, last } in [saved.errors, saved.bans] {
        ensure(last.is_none_or(|last| last <= at), part)?;
        if count > 0 && last.is_none() {
            return Err(SnapshotError::Inconsistent { part });
        }
    }
    if saved.episodes > MAX_STEPS {
        return Err(SnapshotError::Range { part });
    }
    Ok(())
}

pub(super) fn check_quota(reading: &QuotaReading, at: Timestamp) -> Result<(), SnapshotError> {
    let part = "accounts.quota";
    ensure(reading.observed_at <= at, part)?;
    let most = QuotaReading::MAX_WINDOWS;
    if reading.windows.len() > most {
        return Err(SnapshotError::TooLong { part, most });
    }
    let mut percents = reading.windows.iter().filter_map(|window| window.remaining);
    let sound = percents.all(|percent| (0.0..=100.0).contains(&percent));
    if !sound || reading.balance.is_some_and(|balance| !balance.is_finite()) {
        return Err(SnapshotError::Range { part });
    }
    Ok(())
}

pub(super) fn stats(saved: &SavedCounters) -> Result<Stats, SnapshotError> {
    let SavedCounters { selected, sticky, .. } = saved;
    let paths = [selected.sticky, selected.warm, selected.rank, selected.pin];
    let lookups = [sticky.hits, sticky.warm_hits, sticky.cold_moves, sticky.refusals];
    let bindings = [sticky.waits, sticky.misses, sticky.creates, sticky.expiries];
    let others = [selected.degraded, selected.acquired, sticky.evictions, saved.refused];
    let leases = [saved.waits, saved.settled, saved.reaped, saved.refunded];
    let counts = [paths, lookups, bindings, others, leases];
    for &count in counts.iter().flatten().chain(saved.refused_by_reason.values()) {
        ensure_count(count, "counters")?;
    }
    let mut stats = Stats::new();
    for (&reason, &count) in &saved.refused_by_reason {
        if count > saved.refused {
            return Err(SnapshotError::Inconsistent { part: "counters.refused_by_reason" });
        }
        stats.refused_by_reason[reason as usize] = count;
    }
    stats.selected = *selected;
    stats.refused = saved.refused;
    stats.waits = saved.waits;
    stats.settled = saved.settled;
    stats.reaped = saved.reaped;
    stats.refunded = saved.refunded;
    stats.sticky = *sticky;
    stats.usage = saved.usage;
    Ok(stats)
}

pub(super) fn ensure(in_order: bool, part: &'static str) -> Result<(), SnapshotError> {
    if in_order { Ok(()) } else { Err(SnapshotError::TimeOrder { part }) }
}

pub(super) fn ensure_count(count: u64, part: &'static str) -> Result<(), SnapshotError> {
    if count <= MAX_COUNT { Ok(()) } else { Err(SnapshotError::Range { part }) }
}
