//! Interleavings.
#![cfg(pool_shuttle)]
