//! Python's IR objects: created from host bodies on access, and converted to bodies when the host needs them.

pub(crate) mod attrs;
pub(crate) mod classes;
pub(crate) mod constants;
pub(crate) mod expand;
pub(crate) mod infer;
pub(crate) mod legalized;
pub(crate) mod modules;
pub(crate) mod records;
pub(crate) mod scalars;
pub(crate) mod seal;
pub(crate) mod tables;
pub(crate) mod te;
pub(crate) mod tir;
pub(crate) mod types;
