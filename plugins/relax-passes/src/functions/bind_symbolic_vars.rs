//! Binds symbolic variables to values.

use plugin_api::names::{did_you_mean, nearest};
use plugin_api::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

declare_pass! {
    /// Replaces symbolic variables by values, which specializes the module to tensors of these sizes.
    ///
    /// Expects any module. Functions that define none of the variables do not change. It is an error if a name does not
    /// exist in any function, or exists twice in one function. With `binding_map=["n=16"]`, the function below takes a
    /// tensor of shape `(16, 3)`; without options, it does not change.
    ///
    /// ```relax before
    /// @R.function
    /// def main(x: R.Tensor(("n", 3), "float32")):
    ///     y = R.add(x, x)
    ///     return y
    /// ```
    /// ```relax after
    /// @R.function
    /// def main(x: R.Tensor(("n", 3), "float32")):
    ///     y = R.add(x, x)
    ///     return y
    /// ```
    pub module pass BIND_SYMBOLIC_VARS = "relax.BindSymbolicVars" {
        opt_level: 1,
        preserves: [keeps_form],
        options: Options {
            /// The variables, each with its value, such as `n=16`.
            binding_map: Vec<String> = [],
            /// The only function to change; if empty, all functions change.
            func_name: String = "",
        },
        // Variables that a match_cast defines are bound, too. The function then accepts only tensors of this size,
        // although its parameters do not express that.
        tolerance: Tolerance::Specialized,
        run: bind_symbolic_vars,
    }
}

fn bind_symbolic_vars(module: &Module, options: &Options, ctx: &Ctx) -> Result<Module, PassError> {
    let values = values(&options.binding_map)?;
    if !options.func_name.is_empty() && module.get(&options.func_name).is_none() {
        let near = nearest(&options.func_name, module.functions().map(|(name, _)| name));
        bail!(option "`func_name` is `{}`, which is not in the module{}", options.func_name, did_you_mean(&near));
    }
    let mut unused: BTreeSet<&str> = values.keys().copied().collect();
    let mut known: BTreeSet<String> = BTreeSet::new();
    let bound: Result<Module, PassError> = module.map_functions(|name, body| {
        let wanted = options.func_name.is_empty() || options.func_name == name;
        if body.function().is_none() || !wanted {
            return Ok(body.clone());
        }
        let dims = dims(body, &values).map_err(|error| error.in_function(name))?;
        dims.keys().filter_map(|sym| body.sym_name(sym.id)).for_each(|name| {
            unused.remove(name);
        });
        known.extend(defined(body).iter().filter_map(|sym| body.sym_name(sym.id)).map(str::to_string));
        if dims.is_empty() { Ok(body.clone()) } else { Ok(body.substitute_symbols(&|sym| dims.get(&sym).cloned())?) }
    });
    let bound = bound?;
    if let Some(unknown) = unused.first() {
        let near = nearest(unknown, known.iter().map(String::as_str));
        bail!(option "`binding_map` names `{unknown}`, which is not a symbolic variable{}", did_you_mean(&near));
    }
    ctx.statistic("variables bound", values.len());
    Ok(bound)
}

/// Parses the names and values of the option.
fn values(binding_map: &[String]) -> Result<BTreeMap<&str, i64>, PassError> {
    let mut values = BTreeMap::new();
    for entry in binding_map {
        let parts = entry.split_once('=').map(|(name, value)| (name.trim(), value.trim().parse::<i64>()));
        let Some((name, Ok(value))) = parts else {
            bail!(option "`binding_map` contains `{entry}`; expected a variable and an integer, such as `n=16`");
        };
        if values.insert(name, value).is_some() {
            bail!(option "`binding_map` gives two values for `{name}`; remove one of them");
        }
    }
    Ok(values)
}

/// Returns the variables of a function that are bound, with their values.
fn dims(body: &Body, values: &BTreeMap<&str, i64>) -> Result<BTreeMap<Sym, Dim>, PassError> {
    let (mut dims, mut names) = (BTreeMap::new(), BTreeSet::new());
    let extents = defined_by(body, |ty| !matches!(ty, Type::Prim { .. }));
    for sym in defined(body) {
        let Some((name, value)) = body.sym_name(sym.id).and_then(|name| values.get_key_value(name)) else { continue };
        if !names.insert(*name) {
            bail!("two symbolic variables are called `{name}`; rename one of them");
        }
        if *value < 0 && extents.contains(&sym) {
            bail!(option "`binding_map` contains `{name}={value}`, but `{name}` is an extent, which cannot be negative");
        }
        dims.insert(sym, Dim::int(*value, sym.dtype));
    }
    Ok(dims)
}

/// Returns the symbolic variables that parameters and match_casts define.
fn defined(body: &Body) -> BTreeSet<Sym> {
    defined_by(body, |_| true)
}

/// Returns the symbolic variables that are defined by parameters and match_casts whose types are `wanted`.
fn defined_by(body: &Body, wanted: impl Fn(&Type) -> bool) -> BTreeSet<Sym> {
    let mut defined = BTreeSet::new();
    let definers = body.values().filter(|value| matches!(value.view(), Expr::Param | Expr::MatchCast(_)));
    for ty in definers.map(|value| value.ty().to_owned()).filter(wanted) {
        ty.each_defined(&mut |sym| {
            defined.insert(sym);
        });
    }
    defined
}
