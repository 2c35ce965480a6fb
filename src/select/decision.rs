//! What a decision consists of.

use crate::grant::{Path, Preview};
use crate::refusal::Unavailable;
use crate::select::query::View;
use crate::slot::Slot;
use crate::sticky::trail::Trail;
use crate::sticky::{BindingKey, Bound};

/// What a look-up of the caller's binding came to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Affair {
    /// There was nothing to look up, or the look-up leaves no mark.
    None,
    /// No binding.
    Miss,
    /// A binding that has lapsed.
    Expired(BindingKey),
    /// A binding.
    Found { bound: Bound, trail: Fate, result: Sighting },
}

impl Affair {
    /// The binding that was found.
    #[inline]
    pub(crate) fn bound(&self) -> Option<&Bound> {
        match self {
            Self::Found { bound, .. } => Some(bound),
            Self::None | Self::Miss | Self::Expired(_) => None,
        }
    }
}

/// What becomes of a trail that was looked up and does not stay as it is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Fate {
    /// Accounts have left it.
    Became(Trail),
    /// The binding goes.
    Dropped,
}

/// What became of a binding that was found.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Sighting {
    /// The first account serves.
    Hit,
    /// Another account of the trail serves.
    WarmHit,
    /// None of the trail can serve.
    ColdMove,
    /// The first account cannot serve, and no other may.
    Refused,
    /// The first account is worth waiting for.
    Waiting,
}

/// The account that was chosen.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Choice {
    pub(crate) slot: Slot,
    pub(crate) path: Path,
    /// How many accounts were equally good, this one included.
    pub(crate) tied: u32,
}

impl Choice {
    /// The choice by the account's id.
    pub(crate) fn preview(self, view: &View<'_>) -> Preview {
        let Self { slot, path, tied } = self;
        let state = view.roster.get(slot).expect("a decision chooses an account of the roster");
        Preview { account: state.id().clone(), path, tied }
    }
}

/// A decision, not yet carried out.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Decision {
    pub(crate) outcome: Result<Choice, Unavailable>,
    pub(crate) affair: Affair,
}
