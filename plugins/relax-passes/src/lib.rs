//! Standard passes of Relax, one file each.
#![forbid(unsafe_code)]

pub mod canonicalize_bindings;
pub mod config;
pub mod convert_to_dataflow;
pub mod dead_code_elimination;
pub mod eliminate_common_subexpr;
pub mod normalize;
pub mod print_ir;
pub mod to_non_dataflow;

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
    ],
    config: [
        config::USE_CUDA_GRAPH,
        config::FALLBACK_DEVICE_TYPE,
        config::FUSE_OPS_MAX_DEPTH,
        config::APPLY_LEGALIZE_OPS,
        config::CONSUME_PARAMS,
    ],
    properties: [normalize::ANF, to_non_dataflow::NO_DATAFLOW],
}
