//! TVM's Relax config options. The passes of this plugin do not read them; passes of other plugins do. Declaring them
//! here lets a context written for TVM be used unchanged.

use plugin_api::prelude::*;

declare_config! {
    /// True to capture the functions of a module as CUDA graphs when it is built.
    pub USE_CUDA_GRAPH: bool = "relax.backend.use_cuda_graph" { default: false }
}

declare_config! {
    /// The kind of device, by its DLPack number, for values without a device.
    pub FALLBACK_DEVICE_TYPE: i64 = "relax.fallback_device_type" { default: 1, range: 1.. }
}

declare_config! {
    /// The maximum number of operators in a fused function.
    pub FUSE_OPS_MAX_DEPTH: i64 = "relax.FuseOps.max_depth" { default: 256, range: 1.. }
}

declare_config! {
    /// True if a pass that creates operator calls legalizes them immediately.
    pub APPLY_LEGALIZE_OPS: bool = "relax.transform.apply_legalize_ops" { default: true }
}

declare_config! {
    /// True if a lifted function that transforms parameters releases each parameter after its last use.
    pub CONSUME_PARAMS: bool = "relax.lift_transform_params.consume_params" { default: false }
}
