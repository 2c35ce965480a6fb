//! What an error body says, reduced to the few things that rules look at.
//!
//! Only fixed places are read: error messages quote requests, and what a client wrote must never
//! pass for a code.

use serde_json::{Map, Value};

use super::parse;
use super::response::Response;
use super::usage::events;
use crate::outcome::Reset;
use crate::time::Millis;

/// Longer error bodies are not read.
const MAX_BODY: usize = 64 << 10;
/// So many bytes of a message are looked at.
const MAX_MESSAGE: usize = 2 << 10;
/// So many codes, violations and stream events are looked at.
const MAX_ITEMS: usize = 16;

/// An error body.
#[derive(Default)]
pub(super) struct Answer {
    /// Whether the body is an error.
    pub(super) is_error: bool,
    /// Whether it is a web page: not from the upstream's API.
    pub(super) is_page: bool,
    /// The codes, types, reasons and states it names, in lower case.
    pub(super) codes: Vec<String>,
    /// The status it names.
    pub(super) status: Option<u16>,
    /// Its message in lower case.
    pub(super) message: String,
    /// When the quota is renewed.
    pub(super) renewal: Option<Reset>,
    /// Google's `RetryInfo`.
    pub(super) delay: Option<Millis>,
    /// Google's names of the quotas that were exceeded.
    pub(super) violations: Vec<String>,
}

impl Answer {
    pub(super) fn read(response: &Response<'_>) -> Self {
        let body = response.body.trim_ascii();
        let mut answer = Self::default();
        match body.first() {
            Some(b'<') => answer.is_page = is_page(body),
            Some(b'{' | b'[') if body.len() <= MAX_BODY => {
                if let Ok(value) = serde_json::from_slice::<Value>(body) {
                    answer.document(&value);
                }
            }
            Some(b'{' | b'[') | None => {}
            Some(_) => answer.text(body),
        }
        answer
    }

    pub(super) fn has_code(&self, code: &str) -> bool {
        self.codes.iter().any(|known| known == code)
    }

    /// Server-sent events, of which the first error counts; else plain text.
    fn text(&mut self, body: &[u8]) {
        let head = &body[..body.len().min(MAX_BODY)];
        let mut is_stream = false;
        for event in events(head).take(MAX_ITEMS) {
            is_stream = true;
            if let Ok(value) = serde_json::from_slice::<Value>(event) {
                self.document(&value);
            }
            if self.is_error {
                return;
            }
        }
        if !is_stream {
            self.set_message(&String::from_utf8_lossy(&head[..head.len().min(MAX_MESSAGE)]));
        }
    }

    fn document(&mut self, value: &Value) {
        let value = value.as_array().and_then(|list| list.first()).unwrap_or(value);
        let Some(root) = value.as_object() else {
            return;
        };
        let failed = root.get("response").and_then(|it| it.get("error"));
        let listed = root.get("errors").and_then(|errors| errors.get(0));
        let places = [root.get("error"), failed, root.get("detail"), listed];
        let place = places.into_iter().flatten().find(|it| it.is_object() || it.is_string());
        let says_error = root.get("type").and_then(Value::as_str) == Some("error");
        self.is_error = says_error || root.get("error").is_some_and(|it| !it.is_null());
        self.is_error |= failed.is_some_and(|failed| !failed.is_null());
        self.status = status(root.get("status_code")).or_else(|| status(root.get("status")));
        match place {
            Some(Value::Object(error)) => self.error(error),
            Some(Value::String(error)) => {
                self.add_code(root.get("error").and_then(Value::as_str));
                let described = root.get("error_description").or_else(|| root.get("message"));
                self.set_message(described.and_then(Value::as_str).unwrap_or(error));
            }
            _ => self.error(root),
        }
    }

    fn error(&mut self, error: &Map<String, Value>) {
        let text = |name: &str| error.get(name).and_then(Value::as_str);
        let message = text("message").unwrap_or_default();
        if let Some(inner) = nested(message) {
            return self.document(&inner);
        }
        for name in ["code", "type", "status", "reason"] {
            self.add_code(text(name));
        }
        self.status = self.status.or_else(|| status(error.get("code")));
        self.set_message(message);
        let after =
            error.get("resets_in_seconds").and_then(spelt).and_then(|it| parse::seconds(&it));
        let at = error.get("resets_at").and_then(spelt).and_then(|it| parse::instant(&it));
        self.renewal = at.map(Reset::At).or_else(|| after.map(Reset::After));
        for name in ["errors", "details"] {
            match error.get(name) {
                Some(Value::Array(list)) => {
                    list.iter().take(MAX_ITEMS).for_each(|detail| self.detail(detail));
                }
                Some(detail) => self.detail(detail),
                None => {}
            }
        }
    }

    /// One of Google's error details, or Anthropic's only one.
    fn detail(&mut self, detail: &Value) {
        let text = |name: &str| detail.get(name).and_then(Value::as_str);
        self.add_code(text("reason"));
        self.add_code(text("error_code"));
        self.delay = text("retryDelay").and_then(parse::span).or(self.delay);
        if let Some(metadata) = detail.get("metadata") {
            let text = |name: &str| metadata.get(name).and_then(Value::as_str);
            let at = text("quotaResetTimeStamp").and_then(parse::instant).map(Reset::At);
            let after = text("quotaResetDelay").and_then(parse::span).map(Reset::After);
            self.renewal = at.or(after).or(self.renewal);
            self.violations.extend(text("quota_limit").map(str::to_owned));
        }
        let violations = detail.get("violations").and_then(Value::as_array);
        let ids = violations.into_iter().flatten().take(MAX_ITEMS);
        let ids = ids.filter_map(|violation| violation.get("quotaId").and_then(Value::as_str));
        self.violations.extend(ids.map(str::to_owned));
    }

    fn add_code(&mut self, code: Option<&str>) {
        let is_token = |code: &&str| {
            let letters = code.bytes().all(|it| it.is_ascii_alphanumeric() || b"_-.".contains(&it));
            letters && (1..=64).contains(&code.len())
        };
        let code = code.map(str::trim).filter(is_token);
        if let Some(code) = code
            && self.codes.len() < MAX_ITEMS
        {
            self.codes.push(code.to_ascii_lowercase());
        }
    }

    fn set_message(&mut self, message: &str) {
        let message = message.trim_start();
        let end =
            (0..=message.len().min(MAX_MESSAGE)).rev().find(|&at| message.is_char_boundary(at));
        self.message = message[..end.unwrap_or_default()].to_ascii_lowercase();
    }
}

/// An error that a relay wrapped in another one's message.
fn nested(message: &str) -> Option<Value> {
    let value: Value = serde_json::from_str(message).ok()?;
    let inner = value.as_array().and_then(|list| list.first()).unwrap_or(&value);
    inner.get("error").is_some_and(Value::is_object).then_some(value)
}

fn is_page(body: &[u8]) -> bool {
    let starts = |tag: &[u8]| body.get(..tag.len()).is_some_and(|it| it.eq_ignore_ascii_case(tag));
    [&b"<!doctype"[..], b"<html", b"<head"].into_iter().any(starts)
}

fn status(value: Option<&Value>) -> Option<u16> {
    let status = value?.as_u64().filter(|status| (400..600).contains(status))?;
    u16::try_from(status).ok()
}

/// A number or text as text.
fn spelt(value: &Value) -> Option<String> {
    match value {
        Value::Number(number) => Some(number.to_string()),
        Value::String(text) => Some(text.clone()),
        _ => None,
    }
}
