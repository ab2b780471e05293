//! Indices in TVM's form.

pub(crate) mod iter_context;
pub(crate) mod iter_sum;
