//! Which path goes where.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Path, Request, State};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{MethodRouter, get, post};
use http::StatusCode;
use tokio::sync::watch;
use tracing::Instrument;

use crate::api::Api;
use crate::fault::Fault;
use crate::forward::{Means, forward};
use crate::gateway::Shared;
use crate::intake;
use crate::request_id;

/// All routes of the gateway.
pub(crate) fn router(
    shared: &Arc<Shared>,
    _admin_token: Option<&str>,
    _stopping: &watch::Receiver<bool>,
) -> Router {
    let proxy = Router::new()
        .route("/v1/chat/completions", passes(Api::OpenAi))
        .route("/v1/responses", passes(Api::OpenAi))
        .route("/v1/messages", passes(Api::Anthropic))
        .route("/v1/models", get(models))
        .route("/v1/models/{*model}", get(models))
        .route("/v1beta/models", get(gemini_models))
        .route("/v1beta/models/{action}", get(gemini_models).post(gemini))
        .fallback(unknown_path)
        .method_not_allowed_fallback(unknown_method)
        .with_state(Arc::clone(shared));
    // The status page's routes are merged here; they take precedence over the fallback.
    proxy.layer(middleware::from_fn(named))
}

fn passes(api: Api) -> MethodRouter<Arc<Shared>> {
    post(async move |State(shared): State<Arc<Shared>>, request: Request| {
        answer(&shared, api, None, request).await
    })
}

async fn models(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let api = Api::of_models(request.headers());
    answer(&shared, api, None, request).await
}

async fn gemini_models(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    answer(&shared, Api::Gemini, None, request).await
}

async fn gemini(
    State(shared): State<Arc<Shared>>,
    Path(action): Path<String>,
    request: Request,
) -> Response {
    match action.rsplit_once(':') {
        Some((model, "generateContent" | "streamGenerateContent")) => {
            answer(&shared, Api::Gemini, Some(model.to_owned()), request).await
        }
        _ => unknown_path(request).await,
    }
}

async fn answer(
    shared: &Shared,
    api: Api,
    model: Option<String>,
    request: http::Request<Body>,
) -> Response {
    let live = shared.live();
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>();
    let address = peer.map(|peer| peer.0.ip().to_string()).unwrap_or_default();
    let asked = intake::read(api, model, request, &live.settings, &live.keys, &address).await;
    let answered = match asked {
        Ok(asked) => {
            tracing::debug!(model = asked.model, caller = ?asked.caller, "asked");
            let means = Means { pool: &shared.pool, dialer: &shared.dialer, live: &live };
            forward(means, &asked).await
        }
        Err(fault) => Err(fault),
    };
    answered.unwrap_or_else(|fault| {
        tracing::info!(status = fault.status.as_u16(), message = fault.message, "not served");
        fault.answer(api)
    })
}

async fn unknown_path(request: Request) -> Response {
    let api = Api::of_path(request.uri(), request.headers());
    let message = "there is nothing at this path: see the README for those that are served";
    Fault::new(StatusCode::NOT_FOUND, "unknown_path", message).answer(api)
}

async fn unknown_method(request: Request) -> Response {
    let api = Api::of_path(request.uri(), request.headers());
    let message = "this path takes another method";
    Fault::new(StatusCode::METHOD_NOT_ALLOWED, "unknown_method", message).answer(api)
}

/// Names the request in its log lines and in its answer.
async fn named(request: Request, next: Next) -> Response {
    let id = request_id::of(request.headers());
    // The path alone: a query may hold a key.
    let path = request.uri().path();
    let span = tracing::info_span!("request", id, method = %request.method(), path);
    let mut response = next.run(request).instrument(span).await;
    if let Some(value) = request_id::header(&id) {
        response.headers_mut().insert(request_id::HEADER, value);
    }
    response
}
