//! Indices: as sums, in the form in which TVM writes them, and between what they lie.

pub(crate) mod conditions;
pub(crate) mod iter_context;
mod iter_sum;
pub(crate) mod linear;
pub(crate) mod reached;
