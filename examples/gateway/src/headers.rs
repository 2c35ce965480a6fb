//! Which headers pass through.

use http::header::{self, HeaderMap, HeaderName};

/// Where clients put their keys.
pub(crate) static CREDENTIALS: [HeaderName; 4] = [
    header::AUTHORIZATION,
    HeaderName::from_static("x-api-key"),
    HeaderName::from_static("x-goog-api-key"),
    HeaderName::from_static("api-key"),
];

/// Headers of one connection (RFC 9110, section 7.6.1), and others that speak of it.
static HOP_BY_HOP: [HeaderName; 10] = [
    header::CONNECTION,
    header::EXPECT,
    HeaderName::from_static("keep-alive"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    HeaderName::from_static("proxy-connection"),
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Headers of a client that are no business of the upstream's, or that the gateway sets itself.
static CLIENT_ONLY: [HeaderName; 10] = [
    header::ACCEPT_ENCODING,
    header::CONTENT_LENGTH,
    header::COOKIE,
    header::FORWARDED,
    header::HOST,
    HeaderName::from_static("x-forwarded-for"),
    HeaderName::from_static("x-forwarded-host"),
    HeaderName::from_static("x-forwarded-proto"),
    HeaderName::from_static("x-real-ip"),
    HeaderName::from_static("x-request-id"),
];

/// The headers of a client's request to send on. The body of the answer is asked for as it is,
/// uncompressed, so that its usage can be read.
pub(crate) fn for_upstream(sent: &HeaderMap) -> HeaderMap {
    let mut headers = without_hops(sent);
    for name in CREDENTIALS.iter().chain(&CLIENT_ONLY) {
        headers.remove(name);
    }
    headers.insert(header::ACCEPT_ENCODING, header::HeaderValue::from_static("identity"));
    headers
}

/// The headers of an upstream's answer to send on. Its cookies stay here: they belong to the
/// account, not to the client. Its request id gets another name, beside the gateway's own.
pub(crate) fn for_client(answered: &HeaderMap) -> HeaderMap {
    let mut headers = without_hops(answered);
    headers.remove(header::SET_COOKIE);
    if let Some(id) = headers.remove("x-request-id") {
        headers.insert("x-upstream-request-id", id);
    }
    headers
}

fn without_hops(headers: &HeaderMap) -> HeaderMap {
    let named = headers.get_all(header::CONNECTION).iter();
    let named = named.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    let named: Vec<HeaderName> = named.filter_map(|name| name.trim().parse().ok()).collect();
    let mut kept = headers.clone();
    for name in &named {
        kept.remove(name);
    }
    for name in &HOP_BY_HOP {
        kept.remove(name);
    }
    kept
}

/// The bytes of headers as they are on the wire.
pub(crate) fn size(headers: &HeaderMap) -> usize {
    headers.iter().map(|(name, value)| name.as_str().len() + value.len() + ": \r\n".len()).sum()
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderName, HeaderValue};

    use super::{for_client, for_upstream};

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&str, &str)| {
            (name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap())
        };
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn credentials_and_headers_of_the_connection_stay_behind() {
        let sent = headers(&[
            ("authorization", "Bearer client"),
            ("x-api-key", "client"),
            ("x-goog-api-key", "client"),
            ("api-key", "client"),
            ("connection", "keep-alive, x-of-this-hop"),
            ("x-of-this-hop", "1"),
            ("transfer-encoding", "chunked"),
            ("cookie", "a=b"),
            ("x-forwarded-for", "10.0.0.1"),
            ("anthropic-version", "2023-06-01"),
            ("content-type", "application/json"),
        ]);
        let passed = for_upstream(&sent);
        let expected = headers(&[
            ("anthropic-version", "2023-06-01"),
            ("content-type", "application/json"),
            ("accept-encoding", "identity"),
        ]);
        assert_eq!(passed, expected);
    }

    #[test]
    fn an_accounts_cookies_stay_behind() {
        let answered = headers(&[("set-cookie", "a=b"), ("x-request-id", "up"), ("x-a", "1")]);
        let expected = headers(&[("x-upstream-request-id", "up"), ("x-a", "1")]);
        assert_eq!(for_client(&answered), expected);
    }
}
