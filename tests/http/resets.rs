//! When an upstream says to come back.

use account_pool::http::Provider::{self, Anthropic, Generic, Google, OpenAi};
use account_pool::{Millis, Outcome, Reset, Scope, Timestamp};

use crate::{NOW, verdict};

fn reset(provider: Provider, headers: &[(&str, &str)], body: &str) -> Option<Reset> {
    match verdict(provider, 429, headers, body).outcome {
        Outcome::RateLimited { reset, .. } | Outcome::QuotaExhausted { reset, .. } => reset,
        outcome => panic!("{outcome:?}"),
    }
}

fn after(millis: u64) -> Option<Reset> {
    Some(Reset::After(Millis::new(millis)))
}

fn at(millis: u64) -> Option<Reset> {
    Some(Reset::At(Timestamp::from_millis(millis)))
}

#[test]
fn one_header() {
    let cases: &[(&str, &str, Option<Reset>)] = &[
        ("retry-after", "20", after(20_000)),
        ("retry-after", "0", after(0)),
        ("retry-after", "1.5", after(1_500)),
        ("retry-after", " 7 ", after(7_000)),
        ("retry-after", "6m0s", after(360_000)),
        ("retry-after", "51811", after(51_811_000)),
        ("retry-after", "1785685000", at(1_785_685_000_000)),
        ("retry-after", "1785685000123", at(1_785_685_000_123)),
        ("retry-after", "Sun, 02 Aug 2026 15:37:00 GMT", at(1_785_685_020_000)),
        ("retry-after", "Sunday, 02-Aug-26 15:37:00 GMT", at(1_785_685_020_000)),
        ("retry-after", "Sun Aug  2 15:37:00 2026", at(1_785_685_020_000)),
        ("retry-after", "2026-08-02T15:37:00Z", at(1_785_685_020_000)),
        ("retry-after", "Sun, 02 Aug 2026 15:00:00 GMT", at(1_785_682_800_000)),
        ("retry-after", "-5", None),
        ("retry-after", "", None),
        ("retry-after", "soon", None),
        ("retry-after", "NaN", None),
        ("retry-after", "1e3", None),
        ("retry-after", "999999999", None),
        ("retry-after", "99999999999999999999999999999999999999999999", None),
        ("retry-after", "Fri, 31 Dec 9999 23:59:59 GMT", None),
        ("retry-after-ms", "250", after(250)),
        ("retry-after-ms", "1500.2", after(1_501)),
        ("retry-after-ms", "-1", None),
        ("x-ratelimit-reset", "30", None),
    ];
    for (name, value, expected) in cases {
        assert_eq!(reset(Generic, &[(name, value)], ""), *expected, "{name}: {value}");
    }
}

#[test]
fn limits_of_which_nothing_remains() {
    let spans = [("1m30s", 90_000), ("6ms", 6), ("250ms", 250), ("6m0s", 360_000), ("1s", 1_000)];
    for (span, millis) in spans {
        let headers = [
            ("x-ratelimit-limit-requests", "60"),
            ("x-ratelimit-remaining-requests", "0"),
            ("x-ratelimit-reset-requests", span),
        ];
        assert_eq!(reset(OpenAi, &headers, ""), at(NOW.as_millis() + millis), "{span}");
    }
    let plenty = [("x-ratelimit-remaining-requests", "9"), ("x-ratelimit-reset-requests", "1m")];
    assert_eq!(reset(OpenAi, &plenty, ""), None);
    let openrouter = [
        ("x-ratelimit-limit", "20"),
        ("x-ratelimit-remaining", "0"),
        ("x-ratelimit-reset", "1785685020000"),
    ];
    assert_eq!(reset(Generic, &openrouter, ""), at(1_785_685_020_000));
    let azure = [
        ("x-ratelimit-limit-tokens", "-1"),
        ("x-ratelimit-remaining-tokens", "-1"),
        ("x-ratelimit-reset-tokens", "0"),
    ];
    assert_eq!(reset(OpenAi, &azure, ""), None);
    let anthropic = [
        ("anthropic-ratelimit-requests-remaining", "49"),
        ("anthropic-ratelimit-requests-reset", "2026-08-02T15:36:29Z"),
        ("anthropic-ratelimit-input-tokens-remaining", "0"),
        ("anthropic-ratelimit-input-tokens-reset", "2026-08-02T15:37:00Z"),
        ("anthropic-ratelimit-output-tokens-remaining", "0"),
        ("anthropic-ratelimit-output-tokens-reset", "2026-08-02T17:36:45+02:00"),
    ];
    assert_eq!(reset(Anthropic, &anthropic, ""), at(1_785_685_020_000), "the latest spent one");
}

#[test]
fn texts() {
    let cases: &[(&str, Option<Reset>)] = &[
        ("Please try again in 20s.", after(20_000)),
        ("Please try again in 644ms.", after(644)),
        ("Please try again in 6m0s. Contact us", after(360_000)),
        ("Please retry in 34.074824224s.", after(34_075)),
        ("Please retry after 26 seconds.", after(26_000)),
        ("Limit reached, resets in 3h0m0s", after(10_800_000)),
        ("Limit reached, resets in 3 hours, 5 minutes and 1 second.", after(11_101_000)),
        ("Your quota will reset after 8h44m7s.", after(31_447_000)),
        ("Try again in 2 days", after(172_800_000)),
        ("Try again in a while", None),
        ("Try again in 5", None),
        ("try again in 99999999999999999999999h", None),
        ("Try again in ", None),
    ];
    for (text, expected) in cases {
        let body = serde_json::json!({ "error": { "message": text } }).to_string();
        assert_eq!(reset(Generic, &[], &body), *expected, "{text}");
        assert_eq!(reset(Generic, &[], text), *expected, "plain {text}");
    }
}

#[test]
fn precedence() {
    let body = r#"{"error":{"message":"Please try again in 30s."}}"#;
    let limits = [("x-ratelimit-remaining-requests", "0"), ("x-ratelimit-reset-requests", "40s")];
    let seconds = ("retry-after", "20");
    let milliseconds = ("retry-after-ms", "10000");
    assert_eq!(reset(OpenAi, &[limits[0], limits[1], seconds, milliseconds], body), after(10_000));
    assert_eq!(reset(OpenAi, &[limits[0], limits[1], seconds], body), after(20_000));
    assert_eq!(reset(OpenAi, &limits, body), after(30_000));
    assert_eq!(reset(OpenAi, &limits, ""), at(NOW.as_millis() + 40_000));
    assert_eq!(reset(OpenAi, &[("retry-after", "-1"), limits[0], limits[1]], body), after(30_000));
    assert_eq!(
        reset(OpenAi, &[seconds, ("retry-after", "25"), ("retry-after", "x")], ""),
        after(25_000)
    );
}

#[test]
fn a_date_is_measured_by_the_upstreams_own_clock() {
    let headers = [
        ("date", "Mon, 02 Feb 2026 10:00:00 GMT"),
        ("retry-after", "Mon, 02 Feb 2026 10:00:30 GMT"),
    ];
    assert_eq!(reset(Generic, &headers, ""), after(30_000));
}

/// A quota per day, beside the delay of the minute.
const DAILY: &str = r#"{"error":{"code":429,"message":"Please retry in 34.074824224s.","details":[
    {"violations":[{"quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]},
    {"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34s"}]}}"#;

const MINUTE: &str = r#"{"error":{"code":429,"message":"You exceeded your current quota.","details":[
    {"violations":[{"quotaId":"GenerateContentInputTokensPerModelPerMinute-FreeTier"}]},
    {"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.074824224s"}]}}"#;

const EXHAUSTED: &str = r#"{"error":{"code":429,"message":"Your quota will reset after 161h39m41s.",
    "details":[{"reason":"QUOTA_EXHAUSTED","metadata":{"quotaResetDelay":"161h39m41.300432511s",
    "quotaResetTimeStamp":"2026-08-09T09:16:09Z"}},{"retryDelay":"581981.300432511s"}]}}"#;

#[test]
fn google_bodies() {
    assert_eq!(reset(Google, &[], MINUTE), after(34_075));
    let midnight_in_winter = 1_785_744_000_000;
    assert_eq!(reset(Google, &[], DAILY), at(midnight_in_winter), "not the 34 s beside it");
    assert_eq!(reset(Google, &[], EXHAUSTED), at(1_786_266_969_000));
}

#[test]
fn a_long_throttle_is_a_quota() {
    let short = verdict(Generic, 429, &[("retry-after", "3599")], "");
    assert!(matches!(short.outcome, Outcome::RateLimited { .. }));
    let long = verdict(Generic, 429, &[("retry-after", "3600")], "");
    assert!(matches!(long.outcome, Outcome::QuotaExhausted { scope: Scope::Account, .. }));
}

#[test]
fn subscriptions() {
    let regain = r#"{"type":"error","error":{"type":"invalid_request_error","message":"You have reached your specified API usage limits. You will regain access on 2026-08-05 at 00:00 UTC."}}"#;
    let spent = Outcome::QuotaExhausted { scope: Scope::Account, reset: at(1_785_888_000_000) };
    assert_eq!(verdict(Anthropic, 400, &[], regain).outcome, spent);
    let piped = r#"{"type":"error","error":{"type":"rate_limit_error","message":"Claude AI usage limit reached|1785700000"}}"#;
    assert_eq!(reset(Anthropic, &[], piped), at(1_785_700_000_000));

    let codex = r#"{"error":{"type":"usage_limit_reached","message":"The usage limit has been reached","plan_type":"plus","resets_at":1785698861,"resets_in_seconds":13872}}"#;
    assert_eq!(reset(OpenAi, &[], codex), at(1_785_698_861_000));
    let headers = [
        ("x-codex-primary-used-percent", "100"),
        ("x-codex-primary-window-minutes", "300"),
        ("x-codex-primary-reset-after-seconds", "13873"),
        ("x-codex-secondary-used-percent", "80"),
        ("x-codex-secondary-window-minutes", "10080"),
        ("x-codex-secondary-reset-at", "1786001700"),
        ("retry-after", "5"),
    ];
    assert_eq!(reset(OpenAi, &headers, ""), at(NOW.as_millis() + 13_873_000));
    let past = r#"{"error":{"type":"usage_limit_reached","resets_at":1700000000}}"#;
    assert_eq!(reset(OpenAi, &[], past), None);
}
