//! The configuration file. `gateway.sample.toml` shows every field.

mod account;
mod error;

use std::collections::HashSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use account_pool::config::Degraded;
use serde::{Deserialize, Deserializer};

pub(crate) use self::account::read_key;
pub use self::account::{AccountConfig, Auth, ProviderName};
pub use self::error::ConfigError;
use self::error::ensure;

/// Looks up an environment variable. A parameter, so that tests need not set any.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The whole file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Settings {
    /// The side of the clients.
    #[serde(default)]
    pub server: Server,
    /// The side of the upstreams.
    #[serde(default)]
    pub upstream: Timeouts,
    /// How requests are tried.
    #[serde(default)]
    pub routing: Routing,
    /// The state that outlives the process.
    #[serde(default)]
    pub state: State,
    /// The status page's administration.
    #[serde(default)]
    pub admin: Admin,
    /// Whose requests are accepted. Empty: everybody's.
    #[serde(default)]
    pub clients: Vec<Client>,
    /// The accounts.
    #[serde(default)]
    pub accounts: Vec<AccountConfig>,
    /// The pool's policy: the fields of [`account_pool::Config`].
    #[serde(default = "usual_policy", deserialize_with = "policy")]
    pub pool: account_pool::Config,
}

/// The side of the clients.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Server {
    /// Where to listen. Read at start only.
    pub listen: SocketAddr,
    /// The largest body that a client may send.
    pub max_body_bytes: usize,
    /// The most bytes of headers that a client may send.
    pub max_header_bytes: usize,
    /// How long a client may take to send its headers, and then its body.
    pub read_timeout_ms: u64,
    /// How long answers may go on after the gateway was told to stop.
    pub shutdown_timeout_ms: u64,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8080)),
            max_body_bytes: 32 << 20,
            max_header_bytes: 32 << 10,
            read_timeout_ms: 60_000,
            shutdown_timeout_ms: 30_000,
        }
    }
}

/// The side of the upstreams.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Timeouts {
    /// How long connecting may take.
    pub connect_timeout_ms: u64,
    /// How long from the request to the first byte of the answer's body.
    pub first_byte_timeout_ms: u64,
    /// How long a body may be silent between chunks.
    pub idle_timeout_ms: u64,
    /// The most bytes of headers that an upstream may send, at least 8192.
    pub max_header_bytes: usize,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect_timeout_ms: 5_000,
            first_byte_timeout_ms: 300_000,
            idle_timeout_ms: 120_000,
            max_header_bytes: 64 << 10,
        }
    }
}

impl Timeouts {
    pub(crate) fn connect(&self) -> Duration {
        Duration::from_millis(self.connect_timeout_ms)
    }

    pub(crate) fn first_byte(&self) -> Duration {
        Duration::from_millis(self.first_byte_timeout_ms)
    }

    pub(crate) fn idle(&self) -> Duration {
        Duration::from_millis(self.idle_timeout_ms)
    }
}

/// How requests are tried.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Routing {
    /// How long a request may wait for an account, all attempts together.
    pub max_wait_ms: u64,
    /// The most upstreams that one request is sent to.
    pub max_attempts: u32,
    /// Whether each client key is one person, so that its requests stay together even when they
    /// name no user and no session.
    pub single_tenant: bool,
    /// Whether clients that name nobody are told apart by address and user agent.
    pub guess_callers: bool,
}

impl Default for Routing {
    fn default() -> Self {
        Self { max_wait_ms: 30_000, max_attempts: 4, single_tenant: false, guess_callers: false }
    }
}

/// The state that outlives the process.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct State {
    /// Where it is kept. None: it is not. Read at start only.
    pub file: Option<PathBuf>,
    /// How often it is written.
    pub save_every_ms: u64,
}

impl Default for State {
    fn default() -> Self {
        Self { file: None, save_every_ms: 30_000 }
    }
}

/// The status page's administration.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Admin {
    /// The environment variable that holds the token. None: the page is read-only. Read at start
    /// only.
    pub token_env: Option<String>,
}

/// Somebody whose requests are accepted.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Client {
    /// The client's name in logs; also the tenant that takes turns with others.
    pub name: String,
    /// The environment variable that holds its key.
    pub key_env: String,
}

impl Client {
    /// A client and the variable of its key.
    #[must_use]
    pub fn new(name: &str, key_env: &str) -> Self {
        Self { name: name.to_owned(), key_env: key_env.to_owned() }
    }
}

/// An account that an upstream refused is left alone until it recovers: the gateway waits instead.
fn usual_policy() -> account_pool::Config {
    let mut policy = account_pool::Config::default();
    policy.degraded = Degraded::Inferred;
    policy
}

fn policy<'de, D: Deserializer<'de>>(input: D) -> Result<account_pool::Config, D::Error> {
    let mut table = toml::Table::deserialize(input)?;
    if !table.contains_key("degraded") {
        table.insert("degraded".to_owned(), toml::Value::from("inferred"));
    }
    table.try_into().map_err(|error: toml::de::Error| {
        serde::de::Error::custom(format!("in [pool]: {}", error.message()))
    })
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            server: Server::default(),
            upstream: Timeouts::default(),
            routing: Routing::default(),
            state: State::default(),
            admin: Admin::default(),
            clients: Vec::new(),
            accounts: Vec::new(),
            pool: usual_policy(),
        }
    }
}

impl Settings {
    /// Reads and checks a file.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] names the file and the field.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let text =
            std::fs::read_to_string(path).map_err(|error| ConfigError::unreadable(path, error))?;
        Self::parse(&text)
    }

    /// Reads and checks the text of a file.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] names the field.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let settings: Self = toml::from_str(text)?;
        settings.check()?;
        Ok(settings)
    }

    fn check(&self) -> Result<(), ConfigError> {
        let positive = "must be more than 0";
        ensure(self.server.max_body_bytes > 0, "server.max_body_bytes", positive)?;
        ensure(self.server.max_header_bytes > 0, "server.max_header_bytes", positive)?;
        ensure(self.server.read_timeout_ms > 0, "server.read_timeout_ms", positive)?;
        let timeouts = &self.upstream;
        ensure(timeouts.connect_timeout_ms > 0, "upstream.connect_timeout_ms", positive)?;
        ensure(timeouts.first_byte_timeout_ms > 0, "upstream.first_byte_timeout_ms", positive)?;
        ensure(timeouts.idle_timeout_ms > 0, "upstream.idle_timeout_ms", positive)?;
        ensure(
            (8_192..=64 << 20).contains(&timeouts.max_header_bytes),
            "upstream.max_header_bytes",
            "must be from 8192 to 67108864",
        )?;
        ensure(self.routing.max_attempts > 0, "routing.max_attempts", positive)?;
        ensure(self.state.save_every_ms > 0, "state.save_every_ms", positive)?;
        let mut names = HashSet::new();
        for (index, client) in self.clients.iter().enumerate() {
            let field = |name: &str| format!("clients[{index}].{name}");
            ensure(!client.name.trim().is_empty(), field("name"), "is blank: give it a name")?;
            ensure(names.insert(&client.name), field("name"), "is taken by another client")?;
        }
        for (index, account) in self.accounts.iter().enumerate() {
            account.check(index)?;
        }
        self.pool.validate().map_err(|error| ConfigError::pool(&error))
    }
}
