//! Everything that is logged, at the finest level.

use std::io;
use std::sync::{Mutex, Once, PoisonError};

use tracing_subscriber::fmt::MakeWriter;

static LOG: Mutex<String> = Mutex::new(String::new());

struct Keep;

impl io::Write for Keep {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut log = LOG.lock().unwrap_or_else(PoisonError::into_inner);
        log.push_str(&String::from_utf8_lossy(line));
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct KeepAll;

impl MakeWriter<'_> for KeepAll {
    type Writer = Keep;

    fn make_writer(&self) -> Keep {
        Keep
    }
}

pub(super) fn start() {
    static START: Once = Once::new();
    START.call_once(|| {
        tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .with_ansi(false)
            .with_writer(KeepAll)
            .init();
    });
}

/// All lines so far.
pub(crate) fn lines() -> String {
    LOG.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// The lines of one request.
pub(crate) fn lines_of(id: &str) -> Vec<String> {
    lines().lines().filter(|line| line.contains(id)).map(str::to_owned).collect()
}
