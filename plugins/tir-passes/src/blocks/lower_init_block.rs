//! Turns the initialization of a reduction block into a statement.

use plugin_api::prelude::*;
use plugin_api::schedule::{BlockInfo, IterKind, LoopRef, Schedule};
use plugin_api::tir::BlockIter;

declare_pass! {
    /// Replaces the initialization of a reduction block by a statement that only the first iteration executes.
    ///
    /// If a reduction may have zero iterations, the initialization becomes a separate block before the reduction, as
    /// with the schedule primitive `decompose_reduction`, because an empty sum is 0. Expects any PrimFunc. Keeps blocks
    /// without an initialization.
    ///
    /// ```relax before
    /// @T.prim_func(s_tir=True)
    /// def f(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8,), "float32")):
    ///     for i, k in T.grid(8, 4):
    ///         with T.sblock("sum"):
    ///             vi, vk = T.axis.remap("SR", [i, k])
    ///             T.reads(A[vi, vk])
    ///             T.writes(B[vi])
    ///             with T.init():
    ///                 B[vi] = T.float32(0)
    ///             B[vi] = B[vi] + A[vi, vk]
    /// ```
    /// ```relax after
    /// @T.prim_func(s_tir=True)
    /// def f(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8,), "float32")):
    ///     for i, k in T.grid(8, 4):
    ///         with T.sblock("sum"):
    ///             vi, vk = T.axis.remap("SR", [i, k])
    ///             T.reads(A[vi, vk])
    ///             T.writes(B[vi])
    ///             if vk == 0:
    ///                 B[vi] = T.float32(0)
    ///             B[vi] = B[vi] + A[vi, vk]
    /// ```
    pub prim_func pass LOWER_INIT_BLOCK = "s_tir.LowerInitBlock" { opt_level: 0, run: lower_init_block }
}

fn lower_init_block(body: &Body, _: &Ctx) -> Result<Body, PassError> {
    match initialized_before(body) {
        Some(body) => lowered(&body),
        None => lowered(body),
    }
}

/// Moves the initialization of reductions that may run zero iterations before their loops, where a schedule can do so.
fn initialized_before(body: &Body) -> Option<Body> {
    let may_be_empty = |iter: BlockIter<'_>| iter.is_reduction && iter.extent.dim().and_then(|n| n.as_int()).is_none();
    if !body.values().any(|block| block.block_init().is_some() && block.block_iters().any(may_be_empty)) {
        return None;
    }
    let mut schedule = Schedule::new(body).ok()?;
    let is_open = |block: &BlockInfo| {
        block.has_init && block.iters.iter().any(|iter| iter.kind == IterKind::Reduce && iter.extent.is_none())
    };
    let mut decomposed = false;
    for block in schedule.blocks().into_iter().filter(is_open) {
        let loops = schedule.get_loops(block.block).ok()?;
        let reduces = |of: &&LoopRef| matches!(schedule.iter_kind(**of), Ok(IterKind::Reduce));
        if let Some(first) = loops.iter().find(reduces).copied() {
            decomposed |= schedule.decompose_reduction(block.block, first).is_ok();
        }
    }
    if decomposed { schedule.finish().ok() } else { None }
}

/// Replaces the initializations.
fn lowered(body: &Body) -> Result<Body, PassError> {
    // Reduction iterators of the innermost open block.
    let mut reductions: Vec<BlockIter<'_>> = Vec::new();
    // End of the last lowered initialization, whose statements are kept.
    let mut end = 0;
    body.try_rewrite(|value, rw| {
        if matches!(value.stmt(), Some(Stmt::Block)) {
            reductions = value.block_iters().filter(|iter| iter.is_reduction).collect();
        } else if value.is_init() && value.end() > end {
            end = value.end();
            rw.tir(|t| {
                let at_start = reductions.iter().map(|iter| t.value(iter.var).eq(iter.min));
                match at_start.reduce(|all, one| all.and(one)) {
                    Some(first) => t.if_(first, || t.content(value)),
                    None => t.content(value),
                }
            })?;
        }
        Ok(Action::Keep)
    })
}
