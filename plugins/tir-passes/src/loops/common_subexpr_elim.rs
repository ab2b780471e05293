//! Names expressions that are computed more than once.
//!
//! *Expects* any PrimFunc. *Keeps* memory reads, calls, conditions, vectors and block headers. *Never* computes an
//! expression where it was not computed before, except before an If or loop that contains two of its uses, and there
//! only if it does not divide by a possible zero.

mod plan;

use plan::{ExprId, Plan, Source, is_declared_here};
use plugin_api::ir::{BufferType, DimExpr};
use plugin_api::prelude::*;
use plugin_api::tir::{Again, TirRewrite};
use std::collections::HashMap;

declare_pass! {
    /// Binds expressions that occur more than once to variables, and computes them once.
    ///
    /// The variable is defined before the first use, in the innermost scope that contains all uses. Expects any
    /// PrimFunc. Keeps expressions that read memory, calls, conditions, vectors, and expressions in the head of a
    /// block. Keeps divisions that may divide by zero if a condition or a loop decides whether they are computed.
    ///
    /// ```relax before
    /// @T.prim_func(s_tir=True)
    /// def main(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32")):
    ///     for i, j in T.grid(8, 8):
    ///         B[i * 8 + j] = A[i * 8 + j]
    /// ```
    /// ```relax after
    /// @T.prim_func(s_tir=True)
    /// def main(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32")):
    ///     for i, j in T.grid(8, 8):
    ///         cse_v1: T.let[T.int32] = i * 8 + j
    ///         B[cse_v1] = A[cse_v1]
    /// ```
    pub prim_func pass COMMON_SUBEXPR_ELIM = "tirx.CommonSubexprElim" {
        opt_level: 0,
        run: common_subexpr_elim,
    }
}

fn common_subexpr_elim(body: &Body, ctx: &Ctx) -> Result<Body, PassError> {
    let plan = Plan::of(body);
    if plan.chosen.is_empty() {
        return Ok(body.clone());
    }
    ctx.statistic("expressions named", plan.chosen.len());
    let symbols = body.values().filter_map(|value| Some((value.symbol()?.id, value)));
    Named { symbols: symbols.collect(), plan, vars: HashMap::new() }.rewrite(body)
}

/// Writes the function with the names of a plan.
struct Named<'b> {
    plan: Plan<'b>,
    /// Parameters and other variables that types mention.
    symbols: HashMap<u32, Value<'b>>,
    /// The names defined so far, as values and as dimensions.
    vars: HashMap<ExprId, (V, Option<Dim>)>,
}

impl<'b> TirRewrite<'b> for Named<'b> {
    fn stmt(&mut self, stmt: Value<'b>, w: &mut Again<'b>) -> Result<(), PassError> {
        for at in self.plan.before.remove(&stmt).unwrap_or_default() {
            self.name(at, w)?;
        }
        match stmt.ty().to_owned() {
            Type::Buffer(ty) if is_declared_here(stmt) => {
                let ops = w.operands(self, stmt)?;
                w.retyped(stmt, &ops, &Type::Buffer(self.buffer(ty)));
                Ok(())
            }
            _ => w.stmt(self, stmt),
        }
    }

    fn expr(&mut self, expr: Value<'b>, w: &mut Again<'b>) -> Result<V, PassError> {
        match self.plan.ids.get(&expr).and_then(|id| self.vars.get(id)) {
            Some((v, _)) => Ok(*v),
            None => w.expr(self, expr),
        }
    }
}

impl<'b> Named<'b> {
    /// Writes the binding of a chosen expression.
    fn name(&mut self, at: usize, w: &mut Again<'b>) -> Result<(), PassError> {
        let Some(chosen) = self.plan.chosen.get(at).cloned() else { return Ok(()) };
        let value = match &chosen.source {
            Source::Value(value) => self.expr(*value, w)?,
            Source::Dim(dim) => {
                let dim = self.dim(dim);
                let vars = self.symbols_of(&dim, w);
                w.dim_expr(&dim, &|sym| vars.get(&sym.id).copied())?
            }
        };
        let name = format!("cse_v{}", at + 1);
        let named = if chosen.in_type {
            let (v, dim) = w.bind_symbol(&name, value);
            (v, Some(dim))
        } else {
            (w.bind(&name, value), None)
        };
        self.vars.insert(chosen.id, named);
        Ok(())
    }

    /// Returns the values of the symbolic variables of a dimension.
    fn symbols_of(&self, dim: &Dim, w: &Again<'b>) -> HashMap<u32, V> {
        let mut out = HashMap::new();
        dim.vars(&mut |sym| {
            let named = self.vars.values().find(|(_, dim)| *dim == Some(Dim::Var(sym))).map(|(v, _)| *v);
            let known = || self.symbols.get(&sym.id).map(|value| w.v(*value));
            if let Some(v) = named.or_else(known) {
                out.insert(sym.id, v);
            }
        });
        out
    }

    /// Replaces the named parts of a dimension by their names.
    fn dim(&self, dim: &Dim) -> Dim {
        if let Some(named) = self.plan.dims.get(dim).and_then(|id| self.vars.get(id)?.1.clone()) {
            return named;
        }
        let Dim::Expr(expr) = dim else { return dim.clone() };
        match &**expr {
            DimExpr::Binary(op, dtype, a, b) => {
                Dim::Expr(DimExpr::Binary(*op, *dtype, self.dim(a), self.dim(b)).into())
            }
            DimExpr::Unary(op, dtype, a) => Dim::Expr(DimExpr::Unary(*op, *dtype, self.dim(a)).into()),
            _ => dim.clone(),
        }
    }

    fn buffer(&self, mut ty: BufferType) -> BufferType {
        let all = ty.shape.iter_mut().chain(&mut ty.strides).chain(&mut ty.elem_offset);
        all.for_each(|dim| *dim = self.dim(dim));
        ty
    }
}
