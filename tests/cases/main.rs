//! Faults from public reports about account pools, as scenarios: each must be impossible here.

#![allow(clippy::unwrap_used, reason = "a scenario that does not fit is a failed test")]
#![allow(dead_code, reason = "the scenario helper is shared by all classes")]

mod scenario;
mod threads;

mod affinity;
mod breaker;
mod clock;
mod concurrency;
mod cooldown;
mod edges;
mod failover;
mod fairness;
mod quota;
mod refusals;
mod reload;
mod sharing;
mod tenancy;
mod windows;
