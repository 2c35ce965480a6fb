//! What `explain` and `inspect` show to people who run a pool.

#![allow(clippy::unwrap_used, reason = "a set-up that does not fit is a failed test")]

use account_pool::config::Term;
use account_pool::{
    Account, BlockScope, Config, Dimension, Explanation, Lift, Millis, Outcome, Path, RankedBy,
    Reason, Request, Reset, Scheduler, Scope, Status, Tier, Timestamp, Verdict,
};

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

/// `a` served the conversation and is throttled, `b` and `c` are free, `r` is a reserve in a worse
/// tier, `d` is switched off.
fn pool() -> Scheduler {
    let mut scheduler = Scheduler::new(Config::default()).unwrap();
    for id in ["a", "b", "c"] {
        scheduler.add(Account::new(id).rpm(60), at(0)).unwrap();
    }
    scheduler.add(Account::new("r").tier(Tier(1)).fallback_only(true), at(0)).unwrap();
    scheduler.add(Account::new("d"), at(0)).unwrap();
    scheduler.set_status("d", Status::Disabled, at(0)).unwrap();
    scheduler.bind(&conversation(), "a", at(5)).unwrap();
    let throttle = Outcome::rate_limited(Some(Reset::After(Millis::from_secs(20))));
    scheduler.observe("a", &conversation(), &throttle, at(10)).unwrap();
    scheduler
}

fn conversation() -> Request<'static> {
    Request::new().caller("tenant:x:conversation").model("opus")
}

#[test]
fn an_explanation_gives_each_account_its_verdict_terms_and_place() {
    let explained = pool().explain(&conversation(), at(20));
    let of = |id: &str| explained.accounts.iter().find(|it| it.account == id).unwrap();
    let throttled = of("a").rejection.unwrap();
    assert_eq!((throttled.reason, throttled.lift), (Reason::Throttled, Lift::At(at(20_010))));
    assert_eq!((of("a").trail, of("b").trail), (Some(0), None));
    assert_eq!(of("d").rejection.unwrap().reason, Reason::Disabled);
    assert!(of("b").tied && of("c").tied && !of("r").tied && !of("a").tied);
    assert_eq!(of("r").rejection, None);
    let value = |id: &str, term| of(id).rank.iter().find(|it| it.term == term).unwrap().value;
    assert_eq!(value("r", RankedBy::FallbackOnly), 1);
    assert_eq!(value("r", RankedBy::Term(Term::Tier)), 1);
    assert_eq!(value("b", RankedBy::Term(Term::InFlight)), 0);
    let Verdict::Selected { account, path, tied } = &explained.decision else {
        panic!("somebody serves: {explained:?}");
    };
    assert!(["b", "c"].contains(&account.as_str()));
    assert_eq!((*path, *tied), (Path::Rank, 2));
}

#[test]
fn an_explanation_reads_as_a_table() {
    let table = pool().explain(&conversation(), at(20)).to_string();
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 2 + 5, "{table}");
    assert!(lines[0].starts_with("at 20: "), "{table}");
    let words = |line: usize| lines[line].split_whitespace().collect::<Vec<_>>();
    let head = ["account", "trail", "verdict", "reserve", "soft", "model_cooldown", "tier"];
    assert_eq!(words(1)[..7], head);
    assert_eq!(words(2)[..6], ["a", "1", "throttled", "for", "19990", "ms"]);
    assert_eq!(words(6)[..2], ["d", "disabled"]);
}

#[test]
fn a_refusal_is_explained_with_its_reasons_and_deadline() {
    let mut scheduler = pool();
    for id in ["b", "c", "r"] {
        scheduler.set_maintenance(id, true, at(15)).unwrap();
    }
    let mut config = Config::default();
    config.degraded = account_pool::config::Degraded::Off;
    scheduler.set_config(config, at(15)).unwrap();
    let explained = scheduler.explain(&conversation(), at(20));
    let reasons = vec![(Reason::Disabled, 1), (Reason::Maintenance, 3), (Reason::Throttled, 1)];
    let retry_at = Some(at(20_010));
    let Verdict::Refused { reasons: told, retry_at: when, load_only, wait_for } =
        &explained.decision
    else {
        panic!("nobody serves: {explained:?}");
    };
    assert_eq!((told, when, *load_only, wait_for), (&reasons, &retry_at, false, &None));
    assert!(explained.to_string().starts_with("at 20: refused until 20010\n"));
}

#[test]
fn an_explanation_survives_serialisation() {
    let explained = pool().explain(&conversation(), at(20));
    let text = serde_json::to_string(&explained).unwrap();
    assert_eq!(serde_json::from_str::<Explanation>(&text).unwrap(), explained);
    assert!(!text.contains("conversation"), "no caller key");
}

#[test]
fn inspection_lists_every_block_with_its_grounds() {
    let mut scheduler = pool();
    let limited = Outcome::RateLimited {
        scope: Scope::Model,
        reset: Some(Reset::After(Millis::from_secs(3_600))),
    };
    scheduler.observe("a", &conversation(), &limited, at(30)).unwrap();
    let view = scheduler.inspect("a", at(40)).unwrap();
    let [account, model] = view.blocks.as_slice() else {
        panic!("two blocks: {view:?}");
    };
    assert_eq!((&account.scope, account.dimension), (&BlockScope::Account, Dimension::Throttle));
    assert_eq!((account.set_at, account.until), (at(10), at(20_010)));
    assert!(account.upstream && account.generation != model.generation);
    assert_eq!(model.scope, BlockScope::Model("opus".to_owned()));
    assert_eq!(model.until, at(30 + 15 * 60_000), "cut at the cap of a throttle");
    assert_eq!(model.announced, at(30 + 3_600_000));
    assert_eq!((view.bound, view.in_flight), (1, 0));
}

#[test]
fn load_tells_how_far_the_busiest_account_is_from_an_even_share() {
    let mut scheduler = Scheduler::new(Config::default()).unwrap();
    assert_eq!(scheduler.load(at(0)).skew(), None);
    for id in ["a", "b"] {
        scheduler.add(Account::new(id), at(0)).unwrap();
    }
    for t in 1..=3 {
        scheduler.select_account("a", &Request::new(), at(t)).unwrap();
    }
    scheduler.select_account("b", &Request::new(), at(4)).unwrap();
    let load = scheduler.load(at(5));
    assert_eq!((load.accounts, load.in_flight, load.busiest), (2, 4, 3));
    assert_eq!(load.skew(), Some(1.5));
}
