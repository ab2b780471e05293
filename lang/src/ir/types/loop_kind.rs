//! Names of the loop kinds, as in [`Stmt::For`](crate::ir::Stmt::For).
//!
//! ```
//! use plugin_api::ir::loop_kind;
//! use plugin_api::prelude::*;
//!
//! fn is_vectorized(stmt: Value<'_>) -> bool {
//!     matches!(stmt.stmt(), Some(Stmt::For { kind: loop_kind::VECTORIZED, .. }))
//! }
//! ```

/// Iterations run in sequence.
pub const SERIAL: &str = "serial";
/// Iterations run on several threads.
pub const PARALLEL: &str = "parallel";
/// All iterations run as one vector operation.
pub const VECTORIZED: &str = "vectorized";
/// The loop is unrolled.
pub const UNROLL: &str = "unroll";
/// Iterations run on the threads of a device.
pub const THREAD_BINDING: &str = "thread_binding";
