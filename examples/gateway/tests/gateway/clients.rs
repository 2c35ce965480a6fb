//! Clients that ask for what cannot be.

use std::time::Duration;

use account_pool_gateway::Gateway;
use account_pool_gateway::config::{Client, ProviderName};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{
    Answer, CHAT, QUESTION, Upstream, ask, idle, openai, post, settings, start, value_of,
};

/// Asserts that the client hears why, and that no account heard of it.
async fn refused(body: &str, headers: &[(&str, &str)], status: u16, says: &str) {
    let upstream = Upstream::serving().await;
    let gateway = openai(&[&upstream]).await;
    let answer = post(&gateway, CHAT, headers, body).await;
    assert_eq!(answer.status, status, "{body}");
    assert!(answer.message().contains(says), "{}", answer.message());
    assert_eq!(answer.json()["error"]["type"], "invalid_request_error");
    assert_eq!(upstream.calls(), 0);
    assert_eq!(gateway.pool().stats().selected.total(), 0);
}

#[tokio::test]
async fn malformed_json_is_refused_with_its_place() {
    refused("{\"model\": \"m\",\n \"messages\": [}", &[], 400, "line 2, column 15").await;
    refused("", &[], 400, "not JSON").await;
    refused("\"model\"", &[], 400, "model").await;
    refused("[1]", &[], 400, "model").await;
}

#[tokio::test]
async fn a_model_that_is_missing_or_no_name_is_refused() {
    refused(r#"{"messages": []}"#, &[], 400, "`model` is missing").await;
    refused(r#"{"model": " "}"#, &[], 400, "`model` is missing").await;
    refused(r#"{"model": null}"#, &[], 400, "`model` is missing").await;
    refused(r#"{"model": 7}"#, &[], 400, "`model` must be one text").await;
    refused(r#"{"model": "a", "model": "b"}"#, &[], 400, "`model` must be one text").await;
}

#[tokio::test]
async fn another_content_type_is_refused() {
    let form = "application/x-www-form-urlencoded";
    refused(QUESTION, &[("content-type", form)], 415, "application/json").await;
}

#[tokio::test]
async fn a_content_type_with_parameters_or_none_is_fine() {
    let upstream = Upstream::serving().await;
    let gateway = openai(&[&upstream]).await;
    let headers = [("content-type", "Application/JSON; charset=utf-8")];
    assert_eq!(post(&gateway, CHAT, &headers, QUESTION).await.status, 200);
}

#[tokio::test]
async fn an_unknown_model_is_not_found_in_the_words_of_its_api() {
    let upstream = Upstream::serving().await;
    for (provider, path, body, kind) in [
        (ProviderName::OpenAi, CHAT, QUESTION, "/error/code=model_not_found"),
        (ProviderName::Anthropic, "/v1/messages", QUESTION, "/error/type=not_found_error"),
        (ProviderName::Gemini, "/v1beta/models/m:generateContent", "{}", "/error/status=NOT_FOUND"),
    ] {
        let mut settings = settings(provider, &[&upstream]);
        settings.accounts[0].models = Some(vec!["another".to_owned()]);
        let gateway = start(settings).await;
        let answer = post(&gateway, path, &[], body).await;
        assert_eq!(answer.status, 404);
        let (place, word) = kind.split_once('=').unwrap();
        assert_eq!(answer.json().pointer(place).unwrap(), word);
        assert_eq!(answer.header("x-should-retry"), Some("false"));
    }
    assert_eq!(upstream.calls(), 0);
}

#[tokio::test]
async fn an_api_without_accounts_is_not_found() {
    let upstream = Upstream::serving().await;
    let gateway = openai(&[&upstream]).await;
    let answer = post(&gateway, "/v1/messages", &[], QUESTION).await;
    assert_eq!(answer.status, 404);
    assert_eq!(answer.json()["type"], "error");
    assert!(answer.message().contains("no account of this gateway speaks this API"));
}

#[tokio::test]
async fn an_unknown_path_and_method_are_told_in_json() {
    let upstream = Upstream::serving().await;
    let gateway = openai(&[&upstream]).await;
    for path in ["/v1/embeddings", "/v1beta/models/m:countTokens"] {
        assert_eq!(post(&gateway, path, &[], "{}").await.status, 404);
    }
    let answer = post(&gateway, "/v1/models", &[], "{}").await;
    assert_eq!(answer.status, 405);
    assert!(!answer.message().is_empty());
}

/// A gateway that asks for keys.
async fn guarded(upstream: &Upstream) -> Gateway {
    let mut settings = settings(ProviderName::OpenAi, &[upstream]);
    for (provider, id) in [(ProviderName::Anthropic, "n"), (ProviderName::Gemini, "g")] {
        let mut account = settings.accounts[0].clone();
        (account.provider, account.id) = (provider, id.to_owned());
        settings.accounts.push(account);
    }
    settings.clients.push(Client::new("alice", "ALICE"));
    start(settings).await
}

#[tokio::test]
async fn a_missing_or_wrong_key_is_refused_in_the_words_of_its_api() {
    let upstream = Upstream::serving().await;
    let gateway = guarded(&upstream).await;
    let key = value_of("ALICE");
    let bearer = format!("Bearer {key}");
    let gemini = "/v1beta/models/m:generateContent";
    let with_key = format!("{gemini}?key={key}");
    let status = |answer: &Answer| answer.status.as_u16();
    for headers in [&[][..], &[("authorization", "Bearer wrong")], &[("authorization", "Bearer")]] {
        let answer = post(&gateway, CHAT, headers, QUESTION).await;
        assert_eq!(
            (status(&answer), &answer.json()["error"]["code"]),
            (401, &"invalid_api_key".into())
        );
        let answer = post(&gateway, "/v1/messages", headers, QUESTION).await;
        let kind = &answer.json()["error"]["type"];
        assert_eq!((status(&answer), kind), (401, &"authentication_error".into()));
        let answer = post(&gateway, gemini, headers, "{}").await;
        let kind = &answer.json()["error"]["status"];
        assert_eq!((status(&answer), kind), (401, &"UNAUTHENTICATED".into()));
    }
    assert_eq!(upstream.calls(), 0);

    for (path, headers, body) in [
        (CHAT, &[("authorization", bearer.as_str())][..], QUESTION),
        ("/v1/messages", &[("x-api-key", key.as_str())], QUESTION),
        (gemini, &[("x-goog-api-key", key.as_str())], "{}"),
        (with_key.as_str(), &[], "{}"),
    ] {
        assert_eq!(post(&gateway, path, headers, body).await.status, 200, "{path}");
        let (head, _) = upstream.last();
        assert!(!head.contains(&key.to_ascii_lowercase()), "the client's key stays here: {head}");
    }
}

#[tokio::test]
async fn a_body_past_the_limit_is_refused_and_its_client_hears_it() {
    let upstream = Upstream::serving().await;
    let gateway = openai(&[&upstream]).await;
    let body = format!(r#"{{"model": "m", "padding": "{}"}}"#, "x".repeat(100 << 20));
    let answer = post(&gateway, CHAT, &[], &body).await;
    assert_eq!(answer.status, 413);
    assert_eq!(answer.message(), format!("the body is larger than {} bytes", 32 << 20));
    assert_eq!(upstream.calls(), 0);

    // Most clients do not listen before they have said everything.
    let mut stream = TcpStream::connect(gateway.address()).await.unwrap();
    let head = format!("POST {CHAT} HTTP/1.1\r\nhost: g\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body.as_bytes()).await.expect("all of it is taken");
    assert!(first_line(&mut stream).await.contains(" 413 "));
}

#[tokio::test]
async fn a_body_of_unknown_length_is_cut_at_the_limit() {
    let upstream = Upstream::serving().await;
    let mut settings = settings(ProviderName::OpenAi, &[&upstream]);
    settings.server.max_body_bytes = 1_000;
    let gateway = start(settings).await;
    let mut stream = TcpStream::connect(gateway.address()).await.unwrap();
    let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: g\r\ntransfer-encoding: chunked\r\n\
                content-type: application/json\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let chunk = format!("258\r\n{}\r\n", "x".repeat(600));
    stream.write_all(chunk.as_bytes()).await.unwrap();
    stream.write_all(chunk.as_bytes()).await.unwrap();
    assert!(first_line(&mut stream).await.contains(" 413 "));
}

#[tokio::test]
async fn a_client_that_stops_in_the_middle_of_its_body_is_not_waited_for() {
    let upstream = Upstream::serving().await;
    let mut settings = settings(ProviderName::OpenAi, &[&upstream]);
    settings.server.read_timeout_ms = 100;
    let gateway = start(settings).await;
    let mut stream = TcpStream::connect(gateway.address()).await.unwrap();
    let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: g\r\ncontent-length: 100\r\n\
                content-type: application/json\r\n\r\n{";
    stream.write_all(head.as_bytes()).await.unwrap();
    assert!(first_line(&mut stream).await.contains(" 408 "));
}

#[tokio::test]
async fn headers_past_the_limit_are_refused() {
    let upstream = Upstream::serving().await;
    let gateway = openai(&[&upstream]).await;
    let long = "x".repeat(40 << 10);
    let answer = post(&gateway, CHAT, &[("x-long", &long)], QUESTION).await;
    assert_eq!(answer.status, 431);
    assert!(answer.message().contains("the headers are larger than 32768 bytes"));

    let mut stream = TcpStream::connect(gateway.address()).await.unwrap();
    let head =
        format!("POST {CHAT} HTTP/1.1\r\nhost: g\r\nx-long: {}\r\n\r\n", "x".repeat(1 << 20));
    drop(stream.write_all(head.as_bytes()).await);
    assert!(first_line(&mut stream).await.contains(" 431 "));
    assert_eq!(upstream.calls(), 0);
}

async fn first_line(stream: &mut TcpStream) -> String {
    let mut text = [0; 64];
    let read = tokio::time::timeout(Duration::from_secs(10), stream.read(&mut text)).await;
    String::from_utf8_lossy(&text[..read.unwrap().unwrap()]).into_owned()
}

#[tokio::test]
async fn the_body_arrives_as_it_was_sent_with_the_accounts_credential() {
    let upstream = Upstream::serving().await;
    let gateway = openai(&[&upstream]).await;
    let body = "{ \"model\":\"m\",\n\t\"n\": 1.50, \"é\": [ ] }";
    let answer = post(&gateway, "/v1/chat/completions?a=b", &[("openai-beta", "x=1")], body).await;
    assert_eq!(answer.status, 200);
    let (head, sent) = upstream.last();
    assert_eq!(sent, body);
    assert!(head.starts_with("post /v1/chat/completions?a=b "), "{head}");
    assert!(head.contains("openai-beta: x=1\r\n"));
    let credential = value_of("KEY_a").to_ascii_lowercase();
    assert!(head.contains(&format!("authorization: bearer {credential}\r\n")), "{head}");
    assert!(head.contains(&format!("host: {}\r\n", upstream.address())));
}

#[tokio::test]
async fn a_request_id_is_kept_or_made() {
    let upstream = Upstream::serving().await;
    let gateway = openai(&[&upstream]).await;
    let answer = ask(&gateway).await;
    assert_eq!(answer.header("x-request-id"), Some(answer.id.as_str()));
    assert!(answer.logged("served"), "the log names it too");
    idle(gateway.pool()).await;
}
