//! Multiplies and adds with a single rounding.

use plugin_api::arith::prim;
use plugin_api::prelude::*;
use plugin_api::tir::{Again, TirRewrite};

declare_pass! {
    /// Multiplies and adds floats with one rounding: `a * b + c` becomes `T.fma(a, b, c)`.
    ///
    /// Processors do that with one instruction, in the time of a product. A sum of products is computed in the same order,
    /// and is a little more precise; so its last bits differ from those without this pass, which its tolerance allows. If both
    /// operands of a sum are products, the first one is fused.
    ///
    /// Expects any PrimFunc. Keeps integers, and differences.
    ///
    /// ```relax before
    /// @T.prim_func(s_tir=True)
    /// def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    ///     for i in range(8):
    ///         C[i] = C[i] + A[i] * B[i]
    /// ```
    /// ```relax after
    /// @T.prim_func(s_tir=True)
    /// def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    ///     for i in range(8):
    ///         C[i] = T.fma(A[i], B[i], C[i])
    /// ```
    pub prim_func pass FUSE_MULTIPLY_ADD = "tir.FuseMultiplyAdd" {
        opt_level: 0,
        run: fuse_multiply_add,
        tolerance: Tolerance::Reassociated { rtol: 1e-5, atol: 1e-6 },
    }
}

fn fuse_multiply_add(body: &Body, ctx: &Ctx) -> Result<Body, PassError> {
    let mut fuse = Fuse::default();
    let out = fuse.rewrite(body)?;
    ctx.statistic("products fused", fuse.fused);
    Ok(out)
}

#[derive(Default)]
struct Fuse {
    fused: usize,
}

impl<'b> TirRewrite<'b> for Fuse {
    fn expr(&mut self, expr: Value<'b>, w: &mut Again<'b>) -> Result<V, PassError> {
        let Some([a, b, c]) = product_and_sum(expr) else { return w.expr(self, expr) };
        let operands = [self.expr(a, w)?, self.expr(b, w)?, self.expr(c, w)?];
        self.fused += 1;
        Ok(w.call("tirx.fma", &operands, expr.ty().dtype()))
    }
}

/// Returns the operands of an expression of the form `a * b + c` or `c + a * b` of floats.
fn product_and_sum(expr: Value<'_>) -> Option<[Value<'_>; 3]> {
    let [x, y] = operands_of(expr, prim::ADD).filter(|_| expr.ty().dtype().is_float())?;
    let fused = |product, c| operands_of(product, prim::MUL).map(|[a, b]| [a, b, c]);
    fused(x, y).or_else(|| fused(y, x))
}

/// Returns the operands of a binary operation. A named operation is not part of the expression that uses it.
fn operands_of(expr: Value<'_>, wanted: u16) -> Option<[Value<'_>; 2]> {
    match expr.view() {
        Expr::Arith { op, a, b: Some(b) } if op == wanted && expr.is_nested() => Some([a, b]),
        _ => None,
    }
}
