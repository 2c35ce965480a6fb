//! The end of a gateway.

use account_pool_gateway::config::ProviderName;
use http_body_util::BodyExt;
use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::support::{
    CHAT, Call, QUESTION, SOON, Upstream, read, request, send, settings, start, until,
};

/// An upstream whose streams end when they are told to.
async fn streaming() -> (Upstream, watch::Sender<bool>) {
    let (sender, receiver) = watch::channel(false);
    let upstream = Upstream::start(move |mut call: Call| {
        let mut go_on = receiver.clone();
        async move {
            call.begin().await;
            call.chunk("data: {\"choices\": []}\n\n").await;
            if go_on.wait_for(|&it| it).await.is_ok() {
                call.chunk("data: [DONE]\n\n").await;
                call.say("0\r\n\r\n").await;
            }
        }
    })
    .await;
    (upstream, sender)
}

#[tokio::test]
async fn answers_under_way_finish_and_nobody_else_is_let_in() {
    let (upstream, go_on) = streaming().await;
    let gateway = start(settings(ProviderName::OpenAi, &[&upstream])).await;
    let (address, pool) = (gateway.address(), gateway.pool().clone());
    let sent = send(&gateway, request(CHAT, &[], QUESTION)).await;
    let stopping = tokio::spawn(gateway.stop());
    until_refused(address).await;
    assert_eq!(pool.in_flight(), 1, "the answer goes on");
    go_on.send(true).unwrap();
    let answer = read(sent).await;
    assert!(answer.body.ends_with(b"data: [DONE]\n\n"));
    assert_eq!(stopping.await.unwrap().cut, 0);
    assert_eq!(pool.in_flight(), 0);
}

async fn until_refused(address: std::net::SocketAddr) {
    let refused = async {
        while TcpStream::connect(address).await.is_ok() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(SOON, refused).await.expect("it stops listening");
}

#[tokio::test]
async fn answers_that_take_too_long_are_cut() {
    let (upstream, _go_on) = streaming().await;
    let mut settings = settings(ProviderName::OpenAi, &[&upstream]);
    settings.server.shutdown_timeout_ms = 100;
    let gateway = start(settings).await;
    let pool = gateway.pool().clone();
    let (_, response) = send(&gateway, request(CHAT, &[], QUESTION)).await;
    let stopped = tokio::time::timeout(SOON, gateway.stop()).await.unwrap();
    assert_eq!(stopped.cut, 1);
    assert!(response.into_body().collect().await.is_err(), "the break is not hidden");
    until(|| pool.in_flight() == 0).await;
}
