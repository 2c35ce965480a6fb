//! Whose requests are accepted.

use std::collections::HashMap;
use std::fmt;

use http::{HeaderMap, Uri};
use sha2::{Digest, Sha256};

use crate::config::{ConfigError, Environment, Settings, read_key};
use crate::headers::CREDENTIALS;

/// The keys of the clients, as digests: comparing those tells nothing about the keys by its time.
#[derive(Default)]
pub(crate) struct Keys(HashMap<[u8; 32], String>);

/// Who asks.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum Asker {
    /// A known client, by its name.
    Known(String),
    /// Anybody: the gateway asks for no keys.
    Anybody,
}

impl Keys {
    pub(crate) fn read(
        settings: &Settings,
        environment: Environment<'_>,
    ) -> Result<Self, ConfigError> {
        let mut keys = HashMap::new();
        for client in &settings.clients {
            let field = format!("clients.{}.key_env", client.name);
            let key = read_key(&field, &client.key_env, environment)?;
            if keys.insert(digest(&key), client.name.clone()).is_some() {
                return Err(ConfigError::field(field, "holds the same key as another client's"));
            }
        }
        Ok(Self(keys))
    }

    /// Who sent a request; `None` for nobody who is known.
    pub(crate) fn asker(&self, headers: &HeaderMap, uri: &Uri) -> Option<Asker> {
        if self.0.is_empty() {
            return Some(Asker::Anybody);
        }
        let name = self.0.get(&digest(sent_key(headers, uri)?.as_str()))?;
        Some(Asker::Known(name.clone()))
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keys({})", self.0.len())
    }
}

/// The key that a client sent, wherever its API puts it.
fn sent_key(headers: &HeaderMap, uri: &Uri) -> Option<String> {
    let sent = CREDENTIALS.iter().find_map(|name| headers.get(name)?.to_str().ok());
    if let Some(sent) = sent {
        let bare = sent.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        return Some(bare.map_or(sent, |(_, key)| key).trim().to_owned());
    }
    query_key(uri).map(str::to_owned)
}

/// Gemini's key in the URL.
pub(crate) fn query_key(uri: &Uri) -> Option<&str> {
    uri.query()?.split('&').find_map(|pair| pair.strip_prefix("key="))
}

fn digest(key: &str) -> [u8; 32] {
    Sha256::digest(key.as_bytes()).into()
}
