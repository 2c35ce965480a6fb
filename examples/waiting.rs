//! A conversation whose account is blocked for six turns: where it goes, and what it waits.
//!
//! Each turn takes place one second after the last; a 1 s throttle blocks the account of the
//! conversation at every turn from the second to the seventh. Time is paused: the example sleeps
//! without taking any.

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::collections::BTreeSet;

use account_pool::config::Ties;
use account_pool::{
    Account, AccountId, BlockScope, Clock, Config, Dimension, Lease, Millis, Outcome, Pool,
    Request, Timestamp, TokioClock,
};

type Error = Box<dyn std::error::Error>;

fn main() {}
