//! The APIs that clients speak, and what differs between them.

use http::{HeaderMap, Uri};
use serde::Deserialize;

/// An API that clients speak. It is the selector of the accounts that serve it.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq)]
#[serde(rename_all = "lowercase")]
#[expect(clippy::exhaustive_enums, reason = "the gateway serves these three")]
pub enum Api {
    /// `/v1/chat/completions`, `/v1/responses`.
    OpenAi,
    /// `/v1/messages`.
    Anthropic,
    /// `/v1beta/models/{model}:generateContent`, `:streamGenerateContent`, under `/v1` too.
    Gemini,
}

impl Api {
    /// The name, as in the configuration, in selectors and in logs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
        }
    }

    /// Whose list of models `/v1/models` means: clients of all APIs ask there, and only
    /// Anthropic's send a version, only Google's a key in a header of its own.
    pub(crate) fn of_models(headers: &HeaderMap) -> Self {
        if headers.contains_key("anthropic-version") {
            Self::Anthropic
        } else if headers.contains_key("x-goog-api-key") {
            Self::Gemini
        } else {
            Self::OpenAi
        }
    }

    /// The API of a path, to speak of errors in its words.
    pub(crate) fn of_path(uri: &Uri, headers: &HeaderMap) -> Self {
        match uri.path() {
            path if path.starts_with("/v1beta") || path.contains(':') => Self::Gemini,
            path if path.starts_with("/v1/messages") => Self::Anthropic,
            path if path.starts_with("/v1/models") => Self::of_models(headers),
            _ => Self::OpenAi,
        }
    }
}
