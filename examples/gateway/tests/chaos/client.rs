//! Clients that leave, in every way that there is.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::sleep;

use crate::dice::below;

/// What a client does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Way {
    /// Hears all of the answer.
    Patient,
    /// Closes its side after the question, and hears all of the answer.
    HalfClosed,
    /// Leaves after so many milliseconds, wherever the answer is then.
    Leaves(u64),
    /// Leaves likewise, by a reset.
    Resets(u64),
    /// Leaves with the first bytes of the answer.
    LeavesAtFirst,
    /// Leaves in the middle of its question.
    BreaksOff,
    /// Falls silent in the middle of its headers: the gateway must end it.
    SilentInHeaders,
    /// Falls silent in the middle of its body: the gateway must end it.
    SilentInBody,
    /// Hears the answer a little at a time.
    Slow,
}

impl Way {
    pub(crate) fn of(seed: u64, number: u64) -> Self {
        let milliseconds = below(40, &[seed, number, 1]);
        match below(100, &[seed, number, 0]) {
            0..40 => Self::Patient,
            40..45 => Self::HalfClosed,
            45..58 => Self::Leaves(milliseconds),
            58..70 => Self::Resets(milliseconds),
            70..82 => Self::LeavesAtFirst,
            82..88 => Self::BreaksOff,
            88..91 => Self::SilentInHeaders,
            91..94 => Self::SilentInBody,
            _ => Self::Slow,
        }
    }
}

/// What a request came to, as its client sees it.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum End {
    /// A whole answer with what was asked for.
    Served,
    /// A whole answer that tells what went wrong.
    Refused,
    /// A part of an answer, or none.
    Broken,
    /// The client did not wait.
    Left,
}

impl End {
    /// How many there are.
    pub(crate) const ALL: usize = 4;
}

/// Asks a question, in a way.
pub(crate) async fn ask(address: SocketAddr, number: u64, way: Way) -> End {
    let Ok(mut stream) = TcpStream::connect(address).await else {
        return End::Broken;
    };
    let body = format!(r#"{{"model": "m", "messages": [], "number": {number}}}"#);
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: g\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let question = format!("{head}{body}");
    let told = match way {
        Way::SilentInHeaders => head.len() / 2,
        Way::BreaksOff | Way::SilentInBody => head.len() + body.len() / 2,
        _ => question.len(),
    };
    if stream.write_all(&question.as_bytes()[..told]).await.is_err() {
        return End::Broken;
    }
    match way {
        Way::Patient | Way::SilentInHeaders | Way::SilentInBody => hear(stream, None).await,
        Way::Slow => hear(stream, Some(Duration::from_millis(2))).await,
        Way::HalfClosed => match stream.shutdown().await {
            Ok(()) => hear(stream, None).await,
            Err(_) => End::Broken,
        },
        Way::Leaves(milliseconds) => {
            sleep(Duration::from_millis(milliseconds)).await;
            End::Left
        }
        Way::Resets(milliseconds) => {
            sleep(Duration::from_millis(milliseconds)).await;
            stream.set_zero_linger().unwrap();
            End::Left
        }
        Way::LeavesAtFirst => match stream.read(&mut [0; 16]).await {
            Ok(0) | Err(_) => End::Broken,
            Ok(_) => End::Left,
        },
        Way::BreaksOff => End::Left,
    }
}

async fn hear(mut stream: TcpStream, pause: Option<Duration>) -> End {
    let mut answer = Vec::new();
    let mut part = [0; 256];
    loop {
        match stream.read(&mut part).await {
            Ok(0) => break,
            Ok(read) => answer.extend_from_slice(&part[..read]),
            Err(_) => return End::Broken,
        }
        if let Some(pause) = pause {
            sleep(pause).await;
        }
    }
    let answer = String::from_utf8(answer).unwrap();
    match answer.split_once("\r\n\r\n") {
        Some((head, body)) if is_whole(head, body) => {
            if head.starts_with("HTTP/1.1 200 ") {
                End::Served
            } else {
                End::Refused
            }
        }
        _ => End::Broken,
    }
}

/// Whether a body is as long as its head says.
fn is_whole(head: &str, body: &str) -> bool {
    let head = head.to_ascii_lowercase();
    match head.split_once("content-length: ") {
        Some((_, length)) => {
            length.lines().next().and_then(|it| it.parse().ok()) == Some(body.len())
        }
        None => body.ends_with("0\r\n\r\n"),
    }
}
