//! Makes each loop count from 0 in steps of 1.
//!
//! *Expects* loops whose steps are positive constants. *Keeps* loops that already count like this. *Never* changes the values
//! that a loop iterates over, or their order.

use plugin_api::arith::index_to_dim;
use plugin_api::prelude::*;
use plugin_api::scalar::PrimOp;
use plugin_api::tir::{Again, TirRewrite};

declare_pass! {
    /// Makes each loop count from 0 in steps of 1, and computes the original value where it is used.
    ///
    /// Expects loops whose steps are positive constants. Run it before passes that unroll, vectorize or split loops.
    ///
    /// ```relax before
    /// @T.prim_func(s_tir=True)
    /// def main(A: T.Buffer((16,), "int32")):
    ///     for i in range(1, 16, 5):
    ///         A[i] = i
    /// ```
    /// ```relax after
    /// @T.prim_func(s_tir=True)
    /// def main(A: T.Buffer((16,), "int32")):
    ///     for i in range(3):
    ///         A[i * 5 + 1] = i * 5 + 1
    /// ```
    pub prim_func pass CANONICALIZE_LOOP = "s_tir.CanonicalizeLoop" {
        opt_level: 0,
        run: canonicalize_loop,
    }
}

fn canonicalize_loop(body: &Body, ctx: &Ctx) -> Result<Body, PassError> {
    let mut canonicalize = Canonicalize::default();
    let written = canonicalize.rewrite(body)?;
    ctx.statistic("loops changed", canonicalize.changed);
    Ok(written)
}

#[derive(Default)]
struct Canonicalize {
    changed: usize,
}

impl<'b> TirRewrite<'b> for Canonicalize {
    fn stmt(&mut self, stmt: Value<'b>, w: &mut Again<'b>) -> Result<(), PassError> {
        let Some(Stmt::For { var, min, extent, .. }) = stmt.stmt() else { return w.stmt(self, stmt) };
        if stmt.loop_step().is_none() && min.dim().is_some_and(|min| min.as_int() == Some(0)) {
            return w.stmt(self, stmt);
        }
        let Some(step) = step_of(stmt) else {
            let name = var.name().unwrap_or("_");
            bail!(at stmt, "the step of the loop over `{name}` is not a positive constant; bind it to one, or use a while loop");
        };
        self.changed += 1;
        let (first, extent) = (first_value(self, min, var, w)?, self.expr(extent, w)?);
        let n = iterations(extent, step, w);
        let zero = w.int(0, w.dtype(n));
        w.loop_like(stmt, zero, n, |w, new| {
            let step = w.int(step, w.dtype(new));
            let scaled = w.folded(PrimOp::Mul, new, step);
            let value = w.folded(PrimOp::Add, scaled, first);
            w.set(var, value);
            w.iteration(self, stmt, var)
        })
    }
}

/// Returns the step of a loop; `None` if it is not a positive constant.
pub(super) fn step_of(stmt: Value<'_>) -> Option<i64> {
    match stmt.loop_step() {
        None => Some(1),
        Some(step) => step.dim()?.as_int().filter(|step| *step > 0),
    }
}

/// Returns the quotient of an extent and a positive step, rounded up.
pub(super) fn quotient_up(extent: i64, step: i64) -> i64 {
    extent.div_euclid(step) + i64::from(extent.rem_euclid(step) > 0)
}

/// Writes the first value of a loop, to be used in each of its iterations. The loop may change memory that the
/// expression reads, so a value from memory gets a name before the loop.
pub(super) fn first_value<'b, R: TirRewrite<'b>>(
    r: &mut R,
    min: Value<'b>,
    var: Value<'b>,
    w: &mut Again<'b>,
) -> Result<V, PassError> {
    let first = r.expr(min, w)?;
    Ok(match index_to_dim(min) {
        Some(_) => first,
        None => w.bind(&format!("{}_first", var.name().unwrap_or("i")), first),
    })
}

/// Writes the trip count of a loop: the quotient of `extent` and `step`, rounded up.
fn iterations(extent: V, step: i64, w: &mut Again<'_>) -> V {
    let dtype = w.dtype(extent);
    match w.as_int(extent) {
        _ if step == 1 => extent,
        Some(extent) => w.int(quotient_up(extent, step), dtype),
        None => {
            let (rest, step) = (w.int(step - 1, dtype), w.int(step, dtype));
            let last = w.folded(PrimOp::Add, extent, rest);
            w.binary(PrimOp::FloorDiv, last, step)
        }
    }
}
