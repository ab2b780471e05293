//! Groups operators that a compiler implements as one.

use super::composite_patterns::pattern_of;
use plugin_api::names::{did_you_mean, nearest};
use plugin_api::prelude::*;
use plugin_api::rewrite::grouping::{Constants, GroupedFunctions, Groups};
use std::collections::BTreeMap;

declare_pass! {
    /// Groups operators in dataflow blocks into private functions marked `Composite`, by named patterns.
    ///
    /// The name of a pattern consists of a compiler, a `.`, and a group of operators such as `conv2d_bias_relu` or
    /// `matmul`. Patterns are tried in the order of the option; a binding belongs to the first group that matches it.
    /// Values of a group that are used outside it become results of its function.
    ///
    /// Groups are `conv1d`, `conv2d`, `conv3d`, `conv2d_transpose` and `matmul`, each optionally followed by `_bias`
    /// (the sum with another value), and then by the name of an activation (`conv2d_bias_relu`, `matmul_gelu`).
    /// Activations are `relu`, `gelu`, `silu`, `sigmoid` and `tanh`; each is also a separate group, and so are `add`,
    /// `multiply`, `subtract`, `divide`, `softmax`, `permute_dims`, `max_pool2d`, `avg_pool2d`, `concat` and `split`.
    ///
    /// Expects functions in A-normal form. Results do not change. Bindings outside dataflow blocks, and functions
    /// marked `Primitive`, `Composite` or `Codegen`, are never grouped.
    ///
    /// Without patterns, as by default, nothing changes:
    ///
    /// ```relax before
    /// @R.function
    /// def main(x: R.Tensor((2, 3), "float32"), w: R.Tensor((3, 4), "float32"), b: R.Tensor((4,), "float32")):
    ///     with R.dataflow():
    ///         y = R.matmul(x, w)
    ///         z = R.add(y, b)
    ///         R.output(z)
    ///     return z
    /// ```
    /// ```relax after
    /// @R.function
    /// def main(x: R.Tensor((2, 3), "float32"), w: R.Tensor((3, 4), "float32"), b: R.Tensor((4,), "float32")):
    ///     with R.dataflow():
    ///         y = R.matmul(x, w)
    ///         z = R.add(y, b)
    ///         R.output(z)
    ///     return z
    /// ```
    pub module pass FUSE_OPS_BY_PATTERN = "relax.FuseOpsByPattern" {
        opt_level: 0,
        preserves: [keeps_form],
        options: Options {
            /// Names of patterns, each with its compiler, such as `acme.conv2d_relu`; the first match wins.
            patterns: Vec<String> = [],
            /// True if constants stay in the groups; otherwise they become parameters.
            bind_constants: bool = true,
            /// True to wrap each group in a function marked `Codegen`, which its compiler receives.
            annotate_codegen: bool = false,
            /// The functions to search; if empty, all functions.
            entry_functions: Vec<String> = [],
        },
        run: fuse_ops_by_pattern,
    }
}

fn fuse_ops_by_pattern(module: &Module, options: &Options, ctx: &Ctx) -> Result<Module, PassError> {
    let patterns: Vec<(&String, Pattern)> =
        options.patterns.iter().map(|name| Ok((name, pattern_of(name)?))).collect::<Result<_, PassError>>()?;
    if let Some(unknown) = options.entry_functions.iter().find(|name| module.get(name).is_none()) {
        let near = nearest(unknown, module.functions().map(|(name, _)| name));
        bail!(option "`entry_functions` names `{unknown}`, which is not in the module{}", did_you_mean(&near));
    }
    let constants = if options.bind_constants { Constants::Bound } else { Constants::Lifted };
    let is_entry =
        |name: &str| options.entry_functions.is_empty() || options.entry_functions.iter().any(|entry| entry == name);
    let (mut fused, mut formed) = (module.clone(), 0);
    for (name, pattern) in &patterns {
        let mut grouped = GroupedFunctions::new(&fused, constants);
        for (function, body) in fused.functions().filter(|(name, body)| is_entry(name) && is_looked_into(body)) {
            let matcher = ctx.matcher(pattern).in_module(&fused).in_function(function);
            let mut groups = Groups::new(body);
            let in_reach = outer_dataflow_bindings(body);
            for found in matcher.on(body).disjoint().filter(|found| in_reach.contains(found.root())) {
                groups.add(found.bindings(), &[("Composite", name.as_str().into()), ("Primitive", Attr::Bool(true))]);
            }
            formed += groups.len();
            grouped.make(function, &groups).map_err(|error| error.in_function(function))?;
        }
        fused = grouped.finish();
    }
    ctx.statistic("groups formed", formed);
    if options.annotate_codegen { annotated(&fused) } else { Ok(fused) }
}

/// Returns the bindings of dataflow blocks, except those of local functions.
fn outer_dataflow_bindings(body: &Body) -> ValueSet<'_> {
    let blocks = body.function().into_iter().flat_map(Function::blocks).filter_map(Value::as_block);
    let mut bindings = ValueSet::new(body);
    bindings.extend(blocks.filter(|block| block.is_dataflow()).flat_map(Block::bindings));
    bindings
}

fn is_looked_into(body: &Body) -> bool {
    body.function().is_some_and(|function| !function.is_closed())
}

/// Moves each called composite function into a function for its compiler, as a local function.
fn annotated(module: &Module) -> Result<Module, PassError> {
    let (mut edit, mut names) = (module.edit(), BTreeMap::new());
    let is_caller = |body: &Body| ["Composite", "Codegen"].iter().all(|key| body.root().attr(key).is_none());
    let callers = module.functions().filter(|(_, body)| is_caller(body));
    let called = callers.flat_map(|(_, body)| body.values()).filter_map(|value| value.as_call()?.global());
    for name in called {
        let Some((name, body)) = module.get_entry(name).filter(|_| !names.contains_key(name)) else { continue };
        let Some(mark) = body.root().attr("Composite").and_then(|mark| mark.as_str()) else { continue };
        let compiler = mark.split('.').next().unwrap_or(mark);
        edit.set(name, body.wrapped(&[("Codegen", compiler.into())], &["Primitive"])?);
        names.insert(name.to_string(), format!("{name}_{compiler}"));
    }
    edit.finish().rename_functions(&names)
}
