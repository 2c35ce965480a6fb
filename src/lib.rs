//! Decides, per request, which upstream account of an LLM gateway serves it.
//!
//! A gateway holds many upstream accounts, each with its own limits, quota, faults and prompt
//! cache. A conversation that changes account pays for its whole context again, so a pool has two
//! opposed jobs: spread load so that no account hits its limit, and keep each conversation where
//! it is warm. This crate owns the accounts' state and does both in one atomic step.
//!
//! ```
//! use account_pool::{Account, Config, Outcome, Pool, Request};
//!
//! let pool = Pool::new(Config::default())?;
//! pool.add(Account::new("acct-1").rpm(60), "credential")?;
//!
//! let request = Request::new().caller("api:6f3a:user:42").model("opus");
//! match pool.select(&request) {
//!     Ok(lease) => {
//!         // … send the request with `lease.payload()`, stream the body …
//!         lease.settle(Outcome::success());
//!     }
//!     Err(refusal) => println!("{refusal}"),
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The layers
//!
//! - [`Scheduler`] owns all state and policy. Every method takes the time; it reads no clock,
//!   takes no lock and has no side effects, so the same calls give the same answers.
//! - [`Pool`] is a `Scheduler` behind one lock, with a [`Clock`], the host's payload per account,
//!   and a [`Lease`] that ends by itself.
//! - [`Snapshot`] is a scheduler's state as a value that outlives the process.
//!
//! # Features
//!
//! | feature | adds | costs |
//! | --- | --- | --- |
//! | `coarse-clock` | `CoarseClock`: cheaper to read, lags by up to a tick of the kernel | `rustix`, on Linux and Android |
//! | `http` | `http`: outcomes, reset hints, quota, usage and caller keys from HTTP | `http`, `httpdate`, `jiff`, `memchr`, `serde_json` |
//! | `journal` | `journal`: operations as values, replay, rehearsal; `Scheduler::digest` | no dependency |
//! | `metrics` | `MetricsObserver`: counters through that facade | that crate |
//! | `tokio` | `Pool::acquire`, which waits; `TokioClock` | `tokio` with its timer |
//! | `tracing` | `TracingObserver`: events to `tracing` | that crate |
//!
//! A feature only adds; turning one on changes no answer.
//!
//! # How a request is decided
//!
//! 1. The caller's binding is looked up: the accounts that served this conversation last.
//! 2. The first of them that is eligible serves. One predicate answers for every path.
//! 3. Otherwise the eligible accounts are ranked by one packed key; the smallest is best.
//! 4. Among the accounts whose key equals the best one's, the caller has its own place.
//! 5. The choice is reserved: rate slots, concurrency, recency.
//!
//! The host then reports an [`Outcome`], which becomes cooldowns, health, breaker and quota state
//! and, for a success, the binding. An [`Unavailable`] says why nobody can serve and when one
//! will.
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod account;
mod chunks;
mod clock;
pub mod config;
#[cfg(feature = "journal")]
mod digest;
mod events;
mod explain;
mod feedback;
mod grant;
mod hex;
#[cfg(feature = "http")]
#[cfg_attr(docsrs, doc(cfg(feature = "http")))]
pub mod http;
mod index;
#[cfg(feature = "journal")]
pub mod journal;
mod lease;
mod leases;
mod lookup;
#[cfg(feature = "metrics")]
mod meter;
mod names;
mod outcome;
mod pool;
mod refusal;
mod request;
#[cfg(any(feature = "tokio", pool_shuttle))]
mod room;
#[cfg(not(any(feature = "tokio", pool_shuttle)))]
#[path = "room/empty.rs"]
mod room;
mod roster;
mod scheduler;
mod select;
mod shared;
mod sliding;
mod slot;
mod snapshot;
mod state;
mod stats;
mod sticky;
mod sync;
mod time;
#[cfg(feature = "tracing")]
mod trace;
#[cfg(any(feature = "tokio", pool_shuttle))]
mod wait;

pub use account::{Account, AccountError, AccountId, Entitlement, Plan, RateLimit, Status, Tier};
#[cfg(feature = "coarse-clock")]
#[cfg_attr(docsrs, doc(cfg(feature = "coarse-clock")))]
pub use clock::CoarseClock;
#[cfg(feature = "tokio")]
#[cfg_attr(docsrs, doc(cfg(feature = "tokio")))]
pub use clock::TokioClock;
pub use clock::{Clock, ManualClock, SystemClock};
pub use config::{Config, ConfigError};
pub use events::{Event, Observer, OutcomeKind};
pub use explain::{ExplainedAccount, Explanation, RankedBy, RankedTerm, Verdict};
pub use grant::{Grant, Path, Preview, Ticket};
pub use lease::Lease;
#[cfg(feature = "metrics")]
#[cfg_attr(docsrs, doc(cfg(feature = "metrics")))]
pub use meter::MetricsObserver;
pub use outcome::{Outcome, QuotaReading, QuotaWindow, Reset, Scope, Settlement, Usage};
pub use pool::Pool;
pub use refusal::{Dimension, Lift, Reason, Rejection, Tally, Unavailable, Wait, WaitTicket};
pub use request::{Affinity, Caller, OwnedRequest, Request, TrafficClass};
pub use scheduler::{
    AccountView, BindingView, BlockScope, BlockView, BreakerView, LoadView, QuotaView, Scheduler,
    WindowView,
};
pub use snapshot::{Snapshot, SnapshotError};
pub use state::usage::UsageTotals;
pub use stats::{PathCounts, Stats, StickyCounts};
pub use time::{Millis, Timestamp};
#[cfg(feature = "tracing")]
#[cfg_attr(docsrs, doc(cfg(feature = "tracing")))]
pub use trace::TracingObserver;
#[cfg(any(feature = "tokio", pool_shuttle))]
#[cfg_attr(docsrs, doc(cfg(feature = "tokio")))]
pub use wait::Acquire;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
