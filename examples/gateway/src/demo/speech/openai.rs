//! OpenAI's chat completions.

use http::StatusCode;
use serde_json::{Value, json};

use super::{ARGUMENTS, Prompt, Refusal, Reply, event, texts, words};

pub(super) fn prompt(body: &Value) -> Option<Prompt> {
    let messages = body.get("messages");
    let parts = texts(messages)?;
    let last_role = messages?.as_array()?.last()?.get("role").and_then(Value::as_str);
    let tool = body.pointer("/tools/0/function/name").and_then(Value::as_str);
    let tool = tool.filter(|_| last_role != Some("tool")).map(str::to_owned);
    let stream = body.get("stream").and_then(Value::as_bool).unwrap_or(false);
    Some(Prompt { parts, tool, stream })
}

fn usage(reply: &Reply) -> Value {
    let count = reply.count;
    let prompt = count.write + count.read;
    json!({
        "prompt_tokens": prompt,
        "completion_tokens": count.output,
        "total_tokens": prompt + count.output,
        "prompt_tokens_details": {"cached_tokens": count.read},
    })
}

fn call(reply: &Reply, name: &str) -> Value {
    json!({
        "id": format!("call_{}", reply.id), "type": "function",
        "function": {"name": name, "arguments": ARGUMENTS},
    })
}

pub(super) fn whole(reply: &Reply) -> Value {
    let (message, reason) = match &reply.tool {
        Some(name) => {
            let calls = [call(reply, name)];
            (json!({"role": "assistant", "content": null, "tool_calls": calls}), "tool_calls")
        }
        None => (json!({"role": "assistant", "content": reply.text}), "stop"),
    };
    json!({
        "id": format!("chatcmpl-{}", reply.id),
        "object": "chat.completion",
        "created": 1_790_000_000,
        "model": reply.model,
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": usage(reply),
    })
}

pub(super) fn events(reply: &Reply) -> Vec<String> {
    let chunk = |choices: Value, usage: Value| {
        event(&json!({
            "id": format!("chatcmpl-{}", reply.id),
            "object": "chat.completion.chunk",
            "created": 1_790_000_000,
            "model": reply.model,
            "choices": choices,
            "usage": usage,
        }))
    };
    let delta = |delta: Value, reason: Value| {
        chunk(json!([{"index": 0, "delta": delta, "finish_reason": reason}]), Value::Null)
    };
    let mut events = vec![delta(json!({"role": "assistant", "content": ""}), Value::Null)];
    match &reply.tool {
        Some(name) => {
            let mut call = call(reply, name);
            call["index"] = json!(0);
            events.push(delta(json!({"tool_calls": [call]}), Value::Null));
            events.push(delta(json!({}), json!("tool_calls")));
        }
        None => {
            events.extend(words(&reply.text).map(|it| delta(json!({"content": it}), Value::Null)));
            events.push(delta(json!({}), json!("stop")));
        }
    }
    events.push(chunk(json!([]), usage(reply)));
    events.push("data: [DONE]\n\n".to_owned());
    events
}

pub(super) fn refuse(refusal: Refusal) -> (StatusCode, Value) {
    let (status, kind, code, message) = match refusal {
        Refusal::Invalid => {
            (400, "invalid_request_error", "invalid_request", "messages are missing")
        }
        Refusal::Key => {
            (401, "invalid_request_error", "invalid_api_key", "Incorrect API key provided")
        }
        Refusal::Model => {
            (404, "invalid_request_error", "model_not_found", "The model does not exist")
        }
        Refusal::Throttled(_) => {
            (429, "requests", "rate_limit_exceeded", "Rate limit reached for requests")
        }
        Refusal::Dry(_) => (
            429,
            "insufficient_quota",
            "insufficient_quota",
            "You exceeded your current quota, please check your plan and billing details.",
        ),
        Refusal::Overloaded => {
            (503, "server_error", "server_overloaded", "The server is overloaded")
        }
    };
    let error = json!({"message": message, "type": kind, "param": null, "code": code});
    (StatusCode::from_u16(status).unwrap_or_default(), json!({"error": error}))
}
