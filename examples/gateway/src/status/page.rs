//! The page: one document with its style and script inside, which load nothing and are the only
//! ones that the browser may run.

use std::sync::LazyLock;

use axum::http::header;
use axum::response::{Html, IntoResponse};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

const DOCUMENT: &str = include_str!("page/index.html");
const STYLE: &str = include_str!("page/style.css");
/// One script in parts, the later ones on the earlier ones.
const SCRIPT: &str = concat!(
    include_str!("page/pool.js"),
    include_str!("page/words.js"),
    include_str!("page/accounts.js"),
    include_str!("page/panels.js"),
    include_str!("page/explain.js"),
    include_str!("page/admin.js"),
    include_str!("page/feed.js"),
);

/// The document with its parts in their places.
static PAGE: LazyLock<String> =
    LazyLock::new(|| DOCUMENT.replace("/* style.css */", STYLE).replace("/* script.js */", SCRIPT));

/// Allows that style and that script, by their digests, and talking to this origin.
static POLICY: LazyLock<String> = LazyLock::new(|| {
    let digest = |part: &str| format!("'sha256-{}'", STANDARD.encode(Sha256::digest(part)));
    let (style, script) = (digest(STYLE), digest(SCRIPT));
    format!(
        "default-src 'none'; script-src {script}; style-src {style}; connect-src 'self'; \
         img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
});

/// `GET /`.
pub(super) async fn page() -> impl IntoResponse {
    let headers = [
        (header::CONTENT_SECURITY_POLICY, POLICY.as_str()),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-cache"),
    ];
    (headers, Html(PAGE.as_str()))
}
