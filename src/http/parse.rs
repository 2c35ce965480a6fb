//! Numbers, spans and instants as upstreams write them. Everything else is `None`, never a guess.

use std::time::UNIX_EPOCH;

use crate::outcome::Reset;
use crate::time::{Millis, Timestamp};

/// The longest announcement that is believed; what lies farther ahead is noise.
pub(super) const LONGEST: Millis = Millis::from_days(40);

/// Numbers from here on are seconds since the Unix epoch rather than a delay.
const EPOCH_SECONDS: u128 = 1_000_000_000;
/// Numbers from here on are milliseconds since the Unix epoch.
const EPOCH_MILLIS: u128 = 1_000_000_000_000;

const NANOS_PER_MILLI: u128 = 1_000_000;
const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// A plain decimal, such as `0.94`; no sign, no exponent.
pub(super) fn decimal(text: &str) -> Option<f64> {
    let text = text.trim();
    nanos(text, 1)?;
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

/// A plain number of `unit` (in nanoseconds), rounded up to milliseconds.
fn plain(text: &str, unit: u128) -> Option<Millis> {
    millis(nanos(text.trim(), unit)?)
}

/// A plain number of seconds.
pub(super) fn seconds(text: &str) -> Option<Millis> {
    plain(text, NANOS_PER_SECOND)
}

/// A plain number of milliseconds.
pub(super) fn milliseconds(text: &str) -> Option<Millis> {
    plain(text, NANOS_PER_MILLI)
}

/// A span such as `1m30s`, `250ms`, `34.074824224s` or `3 hours, 5 minutes`, with nothing after it.
pub(super) fn span(text: &str) -> Option<Millis> {
    let (span, rest) = leading_span(text.trim())?;
    rest.trim().is_empty().then_some(span)
}

/// The span that `text` begins with, and what follows it. A number needs its unit.
pub(super) fn leading_span(text: &str) -> Option<(Millis, &str)> {
    let mut rest = text;
    let mut total: Option<u128> = None;
    while let Some((part, after)) = component(rest) {
        total = Some(total.unwrap_or_default().checked_add(part)?);
        rest = after;
    }
    Some((millis(total?)?, rest))
}

/// An instant: RFC 3339, an HTTP date in any of its three forms (RFC 9110, 5.6.7), or seconds or
/// milliseconds since the Unix epoch.
pub(super) fn instant(text: &str) -> Option<Timestamp> {
    let text = text.trim();
    epoch(text).or_else(|| rfc_3339(text)).or_else(|| http_date(text))
}

/// What a header such as `retry-after` says: a delay in seconds or as a span, or an instant. Bare
/// numbers too large for a delay are instants.
pub(super) fn delay_or_instant(text: &str) -> Option<Reset> {
    if let Some(instant) = instant(text) {
        return Some(Reset::At(instant));
    }
    seconds(text).or_else(|| span(text)).map(Reset::After)
}

/// Whether an announcement lies within [`LONGEST`] from now.
pub(super) fn is_believable(reset: Reset, now: Timestamp) -> bool {
    reset.at(now).since(now) <= LONGEST
}

pub(super) fn http_date(text: &str) -> Option<Timestamp> {
    let date = httpdate::parse_http_date(text.trim()).ok()?;
    let since = date.duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(since.as_millis()).ok().map(Timestamp::from_millis)
}

fn rfc_3339(text: &str) -> Option<Timestamp> {
    let instant: jiff::Timestamp = text.parse().ok()?;
    u64::try_from(instant.as_millisecond()).ok().map(Timestamp::from_millis)
}

fn epoch(text: &str) -> Option<Timestamp> {
    let whole = nanos(text, NANOS_PER_SECOND)? / NANOS_PER_SECOND;
    let unit = match whole {
        EPOCH_MILLIS.. => NANOS_PER_MILLI,
        EPOCH_SECONDS.. => NANOS_PER_SECOND,
        _ => return None,
    };
    let since = millis(nanos(text, unit)?)?;
    Some(Timestamp::ZERO.plus(since))
}

/// One `number unit` pair in nanoseconds, with the separators before it skipped.
fn component(text: &str) -> Option<(u128, &str)> {
    let text = text.trim_start_matches([' ', ',']);
    let text = text.strip_prefix("and ").unwrap_or(text);
    let is_number = |letter: char| letter.is_ascii_digit() || letter == '.';
    let (number, rest) = text.split_at(text.find(|it| !is_number(it)).unwrap_or(text.len()));
    let rest = rest.trim_start_matches(' ');
    let (name, rest) =
        rest.split_at(rest.find(|it: char| !it.is_ascii_alphabetic()).unwrap_or(rest.len()));
    Some((nanos(number, unit(name)?)?, rest))
}

/// A unit of time in nanoseconds.
fn unit(name: &str) -> Option<u128> {
    const NAMES: [(u128, &[&str]); 8] = [
        (1, &["ns"]),
        (1_000, &["us"]),
        (NANOS_PER_MILLI, &["ms", "msec", "msecs", "millisecond", "milliseconds"]),
        (NANOS_PER_SECOND, &["s", "sec", "secs", "second", "seconds"]),
        (60 * NANOS_PER_SECOND, &["m", "min", "mins", "minute", "minutes"]),
        (3_600 * NANOS_PER_SECOND, &["h", "hr", "hrs", "hour", "hours"]),
        (86_400 * NANOS_PER_SECOND, &["d", "day", "days"]),
        (604_800 * NANOS_PER_SECOND, &["w", "week", "weeks"]),
    ];
    let named = |(_, names): &&(u128, &[&str])| {
        names.iter().any(|candidate| candidate.eq_ignore_ascii_case(name))
    };
    NAMES.iter().find(named).map(|&(nanos, _)| nanos)
}

/// A plain decimal times `unit`, exactly up to nine decimal places.
fn nanos(number: &str, unit: u128) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_digits(whole) || !is_digits(fraction) {
        return None;
    }
    let fraction = &fraction[..fraction.len().min(9)];
    let scale = fraction.bytes().fold(1_u128, |scale, _| scale * 10);
    let part: u128 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
    let whole: u128 = whole.parse().ok()?;
    whole.checked_mul(unit)?.checked_add(part * unit / scale)
}

fn millis(nanos: u128) -> Option<Millis> {
    u64::try_from(nanos.div_ceil(NANOS_PER_MILLI)).ok().map(Millis::new)
}
