//! The same calls at the same times give the same answers and the same state; questions change
//! nothing.

#![allow(clippy::unwrap_used, reason = "a value that is not there is a failed test")]

use account_pool::config::{BindAt, BindingLimit, Degraded, Order, Refresh, Shard, Term, Ties};
use account_pool::{
    Account, AccountId, Affinity, BlockScope, Config, Dimension, Explanation, Grant, Lift, Millis,
    Outcome, Path, Plan, QuotaReading, QuotaWindow, Reason, Request, Reset, Scheduler, Scope,
    Status, Ticket, Tier, Timestamp, TrafficClass, Unavailable, Usage, Verdict, WaitTicket,
};

/// Splitmix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap()
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.index(of.len())]
    }

    fn percent(&mut self) -> f64 {
        f64::from(u32::try_from(self.below(101)).unwrap())
    }
}

const IDS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
const CALLERS: [&str; 6] = ["", "t1:x:1", "t1:x:2", "t2:y:1", "t2:y:2", "t3:z:1"];
const NAMES: [&str; 4] = ["", "opus", "haiku", "fast"];

/// A scheduler with what a host remembers of it.
#[derive(Clone)]
struct World {
    scheduler: Scheduler,
    now: Timestamp,
    tickets: Vec<Ticket>,
    waits: Vec<WaitTicket>,
    excluded: Vec<AccountId>,
}

impl World {
    fn new(config: &Config) -> Self {
        let scheduler = Scheduler::new(config.clone()).unwrap();
        let excluded = vec![AccountId::from("c")];
        let (tickets, waits) = (Vec::new(), Vec::new());
        Self { scheduler, now: Timestamp::from_millis(1_000), tickets, waits, excluded }
    }

    /// One operation; its answer as text.
    fn step(&mut self, random: &mut Random, configs: &[Config]) -> String {
        self.now = self.now.plus(Millis::new(match random.below(20) {
            0 => random.below(3_600_000),
            1..5 => random.below(30_000),
            5..10 => 0,
            _ => random.below(1_000),
        }));
        let now = self.now;
        let id = random.one(&IDS);
        match random.below(24) {
            0 => {
                let tier = Tier(u8::try_from(random.below(2)).unwrap());
                let account = Account::new(id).rpm(random.below(40)).tier(tier);
                format!("{:?}", self.scheduler.add(account, now))
            }
            1 if random.below(4) == 0 => format!("{}", self.scheduler.remove(id, now)),
            2 => {
                let plan = Plan::default()
                    .rpm(10 + random.below(40))
                    .tokens_per_minute(1_000)
                    .max_in_flight(1 + u32::try_from(random.below(4)).unwrap());
                format!("{:?}", self.scheduler.set_plan(id, &plan, now))
            }
            3 => {
                let status = random.one(&[Status::Active, Status::Active, Status::Disabled]);
                format!("{:?}", self.scheduler.set_status(id, status, now))
            }
            4 => {
                let (until, dimension) = (now.plus(Millis::from_secs(20)), Dimension::Operator);
                let scope = match random.below(3) {
                    0 => BlockScope::Account,
                    1 => BlockScope::Model("opus".to_owned()),
                    _ => BlockScope::Selector("haiku".to_owned()),
                };
                format!("{:?}", self.scheduler.block(id, &scope, dimension, until, now))
            }
            5 => format!("{:?}", self.scheduler.clear_blocks(id, None, now)),
            6 => {
                let reading = QuotaReading::at(now)
                    .window(QuotaWindow::new(random.percent()))
                    .window(QuotaWindow::new(random.percent()).rank_only());
                format!("{:?}", self.scheduler.observe_quota(id, &reading, now))
            }
            7 => {
                let request = request(random, &self.excluded);
                let outcome = outcome(random);
                format!("{:?}", self.scheduler.observe(id, &request, &outcome, now))
            }
            8 => {
                let request = request(random, &self.excluded);
                format!("{:?}", self.scheduler.bind(&request, id, now))
            }
            9 => {
                let request = request(random, &self.excluded);
                format!("{}", self.scheduler.unbind(&request, now))
            }
            10 if random.below(10) == 0 => {
                let config = configs[random.index(configs.len())].clone();
                format!("{:?}", self.scheduler.set_config(config, now))
            }
            11..17 => self.settle(random),
            _ => self.select(random),
        }
    }

    fn select(&mut self, random: &mut Random) -> String {
        let mut request = request(random, &self.excluded);
        if let Some(wait) = self.waits.pop() {
            request = request.after_wait(wait);
        }
        let preview = self.scheduler.preview(&request, self.now);
        let explained = self.scheduler.explain(&request, self.now);
        let answer = self.scheduler.select(&request, self.now);
        explains(&explained, &answer);
        match (&preview, &answer) {
            (Ok(preview), Ok(grant)) => {
                let foreseen = (&preview.account, preview.path, preview.tied);
                assert_eq!(foreseen, (&grant.account, grant.path, grant.tied));
                self.tickets.push(grant.ticket);
            }
            (Err(preview), Err(refusal)) => {
                assert_eq!(preview, refusal);
                self.waits.extend(refusal.wait().map(|wait| wait.ticket));
            }
            _ => panic!("foreseen was {preview:?}, came {answer:?}"),
        }
        format!("{answer:?}")
    }

    fn settle(&mut self, random: &mut Random) -> String {
        if self.tickets.is_empty() {
            return String::new();
        }
        let index = random.index(self.tickets.len());
        let (ticket, now) = (self.tickets[index], self.now);
        match random.below(8) {
            0 => return format!("{}", self.scheduler.touch(ticket, now)),
            1 => return format!("{}", self.scheduler.refund(ticket, now)),
            2 => return format!("{:?}", self.scheduler.report(ticket, &outcome(random), now)),
            3 => {}
            _ => {
                self.tickets.swap_remove(index);
            }
        }
        format!("{:?}", self.scheduler.settle(ticket, &outcome(random), now))
    }

    /// Every question there is, answered as text.
    fn questions(&self, random: &mut Random) -> String {
        let (it, now) = (&self.scheduler, self.now.plus(Millis::new(random.below(60_000))));
        let request = request(random, &self.excluded);
        let views: Vec<_> = IDS.iter().map(|id| it.inspect(id, now)).collect();
        let accounts: Vec<_> = it.accounts().collect();
        format!(
            "{:?} {:?} {views:?} {accounts:?} {:?} {} {} {} {:?}",
            it.preview(&request, now),
            it.peek(&request, now),
            it.next_deadline(now),
            it.in_flight(),
            it.drought(now),
            it.bindings(now),
            it.stats(),
        )
    }
}

fn request<'a>(random: &mut Random, excluded: &'a [AccountId]) -> Request<'a> {
    let affinities = [Affinity::Prefer, Affinity::Prefer, Affinity::Ignore, Affinity::Require];
    let classes = [TrafficClass::User, TrafficClass::User, TrafficClass::Background];
    let excluded = if random.below(4) == 0 { excluded } else { &[] };
    Request::new()
        .caller(random.one(&CALLERS))
        .model(random.one(&NAMES))
        .selector(if random.below(4) == 0 { "haiku" } else { "" })
        .cost(random.below(300))
        .affinity(random.one(&affinities))
        .class(random.one(&classes))
        .exclude(excluded)
}

fn outcome(random: &mut Random) -> Outcome {
    let scope = random.one(&[Scope::Account, Scope::Model, Scope::Selector]);
    let delay = Reset::After(Millis::new(random.below(120_000)));
    let reset = Some(delay).filter(|_| random.below(2) == 0);
    match random.below(20) {
        0 => Outcome::RateLimited { scope, reset },
        1 => Outcome::QuotaExhausted { scope, reset },
        2 => Outcome::Overloaded { scope, reset },
        3 => Outcome::Internal,
        4 => Outcome::AuthFailed,
        5 => Outcome::DeadToken,
        6 => Outcome::BanSignal,
        7..9 => Outcome::Network,
        9 => Outcome::Timeout,
        10 => Outcome::ClientFault,
        11 => Outcome::Cancelled,
        _ => Outcome::Success {
            usage: Usage::from_prompt_total(random.below(400), random.below(400), random.below(50)),
        },
    }
}

/// Policies that between them use every switch that a selection meets.
fn configs() -> Vec<Config> {
    let mut queueing = Config::default();
    queueing.sticky.queue_on_pin = Millis::from_secs(10);
    queueing.sticky.order = Order::HomeFirst;
    queueing.sticky.refresh = Refresh::OnLookup;
    queueing.rank.ties = Ties::Health { headroom_steps: 4, in_flight_slack: 1 };
    queueing.aliases.insert("fast".into(), "haiku".into());
    queueing.unmetered.insert("haiku".into());

    let mut pinned = Config::default();
    pinned.sticky.no_fallback = true;
    pinned.sticky.bind_by_caller_only = true;
    pinned.degraded = Degraded::Inferred;
    pinned.lease_timeout = Some(Millis::from_secs(50));

    let mut crowded = Config::default();
    crowded.sticky.capacity = 3;
    crowded.sticky.time_to_idle = Millis::from_secs(45);
    crowded.sticky.bind_at = BindAt::Select;
    crowded.sticky.binding_limit = Some(BindingLimit { callers: 1, refuse: true });
    crowded.sticky.drop_when_blocked = true;
    crowded.rank.terms = vec![Term::BoundCallers, Term::WeightedInFlight, Term::QuotaReset];
    crowded.rank.shard = Shard::Off;
    crowded.soft.rate_used_percent = Some(50.0);
    crowded.cooldown.jitter = Millis::from_secs(3);
    crowded.degraded = Degraded::Off;

    vec![Config::default(), Config::windsurf(), queueing, pinned, crowded]
}

const SEEDS: u64 = 12;
const STEPS: u32 = 400;

fn every_run(run: impl Fn(World, u64, &[Config])) {
    let configs = configs();
    for seed in 0..SEEDS {
        for config in &configs {
            run(World::new(config), seed, &configs);
        }
    }
}

#[test]
fn the_same_calls_give_the_same_answers_and_the_same_state() {
    every_run(|mut one, seed, configs| {
        let mut other = one.clone();
        let (mut random, mut again) = (Random(seed), Random(seed));
        for step in 0..STEPS {
            let answer = one.step(&mut random, configs);
            assert_eq!(other.step(&mut again, configs), answer, "seed {seed}, step {step}");
        }
        assert_eq!(one.scheduler, other.scheduler, "seed {seed}");
    });
}

#[test]
fn a_clone_goes_on_like_its_original() {
    every_run(|mut one, seed, configs| {
        let mut random = Random(seed);
        for _ in 0..STEPS / 2 {
            one.step(&mut random, configs);
        }
        let (mut other, mut again) = (one.clone(), Random(random.0));
        for step in 0..STEPS / 2 {
            let answer = one.step(&mut random, configs);
            assert_eq!(other.step(&mut again, configs), answer, "seed {seed}, step {step}");
        }
        assert_eq!(one.scheduler, other.scheduler, "seed {seed}");
    });
}

#[test]
fn questions_change_nothing() {
    every_run(|mut one, seed, configs| {
        let (mut random, mut curious) = (Random(seed), Random(!seed));
        for step in 0..STEPS {
            one.step(&mut random, configs);
            let before = one.scheduler.clone();
            let (mut first, mut second) = (Random(curious.next()), Random(0));
            second.0 = first.0;
            let answer = one.questions(&mut first);
            assert_eq!(one.questions(&mut second), answer, "seed {seed}, step {step}");
            assert_eq!(one.scheduler, before, "seed {seed}, step {step}");
        }
    });
}

#[test]
fn one_who_asks_and_one_who_does_not_end_alike() {
    every_run(|mut curious, seed, configs| {
        let mut quiet = curious.clone();
        let (mut random, mut again, mut whim) = (Random(seed), Random(seed), Random(!seed));
        for _ in 0..STEPS / 4 {
            curious.questions(&mut whim);
            curious.step(&mut random, configs);
            quiet.step(&mut again, configs);
        }
        assert_eq!(curious.scheduler, quiet.scheduler, "seed {seed}");
    });
}

#[test]
fn another_time_is_another_state() {
    let scheduler = |now: u64| {
        let mut scheduler = Scheduler::new(Config::default()).unwrap();
        scheduler.add(Account::new("a"), Timestamp::from_millis(now)).unwrap();
        scheduler
    };
    assert_eq!(scheduler(1), scheduler(1));
    assert_ne!(scheduler(1), scheduler(2), "equality sees the state, the time included");
}

#[test]
fn a_refusal_is_lifted_at_its_deadline_and_not_before() {
    every_run(|mut one, seed, configs| {
        let mut random = Random(seed);
        for step in 0..STEPS {
            one.step(&mut random, configs);
            let request = request(&mut random, &one.excluded);
            let Err(refusal) = one.scheduler.preview(&request, one.now) else {
                continue;
            };
            let Some(at) = refusal.retry_at().filter(|_| refusal.wait().is_none()) else {
                continue;
            };
            assert!(at > one.now, "seed {seed}, step {step}: {refusal}");
            let mut it = one.scheduler.clone();
            let answer = it.select(&request, at);
            assert!(answer.is_ok(), "seed {seed}, step {step}: {refusal}, then {answer:?}");
            // A silent lease that is freed and a binding that lapses are not foreseen.
            let tally = refusal.tally();
            if tally.count(Reason::InFlight) + tally.count(Reason::BindingLimit) > 0 {
                continue;
            }
            let just_before = Timestamp::from_millis(at.as_millis() - 1);
            let early = one.scheduler.preview(&request, just_before.max(one.now));
            assert!(early.is_err(), "seed {seed}, step {step}: {refusal}, early {early:?}");
        }
    });
}

/// An explanation tells the answer of the selection, and grounds that fit it.
fn explains(explained: &Explanation, answer: &Result<Grant, Unavailable>) {
    match (&explained.decision, answer) {
        (Verdict::Selected { account, path, tied }, Ok(grant)) => {
            assert_eq!((account, *path, *tied), (&grant.account, grant.path, grant.tied));
            let chosen = explained.accounts.iter().find(|it| it.account == *account).unwrap();
            match path {
                Path::Sticky => assert_eq!((chosen.trail, &chosen.rejection), (Some(0), &None)),
                Path::Warm => assert!(chosen.trail > Some(0) && chosen.rejection.is_none()),
                Path::Rank => assert!(chosen.tied && chosen.rejection.is_none()),
                Path::Degraded => assert_eq!(chosen.rejection.unwrap().firm, Lift::Free),
                _ => assert!(chosen.rejection.is_none()),
            }
        }
        (Verdict::Refused { reasons, retry_at, load_only, wait_for }, Err(refusal)) => {
            assert_eq!(*reasons, refusal.tally().iter().collect::<Vec<_>>());
            assert_eq!((*retry_at, *load_only), (refusal.retry_at(), refusal.is_load_only()));
            assert_eq!(wait_for.as_ref(), refusal.wait().map(|wait| &wait.account));
        }
        (explained, answer) => panic!("explained as {explained:?}, came {answer:?}"),
    }
}
