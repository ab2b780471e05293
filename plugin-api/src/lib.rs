//! The one crate that a passhost plugin depends on.

pub mod abi;
pub mod arith;
pub mod decl;
pub mod ir;
mod macros;
pub mod meta;
pub mod op;
pub mod options;
pub mod outline;
pub mod pass;
pub mod prelude;
pub mod scoped_map;
pub mod ty_rel;

pub use tracing;
