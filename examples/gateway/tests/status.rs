//! The status routes, asked without a network.
#![allow(clippy::unwrap_used, reason = "a set-up that does not fit is a failed test")]

use std::sync::Arc;
use std::time::Duration;

use account_pool::{Account, Config, Millis, Outcome, Pool, Request, Reset, Status as Switch};
use account_pool_gateway::status::{AdminToken, Options, Status, TokenError, router, router_with};
use axum::Router;
use axum::body::Body;
use axum::http::{Request as HttpRequest, Response, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

const TOKEN: &str = "open-sesame-open-sesame";
const NASTY: &str = "<script>alert(\"1\")</script>\\\n";
const CALLER: &str = "api:1:caller-key-sentinel";
const PAYLOAD: &str = "payload-sentinel";

fn pool() -> Arc<Pool<&'static str>> {
    let pool = Pool::new(Config::default()).unwrap();
    pool.add(Account::new("one").rpm(64).max_in_flight(1), PAYLOAD).unwrap();
    pool.add(Account::new(NASTY), PAYLOAD).unwrap();
    Arc::new(pool)
}

fn read_only(pool: &Arc<Pool<&'static str>>) -> Router {
    router(Status { pool: Arc::clone(pool), admin_token: None })
}

fn with_token(pool: &Arc<Pool<&'static str>>) -> Router {
    let admin_token = Some(AdminToken::new(TOKEN).unwrap());
    router(Status { pool: Arc::clone(pool), admin_token })
}

async fn get(router: &Router, path: &str) -> Response<Body> {
    let request = HttpRequest::get(path).body(Body::empty()).unwrap();
    router.clone().oneshot(request).await.unwrap()
}

async fn text(response: Response<Body>) -> String {
    let body = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(body.to_vec()).unwrap()
}

async fn json(router: &Router, path: &str) -> Value {
    serde_json::from_str(&text(get(router, path).await).await).unwrap()
}

async fn post(router: &Router, action: &str, token: Option<&str>, body: &str) -> Response<Body> {
    let mut request = HttpRequest::post(format!("/admin/{action}"));
    request = request.header("content-type", "application/json");
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    router.clone().oneshot(request.body(Body::from(body.to_owned())).unwrap()).await.unwrap()
}

fn fail(pool: &Pool<&'static str>, account: &str, outcome: Outcome) {
    let lease = pool.select_account(account, &Request::new().caller(CALLER)).unwrap();
    lease.settle(outcome);
}

fn throttled(secs: u64) -> Outcome {
    Outcome::rate_limited(Some(Reset::After(Millis::from_secs(secs))))
}

#[tokio::test]
async fn the_page_is_self_contained_under_a_strict_policy() {
    let response = get(&read_only(&pool()), "/").await;
    assert_eq!(response.status(), StatusCode::OK);
    let header = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
    let policy = header("content-security-policy");
    assert!(policy.starts_with("default-src 'none'; script-src 'sha256-"), "{policy}");
    assert!(!policy.contains("unsafe"), "{policy}");
    assert_eq!(header("content-type"), "text/html; charset=utf-8");
    assert_eq!(header("x-content-type-options"), "nosniff");
    let page = text(response).await;
    for outside in ["<script src", "<link rel=\"stylesheet", "@import", " onclick=", " style=\""] {
        assert!(!page.contains(outside), "{outside}");
    }
    // Data never becomes markup, and both parts are in their places.
    for markup in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write"] {
        assert!(!page.contains(markup), "{markup}");
    }
    assert!(page.contains("new EventSource(") && page.contains("--ground:"));
    assert!(!page.contains("/* script.js */") && !page.contains("/* style.css */"));
}

#[tokio::test]
async fn the_policy_allows_the_very_style_and_script_of_the_page() {
    use base64::Engine;
    use sha2::Digest;

    let response = get(&read_only(&pool()), "/").await;
    let policy = response.headers()["content-security-policy"].to_str().unwrap().to_owned();
    let page = text(response).await;
    for (directive, open, close) in [
        ("style-src", "<style>", "</style>"),
        ("script-src", "<script type=\"module\">", "</script>"),
    ] {
        let (_, rest) = page.split_once(open).unwrap();
        let (part, _) = rest.split_once(close).unwrap();
        let digest = sha2::Sha256::digest(part);
        let digest = base64::engine::general_purpose::STANDARD.encode(digest);
        assert!(policy.contains(&format!("{directive} 'sha256-{digest}';")), "{open} in {policy}");
    }
}

#[tokio::test]
async fn the_pool_is_told_as_json() {
    let pool = pool();
    let limit = |id: &account_pool::AccountId| (*id == "one").then_some(1);
    let status = Status { pool: Arc::clone(&pool), admin_token: None };
    let router = router_with(status, Options::new().limits(limit));
    fail(&pool, NASTY, throttled(60));
    let lease = pool.select(&Request::new().caller(CALLER)).unwrap();
    assert_eq!(*lease.account(), "one");

    let status = json(&router, "/pool").await;
    let accounts = &status["accounts"];
    assert_eq!(accounts[0]["id"], "one");
    assert_eq!(accounts[0]["condition"], "full");
    assert_eq!(accounts[0]["in_flight"], 1);
    assert_eq!(accounts[0]["max_in_flight"], 1);
    assert_eq!(accounts[0]["headroom"], 63.0 / 64.0);
    assert_eq!(accounts[1]["id"], NASTY);
    assert_eq!(accounts[1]["condition"], "cooling");
    assert_eq!(accounts[1]["blocks"][0]["dimension"], "throttle");
    assert_eq!(status["conditions"], json!({ "cooling": 1, "full": 1 }));
    assert_eq!(status["in_flight"], 1);
    assert_eq!(status["waiting"], 0);
    assert_eq!(status["admin"], false);
    assert_eq!(status["observed"], true);
    assert_eq!(status["counters"]["selected"]["rank"], 1);
    assert_eq!(status["counters"]["outcomes"], json!({ "rate_limited": 1 }));
    assert_eq!(status["events"][0]["kind"], "blocked");
    drop(lease);
    assert_eq!(json(&router, "/pool").await["conditions"], json!({ "cooling": 1, "ready": 1 }));
}

#[tokio::test]
async fn every_condition_is_told_apart() {
    let pool = Pool::new(Config::default()).unwrap();
    for id in ["banned", "disabled", "maintenance", "breaker_open", "cooling", "draining"] {
        pool.add(Account::new(id), "").unwrap();
    }
    pool.add(Account::new("full").rpm(1), "").unwrap();
    pool.add(Account::new("ready"), "").unwrap();
    pool.set_status("banned", Switch::Banned).unwrap();
    pool.set_status("disabled", Switch::Disabled).unwrap();
    pool.set_maintenance("maintenance", true).unwrap();
    pool.set_draining("draining", true).unwrap();
    fail(&pool, "cooling", throttled(60));
    for _ in 0..pool.config().breaker.threshold.unwrap() {
        fail(&pool, "breaker_open", Outcome::Network);
    }
    fail(&pool, "full", Outcome::success());
    let status = json(&read_only(&Arc::new(pool)), "/pool").await;
    for account in status["accounts"].as_array().unwrap() {
        assert_eq!(account["condition"], account["id"], "{account:#}");
    }
}

#[tokio::test]
async fn an_explanation_tells_the_verdict_on_each_account() {
    let pool = pool();
    let router = read_only(&pool);
    fail(&pool, NASTY, throttled(60));
    let path = "/explain?caller=api:1:caller-key-sentinel&model=opus";
    let told = json(&router, path).await;
    assert_eq!(told["decision"]["selected"]["account"], "one");
    assert_eq!(told["accounts"][0]["rejection"], Value::Null);
    assert_eq!(told["accounts"][1]["rejection"]["reason"], "throttled");
    // Nothing was selected by asking, and all parts may be left out.
    assert_eq!(pool.stats().selected.rank, 0);
    assert_eq!(get(&router, "/explain").await.status(), StatusCode::OK);
    assert_eq!(get(&router, "/explain?caller=&model=%20").await.status(), StatusCode::OK);
}

#[tokio::test]
async fn no_key_and_no_payload_is_in_any_answer() {
    let pool = pool();
    let router = with_token(&pool);
    let request = Request::new().caller(CALLER).model("opus");
    pool.select(&request).unwrap().settle(Outcome::success());
    pool.select(&request).unwrap().settle(throttled(60));
    pool.select(&request).unwrap().settle(Outcome::Network);
    pool.set_status("one", Switch::Disabled).unwrap();
    pool.set_status(NASTY, Switch::Disabled).unwrap();
    pool.select(&request).unwrap_err();
    let explain = "/explain?caller=api:1:caller-key-sentinel&model=opus";
    let mut answers = vec![first_event(&router).await];
    for path in ["/", "/pool", explain, "/metrics", "/healthz", "/readyz"] {
        answers.push(text(get(&router, path).await).await);
    }
    answers.push(text(post(&router, "drain", Some(TOKEN), r#"{"account": "one"}"#).await).await);
    answers.push(text(post(&router, "drain", Some("wrong"), "{}").await).await);
    for answer in answers {
        for secret in ["sentinel", TOKEN] {
            assert!(!answer.contains(secret), "{secret} in {answer}");
        }
    }
}

#[tokio::test]
async fn names_of_accounts_are_escaped_wherever_they_appear() {
    let pool = pool();
    let router = read_only(&pool);
    fail(&pool, NASTY, throttled(60));
    assert!(!text(get(&router, "/").await).await.contains("alert("));
    let metrics = text(get(&router, "/metrics").await).await;
    let escaped = r#"{account="<script>alert(\"1\")</script>\\\n"} 0"#;
    assert!(metrics.contains(&format!("account_pool_account_in_flight{escaped}")), "{metrics}");
    let response = get(&router, "/pool").await;
    assert_eq!(response.headers()["content-type"], "application/json");
    // An event of a stream ends at an empty line; what is inside may hold none.
    let event = first_event(&router).await;
    assert_eq!(event.trim_end().lines().count(), 2, "{event}");
}

#[tokio::test]
async fn metrics_declare_each_family_once_before_its_samples() {
    let pool = pool();
    let router = read_only(&pool);
    pool.select(&Request::new().caller(CALLER)).unwrap().settle(Outcome::success());
    let response = get(&router, "/metrics").await;
    let kind = response.headers()["content-type"].to_str().unwrap();
    assert_eq!(kind, "text/plain; version=0.0.4; charset=utf-8");
    let metrics = text(response).await;
    assert!(metrics.ends_with('\n'));
    let mut family = "";
    let mut seen = Vec::new();
    for line in metrics.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            family = help.split_once(' ').unwrap().0;
            assert!(!seen.contains(&family), "{family} is declared twice");
            seen.push(family);
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').unwrap();
            assert_eq!(name, family);
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
        } else {
            let (sample, value) = line.rsplit_once(' ').unwrap();
            let name = sample.split('{').next().unwrap();
            assert_eq!(name, family);
            value.parse::<f64>().unwrap();
        }
    }
    assert!(metrics.contains("account_pool_selected_total{path=\"rank\"} 1\n"), "{metrics}");
    assert!(metrics.contains("account_pool_outcomes_total{outcome=\"success\"} 1\n"), "{metrics}");
    assert!(metrics.contains("account_pool_accounts{condition=\"ready\"} 2\n"), "{metrics}");
}

#[tokio::test]
async fn readiness_fails_when_nobody_can_serve_and_liveness_does_not() {
    let pool = pool();
    let router = read_only(&pool);
    let codes = async |router: &Router| {
        [get(router, "/healthz").await.status(), get(router, "/readyz").await.status()]
    };
    assert_eq!(codes(&router).await, [StatusCode::OK, StatusCode::OK]);
    pool.set_status(NASTY, Switch::Disabled).unwrap();
    // Full accounts free themselves.
    let lease = pool.select(&Request::new()).unwrap();
    assert_eq!(codes(&router).await, [StatusCode::OK, StatusCode::OK]);
    lease.settle(Outcome::quota_exhausted(Some(Reset::After(Millis::from_secs(60)))));
    assert_eq!(codes(&router).await, [StatusCode::OK, StatusCode::SERVICE_UNAVAILABLE]);
    assert_eq!(json(&router, "/readyz").await["retry_after_secs"], 60);
}

#[tokio::test]
async fn without_a_token_there_is_no_administration() {
    let router = read_only(&pool());
    for token in [None, Some(TOKEN), Some("")] {
        let response = post(&router, "drain", token, r#"{"account": "one"}"#).await;
        assert_eq!(response.status(), StatusCode::NOT_FOUND);
    }
}

#[tokio::test]
async fn administration_takes_the_right_token_alone() {
    let pool = pool();
    let router = with_token(&pool);
    let prefix = &TOKEN[..TOKEN.len() - 1];
    for token in [None, Some(""), Some("wrong"), Some(prefix), Some("öffne dich, Sesam!")] {
        let response = post(&router, "drain", token, r#"{"account": "one"}"#).await;
        assert_eq!(response.status(), StatusCode::UNAUTHORIZED, "{token:?}");
        assert_eq!(response.headers()["www-authenticate"], "Bearer");
        // Nor does it tell who is there, or what is wrong with the rest.
        let response = post(&router, "nothing", token, "nonsense").await;
        assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
    }
    // In the address it counts for nothing.
    let in_address = format!("drain?token={TOKEN}");
    let response = post(&router, &in_address, None, r#"{"account": "one"}"#).await;
    assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
    assert!(!pool.inspect("one").unwrap().draining);
    assert_eq!(post(&router, "check", Some(TOKEN), "").await.status(), StatusCode::NO_CONTENT);
    assert_eq!(post(&router, "check", Some("wrong"), "").await.status(), StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn the_operator_drains_clears_and_maintains() {
    let pool = pool();
    let router = with_token(&pool);
    let body = json!({ "account": NASTY }).to_string();
    let act = async |action: &str| {
        let response = post(&router, action, Some(TOKEN), &body).await;
        assert_eq!(response.status(), StatusCode::OK, "{action}");
        pool.inspect(NASTY).unwrap()
    };
    assert!(act("drain").await.draining);
    assert!(!act("undrain").await.draining);
    assert!(act("maintenance-on").await.maintenance);
    assert!(!act("maintenance-off").await.maintenance);
    fail(&pool, NASTY, throttled(60));
    assert!(act("clear").await.blocks.is_empty());
    let events = json(&router, "/pool").await["events"].clone();
    let kinds: Vec<&str> =
        events.as_array().unwrap().iter().map(|event| event["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds[..2], ["clear", "unblocked"], "{events:#}");
    assert_eq!(kinds.last(), Some(&"drain"));
}

#[tokio::test]
async fn what_administration_cannot_do_is_told() {
    let router = with_token(&pool());
    for (action, body, status, word) in [
        ("drain", r#"{"account": "nobody"}"#, StatusCode::NOT_FOUND, "nobody"),
        ("explode", r#"{"account": "one"}"#, StatusCode::NOT_FOUND, "maintenance-on"),
        ("drain", r#"{"account": 7}"#, StatusCode::UNPROCESSABLE_ENTITY, "as JSON"),
        ("drain", "{", StatusCode::BAD_REQUEST, "as JSON"),
        ("drain", &"x".repeat(20_000), StatusCode::PAYLOAD_TOO_LARGE, "as JSON"),
    ] {
        let response = post(&router, action, Some(TOKEN), body).await;
        assert_eq!(response.status(), status, "{action}");
        let told: Value = serde_json::from_str(&text(response).await).unwrap();
        assert!(told["error"].as_str().unwrap().contains(word), "{told}");
    }
    // A form of another site can send neither the header nor this type.
    let form = HttpRequest::post("/admin/drain")
        .header("authorization", format!("Bearer {TOKEN}"))
        .header("content-type", "text/plain")
        .body(Body::from(r#"{"account": "one"}"#))
        .unwrap();
    let response = router.clone().oneshot(form).await.unwrap();
    assert_eq!(response.status(), StatusCode::UNSUPPORTED_MEDIA_TYPE);
    assert_eq!(get(&router, "/admin/drain").await.status(), StatusCode::METHOD_NOT_ALLOWED);
}

#[test]
fn a_token_is_never_printed_and_has_to_be_long() {
    let token = AdminToken::new(TOKEN).unwrap();
    let status = Status { pool: pool(), admin_token: Some(token.clone()) };
    for printed in [format!("{token:?}"), format!("{status:?}")] {
        assert!(printed.contains("AdminToken(…)") && !printed.contains("sesame"), "{printed}");
    }
    assert_eq!(AdminToken::new("short").unwrap_err(), TokenError::TooShort);
    assert_eq!(AdminToken::new("                      ").unwrap_err(), TokenError::TooShort);
    assert!(AdminToken::from_env("NO_SUCH_VARIABLE_IS_SET_HERE").unwrap().is_none());
}

#[tokio::test]
async fn events_are_bounded_and_like_ones_gathered() {
    let pool = Arc::new(Pool::new(Config::default()).unwrap());
    let router = read_only(&pool);
    for index in 0..150 {
        let id = format!("account-{index}");
        pool.add(Account::new(id.as_str()), PAYLOAD).unwrap();
        fail(&pool, &id, Outcome::quota_exhausted(None));
    }
    let events = json(&router, "/pool").await["events"].clone();
    let events = events.as_array().unwrap();
    assert_eq!(events.len(), 100);
    assert_eq!(events[0]["account"], "account-149");

    for _ in 0..500 {
        pool.select(&Request::new().caller(CALLER)).unwrap_err();
    }
    let events = json(&router, "/pool").await["events"].clone();
    assert_eq!(events.as_array().unwrap().len(), 100);
    assert_eq!(events[0]["kind"], "refused");
    assert_eq!(events[0]["reason"], "quota_exhausted");
    assert_eq!(events[0]["count"], 500);
}

#[tokio::test]
async fn a_second_router_says_that_it_sees_no_events() {
    let pool = pool();
    let (first, second) = (read_only(&pool), read_only(&pool));
    fail(&pool, "one", throttled(60));
    assert_eq!(json(&first, "/pool").await["observed"], true);
    let told = json(&second, "/pool").await;
    assert_eq!(told["observed"], false);
    assert_eq!(told["events"], json!([]));
}

/// A stream of events, read one at a time.
struct Stream(Body);

impl Stream {
    async fn open(router: &Router) -> Self {
        let response = get(router, "/events").await;
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self(response.into_body())
    }

    /// The next event as it is sent; `None` at the end.
    async fn next(&mut self) -> Option<String> {
        let frame = tokio::time::timeout(Duration::from_secs(20), self.0.frame());
        let data = frame.await.expect("an event in time")?.unwrap().into_data().unwrap();
        Some(String::from_utf8(data.to_vec()).unwrap())
    }

    /// The next event's name and data.
    async fn event(&mut self) -> (String, Value) {
        let sent = self.next().await.unwrap();
        let (name, data) = sent.trim_end().split_once('\n').unwrap();
        let data = data.strip_prefix("data: ").unwrap();
        (name.strip_prefix("event: ").unwrap().to_owned(), serde_json::from_str(data).unwrap())
    }
}

async fn first_event(router: &Router) -> String {
    Stream::open(router).await.next().await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_stream_begins_with_the_state_and_goes_on_with_what_changed() {
    let pool = pool();
    let router = read_only(&pool);
    let mut stream = Stream::open(&router).await;
    let (name, state) = stream.event().await;
    assert_eq!(name, "state");
    assert_eq!(state["accounts"].as_array().unwrap().len(), 2);

    fail(&pool, NASTY, throttled(60));
    let (name, delta) = stream.event().await;
    assert_eq!(name, "delta");
    assert_eq!(delta["accounts"].as_array().unwrap().len(), 1);
    assert_eq!(delta["accounts"][0]["id"], NASTY);
    assert_eq!(delta["accounts"][0]["condition"], "cooling");
    assert_eq!(delta["events"].as_array().unwrap().len(), 1);

    let (name, delta) = stream.event().await;
    assert_eq!(
        (name.as_str(), &delta["accounts"], &delta["events"]),
        ("delta", &json!([]), &json!([]))
    );

    pool.remove("one");
    let (name, state) = stream.event().await;
    assert_eq!(name, "state");
    assert_eq!(state["accounts"].as_array().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_slow_watcher_skips_states_and_gets_a_whole_one() {
    let pool = pool();
    let router = read_only(&pool);
    let mut slow = Stream::open(&router).await;
    let mut quick = Stream::open(&router).await;
    assert_eq!(slow.event().await.0, "state");
    assert_eq!(quick.event().await.0, "state");
    for _ in 0..5 {
        assert_eq!(quick.event().await.0, "delta");
    }
    fail(&pool, "one", throttled(60));
    let (_, seen) = quick.event().await;
    let (name, state) = slow.event().await;
    assert_eq!(name, "state");
    assert_eq!(state["at"], seen["at"]);
    assert_eq!(state["accounts"][0]["condition"], "cooling");
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_at_shutdown() {
    let shutdown = CancellationToken::new();
    let status = Status { pool: pool(), admin_token: None };
    let router = router_with(status, Options::new().shutdown(shutdown.clone()));
    let mut stream = Stream::open(&router).await;
    stream.event().await;
    shutdown.cancel();
    assert_eq!(stream.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn nobody_reads_the_pool_for_watchers_that_have_gone() {
    let pool = pool();
    let router = read_only(&pool);
    let mut stream = Stream::open(&router).await;
    stream.event().await;
    drop(stream);
    drop(router);
    tokio::time::sleep(Duration::from_secs(3)).await;
    // The router, its task and this test held it; the observer holds no pool.
    assert_eq!(Arc::strong_count(&pool), 1);
}

#[tokio::test(start_paused = true)]
async fn a_stream_can_be_opened_again_after_all_have_gone() {
    let router = read_only(&pool());
    for _ in 0..3 {
        let mut stream = Stream::open(&router).await;
        assert_eq!(stream.event().await.0, "state");
        // The task that reads is back as well.
        stream.event().await;
        drop(stream);
        tokio::time::sleep(Duration::from_secs(3)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn watchers_are_limited_and_their_places_come_back() {
    let router = read_only(&pool());
    let mut streams = Vec::new();
    for _ in 0..64 {
        streams.push(Stream::open(&router).await);
    }
    assert_eq!(get(&router, "/events").await.status(), StatusCode::SERVICE_UNAVAILABLE);
    streams.pop();
    assert_eq!(get(&router, "/events").await.status(), StatusCode::OK);
}
