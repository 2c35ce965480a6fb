//! A host to look at: the status page over a pool with synthetic traffic, until it is stopped.
//!
//! ```text
//! STATUS_ADDRESS=127.0.0.1:8787 STATUS_ACCOUNTS=40 STATUS_TOKEN=sesame-sesame-sesame \
//!     cargo test -p account-pool-gateway --test status_host -- --ignored --nocapture
//! ```
#![expect(clippy::unwrap_used, reason = "a host for a person, who sees the panic")]
#![expect(clippy::print_stderr, reason = "it tells where it listens")]

use std::collections::HashMap;
use std::env;
use std::sync::Arc;
use std::time::Duration;

use account_pool::{
    Account, Clock, Config, Entitlement, Millis, Outcome, Pool, QuotaReading, QuotaWindow, Request,
    Reset, Scope, Status as AccountState, Tier, Usage,
};
use account_pool_gateway::status::{AdminToken, Options, Status, router_with};
use tokio::net::TcpListener;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "it serves until it is stopped"]
async fn serve_synthetic_traffic() {
    let setting = |name: &str| env::var(name).ok();
    let accounts = setting("STATUS_ACCOUNTS").map_or(24, |text| text.parse().unwrap());
    let address = setting("STATUS_ADDRESS").unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let pool = Arc::new(Pool::new(Config::default()).unwrap());
    let limits: HashMap<String, u32> = fill(&pool, accounts).into_iter().collect();
    for seed in 0..accounts.clamp(8, 256) {
        tokio::spawn(converse(Arc::clone(&pool), Random(seed as u64 * 7_919 + 1)));
    }
    let status = Status { pool, admin_token: AdminToken::from_env("STATUS_TOKEN").unwrap() };
    let options = Options::new().limits(move |id| limits.get(id.as_str()).copied());
    let listener = TcpListener::bind(address).await.unwrap();
    eprintln!("http://{}/", listener.local_addr().unwrap());
    axum::serve(listener, router_with(status, options)).await.unwrap();
}

/// How an account behaves.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Nature {
    Steady,
    Throttled,
    Flaky,
    Spent,
    Overloaded,
    Rejected,
}

fn nature(index: usize) -> Nature {
    match index % 20 {
        3 | 11 => Nature::Throttled,
        7 => Nature::Flaky,
        13 => Nature::Spent,
        17 => Nature::Overloaded,
        19 => Nature::Rejected,
        _ => Nature::Steady,
    }
}

/// Adds the accounts; returns their in-flight limits.
fn fill(pool: &Pool<Nature>, accounts: usize) -> Vec<(String, u32)> {
    let now = pool.clock().now();
    let mut limits = Vec::new();
    for index in 0..accounts {
        let id = match index {
            5 => "<script>alert(1)</script>".to_owned(),
            9 => "a-team@example.com/organisation/with-a-very-long-name-indeed".to_owned(),
            _ => format!("{}-{index:03}", ["anthropic", "openai", "gemini"][index % 3]),
        };
        let limit = 4 + u32::try_from(index % 3).unwrap() * 2;
        let mut account = Account::new(id.as_str()).rpm(if index % 6 == 4 { 12 } else { 120 });
        if index % 4 == 0 {
            account = account.tokens_per_minute(400_000);
        }
        if index % 5 == 2 {
            account = account.window(4_000, Millis::from_mins(300));
        }
        if index % 10 == 8 {
            account = account.tier(Tier(1)).fallback_only(true);
        }
        if index % 7 == 6 {
            account = account.models(Entitlement::only(["opus"]));
        }
        pool.add(account.max_in_flight(limit), nature(index)).unwrap();
        limits.push((id.clone(), limit));
        if index % 2 == 0 {
            let left = u32::try_from((index * 37) % 97 + 2).unwrap();
            let reading = QuotaReading::at(now)
                .window(QuotaWindow::new(f64::from(left)).reset(now.plus(Millis::from_mins(137))))
                .window(QuotaWindow::new(100.0 - f64::from(left) / 3.0).rank_only());
            pool.observe_quota(&id, &reading).unwrap();
        }
        match index % 23 {
            10 => pool.set_draining(&id, true).unwrap(),
            14 => pool.set_maintenance(&id, true).unwrap(),
            18 => pool.set_status(&id, AccountState::Disabled).unwrap(),
            _ => {}
        }
    }
    limits
}

/// Turn after turn, with pauses.
async fn converse(pool: Arc<Pool<Nature>>, mut random: Random) {
    loop {
        let caller = format!("api:{}:secret-caller-{}", random.below(5), random.below(400));
        let model = ["opus", "sonnet", "haiku"][random.pick(3)];
        let request = Request::new().caller(&caller).model(model).cost(200);
        if let Ok(lease) = pool.acquire(&request, Millis::from_secs(2)).await {
            tokio::time::sleep(Duration::from_millis(100 + random.below(1_500))).await;
            let outcome = outcome(**lease.payload(), &mut random);
            lease.settle(outcome);
        }
        tokio::time::sleep(Duration::from_millis(random.below(1_200))).await;
    }
}

fn outcome(nature: Nature, random: &mut Random) -> Outcome {
    let trouble = random.below(4) == 0;
    match nature {
        Nature::Throttled if trouble => {
            Outcome::rate_limited(Some(Reset::After(Millis::from_secs(20 + random.below(50)))))
        }
        Nature::Overloaded if trouble => Outcome::Overloaded { reset: None, scope: Scope::Model },
        Nature::Spent if trouble => {
            Outcome::quota_exhausted(Some(Reset::After(Millis::from_mins(95))))
        }
        Nature::Flaky => Outcome::Network,
        Nature::Rejected if trouble => Outcome::AuthFailed,
        _ => {
            let mut usage = Usage::default();
            usage.input = 300 + random.below(900);
            usage.output = 100 + random.below(700);
            usage.cache_read = random.below(24_000);
            usage.cache_write = random.below(2_000);
            Outcome::Success { usage }
        }
    }
}

/// Numbers that look random, the same ones in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        let (factor, step) = (6_364_136_223_846_793_005, 1_442_695_040_888_963_407);
        self.0 = self.0.wrapping_mul(factor).wrapping_add(step);
        (self.0 >> 33) % end
    }

    fn pick(&mut self, end: usize) -> usize {
        usize::try_from(self.below(end as u64)).unwrap()
    }
}
