//! Bodies read while they stream by.

use account_pool::http::{BodyReader, Cause, Classifier, Provider};
use account_pool::{Outcome, Usage};
use http::{HeaderMap, StatusCode};

use crate::NOW;

/// A body, cut into pieces of `size`.
fn read(body: &str, size: usize) -> BodyReader {
    let mut reader = BodyReader::new();
    body.as_bytes().chunks(size).for_each(|piece| reader.push(piece));
    reader
}

fn cause(provider: Provider, reader: &BodyReader) -> Cause {
    let classifier = Classifier::new(provider);
    reader.classify(&classifier, StatusCode::OK, &HeaderMap::new(), NOW).cause
}

/// Input, cache read, output.
fn counts(usage: Option<Usage>) -> Option<[u64; 3]> {
    usage.map(|usage| [usage.input, usage.cache_read, usage.output])
}

const MESSAGE: &str = concat!(
    "event: message_start\n",
    r#"data: {"type":"message_start","message":{"usage":{"input_tokens":3,"cache_read_input_tokens":90,"output_tokens":1}}}"#,
    "\r\n\r\nevent: content_block_delta\r\n",
    r#"data: {"type":"content_block_delta","delta":{"type":"text_delta","text":"an \"error\" and [DONE], message_stop"}}"#,
    "\n\n",
    r#"data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":5}}"#,
    "\n\n",
    r#"data: {"type":"message_stop"}"#,
    "\n\n",
);

#[test]
fn a_stream_may_be_cut_anywhere() {
    for size in 1..MESSAGE.len() {
        let reader = read(MESSAGE, size);
        assert_eq!(counts(reader.usage()), Some([3, 90, 5]), "pieces of {size}");
        assert!(reader.is_complete() && !reader.has_failed());
        assert_eq!(cause(Provider::Anthropic, &reader), Cause::Served);
    }
}

#[test]
fn a_stream_is_complete_with_its_last_event_and_not_before() {
    for last in [
        "data: [DONE]\n",
        "data: {\"type\":\"message_stop\"}\n",
        "data: {\"type\":\"response.completed\",\"response\":{}}\n",
        "data: {\"type\":\"response.incomplete\"}\n",
        "data: {\"candidates\":[{\"finishReason\":\"STOP\"}]}\n",
    ] {
        let mut reader = BodyReader::new();
        reader.push(b"data: {\"type\":\"response.created\"}\n\n");
        reader.push(&last.as_bytes()[..last.len() - 1]);
        assert!(!reader.is_complete(), "{last}");
        reader.push(b"\n");
        assert!(reader.is_complete(), "{last}");
    }
}

#[test]
fn what_a_model_says_ends_and_fails_nothing() {
    for said in ["[DONE]", "message_stop", "{\\\"type\\\":\\\"message_stop\\\"}", "\\\"error\\\""] {
        let event = format!("data: {{\"type\":\"delta\",\"text\":\"{said} finishReason\"}}\n\n");
        let reader = read(&event, 1_000);
        assert!(!reader.is_complete() && !reader.has_failed(), "{said}");
    }
}

#[test]
fn an_error_half_way_is_what_the_answer_comes_to() {
    let begun = "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}],\"error\":null}\n\n";
    let reader = read(begun, 9);
    assert!(!reader.has_failed());
    let body = format!(
        "{begun}event: error\ndata: {{\"type\":\"error\",\"error\":{{\"type\":\"overloaded_error\"}}}}\n\n"
    );
    let reader = read(&body, 9);
    assert!(reader.has_failed());
    assert!(matches!(cause(Provider::Anthropic, &reader), Cause::Overload(_)));
}

#[test]
fn a_document_is_read_at_its_end() {
    let body = r#"{"usage":{"prompt_tokens":100,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":60}}}"#;
    let reader = read(body, 7);
    assert_eq!(counts(reader.usage()), Some([40, 60, 7]));
    assert!(!reader.is_complete());
    let half = read(&body[..50], 7);
    assert_eq!(half.usage(), None);
    assert_eq!(cause(Provider::OpenAi, &half), Cause::Served);
    let error = read(r#"{"error":{"code":"server_overloaded"}}"#, 7);
    assert!(matches!(cause(Provider::OpenAi, &error), Cause::Overload(_)));
    let page = read("<html><body>Log in</body></html>", 7);
    assert_eq!(cause(Provider::OpenAi, &page), Cause::Path);
}

#[test]
fn lines_past_a_megabyte_are_passed_over_and_the_next_is_read() {
    let mut reader = BodyReader::new();
    reader.push(b"data: ");
    let filler = vec![b'x'; 64 << 10];
    for _ in 0..32 {
        reader.push(&filler);
    }
    reader.push(b"\ndata: {\"usage\":{\"prompt_tokens\":5}}\n\n");
    assert_eq!(counts(reader.usage()), Some([5, 0, 0]));
}

#[test]
fn documents_past_eight_megabytes_say_nothing() {
    let mut reader = BodyReader::new();
    reader.push(b"{\"usage\":{\"prompt_tokens\":5},\"x\":\"");
    let filler = vec![b'x'; 1 << 20];
    for _ in 0..9 {
        reader.push(&filler);
    }
    reader.push(b"\"}");
    assert_eq!(reader.usage(), None);
    assert_eq!(cause(Provider::OpenAi, &reader), Cause::Served);
}

#[test]
fn nothing_is_served_without_usage() {
    let reader = read("\n \n", 1);
    assert_eq!(reader.usage(), None);
    let classifier = Classifier::new(Provider::OpenAi);
    let verdict = reader.classify(&classifier, StatusCode::OK, &HeaderMap::new(), NOW);
    assert_eq!(verdict.outcome, Outcome::success());
}

#[test]
fn debug_shows_no_content() {
    let reader = read("data: {\"error\":{\"message\":\"secret\"}}\n\ndata: secret", 9);
    assert!(!format!("{reader:?}").contains("secret"));
}
