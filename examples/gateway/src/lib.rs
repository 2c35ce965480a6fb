//! A gateway on `account-pool`: it serves OpenAI, Anthropic and Gemini clients from many upstream
//! accounts, and keeps each conversation where its prompt cache is warm.
//!
//! The way of a request, one module each:
//!
//! 1. `server` accepts connections, `app` routes;
//! 2. `intake` reads the client's request: whose it is, which model it wants, how large it is;
//! 3. `forward` leases an account from the pool, asks its upstream, and tries another one while
//!    nothing has reached the client;
//! 4. `relay` passes the body on chunk by chunk, and settles the lease when it ends.
//!
//! Around it: [`config`] is the file, [`accounts`] makes the pool follow it, [`store`] keeps the
//! pool's state across restarts, [`status`] shows the pool, and [`Gateway`] holds all of it
//! together.
//!
//! [`demo`] is an upstream and a load in the same process, for a first look.
#![forbid(unsafe_code)]

pub mod accounts;
mod api;
mod app;
pub mod config;
pub mod demo;
mod dial;
mod fault;
mod forward;
mod gateway;
mod headers;
mod intake;
mod keys;
mod relay;
mod request_id;
mod server;
pub mod status;
pub mod store;
mod upstream;
pub mod watch;

pub use api::Api;
pub use gateway::{Gateway, StartError, Variables};
pub use server::Stopped;
pub use upstream::{BaseUrl, GatewayPool, Secret, Upstream};
