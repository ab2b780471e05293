//! Indices in TVM's form.

pub(crate) mod iter_context;
mod iter_sum;
