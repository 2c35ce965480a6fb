//! Bodies that stream by.

use std::fmt;

use ::http::{HeaderMap, StatusCode};
use serde::Deserialize;

use super::answer::Answer;
use super::cause::Verdict;
use super::classifier::Classifier;
use super::json::{Object, Scalar};
use super::response::Response;
use super::usage::{MAX_BODY, holds, larger, usage};
use crate::outcome::{Outcome, Usage};
use crate::time::Timestamp;

/// Longer events are passed over.
const MAX_EVENT: usize = 1 << 20;

/// Reads a successful answer's body chunk by chunk while the host passes it on: what it used,
/// whether it reports an error half-way, whether a stream has said its last word.
///
/// Of server-sent events it keeps one unfinished line of at most 1 MiB; longer lines are passed
/// over. Any other body is kept up to 8 MiB, to be read as one document at the end; a longer one
/// says nothing. Work is linear in the body. `Debug` shows no content.
///
/// ```
/// use account_pool::http::{BodyReader, Classifier, Provider};
/// use account_pool::{Outcome, Timestamp};
/// use http::{HeaderMap, StatusCode};
///
/// let mut body = BodyReader::new();
/// body.push(b"data: {\"choices\": [], \"usage\": {\"prompt_tok");
/// body.push(b"ens\": 9}}\n\ndata: [DONE]\n\n");
/// assert!(body.is_complete());
///
/// let classifier = Classifier::new(Provider::OpenAi);
/// let verdict = body.classify(&classifier, StatusCode::OK, &HeaderMap::new(), Timestamp::ZERO);
/// assert!(matches!(verdict.outcome, Outcome::Success { usage } if usage.input == 9));
/// ```
#[derive(Default)]
#[must_use]
pub struct BodyReader {
    form: Form,
    /// The whole of a document, or the unfinished line of a stream.
    kept: Vec<u8>,
    /// Whether the rest of the document, or of the line, is passed over.
    overlong: bool,
    used: Option<Usage>,
    failure: Option<Vec<u8>>,
    complete: bool,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Form {
    /// Nothing but blanks so far.
    #[default]
    Unknown,
    Document,
    Events,
}

impl BodyReader {
    /// A body of which nothing has come yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next chunk, cut anywhere.
    pub fn push(&mut self, chunk: &[u8]) {
        let chunk = if self.form == Form::Unknown { chunk.trim_ascii_start() } else { chunk };
        self.form = match (self.form, chunk.first()) {
            (Form::Unknown, Some(b'{' | b'[' | b'<')) => Form::Document,
            (Form::Unknown, Some(_)) => Form::Events,
            (form, _) => form,
        };
        match self.form {
            Form::Unknown => {}
            Form::Document => self.keep(chunk, MAX_BODY),
            Form::Events => self.lines(chunk),
        }
    }

    /// What the body says it used, as far as it has come: the largest number of each kind.
    #[must_use]
    pub fn usage(&self) -> Option<Usage> {
        match self.form {
            Form::Document if !self.overlong => usage(&self.kept),
            _ => self.used,
        }
    }

    /// Whether a stream has sent the event that ends it (`[DONE]`, `message_stop`,
    /// `response.completed` and the like, a candidate's `finishReason`). A client that leaves
    /// after it has had its whole answer. Always `false` for documents.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Whether a stream has reported an error.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// What the answer comes to when its body ends here: a reported error counts as the answer, a
    /// stream without one was served with what it used.
    #[must_use]
    pub fn classify<'a>(
        &self,
        classifier: &Classifier<'a>,
        status: StatusCode,
        headers: &HeaderMap,
        now: Timestamp,
    ) -> Verdict<'a> {
        let response = Response::new(status, headers);
        let body = match (&self.failure, self.form) {
            (Some(failure), _) => failure.as_slice(),
            (None, Form::Document) if !self.overlong => self.kept.as_slice(),
            (None, _) => &[],
        };
        let mut verdict = classifier.classify(&response.body(body), now);
        if let (Outcome::Success { usage }, Some(used)) = (&mut verdict.outcome, self.usage()) {
            *usage = used;
        }
        verdict
    }

    fn lines(&mut self, chunk: &[u8]) {
        let mut rest = chunk;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            self.keep(&rest[..end], MAX_EVENT);
            rest = &rest[end + 1..];
            let mut line = std::mem::take(&mut self.kept);
            if !self.overlong
                && let Some(event) = line.strip_prefix(b"data:")
            {
                self.event(event.trim_ascii());
            }
            self.overlong = false;
            line.clear();
            self.kept = line;
        }
        self.keep(rest, MAX_EVENT);
    }

    fn keep(&mut self, part: &[u8], most: usize) {
        self.overlong |= self.kept.len() + part.len() > most;
        if self.overlong {
            self.kept = Vec::new();
        } else {
            self.kept.extend_from_slice(part);
        }
    }

    fn event(&mut self, event: &[u8]) {
        if holds(event, b"sage")
            && let Some(report) = usage(event)
        {
            self.used = Some(self.used.map_or(report, |used| larger(used, report)));
        }
        if self.failure.is_none() && holds(event, b"\"error\"") {
            let headers = HeaderMap::new();
            let response = Response::new(StatusCode::OK, &headers).body(event);
            if Answer::read(&response).is_error {
                self.failure = Some(event.to_vec());
            }
        }
        self.complete |= is_last(event);
    }
}

impl fmt::Debug for BodyReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BodyReader")
            .field("form", &self.form)
            .field("kept_bytes", &self.kept.len())
            .field("usage", &self.used)
            .field("failed", &self.failure.is_some())
            .field("complete", &self.complete)
            .finish()
    }
}

/// The parts of an event that tell the last one.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Mark {
    r#type: Scalar,
    candidates: Vec<Object<Candidate>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Candidate {
    finish_reason: Scalar,
}

/// The event types that end a stream.
const LAST: [&str; 4] =
    ["message_stop", "response.completed", "response.incomplete", "response.failed"];

fn is_last(event: &[u8]) -> bool {
    if event == b"[DONE]" {
        return true;
    }
    let maybe = LAST.iter().any(|kind| holds(event, kind.as_bytes()));
    if !maybe && !holds(event, b"finishReason") {
        return false;
    }
    let Ok(mark) = serde_json::from_slice::<Mark>(event) else {
        return false;
    };
    let finished = |it: &Object<Candidate>| {
        it.0.as_ref().is_some_and(|candidate| candidate.finish_reason.name().is_some())
    };
    mark.r#type.name().is_some_and(|kind| LAST.contains(&&*kind))
        || mark.candidates.iter().any(finished)
}
