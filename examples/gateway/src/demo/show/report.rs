//! What the demonstration came to.

use std::fmt;

use crate::demo::load::Turn;
use crate::demo::tables::{conversation, hit_share, moves, rounds};

/// What the demonstration came to. Displayed, it is the tables for the terminal.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// The turns of the load.
    pub sticky: Vec<Turn>,
    /// The turns of the same load without stickiness.
    pub contrast: Vec<Turn>,
    /// The turns of the conversation whose account ran dry.
    pub dry: Vec<Turn>,
    /// After which of them it did.
    pub ran_dry_after: usize,
    /// Requests of the load and of that conversation that the upstream refused.
    pub refused: usize,
    /// Leases that were still held at the end.
    pub in_flight: usize,
}

impl Report {
    /// What is not as it should be; nothing, if all is well.
    #[must_use]
    pub fn complaints(&self) -> Vec<String> {
        let mut complaints = Vec::new();
        let mut expect = |holds: bool, complaint: String| {
            if !holds {
                complaints.push(complaint);
            }
        };
        let parts = [("load", &self.sticky), ("contrast", &self.contrast), ("dry", &self.dry)];
        for (name, turns) in parts {
            let failed = turns.iter().filter(|turn| !turn.is_served()).count();
            expect(failed == 0, format!("{failed} turns of the {name} part were not served"));
        }
        let (with, without) = (hit_share(&self.sticky), hit_share(&self.contrast));
        expect(with >= without + 10.0, format!("hit share {with:.1} % against {without:.1} %"));
        let (moved, strayed) = (moves(&self.sticky), moves(&self.contrast));
        expect(moved * 4 <= strayed, format!("{moved} moves against {strayed}"));
        let rewrites: Vec<usize> =
            self.dry.iter().filter(|turn| turn.read == 0).map(|turn| turn.round).collect();
        let expected = [1, self.ran_dry_after + 1];
        expect(rewrites == expected, format!("whole prompts were written in rounds {rewrites:?}"));
        let moved = moves(&self.dry);
        expect(moved == 1, format!("the dry conversation moved {moved} times"));
        expect(self.in_flight == 0, format!("{} leases were left over", self.in_flight));
        complaints
    }

    fn remark(&self, turn: &Turn) -> &'static str {
        match turn.round {
            1 => "first turn: everything is new",
            round if round == self.ran_dry_after + 1 => "its account ran dry: one full rewrite",
            round if round == self.ran_dry_after + 2 => "warm again, on the new account",
            _ => "",
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let talks = self.sticky.iter().map(|turn| turn.conversation).max().unwrap_or(0) + 1;
        writeln!(
            f,
            "Prompt tokens of {talks} conversations, by round. Written: read anew, at full"
        )?;
        writeln!(f, "price. Read: taken from the account's prompt cache.\n")?;
        writeln!(f, "{}", rounds(&self.sticky))?;
        writeln!(f, "The same load without stickiness:\n")?;
        writeln!(f, "{}", rounds(&self.contrast))?;
        let (with, without) = (hit_share(&self.sticky), hit_share(&self.contrast));
        writeln!(f, "From the cache: {with:.1} % with stickiness, {without:.1} % without.")?;
        let (moved, strayed) = (moves(&self.sticky), moves(&self.contrast));
        writeln!(f, "Changes of account: {moved} with stickiness, {strayed} without.")?;
        let unserved = self.sticky.iter().chain(&self.dry).filter(|turn| !turn.is_served()).count();
        let refused = self.refused;
        writeln!(
            f,
            "The upstream refused {refused} requests; {unserved} refusals reached a client.\n"
        )?;
        let last = self.ran_dry_after;
        writeln!(f, "A conversation whose account runs out of quota after round {last}:\n")?;
        write!(f, "{}", conversation(&self.dry, |turn| self.remark(turn)))
    }
}
