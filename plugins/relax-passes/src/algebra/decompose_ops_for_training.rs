//! Replaces operators by simpler operators, for training.

use super::decompose_ops::{decompose, divided_by_deviation, is_set, map_wanted, scalar};
use plugin_api::prelude::*;

declare_pass! {
    /// Replaces operators by simpler operators, for training.
    ///
    /// `batch_norm` normalizes by the mean and variance of its own input, and updates the moving mean and variance with
    /// them. `layer_norm` becomes arithmetic if it is over the last axes, along which scale and center are broadcast.
    /// Operators that DecomposeOpsForInference replaces are replaced as well. Expects functions in A-normal form.
    ///
    /// ```relax before
    /// @R.function
    /// def main(x: R.Tensor((2, 4), "float32"), g: R.Tensor((4,), "float32"), b: R.Tensor((4,), "float32")):
    ///     y = R.nn.layer_norm(x, g, b, axes=[-1], epsilon=0.5)
    ///     return y
    /// ```
    /// ```relax after
    /// @R.function
    /// def main(x: R.Tensor((2, 4), "float32"), g: R.Tensor((4,), "float32"), b: R.Tensor((4,), "float32")):
    ///     gv = R.mean(x, axis=[-1], keepdims=True)
    ///     gv_1 = R.subtract(x, gv)
    ///     gv_2 = R.variance(x, axis=[-1], keepdims=True)
    ///     gv_3 = R.add(gv_2, R.const(0.5, "float32"))
    ///     gv_4 = R.sqrt(gv_3)
    ///     gv_5 = R.divide(gv_1, gv_4)
    ///     gv_6 = R.multiply(gv_5, g)
    ///     y = R.add(gv_6, b)
    ///     return y
    /// ```
    pub module pass DECOMPOSE_OPS_FOR_TRAINING = "relax.DecomposeOpsForTraining" {
        opt_level: 0,
        preserves: [keeps_form],
        options: Options {
            /// The only function to change; if empty, all functions change.
            func_name: String = "",
        },
        tolerance: Tolerance::Training { rtol: 1e-5, atol: 1e-6 },
        run: decompose_ops_for_training,
    }
}

fn decompose_ops_for_training(module: &Module, options: &Options, ctx: &Ctx) -> Result<Module, PassError> {
    map_wanted(module, &options.func_name, |name, body| decompose_for_training(name, body, ctx))
}

fn decompose_for_training(name: &str, body: &Body, ctx: &Ctx) -> Result<Body, PassError> {
    let for_training = body.try_rewrite(|value, rw| {
        let Some(call) = value.as_call().filter(|_| value.is_binding()) else { return Ok(Action::Keep) };
        match call.op() {
            Some("relax.nn.batch_norm") => batch_norm(call, rw, ctx),
            Some("relax.nn.layer_norm") => layer_norm(call, rw, name, ctx),
            _ => Ok(Action::Keep),
        }
    })?;
    decompose(&for_training, false, ctx)
}

/// Normalizes by the mean and variance of the input, and updates the moving mean and variance.
fn batch_norm<'b>(call: Call<'b>, rw: &mut Rewriter<'b>, ctx: &Ctx) -> Result<Action, PassError> {
    let args: Vec<Value<'b>> = call.args().collect();
    let [x, gamma, beta, mean, variance] = args.as_slice() else { return Ok(Action::Keep) };
    let (axis, ndim) = (call.attr("axis").and_then(AttrView::as_int).unwrap_or(1), i64::from(x.ty().ndim()));
    let axis = if axis < 0 { axis + ndim } else { axis };
    let others: Vec<i64> = (0..ndim).filter(|at| *at != axis).collect();
    let dtype = x.ty().dtype();
    let [x, gamma, beta, mean, variance] = [*x, *gamma, *beta, *mean, *variance].map(|value| rw.v(value));
    let along: [(&str, Attr); 2] = [("axis", others.into()), ("keepdims", Attr::Bool(false))];
    let own_mean = rw.emit_op(ctx, "relax.mean", &[x], &along)?;
    let own_variance = rw.emit_op(ctx, "relax.variance", &[x], &along)?;
    let normalized = rw.call_like(call, &[x, gamma, beta, own_mean, own_variance]);
    let normalized = rw.emit(normalized, "gv");
    let result = rw.tuple_get(normalized, 0);
    let result = rw.emit(result, "gv");
    let mut moved = |old: V, own: V| {
        let (rest, momentum) = (
            scalar(call, "momentum", dtype, |momentum| 1.0 - momentum, rw)?,
            scalar(call, "momentum", dtype, |momentum| momentum, rw)?,
        );
        let old = rw.emit_op(ctx, "relax.multiply", &[rest, old], &[])?;
        let own = rw.emit_op(ctx, "relax.multiply", &[momentum, own], &[])?;
        rw.emit_op(ctx, "relax.add", &[old, own], &[])
    };
    let (mean, variance) = (moved(mean, own_mean)?, moved(variance, own_variance)?);
    Ok(Action::Replace(rw.tuple(&[result, mean, variance])))
}

/// Computes `(x - mean) / sqrt(variance + epsilon) * gamma + beta` with the mean and variance of the input.
fn layer_norm<'b>(call: Call<'b>, rw: &mut Rewriter<'b>, function: &str, ctx: &Ctx) -> Result<Action, PassError> {
    let args: Vec<Value<'b>> = call.args().collect();
    let [x, gamma, beta] = args.as_slice() else { return Ok(Action::Keep) };
    if !is_over_last_axes(call, *x) {
        ctx.diagnostics()
            .in_function(function)
            .missed(call.value(), "the axes must be the last ones, along which scale and center are broadcast");
        return Ok(Action::Keep);
    }
    let epsilon = scalar(call, "epsilon", x.ty().dtype(), |epsilon| epsilon, rw)?;
    let [x, gamma, beta] = [*x, *gamma, *beta].map(|value| rw.v(value));
    let axes = call.attr("axes").map_or(Attr::None, AttrView::to_owned);
    let along: [(&str, Attr); 2] = [("axis", axes), ("keepdims", Attr::Bool(true))];
    let mean = rw.emit_op(ctx, "relax.mean", &[x], &along)?;
    let centered = rw.emit_op(ctx, "relax.subtract", &[x, mean], &[])?;
    let variance = rw.emit_op(ctx, "relax.variance", &[x], &along)?;
    let mut result = divided_by_deviation(centered, variance, epsilon, rw, ctx)?;
    for (op, with, attr) in [("relax.multiply", gamma, "scale"), ("relax.add", beta, "center")] {
        if is_set(call, attr) {
            let inner = rw.emit(result, "gv");
            result = rw.call_op(ctx, op, &[inner, with], &[])?;
        }
    }
    Ok(Action::Replace(result))
}

/// Returns true if the axes of a call are the last axes of `x`, in order.
fn is_over_last_axes(call: Call<'_>, x: Value<'_>) -> bool {
    let ndim = i64::from(x.ty().ndim());
    let axes = call.attr("axes").and_then(AttrView::as_ints).unwrap_or_default();
    let from_end = axes.iter().map(|axis| if *axis >= 0 && ndim >= 0 { axis - ndim } else { *axis });
    from_end.eq(-(axes.len() as i64)..0)
}
