//! The one crate that a passhost plugin depends on.

pub mod abi;
pub mod arith;
pub mod build;
pub mod declare;
pub mod ir;
pub mod metadata;
pub mod names;
mod pass_error;
pub mod prelude;
pub mod rewrite;
pub mod services;
pub mod tir;
pub mod typing;
pub mod walk;

pub use pass_error::PassError;

pub use tracing;
