//! Transposes concatenated tensors once, after the concatenation.

use super::until_stable::{rewrite_once, until_stable};
use plugin_api::pattern::is_tuple;
use plugin_api::prelude::*;

declare_pass! {
    /// Transposes tensors once, after their concatenation.
    ///
    /// `concat(permute_dims(a), permute_dims(b))` becomes `permute_dims(concat(a, b))`, for two to eleven tensors.
    /// Weights that CombineParallelMatmul concatenated can then be concatenated before the function runs. Expects
    /// functions in A-normal form. Results do not change. Ignores tensors whose axes are permuted differently.
    ///
    /// Also removes duplicate, renaming and unused bindings. If nothing matched, this cleanup is limited to
    /// functions with bindings outside dataflow blocks.
    ///
    /// ```relax before
    /// @R.function
    /// def main(a: R.Tensor((128, 32), "float32"), b: R.Tensor((128, 32), "float32")):
    ///     x = R.permute_dims(a)
    ///     y = R.permute_dims(b)
    ///     out = R.concat((x, y), axis=1)
    ///     return out
    /// ```
    /// ```relax after
    /// @R.function
    /// def main(a: R.Tensor((128, 32), "float32"), b: R.Tensor((128, 32), "float32")):
    ///     gv = R.concat((a, b), axis=0)
    ///     out = R.permute_dims(gv)
    ///     return out
    /// ```
    pub function pass REORDER_PERMUTE_DIMS_AFTER_CONCAT = "relax.ReorderPermuteDimsAfterConcat" {
        opt_level: 1,
        preserves: [keeps_form],
        run: reorder_permute_dims_after_concat,
    }
}

/// Maximum number of concatenated tensors that the pass considers, as in TVM.
const MOST: usize = 11;

fn reorder_permute_dims_after_concat(body: &Body, ctx: &Ctx) -> Result<Body, PassError> {
    let transposed = |i: usize| is_op("relax.permute_dims", [wildcard()]).bind(format!("{i}").as_str());
    let concat = |n: usize| is_op("relax.concat", [is_tuple((0..n).map(transposed).collect::<Vec<_>>())]);
    let concat = (3..=MOST).map(concat).fold(concat(2), |a, b| a | b);
    let matcher = ctx.matcher(&concat);
    until_stable(body, ctx, |body| {
        rewrite_once(body, &matcher, |found, rw| {
            let transposed = (0..MOST).filter_map(|i| found.try_get(format!("{i}").as_str())?.as_call());
            let transposed: Vec<Call<'_>> = transposed.collect();
            let Some((first, axes)) = transposed.first().and_then(|first| Some((*first, axes_of(*first)?))) else {
                return Ok(Action::Keep);
            };
            let axis = found.root().attr("axis").and_then(AttrView::as_int).unwrap_or(0);
            let axis = if axis < 0 { axis + axes.len() as i64 } else { axis };
            let axis = usize::try_from(axis).ok().and_then(|axis| axes.get(axis));
            let Some(axis) = axis.filter(|_| transposed.iter().all(|call| axes_of(*call).as_ref() == Some(&axes)))
            else {
                return Ok(Action::Keep);
            };
            let tensors: Vec<V> = transposed.iter().filter_map(|call| call.arg(0)).map(|tensor| rw.v(tensor)).collect();
            let tensors = rw.tuple(&tensors);
            let whole = rw.emit_op(ctx, "relax.concat", &[tensors], &[("axis", Attr::Int(*axis))])?;
            let order = first.attr("axes").map_or(Attr::None, AttrView::to_owned);
            Ok(Action::Replace(rw.call_op(ctx, "relax.permute_dims", &[whole], &[("axes", order)])?))
        })
    })
}

/// Returns the order of the axes after a `permute_dims`. If the call does not specify it, the axes are reversed.
fn axes_of(call: Call<'_>) -> Option<Vec<i64>> {
    match call.attr("axes").and_then(AttrView::as_ints) {
        Some(axes) => Some(axes),
        None => {
            let rank = call.arg(0)?.ty().ndim();
            (rank >= 0).then(|| (0..i64::from(rank)).rev().collect())
        }
    }
}
