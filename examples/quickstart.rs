//! Select an account, use its credential, report the outcome.

#![allow(clippy::print_stdout, reason = "an example prints")]

use account_pool::{Account, Config, Outcome, Pool, Request, Tier};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pool = Pool::new(Config::default())?;
    pool.add(Account::new("acct-1").rpm(60).tier(Tier(0)), "credential 1")?;
    pool.add(Account::new("acct-2").rpm(60).tier(Tier(0)), "credential 2")?;

    let request = Request::new().caller("api:6f3a:user:42").model("opus");
    let mut accounts = Vec::new();
    for turn in 1..=3 {
        match pool.select(&request) {
            Ok(lease) => {
                let reply = send(lease.payload());
                println!("turn {turn}: {} by {:?}, {reply}", lease.account(), lease.path());
                accounts.push(lease.account().clone());
                lease.settle(Outcome::success());
            }
            Err(refusal) => println!("turn {turn}: {refusal}"),
        }
    }
    assert!(accounts.windows(2).all(|pair| pair[0] == pair[1]), "the conversation stays put");
    Ok(())
}

/// Stands for the upstream call.
fn send(credential: &str) -> String {
    format!("answered with {} characters of credential", credential.len())
}
