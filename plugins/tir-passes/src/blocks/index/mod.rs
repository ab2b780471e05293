//! Indices: as sums, in the form in which TVM writes them, between what they lie, and the regions that they reach.

pub(crate) mod conditions;
pub(crate) mod iter_context;
mod iter_sum;
pub(crate) mod linear;
pub(crate) mod reached;
pub(crate) mod region;
