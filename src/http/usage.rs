//! Usage from response bodies.

use serde::Deserialize;

use super::json::{Object, Scalar};
use crate::outcome::Usage;

/// Longer bodies are not looked at.
pub(super) const MAX_BODY: usize = 8 << 20;

/// What an answer says it used; `None` when it says nothing.
///
/// `body` is a complete JSON answer or a stream of server-sent events, whole or one event's data.
/// Several reports in one stream are cumulative: the largest number of each kind counts. Bodies of
/// more than 8 MiB say nothing. Work is linear in the body; what is not usage is skipped.
///
/// | upstream | input | cache read | cache write | output |
/// | --- | --- | --- | --- | --- |
/// | OpenAI chat | `prompt_tokens` − cached | `prompt_tokens_details.cached_tokens` | – | `completion_tokens` |
/// | OpenAI responses | `input_tokens` − cached | `input_tokens_details.cached_tokens` | – | `output_tokens` |
/// | `DeepSeek` | `prompt_tokens` − cached | `prompt_cache_hit_tokens` | – | `completion_tokens` |
/// | Anthropic | `input_tokens` | `cache_read_input_tokens` | `cache_creation_input_tokens` | `output_tokens` |
/// | Gemini | `promptTokenCount` + `toolUsePromptTokenCount` − cached | `cachedContentTokenCount` | – | `candidatesTokenCount` + `thoughtsTokenCount` |
///
/// Field names as in OpenAI's *API reference* (usage objects), Anthropic's *Messages* reference and
/// *Prompt caching*, Google's *Gemini API reference* (`UsageMetadata`) and `DeepSeek`'s *Context
/// caching*.
///
/// ```
/// use account_pool::http::usage;
///
/// let body = br#"{"usage": {"prompt_tokens": 2006, "completion_tokens": 300,
///     "prompt_tokens_details": {"cached_tokens": 1920}, "total_tokens": 2306}}"#;
/// let usage = usage(body).unwrap();
/// assert_eq!((usage.input, usage.cache_read, usage.output), (86, 1_920, 300));
/// ```
#[must_use]
pub fn usage(body: &[u8]) -> Option<Usage> {
    if body.len() > MAX_BODY {
        return None;
    }
    match body.trim_ascii_start().first()? {
        b'{' => serde_json::from_slice::<Object<Body>>(body).ok()?.0?.usage(),
        b'[' => {
            let chunks: Vec<Object<Body>> = serde_json::from_slice(body).ok()?;
            merged(chunks.into_iter().filter_map(|chunk| chunk.0?.usage()))
        }
        _ => {
            let events = events(body).filter(|event| {
                let text = event.trim_ascii();
                text.starts_with(b"{") && holds(text, b"sage")
            });
            let read =
                |event: &[u8]| serde_json::from_slice::<Object<Body>>(event).ok()?.0?.usage();
            merged(events.filter_map(read))
        }
    }
}

/// The data lines of a stream of server-sent events.
pub(super) fn events(body: &[u8]) -> impl Iterator<Item = &[u8]> {
    body.split(|&byte| byte == b'\n').filter_map(|line| line.strip_prefix(b"data:"))
}

pub(super) fn holds(text: &[u8], word: &[u8]) -> bool {
    memchr::memmem::find(text, word).is_some()
}

fn merged(reports: impl Iterator<Item = Usage>) -> Option<Usage> {
    reports.reduce(larger)
}

/// Of two cumulative reports, the larger number of each kind.
pub(super) fn larger(one: Usage, other: Usage) -> Usage {
    Usage {
        input: one.input.max(other.input),
        output: one.output.max(other.output),
        cache_read: one.cache_read.max(other.cache_read),
        cache_write: one.cache_write.max(other.cache_write),
        reasoning: one.reasoning.max(other.reasoning),
        reported_total: one.reported_total.max(other.reported_total),
        ..one
    }
}

/// Where answers and stream events keep their usage.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Body {
    usage: Object<Tokens>,
    #[serde(rename = "usageMetadata")]
    metadata: Object<Metadata>,
    /// Anthropic's `message_start`.
    message: Object<Inner>,
    /// OpenAI's `response.completed`, and the envelope of Gemini Code Assist.
    response: Object<Inner>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Inner {
    usage: Object<Tokens>,
    #[serde(rename = "usageMetadata")]
    metadata: Object<Metadata>,
}

impl Body {
    fn usage(self) -> Option<Usage> {
        let outer = Inner { usage: self.usage, metadata: self.metadata };
        let inner = [Some(outer), self.message.0, self.response.0].into_iter().flatten();
        let mut found = inner.filter_map(|inner| {
            let tokens = inner.usage.0.and_then(|tokens| tokens.usage());
            tokens.or_else(|| inner.metadata.0?.usage())
        });
        found.next()
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Tokens {
    prompt_tokens: Scalar,
    completion_tokens: Scalar,
    input_tokens: Scalar,
    output_tokens: Scalar,
    total_tokens: Scalar,
    prompt_cache_hit_tokens: Scalar,
    cache_read_input_tokens: Scalar,
    cache_creation_input_tokens: Scalar,
    prompt_tokens_details: Object<Details>,
    input_tokens_details: Object<Details>,
    completion_tokens_details: Object<Details>,
    output_tokens_details: Object<Details>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Details {
    cached_tokens: Scalar,
    reasoning_tokens: Scalar,
}

impl Tokens {
    fn usage(&self) -> Option<Usage> {
        let prompt = first([&self.prompt_tokens, &self.input_tokens]);
        let output = first([&self.completion_tokens, &self.output_tokens]);
        let write = self.cache_creation_input_tokens.count();
        let read = self.cache_read_input_tokens.count();
        if [prompt, output, write, read].iter().all(Option::is_none) {
            return None;
        }
        let (prompt, output) = (prompt.unwrap_or_default(), output.unwrap_or_default());
        // Anthropic's input excludes the cached tokens, everyone else's prompt includes them.
        let excludes_cache = self.prompt_tokens.count().is_none() && (write.or(read)).is_some();
        let mut usage = if excludes_cache {
            let (cache_read, cache_write) = (read.unwrap_or_default(), write.unwrap_or_default());
            Usage { input: prompt, output, cache_read, cache_write, ..Usage::default() }
        } else {
            Usage::from_prompt_total(prompt, self.cached(), output)
        };
        usage.reasoning = self.reasoning().min(usage.output);
        usage.reported_total = self.total_tokens.count().unwrap_or_default();
        Some(usage)
    }

    fn cached(&self) -> u64 {
        let details = [&self.prompt_tokens_details, &self.input_tokens_details];
        let detailed = details.into_iter().find_map(|it| it.0.as_ref()?.cached_tokens.count());
        let apart = [&self.prompt_cache_hit_tokens, &self.cache_read_input_tokens];
        detailed.or_else(|| first(apart)).unwrap_or_default()
    }

    fn reasoning(&self) -> u64 {
        let details = [&self.completion_tokens_details, &self.output_tokens_details];
        let detailed = details.into_iter().find_map(|it| it.0.as_ref()?.reasoning_tokens.count());
        detailed.unwrap_or_default()
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    prompt_token_count: Scalar,
    tool_use_prompt_token_count: Scalar,
    cached_content_token_count: Scalar,
    candidates_token_count: Scalar,
    thoughts_token_count: Scalar,
    total_token_count: Scalar,
}

impl Metadata {
    fn usage(&self) -> Option<Usage> {
        let prompt = self.prompt_token_count.count();
        let total = self.total_token_count.count();
        prompt.or(total)?;
        let count = |scalar: &Scalar| scalar.count().unwrap_or_default();
        let prompt = count(&self.prompt_token_count)
            .saturating_add(count(&self.tool_use_prompt_token_count));
        let thoughts = count(&self.thoughts_token_count);
        let output = count(&self.candidates_token_count).saturating_add(thoughts);
        let cached = count(&self.cached_content_token_count);
        let mut usage = Usage::from_prompt_total(prompt, cached, output);
        usage.reasoning = thoughts;
        usage.reported_total = total.unwrap_or_default();
        Some(usage)
    }
}

fn first<const N: usize>(scalars: [&Scalar; N]) -> Option<u64> {
    scalars.into_iter().find_map(Scalar::count)
}
