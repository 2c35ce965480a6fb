//! Input that makes no sense: every case has a stated answer, none panics, none corrupts.

#![allow(clippy::unwrap_used, reason = "a value that is not there is a failed test")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::BTreeSet;

use account_pool::config::{
    Backoff, BindingLimit, Degraded, Escalation, Order, Refresh, StickyMode, Term, Ties,
};
use account_pool::{
    Account, AccountError, AccountId, Affinity, BlockScope, Caller, Config, ConfigError, Dimension,
    Entitlement, ManualClock, Millis, Outcome, Path, Plan, Pool, QuotaReading, QuotaWindow,
    RateLimit, Reason, Request, Reset, Scheduler, Scope, Settlement, Status, Ticket, Timestamp,
    Unavailable, Usage,
};

/// Counts the bytes that the current thread holds.
struct Counting;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
}

fn note(size: usize, sign: isize) {
    let size = isize::try_from(size).unwrap_or(isize::MAX);
    // A thread that is shutting down is not counted.
    HELD.try_with(|held| held.set(held.get() + sign * size)).unwrap_or_default();
}

// SAFETY: every call is handed to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size(), 1);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        note(layout.size(), -1);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn scheduler(accounts: impl IntoIterator<Item = Account>) -> Scheduler {
    configured(Config::default(), accounts)
}

fn configured(config: Config, accounts: impl IntoIterator<Item = Account>) -> Scheduler {
    let mut scheduler = Scheduler::new(config).unwrap();
    for account in accounts {
        scheduler.add(account, at(0)).unwrap();
    }
    scheduler
}

fn any() -> Request<'static> {
    Request::new()
}

fn take(scheduler: &mut Scheduler, now: u64) -> Ticket {
    scheduler.select(&any(), at(now)).unwrap().ticket
}

fn refused(scheduler: &mut Scheduler, request: &Request<'_>, now: u64) -> Unavailable {
    scheduler.select(request, at(now)).unwrap_err()
}

fn reasons(refusal: &Unavailable) -> Vec<Reason> {
    refusal.tally().iter().map(|(reason, _)| reason).collect()
}

fn in_flight(scheduler: &Scheduler, account: &str, now: u64) -> u32 {
    scheduler.inspect(account, at(now)).unwrap().in_flight
}

mod ids {
    use super::*;

    #[test]
    fn a_duplicate_is_refused_and_the_first_account_stays() {
        let mut scheduler = scheduler([Account::new("a").rpm(7)]);
        let before = scheduler.clone();
        let refusal = scheduler.add(Account::new("a").rpm(9), at(0));
        assert_eq!(refusal, Err(AccountError::Duplicate("a".into())));
        assert_eq!(scheduler, before);
    }

    #[test]
    fn an_empty_or_blank_id_is_refused() {
        let mut scheduler = scheduler([]);
        for id in ["", " ", "\t\n", "\u{2003}"] {
            assert_eq!(scheduler.add(Account::new(id), at(0)), Err(AccountError::BlankId));
        }
        assert_eq!(scheduler.accounts().count(), 0);
    }

    #[test]
    fn ids_are_compared_as_they_are() {
        let mut scheduler = scheduler([Account::new("a"), Account::new(" a"), Account::new("A")]);
        assert_eq!(scheduler.accounts().count(), 3);
        assert!(scheduler.remove(" a", at(0)));
        assert!(scheduler.inspect("a", at(0)).is_some());
    }

    #[test]
    fn an_odd_id_is_an_id_like_any_other() {
        let long = "x".repeat(100_000);
        for id in ["nul\0inside", "日本語", "🦀", long.as_str()] {
            let mut scheduler = scheduler([Account::new(id)]);
            assert_eq!(scheduler.select(&any(), at(0)).unwrap().account, id);
        }
    }

    #[test]
    fn every_method_of_the_scheduler_names_an_unknown_id() {
        let mut it = scheduler([Account::new("a")]);
        let now = at(0);
        let unknown = AccountError::Unknown("x".into());
        let names = BTreeSet::new();
        assert_eq!(it.set_plan("x", &Plan::default(), now), Err(unknown.clone()));
        assert_eq!(it.set_models("x", &Entitlement::Any, now), Err(unknown.clone()));
        assert_eq!(it.set_selectors("x", &Entitlement::Any, now), Err(unknown.clone()));
        assert_eq!(it.set_blocked_models("x", &names, now), Err(unknown.clone()));
        assert_eq!(it.set_status("x", Status::Active, now), Err(unknown.clone()));
        assert_eq!(it.set_maintenance("x", true, now), Err(unknown.clone()));
        assert_eq!(it.set_draining("x", true, now), Err(unknown.clone()));
        let block = it.block("x", &BlockScope::Account, Dimension::Operator, at(9), now);
        assert_eq!(block, Err(unknown.clone()));
        assert_eq!(it.clear_blocks("x", None, now), Err(unknown.clone()));
        assert_eq!(it.clear_block("x", 1, now), Err(unknown.clone()));
        assert_eq!(it.observe("x", &any(), &Outcome::Internal, now), Err(unknown.clone()));
        assert_eq!(it.observe_quota("x", &QuotaReading::at(now), now), Err(unknown.clone()));
        assert_eq!(it.bind(&any().caller("c"), "x", now), Err(unknown.clone()));
        assert_eq!(it.unbind_account("x", now), Err(unknown));
        assert!(!it.remove("x", now));
        assert_eq!(it.inspect("x", now), None);
        let refusal = it.select_account("x", &any(), now).unwrap_err();
        assert_eq!(reasons(&refusal), [Reason::UnknownAccount]);
        assert_eq!(refusal.retry_at(), None);
    }

    #[test]
    fn every_method_of_the_pool_names_an_unknown_id() {
        let pool: Pool<u8, _> =
            Pool::with_clock(Config::default(), ManualClock::default()).unwrap();
        let unknown = AccountError::Unknown("x".into());
        assert_eq!(pool.set_plan("x", &Plan::default()), Err(unknown.clone()));
        assert_eq!(pool.set_models("x", &Entitlement::Any), Err(unknown.clone()));
        assert_eq!(pool.set_selectors("x", &Entitlement::Any), Err(unknown.clone()));
        assert_eq!(pool.set_blocked_models("x", &BTreeSet::new()), Err(unknown.clone()));
        assert_eq!(pool.set_status("x", Status::Active), Err(unknown.clone()));
        assert_eq!(pool.set_maintenance("x", true), Err(unknown.clone()));
        assert_eq!(pool.set_draining("x", true), Err(unknown.clone()));
        let block = pool.block("x", &BlockScope::Account, Dimension::Operator, at(9));
        assert_eq!(block, Err(unknown.clone()));
        assert_eq!(pool.clear_blocks("x", None), Err(unknown.clone()));
        assert_eq!(pool.clear_block("x", 1), Err(unknown.clone()));
        assert_eq!(pool.observe("x", &any(), &Outcome::Internal), Err(unknown.clone()));
        assert_eq!(pool.observe_quota("x", &QuotaReading::at(at(0))), Err(unknown.clone()));
        assert_eq!(pool.bind(&any().caller("c"), "x"), Err(unknown.clone()));
        assert_eq!(pool.unbind_account("x"), Err(unknown.clone()));
        assert_eq!(pool.set_payload("x", 1), Err(unknown));
        assert_eq!(pool.remove("x"), None);
        assert_eq!(pool.payload("x"), None);
        assert_eq!(pool.inspect("x"), None);
        assert_eq!(
            reasons(&pool.select_account("x", &any()).unwrap_err()),
            [Reason::UnknownAccount]
        );
    }

    #[test]
    fn an_id_that_comes_back_starts_clean_but_for_what_the_upstream_said() {
        let mut scheduler = scheduler([Account::new("a").rpm(5)]);
        let ticket = take(&mut scheduler, 0);
        let usage = Usage::from_prompt_total(10, 0, 0);
        scheduler.settle(ticket, &Outcome::Success { usage }, at(0));
        let throttled = Outcome::rate_limited(Some(Reset::After(Millis::from_secs(9))));
        scheduler.observe("a", &any(), &throttled, at(0)).unwrap();
        let scope = BlockScope::Account;
        scheduler.block("a", &scope, Dimension::Operator, at(60_000), at(0)).unwrap();
        scheduler.remove("a", at(1));
        scheduler.add(Account::new("a").rpm(5), at(2)).unwrap();
        let view = scheduler.inspect("a", at(2)).unwrap();
        assert_eq!((view.requests[0].used, view.usage.successes, view.trouble), (0, 0, 0));
        let blocks: Vec<_> = view.blocks.iter().map(|it| (it.dimension, it.until)).collect();
        assert_eq!(blocks, [(Dimension::Throttle, at(9_000))]);
        scheduler.remove("a", at(3));
        scheduler.add(Account::new("a"), at(9_000)).unwrap();
        assert_eq!(scheduler.inspect("a", at(9_000)).unwrap().blocks, []);
    }

    #[test]
    fn an_unknown_excluded_id_is_ignored() {
        let mut scheduler = scheduler([Account::new("a")]);
        let unknown = [AccountId::from("x"), AccountId::from("")];
        assert!(scheduler.select(&any().exclude(&unknown), at(0)).is_ok());
    }

    #[test]
    fn the_error_status_is_not_set_by_hand() {
        let mut scheduler = scheduler([Account::new("a")]);
        assert_eq!(scheduler.set_status("a", Status::Error, at(0)), Err(AccountError::Status));
        assert_eq!(scheduler.inspect("a", at(0)).unwrap().status, Status::Active);
    }

    #[test]
    fn an_empty_pool_says_so() {
        let refusal = refused(&mut scheduler([]), &any(), 0);
        assert_eq!(refusal.tally().total(), 0);
        assert_eq!(refusal.retry_at(), None);
        assert!(!refusal.is_load_only());
        assert_eq!(refusal.to_string(), "the pool has no accounts");
    }
}

mod limits {
    use super::*;

    fn never(account: Account, reason: Reason) {
        let mut scheduler = scheduler([account]);
        let refusal = refused(&mut scheduler, &any(), 0);
        assert_eq!(reasons(&refusal), [reason]);
        assert_eq!(refusal.retry_after(), None);
        assert!(!refusal.is_load_only());
        assert!(scheduler.select_account("a", &any(), at(u64::MAX)).is_err());
    }

    #[test]
    fn no_requests_per_minute_means_never() {
        never(Account::new("a").rpm(0), Reason::RateLimit);
    }

    #[test]
    fn no_requests_in_a_further_window_means_never() {
        never(Account::new("a").rpm(9).window(0, Millis::from_secs(10)), Reason::RateLimit);
    }

    #[test]
    fn no_tokens_per_minute_means_never() {
        never(Account::new("a").tokens_per_minute(0), Reason::TokenLimit);
    }

    #[test]
    fn no_leases_at_once_means_never() {
        never(Account::new("a").max_in_flight(0), Reason::InFlight);
    }

    #[test]
    fn a_cost_beyond_the_token_limit_is_never_served() {
        let mut scheduler = scheduler([Account::new("a").tokens_per_minute(10)]);
        let refusal = refused(&mut scheduler, &any().cost(11), 0);
        assert_eq!(reasons(&refusal), [Reason::TokenLimit]);
        assert_eq!(refusal.retry_at(), None);
        assert!(scheduler.select(&any().cost(10), at(0)).is_ok());
    }

    #[test]
    fn absent_limits_are_no_limits() {
        let mut scheduler = scheduler([Account::new("a")]);
        for _ in 0..10_000 {
            scheduler.select(&any().cost(u64::MAX), at(0)).unwrap();
        }
        let view = scheduler.inspect("a", at(0)).unwrap();
        assert_eq!((view.in_flight, view.requests.len(), view.tokens), (10_000, 0, None));
    }

    #[test]
    fn the_largest_limits_are_limits() {
        let account = Account::new("a")
            .rpm(u64::MAX)
            .window(u64::MAX, Millis::MAX)
            .tokens_per_minute(u64::MAX)
            .max_in_flight(u32::MAX);
        let mut scheduler = scheduler([account]);
        for now in 0..1_000 {
            scheduler.select(&any(), at(now)).unwrap();
        }
        assert_eq!(scheduler.inspect("a", at(1_000)).unwrap().requests[1].used, 1_000);
    }

    #[test]
    fn memory_does_not_grow_with_the_limit() {
        let held = |limit: u64| {
            let before = HELD.get();
            let account = Account::new("a").rpm(limit).tokens_per_minute(limit);
            let mut scheduler = scheduler([account]);
            for now in 0..100 {
                let ticket = scheduler.select(&any().cost(1), at(now)).unwrap().ticket;
                scheduler.settle(ticket, &Outcome::success(), at(now));
            }
            let held = HELD.get() - before;
            drop(scheduler);
            held
        };
        let small = held(1_000);
        assert!(small > 0);
        assert_eq!(held(u64::MAX), small);
    }

    #[test]
    fn memory_does_not_grow_with_the_traffic() {
        let mut scheduler = scheduler([Account::new("a").rpm(u64::MAX)]);
        let mut held = |now: u64, requests: u32| {
            for _ in 0..requests {
                let ticket = scheduler.select(&any(), at(now)).unwrap().ticket;
                scheduler.settle(ticket, &Outcome::success(), at(now));
            }
            HELD.get()
        };
        let few = held(0, 10);
        assert_eq!(held(0, 10_000), few);
    }

    #[test]
    fn a_window_of_no_length_is_refused() {
        let mut scheduler = scheduler([Account::new("a")]);
        let plans = [
            Plan::default().window(1, Millis::ZERO),
            Plan::default().rpm(1).window(5, Millis::ZERO),
        ];
        for plan in plans {
            assert_eq!(scheduler.set_plan("a", &plan, at(0)), Err(AccountError::Window));
            let account = Account::new("b").plan(plan);
            assert_eq!(scheduler.add(account, at(0)), Err(AccountError::Window));
        }
        let mut tokens = Plan::default();
        tokens.tokens = Some(RateLimit::new(1, Millis::ZERO));
        assert_eq!(scheduler.set_plan("a", &tokens, at(0)), Err(AccountError::Window));
        assert!(scheduler.select(&any(), at(0)).is_ok());
    }

    #[test]
    fn a_weight_that_is_no_positive_number_is_refused() {
        let mut scheduler = scheduler([Account::new("a")]);
        let weights = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 0.0, -0.0, 1_000_001.0];
        for weight in weights {
            let account = Account::new("b").weight(weight);
            assert_eq!(scheduler.add(account, at(0)), Err(AccountError::Weight));
            let plan = Plan::default().weight(weight);
            assert_eq!(scheduler.set_plan("a", &plan, at(0)), Err(AccountError::Weight));
        }
        assert_eq!(scheduler.accounts().count(), 1);
    }

    #[test]
    fn the_smallest_and_the_largest_weight_are_weights() {
        let accounts =
            [Account::new("a").weight(f64::MIN_POSITIVE), Account::new("b").weight(1_000_000.0)];
        let mut config = Config::default();
        config.rank.terms = vec![Term::WeightedInFlight];
        let mut scheduler = configured(config, accounts);
        for caller in 0..100 {
            let caller = caller.to_string();
            let grant = scheduler.select(&any().caller(&caller), at(0)).unwrap();
            scheduler.cancel(grant.ticket, at(0));
            assert_eq!(grant.account, "b", "a billion times as heavy");
        }
    }
}

mod quota {
    use super::*;

    #[test]
    fn a_remaining_share_that_is_no_number_is_unknown() {
        for remaining in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let mut scheduler = scheduler([Account::new("a")]);
            let reading = QuotaReading::at(at(0)).window(QuotaWindow::new(remaining));
            assert_eq!(scheduler.observe_quota("a", &reading, at(0)), Ok(true));
            assert_eq!(scheduler.inspect("a", at(0)).unwrap().quota.worst, None);
            assert!(scheduler.select(&any(), at(0)).is_ok());
        }
    }

    #[test]
    fn a_remaining_share_out_of_range_is_clamped() {
        let mut scheduler = scheduler([Account::new("a")]);
        let mut worst = |remaining: f64| {
            let reading = QuotaReading::at(at(0)).window(QuotaWindow::new(remaining));
            scheduler.observe_quota("a", &reading, at(0)).unwrap();
            scheduler.inspect("a", at(0)).unwrap().quota.worst
        };
        assert_eq!(worst(1e300), Some(100.0));
        assert_eq!(worst(-1e300), Some(0.0));
    }

    #[test]
    fn a_negative_share_is_dry() {
        let mut scheduler = scheduler([Account::new("a")]);
        let reading = QuotaReading::at(at(0)).window(QuotaWindow::new(-5.0));
        scheduler.observe_quota("a", &reading, at(0)).unwrap();
        assert_eq!(reasons(&refused(&mut scheduler, &any(), 0)), [Reason::QuotaExhausted]);
    }

    #[test]
    fn a_balance_that_is_no_number_is_nothing_to_spend() {
        for balance in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0] {
            let mut scheduler = scheduler([Account::new("a")]);
            let reading = QuotaReading::at(at(0)).window(QuotaWindow::new(0.0)).balance(balance);
            scheduler.observe_quota("a", &reading, at(0)).unwrap();
            assert!(scheduler.select(&any(), at(0)).is_err(), "{balance}");
        }
    }

    #[test]
    fn windows_beyond_the_most_that_are_kept_are_ignored() {
        let mut scheduler = scheduler([Account::new("a")]);
        let full = QuotaReading::at(at(0));
        let full = (0..QuotaReading::MAX_WINDOWS)
            .fold(full, |reading, _| reading.window(QuotaWindow::new(50.0)));
        scheduler.observe_quota("a", &full.window(QuotaWindow::new(0.0)), at(0)).unwrap();
        let view = scheduler.inspect("a", at(0)).unwrap();
        assert_eq!(view.quota.windows.len(), QuotaReading::MAX_WINDOWS);
        assert_eq!(view.quota.worst, Some(50.0));
    }

    #[test]
    fn an_older_reading_is_ignored() {
        let mut scheduler = scheduler([Account::new("a")]);
        let mut read = |observed_at: u64, remaining: f64| {
            let reading = QuotaReading::at(at(observed_at)).window(QuotaWindow::new(remaining));
            scheduler.observe_quota("a", &reading, at(10)).unwrap()
        };
        assert!(read(10, 40.0));
        assert!(!read(9, 0.0));
        assert!(scheduler.select(&any(), at(10)).is_ok());
    }

    #[test]
    fn a_reading_from_the_future_counts_as_taken_now() {
        let mut scheduler = scheduler([Account::new("a")]);
        let mut read = |observed_at: u64, remaining: f64, now: u64| {
            let reading = QuotaReading::at(at(observed_at)).window(QuotaWindow::new(remaining));
            scheduler.observe_quota("a", &reading, at(now)).unwrap()
        };
        assert!(read(u64::MAX, 0.0, 10));
        assert!(read(11, 40.0, 11), "what is observed later is newer");
        assert!(scheduler.select(&any(), at(11)).is_ok());
    }

    #[test]
    fn a_reading_without_windows_says_nothing() {
        let mut scheduler = scheduler([Account::new("a")]);
        scheduler.observe_quota("a", &QuotaReading::at(at(0)), at(0)).unwrap();
        assert!(scheduler.select(&any(), at(0)).is_ok());
        assert!(!scheduler.drought(at(0)));
    }
}

mod names {
    use super::*;

    #[test]
    fn a_blank_caller_is_anonymous() {
        let mut scheduler = scheduler([Account::new("a")]);
        for key in ["", " ", "\t\r\n", "\u{a0}"] {
            assert_eq!(Caller::new(key), None);
            let grant = scheduler.select(&any().caller(key).tenant("t"), at(0)).unwrap();
            scheduler.settle(grant.ticket, &Outcome::success(), at(0));
        }
        assert_eq!(scheduler.bindings(at(0)), 0);
        assert!(!scheduler.unbind(&any().caller(" "), at(0)));
        assert_eq!(scheduler.bind(&any().caller(" "), "a", at(0)), Ok(()));
        assert_eq!(scheduler.bindings(at(0)), 0);
    }

    #[test]
    fn an_anonymous_caller_has_nothing_to_require() {
        let mut scheduler = scheduler([Account::new("a")]);
        let refusal = refused(&mut scheduler, &any().affinity(Affinity::Require), 0);
        assert_eq!(reasons(&refusal), [Reason::Unbound]);
        assert_eq!(refusal.retry_at(), None);
    }

    #[test]
    fn a_long_caller_key_is_told_from_one_that_ends_otherwise() {
        let mut scheduler = scheduler([Account::new("a"), Account::new("b")]);
        let long = "k".repeat(10_240);
        let other = format!("{}l", &long[1..]);
        scheduler.bind(&any().caller(&long), "b", at(0)).unwrap();
        let bound = scheduler.select(&any().caller(&long), at(0)).unwrap();
        assert_eq!((bound.account.as_str(), bound.path), ("b", Path::Sticky));
        assert_eq!(scheduler.peek(&any().caller(&other), at(0)), None);
    }

    #[test]
    fn caller_keys_are_not_trimmed() {
        assert_ne!(Caller::new("a"), Caller::new(" a"));
        assert_ne!(Caller::new("a"), Caller::new("a\0"));
    }

    #[test]
    fn names_are_trimmed_and_keep_their_case() {
        let account = Account::new("a").models(Entitlement::only([" opus\n"]));
        let mut scheduler = scheduler([account]);
        assert!(scheduler.select(&any().model("\topus "), at(0)).is_ok());
        let refusal = refused(&mut scheduler, &any().model("Opus"), 0);
        assert_eq!(reasons(&refusal), [Reason::NotEntitled]);
    }

    #[test]
    fn a_blank_name_counts_as_absent() {
        let account = Account::new("a")
            .models(Entitlement::only(["opus"]))
            .selectors(Entitlement::only(["eu"]));
        let mut scheduler = scheduler([account]);
        assert!(scheduler.select(&any().model(" ").selector("\t"), at(0)).is_ok());
    }

    #[test]
    fn odd_model_names_are_told_apart() {
        let long = "m".repeat(1 << 20);
        let names = ["nul\0", "nul", "日本語", "e\u{301}", "\u{e9}", "a b", "🦀", long.as_str()];
        let mut scheduler = scheduler([Account::new("a")]);
        for blocked in names {
            let scope = BlockScope::Model(blocked.to_owned());
            scheduler.block("a", &scope, Dimension::Operator, at(100), at(0)).unwrap();
            for asked in names {
                let served = scheduler.preview(&any().model(asked), at(0)).is_ok();
                assert_eq!(served, asked != blocked, "{asked:.20} with {blocked:.20} blocked");
            }
            scheduler.clear_blocks("a", None, at(0)).unwrap();
        }
    }

    #[test]
    fn a_model_and_a_selector_of_one_name_are_two_things() {
        let mut scheduler = scheduler([Account::new("a")]);
        let scope = BlockScope::Model("x".to_owned());
        scheduler.block("a", &scope, Dimension::Operator, at(100), at(0)).unwrap();
        assert!(scheduler.select(&any().selector("x"), at(0)).is_ok());
        assert!(scheduler.select(&any().model("x"), at(0)).is_err());
    }

    #[test]
    fn an_entitlement_to_nothing_serves_only_requests_without_a_model() {
        let nothing = Entitlement::only(["", "  "]);
        let mut scheduler = scheduler([Account::new("a").models(nothing)]);
        assert!(scheduler.select(&any(), at(0)).is_ok());
        assert!(scheduler.select(&any().model("opus"), at(0)).is_err());
    }

    #[test]
    fn a_scope_without_its_name_falls_back_to_the_account() {
        for scope in [Scope::Model, Scope::Selector] {
            let mut scheduler = scheduler([Account::new("a")]);
            let ticket = take(&mut scheduler, 0);
            let outcome = Outcome::QuotaExhausted { scope, reset: None };
            scheduler.settle(ticket, &outcome, at(0));
            let blocks = scheduler.inspect("a", at(0)).unwrap().blocks;
            assert_eq!(blocks[0].scope, BlockScope::Account);
        }
    }

    #[test]
    fn names_that_clients_make_up_are_forgotten() {
        let mut scheduler = scheduler([Account::new("a")]);
        let mut visit = |names: std::ops::Range<u32>| {
            for name in names {
                let name = format!("made-up-{name:08}");
                let grant = scheduler.select(&any().model(&name), at(0)).unwrap();
                scheduler.settle(grant.ticket, &Outcome::success(), at(0));
            }
            HELD.get()
        };
        let some = visit(0..5_000);
        let more = visit(5_000..50_000);
        assert!(more < some + 100_000, "{} bytes more", more - some);
    }
}

mod time {
    use super::*;

    #[test]
    fn a_time_that_goes_back_counts_as_the_latest() {
        let mut scheduler = scheduler([Account::new("a").rpm(1)]);
        take(&mut scheduler, 10_000);
        let refusal = refused(&mut scheduler, &any(), 3);
        assert_eq!(refusal.retry_at(), Some(at(70_000)));
        assert_eq!(refusal.retry_after(), Some(Millis::from_mins(1)));
        assert_eq!(scheduler.preview(&any(), at(3)).unwrap_err(), refusal);
        assert_eq!(scheduler.inspect("a", at(3)).unwrap().requests[0].used, 1);
    }

    #[test]
    fn the_end_of_time_is_a_time() {
        let mut scheduler = scheduler([Account::new("a").rpm(1).tokens_per_minute(1)]);
        let request = any().caller("c").model("m").cost(1);
        for now in [u64::MAX - 1, u64::MAX, u64::MAX] {
            if let Ok(grant) = scheduler.select(&request, at(now)) {
                scheduler.settle(grant.ticket, &Outcome::rate_limited(None), at(now));
            }
            assert!(scheduler.inspect("a", at(now)).is_some());
            assert!(scheduler.next_deadline(at(now)).is_none_or(|it| it > at(now)));
        }
        assert_eq!(scheduler.in_flight(), 0);
    }

    #[test]
    fn a_deadline_beyond_the_end_of_time_is_the_end_of_time() {
        let mut scheduler = scheduler([Account::new("a").window(1, Millis::MAX)]);
        take(&mut scheduler, 1);
        assert_eq!(refused(&mut scheduler, &any(), 2).retry_at(), Some(Timestamp::MAX));
    }

    #[test]
    fn the_longest_spans_are_a_policy() {
        let mut config = Config::default();
        let forever = Backoff { base: Millis::MAX, factor: 1e300, cap: Millis::MAX };
        config.cooldown.floor = Millis::MAX;
        config.cooldown.jitter = Millis::MAX;
        config.cooldown.decay = Millis::MAX;
        config.cooldown.throttle = forever;
        config.cooldown.quota = forever;
        config.cooldown.auth = forever;
        config.cooldown.overload = forever;
        config.breaker.recovery = Millis::MAX;
        config.breaker.quarantine = Millis::MAX;
        config.health.window = Millis::MAX;
        config.health.dead = u32::MAX;
        config.sticky.time_to_idle = Millis::MAX;
        config.sticky.cache_lifetime = Millis::MAX;
        config.sticky.queue_on_pin = Millis::MAX;
        config.lease_timeout = Some(Millis::MAX);
        config.baseline_jitter = u64::MAX;
        let mut scheduler = configured(config, [Account::new("a"), Account::new("b")]);
        let ticket = take(&mut scheduler, 5);
        scheduler.settle(ticket, &Outcome::DeadToken, at(5));
        scheduler.observe("b", &any(), &Outcome::rate_limited(None), at(5)).unwrap();
        scheduler.add(Account::new("c"), at(6)).unwrap();
        let views = ["a", "b"].map(|id| scheduler.inspect(id, at(6)).unwrap());
        for view in views {
            assert_eq!(view.blocks[0].until, Timestamp::MAX);
        }
        assert_eq!(scheduler.select(&any(), at(u64::MAX - 1)).unwrap().account, "c");
    }

    #[test]
    fn no_spans_at_all_are_a_policy() {
        let mut config = Config::default();
        let none = Backoff { base: Millis::ZERO, factor: 1.0, cap: Millis::ZERO };
        config.cooldown.floor = Millis::ZERO;
        config.cooldown.throttle = none;
        config.cooldown.quota = none;
        config.cooldown.auth = none;
        config.cooldown.overload = none;
        config.breaker.quarantine = Millis::ZERO;
        config.sticky.time_to_idle = Millis::ZERO;
        config.sticky.cache_lifetime = Millis::ZERO;
        config.quota.max_age = Millis::ZERO;
        let mut scheduler = configured(config, [Account::new("a"), Account::new("b")]);
        let outcomes = [
            Outcome::rate_limited(None),
            Outcome::rate_limited(Some(Reset::After(Millis::MAX))),
            Outcome::quota_exhausted(None),
            Outcome::Overloaded { scope: Scope::Account, reset: None },
            Outcome::AuthFailed,
            Outcome::DeadToken,
            Outcome::Internal,
            Outcome::Internal,
        ];
        for outcome in outcomes {
            scheduler.observe("a", &any(), &outcome, at(0)).unwrap();
        }
        let dry = QuotaReading::at(at(0)).window(QuotaWindow::new(0.0));
        scheduler.observe_quota("a", &dry, at(0)).unwrap();
        assert_eq!(scheduler.inspect("a", at(0)).unwrap().blocks, []);
        assert!(scheduler.select_account("a", &any(), at(0)).is_ok());
    }
}

mod outcomes {
    use super::*;

    fn blocked_until(hint: Reset, config: Config, now: u64) -> Timestamp {
        let mut scheduler = configured(config, [Account::new("a")]);
        let outcome = Outcome::rate_limited(Some(hint));
        scheduler.observe("a", &any(), &outcome, at(now)).unwrap();
        scheduler.inspect("a", at(now)).unwrap().blocks[0].until
    }

    #[test]
    fn a_hint_without_end_is_cut_at_the_cap() {
        let cap = Millis::from_mins(15);
        let until = blocked_until(Reset::After(Millis::MAX), Config::default(), 7);
        assert_eq!(until, at(7).plus(cap));
        let until = blocked_until(Reset::At(Timestamp::MAX), Config::default(), 7);
        assert_eq!(until, at(7).plus(cap));
    }

    #[test]
    fn a_hint_in_the_past_or_of_no_length_is_the_shortest_cooldown() {
        for hint in [Reset::After(Millis::ZERO), Reset::At(Timestamp::ZERO)] {
            assert_eq!(blocked_until(hint, Config::default(), 5_000), at(6_000));
        }
    }

    #[test]
    fn a_floor_above_the_cap_wins() {
        let mut config = Config::default();
        config.cooldown.floor = Millis::from_secs(20);
        config.cooldown.throttle.cap = Millis::from_secs(10);
        assert_eq!(blocked_until(Reset::After(Millis::ZERO), config, 0), at(20_000));
    }

    #[test]
    fn usage_beyond_all_bounds_saturates() {
        let mut usage = Usage::default();
        usage.input = u64::MAX;
        usage.output = u64::MAX;
        usage.cache_read = u64::MAX;
        usage.cache_write = u64::MAX;
        usage.reasoning = u64::MAX;
        usage.reported_total = u64::MAX;
        usage.cost_micros = u64::MAX;
        let mut scheduler = scheduler([Account::new("a").tokens_per_minute(u64::MAX)]);
        for now in 0..3 {
            let grant = scheduler.select(&any().caller("c"), at(now * 60_000)).unwrap();
            scheduler.settle(grant.ticket, &Outcome::Success { usage }, at(now * 60_000));
        }
        let totals = scheduler.inspect("a", at(120_000)).unwrap().usage;
        assert_eq!((totals.successes, totals.input, totals.billable), (3, u64::MAX, u64::MAX));
        assert_eq!(scheduler.stats().usage, totals);
        assert_eq!(scheduler.peek(&any().caller("c"), at(120_000)).unwrap().usage, totals);
        assert!(totals.cached_share().unwrap() <= 1.0);
    }

    #[test]
    fn usage_beyond_the_token_limit_fills_the_window() {
        let mut scheduler = scheduler([Account::new("a").tokens_per_minute(100)]);
        let ticket = take(&mut scheduler, 0);
        let mut usage = Usage::default();
        usage.reported_total = u64::MAX;
        scheduler.settle(ticket, &Outcome::Success { usage }, at(0));
        let refusal = refused(&mut scheduler, &any(), 1);
        assert_eq!(reasons(&refusal), [Reason::TokenLimit]);
        assert_eq!(refusal.retry_at(), Some(at(60_000)));
    }

    #[test]
    fn more_cached_tokens_than_the_prompt_has_count_as_the_prompt() {
        let usage = Usage::from_prompt_total(10, u64::MAX, 1);
        assert_eq!((usage.input, usage.cache_read), (0, 10));
    }

    #[test]
    fn a_block_whose_deadline_has_passed_does_nothing() {
        let mut scheduler = scheduler([Account::new("a")]);
        for until in [0, 4, 5] {
            let now = at(5);
            let done =
                scheduler.block("a", &BlockScope::Account, Dimension::Operator, at(until), now);
            assert_eq!(done, Ok(()));
        }
        assert!(scheduler.select(&any(), at(5)).is_ok());
    }

    #[test]
    fn a_block_that_is_not_there_cannot_be_cleared() {
        let mut scheduler = scheduler([Account::new("a")]);
        assert_eq!(scheduler.clear_block("a", u64::MAX, at(0)), Ok(false));
        assert_eq!(scheduler.clear_blocks("a", None, at(0)), Ok(false));
        assert_eq!(scheduler.clear_blocks("a", Some(Dimension::Auth), at(0)), Ok(false));
    }

    #[test]
    fn a_block_that_was_renewed_is_not_cleared_by_what_was_seen_before() {
        let mut scheduler = scheduler([Account::new("a")]);
        let throttled = Outcome::rate_limited(Some(Reset::After(Millis::from_secs(60))));
        scheduler.observe("a", &any(), &throttled, at(0)).unwrap();
        let seen = scheduler.inspect("a", at(0)).unwrap().blocks[0].generation;
        scheduler.observe("a", &any(), &throttled, at(1)).unwrap();
        assert_eq!(scheduler.clear_block("a", seen, at(1)), Ok(false));
        let seen = scheduler.inspect("a", at(1)).unwrap().blocks[0].generation;
        assert_eq!(scheduler.clear_block("a", seen, at(1)), Ok(true));
        assert!(scheduler.select(&any(), at(1)).is_ok());
    }

    #[test]
    fn a_block_that_has_ended_is_not_cleared_and_its_escalation_stays() {
        let mut scheduler = scheduler([Account::new("a")]);
        scheduler.observe("a", &any(), &Outcome::rate_limited(None), at(0)).unwrap();
        let seen = scheduler.inspect("a", at(0)).unwrap().blocks[0].generation;
        assert_eq!(scheduler.clear_block("a", seen, at(15_000)), Ok(false));
        scheduler.observe("a", &any(), &Outcome::rate_limited(None), at(15_000)).unwrap();
        assert_eq!(scheduler.inspect("a", at(15_000)).unwrap().blocks[0].until, at(45_000));
    }

    #[test]
    fn a_block_by_hand_leaves_the_escalation_as_it_is() {
        let mut scheduler = scheduler([Account::new("a")]);
        let mut until = |now: u64| {
            scheduler.observe("a", &any(), &Outcome::rate_limited(None), at(now)).unwrap();
            scheduler.inspect("a", at(now)).unwrap().blocks[0].until
        };
        assert_eq!(until(0), at(15_000));
        assert_eq!(until(15_000), at(45_000));
        let account = BlockScope::Account;
        scheduler.block("a", &account, Dimension::Throttle, at(50_000), at(45_000)).unwrap();
        scheduler.observe("a", &any(), &Outcome::rate_limited(None), at(50_000)).unwrap();
        assert_eq!(scheduler.inspect("a", at(50_000)).unwrap().blocks[0].until, at(110_000));
    }
}

mod tickets {
    use super::*;

    #[test]
    fn a_second_settle_is_late_and_releases_nothing() {
        let mut scheduler = scheduler([Account::new("a")]);
        let (first, _second) = (take(&mut scheduler, 0), take(&mut scheduler, 0));
        assert_eq!(scheduler.settle(first, &Outcome::success(), at(0)), Settlement::Settled);
        assert_eq!(scheduler.settle(first, &Outcome::success(), at(0)), Settlement::Late);
        assert_eq!(scheduler.cancel(first, at(0)), Settlement::Late);
        assert_eq!(scheduler.abandon(first, at(0)), Settlement::Late);
        assert!(!scheduler.refund(first, at(0)));
        assert!(!scheduler.touch(first, at(0)));
        assert_eq!(in_flight(&scheduler, "a", 0), 1);
        assert_eq!(scheduler.inspect("a", at(0)).unwrap().usage.successes, 1);
    }

    #[test]
    fn a_late_failure_is_noted_by_health_alone() {
        let mut scheduler = scheduler([Account::new("a")]);
        let ticket = take(&mut scheduler, 0);
        scheduler.cancel(ticket, at(0));
        for outcome in [Outcome::rate_limited(None), Outcome::Network, Outcome::DeadToken] {
            assert_eq!(scheduler.settle(ticket, &outcome, at(0)), Settlement::Late);
        }
        let view = scheduler.inspect("a", at(0)).unwrap();
        assert_eq!((view.trouble, view.blocks.len()), (7, 0));
        assert!(scheduler.select(&any(), at(0)).is_ok());
    }

    #[test]
    fn a_settle_after_the_removal_ends_the_lease_without_effect() {
        let mut scheduler = scheduler([Account::new("a"), Account::new("b")]);
        let request = any().caller("c");
        let ticket = scheduler.select_account("a", &request, at(0)).unwrap().ticket;
        scheduler.remove("a", at(0));
        assert_eq!(scheduler.settle(ticket, &Outcome::success(), at(0)), Settlement::Settled);
        assert_eq!(scheduler.in_flight(), 0);
        assert_eq!(scheduler.peek(&request, at(0)), None);
        assert_eq!(scheduler.settle(ticket, &Outcome::success(), at(0)), Settlement::Unknown);
    }

    #[test]
    fn a_settle_after_the_id_came_back_leaves_the_new_account_alone() {
        let mut scheduler = scheduler([Account::new("a")]);
        let request = any().caller("c");
        let old = scheduler.select_account("a", &request, at(0)).unwrap().ticket;
        scheduler.remove("a", at(0));
        scheduler.add(Account::new("a"), at(0)).unwrap();
        let new = take(&mut scheduler, 0);
        let fresh = scheduler.inspect("a", at(0)).unwrap();
        assert_eq!(fresh.in_flight, 1);
        for outcome in [Outcome::DeadToken, Outcome::success()] {
            scheduler.settle(old, &outcome, at(0));
            assert_eq!(scheduler.inspect("a", at(0)).unwrap(), fresh);
        }
        assert_eq!(scheduler.peek(&request, at(0)), None);
        assert_eq!(scheduler.cancel(new, at(0)), Settlement::Settled);
    }

    #[test]
    fn a_ticket_of_another_scheduler_changes_nothing() {
        let with_origin = |origin| {
            let mut scheduler = Scheduler::with_origin(Config::default(), origin).unwrap();
            scheduler.add(Account::new("a").rpm(5), at(0)).unwrap();
            scheduler
        };
        let (mut here, mut there) = (with_origin(1), with_origin(2));
        let (own, foreign) = (take(&mut here, 0), take(&mut there, 0));
        let before = here.clone();
        assert_eq!(here.settle(foreign, &Outcome::DeadToken, at(0)), Settlement::Unknown);
        assert_eq!(here.report(foreign, &Outcome::DeadToken, at(0)), Settlement::Unknown);
        assert_eq!(here.cancel(foreign, at(0)), Settlement::Unknown);
        assert_eq!(here.abandon(foreign, at(0)), Settlement::Unknown);
        assert!(!here.refund(foreign, at(0)));
        assert!(!here.touch(foreign, at(0)));
        assert_eq!(here, before);
        assert_eq!(here.cancel(own, at(0)), Settlement::Settled);
        assert_eq!(in_flight(&here, "a", 0), 0);
    }

    #[test]
    fn a_ticket_that_was_never_given_changes_nothing() {
        let mut scheduler = scheduler([Account::new("a")]);
        let mut later = scheduler.clone();
        let _first = take(&mut later, 0);
        let unknown = take(&mut later, 0);
        assert_eq!(scheduler.settle(unknown, &Outcome::DeadToken, at(0)), Settlement::Unknown);
        assert_eq!(scheduler.inspect("a", at(0)).unwrap().trouble, 0);
    }

    #[test]
    fn a_refund_is_given_once_and_only_within_the_window() {
        let mut scheduler = scheduler([Account::new("a").rpm(2)]);
        let (first, second) = (take(&mut scheduler, 0), take(&mut scheduler, 1));
        assert!(scheduler.refund(first, at(2)));
        assert!(!scheduler.refund(first, at(2)));
        assert_eq!(scheduler.inspect("a", at(2)).unwrap().requests[0].used, 1);
        assert!(!scheduler.refund(second, at(60_001)), "it has left the window");
    }

    fn queued(scheduler: &mut Scheduler, now: u64) -> account_pool::Wait {
        refused(scheduler, &any().caller("c"), now).wait().unwrap().clone()
    }

    fn with_queue(origin: u32) -> Scheduler {
        let mut config = Config::default();
        config.sticky.queue_on_pin = Millis::from_secs(30);
        let mut scheduler = Scheduler::with_origin(config, origin).unwrap();
        scheduler.add(Account::new("a").max_in_flight(1), at(0)).unwrap();
        scheduler.bind(&any().caller("c"), "a", at(0)).unwrap();
        take(&mut scheduler, 0);
        scheduler
    }

    #[test]
    fn a_place_in_the_queue_is_given_back_once() {
        let mut scheduler = with_queue(0);
        let ticket = queued(&mut scheduler, 0).ticket;
        assert!(scheduler.give_up(ticket));
        assert!(!scheduler.give_up(ticket));
        assert_eq!(scheduler.inspect("a", at(0)).unwrap().waiting, 0);
    }

    #[test]
    fn a_place_in_another_queue_is_no_place_here() {
        let (mut here, mut there) = (with_queue(1), with_queue(2));
        let own = queued(&mut here, 0);
        let foreign = queued(&mut there, 0).ticket;
        assert!(!here.give_up(foreign));
        let again = here.select(&any().caller("c").after_wait(foreign), at(10)).unwrap_err();
        let wait = again.wait().unwrap();
        assert_ne!(wait.ticket, own.ticket, "the place of another request is not taken over");
        assert_eq!(wait.deadline, at(30_010), "a foreign deadline does not count");
        assert_eq!(here.inspect("a", at(10)).unwrap().waiting, 2);
    }
}

mod config {
    use super::*;

    fn field(change: impl FnOnce(&mut Config)) -> String {
        let mut config = Config::default();
        change(&mut config);
        let mut scheduler = scheduler([Account::new("a")]);
        let before = scheduler.clone();
        let error: ConfigError = scheduler.set_config(config.clone(), at(9)).unwrap_err();
        assert_eq!(scheduler, before, "a config that is refused changes nothing");
        assert_eq!(Scheduler::new(config.clone()).unwrap_err(), error);
        assert_eq!(config.validate().unwrap_err(), error);
        assert!(error.to_string().starts_with(&format!("`{}` ", error.field())));
        error.field().to_owned()
    }

    macro_rules! refuses {
        ($($test:ident: $field:literal, $change:expr;)*) => {
            $(
                #[test]
                fn $test() {
                    assert_eq!(field($change), $field);
                }
            )*
        };
    }

    refuses! {
        no_trail: "sticky.trail", |it| it.sticky.trail = 0;
        a_trail_too_long: "sticky.trail", |it| it.sticky.trail = 9;
        a_table_too_large: "sticky.capacity", |it| it.sticky.capacity = usize::MAX;
        a_term_named_twice: "rank.terms", |it| it.rank.terms.insert(0, Term::Headroom);
        both_in_flight_terms: "rank.terms", |it| it.rank.terms.insert(0, Term::WeightedInFlight);
        recency_before_the_end: "rank.terms", |it| it.rank.terms.rotate_right(1);
        no_headroom_steps: "rank.ties.health.headroom_steps",
            |it| it.rank.ties = Ties::Health { headroom_steps: 0, in_flight_slack: 0 };
        a_soft_rate_of_nan: "soft.rate_used_percent",
            |it| it.soft.rate_used_percent = Some(f64::NAN);
        a_soft_quota_beyond_full: "soft.quota_left_percent",
            |it| it.soft.quota_left_percent = Some(100.1);
        no_decay: "cooldown.decay", |it| it.cooldown.decay = Millis::ZERO;
        a_shrinking_throttle: "cooldown.throttle.factor",
            |it| it.cooldown.throttle.factor = 0.99;
        a_quota_factor_of_nan: "cooldown.quota.factor",
            |it| it.cooldown.quota.factor = f64::NAN;
        an_infinite_auth_factor: "cooldown.auth.factor",
            |it| it.cooldown.auth.factor = f64::INFINITY;
        a_negative_overload_factor: "cooldown.overload.factor",
            |it| it.cooldown.overload.factor = -1.0;
        no_errors_to_open: "breaker.threshold", |it| it.breaker.threshold = Some(0);
        no_probes: "breaker.half_open_probes", |it| it.breaker.half_open_probes = Some(0);
        no_internal_errors: "breaker.internal_threshold",
            |it| it.breaker.internal_threshold = Some(0);
        no_ban_signals: "breaker.ban_threshold", |it| it.breaker.ban_threshold = Some(0);
        no_error_window: "breaker.window", |it| it.breaker.window = Millis::ZERO;
        no_recovery: "breaker.recovery", |it| it.breaker.recovery = Millis::ZERO;
        no_probe_timeout: "breaker.probe_timeout",
            |it| it.breaker.probe_timeout = Millis::ZERO;
        no_ban_window: "breaker.ban_window", |it| it.breaker.ban_window = Millis::ZERO;
        an_escalation_of_nan: "breaker.escalation.factor",
            |it| it.breaker.escalation = Some(Escalation { factor: f64::NAN, ..Escalation::default() });
        no_health_window: "health.window", |it| it.health.window = Millis::ZERO;
        no_health_bucket: "health.bucket", |it| it.health.bucket = 0;
        a_negative_dry_percent: "quota.dry_percent", |it| it.quota.dry_percent = -0.1;
        an_unknown_percent_of_nan: "quota.unknown_percent",
            |it| it.quota.unknown_percent = f64::NAN;
        a_drought_beyond_full: "quota.drought_percent", |it| it.quota.drought_percent = 101.0;
        an_infinite_reserve: "quota.on_demand_reserve",
            |it| it.quota.on_demand_reserve = f64::INFINITY;
        a_negative_reserve: "quota.on_demand_reserve", |it| it.quota.on_demand_reserve = -1.0;
        no_bucket_points: "quota.bucket_points", |it| it.quota.bucket_points = 0;
        bucket_points_beyond_full: "quota.bucket_points", |it| it.quota.bucket_points = 101;
        no_lease_timeout: "lease_timeout", |it| it.lease_timeout = Some(Millis::ZERO);
        an_alias_of_an_alias: "aliases", |it| {
            it.aliases.insert("a".into(), "b".into());
            it.aliases.insert("b".into(), "c".into());
        };
        an_alias_of_itself: "aliases", |it| {
            it.aliases.insert("a".into(), "a".into());
        };
    }

    #[test]
    fn the_pool_refuses_what_the_scheduler_refuses() {
        let mut config = Config::default();
        config.sticky.trail = 0;
        let clock = ManualClock::default();
        let error = Pool::<(), _>::with_clock(config.clone(), clock.clone()).unwrap_err();
        assert_eq!(error.field(), "sticky.trail");
        let pool = Pool::<(), _>::with_clock(Config::default(), clock).unwrap();
        assert_eq!(pool.set_config(config), Err(error));
        assert_eq!(pool.config(), Config::default());
    }

    #[test]
    fn no_terms_at_all_take_accounts_in_the_order_of_insertion() {
        let mut config = Config::default();
        config.rank.terms.clear();
        let mut scheduler = configured(config, [Account::new("b"), Account::new("a")]);
        for _ in 0..3 {
            let grant = scheduler.select(&any(), at(0)).unwrap();
            assert_eq!((grant.account.as_str(), grant.tied), ("b", 2));
        }
    }

    #[test]
    fn a_table_of_no_size_never_refuses() {
        let mut config = Config::default();
        config.sticky.capacity = 0;
        let mut scheduler = configured(config, [Account::new("a")]);
        for now in 0..3 {
            let grant = scheduler.select(&any().caller("c"), at(now)).unwrap();
            assert_eq!(grant.path, Path::Rank);
            scheduler.settle(grant.ticket, &Outcome::success(), at(now));
        }
        assert_eq!(scheduler.bindings(at(3)), 0);
    }

    fn parse(json: &str) -> Result<Config, String> {
        serde_json::from_str(json).map_err(|error| error.to_string())
    }

    #[test]
    fn an_unknown_field_is_refused_by_name() {
        let unknown = [
            r#"{"stickyness": {}}"#,
            r#"{"sticky": {"stickyness": 1}}"#,
            r#"{"rank": {"stickyness": 1}}"#,
            r#"{"soft": {"stickyness": 1}}"#,
            r#"{"cooldown": {"stickyness": 1}}"#,
            r#"{"cooldown": {"throttle": {"stickyness": 1}}}"#,
            r#"{"breaker": {"stickyness": 1}}"#,
            r#"{"breaker": {"escalation": {"stickyness": 1}}}"#,
            r#"{"health": {"stickyness": 1}}"#,
            r#"{"quota": {"stickyness": 1}}"#,
            r#"{"sticky": {"binding_limit": {"stickyness": 1}}}"#,
        ];
        for json in unknown {
            let error = parse(json).unwrap_err();
            assert!(error.contains("unknown field `stickyness`"), "{json}: {error}");
        }
    }

    #[test]
    fn a_wrong_type_or_value_is_refused() {
        let wrong = [
            "null",
            "\"default\"",
            r#"{"sticky": 1}"#,
            r#"{"sticky": {"mode": "sometimes"}}"#,
            r#"{"sticky": {"time_to_idle": -1}}"#,
            r#"{"sticky": {"time_to_idle": 1.5}}"#,
            r#"{"sticky": {"time_to_idle": "30m"}}"#,
            r#"{"rank": {"terms": ["luck"]}}"#,
            r#"{"rank": {"ties": {"health": {}}}}"#,
            r#"{"breaker": {"threshold": 4294967296}}"#,
            r#"{"quota": {"dry_percent": "NaN"}}"#,
            r#"{"last_usable_exempt": "yes"}"#,
            r#"{"aliases": ["a"]}"#,
            r#"{"lease_timeout": 18446744073709551616}"#,
        ];
        for json in wrong {
            assert!(parse(json).is_err(), "{json}");
        }
    }

    #[test]
    fn a_plan_with_an_unknown_field_is_refused() {
        let plan: Result<Plan, _> = serde_json::from_str(r#"{"rpm": 5}"#);
        assert!(plan.unwrap_err().to_string().contains("unknown field `rpm`"));
    }

    #[test]
    fn settings_that_contradict_each_other_serve_all_the_same() {
        let mut config = Config::default();
        config.sticky.mode = StickyMode::Drain;
        config.sticky.order = Order::HomeFirst;
        config.sticky.trail = 8;
        config.sticky.no_fallback = true;
        config.sticky.drop_when_blocked = true;
        config.sticky.bind_by_caller_only = true;
        config.sticky.refresh = Refresh::OnLookup;
        config.sticky.queue_on_pin = Millis::MAX;
        config.sticky.max_waiters = 0;
        config.sticky.binding_limit = Some(BindingLimit { callers: 0, refuse: false });
        config.degraded = Degraded::Inferred;
        let mut scheduler = configured(config, [Account::new("a").rpm(5), Account::new("b")]);
        for now in 0..20 {
            let grant = scheduler.select(&any().caller("c").model("m"), at(now)).unwrap();
            scheduler.settle(grant.ticket, &Outcome::success(), at(now));
        }
    }
}

#[test]
fn a_lease_of_one_pool_settles_nothing_in_another() {
    let pool = || {
        let pool = Pool::with_clock(Config::default(), ManualClock::default()).unwrap();
        pool.add(Account::new("a"), ()).unwrap();
        pool
    };
    let (here, there) = (pool(), pool());
    let own = here.select(&any()).unwrap();
    let foreign = there.select(&any()).unwrap();
    foreign.settle(Outcome::DeadToken);
    assert_eq!((here.in_flight(), there.in_flight()), (1, 0));
    assert_eq!(here.inspect("a").unwrap().trouble, 0);
    drop(own);
    assert_eq!(here.in_flight(), 0);
}
