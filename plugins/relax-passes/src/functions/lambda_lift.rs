//! Moves nested functions to the module.

mod names;

use names::names_of;
use plugin_api::prelude::*;
use plugin_api::typing::infer_types::{infer_types, narrow_results};
use std::collections::{BTreeMap, BTreeSet};

declare_pass! {
    /// Moves nested functions into the module as private functions.
    ///
    /// Captured values become further parameters; the nested function is then replaced by a closure, which
    /// `invoke_closure` calls. Expects functions in A-normal form. Results do not change.
    ///
    /// ```relax before
    /// @R.function
    /// def main(x: R.Tensor((2, 3), "float32")):
    ///     @R.function
    ///     def f(a: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
    ///         b = R.exp(a)
    ///         return b
    ///     y = f(x)
    ///     return y
    /// ```
    /// ```relax after
    /// @R.function(private=True)
    /// def main_f(a: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
    ///     b = R.exp(a)
    ///     return b
    ///
    /// @R.function
    /// def main(x: R.Tensor((2, 3), "float32")):
    ///     cls = Module
    ///     y = cls.main_f(x)
    ///     return y
    /// ```
    pub module pass LAMBDA_LIFT = "relax.LambdaLift" {
        opt_level: 1,
        preserves: [keeps_form],
        run: lambda_lift,
    }
}

fn lambda_lift(module: &Module, ctx: &Ctx) -> Result<Module, PassError> {
    let mut names = names_of(module);
    let mut edit = module.edit();
    for (name, body) in module.functions() {
        let Some(mut names) = names.remove(name) else { continue };
        ctx.statistic("functions lifted", names.len());
        let mut lifted = Lifted::default();
        let mut outer = body.clone();
        while !names.is_empty() {
            outer = lift_innermost(&outer, &mut names, &mut lifted, ctx).map_err(|error| error.in_function(name))?;
        }
        lifted.order.push(name.to_string());
        lifted.functions.insert(name.to_string(), outer);
        lifted.find_makers();
        for name in &lifted.order.clone() {
            let body = lifted.with_invocations(name, ctx).map_err(|error| error.in_function(name))?;
            edit.set(name, body.clone());
            lifted.functions.insert(name.clone(), body);
        }
    }
    Ok(edit.finish())
}

/// The functions that were lifted out of one function.
#[derive(Default)]
struct Lifted {
    functions: BTreeMap<String, Body>,
    /// The names of the lifted functions, inner functions first.
    order: Vec<String>,
    /// The functions that return a closure.
    makers: BTreeSet<String>,
}

/// Lifts the functions that contain no nested functions. `names` contains the name of each nested function in program
/// order; the names of lifted functions are removed.
fn lift_innermost(body: &Body, names: &mut Vec<String>, lifted: &mut Lifted, ctx: &Ctx) -> Result<Body, PassError> {
    let nested = body.values().skip(1).filter_map(Value::as_function);
    let mut here: ValueMap<'_, (String, bool)> = ValueMap::new(body);
    let mut rest = Vec::new();
    let mut of_name: ValueMap<'_, String> = ValueMap::new(body);
    for (function, name) in nested.zip(std::mem::take(names)) {
        match function.value().region().nodes().any(|value| value.as_function().is_some()) {
            true => rest.push(name),
            false => drop(of_name.insert(function.value(), name)),
        }
    }
    *names = rest;
    body.try_rewrite(|value, rw| {
        let (Some(name), Some(function)) = (of_name.get(value), value.as_function()) else { return Ok(Action::Keep) };
        let known = |value: Value<'_>| {
            let (name, _) = here.get(value).filter(|(_, closure)| !closure)?;
            lifted.functions.get_key_value(name).map(|(name, body)| (name.as_str(), body))
        };
        let new = body.lifted(function, name, &known)?;
        let global = rw.edit().function_of(name, &new.body);
        let mut captured: Vec<V> = new.captured.into_iter().map(|value| rw.v(value)).collect();
        if !new.symbols.is_empty() {
            let dims: Vec<Dim> = new.symbols.into_iter().map(Dim::Var).collect();
            captured.push(rw.shape(&dims));
        }
        here.insert(value, (name.clone(), !captured.is_empty()));
        lifted.order.push(name.clone());
        lifted.functions.insert(name.clone(), new.body);
        if captured.is_empty() {
            return Ok::<_, PassError>(Action::Replace(global));
        }
        let captured = rw.tuple(&captured);
        Ok(Action::Replace(rw.call_op(ctx, "relax.make_closure", &[global, captured], &[])?))
    })
}

impl Lifted {
    /// Finds the functions that return a closure, which they create or receive from another function that returns
    /// closures.
    fn find_makers(&mut self) {
        for name in &self.order {
            let result = self.functions.get(name).and_then(Body::function).and_then(Function::result);
            if result.is_some_and(|result| self.makes_closure(result)) {
                self.makers.insert(name.clone());
            }
        }
    }

    /// Replaces calls of closures by invocations, and updates the types of the called functions.
    fn with_invocations(&self, name: &str, ctx: &Ctx) -> Result<Body, PassError> {
        let Some(body) = self.functions.get(name) else { bail!("`{name}` was not lifted") };
        let changed = body.try_rewrite(|value, rw| {
            if let Some(call) = value.as_call().filter(|call| self.makes_closure(call.callee())) {
                return Ok(Action::Replace(invocation(call, rw)));
            }
            for (at, operand) in value.operands().enumerate() {
                if let Some((name, body)) = operand.as_global().and_then(|name| self.functions.get_key_value(name)) {
                    let global = rw.edit().function_of(name, body);
                    rw.edit().set_operand(value, at, global);
                }
            }
            Ok::<_, PassError>(Action::Keep)
        })?;
        if changed.same(body) { Ok(changed) } else { narrow_results(&infer_types(&changed, ctx)?, ctx) }
    }

    /// Returns true if a value is a closure, created here or by a lifted function.
    fn makes_closure(&self, value: Value<'_>) -> bool {
        let Some(call) = value.as_call() else { return false };
        call.op() == Some("relax.make_closure") || call.global().is_some_and(|name| self.makers.contains(name))
    }
}

/// Emits the call of a closure.
fn invocation<'b>(call: Call<'b>, rw: &mut Rewriter<'b>) -> V {
    let args: Vec<V> = call.args().map(|arg| rw.v(arg)).collect();
    let (closure, args, ty) = (rw.v(call.callee()), rw.tuple(&args), call.ty().to_owned());
    let result = rw.edit().builder().ty(&ty);
    let result = rw.edit().builder().type_arg(result);
    let op = if call.value().has_effect() { "relax.invoke_closure" } else { "relax.invoke_pure_closure" };
    rw.call(op, &[closure, args, result], &[], &ty)
}
