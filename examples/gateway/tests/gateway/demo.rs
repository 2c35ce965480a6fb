//! The demonstration, and its upstream's way of speaking.

use account_pool_gateway::Gateway;
use account_pool_gateway::config::{AccountConfig, ProviderName, Settings};
use account_pool_gateway::demo::show::{Options, run};
use account_pool_gateway::demo::upstream::{Behaviour, DemoUpstream};
use serde_json::{Value, json};

use crate::support::{idle, post};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_numbers_are_as_the_demonstration_says() {
    let mut options = Options::default();
    options.listen.set_port(0);
    (options.conversations, options.rounds) = (12, 5);
    let mut told = 0;
    let shown = run(&options, &mut |_| told += 1).await.unwrap();
    assert_eq!(shown.report.complaints(), Vec::<String>::new(), "{}", shown.report);
    assert!(told >= 2 * 12 * 5);
    idle(shown.gateway.pool()).await;
    shown.gateway.stop().await;
}

/// A gateway with one account per API on a demo's upstream without moods.
async fn gateway() -> (DemoUpstream, Gateway) {
    let mut behaviour = Behaviour::default();
    (behaviour.accounts, behaviour.throttle_percent, behaviour.overload_percent) = (1, 0, 0);
    let upstream = DemoUpstream::start(behaviour).await.unwrap();
    let mut settings = Settings::default();
    settings.server.listen = ([127, 0, 0, 1], 0).into();
    let url = format!("http://{}", upstream.address());
    for (id, provider) in [
        ("openai-1", ProviderName::OpenAi),
        ("anthropic-1", ProviderName::Anthropic),
        ("gemini-1", ProviderName::Gemini),
    ] {
        settings.accounts.push(AccountConfig::new(id, provider, &url, id));
    }
    let keys = |id: &str| Some(account_pool_gateway::demo::upstream::key(id));
    let gateway = Gateway::start(settings, std::sync::Arc::new(keys)).await.unwrap();
    (upstream, gateway)
}

/// Path, question, where a text is, where a tool's name is.
fn questions() -> [(&'static str, Value, &'static str, &'static str); 4] {
    let said = json!([{"role": "user", "content": "hello"}]);
    let schema = json!({"type": "object"});
    [
        (
            "/v1/chat/completions",
            json!({"messages": said, "tools": [{"type": "function", "function": {"name": "look"}}]}),
            "/choices/0/message/content",
            "/choices/0/message/tool_calls/0/function/name",
        ),
        (
            "/v1/responses",
            json!({"input": "hello", "tools": [{"type": "function", "name": "look"}]}),
            "/output/0/content/0/text",
            "/output/0/name",
        ),
        (
            "/v1/messages",
            json!({"max_tokens": 9, "messages": said, "tools": [{"name": "look", "input_schema": schema}]}),
            "/content/0/text",
            "/content/0/name",
        ),
        (
            "/v1beta/models/demo-large:generateContent",
            json!({
                "contents": [{"parts": [{"text": "hello"}]}],
                "tools": [{"functionDeclarations": [{"name": "look"}]}],
            }),
            "/candidates/0/content/parts/0/text",
            "/candidates/0/content/parts/0/functionCall/name",
        ),
    ]
}

#[tokio::test]
async fn every_api_answers_with_a_text_or_with_a_call_of_the_first_tool() {
    let (_upstream, gateway) = gateway().await;
    for (path, mut question, text, tool) in questions() {
        question["model"] = json!("demo-large");
        let answer = post(&gateway, path, &[], &question.to_string()).await;
        assert_eq!(answer.json().pointer(tool).unwrap(), "look", "{path}");
        question["tools"] = json!([]);
        let answer = post(&gateway, path, &[], &question.to_string()).await;
        assert!(!answer.json().pointer(text).unwrap().as_str().unwrap().is_empty(), "{path}");
    }
    idle(gateway.pool()).await;
}

#[tokio::test]
async fn every_api_streams_events_to_a_last_one() {
    let (_upstream, gateway) = gateway().await;
    for (path, mut question, _, _) in questions() {
        question["model"] = json!("demo-large");
        question["stream"] = json!(true);
        let path = path.replace(":generateContent", ":streamGenerateContent?alt=sse");
        for tools in [question["tools"].clone(), json!([])] {
            question["tools"] = tools;
            let answer = post(&gateway, &path, &[], &question.to_string()).await;
            assert_eq!(answer.header("content-type"), Some("text/event-stream"));
            let mut reader = account_pool::http::BodyReader::new();
            reader.push(&answer.body);
            assert!(reader.is_complete() && !reader.has_failed(), "{path}");
            assert!(reader.usage().unwrap().output > 0, "{path}");
        }
    }
    idle(gateway.pool()).await;
}

#[tokio::test]
async fn errors_of_the_upstream_reach_the_client_in_its_words() {
    let (_upstream, gateway) = gateway().await;
    let unknown = json!({"model": "no-such", "max_tokens": 9, "messages": [{"role": "user"}]});
    let answer = post(&gateway, "/v1/messages", &[], &unknown.to_string()).await;
    assert_eq!(
        (answer.status.as_u16(), &answer.json()["error"]["type"]),
        (404, &json!("not_found_error"))
    );
    let answer = post(&gateway, "/v1/chat/completions", &[], &unknown.to_string()).await;
    assert_eq!(
        (answer.status.as_u16(), &answer.json()["error"]["code"]),
        (404, &json!("model_not_found"))
    );
    for path in ["/v1/messages", "/v1/chat/completions"] {
        let answer = post(&gateway, path, &[], r#"{"model": "demo-large"}"#).await;
        assert_eq!(answer.status, 400, "{path}");
        assert_eq!(answer.json()["error"]["type"], "invalid_request_error");
    }
}

#[tokio::test]
async fn a_prompt_is_read_from_the_cache_when_it_is_sent_again() {
    let (_upstream, gateway) = gateway().await;
    for (path, mut question, _, _) in questions() {
        question["model"] = json!("demo-large");
        for expects_hit in [false, true] {
            let answer = post(&gateway, path, &[], &question.to_string()).await;
            let used = account_pool::http::usage(&answer.body).unwrap();
            assert_eq!(used.cache_read > 0, expects_hit, "{path}");
            assert_eq!(used.input + used.cache_write > 0, !expects_hit, "{path}");
            // The two forms of OpenAI's share an account, but not the form of their prompts.
        }
    }
}
