//! Quota readings from headers.

use ::http::HeaderMap;

use super::parse;
use super::response::text;
use super::windows::{Reach, Window, windows};
use crate::outcome::{QuotaReading, QuotaWindow};
use crate::time::Timestamp;

/// The quota that an answer's headers report, taken at `now`; `None` when they report none.
///
/// Windows are in percent remaining, with their renewal when it lies ahead:
///
/// - the five-hour and seven-day windows of a Claude subscription
///   (`anthropic-ratelimit-unified-*`) and the two windows of a Codex subscription
///   (`x-codex-*`), which block the account when they are dry, unless the upstream says that it
///   serves nevertheless;
/// - the requests and tokens per minute of `x-ratelimit-*` and `anthropic-ratelimit-*`, for ranking
///   only: a minute that is used up is the throttle's concern.
///
/// Windows of one family of models are left out, since a reading is about the account. The credits
/// of a Codex subscription become the balance. Of more than [`QuotaReading::MAX_WINDOWS`]
/// windows the subscription's come first. Give the reading to
/// [`Pool::observe_quota`](crate::Pool::observe_quota).
///
/// ```
/// use account_pool::Timestamp;
/// use account_pool::http::quota_reading;
/// use http::{HeaderMap, HeaderValue};
///
/// let mut headers = HeaderMap::new();
/// for (name, value) in [
///     ("anthropic-ratelimit-unified-5h-status", "allowed"),
///     ("anthropic-ratelimit-unified-5h-utilization", "0.25"),
///     ("anthropic-ratelimit-unified-5h-reset", "1785685200"),
/// ] {
///     headers.insert(name, HeaderValue::from_static(value));
/// }
///
/// let now = Timestamp::from_millis(1_785_684_988_000);
/// let reading = quota_reading(&headers, now).unwrap();
/// assert_eq!(reading.windows[0].remaining, Some(75.0));
/// assert_eq!(reading.windows[0].reset, Some(Timestamp::from_millis(1_785_685_200_000)));
/// ```
#[must_use]
pub fn quota_reading(headers: &HeaderMap, now: Timestamp) -> Option<QuotaReading> {
    let windows = windows(headers, now);
    let known = windows.iter().filter(|it| it.remaining.is_some() && it.reach != Reach::Family);
    let mut reading = QuotaReading::at(now);
    reading.windows = known.take(QuotaReading::MAX_WINDOWS).map(quota_window).collect();
    reading.balance = balance(headers);
    let is_empty = reading.windows.is_empty() && reading.balance.is_none();
    (!is_empty).then_some(reading)
}

fn quota_window(window: &Window) -> QuotaWindow {
    let is_dry = window.remaining.is_some_and(|remaining| remaining <= 0.0);
    let gates = window.reach == Reach::Account && !(window.allowed && is_dry);
    let mut quota = QuotaWindow::new(window.remaining);
    quota.reset = window.reset;
    quota.gates = gates;
    quota
}

/// The credits of a Codex subscription; without a limit they are as many as can be.
fn balance(headers: &HeaderMap) -> Option<f64> {
    let is_true = |name| text(headers, name).is_some_and(|it| it.eq_ignore_ascii_case("true"));
    if is_true("x-codex-credits-unlimited") {
        return Some(f64::MAX);
    }
    if !is_true("x-codex-credits-has-credits") {
        return None;
    }
    parse::decimal(text(headers, "x-codex-credits-balance")?.trim_start_matches('$'))
}
