//! The gateway against clients and upstreams that misbehave, on sockets of this machine.
#![allow(clippy::unwrap_used, reason = "a helper of a test fails by panicking, as the test does")]

mod clients;
mod config;
mod demo;
mod failover;
mod limits;
mod pages;
mod reload;
mod secrets;
mod shutdown;
mod state;
mod streaming;
mod support;
mod upstreams;
