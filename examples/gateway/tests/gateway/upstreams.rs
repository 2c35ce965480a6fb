//! Upstreams that misbehave: the client hears what happened, the account gets the right outcome,
//! nothing stays in flight.

use account_pool_gateway::Gateway;
use account_pool_gateway::config::ProviderName;
use http_body_util::BodyExt;

use crate::support::{
    Answer, CHAT, Call, QUESTION, SOON, Upstream, ask, idle, lines_of, openai, request, send,
    settings, start, until,
};

/// Asks; asserts the status, what the message says, and the outcome that the log tells.
async fn fails(gateway: &Gateway, status: u16, says: &str, outcome: &str) -> Answer {
    let answer = ask(gateway).await;
    assert_eq!(answer.status, status);
    assert!(answer.message().contains(says), "{}", answer.message());
    assert!(answer.logged(&format!("outcome={outcome}")), "{:?}", lines_of(&answer.id));
    idle(gateway.pool()).await;
    answer
}

#[tokio::test]
async fn one_that_is_not_there() {
    let upstream = Upstream::serving().await;
    let gateway = openai(&[&upstream]).await;
    drop(upstream);
    // The port may take a moment to close.
    fails(&gateway, 502, "upstream", "Network").await;
}

#[tokio::test]
async fn one_that_does_not_speak_http() {
    let upstream = Upstream::start(async |mut call: Call| call.say("SSH-2.0-x\r\n").await).await;
    let gateway = openai(&[&upstream]).await;
    fails(&gateway, 502, "did not speak HTTP", "Network").await;
}

#[tokio::test]
async fn one_that_answers_something_else() {
    for (kind, body) in [
        ("application/json", "@@@@"),
        ("text/plain", "hello"),
        ("text/html", "<html><body>Log in</body></html>"),
        ("application/json", ""),
        ("text/event-stream", ""),
    ] {
        let headers: &'static str = format!("content-type: {kind}\r\n").leak();
        let upstream = Upstream::refusing("200 OK", headers, body).await;
        let gateway = openai(&[&upstream]).await;
        fails(&gateway, 502, "answered", "Network").await;
    }
}

#[tokio::test]
async fn one_that_hangs_before_its_headers() {
    let upstream = Upstream::start(async |mut call: Call| call.gone().await).await;
    let mut settings = settings(ProviderName::OpenAi, &[&upstream]);
    settings.upstream.first_byte_timeout_ms = 100;
    let gateway = start(settings).await;
    let answer = fails(&gateway, 504, "did not answer in time", "Timeout").await;
    assert_eq!(answer.json()["error"]["code"], "upstream_timeout");
}

#[tokio::test]
async fn one_that_hangs_before_its_first_chunk() {
    let upstream = Upstream::start(async |mut call: Call| {
        call.begin().await;
        call.gone().await;
    })
    .await;
    let mut settings = settings(ProviderName::OpenAi, &[&upstream]);
    settings.upstream.first_byte_timeout_ms = 100;
    let gateway = start(settings).await;
    fails(&gateway, 504, "did not answer in time", "Timeout").await;
}

#[tokio::test]
async fn one_that_sends_a_megabyte_of_headers() {
    let upstream = Upstream::start(async |mut call: Call| {
        call.say("HTTP/1.1 200 OK\r\n").await;
        for _ in 0..1_024 {
            call.say(format!("x-long: {}\r\n", "x".repeat(1_024))).await;
        }
        call.say("content-length: 2\r\n\r\n{}").await;
    })
    .await;
    let gateway = openai(&[&upstream]).await;
    fails(&gateway, 502, "upstream broke off or did not speak HTTP", "Network").await;
}

#[tokio::test]
async fn one_that_redirects_is_not_followed() {
    let target = Upstream::serving().await;
    let location: &'static str = format!("location: http://{}/\r\n", target.address()).leak();
    for status in ["301 Moved", "302 Found", "307 Temporary Redirect", "308 Permanent Redirect"] {
        let upstream = Upstream::refusing(status, location, "").await;
        let gateway = openai(&[&upstream]).await;
        fails(&gateway, 502, "redirects", "Network").await;
    }
    assert_eq!(target.calls(), 0, "the credential goes nowhere else");
}

#[tokio::test]
async fn one_that_refuses_without_a_word() {
    let upstream = Upstream::refusing("500 Oops", "", "").await;
    let gateway = openai(&[&upstream]).await;
    fails(&gateway, 502, "failed without saying why", "Internal").await;
}

/// Reads an answer that breaks off; returns what came and the log.
async fn broken(gateway: &Gateway) -> (String, String) {
    let (id, response) = send(gateway, request(CHAT, &[], QUESTION)).await;
    assert_eq!(response.status(), 200);
    let mut body = response.into_body();
    let mut came = String::new();
    loop {
        match tokio::time::timeout(SOON, body.frame()).await.expect("an end in time") {
            Some(Ok(frame)) => came += &String::from_utf8_lossy(frame.data_ref().unwrap()),
            Some(Err(_)) => break,
            None => panic!("the client takes the part for the whole: {came}"),
        }
    }
    idle(gateway.pool()).await;
    until(|| lines_of(&id).iter().any(|line| line.contains("ended"))).await;
    (came, lines_of(&id).join("\n"))
}

#[tokio::test]
async fn one_that_closes_in_the_middle_of_a_chunk() {
    let upstream = Upstream::start(async |mut call: Call| {
        call.begin().await;
        call.chunk("data: {\"choices\": []}\n\n").await;
        call.say("64\r\ndata: {\"cho").await;
    })
    .await;
    let gateway = openai(&[&upstream]).await;
    let (came, log) = broken(&gateway).await;
    assert!(came.starts_with("data: {\"choices\": []}\n\n"), "{came}");
    assert!(log.contains("outcome=Network"), "{log}");
}

#[tokio::test]
async fn one_that_promises_more_than_it_sends() {
    let upstream = Upstream::start(async |mut call: Call| {
        let head =
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n";
        call.say(head).await;
        call.say("{\"id\": 1}").await;
    })
    .await;
    let gateway = openai(&[&upstream]).await;
    let (came, log) = broken(&gateway).await;
    assert_eq!(came, "{\"id\": 1}");
    assert!(log.contains("outcome=Network"), "{log}");
}

#[tokio::test]
async fn one_that_sends_more_than_it_promised() {
    let upstream = Upstream::start(async |mut call: Call| {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n";
        call.say(head).await;
        call.say("{\"id\": 1}HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil").await;
        call.gone().await;
    })
    .await;
    let gateway = openai(&[&upstream]).await;
    for _ in 0..2 {
        let answer = ask(&gateway).await;
        assert_eq!((answer.status.as_u16(), &answer.body[..]), (200, &b"{\"id\": 1}"[..]));
    }
    idle(gateway.pool()).await;
    assert_eq!(upstream.calls(), 2, "a connection that said too much is not used again");
}

#[tokio::test]
async fn one_that_stalls_between_chunks() {
    let upstream = Upstream::start(async |mut call: Call| {
        call.begin().await;
        call.chunk("data: {\"choices\": []}\n\n").await;
        call.gone().await;
    })
    .await;
    let mut settings = settings(ProviderName::OpenAi, &[&upstream]);
    settings.upstream.idle_timeout_ms = 100;
    let gateway = start(settings).await;
    let (_, log) = broken(&gateway).await;
    assert!(log.contains("outcome=Timeout"), "{log}");
}

#[tokio::test]
async fn one_that_reports_an_error_in_its_stream_is_blamed_for_it() {
    let upstream = Upstream::start(async |mut call: Call| {
        call.begin().await;
        call.chunk("data: {\"choices\": []}\n\n").await;
        call.chunk("data: {\"error\": {\"code\": \"server_overloaded\"}}\n\n").await;
        call.say("0\r\n\r\n").await;
    })
    .await;
    let gateway = openai(&[&upstream]).await;
    let answer = ask(&gateway).await;
    assert_eq!(answer.status, 200);
    idle(gateway.pool()).await;
    assert!(answer.logged("outcome=Overloaded"), "{:?}", lines_of(&answer.id));
}
