//! The configuration file, followed while the gateway runs.

use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::config::Settings;
use crate::gateway::{Gateway, StartError};

/// How often the file is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Follows the file for ever: whenever it was written, and on SIGHUP.
pub async fn follow(gateway: &Gateway, path: &Path) {
    let mut hangups = Hangups::new();
    let mut seen = written(path);
    loop {
        tokio::select! {
            () = hangups.next() => {}
            () = tokio::time::sleep(LOOK_EVERY) => {
                let now = written(path);
                if now == seen || now.is_none() {
                    continue;
                }
                seen = now;
            }
        }
        reload(gateway, path);
    }
}

/// Reads the file and follows it. One that is wrong changes nothing, and the log says why.
pub fn reload(gateway: &Gateway, path: &Path) {
    let file = path.display();
    let settings = Settings::load(path).map_err(StartError::from);
    match settings.and_then(|settings| gateway.reload(settings)) {
        Ok(changes) => tracing::info!(%file, %changes, "configuration reloaded"),
        Err(error) => {
            tracing::error!(%file, %error, "configuration refused: the old one stays in force");
        }
    }
}

fn written(path: &Path) -> Option<SystemTime> {
    path.metadata().and_then(|it| it.modified()).ok()
}

/// SIGHUP, where there is such a thing.
struct Hangups {
    #[cfg(unix)]
    signal: Option<tokio::signal::unix::Signal>,
}

impl Hangups {
    #[cfg(unix)]
    fn new() -> Self {
        use tokio::signal::unix::{SignalKind, signal};
        Self { signal: signal(SignalKind::hangup()).ok() }
    }

    #[cfg(not(unix))]
    fn new() -> Self {
        Self {}
    }

    async fn next(&mut self) {
        #[cfg(unix)]
        if let Some(signal) = &mut self.signal
            && signal.recv().await.is_some()
        {
            return;
        }
        std::future::pending::<()>().await;
    }
}
