//! The answer's body on its way from the upstream to the client.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use account_pool::http::{BodyReader, Classifier};
use account_pool::{Clock, Lease, Outcome, SystemClock};
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use http_body::{Body, Frame};
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep, sleep};
use tracing::Span;

use crate::upstream::Upstream;

/// How often the pool hears that a long answer is alive.
const TOUCH_EVERY: Duration = Duration::from_secs(10);

/// Passes chunks on as they come and as the client takes them, so a slow client slows the
/// upstream down. It holds the lease: at the end of the body the lease is settled with what the
/// body says it used; when the client leaves, the body is dropped, and with it the upstream's
/// connection and the lease, as cancelled.
pub(crate) struct Relay {
    /// Taken when it is settled.
    lease: Option<Lease<Upstream>>,
    clock: SystemClock,
    status: StatusCode,
    headers: HeaderMap,
    /// The chunk that was looked at before the client was answered.
    first: Option<Bytes>,
    body: Incoming,
    reader: BodyReader,
    idle: Duration,
    stalled: Pin<Box<Sleep>>,
    touched: Instant,
    span: Span,
}

/// Why a body ends early. The client's connection is cut, so that it cannot take the part for the
/// whole.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub(crate) enum RelayError {
    #[error("the upstream broke off its answer")]
    Broken,
    #[error("the upstream stalled")]
    Stalled,
}

impl Relay {
    #[expect(clippy::too_many_arguments, reason = "all of an answer's parts, from one place")]
    pub(crate) fn new(
        lease: Lease<Upstream>,
        clock: SystemClock,
        status: StatusCode,
        headers: HeaderMap,
        first: Bytes,
        body: Incoming,
        reader: BodyReader,
        idle: Duration,
    ) -> Self {
        Self {
            lease: Some(lease),
            clock,
            status,
            headers,
            first: Some(first),
            body,
            reader,
            idle,
            stalled: Box::pin(sleep(idle)),
            touched: Instant::now(),
            span: Span::current(),
        }
    }

    /// A chunk passes.
    fn pass(&mut self, chunk: &[u8]) {
        self.reader.push(chunk);
        let now = Instant::now();
        self.stalled.as_mut().reset(now + self.idle);
        if now.duration_since(self.touched) >= TOUCH_EVERY {
            self.touched = now;
            if let Some(lease) = &self.lease {
                lease.touch();
            }
        }
    }

    /// A body of announced length is over with its last byte: the server asks for no more then.
    fn end_if_over(&mut self) {
        if self.body.is_end_stream() {
            self.end(None);
        }
    }

    /// The body is over, with `broken` if not in peace.
    fn end(&mut self, broken: Option<Outcome>) {
        let Some(lease) = self.lease.take() else {
            return;
        };
        // What follows the last event does not matter any more.
        let broken = broken.filter(|_| !self.reader.is_complete());
        let outcome = broken.unwrap_or_else(|| {
            let classifier = Classifier::new(lease.payload().provider);
            let now = self.clock.now();
            self.reader.classify(&classifier, self.status, &self.headers, now).outcome
        });
        let account = lease.account().clone();
        lease.settle(outcome);
        let used = self.reader.usage().unwrap_or_default();
        self.span.in_scope(|| match outcome {
            Outcome::Success { .. } => tracing::info!(
                %account,
                input = used.input,
                read = used.cache_read,
                write = used.cache_write,
                output = used.output,
                "served"
            ),
            outcome => tracing::info!(%account, ?outcome, "ended"),
        });
    }
}

impl Body for Relay {
    type Data = Bytes;
    type Error = RelayError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, RelayError>>> {
        let this = self.get_mut();
        if let Some(first) = this.first.take() {
            this.end_if_over();
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        loop {
            if this.lease.is_none() {
                return Poll::Ready(None);
            }
            let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(cx) else {
                ready!(this.stalled.as_mut().poll(cx));
                this.end(Some(Outcome::Timeout));
                return Poll::Ready(Some(Err(RelayError::Stalled)));
            };
            match frame {
                Some(Ok(frame)) => {
                    // Trailers speak of the connection to the upstream.
                    if let Ok(data) = frame.into_data() {
                        this.pass(&data);
                        this.end_if_over();
                        return Poll::Ready(Some(Ok(Frame::data(data))));
                    }
                }
                Some(Err(_)) => {
                    let was_complete = this.reader.is_complete();
                    this.end(Some(Outcome::Network));
                    if !was_complete {
                        return Poll::Ready(Some(Err(RelayError::Broken)));
                    }
                }
                None => this.end(None),
            }
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        // A client that leaves after the last event has had all of its answer.
        let cut = if self.reader.is_complete() { None } else { Some(Outcome::Cancelled) };
        self.end(cut);
    }
}
