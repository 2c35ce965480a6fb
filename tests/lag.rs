//! Waiting on a clock that lags behind the timer, as a coarse one does, on tokio's paused time.

#![allow(clippy::unwrap_used, reason = "a test that does not fit has failed")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use account_pool::{
    Account, Clock, Config, Millis, Outcome, Pool, Request, Settlement, Timestamp, TokioClock,
    Unavailable,
};

const PATIENT: Millis = Millis::from_mins(60);

fn ms(millis: u64) -> Millis {
    Millis::new(millis)
}

/// Stands still between two ticks, and counts how often it is read.
#[derive(Clone, Debug)]
struct Ticking {
    exact: TokioClock,
    tick: u64,
    /// Where in a tick the exact clock started.
    phase: u64,
    reads: Arc<AtomicU64>,
}

impl Ticking {
    fn new(tick: u64, phase: u64) -> Self {
        let exact = TokioClock::anchored(Timestamp::from_millis(1_000_000));
        Self { exact, tick, phase, reads: Arc::default() }
    }
}

impl Clock for Ticking {
    fn now(&self) -> Timestamp {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let exact = self.exact.now().as_millis();
        Timestamp::from_millis(exact - (exact + self.phase) % self.tick)
    }
}

/// A kernel's ticks are 1, 4 or 10 ms long; 100 stands for a machine that was held up.
fn ticks() -> impl Iterator<Item = (u64, u64)> {
    [1, 4, 10, 100].into_iter().flat_map(|tick| (0..tick).map(move |phase| (tick, phase)))
}

/// Waits, and says how long that took by the exact clock.
async fn waited(pool: &Pool<(), Ticking>, patience: Millis) -> (u64, Result<(), Unavailable>) {
    let clock = pool.clock();
    let begin = clock.exact.now();
    let reads = clock.reads.load(Ordering::Relaxed);
    let answer = pool.acquire(&Request::new(), patience).await;
    let spent = clock.reads.load(Ordering::Relaxed) - reads;
    assert!(spent <= 2 + clock.tick, "{spent} looks with ticks of {} ms", clock.tick);
    let took = clock.exact.now().since(begin).as_millis();
    let settled = answer.map(|lease| lease.settle(Outcome::success()));
    (took, settled.map(|settlement| assert_eq!(settlement, Settlement::Settled)))
}

#[tokio::test(start_paused = true)]
async fn a_window_that_frees_is_noticed_within_a_tick() {
    for (tick, phase) in ticks() {
        let pool = Pool::with_clock(Config::default(), Ticking::new(tick, phase)).unwrap();
        pool.add(Account::new("a").window(1, ms(400)), ()).unwrap();
        tokio::time::sleep(ms(phase * 7 % 13).into()).await;

        waited(&pool, PATIENT).await.1.unwrap();
        for _ in 0..5 {
            let (took, answer) = waited(&pool, PATIENT).await;
            answer.unwrap();
            assert!(took.abs_diff(400) < tick, "{took} ms with ticks of {tick} ms");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_deadline_is_noticed_within_a_tick() {
    for (tick, phase) in ticks() {
        let pool = Pool::with_clock(Config::default(), Ticking::new(tick, phase)).unwrap();
        pool.add(Account::new("a").max_in_flight(1), ()).unwrap();
        let _held = pool.select(&Request::new()).unwrap();
        for begin in 0..5 {
            tokio::time::sleep(ms(begin).into()).await;
            let (took, answer) = waited(&pool, ms(400)).await;
            assert!(answer.unwrap_err().is_load_only());
            assert!(took.abs_diff(400) < tick, "{took} ms with ticks of {tick} ms");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_stands_still_for_long_is_asked_now_and_then() {
    let pool = Pool::with_clock(Config::default(), Ticking::new(10_000, 0)).unwrap();
    pool.add(Account::new("a").window(1, ms(400)), ()).unwrap();
    waited(&pool, PATIENT).await.1.unwrap();
    let before = pool.clock().reads.load(Ordering::Relaxed);
    let (took, answer) = waited(&pool, PATIENT).await;
    answer.unwrap();
    assert_eq!(took, 10_000);
    // Every 400 ms, which is what the clock says is missing: when the timer is over, and when it is
    // set anew.
    let looks = pool.clock().reads.load(Ordering::Relaxed) - before;
    assert!(looks <= 2 * 10_000 / 400 + 2, "{looks} looks");
}
