//! Pools as the workloads need them.

use std::collections::BTreeSet;

use account_pool::config::Term;
use account_pool::{
    Account, BlockScope, Config, Dimension, Entitlement, Millis, Outcome, Request, Scheduler,
    Timestamp,
};

use super::pace::{PER_MINUTE, START, Ticker};
use super::requests::{caller, model, newcomer};
use super::{CONVERSATIONS, MODELS, NEW_CONVERSATIONS, Workload};

const RPM: u64 = 60;

/// Until when blocks of a whole run hold.
const LATER: Timestamp = Timestamp::from_millis(1_000_000_000_000);

pub(crate) fn id(index: usize) -> String {
    format!("account-{index:06}")
}

pub(crate) fn account(index: usize) -> Account {
    Account::new(id(index)).rpm(RPM)
}

/// A scheduler of so many accounts, none of which was used.
pub(crate) fn populated(config: Config, accounts: impl Iterator<Item = Account>) -> Scheduler {
    // The median recency of accounts that were never used is that of one never used, so leaving
    // it out changes nothing but the time that this takes.
    let mut quick = config.clone();
    quick.new_account_baseline = false;
    let mut scheduler = Scheduler::new(quick).unwrap();
    for account in accounts {
        scheduler.add(account, START).unwrap();
    }
    scheduler.set_config(config, START).unwrap();
    scheduler
}

/// The scheduler of a workload, and the time it has reached.
pub(crate) fn prepared(workload: Workload, accounts: usize) -> (Scheduler, Timestamp) {
    let declared = (0..accounts).map(|index| match workload {
        Workload::Models => entitled(index),
        _ => account(index),
    });
    let mut scheduler = populated(config(workload), declared);
    let now = match workload {
        Workload::Anonymous | Workload::NearlyNone | Workload::Refused => START,
        Workload::Bound => bind(&mut scheduler, accounts),
        Workload::New => fill_table(&mut scheduler, accounts),
        Workload::RateFull => fill_windows(&mut scheduler, accounts),
        _ => fill_a_minute(&mut scheduler, accounts),
    };
    match workload {
        Workload::ThirdCooled => {
            for index in (0..accounts).step_by(3) {
                block_until(&mut scheduler, index, Dimension::Throttle, LATER);
            }
        }
        Workload::NearlyNone => {
            for index in 0..accounts - 1 {
                block_until(&mut scheduler, index, Dimension::Quota, LATER);
            }
        }
        Workload::Refused => {
            for index in 0..accounts {
                let until = Timestamp::from_millis(LATER.as_millis() + spread(index));
                block_until(&mut scheduler, index, Dimension::Quota, until);
            }
        }
        Workload::Models => cool_models(&mut scheduler, accounts),
        _ => {}
    }
    (scheduler, now)
}

fn config(workload: Workload) -> Config {
    let mut config = Config::default();
    if workload == Workload::Tied {
        config.rank.terms.retain(|term| !matches!(term, Term::Headroom | Term::Recency));
    }
    if workload == Workload::New {
        // However slow the pace of a small pool is.
        config.sticky.time_to_idle = Millis::MAX;
    }
    config
}

fn entitled(index: usize) -> Account {
    let listed = |serves: &dyn Fn(usize) -> bool| -> BTreeSet<String> {
        (0..MODELS).filter(|&number| serves(number)).map(model).collect()
    };
    let group = index / 4;
    account(index).models(match index % 4 {
        0 => Entitlement::Only(listed(&|number| number % 4 == group % 4)),
        1 => Entitlement::AllBut(listed(&|number| number % 16 == group % 16)),
        _ => Entitlement::Any,
    })
}

fn cool_models(scheduler: &mut Scheduler, accounts: usize) {
    for (number, index) in (0..accounts).step_by(16).enumerate() {
        let scope = BlockScope::Model(model(number));
        scheduler.block(&id(index), &scope, Dimension::Throttle, LATER, START).unwrap();
    }
}

/// Blocks an account as a whole.
pub(crate) fn block_until(
    scheduler: &mut Scheduler,
    index: usize,
    dimension: Dimension,
    until: Timestamp,
) {
    scheduler.block(&id(index), &BlockScope::Account, dimension, until, START).unwrap();
}

/// Binds each conversation to an account, spread over the whole pool.
fn bind(scheduler: &mut Scheduler, accounts: usize) -> Timestamp {
    let mut ticker = Ticker::of(Workload::Bound, accounts, START);
    for number in 0..CONVERSATIONS {
        let index = if accounts < CONVERSATIONS {
            number % accounts
        } else {
            number * accounts / CONVERSATIONS
        };
        let request = Request::new().digested(caller(number).1).model("opus");
        use_account(scheduler, index, &request, ticker.tick());
    }
    ticker.now()
}

/// Gives every account a minute of its usual load, one after the other, and returns its end.
pub(crate) fn fill_a_minute(scheduler: &mut Scheduler, accounts: usize) -> Timestamp {
    let mut ticker = Ticker::new(accounts, START);
    for _ in 0..PER_MINUTE {
        for index in 0..accounts {
            use_account(scheduler, index, &Request::new(), ticker.tick());
        }
    }
    ticker.now()
}

/// Binds as many conversations as the table holds, those that come last in the end.
fn fill_table(scheduler: &mut Scheduler, accounts: usize) -> Timestamp {
    let start = fill_a_minute(scheduler, accounts);
    let mut ticker = Ticker::of(Workload::New, accounts, start);
    let capacity = scheduler.config().sticky.capacity;
    for number in NEW_CONVERSATIONS - capacity..NEW_CONVERSATIONS {
        let request = Request::new().digested(newcomer(number).1).model("opus");
        let now = ticker.tick();
        let grant = scheduler.select(&request, now).unwrap();
        scheduler.settle(grant.ticket, &Outcome::success(), now);
    }
    assert_eq!(scheduler.bindings(ticker.now()), capacity);
    ticker.now()
}

/// Fills every account's window within a second.
pub(crate) fn fill_windows(scheduler: &mut Scheduler, accounts: usize) -> Timestamp {
    let at = |index| Timestamp::from_millis(START.as_millis() + (index * 1_000 / accounts) as u64);
    for index in 0..accounts {
        for _ in 0..RPM {
            use_account(scheduler, index, &Request::new(), at(index));
        }
    }
    at(accounts - 1)
}

fn use_account(scheduler: &mut Scheduler, index: usize, request: &Request<'_>, now: Timestamp) {
    let grant = scheduler.select_account(&id(index), request, now).unwrap();
    scheduler.settle(grant.ticket, &Outcome::success(), now);
}

/// A number below a million that looks like chance.
pub(crate) fn spread(index: usize) -> u64 {
    (index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 44
}
