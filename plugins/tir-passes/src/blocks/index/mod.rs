//! Indices in the form in which TVM writes them.

pub(crate) mod iter_context;
mod iter_sum;
