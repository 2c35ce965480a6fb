//! The shared handle: one lock, one clock, a payload per account.

mod snapshot;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use crate::account::{Account, AccountError, AccountId, Entitlement, Plan, Status};
use crate::clock::{Clock, SystemClock};
use crate::config::{Config, ConfigError};
use crate::events::Observer;
use crate::explain::Explanation;
use crate::grant::{Preview, Reservation};
use crate::lease::Lease;
use crate::outcome::{Outcome, QuotaReading};
use crate::refusal::{Dimension, Unavailable, WaitTicket};
use crate::request::{Caller, Request};
use crate::scheduler::{AccountView, BindingView, BlockScope, LoadView, Scheduler};
use crate::shared::{Handle, State};
use crate::stats::Stats;
use crate::time::{Millis, Timestamp};
#[cfg(any(feature = "tokio", pool_shuttle))]
use crate::wait::{Acquire, Patience};

/// How many accounts are looked at under a policy that is to come before others get the lock:
/// about 0.2 ms, with which their waking up is in proportion.
const PREPARED_AT_ONCE: usize = 1_024;

/// A pool of accounts, shared by cloning: a [`Scheduler`] behind one lock, a clock that is read
/// once per call, and the host's payload (credentials, base URL, proxy) per account.
///
/// Payloads never enter the scheduler, are never printed, and are dropped outside the lock. Every
/// operation is synchronous and holds the lock only for the scheduler's own step.
///
/// ```
/// use account_pool::{Account, Config, Outcome, Pool, Request};
///
/// let pool = Pool::new(Config::default())?;
/// pool.add(Account::new("acct-1").rpm(60), "the credential")?;
///
/// let request = Request::new().caller("api:6f:user:42").model("opus");
/// match pool.select(&request) {
///     Ok(lease) => {
///         let _credential = lease.payload();
///         lease.settle(Outcome::success());
///     }
///     Err(refusal) => println!("retry in {:?}", refusal.retry_after()),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Pool<T = (), C = SystemClock> {
    handle: Arc<Handle<T, C>>,
}

impl<T, C> Clone for Pool<T, C> {
    fn clone(&self) -> Self {
        Self { handle: Arc::clone(&self.handle) }
    }
}

impl<T, C: Clock> fmt::Debug for Pool<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut pool = f.debug_struct("Pool");
        self.handle
            .run_alone(|state, _| pool.field("scheduler", &state.scheduler).finish_non_exhaustive())
    }
}

impl<T: Send + Sync + 'static> Pool<T> {
    /// An empty pool on the [`SystemClock`].
    ///
    /// # Errors
    ///
    /// [`ConfigError`] names the field that is wrong.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        Self::with_clock(config, SystemClock::new())
    }
}

impl<T: Send + Sync + 'static, C: Clock> Pool<T, C> {
    /// An empty pool on another clock.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] names the field that is wrong.
    pub fn with_clock(config: Config, clock: C) -> Result<Self, ConfigError> {
        Ok(Self { handle: Arc::new(Handle::new(config, clock)?) })
    }

    /// The pool's clock.
    #[must_use]
    pub fn clock(&self) -> &C {
        self.handle.clock()
    }

    /// Selects an account for the request and reserves it: see [`Scheduler::select`].
    ///
    /// # Errors
    ///
    /// [`Unavailable`] says why no account can serve and when one will.
    pub fn select(&self, request: &Request<'_>) -> Result<Lease<T>, Unavailable> {
        self.lease(|scheduler, now| scheduler.reserve_best(request, now))
    }

    /// Selects an account, and waits for one if none is eligible, for at most `max_wait`: see
    /// [`acquire_by`](Self::acquire_by).
    #[cfg(any(feature = "tokio", pool_shuttle))]
    #[cfg_attr(docsrs, doc(cfg(feature = "tokio")))]
    pub fn acquire<'r>(&self, request: &Request<'r>, max_wait: Millis) -> Acquire<'r, T, C> {
        Acquire::new(&self.handle, request, Patience::Span(max_wait))
    }

    /// Selects an account, and waits for one if none is eligible, until `deadline`.
    ///
    /// It answers as soon as an account can serve; with the refusal that holds then at the
    /// deadline; and at once with an [`Unavailable`] when waiting will not help: nobody will ever
    /// serve, or the known recovery lies past the deadline and no request under way keeps an
    /// account away, or [`Config::max_waiting`] requests wait already
    /// ([`Unavailable::is_queue_full`]).
    ///
    /// It sleeps to the exact instant, and is woken by whatever frees an account before. A place
    /// that frees is reserved for the first who can use it: first come, first served, while
    /// tenants ([`Request::tenant`]) take turns, and background traffic after all others. Nobody
    /// who calls this later overtakes; [`select`](Self::select) does not queue and takes what is
    /// free when it is called.
    ///
    /// With [`queue_on_pin`](crate::config::Stickiness::queue_on_pin) it waits for the account of
    /// the conversation while that is worth it, then asks the others within the same call.
    ///
    /// Dropping the future at any point leaves no trace; what was reserved for it passes on. The
    /// future does not keep the pool alive. It has to be polled when it is woken, as every future;
    /// one that is not holds up what was reserved for it, and those who wait for the same instant.
    ///
    /// The clock of the pool should run as tokio's time does, as [`SystemClock`] and
    /// [`TokioClock`](crate::TokioClock) do.
    ///
    /// # Panics
    ///
    /// The future panics when it has to sleep outside of a tokio runtime with its timer enabled.
    ///
    /// ```
    /// use account_pool::{Account, Config, Millis, Outcome, Pool, Request};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let pool = Pool::new(Config::default())?;
    /// pool.add(Account::new("acct-1").max_in_flight(1), "the credential")?;
    ///
    /// let request = Request::new().caller("api:6f:user:42").model("opus");
    /// let lease = pool.acquire(&request, Millis::from_secs(30)).await?;
    /// lease.settle(Outcome::success());
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(any(feature = "tokio", pool_shuttle))]
    #[cfg_attr(docsrs, doc(cfg(feature = "tokio")))]
    pub fn acquire_by<'r>(&self, request: &Request<'r>, deadline: Timestamp) -> Acquire<'r, T, C> {
        Acquire::new(&self.handle, request, Patience::Deadline(deadline))
    }

    /// The requests that wait now.
    #[cfg(any(feature = "tokio", pool_shuttle))]
    #[cfg_attr(docsrs, doc(cfg(feature = "tokio")))]
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.handle.run_alone(|state, _| state.room.len())
    }

    /// Reserves that very account for the request: see [`Scheduler::select_account`].
    ///
    /// # Errors
    ///
    /// [`Unavailable`] with the account's own reason and deadline.
    pub fn select_account(
        &self,
        account: &str,
        request: &Request<'_>,
    ) -> Result<Lease<T>, Unavailable> {
        self.lease(|scheduler, now| scheduler.reserve_account(account, request, now))
    }

    /// What [`select`](Self::select) would answer, without changing anything.
    ///
    /// # Errors
    ///
    /// The [`Unavailable`] of that selection.
    pub fn preview(&self, request: &Request<'_>) -> Result<Preview, Unavailable> {
        self.read(|scheduler, now| scheduler.preview(request, now))
    }

    /// What [`select`](Self::select) would answer and why: see [`Scheduler::explain`].
    #[must_use]
    pub fn explain(&self, request: &Request<'_>) -> Explanation {
        self.read(|scheduler, now| scheduler.explain(request, now))
    }

    /// Adds an account with its payload: see [`Scheduler::add`].
    ///
    /// # Errors
    ///
    /// Those of [`Scheduler::add`]; the payload is dropped then.
    pub fn add(&self, account: Account, payload: T) -> Result<(), AccountError> {
        // Borrowed by the closure, so that a payload that is refused outlives the lock.
        let member = self.handle.member(account.id().clone(), Arc::new(payload));
        let replaced = self.handle.run(|state, now| {
            state.scheduler.add(account, now)?;
            state.room.sort(&state.scheduler, now);
            let slot = state.scheduler.slot(member.id.as_str());
            Ok(slot.and_then(|slot| state.put(slot, Arc::clone(&member))))
        })?;
        drop(replaced);
        Ok(())
    }

    /// Removes an account and returns its payload; `None` when it is not there.
    pub fn remove(&self, account: &str) -> Option<Arc<T>> {
        let member = self.handle.run(|state, now| {
            let slot = state.scheduler.slot(account)?;
            state.scheduler.remove(account, now);
            state.room.sort(&state.scheduler, now);
            state.take(slot)
        });
        member.map(|member| Arc::clone(&member.payload))
    }

    /// Replaces an account's payload, such as a rotated credential, and returns the one before.
    /// Leases taken before keep theirs. Blocks stay; clear those of a credential that was
    /// rejected with [`clear_blocks`](Self::clear_blocks).
    ///
    /// # Errors
    ///
    /// [`AccountError::Unknown`]; the payload is dropped then.
    pub fn set_payload(&self, account: &str, payload: T) -> Result<Option<Arc<T>>, AccountError> {
        // Borrowed by the closure, so that a payload that is refused outlives the lock.
        let payload = Arc::new(payload);
        let replaced = self.handle.run(|state, _| {
            let slot = state.scheduler.slot(account);
            let slot = slot.ok_or_else(|| AccountError::Unknown(account.into()))?;
            let id = state.member(slot).map(|member| member.id.clone());
            let member = id.map(|id| self.handle.member(id, Arc::clone(&payload)));
            Ok(member.and_then(|member| state.put(slot, member)))
        })?;
        Ok(replaced.map(|member| Arc::clone(&member.payload)))
    }

    /// An account's payload.
    #[must_use]
    pub fn payload(&self, account: &str) -> Option<Arc<T>> {
        self.handle.run(|state, _| {
            let slot = state.scheduler.slot(account)?;
            state.member(slot).map(|member| Arc::clone(&member.payload))
        })
    }

    /// See [`Scheduler::set_plan`].
    ///
    /// # Errors
    ///
    /// Those of [`Scheduler::set_plan`].
    pub fn set_plan(&self, account: &str, plan: &Plan) -> Result<(), AccountError> {
        self.administer(|scheduler, now| scheduler.set_plan(account, plan, now))
    }

    /// See [`Scheduler::set_models`].
    ///
    /// # Errors
    ///
    /// [`AccountError::Unknown`].
    pub fn set_models(&self, account: &str, models: &Entitlement) -> Result<(), AccountError> {
        self.write(|scheduler, now| scheduler.set_models(account, models, now))
    }

    /// See [`Scheduler::set_selectors`].
    ///
    /// # Errors
    ///
    /// [`AccountError::Unknown`].
    pub fn set_selectors(&self, account: &str, names: &Entitlement) -> Result<(), AccountError> {
        self.write(|scheduler, now| scheduler.set_selectors(account, names, now))
    }

    /// See [`Scheduler::set_blocked_models`].
    ///
    /// # Errors
    ///
    /// [`AccountError::Unknown`].
    pub fn set_blocked_models(
        &self,
        account: &str,
        models: &BTreeSet<String>,
    ) -> Result<(), AccountError> {
        self.write(|scheduler, now| scheduler.set_blocked_models(account, models, now))
    }

    /// See [`Scheduler::set_status`].
    ///
    /// # Errors
    ///
    /// Those of [`Scheduler::set_status`].
    pub fn set_status(&self, account: &str, status: Status) -> Result<(), AccountError> {
        self.administer(|scheduler, now| scheduler.set_status(account, status, now))
    }

    /// See [`Scheduler::set_maintenance`].
    ///
    /// # Errors
    ///
    /// [`AccountError::Unknown`].
    pub fn set_maintenance(&self, account: &str, maintenance: bool) -> Result<(), AccountError> {
        self.write(|scheduler, now| scheduler.set_maintenance(account, maintenance, now))
    }

    /// See [`Scheduler::set_draining`].
    ///
    /// # Errors
    ///
    /// [`AccountError::Unknown`].
    pub fn set_draining(&self, account: &str, draining: bool) -> Result<(), AccountError> {
        self.administer(|scheduler, now| scheduler.set_draining(account, draining, now))
    }

    /// See [`Scheduler::block`].
    ///
    /// # Errors
    ///
    /// [`AccountError::Unknown`].
    pub fn block(
        &self,
        account: &str,
        scope: &BlockScope,
        dimension: Dimension,
        until: Timestamp,
    ) -> Result<(), AccountError> {
        self.write(|scheduler, now| scheduler.block(account, scope, dimension, until, now))
    }

    /// See [`Scheduler::clear_blocks`].
    ///
    /// # Errors
    ///
    /// [`AccountError::Unknown`].
    pub fn clear_blocks(
        &self,
        account: &str,
        dimension: Option<Dimension>,
    ) -> Result<bool, AccountError> {
        self.write(|scheduler, now| scheduler.clear_blocks(account, dimension, now))
    }

    /// See [`Scheduler::clear_block`].
    ///
    /// # Errors
    ///
    /// [`AccountError::Unknown`].
    pub fn clear_block(&self, account: &str, generation: u64) -> Result<bool, AccountError> {
        self.write(|scheduler, now| scheduler.clear_block(account, generation, now))
    }

    /// See [`Scheduler::observe`].
    ///
    /// # Errors
    ///
    /// [`AccountError::Unknown`].
    pub fn observe(
        &self,
        account: &str,
        request: &Request<'_>,
        outcome: &Outcome,
    ) -> Result<(), AccountError> {
        self.write(|scheduler, now| scheduler.observe(account, request, outcome, now))
    }

    /// See [`Scheduler::observe_quota`].
    ///
    /// # Errors
    ///
    /// [`AccountError::Unknown`].
    pub fn observe_quota(
        &self,
        account: &str,
        reading: &QuotaReading,
    ) -> Result<bool, AccountError> {
        self.write(|scheduler, now| scheduler.observe_quota(account, reading, now))
    }

    /// See [`Scheduler::bind`].
    ///
    /// # Errors
    ///
    /// [`AccountError::Unknown`].
    pub fn bind(&self, request: &Request<'_>, account: &str) -> Result<(), AccountError> {
        self.administer(|scheduler, now| scheduler.bind(request, account, now))
    }

    /// See [`Scheduler::unbind`].
    pub fn unbind(&self, request: &Request<'_>) -> bool {
        self.administer(|scheduler, now| scheduler.unbind(request, now))
    }

    /// See [`Scheduler::unbind_caller`].
    pub fn unbind_caller(&self, caller: Caller) -> usize {
        self.administer(|scheduler, now| scheduler.unbind_caller(caller, now))
    }

    /// See [`Scheduler::unbind_account`].
    ///
    /// # Errors
    ///
    /// [`AccountError::Unknown`].
    pub fn unbind_account(&self, account: &str) -> Result<usize, AccountError> {
        self.administer(|scheduler, now| scheduler.unbind_account(account, now))
    }

    /// See [`Scheduler::peek`].
    #[must_use]
    pub fn peek(&self, request: &Request<'_>) -> Option<BindingView> {
        self.read(|scheduler, now| scheduler.peek(request, now))
    }

    /// See [`Scheduler::give_up`].
    pub fn give_up(&self, wait: WaitTicket) -> bool {
        self.write(|scheduler, _| scheduler.give_up(wait))
    }

    /// See [`Scheduler::reap`].
    pub fn reap(&self, silence: Millis) -> usize {
        self.write(|scheduler, now| scheduler.reap(silence, now))
    }

    /// See [`Scheduler::inspect`].
    #[must_use]
    pub fn inspect(&self, account: &str) -> Option<AccountView> {
        self.read(|scheduler, now| scheduler.inspect(account, now))
    }

    /// See [`Scheduler::load`].
    #[must_use]
    pub fn load(&self) -> LoadView {
        self.read(Scheduler::load)
    }

    /// The accounts' ids in the order of their insertion.
    #[must_use]
    pub fn accounts(&self) -> Vec<AccountId> {
        self.read(|scheduler, _| scheduler.accounts().cloned().collect())
    }

    /// Leases held.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.read(|scheduler, _| scheduler.in_flight())
    }

    /// The counters.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.read(|scheduler, _| scheduler.stats().clone())
    }

    /// See [`Scheduler::drought`].
    #[must_use]
    pub fn drought(&self) -> bool {
        self.read(Scheduler::drought)
    }

    /// See [`Scheduler::next_deadline`].
    #[must_use]
    pub fn next_deadline(&self) -> Option<Timestamp> {
        self.read(Scheduler::next_deadline)
    }

    /// Sets who is told of every [`Event`](crate::Event); `false` when somebody is already. Without
    /// an observer events cost nothing.
    pub fn set_observer(&self, observer: impl Observer) -> bool {
        let observer: Arc<dyn Observer> = Arc::new(observer);
        self.handle.set_observer(&observer)
    }

    /// The policy in force.
    #[must_use]
    pub fn config(&self) -> Config {
        self.read(|scheduler, _| scheduler.config().clone())
    }

    /// Replaces the policy, like [`Scheduler::set_config`]. In a large pool it first
    /// [prepares](Scheduler::prepare_config) it, a thousand accounts at a time. In between the
    /// lock goes to the other threads that wait for it, and all goes on under the former policy;
    /// so nobody waits as long as this call takes.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] names the field that is wrong; then nothing was changed.
    pub fn set_config(&self, config: Config) -> Result<(), ConfigError> {
        let prepare = |state: &mut State<T>, now| {
            state.scheduler.prepare_config(&config, PREPARED_AT_ONCE, now)
        };
        while !self.handle.run_in_between(prepare)? {}
        self.administer(|scheduler, now| scheduler.set_config(config, now))
    }

    fn read<R>(&self, question: impl FnOnce(&Scheduler, Timestamp) -> R) -> R {
        self.handle.run_alone(|state, now| question(&state.scheduler, now))
    }

    fn write<R>(&self, command: impl FnOnce(&mut Scheduler, Timestamp) -> R) -> R {
        self.handle.run(|state, now| command(&mut state.scheduler, now))
    }

    /// A command that may change what makes waiting requests differ from each other.
    fn administer<R>(&self, command: impl FnOnce(&mut Scheduler, Timestamp) -> R) -> R {
        self.handle.run(|state, now| {
            let result = command(&mut state.scheduler, now);
            state.room.sort(&state.scheduler, now);
            result
        })
    }

    /// The lease of a selection. (A refusal is large: here it is moved but once.)
    #[inline]
    fn lease(
        &self,
        select: impl FnOnce(&mut Scheduler, Timestamp) -> Result<Reservation, Unavailable>,
    ) -> Result<Lease<T>, Unavailable> {
        let mut turn = self.handle.turn();
        let (state, now) = (&mut *turn.state, turn.now);
        let reserved = select(&mut state.scheduler, now);
        let slot = reserved.as_ref().ok().map(|reservation| reservation.ticket.slot);
        let member = slot.and_then(|slot| state.member(slot).cloned());
        state.serve(now);
        turn.end();
        reserved.map(|reservation| {
            let member = member.expect("every account of a pool was added with its payload");
            Lease::of(reservation, member)
        })
    }
}
