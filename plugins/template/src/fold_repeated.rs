//! Folds calls that are repeated: `f(f(x))` becomes `f(x)`.

use plugin_api::prelude::*;

declare_pass! {
    /// Folds repeated calls: `f(f(x))` becomes `f(x)`, for operators that do not change their own result.
    ///
    /// Expects any function. Results do not change, and the first call of each chain is kept.
    ///
    /// ```relax before
    /// @R.function
    /// def main(x: R.Tensor((2, 3), "float32")):
    ///     a = R.nn.relu(x)
    ///     b = R.nn.relu(a)
    ///     c = R.exp(b)
    ///     return c
    /// ```
    /// ```relax after
    /// @R.function
    /// def main(x: R.Tensor((2, 3), "float32")):
    ///     a = R.nn.relu(x)
    ///     c = R.exp(a)
    ///     return c
    /// ```
    ///
    /// With the operator `relax.abs` instead of the default:
    ///
    /// ```relax before
    /// # options: {operators=[relax.abs]}
    /// @R.function
    /// def main(x: R.Tensor((2, 3), "float32")):
    ///     a = R.nn.relu(x)
    ///     b = R.nn.relu(a)
    ///     c = R.abs(b)
    ///     d = R.abs(c)
    ///     return d
    /// ```
    /// ```relax after
    /// @R.function
    /// def main(x: R.Tensor((2, 3), "float32")):
    ///     a = R.nn.relu(x)
    ///     b = R.nn.relu(a)
    ///     c = R.abs(b)
    ///     return c
    /// ```
    pub function pass FOLD_REPEATED = "template_plugin.FoldRepeated" {
        opt_level: 1,
        required: ["relax.Normalize"],
        preserves: [keeps_form],
        options: Options {
            /// Operators that do not change their own result.
            operators: Vec<String> = ["relax.nn.relu"],
        },
        run: fold_repeated,
    }
}

fn fold_repeated(body: &Body, options: &Options, _: &Ctx) -> Result<Body, PassError> {
    if let Some(short) = options.operators.iter().find(|name| !name.contains('.')) {
        bail!(option "`operators` contains `{short}`; write the full name of an operator, as in `relax.nn.relu`");
    }
    let folded = body.rewrite(|value, rw| {
        let Some((outer, inner)) = repeated(value, &options.operators) else { return Action::Keep };
        if inner.value().is_dataflow_var() && !value.is_dataflow_var() {
            // To keep the name of the output, write its call again. Otherwise, the inner value would become the output.
            let args: Vec<V> = inner.args().map(|arg| rw.v(arg)).collect();
            return Action::Replace(rw.call_like(outer, &args));
        }
        Action::Replace(rw.v(inner.value()))
    });
    Ok(folded?)
}

/// Returns a call of one of the operators and its argument, if the argument is a call of the same operator.
fn repeated<'b>(value: Value<'b>, operators: &[String]) -> Option<(Call<'b>, Call<'b>)> {
    let outer = value.as_call()?;
    let op = outer.op().filter(|op| operators.iter().any(|known| known == op))?;
    let inner = outer.arg(0)?.as_call_to(op)?;
    Some((outer, inner))
}
