//! A name for each request, in logs and in the answer's `x-request-id`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use http::{HeaderMap, HeaderName, HeaderValue};

pub(crate) const HEADER: HeaderName = HeaderName::from_static("x-request-id");

/// The client's own id if it is fit for a log line, else a new one.
pub(crate) fn of(headers: &HeaderMap) -> String {
    let given = headers.get(HEADER).and_then(|value| value.to_str().ok());
    given.filter(|id| is_plain(id)).map_or_else(fresh, str::to_owned)
}

fn is_plain(id: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    (1..=128).contains(&id.len()) && id.bytes().all(plain)
}

/// Unique within the process, and sortable by time.
fn fresh() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{:011x}-{:04x}", since.as_millis(), count & 0xffff)
}

/// An id as a header.
pub(crate) fn header(id: &str) -> Option<HeaderValue> {
    HeaderValue::from_str(id).ok()
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue};

    use super::{HEADER, of};

    fn given(value: &'static str) -> String {
        of(&HeaderMap::from_iter([(HEADER, HeaderValue::from_static(value))]))
    }

    #[test]
    fn a_clients_id_is_kept_if_it_is_plain() {
        assert_eq!(given("req-1.a:b_c"), "req-1.a:b_c");
        assert_ne!(given("two words"), "two words");
        assert_ne!(given("{\"a\":1}"), "{\"a\":1}");
        assert_ne!(of(&HeaderMap::new()), of(&HeaderMap::new()));
    }
}
