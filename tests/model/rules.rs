//! Who may serve, and who serves: filter, sort, scan.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use account_pool::config::{BindingLimit, Degraded, Recency, Shard, Term, Ties};
use account_pool::{
    AccountId, Affinity, Dimension, Entitlement, Lift, Path, RateLimit, Reason, Status, Timestamp,
};

use crate::facts::{Ask, Block, Key, Member, Place, Serial, Target, Trail, hash, named};
use crate::naive::Model;

/// A request whose names are resolved.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    pub(crate) caller: Option<String>,
    pub(crate) tenant: String,
    pub(crate) model: Option<String>,
    pub(crate) selector: Option<String>,
    pub(crate) excluded: Vec<AccountId>,
    pub(crate) cost: u64,
    pub(crate) affinity: Affinity,
    pub(crate) waited: Option<Place>,
    /// The account on which the caller gives up its own place by this very request.
    pub(crate) vacated: Option<Serial>,
}

/// Something that keeps an account away.
#[derive(Clone, Debug)]
struct Condition {
    reason: Reason,
    lift: Lift,
    /// Whether degraded serving must respect it.
    firm: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Verdict {
    pub(crate) reason: Reason,
    pub(crate) lift: Lift,
    pub(crate) firm: Lift,
    pub(crate) unloaded: Lift,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Choice {
    pub(crate) serial: Serial,
    pub(crate) path: Path,
    pub(crate) tied: usize,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Refusal {
    pub(crate) retry_at: Option<Timestamp>,
    pub(crate) tally: BTreeMap<Reason, u32>,
    pub(crate) load_only: bool,
    pub(crate) wait: Option<Waiting>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Waiting {
    pub(crate) wake_at: Option<Timestamp>,
    pub(crate) place: Place,
}

/// What became of a binding that was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Sighting {
    Hit,
    WarmHit,
    ColdMove,
    Refused,
    Waiting,
}

/// What a look-up came to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Affair {
    None,
    Miss,
    Expired(Key),
    Found { key: Key, trail: Option<Trail>, result: Sighting },
}

pub(crate) type Outcome = Result<Choice, Refusal>;

/// The whole key: all terms before recency, then recency.
pub(crate) type RankKey = (Vec<u64>, u64);

impl Refusal {
    fn because(verdict: &Verdict) -> Self {
        Self {
            retry_at: verdict.lift.deadline(),
            tally: BTreeMap::from([(verdict.reason, 1)]),
            load_only: verdict.unloaded == Lift::Free,
            wait: None,
        }
    }

    fn never(reason: Reason) -> Self {
        let never = Lift::Never;
        Self::because(&Verdict { reason, lift: never, firm: never, unloaded: never })
    }
}

impl Model {
    pub(crate) fn query(&self, ask: &Ask) -> Query {
        let model = ask.model.as_deref().and_then(named);
        Query {
            caller: ask.caller.clone(),
            tenant: ask.tenant.clone(),
            model: model.map(|model| self.canonical(&model)),
            selector: ask.selector.as_deref().and_then(named),
            excluded: ask.excluded.clone(),
            cost: ask.cost,
            affinity: ask.affinity,
            waited: ask.waited,
            vacated: None,
        }
    }

    pub(crate) fn is_sticky(&self, query: &Query) -> bool {
        query.caller.is_some() && query.affinity != Affinity::Ignore && self.stickiness_is_on()
    }

    pub(crate) fn key_of(&self, query: &Query) -> Option<Key> {
        let caller = query.caller.clone().filter(|_| self.is_sticky(query))?;
        if self.config.sticky.bind_by_caller_only {
            return Some((caller, None, None));
        }
        Some((caller, query.model.clone(), query.selector.clone()))
    }

    fn conditions(&self, member: &Member, bound: bool, query: &Query) -> Vec<Condition> {
        let mut met = Vec::new();
        let mut firm = |reason, lift| met.push(Condition { reason, lift, firm: true });
        match member.standing {
            Status::Disabled => firm(Reason::Disabled, Lift::Never),
            Status::Banned => firm(Reason::Banned, Lift::Never),
            _ => {}
        }
        if member.maintenance {
            firm(Reason::Maintenance, Lift::Never);
        }
        if member.draining && !bound {
            firm(Reason::Draining, Lift::Never);
        }
        if let Some(BindingLimit { callers, refuse: true }) = self.config.sticky.binding_limit
            && !bound
            && self.is_sticky(query)
            && self.bound_to(member, query) >= callers
        {
            firm(Reason::BindingLimit, Lift::Never);
        }
        if query.excluded.contains(&member.id) {
            firm(Reason::Excluded, Lift::Never);
        }
        if query.model.as_ref().is_some_and(|model| member.blocked_models.contains(model)) {
            firm(Reason::ModelBlocked, Lift::Never);
        }
        if !admits(&member.models, query.model.as_ref())
            || !admits(&member.selectors, query.selector.as_ref())
        {
            firm(Reason::NotEntitled, Lift::Never);
        }

        let degraded = self.config.degraded;
        let open = self.status(member) == Status::Error
            || member.breaker.open_until.is_some_and(|until| self.now < until);
        met.push(Condition {
            reason: Reason::BreakerOpen,
            lift: self.breaker_lift(member),
            firm: !(open && degraded == Degraded::Inferred),
        });
        met.extend(self.met_blocks(member, query).map(|block| Condition {
            reason: block.dimension.reason(),
            lift: Lift::At(block.until),
            firm: !may_override(degraded, block.dimension),
        }));

        let mut firm = |reason, lift| met.push(Condition { reason, lift, firm: true });
        firm(Reason::RateLimit, self.request_lift(member));
        firm(Reason::TokenLimit, self.token_lift(member, query.cost));
        match member.plan.max_in_flight {
            Some(0) => firm(Reason::InFlight, Lift::Never),
            Some(limit) if self.in_flight(member.serial) >= limit as usize => {
                firm(Reason::InFlight, Lift::Release);
            }
            _ => {}
        }
        met.retain(|condition| condition.lift != Lift::Free);
        met
    }

    /// The verdict on an account; `None` when it may serve.
    pub(crate) fn verdict(&self, member: &Member, bound: bool, query: &Query) -> Option<Verdict> {
        let met = self.conditions(member, bound, query);
        let lift = met.iter().map(|condition| condition.lift).max()?;
        let longest = met.iter().find(|condition| condition.lift == lift)?;
        let firm = met.iter().filter(|it| it.firm).map(|it| it.lift).max();
        let unloaded = met.iter().map(|it| it.lift).filter(|&it| it != Lift::Release).max();
        Some(Verdict {
            reason: longest.reason,
            lift,
            firm: firm.unwrap_or_default(),
            unloaded: unloaded.unwrap_or_default(),
        })
    }

    /// The verdict on an account of the caller's trail, where it stays until `end`: to its own
    /// conversation it is open, but a verdict that lasts as long is that of a caller without one.
    fn verdict_until(
        &self,
        end: Option<Timestamp>,
        member: &Member,
        query: &Query,
    ) -> Option<Verdict> {
        let unbound = self.verdict(member, false, query);
        let Some(end) = end.filter(|&end| self.now < end) else { return unbound };
        let own = self.verdict(member, true, query);
        let outlasts = own.as_ref().and_then(|own| own.lift.deadline()).is_some_and(|at| at >= end);
        if outlasts { unbound } else { own }
    }

    /// Callers bound to an account, without one that leaves it by this very request.
    fn bound_to(&self, member: &Member, query: &Query) -> u32 {
        self.bound(member.serial) - u32::from(query.vacated == Some(member.serial))
    }

    /// The live blocks of an account that a request meets.
    pub(crate) fn met_blocks<'a>(
        &'a self,
        member: &'a Member,
        query: &'a Query,
    ) -> impl Iterator<Item = &'a Block> {
        let live = member.blocks.iter().filter(|block| self.now < block.until);
        live.filter(|it| self.concerns(&it.target, query) && !self.is_spared(it, query))
    }

    fn concerns(&self, target: &Target, query: &Query) -> bool {
        match target {
            Target::Account => true,
            Target::Model(model) => query.model.as_ref() == Some(model),
            Target::Selector(selector) => query.selector.as_ref() == Some(selector),
        }
    }

    /// An account-wide quota block does not concern unmetered models.
    fn is_spared(&self, block: &Block, query: &Query) -> bool {
        let unmetered = query.model.as_ref().is_some_and(|model| self.is_unmetered(model));
        block.target == Target::Account && block.dimension == Dimension::Quota && unmetered
    }

    pub(crate) fn breaker_lift(&self, member: &Member) -> Lift {
        let Some(until) = member.breaker.open_until else {
            return Lift::Free;
        };
        if self.now < until {
            return Lift::At(until);
        }
        let Some(allowed) = self.config.breaker.half_open_probes else {
            return Lift::Free;
        };
        // A probe holds its place until it has been silent too long for a probe, or for a lease.
        let by_lease = self.config.lease_timeout.unwrap_or(account_pool::Millis::MAX);
        let timeout = self.config.breaker.probe_timeout.min(by_lease);
        let ends = member.breaker.probes.iter().map(|(_, seen)| seen.plus(timeout));
        let mut ends: Vec<Timestamp> = ends.filter(|&end| self.now < end).collect();
        ends.sort();
        match ends.len().checked_sub(allowed as usize) {
            None => Lift::Free,
            Some(surplus) => Lift::At(ends[surplus]),
        }
    }

    pub(crate) fn request_lift(&self, member: &Member) -> Lift {
        let amounts: Vec<(Timestamp, u64)> =
            member.requests.iter().map(|&(at, _)| (at, 1)).collect();
        let lifts = member.plan.requests.iter().map(|&limit| self.room(limit, &amounts, 1));
        lifts.max().unwrap_or_default()
    }

    pub(crate) fn token_lift(&self, member: &Member, cost: u64) -> Lift {
        let amounts: Vec<(Timestamp, u64)> =
            member.tokens.iter().map(|&(at, amount, _)| (at, amount)).collect();
        let limit = member.plan.tokens;
        limit.map_or(Lift::Free, |limit| self.room(limit, &amounts, cost.max(1)))
    }

    /// What lets `wanted` more units into a window: now, or the first instant at which an entry
    /// leaves and enough is free.
    fn room(&self, limit: RateLimit, log: &[(Timestamp, u64)], wanted: u64) -> Lift {
        let fits =
            |now| used(limit, log, now).checked_add(wanted).is_some_and(|it| it <= limit.limit);
        if wanted > limit.limit {
            return Lift::Never;
        }
        if fits(self.now) {
            return Lift::Free;
        }
        let mut ends: Vec<Timestamp> = log.iter().map(|(at, _)| at.plus(limit.per)).collect();
        ends.retain(|&end| self.now < end && fits(end));
        ends.into_iter().min().map_or(Lift::Free, Lift::At)
    }

    /// The free fraction of the tightest request window, in 2⁻³², rounded down.
    fn headroom(&self, member: &Member) -> u64 {
        let log: Vec<(Timestamp, u64)> = member.requests.iter().map(|&(at, _)| (at, 1)).collect();
        let free = |window: &RateLimit| {
            let left = window.limit.saturating_sub(used(*window, &log, self.now));
            (u128::from(left) << 32).checked_div(u128::from(window.limit)).unwrap_or(0)
        };
        let tightest = member.plan.requests.iter().map(free).min().unwrap_or(1 << 32);
        u64::try_from(tightest).unwrap()
    }

    fn is_past_soft_limit(&self, member: &Member) -> bool {
        let used = 100.0 - self.headroom(member) as f64 / (1_u64 << 32) as f64 * 100.0;
        let rate = self.config.soft.rate_used_percent.is_some_and(|percent| used >= percent);
        let left = self.worst_quota(member, false);
        let quota = self.config.soft.quota_left_percent;
        rate || quota.is_some_and(|percent| left.is_some_and(|left| left < percent))
    }

    pub(crate) fn trouble(&self, member: &Member) -> u64 {
        let window = self.config.health.window;
        let fresh = member.trouble.iter().filter(|(at, _)| !at.is_over(window, self.now));
        fresh.map(|(_, points)| points).sum()
    }

    /// Percent left in the worst window that is known and not past its reset.
    pub(crate) fn worst_quota(&self, member: &Member, gating: bool) -> Option<f64> {
        let windows = member.quota.windows.iter();
        let current = windows.filter(|it| it.reset.is_none_or(|reset| self.now < reset));
        let counted = current.filter(|it| it.gates || !gating);
        counted.filter_map(|it| it.remaining).reduce(f64::min)
    }

    pub(crate) fn rank_key(&self, member: &Member, query: &Query) -> RankKey {
        let mut terms =
            vec![u64::from(member.plan.fallback_only), u64::from(self.is_past_soft_limit(member))];
        let mut recency = 0;
        for &term in &self.config.rank.terms {
            if term == Term::Recency {
                recency = match self.config.rank.recency {
                    Recency::Millisecond => member.last_used.as_millis(),
                    _ => member.turn,
                };
            } else {
                terms.push(self.term(term, member, query));
            }
        }
        (terms, recency)
    }

    fn term(&self, term: Term, member: &Member, query: &Query) -> u64 {
        let (slack, headroom_steps) = match self.config.rank.ties {
            Ties::Health { headroom_steps, in_flight_slack } => {
                (u64::from(in_flight_slack) + 1, Some(headroom_steps))
            }
            _ => (1, None),
        };
        let in_flight = self.in_flight(member.serial) as u64 / slack;
        let live = member.blocks.iter().filter(|block| self.now < block.until);
        let (value, bits) = match term {
            Term::ModelCooldown => {
                let mut unnamed = live.filter(|block| match block.target {
                    Target::Account => false,
                    Target::Model(_) => query.model.is_none(),
                    Target::Selector(_) => query.selector.is_none(),
                });
                (u64::from(unnamed.next().is_some()), 1)
            }
            Term::Tier => (u64::from(member.plan.tier.0), 8),
            Term::InFlight => (in_flight, 16),
            Term::WeightedInFlight => {
                ((in_flight as f64 * 256_000.0 / thousandths(member)).floor() as u64, 20)
            }
            Term::Trouble => {
                let buckets = self.trouble(member) / u64::from(self.config.health.bucket);
                let cut = member.blocks.iter().any(|block| {
                    block.dimension == Dimension::Throttle
                        && block.until <= self.now
                        && self.now < block.announced
                        && self.concerns(&block.target, query)
                });
                (buckets.max(u64::from(cut)), 6)
            }
            Term::Quota => {
                let policy = &self.config.quota;
                let left = self.worst_quota(member, false).unwrap_or(policy.unknown_percent);
                let steps = |percent: f64| (percent / f64::from(policy.bucket_points)).floor();
                ((steps(100.0) - steps(left)) as u64, 7)
            }
            Term::Headroom => {
                let free = self.headroom(member);
                let used = match headroom_steps {
                    None => (1 << 32) - free,
                    Some(steps) => {
                        let whole = (u128::from(free) * u128::from(steps)) >> 32;
                        u64::from(steps) - u64::try_from(whole).unwrap()
                    }
                };
                (used, 33)
            }
            Term::BoundCallers => (u64::from(self.bound_to(member, query)), 16),
            Term::QuotaReset => {
                let resets = member.quota.windows.iter().filter_map(|window| window.reset);
                let next = resets.filter(|&reset| self.now < reset).min();
                (next.map_or(u64::MAX, |reset| reset.as_millis() / 1_000), 32)
            }
            _ => unreachable!("recency is the last term, and there are no others"),
        };
        value.min((1 << bits) - 1)
    }

    /// Ranking alone.
    pub(crate) fn by_rank(&self, query: &Query) -> Outcome {
        self.by_rank_after(None, query)
    }

    /// Ranking alone, after no account of the caller's trail could serve; the binding lapses then.
    fn by_rank_after(&self, own: Option<(&Trail, Timestamp)>, query: &Query) -> Outcome {
        let judged = |member: &Member| {
            let unbound = self.verdict(member, false, query)?;
            let end =
                own.and_then(|(trail, lapses)| self.stays_until(member.serial, trail, lapses));
            Some(self.verdict_until(end, member, query).unwrap_or(unbound))
        };
        let verdicts: Vec<(&Member, Option<Verdict>)> =
            self.accounts.iter().map(|it| (it, judged(it))).collect();
        let eligible = verdicts.iter().filter(|(_, verdict)| verdict.is_none());
        let mut ranked: Vec<(RankKey, &Member)> =
            eligible.map(|(member, _)| (self.rank_key(member, query), *member)).collect();
        // A stable sort: equal keys stay in the order of insertion.
        let inserted = ranked.clone();
        ranked.sort_by(|(one, _), (other, _)| one.cmp(other));

        if let Some((best, first)) = ranked.first() {
            let is_tied = |key: &RankKey| match self.config.rank.ties {
                Ties::Health { .. } => key.0 == best.0,
                _ => key == best,
            };
            let tied: Vec<&Member> =
                inserted.iter().filter(|(key, _)| is_tied(key)).map(|(_, it)| *it).collect();
            let chosen = match (&query.caller, self.config.rank.shard) {
                (Some(caller), Shard::Modulo) => tied[(hash(caller) >> 32) as usize % tied.len()],
                (Some(caller), Shard::Rendezvous) => self.own_place(caller, &tied),
                _ => first,
            };
            return Ok(Choice { serial: chosen.serial, path: Path::Rank, tied: tied.len() });
        }
        self.without_eligible(&verdicts)
    }

    /// A caller's account among equally good ones: of few the one that draws it most, of many the
    /// first of the seats it is dealt that holds one of them, if that is not too light.
    fn own_place<'a>(&self, caller: &str, tied: &[&'a Member]) -> &'a Member {
        if tied.len() > COMPARED {
            let heaviest = self.heaviest();
            let level = (6..=32).find(|&level| 1 << level >= u64::from(self.seats)).unwrap();
            let weights: u128 = tied.iter().map(|member| thousandths(member) as u128).sum();
            // One for each 32nd part of all lots that wins, and part of one for part of the callers.
            let part = u128::from(hash(caller) % (1 << 32));
            let lots = heaviest << level;
            let dealt = (((weights * 32) << 32) / lots + part) >> 32;
            for (seat, lot) in seats_dealt(caller, level, dealt.min(8) as u64) {
                let holder = tied.iter().find(|member| u64::from(member.seat) == seat);
                let wins =
                    |it: &&Member| u128::from(lot) * heaviest < (thousandths(it) as u128) << 32;
                if let Some(winner) = holder.filter(|it| wins(it)) {
                    return winner;
                }
            }
        }
        nearest(caller, tied).unwrap()
    }

    /// The first of 1, 2, 4, … that no account's weight exceeds, in thousandths.
    fn heaviest(&self) -> u128 {
        let most = self.accounts.iter().map(thousandths).fold(0.0, f64::max);
        (0..).map(|doublings| 1_000 << doublings).find(|&bound| bound as f64 >= most).unwrap()
    }

    /// No account is eligible: the throttled one that is closest to recovery, or a refusal.
    fn without_eligible(&self, verdicts: &[(&Member, Option<Verdict>)]) -> Outcome {
        let mut refusal = Refusal::default();
        let mut overridable = Vec::new();
        let mut loaded = false;
        for (member, verdict) in verdicts {
            let Some(verdict) = verdict else { continue };
            *refusal.tally.entry(verdict.reason).or_default() += 1;
            refusal.retry_at = earlier(refusal.retry_at, verdict.firm.deadline());
            loaded |= verdict.unloaded == Lift::Free;
            if let (Lift::Free, Lift::At(recovers)) = (verdict.firm, verdict.lift) {
                overridable.push((recovers, member.serial));
            }
        }
        refusal.load_only = loaded && refusal.retry_at.is_none();
        let soonest = overridable.iter().map(|&(recovers, _)| recovers).min();
        let chosen = overridable.iter().find(|&&(recovers, _)| Some(recovers) == soonest);
        match chosen {
            Some(&(_, serial)) => Ok(Choice { serial, path: Path::Degraded, tied: 1 }),
            None => Err(refusal),
        }
    }

    /// A strictly pinned caller's own place among all that are eligible.
    fn by_pin(&self, query: &Query) -> Outcome {
        let eligible = self.accounts.iter().filter(|it| self.verdict(it, false, query).is_none());
        let (reserves, normal): (Vec<&Member>, Vec<&Member>) =
            eligible.partition(|member| member.plan.fallback_only);
        let chosen = if normal.is_empty() { reserves } else { normal };
        let caller = query.caller.as_ref();
        match caller.and_then(|caller| most_drawing(caller, &chosen)) {
            Some(member) => Ok(Choice { serial: member.serial, path: Path::Pin, tied: 1 }),
            None => self.by_rank(query),
        }
    }

    /// The decision for a request; `self.now` is its time.
    pub(crate) fn decide(&self, query: &Query) -> (Outcome, Affair) {
        if query.affinity == Affinity::Require {
            return self.require(query);
        }
        let Some(key) = self.key_of(query) else {
            return (self.by_rank(query), Affair::None);
        };
        match self.binding(&key) {
            Some(binding) if !binding.lapsed => self.follow(&key, query),
            found => {
                let affair = if found.is_some() { Affair::Expired(key) } else { Affair::Miss };
                let strict =
                    self.config.sticky.bind_by_caller_only && self.config.sticky.no_fallback;
                let outcome = if strict { self.by_pin(query) } else { self.by_rank(query) };
                (outcome, affair)
            }
        }
    }

    /// The decision for a request that asks for one account.
    pub(crate) fn decide_for(&self, account: &str, query: &Query) -> Outcome {
        let Some(member) = self.accounts.iter().find(|member| member.id == *account) else {
            return Err(Refusal::never(Reason::UnknownAccount));
        };
        let binding = self.key_of(query).and_then(|key| self.binding(&key));
        let end = binding.filter(|binding| !binding.lapsed).and_then(|binding| {
            let lapses = binding.last_used.plus(self.config.sticky.time_to_idle);
            self.stays_until(member.serial, &binding.trail, lapses)
        });
        match self.verdict_until(end, member, query) {
            None => Ok(Choice { serial: member.serial, path: Path::Acquired, tied: 1 }),
            Some(verdict) => Err(Refusal::because(&verdict)),
        }
    }

    fn require(&self, query: &Query) -> (Outcome, Affair) {
        match self.bound_account(query) {
            Ok((key, trail, serial)) => {
                let choice = Choice { serial, path: Path::Sticky, tied: 1 };
                (Ok(choice), Affair::Found { key, trail: Some(trail), result: Sighting::Hit })
            }
            Err(mut refusal) => {
                let binding = self.key_of(query).and_then(|key| self.binding(&key));
                let changes = binding.map(|binding| self.changes_of(&binding.trail, query));
                let ahead = changes.into_iter().flatten().filter(|&at| self.now < at);
                refusal.retry_at =
                    ahead.filter(|&at| self.at(at).bound_account(query).is_ok()).min();
                (Err(refusal), Affair::None)
            }
        }
    }

    /// The first account of the caller's binding, if it may serve.
    fn bound_account(&self, query: &Query) -> Result<(Key, Trail, Serial), Refusal> {
        let unbound = || Refusal::never(Reason::Unbound);
        let key = self.key_of(query).ok_or_else(unbound)?;
        let binding = self.binding(&key).filter(|it| !it.lapsed).ok_or_else(unbound)?;
        let trail = self.current(&binding.trail, query);
        let serial = *self.in_order(&trail).first().ok_or_else(unbound)?;
        match self.verdict(self.member(serial).unwrap(), true, query) {
            None => Ok((key, trail, serial)),
            Some(verdict) => Err(Refusal::because(&verdict)),
        }
    }

    /// When the accounts of a trail may change their place in it, or be free.
    fn changes_of(&self, trail: &Trail, query: &Query) -> Vec<Timestamp> {
        let cache = self.config.sticky.cache_lifetime;
        let mut changes = Vec::new();
        for &(serial, at) in &trail.stops {
            changes.push(at.plus(cache));
            let Some(member) = self.member(serial) else { continue };
            let verdict = self.verdict(member, true, query);
            changes.extend(verdict.and_then(|verdict| verdict.lift.deadline()));
            for block in self.met_blocks(member, query) {
                let warm = block.until.as_millis().saturating_sub(cache.as_millis());
                changes.extend([block.until, Timestamp::from_millis(warm)]);
            }
        }
        changes
    }

    /// The decision for a bound caller.
    fn follow(&self, key: &Key, query: &Query) -> (Outcome, Affair) {
        let policy = &self.config.sticky;
        let binding = self.binding(key).unwrap();
        let trail = self.current(&binding.trail, query);
        let order = self.in_order(&trail);
        let found = |result| Affair::Found { key: key.clone(), trail: Some(trail.clone()), result };

        let members: Vec<&Member> = order.iter().map(|&it| self.member(it).unwrap()).collect();
        let serves = |it: &&Member| self.verdict(it, true, query).is_none();
        let normal = members.iter().copied().find(|it| serves(it) && !it.plan.fallback_only);
        let reserve = members.iter().copied().find(serves);

        // An account that cannot serve comes first: it is waited for, or insisted on.
        if let Some(first) = members.first()
            && let Some(verdict) = self.verdict(first, true, query)
            && self.relief(first, query).is_none()
        {
            if let Some(waiting) = self.worth_waiting(first, &verdict, query) {
                let mut refusal = Refusal::because(&verdict);
                refusal.retry_at = Some(waiting.wake_at.unwrap_or(waiting.place.deadline));
                refusal.wait = Some(waiting);
                return (Err(refusal), found(Sighting::Waiting));
            }
            if policy.no_fallback && self.status(first) == Status::Active {
                let refusal = self.refuse_elsewhere(first, &verdict, key, query);
                return (Err(refusal), found(Sighting::Refused));
            }
        }
        if let Some(member) = normal.or(reserve) {
            if let Some(relief) = self.relief(member, query) {
                return (Ok(relief), found(Sighting::ColdMove));
            }
            let (path, result) = if member.serial == order[0] {
                (Path::Sticky, Sighting::Hit)
            } else {
                (Path::Warm, Sighting::WarmHit)
            };
            return (Ok(Choice { serial: member.serial, path, tied: 1 }), found(result));
        }

        let dropped = policy.drop_when_blocked || policy.no_fallback || trail.stops.is_empty();
        let counted = self.in_order(&binding.trail).first().copied();
        let keeps_place = !dropped && order.first().copied() == counted;
        let query = Query { vacated: counted.filter(|_| !keeps_place), ..query.clone() };
        let own = (!dropped).then(|| (&trail, self.lapses_at(key)));
        let outcome = self.by_rank_after(own, &query);
        let trail = (!dropped).then(|| trail.clone());
        (outcome, Affair::Found { key: key.clone(), trail, result: Sighting::ColdMove })
    }

    /// A normal account to which a reserve gives its conversation back.
    fn relief(&self, member: &Member, query: &Query) -> Option<Choice> {
        let choice = self.by_rank(query).ok().filter(|_| member.plan.fallback_only)?;
        let other = self.member(choice.serial)?;
        (!other.plan.fallback_only && choice.path != Path::Degraded).then_some(choice)
    }

    fn worth_waiting(&self, member: &Member, verdict: &Verdict, query: &Query) -> Option<Waiting> {
        let policy = &self.config.sticky;
        let again = query.waited.filter(|place| place.serial == member.serial);
        let budget = self.now.plus(policy.queue_on_pin);
        let deadline = query.waited.map_or(budget, |place| place.deadline.min(budget));
        if verdict.unloaded > Lift::At(deadline) {
            return None;
        }
        let wake_at = match verdict.lift {
            Lift::At(free_at) => Some(free_at),
            _ => None,
        };
        let others = member.waiters.iter().filter(|waiter| {
            self.now < waiter.deadline && again.is_none_or(|it| it.sequence != waiter.sequence)
        });
        if deadline <= self.now || others.count() >= policy.max_waiters as usize {
            return None;
        }
        let sequence = again.map_or(self.next_sequence, |place| place.sequence);
        Some(Waiting { wake_at, place: Place { sequence, serial: member.serial, deadline } })
    }

    /// The refusal of a caller that may not go elsewhere: until its account is free or gives way,
    /// or its binding has lapsed and another one is.
    fn refuse_elsewhere(
        &self,
        member: &Member,
        verdict: &Verdict,
        key: &Key,
        query: &Query,
    ) -> Refusal {
        let lapses = self.lapses_at(key);
        let elsewhere = match self.by_rank(query) {
            Ok(_) => Some(lapses),
            Err(refusal) => refusal.retry_at.map(|at| at.max(lapses)),
        };
        let mut refusal = Refusal::because(verdict);
        let own = refusal.retry_at.filter(|&at| at < lapses);
        // Any normal account relieves a reserve.
        let normal = self.accounts.iter().filter(|it| !it.plan.fallback_only);
        let verdicts = normal.filter_map(|it| self.verdict(it, false, query));
        let free_at = verdicts.filter_map(|verdict| verdict.lift.deadline()).min();
        let relieved = free_at.filter(|_| member.plan.fallback_only);
        refusal.retry_at = earlier(earlier(own, relieved), elsewhere);
        refusal
    }
}

/// Units within the window at `now`.
pub(crate) fn used(limit: RateLimit, log: &[(Timestamp, u64)], now: Timestamp) -> u64 {
    let inside = log.iter().filter(|(at, _)| !at.is_over(limit.per, now));
    inside.fold(0, |sum: u64, (_, amount)| sum.saturating_add(*amount))
}

fn admits(entitlement: &Entitlement, name: Option<&String>) -> bool {
    match (entitlement, name) {
        (Entitlement::Any, _) | (_, None) => true,
        (Entitlement::Only(only), Some(name)) => only.contains(name),
        (Entitlement::AllBut(but), Some(name)) => !but.contains(name),
    }
}

fn may_override(degraded: Degraded, dimension: Dimension) -> bool {
    match dimension {
        Dimension::Quarantine | Dimension::Breaker => degraded != Degraded::Off,
        Dimension::Throttle | Dimension::Overload => degraded == Degraded::Transient,
        _ => false,
    }
}

/// Up to so many accounts draw a caller one against the other.
const COMPARED: usize = 64;

/// The first seats that a caller is dealt, each with its lot. For twice as many seats, the seats
/// of the lower half are dealt in the same order, and ones of the upper half come in between.
fn seats_dealt(caller: &str, level: u64, count: u64) -> Vec<(u64, u64)> {
    let fewer = if level > 6 { seats_dealt(caller, level - 1, count) } else { Vec::new() };
    let mut fewer = fewer.into_iter();
    let chance = |turn: u64| {
        let turn = 256 * level + turn;
        mix(hash(caller).wrapping_add(turn.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    };
    let deal = |turn| {
        let seat = chance(turn) >> (64 - level);
        let is_upper = level == 6 || seat >= 1 << (level - 1);
        if is_upper { (seat, chance(turn) % (1 << 32)) } else { fewer.next().unwrap() }
    };
    (1..=count).map(deal).collect()
}

/// The account that draws a caller most among equally good ones. Too many are first cut down: from the highest hexadecimal
/// digit of their numbers on, those that agree up to that digit form a part, and only the part
/// that draws the caller most, all its members pulling together, stays.
fn nearest<'a>(caller: &str, members: &[&'a Member]) -> Option<&'a Member> {
    let mut left = members.to_vec();
    for digit in (0..8).rev() {
        if left.len() <= COMPARED {
            break;
        }
        let mut parts: BTreeMap<u32, Vec<&Member>> = BTreeMap::new();
        for member in left {
            parts.entry(member.number >> (4 * digit)).or_default().push(member);
        }
        let parts = parts.into_iter().map(|(leading, part)| {
            let weight = part.iter().map(|member| thousandths(member)).sum();
            (distance(caller, mix((digit << 32) + u64::from(leading)), weight), part)
        });
        let drawn = parts.min_by(|(one, _), (other, _)| closer(*one, *other));
        left = drawn.map(|(_, part)| part).unwrap_or_default();
    }
    most_drawing(caller, &left)
}

/// The account that draws a caller most, one against the other.
fn most_drawing<'a>(caller: &str, members: &[&'a Member]) -> Option<&'a Member> {
    let distance = |it: &Member| distance(caller, hash(it.id.as_str()), thousandths(it));
    let members = members.iter().copied();
    members.min_by(|one, other| closer(distance(one), distance(other)))
}

fn thousandths(member: &Member) -> f64 {
    (member.plan.weight * 1_000.0).round().max(1.0)
}

/// −log₂(hash) ÷ weight, and the hash.
fn distance(caller: &str, of: u64, weight: f64) -> (f64, u64) {
    let drawn = mix(hash(caller) ^ of);
    let logarithm = 64.0 - (drawn.max(1) as f64).log2();
    (logarithm / weight, drawn)
}

/// The smaller distance first, then the larger hash.
fn closer(one: (f64, u64), other: (f64, u64)) -> Ordering {
    one.0.total_cmp(&other.0).then(other.1.cmp(&one.1))
}

/// The finalizer of splitmix64.
pub(crate) fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

pub(crate) fn earlier(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    [one, other].into_iter().flatten().min()
}
