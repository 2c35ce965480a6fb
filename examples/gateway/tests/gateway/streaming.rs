//! Bodies that stream.

use std::sync::Arc;
use std::time::Duration;

use account_pool_gateway::config::ProviderName;
use http_body_util::BodyExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Notify, mpsc};

use crate::support::{
    CHAT, Call, QUESTION, SOON, Upstream, idle, lines_of, openai, post, read, request, send,
    settings, start, until,
};

#[tokio::test]
async fn chunks_pass_one_by_one() {
    let next = Arc::new(Notify::new());
    let wait = Arc::clone(&next);
    let upstream = Upstream::start(move |mut call: Call| {
        let wait = Arc::clone(&wait);
        async move {
            call.begin().await;
            for number in 1..=3 {
                call.chunk(&format!("data: {{\"number\": {number}}}\n\n")).await;
                wait.notified().await;
            }
            call.say("0\r\n\r\n").await;
        }
    })
    .await;
    let gateway = openai(&[&upstream]).await;
    let (_, response) = send(&gateway, request(CHAT, &[], QUESTION)).await;
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let mut body = response.into_body();
    for number in 1..=3 {
        // The upstream sends no more before this chunk has arrived.
        let frame = tokio::time::timeout(SOON, body.frame()).await.unwrap().unwrap().unwrap();
        let data = frame.into_data().unwrap();
        assert_eq!(&data[..], format!("data: {{\"number\": {number}}}\n\n").as_bytes());
        assert_eq!(gateway.pool().in_flight(), 1, "the lease is held to the end");
        next.notify_one();
    }
    assert!(body.frame().await.is_none());
    idle(gateway.pool()).await;
}

#[tokio::test]
async fn usage_is_read_from_the_streams_of_all_apis() {
    for (provider, path, events) in [
        (
            ProviderName::OpenAi,
            CHAT,
            "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":100,\"completion_tokens\":5,\
             \"prompt_tokens_details\":{\"cached_tokens\":90}}}\n\ndata: [DONE]\n\n",
        ),
        (
            ProviderName::Anthropic,
            "/v1/messages",
            "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":\
             {\"input_tokens\":10,\"cache_read_input_tokens\":90,\"output_tokens\":1}}}\n\n\
             event: message_delta\ndata: {\"type\":\"message_delta\",\"usage\":\
             {\"output_tokens\":5}}\n\ndata: {\"type\":\"message_stop\"}\n\n",
        ),
        (
            ProviderName::Gemini,
            "/v1beta/models/m:streamGenerateContent?alt=sse",
            "data: {\"candidates\":[{\"finishReason\":\"STOP\"}],\"usageMetadata\":\
             {\"promptTokenCount\":100,\"cachedContentTokenCount\":90,\
             \"candidatesTokenCount\":5}}\n\n",
        ),
    ] {
        let upstream = Upstream::start(move |mut call: Call| async move {
            call.begin().await;
            // Cut in the middle of events.
            for part in events.as_bytes().chunks(17) {
                call.chunk(std::str::from_utf8(part).unwrap()).await;
            }
            call.say("0\r\n\r\n").await;
        })
        .await;
        let gateway = start(settings(provider, &[&upstream])).await;
        let answer = post(&gateway, path, &[], QUESTION).await;
        assert_eq!(&answer.body[..], events.as_bytes());
        idle(gateway.pool()).await;
        let used = gateway.pool().inspect("a").unwrap().usage;
        assert_eq!((used.input, used.cache_read, used.output), (10, 90, 5), "{path}");
    }
}

/// An upstream that sends one chunk, then waits for its client to leave and says so.
async fn endless(first: &'static str) -> (Upstream, mpsc::UnboundedReceiver<()>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let upstream = Upstream::start(move |mut call: Call| {
        let sender = sender.clone();
        async move {
            call.begin().await;
            call.chunk(first).await;
            call.gone().await;
            sender.send(()).ok();
        }
    })
    .await;
    (upstream, receiver)
}

#[tokio::test]
async fn a_client_that_leaves_takes_the_upstream_with_it() {
    let (upstream, mut gone) = endless("data: {\"choices\": []}\n\n").await;
    let gateway = openai(&[&upstream]).await;
    let (id, response) = send(&gateway, request(CHAT, &[], QUESTION)).await;
    let mut body = response.into_body();
    body.frame().await.unwrap().unwrap();
    assert_eq!(gateway.pool().in_flight(), 1);
    drop(body);
    tokio::time::timeout(SOON, gone.recv()).await.expect("the upstream is dropped at once");
    idle(gateway.pool()).await;
    until(|| lines_of(&id).iter().any(|line| line.contains("outcome=Cancelled"))).await;
    assert_eq!(gateway.pool().inspect("a").unwrap().trouble, 0);
}

#[tokio::test]
async fn a_client_that_leaves_before_the_answer_takes_the_upstream_with_it() {
    let (sender, mut gone) = mpsc::unbounded_channel();
    let upstream = Upstream::start(move |mut call: Call| {
        let sender = sender.clone();
        async move {
            call.gone().await;
            sender.send(()).ok();
        }
    })
    .await;
    let gateway = openai(&[&upstream]).await;
    let mut stream = TcpStream::connect(gateway.address()).await.unwrap();
    let length = QUESTION.len();
    let text =
        format!("POST {CHAT} HTTP/1.1\r\nhost: g\r\ncontent-length: {length}\r\n\r\n{QUESTION}");
    stream.write_all(text.as_bytes()).await.unwrap();
    until(|| upstream.calls() == 1).await;
    drop(stream);
    tokio::time::timeout(SOON, gone.recv()).await.expect("the upstream is dropped at once");
    idle(gateway.pool()).await;
    assert_eq!(gateway.pool().inspect("a").unwrap().trouble, 0);
}

#[tokio::test]
async fn a_client_that_leaves_while_it_waits_leaves_the_queue() {
    let upstream = Upstream::serving().await;
    let mut settings = settings(ProviderName::OpenAi, &[&upstream]);
    settings.accounts[0].max_in_flight = Some(1);
    settings.routing.max_wait_ms = 60_000;
    let gateway = start(settings).await;
    let lease = gateway.pool().select(&account_pool::Request::new()).unwrap();
    let mut stream = TcpStream::connect(gateway.address()).await.unwrap();
    let length = QUESTION.len();
    let text =
        format!("POST {CHAT} HTTP/1.1\r\nhost: g\r\ncontent-length: {length}\r\n\r\n{QUESTION}");
    stream.write_all(text.as_bytes()).await.unwrap();
    until(|| gateway.pool().waiting() == 1).await;
    drop(stream);
    until(|| gateway.pool().waiting() == 0).await;
    drop(lease);
    assert_eq!(upstream.calls(), 0);
}

#[tokio::test]
async fn a_client_that_leaves_after_the_last_event_was_served() {
    let last = "data: {\"choices\": [], \"usage\": {\"prompt_tokens\": 7}}\n\ndata: [DONE]\n\n";
    let (upstream, mut gone) = endless(last).await;
    let gateway = openai(&[&upstream]).await;
    let (id, response) = send(&gateway, request(CHAT, &[], QUESTION)).await;
    let mut body = response.into_body();
    body.frame().await.unwrap().unwrap();
    drop(body);
    tokio::time::timeout(SOON, gone.recv()).await.expect("the upstream is dropped");
    idle(gateway.pool()).await;
    until(|| lines_of(&id).iter().any(|line| line.contains("served"))).await;
    assert_eq!(gateway.pool().inspect("a").unwrap().usage.input, 7);
}

#[tokio::test]
async fn a_slow_client_slows_its_upstream() {
    let total = 64 << 20;
    let (sender, mut sent) = mpsc::unbounded_channel();
    let upstream = Upstream::start(move |mut call: Call| {
        let sender = sender.clone();
        async move {
            call.begin().await;
            let chunk = format!("data: {}\n\n", "x".repeat(64 << 10));
            for _ in 0..total / chunk.len() {
                call.chunk(&chunk).await;
                sender.send(chunk.len()).ok();
            }
            call.say("0\r\n\r\n").await;
        }
    })
    .await;
    let gateway = openai(&[&upstream]).await;
    let mut stream = TcpStream::connect(gateway.address()).await.unwrap();
    let length = QUESTION.len();
    let text = format!(
        "POST {CHAT} HTTP/1.1\r\nhost: g\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{QUESTION}"
    );
    stream.write_all(text.as_bytes()).await.unwrap();
    // The client reads nothing: what the sockets hold is sent, and no more.
    let mut held = 0;
    while let Ok(Some(sent)) = tokio::time::timeout(Duration::from_millis(500), sent.recv()).await {
        held += sent;
    }
    assert!(held < total / 2, "{held} bytes were taken for a client that reads none");
    let mut rest = Vec::new();
    tokio::time::timeout(SOON, stream.read_to_end(&mut rest)).await.unwrap().unwrap();
    assert!(rest.len() > total - (1 << 20), "all of it comes in the end");
    idle(gateway.pool()).await;
}

#[tokio::test]
async fn a_whole_answer_is_settled_as_served() {
    let upstream = Upstream::serving().await;
    let gateway = openai(&[&upstream]).await;
    let answer = read(send(&gateway, request(CHAT, &[], QUESTION)).await).await;
    assert_eq!(answer.status, 200);
    idle(gateway.pool()).await;
    assert!(answer.logged("served"), "{:?}", lines_of(&answer.id));
    let used = gateway.pool().inspect("a").unwrap().usage;
    assert_eq!((used.input, used.output), (7, 2));
}
