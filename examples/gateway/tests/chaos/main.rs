//! Many requests, most of which go wrong in one way or another: nothing is left over, neither a
//! lease nor a task nor a socket. A test of its own, so that all tasks and sockets of the process
//! are its own.
//!
//! ```text
//! GATEWAY_CHAOS_REQUESTS=10000 GATEWAY_CHAOS_SEED=7 \
//!     cargo test -p account-pool-gateway --test chaos -- --nocapture
//! ```
//!
//! What clients and upstreams do is a matter of the seed alone; when they do it, of the machine.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a helper of a test fails by panicking, as the test does")]

mod client;
mod dice;
mod upstream;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use account_pool::Millis;
use account_pool_gateway::config::{AccountConfig, ProviderName, Settings};
use account_pool_gateway::{Gateway, GatewayPool};
use tokio::runtime::{Builder, Handle};
use tokio::task::JoinSet;

use self::client::{End, Way};
use self::upstream::Upstream;

const AT_ONCE: u64 = 100;
/// The longest that anything may take.
const SOON: Duration = Duration::from_secs(20);

/// What a leak would add to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Held {
    tasks: usize,
    files: usize,
}

impl Held {
    fn now() -> Self {
        let files = std::fs::read_dir("/proc/self/fd").unwrap().count();
        Self { tasks: Handle::current().metrics().num_alive_tasks(), files }
    }
}

#[test]
fn nothing_is_left_over() {
    let number = |name: &str, usual| {
        std::env::var(name).map_or(usual, |text| text.parse().expect("a number"))
    };
    let requests = number("GATEWAY_CHAOS_REQUESTS", 2_000);
    let seed = number("GATEWAY_CHAOS_SEED", 1);
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(run(requests, seed));
}

async fn run(requests: u64, seed: u64) {
    let mut upstreams = Vec::new();
    for _ in 0..4 {
        upstreams.push(Upstream::start(seed).await);
    }
    let before = Held::now();
    let gateway = start(&upstreams).await;
    let idle = Held::now();
    let began = Instant::now();

    let ends = misbehave(&gateway, requests, seed).await;
    report(&gateway, &upstreams, requests, began.elapsed(), &ends);
    if requests >= 1_000 {
        assert_eq!(ends.len(), End::ALL, "every end is met: {ends:?}");
    }
    let pool = gateway.pool();
    until(|| pool.in_flight() == 0 && pool.waiting() == 0, || left(pool)).await;
    // Connections are over when both sides have noticed. Besides them there is one task of the
    // client to upstreams, which looks after idle connections.
    let is_idle = |now: Held| now.files == idle.files && now.tasks <= idle.tasks + 1;
    until(|| is_idle(Held::now()), || format!("{:?}, not {idle:?}", Held::now())).await;
    let stats = pool.stats();
    assert_eq!(stats.settled, stats.selected.total(), "every lease ended once");
    assert_eq!(stats.reaped, 0, "no lease was left to be freed");
    // And it is as good as new.
    until_served(&gateway).await;

    let pool = pool.clone();
    let stopped = tokio::time::timeout(SOON, gateway.stop()).await.expect("it stops");
    assert_eq!(stopped.cut, 0, "no connection was open");
    until(|| Held::now() == before, || format!("{:?}, not {before:?}", Held::now())).await;
    assert_eq!(pool.in_flight(), 0);
}

async fn start(upstreams: &[Upstream]) -> Gateway {
    let mut settings = Settings::default();
    settings.server.listen = ([127, 0, 0, 1], 0).into();
    settings.server.read_timeout_ms = 200;
    settings.upstream.first_byte_timeout_ms = 80;
    settings.upstream.idle_timeout_ms = 80;
    settings.routing.max_wait_ms = 100;
    // Trouble is to go on: no account stays away for long.
    settings.pool.breaker.threshold = None;
    settings.pool.breaker.internal_threshold = None;
    let cooldown = &mut settings.pool.cooldown;
    cooldown.floor = Millis::new(5);
    for backoff in [&mut cooldown.throttle, &mut cooldown.overload] {
        (backoff.base, backoff.cap) = (Millis::new(5), Millis::new(20));
    }
    for (index, upstream) in upstreams.iter().enumerate() {
        let url = format!("http://{}", upstream.address());
        let id = format!("account-{index}");
        let mut account = AccountConfig::new(&id, ProviderName::OpenAi, &url, "KEY");
        account.max_in_flight = Some(25);
        settings.accounts.push(account);
    }
    Gateway::start(settings, Arc::new(|_: &str| Some("key".to_owned()))).await.unwrap()
}

async fn misbehave(gateway: &Gateway, requests: u64, seed: u64) -> BTreeMap<End, usize> {
    let mut clients = JoinSet::new();
    let mut ends = BTreeMap::new();
    for number in 0..requests + AT_ONCE {
        if number >= AT_ONCE {
            let end: End = clients.join_next().await.unwrap().unwrap();
            *ends.entry(end).or_default() += 1;
        }
        if number < requests {
            let asked = client::ask(gateway.address(), number, Way::of(seed, number));
            clients.spawn(async { tokio::time::timeout(SOON, asked).await.expect("an end") });
        }
    }
    ends
}

#[allow(clippy::print_stderr, reason = "for those who ask with --nocapture")]
fn report(
    gateway: &Gateway,
    upstreams: &[Upstream],
    requests: u64,
    took: Duration,
    ends: &BTreeMap<End, usize>,
) {
    let stats = gateway.pool().stats();
    let asked: usize = upstreams.iter().map(Upstream::calls).sum();
    eprintln!(
        "{requests} requests in {took:.1?}: {ends:?}; {} leases, {} refusals, {asked} upstream calls",
        stats.settled, stats.refused
    );
}

fn left(pool: &GatewayPool) -> String {
    format!("{} in flight, {} waiting", pool.in_flight(), pool.waiting())
}

/// Waits until a well-behaved question is served; accounts may be cooling first.
async fn until_served(gateway: &Gateway) {
    let served = async {
        while client::ask(gateway.address(), upstream::GENTLE, Way::Patient).await != End::Served {}
    };
    tokio::time::timeout(SOON, served).await.expect("it serves again");
}

/// Waits until something holds, and fails if it does not come to.
async fn until(holds: impl Fn() -> bool, instead: impl Fn() -> String) {
    let end = Instant::now() + SOON;
    while !holds() {
        assert!(Instant::now() < end, "left over: {}", instead());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
