//! Distributes a product over the parts of a sum.

use super::until_stable::{rewrite_once, until_stable};
use crate::functions::weights::weight_params;
use plugin_api::prelude::*;

declare_pass! {
    /// Multiplies by the terms of a sum instead of the sum: `x @ (a + b)` becomes `x @ a + x @ b`.
    ///
    /// The sum may be transposed. This is for weights with a small correction, like `w + u @ v`: another pass can then
    /// compute `x @ u` first. Expects functions in A-normal form. Results do not change, up to rounding. A sum is kept
    /// if its terms are two parameters that are known before the function runs (those after the first `num_input`), or
    /// have different types, or if the data type of the product differs from that of the sum.
    ///
    /// Also removes duplicate, renaming and unused bindings. If nothing matched, this cleanup is limited to
    /// functions with bindings outside dataflow blocks.
    ///
    /// ```relax before
    /// @R.function
    /// def main(x: R.Tensor((4, 16), "float32"), a: R.Tensor((16, 8), "float32"), b: R.Tensor((16, 8), "float32")):
    ///     weight = R.add(a, b)
    ///     out = R.matmul(x, weight)
    ///     return out
    /// ```
    /// ```relax after
    /// @R.function
    /// def main(x: R.Tensor((4, 16), "float32"), a: R.Tensor((16, 8), "float32"), b: R.Tensor((16, 8), "float32")):
    ///     gv = R.matmul(x, a)
    ///     gv_1 = R.matmul(x, b)
    ///     out = R.add(gv, gv_1)
    ///     return out
    /// ```
    pub function pass EXPAND_MATMUL_OF_SUM = "relax.ExpandMatmulOfSum" {
        opt_level: 1,
        preserves: [keeps_form],
        tolerance: Tolerance::Reassociated { rtol: 1e-5, atol: 1e-6 },
        run: expand_matmul_of_sum,
    }
}

const TRANSPOSED: Capture<Call> = Capture::new("transposed");

fn expand_matmul_of_sum(body: &Body, ctx: &Ctx) -> Result<Body, PassError> {
    let sum = is_op("relax.add", [wildcard().bind("a"), wildcard().bind("b")]).check(|found| {
        let [a, b] = found.values(["a", "b"])?;
        if !a.ty().same(b.ty()) {
            bail!("the terms of the sum have different types");
        }
        Ok(())
    });
    let transposed = is_op("relax.permute_dims", [&sum]).bind(TRANSPOSED);
    let product = is_op("relax.matmul", [wildcard().bind("x"), sum | transposed]).check(|found| {
        if found.root().ty().dtype() != found.get("a")?.ty().dtype() {
            bail!("the product and the sum have different data types");
        }
        Ok(())
    });
    let matcher = ctx.matcher(&product);
    until_stable(body, ctx, |body| {
        let weights = weight_params(body);
        rewrite_once(body, &matcher, |found, rw| {
            let [x, a, b] = found.values(["x", "a", "b"])?;
            if weights.contains(a) && weights.contains(b) {
                return Ok(Action::Keep);
            }
            let products = [product_with(a, x, found, rw, ctx)?, product_with(b, x, found, rw, ctx)?];
            Ok(Action::Replace(rw.call_op(ctx, "relax.add", &products, &[])?))
        })
    })
}

/// Returns the product of `x` and one part of the sum. The part is transposed if the sum was.
fn product_with<'b>(
    part: Value<'b>,
    x: Value<'b>,
    found: &Match<'b>,
    rw: &mut Rewriter<'b>,
    ctx: &Ctx,
) -> Result<V, PassError> {
    let (x, mut part) = (rw.v(x), rw.v(part));
    if let Some(transposed) = found.try_get(TRANSPOSED) {
        part = rw.call_like(transposed, &[part]);
        part = rw.emit(part, "gv");
    }
    rw.emit_op(ctx, "relax.matmul", &[x, part], &[])
}
