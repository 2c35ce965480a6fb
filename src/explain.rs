//! Why a request would be decided as it would: every account's verdict and place in the order.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::account::AccountId;
use crate::config::Term;
use crate::grant::{Path, Preview};
use crate::refusal::{Reason, Rejection, Unavailable};
use crate::select::conversation::current_trail;
use crate::select::eligible::eligible;
use crate::select::query::{Query, View};
use crate::select::{decide, rank};
use crate::slot::Slot;
use crate::state::AccountState;
use crate::time::Timestamp;

/// A decision with its grounds, made by the functions that make it in earnest. `Display` prints
/// it as a table.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Explanation {
    /// The time at which it holds.
    pub at: Timestamp,
    /// What [`select`](crate::Scheduler::select) would answer.
    pub decision: Verdict,
    /// All accounts in the order of their insertion.
    pub accounts: Vec<ExplainedAccount>,
}

/// What a selection would answer.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Verdict {
    /// This account serves.
    Selected {
        /// The account.
        account: AccountId,
        /// How it comes to be selected.
        path: Path,
        /// How many accounts are equally good, this one included.
        tied: u32,
    },
    /// No account serves.
    Refused {
        /// How many accounts are kept away, by reason.
        reasons: Vec<(Reason, u32)>,
        /// When the same request will succeed.
        retry_at: Option<Timestamp>,
        /// Whether only load keeps an account away.
        load_only: bool,
        /// The account that is worth waiting for.
        wait_for: Option<AccountId>,
    },
}

/// One account's part in a decision.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ExplainedAccount {
    /// Its id.
    pub account: AccountId,
    /// Why it may not serve; `None` when it may.
    pub rejection: Option<Rejection>,
    /// Its terms in the order, smaller is better: a reserve or not, past a soft limit or not, then
    /// the configured ones.
    pub rank: Vec<RankedTerm>,
    /// Whether it is equal to the best.
    pub tied: bool,
    /// Its place in the caller's trail, 0 for the one that is tried first.
    pub trail: Option<usize>,
}

/// The value of one term.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[expect(clippy::exhaustive_structs, reason = "a name and a value")]
pub struct RankedTerm {
    /// The term.
    pub term: RankedBy,
    /// Its value, smaller is better.
    pub value: u64,
}

/// What an account is ranked by.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RankedBy {
    /// Reserves come last.
    FallbackOnly,
    /// Accounts past a soft limit come after the others.
    SoftLimit,
    /// A configured term.
    Term(Term),
}

pub(crate) fn explain(query: &Query<'_>, view: &View<'_>) -> Explanation {
    let trail: Vec<Slot> = current_trail(query, view)
        .iter()
        .flat_map(|trail| trail.in_order(view.config.sticky.order))
        .collect();
    let place = |slot: Slot| trail.iter().position(|&stop| stop == slot);
    let open = |slot, state| eligible(state, slot, false, query, view).is_ok();
    let keys = view.roster.iter().filter(|&(slot, state)| open(slot, state));
    let best = keys.map(|(slot, state)| rank::key(state, slot, query, view)).min();
    let accounts = view.roster.iter().map(|(slot, state)| {
        let key = rank::key(state, slot, query, view);
        let equal = best.is_some_and(|best| view.layout.ties.equates(best, key));
        let trail = place(slot);
        ExplainedAccount {
            account: state.id().clone(),
            rejection: eligible(state, slot, trail.is_some(), query, view).err(),
            rank: terms(state, slot, query, view),
            tied: equal && open(slot, state),
            trail,
        }
    });
    Explanation {
        at: view.now,
        accounts: accounts.collect(),
        decision: match decide(query, view).outcome {
            Ok(choice) => Verdict::selected(choice.preview(view)),
            Err(refusal) => Verdict::refused(&refusal),
        },
    }
}

fn terms(state: &AccountState, slot: Slot, query: &Query<'_>, view: &View<'_>) -> Vec<RankedTerm> {
    let past_soft_limit = rank::is_past_soft_limit(state, view);
    let before = [
        (RankedBy::FallbackOnly, state.fallback_only.into()),
        (RankedBy::SoftLimit, past_soft_limit.into()),
    ];
    let weighed = view
        .config
        .rank
        .terms
        .iter()
        .map(|&term| (RankedBy::Term(term), rank::weigh(term, state, slot, query, view)));
    let terms = before.into_iter().chain(weighed);
    terms.map(|(term, value)| RankedTerm { term, value }).collect()
}

impl Verdict {
    fn selected(Preview { account, path, tied }: Preview) -> Self {
        Self::Selected { account, path, tied }
    }

    fn refused(refusal: &Unavailable) -> Self {
        Self::Refused {
            reasons: refusal.tally().iter().collect(),
            retry_at: refusal.retry_at(),
            load_only: refusal.is_load_only(),
            wait_for: refusal.wait().map(|wait| wait.account.clone()),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Selected { account, path, tied } => {
                write!(f, "{account}, by {}", path.as_str())?;
                if *tied > 1 {
                    write!(f, ", one of {tied} equally good")?;
                }
                Ok(())
            }
            Self::Refused { wait_for: Some(account), .. } => write!(f, "wait for {account}"),
            Self::Refused { retry_at, load_only, .. } => match retry_at {
                Some(retry_at) => write!(f, "refused until {}", retry_at.as_millis()),
                None if *load_only => f.write_str("refused until a request ends"),
                None => f.write_str("refused; waiting will not help"),
            },
        }
    }
}

impl fmt::Display for RankedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::FallbackOnly => "reserve",
            Self::SoftLimit => "soft",
            Self::Term(term) => term.as_str(),
        })
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "at {}: {}", self.at.as_millis(), self.decision)?;
        let rows: Vec<Vec<String>> = self.accounts.iter().map(|it| row(it, self.at)).collect();
        let terms = self.accounts.first().into_iter().flat_map(|account| &account.rank);
        let fixed = ["account", "trail", "verdict"].map(str::to_owned);
        let head: Vec<String> =
            fixed.into_iter().chain(terms.map(|ranked| ranked.term.to_string())).collect();
        let widths: Vec<usize> = (0..head.len())
            .map(|column| {
                let cells = std::iter::once(&head).chain(&rows);
                cells.map(|row| row[column].chars().count()).max().unwrap_or(0)
            })
            .collect();
        for row in std::iter::once(&head).chain(&rows) {
            let mut line = String::new();
            for (index, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                let pad = " ".repeat(width.saturating_sub(cell.chars().count()));
                // Words to the left, numbers to the right.
                let (left, right) =
                    if index < 3 { ("", pad) } else { (pad.as_str(), String::new()) };
                line.push_str(&format!("  {left}{cell}{right}"));
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

fn row(account: &ExplainedAccount, at: Timestamp) -> Vec<String> {
    let verdict = match &account.rejection {
        None if account.tied => "eligible, tied".to_owned(),
        None => "eligible".to_owned(),
        Some(rejection) => match rejection.lift.deadline() {
            Some(end) => format!("{} for {} ms", rejection.reason, end.since(at).as_millis()),
            None => rejection.reason.to_string(),
        },
    };
    let trail = account.trail.map(|place| (place + 1).to_string()).unwrap_or_default();
    let terms = account.rank.iter().map(|ranked| ranked.value.to_string());
    [account.account.to_string(), trail, verdict].into_iter().chain(terms).collect()
}
