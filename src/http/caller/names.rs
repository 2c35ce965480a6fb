//! The user and the session that a request names.

use ::http::HeaderMap;
use serde::Deserialize;

use crate::http::json::{Object, Scalar};
use crate::http::response::text;

/// Longer bodies are not read.
const MAX_BODY: usize = 32 << 20;

const SESSION_HEADERS: [&str; 11] = [
    "x-claude-code-session-id",
    "session-id",
    "session_id",
    "x-session-id",
    "conversation-id",
    "conversation_id",
    "x-conversation-id",
    "x-session-affinity",
    "x-amp-thread-id",
    "x-opencode-session",
    "x-litellm-session-id",
];

/// Names that clients send for want of one.
const PLACEHOLDERS: [&str; 6] = ["null", "undefined", "none", "anonymous", "unknown", "default"];

#[derive(Default)]
pub(super) struct Names {
    pub(super) user: Option<String>,
    pub(super) session: Option<String>,
}

impl Names {
    pub(super) fn read(headers: &HeaderMap, body: &[u8]) -> Self {
        let sent = SESSION_HEADERS.iter().find_map(|name| meaningful(text(headers, name)?));
        let named = Body::read(body).map(Body::names).unwrap_or_default();
        Self { user: named.user, session: sent.or(named.session) }
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Body {
    safety_identifier: Scalar,
    user: Scalar,
    metadata: Object<Metadata>,
    conversation: Scalar,
    conversation_id: Scalar,
    session_id: Scalar,
    #[serde(rename = "sessionId")]
    session_id_camel: Scalar,
    thread_id: Scalar,
    prompt_cache_key: Scalar,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Metadata {
    user_id: Scalar,
    session_id: Scalar,
}

impl Body {
    fn read(body: &[u8]) -> Option<Self> {
        if body.len() > MAX_BODY {
            return None;
        }
        serde_json::from_slice::<Object<Self>>(body).ok()?.0
    }

    fn names(self) -> Names {
        let metadata = self.metadata.0.unwrap_or_default();
        let users = [&self.safety_identifier, &self.user, &metadata.user_id];
        let sessions = [
            &self.conversation,
            &self.conversation_id,
            &self.session_id,
            &self.session_id_camel,
            &self.thread_id,
            &metadata.session_id,
            &self.prompt_cache_key,
        ];
        let first = |names: &[&Scalar]| names.iter().find_map(|it| meaningful(&it.name()?));
        Names { user: first(&users), session: first(&sessions) }
    }
}

/// A name without the blanks around it, unless it is none.
fn meaningful(name: &str) -> Option<String> {
    let name = name.trim();
    let is_placeholder = PLACEHOLDERS.iter().any(|none| name.eq_ignore_ascii_case(none));
    (!name.is_empty() && !is_placeholder).then(|| name.to_owned())
}
