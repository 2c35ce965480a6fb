//! What must be seen nowhere.

use account_pool_gateway::config::{Client, ProviderName};

use crate::support::{CHAT, Upstream, ask, lines, post, settings, start, value_of};

#[tokio::test]
async fn no_log_line_holds_a_secret() {
    let echo = "sentinel-of-an-answer";
    let body =
        r#"{"error": {"message": "sentinel-of-an-answer", "code": "sentinel-of-an-answer"}}"#;
    let serving = Upstream::serving().await;
    let refusing = Upstream::refusing("401 Who", "x-secret: sentinel-of-an-answer\r\n", body).await;
    let mut settings = settings(ProviderName::OpenAi, &[&refusing, &serving]);
    settings.clients.push(Client::new("alice", "ALICE"));
    let mut gemini = settings.accounts[1].clone();
    (gemini.id, gemini.provider) = ("g".to_owned(), ProviderName::Gemini);
    settings.accounts.push(gemini);
    let gateway = start(settings.clone()).await;
    let bearer = format!("Bearer {}", value_of("ALICE"));
    let headers = [("authorization", bearer.as_str()), ("x-session-id", "sentinel-of-a-session")];
    let question = r#"{"model": "m", "user": "sentinel-of-a-user", "x": "sentinel-of-a-prompt"}"#;
    let answer = post(&gateway, CHAT, &headers, question).await;
    assert_eq!(answer.status, 200);
    post(&gateway, CHAT, &[("authorization", "Bearer sentinel-of-a-wrong-key")], question).await;
    post(&gateway, CHAT, &headers, r#"{"model": ["sentinel-of-a-prompt"]}"#).await;
    let path = format!("/v1beta/models/m:generateContent?key={}", value_of("ALICE"));
    assert_eq!(post(&gateway, &path, &[], question).await.status, 200);
    ask(&gateway).await;
    let shown = format!("{gateway:?} {:?} {:?}", gateway.pool(), gateway.pool().payload("a"));
    gateway.reload(settings).unwrap();
    gateway.stop().await;

    let log = lines();
    for secret in [
        &value_of("ALICE"),
        &value_of("KEY_a"),
        &value_of("KEY_b"),
        echo,
        "sentinel-of-a-wrong-key",
        "sentinel-of-a-user",
        "sentinel-of-a-session",
        "sentinel-of-a-prompt",
    ] {
        assert!(!shown.contains(secret), "{secret} is shown by Debug");
        let line = log.lines().find(|line| line.contains(secret));
        assert_eq!(line, None, "{secret} is in the log");
    }
    assert!(log.contains(&answer.id), "the log was kept");
}
