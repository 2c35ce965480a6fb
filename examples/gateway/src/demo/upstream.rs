//! An imitation of the providers: accounts with their own keys, limits, moods and prompt caches.

mod account;
mod answer;
mod behaviour;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::response::Response;
use axum::routing::{get, post};
use axum::serve::ListenerExt;
use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use self::account::DemoAccount;
pub use self::behaviour::Behaviour;
use super::cache::tokens;
use super::dice::roll;
use super::speech::{Prompt, Refusal, Reply, Speech};
use crate::api::Api;

/// The models that it offers.
pub const MODELS: [&str; 2] = ["demo-large", "demo-small"];

/// A running imitation. It ends when it is dropped.
#[derive(Debug)]
#[must_use]
pub struct DemoUpstream {
    address: SocketAddr,
    state: Arc<Demo>,
    server: JoinHandle<()>,
}

#[derive(Debug)]
struct Demo {
    behaviour: Behaviour,
    /// By key.
    accounts: Mutex<BTreeMap<String, DemoAccount>>,
    /// How often each question was asked.
    asked: Mutex<BTreeMap<u64, u64>>,
    /// Requests that were throttled, met an overload or a spent quota.
    refused: AtomicUsize,
    /// Whether nothing is left to chance.
    calm: AtomicBool,
}

impl DemoUpstream {
    /// Starts on a free port of this machine.
    ///
    /// # Errors
    ///
    /// What the system says when there is none.
    pub async fn start(behaviour: Behaviour) -> io::Result<Self> {
        let mut accounts = BTreeMap::new();
        for api in [Api::OpenAi, Api::Anthropic, Api::Gemini] {
            for number in 1..=behaviour.accounts {
                let id = account_id(api, number);
                accounts.insert(key(&id), DemoAccount::new(id, behaviour.cache_lifetime));
            }
        }
        let accounts = Mutex::new(accounts);
        let state = Arc::new(Demo {
            behaviour,
            accounts,
            asked: Mutex::default(),
            refused: AtomicUsize::new(0),
            calm: AtomicBool::new(false),
        });
        let app = router().with_state(Arc::clone(&state));
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        // Events go out as they come.
        let listener = listener.tap_io(|stream| {
            if let Err(error) = stream.set_nodelay(true) {
                tracing::debug!(%error, "no nodelay");
            }
        });
        let server = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, app).await {
                tracing::error!(%error, "the demo's upstream ended");
            }
        });
        Ok(Self { address, state, server })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many requests it throttled, or refused for an overload or a spent quota.
    #[must_use]
    pub fn refused(&self) -> usize {
        self.state.refused.load(Ordering::Relaxed)
    }

    /// Whether nothing is left to chance: neither throttles nor overloads befall a question.
    pub fn set_calm(&self, calm: bool) {
        self.state.calm.store(calm, Ordering::Relaxed);
    }

    /// Spends an account's quota.
    pub fn run_dry(&self, id: &str) {
        let mut accounts = self.state.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(account) = accounts.get_mut(&key(id)) {
            account.dry = true;
        }
    }
}

impl Drop for DemoUpstream {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// The id of an account.
#[must_use]
pub fn account_id(api: Api, number: usize) -> String {
    format!("{}-{number}", api.as_str())
}

/// The key of an account. It opens nothing but the demo.
#[must_use]
pub fn key(id: &str) -> String {
    format!("demo-key-of-{id}")
}

fn router() -> Router<Arc<Demo>> {
    let asks = |speech: Speech| {
        post(async move |State(demo): State<Arc<Demo>>, headers: HeaderMap, body: Bytes| {
            ask(&demo, speech, &headers, &body, None, false).await
        })
    };
    Router::new()
        .route("/v1/chat/completions", asks(Speech::Chat))
        .route("/v1/responses", asks(Speech::Responses))
        .route("/v1/messages", asks(Speech::Messages))
        .route("/v1/models", get(models))
        .route("/v1/models/{action}", post(gemini))
        .route("/v1beta/models", get(gemini_models))
        .route("/v1beta/models/{action}", post(gemini))
}

async fn gemini(
    State(demo): State<Arc<Demo>>,
    Path(action): Path<String>,
    Query(query): Query<BTreeMap<String, String>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let (model, method) = action.rsplit_once(':').unwrap_or((action.as_str(), ""));
    let stream = method == "streamGenerateContent";
    // Without `alt=sse` Google streams one JSON array; the imitation sends it whole.
    let in_events = stream && query.get("alt").is_some_and(|alt| alt == "sse");
    ask(&demo, Speech::Gemini, &headers, &body, Some(model), in_events).await
}

async fn models(headers: HeaderMap) -> Response {
    if headers.contains_key("x-goog-api-key") {
        return gemini_models().await;
    }
    let is_anthropic = headers.contains_key("anthropic-version");
    let entry = |id: &&str| {
        if is_anthropic {
            json!({"type": "model", "id": id, "display_name": id, "created_at": "2026-01-01T00:00:00Z"})
        } else {
            json!({"id": id, "object": "model", "created": 1_790_000_000, "owned_by": "demo"})
        }
    };
    let list: Vec<Value> = MODELS.iter().map(entry).collect();
    let (first, last) = (MODELS[0], MODELS[MODELS.len() - 1]);
    answer::json(
        StatusCode::OK,
        &if is_anthropic {
            json!({"data": list, "has_more": false, "first_id": first, "last_id": last})
        } else {
            json!({"object": "list", "data": list})
        },
    )
}

async fn gemini_models() -> Response {
    let list = MODELS.iter().map(|id| json!({"name": format!("models/{id}"), "displayName": id}));
    answer::json(StatusCode::OK, &json!({"models": list.collect::<Vec<_>>()}))
}

/// What a question comes to, with the headers that tell how its account stands.
struct Decided {
    what: Result<(Reply, bool), Refusal>,
    headers: HeaderMap,
}

async fn ask(
    demo: &Demo,
    speech: Speech,
    headers: &HeaderMap,
    body: &[u8],
    model: Option<&str>,
    in_events: bool,
) -> Response {
    let digest = roll(demo.behaviour.seed, &[body]);
    // Distance and queues take their time, whatever the answer.
    demo.pause(Duration::from_millis(10 + digest % 15)).await;
    let body = serde_json::from_slice(body).unwrap_or_default();
    let decided = demo.decide(speech, headers, &body, model, digest);
    let response = match decided.what {
        Err(refusal) => answer::refusal(speech, refusal),
        Ok((reply, streams)) => {
            // What is not in the cache has to be read.
            demo.pause(Duration::from_micros(reply.count.write * 20)).await;
            if streams || in_events {
                answer::stream(speech, &reply, demo.behaviour.latency)
            } else {
                answer::json(StatusCode::OK, &speech.whole(&reply))
            }
        }
    };
    answer::with(response, decided.headers)
}

impl Demo {
    async fn pause(&self, duration: Duration) {
        if self.behaviour.latency {
            tokio::time::sleep(duration).await;
        }
    }

    fn decide(
        &self,
        speech: Speech,
        headers: &HeaderMap,
        body: &Value,
        model: Option<&str>,
        digest: u64,
    ) -> Decided {
        let now = Instant::now();
        let behaviour = &self.behaviour;
        let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        let account = sent_key(speech.api(), headers).and_then(|key| accounts.get_mut(key));
        let Some(account) = account else {
            return Decided { what: Err(Refusal::Key), headers: HeaderMap::new() };
        };
        let prompt = speech.prompt(body);
        let model = model.or_else(|| body.get("model")?.as_str()).unwrap_or_default();
        let what = match prompt {
            None => Err(Refusal::Invalid),
            Some(_) if !MODELS.contains(&model) => Err(Refusal::Model),
            Some(prompt) => match account.admit(behaviour, now).or_else(|| self.mood(digest)) {
                Some(refusal) => Err(refusal),
                None => Ok((reply(account, &prompt, model, digest, now), prompt.stream)),
            },
        };
        if matches!(what, Err(Refusal::Throttled(_) | Refusal::Dry(_) | Refusal::Overloaded)) {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        let headers = account.headers(speech.api(), behaviour, now);
        Decided { what, headers }
    }

    /// Some questions are throttled, some meet an overload, when they are first asked.
    fn mood(&self, digest: u64) -> Option<Refusal> {
        if self.behaviour.throttle_percent + self.behaviour.overload_percent == 0 {
            return None;
        }
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let times = asked.entry(digest).or_default();
        *times += 1;
        if *times > 1 || self.calm.load(Ordering::Relaxed) {
            return None;
        }
        match digest / 16 % 100 {
            chance if chance < self.behaviour.throttle_percent => {
                Some(Refusal::Throttled(self.behaviour.throttle_secs))
            }
            chance if chance >= 100 - self.behaviour.overload_percent.min(100) => {
                Some(Refusal::Overloaded)
            }
            _ => None,
        }
    }
}

fn reply(
    account: &mut DemoAccount,
    prompt: &Prompt,
    model: &str,
    digest: u64,
    now: Instant,
) -> Reply {
    let mut count = account.cache.read(&prompt.parts, now);
    let text = answer::text(digest);
    count.output = tokens(&text);
    let id = format!("{digest:016x}");
    Reply { id, model: model.to_owned(), text, tool: prompt.tool.clone(), count }
}

fn sent_key(api: Api, headers: &HeaderMap) -> Option<&str> {
    let text = |name: &str| headers.get(name)?.to_str().ok();
    match api {
        Api::OpenAi => text("authorization")?.strip_prefix("Bearer "),
        Api::Anthropic => text("x-api-key"),
        Api::Gemini => text("x-goog-api-key"),
    }
}
