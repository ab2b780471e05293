//! Replaces operators by simpler operators, for inference.

use plugin_api::names::{did_you_mean, nearest};
use plugin_api::prelude::*;
use plugin_api::typing::infer_types::infer_types;

declare_pass! {
    /// Replaces operators by simpler operators, for inference.
    ///
    /// `batch_norm` becomes arithmetic with the moving mean and variance. `tensor_to_shape` becomes a call of a
    /// function of the virtual machine, and a shape of new symbolic variables. Expects functions in A-normal form.
    /// Results do not change, up to rounding, except for `batch_norm` with `training=True`, for which the pass reports
    /// a warning.
    ///
    /// ```relax before
    /// @R.function
    /// def main(x: R.Tensor((2,), "int64"), y: R.Tensor((16,), "float32")) -> R.Tensor(dtype="float32", ndim=2):
    ///     s = R.tensor_to_shape(x)
    ///     z = R.reshape(y, s)
    ///     return z
    /// ```
    /// ```relax after
    /// @R.function
    /// def main(x: R.Tensor((2,), "int64"), y: R.Tensor((16,), "float32")) -> R.Tensor(dtype="float32", ndim=2):
    ///     d0 = T.int64()
    ///     d1 = T.int64()
    ///     gv: R.Shape(ndim=2) = R.call_pure_packed("vm.builtin.tensor_to_shape", x, ty_args=(R.Shape(ndim=2),))
    ///     gv_1: R.Shape([d0, d1]) = R.match_cast(gv, R.Shape([d0, d1]))
    ///     s: R.Shape([d0, d1]) = R.shape([d0, d1])
    ///     z: R.Tensor((d0, d1), "float32") = R.reshape(y, s)
    ///     return z
    /// ```
    pub module pass DECOMPOSE_OPS_FOR_INFERENCE = "relax.DecomposeOpsForInference" {
        opt_level: 0,
        preserves: [keeps_form],
        options: Options {
            /// The only function to change; if empty, all functions change.
            func_name: String = "",
            /// True to compute a `batch_norm` whose parameters are constants as `x * scale + shift`, with two constants.
            /// `relax.BackwardFoldScaleAxis` can then fold the scale into a convolution.
            affine: bool = false,
        },
        tolerance: Tolerance::Inference { rtol: 1e-5, atol: 1e-6 },
        run: decompose_ops_for_inference,
    }
}

fn decompose_ops_for_inference(module: &Module, options: &Options, ctx: &Ctx) -> Result<Module, PassError> {
    map_wanted(module, &options.func_name, |name, body| {
        warn_of_training(name, body, ctx);
        decompose(body, options.affine, ctx)
    })
}

/// Warns once per function that batch statistics are no longer used, which changes the results.
fn warn_of_training(name: &str, body: &Body, ctx: &Ctx) {
    let trains = |call: &Call<'_>| call.attr("training").and_then(AttrView::as_bool).unwrap_or(false);
    let calls = body.values().filter(|value| value.is_binding());
    let mut calls = calls.filter_map(|value| value.as_call_to("relax.nn.batch_norm")).filter(trains);
    if let Some(first) = calls.next() {
        let more = match calls.count() {
            0 => String::new(),
            more => format!(", and {more} more"),
        };
        let message = format!(
            "`batch_norm` with `training=True`{more}: its result changes, because for inference it normalizes by the moving mean and variance \
             instead of those of the batch; use `relax.DecomposeOpsForTraining` to keep it"
        );
        ctx.diagnostics().in_function(name).warning(first.value(), &message);
    }
}

/// Applies `change` to the function named `name`, or to all functions if the name is empty.
///
/// # Errors
/// If the Relax function does not exist; errors of `change`.
pub(super) fn map_wanted(
    module: &Module,
    func_name: &str,
    mut change: impl FnMut(&str, &Body) -> Result<Body, PassError>,
) -> Result<Module, PassError> {
    let relax = |body: &Body| body.function().is_some();
    if !func_name.is_empty() && !module.get(func_name).is_some_and(relax) {
        let names = module.functions().filter(|(_, body)| relax(body)).map(|(name, _)| name);
        bail!(
            option "`func_name` is `{func_name}`, which is not a Relax function of the module{}",
            did_you_mean(&nearest(func_name, names))
        );
    }
    module.map_functions(|name, body| match body.function() {
        Some(function) if (func_name.is_empty() || name == func_name) && !function.skips_optimization() => {
            change(name, body).map_err(|error| error.in_function(name))
        }
        _ => Ok(body.clone()),
    })
}

/// Returns the function with its decomposable operators replaced. If `affine` is true, constant parameters of `batch_norm`
/// become a scale and a shift.
pub(super) fn decompose(body: &Body, affine: bool, ctx: &Ctx) -> Result<Body, PassError> {
    let mut replaced = 0;
    let changed = body.try_rewrite(|value, rw| {
        let Some(call) = value.as_call().filter(|_| value.is_binding()) else { return Ok(Action::Keep) };
        let action = match call.op() {
            Some("relax.nn.batch_norm") => batch_norm(call, affine, rw, ctx)?,
            Some("relax.tensor_to_shape") => tensor_to_shape(call, rw),
            _ => return Ok(Action::Keep),
        };
        replaced += 1;
        Ok::<_, PassError>(action)
    })?;
    ctx.statistic("operators replaced", replaced);
    if changed.same(body) { Ok(changed) } else { infer_types(&changed, ctx) }
}

/// Computes `(x - mean) / sqrt(variance + epsilon) * gamma + beta`; returns it with the mean and variance unchanged.
fn batch_norm<'b>(call: Call<'b>, affine: bool, rw: &mut Rewriter<'b>, ctx: &Ctx) -> Result<Action, PassError> {
    let args: Vec<Value<'b>> = call.args().collect();
    let [x, gamma, beta, mean, variance] = args.as_slice() else { return Ok(Action::Keep) };
    let axis = call.attr("axis").and_then(AttrView::as_int).unwrap_or(1);
    let ndim = i64::from(x.ty().ndim());
    if ndim < 0 {
        bail!(at call.value(), "the rank of the normalized tensor is unknown");
    }
    let axis = if axis < 0 { axis + ndim } else { axis };
    if let Some([scale, shift]) = scale_and_shift(call, ndim - axis)?.filter(|_| affine) {
        let (data, scale, shift) = (rw.v(*x), rw.array(&scale), rw.array(&shift));
        let scaled = rw.emit_op(ctx, "relax.multiply", &[data, scale], &[])?;
        let result = rw.emit_op(ctx, "relax.add", &[scaled, shift], &[])?;
        let (mean, variance) = (rw.v(*mean), rw.v(*variance));
        return Ok(Action::Replace(rw.tuple(&[result, mean, variance])));
    }
    let others: Vec<i64> = (0..ndim).filter(|at| *at != axis).collect();
    let wide = |value: Value<'b>, rw: &mut Rewriter<'b>| {
        let value = rw.v(value);
        rw.emit_op(ctx, "relax.expand_dims", &[value], &[("axis", others.as_slice().into())])
    };
    let epsilon = scalar(call, "epsilon", x.ty().dtype(), |epsilon| epsilon, rw)?;
    let (data, middle) = (rw.v(*x), wide(*mean, rw)?);
    let centered = rw.emit_op(ctx, "relax.subtract", &[data, middle], &[])?;
    let spread = wide(*variance, rw)?;
    let mut result = divided_by_deviation(centered, spread, epsilon, rw, ctx)?;
    for (op, with, attr) in [("relax.multiply", *gamma, "scale"), ("relax.add", *beta, "center")] {
        if is_set(call, attr) {
            let (inner, with) = (rw.emit(result, "gv"), wide(with, rw)?);
            result = rw.call_op(ctx, op, &[inner, with], &[])?;
        }
    }
    let (result, mean, variance) = (rw.emit(result, "gv"), rw.v(*mean), rw.v(*variance));
    Ok(Action::Replace(rw.tuple(&[result, mean, variance])))
}

/// Returns the factor and the summand of each channel of a `batch_norm`; `None` if its parameters are not constants. They have
/// `rank` dimensions, of which the first is the channels.
fn scale_and_shift(call: Call<'_>, rank: i64) -> Result<Option<[Array; 2]>, PassError> {
    let mut params = Vec::new();
    for constant in (1..5).map(|at| call.arg(at).and_then(Value::as_constant)) {
        let Some(constant) = constant else { return Ok(None) };
        params.push(constant.cast::<f64>()?.collect::<Vec<f64>>());
    }
    let ([gamma, beta, mean, variance], Some(x)) = (&params[..], call.arg(0)) else { return Ok(None) };
    let epsilon = call.attr("epsilon").and_then(AttrView::as_float).unwrap_or(0.0);
    let (has_scale, has_center) = (is_set(call, "scale"), is_set(call, "center"));
    let factor = |(gamma, variance): (&f64, &f64)| if has_scale { *gamma } else { 1.0 } / (variance + epsilon).sqrt();
    let scale: Vec<f64> = gamma.iter().zip(variance).map(factor).collect();
    let moved = |((beta, mean), scale): ((&f64, &f64), &f64)| if has_center { *beta } else { 0.0 } - mean * scale;
    let shift: Vec<f64> = beta.iter().zip(mean).zip(&scale).map(moved).collect();
    let shape: Vec<i64> = (0..rank).map(|at| if at == 0 { scale.len() as i64 } else { 1 }).collect();
    let array = |numbers: Vec<f64>| Ok::<_, PassError>(Array::new(&shape, numbers)?.cast(x.ty().dtype())?);
    Ok(Some([array(scale)?, array(shift)?]))
}

/// Computes `centered / sqrt(variance + epsilon)`, without binding it to a name.
pub(super) fn divided_by_deviation(
    centered: V,
    variance: V,
    epsilon: V,
    rw: &mut Rewriter<'_>,
    ctx: &Ctx,
) -> Result<V, PassError> {
    let variance = rw.emit_op(ctx, "relax.add", &[variance, epsilon], &[])?;
    let deviation = rw.emit_op(ctx, "relax.sqrt", &[variance], &[])?;
    rw.call_op(ctx, "relax.divide", &[centered, deviation], &[])
}

/// Returns the value of a boolean attribute; true by default.
pub(super) fn is_set(call: Call<'_>, attr: &str) -> bool {
    call.attr(attr).and_then(AttrView::as_bool).unwrap_or(true)
}

/// Applies `f` to a numeric attribute and returns the result as a constant of a data type.
pub(super) fn scalar(
    call: Call<'_>,
    attr: &str,
    dtype: DType,
    f: impl Fn(f64) -> f64,
    rw: &mut Rewriter<'_>,
) -> Result<V, PassError> {
    let Some(number) = call.attr(attr).and_then(AttrView::as_float) else {
        bail!(at call.value(), "the attribute `{attr}` is not a number");
    };
    if !dtype.is_known() {
        bail!(at call.value(), "the data type of the tensor is unknown, so `{attr}` cannot become a constant");
    }
    let array = Array::new(&[], [f(number)])?.cast(dtype)?;
    Ok(rw.array(&array))
}

/// Emits a call of a function of the virtual machine, and a match_cast that defines the dimensions.
fn tensor_to_shape<'b>(call: Call<'b>, rw: &mut Rewriter<'b>) -> Action {
    let (Some(tensor), Ok(ndim)) = (call.arg(0), usize::try_from(call.ty().ndim())) else { return Action::Keep };
    let unknown = call.ty().to_owned();
    let (function, tensor) = (rw.extern_func("vm.builtin.tensor_to_shape"), rw.v(tensor));
    let ty = rw.type_arg(&unknown);
    let shape = rw.call("relax.call_pure_packed", &[function, tensor, ty], &[], &unknown);
    let shape = rw.emit(shape, "gv");
    let dims: Vec<Dim> = (0..ndim).map(|at| Dim::Var(rw.edit().builder().sym(&format!("d{at}"), DType::I64))).collect();
    let cast = rw.match_cast(shape, &Type::shape(dims.clone()));
    // Symbolic variables are visible outside of a dataflow block, so the value that defines them must be an output.
    rw.edit().make_output(cast);
    let known = rw.shape(&dims);
    rw.edit().make_alias(call.value(), known);
    Action::Keep
}
