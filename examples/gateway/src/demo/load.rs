//! Conversations with a gateway, as clients would hold them.

use std::net::SocketAddr;
use std::time::Duration;

use account_pool::http::usage;
use bytes::Bytes;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};

use super::dice::roll;
use super::upstream::MODELS;
use crate::api::Api;

/// What one turn of a conversation came to.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Turn {
    /// The conversation.
    pub conversation: usize,
    /// From 1 on.
    pub round: usize,
    /// The answer's status; none when there was no whole answer.
    pub status: Option<StatusCode>,
    /// Prompt tokens that the provider had to read anew.
    pub write: u64,
    /// Prompt tokens that came from its cache.
    pub read: u64,
    /// The account that served.
    pub account: String,
}

impl Turn {
    /// Whether the client got its answer.
    #[must_use]
    pub fn is_served(&self) -> bool {
        self.status == Some(StatusCode::OK)
    }
}

/// A client with its own key and one conversation.
#[derive(Debug)]
pub struct Conversation {
    client: Client<HttpConnector, Full<Bytes>>,
    gateway: SocketAddr,
    number: usize,
    api: Api,
    seed: u64,
    /// What was said: the client's words and the model's in turn.
    said: Vec<String>,
}

impl Conversation {
    /// A conversation that has not begun. Every third one speaks the same API.
    #[must_use]
    pub fn new(gateway: SocketAddr, number: usize, seed: u64) -> Self {
        let api = [Api::Anthropic, Api::OpenAi, Api::Gemini][number % 3];
        let client = Client::builder(TokioExecutor::new()).build_http();
        Self { client, gateway, number, api, seed, said: Vec::new() }
    }

    /// Says something and hears the answer.
    pub async fn turn(&mut self) -> Turn {
        let round = self.said.len() / 2 + 1;
        self.said.push(self.question(round));
        let (status, account, used) = match self.ask(round).await {
            Some((status, account, body)) => (Some(status), account, usage(&body)),
            None => (None, String::new(), None),
        };
        // What exactly was answered does not matter here, only that it is said again next time.
        self.said.push(format!("That was answer {round} of conversation {}.", self.number));
        let used = used.unwrap_or_default();
        let (write, read) = (used.input + used.cache_write, used.cache_read);
        Turn { conversation: self.number, round, status, write, read, account }
    }

    async fn ask(&self, round: usize) -> Option<(StatusCode, String, Bytes)> {
        let streams = (self.number + round).is_multiple_of(2);
        let (path, body) = match self.api {
            Api::Anthropic => ("/v1/messages".to_owned(), self.message(streams)),
            Api::OpenAi => ("/v1/chat/completions".to_owned(), self.completion(streams)),
            Api::Gemini => {
                let method =
                    if streams { "streamGenerateContent?alt=sse" } else { "generateContent" };
                (format!("/v1beta/models/{}:{method}", MODELS[0]), self.content())
            }
        };
        let request = Request::post(format!("http://{}{path}", self.gateway))
            .header(header::CONTENT_TYPE, "application/json")
            .header("anthropic-version", "2023-06-01")
            .header("x-session-id", format!("conversation-{}", self.number))
            .header(header::AUTHORIZATION, "Bearer one-key-for-all")
            .body(Full::new(Bytes::from(body.to_string())))
            .ok()?;
        let response = self.client.request(request).await.ok()?;
        let (parts, body) = response.into_parts();
        let body = body.collect().await.ok()?.to_bytes();
        let account = parts.headers.get("x-demo-account").and_then(|it| it.to_str().ok());
        Some((parts.status, account.unwrap_or_default().to_owned(), body))
    }

    fn message(&self, streams: bool) -> Value {
        json!({
            "model": MODELS[0], "max_tokens": 256, "stream": streams,
            "system": self.briefing(), "messages": self.messages("assistant"),
        })
    }

    fn completion(&self, streams: bool) -> Value {
        let mut messages = vec![json!({"role": "system", "content": self.briefing()})];
        messages.extend(self.messages("assistant"));
        json!({
            "model": MODELS[0], "stream": streams, "stream_options": {"include_usage": true},
            "messages": messages,
        })
    }

    fn content(&self) -> Value {
        let contents = self.said.iter().enumerate().map(|(at, text)| {
            let role = if at % 2 == 0 { "user" } else { "model" };
            json!({"role": role, "parts": [{"text": text}]})
        });
        json!({
            "systemInstruction": {"parts": [{"text": self.briefing()}]},
            "contents": contents.collect::<Vec<_>>(),
        })
    }

    fn messages(&self, model: &str) -> Vec<Value> {
        let message = |(at, text): (usize, &String)| json!({"role": if at % 2 == 0 { "user" } else { model }, "content": text});
        self.said.iter().enumerate().map(message).collect()
    }

    /// A long text that comes first in every prompt, as tools and instructions do.
    fn briefing(&self) -> String {
        let kind = roll(self.seed, &[b"briefing", &self.number.to_be_bytes()]);
        format!("You are assistant {kind:016x}. ").repeat(160)
    }

    fn question(&self, round: usize) -> String {
        let topic = roll(self.seed, &[&self.number.to_be_bytes(), &round.to_be_bytes()]);
        format!("Tell me more about topic {topic:016x}, please. ").repeat(12)
    }

    /// How long the client thinks before it goes on.
    #[must_use]
    pub fn pause(&self) -> Duration {
        let chance = roll(self.seed, &[&self.number.to_be_bytes(), &self.said.len().to_be_bytes()]);
        Duration::from_millis(100 + chance % 200)
    }
}
