//! A gateway on `account-pool`.
