//! One question to one upstream, up to the first byte of its answer's body.

use account_pool::http::{
    BodyReader, Cause, Classifier, Response as Answer, Verdict, quota_reading,
};
use account_pool::{Clock, Lease, Outcome};
use axum::body::Body;
use axum::response::Response;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use tokio::time::{Instant, timeout_at};

use super::Means;
use crate::fault::Fault;
use crate::headers;
use crate::intake::Asked;
use crate::relay::Relay;
use crate::upstream::Upstream;

/// An error answer larger than this is not passed on.
const MAX_ERROR_BODY: usize = 1 << 20;

/// An attempt that failed before the client saw anything of it. Its lease is settled.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) cause: Cause,
    pub(super) outcome: Outcome,
    pub(super) rule: &'static str,
    answer: Result<Response, Fault>,
}

impl Failure {
    fn of(verdict: &Verdict<'static>, answer: Result<Response, Fault>) -> Self {
        let Verdict { outcome, cause, rule, .. } = *verdict;
        Self { cause, outcome, rule, answer }
    }

    /// What the client gets if no other attempt follows.
    pub(super) fn answer(self) -> Result<Response, Fault> {
        self.answer
    }
}

/// How an upstream failed without an answer that could be judged.
struct Broken {
    outcome: Outcome,
    cause: Cause,
    rule: &'static str,
    fault: Fault,
}

impl Broken {
    fn network(rule: &'static str, message: &str) -> Self {
        let fault = Fault::bad_gateway(message);
        Self { outcome: Outcome::Network, cause: Cause::Path, rule, fault }
    }

    fn late() -> Self {
        let fault = Fault::timeout("the upstream did not answer in time");
        Self { outcome: Outcome::Timeout, cause: Cause::Timeout, rule: "late", fault }
    }
}

/// Asks the upstream of the leased account.
pub(super) async fn ask(
    means: Means<'_>,
    asked: &Asked,
    lease: Lease<Upstream>,
) -> Result<Response, Failure> {
    let deadline = Instant::now() + means.live.settings.upstream.first_byte();
    let (parts, body) = match send(means, asked, lease.payload(), deadline).await {
        Ok(answer) => answer.into_parts(),
        Err(broken) => return Err(broken.end(lease)),
    };
    let now = means.pool.clock().now();
    if let Some(reading) = quota_reading(&parts.headers, now) {
        // The account may have been removed meanwhile; then nobody cares.
        drop(means.pool.observe_quota(lease.account().as_str(), &reading));
    }
    if parts.status.is_success() {
        serve(means, lease, parts.status, &parts.headers, body, deadline).await
    } else {
        Err(refuse(means, lease, parts.status, &parts.headers, body, deadline).await)
    }
}

async fn send(
    means: Means<'_>,
    asked: &Asked,
    upstream: &Upstream,
    deadline: Instant,
) -> Result<http::Response<Incoming>, Broken> {
    let uri = upstream.base.join(&asked.target);
    let request = uri.and_then(|uri| request(asked, upstream, uri));
    let request =
        request.map_err(|_| Broken::network("url", "the URL does not fit the upstream"))?;
    match timeout_at(deadline, means.dialer.request(request)).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) if error.is_connect() => {
            Err(Broken::network("connect", "cannot connect to the upstream"))
        }
        // The error's text may quote what the upstream sent, so it stays out of the answer.
        Ok(Err(error)) => {
            tracing::debug!(%error, "no answer");
            Err(Broken::network("broken", "the upstream broke off or did not speak HTTP"))
        }
        Err(_) => Err(Broken::late()),
    }
}

fn request(
    asked: &Asked,
    upstream: &Upstream,
    uri: Uri,
) -> Result<Request<Full<Bytes>>, http::Error> {
    let mut request = Request::builder().method(asked.method.clone()).uri(uri);
    if let Some(headers) = request.headers_mut() {
        *headers = asked.headers.clone();
        headers.insert(upstream.auth.clone(), upstream.credential.header());
    }
    request.body(Full::new(asked.body.clone()))
}

/// A success, once its body has begun with something sensible.
async fn serve(
    means: Means<'_>,
    lease: Lease<Upstream>,
    status: StatusCode,
    answered: &HeaderMap,
    mut body: Incoming,
    deadline: Instant,
) -> Result<Response, Failure> {
    let first = match first_chunk(&mut body, deadline).await {
        Ok(first) => first,
        Err(broken) => return Err(broken.end(lease)),
    };
    let mut reader = BodyReader::new();
    reader.push(&first);
    let classifier = Classifier::new(lease.payload().provider);
    let verdict = reader.classify(&classifier, status, answered, means.pool.clock().now());
    if verdict.cause != Cause::Served {
        let answer = verdict_answer(verdict.cause, StatusCode::BAD_GATEWAY, answered, first);
        lease.settle(verdict.outcome);
        return Err(Failure::of(&verdict, answer));
    }
    if !is_sensible(answered, &first) {
        let message = "the upstream answered something that is not of its API";
        return Err(Broken::network("garbage", message).end(lease));
    }
    let idle = means.live.settings.upstream.idle();
    let clock = means.pool.clock().clone();
    let relay = Relay::new(lease, clock, status, answered.clone(), first, body, reader, idle);
    let mut response = Response::new(Body::new(relay));
    *response.status_mut() = status;
    *response.headers_mut() = headers::for_client(answered);
    Ok(response)
}

async fn first_chunk(body: &mut Incoming, deadline: Instant) -> Result<Bytes, Broken> {
    loop {
        match timeout_at(deadline, body.frame()).await {
            Ok(Some(Ok(frame))) => match frame.into_data() {
                Ok(data) if !data.is_empty() => return Ok(data),
                _ => {}
            },
            Ok(Some(Err(_))) => {
                return Err(Broken::network("broken", "the upstream broke off its answer"));
            }
            Ok(None) => return Ok(Bytes::new()),
            Err(_) => return Err(Broken::late()),
        }
    }
}

/// Whether a body begins as its API's do: with JSON, unless it is a stream of events.
fn is_sensible(answered: &HeaderMap, first: &[u8]) -> bool {
    let kind = answered.get(header::CONTENT_TYPE).and_then(|it| it.to_str().ok());
    if kind.is_some_and(|kind| kind.trim_start().starts_with("text/event-stream")) {
        return !first.is_empty();
    }
    matches!(first.trim_ascii_start().first(), Some(b'{' | b'['))
}

/// A refusal: judged by its status, headers and body.
async fn refuse(
    means: Means<'_>,
    lease: Lease<Upstream>,
    status: StatusCode,
    answered: &HeaderMap,
    body: Incoming,
    deadline: Instant,
) -> Failure {
    let body = whole(body, deadline).await.unwrap_or_default();
    let classifier = Classifier::new(lease.payload().provider);
    let answer = Answer::new(status, answered).body(&body);
    let verdict = classifier.classify(&answer, means.pool.clock().now());
    lease.settle(verdict.outcome);
    let answer = verdict_answer(verdict.cause, status, answered, body);
    Failure::of(&verdict, answer)
}

/// The whole of an error's body; `None` when it breaks off, stalls or is too large to be one.
async fn whole(mut body: Incoming, deadline: Instant) -> Option<Bytes> {
    let mut whole = BytesMut::new();
    while let Some(frame) = timeout_at(deadline, body.frame()).await.ok()? {
        if let Ok(data) = frame.ok()?.into_data() {
            if whole.len() + data.len() > MAX_ERROR_BODY {
                return None;
            }
            whole.extend_from_slice(&data);
        }
    }
    Some(whole.freeze())
}

/// What a client may see of an upstream's refusal. What concerns the gateway's accounts does not
/// concern the client: their credentials are not its own.
fn verdict_answer(
    cause: Cause,
    status: StatusCode,
    answered: &HeaderMap,
    body: Bytes,
) -> Result<Response, Fault> {
    match cause {
        Cause::Auth | Cause::Revoked | Cause::Ban | Cause::Quota(_) => {
            Err(Fault::unavailable("no account of this gateway can serve the request now"))
        }
        Cause::Path if status.is_redirection() => {
            Err(Fault::bad_gateway("the upstream redirects: its base URL is not right"))
        }
        Cause::Path => Err(Fault::bad_gateway("something on the way to the upstream answered")),
        _ if body.is_empty() => Err(Fault::bad_gateway("the upstream failed without saying why")),
        _ => {
            let mut response = Response::new(Body::from(body));
            *response.status_mut() = status;
            *response.headers_mut() = headers::for_client(answered);
            response.headers_mut().remove(header::CONTENT_LENGTH);
            Ok(response)
        }
    }
}

impl Broken {
    fn end(self, lease: Lease<Upstream>) -> Failure {
        lease.settle(self.outcome);
        let Self { outcome, cause, rule, fault } = self;
        Failure { cause, outcome, rule, answer: Err(fault) }
    }
}
