//! Passes that lower Relax to calls that a machine can run.

pub mod annotate_tir_op_pattern;
pub mod call_tir_rewrite;
pub mod compute_prim_value;
pub(crate) mod op_pattern;
pub mod remove_purity_checking;
mod reshape_pattern;
pub mod rewrite_dataflow_reshape;
