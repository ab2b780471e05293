//! Removes reshapes that are followed by another reshape or change nothing.

use super::until_stable::{rewrite_once, until_stable};
use plugin_api::prelude::*;

declare_pass! {
    /// Removes reshapes that are followed by another reshape, and reshapes to the existing shape of a tensor.
    ///
    /// Expects functions in A-normal form. Results do not change. Keeps a reshape whose shape has a 0 that refers to a
    /// dimension of its own argument. Functions marked `Primitive` are ignored.
    ///
    /// Also removes duplicate, renaming and unused bindings. If nothing matched, this cleanup is limited to
    /// functions with bindings outside dataflow blocks.
    ///
    /// ```relax before
    /// @R.function
    /// def main(x: R.Tensor((1, 8, 1, 1), "float32")):
    ///     a = R.reshape(x, R.shape([1, 8, 1]))
    ///     b = R.reshape(a, R.shape([1, 8]))
    ///     c = R.reshape(b, R.shape([1, 8]))
    ///     return c
    /// ```
    /// ```relax after
    /// @R.function
    /// def main(x: R.Tensor((1, 8, 1, 1), "float32")):
    ///     b = R.reshape(x, R.shape([1, 8]))
    ///     return b
    /// ```
    pub function pass REMOVE_REDUNDANT_RESHAPE = "relax.RemoveRedundantReshape" {
        opt_level: 0,
        preserves: [keeps_form],
        run: remove_redundant_reshape,
    }
}

fn remove_redundant_reshape(body: &Body, ctx: &Ctx) -> Result<Body, PassError> {
    if body.root().attr("Primitive").is_some_and(|primitive| primitive.as_int() != Some(0)) {
        return Ok(body.clone());
    }
    let reshape = |tensor: Pattern, shape: &str| is_op("relax.reshape", [tensor, wildcard().bind(shape)]);
    let repeated = reshape(reshape(wildcard().bind("x"), "middle"), "shape").check(|found| {
        let [x, shape] = found.values(["x", "shape"])?;
        if !means_the_same(shape, x) {
            bail!("a dimension of 0 refers to the reshaped tensor");
        }
        Ok(())
    });
    let superfluous = reshape(wildcard().bind("same"), "shape").check(|found| {
        let [x, shape] = found.values(["same", "shape"])?;
        if shape.dims().is_none() || shape.dims() != x.ty().dims().map(Iterator::collect) {
            bail!("the tensor has a different shape");
        }
        Ok(())
    });
    let matcher = ctx.matcher(&(repeated.bind("repeated") | superfluous));
    until_stable(body, ctx, |body| {
        rewrite_once(body, &matcher, |found, rw| {
            if let Some(same) = found.try_get("same") {
                return Ok(Action::Replace(rw.v(same)));
            }
            let args = found.values(["x", "shape"])?.map(|value| rw.v(value));
            Ok(Action::Replace(rw.call_op(ctx, "relax.reshape", &args, &[])?))
        })
    })
}

/// Returns true if a target shape has the same meaning for another tensor: each 0 in it means the tensor's dimension at
/// that position.
fn means_the_same(shape: Value<'_>, tensor: Value<'_>) -> bool {
    let Some(dims) = shape.dims() else { return true };
    let known: Vec<Dim> = tensor.ty().dims().into_iter().flatten().collect();
    dims.iter().enumerate().all(|(at, dim)| dim.as_int() != Some(0) || known.get(at).and_then(Dim::as_int) == Some(0))
}
