//! Removes the results of private functions that no caller uses.

use super::callers::{map_relax, only_called};
use crate::canonicalize_bindings::canonicalize;
use crate::dead_code_elimination::without_dead_code;
use plugin_api::prelude::*;
use plugin_api::typing::infer_types::{infer_types, narrow_results};
use std::collections::BTreeMap;

declare_pass! {
    /// Removes unused elements from the results of private functions.
    ///
    /// If only one result of a function is used, the function returns it without a tuple. The pass then
    /// canonicalizes bindings and eliminates dead code. Expects any module. Keeps the results of functions that are
    /// visible outside the module, or that are used as values.
    ///
    /// ```relax before
    /// @R.function(private=True)
    /// def f(x: R.Tensor((2, 3), "float32")) -> R.Tuple(R.Tensor((2, 3), "float32"), R.Tensor((2, 3), "float32")):
    ///     y = R.exp(x)
    ///     z = R.negative(x)
    ///     return (y, z)
    ///
    /// @R.function
    /// def main(x: R.Tensor((2, 3), "float32")):
    ///     cls = Module
    ///     pair = cls.f(x)
    ///     z = pair[1]
    ///     return z
    /// ```
    /// ```relax after
    /// @R.function(private=True)
    /// def f(x: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
    ///     z = R.negative(x)
    ///     return z
    ///
    /// @R.function
    /// def main(x: R.Tensor((2, 3), "float32")):
    ///     cls = Module
    ///     pair: R.Tensor((2, 3), "float32") = cls.f(x)
    ///     return pair
    /// ```
    pub module pass REMOVE_UNUSED_OUTPUTS = "relax.RemoveUnusedOutputs" {
        opt_level: 0,
        preserves: [keeps_form],
        run: remove_unused_outputs,
    }
}

fn remove_unused_outputs(module: &Module, ctx: &Ctx) -> Result<Module, PassError> {
    let mut changed = BTreeMap::new();
    for (name, keep) in used_outputs(module).into_iter().filter(|(_, keep)| keep.contains(&false)) {
        let Some(body) = module.get(name) else { continue };
        let mut edit = body.edit();
        if let Some(ret) = edit.keep_results(&keep) {
            let params = body.function().into_iter().flat_map(Function::params).map(|param| param.ty().to_owned());
            edit.set_signature(params.collect(), ret);
            changed.insert(name, Kept { body: edit.finish()?, keep });
        }
    }
    ctx.statistic(
        "outputs removed",
        changed.values().map(|kept| kept.keep.iter().filter(|keep| !**keep).count()).sum(),
    );
    let mut edit = module.edit();
    changed.iter().for_each(|(name, kept)| edit.set(*name, kept.body.clone()));
    let called = map_relax(&edit.finish(), |body| {
        let called = with_kept_results(body, &changed)?;
        if called.same(body) { Ok(called) } else { narrow_results(&infer_types(&called, ctx)?, ctx) }
    })?;
    without_dead_code(&map_relax(&called, |body| canonicalize(body, ctx))?, ctx)
}

/// A function that returns only the results that are used.
struct Kept {
    body: Body,
    /// For each element of the old result, true if it is kept.
    keep: Vec<bool>,
}

/// Returns, for each private function that returns a tuple, the elements that some caller uses.
fn used_outputs(module: &Module) -> BTreeMap<&str, Vec<bool>> {
    let mut used = BTreeMap::new();
    for name in only_called(module) {
        let function = module.get(name).and_then(Body::function);
        if let Some(ret) = function.map(|function| function.ret_ty()).filter(|ret| ret.is_tuple()) {
            used.insert(name, vec![false; ret.children().len()]);
        }
    }
    for user in module.functions().flat_map(|(_, body)| body.values()) {
        let element = user.as_tuple_get();
        // The call in an annotated binding is counted where the binding is used.
        let annotated = matches!(user.view(), Expr::Alias(_)) && call_in(user).is_some();
        for operand in user.operands().filter(|_| !annotated) {
            let callee = call_in(operand).and_then(Call::global);
            let Some(outputs) = callee.and_then(|callee| used.get_mut(callee)) else { continue };
            match element.and_then(|(_, index)| outputs.get_mut(index as usize)) {
                Some(output) => *output = true,
                None => outputs.fill(true),
            }
        }
    }
    used
}

/// Returns the call that defines a value, looking through bindings with wider annotations.
fn call_in(value: Value<'_>) -> Option<Call<'_>> {
    match value.view() {
        Expr::Alias(source) if source.is_nested() => source.as_call(),
        _ => value.as_call(),
    }
}

/// Updates calls to the remaining results, and uses of result elements to the new positions.
fn with_kept_results(body: &Body, changed: &BTreeMap<&str, Kept>) -> Result<Body, PassError> {
    let kept_by = |value: Value<'_>| changed.get_key_value(call_in(value)?.global()?);
    body.try_rewrite(|value, rw| {
        if let (Some(_), Expr::Alias(call)) = (kept_by(value), value.view()) {
            return Ok(Action::Replace(rw.v(call)));
        }
        if let Some((name, kept)) = kept_by(value) {
            let callee = rw.edit().function_of(name, &kept.body);
            rw.edit().set_operand(value, 0, callee);
        }
        let Some((tuple, index)) = value.as_tuple_get() else { return Ok(Action::Keep) };
        let Some((_, kept)) = kept_by(tuple) else { return Ok(Action::Keep) };
        let call = rw.v(tuple);
        if kept.keep.iter().filter(|keep| **keep).count() == 1 {
            return Ok(Action::Replace(call));
        }
        let before = kept.keep.iter().take(index as usize).filter(|keep| **keep).count();
        Ok::<_, PassError>(Action::Replace(rw.tuple_get(call, before as u32)))
    })
}
