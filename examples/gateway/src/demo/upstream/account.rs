//! An account of the imitation.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use http::{HeaderMap, HeaderName, HeaderValue};

use super::Behaviour;
use crate::api::Api;
use crate::demo::cache::PromptCache;
use crate::demo::speech::Refusal;

const MINUTE: Duration = Duration::from_secs(60);
/// When a quota that has run dry is renewed.
const RENEWAL_SECS: u64 = 3 * 3_600;

#[derive(Debug)]
pub(super) struct DemoAccount {
    id: String,
    pub(super) cache: PromptCache,
    /// Whether its quota is spent.
    pub(super) dry: bool,
    /// The requests of the last minute.
    recent: VecDeque<Instant>,
    served: u64,
}

impl DemoAccount {
    pub(super) fn new(id: String, cache_lifetime: Duration) -> Self {
        let cache = PromptCache::new(cache_lifetime);
        Self { id, cache, dry: false, recent: VecDeque::new(), served: 0 }
    }

    /// Counts a request; a reason if there is no room for it.
    pub(super) fn admit(&mut self, behaviour: &Behaviour, now: Instant) -> Option<Refusal> {
        if self.dry {
            return Some(Refusal::Dry(RENEWAL_SECS));
        }
        while self.recent.front().is_some_and(|&at| now.duration_since(at) >= MINUTE) {
            self.recent.pop_front();
        }
        if let Some(rpm) = behaviour.rpm {
            if self.recent.len() as u64 >= rpm {
                return Some(Refusal::Throttled(self.reset_secs(now)));
            }
            self.recent.push_back(now);
        }
        self.served += 1;
        None
    }

    fn reset_secs(&self, now: Instant) -> u64 {
        let frees = self.recent.front().map(|&at| (at + MINUTE).saturating_duration_since(now));
        frees.map_or(1, |frees| frees.as_secs() + 1)
    }

    /// How the account stands, in the words of its API, and which one it is.
    pub(super) fn headers(&self, api: Api, behaviour: &Behaviour, now: Instant) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let mut say = |name: &'static str, value: String| {
            if let Ok(value) = HeaderValue::from_str(&value) {
                headers.insert(HeaderName::from_static(name), value);
            }
        };
        // An account without a limit tells a number that nobody reaches.
        let rpm = behaviour.rpm.unwrap_or(1_000_000_000);
        let left = rpm.saturating_sub(self.recent.len() as u64);
        let reset = self.reset_secs(now);
        let at = |seconds: u64| jiff::Timestamp::now() + Duration::from_secs(seconds);
        match api {
            Api::OpenAi => {
                say("x-ratelimit-limit-requests", rpm.to_string());
                say("x-ratelimit-remaining-requests", left.to_string());
                say("x-ratelimit-reset-requests", format!("{reset}s"));
            }
            Api::Anthropic => {
                say("anthropic-ratelimit-requests-limit", rpm.to_string());
                say("anthropic-ratelimit-requests-remaining", left.to_string());
                say("anthropic-ratelimit-requests-reset", at(reset).to_string());
                self.five_hours(&mut say, at(RENEWAL_SECS).as_second());
            }
            Api::Gemini => {}
        }
        say("x-demo-account", self.id.clone());
        headers
    }

    /// The window of a subscription: each answer takes a little of it.
    fn five_hours(&self, say: &mut impl FnMut(&'static str, String), reset: i64) {
        let percent = if self.dry { 100 } else { (self.served / 4).min(90) };
        let status = if self.dry { "rejected" } else { "allowed" };
        let used = format!("{}.{:02}", percent / 100, percent % 100);
        say("anthropic-ratelimit-unified-5h-status", status.to_owned());
        say("anthropic-ratelimit-unified-5h-utilization", used);
        say("anthropic-ratelimit-unified-5h-reset", reset.to_string());
    }
}
