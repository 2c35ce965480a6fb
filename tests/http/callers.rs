//! Who a request belongs to.

use account_pool::http::{CallerKey, CallerRules, CallerSource, ClientRequest};
use account_pool::{Account, Affinity, Caller, Config, Outcome, Pool, Request};
use http::HeaderMap;

use crate::answer;

fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    answer(200, pairs, "").into_parts().0.headers
}

fn key(pairs: &[(&str, &str)], body: &str) -> Option<CallerKey> {
    let headers = headers(pairs);
    CallerRules::new().read(&ClientRequest::new(&headers).body(body.as_bytes()))
}

const ALICE: (&str, &str) = ("authorization", "Bearer sk-alice");

#[test]
fn user_and_session_make_the_caller() {
    let one = key(&[ALICE], r#"{"user":"u","prompt_cache_key":"s"}"#).unwrap();
    assert_eq!((one.source(), one.affinity()), (CallerSource::Session, Affinity::Prefer));
    for body in [
        r#"{"messages":[{"role":"user"}],"user":" u ","prompt_cache_key":"s\n"}"#,
        r#"{"safety_identifier":"u","user":"other","conversation":"s"}"#,
        r#"{"safety_identifier":null,"user":"u","conversation":{"object":"conversation","id":"s"}}"#,
        r#"{"metadata":{"user_id":"u","session_id":"s"},"prompt_cache_key":"later"}"#,
        r#"{"user":"u","sessionId":"s","previous_response_id":"resp_1"}"#,
        r#"{"user":"u","thread_id":"s","previous_response_id":"resp_2"}"#,
        r#"{"user":"u","session_id":"s","metadata":"text"}"#,
    ] {
        assert_eq!(key(&[ALICE], body).as_ref(), Some(&one), "{body}");
    }
    for name in
        ["x-claude-code-session-id", "session_id", "session-id", "x-session-id", "conversation_id"]
    {
        let body = r#"{"user":"u","conversation":"another"}"#;
        assert_eq!(key(&[ALICE, (name, "s")], body).as_ref(), Some(&one), "{name}");
    }
    let ids = r#"{"user":"u","prompt_cache_key":"s"}"#;
    let per_turn = [("x-request-id", "1"), ("x-client-request-id", "2"), ("idempotency-key", "3")];
    assert_eq!(key(&[ALICE, per_turn[0], per_turn[1], per_turn[2]], ids).as_ref(), Some(&one));
}

#[test]
fn different_parts_make_different_callers() {
    let bodies = [
        r#"{"user":"u"}"#,
        r#"{"user":"v"}"#,
        r#"{"user":7}"#,
        r#"{"session_id":"u"}"#,
        r#"{"user":"u","session_id":"u"}"#,
        r#"{"user":"u:session:u"}"#,
        r#"{"metadata":{"user_id":"{\"device_id\":\"d\",\"account_uuid\":\"\",\"session_id\":\"54c1eb09\"}"}}"#,
        r#"{"metadata":{"user_id":"user_1_account__session_57a121ec"}}"#,
        r"{}",
    ];
    let mut keys: Vec<String> = Vec::new();
    for pairs in [&[ALICE][..], &[("x-api-key", "sk-bob")], &[("x-goog-api-key", "AIza-x")]] {
        keys.extend(bodies.iter().map(|body| key(pairs, body).unwrap().as_str().to_owned()));
    }
    let count = keys.len();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), count);
}

#[test]
fn no_credential_and_no_name_appears() {
    let key = key(&[ALICE], r#"{"user":"alice@example.com","session_id":"private"}"#).unwrap();
    let headers = headers(&[ALICE]);
    let request = ClientRequest::new(&headers).body(b"private").api_key("sk-alice").tenant("acme");
    let shown = format!("{key:?} {} {request:?}", key.as_str());
    for secret in ["sk-alice", "alice", "private", "acme"] {
        assert!(!shown.contains(secret), "{shown}");
    }
}

#[test]
fn one_key_is_one_tenant_whichever_header_carries_it() {
    let body = r#"{"user":"u"}"#;
    let one = key(&[("authorization", "bearer  sk-1")], body);
    for pair in [
        ("x-api-key", "sk-1"),
        ("api-key", " sk-1"),
        ("x-goog-api-key", "sk-1"),
        ("authorization", "sk-1"),
    ] {
        assert_eq!(key(&[pair], body), one, "{pair:?}");
    }
    let empty = headers(&[]);
    let in_url = ClientRequest::new(&empty).api_key("sk-1").body(body.as_bytes());
    assert_eq!(CallerRules::new().read(&in_url), one);
    let named = in_url.tenant("acme");
    assert_ne!(CallerRules::new().read(&named), one);

    let segments: Vec<String> = one.unwrap().as_str().split(':').map(str::to_owned).collect();
    let tenant = segments[..2].join(":");
    let rest = format!("{tenant}:anything");
    assert_eq!(Caller::new(&rest), Caller::new(&rest).map(|it| it.of_tenant(&tenant)));
}

#[test]
fn a_key_that_stands_for_many_shards_only() {
    let headers = headers(&[ALICE, ("user-agent", "cli/1")]);
    let request = ClientRequest::new(&headers).address("203.0.113.7");
    let read = |rules: CallerRules| {
        let key = rules.read(&request).unwrap();
        (key.source(), key.affinity())
    };
    let rules = CallerRules::new();
    assert_eq!(read(rules), (CallerSource::Tenant, Affinity::Ignore));
    assert_eq!(read(rules.guess(true)), (CallerSource::Guess, Affinity::Ignore));
    assert_eq!(read(rules.single_tenant(true)), (CallerSource::Tenant, Affinity::Prefer));
    let both = rules.guess(true).single_tenant(true);
    assert_eq!(read(both), (CallerSource::Guess, Affinity::Prefer));

    let named = request.body(br#"{"user":"u"}"#);
    assert_eq!(rules.guess(true).read(&named), rules.read(&named), "no guess beside a name");
}

#[test]
fn placeholders_and_nonsense_name_nobody() {
    let bare = key(&[ALICE], "");
    for body in [
        r#"{"user":""}"#,
        r#"{"user":"  ","session_id":"undefined"}"#,
        r#"{"user":"Anonymous"}"#,
        r#"{"user":null,"metadata":{"user_id":[]}}"#,
        r#"{"user":{"name":"x"},"metadata":7}"#,
        r#"{"user":"u""#,
        r#"["user","u"]"#,
        "user=u",
        "\u{0}",
    ] {
        assert_eq!(key(&[ALICE], body), bare, "{body}");
    }
    for pairs in [
        &[][..],
        &[("authorization", "Bearer ")],
        &[("authorization", "Bearer")],
        &[("x-api-key", " ")],
    ] {
        assert_eq!(key(pairs, "{}"), None, "{pairs:?}");
    }
    let open = key(&[], r#"{"user":"u"}"#).unwrap();
    assert_eq!(open.source(), CallerSource::User, "a user without a key is still one caller");
}

#[test]
fn a_shard_only_caller_has_a_place_and_no_binding() {
    let pool = || {
        let pool = Pool::<()>::new(Config::default()).unwrap();
        for account in 0..16 {
            pool.add(Account::new(format!("acct-{account}")), ()).unwrap();
        }
        pool
    };
    let mut places: Vec<String> = Vec::new();
    for client in 0..8 {
        let secret = format!("sk-{client}");
        let caller = key(&[("x-api-key", &secret)], "{}").unwrap();
        let request = caller.apply(Request::new());
        let pools = [pool(), pool()];
        let [first, second] = pools.each_ref().map(|pool| {
            let lease = pool.select(&request).unwrap();
            let account = lease.account().to_string();
            lease.settle(Outcome::success());
            assert!(pool.peek(&Request::new().digested(caller.caller())).is_none());
            account
        });
        assert_eq!(first, second, "the same place in an equal pool");
        places.push(first);
    }
    places.sort_unstable();
    places.dedup();
    assert!(places.len() > 1, "clients spread over the accounts: {places:?}");
}
