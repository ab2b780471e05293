//! Computes symbolic expressions in PrimFuncs.

use plugin_api::names::FreshNames;
use plugin_api::prelude::*;
use plugin_api::tir::prim_func;
use plugin_api::typing::infer_types::infer_types;
use plugin_api::typing::normalize::normalize;
use std::collections::HashMap;

declare_pass! {
    /// Moves symbolic expressions that a function uses as values into new PrimFuncs, and calls them.
    ///
    /// Numbers, symbolic variables and shapes do not change. Equal expressions share one PrimFunc. Expects functions in
    /// A-normal form. Results do not change.
    ///
    /// ```relax before
    /// @R.function(pure=False)
    /// def main(x: R.Tensor(("n",), "float32")):
    ///     n = T.int64()
    ///     _ = R.assert_op(R.prim_value(n % 16 == 0), format="n")
    ///     return x
    /// ```
    /// ```relax after
    /// @T.prim_func(private=True, s_tir=True)
    /// def compute_symbolic_expr(n: T.int64) -> T.bool:
    ///     T.func_attr({"tirx.is_host_func": True})
    ///     return n % T.int64(16) == T.int64(0)
    ///
    /// @R.function(pure=False)
    /// def main(x: R.Tensor(("n",), "float32")):
    ///     n = T.int64()
    ///     cls = Module
    ///     gv: T.bool = cls.compute_symbolic_expr(n)
    ///     _ = R.assert_op(gv, format="n")
    ///     return x
    /// ```
    pub module pass COMPUTE_PRIM_VALUE = "relax.ComputePrimValue" {
        opt_level: 0,
        preserves: [keeps_form],
        run: compute_prim_value,
    }
}

fn compute_prim_value(module: &Module, ctx: &Ctx) -> Result<Module, PassError> {
    let names = FreshNames::new(module.functions().map(|(name, _)| name));
    let mut functions = Functions { names, known: HashMap::new() };
    let computed = module.map_functions(|name, body| match body.function() {
        Some(_) => compute(body, &mut functions, ctx).map_err(|error| error.in_function(name)),
        None => Ok(body.clone()),
    })?;
    ctx.statistic("functions made", functions.known.len());
    let mut edit = computed.edit();
    for made in functions.known.into_values().flatten() {
        edit.set(made.name, made.body);
    }
    Ok(edit.finish())
}

/// Replaces the symbolic expressions of a function by calls.
fn compute(body: &Body, functions: &mut Functions, ctx: &Ctx) -> Result<Body, PassError> {
    let computed = body.try_rewrite(|value, rw| {
        for (at, operand) in value.operands().enumerate() {
            let Some(dim) = operand.dim().filter(is_computed) else { continue };
            let (function, vars) = functions.of(body, &dim)?;
            let vars: Vec<V> = vars.iter().map(|var| rw.symbol(*var)).collect();
            let call = rw.call_function(&function.name, &function.body, &vars)?;
            if let Expr::Alias(_) = value.view() {
                rw.edit().set_type(call, &value.ty().to_owned());
                return Ok(Action::Replace(call));
            }
            // A value that is not in a block yet, such as part of the result, is bound to a name below.
            let computed = if value.is_binding() { rw.emit_scalar(call, "gv") } else { call };
            rw.edit().set_operand(value, at, computed);
        }
        Ok::<_, PassError>(Action::Keep)
    })?;
    // The type of a tuple contains its scalar expressions, but not the calls that replaced them, so types are inferred
    // again.
    if computed.same(body) { Ok(computed) } else { infer_types(&normalize(&computed, ctx)?, ctx) }
}

/// Returns true if a dimension is neither a constant nor a variable.
fn is_computed(dim: &Dim) -> bool {
    dim.as_int().is_none() && !matches!(dim, Dim::Var(_))
}

/// The PrimFuncs created so far, by hash.
struct Functions {
    names: FreshNames,
    known: HashMap<u64, Vec<Made>>,
}

#[derive(Clone)]
struct Made {
    name: String,
    body: Body,
}

impl Functions {
    /// Returns the function that computes a dimension, and the variables that it takes.
    fn of(&mut self, body: &Body, dim: &Dim) -> Result<(Made, Vec<Sym>), PassError> {
        let (new, vars) = function_of(body, dim)?;
        let equal = self.known.entry(new.structural_hash()).or_default();
        if let Some(made) = equal.iter().find(|made| made.body.structural_eq(&new)) {
            return Ok((made.clone(), vars));
        }
        let made = Made { name: self.names.fresh("compute_symbolic_expr"), body: new };
        equal.push(made.clone());
        Ok((made, vars))
    }
}

/// Creates a private host PrimFunc that returns a dimension. Also returns the variables that the PrimFunc takes.
fn function_of(body: &Body, dim: &Dim) -> Result<(Body, Vec<Sym>), PassError> {
    let mut vars = Vec::new();
    dim.vars(&mut |var| {
        if !vars.contains(&var) {
            vars.push(var);
        }
    });
    let function = prim_func(|t| {
        let params: Vec<_> = vars.iter().map(|var| t.param(body.sym_name(var.id).unwrap_or("n"), var.dtype)).collect();
        let param = |var: Sym| params[vars.iter().position(|known| *known == var).unwrap_or_default()];
        t.ret(t.dim(dim, &param));
    })?;
    let mut edit = function.edit();
    edit.set_private(true);
    edit.set_attr(function.root(), "tirx.is_host_func", Attr::Bool(true));
    Ok((edit.finish()?, vars))
}
