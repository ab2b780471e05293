//! Passes the elements of tuples, instead of tuples, to private functions.

use super::callers::{map_relax, only_called};
use crate::canonicalize_bindings::canonicalize;
use crate::dead_code_elimination::without_dead_code;
use plugin_api::prelude::*;
use std::collections::BTreeMap;

declare_pass! {
    /// Passes the elements of tuples instead of tuples to private functions.
    ///
    /// The pass then canonicalizes bindings and eliminates dead code.
    ///
    /// Expects any module. Keeps the parameters of functions that are visible outside the module, or that are used as
    /// values.
    ///
    /// ```relax before
    /// @R.function(private=True)
    /// def f(args: R.Tuple(R.Tensor((2, 3), "float32"), R.Tensor((2, 3), "float32"))) -> R.Tensor((2, 3), "float32"):
    ///     x = args[0]
    ///     y = args[1]
    ///     z = R.add(x, y)
    ///     return z
    ///
    /// @R.function
    /// def main(x: R.Tensor((2, 3), "float32")):
    ///     cls = Module
    ///     y = cls.f((x, x))
    ///     return y
    /// ```
    /// ```relax after
    /// @R.function(private=True)
    /// def f(args_0: R.Tensor((2, 3), "float32"), args_1: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
    ///     z = R.add(args_0, args_1)
    ///     return z
    ///
    /// @R.function
    /// def main(x: R.Tensor((2, 3), "float32")):
    ///     cls = Module
    ///     y = cls.f(x, x)
    ///     return y
    /// ```
    pub module pass EXPAND_TUPLE_ARGUMENTS = "relax.ExpandTupleArguments" {
        opt_level: 0,
        preserves: [keeps_form],
        run: expand_tuple_arguments,
    }
}

pub(crate) fn expand_tuple_arguments(module: &Module, ctx: &Ctx) -> Result<Module, PassError> {
    let mut changed = BTreeMap::new();
    for name in only_called(module) {
        let Some(body) = module.get(name) else { continue };
        let mut edit = body.edit();
        if let Some(params) = edit.expand_tuple_params() {
            let ret = body.function().map(|function| function.ret_ty().to_owned());
            edit.set_signature(params, ret.unwrap_or_default());
            changed.insert(name, edit.finish()?);
        }
    }
    ctx.statistic("functions expanded", changed.len());
    let mut edit = module.edit();
    changed.iter().for_each(|(name, body)| edit.set(*name, body.clone()));
    let called = map_relax(&edit.finish(), |body| with_expanded_arguments(body, &changed))?;
    without_dead_code(&map_relax(&called, |body| canonicalize(body, ctx))?, ctx)
}

/// Returns the function with calls that pass elements.
fn with_expanded_arguments(body: &Body, changed: &BTreeMap<&str, Body>) -> Result<Body, PassError> {
    body.try_rewrite(|value, rw| {
        let Some(call) = value.as_call() else { return Ok(Action::Keep) };
        let Some((name, callee)) = call.global().and_then(|name| changed.get_key_value(name)) else {
            return Ok(Action::Keep);
        };
        let mut operands = vec![rw.edit().function_of(name, callee)];
        call.args().for_each(|arg| expand(arg, rw, &mut operands));
        rw.edit().set_operands(call, &operands);
        Ok(Action::Keep)
    })
}

/// Adds a value, or its elements if it is a tuple, recursively.
fn expand<'b>(value: Value<'b>, rw: &mut Rewriter<'b>, to: &mut Vec<V>) {
    match value.view() {
        Expr::Tuple(tuple) if value.is_nested() => tuple.operands().for_each(|element| expand(element, rw, to)),
        _ => {
            let (ty, value) = (value.ty().to_owned(), rw.v(value));
            expand_typed(value, &ty, rw, to);
        }
    }
}

fn expand_typed(value: V, ty: &Type, rw: &mut Rewriter<'_>, to: &mut Vec<V>) {
    let Type::Tuple(fields) = ty else { return to.push(value) };
    for (i, field) in fields.iter().enumerate() {
        let element = rw.tuple_get(value, i as u32);
        let element = rw.emit(element, "gv");
        expand_typed(element, field, rw, to);
    }
}
