//! Plugins on disk: the manifest that lists them, the lockfile that pins them, crates that are built, and libraries that are
//! checked and opened.

pub mod crates;
pub mod declared;
pub(crate) mod hashes;
pub mod library;
pub mod limits;
mod links;
pub mod loader;
pub mod lock;
pub mod manifest;
mod manifest_keys;
pub mod object_file;
pub(crate) mod target;

/// Target triple of this host, and so of each library that it can open.
pub(crate) const TRIPLE: &str = env!("PASSHOST_TARGET");
