//! The one crate that a passhost plugin depends on.

pub mod abi;
pub mod ir;
pub mod meta;
pub mod op;
