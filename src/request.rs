//! What a request says about itself.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::account::AccountId;
use crate::refusal::WaitTicket;

/// A caller's identity, reduced to digests: the raw key is neither kept nor printed.
///
/// Build it once per conversation to save the hashing (two short SHA-256), or let
/// [`Request::caller`] do it. The key should name one conversation or user; a key that stands for
/// many people gathers them all on one account.
///
/// ```
/// use account_pool::Caller;
///
/// let caller = Caller::new("api:6f:user:42").unwrap();
/// assert_eq!(Caller::new("  "), None);
/// assert_ne!(caller, Caller::new("api:6f:user:43").unwrap());
/// ```
#[derive(Clone, Copy, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub struct Caller {
    #[serde(with = "crate::hex")]
    pub(crate) digest: u128,
    #[serde(with = "crate::hex")]
    pub(crate) tenant: u64,
}

impl Caller {
    /// Digests `key`; `None` when it is blank (an anonymous caller). Any length is accepted.
    ///
    /// The tenant, whose bindings share one part of the table, is the key's first two
    /// `:`-separated segments.
    #[must_use]
    pub fn new(key: &str) -> Option<Self> {
        named(key)?;
        let [digest, tenant] = match tenant(key) {
            Some(tenant) => [digest(key), digest(tenant)],
            None => [digest(key); 2],
        };
        Some(Self { digest, tenant: high_half(tenant) })
    }

    /// Somebody, where it does not matter who.
    pub(crate) const ANYBODY: Self = Self { digest: 0, tenant: 0 };

    /// The same caller, counted as one of `tenant`.
    #[must_use]
    pub fn of_tenant(mut self, tenant: &str) -> Self {
        self.tenant = high_half(digest(tenant));
        self
    }

    /// The first four bytes of the key's SHA-256, big-endian.
    pub(crate) fn prefix(self) -> u32 {
        u32::try_from(self.digest >> 96).unwrap_or_default()
    }

    /// The first eight bytes of the key's SHA-256, big-endian.
    pub(crate) fn hash(self) -> u64 {
        high_half(self.digest)
    }
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Caller({:08x}…)", self.prefix())
    }
}

/// A key's first two `:`-separated segments; `None` when it has no more.
fn tenant(key: &str) -> Option<&str> {
    let mut colons = (0..).zip(key.bytes()).filter(|&(_, byte)| byte == b':');
    colons.nth(1).map(|(end, _)| &key[..end])
}

/// The first 16 bytes of the SHA-256 of `text`, big-endian.
pub(crate) fn digest(text: &str) -> u128 {
    let hash = Sha256::digest(text.as_bytes());
    hash.first_chunk().map_or(0, |half| u128::from_be_bytes(*half))
}

fn high_half(digest: u128) -> u64 {
    u64::try_from(digest >> 64).unwrap_or_default()
}

/// How much a request insists on the account of its conversation.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Affinity {
    /// The warm account when it is eligible, else the best.
    #[default]
    Prefer,
    /// Ranking alone; neither reads nor writes bindings.
    Ignore,
    /// The account the conversation is bound to, or a refusal.
    Require,
}

/// Whose traffic a request is.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TrafficClass {
    /// Somebody waits for the answer.
    #[default]
    User,
    /// Keep-alives, health checks, prefetching: its failures cool an account only when the
    /// upstream announced a reset.
    Background,
}

/// What to select for. All parts are optional; nothing is copied.
///
/// Model and selector are compared after trimming, with their case; blank ones count as absent.
/// They are separate name spaces: a selector is any second property that accounts are entitled
/// to, such as a region or a plan level.
///
/// ```
/// use account_pool::{AccountId, Request};
///
/// let failed = [AccountId::from("acct-1")];
/// let request = Request::new().caller("api:6f:user:42").model("opus").exclude(&failed);
/// # let _ = request;
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[must_use]
pub struct Request<'a> {
    pub(crate) caller: Option<Caller>,
    pub(crate) model: Option<&'a str>,
    pub(crate) selector: Option<&'a str>,
    pub(crate) excluded: &'a [AccountId],
    pub(crate) cost: u64,
    pub(crate) affinity: Affinity,
    pub(crate) class: TrafficClass,
    pub(crate) waited: Option<WaitTicket>,
}

impl<'a> Request<'a> {
    /// An anonymous request for any model.
    #[inline]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the caller by its key; a blank key means anonymous.
    #[inline]
    pub fn caller(mut self, key: &str) -> Self {
        self.caller = Caller::new(key);
        self
    }

    /// Sets the caller by digests made before.
    #[inline]
    pub fn digested(mut self, caller: Caller) -> Self {
        self.caller = Some(caller);
        self
    }

    /// Counts the caller as one of `tenant`; call it after the caller is set. Without a caller it
    /// does nothing.
    #[inline]
    pub fn tenant(mut self, tenant: &str) -> Self {
        self.caller = self.caller.map(|caller| caller.of_tenant(tenant));
        self
    }

    /// Sets the model.
    #[inline]
    pub fn model(mut self, model: &'a str) -> Self {
        self.model = named(model);
        self
    }

    /// Sets the selector.
    #[inline]
    pub fn selector(mut self, selector: &'a str) -> Self {
        self.selector = named(selector);
        self
    }

    /// Sets the accounts that must not serve this request, usually those that failed it. Unknown
    /// ids are ignored. Each costs a comparison per account considered.
    #[inline]
    pub fn exclude(mut self, accounts: &'a [AccountId]) -> Self {
        self.excluded = accounts;
        self
    }

    /// Sets the tokens to charge at selection, 0 by default. What a success used beyond it is
    /// charged when it settles; an account is refused when the cost does not fit its token
    /// window.
    #[inline]
    pub fn cost(mut self, tokens: u64) -> Self {
        self.cost = tokens;
        self
    }

    /// Sets how much the request insists on the account of its conversation.
    #[inline]
    pub fn affinity(mut self, affinity: Affinity) -> Self {
        self.affinity = affinity;
        self
    }

    /// Sets whose traffic it is.
    #[inline]
    pub fn class(mut self, class: TrafficClass) -> Self {
        self.class = class;
        self
    }

    /// Goes on after a [`Wait`](crate::Wait): the place in the queue is given back, and no
    /// further wait is offered past the deadline of that one.
    #[inline]
    pub fn after_wait(mut self, wait: WaitTicket) -> Self {
        self.waited = Some(wait);
        self
    }
}

/// A [`Request`] that owns its names, to outlive the call. The caller is there as digests.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct OwnedRequest {
    /// The caller.
    pub caller: Option<Caller>,
    /// The model.
    pub model: Option<String>,
    /// The selector.
    pub selector: Option<String>,
    /// The accounts that must not serve it.
    pub excluded: Vec<AccountId>,
    /// The tokens to charge at selection.
    pub cost: u64,
    /// How much it insists on the account of its conversation.
    pub affinity: Affinity,
    /// Whose traffic it is.
    pub class: TrafficClass,
    /// The wait that it goes on from.
    pub waited: Option<WaitTicket>,
}

impl OwnedRequest {
    /// The request that a scheduler takes.
    pub fn as_request(&self) -> Request<'_> {
        Request {
            caller: self.caller,
            model: self.model.as_deref(),
            selector: self.selector.as_deref(),
            excluded: &self.excluded,
            cost: self.cost,
            affinity: self.affinity,
            class: self.class,
            waited: self.waited,
        }
    }

    /// Whose turn it takes. Anonymous requests take turns as one tenant.
    #[cfg(any(feature = "tokio", pool_shuttle))]
    pub(crate) fn tenant(&self) -> u64 {
        self.caller.map_or(0, |caller| caller.tenant)
    }
}

impl From<&Request<'_>> for OwnedRequest {
    fn from(request: &Request<'_>) -> Self {
        Self {
            caller: request.caller,
            model: request.model.map(str::to_owned),
            selector: request.selector.map(str::to_owned),
            excluded: request.excluded.to_vec(),
            cost: request.cost,
            affinity: request.affinity,
            class: request.class,
            waited: request.waited,
        }
    }
}

/// A name without the white space around it; a blank one names nothing.
#[inline]
fn named(name: &str) -> Option<&str> {
    let is_graphic = |end: Option<&u8>| end.is_some_and(u8::is_ascii_graphic);
    let bytes = name.as_bytes();
    if is_graphic(bytes.first()) && is_graphic(bytes.last()) {
        // Nearly every name: there is nothing to trim.
        return Some(name);
    }
    trimmed(name)
}

#[cold]
fn trimmed(name: &str) -> Option<&str> {
    Some(name.trim()).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::Caller;

    #[test]
    fn the_tenant_is_the_key_up_to_its_second_colon() {
        let tenants = [("a", "a"), ("a:", "a:"), ("a:b", "a:b"), ("a:b:", "a:b"), ("::", ":")];
        for (key, tenant) in tenants {
            let caller = Caller::new(key).unwrap();
            assert_eq!(caller, caller.of_tenant(tenant), "{key}");
        }
    }
}
