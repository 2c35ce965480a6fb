//! A conversation whose account is blocked for six turns: where it goes, and how long it waits.
//!
//! A turn takes place every 10 s. Just before each of six turns the account that served first is
//! throttled for 400 ms; just before one more, the account that served last. Time is paused: the
//! example takes none.

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::collections::BTreeSet;

use account_pool::{
    Account, AccountId, Affinity, BlockScope, Clock, Config, Dimension, Millis, Outcome, Path,
    Pool, Request, Timestamp, TokioClock,
};

const BLOCK: Millis = Millis::new(400);
const TURN: Millis = Millis::from_secs(10);
const PATIENCE: Millis = Millis::from_secs(30);

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Policy {
    /// The binding goes at the first block, and is made anew elsewhere.
    Rotate,
    /// The binding stays, and each blocked turn goes to the best of the others.
    Scatter,
    /// The binding remembers the accounts that served last.
    Trail,
    /// The turn waits for its account.
    QueueOnPin,
}

#[derive(Debug)]
struct Report {
    /// Accounts that served during the six turns.
    touched: usize,
    waited: Millis,
    /// How the next block was met.
    next: Path,
    /// Accounts that served in all.
    in_all: usize,
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("policy       accounts  touched  waited    next block  touched in all");
    for policy in [Policy::Rotate, Policy::Scatter, Policy::Trail, Policy::QueueOnPin] {
        for accounts in [4, 8] {
            let Report { touched, waited, next, in_all } = play(policy, accounts).await?;
            let (name, waited) = (format!("{policy:?}"), waited.as_millis());
            println!(
                "{name:12} {accounts:8}  {touched:7}  {waited:4} ms   {:10}  {in_all:14}",
                next.as_str()
            );
            let expected = match policy {
                Policy::Rotate => touched == 2 && waited == 0 && next == Path::Rank,
                Policy::Scatter => touched > 2 && waited == 0,
                Policy::Trail => touched == 2 && waited == 0 && next == Path::Warm && in_all == 2,
                Policy::QueueOnPin => in_all == 1 && waited == 6 * BLOCK.as_millis(),
            };
            assert!(expected, "{policy:?} on {accounts} accounts");
        }
    }
    Ok(())
}

async fn play(policy: Policy, accounts: usize) -> Result<Report, Box<dyn std::error::Error>> {
    let mut config = Config::default();
    match policy {
        Policy::Rotate => {
            config.sticky.trail = 1;
            config.sticky.drop_when_blocked = true;
        }
        Policy::QueueOnPin => config.sticky.queue_on_pin = Millis::from_secs(5),
        Policy::Scatter | Policy::Trail => {}
    }
    let pool = Pool::with_clock(config, TokioClock::anchored(Timestamp::ZERO))?;
    for index in 0..accounts {
        pool.add(Account::new(format!("acct-{index}")), ())?;
    }
    let request = Request::new().caller("api:6f:user:42").model("opus");
    let (home, _) = turn(&pool, &request).await?;

    let (mut touched, mut last) = (BTreeSet::from([home.clone()]), home.clone());
    let mut waited = Millis::ZERO;
    for _ in 0..6 {
        tokio::time::sleep(TURN.into()).await;
        block(&pool, &home)?;
        let scatters = policy == Policy::Scatter;
        let affinity = if scatters { Affinity::Ignore } else { Affinity::Prefer };
        let start = pool.clock().now();
        (last, _) = turn(&pool, &request.affinity(affinity)).await?;
        waited = Millis::new(waited.as_millis() + pool.clock().now().since(start).as_millis());
        touched.insert(last.clone());
    }
    let during = touched.len();

    tokio::time::sleep(TURN.into()).await;
    block(&pool, &last)?;
    let (next, path) = turn(&pool, &request).await?;
    touched.insert(next);
    Ok(Report { touched: during, waited, next: path, in_all: touched.len() })
}

async fn turn(
    pool: &Pool<(), TokioClock>,
    request: &Request<'_>,
) -> Result<(AccountId, Path), Box<dyn std::error::Error>> {
    let lease = pool.acquire(request, PATIENCE).await?;
    let served = (lease.account().clone(), lease.path());
    lease.settle(Outcome::success());
    Ok(served)
}

fn block(
    pool: &Pool<(), TokioClock>,
    account: &AccountId,
) -> Result<(), account_pool::AccountError> {
    let until = pool.clock().now().plus(BLOCK);
    pool.block(account.as_str(), &BlockScope::Account, Dimension::Throttle, until)
}
