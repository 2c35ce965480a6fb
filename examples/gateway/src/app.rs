//! Which path goes where.

use std::net::SocketAddr;
use std::sync::Arc;

use account_pool::AccountId;
use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Path, Request, State};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{MethodRouter, get, post};
use futures_util::StreamExt;
use http::StatusCode;
use tokio::sync::watch;
use tracing::Instrument;

use crate::api::Api;
use crate::fault::Fault;
use crate::forward::{Means, forward};
use crate::gateway::Shared;
use crate::intake;
use crate::status::{self, AdminToken, Status};
use crate::{request_id, server};

/// All routes of the gateway.
pub(crate) fn router(
    shared: &Arc<Shared>,
    admin_token: Option<AdminToken>,
    stopping: &watch::Receiver<bool>,
) -> Router {
    let proxy = Router::new()
        .route("/v1/chat/completions", passes(Api::OpenAi))
        .route("/v1/responses", passes(Api::OpenAi))
        .route("/v1/messages", passes(Api::Anthropic))
        .route("/v1/models", get(models))
        // Google's newer clients ask under `/v1` when they are given a base URL.
        .route("/v1/models/{action}", get(models).post(gemini))
        .route("/v1beta/models", get(gemini_models))
        .route("/v1beta/models/{action}", get(gemini_models).post(gemini))
        .fallback(unknown_path)
        .method_not_allowed_fallback(unknown_method)
        .with_state(Arc::clone(shared));
    proxy.merge(pages(shared, admin_token, stopping)).layer(middleware::from_fn(named))
}

/// The routes for people and monitors rather than for clients: the status page. What it streams
/// ends when the gateway stops, so that an open page does not hold it up.
fn pages(
    shared: &Arc<Shared>,
    admin_token: Option<AdminToken>,
    stopping: &watch::Receiver<bool>,
) -> Router {
    let settings = Arc::clone(shared);
    let limits = move |id: &AccountId| settings.live().max_in_flight(id);
    let status = Status { pool: Arc::new(shared.pool.clone()), admin_token };
    let apis = [Api::OpenAi, Api::Anthropic, Api::Gemini].map(Api::as_str);
    let options = status::Options::new().limits(limits).selectors(apis);
    let pages = status::router_with(status, options);
    let stopping = stopping.clone();
    pages.layer(middleware::map_response(move |response: Response| {
        let stopping = stopping.clone();
        async move { response.map(|body| until_told(body, stopping)) }
    }))
}

/// A body that ends, at the latest, when the gateway stops.
fn until_told(body: Body, mut stopping: watch::Receiver<bool>) -> Body {
    let told = Box::pin(async move { server::told(&mut stopping).await });
    Body::from_stream(body.into_data_stream().take_until(told))
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
    let message = "there is nothing at this path; served are /v1/chat/completions, /v1/responses, \
                   /v1/messages, /v1/models and \
                   /v1beta/models/{model}:generateContent and :streamGenerateContent";
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

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use axum::body::{Body, Bytes};
    use futures_util::{StreamExt, stream};
    use http_body_util::BodyExt;
    use tokio::sync::watch;

    use super::until_told;

    #[tokio::test]
    async fn an_endless_page_ends_when_the_gateway_stops() {
        let first = stream::once(async { Ok::<_, Infallible>(Bytes::from("first")) });
        let endless = Body::from_stream(first.chain(stream::pending()));
        let stopping = watch::Sender::new(false);
        let mut body = until_told(endless, stopping.subscribe());
        let frame = body.frame().await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), "first");
        stopping.send_replace(true);
        assert!(body.frame().await.is_none());
    }
}
