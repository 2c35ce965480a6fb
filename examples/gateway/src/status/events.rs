//! What happened last: a short list of what is worth a look, and counts of how requests ended.

use std::collections::{BTreeMap, VecDeque};

use account_pool::{AccountId, Event, Millis, OutcomeKind, Reason, Scope, Timestamp};
use parking_lot::Mutex;
use serde::Serialize;

/// Something that happened, once or several times in a row.
///
/// Names accounts and reasons, never callers. What happens with every request (selections,
/// successes, new bindings) is counted elsewhere and not listed.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RecentEvent {
    /// Tells events apart; larger is later.
    pub id: u64,
    /// When it happened last.
    pub at: Timestamp,
    /// How often it happened, each time within ten seconds of the one before.
    pub count: u64,
    /// What happened.
    pub kind: EventKind,
    /// The account, if it concerns a single one.
    pub account: Option<AccountId>,
    /// Whether a block is of the whole account, or of one of its models or selectors.
    pub scope: Option<Scope>,
    /// Why: of a block its reason, of a refusal the reason that kept most accounts away, of a
    /// failure its outcome.
    pub reason: Option<&'static str>,
    /// When it ends, for a block; when a retry will succeed, for a refusal.
    pub until: Option<Timestamp>,
    #[serde(skip)]
    revision: u64,
}

impl RecentEvent {
    /// Whether it is new or has happened again since that revision.
    pub(super) fn is_newer(&self, revision: u64) -> bool {
        self.revision > revision
    }
}

/// The kind of a [`RecentEvent`].
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EventKind {
    /// No account could serve a request.
    Refused,
    /// A request failed on an account, in a way that sets no cooldown at once.
    Failed,
    /// A silent lease was freed.
    Reaped,
    /// A cooldown was set or extended.
    Blocked,
    /// A cooldown was lifted early.
    Unblocked,
    /// A breaker opened.
    BreakerOpened,
    /// A breaker let a probe pass.
    BreakerHalfOpen,
    /// A breaker closed.
    BreakerClosed,
    /// The upstream banned an account.
    Banned,
    /// A conversation left its accounts for a cold one.
    MovedCold,
    /// A binding gave way to another.
    Evicted,
    /// The operator drained an account.
    Drain,
    /// The operator ended a drain.
    Undrain,
    /// The operator cleared an account's blocks.
    Clear,
    /// The operator began maintenance.
    MaintenanceOn,
    /// The operator ended maintenance.
    MaintenanceOff,
}

/// The newest events, and counts of outcomes.
#[derive(Default)]
pub(super) struct Recent {
    log: Mutex<Log>,
}

#[derive(Default)]
struct Log {
    /// The one that happened longest ago first.
    events: VecDeque<RecentEvent>,
    next_id: u64,
    revision: u64,
    outcomes: BTreeMap<&'static str, u64>,
}

impl Recent {
    /// The most events kept.
    pub(super) const CAPACITY: usize = 100;
    /// The longest time between two that count as one.
    const PAUSE: Millis = Millis::from_secs(10);

    /// Takes note of what the pool did. Called for every event of every request, so it is short.
    pub(super) fn observe(&self, event: &Event, at: Timestamp) {
        if let Event::Settled { outcome, .. } = event {
            *self.log.lock().outcomes.entry(outcome.as_str()).or_default() += 1;
        }
        if let Some(noted) = Noted::of(event) {
            self.note(noted, at);
        }
    }

    /// Takes note of what the operator did.
    pub(super) fn administer(&self, kind: EventKind, account: AccountId, at: Timestamp) {
        self.note(Noted { account: Some(account), ..Noted::new(kind) }, at);
    }

    /// The events, the newest first, and the revision that they show.
    pub(super) fn all(&self) -> (Vec<RecentEvent>, u64) {
        let log = self.log.lock();
        (log.events.iter().rev().cloned().collect(), log.revision)
    }

    /// How requests ended since this began to watch.
    pub(super) fn outcomes(&self) -> BTreeMap<&'static str, u64> {
        self.log.lock().outcomes.clone()
    }

    fn note(&self, noted: Noted, at: Timestamp) {
        let mut log = self.log.lock();
        log.revision += 1;
        let revision = log.revision;
        let same = log.events.iter().rposition(|event| noted.is(event, at));
        if let Some(mut event) = same.and_then(|index| log.events.remove(index)) {
            event.count += 1;
            event.at = event.at.max(at);
            event.until = noted.until.or(event.until);
            event.revision = revision;
            log.events.push_back(event);
            return;
        }
        if log.events.len() == Self::CAPACITY {
            log.events.pop_front();
        }
        log.next_id += 1;
        let Noted { kind, account, scope, reason, until } = noted;
        let id = log.next_id;
        log.events.push_back(RecentEvent {
            id,
            at,
            count: 1,
            kind,
            account,
            scope,
            reason,
            until,
            revision,
        });
    }
}

/// An event before it is listed.
struct Noted {
    kind: EventKind,
    account: Option<AccountId>,
    scope: Option<Scope>,
    reason: Option<&'static str>,
    until: Option<Timestamp>,
}

impl Noted {
    fn new(kind: EventKind) -> Self {
        Self { kind, account: None, scope: None, reason: None, until: None }
    }

    /// What is worth a look; `None` for what happens with every request.
    fn of(event: &Event) -> Option<Self> {
        let on =
            |kind, account: &AccountId| Self { account: Some(account.clone()), ..Self::new(kind) };
        Some(match event {
            // Advice to wait for the conversation's own account is no refusal.
            Event::Refused { wait_for: Some(_), .. } => return None,
            Event::Refused { tally, retry_at, .. } => {
                let most = tally.iter().max_by_key(|&(_, count)| count);
                let reason = most.map(|(reason, _)| Reason::as_str(reason));
                Self { reason, until: *retry_at, ..Self::new(EventKind::Refused) }
            }
            Event::Settled { account, outcome } if is_failure(*outcome) => {
                Self { reason: Some(outcome.as_str()), ..on(EventKind::Failed, account) }
            }
            Event::Reaped { account } => on(EventKind::Reaped, account),
            Event::Blocked { account, scope, dimension, until } => Self {
                scope: Some(*scope),
                reason: Some(dimension.reason().as_str()),
                until: Some(*until),
                ..on(EventKind::Blocked, account)
            },
            Event::Unblocked { account, dimension } => Self {
                reason: Some(dimension.reason().as_str()),
                ..on(EventKind::Unblocked, account)
            },
            Event::BreakerOpened { account } => on(EventKind::BreakerOpened, account),
            Event::BreakerHalfOpen { account } => on(EventKind::BreakerHalfOpen, account),
            Event::BreakerClosed { account } => on(EventKind::BreakerClosed, account),
            Event::Banned { account } => on(EventKind::Banned, account),
            Event::MovedCold => Self::new(EventKind::MovedCold),
            Event::Evicted => Self::new(EventKind::Evicted),
            _ => return None,
        })
    }

    /// Whether `event` is the same, and not long ago.
    fn is(&self, event: &RecentEvent, at: Timestamp) -> bool {
        event.kind == self.kind
            && event.account == self.account
            && event.scope == self.scope
            && event.reason == self.reason
            && at.since(event.at) <= Recent::PAUSE
    }
}

/// Whether it is the only sign of a failure: limits and rejected credentials show as blocks.
fn is_failure(outcome: OutcomeKind) -> bool {
    use OutcomeKind::{BanSignal, Internal, Network, Timeout};
    matches!(outcome, BanSignal | Internal | Network | Timeout)
}
