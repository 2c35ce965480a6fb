//! The criterion groups of this crate, for its own bench and for the one beside its peers.

use std::hint::black_box;
use std::time::Duration;

#[cfg(feature = "coarse-clock")]
use account_pool::CoarseClock;
use account_pool::{Clock, SystemClock};
use criterion::{BenchmarkId, Criterion, Throughput};

use crate::workload::Workload;
use crate::workload::drive::{OnPool, OnScheduler};
use crate::workload::settings::list;

const SIZES: [usize; 5] = [8, 64, 512, 4_096, 32_768];

pub(crate) fn settings() -> Criterion {
    Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
}

/// The pool sizes to measure: those of the variable `POOL_SIZES` (separated by commas), else up
/// to 32 768; small ones where benches are only tested.
pub(crate) fn sizes() -> Vec<usize> {
    list("POOL_SIZES", &SIZES, &[8, 64])
}

/// Measures one call of what `set_up` makes, per size. Nothing is set up that the filter on the
/// command line leaves out.
pub(crate) fn by_size<F: FnMut() -> R, R>(
    c: &mut Criterion,
    group: &str,
    sizes: &[usize],
    mut set_up: impl FnMut(usize) -> F,
) {
    let mut group = c.benchmark_group(group);
    group.throughput(Throughput::Elements(1));
    for &accounts in sizes {
        let mut ready = None;
        group.bench_function(BenchmarkId::from_parameter(accounts), |b| {
            let call = ready.get_or_insert_with(|| set_up(accounts));
            b.iter(|| black_box(call()));
        });
    }
    group.finish();
}

/// `select` and `settle` on the scheduler, under each workload.
pub(crate) fn on_scheduler(c: &mut Criterion) {
    for workload in Workload::ALL {
        by_size(c, &format!("scheduler/{}", workload.name()), &sizes(), |accounts| {
            let mut driver = OnScheduler::new(workload, accounts);
            move || driver.pair()
        });
    }
}

/// `select` and `settle` through the pool, under each workload; and on the coarse clock under the
/// two shapes of a selection, without a caller and with one that is bound.
pub(crate) fn on_pool(c: &mut Criterion) {
    for workload in Workload::ALL {
        through_pool(c, workload.name(), workload, SystemClock::new);
    }
    #[cfg(feature = "coarse-clock")]
    for workload in [Workload::Anonymous, Workload::Bound] {
        through_pool(c, &format!("{}-coarse", workload.name()), workload, CoarseClock::new);
    }
}

fn through_pool<R: Clock>(c: &mut Criterion, name: &str, workload: Workload, real: fn() -> R) {
    by_size(c, &format!("pool/{name}"), &sizes(), |accounts| {
        let mut driver = OnPool::reading(real(), workload, accounts);
        move || driver.pair()
    });
}
