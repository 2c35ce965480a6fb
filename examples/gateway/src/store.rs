//! The pool's state on disk.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use account_pool::Snapshot;

/// Why the state was not written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the state to {}: {error}", path.display())]
pub struct SaveError {
    path: PathBuf,
    #[source]
    error: io::Error,
}

/// Writes a snapshot so that the file is at any time the old one or the new one, whole.
///
/// # Errors
///
/// [`SaveError`] names the file; the old one is still there.
pub fn save(path: &Path, snapshot: &Snapshot) -> Result<(), SaveError> {
    write(path, snapshot).map_err(|error| SaveError { path: path.to_owned(), error })
}

fn write(path: &Path, snapshot: &Snapshot) -> io::Result<()> {
    let beside = sibling(path, "new");
    let mut file = File::create(&beside)?;
    let text = serde_json::to_vec(snapshot)?;
    file.write_all(&text)?;
    file.sync_all()?;
    drop(file);
    fs::rename(&beside, path)
}

/// Reads the snapshot of an earlier run. `None` for a first run, and for a file that is none,
/// which is set aside with a warning: the gateway starts all the same.
#[must_use]
pub fn load(path: &Path) -> Option<Snapshot> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "cannot read the state: starting afresh");
            return None;
        }
    };
    match serde_json::from_slice(&text) {
        Ok(snapshot) => Some(snapshot),
        Err(error) => {
            set_aside(path, &error);
            None
        }
    }
}

/// Moves a file that cannot be used out of the way, for somebody to look at.
pub(crate) fn set_aside(path: &Path, reason: &dyn std::fmt::Display) {
    let aside = sibling(path, "unusable");
    let moved = fs::rename(path, &aside);
    tracing::warn!(
        path = %path.display(),
        aside = %aside.display(),
        %reason,
        moved = moved.is_ok(),
        "the state cannot be used: set aside, starting afresh",
    );
}

fn sibling(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".");
    name.push(ending);
    path.with_file_name(name)
}
