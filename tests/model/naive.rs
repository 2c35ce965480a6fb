//! The scheduler once more, as slow and as plain as its rules read: lists, scans, event logs.
//!
//! Every operation first moves the time on (`advance`), so that whatever time alone changes has
//! happened; a question clones the model, moves the clone and looks.

use std::collections::BTreeSet;

use account_pool::config::Backoff;
use account_pool::{
    Account, AccountError, AccountId, BlockScope, Config, Dimension, Entitlement, Lift, Millis,
    Outcome, Path, Plan, QuotaReading, Reason, Reset, Scope, Settlement, Stats, Status, Timestamp,
    TrafficClass, Usage, UsageTotals,
};

use crate::facts::Binding;
use crate::facts::{
    Ask, Block, Breaker, Claim, Lease, Member, Place, Reading, Serial, Streak, Target, hash, named,
};
use crate::rules::{Choice, Query, Refusal};

/// An account as a test declares it; `Account` itself does not show its parts.
#[derive(Clone, Debug)]
pub(crate) struct Declared {
    pub(crate) id: String,
    pub(crate) plan: Plan,
    pub(crate) models: Entitlement,
    pub(crate) selectors: Entitlement,
    pub(crate) blocked_models: BTreeSet<String>,
}

impl Declared {
    pub(crate) fn account(&self) -> Account {
        Account::new(&*self.id)
            .plan(self.plan.clone())
            .models(self.models.clone())
            .selectors(self.selectors.clone())
            .blocked_models(self.blocked_models.iter().cloned())
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) config: Config,
    /// In the order of insertion.
    pub(crate) accounts: Vec<Member>,
    /// How many seats there are, and those that are free, the one given up last coming last.
    pub(crate) seats: u32,
    free_seats: Vec<u32>,
    /// Live blocks made by upstreams of accounts that were removed, the last one last.
    departed: Vec<(AccountId, Vec<Block>)>,
    /// Longest silent first.
    pub(crate) leases: Vec<Lease>,
    /// Least recently used first.
    pub(crate) bindings: Vec<Binding>,
    pub(crate) stats: Stats,
    pub(crate) next_sequence: u64,
    turn: u64,
    generation: u64,
    next_serial: Serial,
    pub(crate) now: Timestamp,
}

/// A reservation.
#[derive(Clone, Debug)]
pub(crate) struct Granted {
    pub(crate) choice: Choice,
    pub(crate) claim: Claim,
}

/// What an outcome belongs to.
struct Source {
    model: Option<String>,
    selector: Option<String>,
    class: TrafficClass,
    /// Whether the breaker listens.
    heard: bool,
}

impl Model {
    pub(crate) fn new(config: Config) -> Self {
        let mut stats = Stats::default();
        stats.refused_by_reason = vec![0; Reason::ALL.len()];
        Self {
            config,
            accounts: Vec::new(),
            seats: 0,
            free_seats: Vec::new(),
            departed: Vec::new(),
            leases: Vec::new(),
            bindings: Vec::new(),
            stats,
            next_sequence: 1,
            turn: 0,
            generation: 0,
            next_serial: 1,
            now: Timestamp::ZERO,
        }
    }

    /// The canonical name of a trimmed one.
    pub(crate) fn canonical(&self, model: &str) -> String {
        let alias = self.config.aliases.iter().rfind(|(alias, _)| alias.trim() == model);
        alias.map_or(model, |(_, name)| name.trim()).to_owned()
    }

    /// Whether a model, by its canonical name, draws on no quota.
    pub(crate) fn is_unmetered(&self, model: &str) -> bool {
        self.config.unmetered.iter().any(|name| self.canonical(name.trim()) == model)
    }

    pub(crate) fn member(&self, serial: Serial) -> Option<&Member> {
        let index = self.accounts.binary_search_by_key(&serial, |member| member.serial).ok()?;
        Some(&self.accounts[index])
    }

    fn member_mut(&mut self, serial: Serial) -> Option<&mut Member> {
        let index = self.accounts.binary_search_by_key(&serial, |member| member.serial).ok()?;
        Some(&mut self.accounts[index])
    }

    pub(crate) fn find(&self, account: &str) -> Option<&Member> {
        self.accounts.iter().find(|member| member.id == *account)
    }

    fn find_mut(&mut self, account: &str) -> Result<&mut Member, AccountError> {
        let found = self.accounts.iter_mut().find(|member| member.id == *account);
        found.ok_or_else(|| AccountError::Unknown(account.into()))
    }

    fn serial(&self, account: &str) -> Result<Serial, AccountError> {
        let found = self.find(account).map(|member| member.serial);
        found.ok_or_else(|| AccountError::Unknown(account.into()))
    }

    pub(crate) fn in_flight(&self, serial: Serial) -> usize {
        self.leases.iter().filter(|lease| lease.claim.serial == serial).count()
    }

    pub(crate) fn status(&self, member: &Member) -> Status {
        let open = member.breaker.open_until.is_some_and(|until| self.now < until);
        if member.standing == Status::Active && open { Status::Error } else { member.standing }
    }

    fn is_half_open(&self, member: &Member) -> bool {
        let ended = member.breaker.open_until.is_some_and(|until| until <= self.now);
        ended && self.config.breaker.half_open_probes.is_some()
    }

    /// The model as it is at `now`.
    pub(crate) fn at(&self, now: Timestamp) -> Self {
        let mut later = self.clone();
        later.advance(now);
        later
    }

    pub(crate) fn advance(&mut self, now: Timestamp) {
        self.now = self.now.max(now);
        if let Some(timeout) = self.config.lease_timeout {
            self.free_silent(timeout);
        }
        self.lapse_bindings();
    }

    fn free_silent(&mut self, silence: Millis) -> usize {
        let now = self.now;
        let (silent, held): (Vec<Lease>, Vec<Lease>) =
            self.leases.drain(..).partition(|lease| lease.seen.is_over(silence, now));
        self.leases = held;
        for lease in &silent {
            self.free_probe(lease);
        }
        self.stats.reaped += silent.len() as u64;
        silent.len()
    }

    /// Frees a lease's probe; whether the breaker may hear its verdict.
    fn free_probe(&mut self, lease: &Lease) -> bool {
        let is_in_time = self.is_probing(lease);
        if let Some(member) = self.member_mut(lease.claim.serial) {
            member.breaker.probes.retain(|probe| probe.0 != lease.claim.sequence);
        }
        is_in_time || !lease.probe
    }

    /// Whether a lease holds its place as a probe.
    fn is_probing(&self, lease: &Lease) -> bool {
        let timeout = self.config.breaker.probe_timeout;
        let probes = self.member(lease.claim.serial).map(|member| &member.breaker.probes);
        probes.into_iter().flatten().any(|&(sequence, seen)| {
            sequence == lease.claim.sequence && !seen.is_over(timeout, self.now)
        })
    }

    pub(crate) fn select(&mut self, ask: &Ask, now: Timestamp) -> Result<Granted, Refusal> {
        self.advance(now);
        let query = self.query(ask);
        let (outcome, affair) = self.decide(&query);
        self.note(affair);
        self.carry_out(outcome, &query, ask)
    }

    pub(crate) fn acquire(
        &mut self,
        account: &str,
        ask: &Ask,
        now: Timestamp,
    ) -> Result<Granted, Refusal> {
        self.advance(now);
        let query = self.query(ask);
        let outcome = self.decide_for(account, &query);
        self.carry_out(outcome, &query, ask)
    }

    fn carry_out(
        &mut self,
        outcome: Result<Choice, Refusal>,
        query: &Query,
        ask: &Ask,
    ) -> Result<Granted, Refusal> {
        let stays = outcome.as_ref().err().and_then(|refusal| refusal.wait.as_ref());
        let stays = stays.map(|wait| wait.place);
        if let Some(waited) = query.waited
            && stays.map(|place| place.sequence) != Some(waited.sequence)
        {
            self.give_up(waited);
        }
        let choice = match outcome {
            Ok(choice) => choice,
            Err(refusal) => {
                self.count_refusal(&refusal);
                if let Some(place) = stays {
                    self.queue(place);
                }
                return Err(refusal);
            }
        };
        let claim = self.reserve(&choice, query, ask);
        Ok(Granted { choice, claim })
    }

    fn count_refusal(&mut self, refusal: &Refusal) {
        if refusal.wait.is_some() {
            self.stats.waits += 1;
            return;
        }
        self.stats.refused += 1;
        for &reason in refusal.tally.keys() {
            let index = Reason::ALL.iter().position(|&it| it == reason).unwrap();
            self.stats.refused_by_reason[index] += 1;
        }
    }

    fn queue(&mut self, place: Place) {
        self.next_sequence += u64::from(place.sequence == self.next_sequence);
        let now = self.now;
        if let Some(member) = self.member_mut(place.serial) {
            member.waiters.retain(|it| it.sequence != place.sequence && now < it.deadline);
            member.waiters.push(place);
        }
    }

    pub(crate) fn give_up(&mut self, place: Place) -> bool {
        let Some(member) = self.member_mut(place.serial) else { return false };
        let before = member.waiters.len();
        member.waiters.retain(|waiter| waiter.sequence != place.sequence);
        member.waiters.len() < before
    }

    fn reserve(&mut self, choice: &Choice, query: &Query, ask: &Ask) -> Claim {
        let now = self.now;
        let claim = Claim { sequence: self.next_sequence, serial: choice.serial };
        self.next_sequence += 1;
        self.turn += 1;
        let paths = &mut self.stats.selected;
        *match choice.path {
            Path::Sticky => &mut paths.sticky,
            Path::Warm => &mut paths.warm,
            Path::Rank => &mut paths.rank,
            Path::Pin => &mut paths.pin,
            Path::Degraded => &mut paths.degraded,
            _ => &mut paths.acquired,
        } += 1;

        let (turn, probe_timeout) = (self.turn, self.config.breaker.probe_timeout);
        let probe = self.is_half_open(self.member(choice.serial).unwrap());
        let member = self.member_mut(choice.serial).unwrap();
        // What has left every window is forgotten, so that a longer one starts without it.
        if let Some(longest) = member.plan.requests.iter().map(|limit| limit.per).max() {
            member.requests.retain(|(at, _)| !at.is_over(longest, now));
            member.requests.push((now, claim.sequence));
        }
        take_tokens(member, query.cost, Some(claim.sequence), now);
        member.last_used = now;
        member.turn = turn;
        if probe {
            member.breaker.probes.retain(|(_, seen)| !seen.is_over(probe_timeout, now));
            member.breaker.probes.push((claim.sequence, now));
        }
        let openings = member.breaker.openings;
        let binding = self.key_of(query);
        let lease = Lease {
            claim,
            taken_at: now,
            seen: now,
            query: query.clone(),
            binding,
            cost: query.cost,
            class: ask.class,
            probe,
            openings,
            refunded: false,
        };
        self.bind_selected(&lease);
        self.leases.push(lease);
        claim
    }

    pub(crate) fn settle(&mut self, claim: Claim, outcome: &Outcome, now: Timestamp) -> Settlement {
        self.advance(now);
        let Some(index) = self.leases.iter().position(|lease| lease.claim == claim) else {
            return self.note_late(claim, outcome);
        };
        let lease = self.leases.remove(index);
        self.stats.settled += 1;
        let in_time = self.free_probe(&lease);
        let source = self.source(&lease, in_time);
        self.learn(claim.serial, outcome, &source);
        if let Outcome::Success { usage } = outcome {
            self.count_usage(claim.serial, usage);
            let (now, beyond) = (self.now, billable(usage).saturating_sub(lease.cost));
            if let Some(member) = self.member_mut(claim.serial) {
                take_tokens(member, beyond, None, now);
            }
            self.bind_served(&lease, usage);
        }
        Settlement::Settled
    }

    fn source(&self, lease: &Lease, in_time: bool) -> Source {
        let member = self.member(lease.claim.serial);
        let same = member.is_some_and(|member| member.breaker.openings == lease.openings);
        Source {
            model: lease.query.model.clone(),
            selector: lease.query.selector.clone(),
            class: lease.class,
            heard: in_time && same,
        }
    }

    fn note_late(&mut self, claim: Claim, outcome: &Outcome) -> Settlement {
        if self.member(claim.serial).is_none() {
            return Settlement::Unknown;
        }
        self.note_trouble(claim.serial, outcome);
        Settlement::Late
    }

    pub(crate) fn report(&mut self, claim: Claim, outcome: &Outcome, now: Timestamp) -> Settlement {
        self.advance(now);
        let Some(lease) = self.leases.iter().find(|lease| lease.claim == claim).cloned() else {
            return self.note_late(claim, outcome);
        };
        let source = self.source(&lease, !lease.probe || self.is_probing(&lease));
        self.learn(claim.serial, outcome, &source);
        Settlement::Settled
    }

    pub(crate) fn observe(
        &mut self,
        account: &str,
        ask: &Ask,
        outcome: &Outcome,
        now: Timestamp,
    ) -> Result<(), AccountError> {
        self.advance(now);
        let serial = self.serial(account)?;
        let Query { model, selector, .. } = self.query(ask);
        let source = Source { model, selector, class: ask.class, heard: true };
        self.learn(serial, outcome, &source);
        if let Outcome::Success { usage } = outcome {
            self.count_usage(serial, usage);
        }
        Ok(())
    }

    /// A success is over: what it used counts, once.
    fn count_usage(&mut self, serial: Serial, usage: &Usage) {
        add_usage(&mut self.stats.usage, usage);
        if let Some(member) = self.member_mut(serial) {
            add_usage(&mut member.usage, usage);
        }
    }

    pub(crate) fn abandon(&mut self, claim: Claim, now: Timestamp) -> Settlement {
        self.refund(claim, now);
        self.settle(claim, &Outcome::Cancelled, now)
    }

    pub(crate) fn refund(&mut self, claim: Claim, now: Timestamp) -> bool {
        self.advance(now);
        let now = self.now;
        let Some(lease) = self.leases.iter_mut().find(|it| it.claim == claim && !it.refunded)
        else {
            return false;
        };
        lease.refunded = true;
        let taken_at = lease.taken_at;
        let Some(member) = self.member_mut(claim.serial) else { return false };
        if member.plan.tokens.is_some_and(|limit| !taken_at.is_over(limit.per, now)) {
            member.tokens.retain(|(_, _, by)| *by != Some(claim.sequence));
        }
        let longest = member.plan.requests.iter().map(|limit| limit.per).max();
        if longest.is_none_or(|longest| taken_at.is_over(longest, now)) {
            return false;
        }
        let before = member.requests.len();
        member.requests.retain(|&(_, sequence)| sequence != claim.sequence);
        let refunded = member.requests.len() < before;
        self.stats.refunded += u64::from(refunded);
        refunded
    }

    /// Does not free silent leases: one that is touched in time lives on.
    pub(crate) fn touch(&mut self, claim: Claim, now: Timestamp) -> bool {
        self.now = self.now.max(now);
        let (now, timeout) = (self.now, self.config.breaker.probe_timeout);
        let Some(index) = self.leases.iter().position(|lease| lease.claim == claim) else {
            return false;
        };
        let mut lease = self.leases.remove(index);
        lease.seen = now;
        self.leases.push(lease);
        if let Some(member) = self.member_mut(claim.serial) {
            for probe in &mut member.breaker.probes {
                if probe.0 == claim.sequence && !probe.1.is_over(timeout, now) {
                    probe.1 = now;
                }
            }
        }
        true
    }

    pub(crate) fn reap(&mut self, silence: Millis, now: Timestamp) -> usize {
        self.advance(now);
        self.free_silent(silence)
    }

    fn note_trouble(&mut self, serial: Serial, outcome: &Outcome) {
        let policy = self.config.health.clone();
        let points = match outcome {
            Outcome::RateLimited { .. } | Outcome::QuotaExhausted { .. } => policy.throttle,
            Outcome::Overloaded { .. } => policy.capacity,
            Outcome::Internal | Outcome::Network | Outcome::Timeout => policy.error,
            Outcome::AuthFailed | Outcome::DeadToken => policy.dead,
            _ => 0,
        };
        let now = self.now;
        if let Some(member) = self.member_mut(serial).filter(|_| points > 0) {
            member.trouble.retain(|(at, _)| !at.is_over(policy.window, now));
            member.trouble.push((now, points.into()));
        }
    }

    fn learn(&mut self, serial: Serial, outcome: &Outcome, source: &Source) {
        if self.member(serial).is_none() {
            return;
        }
        self.note_trouble(serial, outcome);
        let policy = self.config.cooldown.clone();
        let place = |scope, dimension| (target(scope, source), dimension);
        let account = |dimension| (Target::Account, dimension);
        match *outcome {
            Outcome::Success { .. } => self.learn_success(serial, source),
            Outcome::RateLimited { scope, reset } => {
                self.cool(
                    serial,
                    place(scope, Dimension::Throttle),
                    policy.throttle,
                    reset,
                    source,
                );
            }
            Outcome::QuotaExhausted { scope, reset } => {
                self.cool(serial, place(scope, Dimension::Quota), policy.quota, reset, source);
            }
            Outcome::Overloaded { scope, reset } => {
                self.cool(
                    serial,
                    place(scope, Dimension::Overload),
                    policy.overload,
                    reset,
                    source,
                );
            }
            Outcome::AuthFailed => {
                self.cool(serial, account(Dimension::Auth), policy.auth, None, source);
            }
            Outcome::DeadToken if policy.auth.base.is_zero() => {}
            Outcome::DeadToken => {
                let at_once = Backoff { base: policy.auth.cap, ..policy.auth };
                self.cool(serial, account(Dimension::Auth), at_once, None, source);
            }
            Outcome::Internal => self.learn_internal(serial, source),
            Outcome::Network | Outcome::Timeout => self.learn_error(serial, source),
            Outcome::BanSignal => self.learn_ban_signal(serial),
            _ => {}
        }
    }

    fn learn_success(&mut self, serial: Serial, source: &Source) {
        let member = self.member_mut(serial).unwrap();
        for block in &mut member.blocks {
            let concerned = match &block.target {
                Target::Account => true,
                Target::Model(model) => source.model.as_ref() == Some(model),
                Target::Selector(selector) => source.selector.as_ref() == Some(selector),
            };
            if concerned {
                block.strikes = 0;
            }
        }
        if source.heard {
            let Breaker { openings, probes, .. } = std::mem::take(&mut member.breaker);
            member.breaker = Breaker { openings, probes, ..Breaker::default() };
        }
    }

    fn cool(
        &mut self,
        serial: Serial,
        place: (Target, Dimension),
        backoff: Backoff,
        reset: Option<Reset>,
        source: &Source,
    ) {
        let policy = self.config.cooldown.clone();
        let now = self.now;
        let member = self.member(serial).unwrap();
        let jitter = Millis::new(jitter(&member.id, policy.jitter.as_millis()));
        let memory =
            member.blocks.iter().find(|it| (&it.target, it.dimension) == (&place.0, place.1));
        let left = memory.map_or(0, |block| strikes_left(block, policy.decay, now));
        let is_live = memory.is_some_and(|block| now < block.until);
        let (target, dimension) = place;
        let failure = |until: Timestamp, announced: Timestamp, strikes| {
            let (set_at, generation, upstream) = (now, 0, true);
            Block { target, dimension, set_at, until, announced, strikes, generation, upstream }
        };

        if let Some(reset) = reset {
            let announced = match reset {
                Reset::After(delay) => now.plus(delay),
                Reset::At(instant) => instant,
            };
            let cut = announced.min(now.plus(backoff.cap)).max(now.plus(policy.floor));
            let until = cut.plus(jitter);
            self.write(serial, failure(until, announced.max(until), left.max(1)));
            return;
        }
        if source.class == TrafficClass::Background {
            return;
        }
        // A running cooldown keeps its step; else each failure in a row goes one step up.
        let step = if is_live { left.saturating_sub(1) } else { left };
        let grown = (backoff.base.as_millis() as f64 * backoff.factor.powi(step as i32)).ceil();
        let span = Millis::new((grown as u64).min(backoff.cap.as_millis()));
        if !span.is_zero() {
            let until = now.plus(span).plus(jitter);
            self.write(serial, failure(until, until, step + 1));
        }
    }

    /// A block that is no failure, by evidence of `set_at`: the escalation stays where it is.
    fn set_block(
        &mut self,
        set_at: Timestamp,
        serial: Serial,
        place: (Target, Dimension),
        until: Timestamp,
        upstream: bool,
    ) {
        let (decay, now) = (self.config.cooldown.decay, self.now);
        let blocks = &self.member(serial).unwrap().blocks;
        let memory = blocks.iter().find(|it| (&it.target, it.dimension) == (&place.0, place.1));
        let strikes = memory.map_or(0, |block| strikes_left(block, decay, now));
        let (target, dimension) = place;
        let (announced, generation) = (until, 0);
        self.write(
            serial,
            Block { target, dimension, set_at, until, announced, strikes, generation, upstream },
        );
    }

    /// Merges a block under a new generation.
    fn write(&mut self, serial: Serial, mut block: Block) {
        self.generation += 1;
        block.generation = self.generation;
        self.merge(serial, block);
    }

    fn merge(&mut self, serial: Serial, block: Block) {
        let (now, decay) = (self.now, self.config.cooldown.decay);
        let blocks = &mut self.member_mut(serial).unwrap().blocks;
        // Blocks that can change nothing any more lose their place in the order.
        blocks.retain(|old| {
            now < old.until || now < old.announced || strikes_left(old, decay, now) > 0
        });
        let place = (&block.target, block.dimension);
        match blocks.iter_mut().find(|old| (&old.target, old.dimension) == place) {
            None => blocks.push(block),
            Some(old) => {
                *old = Block {
                    set_at: block.set_at.max(old.set_at),
                    until: block.until.max(old.until),
                    announced: block.announced.max(old.announced),
                    upstream: block.upstream || (old.upstream && now < old.until),
                    ..block
                };
            }
        }
    }

    fn learn_internal(&mut self, serial: Serial, source: &Source) {
        if source.class == TrafficClass::Background {
            return;
        }
        let policy = self.config.breaker.clone();
        let member = self.member_mut(serial).unwrap();
        member.breaker.internal += 1;
        let due = policy.internal_threshold.is_some_and(|it| member.breaker.internal >= it);
        if due && !policy.quarantine.is_zero() && !self.is_exempt(serial) {
            let until = self.now.plus(policy.quarantine);
            self.set_block(
                self.now,
                serial,
                (Target::Account, Dimension::Quarantine),
                until,
                false,
            );
        }
    }

    fn learn_error(&mut self, serial: Serial, source: &Source) {
        let policy = self.config.breaker.clone();
        let Some(threshold) = policy.threshold else { return };
        if source.class == TrafficClass::Background || !source.heard {
            return;
        }
        let now = self.now;
        let half_open = self.is_half_open(self.member(serial).unwrap());
        let member = self.member_mut(serial).unwrap();
        let breaker = &mut member.breaker;
        let is_open = breaker.open_until.is_some_and(|until| now < until);
        if !half_open {
            if breaker.open_until.is_some() && !is_open {
                // Without half-open probes a recovery closes the breaker, with no errors.
                breaker.open_until = None;
                breaker.errors.count = 0;
            }
            extend(&mut breaker.errors, policy.window, now);
        }
        let due = half_open || (!is_open && breaker.errors.count >= threshold);
        if !due || self.is_exempt(serial) {
            return;
        }
        let member = self.member_mut(serial).unwrap();
        let age = now.since(member.added_at);
        let breaker = &mut member.breaker;
        breaker.open_until = Some(now.plus(policy.recovery));
        breaker.episodes += 1;
        breaker.openings += 1;
        breaker.probes.clear();
        let episodes = breaker.episodes;
        if let Some(longer) = policy.escalation
            && episodes >= longer.from_episode
            && age > longer.grace
        {
            let power = longer.factor.powi(episodes as i32 - 1);
            let span = (longer.base.as_millis() as f64 * power).ceil() as u64;
            let until = now.plus(Millis::new(span).min(longer.cap));
            self.set_block(now, serial, (Target::Account, Dimension::Breaker), until, false);
        }
    }

    fn learn_ban_signal(&mut self, serial: Serial) {
        let policy = self.config.breaker.clone();
        let now = self.now;
        let member = self.member_mut(serial).unwrap();
        extend(&mut member.breaker.bans, policy.ban_window, now);
        if policy.ban_threshold.is_some_and(|threshold| member.breaker.bans.count >= threshold) {
            member.standing = Status::Banned;
        }
    }

    /// Whether it is the last usable account of its tier.
    fn is_exempt(&self, serial: Serial) -> bool {
        let tier = self.member(serial).unwrap().plan.tier;
        let others = self.accounts.iter().filter(|other| {
            let blocked = |it: &Block| it.target == Target::Account && self.now < it.until;
            other.serial != serial
                && other.plan.tier <= tier
                && self.status(other) == Status::Active
                && !other.blocks.iter().any(blocked)
        });
        self.config.last_usable_exempt && others.count() == 0
    }

    pub(crate) fn observe_quota(
        &mut self,
        account: &str,
        reading: &QuotaReading,
        now: Timestamp,
    ) -> Result<bool, AccountError> {
        self.advance(now);
        let (now, policy) = (self.now, self.config.quota.clone());
        let member = self.find_mut(account)?;
        let serial = member.serial;
        let observed_at = reading.observed_at.min(now);
        if observed_at < member.quota.observed_at {
            return Ok(false);
        }
        let mut windows = reading.windows.clone();
        windows.truncate(QuotaReading::MAX_WINDOWS);
        for window in &mut windows {
            let known = window.remaining.filter(|it| it.is_finite());
            window.remaining = known.map(|it| it.clamp(0.0, 100.0));
        }
        let balance = reading.balance.filter(|it| it.is_finite());
        member.quota = Reading { observed_at, windows: windows.clone() };

        let member = self.member(serial).unwrap();
        let Some(worst) = self.worst_quota(member, true).filter(|_| policy.gate) else {
            return Ok(true);
        };
        let spendable = policy.spend_on_demand
            && balance.is_some_and(|balance| balance > policy.on_demand_reserve);
        let has_quota = worst > policy.dry_percent || spendable;
        let dry = windows.iter().filter(|window| {
            let current = window.reset.is_none_or(|reset| now < reset);
            let low = window.remaining.is_some_and(|left| left <= policy.dry_percent);
            window.gates && current && low
        });
        let stale_at = observed_at.plus(policy.max_age);
        let until = dry.map(|window| window.reset.unwrap_or(stale_at)).max();
        let until = until.filter(|&until| !has_quota && now < until);
        if !has_quota && until.is_none() {
            return Ok(true);
        }
        let place = (Target::Account, Dimension::Quota);
        let member = self.member_mut(serial).unwrap();
        member.blocks.retain(|block| {
            (&block.target, block.dimension) != (&place.0, place.1) || block.set_at >= observed_at
        });
        if let Some(until) = until {
            let until = until.min(now.plus(self.config.cooldown.quota.cap));
            self.set_block(observed_at, serial, place, until, true);
        }
        Ok(true)
    }

    pub(crate) fn add(&mut self, declared: &Declared, now: Timestamp) -> Result<(), AccountError> {
        self.advance(now);
        let id = AccountId::from(&*declared.id);
        if declared.id.trim().is_empty() {
            return Err(AccountError::BlankId);
        }
        if self.find(&declared.id).is_some() {
            return Err(AccountError::Duplicate(id));
        }
        check_plan(&declared.plan)?;
        let (last_used, turn) = self.entry(&id);
        let serial = self.next_serial;
        self.next_serial += 1;
        let number = self.accounts.last().map_or(0, |last| last.number + 1);
        let seat = self.free_seats.pop().unwrap_or(self.seats);
        self.seats = self.seats.max(seat + 1);
        let member = Member {
            serial,
            number,
            seat,
            id: id.clone(),
            added_at: self.now,
            plan: declared.plan.clone(),
            models: self.model_entitlement(&declared.models),
            selectors: renamed(&declared.selectors, named),
            blocked_models: self.model_names(&declared.blocked_models),
            standing: Status::Active,
            maintenance: false,
            draining: false,
            requests: Vec::new(),
            tokens: Vec::new(),
            blocks: Vec::new(),
            trouble: Vec::new(),
            breaker: Breaker::default(),
            quota: Reading::default(),
            last_used,
            turn,
            waiters: Vec::new(),
            usage: UsageTotals::default(),
        };
        self.accounts.push(member);
        if let Some(index) = self.departed.iter().position(|(gone, _)| *gone == id) {
            let (_, mut blocks) = self.departed.remove(index);
            blocks.retain(|block| self.now < block.until);
            blocks.into_iter().for_each(|block| self.merge(serial, block));
        }
        Ok(())
    }

    /// The recency of a new account: the median of the active, used ones, less its jitter. Where
    /// there are more than 1 024 accounts, only so many are looked at, at even distances.
    fn entry(&self, id: &AccountId) -> (Timestamp, u64) {
        if !self.config.new_account_baseline {
            return (Timestamp::ZERO, 0);
        }
        let used = |it: &&Member| it.turn > 0 && self.status(it) == Status::Active;
        let all = self.accounts.len();
        let looked_at: Vec<&Member> = if all <= 1_024 {
            self.accounts.iter().collect()
        } else {
            (0..1_024).map(|turn| &self.accounts[turn * all / 1_024]).collect()
        };
        let used: Vec<&Member> = looked_at.into_iter().filter(used).collect();
        let jitter = jitter(id, self.config.baseline_jitter);
        let enter = |recency: fn(&Member) -> u64| {
            let mut values: Vec<u64> = used.iter().map(|it| recency(it)).collect();
            values.sort_unstable();
            let (lower, upper) = match values.len() {
                0 => (0, 0),
                len => (values[(len - 1) / 2], values[len / 2]),
            };
            (lower + (upper - lower).div_ceil(2)).saturating_sub(jitter)
        };
        let last_used = enter(|member| member.last_used.as_millis());
        (Timestamp::from_millis(last_used), enter(|member| member.turn))
    }

    pub(crate) fn remove(&mut self, account: &str, now: Timestamp) -> bool {
        self.advance(now);
        let Some(index) = self.accounts.iter().position(|member| member.id == *account) else {
            return false;
        };
        let mut gone = self.accounts.remove(index);
        self.free_seats.push(gone.seat);
        gone.blocks.retain(|block| block.upstream && self.now < block.until);
        if !gone.blocks.is_empty() {
            self.departed.push((gone.id, gone.blocks));
            let surplus = self.departed.len().saturating_sub(MAX_DEPARTED);
            self.departed.drain(..surplus);
        }
        true
    }

    pub(crate) fn set_plan(
        &mut self,
        account: &str,
        plan: &Plan,
        now: Timestamp,
    ) -> Result<(), AccountError> {
        check_plan(plan)?;
        self.update(account, now, |member| member.plan = plan.clone())
    }

    pub(crate) fn set_models(
        &mut self,
        account: &str,
        models: &Entitlement,
        now: Timestamp,
    ) -> Result<(), AccountError> {
        self.serial(account)?;
        let models = self.model_entitlement(models);
        self.update(account, now, |member| member.models = models)
    }

    pub(crate) fn set_selectors(
        &mut self,
        account: &str,
        selectors: &Entitlement,
        now: Timestamp,
    ) -> Result<(), AccountError> {
        self.serial(account)?;
        let selectors = renamed(selectors, named);
        self.update(account, now, |member| member.selectors = selectors)
    }

    pub(crate) fn set_blocked_models(
        &mut self,
        account: &str,
        models: &BTreeSet<String>,
        now: Timestamp,
    ) -> Result<(), AccountError> {
        self.serial(account)?;
        let models = self.model_names(models);
        self.update(account, now, |member| member.blocked_models = models)
    }

    pub(crate) fn set_status(
        &mut self,
        account: &str,
        status: Status,
        now: Timestamp,
    ) -> Result<(), AccountError> {
        if status == Status::Error {
            return Err(AccountError::Status);
        }
        self.update(account, now, |member| {
            member.standing = status;
            if status == Status::Active {
                member.breaker.errors = Streak::default();
                member.breaker.open_until = None;
            }
        })
    }

    pub(crate) fn set_maintenance(
        &mut self,
        account: &str,
        on: bool,
        now: Timestamp,
    ) -> Result<(), AccountError> {
        self.update(account, now, |member| member.maintenance = on)
    }

    pub(crate) fn set_draining(
        &mut self,
        account: &str,
        on: bool,
        now: Timestamp,
    ) -> Result<(), AccountError> {
        self.update(account, now, |member| member.draining = on)
    }

    pub(crate) fn block(
        &mut self,
        account: &str,
        scope: &BlockScope,
        dimension: Dimension,
        until: Timestamp,
        now: Timestamp,
    ) -> Result<(), AccountError> {
        self.advance(now);
        let serial = self.serial(account)?;
        if until > self.now {
            let target = match scope {
                BlockScope::Account => None,
                BlockScope::Model(name) => {
                    named(name).map(|name| Target::Model(self.canonical(&name)))
                }
                BlockScope::Selector(name) => named(name).map(Target::Selector),
            };
            let place = (target.unwrap_or(Target::Account), dimension);
            self.set_block(self.now, serial, place, until, dimension != Dimension::Operator);
        }
        Ok(())
    }

    pub(crate) fn clear_blocks(
        &mut self,
        account: &str,
        dimension: Option<Dimension>,
        now: Timestamp,
    ) -> Result<bool, AccountError> {
        self.advance(now);
        let now = self.now;
        let member = self.find_mut(account)?;
        let cleared = |block: &Block| dimension.is_none_or(|it| it == block.dimension);
        let lifted = member.blocks.iter().any(|block| cleared(block) && now < block.until);
        member.blocks.retain(|block| !cleared(block));
        if dimension.is_none() {
            member.trouble.clear();
            member.breaker.errors = Streak::default();
            member.breaker.open_until = None;
        }
        Ok(lifted)
    }

    pub(crate) fn clear_block(
        &mut self,
        account: &str,
        generation: u64,
        now: Timestamp,
    ) -> Result<bool, AccountError> {
        self.advance(now);
        let now = self.now;
        let member = self.find_mut(account)?;
        let before = member.blocks.len();
        member.blocks.retain(|block| block.until <= now || block.generation != generation);
        Ok(member.blocks.len() < before)
    }

    fn update(
        &mut self,
        account: &str,
        now: Timestamp,
        change: impl FnOnce(&mut Member),
    ) -> Result<(), AccountError> {
        self.advance(now);
        change(self.find_mut(account)?);
        Ok(())
    }

    pub(crate) fn bind(
        &mut self,
        ask: &Ask,
        account: &str,
        now: Timestamp,
    ) -> Result<(), AccountError> {
        self.advance(now);
        let serial = self.serial(account)?;
        let query = self.query(ask);
        if let Some(key) = self.key_of(&query) {
            self.bind_key(&key, &query, serial);
        }
        Ok(())
    }

    pub(crate) fn unbind(&mut self, ask: &Ask, now: Timestamp) -> bool {
        self.advance(now);
        let key = self.key_of(&self.query(ask));
        key.is_some_and(|key| self.unbind_key(&key))
    }

    pub(crate) fn unbind_caller(&mut self, caller: &str, now: Timestamp) -> usize {
        self.advance(now);
        let before = self.bindings.len();
        self.bindings.retain(|binding| binding.lapsed || binding.key.0 != caller);
        before - self.bindings.len()
    }

    pub(crate) fn unbind_account(
        &mut self,
        account: &str,
        now: Timestamp,
    ) -> Result<usize, AccountError> {
        self.advance(now);
        let serial = self.serial(account)?;
        Ok(self.unbind_serial(serial))
    }

    pub(crate) fn set_config(&mut self, config: &Config, now: Timestamp) {
        self.advance(now);
        self.config = config.clone();
        self.trim_bindings();
    }

    pub(crate) fn next_deadline(&self) -> Option<Timestamp> {
        let timeout = self.config.lease_timeout;
        let mut due = Vec::new();
        due.extend(self.leases.iter().filter_map(|lease| Some(lease.seen.plus(timeout?))));
        for member in &self.accounts {
            due.extend(member.blocks.iter().map(|block| block.until));
            let lifts =
                [self.request_lift(member), self.token_lift(member, 0), self.breaker_lift(member)];
            due.extend(lifts.into_iter().filter_map(Lift::deadline));
        }
        due.into_iter().filter(|&deadline| self.now < deadline).min()
    }

    pub(crate) fn drought(&self) -> bool {
        let active = self.accounts.iter().filter(|it| self.status(it) == Status::Active);
        let readings: Vec<Option<f64>> = active.map(|it| self.worst_quota(it, true)).collect();
        let measured: Vec<f64> = readings.iter().copied().flatten().collect();
        let low = measured.iter().all(|&left| left < self.config.quota.drought_percent);
        measured.len() * 2 > readings.len() && low
    }

    /// Errors in a row, none after a recovery that closed the breaker.
    pub(crate) fn errors(&self, member: &Member) -> u32 {
        let recovered = member.breaker.open_until.is_some();
        if recovered { 0 } else { member.breaker.errors.count }
    }

    fn model_names(&self, names: &BTreeSet<String>) -> BTreeSet<String> {
        names.iter().filter_map(|name| named(name)).map(|name| self.canonical(&name)).collect()
    }

    fn model_entitlement(&self, models: &Entitlement) -> Entitlement {
        renamed(models, |name| named(name).map(|name| self.canonical(&name)))
    }
}

fn renamed(entitlement: &Entitlement, name: impl Fn(&str) -> Option<String>) -> Entitlement {
    let names = |names: &BTreeSet<String>| names.iter().filter_map(|it| name(it)).collect();
    match entitlement {
        Entitlement::Any => Entitlement::Any,
        Entitlement::Only(only) => Entitlement::Only(names(only)),
        Entitlement::AllBut(but) => Entitlement::AllBut(names(but)),
    }
}

fn target(scope: Scope, source: &Source) -> Target {
    let target = match scope {
        Scope::Account => None,
        Scope::Model => source.model.clone().map(Target::Model),
        Scope::Selector => source.selector.clone().map(Target::Selector),
    };
    target.unwrap_or(Target::Account)
}

/// The strikes that have not decayed since the block ended.
fn strikes_left(block: &Block, decay: Millis, now: Timestamp) -> u64 {
    let decayed = now.since(block.until).as_millis() / decay.as_millis();
    block.strikes.saturating_sub(decayed)
}

fn extend(streak: &mut Streak, window: Millis, now: Timestamp) {
    let joins = streak.last.is_some_and(|last| !last.is_over(window, now));
    streak.count = if joins { streak.count + 1 } else { 1 };
    streak.last = Some(now);
}

/// How many removed accounts are remembered.
const MAX_DEPARTED: usize = 1_024;

/// What a single taking counts at most.
const LARGEST: u64 = u64::MAX >> 20;

fn take_tokens(member: &mut Member, amount: u64, by: Option<u64>, now: Timestamp) {
    if let Some(limit) = member.plan.tokens.filter(|_| amount > 0) {
        member.tokens.retain(|(at, _, _)| !at.is_over(limit.per, now));
        member.tokens.push((now, amount.min(LARGEST), by));
    }
}

fn jitter(id: &AccountId, most: u64) -> u64 {
    match most.checked_add(1) {
        Some(spread) => hash(id.as_str()) % spread,
        None => hash(id.as_str()),
    }
}

fn check_plan(plan: &Plan) -> Result<(), AccountError> {
    let in_range = plan.weight > 0.0 && plan.weight <= 1_000_000.0;
    if !in_range {
        return Err(AccountError::Weight);
    }
    if plan.requests.iter().chain(&plan.tokens).any(|window| window.per.is_zero()) {
        return Err(AccountError::Window);
    }
    Ok(())
}

fn billable(usage: &Usage) -> u64 {
    let counted = usage.input.saturating_add(usage.output).saturating_add(usage.cache_write);
    counted.max(usage.reported_total)
}

pub(crate) fn add_usage(totals: &mut UsageTotals, usage: &Usage) {
    totals.successes += 1;
    totals.input = totals.input.saturating_add(usage.input);
    totals.output = totals.output.saturating_add(usage.output);
    totals.cache_read = totals.cache_read.saturating_add(usage.cache_read);
    totals.cache_write = totals.cache_write.saturating_add(usage.cache_write);
    totals.reasoning = totals.reasoning.saturating_add(usage.reasoning);
    totals.billable = totals.billable.saturating_add(billable(usage));
    totals.cost_micros = totals.cost_micros.saturating_add(usage.cost_micros);
}
