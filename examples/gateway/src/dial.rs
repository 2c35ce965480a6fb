//! The client that speaks to upstreams.

use bytes::Bytes;
use http_body_util::Full;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use std::time::Duration;

use crate::config::Timeouts;

/// It follows no redirects, and keeps connections for the next request.
pub(crate) type Dialer = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

pub(crate) fn dialer(timeouts: &Timeouts) -> Dialer {
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_nodelay(true);
    http.set_connect_timeout(Some(timeouts.connect()));
    let https = HttpsConnectorBuilder::new().with_webpki_roots();
    let connector = https.https_or_http().enable_http1().wrap_connector(http);
    Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(Duration::from_secs(60))
        .http1_max_buf_size(timeouts.max_header_bytes)
        .build(connector)
}
