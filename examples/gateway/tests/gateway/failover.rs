//! Another account is tried while the client has seen nothing, and never after.

use account_pool::http::Provider;
use account_pool_gateway::config::ProviderName;

use crate::support::{
    CHAT, Call, QUESTION, SERVED, Upstream, ask, idle, openai, post, settings, start,
};

#[tokio::test]
async fn every_fault_before_the_first_byte_leads_to_the_next_account() {
    let json = "content-type: application/json\r\n";
    for (status, body) in [
        ("500 Oops", r#"{"error": {"message": "x"}}"#),
        ("503 Busy", "{}"),
        ("429 Slow", "{}"),
        ("401 Who", r#"{"error": {"code": "invalid_api_key"}}"#),
        ("403 No", r#"{"error": {"code": "account_deactivated"}}"#),
        ("404 What", r#"{"error": {"code": "model_not_found"}}"#),
        ("302 Found", ""),
        ("200 OK", "<html></html>"),
        ("200 OK", "data: {\"error\": {\"code\": \"server_overloaded\"}}\n\n"),
    ] {
        let first = Upstream::refusing(status, json, body).await;
        let second = Upstream::serving().await;
        let gateway = openai(&[&first, &second]).await;
        let answer = ask(&gateway).await;
        assert_eq!(
            (answer.status.as_u16(), &answer.body[..]),
            (200, SERVED.as_bytes()),
            "{status}"
        );
        assert_eq!((first.calls(), second.calls()), (1, 1), "{status} {body}");
        idle(gateway.pool()).await;
    }
}

#[tokio::test]
async fn the_clients_own_fault_is_told_at_once() {
    let body = r#"{"error": {"message": "messages are missing", "type": "invalid_request_error"}}"#;
    let first = Upstream::refusing("400 Bad", "content-type: application/json\r\n", body).await;
    let second = Upstream::serving().await;
    let gateway = openai(&[&first, &second]).await;
    let answer = ask(&gateway).await;
    assert_eq!((answer.status.as_u16(), &answer.body[..]), (400, body.as_bytes()));
    assert_eq!(second.calls(), 0);
    assert!(answer.logged("outcome=ClientFault"));
}

#[tokio::test]
async fn a_body_that_has_begun_is_never_begun_again() {
    let first = Upstream::start(async |mut call: Call| {
        call.begin().await;
        call.chunk("data: {\"choices\": []}\n\n").await;
    })
    .await;
    let second = Upstream::serving().await;
    let gateway = openai(&[&first, &second]).await;
    let (_, response) =
        crate::support::send(&gateway, crate::support::request(CHAT, &[], QUESTION)).await;
    let collected = http_body_util::BodyExt::collect(response.into_body()).await;
    assert!(collected.is_err(), "the break is not hidden");
    idle(gateway.pool()).await;
    assert_eq!((first.calls(), second.calls()), (1, 0));
}

#[tokio::test]
async fn attempts_are_limited_and_go_to_different_accounts() {
    let oops = r#"{"error": {"message": "mine", "type": "server_error"}}"#;
    let mut upstreams = Vec::new();
    for _ in 0..4 {
        upstreams.push(Upstream::refusing("500 Oops", "", oops).await);
    }
    let mut settings = settings(ProviderName::OpenAi, &upstreams.iter().collect::<Vec<_>>());
    settings.routing.max_attempts = 3;
    let gateway = start(settings).await;
    let answer = ask(&gateway).await;
    assert_eq!((answer.status.as_u16(), &answer.body[..]), (500, oops.as_bytes()));
    let calls: Vec<usize> = upstreams.iter().map(Upstream::calls).collect();
    assert_eq!(calls, [1, 1, 1, 0]);
}

#[tokio::test]
async fn a_lone_account_that_failed_is_not_asked_twice() {
    let upstream = Upstream::refusing("500 Oops", "", r#"{"error": {"message": "x"}}"#).await;
    let gateway = openai(&[&upstream]).await;
    assert_eq!(ask(&gateway).await.status, 500);
    assert_eq!(upstream.calls(), 1);
}

#[tokio::test]
async fn a_throttled_account_is_waited_for_and_asked_again() {
    let upstream = Upstream::start(async |mut call: Call| {
        if call.number == 1 {
            call.answer("429 Slow", "retry-after-ms: 50\r\n", "{}").await;
        } else {
            call.serve().await;
        }
    })
    .await;
    let mut settings = settings(ProviderName::OpenAi, &[&upstream]);
    settings.routing.max_wait_ms = 5_000;
    let gateway = start(settings).await;
    assert_eq!(ask(&gateway).await.status, 200);
    assert_eq!(upstream.calls(), 2);
}

#[tokio::test]
async fn an_accounts_rejected_credential_is_not_the_clients() {
    let body =
        r#"{"error": {"message": "Incorrect API key provided: sk-x", "code": "invalid_api_key"}}"#;
    let upstream = Upstream::refusing("401 Who", "content-type: application/json\r\n", body).await;
    let gateway = openai(&[&upstream]).await;
    let answer = ask(&gateway).await;
    assert_eq!(answer.status, 503);
    assert!(!answer.message().contains("sk-x"));
    assert!(answer.logged("outcome=DeadToken"));
}

#[tokio::test]
async fn each_api_goes_to_its_own_accounts_with_their_header() {
    let upstreams =
        [Upstream::serving().await, Upstream::serving().await, Upstream::serving().await];
    let providers = [ProviderName::OpenAi, ProviderName::Anthropic, ProviderName::Gemini];
    let mut settings = settings(ProviderName::OpenAi, &upstreams.iter().collect::<Vec<_>>());
    for (account, provider) in settings.accounts.iter_mut().zip(providers) {
        account.provider = provider;
    }
    let gateway = start(settings).await;
    let expected = [
        (CHAT, "authorization: bearer sentinel-key_a-lenitnes"),
        ("/v1/messages", "x-api-key: sentinel-key_b-lenitnes"),
        (
            "/v1beta/models/m:streamGenerateContent?alt=sse",
            "x-goog-api-key: sentinel-key_c-lenitnes",
        ),
        ("/v1/models/m:generateContent", "x-goog-api-key: sentinel-key_c-lenitnes"),
    ];
    for (index, (path, credential)) in expected.into_iter().enumerate() {
        for _ in 0..3 {
            assert_eq!(post(&gateway, path, &[], QUESTION).await.status, 200);
        }
        let calls: Vec<usize> = upstreams.iter().map(Upstream::calls).collect();
        assert_eq!(calls.iter().sum::<usize>(), 3 * (index + 1));
        let (head, _) = upstreams[index.min(2)].last();
        assert!(head.contains(credential), "{head}");
        assert!(head.contains(path.split('?').next().unwrap().to_ascii_lowercase().as_str()));
    }
    let provider = gateway.pool().payload("c").unwrap().provider;
    assert_eq!(provider, Provider::Google);
}

#[tokio::test]
async fn a_generic_account_speaks_the_api_that_it_names() {
    let upstream = Upstream::serving().await;
    let mut settings = settings(ProviderName::Generic, &[&upstream]);
    settings.accounts[0].api = Some(account_pool_gateway::Api::Anthropic);
    let gateway = start(settings).await;
    assert_eq!(post(&gateway, "/v1/messages", &[], QUESTION).await.status, 200);
    assert_eq!(ask(&gateway).await.status, 404);
}

#[tokio::test]
async fn models_are_asked_of_the_api_whose_client_asks() {
    let upstreams =
        [Upstream::serving().await, Upstream::serving().await, Upstream::serving().await];
    let mut settings = settings(ProviderName::OpenAi, &upstreams.iter().collect::<Vec<_>>());
    settings.accounts[1].provider = ProviderName::Anthropic;
    settings.accounts[2].provider = ProviderName::Gemini;
    let gateway = start(settings).await;
    for (headers, calls) in [
        (&[][..], [1, 0, 0]),
        (&[("anthropic-version", "2023-06-01")], [1, 1, 0]),
        (&[("x-goog-api-key", "x")], [1, 1, 1]),
    ] {
        let mut request = crate::support::request("/v1/models", headers, "");
        *request.method_mut() = http::Method::GET;
        let answer = crate::support::read(crate::support::send(&gateway, request).await).await;
        assert_eq!(answer.status, 200);
        assert_eq!(upstreams.each_ref().map(Upstream::calls), calls);
    }
}
