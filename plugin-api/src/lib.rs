//! The one crate that a passhost plugin depends on.

pub mod abi;
pub mod arith;
pub mod block_builder;
pub mod contributions;
pub mod decl;
pub mod diagnostics;
pub mod dump;
mod forms;
pub mod functor;
pub mod index;
pub mod infer_types;
mod inline;
pub mod instrument;
pub mod ir;
mod macros;
mod macros_more;
pub mod meta;
pub mod names;
pub mod normalize;
pub mod numbering;
pub mod op;
pub mod op_check;
pub mod options;
pub mod outline;
mod outputs;
pub mod pass;
pub mod prelude;
pub mod rewrite;
pub mod scoped_map;
pub mod ty_rel;
pub mod unused;
pub mod users;
pub mod visible;
pub mod visit;

pub use tracing;
