//! Who a client's request belongs to.

mod names;

use std::fmt;

use ::http::HeaderMap;

use self::names::Names;
use super::response::text;
use crate::request::{Affinity, Caller, Request, digest};

/// A view of a client's request, before it is sent on. `Debug` shows no values, since they hold
/// credentials.
#[derive(Clone, Copy)]
#[must_use]
pub struct ClientRequest<'a> {
    headers: &'a HeaderMap,
    body: &'a [u8],
    api_key: Option<&'a str>,
    tenant: Option<&'a str>,
    address: Option<&'a str>,
}

impl<'a> ClientRequest<'a> {
    /// A request without a body.
    pub fn new(headers: &'a HeaderMap) -> Self {
        Self { headers, body: &[], api_key: None, tenant: None, address: None }
    }

    /// Sets the JSON body, as the client sent it and whole: one that is cut off or larger than
    /// 32 MiB names nobody. Work is linear in it; nothing but names is kept.
    pub fn body(mut self, body: &'a [u8]) -> Self {
        self.body = body;
        self
    }

    /// Sets the client's API key where it is not in a header, such as the `key` parameter of
    /// Gemini's URLs. It comes before the headers.
    pub fn api_key(mut self, key: &'a str) -> Self {
        self.api_key = Some(key);
        self
    }

    /// Sets the tenant by a name that the host has authenticated. It replaces the API key.
    pub fn tenant(mut self, name: &'a str) -> Self {
        self.tenant = Some(name);
        self
    }

    /// Sets the client's address, for [`CallerRules::guess`].
    pub fn address(mut self, address: &'a str) -> Self {
        self.address = Some(address);
        self
    }
}

impl fmt::Debug for ClientRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientRequest")
            .field("headers", &self.headers.len())
            .field("body_bytes", &self.body.len())
            .finish_non_exhaustive()
    }
}

/// The most specific thing that a caller key rests on.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[non_exhaustive]
pub enum CallerSource {
    /// The client's address and user agent: perhaps many people behind one network.
    Guess,
    /// The API key or tenant alone: perhaps many people.
    Tenant,
    /// A user.
    User,
    /// A conversation or session.
    Session,
}

/// How callers are found.
///
/// A key has up to three parts, of which each is the first that is there, trimmed; blank ones and
/// placeholders (`null`, `undefined`, `none`, `anonymous`, `unknown`, `default`) count as absent.
///
/// 1. **Tenant**: [`ClientRequest::tenant`], [`ClientRequest::api_key`], `authorization`,
///    `x-api-key`, `x-goog-api-key`, `api-key`.
/// 2. **User**, in the body: `safety_identifier`, `user`, `metadata.user_id`.
/// 3. **Session**, in the headers: `x-claude-code-session-id`, `session-id`, `session_id`,
///    `x-session-id`, `conversation-id`, `conversation_id`, `x-conversation-id`,
///    `x-session-affinity`, `x-amp-thread-id`, `x-opencode-session`, `x-litellm-session-id`; then
///    in the body: `conversation` (a text or its `id`), `conversation_id`, `session_id`,
///    `sessionId`, `thread_id`, `metadata.session_id`, `prompt_cache_key`.
///
/// All of these stay the same from turn to turn; `previous_response_id`, request ids and the
/// messages do not and are never used. User and session are what the client claims; since they
/// only count within the tenant, a false one can reach nobody else's bindings.
///
/// Two requests are the same caller's if all three parts agree. A caller with a user or session is
/// to be bound to its account. A bare tenant, or a guess, stands for many people, whom a binding
/// would gather on one account: it shards only, unless [`CallerRules::single_tenant`] is set.
///
/// Header and field names as in OpenAI's *API reference* (`user`, `safety_identifier`,
/// `prompt_cache_key`, `conversation`), Anthropic's *Messages* reference (`metadata.user_id`) and
/// the session headers that coding assistants and gateways send.
///
/// ```
/// use account_pool::Affinity;
/// use account_pool::http::{CallerRules, CallerSource, ClientRequest};
/// use http::{HeaderMap, HeaderValue};
///
/// let mut headers = HeaderMap::new();
/// headers.insert("x-api-key", HeaderValue::from_static("client-secret"));
/// let rules = CallerRules::new();
///
/// let body = br#"{"metadata": {"user_id": "42"}, "messages": []}"#;
/// let key = rules.read(&ClientRequest::new(&headers).body(body)).unwrap();
/// assert_eq!((key.source(), key.affinity()), (CallerSource::User, Affinity::Prefer));
/// assert!(!key.as_str().contains("client-secret"));
///
/// let key = rules.read(&ClientRequest::new(&headers)).unwrap();
/// assert_eq!((key.source(), key.affinity()), (CallerSource::Tenant, Affinity::Ignore));
/// ```
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[must_use]
pub struct CallerRules {
    single_tenant: bool,
    guess: bool,
}

impl CallerRules {
    /// Several people behind one API key, and no guessing.
    pub const fn new() -> Self {
        Self { single_tenant: false, guess: false }
    }

    /// Whether each API key, and each guessed client, is one person, so that it may be bound.
    /// Default off.
    pub const fn single_tenant(mut self, on: bool) -> Self {
        self.single_tenant = on;
        self
    }

    /// Whether address and user agent stand in where user and session are absent. Default off: it
    /// can take strangers behind one network for the same caller.
    pub const fn guess(mut self, on: bool) -> Self {
        self.guess = on;
        self
    }

    /// The caller of a request; `None` for an anonymous one.
    #[must_use]
    pub fn read(self, request: &ClientRequest<'_>) -> Option<CallerKey> {
        let names = Names::read(request.headers, request.body);
        let tenant = tenant(request);
        let mut key = tenant.clone().unwrap_or_else(|| "open:0".to_owned());
        let mut source = tenant.map(|_| CallerSource::Tenant);
        for (part, label, kind) in [
            (names.user, "user", CallerSource::User),
            (names.session, "session", CallerSource::Session),
        ] {
            if let Some(name) = part {
                push(&mut key, label, &name);
                source = Some(kind);
            }
        }
        let is_named = source >= Some(CallerSource::User);
        if !is_named && let Some(guess) = self.guessed(request) {
            push(&mut key, "guess", &guess);
            source = Some(CallerSource::Guess);
        }
        let binds = is_named || self.single_tenant;
        Some(CallerKey { caller: Caller::new(&key)?, key, source: source?, binds })
    }

    fn guessed(self, request: &ClientRequest<'_>) -> Option<String> {
        let address = request.address.map(str::trim).filter(|it| self.guess && !it.is_empty())?;
        let agent = text(request.headers, "user-agent").unwrap_or_default();
        Some(format!("{address}\n{agent}"))
    }
}

/// The caller of a request, and whether it is to be bound to an account.
///
/// The key is made of digests (SHA-256, cut to 64 bits for the tenant and 128 bits for each other
/// part), such as `key:…:user:…:session:…`: it holds no credential and no name. Its first two
/// segments are the tenant's, as [`Caller::new`] expects.
#[derive(Clone, Eq, PartialEq)]
pub struct CallerKey {
    key: String,
    caller: Caller,
    source: CallerSource,
    binds: bool,
}

impl CallerKey {
    /// The key.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.key
    }

    /// The key's digests, for [`Request::digested`].
    #[must_use]
    pub fn caller(&self) -> Caller {
        self.caller
    }

    /// The most specific thing that it rests on.
    #[must_use]
    pub fn source(&self) -> CallerSource {
        self.source
    }

    /// [`Affinity::Prefer`] for a caller that is to be bound; [`Affinity::Ignore`] for one that
    /// may stand for many people: it still has its own place among equally good accounts, but
    /// neither reads nor writes a binding.
    #[must_use]
    pub fn affinity(&self) -> Affinity {
        if self.binds { Affinity::Prefer } else { Affinity::Ignore }
    }

    /// Sets caller and affinity of a request.
    pub fn apply<'a>(&self, request: Request<'a>) -> Request<'a> {
        request.digested(self.caller).affinity(self.affinity())
    }
}

impl fmt::Debug for CallerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallerKey")
            .field("caller", &self.caller)
            .field("source", &self.source)
            .field("binds", &self.binds)
            .finish()
    }
}

/// The first two segments of a key.
fn tenant(request: &ClientRequest<'_>) -> Option<String> {
    let segments = |label: &str, name: &str| format!("{label}:{:016x}", digest(name) >> 64);
    let given = |name: Option<&'_ str>| {
        let name = name.map(str::trim).filter(|name| !name.is_empty());
        name.map(str::to_owned)
    };
    if let Some(name) = given(request.tenant) {
        return Some(segments("tenant", &name));
    }
    let headers = ["authorization", "x-api-key", "x-goog-api-key", "api-key"];
    let mut sent = headers.iter().filter_map(|name| credential(text(request.headers, name)?));
    let key = given(request.api_key).or_else(|| sent.next().map(str::to_owned))?;
    Some(segments("key", &key))
}

/// A credential without its scheme, so that one key is one tenant whichever header carries it.
fn credential(text: &str) -> Option<&str> {
    let bare = text.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    let bare = bare.map_or(text, |(_, key)| key).trim();
    (!bare.is_empty() && !bare.eq_ignore_ascii_case("bearer")).then_some(bare)
}

fn push(key: &mut String, label: &str, name: &str) {
    *key = format!("{key}:{label}:{:032x}", digest(name));
}
