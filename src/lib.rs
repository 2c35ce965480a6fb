//! Which upstream account serves this request?
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod account;
mod clock;
pub mod config;
mod feedback;
mod lease;
mod leases;
mod names;
mod outcome;
mod pool;
mod refusal;
mod request;
mod roster;
mod scheduler;
mod select;
mod shared;
mod sliding;
mod slot;
mod state;
mod stats;
mod sticky;
mod time;

pub use account::{Account, AccountError, AccountId, Entitlement, Plan, RateLimit, Status, Tier};
pub use clock::{Clock, ManualClock, SystemClock};
pub use config::{Config, ConfigError};
pub use lease::Lease;
pub use leases::Ticket;
pub use outcome::{Outcome, QuotaReading, QuotaWindow, Reset, Scope, Settlement, Usage};
pub use pool::Pool;
pub use refusal::{Dimension, Lift, Reason, Rejection, Tally, Unavailable, Wait, WaitTicket};
pub use request::{Affinity, Caller, Request, TrafficClass};
pub use scheduler::{
    AccountView, BindingView, BlockScope, BlockView, BreakerView, Grant, Preview, QuotaView,
    Scheduler, WindowView,
};
pub use select::Path;
pub use state::usage::UsageTotals;
pub use stats::{PathCounts, Stats, StickyCounts};
pub use time::{Millis, Timestamp};
