//! Waiting for an account, on tokio's paused time.

#![allow(clippy::unwrap_used, reason = "a test that does not fit has failed")]

use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use account_pool::config::{BindingLimit, Order};
use account_pool::{
    Account, AccountId, Acquire, Affinity, BlockScope, Clock, Config, Dimension, Lease, Millis,
    Outcome, Path, Plan, Pool, Reason, Request, Reset, Settlement, Status, Timestamp, TokioClock,
    TrafficClass, Unavailable,
};
use tokio::task::JoinHandle;

type Answer = Result<Lease, Unavailable>;

const PATIENT: Millis = Millis::from_mins(60);

fn ms(millis: u64) -> Millis {
    Millis::new(millis)
}

fn t(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn by(caller: &str) -> Request<'static> {
    Request::new().caller(caller)
}

fn config() -> Config {
    let mut config = Config::default();
    config.sticky.order = Order::HomeFirst;
    config.degraded = account_pool::config::Degraded::Off;
    config.new_account_baseline = false;
    config
}

/// A pool whose clock starts at 0.
#[derive(Clone)]
struct World {
    pool: Pool<(), TokioClock>,
}

impl World {
    fn new(accounts: impl IntoIterator<Item = Account>) -> Self {
        Self::with(config(), accounts)
    }

    fn with(config: Config, accounts: impl IntoIterator<Item = Account>) -> Self {
        let pool = Pool::with_clock(config, TokioClock::anchored(Timestamp::ZERO)).unwrap();
        for account in accounts {
            pool.add(account, ()).unwrap();
        }
        Self { pool }
    }

    fn now(&self) -> u64 {
        self.pool.clock().now().as_millis()
    }

    /// Lets everything happen until `millis`.
    async fn until(&self, millis: u64) {
        tokio::time::sleep(t(millis).since(self.pool.clock().now()).into()).await;
        settle().await;
    }

    fn turn(&self, request: &Request<'_>) -> AccountId {
        let lease = self.pool.select(request).unwrap();
        let account = lease.account().clone();
        lease.settle(Outcome::success());
        account
    }

    fn hold(&self, account: &str) -> Lease {
        self.pool.select_account(account, &Request::new()).unwrap()
    }

    fn block(&self, account: &str, until: u64) {
        let throttle = Dimension::Throttle;
        self.pool.block(account, &BlockScope::Account, throttle, t(until)).unwrap();
    }

    /// Waits in a task of its own; the answer comes with the time at which it came.
    fn wait(&self, request: &Request<'static>, max_wait: Millis) -> JoinHandle<(u64, Answer)> {
        let (world, request) = (self.clone(), *request);
        tokio::spawn(async move {
            let answer = world.pool.acquire(&request, max_wait).await;
            (world.now(), answer)
        })
    }

    /// Waits in a task that has been polled.
    async fn queue(
        &self,
        request: &Request<'static>,
        max_wait: Millis,
    ) -> JoinHandle<(u64, Answer)> {
        let handle = self.wait(request, max_wait);
        settle().await;
        handle
    }
}

/// Lets all other tasks run.
async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

fn one() -> Account {
    Account::new("a").max_in_flight(1)
}

async fn served(handle: JoinHandle<(u64, Answer)>) -> (u64, String, Lease) {
    let (at, answer) = handle.await.unwrap();
    let lease = answer.unwrap();
    (at, lease.account().to_string(), lease)
}

async fn refused(handle: JoinHandle<(u64, Answer)>) -> (u64, Unavailable) {
    let (at, answer) = handle.await.unwrap();
    (at, answer.unwrap_err())
}

/// Counts how often it was woken.
#[derive(Default)]
struct Counter(std::sync::atomic::AtomicUsize);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    }
}

/// Polls once with a waker that does nothing.
fn poll_once(future: &mut Acquire<'_, (), TokioClock>) -> Poll<Answer> {
    std::pin::Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

// Answers at once.

#[tokio::test(start_paused = true)]
async fn an_eligible_account_is_served_at_once() {
    let world = World::new([one()]);
    let (at, account, _lease) = served(world.wait(&by("u1"), PATIENT)).await;
    assert_eq!((at, account.as_str()), (0, "a"));
}

#[tokio::test(start_paused = true)]
async fn c137_an_empty_pool_refuses_at_once() {
    let world = World::new([]);
    let (at, refusal) = refused(world.wait(&by("u1"), PATIENT)).await;
    assert_eq!((at, refusal.tally().total()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn what_time_cannot_help_is_refused_at_once() {
    static EXCLUDED: std::sync::LazyLock<Vec<AccountId>> =
        std::sync::LazyLock::new(|| vec![AccountId::from("a")]);
    let world = World::new([one()]);
    let _lease = world.hold("a");
    let (at, refusal) = refused(world.wait(&by("u1").exclude(&EXCLUDED), PATIENT)).await;
    assert_eq!((at, refusal.tally().count(Reason::Excluded)), (0, 1));

    world.pool.set_models("a", &account_pool::Entitlement::Only(["m1".into()].into())).unwrap();
    let (at, refusal) = refused(world.wait(&by("u1").model("m2"), PATIENT)).await;
    assert_eq!((at, refusal.tally().count(Reason::NotEntitled)), (0, 1));

    world.pool.set_status("a", Status::Disabled).unwrap();
    assert_eq!(refused(world.wait(&by("u1"), PATIENT)).await.0, 0);
    assert_eq!(world.pool.waiting(), 0);
}

#[tokio::test(start_paused = true)]
async fn c05_a_recovery_past_the_deadline_is_refused_at_once() {
    let world = World::new([Account::new("a")]);
    world.block("a", 8_000);
    world.until(1_001).await;
    let (at, refusal) = refused(world.wait(&by("u1"), ms(5_000))).await;
    assert_eq!((at, refusal.retry_after()), (1_001, Some(ms(6_999))));

    // One millisecond of patience more would have been served.
    let (at, _, _lease) = served(world.wait(&by("u1"), ms(6_999))).await;
    assert_eq!(at, 8_000);
}

#[tokio::test(start_paused = true)]
async fn a_release_that_leaves_a_long_block_is_not_waited_for() {
    let world = World::new([one()]);
    let lease = world.hold("a");
    world.block("a", 60_000);
    assert_eq!(refused(world.wait(&by("u1"), ms(5_000))).await.0, 0);

    // Where both end in time, the later one counts.
    let handle = world.queue(&by("u1"), PATIENT).await;
    world.until(90_000).await;
    lease.settle(Outcome::success());
    assert_eq!(served(handle).await.0, 90_000);
}

#[tokio::test(start_paused = true)]
async fn a_release_is_waited_for_even_where_another_recovery_is_far() {
    let world = World::new([one(), Account::new("b")]);
    let lease = world.hold("a");
    world.block("b", 3_600_000);
    let handle = world.queue(&by("u1"), ms(5_000)).await;
    world.until(700).await;
    drop(lease);
    assert_eq!(served(handle).await.0, 700);
}

// Time.

#[tokio::test(start_paused = true)]
async fn a_window_that_frees_in_400_ms_costs_400_ms() {
    let world = World::new([Account::new("a").window(1, ms(400))]);
    world.turn(&by("u1"));
    assert_eq!(served(world.wait(&by("u1"), PATIENT)).await.0, 400);
}

#[tokio::test(start_paused = true)]
async fn many_waiters_on_one_window_are_served_one_by_one_at_their_instants() {
    let world = World::new([Account::new("a").window(2, ms(1_000))]);
    let mut handles = Vec::new();
    for _ in 0..7 {
        handles.push(world.queue(&by("u1"), PATIENT).await);
    }
    let mut times = Vec::new();
    for handle in handles {
        times.push(served(handle).await.0);
    }
    assert_eq!(times, [0, 0, 1_000, 1_000, 2_000, 2_000, 3_000]);
}

#[tokio::test(start_paused = true)]
async fn the_refusal_at_the_deadline_is_the_one_that_holds_then() {
    let world = World::new([one()]);
    let _lease = world.hold("a");
    let handle = world.queue(&by("u1"), ms(5_000)).await;
    assert_eq!(world.pool.waiting(), 1);
    let (at, refusal) = refused(handle).await;
    assert_eq!((at, refusal.is_load_only(), refusal.wait().is_none()), (5_000, true, true));
    assert_eq!((world.pool.waiting(), world.pool.stats().refused), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn an_endless_deadline_sets_no_timer() {
    let mut config = config();
    config.lease_timeout = None;
    let world = World::with(config, [one()]);
    let lease = world.hold("a");
    let pool = world.pool.clone();
    let request = by("u1");
    let handle = tokio::spawn(async move { pool.acquire_by(&request, Timestamp::MAX).await });
    world.until(1_000_000_000).await;
    assert_eq!(world.pool.waiting(), 1);
    drop(lease);
    assert!(handle.await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_becomes_hopeless_ends_then() {
    let world = World::new([one()]);
    let lease = world.hold("a");
    let short = world.queue(&by("u1"), ms(30_000)).await;
    let long = world.queue(&by("u2"), PATIENT).await;
    world.until(100).await;
    lease.settle(Outcome::rate_limited(Some(Reset::After(ms(60_000)))));
    let (at, refusal) = refused(short).await;
    assert_eq!((at, refusal.retry_after()), (100, Some(ms(60_000))));
    assert_eq!(served(long).await.0, 60_100);
}

// What wakes.

#[tokio::test(start_paused = true)]
async fn every_end_of_a_lease_serves_the_next() {
    let world = World::new([one()]);
    let ends: [fn(Lease) -> Settlement; 3] = [
        |lease| lease.settle(Outcome::success()),
        Lease::abandon,
        |lease| {
            drop(lease);
            Settlement::Settled
        },
    ];
    let mut lease = world.hold("a");
    for (round, end) in (1..).zip(ends) {
        let handle = world.queue(&by("u1"), PATIENT).await;
        world.until(round * 100).await;
        end(lease);
        let (at, _, next) = served(handle).await;
        assert_eq!(at, round * 100);
        lease = next;
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_lease_that_is_reaped_serves_the_next_without_any_call() {
    let world = World::new([one()]);
    let lease = world.hold("a");
    let handle = world.queue(&by("u1"), PATIENT).await;
    world.until(600_000).await;
    assert!(lease.touch());
    assert_eq!(served(handle).await.0, 1_500_000, "15 min after the last sign of life");

    let _lease = world.pool.select(&by("u2")).map(drop);
    let _held = world.hold("a");
    let handle = world.queue(&by("u1"), PATIENT).await;
    assert_eq!(world.pool.reap(Millis::ZERO), 1);
    assert_eq!(served(handle).await.0, 1_500_000);
}

#[tokio::test(start_paused = true)]
async fn operator_actions_wake() {
    let world = World::new([Account::new("a").max_in_flight(1), Account::new("b")]);
    let _lease = world.hold("a");
    world.block("b", 1_000_000);

    let handle = world.queue(&by("u1"), PATIENT).await;
    world.until(10).await;
    world.pool.clear_blocks("b", None).unwrap();
    assert_eq!(served(handle).await.0, 10, "a block lifted");

    world.block("b", 1_000_000);
    let handle = world.queue(&by("u2"), PATIENT).await;
    world.until(20).await;
    world.pool.set_plan("a", &Plan::default()).unwrap();
    let (at, _, lease) = served(handle).await;
    assert_eq!(at, 20, "a limit raised");
    drop(lease);

    world.pool.set_maintenance("a", true).unwrap();
    let handle = world.queue(&by("u3"), PATIENT).await;
    world.until(30).await;
    world.pool.set_maintenance("a", false).unwrap();
    assert_eq!(served(handle).await.0, 30, "maintenance over");

    world.pool.set_maintenance("a", true).unwrap();
    let handle = world.queue(&by("u4"), PATIENT).await;
    world.until(40).await;
    world.pool.add(Account::new("c"), ()).unwrap();
    assert_eq!(served(handle).await.0, 40, "an account added");
}

#[tokio::test(start_paused = true)]
async fn only_who_is_served_is_woken() {
    let world = World::new([one()]);
    let lease = world.hold("a");
    let request = by("u1");
    let mut waiting = Vec::new();
    for _ in 0..10 {
        let counter = Arc::<Counter>::default();
        let mut future = world.pool.acquire(&request, PATIENT);
        let waker = Waker::from(Arc::clone(&counter));
        assert!(
            std::pin::Pin::new(&mut future).poll(&mut Context::from_waker(&waker)).is_pending()
        );
        waiting.push((counter, future));
    }
    lease.settle(Outcome::success());
    let woken = |n: usize| waiting[n].0.0.load(std::sync::atomic::Ordering::SeqCst);
    // The second one keeps the time from now on.
    assert_eq!((0..10).map(woken).collect::<Vec<_>>(), [1, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
}

// Who is next.

#[tokio::test(start_paused = true)]
async fn first_come_first_served() {
    let world = World::new([one()]);
    let mut lease = world.hold("a");
    let mut handles = Vec::new();
    for _ in 0..5 {
        handles.push(world.queue(&by("t:1:u1"), PATIENT).await);
    }
    for (round, handle) in (1..).zip(handles) {
        world.until(round * 10).await;
        drop(lease);
        let (at, _, next) = served(handle).await;
        assert_eq!(at, round * 10);
        lease = next;
    }
}

#[tokio::test(start_paused = true)]
async fn tenants_take_turns() {
    let world = World::new([one()]);
    let lease = world.hold("a");
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    let enter = async |name: &'static str, request: Request<'static>| {
        let (world, order) = (world.clone(), Arc::clone(&order));
        tokio::spawn(async move {
            let lease = world.pool.acquire(&request, PATIENT).await.unwrap();
            order.lock().unwrap().push(name);
            drop(lease);
        });
        settle().await;
    };
    for name in ["x1", "x2", "x3", "x4"] {
        enter(name, by("t:x:u1")).await;
    }
    enter("y1", by("t:y:u1")).await;
    enter("y2", by("t:y:u1")).await;
    enter("z1", by("t:z:u1").class(TrafficClass::Background)).await;
    enter("x5", by("t:x:u1").model("m")).await;
    enter("w1", by("t:w:u1")).await;
    drop(lease);
    settle().await;
    let order = order.lock().unwrap().clone();
    assert_eq!(order, ["x1", "y1", "w1", "x2", "y2", "x3", "x4", "x5", "z1"]);
}

#[tokio::test(start_paused = true)]
async fn c71_a_releasing_holder_and_newcomers_go_behind() {
    let world = World::new([one()]);
    let lease = world.hold("a");
    let first = world.queue(&by("t:1:u1"), PATIENT).await;
    lease.settle(Outcome::success());
    // The slot is reserved although the waiter has not been polled.
    assert!(world.pool.select(&by("t:2:u2")).is_err());
    let newcomer = world.queue(&by("t:2:u2"), ms(1_000)).await;
    let (_, _, lease) = served(first).await;
    assert_eq!(world.pool.waiting(), 1);
    lease.settle(Outcome::success());
    assert_eq!(served(newcomer).await.0, 0);
}

#[tokio::test(start_paused = true)]
async fn c71_newcomers_do_not_overtake_on_a_slot_that_time_frees() {
    let world = World::new([Account::new("a").window(1, ms(1_000))]);
    world.turn(&by("u1"));
    let request = by("t:1:u1");
    let mut first = world.pool.acquire(&request, PATIENT);
    assert!(poll_once(&mut first).is_pending());
    tokio::time::advance(std::time::Duration::from_millis(1_000)).await;
    let other = by("t:2:u2");
    let mut newcomer = world.pool.acquire(&other, PATIENT);
    assert!(poll_once(&mut newcomer).is_pending());
    assert!(poll_once(&mut first).is_ready());
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_cannot_use_a_slot_does_not_hold_up_one_that_can() {
    let world = World::new([
        Account::new("a")
            .max_in_flight(1)
            .models(account_pool::Entitlement::Only(["m1".into()].into())),
        Account::new("b")
            .max_in_flight(1)
            .models(account_pool::Entitlement::Only(["m2".into()].into())),
    ]);
    let _a = world.pool.select(&by("u0").model("m1")).unwrap();
    let b = world.pool.select(&by("u0").model("m2")).unwrap();
    let first = world.queue(&by("u1").model("m1"), PATIENT).await;
    let second = world.queue(&by("u2").model("m2"), PATIENT).await;
    drop(b);
    assert_eq!(served(second).await.1, "b");
    assert!(!first.is_finished());
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_refuses_with_its_own_word() {
    let mut config = config();
    config.max_waiting = 2;
    let world = World::with(config, [one()]);
    let _lease = world.hold("a");
    let _first = world.queue(&by("u1"), PATIENT).await;
    let second = world.queue(&by("u2"), PATIENT).await;
    let (at, refusal) = refused(world.wait(&by("u3"), PATIENT)).await;
    assert_eq!((at, refusal.is_queue_full()), (0, true));
    assert!(refusal.to_string().starts_with("the queue is full"), "{refusal}");
    second.abort();
    settle().await;
    let _third = world.queue(&by("u3"), PATIENT).await;
    assert_eq!(world.pool.waiting(), 2);
}

// Going away.

#[tokio::test(start_paused = true)]
async fn c69_dropped_waits_leave_no_trace() {
    let mut config = config();
    config.sticky.queue_on_pin = ms(5_000);
    config.sticky.max_waiters = 1;
    config.max_waiting = 1;
    let world = World::with(config, [one(), Account::new("b")]);
    let (u1, u2) = (by("u1"), by("u2"));
    world.turn(&u1);
    world.turn(&u2);
    world.pool.set_status("b", Status::Disabled).unwrap();
    let _lease = world.pool.select(&u1).unwrap();
    for round in 0..1_000 {
        let mut future = world.pool.acquire(&u1, PATIENT);
        if round % 3 > 0 {
            assert!(poll_once(&mut future).is_pending(), "round {round}");
            let view = world.pool.inspect("a").unwrap();
            assert_eq!((view.waiting, world.pool.waiting()), (1, 1));
        }
        drop(future);
        let view = world.pool.inspect("a").unwrap();
        assert_eq!((view.waiting, view.in_flight, world.pool.waiting()), (0, 1, 0));
    }
    assert_eq!(world.pool.stats().refused, 0);
}

#[tokio::test(start_paused = true)]
async fn c70_a_slot_for_one_that_has_gone_passes_on() {
    let world = World::new([one().rpm(2)]);
    let (u1, u2, u3) = (by("u1"), by("u1"), by("u1"));
    let lease = world.hold("a");
    let mut gone = world.pool.acquire(&u3, PATIENT);
    let mut first = world.pool.acquire(&u1, PATIENT);
    let mut second = world.pool.acquire(&u2, PATIENT);
    for future in [&mut gone, &mut first, &mut second] {
        assert!(poll_once(future).is_pending());
    }
    drop(gone);
    lease.settle(Outcome::success());
    assert_eq!(world.pool.in_flight(), 1, "it is the first one's");
    drop(first);
    assert_eq!((world.pool.in_flight(), world.pool.waiting()), (1, 0));
    let Poll::Ready(Ok(lease)) = poll_once(&mut second) else { panic!("it was handed on") };
    assert_eq!(lease.account(), "a");
    assert_eq!(world.pool.stats().refunded, 1, "the gone one gave back its rate slot");
}

#[tokio::test(start_paused = true)]
async fn c106_a_removed_account_reroutes_or_ends_the_wait() {
    let world = World::new([one(), Account::new("b").max_in_flight(1)]);
    let a = world.hold("a");
    let b = world.hold("b");
    let first = world.queue(&by("u1"), PATIENT).await;
    world.until(20).await;
    world.pool.remove("a");
    settle().await;
    assert!(!first.is_finished(), "b may still be released");
    a.settle(Outcome::success());
    drop(b);
    let (at, account, lease) = served(first).await;
    assert_eq!((at, account.as_str()), (20, "b"));

    // Handed over, and removed before it was fetched.
    let request = by("u2");
    let mut second = world.pool.acquire(&request, PATIENT);
    assert!(poll_once(&mut second).is_pending());
    lease.settle(Outcome::success());
    world.pool.remove("b");
    let Poll::Ready(Err(refusal)) = poll_once(&mut second) else { panic!("nobody is left") };
    assert_eq!((refusal.tally().total(), world.pool.in_flight()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn c137_a_pool_reduced_to_nothing_ends_the_waits() {
    let world = World::new([one()]);
    let _lease = world.hold("a");
    let first = world.queue(&by("u1"), PATIENT).await;
    let second = world.queue(&by("u2"), PATIENT).await;
    world.until(5).await;
    world.pool.remove("a");
    for handle in [first, second] {
        let (at, refusal) = refused(handle).await;
        assert_eq!((at, refusal.tally().total()), (5, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_pool_ends_the_waits() {
    let pool = Pool::with_clock(config(), TokioClock::new()).unwrap();
    pool.add(one(), ()).unwrap();
    let lease = pool.select(&Request::new()).unwrap();
    let future = pool.acquire(&by("u1"), PATIENT);
    let untouched = pool.acquire(&by("u2"), PATIENT);
    let handle = tokio::spawn(future);
    settle().await;
    assert!(!handle.is_finished());
    drop(pool);
    assert_eq!(handle.await.unwrap().unwrap_err().tally().total(), 0);
    assert!(untouched.await.is_err());
    assert_eq!(lease.settle(Outcome::success()), Settlement::Unknown);
}

// Queue on pin.

fn pinning(max_waiters: u32) -> Config {
    let mut config = config();
    config.sticky.queue_on_pin = ms(5_000);
    config.sticky.max_waiters = max_waiters;
    config
}

#[tokio::test(start_paused = true)]
async fn c04_the_queue_on_a_pin_is_bounded_and_spills() {
    let world = World::with(pinning(1), [one(), Account::new("b")]);
    assert_eq!(world.turn(&by("u1")), "a");
    world.until(100).await;
    let _held = world.pool.select(&by("u1")).unwrap();
    world.until(110).await;
    let first = world.queue(&by("u1"), PATIENT).await;
    world.until(120).await;
    let (at, account, _second) = served(world.wait(&by("u1"), PATIENT)).await;
    assert_eq!((at, account.as_str()), (120, "b"), "the queue is full");
    let (at, account, _first) = served(first).await;
    assert_eq!((at, account.as_str()), (5_110, "b"), "the wait ends in the same call");
    assert_eq!(world.pool.inspect("a").unwrap().waiting, 0);
}

#[tokio::test(start_paused = true)]
async fn c04_a_release_serves_the_one_who_waits_for_its_pin() {
    let world = World::with(pinning(1), [one(), Account::new("b")]);
    world.turn(&by("u1"));
    let held = world.pool.select(&by("u1")).unwrap();
    world.until(110).await;
    let first = world.queue(&by("u1"), PATIENT).await;
    world.until(2_000).await;
    held.settle(Outcome::success());
    let (at, account, lease) = served(first).await;
    assert_eq!((at, account.as_str(), lease.path()), (2_000, "a", Path::Sticky));
}

#[tokio::test(start_paused = true)]
async fn c04_without_a_budget_nobody_waits_for_a_pin() {
    let world = World::new([one(), Account::new("b")]);
    world.turn(&by("u1"));
    let _held = world.pool.select(&by("u1")).unwrap();
    let (at, account, _lease) = served(world.wait(&by("u1"), PATIENT)).await;
    assert_eq!((at, account.as_str()), (0, "b"));
}

#[tokio::test(start_paused = true)]
async fn c05_a_pin_is_waited_for_only_if_it_recovers_in_time() {
    for (until, max_wait, expected) in [
        (3_000, PATIENT, (3_000, "a")),
        (8_000, PATIENT, (1_001, "b")),
        (1_401, PATIENT, (1_401, "a")),
        // Its own deadline comes first: nothing is waited for.
        (3_000, ms(1_000), (1_001, "b")),
        (3_000, ms(1_999), (3_000, "a")),
        (3_000, ms(1_998), (1_001, "b")),
    ] {
        let world = World::with(pinning(3), [Account::new("a"), Account::new("b")]);
        assert_eq!(world.turn(&by("u1")), "a");
        world.until(1_000).await;
        world.block("a", until);
        world.until(1_001).await;
        let (at, account, _lease) = served(world.wait(&by("u1"), max_wait)).await;
        assert_eq!((at, account.as_str()), expected, "blocked until {until}");
    }
}

#[tokio::test(start_paused = true)]
async fn c05_without_a_sibling_a_long_block_refuses_at_once() {
    let world = World::with(pinning(3), [Account::new("a"), Account::new("b")]);
    world.turn(&by("u1"));
    world.pool.set_status("b", Status::Disabled).unwrap();
    world.until(1_000).await;
    world.block("a", 8_000);
    world.until(1_001).await;
    let (at, refusal) = refused(world.wait(&by("u1"), ms(5_000))).await;
    assert_eq!((at, refusal.retry_after()), (1_001, Some(ms(6_999))));
}

#[tokio::test(start_paused = true)]
async fn a_block_that_grows_ends_the_wait_for_the_pin() {
    let world = World::with(pinning(3), [Account::new("a"), Account::new("b")]);
    world.turn(&by("u1"));
    world.block("a", 3_000);
    let first = world.queue(&by("u1"), PATIENT).await;
    world.until(1_000).await;
    world.block("a", 60_000);
    let (at, account, _lease) = served(first).await;
    assert_eq!((at, account.as_str()), (1_000, "b"));
}

#[tokio::test(start_paused = true)]
async fn c07_the_caller_and_the_exclusions_survive_the_wait() {
    static B: std::sync::LazyLock<Vec<AccountId>> =
        std::sync::LazyLock::new(|| vec![AccountId::from("b")]);
    static A: std::sync::LazyLock<Vec<AccountId>> =
        std::sync::LazyLock::new(|| vec![AccountId::from("a")]);
    let world = World::with(pinning(3), [one(), Account::new("b")]);
    world.turn(&by("u1"));
    world.until(100).await;
    let held = world.pool.select(&by("u2").exclude(&B)).unwrap();
    world.until(110).await;
    let first = world.queue(&by("u1"), PATIENT).await;
    world.until(500).await;
    held.settle(Outcome::success());
    let (at, account, lease) = served(first).await;
    assert_eq!((at, account.as_str()), (500, "a"));
    lease.settle(Outcome::success());
    world.until(600).await;
    let (_, account, retry) = served(world.wait(&by("u1").exclude(&A), PATIENT)).await;
    assert_eq!(account, "b");
    drop(retry);
    assert_eq!(world.pool.peek(&by("u1")).unwrap().trail[0], "a");

    // Exclusions hold for the whole wait: b is idle, and not for this request.
    let held = world.pool.select(&by("u2").exclude(&B)).unwrap();
    let strict = world.queue(&by("u3").exclude(&B), ms(900)).await;
    world.until(1_400).await;
    drop(held);
    assert_eq!(served(strict).await.1, "a");
}

#[tokio::test(start_paused = true)]
async fn affinity_that_requires_waits_for_that_account_alone() {
    let world = World::new([one(), Account::new("b").max_in_flight(1)]);
    assert_eq!(world.turn(&by("u1")), "a");
    assert_eq!(world.turn(&by("u2")), "b");
    let (a, b) = (world.hold("a"), world.hold("b"));
    let required = world.queue(&by("u1").affinity(Affinity::Require), PATIENT).await;
    let other = world.queue(&by("u2").affinity(Affinity::Require), PATIENT).await;
    drop(b);
    assert_eq!(served(other).await.1, "b");
    assert!(!required.is_finished());
    drop(a);
    assert_eq!(served(required).await.1, "a");
}

#[tokio::test(start_paused = true)]
async fn a_draining_account_serves_the_bound_caller_behind_others() {
    let world = World::new([one(), Account::new("b").max_in_flight(1)]);
    assert_eq!(world.turn(&by("u1")), "a");
    let (a, _b) = (world.hold("a"), world.hold("b"));
    let stranger = world.queue(&by("u2"), PATIENT).await;
    let bound = world.queue(&by("u1"), PATIENT).await;
    world.pool.set_draining("a", true).unwrap();
    drop(a);
    assert_eq!(served(bound).await.1, "a");
    assert!(!stranger.is_finished());
}

#[tokio::test(start_paused = true)]
async fn a_full_account_serves_the_bound_caller_behind_others() {
    let mut config = config();
    config.sticky.binding_limit = Some(BindingLimit { callers: 1, refuse: true });
    let world = World::with(config, [one(), Account::new("b").max_in_flight(1)]);
    assert_eq!(world.turn(&by("u1")), "a");
    let (a, _b) = (world.hold("a"), world.hold("b"));
    let stranger = world.queue(&by("u2"), PATIENT).await;
    let bound = world.queue(&by("u1"), PATIENT).await;
    drop(a);
    assert_eq!(served(bound).await.1, "a");
    assert!(!stranger.is_finished());
}

#[tokio::test(start_paused = true)]
async fn smaller_costs_pass_larger_ones_that_do_not_fit() {
    let world = World::new([Account::new("a").tokens_per_minute(100)]);
    world.pool.select(&Request::new().cost(50)).unwrap().settle(Outcome::success());
    let large = world.queue(&by("u1").cost(80), PATIENT).await;
    let (at, ..) = served(world.wait(&by("u2").cost(40), PATIENT)).await;
    assert_eq!(at, 0);
    assert_eq!(served(large).await.0, 60_000);
}

// The clock.

#[tokio::test(start_paused = true)]
async fn tokio_time_moves_the_tokio_clock() {
    let clock = TokioClock::anchored(t(7));
    tokio::time::advance(std::time::Duration::from_millis(35)).await;
    assert_eq!(clock.now(), t(42));
    assert!(TokioClock::default().now() > t(1_600_000_000_000));
}

// Everything at once.

/// Eight tasks take, wait, settle, cancel and drop at random; nothing may be left, and nobody may
/// sleep past its deadline or while an account is free.
#[test]
fn soak() {
    let ops = std::env::var("POOL_SOAK_OPS").ok().and_then(|ops| ops.parse().ok());
    let ops: u64 = ops.unwrap_or(20_000);
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let mut config = config();
        config.sticky.queue_on_pin = ms(50);
        let limit = |id: &str| Account::new(id).max_in_flight(2);
        let world = World::with(config, [limit("a"), limit("b"), limit("c")]);
        let mut tasks = tokio::task::JoinSet::new();
        for seed in 0..8 {
            tasks.spawn(hammer(world.clone(), seed, ops / 8));
        }
        tasks.join_all().await;
        assert_eq!((world.pool.in_flight(), world.pool.waiting()), (0, 0));
        for account in world.pool.accounts() {
            let view = world.pool.inspect(account.as_str()).unwrap();
            assert_eq!((view.in_flight, view.waiting), (0, 0), "{account}");
        }
        let stats = world.pool.stats();
        assert_eq!(stats.selected.total(), stats.settled);
    });
}

async fn hammer(world: World, seed: u64, ops: u64) {
    let mut random = Random(seed * 0x9e37_79b9 + 1);
    let callers: Vec<String> = (0..4).map(|n| format!("t:{}:u{n}", (n + seed) % 3)).collect();
    for _ in 0..ops {
        let request = Request::new().caller(&callers[random.below(4)]);
        let deadline = world.pool.clock().now().plus(ms(random.below(200) as u64));
        let acquire = world.pool.acquire_by(&request, deadline);
        let patience = std::time::Duration::from_millis(random.below(150) as u64);
        let answer = tokio::select! {
            biased;
            // First, so that it also drops what has been handed over.
            () = tokio::time::sleep(patience), if random.below(4) == 0 => continue,
            answer = acquire => answer,
        };
        let late = world.pool.clock().now().since(deadline).as_millis();
        assert!(late <= 1, "{late} ms late");
        let Ok(lease) = answer else { continue };
        if random.below(3) > 0 {
            tokio::time::sleep(std::time::Duration::from_millis(random.below(60) as u64)).await;
        }
        match random.below(4) {
            0 => drop(lease),
            1 => drop(lease.abandon()),
            _ => drop(lease.settle(Outcome::success())),
        }
    }
}

/// A small generator, so that runs are the same.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }
}
