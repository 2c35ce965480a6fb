//! Snapshots: what comes back goes on as if nothing had happened, and what is broken is refused.

#![allow(clippy::unwrap_used, reason = "a test may panic, its helpers included")]

#[path = "support/traffic.rs"]
#[allow(dead_code, reason = "shared with other tests")]
mod traffic;

use account_pool::config::{
    BindAt, BindingLimit, Degraded, Order, Recency, Refresh, StickyMode, Term, Ties,
};
use account_pool::{
    Account, AccountError, AccountId, Caller, Config, ManualClock, Millis, Outcome, Path, Pool,
    Request, Reset, Scheduler, Settlement, Snapshot, SnapshotError, Status, Timestamp,
};
use serde_json::{Value, json};
use traffic::{Driver, Random, config, later};

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

/// A scheduler after `steps` random operations, and the time.
fn lived(seed: u64, steps: u32) -> (Driver, Random, Timestamp) {
    let mut random = Random::new(seed);
    let mut driver = Driver::new(Scheduler::new(config(seed)).unwrap());
    let mut now = at(1_000_000);
    for _ in 0..4 {
        for id in ["a", "b", "c", "d"] {
            _ = driver.scheduler.add(traffic::account(id, &mut random), now);
        }
    }
    for _ in 0..steps {
        now = later(now, &mut random);
        driver.step(&mut random, now);
    }
    (driver, random, now)
}

fn through_json(snapshot: &Snapshot) -> Snapshot {
    serde_json::from_str(&serde_json::to_string(snapshot).unwrap()).unwrap()
}

fn restore(value: Value) -> Result<Scheduler, SnapshotError> {
    let snapshot: Snapshot = serde_json::from_value(value).expect("the form is right");
    Scheduler::restore(Config::default(), &snapshot, Timestamp::ZERO)
}

#[test]
fn the_future_after_restoring_is_the_same() {
    for seed in 0..280 {
        let (mut original, mut random, mut now) = lived(seed, 250);
        original.finish(now);
        if seed % 2 == 0 {
            now = later(now, &mut random);
        }
        let snapshot = through_json(&original.scheduler.snapshot(now));
        let scheduler = Scheduler::restore(config(seed), &snapshot, now).unwrap();
        let mut restored = Driver { scheduler, ..original.clone() };
        assert_eq!(restored.scheduler.snapshot(now), snapshot, "seed {seed}");

        go_on_alike(&mut original, &mut restored, &mut random, now, 250, &format!("seed {seed}"));
    }
}

/// Lets two drivers take the same steps, which must have the same answers and consequences.
fn go_on_alike(
    original: &mut Driver,
    restored: &mut Driver,
    random: &mut Random,
    mut now: Timestamp,
    steps: u32,
    about: &str,
) {
    for step in 0..steps {
        now = later(now, random);
        let expected = original.step(&mut random.clone(), now);
        let answer = restored.step(random, now);
        assert_eq!(answer, expected, "{about}, step {step}");
        for id in original.scheduler.accounts() {
            let expected = original.scheduler.inspect(id.as_str(), now);
            assert_eq!(restored.scheduler.inspect(id.as_str(), now), expected, "{about}");
        }
        let deadline = original.scheduler.next_deadline(now);
        assert_eq!(restored.scheduler.next_deadline(now), deadline, "{about}");
    }
    original.finish(now);
    restored.finish(now);
    assert_eq!(original.scheduler.snapshot(now), restored.scheduler.snapshot(now), "{about}");
    assert_eq!(original.scheduler.stats(), restored.scheduler.stats(), "{about}");
}

#[test]
fn the_random_lives_are_rich_enough_to_tell() {
    let mut all = String::new();
    for seed in 0..280 {
        let (driver, _, now) = lived(seed, 250);
        all += &serde_json::to_string(&driver.scheduler.snapshot(now)).unwrap();
    }
    for part in [
        "\"account\":null",
        "\"selector\":\"",
        "\"lapsed\":2",
        "\"model\":\"opus\"",
        "\"all_but\"",
        "\"departed\":[{",
        "\"vacant\":[{",
        "\"only\"",
        "\"steps\":1",
        "\"home\":1",
        "\"open_until\":1",
        "\"banned\"",
        "\"upstream\":false",
        "\"balance\":null",
    ] {
        assert!(all.contains(part), "no life had {part}");
    }
}

#[test]
fn what_is_under_way_is_left_out() {
    let mut scheduler = Scheduler::new(Config::default()).unwrap();
    scheduler.add(Account::new("a").rpm(2).max_in_flight(2), at(0)).unwrap();
    scheduler.add(Account::new("b"), at(0)).unwrap();
    for _ in 0..3 {
        scheduler.observe("a", &Request::new(), &Outcome::Network, at(1)).unwrap();
    }
    let half_open = at(1).plus(Millis::from_mins(15));
    let ticket = scheduler.select_account("a", &Request::new(), half_open).unwrap().ticket;
    assert!(scheduler.select_account("a", &Request::new(), half_open).is_err(), "one probe is out");

    let snapshot = through_json(&scheduler.snapshot(half_open));
    let mut restored = Scheduler::restore(Config::default(), &snapshot, half_open).unwrap();
    assert_eq!(restored.in_flight(), 0);
    let view = restored.inspect("a", half_open).unwrap();
    assert_eq!((view.in_flight, view.requests[0].used), (0, 1));
    assert_eq!(restored.settle(ticket, &Outcome::success(), half_open), Settlement::Late);
    assert!(
        restored.select_account("a", &Request::new(), half_open).is_ok(),
        "the probe is free again"
    );
}

#[test]
fn what_has_expired_counts_for_nothing() {
    let mut scheduler = Scheduler::new(Config::default()).unwrap();
    scheduler.add(Account::new("a").rpm(1), at(0)).unwrap();
    let request = Request::new().caller("k");
    let ticket = scheduler.select(&request, at(10)).unwrap().ticket;
    scheduler.settle(ticket, &Outcome::success(), at(10));
    let throttle = Outcome::rate_limited(Some(Reset::After(Millis::from_mins(3))));
    scheduler.observe("a", &request, &throttle, at(20)).unwrap();
    let snapshot = scheduler.snapshot(at(20));

    let restored = Scheduler::restore(Config::default(), &snapshot, at(19)).unwrap();
    assert_eq!(restored.snapshot(at(0)), snapshot, "a time before the snapshot counts as its own");
    assert_eq!(restored.bindings(at(20)), 1);
    assert!(restored.preview(&request, at(20)).is_err());

    let hour = at(3_600_000);
    let restored = Scheduler::restore(Config::default(), &snapshot, hour).unwrap();
    let view = restored.inspect("a", hour).unwrap();
    assert_eq!((view.blocks.len(), view.requests[0].used, view.bound), (0, 0, 0));
    assert_eq!((restored.bindings(hour), restored.stats().sticky.expiries), (0, 1));
    assert_eq!(restored.preview(&request, hour).unwrap().path, Path::Rank);
}

#[test]
fn another_configuration_applies_as_if_it_had_been_set() {
    for seed in 0..28 {
        let (mut original, _, now) = lived(seed, 300);
        original.finish(now);
        let snapshot = original.scheduler.snapshot(now);
        for other in (0..7).map(config) {
            let mut set = original.scheduler.clone();
            set.set_config(other.clone(), now).unwrap();
            let restored = Scheduler::restore(other, &snapshot, now).unwrap();
            assert_eq!(restored.snapshot(now), set.snapshot(now), "seed {seed}");
        }
    }
}

/// A change of every part of the configuration.
const CHANGES: &[fn(&mut Config)] = &[
    |it| it.cooldown.throttle.base = Millis::from_secs(7),
    |it| it.last_usable_exempt = !it.last_usable_exempt,
    |it| it.max_waiting = 3,
    |it| it.new_account_baseline = !it.new_account_baseline,
    |it| it.baseline_jitter += 5,
    |it| it.aliases = [("made-up".into(), "haiku".into())].into(),
    |it| it.sticky.time_to_idle = Millis::from_secs(30),
    |it| it.sticky.time_to_idle = Millis::from_days(1),
    |it| it.sticky.time_to_idle = Millis::ZERO,
    |it| it.sticky.cache_lifetime = Millis::from_secs(10),
    |it| it.sticky.trail = 2,
    |it| it.sticky.drop_when_blocked = !it.sticky.drop_when_blocked,
    |it| it.sticky.no_fallback = !it.sticky.no_fallback,
    |it| it.sticky.bind_at = BindAt::Select,
    |it| it.sticky.refresh = Refresh::OnLookup,
    |it| it.sticky.bind_by_caller_only = !it.sticky.bind_by_caller_only,
    |it| it.sticky.queue_on_pin = Millis::from_secs(9),
    |it| it.sticky.max_waiters = 1,
    |it| it.sticky.mode = StickyMode::Drain,
    |it| it.sticky.mode = StickyMode::Off,
    |it| it.sticky.order = Order::HomeFirst,
    |it| it.sticky.capacity = 2,
    |it| it.sticky.binding_limit = Some(BindingLimit { callers: 1, refuse: true }),
    |it| it.rank.terms = vec![Term::BoundCallers, Term::Quota, Term::Recency],
    |it| it.rank.ties = Ties::Exact,
    |it| it.rank.recency = Recency::Turn,
    |it| it.soft.rate_used_percent = Some(50.0),
    |it| it.breaker.recovery = Millis::from_secs(3),
    |it| it.health.window = Millis::from_secs(2),
    |it| it.quota.gate = !it.quota.gate,
    |it| it.degraded = Degraded::Off,
    |it| it.lease_timeout = Some(Millis::from_secs(20)),
    |it| it.unmetered = ["opus".into(), "made-up".into()].into(),
];

#[test]
fn the_future_after_a_change_of_the_configuration_is_that_of_one_restored_under_it() {
    for seed in 0..140 {
        let (mut lived, random, now) = lived(seed, 200);
        lived.finish(now);
        // The summaries that selections ask are up to date.
        _ = lived
            .scheduler
            .select(&Request::new(), now)
            .map(|grant| lived.tickets.push(grant.ticket));
        lived.finish(now);
        for (number, change) in CHANGES.iter().enumerate() {
            let mut other = config(seed);
            change(&mut other);
            let mut set = lived.clone();
            let snapshot = set.scheduler.snapshot(now);
            let scheduler = Scheduler::restore(other.clone(), &snapshot, now).unwrap();
            let mut restored = Driver { scheduler, ..lived.clone() };
            set.scheduler.set_config(other, now).unwrap();
            let about = format!("seed {seed}, change {number}");
            go_on_alike(&mut set, &mut restored, &mut random.clone(), now, 40, &about);
        }
    }
}

#[test]
fn names_keep_what_they_resolved_to() {
    let mut aliased = Config::default();
    aliased.aliases.insert("big".into(), "opus".into());
    let mut scheduler = Scheduler::new(aliased).unwrap();
    let models = account_pool::Entitlement::only(["big"]);
    scheduler.add(Account::new("a").models(models), at(0)).unwrap();
    let snapshot = scheduler.snapshot(at(0));

    let mut turned = Config::default();
    turned.aliases.insert("opus".into(), "other".into());
    let restored = Scheduler::restore(turned, &snapshot, at(0)).unwrap();
    assert_eq!(restored.snapshot(at(0)), snapshot);
}

#[test]
fn broken_snapshots_are_refused_or_harmless() {
    let (mut restored, mut refused, mut malformed) = (0, 0, 0);
    for seed in 0..40 {
        let (driver, mut random, now) = lived(seed, 250);
        let sound = serde_json::to_value(driver.scheduler.snapshot(now)).unwrap();
        for _ in 0..120 {
            let mut broken = sound.clone();
            for _ in 0..=random.below(2) {
                corrupt(&mut broken, &mut random);
            }
            let Ok(snapshot) = serde_json::from_value::<Snapshot>(broken) else {
                malformed += 1;
                continue;
            };
            let Ok(scheduler) = Scheduler::restore(config(seed), &snapshot, now) else {
                refused += 1;
                continue;
            };
            restored += 1;
            let mut survivor = Driver { scheduler, ..driver.clone() };
            let mut now = now;
            for _ in 0..40 {
                now = later(now, &mut random);
                survivor.step(&mut random, now);
                _ = survivor.scheduler.next_deadline(now);
                _ = survivor.scheduler.explain(&Request::new().caller("solo"), now);
            }
            let again = survivor.scheduler.snapshot(now);
            Scheduler::restore(config(seed), &again, now).unwrap();
        }
    }
    assert!(restored > 300 && refused > 300 && malformed > 300, "{restored} {refused} {malformed}");
}

/// Changes one value somewhere.
fn corrupt(value: &mut Value, random: &mut Random) {
    let deeper = !random.chance(12);
    match value {
        Value::Array(items) if deeper && !items.is_empty() => {
            let index = usize::try_from(random.below(items.len() as u64)).unwrap();
            let other = usize::try_from(random.below(items.len() as u64)).unwrap();
            match random.below(12) {
                0 => items.swap(index, other),
                1 => items.push(items[index].clone()),
                2 => drop(items.remove(index)),
                3 => *items = vec![items[index].clone(); 300],
                _ => corrupt(&mut items[index], random),
            }
        }
        Value::Object(fields) if deeper && !fields.is_empty() => {
            let index = usize::try_from(random.below(fields.len() as u64)).unwrap();
            let key = fields.keys().nth(index).unwrap().clone();
            match random.below(24) {
                0 => drop(fields.remove(&key)),
                1 => {
                    let moved = fields.remove(&key).unwrap();
                    fields.insert(format!("{key}x"), moved);
                }
                _ => corrupt(&mut fields[&key], random),
            }
        }
        Value::Number(_) if deeper => {
            *value = match random.below(10) {
                0 => json!(u64::MAX),
                1 => json!(u32::MAX),
                2 => json!(1_u64 << 52),
                3 => json!(-1),
                4 => json!(1e300),
                5 => json!(0.5),
                6 => json!(0),
                _ => {
                    let bits = random.below(40);
                    json!(random.below(1 << bits))
                }
            };
        }
        Value::String(text) if deeper => {
            *text = match random.below(5) {
                0 => String::new(),
                1 => " ".into(),
                2 => "a".into(),
                3 => "opus".into(),
                _ => text.replace(|c: char| c.is_ascii_digit(), "0"),
            };
        }
        Value::Bool(flag) => *flag = !*flag,
        _ => {
            *value = match random.below(4) {
                0 => Value::Null,
                1 => json!([]),
                2 => json!({}),
                _ => json!("account"),
            };
        }
    }
}

#[test]
fn each_kind_of_nonsense_has_its_error() {
    let (mut driver, _, now) = lived(0, 0);
    for caller in ["solo", "x:y:z"] {
        let request = Request::new().caller(caller);
        let ticket = driver.scheduler.select(&request, now).unwrap().ticket;
        driver.scheduler.settle(ticket, &Outcome::success(), now);
    }
    driver.scheduler.observe("a", &Request::new(), &Outcome::AuthFailed, now).unwrap();
    let sound = serde_json::to_value(driver.scheduler.snapshot(now)).unwrap();
    restore(sound.clone()).unwrap();
    let with = |pointer: &str, new: Value| {
        let mut value = sound.clone();
        *value.pointer_mut(pointer).expect(pointer) = new;
        restore(value).err()
    };
    let part = |error: Option<SnapshotError>| match error {
        Some(SnapshotError::TimeOrder { part }) => format!("time {part}"),
        Some(SnapshotError::Range { part }) => format!("range {part}"),
        Some(SnapshotError::TooLong { part, most }) => format!("long {part} {most}"),
        Some(SnapshotError::Duplicate { part }) => format!("twice {part}"),
        Some(SnapshotError::Inconsistent { part }) => format!("against {part}"),
        other => format!("{other:?}"),
    };
    let part = |pointer: &str, new: Value| part(with(pointer, new));
    let later = json!(now.as_millis() + 1);

    assert_eq!(with("/version", json!(2)), Some(SnapshotError::Version { found: 2 }));
    let blank = SnapshotError::Account { account: " ".into(), error: AccountError::BlankId };
    assert_eq!(with("/accounts/0/id", json!(" ")), Some(blank));
    let error = AccountError::Duplicate("a".into());
    let twice = SnapshotError::Account { account: "a".into(), error };
    assert_eq!(with("/accounts/1/id", json!("a")), Some(twice));
    let weight = SnapshotError::Account { account: "a".into(), error: AccountError::Weight };
    assert_eq!(with("/accounts/0/plan/weight", json!(0)), Some(weight));
    let status = SnapshotError::Account { account: "a".into(), error: AccountError::Status };
    assert_eq!(with("/accounts/0/status", json!("error")), Some(status));
    let unknown = SnapshotError::UnknownAccount("zzz".into());
    assert_eq!(with("/bindings/0/trail/0/account", json!("zzz")), Some(unknown));

    let stop = sound.pointer("/bindings/0/trail/0").unwrap().clone();
    let block = sound.pointer("/accounts/0/blocks/0").unwrap().clone();
    let binding = sound.pointer("/bindings/0").unwrap().clone();
    for (pointer, new, expected) in [
        ("/accounts/0/place/index", json!(9), "against accounts.place"),
        ("/accounts/0/place/index", json!(1), "against accounts.place"),
        ("/vacant", json!([{"index": 0, "generation": 0}]), "against accounts.place"),
        ("/accounts/0/added_at", later.clone(), "time accounts.added_at"),
        ("/accounts/0/last_used", later.clone(), "time accounts.last_used"),
        ("/accounts/0/turn", json!(99), "against accounts.turn"),
        ("/accounts/0/requests", json!([[5, 1], [4, 1]]), "time accounts.requests"),
        ("/accounts/0/tokens", json!([[later, 1]]), "time accounts.tokens"),
        ("/accounts/0/tokens", json!([[1, u64::MAX], [2, 1]]), "range accounts.tokens"),
        ("/accounts/0/requests", json!([[1, 0]]), "range accounts.requests"),
        (
            "/accounts/0/trouble",
            (1..=241).map(|time| json!([time, 1])).collect(),
            "long accounts.trouble 240",
        ),
        ("/accounts/0/blocks", json!([block, block]), "twice accounts.blocks"),
        ("/accounts/0/blocks/0/set_at", later.clone(), "time accounts.blocks"),
        ("/accounts/0/blocks/0/until", json!(1), "time accounts.blocks"),
        ("/accounts/0/blocks/0/announced", json!(1), "time accounts.blocks"),
        ("/accounts/0/blocks/0/steps", json!(u32::MAX), "range accounts.blocks"),
        ("/accounts/0/blocks/0/generation", json!(77), "against accounts.blocks"),
        ("/accounts/0/breaker/errors/last", later.clone(), "time accounts.breaker"),
        ("/accounts/0/breaker/bans/count", json!(1), "against accounts.breaker"),
        ("/accounts/0/breaker/episodes", json!(u32::MAX), "range accounts.breaker"),
        ("/accounts/0/quota/observed_at", later.clone(), "time accounts.quota"),
        (
            "/accounts/0/quota/windows",
            json!([{"remaining": 101, "reset": null, "gates": true}]),
            "range accounts.quota",
        ),
        (
            "/accounts/0/quota/windows",
            Value::Array(vec![json!({"remaining": null, "reset": null, "gates": true}); 5]),
            "long accounts.quota 4",
        ),
        ("/departed", json!([{"id": "a", "blocks": []}]), "twice departed"),
        (
            "/departed",
            (0..1_025).map(|id| json!({"id": id.to_string(), "blocks": []})).collect(),
            "long departed 1024",
        ),
        ("/bindings/0/trail", Value::Array(vec![stop.clone(); 9]), "long bindings.trail 8"),
        ("/bindings/0/trail", json!([stop, stop]), "twice bindings.trail"),
        ("/bindings/0/trail", json!([]), "against bindings.home"),
        ("/bindings/0/home", json!(1), "against bindings.home"),
        ("/bindings/0/trail/0/at", later.clone(), "time bindings.trail"),
        ("/bindings/0/last_used", later, "time bindings.last_used"),
        ("/bindings/1/last_used", json!(0), "time bindings.last_used"),
        ("/bindings/1", binding, "twice bindings"),
        ("/lapsed", json!(3), "against lapsed"),
        ("/turn", json!(u64::MAX), "range turn"),
        ("/next_sequence", json!(u64::MAX), "range next_sequence"),
        ("/generation", json!(u64::MAX), "range generation"),
        ("/counters/selected/rank", json!(u64::MAX), "range counters"),
        (
            "/counters/refused_by_reason",
            json!({"throttled": 1}),
            "against counters.refused_by_reason",
        ),
    ] {
        assert_eq!(part(pointer, new), expected, "{pointer}");
    }

    let mut config = Config::default();
    config.sticky.trail = 0;
    let snapshot = driver.scheduler.snapshot(now);
    let error = Scheduler::restore(config, &snapshot, now).unwrap_err();
    assert!(matches!(error, SnapshotError::Config(_)), "{error}");
}

#[test]
fn a_later_format_is_told_by_its_version() {
    let mut value = serde_json::to_value(lived(0, 9).0.scheduler.snapshot(at(0))).unwrap();
    value["version"] = json!(3);
    value["something_new"] = json!({"of": "then"});
    let error = restore(value).unwrap_err();
    assert_eq!(error.to_string(), "a snapshot of format 3 cannot be read: this release reads 1");
}

#[test]
fn no_key_and_no_payload_is_written() {
    let clock = ManualClock::new(at(5));
    let pool = Pool::with_clock(Config::default(), clock).unwrap();
    pool.add(Account::new("a"), "SENTINEL-PAYLOAD".to_owned()).unwrap();
    let key = "SENTINEL-TENANT:part:SENTINEL-KEY";
    let request = Request::new().caller(key).tenant("SENTINEL-OTHER").model("m");
    pool.select(&request).unwrap().settle(Outcome::success());
    let text = serde_json::to_string(&pool.snapshot()).unwrap();
    assert!(!text.contains("SENTINEL") && text.contains("\"caller\":\""), "{text}");
    let caller = serde_json::to_value(Caller::new(key)).unwrap();
    assert!(text.contains(caller["digest"].as_str().unwrap()), "the digest is written in hex");
}

#[test]
fn a_pool_comes_back_with_the_accounts_that_have_payloads() {
    let pool = Pool::with_clock(Config::default(), ManualClock::new(at(100))).unwrap();
    for id in ["a", "b", "c"] {
        pool.add(Account::new(id), id.to_owned()).unwrap();
    }
    let request = Request::new().caller("k");
    let lease = pool.select(&request).unwrap();
    let served = lease.account().clone();
    lease.settle(Outcome::success());
    let throttle = Outcome::rate_limited(Some(Reset::After(Millis::from_mins(10))));
    let absent = AccountId::from(if served == "b" { "c" } else { "b" });
    pool.observe(absent.as_str(), &Request::new(), &throttle).unwrap();

    let attach = |id: &AccountId| (*id != absent).then(|| format!("new {id}"));
    let clock = ManualClock::new(at(50));
    let (back, left_out) = Pool::restore(pool.config(), &pool.snapshot(), clock, attach).unwrap();
    assert_eq!(left_out, std::slice::from_ref(&absent));
    assert_eq!(back.accounts().len(), 2);
    let lease = back.select(&request).unwrap();
    assert_eq!((lease.account(), lease.path()), (&served, Path::Sticky));
    assert_eq!(**lease.payload(), format!("new {served}"));
    drop(lease);

    back.add(Account::new(absent.clone()), "again".into()).unwrap();
    let view = back.inspect(absent.as_str()).unwrap();
    assert_eq!(view.blocks.len(), 1, "what the upstream said is remembered");
    drop(pool);
}

#[test]
fn the_first_format_keeps_restoring() {
    let text = include_str!("fixtures/snapshot-v1.json");
    let snapshot: Snapshot = serde_json::from_str(text).unwrap();
    let now = snapshot.taken_at();
    assert_eq!((snapshot.version(), now), (1, at(1_700_000_600_000)));
    let mut scheduler = Scheduler::restore(Config::default(), &snapshot, now).unwrap();
    assert_eq!(scheduler.snapshot(now), snapshot);

    let ids: Vec<&str> = scheduler.accounts().map(AccountId::as_str).collect();
    assert_eq!(ids, ["pro-1", "pro-2", "free-1", "reserve"]);
    let pro = scheduler.inspect("pro-1", now).unwrap();
    assert_eq!((pro.requests[0].used, pro.usage.successes, pro.bound), (3, 3, 1));
    assert_eq!(pro.tokens.unwrap().used, 4_530);
    let throttled = scheduler.inspect("pro-2", now).unwrap();
    assert_eq!((throttled.blocks.len(), throttled.trouble), (1, 1));
    assert_eq!(throttled.blocks[0].until, now.plus(Millis::from_secs(45)));
    let free = scheduler.inspect("free-1", now).unwrap();
    assert_eq!((free.status, free.quota.worst), (Status::Error, Some(12.5)));
    assert!(scheduler.inspect("reserve", now).unwrap().draining);

    let bound = Request::new().caller("team:7:user:42").model("opus");
    let first = scheduler.select(&bound, now).unwrap();
    assert_eq!((first.account.as_str(), first.path), ("pro-1", Path::Sticky));
    let throttled = Request::new().caller("team:7:user:43").model("opus");
    let moved = scheduler.select(&throttled, now).unwrap();
    assert_eq!((moved.account.as_str(), moved.path), ("pro-1", Path::Rank));
    let other_model = Request::new().caller("team:7:user:44").model("haiku");
    let other = scheduler.select(&other_model, now).unwrap();
    assert_eq!((other.account.as_str(), other.path), ("pro-2", Path::Rank));
    let refusal = scheduler.select_account("free-1", &Request::new(), now).unwrap_err();
    assert_eq!(refusal.retry_at(), Some(now.plus(Millis::from_mins(15))));
    scheduler.add(Account::new("gone"), now).unwrap();
    assert_eq!(scheduler.inspect("gone", now).unwrap().blocks.len(), 1);
}
