//! One `select` and `settle` per iteration under each workload: on the scheduler with callers
//! hashed before, and through the pool, which reads the machine's clock and hashes the caller.

#![allow(missing_docs, reason = "criterion's macros generate undocumented functions")]
#![allow(clippy::unwrap_used, reason = "a bench that does not fit should stop")]

#[path = "workload/groups.rs"]
mod groups;
#[path = "workload/mod.rs"]
mod workload;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(feature = "coarse-clock")]
use account_pool::CoarseClock;
use account_pool::{Clock, Event, ManualClock, SystemClock, Timestamp};
use criterion::{Criterion, criterion_group, criterion_main};

use self::groups::{on_pool, on_scheduler, settings};
use self::workload::Workload;
use self::workload::drive::OnPool;
use self::workload::pace::START;

/// What observing costs: nothing set, and an observer that counts.
fn observers(c: &mut Criterion) {
    let mut group = c.benchmark_group("observer");
    for (name, observed) in [("none", false), ("counting", true)] {
        let mut driver = OnPool::new(Workload::Bound, 64);
        if observed {
            let seen = Arc::new(AtomicU64::new(0));
            driver.pool.set_observer(move |_: &Event, _: Timestamp| {
                seen.fetch_add(1, Ordering::Relaxed);
            });
        }
        group.bench_function(name, |b| b.iter(|| driver.pair()));
    }
    group.finish();
}

fn clocks(c: &mut Criterion) {
    let mut group = c.benchmark_group("clock");
    let system = SystemClock::new();
    group.bench_function("system", |b| b.iter(|| system.now()));
    #[cfg(feature = "coarse-clock")]
    {
        let coarse = CoarseClock::new();
        group.bench_function("coarse", |b| b.iter(|| coarse.now()));
    }
    let manual = ManualClock::new(START);
    group.bench_function("manual", |b| b.iter(|| manual.now()));
    group.finish();
}

criterion_group! {
    name = benches;
    config = settings();
    targets = on_scheduler, on_pool, observers, clocks
}
criterion_main!(benches);
