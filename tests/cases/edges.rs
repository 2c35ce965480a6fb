//! Empty, doubled, unknown, and very many.

use account_pool::{Account, AccountError, Outcome, Reason, Request, Status};

use crate::scenario::{Scenario, anyone, at, by, conventions, ms};
use crate::threads::pool;

#[test]
fn c137_an_empty_pool_refuses() {
    let mut s = Scenario::new(&[]);

    for ask in [anyone(), by("u1").on("m1")] {
        let refusal = s.refused(0, &ask);
        assert_eq!((refusal.tally().total(), refusal.retry_after()), (0, None));
        assert!(!refusal.is_load_only());
    }
    assert_eq!(s.scheduler.next_deadline(at(0)), None);
    assert!(!s.scheduler.drought(at(0)));
    assert_eq!(s.scheduler.reap(ms(0), at(0)), 0);
}

#[test]
fn c137_an_account_is_added_once() {
    let mut s = Scenario::of(conventions(), [Account::new("A").rpm(1)]);
    s.turn(0, &by("u1"));

    let before = s.inspect(10, "A");
    let again = s.scheduler.add(Account::new("A").rpm(100), at(10));
    assert_eq!(again, Err(AccountError::Duplicate("A".into())));
    assert_eq!(s.inspect(10, "A"), before);
    assert_eq!(s.scheduler.accounts().count(), 1);
    assert_eq!(s.bound_to(10, &by("u1")).as_deref(), Some("A"));
    assert_eq!(s.retry_after(10, &anyone()), Some(59_990));
}

#[test]
fn c137_sibling_a_pool_keeps_the_payload_of_the_first() {
    let pool: account_pool::Pool<&str> = account_pool::Pool::new(conventions()).unwrap();
    pool.add(Account::new("A"), "first").unwrap();

    assert!(pool.add(Account::new("A"), "second").is_err());
    assert_eq!(*pool.payload("A").unwrap(), "first");
    assert_eq!(pool.remove("B"), None);
    assert_eq!(pool.remove("A").as_deref(), Some(&"first"));
    assert_eq!(pool.remove("A"), None);
    pool.add(Account::new("A"), "second").unwrap();
    assert_eq!(**pool.select(&Request::new()).unwrap().payload(), "second");
}

#[test]
fn c137_unknown_accounts_are_no_panic_and_no_change() {
    let mut s = Scenario::new(&["A"]);

    let before = s.scheduler.clone();
    assert!(!s.scheduler.remove("Z", at(0)));
    let unknown = Err(AccountError::Unknown("Z".into()));
    assert_eq!(s.scheduler.set_status("Z", Status::Disabled, at(0)), unknown);
    assert_eq!(s.scheduler.observe("Z", &Request::new(), &Outcome::Network, at(0)), unknown);
    assert_eq!(s.scheduler.bind(&Request::new().caller("u1"), "Z", at(0)), unknown);
    assert!(s.scheduler.clear_blocks("Z", None, at(0)).is_err());
    assert!(s.scheduler.inspect("Z", at(0)).is_none());
    assert_eq!(s.scheduler, before);
}

#[test]
fn c137_sibling_a_blank_id_is_refused() {
    let mut s = Scenario::new(&[]);
    for id in ["", " ", "\t\n"] {
        assert_eq!(s.scheduler.add(Account::new(id), at(0)), Err(AccountError::BlankId));
    }
    s.add(0, Account::new(" A"));
    assert!(s.scheduler.inspect("A", at(0)).is_none(), "ids are compared as they are");
}

#[test]
fn c137_a_waiter_of_a_pool_that_empties_is_refused() {
    let mut config = conventions();
    config.sticky.queue_on_pin = ms(5_000);
    let mut s = Scenario::of(config, [Account::new("A").max_in_flight(1)]);
    s.turn(0, &by("u1"));
    s.hold(10, &by("u1"));
    let wait = s.refused(20, &by("u1")).wait().unwrap().clone();

    s.remove(30, "A");
    let refusal = s.refused(30, &by("u1").after_wait(wait.ticket));
    assert!(refusal.wait().is_none());
    assert_eq!((refusal.tally().total(), refusal.retry_after()), (0, None));
    assert!(!s.scheduler.give_up(wait.ticket));
}

#[test]
fn c137_sibling_one_account_is_all_there_is() {
    let mut s = Scenario::new(&["A"]);

    assert!((0..10).all(|t| s.hold(t, &by("u1")).account == "A"));
    let refusal = s.refused(20, &by("u1").without(&["A", "A", "Z"]));
    assert_eq!(refusal.tally().count(Reason::Excluded), 1);
}

#[test]
fn c137_sibling_leases_outlive_their_pool() {
    let pool = pool(conventions(), [Account::new("A")], 0);
    let lease = pool.select(&Request::new()).unwrap();
    let dropped = pool.select(&Request::new()).unwrap();

    drop(pool);
    assert!(!lease.touch());
    assert_eq!(lease.settle(Outcome::success()), account_pool::Settlement::Unknown);
    drop(dropped);
}

#[test]
fn c138_one_healthy_account_among_many_serves_everything() {
    let ids: Vec<String> = (0..20_000).map(|index| format!("acct-{index}")).collect();
    let mut s = Scenario::of(conventions(), ids.iter().map(|id| Account::new(id.as_str())));
    for id in ids.iter().filter(|id| *id != "acct-12345") {
        s.block(0, id, 1_000_000_000_000);
    }

    for t in 1..=1_000 {
        let ask = if t % 2 == 0 { anyone() } else { by("u1") };
        assert_eq!(s.turn(t * 10, &ask), "acct-12345");
    }
    assert_eq!(s.scheduler.stats().refused, 0);
    assert_eq!(s.scheduler.stats().selected.total(), 1_000);
    let refusal = s.refused(20_000, &anyone().without(&["acct-12345"]));
    assert_eq!(refusal.retry_at(), Some(at(1_000_000_000_000)));
    assert_eq!(refusal.tally().total(), 20_000);
}

#[test]
fn c138_sibling_dead_accounts_can_be_cleared_away() {
    let ids: Vec<String> = (0..2_000).map(|index| format!("acct-{index}")).collect();
    let mut s = Scenario::of(conventions(), ids.iter().map(|id| Account::new(id.as_str())));
    for id in &ids[1..] {
        s.set_status(0, id, Status::Banned);
    }
    assert_eq!(s.turn(10, &by("u1")), "acct-0");
    for id in &ids[1..] {
        s.remove(20, id);
    }
    assert_eq!(s.scheduler.accounts().count(), 1);
    assert_eq!(s.turn(30, &by("u1")), "acct-0");
}
