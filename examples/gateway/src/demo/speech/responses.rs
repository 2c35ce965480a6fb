//! OpenAI's responses.

use serde_json::{Value, json};

use super::{ARGUMENTS, Prompt, Reply, named_event, texts, words};

pub(super) fn prompt(body: &Value) -> Option<Prompt> {
    let input = body.get("input")?;
    let mut parts: Vec<String> =
        body.get("instructions").map(Value::to_string).into_iter().collect();
    match input {
        Value::String(text) => parts.push(text.clone()),
        _ => parts.extend(texts(Some(input))?),
    }
    let last = input.as_array().and_then(|list| list.last()?.get("type")?.as_str());
    let tool = body.pointer("/tools/0/name").and_then(Value::as_str);
    let tool = tool.filter(|_| last != Some("function_call_output")).map(str::to_owned);
    let stream = body.get("stream").and_then(Value::as_bool).unwrap_or(false);
    Some(Prompt { parts, tool, stream })
}

fn item(reply: &Reply, text: &str, arguments: &str, status: &str) -> Value {
    match &reply.tool {
        Some(name) => json!({
            "id": format!("fc_{}", reply.id), "type": "function_call", "status": status,
            "call_id": format!("call_{}", reply.id), "name": name, "arguments": arguments,
        }),
        None => json!({
            "id": format!("msg_{}", reply.id), "type": "message", "status": status,
            "role": "assistant",
            "content": if text.is_empty() { json!([]) } else { json!([part(text)]) },
        }),
    }
}

fn part(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": []})
}

fn envelope(reply: &Reply, status: &str, output: &Value, usage: &Value) -> Value {
    json!({
        "id": format!("resp_{}", reply.id),
        "object": "response",
        "created_at": 1_790_000_000,
        "status": status,
        "error": null,
        "incomplete_details": null,
        "instructions": null,
        "metadata": {},
        "model": reply.model,
        "output": output,
        "parallel_tool_calls": true,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": usage,
    })
}

pub(super) fn whole(reply: &Reply) -> Value {
    let count = reply.count;
    let input = count.write + count.read;
    let usage = json!({
        "input_tokens": input,
        "input_tokens_details": {"cached_tokens": count.read},
        "output_tokens": count.output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": input + count.output,
    });
    let output = json!([item(reply, &reply.text, ARGUMENTS, "completed")]);
    envelope(reply, "completed", &output, &usage)
}

pub(super) fn events(reply: &Reply) -> Vec<String> {
    let mut events = Vec::new();
    let mut say = |name: &str, mut data: Value| {
        data["type"] = json!(name);
        data["sequence_number"] = json!(events.len());
        events.push(named_event(name, &data));
    };
    let started = envelope(reply, "in_progress", &json!([]), &Value::Null);
    say("response.created", json!({"response": started}));
    say("response.in_progress", json!({"response": started}));
    let empty = item(reply, "", "", "in_progress");
    let id = empty["id"].clone();
    say("response.output_item.added", json!({"output_index": 0, "item": empty}));
    if reply.tool.is_some() {
        let data = json!({"item_id": id, "output_index": 0, "delta": ARGUMENTS});
        say("response.function_call_arguments.delta", data);
        let data = json!({
            "item_id": id, "output_index": 0, "arguments": ARGUMENTS, "name": reply.tool,
        });
        say("response.function_call_arguments.done", data);
    } else {
        let at = |more: (&str, Value)| {
            let mut data = json!({"item_id": id, "output_index": 0, "content_index": 0});
            data[more.0] = more.1;
            data
        };
        say("response.content_part.added", at(("part", part(""))));
        for word in words(&reply.text) {
            let mut data = at(("delta", json!(word)));
            data["logprobs"] = json!([]);
            say("response.output_text.delta", data);
        }
        let mut data = at(("text", json!(reply.text)));
        data["logprobs"] = json!([]);
        say("response.output_text.done", data);
        say("response.content_part.done", at(("part", part(&reply.text))));
    }
    let done = item(reply, &reply.text, ARGUMENTS, "completed");
    say("response.output_item.done", json!({"output_index": 0, "item": done}));
    say("response.completed", json!({"response": whole(reply)}));
    events
}
