//! Every way out of a lease releases exactly one place, and no payload meets the lock.

#![allow(clippy::unwrap_used, reason = "a value that is not there is a failed test")]

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll, Waker};
use std::thread;

use account_pool::{
    Account, AccountError, AccountId, Caller, Clock, Config, Event, Lease, ManualClock, Millis,
    Outcome, Path, Pool, Reason, Request, Reset, Scheduler, Settlement, Timestamp, Usage,
};

const SECRET: &str = "sk-sentinel-5e3c1a";

type ManualPool<T> = Pool<T, ManualClock>;

fn empty<T: Send + Sync + 'static>() -> ManualPool<T> {
    let clock = ManualClock::new(Timestamp::from_millis(1_000));
    Pool::with_clock(Config::default(), clock).unwrap()
}

/// One account `a` of ten requests per minute, with two leases held; the second is returned with
/// the one that the test lets go.
fn held_twice() -> (ManualPool<&'static str>, Lease<&'static str>, Lease<&'static str>) {
    let pool = empty();
    pool.add(Account::new("a").rpm(10), SECRET).unwrap();
    let (first, second) = (lease(&pool), lease(&pool));
    assert_eq!(in_flight(&pool), 2);
    (pool, first, second)
}

fn lease<T: Send + Sync + 'static>(pool: &ManualPool<T>) -> Lease<T> {
    pool.select(&Request::new()).unwrap()
}

fn in_flight<T: Send + Sync + 'static>(pool: &ManualPool<T>) -> u32 {
    let in_flight = pool.inspect("a").unwrap().in_flight;
    assert_eq!(pool.in_flight(), in_flight as usize);
    in_flight
}

fn used(pool: &ManualPool<&'static str>) -> u64 {
    pool.inspect("a").unwrap().requests[0].used
}

mod ways_out {
    use super::*;

    #[test]
    fn every_outcome_releases_one_place() {
        let outcomes = [
            Outcome::success(),
            Outcome::rate_limited(None),
            Outcome::quota_exhausted(None),
            Outcome::Internal,
            Outcome::AuthFailed,
            Outcome::DeadToken,
            Outcome::BanSignal,
            Outcome::Network,
            Outcome::Timeout,
            Outcome::ClientFault,
            Outcome::Cancelled,
        ];
        for outcome in outcomes {
            let (pool, first, _second) = held_twice();
            assert_eq!(first.settle(outcome), Settlement::Settled);
            assert_eq!((in_flight(&pool), used(&pool)), (1, 2), "{outcome:?}");
        }
    }

    #[test]
    fn abandon_gives_the_rate_slot_back_too() {
        let (pool, first, _second) = held_twice();
        assert_eq!(first.abandon(), Settlement::Settled);
        assert_eq!((in_flight(&pool), used(&pool)), (1, 1));
        assert_eq!(pool.stats().refunded, 1);
    }

    #[test]
    fn drop_counts_as_cancelled() {
        let (pool, first, _second) = held_twice();
        drop(first);
        let view = pool.inspect("a").unwrap();
        assert_eq!((in_flight(&pool), used(&pool)), (1, 2));
        assert_eq!((view.trouble, view.usage.successes, view.blocks.len()), (0, 0, 0));
        assert_eq!(pool.stats().settled, 1);
    }

    #[test]
    fn a_panic_while_it_is_held_counts_as_cancelled() {
        let (pool, first, _second) = held_twice();
        let unwound = catch_unwind(AssertUnwindSafe(move || {
            let _held = first;
            panic!("the handler failed");
        }));
        assert!(unwound.is_err());
        assert_eq!(in_flight(&pool), 1);
        assert_eq!(pool.inspect("a").unwrap().trouble, 0);
        assert!(pool.select(&Request::new()).is_ok(), "the lock is not poisoned");
    }

    #[test]
    fn a_lease_outlives_its_pool() {
        let (pool, first, second) = held_twice();
        drop(pool);
        assert_eq!(*first.payload().as_ref(), SECRET);
        assert!(!first.touch());
        assert_eq!(first.report(Outcome::Internal), Settlement::Unknown);
        assert_eq!(first.settle(Outcome::success()), Settlement::Unknown);
        drop(second);
    }

    #[test]
    fn a_lease_does_not_keep_its_pool_alive() {
        let payload = Arc::new(());
        let pool = empty();
        pool.add(Account::new("a"), Arc::clone(&payload)).unwrap();
        pool.add(Account::new("b"), Arc::clone(&payload)).unwrap();
        let held = lease(&pool);
        drop(pool);
        assert_eq!(Arc::strong_count(&payload), 2, "the other account's payload is gone");
        drop(held);
        assert_eq!(Arc::strong_count(&payload), 1);
    }

    #[test]
    fn a_lease_does_not_keep_its_pools_observer_alive() {
        let told = Arc::new(AtomicUsize::new(0));
        let (pool, first, second) = held_twice();
        let by_observer = Arc::clone(&told);
        assert!(pool.set_observer(move |_: &Event, _: Timestamp| {
            by_observer.fetch_add(1, Ordering::SeqCst);
        }));
        drop(first);
        assert_eq!((told.load(Ordering::SeqCst), Arc::strong_count(&told)), (1, 2));
        drop(pool);
        assert_eq!(Arc::strong_count(&told), 1);
        drop(second);
        assert_eq!(told.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_lease_of_a_clone_outlives_the_other_handles() {
        let (pool, first, second) = held_twice();
        let clone = pool.clone();
        drop(pool);
        assert_eq!(first.settle(Outcome::success()), Settlement::Settled);
        drop(clone);
        assert_eq!(second.settle(Outcome::success()), Settlement::Unknown);
    }

    #[test]
    fn a_lease_outlives_its_account() {
        let (pool, first, second) = held_twice();
        assert_eq!(*pool.remove("a").unwrap(), SECRET);
        assert_eq!(pool.in_flight(), 2);
        assert_eq!(*first.payload().as_ref(), SECRET);
        drop(first);
        assert_eq!(pool.in_flight(), 1);
        second.settle(Outcome::DeadToken);
        assert_eq!(pool.in_flight(), 0);
    }

    #[test]
    fn a_lease_of_a_removed_account_does_not_touch_its_successor() {
        let (pool, first, second) = held_twice();
        pool.remove("a").unwrap();
        pool.add(Account::new("a").rpm(10), "another").unwrap();
        let third = lease(&pool);
        drop(first);
        second.settle(Outcome::rate_limited(None));
        let view = pool.inspect("a").unwrap();
        assert_eq!((view.in_flight, view.trouble, view.blocks.len()), (1, 0, 0));
        third.settle(Outcome::success());
        assert_eq!(in_flight(&pool), 0);
    }

    #[test]
    fn another_thread_may_end_it() {
        let (pool, first, second) = held_twice();
        let there = thread::spawn(move || {
            first.settle(Outcome::success());
            drop(second);
        });
        there.join().unwrap();
        assert_eq!(in_flight(&pool), 0);
    }

    #[test]
    fn a_lease_that_was_reaped_releases_nothing_more() {
        let (pool, first, second) = held_twice();
        pool.clock().advance(Millis::from_mins(15));
        let third = lease(&pool);
        assert_eq!(in_flight(&pool), 1);
        assert_eq!(first.settle(Outcome::success()), Settlement::Late);
        assert!(!second.touch());
        drop(second);
        assert_eq!(in_flight(&pool), 1);
        drop(third);
        assert_eq!(in_flight(&pool), 0);
    }

    #[test]
    fn touch_keeps_a_lease() {
        let (pool, first, _silent) = held_twice();
        pool.clock().advance(Millis::from_mins(14));
        assert!(first.touch());
        pool.clock().advance(Millis::from_mins(14));
        assert_eq!(pool.inspect("a").unwrap().in_flight, 1);
        assert_eq!(first.settle(Outcome::success()), Settlement::Settled);
    }

    #[test]
    fn a_report_releases_nothing() {
        let (pool, first, _second) = held_twice();
        let limited = Outcome::rate_limited(Some(Reset::After(Millis::from_secs(9))));
        assert_eq!(first.report(limited), Settlement::Settled);
        assert_eq!(in_flight(&pool), 2);
        assert_eq!(pool.inspect("a").unwrap().blocks.len(), 1);
        first.settle(Outcome::Cancelled);
        assert_eq!(in_flight(&pool), 1);
        assert_eq!(pool.inspect("a").unwrap().blocks.len(), 1, "what was declared still counts");
    }

    #[test]
    fn an_acquired_lease_ends_like_a_selected_one() {
        let (pool, _first, _second) = held_twice();
        let third = pool.select_account("a", &Request::new()).unwrap();
        assert_eq!((third.path(), third.account().as_str()), (Path::Acquired, "a"));
        assert_eq!(in_flight(&pool), 3);
        drop(third);
        assert_eq!(in_flight(&pool), 2);
    }
}

mod tasks {
    use super::*;

    /// Is pending once.
    #[derive(Default)]
    struct Yield(bool);

    impl Future for Yield {
        type Output = ();

        fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
            if std::mem::replace(&mut self.0, true) { Poll::Ready(()) } else { Poll::Pending }
        }
    }

    async fn stream(pool: ManualPool<&'static str>) -> Settlement {
        let lease = pool.select(&Request::new()).unwrap();
        Yield::default().await;
        assert!(lease.touch());
        lease.settle(Outcome::success())
    }

    fn pool() -> ManualPool<&'static str> {
        let pool = empty();
        pool.add(Account::new("a").max_in_flight(1), SECRET).unwrap();
        pool
    }

    #[test]
    fn a_lease_is_held_across_an_await_point() {
        let pool = pool();
        let mut task = pin!(stream(pool.clone()));
        let mut context = Context::from_waker(Waker::noop());
        assert_eq!(task.as_mut().poll(&mut context), Poll::Pending);
        assert_eq!(in_flight(&pool), 1);
        assert_eq!(task.as_mut().poll(&mut context), Poll::Ready(Settlement::Settled));
        assert_eq!(in_flight(&pool), 0);
    }

    #[test]
    fn a_task_that_is_cancelled_releases_its_lease() {
        let pool = pool();
        let mut task = Box::pin(stream(pool.clone()));
        let mut context = Context::from_waker(Waker::noop());
        assert!(task.as_mut().poll(&mut context).is_pending());
        assert!(pool.select(&Request::new()).is_err());
        drop(task);
        assert_eq!(in_flight(&pool), 0);
        assert!(pool.select(&Request::new()).is_ok());
    }

    #[test]
    fn a_task_that_holds_a_lease_may_change_threads() {
        let pool = pool();
        let mut task = Box::pin(stream(pool.clone()));
        let mut context = Context::from_waker(Waker::noop());
        assert!(task.as_mut().poll(&mut context).is_pending());
        let there =
            thread::spawn(move || task.as_mut().poll(&mut Context::from_waker(Waker::noop())));
        assert_eq!(there.join().unwrap(), Poll::Ready(Settlement::Settled));
        assert_eq!(in_flight(&pool), 0);
    }
}

mod handles {
    use super::*;

    #[test]
    fn clones_share_accounts_leases_and_policy() {
        let pool = empty();
        let clone = pool.clone();
        pool.add(Account::new("a"), 1).unwrap();
        let held = lease(&clone);
        assert_eq!(in_flight(&pool), 1);
        let mut config = Config::default();
        config.sticky.trail = 2;
        clone.set_config(config).unwrap();
        assert_eq!(pool.config().sticky.trail, 2);
        drop(clone);
        held.settle(Outcome::success());
        assert_eq!(in_flight(&pool), 0);
    }

    #[test]
    fn a_payload_is_what_was_stored_when_the_account_was_selected() {
        let pool = empty();
        pool.add(Account::new("a"), "old").unwrap();
        let before = lease(&pool);
        assert_eq!(*pool.set_payload("a", "new").unwrap().unwrap(), "old");
        let after = lease(&pool);
        assert_eq!((**before.payload(), **after.payload()), ("old", "new"));
        assert_eq!(*pool.payload("a").unwrap(), "new");
        assert_eq!((before.account(), after.account()), (&AccountId::from("a"), before.account()));
        assert_eq!(in_flight(&pool), 2, "the place is the same");
        assert!(Arc::ptr_eq(after.payload(), &pool.payload("a").unwrap()));
        assert!(Arc::ptr_eq(after.payload(), &pool.remove("a").unwrap()));
    }

    #[test]
    fn each_account_has_its_own_payload() {
        let pool = empty();
        for id in ["a", "b", "c"] {
            pool.add(Account::new(id), id.to_owned()).unwrap();
        }
        pool.remove("b").unwrap();
        pool.add(Account::new("d"), "d".to_owned()).unwrap();
        for id in ["a", "c", "d"] {
            let held = pool.select_account(id, &Request::new()).unwrap();
            assert_eq!((held.payload().as_str(), pool.payload(id).unwrap().as_str()), (id, id));
        }
        assert_eq!(pool.payload("b"), None);
    }

    /// A clock that a test can hold up, as if another thread held the pool.
    #[derive(Debug, Default)]
    struct Gate(Arc<Mutex<()>>);

    impl Clock for Gate {
        fn now(&self) -> Timestamp {
            drop(self.0.lock());
            Timestamp::from_millis(1)
        }
    }

    #[test]
    fn the_payload_is_read_without_the_pool() {
        let gate = Gate::default();
        let stuck = Arc::clone(&gate.0);
        let pool = Pool::with_clock(Config::default(), gate).unwrap();
        pool.add(Account::new("a"), SECRET).unwrap();
        let held = pool.select(&Request::new()).unwrap();
        let operation = stuck.lock().unwrap();
        assert_eq!((**held.payload(), held.account().as_str()), (SECRET, "a"));
        drop(operation);
    }

    #[test]
    fn a_payload_need_not_be_cloneable_or_printable() {
        struct Opaque;
        let pool = empty();
        pool.add(Account::new("a"), Opaque).unwrap();
        let held = lease(&pool);
        assert!(format!("{held:?} {pool:?}").contains("Lease"));
    }
}

mod payloads_that_call_back {
    use super::*;

    /// Asks its pool a question when it is dropped; a lock that is held then never opens.
    #[derive(Clone)]
    struct Nosy {
        pool: Arc<Mutex<Option<Weak<ManualPool<Self>>>>>,
        drops: Arc<AtomicUsize>,
    }

    impl Drop for Nosy {
        fn drop(&mut self) {
            let pool = self.pool.lock().unwrap().as_ref().and_then(Weak::upgrade);
            if let Some(pool) = pool {
                assert_eq!(pool.stats().refused, 0);
            }
            self.drops.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Runs `test` with a pool and payloads that call back into it, and fails instead of hanging.
    /// Returns how many payloads were dropped.
    fn drops(
        test: impl FnOnce(Arc<ManualPool<Nosy>>, &dyn Fn() -> Nosy) + Send + 'static,
    ) -> usize {
        let count = Arc::new(AtomicUsize::new(0));
        let drops = Arc::clone(&count);
        let (done, finished) = std::sync::mpsc::channel();
        thread::spawn(move || {
            let pool = Arc::new(empty::<Nosy>());
            let weak = Arc::downgrade(&pool);
            let nosy = move || Nosy {
                pool: Arc::new(Mutex::new(Some(weak.clone()))),
                drops: Arc::clone(&drops),
            };
            test(pool, &nosy);
            done.send(()).unwrap();
        });
        let patience = std::time::Duration::from_secs(30);
        finished.recv_timeout(patience).expect("a payload was dropped under the lock");
        count.load(Ordering::SeqCst)
    }

    #[test]
    fn on_remove() {
        let dropped = drops(|pool, nosy| {
            pool.add(Account::new("a"), nosy()).unwrap();
            drop(pool.remove("a"));
        });
        assert_eq!(dropped, 1);
    }

    #[test]
    fn on_replacement() {
        let dropped = drops(|pool, nosy| {
            pool.add(Account::new("a"), nosy()).unwrap();
            drop(pool.set_payload("a", nosy()));
        });
        assert_eq!(dropped, 2);
    }

    #[test]
    fn on_replacement_of_an_unknown_account() {
        let dropped = drops(|pool, nosy| {
            let refusal = pool.set_payload("x", nosy());
            assert!(matches!(refusal, Err(AccountError::Unknown(_))));
        });
        assert_eq!(dropped, 1);
    }

    #[test]
    fn on_an_add_that_fails() {
        let dropped = drops(|pool, nosy| {
            pool.add(Account::new("a"), nosy()).unwrap();
            let refusal = pool.add(Account::new("a"), nosy());
            assert!(matches!(refusal, Err(AccountError::Duplicate(_))));
            let refusal = pool.add(Account::new(""), nosy());
            assert!(matches!(refusal, Err(AccountError::BlankId)));
        });
        assert_eq!(dropped, 3);
    }

    #[test]
    fn on_the_add_of_an_id_that_comes_back() {
        let dropped = drops(|pool, nosy| {
            pool.add(Account::new("a"), nosy()).unwrap();
            pool.remove("a");
            pool.add(Account::new("a"), nosy()).unwrap();
        });
        assert_eq!(dropped, 2);
    }

    #[test]
    fn on_the_end_of_the_last_lease() {
        let dropped = drops(|pool, nosy| {
            pool.add(Account::new("a"), nosy()).unwrap();
            let held = lease(&pool);
            pool.remove("a");
            drop(held);
        });
        assert_eq!(dropped, 1);
    }

    #[test]
    fn on_the_end_of_the_last_lease_before_a_replacement() {
        let dropped = drops(|pool, nosy| {
            pool.add(Account::new("a"), nosy()).unwrap();
            let held = lease(&pool);
            drop(pool.set_payload("a", nosy()));
            assert_eq!(held.payload().drops.load(Ordering::SeqCst), 0);
            let drops = Arc::clone(&held.payload().drops);
            held.settle(Outcome::success());
            assert_eq!(drops.load(Ordering::SeqCst), 1);
        });
        assert_eq!(dropped, 2);
    }

    #[test]
    fn on_the_end_of_the_pool_while_a_lease_is_held() {
        let dropped = drops(|pool, nosy| {
            pool.add(Account::new("a"), nosy()).unwrap();
            pool.add(Account::new("b"), nosy()).unwrap();
            let held = lease(&pool);
            drop(pool);
            assert_eq!(held.payload().drops.load(Ordering::SeqCst), 1);
            held.settle(Outcome::success());
        });
        assert_eq!(dropped, 2);
    }

    /// Holds a lease of its own pool.
    struct Keeper {
        lease: Mutex<Option<Lease<Self>>>,
        drops: Arc<AtomicUsize>,
    }

    impl Drop for Keeper {
        fn drop(&mut self) {
            self.drops.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn with_a_lease_that_they_hold_on_the_end_of_the_pool() {
        let drops = Arc::new(AtomicUsize::new(0));
        let pool = empty();
        for id in ["a", "b"] {
            let keeper = Keeper { lease: Mutex::default(), drops: Arc::clone(&drops) };
            pool.add(Account::new(id), keeper).unwrap();
        }
        let kept = pool.select_account("b", &Request::new()).unwrap();
        *pool.payload("a").unwrap().lease.lock().unwrap() = Some(kept);
        let (done, finished) = std::sync::mpsc::channel();
        thread::spawn(move || {
            drop(pool);
            done.send(()).unwrap();
        });
        let patience = std::time::Duration::from_secs(30);
        finished.recv_timeout(patience).expect("a payload was dropped under the lock");
        assert_eq!(drops.load(Ordering::SeqCst), 2);
    }

    #[test]
    fn on_the_end_of_the_pool() {
        let dropped = drops(|pool, nosy| {
            pool.add(Account::new("a"), nosy()).unwrap();
            pool.add(Account::new("b"), nosy()).unwrap();
            drop(pool);
        });
        assert_eq!(dropped, 2);
    }
}

mod secrets {
    use super::*;

    #[derive(Debug)]
    struct Credential(#[expect(dead_code, reason = "it is there to be printed by mistake")] String);

    fn shows_no_secret(printed: &str) {
        assert!(!printed.is_empty());
        assert!(!printed.contains(SECRET), "{printed}");
    }

    #[test]
    fn pool_and_lease_print_no_payload() {
        let pool = empty();
        pool.add(Account::new("a"), Credential(SECRET.to_owned())).unwrap();
        let held = lease(&pool);
        shows_no_secret(&format!("{pool:?} {pool:#?} {held:?} {held:#?}"));
        assert!(format!("{held:?}").contains("\"a\""), "the account's id is printed");
    }

    #[test]
    fn nothing_prints_a_callers_key() {
        let key = format!("tenant:{SECRET}:{SECRET}");
        let caller = Caller::new(&key).unwrap();
        let request = Request::new().caller(&key).tenant(SECRET).model("m");
        shows_no_secret(&format!("{caller:?} {request:?} {:?}", request.digested(caller)));

        let now = Timestamp::from_millis(1);
        let mut config = Config::default();
        config.sticky.queue_on_pin = Millis::from_secs(9);
        let mut scheduler = Scheduler::new(config).unwrap();
        scheduler.add(Account::new("a").max_in_flight(1), now).unwrap();
        let grant = scheduler.select(&request, now).unwrap();
        shows_no_secret(&format!("{grant:?} {:?}", scheduler.preview(&request, now)));
        scheduler.settle(grant.ticket, &Outcome::success(), now);
        shows_no_secret(&format!("{:?} {scheduler:?}", scheduler.peek(&request, now)));

        scheduler.select(&request, now).unwrap();
        let refusal = scheduler.select(&request, now).unwrap_err();
        assert!(refusal.wait().is_some());
        shows_no_secret(&format!("{refusal:?} {refusal}"));
        shows_no_secret(&format!("{:?} {:?}", scheduler.stats(), scheduler.inspect("a", now)));
    }

    #[test]
    fn no_snapshot_of_a_caller_holds_its_key() {
        let caller = Caller::new(SECRET).unwrap();
        shows_no_secret(&serde_json::to_string(&caller).unwrap());
    }
}

#[test]
fn threads_that_hammer_one_pool_leave_nothing_in_flight() {
    let pool = empty();
    for id in ["a", "b", "c"] {
        pool.add(Account::new(id).rpm(1_000_000).max_in_flight(2), id).unwrap();
    }
    let served = AtomicUsize::new(0);
    let worker = |worker: usize| {
        for round in 0..2_000 {
            let caller = format!("caller:{worker}:{}", round % 7);
            let failed = [AccountId::from("c")];
            let request = Request::new().caller(&caller).model("m").exclude(&failed);
            let Ok(lease) = pool.select(&request) else {
                continue;
            };
            served.fetch_add(1, Ordering::Relaxed);
            assert!(pool.inspect(lease.account().as_str()).unwrap().in_flight <= 2);
            match round % 4 {
                0 => drop(lease),
                1 => drop(lease.abandon()),
                _ => {
                    let usage = Usage::from_prompt_total(10, 5, 1);
                    lease.settle(Outcome::Success { usage });
                }
            }
        }
    };
    thread::scope(|scope| {
        for number in 0..4 {
            let worker = &worker;
            scope.spawn(move || worker(number));
        }
    });
    let stats = pool.stats();
    assert_eq!(pool.in_flight(), 0);
    for id in ["a", "b", "c"] {
        assert_eq!(pool.inspect(id).unwrap().in_flight, 0);
    }
    assert_eq!(stats.settled, u64::try_from(served.load(Ordering::Relaxed)).unwrap());
    assert_eq!(stats.selected.total(), stats.settled);
    assert_eq!(stats.refused_for(Reason::Excluded), stats.refused);
}

#[test]
fn threads_that_change_accounts_meanwhile_leave_nothing_in_flight() {
    let pool = empty();
    pool.add(Account::new("a"), 0).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            for payload in 0..500 {
                pool.add(Account::new("b"), payload).unwrap();
                pool.set_payload("a", payload).unwrap();
                pool.remove("b").unwrap();
            }
        });
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..2_000 {
                    lease(&pool).settle(Outcome::success());
                }
            });
        }
    });
    assert_eq!(in_flight(&pool), 0);
    assert_eq!(pool.stats().usage.successes, 4_000);
}
