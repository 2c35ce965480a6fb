//! Upstreams that do as they are told, byte by byte.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// One request on a connection of its own.
pub(crate) struct Call {
    pub(crate) number: usize,
    pub(crate) head: String,
    pub(crate) body: String,
    pub(crate) stream: TcpStream,
}

impl Call {
    /// Sends bytes. The other side may have left.
    pub(crate) async fn say(&mut self, bytes: impl AsRef<[u8]>) {
        drop(self.stream.write_all(bytes.as_ref()).await);
    }

    /// Sends a whole answer and closes.
    pub(crate) async fn answer(&mut self, status: &str, headers: &str, body: &str) {
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n"
        );
        self.say(head + body).await;
    }

    pub(crate) async fn serve(&mut self) {
        self.answer("200 OK", "content-type: application/json\r\n", super::SERVED).await;
    }

    /// Begins a stream of events, chunked.
    pub(crate) async fn begin(&mut self) {
        self.say("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n").await;
        self.say("transfer-encoding: chunked\r\n\r\n").await;
    }

    pub(crate) async fn chunk(&mut self, data: &str) {
        self.say(format!("{:x}\r\n{data}\r\n", data.len())).await;
    }

    /// Returns when the other side has closed.
    pub(crate) async fn gone(&mut self) {
        let mut buffer = [0; 1_024];
        while !matches!(self.stream.read(&mut buffer).await, Ok(0) | Err(_)) {}
    }
}

/// A scripted upstream. It ends when it is dropped.
pub(crate) struct Upstream {
    address: SocketAddr,
    /// The heads of the requests.
    calls: Arc<Mutex<Vec<(String, String)>>>,
    server: JoinHandle<()>,
}

impl Upstream {
    pub(crate) async fn start<F>(script: impl Fn(Call) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let calls = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&calls);
        let script = Arc::new(script);
        let server = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (seen, script) = (Arc::clone(&seen), Arc::clone(&script));
                tokio::spawn(async move {
                    if let Some(mut call) = hear(stream).await {
                        {
                            let mut seen = seen.lock().unwrap();
                            call.number = seen.len() + 1;
                            seen.push((call.head.clone(), call.body.clone()));
                        }
                        script(call).await;
                    }
                });
            }
        });
        Self { address, calls, server }
    }

    /// One that serves every request.
    pub(crate) async fn serving() -> Self {
        Self::start(async |mut call: Call| call.serve().await).await
    }

    /// One that refuses every request.
    pub(crate) async fn refusing(
        status: &'static str,
        headers: &'static str,
        body: &'static str,
    ) -> Self {
        Self::start(move |mut call: Call| async move { call.answer(status, headers, body).await })
            .await
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many requests came.
    pub(crate) fn calls(&self) -> usize {
        self.calls.lock().unwrap().len()
    }

    /// Head and body of the last request.
    pub(crate) fn last(&self) -> (String, String) {
        self.calls.lock().unwrap().last().cloned().expect("a request came")
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// Reads one request.
async fn hear(mut stream: TcpStream) -> Option<Call> {
    let mut text = Vec::new();
    let head_end = loop {
        if let Some(at) = text.windows(4).position(|it| it == b"\r\n\r\n") {
            break at + 4;
        }
        let mut buffer = [0; 4_096];
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return None,
            Ok(read) => text.extend_from_slice(&buffer[..read]),
        }
    };
    let head = String::from_utf8_lossy(&text[..head_end]).to_ascii_lowercase();
    let length = head.split("content-length: ").nth(1);
    let length: usize = length.and_then(|it| it.split("\r\n").next()?.parse().ok()).unwrap_or(0);
    let mut body = text[head_end..].to_vec();
    let had = body.len();
    body.resize(length, 0);
    if had < length {
        stream.read_exact(&mut body[had..]).await.ok()?;
    }
    Some(Call { number: 0, head, body: String::from_utf8_lossy(&body).into_owned(), stream })
}
