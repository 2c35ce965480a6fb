//! The `http` feature against answers and requests as providers and clients send them (secrets
//! replaced).

#[path = "http/anything.rs"]
mod anything;
#[path = "http/bodies.rs"]
mod bodies;
#[path = "http/callers.rs"]
mod callers;
#[path = "http/causes.rs"]
mod causes;
#[path = "http/quotas.rs"]
mod quotas;
#[path = "http/resets.rs"]
mod resets;
#[path = "http/usages.rs"]
mod usages;

use account_pool::Timestamp;
use account_pool::http::{Classifier, Provider, Response, Verdict};

/// 2026-08-02, 15:36:28 UTC.
const NOW: Timestamp = Timestamp::from_millis(1_785_684_988_000);

fn answer(status: u16, headers: &[(&str, &str)], body: &str) -> http::Response<String> {
    let mut answer = http::Response::builder().status(status);
    for (name, value) in headers {
        answer = answer.header(*name, *value);
    }
    answer.body(body.to_owned()).expect("the parts are valid")
}

fn verdict(
    provider: Provider,
    status: u16,
    headers: &[(&str, &str)],
    body: &str,
) -> Verdict<'static> {
    let answer = answer(status, headers, body);
    Classifier::new(provider).classify(&Response::from(&answer), NOW)
}
