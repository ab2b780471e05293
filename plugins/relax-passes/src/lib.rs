//! Standard Relax passes, one file each.
#![forbid(unsafe_code)]

pub mod algebra;
pub mod canonicalize_bindings;
pub mod config;
pub mod convert_to_dataflow;
pub mod dead_code_elimination;
mod devices;
pub mod eliminate_common_subexpr;
pub mod fold_constant;
pub mod functions;
pub mod fusion;
pub mod legalize_ops;
pub mod lowering;
pub mod normalize;
pub mod print_ir;
pub mod to_non_dataflow;
pub mod topological_sort;

use algebra::{
    backward_fold_scale_axis, combine_parallel_matmul, decompose_ops, decompose_ops_for_training, expand_matmul_of_sum,
    fma_rewrite, fold_scale_axis, forward_fold_scale_axis, remove_redundant_reshape, reorder_permute_dims_after_concat,
    reorder_take_after_matmul, rewrite_transposed_matmul,
};
use functions::{
    attach_global_symbol, bind_params, bind_symbolic_vars, expand_tuple_arguments, inline_private_functions,
    lambda_lift, normalize_global_var, remove_unused_outputs, remove_unused_parameters,
    specialize_prim_func_based_on_call_site,
};
use fusion::{fuse_ops, fuse_ops_by_pattern, fuse_tir, merge_composite_functions};
use lowering::{
    annotate_tir_op_pattern, call_tir_rewrite, compute_prim_value, remove_purity_checking, rewrite_dataflow_reshape,
};
use plugin_api::prelude::*;

export_plugin! {
    passes: [
        normalize::NORMALIZE,
        canonicalize_bindings::CANONICALIZE_BINDINGS,
        eliminate_common_subexpr::ELIMINATE_COMMON_SUBEXPR,
        dead_code_elimination::DEAD_CODE_ELIMINATION,
        convert_to_dataflow::CONVERT_TO_DATAFLOW,
        to_non_dataflow::TO_NON_DATAFLOW,
        print_ir::PRINT_IR,
        legalize_ops::LEGALIZE_OPS,
        fold_constant::FOLD_CONSTANT,
        attach_global_symbol::ATTACH_GLOBAL_SYMBOL,
        normalize_global_var::NORMALIZE_GLOBAL_VAR,
        remove_purity_checking::REMOVE_PURITY_CHECKING,
        compute_prim_value::COMPUTE_PRIM_VALUE,
        rewrite_dataflow_reshape::REWRITE_DATAFLOW_RESHAPE,
        call_tir_rewrite::CALL_TIR_REWRITE,
        annotate_tir_op_pattern::ANNOTATE_TIR_OP_PATTERN,
        fuse_ops::FUSE_OPS,
        fuse_tir::FUSE_TIR,
        fuse_ops_by_pattern::FUSE_OPS_BY_PATTERN,
        merge_composite_functions::MERGE_COMPOSITE_FUNCTIONS,
        bind_params::BIND_PARAMS,
        bind_symbolic_vars::BIND_SYMBOLIC_VARS,
        topological_sort::TOPOLOGICAL_SORT,
        remove_unused_parameters::REMOVE_UNUSED_PARAMETERS,
        remove_unused_outputs::REMOVE_UNUSED_OUTPUTS,
        expand_tuple_arguments::EXPAND_TUPLE_ARGUMENTS,
        lambda_lift::LAMBDA_LIFT,
        inline_private_functions::INLINE_PRIVATE_FUNCTIONS,
        specialize_prim_func_based_on_call_site::SPECIALIZE_PRIM_FUNC_BASED_ON_CALL_SITE,
        combine_parallel_matmul::COMBINE_PARALLEL_MATMUL,
        expand_matmul_of_sum::EXPAND_MATMUL_OF_SUM,
        reorder_take_after_matmul::REORDER_TAKE_AFTER_MATMUL,
        reorder_permute_dims_after_concat::REORDER_PERMUTE_DIMS_AFTER_CONCAT,
        remove_redundant_reshape::REMOVE_REDUNDANT_RESHAPE,
        decompose_ops::DECOMPOSE_OPS_FOR_INFERENCE,
        decompose_ops_for_training::DECOMPOSE_OPS_FOR_TRAINING,
        fma_rewrite::FMA_REWRITE,
        rewrite_transposed_matmul::REWRITE_TRANSPOSED_MATMUL,
        backward_fold_scale_axis::BACKWARD_FOLD_SCALE_AXIS,
        forward_fold_scale_axis::FORWARD_FOLD_SCALE_AXIS,
    ],
    composites: [fold_scale_axis::FOLD_SCALE_AXIS],
    config: [
        config::USE_CUDA_GRAPH,
        config::FALLBACK_DEVICE_TYPE,
        config::FUSE_OPS_MAX_DEPTH,
        config::APPLY_LEGALIZE_OPS,
        config::CONSUME_PARAMS,
    ],
    properties: [normalize::ANF, to_non_dataflow::NO_DATAFLOW],
}
