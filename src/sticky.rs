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
    caller: u128,
    model: Option<NameId>,
    selector: Option<NameId>,
}

impl BindingKey {
    /// The key under `policy`.
    pub(crate) fn new(
        caller: Caller,
        model: Option<NameId>,
        selector: Option<NameId>,
        policy: &Stickiness,
    ) -> Self {
        if policy.bind_by_caller_only {
            return Self { caller: caller.digest, model: None, selector: None };
        }
        Self { caller: caller.digest, model, selector }
    }

    /// The key of a request, when all its names are known; no binding has an unknown name.
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
    pub(crate) fn of(caller: u128, model: Option<NameId>, selector: Option<NameId>) -> Self {
        Self { caller, model, selector }
    }

    /// Its parts: the caller's digest, the model, the selector.
    pub(crate) fn parts(&self) -> (u128, Option<NameId>, Option<NameId>) {
        (self.caller, self.model, self.selector)
    }

    /// The caller's digest is a hash already; the small numbers of the names are spread over it.
    pub(crate) fn hash(&self) -> u64 {
        let spread = |name: Option<NameId>| name.map_or(0, NameId::spread);
        let digest = u64::try_from(self.caller & u128::from(u64::MAX)).unwrap_or_default();
        digest ^ spread(self.model) ^ spread(self.selector).rotate_left(32)
    }

    pub(crate) fn belongs_to(&self, caller: Caller) -> bool {
        self.caller == caller.digest
    }

    /// The names that it refers to.
    pub(crate) fn names(&self) -> impl Iterator<Item = NameId> {
        self.model.into_iter().chain(self.selector)
    }
}

/// The tenant of a binding.
pub(crate) type Tenant = u64;
