//! The pool follows the configuration.

use std::collections::{BTreeSet, HashSet};
use std::fmt;

use account_pool::{AccountError, AccountId, Dimension, Pool, Snapshot};
use account_pool::{SnapshotError, SystemClock};

use crate::config::{AccountConfig, ConfigError, Environment, Settings};
use crate::upstream::{GatewayPool, Upstream};

/// The accounts of a configuration that holds together.
#[derive(Debug)]
pub struct Roster {
    policy: account_pool::Config,
    accounts: Vec<(AccountConfig, Upstream)>,
}

/// What following a configuration changed.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Changes {
    /// The accounts that are new.
    pub added: Vec<AccountId>,
    /// The accounts that are gone.
    pub removed: Vec<AccountId>,
    /// The accounts whose credential or place is another.
    pub moved: Vec<AccountId>,
}

impl fmt::Display for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { added, removed, moved } = self;
        write!(f, "added {added:?}, removed {removed:?}, moved {moved:?}")
    }
}

impl Roster {
    /// Checks the accounts as a pool would, and reads their credentials.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] names the account and the field.
    pub fn read(settings: &Settings, environment: Environment<'_>) -> Result<Self, ConfigError> {
        // A pool tells what is wrong with an account when it is added, and no earlier.
        let trial: Pool<()> = Pool::new(settings.pool.clone())
            .map_err(|error| ConfigError::field(format!("pool.{}", error.field()), error))?;
        let mut accounts = Vec::with_capacity(settings.accounts.len());
        for account in &settings.accounts {
            trial.add(account.account(), ()).map_err(|error| {
                ConfigError::field(
                    format!("accounts.{}", account.id),
                    format!("cannot be: {error}"),
                )
            })?;
            accounts.push((account.clone(), account.upstream(environment)?));
        }
        Ok(Self { policy: settings.pool.clone(), accounts })
    }

    /// A new pool.
    pub(crate) fn build(&self) -> Result<GatewayPool, RosterError> {
        let pool = Pool::new(self.policy.clone())?;
        self.follow(&pool)?;
        Ok(pool)
    }

    /// The pool that a snapshot describes, brought up to date.
    pub(crate) fn restore(
        &self,
        snapshot: &Snapshot,
    ) -> Result<(GatewayPool, Changes), RosterError> {
        let attach = |id: &AccountId| {
            let known = self.accounts.iter().find(|(account, _)| *id == account.id.as_str());
            known.map(|(_, upstream)| upstream.clone())
        };
        let clock = SystemClock::default();
        let (pool, left_out) = Pool::restore(self.policy.clone(), snapshot, clock, attach)?;
        let mut changes = self.follow(&pool)?;
        changes.removed.extend(left_out);
        Ok((pool, changes))
    }

    /// Makes the pool's accounts those of the configuration. State stays: usage, load, blocks and
    /// bindings of every account that is still there; requests under way go on.
    pub(crate) fn follow(&self, pool: &GatewayPool) -> Result<Changes, RosterError> {
        let mut changes = Changes::default();
        pool.set_config(self.policy.clone())?;
        let wanted: HashSet<&str> =
            self.accounts.iter().map(|(account, _)| account.id.as_str()).collect();
        for id in pool.accounts() {
            if !wanted.contains(id.as_str()) {
                pool.remove(id.as_str());
                changes.removed.push(id);
            }
        }
        for (config, upstream) in &self.accounts {
            let id = config.id.as_str();
            match pool.payload(id) {
                None => {
                    pool.add(config.account(), upstream.clone())?;
                    changes.added.push(id.into());
                }
                Some(before) => {
                    update(pool, config)?;
                    if *before != *upstream {
                        replace(pool, id, &before, upstream)?;
                        changes.moved.push(id.into());
                    }
                }
            }
        }
        Ok(changes)
    }
}

fn update(pool: &GatewayPool, config: &AccountConfig) -> Result<(), AccountError> {
    let id = config.id.as_str();
    let blocked: BTreeSet<String> = config.blocked_models.iter().cloned().collect();
    pool.set_plan(id, &config.plan())?;
    pool.set_models(id, &config.entitlement())?;
    pool.set_selectors(id, &config.selectors())?;
    pool.set_blocked_models(id, &blocked)
}

fn replace(
    pool: &GatewayPool,
    id: &str,
    before: &Upstream,
    upstream: &Upstream,
) -> Result<(), AccountError> {
    pool.set_payload(id, upstream.clone())?;
    if before.credential != upstream.credential {
        // The upstream rejected the old credential, not this one.
        pool.clear_blocks(id, Some(Dimension::Auth))?;
    }
    Ok(())
}

/// A pool that could not be made to follow.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RosterError {
    /// The policy was refused.
    #[error("in [pool]: {0}")]
    Policy(#[from] account_pool::ConfigError),
    /// An account was refused.
    #[error(transparent)]
    Account(#[from] AccountError),
    /// The snapshot was refused.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
}
