//! The status page as a part of the gateway.

use account_pool_gateway::Gateway;
use account_pool_gateway::config::ProviderName;
use http::Request;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};

use crate::support::{
    Answer, SOON, Upstream, ask, lines, openai, read, request, send, settings, start, value_of,
};

async fn get(gateway: &Gateway, path: &str) -> Answer {
    let request = Request::get(path).body(Full::default()).unwrap();
    read(send(gateway, request).await).await
}

fn account(status: &Value) -> &Value {
    &status["accounts"][0]
}

#[tokio::test]
async fn the_pool_is_shown_with_the_limits_of_the_configuration_in_force() {
    let upstream = Upstream::serving().await;
    let mut settings = settings(ProviderName::OpenAi, &[&upstream]);
    settings.accounts[0].max_in_flight = Some(3);
    let gateway = start(settings.clone()).await;
    assert_eq!(ask(&gateway).await.status, 200);
    let status = get(&gateway, "/pool").await.json();
    assert_eq!(account(&status)["id"], "a");
    assert_eq!(account(&status)["max_in_flight"], 3);
    assert_eq!(status["counters"]["usage"]["input"], 7);
    settings.accounts[0].max_in_flight = Some(5);
    gateway.reload(settings).unwrap();
    let status = get(&gateway, "/pool").await.json();
    assert_eq!(account(&status)["max_in_flight"], 5);
}

#[tokio::test]
async fn administration_takes_the_configured_token() {
    let upstream = Upstream::serving().await;
    let mut settings = settings(ProviderName::OpenAi, &[&upstream]);
    settings.admin.token_env = Some("ADMIN".to_owned());
    let gateway = start(settings).await;
    let right = format!("Bearer {}", value_of("ADMIN"));
    for (token, status) in [("Bearer sentinel-of-a-wrong-token", 401), (right.as_str(), 200)] {
        let body = json!({"account": "a"}).to_string();
        let drain = request("/admin/drain", &[("authorization", token)], &body);
        assert_eq!(read(send(&gateway, drain).await).await.status, status);
    }
    assert_eq!(account(&get(&gateway, "/pool").await.json())["condition"], "draining");
    assert!(!lines().contains(&value_of("ADMIN")), "the token is in the log");
    assert!(!lines().contains("sentinel-of-a-wrong-token"), "a wrong token is in the log");
}

#[tokio::test]
async fn without_a_token_nobody_administers() {
    let upstream = Upstream::serving().await;
    let gateway = openai(&[&upstream]).await;
    let drain = request("/admin/drain", &[("authorization", "Bearer ")], r#"{"account": "a"}"#);
    assert_eq!(read(send(&gateway, drain).await).await.status, 404);
}

#[tokio::test]
async fn the_page_asks_for_the_api_and_explains_within_it() {
    let upstream = Upstream::serving().await;
    let gateway = openai(&[&upstream]).await;
    let status = get(&gateway, "/pool").await.json();
    assert_eq!(status["selectors"], json!(["openai", "anthropic", "gemini"]));
    let decision = async |api| {
        let path = format!("/explain?model=m&selector={api}");
        get(&gateway, &path).await.json()["decision"].clone()
    };
    assert_eq!(decision("openai").await["selected"]["account"], "a");
    assert!(decision("gemini").await["refused"].is_object());
}

#[tokio::test]
async fn a_caller_who_is_explained_is_not_logged() {
    let upstream = Upstream::serving().await;
    let gateway = openai(&[&upstream]).await;
    let answer = get(&gateway, "/explain?caller=sentinel-of-an-explained&model=m").await;
    assert_eq!(answer.status, 200, "{:?}", answer.body);
    assert!(!lines().contains("sentinel-of-an-explained"), "the caller is in the log");
}

#[tokio::test]
async fn an_open_page_does_not_hold_up_the_end() {
    let upstream = Upstream::serving().await;
    let gateway = openai(&[&upstream]).await;
    let (_, response) =
        send(&gateway, Request::get("/events").body(Full::default()).unwrap()).await;
    let mut events = response.into_body();
    events.frame().await.unwrap().unwrap();
    let stopped = tokio::time::timeout(SOON / 2, gateway.stop()).await.expect("it ends at once");
    assert_eq!(stopped.cut, 0);
}
