//! An upstream and a load in the same process, for a first look.
//!
//! [`upstream`] imitates the providers: accounts with limits, random throttles, and prompt caches
//! that forget nothing for a while. [`load`] holds conversations with a gateway, [`show`] runs the
//! whole demonstration and prints what came of it.

mod cache;
mod dice;
pub mod load;
pub mod show;
mod speech;
mod tables;
pub mod upstream;
