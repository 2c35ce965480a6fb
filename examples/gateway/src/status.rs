//! The pool made visible: a live page for people, JSON, metrics for machines, and, with a token,
//! the operator's three switches.
//!
//! | route | answers |
//! | --- | --- |
//! | `GET /` | one self-contained page, fed by `/events` |
//! | `GET /pool` | [`PoolStatus`] as JSON |
//! | `GET /events` | server-sent events: a `state` ([`PoolStatus`]), then a `delta` ([`Delta`]) per second |
//! | `GET /explain?caller=…&model=…&selector=…` | [`account_pool::Explanation`] as JSON; all parts optional |
//! | `GET /metrics` | Prometheus text |
//! | `GET /healthz` | liveness: 200 as long as the process answers |
//! | `GET /readyz` | readiness: 503 when no account can serve, and not for load alone |
//! | `POST /admin/{action}` | with a token: `drain`, `undrain`, `clear`, `maintenance-on`, `maintenance-off`; `check` tries the token |
//!
//! **Health.** Liveness never looks at the accounts: a restart mends no quota. Readiness asks the
//! pool whether an anonymous request that names no model would be served. Full accounts count as
//! ready, since they free themselves, and so does a throttled pool that serves all the same
//! ([`account_pool::Path::Degraded`]); a drought is told in the body and changes no status, since
//! an account with little quota left still serves.
//!
//! **Administration.** A request names its account in a JSON body, `{"account": "…"}`, so that ids
//! of any form pass, and carries `Authorization: Bearer <token>`. No cookie authenticates anything,
//! so another site's page can do nothing. Without a configured token these routes do not exist.
//!
//! **Cost.** What watchers see is read account by account, so that the pool is never held for all
//! of them, but for a short count that tells a drought; the numbers of different accounts may be
//! some microseconds apart. However many watch, one task reads the pool, once a second, and only
//! while somebody watches. A slow watcher skips states and is sent a whole one then, so none piles
//! up. An explanation holds the pool until every account has its verdict.
//!
//! **Privacy.** Whoever reaches these routes may read them, names of accounts included. Callers'
//! keys are digested for a look-up and go nowhere else; payloads are never touched. A key in the
//! query of `/explain` is part of the request's address: keep addresses with their queries out of
//! access logs.

mod admin;
mod events;
mod feed;
mod metrics;
mod page;
mod token;
mod view;

use std::fmt;
use std::sync::Arc;

use account_pool::{AccountId, Explanation, Millis, Pool, Request};
use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

pub use self::events::{EventKind, RecentEvent};
pub use self::feed::Delta;
pub use self::token::{AdminToken, TokenError};
pub use self::view::{AccountStatus, Condition, Counters, PoolStatus, Summary};

use self::events::Recent;
use self::feed::Feed;

/// What to show, and who may change it.
#[expect(clippy::exhaustive_structs, reason = "the two things that every host has to decide")]
pub struct Status<T> {
    /// The pool.
    pub pool: Arc<Pool<T>>,
    /// Who may drain, clear and maintain; `None` leaves the page read-only.
    pub admin_token: Option<AdminToken>,
}

impl<T: Send + Sync + 'static> fmt::Debug for Status<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Status")
            .field("pool", &self.pool)
            .field("admin_token", &self.admin_token)
            .finish()
    }
}

/// What the pool cannot tell.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct Options {
    limits: Option<Limits>,
    selectors: Vec<String>,
    shutdown: CancellationToken,
}

/// Finds the declared number of leases that an account may hold at once.
type Limits = Arc<dyn Fn(&AccountId) -> Option<u32> + Send + Sync>;

impl Options {
    /// Nothing but what the pool tells: no in-flight limits, and streams that end with their
    /// clients alone.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Tells the in-flight limits, which the pool keeps to itself. Asked for every account at
    /// every look, so it should only look up.
    #[must_use]
    pub fn limits(
        mut self,
        limits: impl Fn(&AccountId) -> Option<u32> + Send + Sync + 'static,
    ) -> Self {
        self.limits = Some(Arc::new(limits));
        self
    }

    /// Tells the selectors that requests of the host always carry one of, such as their APIs; the
    /// page's form asks for it then.
    #[must_use]
    pub fn selectors(mut self, selectors: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.selectors = selectors.into_iter().map(Into::into).collect();
        self
    }

    /// Ends all streams once the token is cancelled. A graceful shutdown waits for open responses,
    /// and streams of events end in no other way while their clients stay.
    #[must_use]
    pub fn shutdown(mut self, shutdown: CancellationToken) -> Self {
        self.shutdown = shutdown;
        self
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("limits", &self.limits.is_some())
            .field("selectors", &self.selectors)
            .field("shutdown", &self.shutdown)
            .finish()
    }
}

/// The routes, to be merged into a host's own: see the [module](self).
///
/// Becomes the observer of the pool. When there is one already, the page tells that it shows no
/// events.
pub fn router<T: Send + Sync + 'static>(status: Status<T>) -> Router {
    router_with(status, Options::new())
}

/// The routes, as [`router`], with what the pool cannot tell.
pub fn router_with<T: Send + Sync + 'static>(status: Status<T>, options: Options) -> Router {
    let recent = Arc::new(Recent::default());
    let watcher = Arc::clone(&recent);
    let observed = status.pool.set_observer(move |event: &_, at| watcher.observe(event, at));
    let host = Arc::new(Host {
        pool: status.pool,
        admin_token: status.admin_token,
        recent,
        observed,
        options,
        feed: Feed::default(),
    });
    let routes = Router::new()
        .route("/", get(page::page))
        .route("/pool", get(pool))
        .route("/events", get(feed::events))
        .route("/explain", get(explain))
        .route("/metrics", get(metrics::metrics))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz));
    let routes = if host.admin_token.is_some() { admin::add_to(routes) } else { routes };
    routes.with_state(host)
}

/// What all handlers share.
struct Host<T> {
    pool: Arc<Pool<T>>,
    admin_token: Option<AdminToken>,
    recent: Arc<Recent>,
    /// Whether the events of the pool come here.
    observed: bool,
    options: Options,
    feed: Feed,
}

impl<T: Send + Sync + 'static> Host<T> {
    /// Runs something that takes time in proportion to the accounts, beside the tasks that serve.
    async fn look<R: Send + 'static>(
        self: Arc<Self>,
        question: impl FnOnce(&Self) -> R + Send + 'static,
    ) -> Result<R, Failed> {
        tokio::task::spawn_blocking(move || question(&self)).await.map_err(|_| Failed)
    }
}

/// A look at the pool did not end, because it panicked or the runtime shuts down.
#[derive(Debug)]
struct Failed;

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        problem(StatusCode::INTERNAL_SERVER_ERROR, "the pool could not be read")
    }
}

/// An error as JSON.
fn problem(status: StatusCode, message: &str) -> Response {
    (status, UNCACHED, Json(serde_json::json!({ "error": message }))).into_response()
}

const UNCACHED: [(header::HeaderName, &str); 1] = [(header::CACHE_CONTROL, "no-store")];

async fn pool<T: Send + Sync + 'static>(
    State(host): State<Arc<Host<T>>>,
) -> Result<impl IntoResponse, Failed> {
    let status: PoolStatus = host.look(PoolStatus::of).await?;
    Ok((UNCACHED, Json(status)))
}

/// What to explain. Blank parts count as absent.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Asked {
    caller: String,
    model: String,
    selector: String,
}

async fn explain<T: Send + Sync + 'static>(
    State(host): State<Arc<Host<T>>>,
    Query(asked): Query<Asked>,
) -> Result<impl IntoResponse, Failed> {
    let explanation: Explanation = host
        .look(move |host| {
            let request = Request::new().caller(&asked.caller);
            host.pool.explain(&request.model(&asked.model).selector(&asked.selector))
        })
        .await?;
    Ok((UNCACHED, Json(explanation)))
}

/// The body of `/healthz` and `/readyz`.
#[derive(Default, Serialize)]
struct Health {
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    drought: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_secs: Option<u64>,
}

async fn healthz() -> impl IntoResponse {
    (UNCACHED, Json(Health { status: "ok", ..Health::default() }))
}

async fn readyz<T: Send + Sync + 'static>(
    State(host): State<Arc<Host<T>>>,
) -> Result<impl IntoResponse, Failed> {
    let look = |host: &Host<T>| (host.pool.preview(&Request::new()), host.pool.drought());
    let (answer, drought) = host.look(look).await?;
    let (code, mut health) = match answer {
        Err(refusal) if !refusal.is_load_only() => {
            let retry_after_secs = refusal.retry_after().map(Millis::as_secs_ceil);
            let status = "no account can serve";
            let health = Health { status, retry_after_secs, ..Health::default() };
            (StatusCode::SERVICE_UNAVAILABLE, health)
        }
        _ => (StatusCode::OK, Health { status: "ready", ..Health::default() }),
    };
    health.drought = Some(drought);
    Ok((code, UNCACHED, Json(health)))
}
