//! Turns the initialization of a reduction block into a statement.

use plugin_api::prelude::*;
use plugin_api::tir::BlockIter;

declare_pass! {
    /// Makes the initialization of a reduction block a statement, which the first iteration executes.
    ///
    /// Expects any PrimFunc. Keeps blocks without an initialization.
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
    LowerInit::default().mutate(body)
}

#[derive(Default)]
struct LowerInit<'b> {
    /// Reduction iterators of the innermost open block.
    reductions: Vec<BlockIter<'b>>,
    /// End of the last lowered initialization; its content is kept.
    end: usize,
}

impl<'b> StmtMutator<'b> for LowerInit<'b> {
    fn visit_sblock(&mut self, block: Value<'b>, _: &mut Rewriter<'b>) -> Result<Action, PassError> {
        self.reductions = block.block_iters().filter(|iter| iter.is_reduction).collect();
        Ok(Action::Keep)
    }

    fn visit_init(&mut self, init: Value<'b>, rw: &mut Rewriter<'b>) -> Result<Action, PassError> {
        if init.end() <= self.end {
            return Ok(Action::Keep);
        }
        self.end = init.end();
        rw.tir(|t| {
            let at_start = self.reductions.iter().map(|iter| t.value(iter.var).eq(iter.min));
            match at_start.reduce(|all, one| all.and(one)) {
                Some(first) => t.if_(first, || t.content(init)),
                None => t.content(init),
            }
        })?;
        Ok(Action::Keep)
    }
}
