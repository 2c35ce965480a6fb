//! Random operations on a scheduler, the same for the same seed.

use account_pool::config::{BindAt, BindingLimit, Order, Refresh};
use account_pool::{
    Account, AccountId, Affinity, BlockScope, Caller, Config, Dimension, Entitlement, Millis,
    Outcome, Plan, QuotaReading, QuotaWindow, Request, Reset, Scheduler, Scope, Status, Ticket,
    Tier, Timestamp, TrafficClass, Unavailable, Usage, WaitTicket,
};

/// Random numbers: splitmix64 (Steele, Lea, Flood 2014).
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[usize::try_from(self.below(from.len() as u64)).unwrap()]
    }
}

const IDS: [&str; 7] = ["a", "b", "c", "d", "e", "f", "g"];
const MODELS: [&str; 5] = ["opus", "sonnet", "haiku", "big", "made-up"];
const SELECTORS: [&str; 3] = ["eu", "us", "mars"];
const CALLERS: [&str; 9] = [
    "api:1:u:1",
    "api:1:u:2",
    "api:1:u:3",
    "api:2:u:1",
    "api:2:u:2",
    "x:y:z",
    "solo",
    "q:r",
    "api:3:u:9",
];

/// A configuration; together they switch everything on at some time.
pub(crate) fn config(seed: u64) -> Config {
    let mut config = if seed % 7 == 6 { Config::windsurf() } else { Config::default() };
    let sticky = &mut config.sticky;
    match seed % 7 {
        1 => (sticky.trail, sticky.drop_when_blocked) = (1, true),
        2 => (sticky.order, sticky.bind_at) = (Order::HomeFirst, BindAt::Select),
        3 => (sticky.no_fallback, sticky.bind_by_caller_only) = (true, true),
        4 => {
            sticky.queue_on_pin = Millis::from_secs(20);
            sticky.refresh = Refresh::OnLookup;
            sticky.binding_limit =
                Some(BindingLimit { callers: 3, refuse: seed.is_multiple_of(2) });
        }
        5 => (sticky.capacity, sticky.time_to_idle) = (5, Millis::from_secs(90)),
        _ => {}
    }
    config.aliases.insert("big".into(), "opus".into());
    config.unmetered.insert("haiku".into());
    config.baseline_jitter = seed % 3;
    config.cooldown.jitter = Millis::new(seed % 2 * 700);
    if seed % 2 == 1 {
        config.breaker.threshold = Some(1);
        config.breaker.recovery = Millis::from_secs(20);
    }
    config.lease_timeout = Some(Millis::from_mins(3));
    config
}

/// A scheduler with the tickets that it gave.
#[derive(Clone, Debug)]
pub(crate) struct Driver {
    pub(crate) scheduler: Scheduler,
    pub(crate) tickets: Vec<Ticket>,
    pub(crate) waits: Vec<WaitTicket>,
}

impl Driver {
    pub(crate) fn new(scheduler: Scheduler) -> Self {
        Self { scheduler, tickets: Vec::new(), waits: Vec::new() }
    }

    /// Ends all that is under way.
    pub(crate) fn finish(&mut self, now: Timestamp) {
        for &ticket in &self.tickets {
            self.scheduler.cancel(ticket, now);
        }
        for &wait in &self.waits {
            self.scheduler.give_up(wait);
        }
        assert_eq!(self.scheduler.in_flight(), 0);
    }

    /// One random operation; drivers in the same state with the same numbers do and answer the
    /// same.
    pub(crate) fn step(&mut self, random: &mut Random, now: Timestamp) -> String {
        let id = random.pick(&IDS);
        match random.below(40) {
            0..=11 => self.select(random, now),
            12 => {
                let request = request(random, &[], None);
                let answer = self.scheduler.select_account(id, &request, now);
                self.note(answer)
            }
            13..=20 => {
                let (ticket, outcome) = (self.ticket(random), outcome(random, now));
                let Some(ticket) = ticket else { return String::new() };
                let scheduler = &mut self.scheduler;
                match random.below(12) {
                    0 => format!("{:?}", scheduler.report(ticket, &outcome, now)),
                    1 => format!("{:?}", scheduler.abandon(ticket, now)),
                    2 => format!("{:?}", scheduler.refund(ticket, now)),
                    3 => format!("{:?}", scheduler.touch(ticket, now)),
                    4 => format!("{:?}", scheduler.cancel(ticket, now)),
                    _ => format!("{:?}", scheduler.settle(ticket, &outcome, now)),
                }
            }
            21 | 22 => {
                let (request, outcome) = (request(random, &[], None), outcome(random, now));
                format!("{:?}", self.scheduler.observe(id, &request, &outcome, now))
            }
            23 => {
                let reading = reading(random, now);
                format!("{:?}", self.scheduler.observe_quota(id, &reading, now))
            }
            24 => format!("{:?}", self.waits.pop().map(|wait| self.scheduler.give_up(wait))),
            25..=27 => format!("{:?}", self.scheduler.add(account(id, random), now)),
            28 if random.chance(40) => format!("{:?}", self.scheduler.remove(id, now)),
            29 => format!("{:?}", self.scheduler.set_plan(id, &plan(random), now)),
            30 => {
                let models = entitlement(random, &MODELS);
                format!("{:?}", self.scheduler.set_models(id, &models, now))
            }
            31 => {
                let status = match random.below(8) {
                    0 => Status::Disabled,
                    1 => Status::Banned,
                    2 => Status::Error,
                    _ => Status::Active,
                };
                format!("{:?}", self.scheduler.set_status(id, status, now))
            }
            32 => {
                let draining = random.chance(20);
                format!("{:?}", self.scheduler.set_draining(id, draining, now))
            }
            33 => {
                let scope = scope(random);
                let until = now.plus(Millis::new(random.below(60_000)));
                let kind = dimension(random);
                format!("{:?}", self.scheduler.block(id, &scope, kind, until, now))
            }
            34 => {
                let kind = Some(dimension(random)).filter(|_| random.chance(80));
                format!("{:?}", self.scheduler.clear_blocks(id, kind, now))
            }
            35 => {
                let generation = random.below(30);
                format!("{:?}", self.scheduler.clear_block(id, generation, now))
            }
            36 => {
                let request = request(random, &[], None);
                format!("{:?}", self.scheduler.bind(&request, id, now))
            }
            37 => {
                let request = request(random, &[], None);
                format!("{:?}", self.scheduler.unbind(&request, now))
            }
            38 if random.chance(30) => {
                let caller = Caller::new(random.pick(&CALLERS)).unwrap();
                format!("{:?}", self.scheduler.unbind_caller(caller, now))
            }
            39 if random.chance(30) => {
                format!("{:?}", self.scheduler.unbind_account(id, now))
            }
            _ => format!("{:?}", self.scheduler.reap(Millis::from_mins(2), now)),
        }
    }

    fn select(&mut self, random: &mut Random, now: Timestamp) -> String {
        let excluded = [AccountId::from(random.pick(&IDS))];
        let excluded = if random.chance(10) { &excluded[..] } else { &[] };
        let waited = self.waits.last().copied().filter(|_| random.chance(40));
        let request = request(random, excluded, waited);
        let answer = self.scheduler.select(&request, now);
        self.note(answer)
    }

    fn note(&mut self, answer: Result<account_pool::Grant, Unavailable>) -> String {
        match answer {
            Ok(grant) => {
                self.tickets.push(grant.ticket);
                let (number, path) = (grant.ticket.sequence(), grant.path);
                format!("{} {path:?} {number} of {}", grant.account, grant.tied)
            }
            Err(refusal) => {
                self.waits.extend(refusal.wait().map(|wait| wait.ticket));
                format!("{refusal:?}")
            }
        }
    }

    fn ticket(&self, random: &mut Random) -> Option<Ticket> {
        let recent = random.below(12.min(self.tickets.len() as u64));
        let index = self.tickets.len().checked_sub(1 + usize::try_from(recent).unwrap())?;
        Some(self.tickets[index])
    }
}

/// The next instant: often the same, seldom much later.
pub(crate) fn later(now: Timestamp, random: &mut Random) -> Timestamp {
    let span = match random.below(40) {
        0..=9 => 0,
        10..=34 => random.below(3_000),
        35..=38 => random.below(40_000),
        _ => random.below(1_500_000),
    };
    now.plus(Millis::new(span))
}

pub(crate) fn request<'a>(
    random: &mut Random,
    excluded: &'a [AccountId],
    waited: Option<WaitTicket>,
) -> Request<'a> {
    let mut request = Request::new().exclude(excluded);
    if random.chance(85) {
        request = request.caller(random.pick(&CALLERS));
    }
    if random.chance(80) {
        request = request.model(random.pick(&MODELS));
    }
    if random.chance(15) {
        request = request.selector(random.pick(&SELECTORS));
    }
    if random.chance(20) {
        request = request.cost(random.below(900));
    }
    request = match random.below(20) {
        0 => request.affinity(Affinity::Ignore),
        1 => request.affinity(Affinity::Require),
        2 => request.class(TrafficClass::Background),
        _ => request,
    };
    match waited {
        Some(wait) => request.after_wait(wait),
        None => request,
    }
}

pub(crate) fn outcome(random: &mut Random, now: Timestamp) -> Outcome {
    let reset = match random.below(4) {
        0 => None,
        1 => Some(Reset::At(now.plus(Millis::new(random.below(200_000))))),
        2 => Some(Reset::After(Millis::new(random.below(3_000_000)))),
        _ => Some(Reset::After(Millis::new(random.below(20_000)))),
    };
    let scope = match random.below(4) {
        0 => Scope::Account,
        1 => Scope::Selector,
        _ => Scope::Model,
    };
    match random.below(30) {
        0..=2 => Outcome::RateLimited { scope, reset },
        3 => Outcome::QuotaExhausted { scope, reset },
        4 => Outcome::Overloaded { scope, reset },
        5 | 6 => Outcome::Internal,
        7 => Outcome::AuthFailed,
        8 if random.chance(30) => Outcome::DeadToken,
        9 if random.chance(30) => Outcome::BanSignal,
        10 | 11 => Outcome::Network,
        12 => Outcome::Timeout,
        13 => Outcome::ClientFault,
        14 => Outcome::Cancelled,
        _ => {
            let mut usage = Usage::from_prompt_total(random.below(5_000), random.below(4_000), 70);
            usage.cost_micros = random.below(100);
            Outcome::Success { usage }
        }
    }
}

pub(crate) fn reading(random: &mut Random, now: Timestamp) -> QuotaReading {
    let taken = now.as_millis().saturating_sub(random.below(5_000));
    let mut reading = QuotaReading::at(Timestamp::from_millis(taken));
    for _ in 0..random.below(5) {
        #[expect(clippy::cast_precision_loss, reason = "below a thousand")]
        let mut window = QuotaWindow::new(random.below(1_000) as f64 / 10.0);
        if random.chance(50) {
            window = window.reset(now.plus(Millis::new(random.below(400_000))));
        }
        if random.chance(30) {
            window = window.rank_only();
        }
        if random.chance(10) {
            window.remaining = Some(0.0);
        }
        reading = reading.window(window);
    }
    if random.chance(20) { reading.balance(f64::NAN) } else { reading.balance(12.5) }
}

pub(crate) fn plan(random: &mut Random) -> Plan {
    let mut plan = Plan::default().tier(Tier(u8::try_from(random.below(2)).unwrap()));
    if random.chance(70) {
        plan = plan.rpm(2 + random.below(20));
    }
    if random.chance(20) {
        plan = plan.window(1 + random.below(4), Millis::from_secs(10));
    }
    if random.chance(30) {
        plan = plan.tokens_per_minute(2_000 + random.below(9_000));
    }
    if random.chance(30) {
        plan = plan.max_in_flight(u32::try_from(random.below(5)).unwrap());
    }
    #[expect(clippy::cast_precision_loss, reason = "small")]
    let weight = 0.25 + random.below(40) as f64 / 7.0;
    plan.weight(weight).fallback_only(random.chance(10))
}

pub(crate) fn entitlement(random: &mut Random, names: &[&str]) -> Entitlement {
    match random.below(5) {
        0 => Entitlement::only([random.pick(names), random.pick(names)]),
        1 => Entitlement::all_but([random.pick(names)]),
        _ => Entitlement::Any,
    }
}

pub(crate) fn account(id: &str, random: &mut Random) -> Account {
    let mut account = Account::new(id).plan(plan(random)).models(entitlement(random, &MODELS));
    if random.chance(20) {
        account = account.selectors(entitlement(random, &SELECTORS));
    }
    if random.chance(20) { account.blocked_models([random.pick(&MODELS)]) } else { account }
}

fn scope(random: &mut Random) -> BlockScope {
    match random.below(3) {
        0 => BlockScope::Account,
        1 => BlockScope::Model(random.pick(&MODELS).to_owned()),
        _ => BlockScope::Selector(random.pick(&SELECTORS).to_owned()),
    }
}

fn dimension(random: &mut Random) -> Dimension {
    const ALL: [&Dimension; 7] = [
        &Dimension::Throttle,
        &Dimension::Quota,
        &Dimension::Auth,
        &Dimension::Overload,
        &Dimension::Quarantine,
        &Dimension::Breaker,
        &Dimension::Operator,
    ];
    *random.pick(&ALL)
}
