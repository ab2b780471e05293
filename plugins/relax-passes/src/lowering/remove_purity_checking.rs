//! Removes purity checks: calls declared pure become plain calls.

use plugin_api::prelude::*;
use plugin_api::typing::relations::calls_are_pure;

declare_pass! {
    /// Disables purity checks, as the last step before calls with side effects are emitted.
    ///
    /// Pure functions, including local ones, are marked `relax.force_pure`. A call that was only declared to be pure
    /// becomes a plain call. Expects that such calls in dataflow blocks are free of side effects; run
    /// relax.ToNonDataflow first to remove these blocks. Results do not change.
    ///
    /// ```relax before
    /// @R.function
    /// def main(x: R.Tensor((2, 3), "float32")):
    ///     y = R.call_pure_packed("my.copy", x, ty_args=(R.Tensor((2, 3), "float32"),))
    ///     return y
    /// ```
    /// ```relax after
    /// @R.function
    /// def main(x: R.Tensor((2, 3), "float32")):
    ///     R.func_attr({"relax.force_pure": True})
    ///     y = R.call_packed("my.copy", x, ty_args=(R.Tensor((2, 3), "float32"),))
    ///     return y
    /// ```
    pub function pass REMOVE_PURITY_CHECKING = "relax.RemovePurityChecking" {
        opt_level: 0,
        preserves: [keeps_form],
        run: remove_purity_checking,
    }
}

fn remove_purity_checking(body: &Body, ctx: &Ctx) -> Result<Body, PassError> {
    let mut in_dataflow = body.dataflow_blocks().flat_map(Block::bindings);
    if let Some(call) = in_dataflow.find(|value| value.as_call().is_some_and(gets_effect)) {
        bail!(at call, "the call counts as impure once it is no longer declared pure, but it is in a dataflow block; run relax.ToNonDataflow \
                        first");
    }
    let mut edit = body.edit();
    let mut unwrapped = 0;
    for value in body.values() {
        match value.view() {
            Expr::Function(function) if function.is_pure() => {
                edit.set_attr(value, "relax.force_pure", Attr::Bool(true));
            }
            Expr::Call(call) => unwrapped += usize::from(unwrap(&mut edit, call)),
            _ => {}
        }
    }
    ctx.statistic("calls unwrapped", unwrapped);
    Ok(edit.finish()?)
}

/// Returns true if a call that is declared pure has an effect once it is a plain call.
fn gets_effect(call: Call<'_>) -> bool {
    match call.op() {
        Some("relax.call_pure_packed") => {
            function_called(call).is_none_or(|callee| !calls_are_pure(&callee.ty().to_owned()))
        }
        Some("relax.invoke_pure_closure") => true,
        _ => false,
    }
}

/// Returns the module function or local function that `R.call_pure_packed` calls; `None` if the callee is external.
fn function_called(call: Call<'_>) -> Option<Value<'_>> {
    call.arg(0).filter(|callee| !matches!(callee.view(), Expr::ExternFunc(_)))
}

/// Turns a call that is declared pure into a plain call. Returns true if the call was declared pure.
fn unwrap(edit: &mut Edit<'_>, call: Call<'_>) -> bool {
    match call.op() {
        Some("relax.call_pure_packed") => match function_called(call) {
            None => call_operator(edit, call, "relax.call_packed"),
            Some(_) => {
                let parts: Vec<Value<'_>> = call.args().collect();
                edit.set_operands(call, &parts);
                if gets_effect(call) {
                    edit.mark_effect(call);
                }
            }
        },
        Some("relax.invoke_pure_closure") => call_operator(edit, call, "relax.invoke_closure"),
        _ => return false,
    }
    true
}

/// Replaces a call by the same call of an operator that has an effect.
fn call_operator(edit: &mut Edit<'_>, call: Call<'_>, name: &str) {
    let operator = edit.builder().op(name);
    edit.set_operand(call, 0, operator);
    edit.mark_effect(call);
}
