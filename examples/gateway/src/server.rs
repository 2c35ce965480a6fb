//! Connections: accepted, limited, and ended in peace.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::config;

/// How a server came to its end.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Stopped {
    /// Connections that had to be cut.
    pub cut: usize,
}

/// What a connection may do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    header_bytes: usize,
    read_timeout: Duration,
    shutdown_timeout: Duration,
}

impl Limits {
    pub(crate) fn of(server: &config::Server) -> Self {
        Self {
            // Headers somewhat too large are read and answered with an error that says so; those
            // past this get a bare 431.
            header_bytes: server.max_header_bytes.saturating_mul(4).max(8_192),
            read_timeout: Duration::from_millis(server.read_timeout_ms),
            shutdown_timeout: Duration::from_millis(server.shutdown_timeout_ms),
        }
    }
}

/// Serves until it is told to stop.
pub(crate) async fn serve(
    listener: TcpListener,
    app: Router,
    limits: Limits,
    mut stopping: watch::Receiver<bool>,
) -> Stopped {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    connections.spawn(connection(stream, peer, app.clone(), limits, stopping.clone()));
                }
                Err(error) => {
                    // Out of file descriptors, most likely: give those in use time to close.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            },
            Some(_) = connections.join_next() => {}
            () = told(&mut stopping) => break,
        }
    }
    drop(listener);
    let ended = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(limits.shutdown_timeout, ended).await.is_ok() {
        return Stopped::default();
    }
    let cut = connections.len();
    // Aborting drops the answers, and with them their leases.
    connections.shutdown().await;
    tracing::warn!(cut, "connections cut: they did not end in time");
    Stopped { cut }
}

async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    app: Router,
    limits: Limits,
    mut stopping: watch::Receiver<bool>,
) {
    // Chunks go out as they come.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "no nodelay");
    }
    let app = TowerToHyperService::new(app);
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(peer));
        app.call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.read_timeout)
        .max_buf_size(limits.header_bytes)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = told(&mut stopping) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection ended");
    }
}

/// Returns when the gateway is told to stop, or is gone.
pub(crate) async fn told(stopping: &mut watch::Receiver<bool>) {
    if stopping.wait_for(|&stop| stop).await.is_err() {
        tracing::debug!("the gateway is gone");
    }
}
