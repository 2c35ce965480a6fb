//! Whose fault an answer is.

use account_pool::http::Cause::{self, *};
use account_pool::http::Provider::{self, Anthropic, Generic, Google, OpenAi};
use account_pool::http::{Classifier, Response, Rule};
use account_pool::{Outcome, Reset, Scope, Timestamp};

use crate::{NOW, answer, verdict};

type Case = (Provider, u16, &'static str, Cause);

fn check(cases: &[Case]) {
    for (provider, status, body, expected) in cases {
        let verdict = verdict(*provider, *status, &[], body);
        assert_eq!(verdict.cause, *expected, "{provider:?} {status} {body}: {verdict}");
    }
}

const ACCOUNT: Scope = Scope::Account;
const MODEL: Scope = Scope::Model;

#[test]
fn openai_answers() {
    check(&[
        (OpenAi, 400, r#"{"error":{"message":"Invalid type for 'messages'.","type":"invalid_request_error","param":"messages","code":"invalid_type"}}"#, Request),
        (OpenAi, 400, r#"{"error":{"message":"This model's maximum context length is 128000 tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#, Request),
        (OpenAi, 404, r#"{"error":{"message":"The model `gpt-9` does not exist or you do not have access to it.","type":"invalid_request_error","param":null,"code":"model_not_found"}}"#, Model),
        (OpenAi, 403, r#"{"error":{"message":"Project `proj_x` does not have access to model `gpt-4o`","type":"invalid_request_error","param":null,"code":"model_not_found"}}"#, Model),
        (OpenAi, 429, r#"{"error":{"message":"Request too large for gpt-4o in organization org-x on tokens per min (TPM): Limit 30000, Requested 30601. The input or output tokens must be reduced in order to run successfully.","type":"tokens","param":null,"code":"rate_limit_exceeded"}}"#, Model),
        (OpenAi, 401, r#"{"error":{"message":"Incorrect API key provided: sk-x***y.","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}"#, Revoked),
        (OpenAi, 401, r#"{"error":{"message":"Your authentication token has been invalidated. Please try signing in again.","type":"invalid_request_error","code":"token_invalidated","param":null},"status":401}"#, Revoked),
        (OpenAi, 401, r#"{"error":{"message":"Could not validate your token. Please try signing in again.","type":"invalid_request_error","code":"token_expired"}}"#, Auth),
        (OpenAi, 401, r#"{"error":{"message":"The OpenAI account associated with this API key has been deactivated. If you are the developer for this OpenAI app, please check your email for more information.","type":"invalid_request_error","param":null,"code":"account_deactivated"}}"#, Ban),
        (OpenAi, 401, r#"{"error":{"message":"Your OpenAI account has been deactivated, please check your email for more information.","type":"requests","param":null,"code":null}}"#, Ban),
        (OpenAi, 403, r#"{"error":{"code":"unsupported_country_region_territory","message":"Country, region, or territory not supported","param":null,"type":"request_forbidden"}}"#, Path),
        (OpenAi, 403, r#"{"code":"unsupported_country_region_territory","message":"Country, region, or territory not supported","param":null,"type":"request_forbidden"}"#, Path),
        (OpenAi, 429, r#"{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}"#, Quota(ACCOUNT)),
        (OpenAi, 429, r#"{"error":{"message":"Your account is not active, please check your billing details on our website.","type":"billing_not_active","param":null,"code":"billing_not_active"}}"#, Quota(ACCOUNT)),
        (OpenAi, 429, r#"{"error":{"type":"usage_limit_reached","message":"The usage limit has been reached","plan_type":"free","resets_at":1786287693,"resets_in_seconds":602705}}"#, Quota(ACCOUNT)),
        (OpenAi, 429, r#"{"error":{"message":"Rate limit reached for gpt-4 in organization org-x on requests per day (RPD): Limit 200, Used 200, Requested 1. Please try again in 7m12s.","type":"requests","param":null,"code":"rate_limit_exceeded"}}"#, Quota(MODEL)),
        (OpenAi, 429, r#"{"error":{"message":"Rate limit reached for gpt-4.1 in organization org-x on tokens per min (TPM): Limit 30000, Used 22343, Requested 10955. Please try again in 6.596s.","type":"tokens","param":null,"code":"rate_limit_exceeded"}}"#, Throttle(MODEL)),
        (OpenAi, 429, r#"{"error":{"code":"429","message":"Requests to the ChatCompletions_Create Operation have exceeded call rate limit of your current OpenAI S0 pricing tier. Please retry after 26 seconds."}}"#, Throttle(MODEL)),
        (OpenAi, 503, r#"{"error":{"message":"The engine is currently overloaded, please try again later","type":"server_error","param":null,"code":null}}"#, Overload(MODEL)),
        (OpenAi, 400, r#"{"detail":"Selected model is at capacity. Please try a different model."}"#, Overload(MODEL)),
        (OpenAi, 500, r#"{"error":{"message":"The server had an error while processing your request. Sorry about that!","type":"server_error","param":null,"code":null}}"#, Server),
    ]);
}

#[test]
fn anthropic_answers() {
    check(&[
        (Anthropic, 400, r#"{"type":"error","error":{"type":"invalid_request_error","message":"messages: roles must alternate between \"user\" and \"assistant\""},"request_id":"req_x"}"#, Request),
        (Anthropic, 413, r#"{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum allowed number of bytes."}}"#, Request),
        (Anthropic, 404, r#"{"type":"error","error":{"type":"not_found_error","message":"model: claude-x"}}"#, Model),
        (Anthropic, 429, r#"{"type":"error","error":{"type":"rate_limit_error","message":"Extra usage is required for long context requests."},"request_id":"req_x"}"#, Model),
        (Anthropic, 401, r#"{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}"#, Revoked),
        (Anthropic, 403, r#"{"type":"error","error":{"type":"permission_error","message":"OAuth token has been revoked. Please obtain a new token."}}"#, Revoked),
        (Anthropic, 401, r#"{"type":"error","error":{"type":"authentication_error","message":"OAuth token has expired. Please obtain a new token or refresh your existing token."},"request_id":"req_x"}"#, Auth),
        (Anthropic, 403, r#"{"type":"error","error":{"type":"permission_error","message":"OAuth authentication is currently not allowed for this organization."}}"#, Auth),
        (Anthropic, 400, r#"{"type":"error","error":{"type":"invalid_request_error","message":"This organization has been disabled."},"request_id":"req_x"}"#, Ban),
        (Anthropic, 400, r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits."}}"#, Quota(ACCOUNT)),
        (Anthropic, 400, r#"{"type":"error","error":{"type":"invalid_request_error","message":"You have reached your specified API usage limits. You will regain access on 2026-08-05 at 00:00 UTC."}}"#, Quota(ACCOUNT)),
        (Anthropic, 402, r#"{"type":"error","error":{"type":"billing_error","message":"..."}}"#, Quota(ACCOUNT)),
        (Anthropic, 429, r#"{"type":"error","error":{"type":"rate_limit_error","message":"This request would exceed your organization's rate limit of 50,000 input tokens per minute (model: claude-x)."}}"#, Throttle(MODEL)),
        (Anthropic, 429, r#"{"type":"error","error":{"type":"rate_limit_error","message":"This request would exceed your account's rate limit. Please try again later."}}"#, Throttle(ACCOUNT)),
        (Anthropic, 429, r#"{"type":"error","error":{"type":"rate_limit_error","message":"Number of concurrent connections has exceeded your rate limit."}}"#, Throttle(ACCOUNT)),
        (Anthropic, 529, r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#, Overload(MODEL)),
        (Anthropic, 500, r#"{"type":"error","error":{"type":"api_error","message":"Internal server error"}}"#, Server),
        (Anthropic, 500, r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#, Overload(MODEL)),
        (Anthropic, 504, r#"{"type":"error","error":{"type":"timeout_error","message":"..."}}"#, Timeout),
    ]);
}

#[test]
fn google_answers() {
    check(&[
        (Google, 400, r#"{"error":{"code":400,"message":"Invalid JSON payload received.","status":"INVALID_ARGUMENT"}}"#, Request),
        (Google, 404, r#"{"error":{"code":404,"message":"models/gemini-x is not found for API version v1beta","status":"NOT_FOUND"}}"#, Model),
        (Google, 400, r#"{"error":{"code":400,"message":"API key expired. Please renew the API key.","status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID","domain":"googleapis.com"}]}}"#, Revoked),
        (Google, 403, r#"{"error":{"code":403,"message":"Permission denied: Consumer 'api_key:x' has been suspended.","status":"PERMISSION_DENIED","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"CONSUMER_SUSPENDED","domain":"googleapis.com","metadata":{"consumer":"projects/1"}}]}}"#, Ban),
        (Google, 403, r#"{"error":{"code":403,"message":"Your project has been denied access. Please contact support.","status":"PERMISSION_DENIED"}}"#, Ban),
        (Google, 403, r#"{"error":{"code":403,"message":"Request had insufficient authentication scopes.","status":"PERMISSION_DENIED"}}"#, Auth),
        (Google, 400, r#"{"error":{"code":400,"message":"User location is not supported for the API use.","status":"FAILED_PRECONDITION"}}"#, Path),
        (Google, 429, r#"{"error":{"code":429,"message":"Resource has been exhausted (e.g. check quota).","status":"RESOURCE_EXHAUSTED"}}"#, Throttle(MODEL)),
        (Google, 429, DAILY, Quota(MODEL)),
        (Google, 429, MINUTE, Throttle(MODEL)),
        (Google, 429, EXHAUSTED, Quota(MODEL)),
        (Google, 429, r#"[{"error":{"code":429,"message":"No capacity available for model gemini-x on the server","errors":[{"message":"No capacity available","domain":"global","reason":"rateLimitExceeded"}],"status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"MODEL_CAPACITY_EXHAUSTED","domain":"cloudcode-pa.googleapis.com","metadata":{"model":"gemini-x"}}]}}]"#, Overload(MODEL)),
        (Google, 503, r#"{"error":{"code":503,"message":"The model is overloaded. Please try again later.","status":"UNAVAILABLE"}}"#, Overload(MODEL)),
        (Google, 500, r#"{"error":{"code":500,"message":"An internal error has occurred.","status":"INTERNAL"}}"#, Server),
        // A client library that wraps the error in another one's message.
        (Google, 400, r#"{"error":{"message":"{\n  \"error\": {\n    \"code\": 400,\n    \"message\": \"API key not valid.\",\n    \"status\": \"INVALID_ARGUMENT\",\n    \"details\": [{\"reason\": \"API_KEY_INVALID\"}]\n  }\n}\n","code":400,"status":"Bad Request"}}"#, Revoked),
    ]);
}

pub(crate) const DAILY: &str = r#"{"error":{"code":429,"message":"You exceeded your current quota, please check your plan and billing details.\n* Quota exceeded for metric: generativelanguage.googleapis.com/generate_content_free_tier_requests, limit: 50\nPlease retry in 34.074824224s.","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaMetric":"generativelanguage.googleapis.com/generate_content_free_tier_requests","quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier","quotaDimensions":{"model":"gemini-x","location":"global"},"quotaValue":"50"}]},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34s"}]}}"#;

pub(crate) const MINUTE: &str = r#"{"error":{"code":429,"message":"You exceeded your current quota, please check your plan and billing details.","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaMetric":"generativelanguage.googleapis.com/generate_content_free_tier_input_token_count","quotaId":"GenerateContentInputTokensPerModelPerMinute-FreeTier","quotaDimensions":{"model":"gemini-x","location":"global"}}]},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.074824224s"}]}}"#;

pub(crate) const EXHAUSTED: &str = r#"{"error":{"code":429,"message":"You have exhausted your capacity on this model. Your quota will reset after 161h39m41s.","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"QUOTA_EXHAUSTED","domain":"cloudcode-pa.googleapis.com","metadata":{"uiMessage":"true","model":"m","quotaResetDelay":"161h39m41.300432511s","quotaResetTimeStamp":"2026-08-09T09:16:09Z"}},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"581981.300432511s"}]}}"#;

#[test]
fn answers_of_other_upstreams() {
    check(&[
        (Generic, 402, r#"{"error":{"message":"Insufficient Balance","type":"unknown_error","param":null,"code":"invalid_request_error"}}"#, Quota(ACCOUNT)),
        (Generic, 429, r#"{"error":{"message":"slow down","code":"too_many"}}"#, Throttle(ACCOUNT)),
        (Generic, 429, r#"{"error":{"message":"Your account is suspended due to insufficient balance","type":"exceeded_current_quota_error"}}"#, Quota(ACCOUNT)),
        (Generic, 429, r#"{"error":{"message":"The engine is currently overloaded, please try again later","type":"engine_overloaded_error"}}"#, Overload(MODEL)),
        (Generic, 400, r#"{"error":{"message":"Organization has been restricted. Please reach out to support if you believe this was in error.","type":"invalid_request_error","code":"organization_restricted"}}"#, Ban),
        (Generic, 400, r#"{"error":"invalid_grant","error_description":"Token has been expired or revoked."}"#, Revoked),
        (Generic, 422, r#"{"detail":[{"loc":["body","model"],"msg":"field required"}]}"#, Request),
        (Generic, 409, "", Unknown),
        (Generic, 418, "I'm a teapot", Unknown),
        (Generic, 451, "", Unknown),
        (Generic, 501, "", Server),
        (Generic, 599, "\u{0}\u{1}", Server),
        (Generic, 502, "<html><body>502 Bad Gateway</body></html>", Overload(MODEL)),
        (Generic, 504, "upstream request timeout", Timeout),
        (Generic, 524, "error code: 524", Timeout),
        (Generic, 503, "{\"error\": cut off", Overload(MODEL)),
        (Generic, 401, "not json", Auth),
    ]);
}

#[test]
fn something_on_the_way_is_not_the_account() {
    check(&[
        (OpenAi, 302, "", Path),
        (OpenAi, 304, "", Path),
        (OpenAi, 199, "", Path),
        (OpenAi, 407, "", Path),
        (OpenAi, 200, "<!DOCTYPE html><title>Sign in</title>", Path),
        (OpenAi, 403, "<!DOCTYPE html><title>Just a moment...</title>", Path),
        (OpenAi, 404, "<html>not here</html>", Path),
    ]);
    assert_eq!(verdict(OpenAi, 302, &[("location", "/login")], "").outcome, Outcome::Network);
}

#[test]
fn an_error_inside_a_successful_answer_counts() {
    check(&[
        (Anthropic, 200, "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n", Overload(MODEL)),
        (Anthropic, 200, r#"{"type":"error","error":{"type":"api_error","message":"Internal server error"}}"#, Server),
        (OpenAi, 200, "event: response.failed\ndata: {\"type\":\"response.failed\",\"response\":{\"status\":\"failed\",\"error\":{\"code\":\"server_error\",\"message\":\"...\"}}}\n\n", Server),
        (OpenAi, 200, r#"{"type":"error","error":{"type":"usage_limit_reached","message":"The usage limit has been reached","resets_in_seconds":13872},"status_code":429}"#, Quota(ACCOUNT)),
        (OpenAi, 200, r#"{"error":{"code":"rate_limit_exceeded","message":"Rate limit reached"}}"#, Throttle(MODEL)),
        (Generic, 200, r#"{"error":{"message":"Provider returned error","code":502}}"#, Overload(MODEL)),
        (Generic, 200, r#"{"error":{"message":"?"}}"#, Server),
        (OpenAi, 200, r#"{"id":"resp_1","error":null,"status":"completed"}"#, Served),
        (OpenAi, 200, "", Served),
        (OpenAi, 204, "", Served),
    ]);
}

#[test]
fn a_client_cannot_have_an_account_blocked_by_being_quoted() {
    let phrases = [
        "This organization has been disabled.",
        "OAuth token has been revoked",
        "Your credit balance is too low",
        "account_deactivated",
        "{\"error\":{\"code\":\"account_deactivated\"}}",
        "The model is overloaded",
    ];
    for phrase in phrases {
        for provider in [OpenAi, Anthropic, Google, Generic] {
            let message = format!("The model `{phrase}` does not exist.");
            let quoted = serde_json::json!({"error": {"type": "invalid_request_error", "message": message}});
            let echoed = serde_json::json!({"detail": [{"msg": "bad", "input": {"error": {"code": phrase}}}]});
            for body in [quoted, echoed] {
                let verdict = verdict(provider, 400, &[], &body.to_string());
                assert_eq!(verdict.outcome, Outcome::ClientFault, "{phrase}: {verdict}");
            }
        }
    }
}

#[test]
fn rules_of_the_host_come_first() {
    const RULES: &[Rule<'static>] = &[
        Rule::new("relay.busy", Overload(ACCOUNT)).statuses(&[400]).contains(&["all channels busy"]),
        Rule::new("relay.any-418", Request).statuses(&[418]),
    ];
    let classifier = Classifier::new(Generic).rules(RULES);
    let busy = answer(400, &[("retry-after", "3")], r#"{"error":{"message":"Sorry, ALL channels busy"}}"#);
    let verdict = classifier.classify(&Response::from(&busy), NOW);
    assert_eq!(verdict.rule, "relay.busy");
    let in_three_seconds = Some(Reset::After(account_pool::Millis::from_secs(3)));
    assert_eq!(verdict.outcome, Outcome::Overloaded { scope: ACCOUNT, reset: in_three_seconds });
    assert_eq!(classifier.classify(&Response::from(&answer(418, &[], "")), NOW).rule, "relay.any-418");
    assert_eq!(classifier.classify(&Response::from(&answer(429, &[], "")), NOW).cause, Throttle(ACCOUNT));
}

#[test]
fn secrets_stay_out_of_debug() {
    let answer = answer(401, &[("set-cookie", "hidden-value")], "hidden-value");
    let shown = format!("{:?}", Response::from(&answer));
    assert!(!shown.contains("hidden-value"), "{shown}");
}

#[test]
fn time_zero_does_no_harm() {
    let answer = answer(429, &[("retry-after", "5")], "");
    let verdict = Classifier::new(Generic).classify(&Response::from(&answer), Timestamp::ZERO);
    assert_eq!(verdict.cause, Throttle(ACCOUNT));
}
