//! Replays recorded decisions of a production scheduler through the public API.

#![allow(clippy::unwrap_used, reason = "a malformed recording is a mistake in the recording")]
#![allow(dead_code, reason = "the test and the example use different parts")]
#![allow(unreachable_pub, reason = "a module of the test and of the example")]

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path as FilePath;

use account_pool::config::{Escalation, StickyMode};
use account_pool::{
    Account, AccountId, Affinity, BlockScope, Config, Dimension, Entitlement, Millis, Outcome,
    Path, Plan, QuotaReading, QuotaWindow, Reason, Request, Reset, Scheduler, Scope, Status,
    Ticket, Tier, Timestamp,
};
use serde_json::Value;

/// What a replay saw.
#[derive(Debug, Default)]
pub struct Summary {
    /// Operations played.
    pub operations: usize,
    /// Answers compared.
    pub compared: usize,
    /// Selections by path.
    pub paths: BTreeMap<&'static str, usize>,
    /// Refused selections by the reasons that kept accounts away.
    pub refusals: BTreeMap<Reason, usize>,
    /// Selections refused.
    pub refused: usize,
    /// Accounts that served.
    pub accounts: BTreeSet<String>,
}

/// The first answer that differs from the recording.
#[derive(Debug)]
pub struct Difference {
    /// The line, counted from 1.
    pub line: usize,
    /// The operation.
    pub operation: String,
    /// The recorded answer.
    pub expected: String,
    /// Our answer.
    pub got: String,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { line, operation, expected, got } = self;
        write!(f, "line {line}: {operation}\n  expected: {expected}\n  got:      {got}")
    }
}

/// Plays one file.
pub fn replay(file: &FilePath) -> Result<Summary, Difference> {
    let text = std::fs::read_to_string(file).map_err(|error| Difference {
        line: 0,
        operation: format!("read {}", file.display()),
        expected: "a readable file".to_owned(),
        got: error.to_string(),
    })?;
    replay_text(&text)
}

/// Plays the lines of a recording.
pub fn replay_text(text: &str) -> Result<Summary, Difference> {
    let mut player: Option<Player> = None;
    let mut summary = Summary::default();
    for (index, line) in text.lines().enumerate() {
        let difference = |expected: String, got: String| Difference {
            line: index + 1,
            operation: line.chars().take(400).collect(),
            expected,
            got,
        };
        let op: Value = serde_json::from_str(line)
            .map_err(|error| difference("a JSON object".to_owned(), error.to_string()))?;
        let Some(player) = &mut player else {
            player = Some(
                Player::new(&op)
                    .map_err(|error| difference("a header of format 1".to_owned(), error))?,
            );
            continue;
        };
        summary.operations += 1;
        if let Some((expected, got)) = player.play(index, &op, &mut summary) {
            summary.compared += 1;
            if expected != got {
                return Err(difference(expected.to_string(), got.to_string()));
            }
        }
    }
    Ok(summary)
}

struct Player {
    scheduler: Scheduler,
    header: Value,
    /// Tickets by the line of their selection, header = 0.
    tickets: HashMap<usize, Ticket>,
    /// Since when accounts are in error.
    errors: HashMap<String, Timestamp>,
}

impl Player {
    fn new(header: &Value) -> Result<Self, String> {
        if header["format"] != 1 {
            return Err("another format".to_owned());
        }
        let header = header["config"].clone();
        let scheduler = Scheduler::new(config(&header)).map_err(|error| error.to_string())?;
        Ok(Self { scheduler, header, tickets: HashMap::new(), errors: HashMap::new() })
    }

    /// Plays one operation; returns the recorded and our answer where there is one.
    fn play(&mut self, line: usize, op: &Value, summary: &mut Summary) -> Option<(Value, Value)> {
        let now = Timestamp::from_millis(op["t"].as_u64().unwrap());
        let id = op["id"].as_str().unwrap_or_default();
        let scheduler = &mut self.scheduler;
        match op["op"].as_str().unwrap() {
            "add" => {
                let tier = op["tier"].as_str().unwrap();
                let account = Account::new(id)
                    .plan(plan(&self.header, tier))
                    .models(allowed(&op["allow"]))
                    .selectors(selectors(&self.header, tier));
                scheduler.add(account, now).unwrap();
                None
            }
            "tier" => {
                let tier = op["tier"].as_str().unwrap();
                scheduler.set_plan(id, &plan(&self.header, tier), now).unwrap();
                scheduler.set_selectors(id, &selectors(&self.header, tier), now).unwrap();
                None
            }
            "allow" => {
                scheduler.set_models(id, &allowed(&op["allow"]), now).unwrap();
                None
            }
            "block" => {
                let models = strings(&op["models"]);
                scheduler.set_blocked_models(id, &models, now).unwrap();
                None
            }
            "status" => {
                let status =
                    if op["status"] == "active" { Status::Active } else { Status::Disabled };
                scheduler.set_status(id, status, now).unwrap();
                None
            }
            "remove" => {
                assert!(scheduler.remove(id, now));
                None
            }
            // The credential is the host's payload; the core has no part in it.
            "rekey" => None,
            "maintenance" => {
                scheduler.set_maintenance(id, op["on"] == true, now).unwrap();
                None
            }
            "select" => Some(self.select(line, op, now, summary)),
            "acquire" => {
                let request = request(op, &[]);
                let grant = scheduler.select_account(id, &request, now).ok();
                let got = grant.is_some().into();
                self.tickets.extend(grant.map(|grant| (line, grant.ticket)));
                Some((op["got"].clone(), got))
            }
            "release" => {
                let ticket = self.ticket(op);
                self.scheduler.cancel(ticket, now);
                None
            }
            "refund" => {
                let ticket = self.ticket(op);
                Some((op["got"].clone(), self.scheduler.refund(ticket, now).into()))
            }
            "bind" => {
                scheduler.bind(&request(op, &[]), id, now).unwrap();
                None
            }
            "unbind" => {
                scheduler.unbind(&request(op, &[]), now);
                None
            }
            "peek" => {
                let bound = scheduler.peek(&request(op, &[]), now);
                let got = bound.map_or(Value::Null, |it| it.trail[0].as_str().into());
                let expected = if op["got"] == "removed" { Value::Null } else { op["got"].clone() };
                Some((expected, got))
            }
            _ => self.report(op, id, now),
        }
    }

    fn select(
        &mut self,
        line: usize,
        op: &Value,
        now: Timestamp,
        summary: &mut Summary,
    ) -> (Value, Value) {
        let excluded: Vec<AccountId> =
            strings(&op["exclude"]).into_iter().map(AccountId::from).collect();
        let mut request = request(op, &excluded);
        if op["pin_only"] == true {
            request = request.affinity(Affinity::Require);
        }
        let preview = self.scheduler.preview(&request, now);
        let got = match self.scheduler.select(&request, now) {
            Ok(grant) => {
                let via = via(grant.path);
                assert_eq!(preview.unwrap().account, grant.account, "preview equals select");
                *summary.paths.entry(via).or_default() += 1;
                summary.accounts.insert(grant.account.to_string());
                self.tickets.insert(line, grant.ticket);
                serde_json::json!({ "id": grant.account.as_str(), "via": via })
            }
            Err(refusal) => {
                assert_eq!(preview.unwrap_err(), refusal, "preview equals select");
                summary.refused += 1;
                for (reason, _) in refusal.tally().iter() {
                    *summary.refusals.entry(reason).or_default() += 1;
                }
                Value::Null
            }
        };
        (op["got"].clone(), got)
    }

    /// Operations that report facts or ask for counters.
    fn report(&mut self, op: &Value, id: &str, now: Timestamp) -> Option<(Value, Value)> {
        let delay = || op["for_ms"].as_u64().map(|millis| Reset::After(Millis::new(millis)));
        let answer = match op["op"].as_str().unwrap() {
            "rate_limited" => return self.rate_limited(op, id, now),
            "quota_exhausted" => {
                self.observe(id, Outcome::quota_exhausted(delay()), now);
                return None;
            }
            "quota" => {
                let reading = QuotaReading::at(now)
                    .window(QuotaWindow::new(op["daily"].as_f64()).rank_only())
                    .window(QuotaWindow::new(op["weekly"].as_f64()))
                    .balance(op["balance"].as_f64().unwrap_or(f64::NAN));
                self.scheduler.observe_quota(id, &reading, now).unwrap();
                return None;
            }
            "error" => self.status_after(op, id, Outcome::Network, now),
            "success" => self.status_after(op, id, Outcome::success(), now),
            "ban_signal" => self.status_after(op, id, Outcome::BanSignal, now),
            "internal_error" => {
                self.observe(id, Outcome::Internal, now);
                return None;
            }
            "dead_token" => {
                self.observe(id, Outcome::DeadToken, now);
                return None;
            }
            "sweep" => {
                let busy = self.views(now).filter(|view| view.in_flight > 0).count();
                self.scheduler.reap(Millis::ZERO, now);
                (op["got"].clone(), busy.into())
            }
            "drought" => (op["got"].clone(), self.scheduler.drought(now).into()),
            "stats" => {
                let expected = ["hits", "misses", "creates", "evictions", "fallbacks"]
                    .map(|name| op["got"][name].as_u64().unwrap());
                let sticky = self.scheduler.stats().sticky;
                let found = sticky.hits + sticky.cold_moves + sticky.refusals;
                let got =
                    [found, sticky.misses, sticky.creates, sticky.evictions, sticky.cold_moves];
                (expected.to_vec().into(), got.to_vec().into())
            }
            "state" => {
                let expected = op["accounts"].as_object().unwrap();
                let expected = expected.iter().map(|(id, state)| {
                    let fields = ["in_flight", "rpm_used", "last_used", "trouble"];
                    (id.clone(), fields.map(|field| state[field].clone()).to_vec().into())
                });
                let got = self.views(now).map(|view| {
                    let used = view.requests[0].used;
                    let last_used = view.last_used.map(Timestamp::as_millis);
                    let state = serde_json::json!([view.in_flight, used, last_used, view.trouble]);
                    (view.id.to_string(), state)
                });
                let got = got.collect::<BTreeMap<String, Value>>();
                (
                    serde_json::json!(expected.collect::<BTreeMap<_, Value>>()),
                    serde_json::json!(got),
                )
            }
            other => panic!("unknown operation {other}"),
        };
        Some(answer)
    }

    fn rate_limited(&mut self, op: &Value, id: &str, now: Timestamp) -> Option<(Value, Value)> {
        let delay = Millis::new(op["for_ms"].as_u64().unwrap());
        let reset = Some(Reset::After(delay));
        let name = op["scope"].as_str().unwrap_or_default();
        let models = strings(&self.header["models"]);
        let (request, scope, block) = if name.is_empty() {
            (Request::new(), Scope::Account, BlockScope::Account)
        } else if models.contains(name) {
            (Request::new().model(name), Scope::Model, BlockScope::Model(name.to_owned()))
        } else {
            (Request::new().selector(name), Scope::Selector, BlockScope::Selector(name.to_owned()))
        };
        let outcome = match op["kind"].as_str().unwrap() {
            "throttle" => Outcome::RateLimited { scope, reset },
            "capacity" => Outcome::Overloaded { scope, reset },
            "reset" => {
                let until = now.plus(delay.max(Millis::from_secs(1)));
                self.scheduler.block(id, &block, Dimension::Throttle, until, now).unwrap();
                return None;
            }
            other => panic!("unknown kind {other}"),
        };
        self.scheduler.observe(id, &request, &outcome, now).unwrap();
        None
    }

    fn observe(&mut self, id: &str, outcome: Outcome, now: Timestamp) {
        self.scheduler.observe(id, &Request::new(), &outcome, now).unwrap();
    }

    fn status_after(
        &mut self,
        op: &Value,
        id: &str,
        outcome: Outcome,
        now: Timestamp,
    ) -> (Value, Value) {
        self.observe(id, outcome, now);
        let status = serde_json::json!(self.scheduler.inspect(id, now).unwrap().status);
        // The reference ends an error at its next ranking, we at the instant it is over.
        let recovery = self.scheduler.config().breaker.recovery;
        let since = self.errors.get(id).copied();
        if op["status"] == "error" && since.is_some_and(|since| since.is_over(recovery, now)) {
            return (serde_json::json!("active"), status);
        }
        if op["status"] == "error" && status == "error" {
            self.errors.entry(id.to_owned()).or_insert(now);
        } else {
            self.errors.remove(id);
        }
        (op["status"].clone(), status)
    }

    fn views(&self, now: Timestamp) -> impl Iterator<Item = account_pool::AccountView> {
        self.scheduler.accounts().map(move |id| self.scheduler.inspect(id.as_str(), now).unwrap())
    }

    fn ticket(&self, op: &Value) -> Ticket {
        self.tickets[&usize::try_from(op["select"].as_u64().unwrap()).unwrap()]
    }
}

fn config(header: &Value) -> Config {
    let millis = |value: &Value| Millis::new(value.as_u64().unwrap());
    let count = |value: &Value| Some(u32::try_from(value.as_u64().unwrap()).unwrap());
    let (sticky, breaker, quota) = (&header["sticky"], &header["breaker"], &header["quota"]);
    let mut config = Config::windsurf();

    config.sticky.mode = if sticky["enabled"] == true { StickyMode::On } else { StickyMode::Off };
    config.sticky.time_to_idle = millis(&sticky["ttl_ms"]);
    config.sticky.capacity = usize::try_from(sticky["max_bindings"].as_u64().unwrap()).unwrap();
    config.sticky.bind_by_caller_only = sticky["bind_by_user_only"] == true;
    config.sticky.no_fallback = sticky["no_fallback"] == true;

    config.breaker.threshold = count(&breaker["errorStreakThreshold"]);
    config.breaker.window = millis(&breaker["errorWindowMs"]);
    config.breaker.internal_threshold = count(&breaker["internalErrorThreshold"]);
    config.breaker.quarantine = millis(&breaker["internalQuarantineMs"]);
    config.breaker.recovery = millis(&breaker["errorRecoveryMs"]);
    config.breaker.escalation = (breaker["breakerEnabled"] == true).then(|| Escalation {
        base: millis(&breaker["breakerBaseMs"]),
        factor: breaker["breakerFactor"].as_f64().unwrap(),
        cap: millis(&breaker["breakerMaxMs"]),
        from_episode: count(&breaker["breakerStreakStart"]).unwrap(),
        grace: millis(&breaker["newAccountGraceMs"]),
    });
    config.last_usable_exempt = breaker["lastAccountExempt"] == true;
    config.new_account_baseline = breaker["newAccountBaseline"] == true;
    if breaker["degradedServe"] == false {
        config.degraded = account_pool::config::Degraded::Off;
    }

    config.quota.gate = quota["cooldownEnabled"] == true;
    config.quota.max_age = millis(&quota["cooldownMs"]);
    config.cooldown.quota.base = millis(&quota["cooldownMs"]);
    config.quota.dry_percent = quota["dryThreshold"].as_f64().unwrap();
    config.quota.spend_on_demand = quota["spendOnDemand"] == true;
    config.quota.on_demand_reserve = quota["onDemandReserveUsd"].as_f64().unwrap();
    config.quota.drought_percent = header["drought_threshold_percent"].as_f64().unwrap();
    config
}

fn plan(header: &Value, tier: &str) -> Plan {
    let rank = match tier {
        "pro" => 0,
        "free" => 2,
        "expired" => 3,
        _ => 1,
    };
    let window = Millis::new(header["rpm_window_ms"].as_u64().unwrap());
    let limit = header["rpm"][tier].as_u64().unwrap_or(20);
    Plan::default().window(limit, window).tier(Tier(rank))
}

fn allowed(allow: &Value) -> Entitlement {
    let models = allow.as_object().unwrap().iter().filter(|(_, allowed)| **allowed == true);
    Entitlement::only(models.map(|(model, _)| model.as_str()))
}

fn selectors(header: &Value, tier: &str) -> Entitlement {
    let selectors = header["selectors"].as_object().unwrap().iter();
    let open = selectors.filter(|(_, tiers)| strings(tiers).contains(tier));
    Entitlement::only(open.map(|(selector, _)| selector.as_str()))
}

fn request<'a>(op: &'a Value, excluded: &'a [AccountId]) -> Request<'a> {
    Request::new()
        .caller(op["caller"].as_str().unwrap_or_default())
        .model(op["model"].as_str().unwrap_or_default())
        .selector(op["selector"].as_str().unwrap_or_default())
        .exclude(excluded)
}

fn strings(list: &Value) -> BTreeSet<String> {
    let list = list.as_array().into_iter().flatten();
    list.map(|text| text.as_str().unwrap().to_owned()).collect()
}

fn via(path: Path) -> &'static str {
    match path {
        Path::Sticky => "sticky",
        Path::Degraded => "degraded",
        Path::Rank => "rank",
        other => panic!("the reference has no path {other:?}"),
    }
}
