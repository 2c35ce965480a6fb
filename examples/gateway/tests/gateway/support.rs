//! A gateway, scripted upstreams, a client, and the log of all of them.

mod log;
mod upstream;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use account_pool_gateway::config::{AccountConfig, ProviderName, Settings};
use account_pool_gateway::{Gateway, GatewayPool};
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;

pub(crate) use self::log::{lines, lines_of};
pub(crate) use self::upstream::{Call, Upstream};

/// The longest that a test waits for something that must happen.
pub(crate) const SOON: Duration = Duration::from_secs(10);

/// What an upstream says that serves.
pub(crate) const SERVED: &str =
    r#"{"id":"x","choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2}}"#;

pub(crate) const CHAT: &str = "/v1/chat/completions";
pub(crate) const QUESTION: &str = r#"{"model": "m", "messages": []}"#;

/// Settings with short patience and an account per upstream: `a`, `b`, and so on, used in that
/// order.
pub(crate) fn settings(provider: ProviderName, upstreams: &[&Upstream]) -> Settings {
    log::start();
    let mut settings = Settings::default();
    settings.server.listen = ([127, 0, 0, 1], 0).into();
    settings.server.shutdown_timeout_ms = 10_000;
    settings.upstream.connect_timeout_ms = 2_000;
    settings.upstream.first_byte_timeout_ms = 5_000;
    settings.upstream.idle_timeout_ms = 5_000;
    settings.routing.max_wait_ms = 300;
    for (index, upstream) in upstreams.iter().enumerate() {
        let tier = u8::try_from(index).unwrap();
        settings.accounts.push(account(provider, upstream, tier));
    }
    settings
}

pub(crate) fn account(provider: ProviderName, upstream: &Upstream, tier: u8) -> AccountConfig {
    let id = char::from(b'a' + tier).to_string();
    let url = format!("http://{}", upstream.address());
    let mut account = AccountConfig::new(&id, provider, &url, &format!("KEY_{id}"));
    account.tier = tier;
    account
}

/// The value of a variable in tests: its name, spelt so that it stands out.
pub(crate) fn value_of(variable: &str) -> String {
    format!("sentinel-{variable}-lenitnes")
}

pub(crate) async fn start(settings: Settings) -> Gateway {
    log::start();
    Gateway::start(settings, Arc::new(|name: &str| Some(value_of(name)))).await.unwrap()
}

/// A gateway whose accounts are OpenAI's.
pub(crate) async fn openai(upstreams: &[&Upstream]) -> Gateway {
    start(settings(ProviderName::OpenAi, upstreams)).await
}

/// Waits until no lease is held.
pub(crate) async fn idle(pool: &GatewayPool) {
    until(|| pool.in_flight() == 0).await;
}

/// Waits until something holds, and fails if it does not come to.
pub(crate) async fn until(holds: impl Fn() -> bool) {
    let wait = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(SOON, wait).await.expect("it does not come to hold");
}

/// An answer, read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) id: String,
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("the answer is JSON")
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The message of an error, in whichever shape.
    pub(crate) fn message(&self) -> String {
        self.json()["error"]["message"].as_str().expect("an error has a message").to_owned()
    }

    /// Whether the log of this request holds a text.
    pub(crate) fn logged(&self, text: &str) -> bool {
        lines_of(&self.id).iter().any(|line| line.contains(text))
    }
}

pub(crate) type Response = http::Response<Incoming>;

/// Sends a request as it is, with an id of its own, and returns as soon as the headers are there.
pub(crate) async fn send(
    gateway: &Gateway,
    mut request: Request<Full<Bytes>>,
) -> (String, Response) {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let id = format!("test-{}-end", COUNT.fetch_add(1, Ordering::Relaxed));
    let path = request.uri().path_and_query().unwrap().clone();
    *request.uri_mut() = format!("http://{}{path}", gateway.address()).parse().unwrap();
    request.headers_mut().insert("x-request-id", id.parse().unwrap());
    let client: Client<HttpConnector, _> = Client::builder(TokioExecutor::new()).build_http();
    let response = tokio::time::timeout(SOON, client.request(request)).await;
    (id, response.expect("an answer in time").expect("an answer"))
}

pub(crate) async fn read((id, response): (String, Response)) -> Answer {
    let (parts, body) = response.into_parts();
    let body = tokio::time::timeout(SOON, body.collect()).await.expect("a body in time");
    let body = body.expect("a whole body").to_bytes();
    Answer { id, status: parts.status, headers: parts.headers, body }
}

pub(crate) fn request(path: &str, headers: &[(&str, &str)], body: &str) -> Request<Full<Bytes>> {
    let mut request = Request::post(path).header("content-type", "application/json");
    for (name, value) in headers {
        request
            .headers_mut()
            .unwrap()
            .insert(name.parse::<http::HeaderName>().unwrap(), value.parse().unwrap());
    }
    request.body(Full::new(Bytes::from(body.to_owned()))).unwrap()
}

pub(crate) async fn post(
    gateway: &Gateway,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Answer {
    read(send(gateway, request(path, headers, body)).await).await
}

/// Asks the usual question.
pub(crate) async fn ask(gateway: &Gateway) -> Answer {
    post(gateway, CHAT, &[], QUESTION).await
}
