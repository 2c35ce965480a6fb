//! Events that concern the whole pool, or look as if they did.

use account_pool::config::{Term, Ties};
use account_pool::{
    Caller, Config, Dimension, Entitlement, Millis, Outcome, Request, Scheduler, Timestamp,
};

use crate::workload::Workload;
use crate::workload::pace::START;
use crate::workload::setup::{account, block_until, fill_a_minute, id, populated, prepared};

/// Something that happens once.
pub(crate) struct Event {
    pub(crate) name: &'static str,
    /// The state before it.
    pub(crate) prepare: fn(usize) -> Before,
    /// The event itself.
    pub(crate) call: fn(&mut Before),
}

/// A state in which an event is due. Not a clone of another: clones have no room to grow into.
pub(crate) struct Before {
    scheduler: Scheduler,
    accounts: usize,
    now: Timestamp,
}

pub(crate) const EVENTS: &[Event] = &[
    Event { name: "all accounts recover at one instant", prepare: blocked, call: recover },
    Event { name: "all windows empty at one instant", prepare: used, call: minute_later },
    Event { name: "all leases are reaped at one instant", prepare: leased, call: silence_later },
    Event { name: "all bindings lapse at one instant", prepare: one_tenant, call: idle_later },
    Event { name: "add the last account", prepare: one_short, call: add },
    Event { name: "add one more, whereupon tables grow", prepare: used, call: add },
    Event { name: "remove an account", prepare: used, call: remove },
    Event { name: "a model never seen before", prepare: used, call: new_model },
    Event { name: "a model some accounts serve, asked first", prepare: entitled, call: new_class },
    Event { name: "set_config, the same again", prepare: used, call: same_config },
    Event { name: "set_config, other cooldowns", prepare: used, call: other_cooldowns },
    Event { name: "set_config, another rank", prepare: used, call: other_rank },
    Event { name: "set_config, a rank by other terms", prepare: used, call: other_terms },
    Event { name: "set_config, other ties", prepare: used, call: other_ties },
    Event { name: "set_config, another measure of health", prepare: used, call: other_health },
    Event { name: "prepare_config, 1 024 accounts of many", prepare: half, call: prepare_some },
    Event { name: "prepare_config, the call that joins", prepare: learnt, call: prepare_some },
    Event { name: "set_config, prepared", prepare: ready, call: other_health },
    Event { name: "a full table evicts, one tenant", prepare: one_tenant, call: bind_another },
    Event { name: "a full table evicts, the worst mix", prepare: equals, call: bind_another },
];

impl Before {
    /// The scheduler after a minute of steady load, or another one at its start.
    fn new((scheduler, now): (Scheduler, Timestamp), accounts: usize) -> Self {
        Self { scheduler, accounts, now }
    }

    /// An anonymous selection, with its end.
    pub(crate) fn next(&mut self) {
        self.serve(&Request::new().model("opus"));
    }

    fn serve(&mut self, request: &Request<'_>) {
        let grant = self.scheduler.select(request, self.now).unwrap();
        self.scheduler.settle(grant.ticket, &Outcome::success(), self.now);
    }

    fn later(&mut self, span: Millis) {
        self.now = self.now.plus(span);
    }
}

fn used(accounts: usize) -> Before {
    Before::new(prepared(Workload::Steady, accounts), accounts)
}

const RECOVERY: Timestamp = Timestamp::from_millis(START.as_millis() + 600_000);

fn blocked(accounts: usize) -> Before {
    let mut before = used(accounts);
    for index in 0..accounts {
        block_until(&mut before.scheduler, index, Dimension::Quota, RECOVERY);
    }
    // Clients keep asking; what a long silence costs is an event of its own.
    for now in [before.now, RECOVERY.minus(Millis::new(1))] {
        assert!(before.scheduler.select(&Request::new(), now).is_err());
    }
    before
}

fn recover(before: &mut Before) {
    before.now = RECOVERY;
    before.next();
}

fn minute_later(before: &mut Before) {
    before.later(Millis::from_mins(2));
    before.next();
}

fn leased(accounts: usize) -> Before {
    let mut before = used(accounts);
    for index in 0..accounts {
        let request = Request::new().model("opus");
        before.scheduler.select_account(&id(index), &request, before.now).unwrap();
    }
    before
}

fn silence_later(before: &mut Before) {
    before.later(Millis::from_mins(15));
    before.next();
    assert_eq!(before.scheduler.in_flight(), 0);
}

fn one_short(accounts: usize) -> Before {
    let mut scheduler = populated(Config::default(), (0..accounts - 1).map(account));
    let now = fill_a_minute(&mut scheduler, accounts - 1);
    Before::new((scheduler, now), accounts - 1)
}

fn add(before: &mut Before) {
    before.scheduler.add(account(before.accounts), before.now).unwrap();
}

fn remove(before: &mut Before) {
    assert!(before.scheduler.remove(&id(before.accounts / 2), before.now));
}

fn new_model(before: &mut Before) {
    before.serve(&Request::new().model("never seen before"));
}

fn entitled(accounts: usize) -> Before {
    let mut before = used(accounts);
    let only = Entitlement::only(["opus", "rare"]);
    for index in (0..accounts).step_by(2) {
        before.scheduler.set_models(&id(index), &only, before.now).unwrap();
    }
    before.next();
    before
}

fn new_class(before: &mut Before) {
    before.serve(&Request::new().model("rare"));
}

fn same_config(before: &mut Before) {
    let config = before.scheduler.config().clone();
    before.scheduler.set_config(config, before.now).unwrap();
}

fn other_cooldowns(before: &mut Before) {
    let mut config = before.scheduler.config().clone();
    config.cooldown.floor = Millis::from_secs(7);
    before.scheduler.set_config(config, before.now).unwrap();
}

fn rank_by(before: &mut Before, terms: &[Term], ties: Ties) {
    let mut config = before.scheduler.config().clone();
    config.rank.terms = terms.to_vec();
    config.rank.ties = ties;
    before.scheduler.set_config(config, before.now).unwrap();
}

/// Terms that the order had before.
fn other_rank(before: &mut Before) {
    rank_by(before, &[Term::Quota, Term::InFlight, Term::Recency], Ties::Exact);
}

/// Terms that it had not.
fn other_terms(before: &mut Before) {
    let terms = [Term::QuotaReset, Term::BoundCallers, Term::WeightedInFlight, Term::Recency];
    rank_by(before, &terms, Ties::Exact);
}

/// The same terms, of which two are weighed otherwise.
fn other_ties(before: &mut Before) {
    let terms = before.scheduler.config().rank.terms.clone();
    rank_by(before, &terms, Ties::Health { headroom_steps: 4, in_flight_slack: 1 });
}

/// What eligibility and rank rest on.
fn another_health(before: &Before) -> Config {
    let mut config = before.scheduler.config().clone();
    config.health.bucket += 1;
    config
}

fn other_health(before: &mut Before) {
    before.scheduler.set_config(another_health(before), before.now).unwrap();
}

fn prepare_health(before: &mut Before, accounts: usize) -> bool {
    let config = another_health(before);
    before.scheduler.prepare_config(&config, accounts, before.now).unwrap()
}

fn half(accounts: usize) -> Before {
    let mut before = used(accounts);
    prepare_health(&mut before, accounts / 2);
    before
}

fn learnt(accounts: usize) -> Before {
    let mut before = used(accounts);
    assert!(!prepare_health(&mut before, accounts), "joining is a call of its own");
    before
}

fn prepare_some(before: &mut Before) {
    prepare_health(before, 1_024);
}

fn ready(accounts: usize) -> Before {
    let mut before = used(accounts);
    while !prepare_health(&mut before, 1_024) {}
    before
}

fn bind(before: &mut Before, tenant: usize, number: usize) {
    let caller = Caller::new(&format!("tenant:{tenant}:{number}")).unwrap();
    let request = Request::new().digested(caller).model("opus");
    let account = id(number % before.accounts);
    let grant = before.scheduler.select_account(&account, &request, before.now).unwrap();
    before.scheduler.settle(grant.ticket, &Outcome::success(), before.now);
}

/// A minute in which the windows of a small pool are empty again.
fn fresh(accounts: usize) -> (Before, usize) {
    let mut before = used(accounts);
    let capacity = before.scheduler.config().sticky.capacity.min(20 * accounts);
    let mut config = before.scheduler.config().clone();
    config.sticky.capacity = capacity;
    before.scheduler.set_config(config, before.now).unwrap();
    before.later(Millis::from_mins(2));
    (before, capacity)
}

fn one_tenant(accounts: usize) -> Before {
    let (mut before, capacity) = fresh(accounts);
    for number in 0..capacity {
        bind(&mut before, 0, number);
    }
    before
}

fn idle_later(before: &mut Before) {
    before.later(before.scheduler.config().sticky.time_to_idle);
    before.next();
    assert_eq!(before.scheduler.bindings(before.now), 0);
}

/// Tenants with a binding each, all of which were used again since.
fn equals(accounts: usize) -> Before {
    let (mut before, capacity) = fresh(accounts);
    for number in (0..capacity).chain(0..capacity) {
        bind(&mut before, 1 + number, number);
    }
    before
}

fn bind_another(before: &mut Before) {
    let evictions = before.scheduler.stats().sticky.evictions;
    before.serve(&Request::new().caller("tenant:0:another").model("opus"));
    assert_eq!(before.scheduler.stats().sticky.evictions, evictions + 1);
}
