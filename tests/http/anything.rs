//! Nothing panics and nothing is banned, whatever arrives.

use account_pool::http::{
    CallerRules, Classifier, ClientRequest, Provider, Response, classify, quota_reading, usage,
};
use account_pool::{Outcome, Timestamp};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use proptest::prelude::*;

const NAMES: [&str; 26] = [
    "retry-after",
    "retry-after-ms",
    "date",
    "x-ratelimit-limit-requests",
    "x-ratelimit-remaining-requests",
    "x-ratelimit-reset-requests",
    "x-ratelimit-reset",
    "anthropic-ratelimit-tokens-limit",
    "anthropic-ratelimit-tokens-remaining",
    "anthropic-ratelimit-tokens-reset",
    "anthropic-ratelimit-unified-status",
    "anthropic-ratelimit-unified-reset",
    "anthropic-ratelimit-unified-representative-claim",
    "anthropic-ratelimit-unified-5h-status",
    "anthropic-ratelimit-unified-5h-utilization",
    "anthropic-ratelimit-unified-5h-reset",
    "anthropic-ratelimit-unified-7d_opus-status",
    "anthropic-ratelimit-unified--status",
    "x-codex-primary-used-percent",
    "x-codex-primary-reset-after-seconds",
    "x-codex-credits-balance",
    "x-codex-credits-unlimited",
    "authorization",
    "x-api-key",
    "session_id",
    "user-agent",
];

fn value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..40),
        "-?[0-9]{0,45}(\\.[0-9]{0,12})?(ms|s|m|h|d)?".prop_map(String::into_bytes),
        "([0-9]{1,24}(h|m|s|ms) ?){1,5}".prop_map(String::into_bytes),
        "[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(Z|\\+[0-9]{2}:[0-9]{2})"
            .prop_map(String::into_bytes),
        "(Sun|Mon), [0-9]{2} (Feb|Aug) [0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2} GMT"
            .prop_map(String::into_bytes),
        prop::sample::select(vec!["rejected", "allowed", "True", "NaN", "inf", ""])
            .prop_map(|text| text.as_bytes().to_vec()),
    ]
}

fn headers() -> impl Strategy<Value = HeaderMap> {
    let pair = (prop::sample::select(NAMES.to_vec()), value());
    prop::collection::vec(pair, 0..16).prop_map(|pairs| {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            if let Ok(value) = HeaderValue::from_bytes(&value) {
                headers.append(HeaderName::from_static(name), value);
            }
        }
        headers
    })
}

/// JSON of the names that are looked for, with anything in them.
fn json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<u64>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        ".{0,40}".prop_map(Into::into),
        "(try again in|resets in|regain access on|limit reached\\|) ?.{0,30}".prop_map(Into::into),
        "(34\\.0748|161h39m|-5)s?".prop_map(Into::into),
    ];
    let names = prop::sample::select(vec![
        "error",
        "errors",
        "detail",
        "details",
        "message",
        "code",
        "type",
        "status",
        "reason",
        "metadata",
        "violations",
        "quotaId",
        "retryDelay",
        "quotaResetDelay",
        "resets_at",
        "resets_in_seconds",
        "response",
        "usage",
        "usageMetadata",
        "prompt_tokens",
        "input_tokens",
        "cache_read_input_tokens",
        "prompt_tokens_details",
        "cached_tokens",
        "promptTokenCount",
        "user",
        "user_id",
        "session_id",
        "conversation",
        "id",
        "any",
    ]);
    leaf.prop_recursive(5, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
            prop::collection::vec((names.clone(), inner), 0..6).prop_map(|pairs| {
                pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
            }),
        ]
    })
}

fn body() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..200),
        json().prop_map(|json| json.to_string().into_bytes()),
        (json(), 0_usize..400).prop_map(|(json, cut)| {
            let mut bytes = json.to_string().into_bytes();
            bytes.truncate(cut);
            bytes
        }),
        prop::collection::vec(json(), 0..5).prop_map(|events| {
            let lines = events.iter().map(|event| format!("event: x\ndata: {event}\n\n"));
            lines.collect::<String>().into_bytes()
        }),
        json().prop_map(|json| {
            serde_json::json!({"error": {"message": json.to_string()}}).to_string().into_bytes()
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn is_answered(
        status in 100_u16..1_000,
        headers in headers(),
        body in body(),
        now in prop_oneof![Just(0), Just(1_785_684_988_000), Just(u64::MAX), any::<u64>()],
        provider in prop::sample::select(vec![
            Provider::OpenAi, Provider::Anthropic, Provider::Google, Provider::Generic,
        ]),
    ) {
        let now = Timestamp::from_millis(now);
        let status = StatusCode::from_u16(status).unwrap();
        let response = Response::new(status, &headers).body(&body);
        let verdict = Classifier::new(provider).classify(&response, now);
        prop_assert_eq!(classify(provider, &response, now), verdict.outcome);
        prop_assert_ne!(verdict.outcome, Outcome::BanSignal);
        prop_assert_ne!(verdict.outcome, Outcome::DeadToken);
        if matches!(status.as_u16(), 405..=407 | 409..=428 | 430..=499) {
            prop_assert!(matches!(verdict.outcome, Outcome::ClientFault | Outcome::Network));
        }
        if let Some(reading) = quota_reading(&headers, now) {
            prop_assert!(reading.windows.len() <= account_pool::QuotaReading::MAX_WINDOWS);
            for window in reading.windows {
                prop_assert!((0.0..=100.0).contains(&window.remaining.unwrap()));
                prop_assert!(window.reset.is_none_or(|reset| now < reset));
            }
        }
        prop_assert_eq!(usage(&body), usage(&body));
        let client = ClientRequest::new(&headers).body(&body).address("198.51.100.1");
        let rules = CallerRules::new().guess(true);
        prop_assert_eq!(rules.read(&client), rules.read(&client));
    }
}
