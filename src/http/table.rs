//! The built-in rules. The first one that holds decides: the provider's, then those for everyone,
//! then the status alone.
//!
//! Codes and messages as in: OpenAI, *Error codes*; Anthropic, *Errors* and *Rate limits*; Google,
//! *Gemini API troubleshooting guide* and `google.rpc.Code`; and, where no document lists them, as
//! recorded in public bug reports of the providers' clients (`account_deactivated`,
//! "This organization has been disabled", "Your credit balance is too low",
//! `usage_limit_reached`, `CONSUMER_SUSPENDED`, `QUOTA_EXHAUSTED`, `MODEL_CAPACITY_EXHAUSTED`).

use super::cause::Cause;
use super::response::Provider;
use super::rule::Rule;
use crate::outcome::Scope::{Account, Model};

/// The rules that apply, in the order in which they are tried.
pub(super) fn rules(provider: Provider) -> impl Iterator<Item = &'static Rule<'static>> {
    let own = match provider {
        Provider::OpenAi => OPENAI,
        Provider::Anthropic => ANTHROPIC,
        Provider::Google => GOOGLE,
        Provider::Generic => &[],
    };
    let limits = if provider == Provider::Generic { &[] } else { PER_MODEL };
    own.iter().chain(COMMON).chain(limits).chain(STATUS)
}

const OPENAI: &[Rule<'static>] = &[
    Rule::new("openai.deactivated", Cause::Ban)
        .statuses(&[401, 403])
        .codes(&["account_deactivated"])
        .starts(&[
            "your openai account has been deactivated",
            "the openai account associated with this api key has been deactivated",
            "this key is associated with a deactivated account",
        ]),
    Rule::new("openai.revoked", Cause::Revoked)
        .statuses(&[401, 403])
        .codes(&["token_invalidated", "refresh_token_reused", "refresh_token_invalidated"])
        .starts(&["incorrect api key provided"]),
    Rule::new("openai.too-large", Cause::Model).statuses(&[429]).starts(&["request too large for"]),
    Rule::new("openai.not-included", Cause::Model)
        .statuses(&[400, 403, 404, 429])
        .codes(&["usage_not_included"]),
    Rule::new("openai.billing", Cause::Quota(Account))
        .statuses(&[400, 402, 403, 429])
        .codes(&["billing_hard_limit_reached", "billing_not_active"])
        .starts(&["you exceeded your current quota", "you've hit your usage limit"]),
    Rule::new("openai.daily", Cause::Quota(Model))
        .statuses(&[429])
        .contains(&["requests per day (rpd)", "tokens per day (tpd)"]),
    Rule::new("openai.region", Cause::Path)
        .statuses(&[403])
        .codes(&["unsupported_country_region_territory"]),
];

const ANTHROPIC: &[Rule<'static>] = &[
    Rule::new("anthropic.disabled", Cause::Ban)
        .statuses(&[400, 401, 403])
        .starts(&["this organization has been disabled"]),
    Rule::new("anthropic.revoked", Cause::Revoked)
        .statuses(&[401, 403])
        .starts(&["oauth token has been revoked", "invalid x-api-key"]),
    Rule::new("anthropic.billing", Cause::Quota(Account)).statuses(&[400, 402, 403, 429]).starts(
        &[
            "your credit balance is too low",
            "you have reached your specified api usage limits",
            "claude ai usage limit reached",
        ],
    ),
    Rule::new("anthropic.long-context", Cause::Model)
        .statuses(&[400, 403, 429])
        .starts(&["extra usage is required for long context", "the long context beta is not yet"]),
    Rule::new("anthropic.model", Cause::Model).statuses(&[404]).codes(&["not_found_error"]),
    Rule::new("anthropic.account-throttle", Cause::Throttle(Account))
        .statuses(&[429])
        .starts(&["number of concurrent connections"])
        .contains(&["your account's rate limit"]),
];

const GOOGLE: &[Rule<'static>] = &[
    Rule::new("google.suspended", Cause::Ban)
        .statuses(&[403])
        .codes(&["consumer_suspended"])
        .starts(&["your project has been denied access"]),
    Rule::new("google.revoked", Cause::Revoked)
        .statuses(&[400, 401, 403])
        .codes(&["api_key_invalid"])
        .starts(&["your api key was reported as leaked"]),
    Rule::new("google.capacity", Cause::Overload(Model)).codes(&["model_capacity_exhausted"]),
    Rule::new("google.billing", Cause::Quota(Account))
        .statuses(&[400, 403, 429])
        .codes(&["billing_disabled"]),
    Rule::new("google.quota", Cause::Quota(Model)).statuses(&[429]).codes(&["quota_exhausted"]),
    Rule::new("google.region", Cause::Path)
        .statuses(&[400])
        .starts(&["user location is not supported"]),
    Rule::new("google.model", Cause::Model).statuses(&[404]).codes(&["not_found"]),
];

const COMMON: &[Rule<'static>] = &[
    Rule::new("model", Cause::Model).statuses(&[400, 403, 404]).codes(&[
        "model_not_found",
        "model_not_available",
        "model_not_supported",
    ]),
    Rule::new("banned", Cause::Ban)
        .statuses(&[400, 401, 403])
        .codes(&["account_deactivated", "account_suspended", "account_banned"])
        .starts(&["organization has been restricted", "your account has been suspended"]),
    Rule::new("revoked", Cause::Revoked).statuses(&[400, 401, 403]).codes(&[
        "invalid_api_key",
        "token_revoked",
        "api_key_revoked",
        "invalid_grant",
    ]),
    Rule::new("balance", Cause::Quota(Account))
        .statuses(&[400, 402, 403, 429])
        .codes(&[
            "insufficient_quota",
            "insufficient_balance",
            "exceeded_current_quota_error",
            "usage_limit_reached",
            "billing_error",
        ])
        .starts(&["insufficient balance"]),
    Rule::new("capacity", Cause::Overload(Model))
        .codes(&[
            "overloaded_error",
            "server_overloaded",
            "server_is_overloaded",
            "engine_overloaded",
            "engine_overloaded_error",
            "model_overloaded",
            "slow_down",
        ])
        .starts(&[
            "selected model is at capacity",
            "our servers are currently overloaded",
            "that model is currently overloaded",
            "model is currently overloaded",
            "the model is overloaded",
            "the engine is currently overloaded",
            "no capacity available for model",
        ]),
];

/// Upstreams that throttle each model by itself.
const PER_MODEL: &[Rule<'static>] =
    &[Rule::new("throttle.model", Cause::Throttle(Model)).statuses(&[429])];

const STATUS: &[Rule<'static>] = &[
    Rule::new("status.request", Cause::Request)
        .statuses(&[400, 404, 405, 406, 411, 413, 414, 415, 416, 417, 422, 428, 431]),
    Rule::new("status.auth", Cause::Auth).statuses(&[401, 403]),
    Rule::new("status.payment", Cause::Quota(Account)).statuses(&[402]),
    Rule::new("status.proxy", Cause::Path).statuses(&[407, 511]),
    Rule::new("status.timeout", Cause::Timeout).statuses(&[408, 504, 524]),
    Rule::new("status.throttle", Cause::Throttle(Account)).statuses(&[429]),
    Rule::new("status.overload", Cause::Overload(Model))
        .statuses(&[502, 503, 520, 521, 522, 523, 529, 530]),
];

/// The status that an error code stands for, for errors inside an answer of status 200.
pub(super) const CODE_STATUS: &[(u16, &[&str])] = &[
    (400, &["invalid_request_error", "invalid_argument", "failed_precondition", "invalid_prompt"]),
    (401, &["authentication_error", "unauthenticated", "invalid_api_key"]),
    (402, &["billing_error"]),
    (403, &["permission_error", "permission_denied"]),
    (404, &["not_found_error", "not_found", "model_not_found"]),
    (413, &["request_too_large", "context_length_exceeded"]),
    (
        429,
        &[
            "rate_limit_error",
            "rate_limit_exceeded",
            "resource_exhausted",
            "insufficient_quota",
            "usage_limit_reached",
            "usage_not_included",
        ],
    ),
    (503, &["unavailable", "slow_down", "server_is_overloaded"]),
    (504, &["timeout_error", "deadline_exceeded"]),
    (529, &["overloaded_error"]),
];
