//! Many requests, most of which go wrong in one way or another: nothing is left over.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use account_pool_gateway::config::ProviderName;
use http_body_util::BodyExt;
use tokio::task::JoinSet;

use crate::support::{CHAT, Call, QUESTION, Upstream, idle, request, settings, start, until};

const REQUESTS: usize = 1_500;
const AT_ONCE: usize = 100;

/// Serves, breaks off, stalls or resets, in turn; then waits for the other side to leave.
async fn misbehave(mut call: Call) {
    match call.number % 7 {
        0 => call.serve().await,
        1 => {
            call.begin().await;
            call.chunk("data: {\"choices\": []}\n\n").await;
            call.gone().await;
        }
        2 => call.answer("500 Oops", "", "{}").await,
        3 => call.stream.set_zero_linger().unwrap(),
        4 => call.gone().await,
        5 => call.answer("429 Slow", "retry-after-ms: 20\r\n", "{}").await,
        _ => {
            call.begin().await;
            for _ in 0..5 {
                call.chunk("data: {\"choices\": []}\n\n").await;
                tokio::time::sleep(Duration::from_millis(3)).await;
            }
            call.say("0\r\n\r\n").await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_left_over() {
    let open = Arc::new(AtomicUsize::new(0));
    let mut upstreams = Vec::new();
    for _ in 0..4 {
        let open = Arc::clone(&open);
        let script = move |call: Call| {
            let open = Arc::clone(&open);
            async move {
                open.fetch_add(1, Ordering::Relaxed);
                misbehave(call).await;
                open.fetch_sub(1, Ordering::Relaxed);
            }
        };
        upstreams.push(Upstream::start(script).await);
    }
    let mut settings = settings(ProviderName::OpenAi, &upstreams.iter().collect::<Vec<_>>());
    for account in &mut settings.accounts {
        account.tier = 0;
        account.max_in_flight = Some(20);
    }
    settings.upstream.first_byte_timeout_ms = 60;
    settings.upstream.idle_timeout_ms = 60;
    settings.routing.max_wait_ms = 100;
    // Trouble is to go on.
    settings.pool.breaker.threshold = None;
    settings.pool.breaker.internal_threshold = None;
    let gateway = Arc::new(start(settings).await);
    let mut clients = JoinSet::new();
    let mut ends = [0; 4];
    for number in 0..REQUESTS {
        if clients.len() >= AT_ONCE {
            ends[clients.join_next().await.unwrap().unwrap()] += 1;
        }
        let gateway = Arc::clone(&gateway);
        clients.spawn(async move {
            let asked = async {
                let (_, response) =
                    crate::support::send(&gateway, request(CHAT, &[], QUESTION)).await;
                if number % 5 == 0 {
                    return 2;
                }
                usize::from(response.into_body().collect().await.is_err())
            };
            // Some leave after a while, wherever the request is then.
            let patience = Duration::from_millis(if number % 3 == 0 { 15 } else { 10_000 });
            tokio::time::timeout(patience, asked).await.unwrap_or(3)
        });
    }
    while let Some(end) = clients.join_next().await {
        ends[end.unwrap()] += 1;
    }
    assert!(ends.iter().all(|&count| count > 0), "whole, broken, left early, left: {ends:?}");
    idle(gateway.pool()).await;
    until(|| open.load(Ordering::Relaxed) == 0).await;
    assert_eq!(gateway.pool().waiting(), 0);
    let stats = gateway.pool().stats();
    assert_eq!(stats.settled, stats.selected.total(), "every lease ended once");
    assert_eq!(stats.reaped, 0);
}
