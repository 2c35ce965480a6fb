//! Which accounts a conversation is bound to.

pub(crate) mod kept;
pub(crate) mod table;
pub(crate) mod trail;

pub(crate) use self::table::{Binding, Bindings, Shift};
use crate::config::Stickiness;
use crate::names::{NameId, Named};
use crate::request::Caller;

/// What a binding belongs to: one caller's conversation with one model and selector.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct BindingKey {
    /// The caller's digest, the lower half first: a number of 128 bits would take whole lines of
    /// 16 bytes.
    caller: [u64; 2],
    model: Option<NameId>,
    selector: Option<NameId>,
}

impl BindingKey {
    /// The key under `policy`.
    #[inline]
    pub(crate) fn new(
        caller: Caller,
        model: Option<NameId>,
        selector: Option<NameId>,
        policy: &Stickiness,
    ) -> Self {
        if policy.bind_by_caller_only {
            return Self::of(caller.digest, None, None);
        }
        Self::of(caller.digest, model, selector)
    }

    /// The key of a request, when all its names are known; no binding has an unknown name.
    #[inline]
    pub(crate) fn find(
        caller: Caller,
        model: Named,
        selector: Named,
        policy: &Stickiness,
    ) -> Option<Self> {
        let known = model != Named::Unknown && selector != Named::Unknown;
        let key = Self::new(caller, model.id(), selector.id(), policy);
        (known || policy.bind_by_caller_only).then_some(key)
    }

    /// The key of these parts.
    #[inline]
    pub(crate) fn of(caller: u128, model: Option<NameId>, selector: Option<NameId>) -> Self {
        Self { caller: halves(caller), model, selector }
    }

    /// Its parts: the caller's digest, the model, the selector.
    pub(crate) fn parts(&self) -> (u128, Option<NameId>, Option<NameId>) {
        let [low, high] = self.caller.map(u128::from);
        (high << 64 | low, self.model, self.selector)
    }

    /// The caller's digest is a hash already; the small numbers of the names are spread over it.
    #[inline]
    pub(crate) fn hash(&self) -> u64 {
        let spread = |name: Option<NameId>| name.map_or(0, NameId::spread);
        self.caller[0] ^ spread(self.model) ^ spread(self.selector).rotate_left(32)
    }

    pub(crate) fn belongs_to(&self, caller: Caller) -> bool {
        self.caller == halves(caller.digest)
    }

    /// The names that it refers to.
    pub(crate) fn names(&self) -> impl Iterator<Item = NameId> {
        self.model.into_iter().chain(self.selector)
    }
}

/// The lower and the upper half.
#[expect(clippy::cast_possible_truncation, reason = "both halves are taken")]
fn halves(number: u128) -> [u64; 2] {
    [number as u64, (number >> 64) as u64]
}

/// The tenant of a binding.
pub(crate) type Tenant = u64;
