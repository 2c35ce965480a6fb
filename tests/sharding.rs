//! A caller's own place among many tied accounts: how even it is, and how few move.

#![allow(clippy::unwrap_used, reason = "a set-up that does not fit is a failed test")]

use std::collections::BTreeMap;

use account_pool::config::Term;
use account_pool::{Account, Affinity, Config, Outcome, Request, Scheduler, Status, Timestamp};

const NOW: Timestamp = Timestamp::from_millis(100);
const CALLERS: u32 = 20_000;

fn id(account: u32) -> String {
    format!("a{account}")
}

/// Accounts that tie whatever they served before.
fn pool(accounts: impl IntoIterator<Item = Account>) -> Scheduler {
    let mut config = Config::default();
    config.new_account_baseline = false;
    config.rank.terms.retain(|term| !matches!(term, Term::Headroom | Term::Recency));
    let mut scheduler = Scheduler::new(config).unwrap();
    for account in accounts {
        scheduler.add(account, NOW).unwrap();
    }
    scheduler
}

fn equals(accounts: u32) -> Scheduler {
    pool((0..accounts).map(|account| Account::new(id(account))))
}

/// The account of each caller.
fn places(scheduler: &mut Scheduler) -> Vec<String> {
    let place = |caller| {
        let caller = format!("user{caller}");
        let request = Request::new().caller(&caller).affinity(Affinity::Ignore);
        let grant = scheduler.select(&request, NOW).unwrap();
        scheduler.settle(grant.ticket, &Outcome::success(), NOW);
        grant.account.to_string()
    };
    (0..CALLERS).map(place).collect()
}

fn counts(places: &[String]) -> BTreeMap<&str, u32> {
    let mut counts = BTreeMap::new();
    places.iter().for_each(|place| *counts.entry(place.as_str()).or_default() += 1);
    counts
}

/// How many callers moved, but for those from or to an account.
fn moved(before: &[String], after: &[String], account: &str) -> u32 {
    let pairs = before.iter().zip(after);
    let others = pairs.filter(|(from, to)| from != to && *from != account && *to != account);
    u32::try_from(others.count()).unwrap()
}

/// Lets some accounts leave and come back, one by one: how many callers they have together, and how
/// many others move as they leave.
fn moved_by(scheduler: &mut Scheduler, leavers: &[u32]) -> (u32, u32) {
    let all = places(scheduler);
    let held = counts(&all);
    let mut sums = (0, 0);
    for leaver in leavers.iter().copied().map(id) {
        scheduler.set_status(&leaver, Status::Disabled, NOW).unwrap();
        sums.0 += held.get(&*leaver).copied().unwrap_or(0);
        sums.1 += moved(&all, &places(scheduler), &leaver);
        scheduler.set_status(&leaver, Status::Active, NOW).unwrap();
    }
    sums
}

#[test]
fn hardly_anyone_else_moves_when_one_of_a_tied_pool_leaves() {
    for accounts in [66, 512, 600, 4_096, 32_768] {
        let (own, others) = moved_by(&mut equals(accounts), &[0, 7, accounts - 1]);
        assert!(others * 50 <= own, "{accounts}: {others} others with {own}");
    }
}

#[test]
fn about_as_many_others_move_where_few_of_a_pool_tie() {
    for (one_in, most) in [(2, 0.05), (3, 0.25), (5, 1.0), (10, 1.5), (50, 1.5)] {
        let mut scheduler = equals(4_096);
        for account in (0..4_096).filter(|account| account % one_in > 0) {
            scheduler.set_status(&id(account), Status::Disabled, NOW).unwrap();
        }
        let leavers = [0, 10, 20, 40].map(|turn| turn * one_in);
        let (own, others) = moved_by(&mut scheduler, &leavers);
        let ratio = f64::from(others) / f64::from(own);
        assert!(ratio <= most, "one in {one_in}: {others} others with {own}");
    }
}

#[test]
fn one_that_comes_takes_callers_to_itself() {
    // With one more than a power of two, half of the places are still without an account.
    for (accounts, most) in [(600, 0), (512, CALLERS / 200)] {
        let mut scheduler = equals(accounts);
        let before = places(&mut scheduler);
        scheduler.add(Account::new("new"), NOW).unwrap();
        let others = moved(&before, &places(&mut scheduler), "new");
        assert!(others <= most, "{accounts}: {others} others");
    }
}

#[test]
fn callers_spread_as_if_by_chance() {
    for accounts in [66, 300, 512, 600, 4_096] {
        let all = places(&mut equals(accounts));
        let (held, mean) = (counts(&all), f64::from(CALLERS) / f64::from(accounts));
        let off = |account| f64::from(held.get(&*id(account)).copied().unwrap_or(0)) - mean;
        let chi_square: f64 = (0..accounts).map(|account| off(account).powi(2) / mean).sum();
        // By chance it is as much as the accounts, give or take a few times this.
        let deviation = (2.0 * f64::from(accounts)).sqrt();
        let error = (chi_square - f64::from(accounts)).abs();
        assert!(error < 4.0 * deviation, "{accounts}: {chi_square}");
    }
}

#[test]
fn weights_share_the_callers_of_many_in_proportion() {
    // Where one account is far heavier than the others, few lots win, or none is drawn.
    for heaviest in [3.0, 20.0, 1_000.0] {
        let weights = [0.5, 1.0, 3.0];
        let weighted = |account| Account::new(id(account)).weight(weights[account as usize % 3]);
        let mut scheduler = pool((0..900).map(weighted));
        let heavy = Account::new("heavy").weight(heaviest);
        scheduler.add(heavy, NOW).unwrap();
        let all = places(&mut scheduler);
        let sum = 300.0 * weights.iter().sum::<f64>() + heaviest;
        let number = |place: &str| place[1..].parse::<usize>().ok();
        for (kind, weight) in weights.into_iter().enumerate() {
            let of_kind = |place: &&String| number(place).is_some_and(|it| it % 3 == kind);
            let held = all.iter().filter(of_kind).count();
            let expected = 300.0 * weight / sum * f64::from(CALLERS);
            let error = (f64::from(u32::try_from(held).unwrap()) - expected).abs();
            assert!(error < 4.0 * expected.sqrt(), "{weight} beside {heaviest}: {held}");
        }
    }
}
