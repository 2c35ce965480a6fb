//! Another configuration while the gateway runs.

use account_pool::{Dimension, Request};
use account_pool_gateway::config::{Client, ProviderName};
use account_pool_gateway::watch;

use crate::support::{
    CHAT, Call, QUESTION, Upstream, account, ask, lines, openai, post, request, send, settings,
    start,
};

#[tokio::test]
async fn accounts_come_go_and_change_without_losing_state() {
    let (a, b, c) =
        (Upstream::serving().await, Upstream::serving().await, Upstream::serving().await);
    let mut settings = settings(ProviderName::OpenAi, &[&a, &b]);
    settings.accounts[0].rpm = Some(10);
    let gateway = start(settings.clone()).await;
    let session = [("x-session-id", "s")];
    for _ in 0..3 {
        post(&gateway, CHAT, &session, QUESTION).await;
    }
    assert_eq!(a.calls(), 3);

    settings.accounts[0].rpm = Some(5);
    settings.accounts.remove(1);
    settings.accounts.push(account(ProviderName::OpenAi, &c, 2));
    let changes = gateway.reload(settings.clone()).unwrap();
    assert_eq!((changes.added, changes.removed), (vec!["c".into()], vec!["b".into()]));
    assert!(changes.moved.is_empty());
    let view = gateway.pool().inspect("a").unwrap();
    assert_eq!((view.requests[0].limit.limit, view.requests[0].used, view.bound), (5, 3, 1));

    // Another place, same account: the next request goes there.
    settings.accounts[0].base_url = format!("http://{}", c.address());
    assert_eq!(gateway.reload(settings).unwrap().moved, ["a"]);
    post(&gateway, CHAT, &session, QUESTION).await;
    assert_eq!((a.calls(), c.calls()), (3, 1));
}

#[tokio::test]
async fn a_request_under_way_goes_on_when_its_account_is_removed() {
    let (sender, receiver) = tokio::sync::watch::channel(false);
    let upstream = Upstream::start(move |mut call: Call| {
        let mut go_on = receiver.clone();
        async move {
            call.begin().await;
            call.chunk("data: {\"choices\": []}\n\n").await;
            go_on.wait_for(|&it| it).await.unwrap();
            call.chunk("data: [DONE]\n\n").await;
            call.say("0\r\n\r\n").await;
        }
    })
    .await;
    let mut settings = settings(ProviderName::OpenAi, &[&upstream]);
    let gateway = start(settings.clone()).await;
    let sent = send(&gateway, request(CHAT, &[], QUESTION)).await;
    settings.accounts.clear();
    gateway.reload(settings).unwrap();
    assert!(gateway.pool().accounts().is_empty());
    sender.send(true).unwrap();
    let answer = crate::support::read(sent).await;
    assert!(answer.body.ends_with(b"data: [DONE]\n\n"));
    assert_eq!(ask(&gateway).await.status, 404);
}

#[tokio::test]
async fn a_new_credential_lifts_the_block_of_the_old_one() {
    let upstream = Upstream::refusing("401 Who", "", "{}").await;
    let mut settings = settings(ProviderName::OpenAi, &[&upstream]);
    let gateway = start(settings.clone()).await;
    ask(&gateway).await;
    let blocked = || gateway.pool().inspect("a").unwrap().blocks;
    assert_eq!(blocked()[0].dimension, Dimension::Auth);
    gateway.reload(settings.clone()).unwrap();
    assert_eq!(blocked().len(), 1, "nothing has changed");
    settings.accounts[0].key_env = "ANOTHER".to_owned();
    gateway.reload(settings).unwrap();
    assert!(blocked().is_empty());
    assert!(gateway.pool().select(&Request::new()).is_ok());
}

#[tokio::test]
async fn clients_and_limits_follow() {
    let upstream = Upstream::serving().await;
    let mut settings = settings(ProviderName::OpenAi, &[&upstream]);
    let gateway = start(settings.clone()).await;
    assert_eq!(ask(&gateway).await.status, 200);
    settings.clients.push(Client::new("alice", "ALICE"));
    gateway.reload(settings.clone()).unwrap();
    assert_eq!(ask(&gateway).await.status, 401);
    settings.clients.clear();
    settings.server.max_body_bytes = 4;
    gateway.reload(settings).unwrap();
    assert_eq!(ask(&gateway).await.status, 413);
}

#[tokio::test]
async fn a_wrong_configuration_changes_nothing() {
    let upstream = Upstream::serving().await;
    let gateway = openai(&[&upstream]).await;
    let mut wrong = settings(ProviderName::OpenAi, &[&upstream]);
    wrong.accounts[0].id = "new".to_owned();
    wrong.accounts.push(wrong.accounts[0].clone());
    let error = gateway.reload(wrong).unwrap_err().to_string();
    assert!(error.contains("`accounts.new`"), "{error}");
    assert_eq!(gateway.pool().accounts(), ["a"]);

    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("wrong.toml");
    std::fs::write(&file, "[server]\nlisten = 7\n").unwrap();
    watch::reload(&gateway, &file);
    assert_eq!(gateway.pool().accounts(), ["a"]);
    let said = lines().lines().any(|line| {
        line.contains("ERROR") && line.contains("wrong.toml") && line.contains("the old one stays")
    });
    assert!(said, "the log says so");
    assert_eq!(ask(&gateway).await.status, 200);
}

#[tokio::test]
async fn the_file_is_followed() {
    let upstream = Upstream::serving().await;
    let gateway = openai(&[&upstream]).await;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("gateway.toml");
    std::fs::write(&file, "").unwrap();
    let text = format!(
        "[[accounts]]\nid = \"z\"\nprovider = \"openai\"\nbase_url = \"http://{}\"\nkey_env = \"Z\"\n",
        upstream.address()
    );
    let changed = async {
        // An earlier time than now, in case the clock of the file system is coarse.
        let time = std::time::SystemTime::UNIX_EPOCH;
        tokio::task::yield_now().await;
        std::fs::write(&file, &text).unwrap();
        std::fs::File::options().write(true).open(&file).unwrap().set_modified(time).unwrap();
        crate::support::until(|| gateway.pool().accounts() == ["z"]).await;
    };
    tokio::select! {
        biased;
        () = watch::follow(&gateway, &file) => {}
        () = changed => {}
    }
    assert_eq!(gateway.pool().accounts(), ["z"]);
}
