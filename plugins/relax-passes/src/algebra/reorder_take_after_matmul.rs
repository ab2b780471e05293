//! Multiplies by a whole table, then takes columns of the product.

use super::until_stable::{rewrite_once, until_stable};
use plugin_api::prelude::*;

declare_pass! {
    /// Multiplies by a whole table and takes columns of the product, instead of multiplying by a matrix taken from the
    /// table.
    ///
    /// `x @ take(table, i)` becomes `take(x @ table, i)`. This is for tables of weights that are known before the
    /// function runs, with indices that are not. A table with one matrix per element of a batch is multiplied as one
    /// wide matrix. Expects functions in A-normal form. Results do not change, up to rounding. Ignores a `take` along
    /// a different axis, or without an axis.
    ///
    /// Also removes duplicate, renaming and unused bindings. If nothing matched, this cleanup is limited to
    /// functions with bindings outside dataflow blocks.
    ///
    /// ```relax before
    /// @R.function
    /// def main(x: R.Tensor((4, 16), "float32"), table: R.Tensor((16, 64), "float32"), i: R.Tensor((8,), "int64")):
    ///     weight = R.take(table, i, axis=1)
    ///     out = R.matmul(x, weight)
    ///     return out
    /// ```
    /// ```relax after
    /// @R.function
    /// def main(x: R.Tensor((4, 16), "float32"), table: R.Tensor((16, 64), "float32"), i: R.Tensor((8,), "int64")):
    ///     gv = R.matmul(x, table)
    ///     out = R.take(gv, i, axis=1)
    ///     return out
    /// ```
    pub function pass REORDER_TAKE_AFTER_MATMUL = "relax.ReorderTakeAfterMatmul" {
        opt_level: 1,
        preserves: [keeps_form],
        run: reorder_take_after_matmul,
    }
}

const TAKE: Capture<Call> = Capture::new("take");

fn reorder_take_after_matmul(body: &Body, ctx: &Ctx) -> Result<Body, PassError> {
    let take = is_op("relax.take", [wildcard().bind("table"), wildcard().bind("indices").rank(1)]).bind(TAKE);
    let product = is_op("relax.matmul", [wildcard().bind("x"), take]);
    let matcher = ctx.matcher(&product);
    until_stable(body, ctx, |body| {
        rewrite_once(body, &matcher, |found, rw| {
            let (x, table, axis) = (found.get("x")?, found.get("table")?, found.get(TAKE)?.attr("axis"));
            let ranks = [x, table, found.root()].map(|value| value.ty().ndim());
            let Some(axis) = axis.and_then(AttrView::as_int).filter(|_| ranks.iter().all(|rank| *rank >= 0)) else {
                return Ok(Action::Keep);
            };
            match (ranks, axis) {
                ([_, rank, _], axis) if rank >= 2 && axis + 1 == i64::from(rank) => take_columns(found, rw, ctx),
                ([3, 3, _], 0) => take_matrices(found, rw, ctx),
                _ => Ok(Action::Keep),
            }
        })
    })
}

/// Multiplies by all columns of the table, then takes columns of the product.
fn take_columns<'b>(found: &Match<'b>, rw: &mut Rewriter<'b>, ctx: &Ctx) -> Result<Action, PassError> {
    let [x, table, indices] = found.values(["x", "table", "indices"])?.map(|value| rw.v(value));
    let product = rw.emit_op(ctx, "relax.matmul", &[x, table], &dtype_of_product(found))?;
    let last = i64::from(found.root().ty().ndim()) - 1;
    Ok(Action::Replace(rw.call_op(ctx, "relax.take", &[product, indices], &along(found, last)?)?))
}

/// Multiplies each element of the batch by one matrix of the table: `x[i] @ table[indices[i]]`.
fn take_matrices<'b>(found: &Match<'b>, rw: &mut Rewriter<'b>, ctx: &Ctx) -> Result<Action, PassError> {
    let [x, table, indices] = found.values(["x", "table", "indices"])?;
    let dims = |value: Value<'b>| value.ty().dims().map(|dims| dims.collect::<Vec<Dim>>());
    let (Some(batch), Some(size), Some(taken)) = (dims(x), dims(table), dims(indices)) else {
        return Ok(Action::Keep);
    };
    let ([rows, columns, ..], [matrices, inner, outer]) = (batch.as_slice(), size.as_slice()) else {
        return Ok(Action::Keep);
    };
    // Not changed, because a batch of 1 would be broadcast over the matrices.
    if taken != [rows.clone()] {
        return Ok(Action::Keep);
    }
    let [x, table, indices] = [x, table, indices].map(|value| rw.v(value));
    let wide = rw.shape(&[inner.clone(), matrices.clone() * outer.clone()]);
    let each = rw.shape(&[rows.clone(), columns.clone(), matrices.clone(), outer.clone()]);
    let table = rw.emit_op(ctx, "relax.permute_dims", &[table], &[("axes", vec![1i64, 0, 2].into())])?;
    let table = rw.emit_op(ctx, "relax.reshape", &[table, wide], &[])?;
    let products = rw.emit_op(ctx, "relax.matmul", &[x, table], &dtype_of_product(found))?;
    let products = rw.emit_op(ctx, "relax.reshape", &[products, each], &[])?;
    let taken = rw.emit_op(ctx, "relax.take", &[products, indices], &along(found, 2)?)?;
    let taken = rw.tuple(&[taken]);
    Ok(Action::Replace(rw.call_op(ctx, "relax.einsum", &[taken], &[("subscripts", "ijik->ijk".into())])?))
}

/// Returns the attributes of the `take`, with `axis` in place of the original axis.
fn along(found: &Match<'_>, axis: i64) -> Result<Vec<(&'static str, Attr)>, PassError> {
    let mode = found.get(TAKE)?.attr("mode").map(|mode| ("mode", mode.to_owned()));
    Ok(mode.into_iter().chain([("axis", Attr::Int(axis))]).collect())
}

/// Returns the data type attribute of the product if it differs from the data type of the table.
fn dtype_of_product(found: &Match<'_>) -> Vec<(&'static str, Attr)> {
    let (product, table) = (found.root().ty().dtype(), found.get("table").map(|table| table.ty().dtype()));
    if table == Ok(product) { Vec::new() } else { vec![("out_dtype", Attr::DType(product))] }
}
