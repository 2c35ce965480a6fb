//! Upstreams that break off, stall, reset and lie.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::dice::below;

/// The number of a question that every upstream serves.
pub(crate) const GENTLE: u64 = u64::MAX;

const SERVED: &str = r#"{"id": "x", "choices": [], "usage": {"prompt_tokens": 7}}"#;
const EVENT: &str = "data: {\"choices\": []}\n\n";
const STREAM: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

/// An upstream, one question per connection. It ends when it is dropped.
pub(crate) struct Upstream {
    address: SocketAddr,
    /// How often each question was asked.
    asked: Arc<Mutex<HashMap<u64, u64>>>,
    server: JoinHandle<()>,
}

impl Upstream {
    pub(crate) async fn start(seed: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(HashMap::new()));
        let counts = Arc::clone(&asked);
        let server = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let counts = Arc::clone(&counts);
                tokio::spawn(serve(stream, seed, counts));
            }
        });
        Self { address, asked, server }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn calls(&self) -> usize {
        let asked = self.asked.lock().unwrap();
        usize::try_from(asked.values().sum::<u64>()).unwrap()
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn serve(mut stream: TcpStream, seed: u64, counts: Arc<Mutex<HashMap<u64, u64>>>) {
    let Some(number) = question(&mut stream).await else {
        return;
    };
    let times = {
        let mut counts = counts.lock().unwrap();
        let times = counts.entry(number).or_default();
        *times += 1;
        *times
    };
    let chance = if number == GENTLE { 0 } else { below(100, &[seed, number, times, 2]) };
    // The other side may have left.
    drop(answer(&mut stream, chance).await);
}

/// Answers as chance has it.
async fn answer(stream: &mut TcpStream, chance: u64) -> std::io::Result<()> {
    match chance {
        0..35 => whole(stream, "200 OK", "", SERVED).await,
        35..60 => {
            stream.write_all(STREAM.as_bytes()).await?;
            for _ in 0..6 {
                chunk(stream, EVENT).await?;
                sleep(Duration::from_millis(3)).await;
            }
            chunk(stream, "data: [DONE]\n\n").await?;
            stream.write_all(b"0\r\n\r\n").await
        }
        // A reset, before anything or after something.
        60..65 => stream.set_zero_linger(),
        65..70 => {
            stream.write_all(STREAM.as_bytes()).await?;
            chunk(stream, EVENT).await?;
            sleep(Duration::from_millis(3)).await;
            stream.set_zero_linger()
        }
        // Silence, before anything, after the head, and after something.
        70..75 => gone(stream).await,
        75..78 => {
            stream.write_all(STREAM.as_bytes()).await?;
            gone(stream).await
        }
        78..83 => {
            stream.write_all(STREAM.as_bytes()).await?;
            chunk(stream, EVENT).await?;
            gone(stream).await
        }
        // The end in the middle of a chunk.
        83..87 => {
            stream.write_all(STREAM.as_bytes()).await?;
            stream.write_all(b"ff\r\ndata: {\"cho").await
        }
        // Less than was announced, with one side of the connection left open.
        87..90 => {
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 999\r\n\r\n{\"id\": ").await?;
            stream.shutdown().await?;
            gone(stream).await
        }
        90..93 => stream.write_all(b"!?\r\n\r\n").await,
        93..97 => whole(stream, "500 Oops", "", "{}").await,
        _ => whole(stream, "429 Slow", "retry-after-ms: 20\r\n", "{}").await,
    }
}

async fn whole(
    stream: &mut TcpStream,
    status: &str,
    headers: &str,
    body: &str,
) -> std::io::Result<()> {
    let length = body.len();
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\
         connection: close\r\n{headers}\r\n{body}"
    );
    stream.write_all(answer.as_bytes()).await
}

async fn chunk(stream: &mut TcpStream, data: &str) -> std::io::Result<()> {
    stream.write_all(format!("{:x}\r\n{data}\r\n", data.len()).as_bytes()).await
}

/// Returns when the other side has left.
async fn gone(stream: &mut TcpStream) -> std::io::Result<()> {
    let mut buffer = [0; 256];
    while stream.read(&mut buffer).await? > 0 {}
    Ok(())
}

/// The number of the question that comes; none when it does not come to its end.
async fn question(stream: &mut TcpStream) -> Option<u64> {
    let mut text = String::new();
    let mut buffer = [0; 2_048];
    loop {
        if let Some((_, number)) = text.split_once("\"number\": ")
            && let Some((number, _)) = number.split_once('}')
        {
            return number.parse().ok();
        }
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return None,
            Ok(read) => text.push_str(std::str::from_utf8(&buffer[..read]).ok()?),
        }
    }
}
