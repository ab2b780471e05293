//! Shares equal calls of a dataflow block.

use plugin_api::prelude::*;

declare_pass! {
    /// Shares equal calls of a dataflow block, so that each is computed once.
    ///
    /// Expects any dataflow block. Keeps outputs of the block, and all calls outside dataflow blocks.
    ///
    /// ```relax before
    /// @R.function
    /// def main(x: R.Tensor((2, 3), "float32")):
    ///     with R.dataflow():
    ///         a = R.exp(x)
    ///         b = R.exp(x)
    ///         c = R.add(a, b)
    ///         R.output(c)
    ///     return c
    /// ```
    /// ```relax after
    /// @R.function
    /// def main(x: R.Tensor((2, 3), "float32")):
    ///     with R.dataflow():
    ///         a = R.exp(x)
    ///         c = R.add(a, a)
    ///         R.output(c)
    ///     return c
    /// ```
    pub dataflow pass SHARE_CALLS = "template_plugin.ShareCalls" {
        opt_level: 1,
        preserves: [keeps_form],
        options: Options {
            /// The operators whose calls are shared; if empty, all operators.
            operators: Vec<String> = [],
        },
        run: share_calls,
    }
}

fn share_calls(edit: &mut Edit<'_>, block: Value<'_>, options: &Options, _: &Ctx) -> Result<(), PassError> {
    let wanted = |op: &str| options.operators.is_empty() || options.operators.iter().any(|name| name == op);
    let mut seen: Vec<Value<'_>> = Vec::new();
    for value in block.region().bindings().filter(|value| value.as_call().and_then(Call::op).is_some_and(wanted)) {
        match seen.iter().find(|first| same_call(edit, **first, value)) {
            Some(first) if value.is_dataflow_var() => {
                edit.replace(value, *first);
            }
            // Keep an output, because code after the block uses it by this name.
            Some(_) => {}
            None => seen.push(value),
        }
    }
    Ok(())
}

/// Returns true if two calls have the same callee, arguments and attributes after the replacements so far.
fn same_call(edit: &Edit<'_>, a: Value<'_>, b: Value<'_>) -> bool {
    let meaning = |value: Value<'_>| edit.resolve(value);
    a.attrs().id() == b.attrs().id() && a.operands().map(meaning).eq(b.operands().map(meaning))
}
