//! Usage that bodies report.

use account_pool::http::usage;

/// Input, cache read, cache write, output, reasoning, reported total.
fn counts(body: &str) -> Option<[u64; 6]> {
    let it = usage(body.as_bytes())?;
    Some([it.input, it.cache_read, it.cache_write, it.output, it.reasoning, it.reported_total])
}

#[test]
fn complete_answers() {
    let cases: &[(&str, &str, [u64; 6])] = &[
        (
            "chat completion",
            r#"{"id":"chatcmpl-x","usage":{"prompt_tokens":2006,"completion_tokens":300,"total_tokens":2306,"prompt_tokens_details":{"cached_tokens":1920,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":64}}}"#,
            [86, 1_920, 0, 300, 64, 2_306],
        ),
        (
            "response",
            r#"{"id":"resp_x","object":"response","error":null,"usage":{"input_tokens":328,"input_tokens_details":{"cached_tokens":256},"output_tokens":52,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":380}}"#,
            [72, 256, 0, 52, 0, 380],
        ),
        (
            "message",
            r#"{"id":"msg_x","type":"message","usage":{"input_tokens":50,"cache_creation_input_tokens":248,"cache_read_input_tokens":188086,"output_tokens":393,"cache_creation":{"ephemeral_5m_input_tokens":248}}}"#,
            [50, 188_086, 248, 393, 0, 0],
        ),
        (
            "generated content",
            r#"{"candidates":[],"usageMetadata":{"promptTokenCount":1000,"cachedContentTokenCount":900,"candidatesTokenCount":20,"thoughtsTokenCount":30,"toolUsePromptTokenCount":5,"totalTokenCount":1055}}"#,
            [105, 900, 0, 50, 30, 1_055],
        ),
        (
            "code assist envelope",
            r#"{"response":{"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":2,"totalTokenCount":12}}}"#,
            [10, 0, 0, 2, 0, 12],
        ),
        (
            "cache hits apart",
            r#"{"usage":{"prompt_tokens":100,"completion_tokens":7,"prompt_cache_hit_tokens":64,"prompt_cache_miss_tokens":36,"total_tokens":107}}"#,
            [36, 64, 0, 7, 0, 107],
        ),
        (
            "a relay's mixture",
            r#"{"usage":{"prompt_tokens":100,"completion_tokens":7,"cache_read_input_tokens":40}}"#,
            [60, 40, 0, 7, 0, 0],
        ),
        (
            "more cached than prompted",
            r#"{"usage":{"prompt_tokens":10,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":99}}}"#,
            [0, 10, 0, 1, 0, 0],
        ),
        (
            "nonsense inside",
            r#"{"message":"text","usage":{"prompt_tokens":-4,"completion_tokens":2.9,"prompt_tokens_details":[1],"total_tokens":"many"}}"#,
            [0, 0, 0, 2, 0, 0],
        ),
        (
            "huge",
            r#"{"usage":{"input_tokens":18446744073709551615,"output_tokens":1e300,"cache_read_input_tokens":1}}"#,
            [u64::MAX, 1, 0, u64::MAX, 0, 0],
        ),
    ];
    for (name, body, expected) in cases {
        assert_eq!(counts(body), Some(*expected), "{name}");
    }
}

#[test]
fn streams() {
    let anthropic = concat!(
        "event: message_start\n",
        r#"data: {"type":"message_start","message":{"id":"msg_x","usage":{"input_tokens":25,"cache_creation_input_tokens":7,"cache_read_input_tokens":9,"output_tokens":1}}}"#,
        "\n\nevent: content_block_delta\n",
        r#"data: {"type":"content_block_delta","delta":{"type":"text_delta","text":"usage: 5"}}"#,
        "\r\n\r\nevent: message_delta\n",
        r#"data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":15}}"#,
        "\n\n",
    );
    assert_eq!(counts(anthropic), Some([25, 9, 7, 15, 0, 0]));

    let openai = concat!(
        "data: {\"choices\":[],\"usage\":null}\n\n",
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":3,\"total_tokens\":12}}\n\n",
        "data: [DONE]\n\n",
    );
    assert_eq!(counts(openai), Some([9, 0, 0, 3, 0, 12]));

    let responses = "data: {\"type\":\"response.completed\",\"response\":{\"usage\":{\"input_tokens\":4,\"output_tokens\":2,\"total_tokens\":6}}}\n";
    assert_eq!(counts(responses), Some([4, 0, 0, 2, 0, 6]));

    let gemini = r#"[{"usageMetadata":{"promptTokenCount":4,"candidatesTokenCount":1,"totalTokenCount":5}},{"usageMetadata":{"promptTokenCount":4,"candidatesTokenCount":8,"totalTokenCount":12}}]"#;
    assert_eq!(counts(gemini), Some([4, 0, 0, 8, 0, 12]));
}

#[test]
fn nothing_to_read() {
    for body in [
        "",
        "null",
        "{}",
        "[]",
        "{\"usage\":null}",
        "{\"usage\":{}}",
        "{\"usage\":5}",
        "hello",
        "{\"usage\":{\"prompt_tokens\":5",
        "data:",
        "data: {\"usage\"",
    ] {
        assert_eq!(counts(body), None, "{body}");
    }
    let long = format!("{{\"pad\":\"{}\",\"usage\":{{\"prompt_tokens\":1}}}}", "x".repeat(9 << 20));
    assert_eq!(counts(&long), None, "longer than what is looked at");
    let deep = format!("{{\"pad\":{}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(counts(&deep), None);
}
