//! Plugins on disk: the manifest lists them, the lockfile pins them, crates are built, and libraries are checked and opened.

pub(crate) mod amounts;
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

/// Target triple of this host, and thus of every library that it can open.
pub(crate) const TRIPLE: &str = env!("PASSHOST_TARGET");
