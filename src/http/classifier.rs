//! From an answer to an outcome.

use super::answer::Answer;
use super::cause::{Cause, Verdict};
use super::reset;
use super::response::{Provider, Response};
use super::rule::Rule;
use super::table::{self, CODE_STATUS};
use super::usage::usage;
use super::windows::{Reach, Window, windows};
use crate::outcome::{Outcome, Scope, Usage};
use crate::time::{Millis, Timestamp};

/// A throttle announced for at least this long is a quota.
const QUOTA_FROM: Millis = Millis::from_mins(60);

/// What an upstream's answer comes to, by the built-in rules.
///
/// `now` is the pool's time, in milliseconds since the Unix epoch: upstreams name instants. See
/// the [module](super) for the rules, and [`Classifier`] to add to them and to learn the cause.
///
/// ```
/// use account_pool::http::{Provider, Response, classify};
/// use account_pool::{Millis, Outcome, Reset, Timestamp};
///
/// let response = http::Response::builder().status(429).header("retry-after", "20").body("");
/// let response = response.unwrap();
/// let now = Timestamp::from_millis(1_790_000_000_000);
///
/// let outcome = classify(Provider::Generic, &Response::from(&response), now);
/// assert_eq!(outcome, Outcome::rate_limited(Some(Reset::After(Millis::from_secs(20)))));
/// ```
#[must_use]
pub fn classify(provider: Provider, response: &Response<'_>, now: Timestamp) -> Outcome {
    Classifier::new(provider).classify(response, now).outcome
}

/// Classifies answers by rules of the host's and the built-in ones.
///
/// ```
/// use account_pool::http::{Cause, Classifier, Provider, Response, Rule};
/// use account_pool::{Outcome, Timestamp};
///
/// const RULES: &[Rule<'static>] =
///     &[Rule::new("relay.no-channel", Cause::Model).statuses(&[503]).codes(&["no_channel"])];
///
/// let classifier = Classifier::new(Provider::OpenAi).rules(RULES);
/// let response = http::Response::builder().status(503);
/// let response = response.body(r#"{"error": {"code": "no_channel"}}"#).unwrap();
///
/// let verdict = classifier.classify(&Response::from(&response), Timestamp::ZERO);
/// assert_eq!(verdict.outcome, Outcome::ClientFault);
/// assert_eq!(verdict.rule, "relay.no-channel");
/// assert!(verdict.cause.may_succeed_elsewhere());
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[must_use]
pub struct Classifier<'a> {
    provider: Provider,
    rules: &'a [Rule<'a>],
}

impl<'a> Classifier<'a> {
    /// The built-in rules for one kind of upstream.
    pub const fn new(provider: Provider) -> Self {
        Self { provider, rules: &[] }
    }

    /// Sets rules that are tried, in order, before the built-in ones.
    pub const fn rules(mut self, rules: &'a [Rule<'a>]) -> Self {
        self.rules = rules;
        self
    }

    /// What an answer comes to at `now`. Never fails; work is bounded by the lengths stated at
    /// [`Response`] and [`usage()`].
    #[must_use]
    pub fn classify(&self, response: &Response<'_>, now: Timestamp) -> Verdict<'a> {
        let answer = Answer::read(response);
        let status = match response.status.as_u16() {
            200..300 if answer.is_page => return verdict(Cause::Path, "page"),
            200..300 if answer.is_error => inner_status(&answer),
            200..300 => {
                let outcome = Outcome::Success { usage: usage(response.body).unwrap_or_default() };
                return Verdict { outcome, cause: Cause::Served, rule: "served" };
            }
            400.. => response.status.as_u16(),
            _ => return verdict(Cause::Path, "redirect"),
        };
        let windows = windows(response.headers, now);
        let (cause, rule) = self.judge(status, &answer, &windows);
        let daily = rule == DAILY && answer.renewal.is_none();
        let reset = if daily {
            Some(reset::google_midnight(now))
        } else {
            reset::announced(cause, response.headers, &answer, &windows, now)
        };
        let cause = match (cause, reset) {
            (Cause::Throttle(scope), Some(reset)) if reset.at(now).since(now) >= QUOTA_FROM => {
                Cause::Quota(scope)
            }
            _ => cause,
        };
        let outcome = cause.outcome(reset, Usage::default());
        Verdict { outcome, cause, rule }
    }

    /// The host's rules, what the answer measures, the built-in rules, the class of the status.
    fn judge(&self, status: u16, answer: &Answer, windows: &[Window]) -> (Cause, &'a str) {
        if let Some(rule) = self.rules.iter().find(|rule| rule.holds(status, answer)) {
            return (rule.cause, rule.name);
        }
        if let Some(measured) = measured(status, answer, windows) {
            return measured;
        }
        if let Some(rule) = table::rules(self.provider).find(|rule| rule.holds(status, answer)) {
            return (rule.cause, rule.name);
        }
        match status {
            500..600 => (Cause::Server, "status.server"),
            _ => (Cause::Unknown, "unknown"),
        }
    }
}

const DAILY: &str = "google.daily";

/// What an answer measures rather than words.
fn measured(status: u16, answer: &Answer, windows: &[Window]) -> Option<(Cause, &'static str)> {
    if answer.is_page && matches!(status, 403 | 404) {
        return Some((Cause::Path, "page"));
    }
    if status != 429 {
        return None;
    }
    let spent = |reach| windows.iter().any(|window| window.spent && window.reach == reach);
    let names = |word: &str| answer.violations.iter().any(|quota| quota.contains(word));
    if spent(Reach::Account) {
        Some((Cause::Quota(Scope::Account), "window"))
    } else if spent(Reach::Family) {
        Some((Cause::Quota(Scope::Model), "window.family"))
    } else if names("PerDay") {
        Some((Cause::Quota(Scope::Model), DAILY))
    } else {
        None
    }
}

/// The status that an error inside a successful answer stands for.
fn inner_status(answer: &Answer) -> u16 {
    let named = CODE_STATUS.iter().filter(|(_, codes)| codes.iter().any(|it| answer.has_code(it)));
    let named = named.map(|&(status, _)| status).max();
    answer.status.or(named).unwrap_or(500)
}

fn verdict(cause: Cause, rule: &'static str) -> Verdict<'static> {
    let outcome = cause.outcome(None, Usage::default());
    Verdict { outcome, cause, rule }
}
