//! When an upstream says to come back.

use ::http::HeaderMap;

use super::answer::Answer;
use super::cause::Cause;
use super::parse;
use super::windows::{Reach, Window, renewal};
use crate::outcome::{Reset, Scope};
use crate::time::{Millis, Timestamp};

/// So many headers of the same name are looked at.
const MAX_REPEATED: usize = 8;
/// So many bytes after "try again in" are looked at.
const MAX_PHRASE: usize = 64;

/// The announcement that counts, by the precedence that the module's documentation states.
pub(super) fn announced(
    cause: Cause,
    headers: &HeaderMap,
    answer: &Answer,
    windows: &[Window],
    now: Timestamp,
) -> Option<Reset> {
    let renewed = match cause {
        Cause::Quota(Scope::Account) => renewal(windows, Reach::Account),
        Cause::Quota(_) => renewal(windows, Reach::Family),
        Cause::Throttle(_) | Cause::Overload(_) => None,
        _ => return None,
    };
    let is_ahead = |reset: &Reset| now < reset.at(now);
    let quota = matches!(cause, Cause::Quota(_));
    let of_quota = || answer.renewal.or_else(|| regained(&answer.message)).filter(is_ahead);
    let told = [
        renewed,
        if quota { of_quota() } else { None },
        retry_after_ms(headers),
        retry_after(headers, now),
        answer.delay.map(Reset::After),
        phrase(&answer.message).map(Reset::After),
        renewal(windows, Reach::Minute),
    ];
    told.into_iter().flatten().find(|&reset| parse::is_believable(reset, now))
}

/// The next midnight in California, at which Google renews daily quotas (Google, *Gemini API rate
/// limits*): 08:00 UTC in winter, 07:00 in summer. The later one always counts, so that nobody comes
/// too soon.
pub(super) fn google_midnight(now: Timestamp) -> Reset {
    const DAY: u64 = 86_400_000;
    const MIDNIGHT: u64 = 8 * 3_600_000;
    let since = (now.as_millis() % DAY + DAY - MIDNIGHT) % DAY;
    Reset::At(now.plus(Millis::new(DAY - since)))
}

fn retry_after_ms(headers: &HeaderMap) -> Option<Reset> {
    let values = all(headers, "retry-after-ms").filter_map(parse::milliseconds);
    values.max().map(Reset::After)
}

/// `retry-after`. A date is taken relative to the answer's own `date`, so that the two clocks need
/// not agree.
fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Reset> {
    let sent = all(headers, "date").find_map(parse::http_date);
    let relative = |text: &str| {
        let date = parse::http_date(text)?;
        Some(Reset::After(date.since(sent?)))
    };
    let read = |text| relative(text).or_else(|| parse::delay_or_instant(text));
    let values = all(headers, "retry-after").filter_map(read);
    values.max_by_key(|reset| reset.at(now))
}

fn all<'a>(headers: &'a HeaderMap, name: &str) -> impl Iterator<Item = &'a str> {
    headers.get_all(name).iter().take(MAX_REPEATED).filter_map(|value| value.to_str().ok())
}

/// "Try again in 20s", "quota will reset after 8h44m7s".
fn phrase(message: &str) -> Option<Millis> {
    const PHRASES: [&str; 9] = [
        "try again in ",
        "retry in ",
        "retry after ",
        "resets in ",
        "reset in ",
        "reset after ",
        "resets after ",
        "resets in: ",
        "available in ",
    ];
    let after = |phrase: &&str| {
        let at = message.find(*phrase)? + phrase.len();
        let head = head(&message[at..]);
        parse::leading_span(head).map(|(span, _)| span)
    };
    PHRASES.iter().find_map(after)
}

/// Anthropic's "You will regain access on 2026-04-01 at 00:00 UTC" and "limit reached|1749924000".
fn regained(message: &str) -> Option<Reset> {
    if let Some((_, rest)) = message.split_once("regain access on ") {
        let mut words = head(rest).split(' ');
        let (date, at, time) = (words.next()?, words.next()?, words.next()?);
        let zone = words.next()?.trim_end_matches('.');
        let is_utc = at == "at" && zone == "utc";
        return parse::instant(&format!("{date}t{time}:00z")).filter(|_| is_utc).map(Reset::At);
    }
    let (_, rest) = message.split_once("limit reached|")?;
    let end = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
    parse::instant(&rest[..end]).map(Reset::At)
}

fn head(text: &str) -> &str {
    let end = (0..=text.len().min(MAX_PHRASE)).rev().find(|&at| text.is_char_boundary(at));
    &text[..end.unwrap_or_default()]
}
