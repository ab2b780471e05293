//! Passes that replace expressions by equivalent expressions.

pub mod backward_fold_scale_axis;
pub mod combine_parallel_matmul;
pub mod decompose_ops;
pub mod decompose_ops_for_training;
pub mod expand_matmul_of_sum;
pub mod fma_rewrite;
pub mod fold_scale_axis;
pub mod forward_fold_scale_axis;
pub mod remove_redundant_reshape;
pub mod reorder_permute_dims_after_concat;
pub mod reorder_take_after_matmul;
pub mod rewrite_transposed_matmul;
mod until_stable;
