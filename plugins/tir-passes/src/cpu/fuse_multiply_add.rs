//! Multiplies and adds with a single rounding.

use plugin_api::prelude::*;
use plugin_api::scalar::PrimOp;
use plugin_api::scalar::{Intrinsic, Math};
use plugin_api::tir::{Again, TirRewrite};
use std::collections::HashSet;

declare_pass! {
    /// Fuses a product and a sum of floats, with one rounding: `a * b + c` becomes `T.fma(a, b, c)`.
    ///
    /// Processors execute this as one instruction, in the time of a multiplication. A sum of products is computed in
    /// the same order, but a little more precisely, so its last bits change, within the tolerance of the pass. If both
    /// operands of a sum are products, the first product is fused.
    ///
    /// Expects any PrimFunc. Integers and differences do not change.
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
    let mut fuse = Fuse { exact: decides_a_step(body), fused: 0 };
    let out = fuse.rewrite(body)?;
    ctx.statistic("products fused", fuse.fused);
    Ok(out)
}

struct Fuse<'b> {
    /// Expressions whose last bit may change the result of a step function.
    exact: HashSet<Value<'b>>,
    fused: usize,
}

impl<'b> TirRewrite<'b> for Fuse<'b> {
    fn expr(&mut self, expr: Value<'b>, w: &mut Again<'b>) -> Result<V, PassError> {
        let Some([a, b, c]) = product_and_sum(expr).filter(|_| !self.exact.contains(&expr)) else {
            return w.expr(self, expr);
        };
        let operands = [self.expr(a, w)?, self.expr(b, w)?, self.expr(c, w)?];
        self.fused += 1;
        Ok(w.call("tirx.fma", &operands, expr.ty().dtype()))
    }
}

/// Returns the expressions that are operands of step functions, directly or through other expressions and variables.
fn decides_a_step(body: &Body) -> HashSet<Value<'_>> {
    let mut exact = HashSet::new();
    let mut work: Vec<Value<'_>> = body.values().filter(|value| is_step(*value)).flat_map(Value::operands).collect();
    while let Some(next) = work.pop() {
        // A loaded value was computed by another statement.
        let is_new = (next.is_nested() || matches!(next.stmt(), Some(Stmt::Bind { .. }))) && exact.insert(next);
        if is_new && !matches!(next.view(), Expr::Load { .. }) {
            work.extend(next.operands());
        }
    }
    exact
}

/// Returns true for a step function of floats, whose result may change by a whole step if an operand changes slightly.
fn is_step(value: Value<'_>) -> bool {
    match value.view() {
        Expr::Arith { op: PrimOp::Cast, a, .. } => a.ty().dtype().is_float() && !value.ty().dtype().is_float(),
        Expr::Arith { op, a, .. } if op.is_comparison() || op.is_division() && op != PrimOp::Div => {
            a.ty().dtype().is_float()
        }
        Expr::Call(call) => {
            call.op().and_then(Intrinsic::find).and_then(Intrinsic::math).is_some_and(Math::is_rounding)
        }
        _ => false,
    }
}

/// Returns the operands of an expression of the form `a * b + c` or `c + a * b` of floats.
fn product_and_sum(expr: Value<'_>) -> Option<[Value<'_>; 3]> {
    let [x, y] = operands_of(expr, PrimOp::Add).filter(|_| expr.ty().dtype().is_float())?;
    let fused = |product, c| operands_of(product, PrimOp::Mul).map(|[a, b]| [a, b, c]);
    fused(x, y).or_else(|| fused(y, x))
}

/// Returns the operands of a binary operation, unless the operation has a name, because it is then not part of the
/// expression that uses it.
fn operands_of(expr: Value<'_>, wanted: PrimOp) -> Option<[Value<'_>; 2]> {
    match expr.view() {
        Expr::Arith { op, a, b: Some(b) } if op == wanted && expr.is_nested() => Some([a, b]),
        _ => None,
    }
}
