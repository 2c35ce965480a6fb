//! The stream of states: one task reads the pool, all watchers share what it read.

use std::convert::Infallible;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderName, StatusCode, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, Stream};
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::MissedTickBehavior;

use super::events::RecentEvent;
use super::view::{AccountStatus, PoolStatus, Summary};
use super::{Host, problem};

/// What changed since the state before: the data of a `delta`.
///
/// Sent while the accounts are the same ones; when some come or go, a whole state is.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Delta<'a> {
    /// Numbers about the pool as a whole.
    #[serde(flatten)]
    pub summary: &'a Summary,
    /// The accounts that changed.
    pub accounts: Vec<&'a AccountStatus>,
    /// The events that are new or have happened again, the newest first.
    pub events: Vec<&'a RecentEvent>,
}

/// Time between two looks at the pool.
const PERIOD: Duration = Duration::from_secs(1);
/// The most watchers at once. Each costs a connection and at most one state in flight.
const MAX_WATCHERS: usize = 64;

/// The newest state; `None` until the first look.
type Newest = Option<Arc<Frame>>;

/// Where watchers come to.
pub(super) struct Feed {
    /// Of the task that reads, while there is one.
    sender: Mutex<Option<Arc<watch::Sender<Newest>>>>,
    places: Arc<Semaphore>,
}

impl Default for Feed {
    fn default() -> Self {
        Self { sender: Mutex::new(None), places: Arc::new(Semaphore::new(MAX_WATCHERS)) }
    }
}

/// A state, and how to get there from the one before.
struct Frame {
    number: u64,
    status: PoolStatus,
    /// Written when the first watcher needs it.
    whole: OnceLock<String>,
    /// `None` when accounts came or went.
    delta: Option<String>,
}

/// A watcher's side of the stream.
struct Watcher {
    newest: watch::Receiver<Newest>,
    /// The number of the state sent last.
    sent: Option<u64>,
    _place: OwnedSemaphorePermit,
}

/// `GET /events`.
pub(super) async fn events<T: Send + Sync + 'static>(State(host): State<Arc<Host<T>>>) -> Response {
    let Ok(place) = Arc::clone(&host.feed.places).try_acquire_owned() else {
        return problem(StatusCode::SERVICE_UNAVAILABLE, "too many watch already: try again later");
    };
    let watcher = Watcher { newest: subscribe(&host), sent: None, _place: place };
    // Proxies that gather a response before they pass it on would hold the stream back.
    let unbuffered = [(HeaderName::from_static("x-accel-buffering"), "no")];
    let keep_alive = KeepAlive::new().interval(Duration::from_secs(15));
    let stream = Sse::new(watcher.into_stream()).keep_alive(keep_alive);
    (unbuffered, [(header::CACHE_CONTROL, "no-store")], stream).into_response()
}

/// Joins those who watch, and starts the task that reads when this is the first.
fn subscribe<T: Send + Sync + 'static>(host: &Arc<Host<T>>) -> watch::Receiver<Newest> {
    let mut running = host.feed.sender.lock();
    let sender = running.get_or_insert_with(|| {
        let sender = Arc::new(watch::Sender::new(None));
        tokio::spawn(read(Arc::clone(host), Arc::clone(&sender)));
        sender
    });
    let mut newest = sender.subscribe();
    newest.mark_changed();
    newest
}

/// Reads the pool once per period, until nobody watches any more or the host shuts down; then
/// those who still watch hear the end.
async fn read<T: Send + Sync + 'static>(host: Arc<Host<T>>, sender: Arc<watch::Sender<Newest>>) {
    let mut ticks = tokio::time::interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = host.options.shutdown.cancelled() => break,
        }
        {
            // Under the lock under which watchers join, so that none joins what ends.
            let mut running = host.feed.sender.lock();
            if sender.receiver_count() == 0 {
                *running = None;
                return;
            }
        }
        let before = sender.borrow().clone();
        let look = Arc::clone(&host).look(move |host| Frame::next(before.as_deref(), host));
        match look.await {
            Ok(frame) => {
                sender.send_replace(Some(Arc::new(frame)));
            }
            Err(_) => break,
        }
    }
    *host.feed.sender.lock() = None;
}

impl Frame {
    fn next<T: Send + Sync + 'static>(before: Option<&Self>, host: &Host<T>) -> Self {
        let status = PoolStatus::of(host);
        let number = before.map_or(0, |before| before.number + 1);
        let delta = before.and_then(|before| {
            let changed = changed(&before.status.accounts, &status.accounts)?;
            let since = before.status.revision;
            let events = status.events.iter().filter(|event| event.is_newer(since));
            let delta =
                Delta { summary: &status.summary, accounts: changed, events: events.collect() };
            serde_json::to_string(&delta).ok()
        });
        Self { number, status, whole: OnceLock::new(), delta }
    }

    /// What brings a watcher here who was sent that state last.
    fn message(&self, sent: Option<u64>) -> Event {
        let follows = sent.is_some_and(|sent| sent + 1 == self.number);
        if let Some(delta) = self.delta.as_ref().filter(|_| follows) {
            return Event::default().event("delta").data(delta);
        }
        let whole = self.whole.get_or_init(|| {
            serde_json::to_string(&self.status).unwrap_or_else(|_| String::from("{}"))
        });
        Event::default().event("state").data(whole)
    }
}

/// The accounts that differ; `None` when they are not the same ones.
fn changed<'a>(
    before: &[AccountStatus],
    now: &'a [AccountStatus],
) -> Option<Vec<&'a AccountStatus>> {
    let mut pairs = before.iter().zip(now);
    if before.len() != now.len() || pairs.any(|(before, now)| before.view.id != now.view.id) {
        return None;
    }
    let pairs = before.iter().zip(now);
    Some(pairs.filter(|(before, now)| before != now).map(|(_, now)| now).collect())
}

impl Watcher {
    fn into_stream(self) -> impl Stream<Item = Result<Event, Infallible>> {
        stream::unfold(self, |mut watcher| async move {
            let frame = watcher.next().await?;
            let message = frame.message(watcher.sent);
            watcher.sent = Some(frame.number);
            Some((Ok(message), watcher))
        })
    }

    /// The newest state, once there is one that was not sent; `None` when no more are read.
    async fn next(&mut self) -> Option<Arc<Frame>> {
        loop {
            self.newest.changed().await.ok()?;
            let newest = self.newest.borrow_and_update().clone();
            if newest.is_some() {
                return newest;
            }
        }
    }
}
