//! The one crate that a passhost plugin depends on.

pub mod meta;
