//! Interleavings of drop, settle and wake: who waits is served whatever the order, and nothing is
//! left behind. Built with `RUSTFLAGS="--cfg pool_shuttle"`, where time stands still.

#![cfg(pool_shuttle)]
#![allow(clippy::unwrap_used, reason = "a test that does not fit has failed")]

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use account_pool::{
    Account, Config, ManualClock, Millis, Outcome, Pool, Request, Settlement, Timestamp,
};
use shuttle::future::{block_on, spawn};
use shuttle::{check_pct, check_random};

type Fixture = Pool<(), ManualClock>;

const ROUNDS: usize = 2_000;
const PATIENT: Millis = Millis::from_mins(10);

/// A pool of single places.
fn pool(places: usize) -> Fixture {
    let clock = ManualClock::new(Timestamp::from_millis(1));
    let pool = Pool::with_clock(Config::default(), clock).unwrap();
    for index in 0..places {
        pool.add(Account::new(format!("a{index}")).max_in_flight(1), ()).unwrap();
    }
    pool
}

/// Nobody is served, and nobody waits.
fn assert_idle(pool: &Fixture) {
    assert_eq!((pool.in_flight(), pool.waiting()), (0, 0));
}

fn explore(test: impl Fn() + Send + Sync + 'static) {
    let test = Arc::new(test);
    let again = Arc::clone(&test);
    check_random(move || test(), ROUNDS);
    check_pct(move || again(), ROUNDS, 3);
}

/// Yields a number of times, so that a drop falls at any point.
async fn pause(times: usize) {
    for _ in 0..times {
        shuttle::future::yield_now().await;
    }
}

/// Polls once, and gives up when that was not enough.
async fn impatient(pool: &Fixture) {
    let request = Request::new().caller("t:1:u1");
    let mut acquire = pool.acquire(&request, PATIENT);
    let once =
        std::future::poll_fn(|cx: &mut Context<'_>| Poll::Ready(Pin::new(&mut acquire).poll(cx)));
    if let Poll::Ready(lease) = once.await {
        lease.unwrap().settle(Outcome::success());
        return;
    }
    pause(1).await;
    drop(acquire);
}

#[test]
fn everybody_is_served() {
    explore(|| {
        let pool = pool(2);
        let tasks = (0..4).map(|caller| {
            let pool = pool.clone();
            spawn(async move {
                let caller = format!("t:{}:u{caller}", caller % 2);
                let request = Request::new().caller(&caller);
                let lease = pool.acquire(&request, PATIENT).await.unwrap();
                pause(caller.len() % 2).await;
                lease.settle(Outcome::success());
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            block_on(task).unwrap();
        }
        assert_idle(&pool);
    });
}

#[test]
fn a_waiter_that_goes_hands_on() {
    explore(|| {
        let pool = pool(1);
        let held = pool.select(&Request::new()).unwrap();
        let gone = spawn({
            let pool = pool.clone();
            async move { impatient(&pool).await }
        });
        let stays = spawn({
            let pool = pool.clone();
            async move {
                let request = Request::new().caller("t:2:u2");
                drop(pool.acquire(&request, PATIENT).await.unwrap());
            }
        });
        drop(held);
        block_on(stays).unwrap();
        block_on(gone).unwrap();
        assert_idle(&pool);
    });
}

#[test]
fn an_aborted_task_hands_on() {
    explore(|| {
        let pool = pool(1);
        let held = pool.select(&Request::new()).unwrap();
        let wait = |caller: &'static str| {
            let pool = pool.clone();
            spawn(async move {
                let lease = pool.acquire(&Request::new().caller(caller), PATIENT).await;
                drop(lease.unwrap());
            })
        };
        let (gone, stays) = (wait("t:1:u1"), wait("t:2:u2"));
        let release = spawn(async move { drop(held) });
        gone.abort();
        block_on(release).unwrap();
        block_on(stays).unwrap();
        drop(block_on(gone));
        assert_idle(&pool);
    });
}

#[test]
fn an_account_that_comes_and_goes_strands_nobody() {
    explore(|| {
        let pool = pool(1);
        let held = pool.select(&Request::new()).unwrap();
        let waiter = spawn({
            let pool = pool.clone();
            async move {
                let answer = pool.acquire(&Request::new().caller("t:1:u1"), PATIENT).await;
                answer.is_ok()
            }
        });
        let operator = spawn({
            let pool = pool.clone();
            async move {
                pool.remove("a0");
                pool.add(Account::new("b0").max_in_flight(1), ()).unwrap();
            }
        });
        drop(held);
        block_on(operator).unwrap();
        block_on(waiter).unwrap();
        assert_idle(&pool);
    });
}

#[test]
fn a_dropped_pool_ends_the_wait() {
    explore(|| {
        let pool = pool(1);
        let held = pool.select(&Request::new()).unwrap();
        let request = Request::new();
        let waiter = spawn(pool.acquire(&request, PATIENT));
        pause_then_drop(pool);
        drop(held);
        drop(block_on(waiter).unwrap());
    });
}

#[test]
fn a_lease_and_its_pool_end_at_once() {
    explore(|| {
        let pool = pool(1);
        let held = pool.select(&Request::new()).unwrap();
        let request = Request::new();
        let waiter = spawn(pool.acquire(&request, PATIENT));
        let release = spawn(async move { held.settle(Outcome::success()) });
        pause_then_drop(pool);
        let settlement = block_on(release).unwrap();
        assert!(matches!(settlement, Settlement::Settled | Settlement::Unknown));
        if let Ok(lease) = block_on(waiter).unwrap() {
            assert_eq!(lease.settle(Outcome::success()), Settlement::Unknown);
        }
    });
}

fn pause_then_drop(pool: Fixture) {
    shuttle::thread::yield_now();
    drop(pool);
}
