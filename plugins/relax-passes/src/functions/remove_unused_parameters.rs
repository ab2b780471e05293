//! Removes unused parameters of private functions.

use super::callers::{map_relax, only_called};
use plugin_api::ir::UseCounts;
use plugin_api::prelude::*;
use plugin_api::rewrite::remove_unused::remove_all_unused_in;
use plugin_api::walk::in_place::WrittenParams;
use std::collections::{BTreeMap, BTreeSet, HashSet};

declare_pass! {
    /// Removes unused parameters of private functions, and the code in callers that only computed them.
    ///
    /// If only the type of such a parameter determines a symbolic variable, the function takes the variable as a shape
    /// instead. Expects any module. Keeps functions that are visible outside the module, or that are used as values.
    ///
    /// ```relax before
    /// @R.function(private=True)
    /// def f(x: R.Tensor((2, 3), "float32"), unused: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
    ///     y = R.nn.relu(x)
    ///     return y
    ///
    /// @R.function
    /// def main(x: R.Tensor((2, 3), "float32")):
    ///     cls = Module
    ///     a = R.exp(x)
    ///     b = cls.f(x, a)
    ///     return b
    /// ```
    /// ```relax after
    /// @R.function(private=True)
    /// def f(x: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
    ///     y = R.nn.relu(x)
    ///     return y
    ///
    /// @R.function
    /// def main(x: R.Tensor((2, 3), "float32")):
    ///     cls = Module
    ///     b = cls.f(x)
    ///     return b
    /// ```
    pub module pass REMOVE_UNUSED_PARAMETERS = "relax.RemoveUnusedParameters" {
        opt_level: 0,
        preserves: [keeps_form],
        run: remove_unused_parameters,
    }
}

pub(crate) fn remove_unused_parameters(module: &Module, ctx: &Ctx) -> Result<Module, PassError> {
    let mut changed = BTreeMap::new();
    for name in only_called(module) {
        if let Some(body) = module.get(name) {
            changed.extend(with_used_parameters(body, ctx)?.map(|used| (name, used)));
        }
    }
    leave_unknown_dims(module, &mut changed, ctx);
    if changed.is_empty() {
        return Ok(module.clone());
    }
    ctx.statistic(
        "parameters removed",
        changed.values().map(|used| used.keep.iter().filter(|keep| !**keep).count()).sum(),
    );
    let mut edit = module.edit();
    changed.iter().for_each(|(name, used)| edit.set(*name, used.body.clone()));
    let edited = edit.finish();
    let written = WrittenParams::of(&edited);
    map_relax(&edited, |body| {
        let called = with_used_arguments(body, &changed)?;
        if called.same(body) { Ok(called) } else { Ok(remove_all_unused_in(&called, &written)?) }
    })
}

/// Leaves out functions that would need a dimension of an argument whose shape is unknown in some caller.
fn leave_unknown_dims(module: &Module, changed: &mut BTreeMap<&str, Used>, ctx: &Ctx) {
    for (caller, body) in module.functions() {
        for call in body.values().filter_map(Value::as_call) {
            let Some((name, used)) = call.global().and_then(|name| changed.get_key_value(name)) else { continue };
            let is_unknown =
                |(param, _): &(usize, usize)| call.arg(*param).is_some_and(|arg| arg.ty().dims().is_none());
            if used.symbols.iter().any(is_unknown) {
                let name = *name;
                let message =
                    format!("`{name}` keeps its parameters, because the shape of an argument of this call is unknown");
                ctx.diagnostics().in_function(caller).missed(call.value(), &message);
                changed.remove(name);
            }
        }
    }
}

/// A function without its unused parameters.
struct Used {
    body: Body,
    /// For each old parameter, true if it is kept.
    keep: Vec<bool>,
    /// For each symbolic variable that becomes a parameter, the old parameter and the dimension of its type that
    /// determined it.
    symbols: Vec<(usize, usize)>,
}

fn with_used_parameters(body: &Body, ctx: &Ctx) -> Result<Option<Used>, PassError> {
    let params: Vec<Value<'_>> = body.function().into_iter().flat_map(Function::params).collect();
    let (uses, mentioned) = (ctx.analysis::<UseCounts>(body), mentioned_symbols(body));
    let is_used = |param: &Value<'_>| uses.of(*param) > 0 || param.symbol().is_some_and(|sym| mentioned.contains(&sym));
    let keep: Vec<bool> = params.iter().map(is_used).collect();
    if keep.iter().all(|keep| *keep) {
        return Ok(None);
    }
    let kept = params.iter().zip(&keep).filter(|(_, keep)| **keep).map(|(param, _)| param.ty().to_owned());
    let mut types: Vec<Type> = kept.collect();
    let mut edit = body.edit();
    let (mut symbols, ret) = (Vec::new(), body.function().map(|function| function.ret_ty().to_owned()));
    let places = places(&params);
    for sym in undefined_symbols(body, &types) {
        let Some(place) = places.get(&sym) else { continue };
        let ty = Type::shape(vec![Dim::Var(sym)]);
        edit.add_param(&format!("param_{}", body.sym_name(sym.id).unwrap_or("n")), &ty);
        symbols.push(*place);
        types.push(ty);
    }
    for (param, _) in params.iter().zip(&keep).filter(|(_, keep)| !**keep) {
        edit.remove(*param);
    }
    edit.set_signature(types, ret.unwrap_or_default());
    Ok(Some(Used { body: edit.finish()?, keep, symbols }))
}

/// Returns the symbolic variables that occur anywhere except as the scalar value that defines them.
fn mentioned_symbols(body: &Body) -> HashSet<Sym> {
    let mut mentioned = HashSet::new();
    for value in body.values().filter(|value| value.symbol().is_none()) {
        value.each_symbol(&mut |sym| {
            mentioned.insert(sym);
        });
    }
    mentioned
}

/// Returns the symbolic variables that the body of a function uses and that parameters of these types do not determine,
/// in reverse order of first use, as in TVM.
fn undefined_symbols(body: &Body, types: &[Type]) -> Vec<Sym> {
    let (mut known, mut found) = (BTreeSet::new(), Vec::new());
    types.iter().for_each(|ty| {
        ty.each_defined(&mut |sym| {
            known.insert(sym);
        })
    });
    let content = body.values().filter(|value| !matches!(value.view(), Expr::Param | Expr::Function(_)));
    for value in content {
        if value.is_match_cast() {
            value.ty().to_owned().each_defined(&mut |sym| {
                known.insert(sym);
            });
        }
        value.each_symbol(&mut |sym| {
            if known.insert(sym) {
                found.push(sym);
            }
        });
    }
    // A remaining parameter may be a shape with an expression, which does not determine the variables in it.
    let mut in_types = |dim: &Dim| {
        dim.vars(&mut |sym| {
            if known.insert(sym) {
                found.push(sym);
            }
        });
    };
    types.iter().for_each(|ty| ty.each_dim(false, &mut in_types));
    found.reverse();
    found
}

/// Returns, for each symbolic variable, the first parameter whose type determines it, and the dimension in that type.
fn places(params: &[Value<'_>]) -> BTreeMap<Sym, (usize, usize)> {
    let mut places = BTreeMap::new();
    for (i, param) in params.iter().enumerate() {
        for (at, dim) in param.ty().dims().into_iter().flatten().enumerate() {
            if let Dim::Var(sym) = dim {
                places.entry(sym).or_insert((i, at));
            }
        }
    }
    places
}

/// Updates calls to pass only the remaining arguments.
fn with_used_arguments(body: &Body, changed: &BTreeMap<&str, Used>) -> Result<Body, PassError> {
    let mut edit = body.edit();
    for call in body.values().filter_map(Value::as_call) {
        let Some((name, used)) = call.global().and_then(|name| changed.get_key_value(name)) else { continue };
        let args: Vec<Value<'_>> = call.args().collect();
        let mut operands = vec![edit.function_of(name, &used.body)];
        // A surplus argument is kept, so that the call is rejected as before.
        let keep = used.keep.iter().chain(std::iter::repeat(&true));
        operands.extend(args.iter().zip(keep).filter(|(_, keep)| **keep).map(|(arg, _)| edit.v(*arg)));
        for (param, at) in &used.symbols {
            let Some(dim) = args.get(*param).and_then(|arg| arg.ty().dims()?.nth(*at)) else {
                bail!(at call.value(), "the shape of argument {param} is unknown, but one of its dimensions is needed");
            };
            operands.push(edit.builder().shape(&[dim]));
        }
        edit.set_operands(call, &operands);
    }
    Ok(edit.finish()?)
}
