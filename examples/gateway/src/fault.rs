//! Errors that the gateway answers itself, in the words of the API that the client speaks.

use account_pool::{Millis, Unavailable};
use axum::body::Body;
use axum::response::Response;
use http::{HeaderName, HeaderValue, StatusCode, header};
use serde_json::json;

use crate::api::Api;

/// An error answer.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) status: StatusCode,
    /// OpenAI's code.
    code: &'static str,
    pub(crate) message: String,
    /// In whole seconds.
    retry_after: Option<u64>,
}

impl Fault {
    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), retry_after: None }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request", message)
    }

    pub(crate) fn bad_gateway(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_GATEWAY, "upstream_failed", message)
    }

    pub(crate) fn timeout(message: impl Into<String>) -> Self {
        Self::new(StatusCode::GATEWAY_TIMEOUT, "upstream_timeout", message)
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "no_account", message)
    }

    /// The pool's refusal: 429 if the same request can succeed later, else 503.
    pub(crate) fn refused(refusal: &Unavailable) -> Self {
        let message = refusal.to_string();
        if refusal.is_final() {
            return Self::unavailable(message);
        }
        let mut fault = Self::new(StatusCode::TOO_MANY_REQUESTS, "rate_limit_exceeded", message);
        fault.retry_after = refusal.retry_after().map(Millis::as_secs_ceil);
        fault
    }

    /// Whether asking again soon is of no use.
    fn is_lasting(&self) -> bool {
        self.code == "no_account"
            || self.status.is_client_error()
                && self.retry_after.is_none()
                && self.status != StatusCode::TOO_MANY_REQUESTS
    }

    pub(crate) fn answer(&self, api: Api) -> Response {
        let body = match api {
            Api::OpenAi => json!({"error": {
                "message": self.message, "type": self.openai(), "param": null, "code": self.code,
            }}),
            Api::Anthropic => json!({
                "type": "error",
                "error": {"type": self.anthropic(), "message": self.message},
            }),
            Api::Gemini => json!({"error": {
                "code": self.status.as_u16(), "message": self.message, "status": self.gemini(),
            }}),
        };
        let mut response = Response::new(Body::from(body.to_string()));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.is_lasting() {
            // OpenAI's and Anthropic's clients try again by themselves unless told not to.
            let name = HeaderName::from_static("x-should-retry");
            headers.insert(name, HeaderValue::from_static("false"));
        }
        response
    }

    fn openai(&self) -> &'static str {
        match self.status.as_u16() {
            429 => "rate_limit_error",
            500.. => "server_error",
            _ => "invalid_request_error",
        }
    }

    fn anthropic(&self) -> &'static str {
        match self.status.as_u16() {
            401 => "authentication_error",
            404 => "not_found_error",
            413 => "request_too_large",
            429 => "rate_limit_error",
            504 => "timeout_error",
            500.. => "api_error",
            _ => "invalid_request_error",
        }
    }

    fn gemini(&self) -> &'static str {
        match self.status.as_u16() {
            401 => "UNAUTHENTICATED",
            404 => "NOT_FOUND",
            429 => "RESOURCE_EXHAUSTED",
            503 => "UNAVAILABLE",
            504 => "DEADLINE_EXCEEDED",
            500.. => "INTERNAL",
            _ => "INVALID_ARGUMENT",
        }
    }
}
