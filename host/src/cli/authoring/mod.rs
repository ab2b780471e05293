//! Commands for plugin authors: create a plugin crate, and package a finished one.

pub(super) mod new;
pub(super) mod package;
mod wheel;
