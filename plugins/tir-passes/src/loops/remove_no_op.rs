//! Removes statements that do nothing.
//!
//! *Expects* any PrimFunc. *Keeps* effects, allocations and named values. *Never* changes the remaining statements,
//! except the condition of an If that loses its first branch.

use super::simplify::stores_what_is_there;
use plugin_api::arith::{Analyzer, index_to_dim};
use plugin_api::prelude::*;
use plugin_api::tir::{Again, TirRewrite};
use std::collections::HashMap;

declare_pass! {
    /// Removes statements that do nothing.
    ///
    /// These are evaluations of unused values, stores of the existing value, and loops, Ifs and attributes whose
    /// content does nothing. Expects any PrimFunc. Keeps allocations and names of values.
    ///
    /// ```relax before
    /// @T.prim_func(s_tir=True)
    /// def main(A: T.Buffer((16,), "int32")):
    ///     for i in range(16):
    ///         if i < 8:
    ///             A[i] = A[i]
    ///         else:
    ///             A[i] = 42
    /// ```
    /// ```relax after
    /// @T.prim_func(s_tir=True)
    /// def main(A: T.Buffer((16,), "int32")):
    ///     for i in range(16):
    ///         if not i < 8:
    ///             A[i] = 42
    /// ```
    pub prim_func pass REMOVE_NO_OP = "tirx.RemoveNoOp" {
        opt_level: 0,
        run: remove_no_op,
    }
}

declare_config! {
    /// The maximum number of steps of the simplifier to prove that a store does nothing; 0 means unlimited. This
    /// implementation ignores it.
    pub MAX_SIMPLIFICATION_STEPS: i64 = "tirx.RemoveNoOp.max_simplification_steps" { default: 0, range: 0.. }
}

declare_config! {
    /// True if calls of a profiler count as statements without effect.
    pub IGNORE_PROFILER_CALL: bool = "tirx.RemoveNoOp.ignore_profiler_call" { default: false }
}

fn remove_no_op(body: &Body, ctx: &Ctx) -> Result<Body, PassError> {
    without_no_ops(body, IGNORE_PROFILER_CALL.get(ctx))
}

/// Runs this pass on a function; other passes call it as their last step.
pub(super) fn without_no_ops(body: &Body, ignore_profiler: bool) -> Result<Body, PassError> {
    let mut finder = Finder { analyzer: Analyzer::of_body(body), ignore_profiler, nothing: HashMap::new() };
    finder.content(body.root());
    if finder.nothing.is_empty() {
        return Ok(body.clone());
    }
    Removed { nothing: finder.nothing }.rewrite(body)
}

/// The remainder of a statement that does nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Left {
    /// Nothing remains.
    Nothing,
    /// The effects of its operands remain.
    Operands,
    /// The second branch of an If remains.
    Otherwise,
    /// The first branch of an If remains.
    Then,
}

/// Finds statements that do nothing, inner ones first.
struct Finder<'b> {
    analyzer: Analyzer,
    ignore_profiler: bool,
    nothing: HashMap<Value<'b>, Left>,
}

impl<'b> Finder<'b> {
    /// Returns true if no statement inside `stmt` does anything.
    fn content(&mut self, stmt: Value<'b>) -> bool {
        let mut nothing = true;
        for child in stmt.statements() {
            nothing &= self.stmt(child);
        }
        nothing
    }

    /// Returns true if a statement does nothing.
    fn stmt(&mut self, stmt: Value<'b>) -> bool {
        let left = match stmt.stmt() {
            Some(Stmt::Evaluate(value)) => (!self.acts(value)).then_some(Left::Nothing),
            Some(Stmt::Store { .. }) => {
                let are_one = |a, b| self.analyzer.prove_index_equal(a, b) == Some(true);
                stores_what_is_there(stmt, are_one).then_some(Left::Operands)
            }
            Some(Stmt::For { extent, .. }) if self.analyzer.index_bounds(extent).max <= 0 => Some(Left::Nothing),
            Some(Stmt::For { .. }) => self.content(stmt).then_some(Left::Operands),
            Some(Stmt::Attr { key: "pragma_debug_skip_region", .. }) => Some(Left::Nothing),
            Some(Stmt::Attr { .. } | Stmt::Launch { .. }) => self.content(stmt).then_some(Left::Operands),
            Some(Stmt::If { cond }) => return self.choice(stmt, cond),
            _ => {
                self.content(stmt);
                None
            }
        };
        if let Some(left) = left {
            self.nothing.insert(stmt, left);
        }
        left.is_some() && !stmt.operands().any(|operand| self.acts(operand))
    }

    fn choice(&mut self, stmt: Value<'b>, cond: Value<'b>) -> bool {
        let branches: Vec<Value<'b>> = stmt.if_branches().collect();
        let known = cond.dim().and_then(|cond| cond.as_int());
        let mut nothing = [true, true];
        for (i, branch) in branches.iter().enumerate().take(2) {
            let holds = if i == 0 { index_to_dim(cond) } else { index_to_dim(cond).map(|cond| negated(&cond)) };
            let under = holds.map(|holds| self.analyzer.under(&holds));
            let outer = under.map(|under| std::mem::replace(&mut self.analyzer, under));
            nothing[i] = self.content(*branch);
            if let Some(outer) = outer {
                self.analyzer = outer;
            }
        }
        let left = match (known, nothing) {
            (Some(0), [_, otherwise]) => {
                if otherwise {
                    Left::Nothing
                } else {
                    Left::Otherwise
                }
            }
            (Some(_), [then, _]) => {
                if then {
                    Left::Nothing
                } else {
                    Left::Then
                }
            }
            (None, [true, true]) => Left::Operands,
            (None, [true, false]) => Left::Otherwise,
            (None, [false, true]) if branches.len() > 1 => Left::Then,
            _ => return false,
        };
        self.nothing.insert(stmt, left);
        match left {
            Left::Nothing => true,
            Left::Operands => !self.acts(cond),
            _ => false,
        }
    }

    /// Returns true if an expression has an effect.
    fn acts(&self, value: Value<'b>) -> bool {
        let timer = value.as_call().and_then(|call| call.op()).is_some_and(|op| op.starts_with("tirx.timer_"));
        value.changes_state() && !(self.ignore_profiler && timer)
    }
}

fn negated(cond: &Dim) -> Dim {
    Dim::Expr(plugin_api::ir::DimExpr::Unary(plugin_api::scalar::PrimOp::Not, DType::BOOL, cond.clone()).into())
}

/// Writes the statements that do something.
struct Removed<'b> {
    nothing: HashMap<Value<'b>, Left>,
}

impl<'b> TirRewrite<'b> for Removed<'b> {
    fn rewrite(&mut self, body: &'b Body) -> Result<Body, PassError> {
        let mut w = Again::start(body);
        w.content_or_nothing(self, body.root())?;
        w.finish()
    }

    fn stmt(&mut self, stmt: Value<'b>, w: &mut Again<'b>) -> Result<(), PassError> {
        let Some(left) = self.nothing.get(&stmt).copied() else {
            if stmt.statements().next().is_none() {
                return w.stmt(self, stmt);
            }
            let ops = w.operands(self, stmt)?;
            return w.header(stmt, &ops, |w| w.content_or_nothing(self, stmt));
        };
        match (left, stmt.stmt()) {
            (Left::Then | Left::Otherwise, Some(Stmt::If { cond })) => self.branch(stmt, cond, left == Left::Then, w),
            (Left::Operands, _) => {
                for operand in stmt.operands().filter(|operand| operand.changes_state()) {
                    let value = self.expr(operand, w)?;
                    w.evaluate(value);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl<'b> Removed<'b> {
    /// Writes one branch of an If, under its condition.
    fn branch(&mut self, stmt: Value<'b>, cond: Value<'b>, then: bool, w: &mut Again<'b>) -> Result<(), PassError> {
        let branches: Vec<Value<'b>> = stmt.if_branches().collect();
        let Some(branch) = branches.get(usize::from(!then)).copied() else { return Ok(()) };
        if cond.dim().and_then(|cond| cond.as_int()).is_some() {
            return w.content(self, branch);
        }
        let mut cond = self.expr(cond, w)?;
        if !then {
            cond = w.not(cond);
        }
        w.if_then(cond, |w| w.content_or_nothing(self, branch))
    }
}
