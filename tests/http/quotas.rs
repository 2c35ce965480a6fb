//! Quotas that headers report.

use account_pool::http::Provider::{Anthropic, OpenAi};
use account_pool::http::quota_reading;
use account_pool::{
    Account, ManualClock, Outcome, Pool, QuotaReading, Reason, Request, Reset, Scope, Timestamp,
};

use crate::{NOW, answer, verdict};

/// The headers of a 429 as a Claude subscription sent them: only a family of models is rejected,
/// although the summary says that the account is.
const FAMILY: &[(&str, &str)] = &[
    ("anthropic-ratelimit-unified-5h-reset", "1785685200"),
    ("anthropic-ratelimit-unified-5h-status", "allowed"),
    ("anthropic-ratelimit-unified-5h-utilization", "0.0"),
    ("anthropic-ratelimit-unified-7d-reset", "1785736800"),
    ("anthropic-ratelimit-unified-7d-status", "allowed_warning"),
    ("anthropic-ratelimit-unified-7d-utilization", "0.94"),
    ("anthropic-ratelimit-unified-7d_oi-reset", "1785736800"),
    ("anthropic-ratelimit-unified-7d_oi-status", "rejected"),
    ("anthropic-ratelimit-unified-7d_oi-utilization", "1.0"),
    ("anthropic-ratelimit-unified-fallback-percentage", "0.5"),
    ("anthropic-ratelimit-unified-overage-status", "rejected"),
    ("anthropic-ratelimit-unified-representative-claim", "seven_day_overage_included"),
    ("anthropic-ratelimit-unified-reset", "1785736800"),
    ("anthropic-ratelimit-unified-status", "rejected"),
    ("retry-after", "51811"),
];

const LIMITED: &str = r#"{"type":"error","error":{"type":"rate_limit_error","message":"This request would exceed your account's rate limit. Please try again later."}}"#;

fn reading(headers: &[(&str, &str)]) -> Option<QuotaReading> {
    quota_reading(answer(200, headers, "").headers(), NOW)
}

fn with(
    headers: &[(&'static str, &'static str)],
    name: &str,
    value: &'static str,
) -> Vec<(&'static str, &'static str)> {
    headers.iter().map(|&(it, old)| (it, if it == name { value } else { old })).collect()
}

fn exhausted(scope: Scope, seconds: u64) -> Outcome {
    let reset = Some(Reset::At(Timestamp::from_millis(seconds * 1_000)));
    Outcome::QuotaExhausted { scope, reset }
}

#[test]
fn windows_of_a_claude_subscription() {
    let weekly = exhausted(Scope::Model, 1_785_736_800);
    assert_eq!(verdict(Anthropic, 429, FAMILY, LIMITED).outcome, weekly);

    let headers = with(FAMILY, "anthropic-ratelimit-unified-5h-status", "rejected");
    let outcome = verdict(Anthropic, 429, &headers, LIMITED).outcome;
    assert_eq!(outcome, exhausted(Scope::Account, 1_785_685_200));

    let headers = with(&headers, "anthropic-ratelimit-unified-7d-status", "rejected");
    let outcome = verdict(Anthropic, 429, &headers, LIMITED).outcome;
    assert_eq!(outcome, exhausted(Scope::Account, 1_785_736_800), "the latest of the spent ones");

    let summary = [
        ("anthropic-ratelimit-unified-status", "rejected"),
        ("anthropic-ratelimit-unified-representative-claim", "five_hour"),
        ("anthropic-ratelimit-unified-reset", "2026-08-02T15:40:00Z"),
    ];
    let outcome = verdict(Anthropic, 429, &summary, LIMITED).outcome;
    assert_eq!(outcome, exhausted(Scope::Account, 1_785_685_200));

    let allowed = &FAMILY[..6];
    let outcome = verdict(Anthropic, 429, allowed, LIMITED).outcome;
    assert_eq!(outcome, Outcome::RateLimited { scope: Scope::Account, reset: None }, "a burst");
    assert_eq!(verdict(Anthropic, 400, FAMILY, "").outcome, Outcome::ClientFault);
}

#[test]
fn readings_of_a_claude_subscription() {
    let taken = reading(FAMILY).unwrap();
    assert_eq!(taken.observed_at, NOW);
    let windows: Vec<_> = taken.windows.iter().map(|it| (it.remaining, it.gates)).collect();
    assert_eq!(windows.len(), 2, "the family's window is not the account's: {windows:?}");
    assert_eq!(windows[0], (Some(100.0), true));
    let weekly = windows[1].0.unwrap();
    assert!((weekly - 6.0).abs() < 1e-9, "{weekly}");
    assert_eq!(taken.windows[1].reset, Some(Timestamp::from_millis(1_785_736_800_000)));

    let taken =
        reading(&with(FAMILY, "anthropic-ratelimit-unified-7d-status", "rejected")).unwrap();
    assert_eq!((taken.windows[1].remaining, taken.windows[1].gates), (Some(0.0), true));

    for status in ["anthropic-ratelimit-unified-5h-status", "anthropic-ratelimit-unified-status"] {
        let on_credit =
            [(status, "allowed"), ("anthropic-ratelimit-unified-5h-utilization", "1.0")];
        let taken = reading(&on_credit).unwrap();
        assert_eq!((taken.windows[0].remaining, taken.windows[0].gates), (Some(0.0), false));
    }

    let without_status = &[("anthropic-ratelimit-unified-5h-utilization", "0.36")];
    assert_eq!(reading(without_status).unwrap().windows[0].remaining, Some(64.0));
}

#[test]
fn readings_of_a_codex_subscription() {
    let headers = [
        ("x-codex-primary-used-percent", "42.5"),
        ("x-codex-primary-window-minutes", "300"),
        ("x-codex-primary-reset-at", "1785690000"),
        ("x-codex-secondary-used-percent", "0"),
        ("x-codex-secondary-window-minutes", "0"),
        ("x-codex-secondary-reset-at", ""),
        ("x-codex-credits-has-credits", "True"),
        ("x-codex-credits-balance", "$5.00"),
        ("x-codex-credits-unlimited", "False"),
    ];
    let taken = reading(&headers).unwrap();
    assert_eq!(taken.windows.len(), 1, "a window of no minutes does not exist");
    assert_eq!((taken.windows[0].remaining, taken.windows[0].gates), (Some(57.5), true));
    assert_eq!(taken.balance, Some(5.0));
    assert_eq!(verdict(OpenAi, 200, &headers, "").outcome, Outcome::success());
}

#[test]
fn readings_of_minute_limits_rank_only() {
    let headers = [
        ("x-ratelimit-limit-requests", "5000"),
        ("x-ratelimit-remaining-requests", "4000"),
        ("x-ratelimit-reset-requests", "12ms"),
        ("x-ratelimit-limit-tokens", "160000"),
        ("x-ratelimit-remaining-tokens", "0"),
        ("x-ratelimit-reset-tokens", "1m0s"),
    ];
    let taken = reading(&headers).unwrap();
    let windows: Vec<_> = taken.windows.iter().map(|it| (it.remaining, it.gates)).collect();
    assert_eq!(windows, [(Some(80.0), false), (Some(0.0), false)]);
    assert_eq!(taken.windows[1].reset, Some(Timestamp::from_millis(NOW.as_millis() + 60_000)));
}

#[test]
fn nonsense_is_no_reading() {
    assert_eq!(reading(&[]), None);
    assert_eq!(reading(&[("anthropic-ratelimit-unified-5h-utilization", "0.94x")]), None);
    assert_eq!(
        reading(&[("x-ratelimit-limit-tokens", "-1"), ("x-ratelimit-remaining-tokens", "-1")]),
        None
    );
    assert_eq!(
        reading(&[("x-ratelimit-limit-tokens", "0"), ("x-ratelimit-remaining-tokens", "0")]),
        None
    );
    assert_eq!(reading(&[("x-codex-primary-used-percent", "NaN")]), None);
    let beyond = reading(&[("x-codex-primary-used-percent", "250")]).unwrap();
    assert_eq!(beyond.windows[0].remaining, Some(0.0));
}

#[test]
fn a_dry_reading_blocks_the_account_until_its_renewal() {
    let clock = ManualClock::new(NOW);
    let pool = Pool::<(), _>::with_clock(account_pool::Config::default(), clock.clone()).unwrap();
    pool.add(Account::new("a"), ()).unwrap();
    let spent = with(FAMILY, "anthropic-ratelimit-unified-5h-status", "rejected");
    pool.observe_quota("a", &reading(&spent).unwrap()).unwrap();
    let refusal = pool.select(&Request::new()).unwrap_err();
    assert_eq!(refusal.tally().count(Reason::QuotaExhausted), 1);
    assert_eq!(refusal.retry_at(), Some(Timestamp::from_millis(1_785_685_200_000)));

    clock.set(Timestamp::from_millis(NOW.as_millis() + 1_000));
    let renewed = answer(200, &FAMILY[..6], "");
    let reading = quota_reading(renewed.headers(), Timestamp::from_millis(1_785_684_989_000));
    pool.observe_quota("a", &reading.unwrap()).unwrap();
    assert!(pool.select(&Request::new()).is_ok(), "newer evidence of quota lifts the block");
}
