//! The gateway as a whole.

use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use account_pool::AccountId;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::accounts::{Changes, Roster, RosterError};
use crate::app;
use crate::config::{ConfigError, Environment, Settings, read_key};
use crate::dial::{Dialer, dialer};
use crate::keys::Keys;
use crate::server::{self, Stopped};
use crate::status::AdminToken;
use crate::store;
use crate::upstream::GatewayPool;

/// Where credentials come from; usually `std::env::var`.
pub type Variables = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// What of the configuration is in force; replaced as one.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) settings: Settings,
    pub(crate) keys: Keys,
    /// How many requests at once each account takes, of those with a limit.
    max_in_flight: HashMap<String, u32>,
}

impl Live {
    fn new(settings: Settings, keys: Keys) -> Self {
        let limits = settings.accounts.iter();
        let limits = limits.filter_map(|it| Some((it.id.clone(), it.max_in_flight?)));
        Self { max_in_flight: limits.collect(), settings, keys }
    }

    pub(crate) fn max_in_flight(&self, id: &AccountId) -> Option<u32> {
        self.max_in_flight.get(id.as_str()).copied()
    }
}

/// What all requests share.
pub(crate) struct Shared {
    pub(crate) pool: GatewayPool,
    pub(crate) dialer: Dialer,
    live: watch::Sender<Arc<Live>>,
}

impl Shared {
    /// The configuration in force. A request keeps the one that it began with.
    pub(crate) fn live(&self) -> Arc<Live> {
        Arc::clone(&self.live.borrow())
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("pool", &self.pool).finish_non_exhaustive()
    }
}

/// A running gateway. [`Gateway::stop`] ends it in order; when it is dropped it stops as well, but
/// nobody waits for it and the last of its state is not saved.
#[must_use]
pub struct Gateway {
    shared: Arc<Shared>,
    address: SocketAddr,
    variables: Variables,
    stopping: watch::Sender<bool>,
    server: JoinHandle<Stopped>,
    saver: Option<(JoinHandle<()>, PathBuf)>,
}

/// Why a gateway did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The pool refused the accounts.
    #[error(transparent)]
    Roster(#[from] RosterError),
    /// The address cannot be used.
    #[error("cannot listen on {address}: {error}; choose another with `server.listen` or --listen")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        #[source]
        error: std::io::Error,
    },
}

impl Gateway {
    /// Restores the state, listens, serves.
    ///
    /// # Errors
    ///
    /// [`StartError`] says what to change.
    pub async fn start(settings: Settings, variables: Variables) -> Result<Self, StartError> {
        let keys = Keys::read(&settings, &*variables)?;
        let roster = Roster::read(&settings, &*variables)?;
        let admin_token = admin_token(&settings, &*variables)?;
        let pool = pool(&settings, &roster)?;
        let address = settings.server.listen;
        let listening = TcpListener::bind(address).await;
        let listening = listening.and_then(|listener| Ok((listener.local_addr()?, listener)));
        let (address, listener) =
            listening.map_err(|error| StartError::Listen { address, error })?;

        let dialer = dialer(&settings.upstream);
        let limits = server::Limits::of(&settings.server);
        let state_file = settings.state.file.clone();
        let save_every = Duration::from_millis(settings.state.save_every_ms);
        let live = watch::Sender::new(Arc::new(Live::new(settings, keys)));
        let shared = Arc::new(Shared { pool, dialer, live });
        let stopping = watch::Sender::new(false);
        let saver = state_file.map(|path| {
            let pool = shared.pool.clone();
            let saving = keep_saving(pool, path.clone(), save_every, stopping.subscribe());
            (tokio::spawn(saving), path)
        });
        let app = app::router(&shared, admin_token, &stopping.subscribe());
        let server = tokio::spawn(server::serve(listener, app, limits, stopping.subscribe()));
        Ok(Self { shared, address, variables, stopping, server, saver })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its pool.
    #[must_use]
    pub fn pool(&self) -> &GatewayPool {
        &self.shared.pool
    }

    /// Follows another configuration, without losing state. What the sample says is read at start
    /// only is not looked at.
    ///
    /// # Errors
    ///
    /// [`StartError`] says what is wrong; then the old one stays in force as a whole.
    pub fn reload(&self, settings: Settings) -> Result<Changes, StartError> {
        let keys = Keys::read(&settings, &*self.variables)?;
        let roster = Roster::read(&settings, &*self.variables)?;
        let changes = roster.follow(&self.shared.pool)?;
        self.shared.live.send_replace(Arc::new(Live::new(settings, keys)));
        Ok(changes)
    }

    /// Stops accepting, lets answers finish up to the configured time, cuts the rest, and writes
    /// the state.
    pub async fn stop(self) -> Stopped {
        self.stopping.send_replace(true);
        let stopped = self.server.await.unwrap_or_default();
        if let Some((saver, path)) = self.saver {
            // So that the last state is not overtaken by one before.
            if saver.await.is_err() {
                tracing::warn!("saving the state panicked");
            }
            save(&self.shared.pool, &path);
        }
        stopped
    }
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Who may administer; nobody, unless the configuration names a variable.
fn admin_token(
    settings: &Settings,
    environment: Environment<'_>,
) -> Result<Option<AdminToken>, ConfigError> {
    let Some(name) = &settings.admin.token_env else {
        return Ok(None);
    };
    let token = AdminToken::new(&read_key("admin.token_env", name, environment)?);
    token.map(Some).map_err(|error| {
        let problem = format!("names the variable {name}: {error}");
        ConfigError::field("admin.token_env", problem)
    })
}

/// The pool of an earlier run if its state is there and fits, else a new one.
fn pool(settings: &Settings, roster: &Roster) -> Result<GatewayPool, RosterError> {
    if let Some(path) = &settings.state.file
        && let Some(snapshot) = store::load(path)
    {
        match roster.restore(&snapshot) {
            Ok((pool, changes)) => {
                tracing::info!(path = %path.display(), %changes, "state restored");
                return Ok(pool);
            }
            Err(error) => store::set_aside(path, &error),
        }
    }
    roster.build()
}

async fn keep_saving(
    pool: GatewayPool,
    path: PathBuf,
    every: Duration,
    mut stopping: watch::Receiver<bool>,
) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(every) => {}
            () = server::told(&mut stopping) => return,
        }
        let (pool, path) = (pool.clone(), path.clone());
        // Writing waits for the disk.
        let saved = tokio::task::spawn_blocking(move || save(&pool, &path)).await;
        if saved.is_err() {
            tracing::warn!("saving the state panicked");
        }
    }
}

fn save(pool: &GatewayPool, path: &std::path::Path) {
    if let Err(error) = store::save(path, &pool.snapshot()) {
        tracing::warn!(%error, "state not saved");
    }
}
