//! A host's own clock: here one that follows the frames of a simulation.

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use account_pool::{Account, Clock, Config, Pool, Request, Timestamp};

/// Sixty frames a second, counted by the host.
#[derive(Clone, Debug, Default)]
struct FrameClock {
    frames: Arc<AtomicU64>,
}

impl Clock for FrameClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.frames.load(Ordering::Relaxed) * 1_000 / 60)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let clock = FrameClock::default();
    let pool = Pool::with_clock(Config::default(), clock.clone())?;
    pool.add(Account::new("acct-1").rpm(1), ())?;

    drop(pool.select(&Request::new())?);
    let refusal = pool.select(&Request::new()).expect_err("one request per minute");
    let delay = refusal.retry_after().expect("the window frees by itself");
    println!("frame 0: {refusal}");
    assert_eq!(delay.as_secs_ceil(), 60);

    clock.frames.store(60 * 60, Ordering::Relaxed);
    let lease = pool.select(&Request::new())?;
    println!("frame 3600: {}", lease.account());
    Ok(())
}
