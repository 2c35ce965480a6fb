//! Which accounts a conversation is bound to.

mod holders;
pub(crate) mod kept;
pub(crate) mod table;
pub(crate) mod trail;

pub(crate) use self::table::{Binding, Bindings, Bound, Shift};
use crate::config::Stickiness;
use crate::names::{NameId, Named};
use crate::request::Caller;

/// What a binding belongs to: one caller's conversation with one model and selector.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct BindingKey {
    /// The caller's digest, the lower half first: a number of 128 bits would take whole lines of
    /// 16 bytes.
    caller: [u64; 2],
    /// The model in the upper half, the selector in the lower one: compared and hashed at once.
    names: u64,
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
        let number = |name: Option<NameId>| name.map_or(0, |name| u64::from(name.number()));
        Self { caller: halves(caller), names: number(model) << 32 | number(selector) }
    }

    /// Its parts: the caller's digest, the model, the selector.
    pub(crate) fn parts(&self) -> (u128, Option<NameId>, Option<NameId>) {
        let [low, high] = self.caller.map(u128::from);
        let [selector, model] = [low_half(self.names), low_half(self.names >> 32)];
        (high << 64 | low, NameId::numbered(model), NameId::numbered(selector))
    }

    /// The caller's digest is a hash already; the small numbers of the names are spread over it.
    #[inline]
    pub(crate) fn hash(&self) -> u64 {
        self.caller[0] ^ self.names.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    pub(crate) fn belongs_to(&self, caller: Caller) -> bool {
        self.caller == halves(caller.digest)
    }

    /// The names that it refers to.
    pub(crate) fn names(&self) -> impl Iterator<Item = NameId> {
        let (_, model, selector) = self.parts();
        model.into_iter().chain(selector)
    }
}

/// The lower and the upper half.
#[expect(clippy::cast_possible_truncation, reason = "both halves are taken")]
fn halves(number: u128) -> [u64; 2] {
    [number as u64, (number >> 64) as u64]
}

#[expect(clippy::cast_possible_truncation, reason = "the other half is taken apart")]
fn low_half(number: u64) -> u32 {
    number as u32
}

/// The tenant of a binding.
pub(crate) type Tenant = u64;
