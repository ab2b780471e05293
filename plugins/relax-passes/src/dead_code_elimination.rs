//! Removes bindings whose value is never used, and functions that nothing calls.
//!
//! *Expects* any module. *Keeps* everything with an effect, every `match_cast`, and externally callable functions.
//! *Never* reorders the remaining bindings.

use plugin_api::names::{did_you_mean, nearest};
use plugin_api::prelude::*;
use plugin_api::rewrite::remove_unused::remove_all_unused_in;
use plugin_api::walk::in_place::WrittenParams;
use std::collections::BTreeSet;

declare_pass! {
    /// Removes bindings whose value is never used, and functions that are never called.
    ///
    /// Expects any module. Keeps everything with side effects, every match_cast, and functions that are visible outside
    /// the module. Keeps a call that writes to its argument if the argument is used later, or comes from outside the
    /// function. The order of the remaining bindings does not change.
    ///
    /// ```relax before
    /// @R.function
    /// def main(x: R.Tensor((2, 3), "float32")):
    ///     a = R.add(x, x)
    ///     b = R.nn.relu(x)
    ///     return b
    /// ```
    /// ```relax after
    /// @R.function
    /// def main(x: R.Tensor((2, 3), "float32")):
    ///     b = R.nn.relu(x)
    ///     return b
    /// ```
    pub module pass DEAD_CODE_ELIMINATION = "relax.DeadCodeElimination" {
        opt_level: 1,
        preserves: [keeps_form],
        options: Options {
            /// Private functions that are nevertheless called from outside; they are kept, with the functions that they
            /// call.
            entry_functions: Vec<String> = [],
        },
        run: dead_code_elimination,
    }
}

fn dead_code_elimination(module: &Module, options: &Options, ctx: &Ctx) -> Result<Module, PassError> {
    if let Some(unknown) = options.entry_functions.iter().find(|name| module.get(name).is_none()) {
        let near = nearest(unknown, module.functions().map(|(name, _)| name));
        bail!(option "`entry_functions` names `{unknown}`, which is not in the module{}", did_you_mean(&near));
    }
    let written = WrittenParams::of(module);
    let cleaned = module.map_functions(|name, body| match body.function() {
        Some(function) if !function.skips_optimization() => {
            remove_all_unused_in(body, &written).map_err(|error| PassError::from(error).in_function(name))
        }
        _ => Ok(body.clone()),
    })?;
    let reached = reachable(&cleaned, &options.entry_functions);
    let mut edit = cleaned.edit();
    for (name, _) in cleaned.functions().filter(|(name, _)| !reached.contains(name)) {
        edit.remove(name);
    }
    let result = edit.finish();
    ctx.statistic("bindings removed", module.n_bindings() - cleaned.n_bindings());
    ctx.statistic("functions removed", cleaned.len() - result.len());
    Ok(result)
}

/// Runs the pass with its default options; other passes call it as their last step.
pub(crate) fn without_dead_code(module: &Module, ctx: &Ctx) -> Result<Module, PassError> {
    dead_code_elimination(module, &Options::default(), ctx)
}

/// Returns the names of functions that can be called from outside, directly or through other functions.
fn reachable<'m>(module: &'m Module, entries: &[String]) -> BTreeSet<&'m str> {
    let is_entry = |name: &str, body: &Body| !body.is_private() || entries.iter().any(|entry| entry == name);
    let mut work: Vec<(&str, &Body)> = module.functions().filter(|(name, body)| is_entry(name, body)).collect();
    let mut reached = BTreeSet::new();
    while let Some((name, body)) = work.pop() {
        if reached.insert(name) && body.mentions_functions() {
            let callees = body.values().flat_map(Value::operands).filter_map(Value::as_global);
            work.extend(callees.filter_map(|callee| module.get_entry(callee)));
        }
    }
    reached
}
