//! Journals: a replay ends in the same state by the same answers, and a digest tells states apart.

#![allow(clippy::unwrap_used, reason = "a test may panic, its helpers included")]

#[path = "support/traffic.rs"]
#[allow(dead_code, reason = "shared with other tests")]
mod traffic;

use account_pool::journal::{Answer, Entry, Journal, JournalError, Operation};
use account_pool::{
    Account, AccountId, Affinity, BlockScope, Caller, Config, Dimension, Entitlement, Grant,
    Millis, Outcome, OwnedRequest, Plan, Request, Scheduler, Settlement, Status, Ticket, Timestamp,
    TrafficClass, WaitTicket,
};
use serde_json::json;
use traffic::{Random, config, later};

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

/// Makes random operations that fit the answers so far.
struct Host {
    random: Random,
    tickets: Vec<Ticket>,
    waits: Vec<WaitTicket>,
}

impl Host {
    fn operation(&mut self, now: Timestamp) -> Operation {
        let random = &mut self.random;
        let id = AccountId::from(random.pick(&["a", "b", "c", "d", "e"]));
        let excluded = [AccountId::from(random.pick(&["a", "b"]))];
        let excluded = if random.chance(10) { &excluded[..] } else { &[] };
        let waited = self.waits.last().copied().filter(|_| random.chance(40));
        let request = OwnedRequest::from(&traffic::request(random, excluded, waited));
        let outcome = traffic::outcome(random, now);
        let names = traffic::entitlement(random, &["opus", "sonnet", "eu"]);
        let recent = usize::try_from(random.below(10)).unwrap();
        let ticket = self.tickets.iter().rev().nth(recent).copied();
        let chosen = random.below(50);
        if let (Some(ticket), 18..=30) = (ticket, chosen) {
            return match chosen {
                18 => Operation::Cancel(ticket),
                19 => Operation::Abandon(ticket),
                20 => Operation::Refund(ticket),
                21 => Operation::Touch(ticket),
                22 => Operation::Report(ticket, outcome),
                _ => Operation::Settle(ticket, outcome),
            };
        }
        match (chosen, self.waits.pop()) {
            (31, Some(wait)) => Operation::GiveUp(wait),
            (0, _) => Operation::SelectAccount(id, request),
            (32, _) => Operation::Reap(Millis::from_secs(30)),
            (33, _) => Operation::Observe(id, request, outcome),
            (34, _) => Operation::ObserveQuota(id, traffic::reading(random, now)),
            (35..=37, _) => Operation::Add(traffic::account(id.as_str(), random).into()),
            (38, _) if random.chance(40) => Operation::Remove(id),
            (39, _) => Operation::SetPlan(id, traffic::plan(random)),
            (40, _) if random.chance(50) => Operation::SetModels(id, names),
            (40, _) => Operation::SetSelectors(id, names),
            (41, _) => Operation::SetBlockedModels(id, ["haiku".to_owned()].into()),
            (42, _) if random.chance(20) => Operation::SetStatus(id, Status::Disabled),
            (42, _) => Operation::SetStatus(id, Status::Active),
            (43, _) => Operation::SetMaintenance(id, random.chance(20)),
            (44, _) => Operation::SetDraining(id, random.chance(20)),
            (45, _) => {
                let scope = BlockScope::Model("opus".into());
                Operation::Block(id, scope, Dimension::Operator, now.plus(Millis::new(9_000)))
            }
            (46, _) => Operation::ClearBlocks(id, None),
            (47, _) if random.chance(50) => Operation::ClearBlock(id, random.below(30)),
            (47, _) => Operation::SetConfig(config(random.below(7)).into()),
            (48, _) => Operation::Bind(request, id),
            (49, _) => match random.below(6) {
                0 => Operation::UnbindCaller(Caller::new("solo").unwrap()),
                1 => Operation::UnbindAccount(id),
                _ => Operation::Unbind(request),
            },
            _ => Operation::Select(request),
        }
    }

    fn note(&mut self, answer: &Answer) {
        match answer {
            Answer::Granted(grant) => self.tickets.push(grant.ticket),
            Answer::Refused(refusal) => self.waits.extend(refusal.wait().map(|wait| wait.ticket)),
            _ => {}
        }
    }
}

/// A recorded life with its answers.
fn recorded(seed: u64, steps: u32) -> (Journal, Vec<Answer>, Scheduler) {
    let mut scheduler = Scheduler::with_origin(config(seed), 5).unwrap();
    let mut journal = Journal::new(&scheduler);
    let mut host = Host { random: Random::new(seed), tickets: vec![], waits: vec![] };
    let (mut now, mut answers) = (at(1_000_000), Vec::new());
    for _ in 0..steps {
        now = later(now, &mut host.random);
        let operation = host.operation(now);
        let answer = journal.record(operation, &mut scheduler, now);
        host.note(&answer);
        answers.push(answer);
    }
    (journal, answers, scheduler)
}

#[test]
fn a_replay_gives_the_same_answers_and_state() {
    for seed in 0..70 {
        let (journal, answers, scheduler) = recorded(seed, 400);
        let text = serde_json::to_string(&journal).unwrap();
        let replayed = serde_json::from_str::<Journal>(&text).unwrap();
        assert!(serde_json::to_string(&replayed).unwrap() == text, "seed {seed}");
        let replayed = replayed.replay(config(seed)).unwrap();
        assert_eq!(replayed.answers, answers, "seed {seed}");
        assert_eq!(replayed.digest, scheduler.digest(), "seed {seed}");
        assert_eq!(replayed.scheduler, scheduler, "seed {seed}");
    }
}

#[test]
fn every_operation_occurs_in_the_random_journals() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..70 {
        for entry in recorded(seed, 400).0.entries() {
            let value = serde_json::to_value(&entry.operation).unwrap();
            seen.extend(value.as_object().unwrap().keys().cloned());
        }
    }
    assert_eq!(seen.len(), 29, "{seen:?}");
}

#[test]
fn equal_digests_mean_equal_states_at_each_step() {
    for seed in 0..14 {
        let (journal, ..) = recorded(seed, 200);
        let mut one = Scheduler::with_origin(config(seed), 5).unwrap();
        let mut other = one.clone();
        let mut last = one.digest();
        for Entry { at, operation } in journal.entries() {
            let before = one.clone();
            operation.apply(&mut one, *at);
            operation.apply(&mut other, *at);
            assert_eq!(one.digest(), other.digest());
            if one.digest() == last {
                assert_eq!(one.snapshot(*at), before.snapshot(*at), "{operation:?}");
            }
            last = one.digest();
        }
    }
}

#[test]
fn a_restored_scheduler_has_the_digest_of_an_idle_one() {
    let mut scheduler = Scheduler::new(Config::default()).unwrap();
    scheduler.add(Account::new("a").rpm(9), at(0)).unwrap();
    let request = Request::new().caller("k").model("m");
    for time in 1..5 {
        let grant = scheduler.preview(&request, at(time)).unwrap();
        scheduler.bind(&request, grant.account.as_str(), at(time)).unwrap();
        scheduler.observe("a", &request, &Outcome::Network, at(time)).unwrap();
    }
    let snapshot = scheduler.snapshot(at(9));
    let mut restored = Scheduler::restore(Config::default(), &snapshot, at(9)).unwrap();
    scheduler.reap(Millis::MAX, at(9));
    assert_eq!(restored.digest(), scheduler.digest());
    restored.set_draining("a", true, at(9)).unwrap();
    assert_ne!(restored.digest(), scheduler.digest());
}

/// A short journal in which everything matters, and the tickets that it gave.
fn short() -> Vec<(u64, Operation)> {
    let mut scheduler = Scheduler::new(Config::default()).unwrap();
    let mut journal = Journal::new(&scheduler);
    let mut time = 0;
    let mut record = |operation: Operation| {
        time += 100;
        journal.record(operation, &mut scheduler, at(time))
    };
    let granted = |answer| match answer {
        Answer::Granted(Grant { ticket, .. }) => ticket,
        other => panic!("{other:?}"),
    };
    for id in ["a", "b", "c"] {
        let account = Account::new(id).rpm(9).tokens_per_minute(9_000);
        assert_eq!(record(Operation::Add(account.into())), Answer::Done);
    }
    let request = OwnedRequest::from(&Request::new().caller("k").model("opus").cost(10));
    let settled = granted(record(Operation::Select(request.clone())));
    let held = granted(record(Operation::SelectAccount("b".into(), request.clone())));
    record(Operation::Settle(settled, Outcome::success()));
    record(Operation::Observe("c".into(), request, Outcome::Network));
    record(Operation::Touch(held));
    journal.entries().iter().map(|it| (it.at.as_millis(), it.operation.clone())).collect()
}

fn digest_of(operations: &[(u64, Operation)]) -> String {
    let mut scheduler = Scheduler::new(Config::default()).unwrap();
    for (time, operation) in operations {
        operation.apply(&mut scheduler, at(*time));
    }
    scheduler.digest().to_string()
}

#[test]
fn a_changed_operation_changes_the_digest() {
    let sound = short();
    let changed = |index: usize, operation: Operation| {
        let mut operations = sound.clone();
        operations[index].1 = operation;
        digest_of(&operations)
    };
    let mut others = vec![digest_of(&sound)];
    for index in 0..sound.len() {
        let mut operations = sound.clone();
        operations.remove(index);
        others.push(digest_of(&operations));
        let mut operations = sound.clone();
        operations[index].0 += 1;
        others.push(digest_of(&operations));
    }
    let request = |key: &str, model| OwnedRequest::from(&Request::new().caller(key).model(model));
    let (Operation::Settle(settled, _), Operation::Touch(held)) = (&sound[5].1, &sound[7].1) else {
        panic!("{sound:?}");
    };
    others.extend([
        changed(0, Operation::Add(Account::new("a").rpm(8).tokens_per_minute(9_000).into())),
        changed(1, Operation::Add(Account::new("bb").rpm(9).tokens_per_minute(9_000).into())),
        changed(2, Operation::Add(Account::new("c").rpm(9).weight(2.0).into())),
        changed(3, Operation::Select(request("other", "opus"))),
        changed(3, Operation::Select(request("k", "haiku"))),
        changed(4, Operation::SelectAccount("c".into(), request("k", "opus"))),
        changed(4, Operation::SelectAccount("b".into(), request("k2", "opus"))),
        changed(5, Operation::Settle(*settled, Outcome::Network)),
        changed(5, Operation::Settle(*held, Outcome::success())),
        changed(6, Operation::SetDraining("c".into(), true)),
        changed(7, Operation::Refund(*held)),
        changed(7, Operation::SetModels("a".into(), Entitlement::only(["opus"]))),
        changed(7, Operation::SetPlan("a".into(), Plan::default())),
    ]);
    let mut config = Config::default();
    config.health.window = Millis::from_mins(6);
    others.push(changed(7, Operation::SetConfig(config.into())));
    let distinct: std::collections::BTreeSet<&String> = others.iter().collect();
    assert_eq!(distinct.len(), others.len());
}

#[test]
fn all_that_a_lease_remembers_is_in_the_digest() {
    let request = Request::new().caller("k").model("m").cost(5);
    let digest = |request: Request<'_>, then: &dyn Fn(Ticket) -> Operation| {
        let mut scheduler = Scheduler::new(Config::default()).unwrap();
        scheduler.add(Account::new("a"), at(0)).unwrap();
        let ticket = scheduler.select(&request, at(1)).unwrap().ticket;
        then(ticket).apply(&mut scheduler, at(2));
        assert_eq!((scheduler.in_flight(), scheduler.reap(Millis::MAX, at(9))), (1, 0));
        scheduler.digest().to_string()
    };
    let nothing = |_| Operation::Reap(Millis::MAX);
    let digests = [
        digest(request, &nothing),
        digest(request, &Operation::Touch),
        digest(request, &Operation::Refund),
        digest(request.caller("l"), &nothing),
        digest(request.tenant("t"), &nothing),
        digest(request.model("n"), &nothing),
        digest(request.selector("s"), &nothing),
        digest(request.cost(6), &nothing),
        digest(request.class(TrafficClass::Background), &nothing),
        digest(request.affinity(Affinity::Ignore), &nothing),
    ];
    let distinct: std::collections::BTreeSet<&String> = digests.iter().collect();
    assert_eq!(distinct.len(), digests.len(), "{digests:#?}");
}

#[test]
fn a_digest_reads_as_hexadecimal() {
    let digest = Scheduler::new(Config::default()).unwrap().digest();
    assert_eq!(digest.to_string().len(), 64);
    assert_eq!(format!("{digest:?}"), format!("Digest({digest})"));
    assert_eq!(digest.as_bytes()[0], u8::from_str_radix(&digest.to_string()[..2], 16).unwrap());
}

#[test]
fn a_rehearsal_settles_what_the_same_selection_got() {
    let mut scheduler = Scheduler::new(Config::default()).unwrap();
    let mut journal = Journal::new(&scheduler);
    let mut record = |operation, time| journal.record(operation, &mut scheduler, at(time));
    let account = |id: &str, rpm| Operation::Add(Account::new(id).rpm(rpm).into());
    record(account("a", 2), 0);
    let request = |key: &str| Operation::Select((&Request::new().caller(key)).into());
    let Answer::Granted(first) = record(request("k"), 1) else { panic!() };
    let Answer::Granted(second) = record(request("l"), 2) else { panic!() };
    assert!(matches!(record(request("m"), 3), Answer::Refused(_)));
    let settle = |grant: &Grant| Operation::Settle(grant.ticket, Outcome::success());
    record(settle(&second), 4);
    record(settle(&first), 5);
    record(Operation::SetConfig(Config::windsurf().into()), 6);
    let settled = Answer::Settled(Settlement::Settled);

    // The same policy: nothing differs but the change of policy.
    let same = journal.rehearse(Config::default(), Config::default()).unwrap();
    assert_eq!(same.recorded.answers[..6], same.other.answers[..6]);
    assert_eq!(same.recorded.answers[6], Answer::Done);
    assert_eq!(same.other.answers[6], Answer::Skipped);

    // A journal whose plan is tighter: the second selection is refused, so its outcome has nobody.
    let mut tighter = serde_json::to_value(&journal).unwrap();
    tighter["entries"][0]["operation"] = serde_json::to_value(account("a", 1)).unwrap();
    let tighter: Journal = serde_json::from_value(tighter).unwrap();
    let replayed = tighter.rehearse(Config::default(), Config::default()).unwrap().other;
    assert!(matches!(replayed.answers[2], Answer::Refused(_)));
    assert_eq!(replayed.answers[4], Answer::Skipped);
    assert_eq!(replayed.answers[5], settled);

    // A policy that serves what was refused: selected, counted, and ended at once.
    let mut off = Config::default();
    off.degraded = account_pool::config::Degraded::Off;
    let mut scheduler = Scheduler::new(off.clone()).unwrap();
    let mut journal = Journal::new(&scheduler);
    journal.record(Operation::Add(Account::new("a").into()), &mut scheduler, at(0));
    let limited = Outcome::rate_limited(None);
    let owned = OwnedRequest::default();
    journal.record(Operation::Observe("a".into(), owned, limited), &mut scheduler, at(1));
    assert!(matches!(journal.record(request("k"), &mut scheduler, at(2)), Answer::Refused(_)));
    let rehearsal = journal.rehearse(off, Config::default()).unwrap();
    assert!(matches!(&rehearsal.other.answers[2], Answer::Granted(grant) if grant.account == "a"));
    let other = rehearsal.other.scheduler;
    assert_eq!((other.in_flight(), other.stats().selected.degraded), (0, 1));
    assert_eq!(other.digest(), rehearsal.other.digest);
}

#[test]
fn what_cannot_be_replayed_says_why() {
    let (journal, ..) = recorded(0, 3);
    let mut wrong = Config::default();
    wrong.sticky.trail = 0;
    let error = journal.replay(wrong.clone()).unwrap_err();
    assert_eq!(error, JournalError::Config(wrong.validate().unwrap_err()));

    let mut value = serde_json::to_value(&journal).unwrap();
    value["version"] = json!(9);
    let later: Journal = serde_json::from_value(value).unwrap();
    let error = later.replay(Config::default()).unwrap_err();
    assert_eq!(error, JournalError::Version { found: 9 });
    let mut scheduler = Scheduler::new(Config::default()).unwrap();
    assert_eq!(later.replay_on(&mut scheduler).unwrap_err(), error);
    assert_eq!(error.to_string(), "a journal of format 9 cannot be read: this release reads 1");
}

#[test]
fn a_journal_goes_on_from_a_clone() {
    let (journal, _, scheduler) = recorded(3, 60);
    let (mut live, mut again) = (scheduler.clone(), scheduler);
    let mut sequel = Journal::new(&live);
    let request = OwnedRequest::from(&Request::new().caller("k"));
    let now = journal.entries().last().unwrap().at;
    let answer = sequel.record(Operation::Select(request), &mut live, now);
    assert_eq!(sequel.replay_on(&mut again).unwrap(), [answer]);
    assert_eq!(again.digest(), live.digest());
}

#[test]
fn a_journal_holds_no_keys() {
    let key = "SENTINEL-TENANT:x:SENTINEL-KEY";
    let request = OwnedRequest::from(&Request::new().caller(key).tenant("SENTINEL-OTHER"));
    let mut scheduler = Scheduler::new(Config::default()).unwrap();
    let mut journal = Journal::new(&scheduler);
    journal.record(Operation::Select(request), &mut scheduler, at(0));
    let caller = Caller::new(key).unwrap();
    journal.record(Operation::UnbindCaller(caller), &mut scheduler, at(0));
    journal.push(Entry { at: at(1), operation: Operation::UnbindCaller(caller) });
    let text = serde_json::to_string(&journal).unwrap();
    assert!(!text.contains("SENTINEL") && text.contains("\"digest\":\""), "{text}");
    assert!(!format!("{journal:?}").contains("SENTINEL"));
}
