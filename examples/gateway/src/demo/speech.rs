//! The ways in which providers speak.

mod anthropic;
mod gemini;
mod openai;
mod responses;

use http::StatusCode;
use serde_json::Value;

use super::cache::Count;
use crate::api::Api;

/// A form of questions and answers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Speech {
    Chat,
    Responses,
    Messages,
    Gemini,
}

/// A question, as far as the demo's upstream looks at it.
#[derive(Clone, Debug, Default)]
pub(super) struct Prompt {
    /// What a cache would keep, in order.
    pub(super) parts: Vec<String>,
    /// The first tool that may be called, unless its result is there already.
    pub(super) tool: Option<String>,
    pub(super) stream: bool,
}

/// An answer.
#[derive(Clone, Debug)]
pub(super) struct Reply {
    pub(super) id: String,
    pub(super) model: String,
    pub(super) text: String,
    /// The tool to call, instead of the text.
    pub(super) tool: Option<String>,
    pub(super) count: Count,
}

/// The arguments of every tool call.
const ARGUMENTS: &str = r#"{"city":"Paris"}"#;

/// Why a question is not answered.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Refusal {
    Invalid,
    Key,
    Model,
    /// For so many seconds.
    Throttled(u64),
    /// For so many seconds.
    Dry(u64),
    Overloaded,
}

impl Speech {
    pub(super) fn api(self) -> Api {
        match self {
            Self::Chat | Self::Responses => Api::OpenAi,
            Self::Messages => Api::Anthropic,
            Self::Gemini => Api::Gemini,
        }
    }

    /// `None` when what must be there is not.
    pub(super) fn prompt(self, body: &Value) -> Option<Prompt> {
        match self {
            Self::Chat => openai::prompt(body),
            Self::Responses => responses::prompt(body),
            Self::Messages => anthropic::prompt(body),
            Self::Gemini => gemini::prompt(body),
        }
    }

    pub(super) fn whole(self, reply: &Reply) -> Value {
        match self {
            Self::Chat => openai::whole(reply),
            Self::Responses => responses::whole(reply),
            Self::Messages => anthropic::whole(reply),
            Self::Gemini => gemini::whole(reply),
        }
    }

    /// The events of a stream.
    pub(super) fn events(self, reply: &Reply) -> Vec<String> {
        match self {
            Self::Chat => openai::events(reply),
            Self::Responses => responses::events(reply),
            Self::Messages => anthropic::events(reply),
            Self::Gemini => gemini::events(reply),
        }
    }

    /// An error's status, body, and whether its `retry-after` is told in a header.
    pub(super) fn refuse(self, refusal: Refusal) -> (StatusCode, Value) {
        match self.api() {
            Api::OpenAi => openai::refuse(refusal),
            Api::Anthropic => anthropic::refuse(refusal),
            Api::Gemini => gemini::refuse(refusal),
        }
    }
}

/// A text cut into words, as a stream sends it.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(' ')
}

/// The elements of a list as texts.
fn texts(list: Option<&Value>) -> Option<Vec<String>> {
    let list = list?.as_array().filter(|list| !list.is_empty())?;
    Some(list.iter().map(Value::to_string).collect())
}

fn named_event(name: &str, data: &Value) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}

fn event(data: &Value) -> String {
    format!("data: {data}\n\n")
}
