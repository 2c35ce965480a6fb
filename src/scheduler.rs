//! The deterministic core: all state and policy, no clock, no lock, no side effect.

mod accounts;
mod bindings;
#[cfg(feature = "journal")]
mod digest;
mod inspect;
mod outcomes;
mod prepare;
mod quiet;
mod restore;
mod selections;
mod snapshot;
#[cfg(any(feature = "tokio", pool_shuttle))]
mod waiting;

pub use self::accounts::BlockScope;
pub use self::bindings::BindingView;
pub use self::inspect::{AccountView, BlockView, BreakerView, LoadView, QuotaView, WindowView};
#[cfg(any(feature = "tokio", pool_shuttle))]
pub(crate) use self::waiting::Pins;

use self::prepare::Preparation;
use self::quiet::Quiet;

use crate::account::{AccountError, AccountId, Status};
use crate::config::{Config, ConfigError, Effect};
use crate::events::{Event, Events};
use crate::index::Index;
use crate::leases::Leases;
use crate::names::Names;
use crate::roster::{Departed, Roster};
use crate::select::query::View;
use crate::select::rank::{Layout, Translation};
use crate::slot::Slot;
use crate::stats::Stats;
use crate::sticky::Bindings;
use crate::time::Timestamp;

/// How many accounts may change before the index is brought up to date, at the latest. A
/// conversation that stays asks nothing of the index; so the more, the less often is it brought up
/// to date for conversations alone, and the dearer is the command that does it.
const MAX_TOUCHED: usize = 1_024;

/// The scheduler as a value: owns every account's state and answers synchronously.
///
/// Every method takes the current time; a time before the largest one seen counts as that one.
/// The same state, the same call and the same time give the same answer and the same next state.
/// For a shared handle with a clock and payloads, use [`Pool`](crate::Pool).
///
/// Methods come in four kinds: **commands** about requests ([`select`](Self::select),
/// [`select_account`](Self::select_account), [`settle`](Self::settle), [`cancel`](Self::cancel),
/// [`abandon`](Self::abandon), [`refund`](Self::refund), [`touch`](Self::touch),
/// [`reap`](Self::reap)); **facts** from outside ([`report`](Self::report),
/// [`observe`](Self::observe), [`observe_quota`](Self::observe_quota)); **administration** of
/// accounts, bindings and configuration; and **questions**, which take `&self` and change nothing
/// ([`preview`](Self::preview), [`inspect`](Self::inspect), [`peek`](Self::peek),
/// [`next_deadline`](Self::next_deadline), [`stats`](Self::stats)).
///
/// ```
/// use account_pool::{Account, Config, Outcome, Request, Scheduler, Timestamp};
///
/// let mut scheduler = Scheduler::new(Config::default())?;
/// let now = Timestamp::from_millis(1_000);
/// scheduler.add(Account::new("acct-1").rpm(60), now)?;
///
/// let grant = scheduler.select(&Request::new().caller("api:6f:user:42").model("opus"), now)?;
/// assert_eq!(grant.account, "acct-1");
/// scheduler.settle(grant.ticket, &Outcome::success(), now);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq)]
pub struct Scheduler {
    config: Config,
    /// The order of preference that the configuration asks for, laid out.
    layout: Layout,
    names: Names,
    roster: Roster,
    index: Index,
    departed: Departed,
    leases: Leases,
    bindings: Bindings,
    stats: Stats,
    events: Events,
    /// What its tickets are marked with.
    origin: u32,
    /// The number of the next ticket.
    next_sequence: u64,
    /// Selections so far.
    turn: u64,
    /// The newest block generation.
    generation: u64,
    /// The largest time seen.
    now: Timestamp,
    /// Until when time alone ends nothing.
    quiet: Quiet,
    preparation: Preparation,
}

impl std::fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scheduler")
            .field("accounts", &self.roster.len())
            .field("leases", &self.leases.len())
            .field("bindings", &self.bindings.len())
            .field("now", &self.now)
            .finish_non_exhaustive()
    }
}

impl Scheduler {
    /// An empty scheduler.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] names the field that is wrong.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        Self::with_origin(config, 0)
    }

    /// An empty scheduler whose tickets are marked with `origin`. Schedulers of different origins
    /// do not take each other's tickets; give each its own where several live side by side.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] names the field that is wrong.
    pub fn with_origin(config: Config, origin: u32) -> Result<Self, ConfigError> {
        config.validate()?;
        let mut names = Names::default();
        names.set_models(&config.aliases, &config.unmetered);
        Ok(Self {
            layout: Layout::under(&config.rank),
            config,
            names,
            roster: Roster::default(),
            index: Index::default(),
            departed: Departed::default(),
            leases: Leases::default(),
            bindings: Bindings::default(),
            stats: Stats::new(),
            events: Events::default(),
            origin,
            next_sequence: 1,
            turn: 0,
            generation: 0,
            now: Timestamp::ZERO,
            quiet: Quiet::UNKNOWN,
            preparation: Preparation::default(),
        })
    }

    /// The policy in force.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Replaces the policy; no state is lost. Deadlines that were set stay as they are, bindings
    /// beyond a smaller capacity are evicted, and aliases apply to names declared from now on.
    ///
    /// O(accounts) where accounts rank or qualify by other rules than before, and so is the next
    /// command then: together 1 to 5 ms for 32 768 accounts. [`prepare_config`](Self::prepare_config)
    /// spreads that over as many calls as you like.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] names the field that is wrong; then nothing was changed.
    pub fn set_config(&mut self, config: Config, now: Timestamp) -> Result<(), ConfigError> {
        config.validate()?;
        let now = self.advance(now);
        let prepared = self.preparation.take(&config);
        if config == self.config {
            return Ok(());
        }
        self.names.set_models(&config.aliases, &config.unmetered);
        let mut effect = self.config.effect_of(&config);
        if let Some(prepared) = prepared {
            self.adopt(prepared);
            effect = Effect::None;
        }
        if effect == Effect::Order {
            // What is known under an order is completed before it becomes what is known under the
            // other.
            self.update_index(now, Index::learn);
        }
        self.layout = Layout::under(&config.rank);
        let former = std::mem::replace(&mut self.config, config);
        match effect {
            Effect::None => {}
            Effect::Order => self.translate_index(&former, now),
            Effect::All => self.roster.touch_all(),
        }
        if self.config.sticky.order != former.sticky.order {
            self.recount_bindings();
        }
        self.trim_bindings();
        let Config { lease_timeout, sticky, .. } = &self.config;
        if *lease_timeout != former.lease_timeout || *sticky != former.sticky {
            self.quiet = Quiet::UNKNOWN;
        }
        // Where all accounts are to be looked at anew, the next command joins what was
        // learnt, so that the work is spread over two calls. (One that ends leases or bindings
        // first does all of it.)
        if self.roster.touched().is_all() && now < self.quiet.until {
            self.update_index(now, Index::learn);
        }
        Ok(())
    }

    /// Makes of what is known under the former order of preference what is known under this one.
    /// What lapses by this policy and did not by that counts, until the next command counts it out.
    fn translate_index(&mut self, former: &Config, now: Timestamp) {
        let translation = Translation::between(former, &self.config);
        self.update_index(now, |index, view| index.translate(&translation, view));
    }

    /// Starts or stops collecting [`Event`]s. Off by default, when they cost nothing; stopping
    /// discards those that were not drained.
    pub fn watch(&mut self, watched: bool) {
        self.events.watch(watched);
    }

    /// Moves the events since the last call to the end of `into`.
    pub fn drain_events(&mut self, into: &mut Vec<Event>) {
        self.events.drain_into(into);
    }

    /// Moves the time on: frees silent leases and counts out lapsed bindings.
    #[inline]
    fn advance(&mut self, now: Timestamp) -> Timestamp {
        let now = self.now.max(now);
        self.now = now;
        if self.quiet.until <= now {
            self.catch_up(now);
        }
        debug_assert!(!self.is_behind(now), "nothing overdue is left");
        if self.roster.touched().places().len() > MAX_TOUCHED {
            self.refresh_index(now);
        }
        now
    }

    /// Brings the index up to date.
    #[inline(never)]
    fn refresh_index(&mut self, now: Timestamp) {
        if !self.index.is_current(&self.roster, now) {
            self.update_index(now, Index::refresh);
        }
    }

    /// Tells the index of the accounts that were touched.
    #[inline]
    fn update_index(&mut self, now: Timestamp, update: impl FnOnce(&mut Index, &View<'_>)) {
        let Self { config, layout, roster, leases, bindings, quiet, .. } = self;
        let view = View::new(config, layout, roster, leases, bindings, quiet.until, now);
        update(&mut self.index, &view);
        self.preparation.note_touched(&self.roster);
        self.roster.forget_touched();
    }

    /// What a question at `now` sees.
    #[inline]
    fn view(&self, now: Timestamp) -> View<'_> {
        // What a command does first, a question can only take into account.
        let is_current = !self.is_behind(now) && self.index.is_current(&self.roster, now);
        View { index: is_current.then_some(&self.index), ..self.view_alone(now) }
    }

    /// The same without the index.
    #[inline]
    fn view_alone(&self, now: Timestamp) -> View<'_> {
        let Self { config, layout, roster, leases, bindings, quiet, .. } = self;
        View {
            origin: self.origin,
            next_sequence: self.next_sequence,
            ..View::new(config, layout, roster, leases, bindings, quiet.until, now)
        }
    }

    /// Emits an event about an account, if somebody watches and the account is there.
    #[inline]
    fn emit_for(&mut self, slot: Slot, event: impl FnOnce(AccountId) -> Event) {
        if self.events.are_watched()
            && let Some(state) = self.roster.get(slot)
        {
            self.events.emit(|| event(state.id().clone()));
        }
    }

    /// The place of an account.
    pub(crate) fn slot(&self, account: &str) -> Option<Slot> {
        self.roster.find(account)
    }

    fn slot_of(&self, account: &str) -> Result<Slot, AccountError> {
        self.roster.find(account).ok_or_else(|| AccountError::Unknown(account.into()))
    }

    /// Whether an account may bind callers: it is in the roster and in service.
    fn is_in_service(&self, slot: Slot, now: Timestamp) -> bool {
        self.roster.get(slot).is_some_and(|state| {
            !state.maintenance && state.status(&self.config.breaker, now) == Status::Active
        })
    }
}
