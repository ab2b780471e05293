//! What authors of plugins use: a new crate, and a package of one that is done.

pub(super) mod new;
pub(super) mod package;
mod wheel;
