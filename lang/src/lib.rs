//! The IR of passhost's passes, independent of plugins.
//!
//! Pass authors do not depend on this crate directly: `plugin_api` re-exports its modules under the same
//! names.
//!
//! | module | contents |
//! |---|---|
//! | [`names`] | names, their syntax, fresh names, and suggestions for misspelt ones |
//! | [`scalar`] | data types, elements, operations and intrinsics |
//! | [`ir`] | functions, modules, types, constants, equality and hash |
//! | [`metadata`] | the metadata of a plugin: its declarations, in a section that is read without running code |
//! | [`walk`] | visitors, users of values, maps by value, in-place updates |
//! | [`rewrite`] | edits, rewriters, grouping of calls |
//! | [`pattern`] | patterns of values, the search for them, and explanations of failed matches |
//! | [`arith`] | the analyser for dimensions and indices |
//! | [`tir`] | writing and reading TIR; the regions that blocks access |
//! | [`typing`] | operators, types of calls, inference, normalization |
//! | [`build`] | builders for functions and modules |

pub mod arith;
pub mod build;
pub mod ir;
pub mod metadata;
pub mod names;
mod pass_error;
pub mod pattern;
pub mod rewrite;
pub mod scalar;
pub mod tir;
pub mod typing;
pub mod walk;

pub use pass_error::PassError;
