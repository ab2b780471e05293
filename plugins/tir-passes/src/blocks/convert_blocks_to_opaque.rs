//! Replaces the iterators of blocks by their values in the surrounding loops.

use plugin_api::prelude::*;
use plugin_api::walk::visitors::post_order_visit_value;

declare_pass! {
    /// Replaces block iterators by their values in terms of the surrounding loops.
    ///
    /// Expects blocks without an initialization; run s_tir.LowerInitBlock first. A condition of a block that uses an
    /// iterator of the same block is an error.
    ///
    /// ```relax before
    /// @T.prim_func(s_tir=True)
    /// def f(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    ///     for i, j in T.grid(2, 4):
    ///         with T.sblock("copy"):
    ///             vi = T.axis.spatial(8, i * 4 + j)
    ///             T.reads(A[vi])
    ///             T.writes(B[vi])
    ///             B[vi] = A[vi]
    /// ```
    /// ```relax after
    /// @T.prim_func(s_tir=True)
    /// def f(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    ///     for i, j in T.grid(2, 4):
    ///         with T.sblock("copy"):
    ///             T.reads(A[i * 4 + j])
    ///             T.writes(B[i * 4 + j])
    ///             B[i * 4 + j] = A[i * 4 + j]
    /// ```
    pub prim_func pass CONVERT_BLOCKS_TO_OPAQUE = "s_tir.ConvertBlocksToOpaque" {
        opt_level: 0,
        run: convert_blocks_to_opaque,
    }
}

fn convert_blocks_to_opaque(body: &Body, _: &Ctx) -> Result<Body, PassError> {
    body.try_rewrite(|value, rw| {
        if matches!(value.stmt(), Some(Stmt::Block)) {
            to_opaque(value, rw)?;
        }
        Ok(Action::Keep)
    })
}

fn to_opaque<'b>(block: Value<'b>, rw: &mut Rewriter<'b>) -> Result<(), PassError> {
    if let Some(init) = block.block_init() {
        bail!(at init, "found a block with an initialization; run s_tir.LowerInitBlock first");
    }
    if let Some(iter) = block.block_condition().and_then(|condition| iterator_in(condition, block)) {
        let name = iter.name().unwrap_or("_");
        bail!(at block, "the condition of the block uses its iterator `{name}`, which is undefined there; write the condition in terms of the \
                         loops around the block");
    }
    if block.needs_root_block(rw.body().root()) {
        rw.tir(|t| t.root_block(|| t.keep(block)))?;
    }
    for iter in block.block_iters() {
        rw.edit().replace_scalar(iter.var, iter.value)?;
    }
    Ok(())
}

/// Returns the first iterator of the block that an expression uses.
fn iterator_in<'b>(expr: Value<'b>, block: Value<'b>) -> Option<Value<'b>> {
    let mut operands = vec![expr];
    post_order_visit_value(expr, |part| operands.extend(part.operands()));
    block.block_iters().map(|iter| iter.var).find(|var| operands.contains(var))
}
