//! What can be done to a scheduler, as values.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::account::{Account, AccountError, AccountId, Entitlement, Plan, Status};
use crate::config::{Config, ConfigError};
use crate::grant::{Grant, Ticket};
use crate::outcome::{Outcome, QuotaReading, Settlement};
use crate::refusal::{Dimension, Unavailable, WaitTicket};
use crate::request::{Caller, OwnedRequest};
use crate::scheduler::{BlockScope, Scheduler};
use crate::time::{Millis, Timestamp};

/// One call that changes a [`Scheduler`], with all its arguments but the time. Every such method
/// has its operation, named after it; collecting events changes nothing and has none.
///
/// ```
/// use account_pool::journal::{Answer, Operation};
/// use account_pool::{Account, Config, Request, Scheduler, Timestamp};
///
/// let mut scheduler = Scheduler::new(Config::default())?;
/// let now = Timestamp::from_millis(1_000);
/// let add = Operation::Add(Account::new("acct-1").into());
/// assert_eq!(add.apply(&mut scheduler, now), Answer::Done);
///
/// let select = Operation::Select((&Request::new().caller("k")).into());
/// let Answer::Granted(grant) = select.apply(&mut scheduler, now) else { panic!("refused") };
/// assert_eq!(grant.account, "acct-1");
/// # Ok::<(), account_pool::ConfigError>(())
/// ```
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Operation {
    /// [`Scheduler::select`].
    Select(OwnedRequest),
    /// [`Scheduler::select_account`].
    SelectAccount(AccountId, OwnedRequest),
    /// [`Scheduler::settle`].
    Settle(Ticket, Outcome),
    /// [`Scheduler::cancel`].
    Cancel(Ticket),
    /// [`Scheduler::abandon`].
    Abandon(Ticket),
    /// [`Scheduler::refund`].
    Refund(Ticket),
    /// [`Scheduler::touch`].
    Touch(Ticket),
    /// [`Scheduler::report`].
    Report(Ticket, Outcome),
    /// [`Scheduler::reap`].
    Reap(Millis),
    /// [`Scheduler::give_up`].
    GiveUp(WaitTicket),
    /// [`Scheduler::observe`].
    Observe(AccountId, OwnedRequest, Outcome),
    /// [`Scheduler::observe_quota`].
    ObserveQuota(AccountId, QuotaReading),
    /// [`Scheduler::add`].
    Add(Box<Account>),
    /// [`Scheduler::remove`].
    Remove(AccountId),
    /// [`Scheduler::set_plan`].
    SetPlan(AccountId, Plan),
    /// [`Scheduler::set_models`].
    SetModels(AccountId, Entitlement),
    /// [`Scheduler::set_selectors`].
    SetSelectors(AccountId, Entitlement),
    /// [`Scheduler::set_blocked_models`].
    SetBlockedModels(AccountId, BTreeSet<String>),
    /// [`Scheduler::set_status`].
    SetStatus(AccountId, Status),
    /// [`Scheduler::set_maintenance`].
    SetMaintenance(AccountId, bool),
    /// [`Scheduler::set_draining`].
    SetDraining(AccountId, bool),
    /// [`Scheduler::block`].
    Block(AccountId, BlockScope, Dimension, Timestamp),
    /// [`Scheduler::clear_blocks`].
    ClearBlocks(AccountId, Option<Dimension>),
    /// [`Scheduler::clear_block`].
    ClearBlock(AccountId, u64),
    /// [`Scheduler::bind`].
    Bind(OwnedRequest, AccountId),
    /// [`Scheduler::unbind`].
    Unbind(OwnedRequest),
    /// [`Scheduler::unbind_caller`].
    UnbindCaller(Caller),
    /// [`Scheduler::unbind_account`].
    UnbindAccount(AccountId),
    /// [`Scheduler::set_config`].
    SetConfig(Box<Config>),
}

impl Operation {
    /// Makes the call at `now` and gives its answer. Costs what the call costs.
    pub fn apply(&self, to: &mut Scheduler, now: Timestamp) -> Answer {
        match self {
            Self::Select(request) => to.select(&request.as_request(), now).into(),
            Self::SelectAccount(id, request) => {
                to.select_account(id.as_str(), &request.as_request(), now).into()
            }
            Self::Settle(ticket, outcome) => to.settle(*ticket, outcome, now).into(),
            Self::Cancel(ticket) => to.cancel(*ticket, now).into(),
            Self::Abandon(ticket) => to.abandon(*ticket, now).into(),
            Self::Refund(ticket) => Answer::Flag(to.refund(*ticket, now)),
            Self::Touch(ticket) => Answer::Flag(to.touch(*ticket, now)),
            Self::Report(ticket, outcome) => to.report(*ticket, outcome, now).into(),
            Self::Reap(silence) => Answer::Count(to.reap(*silence, now)),
            Self::GiveUp(wait) => Answer::Flag(to.give_up(*wait)),
            Self::Observe(id, request, outcome) => {
                to.observe(id.as_str(), &request.as_request(), outcome, now).into()
            }
            Self::ObserveQuota(id, reading) => to.observe_quota(id.as_str(), reading, now).into(),
            Self::Add(account) => to.add(Account::clone(account), now).into(),
            Self::Remove(id) => Answer::Flag(to.remove(id.as_str(), now)),
            Self::SetPlan(id, plan) => to.set_plan(id.as_str(), plan, now).into(),
            Self::SetModels(id, names) => to.set_models(id.as_str(), names, now).into(),
            Self::SetSelectors(id, names) => to.set_selectors(id.as_str(), names, now).into(),
            Self::SetBlockedModels(id, names) => {
                to.set_blocked_models(id.as_str(), names, now).into()
            }
            Self::SetStatus(id, status) => to.set_status(id.as_str(), *status, now).into(),
            Self::SetMaintenance(id, on) => to.set_maintenance(id.as_str(), *on, now).into(),
            Self::SetDraining(id, on) => to.set_draining(id.as_str(), *on, now).into(),
            Self::Block(id, scope, dimension, until) => {
                to.block(id.as_str(), scope, *dimension, *until, now).into()
            }
            Self::ClearBlocks(id, dimension) => {
                to.clear_blocks(id.as_str(), *dimension, now).into()
            }
            Self::ClearBlock(id, generation) => {
                to.clear_block(id.as_str(), *generation, now).into()
            }
            Self::Bind(request, id) => to.bind(&request.as_request(), id.as_str(), now).into(),
            Self::Unbind(request) => Answer::Flag(to.unbind(&request.as_request(), now)),
            Self::UnbindCaller(caller) => Answer::Count(to.unbind_caller(*caller, now)),
            Self::UnbindAccount(id) => to.unbind_account(id.as_str(), now).into(),
            Self::SetConfig(config) => to.set_config(Config::clone(config), now).into(),
        }
    }
}

/// What an [`Operation`] was answered.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Answer {
    /// An account was selected.
    Granted(Grant),
    /// No account could serve.
    Refused(Unavailable),
    /// A lease was settled, or a report taken.
    Settled(Settlement),
    /// Yes or no.
    Flag(bool),
    /// How many.
    Count(usize),
    /// It was done, and there is nothing to say.
    Done,
    /// A change of an account was refused.
    Failed(AccountError),
    /// A configuration was refused.
    Misconfigured(ConfigError),
    /// It was not applied: see [`Journal::rehearse`](super::Journal::rehearse).
    Skipped,
}

impl From<Result<Grant, Unavailable>> for Answer {
    fn from(answer: Result<Grant, Unavailable>) -> Self {
        answer.map_or_else(Self::Refused, Self::Granted)
    }
}

impl From<Settlement> for Answer {
    fn from(settlement: Settlement) -> Self {
        Self::Settled(settlement)
    }
}

impl From<Result<(), AccountError>> for Answer {
    fn from(answer: Result<(), AccountError>) -> Self {
        answer.map_or_else(Self::Failed, |()| Self::Done)
    }
}

impl From<Result<bool, AccountError>> for Answer {
    fn from(answer: Result<bool, AccountError>) -> Self {
        answer.map_or_else(Self::Failed, Self::Flag)
    }
}

impl From<Result<usize, AccountError>> for Answer {
    fn from(answer: Result<usize, AccountError>) -> Self {
        answer.map_or_else(Self::Failed, Self::Count)
    }
}

impl From<Result<(), ConfigError>> for Answer {
    fn from(answer: Result<(), ConfigError>) -> Self {
        answer.map_or_else(Self::Misconfigured, |()| Self::Done)
    }
}
