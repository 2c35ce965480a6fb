//! What waiting costs: an acquire that need not wait, and a release while others wait.

#![allow(missing_docs, reason = "criterion's macros generate undocumented functions")]
#![allow(clippy::unwrap_used, reason = "a bench that does not fit should stop")]

use std::future::Future;
use std::hint::black_box;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use account_pool::{
    Account, Acquire, Config, Lease, ManualClock, Millis, Outcome, Pool, Request, Timestamp,
};
use criterion::measurement::{Measurement, WallTime};
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};

type Fixture = Pool<(), ManualClock>;

const ACCOUNTS: usize = 8;
const WAITERS: [usize; 4] = [10, 100, 1_000, 10_000];
const PATIENT: Millis = Millis::MAX;

fn pool(accounts: usize, max_in_flight: u32) -> Fixture {
    let mut config = Config::default();
    config.lease_timeout = None;
    config.max_waiting = usize::MAX;
    let clock = ManualClock::new(Timestamp::from_millis(1_000_000));
    let pool = Pool::with_clock(config, clock).unwrap();
    for index in 0..accounts {
        let account = Account::new(format!("account-{index:05}"));
        pool.add(account.max_in_flight(max_in_flight), ()).unwrap();
    }
    pool
}

fn uncontended(c: &mut Criterion) {
    let mut group = c.benchmark_group("uncontended");
    let pool = pool(ACCOUNTS, 64);
    let request = Request::new().caller("api:6f:user:42").model("opus");
    group.bench_function("select", |b| {
        b.iter(|| pool.select(black_box(&request)).unwrap().settle(Outcome::success()));
    });
    group.bench_function("acquire", |b| {
        b.iter(|| {
            let mut acquire = pool.acquire(black_box(&request), PATIENT);
            let poll = Pin::new(&mut acquire).poll(&mut Context::from_waker(Waker::noop()));
            let Poll::Ready(Ok(lease)) = poll else { panic!("an account is free") };
            lease.settle(Outcome::success())
        });
    });
    group.finish();
}

/// Writes down which waiter was woken.
struct Note {
    index: usize,
    log: Arc<Mutex<Vec<usize>>>,
}

impl Wake for Note {
    fn wake(self: Arc<Self>) {
        self.log.lock().unwrap().push(self.index);
    }
}

/// One account with one place, and so many who wait for it.
struct Queue<'r> {
    pool: Fixture,
    requests: &'r [Request<'r>],
    held: Option<Lease>,
    waiting: Vec<Acquire<'r, (), ManualClock>>,
    wakers: Vec<Waker>,
    woken: Arc<Mutex<Vec<usize>>>,
    next: usize,
}

impl<'r> Queue<'r> {
    fn new(requests: &'r [Request<'r>], waiters: usize) -> Self {
        let pool = pool(1, 1);
        let woken = Arc::<Mutex<Vec<usize>>>::default();
        let note = |index| Waker::from(Arc::new(Note { index, log: Arc::clone(&woken) }));
        let held = pool.select(&requests[0]).ok();
        let waiting = (0..waiters).map(|n| pool.acquire(&requests[n % requests.len()], PATIENT));
        let mut queue = Self {
            held,
            requests,
            waiting: waiting.collect(),
            wakers: (0..waiters).map(note).collect(),
            woken,
            next: waiters,
            pool,
        };
        for index in 0..waiters {
            assert!(queue.poll(index).is_pending());
        }
        queue
    }

    fn poll(&mut self, index: usize) -> Poll<Lease> {
        let mut cx = Context::from_waker(&self.wakers[index]);
        Pin::new(&mut self.waiting[index]).poll(&mut cx).map(Result::unwrap)
    }

    fn release(&mut self) {
        if let Some(lease) = self.held.take() {
            lease.settle(Outcome::success());
        }
    }

    /// The one who was served fetches its lease, and another goes to the back.
    fn refill(&mut self) {
        let woken = std::mem::take(&mut *self.woken.lock().unwrap());
        for index in woken {
            let Poll::Ready(lease) = self.poll(index) else { continue };
            self.held = Some(lease);
            self.next += 1;
            let request = &self.requests[self.next % self.requests.len()];
            self.waiting[index] = self.pool.acquire(request, PATIENT);
            assert!(self.poll(index).is_pending());
            return;
        }
        panic!("nobody was served");
    }
}

fn release(c: &mut Criterion) {
    let keys: Vec<String> = (0..20_000).map(|n| format!("api:{}:user:{n}", n % 50)).collect();
    let requests: Vec<Request<'_>> =
        keys.iter().map(|key| Request::new().caller(key).model("opus")).collect();
    for (name, callers) in [("one-caller", 1), ("20000-callers-of-50-tenants", 20_000)] {
        let mut group = c.benchmark_group(format!("waiters/{name}"));
        for waiters in WAITERS {
            let mut queue = Queue::new(&requests[..callers], waiters);
            group.bench_function(BenchmarkId::new("release", waiters), |b| {
                b.iter_custom(|rounds| {
                    let mut spent = Duration::ZERO;
                    for _ in 0..rounds {
                        let start = WallTime.start();
                        queue.release();
                        spent += WallTime.end(start);
                        queue.refill();
                    }
                    spent
                });
            });
            group.bench_function(BenchmarkId::new("release-fetch-enter", waiters), |b| {
                b.iter(|| {
                    queue.release();
                    queue.refill();
                });
            });
        }
        group.finish();
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1));
    targets = uncontended, release
}
criterion_main!(benches);
