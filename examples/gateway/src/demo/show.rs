//! The demonstration: the same load with stickiness and without, then a conversation whose account
//! runs dry.

mod report;

use std::collections::HashSet;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use account_pool::config::StickyMode;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

pub use self::report::Report;
use super::load::{Conversation, Turn};
use super::upstream::{Behaviour, DemoUpstream, account_id, key};
use crate::api::Api;
use crate::config::{AccountConfig, ProviderName, Settings};
use crate::gateway::{Gateway, StartError, Variables};

/// What to show.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Where the gateway listens.
    pub listen: SocketAddr,
    /// Accounts per API.
    pub accounts: usize,
    /// Conversations at once, a third of them per API.
    pub conversations: usize,
    /// Turns of each.
    pub rounds: usize,
    /// Makes chance repeatable.
    pub seed: u64,
    /// Of a hundred questions, how many the upstream throttles.
    pub throttle_percent: u64,
    /// Whether the upstream answers at once and without limits.
    pub fast: bool,
    /// The gateway's settings; its accounts give way to the upstream's.
    pub settings: Settings,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8080)),
            accounts: 6,
            conversations: 24,
            rounds: 8,
            seed: 1,
            throttle_percent: 3,
            fast: false,
            settings: Settings::default(),
        }
    }
}

impl Options {
    fn behaviour(&self) -> Behaviour {
        let usual = if self.fast { Behaviour::fast() } else { Behaviour::default() };
        let throttle_percent = if self.fast { 0 } else { self.throttle_percent };
        Behaviour { seed: self.seed, accounts: self.accounts, throttle_percent, ..usual }
    }
}

/// The token for the administration of a demo that only this machine can reach, unless its
/// settings name a variable with another one.
pub const ADMIN_TOKEN: &str = "demo-admin-token";
/// The variable that would hold it.
const ADMIN_TOKEN_ENV: &str = "GATEWAY_DEMO_ADMIN_TOKEN";

/// How far the demonstration is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Progress {
    /// Which part.
    pub part: Part,
    /// Turns that are over.
    pub done: usize,
    /// Turns in all.
    pub total: usize,
}

/// A part of the demonstration.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Part {
    /// The load, with the pool's stickiness.
    Sticky,
    /// The same load, each request where the order of preference leads it.
    Contrast,
    /// One conversation whose account runs dry.
    Dry,
}

impl Part {
    /// A title.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Sticky => "with stickiness",
            Self::Contrast => "without",
            Self::Dry => "an account runs dry",
        }
    }
}

/// Why there was nothing to show.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DemoError {
    /// The upstream did not start.
    #[error("the demo's upstream cannot listen: {0}")]
    Upstream(#[from] io::Error),
    /// A gateway did not start.
    #[error(transparent)]
    Gateway(#[from] StartError),
    /// Nothing to do.
    #[error("--accounts, --conversations and --rounds must be at least 1")]
    Empty,
}

/// What is left when everything was shown: a gateway that goes on serving.
#[derive(Debug)]
#[non_exhaustive]
pub struct Shown {
    /// The gateway with stickiness.
    pub gateway: Gateway,
    /// Its upstream.
    pub upstream: DemoUpstream,
    /// What came of it.
    pub report: Report,
}

/// How many turns the conversation has whose account runs dry, and after which it does.
const DRY_TURNS: (usize, usize) = (8, 4);

/// Shows everything; `tell` hears of every turn.
///
/// # Errors
///
/// [`DemoError`] when something did not start.
pub async fn run(options: &Options, tell: &mut dyn FnMut(Progress)) -> Result<Shown, DemoError> {
    if options.accounts == 0 || options.conversations == 0 || options.rounds == 0 {
        return Err(DemoError::Empty);
    }
    let (upstream, gateway) = serve(options).await?;
    let sticky = load(options, gateway.address(), Part::Sticky, tell).await;

    let mut unsticky = options.clone();
    unsticky.listen = ([127, 0, 0, 1], 0).into();
    unsticky.settings.pool.sticky.mode = StickyMode::Off;
    unsticky.settings.state.file = None;
    let (_cold, other) = serve(&unsticky).await?;
    let contrast = load(options, other.address(), Part::Contrast, tell).await;
    other.stop().await;

    let dry = run_dry(options, &gateway, &upstream, tell).await;
    let in_flight = gateway.pool().in_flight();
    let refused = upstream.refused();
    let report = Report { sticky, contrast, dry, ran_dry_after: DRY_TURNS.1, refused, in_flight };
    Ok(Shown { gateway, upstream, report })
}

/// Starts an upstream and a gateway in front of it.
///
/// # Errors
///
/// [`DemoError`] when one of them did not start.
pub async fn serve(options: &Options) -> Result<(DemoUpstream, Gateway), DemoError> {
    if options.accounts == 0 {
        return Err(DemoError::Empty);
    }
    let upstream = upstream(options).await?;
    let gateway = Gateway::start(settings(options, &upstream), variables(options)).await?;
    Ok((upstream, gateway))
}

/// Starts an upstream alone.
///
/// # Errors
///
/// What the system says when there is no free port.
pub async fn upstream(options: &Options) -> io::Result<DemoUpstream> {
    DemoUpstream::start(options.behaviour()).await
}

fn settings(options: &Options, upstream: &DemoUpstream) -> Settings {
    let behaviour = options.behaviour();
    let mut settings = options.settings.clone();
    settings.server.listen = options.listen;
    if settings.admin.token_env.is_none() && options.listen.ip().is_loopback() {
        settings.admin.token_env = Some(ADMIN_TOKEN_ENV.to_owned());
    }
    settings.accounts.clear();
    for (api, provider) in [
        (Api::Anthropic, ProviderName::Anthropic),
        (Api::OpenAi, ProviderName::OpenAi),
        (Api::Gemini, ProviderName::Gemini),
    ] {
        for number in 1..=behaviour.accounts {
            let id = account_id(api, number);
            let base_url = format!("http://{}", upstream.address());
            let mut account = AccountConfig::new(&id, provider, &base_url, &id);
            account.rpm = behaviour.rpm;
            account.max_in_flight = behaviour.rpm.map(|_| 8);
            settings.accounts.push(account);
        }
    }
    settings
}

/// The demo's keys are no secrets, and each one's variable is named like its account. All others
/// are the environment's.
fn variables(options: &Options) -> Variables {
    let accounts: HashSet<String> = [Api::Anthropic, Api::OpenAi, Api::Gemini]
        .into_iter()
        .flat_map(|api| (1..=options.accounts).map(move |number| account_id(api, number)))
        .collect();
    Arc::new(move |name: &str| match name {
        ADMIN_TOKEN_ENV => Some(ADMIN_TOKEN.to_owned()),
        id if accounts.contains(id) => Some(key(id)),
        name => std::env::var(name).ok(),
    })
}

/// All conversations at once, each at its own pace.
async fn load(
    options: &Options,
    gateway: SocketAddr,
    part: Part,
    tell: &mut dyn FnMut(Progress),
) -> Vec<Turn> {
    let total = options.conversations * options.rounds;
    let (sender, mut receiver) = mpsc::unbounded_channel();
    let mut talks = JoinSet::new();
    for number in 0..options.conversations {
        let (rounds, sender) = (options.rounds, sender.clone());
        let mut conversation = Conversation::new(gateway, number, options.seed);
        talks.spawn(async move {
            for _ in 0..rounds {
                tokio::time::sleep(conversation.pause()).await;
                if sender.send(conversation.turn().await).is_err() {
                    return;
                }
            }
        });
    }
    drop(sender);
    let mut turns = Vec::with_capacity(total);
    tell(Progress { part, done: 0, total });
    while let Some(turn) = receiver.recv().await {
        turns.push(turn);
        tell(Progress { part, done: turns.len(), total });
    }
    turns
}

/// One conversation; half-way, the quota of its account is spent.
async fn run_dry(
    options: &Options,
    gateway: &Gateway,
    upstream: &DemoUpstream,
    tell: &mut dyn FnMut(Progress),
) -> Vec<Turn> {
    let (total, dry_after) = DRY_TURNS;
    // Numbers that leave the same rest by three speak the same API: this one Anthropic's.
    let number = options.conversations.next_multiple_of(3);
    let mut conversation = Conversation::new(gateway.address(), number, options.seed);
    let mut turns: Vec<Turn> = Vec::with_capacity(total);
    // The quota is to be the only thing that happens.
    upstream.set_calm(true);
    for done in 0..total {
        tell(Progress { part: Part::Dry, done, total });
        if done == dry_after
            && let Some(turn) = turns.last()
        {
            upstream.run_dry(&turn.account);
        }
        turns.push(conversation.turn().await);
    }
    upstream.set_calm(false);
    tell(Progress { part: Part::Dry, done: total, total });
    turns
}
