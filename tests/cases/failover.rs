//! The next account within one request, and what a failure leaves behind.

use std::sync::atomic::{AtomicBool, Ordering};

use account_pool::{
    Account, AccountId, BreakerView, Outcome, Path, Reason, Request, Settlement, Status, Tier,
};

use crate::scenario::{Scenario, anyone, at, by, conventions, ms, throttled_for};
use crate::threads::{at_once, pool};

#[test]
fn c100_a_refusal_leads_to_another_account_at_once() {
    let mut s = Scenario::new(&["A", "B"]);

    let l1 = s.hold(0, &by("u1"));
    assert_eq!(l1.account, "A");
    s.fail(&l1, 50, throttled_for(60_000));
    assert_eq!(s.hold(50, &by("u1").without(&["A"])).account, "B");
}

#[test]
fn c100_sibling_a_bound_caller_moves_within_the_request_too() {
    for failure in [throttled_for(60_000), Outcome::Network, Outcome::AuthFailed] {
        let mut s = Scenario::new(&["A", "B"]);
        s.turn(0, &by("u1"));
        let l1 = s.hold(10, &by("u1"));
        assert_eq!(l1.account, "A");
        s.fail(&l1, 50, failure);
        assert_eq!(s.hold(50, &by("u1").without(&["A"])).account, "B", "{failure:?}");
    }
}

#[test]
fn c100_sibling_the_limit_that_the_headers_announce_counts_at_once() {
    let mut s = Scenario::new(&["A", "B"]);

    let l1 = s.hold(0, &by("u1"));
    s.scheduler.report(l1.ticket, &throttled_for(60_000), at(50));
    assert_eq!(s.hold(50, &by("u2")).account, "B");
    assert_eq!(s.hold(51, &by("u3")).account, "B");
}

#[test]
fn c102_the_walk_goes_on_whatever_the_failure() {
    let mut s = Scenario::new(&["A", "B", "C"]);

    let l1 = s.hold(0, &by("u1"));
    s.fail(&l1, 10, throttled_for(60_000));
    let l2 = s.hold(10, &by("u1").without(&["A"]));
    s.fail(&l2, 20, Outcome::AuthFailed);
    let l3 = s.hold(20, &by("u1").without(&["A", "B"]));
    s.ok(&l3, 30);
    assert_eq!([l1, l2, l3].map(|lease| lease.account), ["A", "B", "C"]);

    assert_eq!(s.inspect(31, "A").blocks.len(), 1);
    assert_eq!(s.inspect(31, "B").blocks.len(), 1);
    assert_eq!(s.hold(31, &by("u2")).account, "C");
}

#[test]
fn c102_sibling_the_walk_ends_when_every_account_is_excluded() {
    let mut s = Scenario::new(&["A", "B", "C"]);
    let mut excluded: Vec<AccountId> = Vec::new();

    for t in 0..3 {
        let request = Request::new().exclude(&excluded);
        let grant = s.scheduler.select(&request, at(t)).unwrap();
        s.scheduler.settle(grant.ticket, &Outcome::Network, at(t));
        excluded.push(grant.account);
    }
    let request = Request::new().exclude(&excluded);
    let refusal = s.scheduler.select(&request, at(3)).unwrap_err();
    assert_eq!(refusal.tally().count(Reason::Excluded), 3);
    assert_eq!(refusal.retry_after(), None);
}

#[test]
fn c103_a_bad_request_harms_no_account() {
    let mut config = conventions();
    config.breaker.threshold = Some(3);
    let accounts = ["A", "B", "C"].map(|id| Account::new(id).rpm(30));
    let mut s = Scenario::of(config, accounts);
    s.scheduler.bind(&by("u3").request(), "B", at(0)).unwrap();

    for t in 10..20 {
        for account in ["A", "B", "C"] {
            let held = s.hold_on(t, account, &by("u1"));
            s.fail(&held, t, Outcome::ClientFault);
        }
    }
    for account in ["A", "B", "C"] {
        let view = s.inspect(1_000, account);
        assert!(view.blocks.is_empty());
        assert_eq!((view.trouble, view.breaker), (0, BreakerView::Closed { errors: 0 }));
        assert_eq!(view.requests[0].used, 10);
    }
    s.hold(1_000, &by("u2"));
    assert_eq!(s.hold(1_001, &by("u3")).account, "B");
    assert_eq!(s.bound_to(1_001, &by("u1")), None);
}

#[test]
fn c103_sibling_a_bad_request_does_not_end_a_streak_either() {
    let mut config = conventions();
    config.breaker.threshold = Some(3);
    let mut s = Scenario::with(config, &["A"]);

    s.errors(0, "A", 2);
    s.observe(1, "A", &anyone(), Outcome::ClientFault);
    s.observe(1, "A", &anyone(), Outcome::Cancelled);
    s.errors(2, "A", 1);
    assert_eq!(s.inspect(2, "A").status, Status::Error);
}

#[test]
fn c104_an_account_that_is_switched_off_is_passed_over() {
    let mut s = Scenario::new(&["A", "B", "C"]);
    assert_eq!(s.scheduler.preview(&Request::new(), at(0)).unwrap().account, "A");

    s.set_status(0, "A", Status::Disabled);
    assert_eq!(s.hold(0, &anyone()).account, "B");
}

#[test]
fn c104_an_account_that_flickers_never_ends_the_search() {
    let pool = pool(conventions(), ["A", "B", "C"].map(Account::new), 0);
    let done = AtomicBool::new(false);

    let served = at_once(2, |thread| {
        if thread == 0 {
            while !done.load(Ordering::Relaxed) {
                pool.set_status("A", Status::Disabled).unwrap();
                pool.set_status("A", Status::Active).unwrap();
            }
            return 0;
        }
        let served = (0..10_000).filter(|_| pool.select(&Request::new()).is_ok()).count();
        done.store(true, Ordering::Relaxed);
        served
    });
    assert_eq!(served[1], 10_000);
    assert_eq!(pool.in_flight(), 0);
}

#[test]
fn c104_sibling_an_account_that_comes_and_goes_never_ends_the_search() {
    let pool = pool(conventions(), ["A", "B"].map(Account::new), 0);
    let done = AtomicBool::new(false);

    let served = at_once(2, |thread| {
        if thread == 0 {
            while !done.load(Ordering::Relaxed) {
                pool.remove("A").unwrap();
                pool.add(Account::new("A"), ()).unwrap();
            }
            return 0;
        }
        let caller = Request::new().caller("u1");
        let serve = |_: &usize| {
            pool.select(&caller).is_ok_and(|lease| {
                lease.settle(Outcome::success());
                true
            })
        };
        let served = (0..10_000).filter(serve).count();
        done.store(true, Ordering::Relaxed);
        served
    });
    assert_eq!(served[1], 10_000);
    assert_eq!(pool.in_flight(), 0);
}

#[test]
fn c104_sibling_a_stale_binding_does_not_end_the_search() {
    let mut s = Scenario::new(&["A", "B", "C"]);
    s.turn(0, &by("u1"));

    s.set_status(10, "A", Status::Disabled);
    s.block(10, "B", 60_000);
    assert_eq!(s.hold(11, &by("u1")).account, "C");
}

#[test]
fn c106_removal_ends_bindings_and_takes_no_late_report() {
    let mut s = Scenario::new(&["A", "B"]);

    s.turn(0, &by("u1"));
    let l1 = s.hold(10, &by("u1"));
    assert_eq!(l1.account, "A");
    s.remove(20, "A");
    s.ok(&l1, 30);
    assert!(s.scheduler.inspect("A", at(30)).is_none());
    assert_eq!(s.bound_to(30, &by("u1")), None);
    assert_eq!(s.scheduler.in_flight(), 0);

    s.add(40, Account::new("A"));
    let view = s.inspect(40, "A");
    assert_eq!((view.in_flight, view.bound, view.usage.successes), (0, 0, 0));
    let held = s.hold(41, &by("u1"));
    assert_eq!(held.grant.path, Path::Rank);
}

#[test]
fn c106_sibling_reports_after_the_return_do_not_reach_the_new_account() {
    let mut config = conventions();
    config.breaker.threshold = Some(1);
    let mut s = Scenario::of(config, [Account::new("A").rpm(5).max_in_flight(2)]);
    let old = [0, 0].map(|t| s.hold(t, &by("u1")));
    s.remove(20, "A");
    s.add(20, Account::new("A").rpm(5).max_in_flight(2));
    let new = s.hold(21, &by("u2"));

    let [l1, l2] = &old;
    assert!(!s.scheduler.refund(l1.ticket, at(30)));
    s.fail(l1, 30, Outcome::Network);
    s.scheduler.report(l2.ticket, &throttled_for(60_000), at(30));
    s.ok(l2, 31);
    let again = s.scheduler.settle(l1.ticket, &Outcome::Network, at(32));
    assert_eq!(again, Settlement::Unknown);
    let view = s.inspect(33, "A");
    assert_eq!((view.in_flight, view.requests[0].used, view.trouble), (1, 1, 0));
    assert!(view.blocks.is_empty());
    assert_eq!(s.bound_to(33, &by("u1")), None);
    s.ok(&new, 34);
    assert_eq!(s.inspect(34, "A").in_flight, 0);
}

#[test]
fn c106_sibling_the_removed_account_leaves_the_other_places_of_a_trail() {
    let mut s = Scenario::new(&["A", "B", "C"]);
    s.turn(0, &by("u1"));
    s.block(10, "A", 1_000);
    assert_eq!(s.turn(20, &by("u1")), "B");

    s.remove(30, "A");
    assert_eq!(s.hold(40, &by("u1")).account, "B");
    assert_eq!(s.inspect(40, "B").bound, 1);
}

#[test]
fn c106_a_waiter_for_a_removed_account_goes_elsewhere() {
    let mut config = conventions();
    config.sticky.queue_on_pin = ms(5_000);
    let mut s = Scenario::of(config, [Account::new("A").max_in_flight(1), Account::new("B")]);
    s.turn(0, &by("u1"));
    s.hold(10, &by("u1"));
    let wait = s.refused(11, &by("u1")).wait().unwrap().clone();
    assert_eq!(wait.account, "A");

    s.remove(20, "A");
    assert!(!s.scheduler.give_up(wait.ticket));
    assert_eq!(s.hold(20, &by("u1").after_wait(wait.ticket)).account, "B");
    s.add(40, Account::new("A").max_in_flight(1));
    assert_eq!(s.inspect(40, "A").waiting, 0);
}

fn tiered() -> Scenario {
    let tier = |id, tier| Account::new(id).tier(Tier(tier));
    let mut s = Scenario::of(conventions(), [tier("R", 2), tier("A", 1), tier("B", 1)]);
    s.block(0, "A", 10_000);
    s
}

#[test]
fn c107_the_next_tier_serves_only_when_the_better_one_cannot() {
    let mut s = tiered();

    assert_eq!(s.turns(&[0, 10], &anyone()), ["B", "B"]);
    s.block(20, "B", 5_000);
    assert_eq!(s.turns(&[30, 4_998], &anyone()), ["R", "R"]);
    assert_eq!(s.turn(5_000, &anyone()), "B");
}

#[test]
fn c107_sibling_load_within_a_tier_does_not_spill_until_it_is_full() {
    let account = |id: &str, tier| Account::new(id).tier(Tier(tier)).max_in_flight(2);
    let mut s = Scenario::of(conventions(), [account("A", 1), account("R", 2)]);

    let accounts: Vec<String> = (0..4).map(|t| s.hold(t, &anyone()).account).collect();
    assert_eq!(accounts, ["A", "A", "R", "R"]);
}

#[test]
fn c107_sibling_the_recovery_of_a_tier_moves_no_bound_caller() {
    let mut s = tiered();
    s.block(0, "B", 5_000);
    assert_eq!(s.turn(30, &by("u1")), "R");

    assert_eq!(s.turn(5_000, &by("u1")), "R");
    assert_eq!(s.turn(5_010, &by("u2")), "B");
}
