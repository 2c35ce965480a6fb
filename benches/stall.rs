//! How dear a single call can be: the distribution of many calls under steady load, and single
//! events that concern the whole pool at once, each with the selection that follows it.
//!
//! `STALL_CALLS` (10 000 000), `STALL_ACCOUNTS` (32 768) and `STALL_TRIES` (5) set the numbers.

#![allow(clippy::print_stdout, reason = "a bench prints what it measured")]
#![allow(clippy::unwrap_used, reason = "a bench that does not fit should stop")]

#[path = "stall/events.rs"]
mod events;
#[path = "workload/mod.rs"]
mod workload;

use std::hint::black_box;
use std::time::Duration;

use criterion::measurement::{Measurement, WallTime};
use hdrhistogram::Histogram;
use rustix::time::{ClockId, clock_gettime};

use self::events::EVENTS;
use self::workload::Workload;
use self::workload::drive::OnScheduler;
use self::workload::settings::setting;

fn main() {
    let accounts = setting("STALL_ACCOUNTS", 32_768, 512);
    let calls = setting("STALL_CALLS", 10_000_000, 2_000);
    let tries = setting("STALL_TRIES", 5, 1);
    steady(accounts, calls);
    events(accounts, tries);
}

/// Runs `call` and says how long it took.
fn timed<R>(call: impl FnOnce() -> R) -> Duration {
    let start = WallTime.start();
    black_box(call());
    WallTime.end(start)
}

/// Calls that take longer are asked whether it was they who ran.
const SUSPICIOUS: Duration = Duration::from_micros(20);

fn steady(accounts: usize, calls: u64) {
    let mut driver = OnScheduler::new(Workload::Steady, accounts);
    let [mut wall, mut own] = [(); 2].map(|()| Histogram::<u64>::new(3).unwrap());
    for _ in 0..calls {
        let before = on_processor();
        let time = timed(|| driver.pair());
        let ran = if time < SUSPICIOUS { time } else { time.min(on_processor() - before) };
        wall.record(u64::try_from(time.as_nanos()).unwrap()).unwrap();
        own.record(u64::try_from(ran.as_nanos()).unwrap()).unwrap();
    }
    println!("\n### {calls} times select and settle, {accounts} accounts under steady load\n");
    println!("| | p50 | p99 | p99.9 | p99.99 | max |\n| --- | --- | --- | --- | --- | --- |");
    for (name, spent) in [("by the clock", &wall), ("without preemption", &own)] {
        let at = |quantile| micros(Duration::from_nanos(spent.value_at_quantile(quantile)));
        let quantiles = [at(0.5), at(0.99), at(0.999), at(0.9999)].join(" | ");
        println!("| {name} | {quantiles} | {} |", micros(Duration::from_nanos(spent.max())));
    }
}

/// How long this thread has run: time in which the machine ran something else does not count.
#[expect(clippy::disallowed_methods, reason = "measures, and decides nothing")]
fn on_processor() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap()
}

fn events(accounts: usize, tries: usize) {
    println!("\n### Single events, {accounts} accounts: least and most of {tries} tries\n");
    println!("| event | the call | the next selection |\n| --- | --- | --- |");
    for event in EVENTS {
        let runs: Vec<(Duration, Duration)> = (0..tries)
            .map(|_| {
                let mut state = (event.prepare)(accounts);
                let call = timed(|| (event.call)(&mut state));
                (call, timed(|| state.next()))
            })
            .collect();
        let calls = span(runs.iter().map(|run| run.0));
        let next = span(runs.iter().map(|run| run.1));
        println!("| {} | {calls} | {next} |", event.name);
    }
}

fn span(times: impl Iterator<Item = Duration> + Clone) -> String {
    let (least, most) = (times.clone().min().unwrap(), times.max().unwrap());
    format!("{} … {}", micros(least), micros(most))
}

fn micros(time: Duration) -> String {
    format!("{:.1} µs", time.as_secs_f64() * 1e6)
}
