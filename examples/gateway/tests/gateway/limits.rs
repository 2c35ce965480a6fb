//! Refusals: how long, and for ever.

use account_pool::Status;
use account_pool_gateway::config::ProviderName;

use crate::support::{CHAT, QUESTION, Upstream, ask, post, settings, start};

#[tokio::test]
async fn retry_after_is_in_whole_seconds_and_never_early() {
    for (provider, path, kind, word) in [
        (ProviderName::OpenAi, CHAT, "/error/type", "rate_limit_error"),
        (ProviderName::Anthropic, "/v1/messages", "/error/type", "rate_limit_error"),
        (
            ProviderName::Gemini,
            "/v1beta/models/m:generateContent",
            "/error/status",
            "RESOURCE_EXHAUSTED",
        ),
    ] {
        let upstream = Upstream::serving().await;
        let mut settings = settings(provider, &[&upstream]);
        settings.accounts[0].rpm = Some(1);
        settings.routing.max_wait_ms = 0;
        let gateway = start(settings).await;
        assert_eq!(post(&gateway, path, &[], QUESTION).await.status, 200);
        let answer = post(&gateway, path, &[], QUESTION).await;
        assert_eq!(answer.status, 429);
        assert_eq!(answer.json().pointer(kind).unwrap(), word);
        // The minute began a moment ago: less than 60 s are left, rounded up.
        assert_eq!(answer.header("retry-after"), Some("60"));
        assert_eq!(upstream.calls(), 1);
    }
}

#[tokio::test]
async fn an_upstreams_throttle_becomes_the_pools_retry_after() {
    let upstream = Upstream::refusing("429 Slow", "retry-after: 7\r\n", "{}").await;
    let mut settings = settings(ProviderName::Anthropic, &[&upstream]);
    settings.routing.max_wait_ms = 1_000;
    let gateway = start(settings).await;
    for _ in 0..2 {
        let answer = post(&gateway, "/v1/messages", &[], QUESTION).await;
        assert_eq!(answer.status, 429);
        assert_eq!(answer.header("retry-after"), Some("7"));
    }
    assert_eq!(upstream.calls(), 1, "a throttled upstream is left alone");
}

#[tokio::test]
async fn the_account_that_is_free_first_counts() {
    let slow = Upstream::refusing("429 Slow", "retry-after: 70\r\n", "{}").await;
    let quick = Upstream::refusing("429 Slow", "retry-after: 9\r\n", "{}").await;
    let gateway = start(settings(ProviderName::OpenAi, &[&quick, &slow])).await;
    let answer = ask(&gateway).await;
    assert_eq!((answer.status.as_u16(), answer.header("retry-after")), (429, Some("9")));
}

#[tokio::test]
async fn what_nobody_will_ever_serve_is_unavailable() {
    let upstream = Upstream::serving().await;
    let gateway = start(settings(ProviderName::OpenAi, &[&upstream])).await;
    gateway.pool().set_status("a", Status::Disabled).unwrap();
    let answer = ask(&gateway).await;
    assert_eq!(answer.status, 503);
    assert_eq!(answer.header("retry-after"), None);
    assert_eq!(answer.header("x-should-retry"), Some("false"));
    assert!(answer.message().contains("disabled"), "{}", answer.message());
}

#[tokio::test]
async fn a_full_account_is_no_lasting_refusal() {
    // Both throttled by its plan and full: neither time nor load alone frees it, and yet it will
    // be free.
    let upstream = Upstream::serving().await;
    let mut settings = settings(ProviderName::OpenAi, &[&upstream]);
    settings.accounts[0].max_in_flight = Some(1);
    settings.accounts[0].rpm = Some(1);
    settings.routing.max_wait_ms = 0;
    let gateway = start(settings).await;
    let request = account_pool::Request::new();
    let lease = gateway.pool().select(&request).unwrap();
    let answer = ask(&gateway).await;
    assert_eq!(answer.status, 429);
    assert_eq!(answer.header("retry-after"), None, "nobody knows when the other request ends");
    drop(lease);
}

#[tokio::test]
async fn a_request_waits_for_an_account_that_becomes_free() {
    let upstream = Upstream::serving().await;
    let mut settings = settings(ProviderName::OpenAi, &[&upstream]);
    settings.accounts[0].max_in_flight = Some(1);
    settings.routing.max_wait_ms = 10_000;
    let gateway = start(settings).await;
    let lease = gateway.pool().select(&account_pool::Request::new()).unwrap();
    let pool = gateway.pool().clone();
    let (answer, ()) = tokio::join!(ask(&gateway), async move {
        crate::support::until(|| pool.waiting() == 1).await;
        drop(lease);
    });
    assert_eq!(answer.status, 200);
}

#[tokio::test]
async fn conversations_stay_where_they_are() {
    let upstreams =
        [Upstream::serving().await, Upstream::serving().await, Upstream::serving().await];
    let mut settings = settings(ProviderName::OpenAi, &upstreams.iter().collect::<Vec<_>>());
    for account in &mut settings.accounts {
        account.tier = 0;
    }
    let gateway = start(settings).await;
    for session in ["one", "two"] {
        let before: Vec<usize> = upstreams.iter().map(Upstream::calls).collect();
        for _ in 0..6 {
            post(&gateway, CHAT, &[("x-session-id", session)], QUESTION).await;
        }
        let after: Vec<usize> = upstreams.iter().map(Upstream::calls).collect();
        let mut grown: Vec<usize> =
            after.iter().zip(&before).map(|(after, it)| after - it).collect();
        grown.sort_unstable();
        assert_eq!(grown, [0, 0, 6]);
    }
}
