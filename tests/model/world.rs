//! The scheduler and the model side by side.

use std::collections::BTreeMap;

use account_pool::{
    AccountId, BreakerView, Caller, Config, Millis, Outcome, Request, Scheduler, Ticket, Timestamp,
    Unavailable, WaitTicket,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::facts::{Ask, Claim, Place, Target};
use crate::naive::{Declared, Granted, Model};
use crate::ops::{AskSpec, Op, Policy, Step, account_id, caller_key};
use crate::rules::{Refusal, used};

pub(crate) struct World {
    pub(crate) scheduler: Scheduler,
    pub(crate) model: Model,
    pub(crate) clock: Timestamp,
    /// All tickets ever given, oldest first.
    pub(crate) tickets: Vec<(Ticket, Claim)>,
    waits: Vec<(WaitTicket, Place)>,
    steps: usize,
    /// The policy that is being prepared.
    coming: Option<Config>,
}

/// A request's parts, owned.
pub(crate) struct Owned {
    pub(crate) ask: Ask,
    wait: Option<WaitTicket>,
}

impl Owned {
    pub(crate) fn request(&self) -> Request<'_> {
        let ask = &self.ask;
        let mut request = Request::new().cost(ask.cost).affinity(ask.affinity).class(ask.class);
        request = request.exclude(&ask.excluded);
        if let Some(caller) = &ask.caller {
            request = request.caller(caller);
            if Caller::new(caller).is_some_and(|it| it.of_tenant(&ask.tenant) != it) {
                request = request.tenant(&ask.tenant);
            }
        }
        if let Some(model) = &ask.model {
            request = request.model(model);
        }
        if let Some(selector) = &ask.selector {
            request = request.selector(selector);
        }
        match self.wait {
            Some(wait) => request.after_wait(wait),
            None => request,
        }
    }
}

impl World {
    pub(crate) fn new(policy: &Policy, accounts: &[Declared]) -> Self {
        let config = policy.config();
        let mut world = Self {
            scheduler: Scheduler::with_origin(config.clone(), 1).unwrap(),
            model: Model::new(config),
            clock: Timestamp::from_millis(100),
            tickets: Vec::new(),
            waits: Vec::new(),
            steps: 0,
            coming: None,
        };
        for account in accounts {
            world.apply(&Op::Add(account.clone()));
        }
        world
    }

    pub(crate) fn owned(&self, spec: &AskSpec) -> Owned {
        let caller = spec.caller.map(caller_key);
        let own_tenant = || {
            let key = caller.clone().unwrap_or_default();
            key.split(':').take(2).collect::<Vec<&str>>().join(":")
        };
        let wait = spec.after_wait.and_then(|back| nth_newest(&self.waits, back));
        let own = wait.filter(|_| !spec.foreign_wait);
        let ticket =
            wait.map(|(ticket, _)| if spec.foreign_wait { foreign(ticket) } else { ticket });
        Owned {
            ask: Ask {
                tenant: spec.tenant.map_or_else(own_tenant, str::to_owned),
                caller,
                model: spec.model.map(str::to_owned),
                selector: spec.selector.map(str::to_owned),
                excluded: spec.excluded.iter().map(|&it| account_id(it).into()).collect(),
                cost: spec.cost,
                affinity: spec.affinity,
                class: spec.class,
                waited: own.map(|(_, place)| place),
            },
            wait: ticket,
        }
    }

    /// Does one thing to both, and compares what they say about it and about their state.
    pub(crate) fn apply(&mut self, op: &Op) {
        let now = self.clock;
        self.prepare(1);
        let (scheduler, model) = (&mut self.scheduler, &mut self.model);
        match op {
            Op::Tick(step) => self.tick(*step),
            Op::Select(spec) => self.select(spec),
            Op::Turn(spec) => {
                let before = self.tickets.len();
                self.select(spec);
                if before < self.tickets.len() {
                    self.apply(&Op::Settle(0, Outcome::success()));
                }
            }
            Op::Preview(spec, ahead) => self.preview(spec, now.plus(Millis::new(*ahead))),
            Op::Acquire(account, spec) => self.acquire(&account_id(*account), spec),
            Op::Settle(back, outcome) => {
                if let Some((ticket, claim)) = nth_newest(&self.tickets, *back) {
                    let settled = scheduler.settle(ticket, outcome, now);
                    assert_eq!(settled, model.settle(claim, outcome, now));
                }
            }
            Op::Cancel(back) => {
                if let Some((ticket, claim)) = nth_newest(&self.tickets, *back) {
                    let settled = scheduler.cancel(ticket, now);
                    assert_eq!(settled, model.settle(claim, &Outcome::Cancelled, now));
                }
            }
            Op::Abandon(back) => {
                if let Some((ticket, claim)) = nth_newest(&self.tickets, *back) {
                    assert_eq!(scheduler.abandon(ticket, now), model.abandon(claim, now));
                }
            }
            Op::Refund(back) => {
                if let Some((ticket, claim)) = nth_newest(&self.tickets, *back) {
                    assert_eq!(scheduler.refund(ticket, now), model.refund(claim, now));
                }
            }
            Op::Touch(back) => {
                if let Some((ticket, claim)) = nth_newest(&self.tickets, *back) {
                    assert_eq!(scheduler.touch(ticket, now), model.touch(claim, now));
                }
            }
            Op::Report(back, outcome) => {
                if let Some((ticket, claim)) = nth_newest(&self.tickets, *back) {
                    let settled = scheduler.report(ticket, outcome, now);
                    assert_eq!(settled, model.report(claim, outcome, now));
                }
            }
            Op::SettleForeign(back) => {
                if let Some((ticket, _)) = nth_newest(&self.tickets, *back) {
                    self.settle_foreign(ticket);
                }
            }
            Op::Reap(silence) => {
                let silence = Millis::new(*silence);
                assert_eq!(scheduler.reap(silence, now), model.reap(silence, now));
            }
            Op::Observe(account, spec, outcome) => self.observe(*account, spec, outcome),
            Op::ObserveQuota(account, spec) => {
                let (id, reading) = (account_id(*account), spec.at(now));
                let stored = scheduler.observe_quota(&id, &reading, now);
                assert_eq!(stored, model.observe_quota(&id, &reading, now));
            }
            Op::Bind(account, spec) => self.bind(*account, spec),
            Op::Unbind(spec) => {
                let owned = self.owned(spec);
                let unbound = self.scheduler.unbind(&owned.request(), now);
                assert_eq!(unbound, self.model.unbind(&owned.ask, now));
            }
            Op::UnbindCaller(caller) => {
                let key = caller_key(*caller);
                let unbound = scheduler.unbind_caller(Caller::new(&key).unwrap(), now);
                assert_eq!(unbound, model.unbind_caller(&key, now));
            }
            Op::UnbindAccount(account) => {
                let id = account_id(*account);
                assert_eq!(scheduler.unbind_account(&id, now), model.unbind_account(&id, now));
            }
            Op::GiveUp(back) => {
                if let Some((ticket, place)) = nth_newest(&self.waits, *back) {
                    assert_eq!(scheduler.give_up(ticket), model.give_up(place));
                }
            }
            Op::SetConfig(policy) => {
                let config = policy.config();
                scheduler.set_config(config.clone(), now).unwrap();
                model.set_config(&config, now);
            }
            Op::SetOrder(policy) => {
                let (mut config, other) = (model.config.clone(), policy.config());
                (config.rank, config.soft) = (other.rank, other.soft);
                config.sticky.time_to_idle = other.sticky.time_to_idle;
                scheduler.set_config(config.clone(), now).unwrap();
                model.set_config(&config, now);
            }
            Op::Prepare(policy, most) => {
                self.coming = Some(policy.config());
                self.prepare(*most);
            }
            Op::SetPrepared => {
                if let Some(config) = self.coming.take() {
                    scheduler.set_config(config.clone(), now).unwrap();
                    model.set_config(&config, now);
                }
            }
            _ => self.administer(op),
        }
        self.steps += 1;
        self.compare();
    }

    /// Looks at so many accounts under the policy that is to come, which changes nothing.
    fn prepare(&mut self, accounts: usize) {
        if let Some(config) = &self.coming {
            self.scheduler.prepare_config(config, accounts, self.clock).unwrap();
            self.model.advance(self.clock);
        }
    }

    fn administer(&mut self, op: &Op) {
        let now = self.clock;
        let (scheduler, model) = (&mut self.scheduler, &mut self.model);
        match op {
            Op::Add(declared) => {
                assert_eq!(scheduler.add(declared.account(), now), model.add(declared, now));
            }
            Op::Remove(account) => {
                let id = account_id(*account);
                assert_eq!(scheduler.remove(&id, now), model.remove(&id, now));
            }
            Op::SetPlan(account, plan) => {
                let id = account_id(*account);
                assert_eq!(scheduler.set_plan(&id, plan, now), model.set_plan(&id, plan, now));
            }
            Op::SetModels(account, models) => {
                let id = account_id(*account);
                let set = scheduler.set_models(&id, models, now);
                assert_eq!(set, model.set_models(&id, models, now));
            }
            Op::SetSelectors(account, selectors) => {
                let id = account_id(*account);
                let set = scheduler.set_selectors(&id, selectors, now);
                assert_eq!(set, model.set_selectors(&id, selectors, now));
            }
            Op::SetBlockedModels(account, models) => {
                let id = account_id(*account);
                let set = scheduler.set_blocked_models(&id, models, now);
                assert_eq!(set, model.set_blocked_models(&id, models, now));
            }
            Op::SetStatus(account, status) => {
                let id = account_id(*account);
                let set = scheduler.set_status(&id, *status, now);
                assert_eq!(set, model.set_status(&id, *status, now));
            }
            Op::SetMaintenance(account, on) => {
                let id = account_id(*account);
                let set = scheduler.set_maintenance(&id, *on, now);
                assert_eq!(set, model.set_maintenance(&id, *on, now));
            }
            Op::SetDraining(account, on) => {
                let id = account_id(*account);
                let set = scheduler.set_draining(&id, *on, now);
                assert_eq!(set, model.set_draining(&id, *on, now));
            }
            Op::Block(account, scope, dimension, length) => {
                let (id, until) = (account_id(*account), now.plus(Millis::new(*length)));
                let set = scheduler.block(&id, scope, *dimension, until, now);
                assert_eq!(set, model.block(&id, scope, *dimension, until, now));
            }
            Op::ClearBlocks(account, dimension) => {
                let id = account_id(*account);
                let cleared = scheduler.clear_blocks(&id, *dimension, now);
                assert_eq!(cleared, model.clear_blocks(&id, *dimension, now));
            }
            Op::ClearBlock(account, back) => {
                let id = account_id(*account);
                let seen = model.find(&id).map(|member| &member.blocks).into_iter().flatten();
                let mut generations: Vec<u64> = seen.map(|block| block.generation).collect();
                generations.sort_unstable();
                let chosen = generations.iter().rev().nth(*back as usize);
                let generation = chosen.copied().unwrap_or(*back);
                let cleared = scheduler.clear_block(&id, generation, now);
                assert_eq!(cleared, model.clear_block(&id, generation, now));
            }
            _ => unreachable!("{op:?} is not administration"),
        }
    }

    fn tick(&mut self, step: Step) {
        let now = self.clock.max(self.model.now).as_millis();
        let millis = match step {
            Step::By(millis) => now.saturating_add(millis),
            Step::Back(millis) => now.saturating_sub(millis),
            Step::ToDeadline(short) => {
                let deadline = self.scheduler.next_deadline(self.clock);
                deadline.map_or(now, |it| it.as_millis().saturating_sub(short)).min(1 << 40)
            }
        };
        self.clock = Timestamp::from_millis(millis);
    }

    fn select(&mut self, spec: &AskSpec) {
        self.preview(spec, self.clock);
        let owned = self.owned(spec);
        let request = owned.request();
        let preview = self.scheduler.preview(&request, self.clock);
        let grant = self.scheduler.select(&request, self.clock);
        match (&preview, &grant) {
            (Ok(preview), Ok(grant)) => {
                let promised = (&preview.account, preview.path, preview.tied);
                assert_eq!(promised, (&grant.account, grant.path, grant.tied));
            }
            (Err(promised), Err(refusal)) => assert_eq!(promised, refusal),
            _ => panic!("the preview was {preview:?}, the selection {grant:?}"),
        }
        let expected = self.model.select(&owned.ask, self.clock);
        self.compare_answers(grant, expected);
    }

    /// A preview changes nothing and is what the model would do then.
    fn preview(&self, spec: &AskSpec, at: Timestamp) {
        let owned = self.owned(spec);
        let before = self.scheduler.clone();
        let preview = self.scheduler.preview(&owned.request(), at);
        assert!(before == self.scheduler, "a preview changes nothing");
        let mut later = self.model.clone();
        match (preview, later.select(&owned.ask, at)) {
            (Ok(preview), Ok(expected)) => {
                let choice = &expected.choice;
                let id = &self.model.member(choice.serial).unwrap().id;
                let got = (&preview.account, preview.path, preview.tied as usize);
                assert_eq!(got, (id, choice.path, choice.tied), "of the preview");
            }
            (Err(refusal), Err(expected)) => self.compare_refusals(&refusal, &expected, later.now),
            (preview, expected) => panic!("the preview is {preview:?}, expected {expected:?}"),
        }
    }

    fn acquire(&mut self, id: &str, spec: &AskSpec) {
        let owned = self.owned(spec);
        let grant = self.scheduler.select_account(id, &owned.request(), self.clock);
        let expected = self.model.acquire(id, &owned.ask, self.clock);
        self.compare_answers(grant, expected);
    }

    fn observe(&mut self, account: u8, spec: &AskSpec, outcome: &Outcome) {
        let (id, owned) = (account_id(account), self.owned(spec));
        let observed = self.scheduler.observe(&id, &owned.request(), outcome, self.clock);
        assert_eq!(observed, self.model.observe(&id, &owned.ask, outcome, self.clock));
    }

    fn bind(&mut self, account: u8, spec: &AskSpec) {
        let (id, owned) = (account_id(account), self.owned(spec));
        let bound = self.scheduler.bind(&owned.request(), &id, self.clock);
        assert_eq!(bound, self.model.bind(&owned.ask, &id, self.clock));
    }

    fn settle_foreign(&mut self, ticket: Ticket) {
        let settled = self.scheduler.settle(foreign(ticket), &Outcome::Network, self.clock);
        assert_eq!(settled, account_pool::Settlement::Unknown);
        self.model.advance(self.clock);
    }

    fn compare_answers(
        &mut self,
        answer: Result<account_pool::Grant, Unavailable>,
        expected: Result<Granted, Refusal>,
    ) {
        match (answer, expected) {
            (Ok(grant), Ok(expected)) => {
                let choice = &expected.choice;
                let id = &self.model.member(choice.serial).unwrap().id;
                let got = (&grant.account, grant.path, grant.tied as usize);
                assert_eq!(got, (id, choice.path, choice.tied), "of the selection");
                assert_eq!(grant.ticket.sequence(), expected.claim.sequence);
                self.tickets.push((grant.ticket, expected.claim));
            }
            (Err(refusal), Err(expected)) => {
                self.compare_refusals(&refusal, &expected, self.model.now);
                if let (Some(wait), Some(waiting)) = (refusal.wait(), &expected.wait) {
                    self.waits.push((wait.ticket, waiting.place));
                }
            }
            (answer, expected) => panic!("the answer is {answer:?}, expected {expected:?}"),
        }
    }

    fn compare_refusals(&self, refusal: &Unavailable, expected: &Refusal, now: Timestamp) {
        assert_eq!(refusal.retry_at(), expected.retry_at, "when to retry: {refusal:?}");
        assert_eq!(refusal.retry_after(), expected.retry_at.map(|at| at.since(now)));
        let tally: BTreeMap<_, _> = refusal.tally().iter().collect();
        assert_eq!(tally, expected.tally, "the reasons");
        assert_eq!(refusal.is_load_only(), expected.load_only, "load alone: {refusal:?}");
        let wait = refusal.wait().map(|it| (it.account.clone(), it.wake_at, it.deadline));
        let waiting = expected.wait.as_ref().map(|waiting| {
            let id = self.model.member(waiting.place.serial).unwrap().id.clone();
            (id, waiting.wake_at, waiting.place.deadline)
        });
        assert_eq!(wait, waiting, "the wait");
    }

    /// Compares all that can be asked, now and somewhat later.
    fn compare(&self) {
        assert_eq!(self.scheduler.stats(), &self.model.stats);
        assert_eq!(self.scheduler.in_flight(), self.model.leases.len(), "leases held");
        let ids: Vec<&AccountId> = self.scheduler.accounts().collect();
        let expected: Vec<&AccountId> = self.model.accounts.iter().map(|it| &it.id).collect();
        assert_eq!(ids, expected);

        let ahead = [0, 1, 22, 130][self.steps % 4];
        let before = self.scheduler.clone();
        for at in [self.clock, self.clock.plus(Millis::new(ahead))] {
            self.compare_questions(at, &self.model.at(at));
        }
        assert!(before == self.scheduler, "questions change nothing");
    }

    fn compare_questions(&self, at: Timestamp, model: &Model) {
        let live = model.bindings.iter().filter(|binding| !binding.lapsed);
        assert_eq!(self.scheduler.bindings(at), live.clone().count(), "bindings");
        assert_eq!(self.scheduler.next_deadline(at), model.next_deadline(), "next deadline");
        assert_eq!(self.scheduler.drought(at), model.drought(), "drought");
        for member in &model.accounts {
            self.compare_account(member.id.as_str(), at, model);
        }
        for binding in live {
            let (caller, name, selector) = &binding.key;
            let mut request = Request::new().caller(caller);
            if let Some(name) = name {
                request = request.model(name);
            }
            if let Some(selector) = selector {
                request = request.selector(selector);
            }
            let owned = Ask {
                caller: Some(caller.clone()),
                model: name.clone(),
                selector: selector.clone(),
                ..Ask::default()
            };
            // Keys of an earlier policy or alias are out of reach.
            if model.key_of(&model.query(&owned)).as_ref() != Some(&binding.key) {
                continue;
            }
            let trail = model.in_order(&binding.trail).into_iter();
            let trail: Vec<AccountId> =
                trail.filter_map(|serial| Some(model.member(serial)?.id.clone())).collect();
            let view = self.scheduler.peek(&request, at);
            let got = view.map(|view| (view.trail, view.last_used, view.usage));
            let expected = (trail, binding.last_used, binding.usage);
            assert_eq!(got, Some(expected).filter(|it| !it.0.is_empty()), "of a binding");
        }
    }

    fn compare_account(&self, id: &str, at: Timestamp, model: &Model) {
        let view = self.scheduler.inspect(id, at).unwrap();
        let member = model.find(id).unwrap();
        let now = model.now;
        assert_eq!(view.status, model.status(member), "status of {id}");
        assert_eq!((view.maintenance, view.draining), (member.maintenance, member.draining));
        assert_eq!(view.in_flight as usize, model.in_flight(member.serial), "in flight on {id}");
        let waiting = member.waiters.iter().filter(|waiter| now < waiter.deadline);
        assert_eq!(view.waiting, waiting.count(), "waiting for {id}");
        assert_eq!(view.bound, model.bound(member.serial), "bound to {id}");
        let last_used = Some(member.last_used).filter(|_| member.turn > 0);
        assert_eq!(view.last_used, last_used, "last use of {id}");

        let log: Vec<(Timestamp, u64)> = member.requests.iter().map(|it| (it.0, 1)).collect();
        let window = |&limit| used(limit, &log, now);
        let requests: Vec<u64> = member.plan.requests.iter().map(window).collect();
        let got: Vec<u64> = view.requests.iter().map(|window| window.used).collect();
        assert_eq!(got, requests, "requests of {id}");
        let log: Vec<(Timestamp, u64)> = member.tokens.iter().map(|it| (it.0, it.1)).collect();
        let tokens = member.plan.tokens.map(|limit| used(limit, &log, now));
        assert_eq!(view.tokens.map(|window| window.used), tokens, "tokens of {id}");

        let blocks: Vec<_> = member.blocks.iter().filter(|block| now < block.until).collect();
        assert_eq!(view.blocks.len(), blocks.len(), "blocks of {id}: {:?}", view.blocks);
        for (view, block) in view.blocks.iter().zip(blocks) {
            let scope = match &block.target {
                Target::Account => account_pool::BlockScope::Account,
                Target::Model(name) => account_pool::BlockScope::Model(name.clone()),
                Target::Selector(name) => account_pool::BlockScope::Selector(name.clone()),
            };
            assert_eq!((&view.scope, view.dimension), (&scope, block.dimension));
            let times = (view.set_at, view.until, view.announced);
            assert_eq!(times, (block.set_at, block.until, block.announced), "of {view:?}");
            let level = block.strikes.saturating_sub(1);
            assert_eq!(u64::from(view.level), level, "level of {view:?}");
            let rest = (view.generation, view.upstream);
            assert_eq!(rest, (block.generation, block.upstream), "of {view:?}");
        }
        assert_eq!(view.trouble, model.trouble(member), "trouble of {id}");
        let breaker = match member.breaker.open_until {
            Some(until) if now < until => BreakerView::Open { until },
            Some(_) if model.config.breaker.half_open_probes.is_some() => BreakerView::HalfOpen,
            _ => BreakerView::Closed { errors: model.errors(member) },
        };
        assert_eq!(view.breaker, breaker, "breaker of {id}");
        assert_eq!(view.quota.observed_at, member.quota.observed_at, "reading of {id}");
        assert_eq!(view.quota.windows, member.quota.windows, "quota windows of {id}");
        assert_eq!(view.quota.worst, model.worst_quota(member, false), "quota of {id}");
        assert_eq!(view.usage, member.usage, "usage of {id}");
    }
}

/// A ticket of another scheduler with the same numbers.
fn foreign<T: Serialize + DeserializeOwned>(ticket: T) -> T {
    let mut value = serde_json::to_value(ticket).unwrap();
    value["origin"] = 2.into();
    serde_json::from_value(value).unwrap()
}

fn nth_newest<T: Copy>(all: &[T], back: u8) -> Option<T> {
    let newest = all.len().checked_sub(1)?;
    Some(all[newest - usize::from(back) % all.len()])
}
