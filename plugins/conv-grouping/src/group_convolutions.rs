//! Groups two successive convolutions into a private function.
//!
//! *Expects* functions in A-normal form without dead bindings. *Keeps* the computed values. *Never* puts one
//! convolution into two groups, or a value that is used outside a group into the group, except as its last value.

use plugin_api::pattern::{is_call_tir, is_chain, is_tuple_get};
use plugin_api::prelude::*;

declare_pass! {
    /// Groups two successive convolutions into a private function.
    ///
    /// One convolution follows another directly, or through operators whose results have no other users. Groups are
    /// formed from the front, without overlap. A convolution is `R.nn.conv2d` (the function is then marked
    /// `Composite`), or `R.call_tir` of a PrimFunc with `my_op_kind = "convolution"` (marked `Primitive`).
    ///
    /// Expects functions in A-normal form without dead bindings. Results do not change. A value that is used outside
    /// its group is never part of the group, unless it is the last value of the group.
    ///
    /// ```relax before
    /// @R.function
    /// def main(x: R.Tensor((1, 8, 8, 8), "float32"), w: R.Tensor((8, 8, 1, 1), "float32")):
    ///     a = R.nn.conv2d(x, w)
    ///     b = R.nn.relu(a)
    ///     c = R.nn.conv2d(b, w)
    ///     return c
    /// ```
    /// ```relax after
    /// @R.function(private=True)
    /// def fused_conv2d_conv2d(
    ///     x: R.Tensor((1, 8, 8, 8), "float32"), w: R.Tensor((8, 8, 1, 1), "float32")
    /// ) -> R.Tensor((1, 8, 8, 8), "float32"):
    ///     R.func_attr({"Composite": "acme.conv2d_conv2d"})
    ///     with R.dataflow():
    ///         a = R.nn.conv2d(x, w)
    ///         b = R.nn.relu(a)
    ///         c = R.nn.conv2d(b, w)
    ///         R.output(c)
    ///     return c
    ///
    /// @R.function
    /// def main(x: R.Tensor((1, 8, 8, 8), "float32"), w: R.Tensor((8, 8, 1, 1), "float32")):
    ///     cls = Module
    ///     c = cls.fused_conv2d_conv2d(x, w)
    ///     return c
    /// ```
    pub module pass GROUP_CONVOLUTIONS = "acme.GroupConvolutions" {
        opt_level: 0,
        required: ["relax.Normalize", "relax.DeadCodeElimination"],
        preserves: [keeps_form],
        options: Options {
            /// Operators that may be between the two convolutions; `relax.add` only with a bias, `relax.nn.batch_norm` only if its other results are unused.
            through: Vec<String> = ["relax.add", "relax.nn.relu"],
        },
        run: group_convolutions,
    }
}

declare_config! {
    /// The maximum number of groups in one function; by default, unlimited.
    ///
    /// Use it to find the group that causes a difference.
    pub MOST: i64 = "acme.group_convolutions.most" { range: 0.. }
}

fn group_convolutions(module: &Module, options: &Options, ctx: &Ctx) -> Result<Module, PassError> {
    options.through.iter().try_for_each(|op| ctx.check_operator(op)).map_err(PassError::of_option)?;
    let most = MOST.get(ctx).and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX);
    let operators = pair(options, |data| is_op("relax.nn.conv2d", ..).arg(0, data));
    let prim_funcs = pair(options, |data| is_call_tir(..).callee_attr("my_op_kind", "convolution").arg(0, data));
    let either = (operators.bind("operators") | prim_funcs).named("two convolutions of one kind");
    let mut functions = module.edit();
    let mut groups = 0;
    for (name, body) in
        module.functions().filter(|(_, body)| body.function().is_some_and(|function| !function.is_closed()))
    {
        let mut edit = body.edit();
        let matcher = ctx.matcher(&either).in_module(module).in_function(name);
        for found in matcher.on(body).disjoint().take(most) {
            let (hint, mark) = match found.try_get("operators") {
                Some(_) => ("fused_conv2d_conv2d", ("Composite", "acme.conv2d_conv2d".into())),
                None => ("fused_conv_conv", ("Primitive", Attr::Bool(true))),
            };
            let outlined = edit.outline(&mut functions, &found.bindings(), hint, &[mark]);
            outlined.map_err(|error| error.in_function(name))?;
            groups += 1;
        }
        functions.set(name, edit.finish()?);
    }
    ctx.statistic("groups formed", groups);
    Ok(functions.finish())
}

/// Returns the pattern of two convolutions of one kind in one block: the second uses the first, directly or through
/// operators. Only the last value may have more than one user.
fn pair(options: &Options, convolution: impl Fn(Pattern) -> Pattern) -> Pattern {
    let first = convolution(wildcard()).used_once();
    let through = |value: Pattern| options.through.iter().map(|op| step(op, &value)).reduce(|a, b| a | b);
    let between = is_chain(first.clone(), |value| through(value).map_or(first, |step| step.pure().used_once()));
    convolution(between).pure().in_one_block()
}

/// Returns the pattern of an operator between two convolutions, applied to `value`.
fn step(op: &str, value: &Pattern) -> Pattern {
    match op {
        "relax.add" => is_commutative(op, value, wildcard().when("a bias", is_bias)),
        "relax.nn.batch_norm" => is_tuple_get(is_op(op, ..).any_arg(value).pure().used_once(), 0),
        _ => is_op(op, ..).any_arg(value),
    }
}

/// Returns true if a value has more than one element along at most one axis.
fn is_bias(value: Value<'_>) -> bool {
    value.ty().static_dims().is_some_and(|dims| dims.into_iter().filter(|dim| *dim != 1).count() <= 1)
}
