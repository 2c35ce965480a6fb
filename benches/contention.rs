//! Several threads through one pool, beside the bare lock: a mutex around a scheduler that is
//! given the time and hashed callers. Whatever a pool does beyond the scheduler's step (reading
//! the clock, hashing, handing out the payload) should happen outside of its lock; then several
//! threads get as much through the pool as through the bare lock. The row between the two reads
//! the clock as a pool does and does nothing else of what a pool does.
//!
//! `CONTENTION_ACCOUNTS` (512), `CONTENTION_MILLIS` (1 000 for each row) and
//! `CONTENTION_THREADS` (1,2,4,8) set the numbers.
//!
//! Then one thread replaces the policy of a large pool (`CONTENTION_POLICY_ACCOUNTS`, 32 768) over
//! and over, and another one's calls are timed: how long does it wait?

#![allow(clippy::print_stdout, reason = "a bench prints what it measured")]
#![allow(clippy::unwrap_used, reason = "a bench that does not fit should stop")]

#[path = "contention/target.rs"]
mod target;
#[path = "workload/mod.rs"]
mod workload;

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use account_pool::{Config, Millis};
use criterion::measurement::{Measurement, WallTime};
use hdrhistogram::Histogram;
use parking_lot::Mutex;

use self::target::{Target, bare, clocked, pooled};
use self::workload::Workload;
use self::workload::pace::{START, Ticker};
use self::workload::requests::{Requests, Spelling};
use self::workload::settings::{list, setting};

/// Without a caller, and with one that is bound: the two shapes of a selection.
const WORKLOADS: [Workload; 2] = [Workload::Anonymous, Workload::Bound];

/// So many pairs share a reading of the time, and the last of them has its calls timed: what is
/// around the calls hardly slows them.
const BATCH: u64 = 16;

fn main() {
    let span = Duration::from_millis(setting("CONTENTION_MILLIS", 1_000, 10));
    pairs(setting("CONTENTION_ACCOUNTS", 512, 64), span);
    policies(setting("CONTENTION_POLICY_ACCOUNTS", 32_768, 2_048), span);
}

fn pairs(accounts: usize, span: Duration) {
    println!("\n### Threads through one pool of {accounts} accounts: select and settle\n");
    println!("| workload | threads | through | pairs a second | ÷ bare lock | p50 a call | p99 |");
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    for workload in WORKLOADS {
        for threads in list("CONTENTION_THREADS", &[1, 2, 4, 8], &[1, 2]) {
            let run = Run { workload, accounts, threads, span };
            let lock = run.measure(&bare(workload, accounts), Spelling::Hashed);
            let clocked = run.measure(&clocked(workload, accounts), Spelling::Hashed);
            let hashed = run.measure(&pooled(workload, accounts), Spelling::Hashed);
            let text = run.measure(&pooled(workload, accounts), Spelling::Text);
            run.print("bare lock", &lock, &lock);
            run.print("bare lock and clock", &clocked, &lock);
            run.print("pool, hashed callers", &hashed, &lock);
            if workload == Workload::Bound {
                run.print("pool, callers as text", &text, &lock);
            }
        }
    }
}

fn policies(accounts: usize, span: Duration) {
    println!("\n### Calls while the policy of {accounts} accounts is replaced over and over\n");
    println!("| through | policies | p50 of one | p50 a call | p99.9 | p99.99 | max |");
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    replaced("bare lock and clock", &clocked(Workload::Steady, accounts), accounts, span);
    replaced("pool", &pooled(Workload::Steady, accounts), accounts, span);
}

fn replaced<T: Target>(through: &str, target: &T, accounts: usize, span: Duration) {
    let later = START.plus(Millis::from_mins(1));
    let [mut calls, mut policies] = [(); 2].map(|()| Histogram::new(3).unwrap());
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut config = Config::default();
            while !is_over.load(Ordering::Relaxed) {
                config.health.bucket ^= 1;
                timed(&mut policies, || target.set_config(config.clone(), later));
            }
        });
        let mut ticker = Ticker::of(Workload::Steady, accounts, later);
        let mut requests = Requests::new(Workload::Steady, Spelling::Hashed, accounts);
        let start = WallTime.start();
        while WallTime.end(start) < span {
            let now = ticker.tick();
            target.set_time(now);
            let request = requests.draw();
            let held = timed(&mut calls, || target.select(&request, now));
            timed(&mut calls, || target.settle(held, now));
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let micros = |nanos: u64| format!("{:.1} µs", nanos as f64 / 1e3);
    let at = |quantile| micros(calls.value_at_quantile(quantile));
    let [p50, p999, p9999] = [0.5, 0.999, 0.9999].map(at);
    let (count, one) = (policies.len(), micros(policies.value_at_quantile(0.5)));
    println!(
        "| {through} | {count} | {one} | {p50} | {p999} | {p9999} | {} |",
        micros(calls.max())
    );
}

struct Run {
    workload: Workload,
    accounts: usize,
    threads: usize,
    span: Duration,
}

/// What all threads together came to.
struct Measured {
    per_second: f64,
    calls: Histogram<u64>,
}

impl Run {
    fn measure<T: Target>(&self, target: &T, spelling: Spelling) -> Measured {
        let later = START.plus(Millis::from_mins(1));
        let ticker = Mutex::new(Ticker::of(self.workload, self.accounts, later));
        let barrier = Barrier::new(self.threads);
        let mut total = Measured { per_second: 0.0, calls: Histogram::new(3).unwrap() };
        thread::scope(|scope| {
            let work = || self.work(target, spelling, &ticker, &barrier);
            let works: Vec<_> = (0..self.threads).map(|_| scope.spawn(work)).collect();
            for work in works {
                let one = work.join().unwrap();
                total.per_second += one.per_second;
                total.calls.add(&one.calls).unwrap();
            }
        });
        total
    }

    /// One thread. The time, which all share, moves on with every batch.
    fn work<T: Target>(
        &self,
        target: &T,
        spelling: Spelling,
        ticker: &Mutex<Ticker>,
        barrier: &Barrier,
    ) -> Measured {
        let mut requests = Requests::new(self.workload, spelling, self.accounts);
        let mut calls = Histogram::new(3).unwrap();
        let mut pairs = 0;
        barrier.wait();
        let start = WallTime.start();
        let spent = loop {
            let now = ticker.lock().skip(BATCH);
            target.set_time(now);
            for _ in 1..BATCH {
                let held = target.select(&requests.draw(), now);
                target.settle(held, now);
            }
            let request = requests.draw();
            let held = timed(&mut calls, || target.select(&request, now));
            timed(&mut calls, || target.settle(held, now));
            pairs += BATCH;
            let spent = WallTime.end(start);
            if spent >= self.span {
                break spent;
            }
        };
        Measured { per_second: pairs as f64 / spent.as_secs_f64(), calls }
    }

    fn print(&self, through: &str, measured: &Measured, lock: &Measured) {
        let (name, threads) = (self.workload.name(), self.threads);
        let ratio = measured.per_second / lock.per_second;
        let at = |quantile| measured.calls.value_at_quantile(quantile);
        let (p50, p99) = (at(0.5), at(0.99));
        println!(
            "| {name} | {threads} | {through} | {:.0} | {ratio:.2} | {p50} ns | {p99} ns |",
            measured.per_second
        );
    }
}

fn timed<R>(calls: &mut Histogram<u64>, call: impl FnOnce() -> R) -> R {
    let start = WallTime.start();
    let result = call();
    let nanos = WallTime.end(start).as_nanos();
    calls.record(u64::try_from(nanos).unwrap()).unwrap();
    result
}
