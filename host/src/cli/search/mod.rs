//! Commands that search: `reduce` for the smallest module with a fault, `bisect` for the pass that introduces it.

mod between;
mod bisect;
mod predicate;
pub(in crate::cli) mod prepared;
mod reduce;
mod rewrites;
mod smaller;
mod text;
pub(in crate::cli) mod tied;

pub(super) use bisect::{BisectArgs, bisect};
pub(super) use reduce::{ReduceArgs, reduce};
pub(super) use tied::tied;
