//! Whose fault an answer is.

use account_pool::http::Cause::{Overload, Request, Throttle};
use account_pool::http::Provider::{self, Anthropic, Generic, Google, OpenAi};
use account_pool::http::{Classifier, Response, Rule};
use account_pool::{Outcome, Reset, Scope, Timestamp};

use crate::{NOW, answer, verdict};

const ACCOUNT: Scope = Scope::Account;

/// Provider, status, cause and body of each line.
fn recorded() -> impl Iterator<Item = (Provider, u16, &'static str, &'static str)> {
    let lines = include_str!("answers.txt").lines().map(str::trim);
    lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(|line| {
        let mut fields = line.splitn(4, '|').map(str::trim);
        let mut next = || fields.next().unwrap_or_default();
        let provider = match next() {
            "OpenAi" => OpenAi,
            "Anthropic" => Anthropic,
            "Google" => Google,
            _ => Generic,
        };
        (provider, next().parse().expect("a line names a status"), next(), next())
    })
}

#[test]
fn recorded_answers() {
    let mut count = 0;
    for (provider, status, cause, body) in recorded() {
        let verdict = verdict(provider, status, &[], body);
        assert_eq!(
            format!("{:?}", verdict.cause),
            cause,
            "{provider:?} {status} {body}: {verdict}"
        );
        count += 1;
    }
    assert!(count > 80, "{count} answers");
}

#[test]
fn errors_in_streams() {
    let overloaded = concat!(
        "event: error\n",
        r#"data: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
        "\n\n",
    );
    assert_eq!(verdict(Anthropic, 200, &[], overloaded).cause, Overload(Scope::Model));
    let failed = concat!(
        "event: response.failed\n",
        r#"data: {"type":"response.failed","response":{"status":"failed","error":{"code":"#,
        r#""server_error","message":"..."}}}"#,
        "\n\n",
    );
    assert_eq!(verdict(OpenAi, 200, &[], failed).outcome, Outcome::Internal);
}

#[test]
fn a_redirect_is_no_answer() {
    assert_eq!(verdict(OpenAi, 302, &[("location", "/login")], "").outcome, Outcome::Network);
}

#[test]
fn a_body_that_is_cut_off_leaves_the_status() {
    let revoked = r#"{"error":{"code":"account_deactivated","message":"..."}}"#;
    for cut in 1..revoked.len() {
        assert_eq!(verdict(OpenAi, 401, &[], &revoked[..cut]).outcome, Outcome::AuthFailed);
    }
    assert_eq!(verdict(OpenAi, 401, &[], revoked).outcome, Outcome::BanSignal);
    let long = format!("{{\"pad\":\"{}\",{}", "x".repeat(64 << 10), &revoked[1..]);
    assert_eq!(verdict(OpenAi, 401, &[], &long).outcome, Outcome::AuthFailed);
    assert_eq!(verdict(Generic, 599, &[], "\u{0}\u{1}").outcome, Outcome::Internal);
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
            let quoted =
                serde_json::json!({"error": {"type": "invalid_request_error", "message": message}});
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
        Rule::new("relay.busy", Overload(ACCOUNT))
            .statuses(&[400])
            .contains(&["all channels busy"]),
        Rule::new("relay.any-418", Request).statuses(&[418]),
    ];
    let classifier = Classifier::new(Generic).rules(RULES);
    let busy =
        answer(400, &[("retry-after", "3")], r#"{"error":{"message":"Sorry, ALL channels busy"}}"#);
    let verdict = classifier.classify(&Response::from(&busy), NOW);
    assert_eq!(verdict.rule, "relay.busy");
    let in_three_seconds = Some(Reset::After(account_pool::Millis::from_secs(3)));
    assert_eq!(verdict.outcome, Outcome::Overloaded { scope: ACCOUNT, reset: in_three_seconds });
    assert_eq!(
        classifier.classify(&Response::from(&answer(418, &[], "")), NOW).rule,
        "relay.any-418"
    );
    assert_eq!(
        classifier.classify(&Response::from(&answer(429, &[], "")), NOW).cause,
        Throttle(ACCOUNT)
    );
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
