//! Multiplies by a transposed matrix without transposing it.

use super::until_stable::rewrite_once;
use plugin_api::prelude::*;

declare_pass! {
    /// Multiplies by a transposed matrix without transposing it: `matmul(x, permute_dims(w))` becomes an `einsum` of `x` and `w`.
    ///
    /// Exporters write dense layers with a transpose, which copies all weights in each run. Expects functions in
    /// A-normal form. Ignores products that are not two-dimensional, and products of different data types. The
    /// transpose is kept; DeadCodeElimination removes it if it is unused. The order of sums does not change, so
    /// results are bit-identical.
    ///
    /// ```relax before
    /// @R.function
    /// def main(x: R.Tensor((4, 8), "float32"), w: R.Tensor((16, 8), "float32")) -> R.Tensor((4, 16), "float32"):
    ///     transposed = R.permute_dims(w)
    ///     out = R.matmul(x, transposed)
    ///     return out
    /// ```
    /// ```relax after
    /// @R.function
    /// def main(x: R.Tensor((4, 8), "float32"), w: R.Tensor((16, 8), "float32")) -> R.Tensor((4, 16), "float32"):
    ///     transposed = R.permute_dims(w)
    ///     out = R.einsum((x, w), subscripts="ik,jk->ij")
    ///     return out
    /// ```
    pub function pass REWRITE_TRANSPOSED_MATMUL = "relax.RewriteTransposedMatmul" {
        opt_level: 0,
        preserves: [keeps_form],
        run: rewrite_transposed_matmul,
    }
}

const TRANSPOSE: Capture<Call> = Capture::new("transpose");

fn rewrite_transposed_matmul(body: &Body, ctx: &Ctx) -> Result<Body, PassError> {
    let transpose = is_op("relax.permute_dims", [wildcard().bind("w").rank(2)]).bind(TRANSPOSE);
    let product = is_op("relax.matmul", [wildcard().bind("x").rank(2), transpose]);
    let (out, rewritten) = rewrite_once(body, &ctx.matcher(&product), |found, rw| {
        let (x, w, product) = (found.get("x")?, found.get("w")?, found.root());
        let dtypes = [x, w, product].map(|value| value.ty().dtype());
        if !is_transpose(found.get(TRANSPOSE)?) || dtypes.iter().any(|dtype| *dtype != dtypes[0]) {
            return Ok(Action::Keep);
        }
        let operands = [rw.v(x), rw.v(w)];
        let operands = rw.tuple(&operands);
        Ok(Action::Replace(rw.call_op(ctx, "relax.einsum", &[operands], &[("subscripts", "ik,jk->ij".into())])?))
    })?;
    ctx.statistic("products rewritten", rewritten);
    Ok(out)
}

/// Returns true if the call swaps the two dimensions of its operand, by default or with explicit axes.
fn is_transpose(call: Call<'_>) -> bool {
    let axes = call.attr("axes").and_then(AttrView::as_ints);
    axes.is_none_or(|axes| matches!(axes[..], [first, _] if first == 1 || first == -1))
}
