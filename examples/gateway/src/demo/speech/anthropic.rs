//! Anthropic's messages.

use http::StatusCode;
use serde_json::{Value, json};

use super::{ARGUMENTS, Prompt, Refusal, Reply, named_event, texts, words};

pub(super) fn prompt(body: &Value) -> Option<Prompt> {
    let messages = body.get("messages");
    let mut parts: Vec<String> = body.get("system").map(Value::to_string).into_iter().collect();
    parts.extend(texts(messages)?);
    body.get("max_tokens")?.as_u64()?;
    let last = messages?.as_array()?.last()?;
    let answers_tool =
        last.pointer("/content/0/type").and_then(Value::as_str) == Some("tool_result");
    let tool = body.pointer("/tools/0/name").and_then(Value::as_str);
    let tool = tool.filter(|_| !answers_tool).map(str::to_owned);
    let stream = body.get("stream").and_then(Value::as_bool).unwrap_or(false);
    Some(Prompt { parts, tool, stream })
}

fn usage(reply: &Reply, output: u64) -> Value {
    json!({
        "input_tokens": 0,
        "cache_creation_input_tokens": reply.count.write,
        "cache_read_input_tokens": reply.count.read,
        "output_tokens": output,
    })
}

fn message(reply: &Reply, content: &Value, reason: &Value, output: u64) -> Value {
    json!({
        "id": format!("msg_{}", reply.id),
        "type": "message",
        "role": "assistant",
        "model": reply.model,
        "content": content,
        "stop_reason": reason,
        "stop_sequence": null,
        "usage": usage(reply, output),
    })
}

fn reason(reply: &Reply) -> Value {
    json!(if reply.tool.is_some() { "tool_use" } else { "end_turn" })
}

fn call(reply: &Reply, name: &str, input: &Value) -> Value {
    json!({"type": "tool_use", "id": format!("toolu_{}", reply.id), "name": name, "input": input})
}

pub(super) fn whole(reply: &Reply) -> Value {
    let content = match &reply.tool {
        Some(name) => call(reply, name, &serde_json::from_str(ARGUMENTS).unwrap_or_default()),
        None => json!({"type": "text", "text": reply.text}),
    };
    message(reply, &json!([content]), &reason(reply), reply.count.output)
}

pub(super) fn events(reply: &Reply) -> Vec<String> {
    let say = |name: &str, mut data: Value| {
        data["type"] = json!(name);
        named_event(name, &data)
    };
    let delta = |delta: Value| say("content_block_delta", json!({"index": 0, "delta": delta}));
    let block = match &reply.tool {
        Some(name) => call(reply, name, &json!({})),
        None => json!({"type": "text", "text": ""}),
    };
    let start = message(reply, &json!([]), &Value::Null, 1);
    let mut events = vec![
        say("message_start", json!({"message": start})),
        say("content_block_start", json!({"index": 0, "content_block": block})),
        say("ping", json!({})),
    ];
    if reply.tool.is_some() {
        events.push(delta(json!({"type": "input_json_delta", "partial_json": ARGUMENTS})));
    } else {
        let text = |it| delta(json!({"type": "text_delta", "text": it}));
        events.extend(words(&reply.text).map(text));
    }
    events.push(say("content_block_stop", json!({"index": 0})));
    let stop = json!({"stop_reason": reason(reply), "stop_sequence": null});
    let used = json!({"output_tokens": reply.count.output});
    events.push(say("message_delta", json!({"delta": stop, "usage": used})));
    events.push(say("message_stop", json!({})));
    events
}

pub(super) fn refuse(refusal: Refusal) -> (StatusCode, Value) {
    let (status, kind, message) = match refusal {
        Refusal::Invalid => {
            (400, "invalid_request_error", "messages and max_tokens: Field required")
        }
        Refusal::Key => (401, "authentication_error", "invalid x-api-key"),
        Refusal::Model => (404, "not_found_error", "model: no such model"),
        Refusal::Throttled(_) | Refusal::Dry(_) => {
            (429, "rate_limit_error", "This request would exceed your rate limit")
        }
        Refusal::Overloaded => (529, "overloaded_error", "Overloaded"),
    };
    let error = json!({"type": kind, "message": message});
    (StatusCode::from_u16(status).unwrap_or_default(), json!({"type": "error", "error": error}))
}
