//! One workload, for callgrind: it counts the instructions of [`measured`] alone. Run it through
//! `.ci/instructions`, which compares the counts with `baseline.json`.
//!
//! `cargo bench --bench counts -- WORKLOAD ACCOUNTS`; without these arguments, as in a test of all
//! benches, the smallest pool is run under each of the workloads.

#![allow(clippy::print_stdout, reason = "a bench prints what it measured")]
#![allow(clippy::unwrap_used, reason = "a bench that does not fit should stop")]

#[path = "../workload/mod.rs"]
mod workload;

use std::env;
use std::hint::black_box;

use self::workload::Workload;
use self::workload::drive::OnScheduler;

/// Pairs of select and settle that are counted together.
const PAIRS: u32 = 1_000;

fn main() {
    let arguments: Vec<String> = env::args().skip(1).filter(|it| !it.starts_with("--")).collect();
    match &arguments[..] {
        [name, accounts] => {
            let workload = Workload::ALL.into_iter().find(|workload| workload.name() == name);
            run(workload.unwrap(), accounts.parse().unwrap());
        }
        _ => Workload::ALL.into_iter().for_each(|workload| run(workload, 8)),
    }
}

fn run(workload: Workload, accounts: usize) {
    let mut driver = OnScheduler::new(workload, accounts);
    measured(&mut driver);
    println!("{} {accounts}: {PAIRS} pairs", workload.name());
}

/// What is counted.
#[inline(never)]
fn measured(driver: &mut OnScheduler) {
    for _ in 0..PAIRS {
        black_box(driver.pair());
    }
}
