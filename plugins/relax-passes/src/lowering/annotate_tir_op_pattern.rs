//! Annotates each PrimFunc with its pattern for operator fusion.

use super::op_pattern::pattern_of;
use plugin_api::prelude::*;

declare_pass! {
    /// Annotates each PrimFunc with its operator pattern, the attribute `op_pattern`, which operator fusion needs.
    ///
    /// | `op_pattern` | each element of the result |
    /// |---|---|
    /// | 0 | comes from the elements at the same position |
    /// | 1 | comes from the elements at the same position of inputs that lack some of the dimensions |
    /// | 2 | comes from one element at a different position |
    /// | 3 | combines many elements, as a sum does |
    /// | 4 | combines many elements, as a matrix product does, and an elementwise function can be fused to it |
    /// | 8 | anything else |
    ///
    /// Expects PrimFuncs made of schedulable blocks. An existing pattern other than 0 is kept. Nothing else changes.
    ///
    /// ```relax before
    /// @T.prim_func(private=True, s_tir=True)
    /// def relu(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    ///     for i in range(4):
    ///         with T.sblock("B"):
    ///             vi = T.axis.spatial(4, i)
    ///             T.reads(A[vi])
    ///             T.writes(B[vi])
    ///             B[vi] = T.max(A[vi], T.float32(0.0))
    /// ```
    /// ```relax after
    /// @T.prim_func(private=True, s_tir=True)
    /// def relu(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    ///     T.func_attr({"op_pattern": 0})
    ///     for i in range(4):
    ///         with T.sblock("B"):
    ///             vi = T.axis.spatial(4, i)
    ///             T.reads(A[vi])
    ///             T.writes(B[vi])
    ///             B[vi] = T.max(A[vi], T.float32(0.0))
    /// ```
    pub prim_func pass ANNOTATE_TIR_OP_PATTERN = "relax.AnnotateTIROpPattern" {
        opt_level: 0,
        preserves: [keeps_form],
        run: annotate_tir_op_pattern,
    }
}

fn annotate_tir_op_pattern(body: &Body, ctx: &Ctx) -> Result<Body, PassError> {
    let known = body.root().attr("op_pattern").and_then(|pattern| pattern.as_int());
    if known.is_some_and(|pattern| pattern != 0) {
        return Ok(body.clone());
    }
    let mut edit = body.edit();
    edit.set_attr(body.root(), "op_pattern", Attr::Int(pattern_of(body) as i64));
    ctx.statistic("functions marked", usize::from(edit.is_dirty()));
    Ok(edit.finish()?)
}
