//! The operator's token.

use std::env;
use std::fmt;

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// The secret that permits administration. Kept as a digest, never printed.
///
/// ```
/// use account_pool_gateway::status::AdminToken;
///
/// let token = AdminToken::new("a long and random text")?;
/// assert!(token.is("a long and random text"));
/// assert!(!token.is("a guess"));
/// assert_eq!(format!("{token:?}"), "AdminToken(…)");
/// # Ok::<(), account_pool_gateway::status::TokenError>(())
/// ```
#[derive(Clone)]
pub struct AdminToken {
    digest: [u8; 32],
}

impl AdminToken {
    /// The fewest bytes of a token.
    pub const MIN_LENGTH: usize = 16;

    /// The token of that text, apart from white space around it.
    ///
    /// # Errors
    ///
    /// [`TokenError::TooShort`] for less than [`MIN_LENGTH`](Self::MIN_LENGTH) bytes.
    pub fn new(token: &str) -> Result<Self, TokenError> {
        let token = token.trim();
        if token.len() < Self::MIN_LENGTH {
            return Err(TokenError::TooShort);
        }
        Ok(Self { digest: Sha256::digest(token).into() })
    }

    /// The token in an environment variable; `None` when the variable is not set or blank.
    ///
    /// # Errors
    ///
    /// [`TokenError`], when there is something in it that is no token.
    pub fn from_env(variable: &str) -> Result<Option<Self>, TokenError> {
        match env::var(variable) {
            Ok(token) if token.trim().is_empty() => Ok(None),
            Ok(token) => Self::new(&token).map(Some),
            Err(env::VarError::NotPresent) => Ok(None),
            Err(env::VarError::NotUnicode(_)) => Err(TokenError::NotText),
        }
    }

    /// Whether `offered` is this token. Digests of equal length are compared in constant time, so
    /// the time taken tells neither the token's length nor how much of it was right.
    #[must_use]
    pub fn is(&self, offered: &str) -> bool {
        let offered: [u8; 32] = Sha256::digest(offered).into();
        self.digest.ct_eq(&offered).into()
    }
}

impl fmt::Debug for AdminToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AdminToken(…)")
    }
}

/// Why a text is no admin token.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// It is too short to withstand guessing.
    #[error("the admin token is too short: use at least 16 random characters")]
    TooShort,
    /// The environment variable does not hold text.
    #[error("the admin token is no valid UTF-8: use letters, digits and punctuation")]
    NotText,
}
