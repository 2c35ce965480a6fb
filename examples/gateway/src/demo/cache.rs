//! A provider's prompt cache: beginnings of prompts that it has seen lately.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::dice::roll;

/// One account's cache.
#[derive(Debug)]
pub(super) struct PromptCache {
    lifetime: Duration,
    /// Until when each beginning is kept, by its digest.
    known: HashMap<u64, Instant>,
}

/// How a prompt was read.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Count {
    /// Tokens that were not in the cache, and are now.
    pub(super) write: u64,
    /// Tokens that were in the cache.
    pub(super) read: u64,
    /// Tokens of the answer.
    pub(super) output: u64,
}

impl PromptCache {
    pub(super) fn new(lifetime: Duration) -> Self {
        Self { lifetime, known: HashMap::new() }
    }

    /// Reads a prompt made of `parts`: its longest known beginning comes from the cache, and all
    /// of its beginnings are known from now on.
    pub(super) fn read(&mut self, parts: &[String], now: Instant) -> Count {
        self.known.retain(|_, until| *until > now);
        let mut count = Count::default();
        let mut beginning = 0;
        let mut warm = true;
        for part in parts {
            beginning = roll(beginning, &[part.as_bytes()]);
            warm &= self.known.insert(beginning, now + self.lifetime).is_some();
            let side = if warm { &mut count.read } else { &mut count.write };
            *side += tokens(part);
        }
        count
    }
}

/// About four letters make a token.
pub(super) fn tokens(text: &str) -> u64 {
    (text.len() as u64).div_ceil(4)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::PromptCache;

    #[test]
    fn a_longer_prompt_reads_its_known_beginning_and_writes_the_rest() {
        let now = Instant::now();
        let mut cache = PromptCache::new(Duration::from_secs(60));
        let parts = |texts: &[&str]| texts.iter().map(|&it| it.to_owned()).collect::<Vec<_>>();
        let mut read = |texts: &[&str], at| {
            let count = cache.read(&parts(texts), at);
            (count.write, count.read)
        };
        assert_eq!(read(&["eight ch", "four"], now), (3, 0));
        assert_eq!(read(&["eight ch", "four", "more"], now), (1, 3));
        assert_eq!(read(&["other st", "four", "more"], now), (4, 0));
        let late = now + Duration::from_secs(61);
        assert_eq!(read(&["eight ch", "four"], late), (3, 0));
    }
}
