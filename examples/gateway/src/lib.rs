//! A gateway on `account-pool`.

pub mod status;
