//! The decision: which account serves a request. Read-only; the scheduler carries it out.

pub(crate) mod conversation;
pub(crate) mod decision;
pub(crate) mod eligible;
pub(crate) mod pass;
pub(crate) mod query;
pub(crate) mod rank;
pub(crate) mod shard;
pub(crate) mod survey;

use self::conversation::{Found, bound_until, follow, look_up, require};
use self::decision::{Affair, Choice, Decision};
use self::eligible::judge;
use self::query::{Query, View};
use self::survey::{choose, pin};
use crate::grant::Path;
use crate::refusal::{Lift, Reason, Rejection, Unavailable};
use crate::request::Affinity;
use crate::slot::Slot;

/// Decides for a request, without allocation.
pub(crate) fn decide(query: &Query<'_>, view: &View<'_>) -> Decision {
    if query.may_follow(view.config) {
        return decide_by_binding(query, view);
    }
    Decision { outcome: decide_by_rank(query, view), affair: Affair::None }
}

/// Decides for a request that [follows](Query::may_follow) no binding.
#[inline]
pub(crate) fn decide_by_rank(query: &Query<'_>, view: &View<'_>) -> Result<Choice, Unavailable> {
    choose(query, view, None)
}

/// Decides for a request that may follow a binding.
pub(crate) fn decide_by_binding(query: &Query<'_>, view: &View<'_>) -> Decision {
    if query.affinity == Affinity::Require {
        return require(query, view);
    }
    match look_up(query, view) {
        Found::Binding(bound, binding) => follow(bound, binding, query, view),
        Found::Nothing(affair) => {
            let strict = view.config.sticky.strict_pin();
            let outcome = if strict { pin(query, view) } else { choose(query, view, None) };
            Decision { outcome, affair }
        }
    }
}

/// Decides for a request that asks for the account at `slot`; `None` is an unknown one.
pub(crate) fn decide_for(
    slot: Option<Slot>,
    query: &Query<'_>,
    view: &View<'_>,
) -> Result<Choice, Unavailable> {
    let account = slot.and_then(|slot| Some((slot, view.roster.get(slot)?)));
    let Some((slot, state)) = account else {
        let unknown = Rejection::firm(Reason::UnknownAccount, Lift::Never);
        return Err(Unavailable::because(unknown, view.now));
    };
    match judge(state, slot, bound_until(slot, query, view), query, view) {
        Ok(()) => Ok(Choice { slot, path: Path::Acquired, tied: 1 }),
        Err(rejection) => Err(Unavailable::because(rejection, view.now)),
    }
}
