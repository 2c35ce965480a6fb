//! Why a snapshot is not restored.

use crate::account::{AccountError, AccountId};
use crate::config::ConfigError;
use crate::snapshot::Snapshot;

/// A snapshot that was refused; nothing was made of it.
///
/// `part` names the field at fault, such as `bindings.trail`.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// It is of a format that this release does not know.
    #[error(
        "a snapshot of format {found} cannot be read: this release reads {}",
        Snapshot::VERSION
    )]
    Version {
        /// Its format.
        found: u32,
    },
    /// The configuration to restore under is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// An account is declared as no account can be: blank, duplicate, of a wrong weight or window,
    /// or of a status that cannot be set.
    #[error("account {account:?} of the snapshot: {error}")]
    Account {
        /// The account.
        account: AccountId,
        /// What is wrong with it.
        #[source]
        error: AccountError,
    },
    /// A binding names an account that is not among the accounts.
    #[error("the snapshot's bindings name account {0:?}, which is not in it")]
    UnknownAccount(AccountId),
    /// Times do not follow one another as they must, or lie after the snapshot was taken.
    #[error("`{part}` of the snapshot has times out of order")]
    TimeOrder {
        /// The field.
        part: &'static str,
    },
    /// A number is not finite, or outside its range.
    #[error("`{part}` of the snapshot is out of range")]
    Range {
        /// The field.
        part: &'static str,
    },
    /// A list is longer than it can become.
    #[error("`{part}` of the snapshot has more than {most} entries")]
    TooLong {
        /// The field.
        part: &'static str,
        /// How many there may be.
        most: usize,
    },
    /// Something that is there once at most is there twice.
    #[error("`{part}` of the snapshot names something twice")]
    Duplicate {
        /// The field.
        part: &'static str,
    },
    /// A field contradicts another.
    #[error("`{part}` of the snapshot contradicts the rest of it")]
    Inconsistent {
        /// The field.
        part: &'static str,
    },
}
