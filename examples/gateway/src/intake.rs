//! A client's request, read and checked before any account hears of it.

use std::borrow::Cow;
use std::time::Duration;

use account_pool::Request;
use account_pool::http::{CallerKey, CallerRules, ClientRequest};
use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, Method, StatusCode, Uri, header};
use http_body_util::BodyExt;
use serde::Deserialize;

use crate::api::Api;
use crate::config::Settings;
use crate::fault::Fault;
use crate::headers;
use crate::keys::{Asker, Keys, query_key};

/// How much of a body that is too large is read and thrown away, so that its client gets to hear
/// the answer instead of a broken connection.
const MAX_DISCARDED: usize = 256 << 20;
/// For how long at most.
const DISCARD_FOR: Duration = Duration::from_secs(20);

/// What a client asked for.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) api: Api,
    pub(crate) model: Option<String>,
    pub(crate) caller: Option<CallerKey>,
    pub(crate) method: Method,
    pub(crate) target: PathAndQuery,
    /// Those to send on.
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Asked {
    /// The question to the pool.
    pub(crate) fn request(&self) -> Request<'_> {
        let request = Request::new().selector(self.api.as_str());
        let request = self.model.as_deref().map_or(request, |model| request.model(model));
        self.caller.as_ref().map_or(request, |caller| caller.apply(request))
    }
}

/// Reads a request. `named` is the model in the path, of APIs that put it there.
pub(crate) async fn read(
    api: Api,
    named: Option<String>,
    request: http::Request<Body>,
    settings: &Settings,
    keys: &Keys,
    address: &str,
) -> Result<Asked, Fault> {
    let (parts, body) = request.into_parts();
    if headers::size(&parts.headers) > settings.server.max_header_bytes {
        let limit = settings.server.max_header_bytes;
        let message = format!("the headers are larger than {limit} bytes");
        let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
        return Err(Fault::new(status, "headers_too_large", message));
    }
    let asker = keys.asker(&parts.headers, &parts.uri).ok_or_else(|| {
        let message = "the API key is missing or not one of this gateway's";
        Fault::new(StatusCode::UNAUTHORIZED, "invalid_api_key", message)
    })?;
    let has_body = parts.method != Method::GET;
    if has_body {
        check_type(&parts.headers)?;
    }
    let patience = Duration::from_millis(settings.server.read_timeout_ms);
    let body = tokio::time::timeout(patience, collect(body, settings.server.max_body_bytes));
    let body = body.await.map_err(|_| {
        let message = "the body did not arrive in time";
        Fault::new(StatusCode::REQUEST_TIMEOUT, "request_timeout", message)
    })??;
    let model = if has_body { model(named, &body)? } else { None };
    let caller = caller(&parts, &body, &asker, settings, address);
    Ok(Asked {
        api,
        model,
        caller,
        target: without_key(&parts.uri)?,
        headers: headers::for_upstream(&parts.headers),
        method: parts.method,
        body,
    })
}

fn check_type(headers: &HeaderMap) -> Result<(), Fault> {
    let Some(sent) = headers.get(header::CONTENT_TYPE) else {
        return Ok(());
    };
    let sent = sent.to_str().unwrap_or_default();
    let essence = sent.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if essence == "application/json" || essence.ends_with("+json") {
        return Ok(());
    }
    let message = "the body must be JSON: send `content-type: application/json`";
    Err(Fault::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", message))
}

async fn collect(mut body: Body, limit: usize) -> Result<Bytes, Fault> {
    let mut whole = BytesMut::new();
    let announced = http_body::Body::size_hint(&body).lower();
    let mut is_too_large = announced > limit as u64;
    while !is_too_large && let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Fault::invalid("the body broke off"))?;
        if let Ok(data) = frame.into_data() {
            is_too_large = whole.len() + data.len() > limit;
            if !is_too_large {
                whole.extend_from_slice(&data);
            }
        }
    }
    if is_too_large {
        tokio::spawn(tokio::time::timeout(DISCARD_FOR, discard(body)));
        let message = format!("the body is larger than {limit} bytes");
        return Err(Fault::new(StatusCode::PAYLOAD_TOO_LARGE, "request_too_large", message));
    }
    Ok(whole.freeze())
}

async fn discard(mut body: Body) {
    let mut discarded = 0;
    while discarded < MAX_DISCARDED
        && let Some(Ok(frame)) = body.frame().await
    {
        discarded += frame.data_ref().map_or(0, Bytes::len);
    }
}

#[derive(Deserialize)]
struct Named<'a> {
    #[serde(default, borrow)]
    model: Option<Cow<'a, str>>,
}

/// The model of a request; its body must be a JSON object.
fn model(named: Option<String>, body: &[u8]) -> Result<Option<String>, Fault> {
    let is_object = body.trim_ascii_start().starts_with(b"{");
    let read = serde_json::from_slice::<Named<'_>>(body).map_err(|error| {
        // The message speaks of kinds and places, but of a wrong value it would quote the text.
        let what = if error.is_data() { "`model` must be one text" } else { "it is not JSON" };
        let (line, column) = (error.line(), error.column());
        Fault::invalid(format!("cannot read the body: {what} (line {line}, column {column})"))
    })?;
    if !is_object {
        return Err(Fault::invalid("cannot read the body: it must be a JSON object"));
    }
    let model = named.or_else(|| read.model.map(Cow::into_owned));
    match model {
        Some(model) if !model.trim().is_empty() => Ok(Some(model)),
        _ => Err(Fault::invalid("`model` is missing: name the model to use")),
    }
}

fn caller(
    parts: &Parts,
    body: &[u8],
    asker: &Asker,
    settings: &Settings,
    address: &str,
) -> Option<CallerKey> {
    let rules = CallerRules::new()
        .single_tenant(settings.routing.single_tenant)
        .guess(settings.routing.guess_callers);
    let client = ClientRequest::new(&parts.headers).body(body).address(address);
    let client = match (asker, query_key(&parts.uri)) {
        (Asker::Known(name), _) => client.tenant(name),
        (Asker::Anybody, Some(key)) => client.api_key(key),
        (Asker::Anybody, None) => client,
    };
    rules.read(&client)
}

/// The path and the query without the client's key.
fn without_key(uri: &Uri) -> Result<PathAndQuery, Fault> {
    let pairs = uri.query().unwrap_or_default().split('&');
    let kept: Vec<&str> =
        pairs.filter(|pair| !pair.is_empty() && !pair.starts_with("key=")).collect();
    let target = if kept.is_empty() {
        uri.path().to_owned()
    } else {
        format!("{}?{}", uri.path(), kept.join("&"))
    };
    target.parse().map_err(|_| Fault::invalid("the URL cannot be passed on"))
}
