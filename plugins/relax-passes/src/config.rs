//! TVM's Relax config options. The passes of this plugin do not read them; passes of other plugins do. Declaring them
//! here lets a context written for TVM be used unchanged.

use plugin_api::prelude::*;

declare_config! {
    /// Whether the functions of a module are captured as CUDA graphs when it is built.
    pub USE_CUDA_GRAPH: bool = "relax.backend.use_cuda_graph" { default: false }
}

declare_config! {
    /// Kind of device, as DLPack numbers them, on which values are that have no other.
    pub FALLBACK_DEVICE_TYPE: i64 = "relax.fallback_device_type" { default: 1, range: 1.. }
}

declare_config! {
    /// Most operators that operator fusion puts into one function.
    pub FUSE_OPS_MAX_DEPTH: i64 = "relax.FuseOps.max_depth" { default: 256, range: 1.. }
}

declare_config! {
    /// Whether a pass that makes calls of operators legalizes these at once.
    pub APPLY_LEGALIZE_OPS: bool = "relax.transform.apply_legalize_ops" { default: true }
}

declare_config! {
    /// Whether a lifted function that transforms parameters gives up each of them once it is used.
    pub CONSUME_PARAMS: bool = "relax.lift_transform_params.consume_params" { default: false }
}
