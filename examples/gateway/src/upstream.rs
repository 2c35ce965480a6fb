//! What the gateway keeps with each account: where it is and how to prove who is asking.

use std::fmt;

use account_pool::Pool;
use account_pool::http::Provider;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderName, HeaderValue, Uri};

use crate::api::Api;

/// The pool of this gateway.
pub type GatewayPool = Pool<Upstream>;

/// A credential as a header value. It is never shown.
#[derive(Clone, Eq, PartialEq)]
pub struct Secret(HeaderValue);

impl Secret {
    /// `prefix` and `key` as one header value; `None` if a header cannot carry it.
    #[must_use]
    pub fn new(prefix: &str, key: &str) -> Option<Self> {
        let mut value = HeaderValue::from_str(&format!("{prefix}{key}")).ok()?;
        value.set_sensitive(true);
        Some(Self(value))
    }

    pub(crate) fn header(&self) -> HeaderValue {
        self.0.clone()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// An account's upstream: the pool's payload.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Upstream {
    /// How to read its answers.
    pub provider: Provider,
    /// The API that it speaks.
    pub api: Api,
    /// Where it is.
    pub base: BaseUrl,
    /// The header that carries the credential.
    pub auth: HeaderName,
    /// The credential.
    pub credential: Secret,
}

/// An upstream's base URL.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct BaseUrl {
    scheme: Scheme,
    authority: Authority,
    /// Without a slash at the end.
    path: String,
}

impl BaseUrl {
    /// Reads a URL such as `https://api.openai.com/v1`.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let uri: Uri = text.parse().map_err(|_| "is not a URL")?;
        let parts = uri.into_parts();
        let scheme = parts.scheme.ok_or("needs `https://` or `http://` in front")?;
        if scheme != Scheme::HTTPS && scheme != Scheme::HTTP {
            return Err("must start with `https://` or `http://`");
        }
        let authority = parts.authority.ok_or("names no host")?;
        if authority.as_str().contains('@') {
            return Err("must not hold a user or password: use `key_env`");
        }
        let path = parts.path_and_query.unwrap_or_else(|| PathAndQuery::from_static("/"));
        if path.query().is_some() {
            return Err("must not have a query");
        }
        Ok(Self { scheme, authority, path: path.path().trim_end_matches('/').to_owned() })
    }

    /// The upstream's URL for what the client asked for. A base URL may end with a version, as
    /// clients' settings have it; then that one counts instead of the client's.
    pub(crate) fn join(&self, asked: &PathAndQuery) -> Result<Uri, http::Error> {
        const VERSIONS: [&str; 2] = ["/v1beta", "/v1"];
        let mut rest = asked.as_str();
        if VERSIONS.iter().any(|version| self.path.ends_with(version)) {
            let after = VERSIONS.iter().find_map(|version| rest.strip_prefix(version));
            rest = after.filter(|after| after.starts_with('/')).unwrap_or(rest);
        }
        Uri::builder()
            .scheme(self.scheme.clone())
            .authority(self.authority.clone())
            .path_and_query(format!("{}{rest}", self.path))
            .build()
    }
}

#[cfg(test)]
mod tests {
    use super::BaseUrl;

    fn joined(base: &str, asked: &str) -> String {
        BaseUrl::parse(base).unwrap().join(&asked.parse().unwrap()).unwrap().to_string()
    }

    #[test]
    fn a_version_at_the_seam_is_not_repeated() {
        let asked = "/v1/chat/completions?a=b";
        let whole = "https://api.example/v1/chat/completions?a=b";
        assert_eq!(joined("https://api.example", asked), whole);
        assert_eq!(joined("https://api.example/", asked), whole);
        assert_eq!(joined("https://api.example/v1", asked), whole);
        assert_eq!(joined("https://api.example/v1/", asked), whole);
        let gemini = "https://g.example/v1beta/models/m:generateContent";
        assert_eq!(joined("https://g.example/v1beta", "/v1beta/models/m:generateContent"), gemini);
        assert_eq!(joined("https://g.example/v1beta", "/v1/models/m:generateContent"), gemini);
        assert_eq!(joined("http://h:81/openai/v1", "/v1/models"), "http://h:81/openai/v1/models");
    }

    #[test]
    fn what_is_no_base_url_is_refused() {
        for text in
            ["", "api.example", "/v1", "ftp://a", "https://u:p@a", "https://a/?k=v", "http://"]
        {
            assert!(BaseUrl::parse(text).is_err(), "{text}");
        }
    }
}
