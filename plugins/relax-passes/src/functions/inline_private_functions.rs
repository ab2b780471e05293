//! Replaces calls of private functions by their bodies.

use super::callers::only_called;
use crate::canonicalize_bindings::canonicalize;
use plugin_api::prelude::*;
use plugin_api::rewrite::remove_unused::remove_all_unused_in;
use plugin_api::typing::infer_types::{infer_types, narrow_results};
use plugin_api::walk::in_place::WrittenParams;
use std::collections::{BTreeMap, BTreeSet};

declare_pass! {
    /// Replaces calls of private functions by their content, and removes these functions.
    ///
    /// Like TVM, it also removes aliases and unused values from each function that remains, unless there was nothing
    /// to replace. Expects functions in A-normal form. Results do not change. Keeps functions that call themselves, directly or
    /// through others, functions that are used as values, and functions that are called by a function marked
    /// `SkipOptimization` or in a nested expression.
    ///
    /// ```relax before
    /// @R.function(private=True)
    /// def f(a: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
    ///     b = R.exp(a)
    ///     return b
    ///
    /// @R.function
    /// def main(x: R.Tensor((2, 3), "float32")):
    ///     cls = Module
    ///     y = cls.f(x)
    ///     z = R.negative(y)
    ///     return z
    /// ```
    /// ```relax after
    /// @R.function
    /// def main(x: R.Tensor((2, 3), "float32")):
    ///     b = R.exp(x)
    ///     z = R.negative(b)
    ///     return z
    /// ```
    pub module pass INLINE_PRIVATE_FUNCTIONS = "relax.InlinePrivateFunctions" {
        opt_level: 0,
        preserves: [keeps_form],
        run: inline_private_functions,
    }
}

fn inline_private_functions(module: &Module, ctx: &Ctx) -> Result<Module, PassError> {
    let order = callees_first(module);
    let mut inlined: BTreeMap<&str, Body> = BTreeMap::new();
    for name in &order {
        if let Some(body) = module.get(name) {
            inlined.insert(name, body.inline_calls(|callee| inlined.get(callee))?);
        }
    }
    ctx.statistic("functions inlined", inlined.len());
    if inlined.is_empty() {
        return Ok(module.clone());
    }
    let (mut edit, written) = (module.edit(), WrittenParams::of(module));
    for (name, body) in module.functions().filter(|(_, body)| body.function().is_some()) {
        if inlined.contains_key(name) {
            edit.remove(name);
            continue;
        }
        let mut content = body.inline_calls(|callee| inlined.get(callee)).map_err(|error| error.in_function(name))?;
        if !content.same(body) {
            content = narrow_results(&infer_types(&content, ctx)?, ctx)?;
        } else if body.function().is_some_and(|function| function.skips_optimization()) {
            continue;
        }
        edit.set(name, remove_all_unused_in(&canonicalize(&content, ctx)?, &written)?);
    }
    Ok(edit.finish())
}

/// Returns the private functions that only bindings call.
fn called_by_bindings(module: &Module) -> BTreeSet<&str> {
    let mut private = only_called(module);
    for value in module.functions().flat_map(|(_, body)| body.values()).filter(|value| !value.is_binding()) {
        if let Some(callee) = value.as_call().and_then(Call::global) {
            private.remove(callee);
        }
    }
    private
}

/// Returns the private functions whose calls can all be replaced, callees first. Functions that call themselves,
/// directly or indirectly, are left out.
fn callees_first(module: &Module) -> Vec<&str> {
    let private = called_by_bindings(module);
    let callees = |name: &str| {
        let values = module.get_entry(name).into_iter().flat_map(|(_, body)| body.values());
        let callees = values.filter_map(|value| module.get_entry(value.as_call()?.global()?));
        callees.map(|(callee, _)| callee).filter(|callee| private.contains(callee))
    };
    let mut callers: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut missing: BTreeMap<&str, usize> = private.iter().map(|name| (*name, 0)).collect();
    for caller in &private {
        for callee in callees(caller) {
            callers.entry(callee).or_default().push(caller);
            *missing.entry(caller).or_default() += 1;
        }
    }
    let mut order: Vec<&str> = missing.iter().filter(|(_, n)| **n == 0).map(|(name, _)| *name).collect();
    let mut done = 0;
    while let Some(callee) = order.get(done).copied() {
        done += 1;
        for caller in callers.remove(callee).unwrap_or_default() {
            if let Some(n) = missing.get_mut(caller) {
                *n -= 1;
                if *n == 0 {
                    order.push(caller);
                }
            }
        }
    }
    order
}
