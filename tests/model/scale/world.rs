//! A large pool and its model side by side.

use std::collections::BTreeMap;

use account_pool::{
    AccountId, Affinity, Config, Grant, Millis, Outcome, Request, Scheduler, Ticket, Timestamp,
    Unavailable,
};

use super::acts::{Act, AskSpec, Excluded, Op, Story};
use super::crowd::{Crowd, account_id, blocked_models, model, models, selector, selectors};
use crate::facts::{Ask, Claim};
use crate::naive::{Granted, Model};
use crate::ops::Step;
use crate::rules::Refusal;

pub(crate) struct World {
    crowd: Crowd,
    scheduler: Scheduler,
    model: Model,
    clock: Timestamp,
    /// Of the leases that may be held, oldest first.
    tickets: Vec<(Ticket, Claim)>,
    /// The accounts that served last.
    served: Vec<AccountId>,
    /// The configuration that is being prepared, so many accounts at a time.
    coming: Option<(Config, usize)>,
}

fn request(ask: &Ask) -> Request<'_> {
    let mut request = Request::new().cost(ask.cost).affinity(ask.affinity).class(ask.class);
    request = request.exclude(&ask.excluded);
    if let Some(caller) = &ask.caller {
        request = request.caller(caller);
    }
    if let Some(model) = &ask.model {
        request = request.model(model);
    }
    if let Some(selector) = &ask.selector {
        request = request.selector(selector);
    }
    request
}

impl World {
    pub(crate) fn new(story: &Story) -> Self {
        let Story { crowd, config, .. } = story;
        let mut world = Self {
            crowd: crowd.clone(),
            scheduler: Scheduler::new(config.clone()).unwrap(),
            model: Model::new(config.clone()),
            clock: Timestamp::from_millis(100),
            tickets: Vec::new(),
            served: Vec::new(),
            coming: None,
        };
        for account in 0..crowd.accounts {
            world.act(account, &Act::Add);
        }
        world
    }

    /// Does one thing to both, and compares what they say about it.
    pub(crate) fn apply(&mut self, op: &Op) {
        if let Some((config, accounts)) = &self.coming {
            self.scheduler.prepare_config(config, *accounts, self.clock).unwrap();
            self.model.advance(self.clock);
        }
        match op {
            Op::Tick(step) => self.tick(*step),
            Op::Select(spec, end) => {
                let lease = self.select(spec);
                if let (Some(lease), Some(end)) = (lease, end) {
                    self.tickets.pop();
                    self.settle(lease, end);
                }
            }
            Op::Burst(spec, count) => {
                for more in 0..*count {
                    let caller = spec.caller.map(|caller| caller + more);
                    self.select(&AskSpec { caller, ..spec.clone() });
                }
            }
            Op::Settle(count, outcome) => {
                let left = self.tickets.len().saturating_sub(usize::from(*count));
                for lease in self.tickets.split_off(left) {
                    self.settle(lease, outcome);
                }
            }
            Op::Each(slice, act) => {
                for account in slice.of(self.crowd.accounts) {
                    self.act(account, act);
                }
            }
            Op::SetConfig(config) => {
                let now = self.clock;
                self.scheduler.set_config((**config).clone(), now).unwrap();
                self.model.set_config(config, now);
            }
            Op::SetOrder(other) => {
                let (now, mut config) = (self.clock, self.model.config.clone());
                (config.rank, config.soft) = (other.rank.clone(), other.soft.clone());
                self.scheduler.set_config(config.clone(), now).unwrap();
                self.model.set_config(&config, now);
            }
            Op::Prepare(config, most) => self.coming = Some(((**config).clone(), *most)),
            Op::SetPrepared => {
                if let Some((config, _)) = self.coming.take() {
                    self.model.set_config(&config, self.clock);
                    self.scheduler.set_config(config, self.clock).unwrap();
                }
            }
        }
        assert_eq!(self.scheduler.stats(), &self.model.stats);
        assert_eq!(self.scheduler.in_flight(), self.model.leases.len(), "leases held");
    }

    fn tick(&mut self, step: Step) {
        let now = self.clock.as_millis();
        let millis = match step {
            Step::By(millis) => now.saturating_add(millis),
            Step::Back(millis) => now.saturating_sub(millis),
            Step::ToDeadline(short) => {
                let deadline = self.scheduler.next_deadline(self.clock);
                assert_eq!(deadline, self.model.at(self.clock).next_deadline());
                deadline.map_or(now, |it| it.as_millis().saturating_sub(short)).min(1 << 40)
            }
        };
        self.clock = Timestamp::from_millis(millis);
    }

    fn settle(&mut self, (ticket, claim): (Ticket, Claim), outcome: &Outcome) {
        let settled = self.scheduler.settle(ticket, outcome, self.clock);
        assert_eq!(settled, self.model.settle(claim, outcome, self.clock));
    }

    /// The request that a spec means; the accounts to be excluded are found by asking.
    fn ask(&self, spec: &AskSpec) -> Ask {
        let caller = spec.caller.map(|caller| format!("user{caller}"));
        let mut ask = Ask {
            tenant: caller.clone().unwrap_or_default(),
            caller,
            model: spec.model.map(model),
            selector: spec.selector.map(selector),
            excluded: Vec::new(),
            cost: spec.cost,
            affinity: spec.affinity,
            class: spec.class,
            waited: None,
        };
        let best = match &spec.excluded {
            Excluded::These(these) => {
                ask.excluded = these.iter().map(|&it| account_id(it).into()).collect();
                0
            }
            Excluded::Best(best) => *best,
            Excluded::Last(best) => {
                ask.excluded = self.served.clone();
                *best
            }
        };
        let affinity = std::mem::replace(&mut ask.affinity, Affinity::Ignore);
        for _ in 0..best {
            let preview = self.scheduler.preview(&request(&ask), self.clock);
            ask.excluded.extend(preview.map(|it| it.account));
        }
        ask.affinity = affinity;
        ask
    }

    fn select(&mut self, spec: &AskSpec) -> Option<(Ticket, Claim)> {
        let ask = self.ask(spec);
        let now = self.clock;
        if spec.stirred {
            // Nothing changes, but the index is out of date and the preview goes without it.
            let last = self.model.accounts.last().map(|it| (it.id.clone(), it.draining));
            if let Some((id, draining)) = last {
                self.scheduler.set_draining(id.as_str(), draining, now).unwrap();
                self.model.set_draining(id.as_str(), draining, now).unwrap();
            }
        }
        let preview = self.scheduler.preview(&request(&ask), now);
        let answer = self.scheduler.select(&request(&ask), now);
        let promised = preview.map(|it| (it.account, it.path, it.tied));
        let given = answer.clone().map(|it| (it.account, it.path, it.tied));
        assert_eq!(promised, given, "the preview of {ask:?}");
        let expected = self.model.select(&ask, now);
        let lease = self.compare(answer, expected, &ask);
        self.tickets.extend(lease);
        lease
    }

    fn compare(
        &mut self,
        answer: Result<Grant, Unavailable>,
        expected: Result<Granted, Refusal>,
        ask: &Ask,
    ) -> Option<(Ticket, Claim)> {
        match (answer, expected) {
            (Ok(grant), Ok(expected)) => {
                let choice = &expected.choice;
                let id = &self.model.member(choice.serial).unwrap().id;
                let got = (&grant.account, grant.path, grant.tied as usize);
                assert_eq!(got, (id, choice.path, choice.tied), "of {ask:?}");
                self.served.retain(|it| *it != grant.account);
                self.served.insert(0, grant.account);
                self.served.truncate(17);
                Some((grant.ticket, expected.claim))
            }
            (Err(refusal), Err(expected)) => {
                let tally: BTreeMap<_, _> = refusal.tally().iter().collect();
                assert_eq!(tally, expected.tally, "the reasons of {ask:?}");
                let got = (refusal.retry_at(), refusal.is_load_only());
                assert_eq!(got, (expected.retry_at, expected.load_only), "of {ask:?}");
                assert_eq!(refusal.wait().is_some(), expected.wait.is_some(), "a wait");
                None
            }
            (answer, expected) => panic!("to {ask:?}: {answer:?}, expected {expected:?}"),
        }
    }

    fn act(&mut self, account: u32, act: &Act) {
        let (scheduler, naive, now) = (&mut self.scheduler, &mut self.model, self.clock);
        let id = account_id(account);
        match act {
            Act::Block(scope, dimension, length) => {
                let until = now.plus(Millis::new(*length));
                let set = scheduler.block(&id, scope, *dimension, until, now);
                assert_eq!(set, naive.block(&id, scope, *dimension, until, now));
            }
            Act::Clear(dimension) => {
                let cleared = scheduler.clear_blocks(&id, *dimension, now);
                assert_eq!(cleared, naive.clear_blocks(&id, *dimension, now));
            }
            Act::Observe(name, by, outcome) => {
                let ask =
                    Ask { model: name.map(model), selector: by.map(selector), ..Ask::default() };
                let observed = scheduler.observe(&id, &request(&ask), outcome, now);
                assert_eq!(observed, naive.observe(&id, &ask, outcome, now));
            }
            Act::Quota(reading) => {
                let reading = reading.at(now);
                let stored = scheduler.observe_quota(&id, &reading, now);
                assert_eq!(stored, naive.observe_quota(&id, &reading, now));
            }
            Act::Remove => assert_eq!(scheduler.remove(&id, now), naive.remove(&id, now)),
            Act::Add => {
                let declared = self.crowd.account(account);
                let added = scheduler.add(declared.account(), now);
                assert_eq!(added, naive.add(&declared, now));
            }
            Act::Plan(version) => {
                let plan = self.crowd.plan(account, *version);
                assert_eq!(scheduler.set_plan(&id, &plan, now), naive.set_plan(&id, &plan, now));
            }
            Act::Kind(kind) => {
                let (models, selectors) = (models(*kind), selectors(*kind));
                let set = scheduler.set_models(&id, &models, now);
                assert_eq!(set, naive.set_models(&id, &models, now));
                let set = scheduler.set_selectors(&id, &selectors, now);
                assert_eq!(set, naive.set_selectors(&id, &selectors, now));
                let blocked = blocked_models(*kind);
                let set = scheduler.set_blocked_models(&id, &blocked, now);
                assert_eq!(set, naive.set_blocked_models(&id, &blocked, now));
            }
            Act::Status(status) => {
                let set = scheduler.set_status(&id, *status, now);
                assert_eq!(set, naive.set_status(&id, *status, now));
            }
            Act::Maintenance(on) => {
                let set = scheduler.set_maintenance(&id, *on, now);
                assert_eq!(set, naive.set_maintenance(&id, *on, now));
            }
            Act::Draining(on) => {
                let set = scheduler.set_draining(&id, *on, now);
                assert_eq!(set, naive.set_draining(&id, *on, now));
            }
            Act::Bind(from, name) => {
                let caller = format!("user{}", (u32::from(*from) + account) % 72);
                let ask = Ask {
                    tenant: caller.clone(),
                    caller: Some(caller),
                    model: name.map(model),
                    ..Ask::default()
                };
                let bound = scheduler.bind(&request(&ask), &id, now);
                assert_eq!(bound, naive.bind(&ask, &id, now));
            }
        }
    }
}
