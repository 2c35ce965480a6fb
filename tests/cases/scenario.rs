//! Timelines that read like the cases: `pick`, `turn`, `ok`, `fail`, `block` at given milliseconds.

use account_pool::config::{Backoff, Degraded, Order, Shard, Term};
use account_pool::{
    Account, AccountId, AccountView, Affinity, BlockScope, Config, Dimension, Grant, Millis,
    Outcome, QuotaReading, QuotaWindow, Request, Reset, Scheduler, Scope, Status, Ticket,
    TrafficClass, Unavailable, Usage, WaitTicket,
};

/// The instant at `millis`.
pub(crate) fn at(millis: u64) -> account_pool::Timestamp {
    account_pool::Timestamp::from_millis(millis)
}

/// The span of `millis`.
pub(crate) fn ms(millis: u64) -> Millis {
    Millis::new(millis)
}

/// The defaults under which the cases are stated.
pub(crate) fn conventions() -> Config {
    let fixed = |base, cap| Backoff { base, factor: 1.0, cap };
    let mut config = Config::default();

    config.sticky.time_to_idle = ms(600_000);
    config.sticky.cache_lifetime = ms(600_000);
    config.sticky.order = Order::HomeFirst;

    config.rank.terms = vec![
        Term::ModelCooldown,
        Term::Tier,
        Term::InFlight,
        Term::Trouble,
        Term::Quota,
        Term::Headroom,
        Term::Recency,
    ];
    config.rank.shard = Shard::Off;
    config.quota.bucket_points = 10;

    config.cooldown.floor = ms(1_000);
    config.cooldown.jitter = Millis::ZERO;
    config.cooldown.throttle = fixed(ms(60_000), ms(900_000));
    config.cooldown.quota = fixed(Millis::from_mins(30), Millis::from_days(40));
    config.cooldown.auth = fixed(ms(60_000), ms(900_000));
    config.cooldown.overload = fixed(ms(10_000), ms(900_000));

    config.health.window = ms(30_000);
    config.health.bucket = 3;
    config.health.throttle = 3;
    config.health.error = 3;
    config.health.dead = 3;
    config.health.capacity = 0;

    config.breaker.threshold = None;
    config.breaker.internal_threshold = None;
    config.breaker.ban_threshold = None;
    config.breaker.escalation = None;
    config.breaker.recovery = ms(30_000);
    config.breaker.probe_timeout = ms(30_000);

    config.degraded = Degraded::Off;
    config.last_usable_exempt = false;
    config.lease_timeout = None;
    config.new_account_baseline = false;
    config
}

/// A request in the words of the cases.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ask {
    caller: String,
    tenant: Option<String>,
    model: String,
    selector: String,
    excluded: Vec<AccountId>,
    cost: u64,
    affinity: Affinity,
    class: TrafficClass,
    waited: Option<WaitTicket>,
}

/// A request without a caller.
pub(crate) fn anyone() -> Ask {
    Ask::default()
}

/// A request of a caller.
pub(crate) fn by(caller: &str) -> Ask {
    Ask { caller: caller.to_owned(), ..Ask::default() }
}

impl Ask {
    pub(crate) fn on(mut self, model: &str) -> Self {
        model.clone_into(&mut self.model);
        self
    }

    pub(crate) fn via(mut self, selector: &str) -> Self {
        selector.clone_into(&mut self.selector);
        self
    }

    pub(crate) fn of(mut self, tenant: &str) -> Self {
        self.tenant = Some(tenant.to_owned());
        self
    }

    pub(crate) fn without(mut self, accounts: &[&str]) -> Self {
        self.excluded = accounts.iter().map(|&id| AccountId::from(id)).collect();
        self
    }

    pub(crate) fn costing(mut self, tokens: u64) -> Self {
        self.cost = tokens;
        self
    }

    pub(crate) fn insisting(mut self, affinity: Affinity) -> Self {
        self.affinity = affinity;
        self
    }

    pub(crate) fn in_background(mut self) -> Self {
        self.class = TrafficClass::Background;
        self
    }

    pub(crate) fn after_wait(mut self, wait: WaitTicket) -> Self {
        self.waited = Some(wait);
        self
    }

    pub(crate) fn request(&self) -> Request<'_> {
        let mut request = Request::new()
            .caller(&self.caller)
            .model(&self.model)
            .selector(&self.selector)
            .exclude(&self.excluded)
            .cost(self.cost)
            .affinity(self.affinity)
            .class(self.class);
        if let Some(tenant) = &self.tenant {
            request = request.tenant(tenant);
        }
        match self.waited {
            Some(wait) => request.after_wait(wait),
            None => request,
        }
    }
}

/// A lease in flight.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) account: String,
    pub(crate) ticket: Ticket,
    pub(crate) grant: Grant,
}

/// A scheduler with a timeline.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) scheduler: Scheduler,
}

impl Scenario {
    /// Unlimited accounts under the conventions, added at 0.
    pub(crate) fn new(accounts: &[&str]) -> Self {
        Self::with(conventions(), accounts)
    }

    /// Unlimited accounts under another configuration.
    pub(crate) fn with(config: Config, accounts: &[&str]) -> Self {
        Self::of(config, accounts.iter().map(|&id| Account::new(id)))
    }

    /// Given accounts under a configuration.
    pub(crate) fn of(config: Config, accounts: impl IntoIterator<Item = Account>) -> Self {
        let mut scheduler = Scheduler::new(config).unwrap();
        for account in accounts {
            scheduler.add(account, at(0)).unwrap();
        }
        Self { scheduler }
    }

    /// Selects; the lease stays in flight.
    pub(crate) fn pick(&mut self, t: u64, ask: &Ask) -> Result<Held, Unavailable> {
        let grant = self.scheduler.select(&ask.request(), at(t))?;
        Ok(Held { account: grant.account.to_string(), ticket: grant.ticket, grant })
    }

    /// Selects, and panics on a refusal.
    pub(crate) fn hold(&mut self, t: u64, ask: &Ask) -> Held {
        self.pick(t, ask).unwrap_or_else(|refusal| panic!("at {t}: {refusal}"))
    }

    /// Selects that very account, and panics on a refusal.
    pub(crate) fn hold_on(&mut self, t: u64, account: &str, ask: &Ask) -> Held {
        let grant = self.scheduler.select_account(account, &ask.request(), at(t));
        let grant = grant.unwrap_or_else(|refusal| panic!("at {t}: {refusal}"));
        Held { account: grant.account.to_string(), ticket: grant.ticket, grant }
    }

    /// A selection and its success 1 ms later; the account that served.
    pub(crate) fn turn(&mut self, t: u64, ask: &Ask) -> String {
        let held = self.hold(t, ask);
        self.ok(&held, t + 1);
        held.account
    }

    /// The accounts of several turns.
    pub(crate) fn turns(&mut self, times: &[u64], ask: &Ask) -> Vec<String> {
        times.iter().map(|&t| self.turn(t, ask)).collect()
    }

    /// The refusal of a selection, and panics on a lease.
    pub(crate) fn refused(&mut self, t: u64, ask: &Ask) -> Unavailable {
        match self.pick(t, ask) {
            Err(refusal) => refusal,
            Ok(held) => panic!("at {t}: {} was selected", held.account),
        }
    }

    /// The `retry_after` of a refusal, in milliseconds.
    pub(crate) fn retry_after(&mut self, t: u64, ask: &Ask) -> Option<u64> {
        self.refused(t, ask).retry_after().map(Millis::as_millis)
    }

    pub(crate) fn ok(&mut self, held: &Held, t: u64) {
        self.scheduler.settle(held.ticket, &Outcome::success(), at(t));
    }

    pub(crate) fn ok_using(&mut self, held: &Held, t: u64, usage: Usage) {
        self.scheduler.settle(held.ticket, &Outcome::Success { usage }, at(t));
    }

    pub(crate) fn fail(&mut self, held: &Held, t: u64, outcome: Outcome) {
        self.scheduler.settle(held.ticket, &outcome, at(t));
    }

    pub(crate) fn cancel(&mut self, held: &Held, t: u64) {
        self.scheduler.cancel(held.ticket, at(t));
    }

    pub(crate) fn abandon(&mut self, held: &Held, t: u64) {
        self.scheduler.abandon(held.ticket, at(t));
    }

    pub(crate) fn touch(&mut self, held: &Held, t: u64) -> bool {
        self.scheduler.touch(held.ticket, at(t))
    }

    /// A cooldown of the whole account that some other request created.
    pub(crate) fn block(&mut self, t: u64, account: &str, until: u64) {
        self.block_on(t, account, &BlockScope::Account, until);
    }

    /// A cooldown of one model on the account that some other request created.
    pub(crate) fn block_model(&mut self, t: u64, account: &str, model: &str, until: u64) {
        self.block_on(t, account, &BlockScope::Model(model.to_owned()), until);
    }

    fn block_on(&mut self, t: u64, account: &str, scope: &BlockScope, until: u64) {
        let throttle = Dimension::Throttle;
        self.scheduler.block(account, scope, throttle, at(until), at(t)).unwrap();
    }

    /// A quota reading taken now.
    pub(crate) fn quota(&mut self, t: u64, account: &str, remaining: f64, reset: Option<u64>) {
        self.quota_read_at(t, t, account, remaining, reset);
    }

    /// A quota reading that arrives at `t` and was taken at `observed_at`.
    pub(crate) fn quota_read_at(
        &mut self,
        t: u64,
        observed_at: u64,
        account: &str,
        remaining: f64,
        reset: Option<u64>,
    ) {
        let window = QuotaWindow::new(remaining);
        let window = reset.into_iter().fold(window, |window, reset| window.reset(at(reset)));
        let reading = QuotaReading::at(at(observed_at)).window(window);
        self.scheduler.observe_quota(account, &reading, at(t)).unwrap();
    }

    pub(crate) fn set_status(&mut self, t: u64, account: &str, status: Status) {
        self.scheduler.set_status(account, status, at(t)).unwrap();
    }

    pub(crate) fn add(&mut self, t: u64, account: Account) {
        self.scheduler.add(account, at(t)).unwrap();
    }

    pub(crate) fn remove(&mut self, t: u64, account: &str) {
        assert!(self.scheduler.remove(account, at(t)), "{account} is in the pool");
    }

    /// All that is known about an account.
    pub(crate) fn inspect(&self, t: u64, account: &str) -> AccountView {
        self.scheduler.inspect(account, at(t)).unwrap()
    }

    /// The account that is tried first for a caller, if it is bound.
    pub(crate) fn bound_to(&self, t: u64, ask: &Ask) -> Option<String> {
        self.scheduler.peek(&ask.request(), at(t)).map(|view| view.trail[0].to_string())
    }

    /// An outcome without a lease, of a request like `ask`.
    pub(crate) fn observe(&mut self, t: u64, account: &str, ask: &Ask, outcome: Outcome) {
        self.scheduler.observe(account, &ask.request(), &outcome, at(t)).unwrap();
    }

    /// `count` network errors in a row.
    pub(crate) fn errors(&mut self, t: u64, account: &str, count: usize) {
        for _ in 0..count {
            self.observe(t, account, &anyone(), Outcome::Network);
        }
    }

    /// Tries that very account; the lease stays in flight.
    pub(crate) fn pick_on(
        &mut self,
        t: u64,
        account: &str,
        ask: &Ask,
    ) -> Result<Held, Unavailable> {
        let grant = self.scheduler.select_account(account, &ask.request(), at(t))?;
        Ok(Held { account: grant.account.to_string(), ticket: grant.ticket, grant })
    }

    /// An outcome that is known before the lease ends.
    pub(crate) fn report(&mut self, held: &Held, t: u64, outcome: &Outcome) {
        self.scheduler.report(held.ticket, outcome, at(t));
    }

    /// A cooldown of one selector on the account that some other request created.
    pub(crate) fn block_selector(&mut self, t: u64, account: &str, selector: &str, until: u64) {
        self.block_on(t, account, &BlockScope::Selector(selector.to_owned()), until);
    }
}

/// A throttle of the account, with a hint in milliseconds.
pub(crate) fn throttled_for(hint: u64) -> Outcome {
    Outcome::rate_limited(Some(Reset::After(ms(hint))))
}

/// A throttle of the account without a hint.
pub(crate) fn throttled() -> Outcome {
    Outcome::rate_limited(None)
}

/// A throttle of the request's model, with a hint in milliseconds.
pub(crate) fn model_throttled_for(hint: u64) -> Outcome {
    Outcome::RateLimited { scope: Scope::Model, reset: Some(Reset::After(ms(hint))) }
}

/// A spent quota of the account that is renewed at an instant.
pub(crate) fn exhausted_until(reset: u64) -> Outcome {
    Outcome::quota_exhausted(Some(Reset::At(at(reset))))
}
