//! A lease that lives as long as a body stream: it is settled at the end of the body, and dropped
//! with the body when the client leaves.

#![allow(clippy::print_stdout, reason = "an example prints")]

use account_pool::{
    Account, Config, Lease, ManualClock, Millis, Outcome, Pool, Request, Timestamp, Usage,
};

/// A response body that holds its lease.
struct Body {
    chunks: std::vec::IntoIter<&'static str>,
    /// Taken when the body has ended.
    lease: Option<Lease>,
    sent: u64,
}

impl Iterator for Body {
    type Item = &'static str;

    fn next(&mut self) -> Option<Self::Item> {
        let chunk = self.chunks.next();
        match (&chunk, &self.lease) {
            (Some(chunk), Some(lease)) => {
                self.sent += chunk.len() as u64;
                // A sign of life: the lease of a long stream is not reaped.
                lease.touch();
            }
            _ => {
                let mut usage = Usage::default();
                usage.output = self.sent;
                if let Some(lease) = self.lease.take() {
                    lease.settle(Outcome::Success { usage });
                }
            }
        }
        chunk
    }
}

fn answer(lease: Lease) -> Body {
    let chunks = vec!["Once ", "upon ", "a ", "time."].into_iter();
    Body { chunks, lease: Some(lease), sent: 0 }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let clock = ManualClock::new(Timestamp::from_millis(1_000));
    let pool = Pool::with_clock(Config::default(), clock.clone())?;
    pool.add(Account::new("acct-1").max_in_flight(1), ())?;
    let request = Request::new().caller("api:6f3a:user:42");

    let mut body = answer(pool.select(&request)?);
    let mut text = String::new();
    for chunk in &mut body {
        // Ten minutes between chunks: longer in all than the lease timeout of 15 minutes.
        clock.advance(Millis::from_mins(10));
        text.push_str(chunk);
    }
    println!("whole body: {text:?}, in flight {}", pool.in_flight());
    assert_eq!((pool.in_flight(), pool.stats().usage.output), (0, 17));

    let mut body = answer(pool.select(&request)?);
    println!("first chunk: {:?}, in flight {}", body.next(), pool.in_flight());
    assert_eq!(pool.in_flight(), 1);
    drop(body);
    println!("client gone: in flight {}", pool.in_flight());
    assert_eq!(pool.in_flight(), 0);
    Ok(())
}
