//! This crate, a floor that no implementation can go below, and load balancers that do less, in
//! one run, so that the ratios are fair. `report.py` makes a table of it.

#![allow(clippy::unwrap_used, reason = "a bench that does not fit should stop")]

mod balancers;
mod floor;
mod tree;

#[path = "../../workload/groups.rs"]
mod groups;
#[path = "../../workload/mod.rs"]
mod workload;

use criterion::{criterion_group, criterion_main};

use self::balancers::{governor_check, pingora, tower_p2c};
use self::floor::floors;
use self::groups::{on_pool, on_scheduler, settings};

criterion_group! {
    name = benches;
    config = settings();
    targets = floors, pingora, tower_p2c, governor_check, on_scheduler, on_pool
}
criterion_main!(benches);
