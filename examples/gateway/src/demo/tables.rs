//! What a run came to, as tables for the terminal.

use std::collections::BTreeSet;

use super::load::Turn;

/// Of all prompt tokens, how many in a hundred came from a cache.
#[expect(clippy::cast_precision_loss, reason = "a share for people to read")]
pub(super) fn hit_share(turns: &[Turn]) -> f64 {
    let (write, read) = sums(turns);
    if write + read == 0 { 0.0 } else { 100.0 * read as f64 / (write + read) as f64 }
}

fn sums(turns: &[Turn]) -> (u64, u64) {
    turns.iter().fold((0, 0), |(write, read), turn| (write + turn.write, read + turn.read))
}

fn accounts(turns: &[Turn]) -> usize {
    turns.iter().map(|turn| &turn.account).collect::<BTreeSet<_>>().len()
}

/// How often a conversation was served by another account than the turn before.
pub(super) fn moves(turns: &[Turn]) -> usize {
    let mut sorted: Vec<&Turn> = turns.iter().collect();
    sorted.sort_by_key(|turn| (turn.conversation, turn.round));
    let moved = |pair: &&[&Turn]| {
        pair[0].conversation == pair[1].conversation && pair[0].account != pair[1].account
    };
    sorted.windows(2).filter(moved).count()
}

/// A line per round.
pub(super) fn rounds(turns: &[Turn]) -> String {
    let mut table = String::from("  round     written        read  from cache   accounts\n");
    let last = turns.iter().map(|turn| turn.round).max().unwrap_or_default();
    for round in 1..=last {
        let of: Vec<Turn> = turns.iter().filter(|turn| turn.round == round).cloned().collect();
        line(&mut table, &round.to_string(), &of);
    }
    line(&mut table, "all", turns);
    table
}

fn line(table: &mut String, name: &str, turns: &[Turn]) {
    let (write, read) = sums(turns);
    let (share, accounts) = (hit_share(turns), accounts(turns));
    *table += &format!("  {name:>5} {write:>11} {read:>11} {share:>9.1} % {accounts:>10}\n");
}

/// A line per turn of one conversation.
pub(super) fn conversation(turns: &[Turn], remark: impl Fn(&Turn) -> &'static str) -> String {
    let mut table = String::from("  round     written        read   account\n");
    for turn in turns {
        let Turn { round, write, read, account, .. } = turn;
        let remark = remark(turn);
        let line = format!("  {round:>5} {write:>11} {read:>11}   {account:<14}{remark}");
        table += line.trim_end();
        table.push('\n');
    }
    table
}
