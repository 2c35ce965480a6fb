//! The limits that an answer's headers describe.
//!
//! Names and units as in: Anthropic, *Rate limits*, "Response headers" (RFC 3339 resets); OpenAI,
//! *Rate limits*, "Rate limits in headers" (spans such as `6m0s`); the headers that Claude
//! subscriptions (`anthropic-ratelimit-unified-*`, utilisation 0 to 1, resets in seconds since the
//! Unix epoch) and Codex subscriptions (`x-codex-*`, percent used) were seen to send, recorded in
//! public bug reports of their clients.

use ::http::HeaderMap;

use super::parse;
use super::response::text;
use crate::outcome::Reset;
use crate::time::Timestamp;

/// How far a window reaches.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Reach {
    /// A subscription's window for the whole account: hours or days.
    Account,
    /// A subscription's window for one family of models.
    Family,
    /// A limit that refills within minutes.
    Minute,
}

/// One limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Window {
    pub(super) reach: Reach,
    /// Percent left, 0 to 100.
    pub(super) remaining: Option<f64>,
    /// When it is renewed; always ahead.
    pub(super) reset: Option<Timestamp>,
    /// Whether the upstream refuses because of it.
    pub(super) spent: bool,
    /// Whether the upstream says that it serves nevertheless.
    pub(super) allowed: bool,
}

/// How many windows of one kind are looked at.
const MAX_WINDOWS: usize = 8;

/// All limits that the headers describe, subscriptions first.
pub(super) fn windows(headers: &HeaderMap, now: Timestamp) -> Vec<Window> {
    let mut windows = unified(headers, now);
    windows.extend(["primary", "secondary"].iter().filter_map(|slot| codex(headers, slot, now)));
    windows.extend(minute(headers, now));
    windows
}

/// The latest renewal of the spent windows of one reach.
pub(super) fn renewal(windows: &[Window], reach: Reach) -> Option<Reset> {
    let spent = windows.iter().filter(|window| window.spent && window.reach == reach);
    spent.filter_map(|window| window.reset).max().map(Reset::At)
}

const UNIFIED: &str = "anthropic-ratelimit-unified-";

/// The windows of a Claude subscription. `5h` and `7d` are the account's; a suffix, as in
/// `7d_opus` or `7d_oi`, names a family of models.
fn unified(headers: &HeaderMap, now: Timestamp) -> Vec<Window> {
    let name_of = |header: &str| {
        let field = header.strip_prefix(UNIFIED)?;
        let name = field.strip_suffix("-status").or_else(|| field.strip_suffix("-utilization"))?;
        (name != "overage").then(|| name.to_owned())
    };
    let mut names: Vec<String> = Vec::new();
    for name in headers.keys().filter_map(|header| name_of(header.as_str())) {
        if names.len() < MAX_WINDOWS && !names.contains(&name) {
            names.push(name);
        }
    }
    names.sort_unstable();
    let mut windows: Vec<Window> = names.iter().map(|name| claim(headers, name, now)).collect();
    let summary = text(headers, "anthropic-ratelimit-unified-status");
    if summary == Some("rejected") && !windows.iter().any(|window| window.spent) {
        windows.push(summarised(headers, now));
    }
    windows
}

fn claim(headers: &HeaderMap, name: &str, now: Timestamp) -> Window {
    let field = |field: &str| text(headers, &format!("{UNIFIED}{name}-{field}"));
    let summary = text(headers, "anthropic-ratelimit-unified-status");
    let is_allowed = |status: &str| status.starts_with("allowed");
    let spent = field("status") == Some("rejected");
    let used = field("utilization").and_then(parse::decimal);
    let left = used.map(|used| ((1.0 - used) * 100.0).clamp(0.0, 100.0));
    Window {
        reach: if name.contains('_') { Reach::Family } else { Reach::Account },
        remaining: if spent { Some(0.0) } else { left },
        reset: field("reset").and_then(|reset| ahead(reset, now)),
        spent,
        allowed: field("status").is_some_and(is_allowed) || summary.is_some_and(is_allowed),
    }
}

/// The window of an answer that is rejected in summary alone.
fn summarised(headers: &HeaderMap, now: Timestamp) -> Window {
    let claim = text(headers, "anthropic-ratelimit-unified-representative-claim");
    let is_account = claim.is_none_or(|claim| matches!(claim, "five_hour" | "seven_day"));
    Window {
        reach: if is_account { Reach::Account } else { Reach::Family },
        remaining: Some(0.0),
        reset: text(headers, "anthropic-ratelimit-unified-reset").and_then(|it| ahead(it, now)),
        spent: true,
        allowed: false,
    }
}

/// A window of a Codex subscription. One of no minutes does not exist.
fn codex(headers: &HeaderMap, slot: &str, now: Timestamp) -> Option<Window> {
    let field = |field: &str| text(headers, &format!("x-codex-{slot}-{field}"));
    let used = field("used-percent").and_then(parse::decimal)?;
    if field("window-minutes") == Some("0") {
        return None;
    }
    let after = field("reset-after-seconds").and_then(parse::seconds);
    let reset = field("reset-at").and_then(|reset| ahead(reset, now));
    Some(Window {
        reach: Reach::Account,
        remaining: Some((100.0 - used).clamp(0.0, 100.0)),
        reset: reset.or_else(|| known(Reset::After(after?), now)),
        spent: used >= 100.0,
        allowed: false,
    })
}

/// The limits on requests and tokens per minute.
fn minute(headers: &HeaderMap, now: Timestamp) -> impl Iterator<Item = Window> {
    const KINDS: [&str; 4] = ["requests", "tokens", "input-tokens", "output-tokens"];
    let named = KINDS.iter().flat_map(|kind| {
        let openai = ["limit", "remaining", "reset"].map(|it| format!("x-ratelimit-{it}-{kind}"));
        let anthropic =
            ["limit", "remaining", "reset"].map(|it| format!("anthropic-ratelimit-{kind}-{it}"));
        [openai, anthropic]
    });
    let plain = ["limit", "remaining", "reset"].map(|it| format!("x-ratelimit-{it}"));
    named.chain([plain]).filter_map(move |[limit, remaining, reset]| {
        let limit = text(headers, &limit).and_then(parse::decimal).filter(|&limit| limit > 0.0);
        let left = text(headers, &remaining).and_then(parse::decimal);
        let reset = text(headers, &reset).and_then(|reset| ahead(reset, now));
        let remaining = limit.zip(left).map(|(limit, left)| (left / limit * 100.0).min(100.0));
        let spent = left.is_some_and(|left| left < 1.0);
        (left.is_some() || reset.is_some()).then_some(Window {
            reach: Reach::Minute,
            remaining,
            reset,
            spent,
            allowed: false,
        })
    })
}

/// An announced instant that is ahead and believable.
fn ahead(text: &str, now: Timestamp) -> Option<Timestamp> {
    known(parse::delay_or_instant(text)?, now)
}

fn known(reset: Reset, now: Timestamp) -> Option<Timestamp> {
    let at = reset.at(now);
    (now < at && parse::is_believable(reset, now)).then_some(at)
}
