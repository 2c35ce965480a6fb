//! Answers as HTTP.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::response::Response;
use futures_util::stream;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde_json::Value;

use crate::api::Api;
use crate::demo::speech::{Refusal, Reply, Speech};

/// The pause between two events of a stream.
const PAUSE: Duration = Duration::from_millis(2);

pub(super) fn json(status: StatusCode, value: &Value) -> Response {
    let mut response = Response::new(Body::from(value.to_string()));
    *response.status_mut() = status;
    typed(response, "application/json")
}

pub(super) fn refusal(speech: Speech, refusal: Refusal) -> Response {
    let (status, body) = speech.refuse(refusal);
    let mut response = json(status, &body);
    // Google tells it in the body.
    if let Refusal::Throttled(seconds) | Refusal::Dry(seconds) = refusal
        && speech.api() != Api::Gemini
    {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

pub(super) fn stream(speech: Speech, reply: &Reply, pauses: bool) -> Response {
    let events = stream::unfold(speech.events(reply).into_iter(), move |mut rest| async move {
        let event = rest.next()?;
        if pauses {
            tokio::time::sleep(PAUSE).await;
        }
        Some((Ok::<_, Infallible>(Bytes::from(event)), rest))
    });
    typed(Response::new(Body::from_stream(events)), "text/event-stream")
}

pub(super) fn with(mut response: Response, headers: HeaderMap) -> Response {
    response.headers_mut().extend(headers);
    response
}

fn typed(mut response: Response, kind: &'static str) -> Response {
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// What a model has to say.
pub(super) fn text(digest: u64) -> String {
    const WORDS: [&str; 16] = [
        "the",
        "pool",
        "keeps",
        "a",
        "conversation",
        "where",
        "its",
        "prompt",
        "cache",
        "is",
        "warm",
        "and",
        "moves",
        "it",
        "only",
        "when",
    ];
    let length = 24 + digest % 24;
    let word = |at: u64| {
        let index = (digest.rotate_left(u32::try_from(at % 64).unwrap_or_default()) % 16) as usize;
        WORDS[index]
    };
    let words: Vec<&str> = (0..length).map(word).collect();
    words.join(" ")
}
