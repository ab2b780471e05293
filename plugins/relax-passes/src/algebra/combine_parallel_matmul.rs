//! Combines products of one tensor with several matrices into one product.

mod branches;
mod delay;

use super::until_stable::repeated;
use branches::{Combined, combinations, forms};
use delay::roots_after_operands;
use plugin_api::prelude::*;

declare_pass! {
    /// Combines products of one tensor with several matrices into one product.
    ///
    /// The matrices are concatenated, and the product is split. If all products are followed by a bias, the biases are
    /// combined as well; the same holds for `relu`, `gelu`, `gelu_tanh` and `silu`. At most one of the matrices may
    /// have an unknown width. Expects functions in A-normal form. Results do not change, up to rounding. Matrices with
    /// different ranks or batch sizes are never combined, nor are matrices that depend on the product of another
    /// matrix.
    ///
    /// ```relax before
    /// @R.function
    /// def main(x: R.Tensor((4, 16), "float32"), w0: R.Tensor((16, 8), "float32"), w1: R.Tensor((16, 8), "float32")):
    ///     a = R.matmul(x, w0)
    ///     b = R.matmul(x, w1)
    ///     c = R.add(a, b)
    ///     return c
    /// ```
    /// ```relax after
    /// @R.function
    /// def main(x: R.Tensor((4, 16), "float32"), w0: R.Tensor((16, 8), "float32"), w1: R.Tensor((16, 8), "float32")):
    ///     gv = R.concat((w0, w1), axis=1)
    ///     gv_1 = R.matmul(x, gv, out_dtype="float32")
    ///     gv_2 = R.split(gv_1, indices_or_sections=[8], axis=1)
    ///     a = gv_2[0]
    ///     b = gv_2[1]
    ///     c = R.add(a, b)
    ///     return c
    /// ```
    pub function pass COMBINE_PARALLEL_MATMUL = "relax.CombineParallelMatmul" {
        opt_level: 0,
        preserves: [keeps_form],
        run: combine_parallel_matmul,
    }
}

fn combine_parallel_matmul(body: &Body, ctx: &Ctx) -> Result<Body, PassError> {
    forms(body).into_iter().try_fold(body.clone(), |body, form| {
        repeated(&body, ctx, |body| {
            let ordered = roots_after_operands(body, &combinations(body, form))?;
            combine(&ordered, &combinations(&ordered, form), ctx)
        })
    })
}

/// Returns the function with one product in place of each combination, and the number of replaced values.
fn combine(body: &Body, combinations: &[Combined<'_>], ctx: &Ctx) -> Result<(Body, usize), PassError> {
    let (mut of_root, mut n) = (ValueMap::new(body), 0);
    for (at, combined) in combinations.iter().enumerate().filter(|(_, combined)| combined.operands_are_first()) {
        for (part, root) in combined.roots().enumerate() {
            of_root.insert(root, (at, part as u32));
            n += 1;
        }
    }
    let mut parts: Vec<Option<V>> = vec![None; combinations.len()];
    let combined = body.try_rewrite(|value, rw| {
        let Some((at, part)) = of_root.get(value).copied() else { return Ok(Action::Keep) };
        let whole = match parts[at] {
            Some(whole) => whole,
            None => *parts[at].insert(emit(&combinations[at], rw, ctx)?),
        };
        Ok::<_, PassError>(Action::Replace(rw.tuple_get(whole, part)))
    })?;
    Ok((combined, n))
}

/// Emits the product of all matrices and the operations that follow it, and splits the result into the original
/// products.
fn emit<'b>(combined: &Combined<'b>, rw: &mut Rewriter<'b>, ctx: &Ctx) -> Result<V, PassError> {
    let matrices: Vec<Value<'b>> = combined.branches.iter().map(|branch| branch.matrix).collect();
    let biases: Vec<Value<'b>> = combined.branches.iter().filter_map(|branch| branch.bias).collect();
    let (tensor, matrices) = (rw.v(combined.tensor), concat(&matrices, rw, ctx)?);
    let product = combined.branches[0].product.ty();
    let dtype = [("out_dtype", Attr::DType(product.dtype()))];
    let mut result = rw.emit_op(ctx, "relax.matmul", &[tensor, matrices], &dtype)?;
    if !biases.is_empty() {
        let biases = concat(&biases, rw, ctx)?;
        result = rw.emit_op(ctx, "relax.add", &[result, biases], &[])?;
    }
    if let Some(activation) = combined.activation {
        result = rw.emit_op(ctx, activation, &[result], &[])?;
    }
    // A bias with more dimensions than the product determines the rank of the result.
    let ndim = combined.roots().map(|root| root.ty().ndim()).max().unwrap_or_default();
    let axis = Attr::Int(i64::from(ndim) - 1);
    rw.emit_op(ctx, "relax.split", &[result], &[("indices_or_sections", combined.cuts().into()), ("axis", axis)])
}

/// Concatenates tensors of one rank along their last axis.
fn concat<'b>(tensors: &[Value<'b>], rw: &mut Rewriter<'b>, ctx: &Ctx) -> Result<V, PassError> {
    let axis = Attr::Int(tensors.first().map_or(0, |tensor| i64::from(tensor.ty().ndim()) - 1));
    let tensors: Vec<V> = tensors.iter().map(|tensor| rw.v(*tensor)).collect();
    let tensors = rw.tuple(&tensors);
    rw.emit_op(ctx, "relax.concat", &[tensors], &[("axis", axis)])
}
