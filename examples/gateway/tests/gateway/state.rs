//! State that outlives the process.

use account_pool::Status;
use account_pool_gateway::config::{ProviderName, Settings};

use crate::support::{CHAT, QUESTION, SERVED, Upstream, idle, post, settings, start, until};

fn keeping(upstreams: &[&Upstream], file: &std::path::Path) -> Settings {
    let mut settings = settings(ProviderName::OpenAi, upstreams);
    for account in &mut settings.accounts {
        account.tier = 0;
    }
    settings.state.file = Some(file.to_owned());
    settings
}

#[tokio::test]
async fn a_restart_forgets_neither_bindings_nor_limits_nor_usage() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("state.json");
    let (a, b) = (Upstream::serving().await, Upstream::serving().await);
    let mut settings = keeping(&[&a, &b], &file);
    for account in &mut settings.accounts {
        account.rpm = Some(5);
    }
    let gateway = start(settings.clone()).await;
    let session = [("x-session-id", "s")];
    for _ in 0..3 {
        assert_eq!(post(&gateway, CHAT, &session, QUESTION).await.status, 200);
    }
    idle(gateway.pool()).await;
    gateway.stop().await;
    let (before_a, before_b) = (a.calls(), b.calls());

    let gateway = start(settings).await;
    let home = if before_a > 0 { "a" } else { "b" };
    let view = gateway.pool().inspect(home).unwrap();
    assert_eq!((view.requests[0].used, view.usage.input, view.bound), (3, 21, 1));
    post(&gateway, CHAT, &session, QUESTION).await;
    let grown = (a.calls() - before_a, b.calls() - before_b);
    assert_eq!(grown, if home == "a" { (1, 0) } else { (0, 1) });
    assert_eq!(gateway.pool().stats().selected.sticky, 3, "the counters went on");
}

#[tokio::test]
async fn accounts_are_those_of_the_file_whatever_was_saved() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("state.json");
    let (a, b) = (Upstream::serving().await, Upstream::serving().await);
    let gateway = start(keeping(&[&a, &b], &file)).await;
    gateway.pool().set_status("b", Status::Banned).unwrap();
    gateway.stop().await;

    let mut settings = keeping(&[&a, &b], &file);
    settings.accounts[0].id = "new".to_owned();
    let gateway = start(settings).await;
    let accounts: Vec<String> = gateway.pool().accounts().into_iter().map(String::from).collect();
    assert_eq!(accounts, ["b", "new"]);
    assert_eq!(gateway.pool().inspect("b").unwrap().status, Status::Banned);
}

#[tokio::test]
async fn a_state_that_cannot_be_used_is_set_aside() {
    let foreign = r#"{"version": 99, "at": 0, "origin": 0, "next_sequence": 0}"#;
    for text in ["", "{", "null", "[1, 2]", foreign, SERVED, "\u{0}\u{1}"] {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("state.json");
        std::fs::write(&file, text).unwrap();
        let upstream = Upstream::serving().await;
        let gateway = start(keeping(&[&upstream], &file)).await;
        let aside = directory.path().join("state.json.unusable");
        assert_eq!(std::fs::read_to_string(&aside).unwrap(), text);
        assert_eq!(post(&gateway, CHAT, &[], QUESTION).await.status, 200);
        gateway.stop().await;
        assert!(file.exists(), "a new state is saved");
    }
}

#[tokio::test]
async fn a_snapshot_that_contradicts_itself_is_set_aside() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("state.json");
    let upstream = Upstream::serving().await;
    start(keeping(&[&upstream], &file)).await.stop().await;
    let text = std::fs::read_to_string(&file).unwrap();
    let broken = text.replace("\"weight\":1.0", "\"weight\":-1.0");
    assert_ne!(text, broken);
    std::fs::write(&file, &broken).unwrap();
    let gateway = start(keeping(&[&upstream], &file)).await;
    let aside = directory.path().join("state.json.unusable");
    assert_eq!(std::fs::read_to_string(aside).unwrap(), broken);
    assert_eq!(post(&gateway, CHAT, &[], QUESTION).await.status, 200);
}

#[tokio::test]
async fn the_state_is_saved_while_the_gateway_runs() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("state.json");
    let upstream = Upstream::serving().await;
    let mut settings = keeping(&[&upstream], &file);
    settings.state.save_every_ms = 20;
    let gateway = start(settings).await;
    until(|| file.exists()).await;
    post(&gateway, CHAT, &[("x-session-id", "s")], QUESTION).await;
    let read = || serde_json::from_slice::<serde_json::Value>(&std::fs::read(&file).unwrap());
    // Read at any time it is whole.
    until(|| !read().unwrap()["bindings"].as_array().unwrap().is_empty()).await;
}
