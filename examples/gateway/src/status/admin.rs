//! The operator's switches, for those who show the token.

use std::sync::Arc;

use account_pool::{AccountError, AccountId, Clock};
use axum::extract::rejection::JsonRejection;
use axum::extract::{DefaultBodyLimit, FromRequestParts, Path, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use serde::{Deserialize, Serialize};

use super::events::EventKind;
use super::{Host, UNCACHED, problem};

/// The most bytes of a request's body.
const BODY_LIMIT: usize = 16 * 1_024;

/// Adds the routes under `/admin`.
pub(super) fn add_to<T: Send + Sync + 'static>(
    routes: Router<Arc<Host<T>>>,
) -> Router<Arc<Host<T>>> {
    let admin = Router::new()
        .route("/admin/check", post(check::<T>))
        .route("/admin/{action}", post(act::<T>))
        .layer(DefaultBodyLimit::max(BODY_LIMIT));
    routes.merge(admin)
}

/// Proof that a request carries the token. Made before anything else of the request is read.
struct Operator;

impl<T: Send + Sync + 'static> FromRequestParts<Arc<Host<T>>> for Operator {
    type Rejection = Response;

    async fn from_request_parts(
        parts: &mut Parts,
        host: &Arc<Host<T>>,
    ) -> Result<Self, Self::Rejection> {
        let offered = parts.headers.get(header::AUTHORIZATION).and_then(bearer);
        let token = host.admin_token.as_ref();
        if offered.zip(token).is_some_and(|(offered, token)| token.is(offered)) {
            return Ok(Self);
        }
        let challenge = [(header::WWW_AUTHENTICATE, "Bearer")];
        let message = "this needs the admin token: send it as `Authorization: Bearer <token>`";
        Err((challenge, problem(StatusCode::UNAUTHORIZED, message)).into_response())
    }
}

/// The token of a header; the scheme's case does not matter.
fn bearer(header: &HeaderValue) -> Option<&str> {
    let (scheme, token) = header.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

/// What can be done to an account.
#[derive(Clone, Copy)]
enum Action {
    Drain,
    Undrain,
    Clear,
    MaintenanceOn,
    MaintenanceOff,
}

/// On which account.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Target {
    account: AccountId,
}

/// That it was done.
#[derive(Serialize)]
struct Done {
    account: AccountId,
    done: EventKind,
}

async fn check<T: Send + Sync + 'static>(
    _: Operator,
    State(_): State<Arc<Host<T>>>,
) -> impl IntoResponse {
    (StatusCode::NO_CONTENT, UNCACHED)
}

async fn act<T: Send + Sync + 'static>(
    _: Operator,
    State(host): State<Arc<Host<T>>>,
    Path(action): Path<String>,
    target: Result<Json<Target>, JsonRejection>,
) -> Response {
    let Some(action) = Action::named(&action) else {
        let message = "no such action: there are drain, undrain, clear, maintenance-on and \
                       maintenance-off";
        return problem(StatusCode::NOT_FOUND, message);
    };
    let Target { account } = match target {
        Ok(Json(target)) => target,
        Err(rejection) => {
            return problem(rejection.status(), "send the account as JSON: {\"account\": \"…\"}");
        }
    };
    match action.apply(&host, account.as_str()) {
        Ok(()) => {
            let done = action.kind();
            host.recent.administer(done, account.clone(), host.pool.clock().now());
            (UNCACHED, Json(Done { account, done })).into_response()
        }
        Err(error @ AccountError::Unknown(_)) => problem(StatusCode::NOT_FOUND, &error.to_string()),
        Err(error) => problem(StatusCode::CONFLICT, &error.to_string()),
    }
}

impl Action {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "drain" => Self::Drain,
            "undrain" => Self::Undrain,
            "clear" => Self::Clear,
            "maintenance-on" => Self::MaintenanceOn,
            "maintenance-off" => Self::MaintenanceOff,
            _ => return None,
        })
    }

    fn kind(self) -> EventKind {
        match self {
            Self::Drain => EventKind::Drain,
            Self::Undrain => EventKind::Undrain,
            Self::Clear => EventKind::Clear,
            Self::MaintenanceOn => EventKind::MaintenanceOn,
            Self::MaintenanceOff => EventKind::MaintenanceOff,
        }
    }

    fn apply<T: Send + Sync + 'static>(
        self,
        host: &Host<T>,
        account: &str,
    ) -> Result<(), AccountError> {
        let pool = &host.pool;
        match self {
            Self::Drain => pool.set_draining(account, true),
            Self::Undrain => pool.set_draining(account, false),
            Self::Clear => pool.clear_blocks(account, None).map(|_| ()),
            Self::MaintenanceOn => pool.set_maintenance(account, true),
            Self::MaintenanceOff => pool.set_maintenance(account, false),
        }
    }
}
