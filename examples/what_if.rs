//! Plays recorded traffic under other policies and prints what would have come of it.
//!
//! `cargo run --release --features journal --example what_if [-- JOURNAL.json [CONFIG.json]]`
//!
//! The file is a `Journal` in JSON, recorded under the configuration of the second file, or the
//! default one. Without a file the example records a small traffic of its own: conversations of
//! several turns on 16 accounts, a quarter of them in one burst; one request in twenty is throttled
//! for half a minute.

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::error::Error;

use account_pool::config::StickyMode;
use account_pool::journal::{Answer, Journal, Operation};
use account_pool::{
    Account, AccountId, Caller, Config, Millis, Outcome, OwnedRequest, Path, Request, Reset,
    Scheduler, Settlement, Timestamp,
};

/// Compares three policies; a check that fails ends the program with an error.
fn main() -> Result<(), Box<dyn Error>> {
    let mut files = std::env::args().skip(1);
    let is_own = files.len() == 0;
    let (journal, config) = match files.next() {
        Some(file) => {
            let journal = serde_json::from_str(&std::fs::read_to_string(file)?)?;
            let config = files.next().map(std::fs::read_to_string).transpose()?;
            let config = config.map(|text| serde_json::from_str(&text)).transpose()?;
            (journal, config.unwrap_or_default())
        }
        None => (record_traffic()?, Config::default()),
    };
    let selecting = journal.entries().iter().filter(|entry| request(&entry.operation).is_some());
    let selecting = selecting.count();

    let mut short = config.clone();
    short.sticky.trail = 1;
    short.sticky.drop_when_blocked = true;
    let mut loose = config.clone();
    loose.sticky.mode = StickyMode::Off;

    let mut columns = Vec::new();
    for (name, other) in
        [("as recorded", config.clone()), ("trail 1, dropped", short), ("no stickiness", loose)]
    {
        let rehearsal = journal.rehearse(config.clone(), other)?;
        let column =
            Column::new(name, &journal, &rehearsal.recorded.answers, &rehearsal.other.answers);
        assert_eq!(column.selections + column.refused, selecting, "every request is answered");
        if is_own && name == "as recorded" {
            assert_eq!(rehearsal.other, rehearsal.recorded, "the same policy answers the same");
        }
        columns.push(column);
    }
    if is_own {
        let [recorded, _, loose] = &columns[..] else { unreachable!("there are three columns") };
        assert!(recorded.cold_moves < loose.cold_moves, "stickiness keeps conversations warm");
        assert!(recorded.refused > 0 && recorded.warm_moves > 0, "the traffic tries the pool");
    }
    print(&columns, journal.entries().len());
    Ok(())
}

/// What came of the traffic under one policy.
#[derive(Default)]
struct Column {
    name: &'static str,
    selections: usize,
    by_path: BTreeMap<&'static str, usize>,
    refused: usize,
    turns: usize,
    warm_moves: usize,
    cold_moves: usize,
    load: BTreeMap<AccountId, usize>,
    accounts: usize,
}

/// Where a conversation has been.
#[derive(Default)]
struct Visits {
    last: Option<AccountId>,
    served: HashMap<AccountId, Timestamp>,
}

impl Column {
    /// Adds up `answers`; `recorded` tells which selection a ticket of the journal belongs to.
    fn new(name: &'static str, journal: &Journal, recorded: &[Answer], answers: &[Answer]) -> Self {
        let mut column = Self { name, ..Self::default() };
        let mut selected_by: HashMap<u64, usize> = HashMap::new();
        let mut visits: HashMap<Caller, Visits> = HashMap::new();
        for (index, entry) in journal.entries().iter().enumerate() {
            if let Answer::Granted(grant) = &recorded[index] {
                selected_by.insert(grant.ticket.sequence(), index);
            }
            match (&entry.operation, &answers[index]) {
                (Operation::Add(_), Answer::Done) => column.accounts += 1,
                (_, Answer::Granted(grant)) => {
                    column.selections += 1;
                    *column.by_path.entry(grant.path.as_str()).or_default() += 1;
                    *column.load.entry(grant.account.clone()).or_default() += 1;
                }
                (_, Answer::Refused(_)) => column.refused += 1,
                (
                    Operation::Settle(ticket, Outcome::Success { .. }),
                    Answer::Settled(Settlement::Settled),
                ) => {
                    let selecting = selected_by[&ticket.sequence()];
                    let caller = request(&journal.entries()[selecting].operation)
                        .and_then(|request| request.caller);
                    if let (Some(caller), Answer::Granted(grant)) = (caller, &answers[selecting]) {
                        let visits = visits.entry(caller).or_default();
                        column.turn(visits, &grant.account, entry.at);
                    }
                }
                _ => {}
            }
        }
        column
    }

    /// A turn of a conversation was served.
    fn turn(&mut self, visits: &mut Visits, account: &AccountId, at: Timestamp) {
        self.turns += 1;
        if visits.last.as_ref().is_some_and(|last| last != account) {
            let before = visits.served.get(account);
            let warm = before.is_some_and(|&before| at.since(before) < Millis::from_mins(5));
            if warm {
                self.warm_moves += 1;
            } else {
                self.cold_moves += 1;
            }
        }
        visits.last = Some(account.clone());
        visits.served.insert(account.clone(), at);
    }

    #[expect(clippy::cast_precision_loss, reason = "a ratio for people to read")]
    fn spread(&self) -> f64 {
        let most = self.load.values().max().copied().unwrap_or_default() as f64;
        most * self.accounts as f64 / (self.selections as f64).max(1.0)
    }
}

fn request(operation: &Operation) -> Option<&OwnedRequest> {
    match operation {
        Operation::Select(request) | Operation::SelectAccount(_, request) => Some(request),
        _ => None,
    }
}

fn print(columns: &[Column], operations: usize) {
    println!("{operations} operations, {} accounts\n", columns[0].accounts);
    let row = |label: &str, cell: &dyn Fn(&Column) -> String| {
        let cells = columns.iter().map(|column| format!("{:>18}", cell(column)));
        println!("{label:<26}{}", cells.collect::<String>());
    };
    let share = |part: usize, of: usize| {
        let tenths = (part * 1_000).checked_div(of).unwrap_or_default();
        format!("{part} ({:>2}.{} %)", tenths / 10, tenths % 10)
    };
    row("", &|column| column.name.to_owned());
    row("selections", &|column| column.selections.to_string());
    let paths = [Path::Sticky, Path::Warm, Path::Rank, Path::Pin, Path::Degraded, Path::Acquired];
    for path in paths.map(Path::as_str) {
        if columns.iter().any(|column| column.by_path.contains_key(path)) {
            row(&format!("  by {path}"), &|column| {
                let count = column.by_path.get(path).copied().unwrap_or_default();
                share(count, column.selections)
            });
        }
    }
    row("refused", &|column| share(column.refused, column.refused + column.selections));
    row("turns served", &|column| column.turns.to_string());
    row("  moved, cache warm", &|column| share(column.warm_moves, column.turns));
    row("  moved, cache cold", &|column| share(column.cold_moves, column.turns));
    row("busiest account ÷ mean", &|column| format!("{:.2}", column.spread()));
    println!("\nA move is a turn on another account than the turn before; warm, if that account");
    println!("served the conversation within the last 5 minutes.");
}

/// Records twenty minutes of conversations under the default policy, and checks the recording.
fn record_traffic() -> Result<Journal, Box<dyn Error>> {
    let mut traffic = Traffic::new()?;
    let start = Timestamp::from_millis(1_700_000_000_000);
    for number in 1..=16 {
        let account = Account::new(format!("acct-{number:02}")).rpm(11).max_in_flight(4);
        assert_eq!(traffic.record(Operation::Add(account.into()), start), Answer::Done);
    }
    for number in 0..240 {
        let begin = if number % 4 == 0 {
            600_000 + traffic.random(60_000)
        } else {
            traffic.random(1_200_000)
        };
        let at = start.plus(Millis::new(begin));
        let turns = 4 + traffic.random(9);
        traffic.events.push(Reverse((at, number, Event::Ask { turns, failures: 0 })));
    }
    while let Some(Reverse((at, conversation, event))) = traffic.events.pop() {
        traffic.step(at, conversation, event);
    }

    let text = serde_json::to_string(&traffic.journal)?;
    let journal: Journal = serde_json::from_str(&text)?;
    let replayed = journal.replay(Config::default())?;
    assert_eq!(replayed.digest, traffic.scheduler.digest(), "a replay ends in the same state");
    Ok(journal)
}

struct Traffic {
    scheduler: Scheduler,
    journal: Journal,
    /// What comes, by time and conversation.
    events: BinaryHeap<Reverse<(Timestamp, u64, Event)>>,
    under_way: HashMap<u64, account_pool::Ticket>,
    failed: HashMap<u64, Vec<AccountId>>,
    seed: u64,
}

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Event {
    Ask { turns: u64, failures: u64 },
    Answered { turns: u64, failures: u64 },
}

impl Traffic {
    fn new() -> Result<Self, Box<dyn Error>> {
        let scheduler = Scheduler::new(Config::default())?;
        let journal = Journal::new(&scheduler);
        Ok(Self {
            scheduler,
            journal,
            events: BinaryHeap::new(),
            under_way: HashMap::new(),
            failed: HashMap::new(),
            seed: 7,
        })
    }

    fn record(&mut self, operation: Operation, at: Timestamp) -> Answer {
        self.journal.record(operation, &mut self.scheduler, at)
    }

    /// A number below `end`: splitmix64.
    fn random(&mut self, end: u64) -> u64 {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let bits = (self.seed ^ (self.seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ (bits >> 31)) % end
    }

    fn step(&mut self, at: Timestamp, conversation: u64, event: Event) {
        match event {
            Event::Ask { turns, failures } => self.ask(at, conversation, turns, failures),
            Event::Answered { turns, failures } => self.answer(at, conversation, turns, failures),
        }
    }

    fn ask(&mut self, at: Timestamp, conversation: u64, turns: u64, failures: u64) {
        let key = format!("team:{}:conversation:{conversation}", conversation % 12);
        let excluded = self.failed.get(&conversation).cloned().unwrap_or_default();
        let request = Request::new().caller(&key).model("opus").exclude(&excluded);
        match self.record(Operation::Select((&request).into()), at) {
            Answer::Granted(grant) => {
                self.under_way.insert(conversation, grant.ticket);
                self.failed.entry(conversation).or_default().push(grant.account);
                let took = 1_500 + self.random(6_000);
                let event = Event::Answered { turns, failures };
                self.events.push(Reverse((at.plus(Millis::new(took)), conversation, event)));
            }
            Answer::Refused(refusal) => {
                let delay = refusal.retry_after().unwrap_or(Millis::from_secs(2));
                let delay = delay.as_millis() + self.random(15_000);
                let event = Event::Ask { turns, failures };
                self.events.push(Reverse((at.plus(Millis::new(delay)), conversation, event)));
            }
            other => unreachable!("a selection is not answered by {other:?}"),
        }
    }

    fn answer(&mut self, at: Timestamp, conversation: u64, turns: u64, failures: u64) {
        let Some(ticket) = self.under_way.remove(&conversation) else { return };
        let throttled = failures < 3 && self.random(20) == 0;
        let outcome = if throttled {
            Outcome::rate_limited(Some(Reset::After(Millis::from_secs(30))))
        } else {
            Outcome::success()
        };
        let answer = self.record(Operation::Settle(ticket, outcome), at);
        assert_eq!(answer, Answer::Settled(Settlement::Settled));
        if throttled {
            let event = Event::Ask { turns, failures: failures + 1 };
            self.events.push(Reverse((at, conversation, event)));
            return;
        }
        self.failed.remove(&conversation);
        if turns > 1 {
            let pause = Millis::new(3_000 + self.random(40_000));
            let event = Event::Ask { turns: turns - 1, failures: 0 };
            self.events.push(Reverse((at.plus(pause), conversation, event)));
        }
    }
}
