//! What is wrong with a configuration.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// A configuration that cannot be used. The message names the field and what it takes.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct ConfigError(#[from] Kind);

#[derive(Debug, thiserror::Error)]
enum Kind {
    #[error("cannot read {}: {error}; name a file with --config, or try --demo", path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        error: io::Error,
    },
    #[error("{0}")]
    Syntax(#[source] toml::de::Error),
    #[error("`{field}` {problem}")]
    Field { field: String, problem: String },
}

impl ConfigError {
    pub(super) fn unreadable(path: &Path, error: io::Error) -> Self {
        Self(Kind::Unreadable { path: path.to_owned(), error })
    }

    /// A field and what is wrong with it.
    pub(crate) fn field(field: impl Into<String>, problem: impl fmt::Display) -> Self {
        Self(Kind::Field { field: field.into(), problem: problem.to_string() })
    }

    pub(super) fn pool(error: &account_pool::ConfigError) -> Self {
        // The pool's message begins with the path within the table; make it the path in the file.
        let message = error.to_string();
        let problem = message.split_once("` ").map_or(message.as_str(), |(_, problem)| problem);
        Self::field(format!("pool.{}", error.field()), problem)
    }
}

impl From<toml::de::Error> for ConfigError {
    fn from(error: toml::de::Error) -> Self {
        Self(Kind::Syntax(error))
    }
}

pub(super) fn ensure(
    holds: bool,
    field: impl Into<String>,
    problem: &str,
) -> Result<(), ConfigError> {
    if holds { Ok(()) } else { Err(ConfigError::field(field, problem)) }
}
