//! An upstream's answer, as far as it is looked at.

use std::fmt;

use ::http::{HeaderMap, StatusCode};

/// The kind of upstream, which decides what its words mean.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Provider {
    /// OpenAI, Azure OpenAI and Codex subscriptions: limits are per model.
    OpenAi,
    /// Anthropic API keys and Claude subscriptions: minute limits are per model, the five-hour and
    /// seven-day windows are the account's.
    Anthropic,
    /// The Gemini API, Vertex AI and Gemini Code Assist: quotas are per model.
    Google,
    /// Any other; limits are the account's.
    #[default]
    Generic,
}

/// A view of an upstream's answer.
///
/// The body may be the whole of it or its beginning. An error body is looked at if it is complete
/// and of at most 64 KiB; one that is cut off is judged by its status and headers alone.
/// Of a stream that breaks off with an error event, give that event as the body.
///
/// `Debug` shows neither header values nor the body, since they may hold secrets.
///
/// ```
/// use account_pool::http::Response;
/// use http::{HeaderMap, StatusCode};
///
/// let headers = HeaderMap::new();
/// let response = Response::new(StatusCode::OK, &headers).body(b"{}");
///
/// let whole = http::Response::builder().status(503).body("overloaded").unwrap();
/// let same = Response::from(&whole);
/// # let _ = (response, same);
/// ```
#[derive(Clone, Copy)]
#[must_use]
pub struct Response<'a> {
    pub(super) status: StatusCode,
    pub(super) headers: &'a HeaderMap,
    pub(super) body: &'a [u8],
}

impl<'a> Response<'a> {
    /// An answer without a body.
    pub fn new(status: StatusCode, headers: &'a HeaderMap) -> Self {
        Self { status, headers, body: &[] }
    }

    /// Sets the body: JSON, or server-sent events.
    pub fn body(mut self, body: &'a [u8]) -> Self {
        self.body = body;
        self
    }
}

impl<'a, B: AsRef<[u8]>> From<&'a ::http::Response<B>> for Response<'a> {
    fn from(response: &'a ::http::Response<B>) -> Self {
        Self::new(response.status(), response.headers()).body(response.body().as_ref())
    }
}

impl fmt::Debug for Response<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Response")
            .field("status", &self.status.as_u16())
            .field("headers", &self.headers.len())
            .field("body_bytes", &self.body.len())
            .finish()
    }
}

/// The text of a header, if it is visible ASCII and not empty.
pub(super) fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let text = headers.get(name)?.to_str().ok()?.trim();
    (!text.is_empty()).then_some(text)
}
