//! Cooldowns and expiry: cases C26 to C48.
