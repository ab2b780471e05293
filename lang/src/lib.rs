//! The language that passhost's passes work on, without anything about plugins.
//!
//! Authors of passes do not name this crate: `plugin_api` exports its modules under the same names.
//!
//! | module | contents |
//! |---|---|
//! | [`names`] | names, their syntax, fresh names, and the nearest of misspelt ones |
//! | [`ir`] | functions, modules, types, constants, equality and hash |
//! | [`metadata`] | the metadata of a plugin: what it declares, in a section that is read without running code |
//! | [`walk`] | visitors, users of values, maps by value, in-place updates |
//! | [`rewrite`] | edits, rewriters, grouping of calls |
//! | [`pattern`] | patterns of values, the search for them, and why one did not match |
//! | [`arith`] | the analyser of dimensions and indices |
//! | [`tir`] | writes and reads TIR; the regions that blocks access |
//! | [`typing`] | operators, types of calls, inference, normalization |
//! | [`build`] | builders of functions and modules |

pub mod arith;
pub mod build;
pub mod ir;
pub mod metadata;
pub mod names;
mod pass_error;
pub mod pattern;
pub mod rewrite;
pub mod tir;
pub mod typing;
pub mod walk;

pub use pass_error::PassError;
