//! Pools on a manual clock, and threads that call them at the same moment.

use std::sync::Barrier;
use std::thread;

use account_pool::{Account, Config, ManualClock, Pool};

use crate::scenario::at;

pub(crate) type TestPool = Pool<(), ManualClock>;

/// A pool whose clock stands at `t`.
pub(crate) fn pool(
    config: Config,
    accounts: impl IntoIterator<Item = Account>,
    t: u64,
) -> TestPool {
    let pool = Pool::with_clock(config, ManualClock::new(at(t))).unwrap();
    for account in accounts {
        pool.add(account, ()).unwrap();
    }
    pool
}

/// Runs `step` in `count` threads that start together; the answers in the order of the threads.
pub(crate) fn at_once<R: Send>(count: usize, step: impl Fn(usize) -> R + Sync) -> Vec<R> {
    let start = Barrier::new(count);
    thread::scope(|scope| {
        let run = |index| {
            let (start, step) = (&start, &step);
            scope.spawn(move || {
                start.wait();
                step(index)
            })
        };
        let threads: Vec<_> = (0..count).map(run).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}
