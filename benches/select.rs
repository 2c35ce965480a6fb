//! One `select` and `settle` per iteration, on the scheduler and through the pool, with a manual
//! clock at a steady 30 requests per account and minute.

#![allow(missing_docs, reason = "criterion's macros generate undocumented functions")]
#![allow(clippy::unwrap_used, reason = "a bench that does not fit should stop")]

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use account_pool::{
    Account, AccountId, Affinity, BlockScope, Caller, Clock, Config, Dimension, Event, ManualClock,
    Millis, Outcome, Pool, Request, Scheduler, Timestamp,
};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

const SIZES: [usize; 5] = [8, 64, 512, 4_096, 32_768];
const CONVERSATIONS: usize = 1_000;
const START: Timestamp = Timestamp::from_millis(1_000_000);

#[derive(Clone, Copy)]
enum Workload {
    /// No caller.
    Anonymous,
    /// A caller without affinity, another one each time.
    Sharded,
    /// One of a thousand bound conversations.
    Bound,
    /// No caller, every third account cooled for the whole run.
    ThirdCooled,
    /// No caller, three accounts excluded.
    Excluded,
}

impl Workload {
    const ALL: [(&'static str, Self); 5] = [
        ("anonymous", Self::Anonymous),
        ("caller-sharded", Self::Sharded),
        ("bound", Self::Bound),
        ("third-cooled", Self::ThirdCooled),
        ("excluded-3", Self::Excluded),
    ];
}

/// Time that moves by an exact fraction of a millisecond per request.
struct Ticker {
    micros: u64,
    step: u64,
}

impl Ticker {
    fn new(accounts: usize) -> Self {
        Self { micros: START.as_millis() * 1_000, step: 60_000_000 / (30 * accounts as u64) }
    }

    fn next(&mut self) -> Timestamp {
        self.micros += self.step;
        Timestamp::from_millis(self.micros / 1_000)
    }
}

/// The requests of a workload, in turn.
struct Requests {
    workload: Workload,
    callers: Vec<Caller>,
    excluded: Vec<AccountId>,
    next: usize,
}

impl Requests {
    fn new(workload: Workload, accounts: usize) -> Self {
        let callers = (0..CONVERSATIONS).map(|n| Caller::new(&format!("api:{}:user:{n}", n % 20)));
        let excluded = [0, accounts / 2, accounts - 1].map(|index| AccountId::from(id(index)));
        Self {
            workload,
            callers: callers.map(Option::unwrap).collect(),
            excluded: excluded.into(),
            next: 0,
        }
    }

    fn next(&mut self) -> Request<'_> {
        self.next = (self.next + 1) % CONVERSATIONS;
        let caller = self.callers[self.next];
        let request = Request::new().model("opus");
        match self.workload {
            Workload::Anonymous | Workload::ThirdCooled => request,
            Workload::Sharded => request.digested(caller).affinity(Affinity::Ignore),
            Workload::Bound => request.digested(caller),
            Workload::Excluded => request.exclude(&self.excluded),
        }
    }
}

fn id(index: usize) -> String {
    format!("account-{index:05}")
}

fn scheduler(workload: Workload, accounts: usize) -> Scheduler {
    let mut scheduler = Scheduler::new(Config::default()).unwrap();
    for index in 0..accounts {
        scheduler.add(Account::new(id(index)).rpm(60), START).unwrap();
        if matches!(workload, Workload::ThirdCooled) && index % 3 == 0 {
            let (scope, until) = (BlockScope::Account, Timestamp::MAX);
            let throttle = Dimension::Throttle;
            scheduler.block(&id(index), &scope, throttle, until, START).unwrap();
        }
    }
    scheduler
}

fn pool(workload: Workload, accounts: usize, clock: ManualClock) -> Pool<(), ManualClock> {
    let pool = Pool::with_clock(Config::default(), clock).unwrap();
    for index in 0..accounts {
        pool.add(Account::new(id(index)).rpm(60), ()).unwrap();
        if matches!(workload, Workload::ThirdCooled) && index % 3 == 0 {
            let (scope, until) = (BlockScope::Account, Timestamp::MAX);
            pool.block(&id(index), &scope, Dimension::Throttle, until).unwrap();
        }
    }
    pool
}

fn on_scheduler(c: &mut Criterion) {
    for (name, workload) in Workload::ALL {
        let mut group = c.benchmark_group(format!("scheduler/{name}"));
        group.throughput(Throughput::Elements(1));
        for accounts in SIZES {
            let mut scheduler = scheduler(workload, accounts);
            let (mut ticker, mut requests) =
                (Ticker::new(accounts), Requests::new(workload, accounts));
            let mut pair = || {
                let now = ticker.next();
                let grant = scheduler.select(&requests.next(), now).unwrap();
                scheduler.settle(grant.ticket, &Outcome::success(), now);
                grant.tied
            };
            for _ in 0..2 * CONVERSATIONS {
                black_box(pair());
            }
            group.bench_function(BenchmarkId::from_parameter(accounts), |b| b.iter(&mut pair));
        }
        group.finish();
    }
}

fn on_pool(c: &mut Criterion) {
    for (name, workload) in Workload::ALL {
        let mut group = c.benchmark_group(format!("pool/{name}"));
        group.throughput(Throughput::Elements(1));
        for accounts in SIZES {
            let clock = ManualClock::new(START);
            let pool = pool(workload, accounts, clock.clone());
            let (mut ticker, mut requests) =
                (Ticker::new(accounts), Requests::new(workload, accounts));
            let mut pair = || {
                clock.set(ticker.next());
                let lease = pool.select(&requests.next()).unwrap();
                lease.settle(Outcome::success())
            };
            for _ in 0..2 * CONVERSATIONS {
                black_box(pair());
            }
            group.bench_function(BenchmarkId::from_parameter(accounts), |b| b.iter(&mut pair));
        }
        group.finish();
    }
}

/// What observing costs: nothing set, and an observer that counts.
fn observers(c: &mut Criterion) {
    let mut group = c.benchmark_group("observer");
    group.throughput(Throughput::Elements(1));
    for (name, observed) in [("none", false), ("counting", true)] {
        let (accounts, workload) = (64, Workload::Bound);
        let clock = ManualClock::new(START);
        let pool = pool(workload, accounts, clock.clone());
        let seen = Arc::new(AtomicU64::new(0));
        if observed {
            let seen = Arc::clone(&seen);
            pool.set_observer(move |_: &Event, _: Timestamp| {
                seen.fetch_add(1, Ordering::Relaxed);
            });
        }
        let (mut ticker, mut requests) = (Ticker::new(accounts), Requests::new(workload, accounts));
        let mut pair = || {
            clock.set(ticker.next());
            let lease = pool.select(&requests.next()).unwrap();
            lease.settle(Outcome::success())
        };
        for _ in 0..2 * CONVERSATIONS {
            black_box(pair());
        }
        group.bench_function(name, |b| b.iter(&mut pair));
    }
    group.finish();
}

fn clocks(c: &mut Criterion) {
    let mut group = c.benchmark_group("clock");
    let system = account_pool::SystemClock::new();
    group.bench_function("system", |b| b.iter(|| system.now()));
    let manual = ManualClock::new(START);
    group.bench_function("manual", |b| b.iter(|| manual.now().plus(Millis::ZERO)));
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1));
    targets = on_scheduler, on_pool, observers, clocks
}
criterion_main!(benches);
