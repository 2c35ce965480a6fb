//! Gemini's `generateContent`. Whether it streams is said by the URL.

use http::StatusCode;
use serde_json::{Value, json};

use super::{ARGUMENTS, Prompt, Refusal, Reply, event, texts, words};

pub(super) fn prompt(body: &Value) -> Option<Prompt> {
    let contents = body.get("contents");
    let system = body.get("systemInstruction").or_else(|| body.get("system_instruction"));
    let mut parts: Vec<String> = system.map(Value::to_string).into_iter().collect();
    parts.extend(texts(contents)?);
    let last = contents?.as_array()?.last()?;
    let tool = body.pointer("/tools/0/functionDeclarations/0/name").and_then(Value::as_str);
    let tool = tool.filter(|_| last.pointer("/parts/0/functionResponse").is_none());
    Some(Prompt { parts, tool: tool.map(str::to_owned), stream: false })
}

fn chunk(reply: &Reply, part: &Value, is_last: bool) -> Value {
    let count = reply.count;
    let prompt = count.write + count.read;
    let mut candidate = json!({"index": 0, "content": {"role": "model", "parts": [part]}});
    if is_last {
        candidate["finishReason"] = json!("STOP");
    }
    json!({
        "candidates": [candidate],
        "usageMetadata": {
            "promptTokenCount": prompt,
            "cachedContentTokenCount": count.read,
            "candidatesTokenCount": count.output,
            "totalTokenCount": prompt + count.output,
        },
        "modelVersion": reply.model,
        "responseId": reply.id,
    })
}

fn call(name: &str) -> Value {
    let arguments: Value = serde_json::from_str(ARGUMENTS).unwrap_or_default();
    json!({"functionCall": {"name": name, "args": arguments}})
}

pub(super) fn whole(reply: &Reply) -> Value {
    let part = reply.tool.as_deref().map_or_else(|| json!({"text": reply.text}), call);
    chunk(reply, &part, true)
}

pub(super) fn events(reply: &Reply) -> Vec<String> {
    if reply.tool.is_some() {
        return vec![event(&whole(reply))];
    }
    let text = |it: &str| event(&chunk(reply, &json!({"text": it}), false));
    let mut events: Vec<String> = words(&reply.text).map(text).collect();
    events.push(event(&chunk(reply, &json!({"text": ""}), true)));
    events
}

pub(super) fn refuse(refusal: Refusal) -> (StatusCode, Value) {
    let retry = |seconds: u64| json!([{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": format!("{seconds}s")}]);
    let (code, status, message, details) = match refusal {
        Refusal::Invalid => (400, "INVALID_ARGUMENT", "contents is not specified", json!([])),
        Refusal::Key => {
            let reason = json!([{"reason": "API_KEY_INVALID"}]);
            (400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.", reason)
        }
        Refusal::Model => (404, "NOT_FOUND", "the model is not found", json!([])),
        Refusal::Throttled(seconds) => {
            (429, "RESOURCE_EXHAUSTED", "Resource has been exhausted", retry(seconds))
        }
        Refusal::Dry(seconds) => {
            let mut details = retry(seconds);
            details[0]["reason"] = json!("QUOTA_EXHAUSTED");
            (429, "RESOURCE_EXHAUSTED", "You exceeded your current quota", details)
        }
        Refusal::Overloaded => (503, "UNAVAILABLE", "The model is overloaded.", json!([])),
    };
    let error = json!({"code": code, "message": message, "status": status, "details": details});
    (StatusCode::from_u16(code).unwrap_or_default(), json!({"error": error}))
}
