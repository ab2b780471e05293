//! Writes a function with simplified expressions; shared by several passes.

use plugin_api::arith::{Analyzer, Bounds, Piece, index_to_dim, symbol_of};
use plugin_api::ir::DimExpr;
use plugin_api::prelude::*;
use plugin_api::scalar::PrimOp;
use plugin_api::tir::{Again, TirRewrite};
use std::collections::HashMap;

/// Writes a function with simplified expressions.
pub(super) struct Simplify<'b> {
    /// All values of the function, by position.
    values: Vec<Value<'b>>,
    analyzer: Analyzer,
    /// Parameters and other variables that types mention.
    symbols: HashMap<u32, Value<'b>>,
    /// Expressions that contain calls with effects: these calls are never merged or dropped.
    effects: ValueSet<'b>,
    /// True if conditions are rewritten as conjunctions of disjunctions.
    conjunctions: bool,
    /// True if each side of an `and` or `or` is simplified under the assumption that the other side does not
    /// decide the result.
    constraints: bool,
}

impl<'b> Simplify<'b> {
    /// Creates a simplifier that assumes the ranges of loops, and that no dimension is negative.
    pub(super) fn of(body: &'b Body) -> Simplify<'b> {
        let mut analyzer = Analyzer::of_body(body);
        for param in body.root().region().children().filter(|value| value.is_param_buffer()) {
            for dim in param.as_buffer_type().into_iter().flat_map(|ty| ty.shape) {
                if let Dim::Var(sym) = dim {
                    analyzer.bind_bounds(sym, Bounds::at_least(0));
                }
            }
        }
        let symbols =
            body.values().filter(|value| !value.is_leaf()).filter_map(|value| Some((value.symbol()?.id, value)));
        let (symbols, effects, values) = (symbols.collect(), with_effects(body), body.values().collect());
        Simplify { values, analyzer, symbols, effects, conjunctions: false, constraints: false }
    }

    /// Sets whether conditions are rewritten as conjunctions of disjunctions.
    pub(super) fn with_conjunctions(self, conjunctions: bool) -> Simplify<'b> {
        Simplify { conjunctions, ..self }
    }

    /// Sets whether each side of an `and` or `or` is simplified under the assumption that the other side does
    /// not decide the result.
    pub(super) fn with_constraints(self, constraints: bool) -> Simplify<'b> {
        Simplify { constraints, ..self }
    }

    /// Returns true if two indices have the same simplified form, which is stricter than having equal values.
    fn are_written_as_one(&mut self, a: Value<'b>, b: Value<'b>) -> bool {
        self.analyzer.pieces(a).is_some_and(|a| Some(a) == self.analyzer.pieces(b))
    }

    /// Returns the value of a condition, if it is known.
    fn known(&mut self, cond: Value<'b>) -> Option<bool> {
        match self.analyzer.pieces(without_hint(cond))?[..] {
            [Piece::Leaf(ref truth)] => truth.as_int().map(|truth| truth != 0),
            _ => None,
        }
    }

    /// Runs `f` under the assumption that a condition is true, or that it is false.
    fn under<R>(&mut self, cond: Value<'b>, holds: bool, f: impl FnOnce(&mut Self) -> R) -> R {
        let Some(dim) = index_to_dim(without_hint(cond)) else { return f(self) };
        let dim = if holds { dim } else { Dim::Expr(DimExpr::Unary(PrimOp::Not, DType::BOOL, dim).into()) };
        let under = self.analyzer.under(&dim);
        let outer = std::mem::replace(&mut self.analyzer, under);
        let out = f(self);
        self.analyzer = outer;
        out
    }

    fn choice(&mut self, stmt: Value<'b>, cond: Value<'b>, w: &mut Again<'b>) -> Result<(), PassError> {
        let branches: Vec<Value<'b>> = stmt.if_branches().collect();
        let simple = self.expr(cond, w)?;
        if let Some(holds) = w.as_int(simple) {
            return branches.get(usize::from(holds == 0)).map_or(Ok(()), |branch| w.content(self, *branch));
        }
        w.header(stmt, &[simple], |w| {
            for (i, branch) in branches.into_iter().enumerate() {
                self.under(cond, i == 0, |this| w.header(branch, &[], |w| w.content_or_nothing(this, branch)))?;
            }
            Ok(())
        })
    }

    /// Returns the variable of the function for a symbolic variable.
    fn variable(&self, dim: &Dim) -> Option<Value<'b>> {
        match dim {
            Dim::Var(sym) => self.symbols.get(&sym.id).copied(),
            _ => None,
        }
    }

    /// Writes the pieces of an expression.
    fn pieces(&mut self, pieces: Vec<Piece>, w: &mut Again<'b>) -> Result<Option<V>, PassError> {
        let mut done: Vec<V> = Vec::new();
        for piece in pieces {
            let v = match piece {
                Piece::Value(at) => {
                    let Some(value) = self.values.get(at).copied() else { return Ok(None) };
                    if value.is_nested() { self.opaque(value, w)? } else { w.v(value) }
                }
                Piece::Leaf(dim) => match self.variable(&dim) {
                    Some(value) => w.v(value),
                    None => w.dim(&dim),
                },
                Piece::Op(op, dtype) => match (op, done.pop(), done.pop()) {
                    (PrimOp::Not, Some(a), rest) => {
                        done.extend(rest);
                        w.not(a)
                    }
                    (PrimOp::Cast, Some(a), rest) => {
                        done.extend(rest);
                        cast_of(a, dtype, w)
                    }
                    (_, Some(b), Some(a)) => combined(op, a, b, w),
                    _ => return Ok(None),
                },
            };
            done.push(v);
        }
        Ok(done.pop())
    }

    /// Writes a non-arithmetic expression with simplified parts.
    fn opaque(&mut self, expr: Value<'b>, w: &mut Again<'b>) -> Result<V, PassError> {
        let choice = match expr.view() {
            // A `Select` evaluates both values, so it is kept if it has effects.
            Expr::Select { .. } if self.effects.contains(expr) => None,
            Expr::Select { cond, then, otherwise } => Some((cond, then, otherwise)),
            Expr::Call(call) if call.op() == Some("tirx.if_then_else") => {
                call.arg(0).zip(call.arg(1)).zip(call.arg(2)).map(|((cond, then), other)| (cond, then, other))
            }
            _ => None,
        };
        if let Some((cond, then, otherwise)) = choice {
            let cond_v = self.expr(cond, w)?;
            return match w.as_int(cond_v) {
                Some(0) => self.expr(otherwise, w),
                Some(_) => self.expr(then, w),
                None => {
                    let first = if expr.as_call().is_some() {
                        vec![w.v(expr.operands().next().unwrap_or(expr))]
                    } else {
                        Vec::new()
                    };
                    let then = self.under(cond, true, |this| this.expr(then, w))?;
                    // In `T.if_then_else`, TVM assumes the condition in the first value only.
                    let other = match expr.as_call() {
                        Some(_) => self.expr(otherwise, w)?,
                        None => self.under(cond, false, |this| this.expr(otherwise, w))?,
                    };
                    let ops: Vec<V> = first.into_iter().chain([cond_v, then, other]).collect();
                    Ok(w.expr_of(expr, &ops))
                }
            };
        }
        if without_hint(expr) != expr {
            let cond = self.expr(without_hint(expr), w)?;
            let callee = expr.operands().next().map(|callee| w.v(callee));
            return Ok(match callee.filter(|_| w.as_int(cond).is_none()) {
                Some(callee) => w.expr_of(expr, &[callee, cond]),
                None => cond,
            });
        }
        match expr.view() {
            Expr::Let { var, value, body } => {
                let simple = self.expr(value, w)?;
                let plain = w.with(simple, |simple| !simple.is_nested());
                if let (true, Some(sym), Some(dim)) = (plain, symbol_of(var), index_to_dim(value)) {
                    self.analyzer.bind_value(sym, &dim);
                    return self.expr(body, w);
                }
                let body = self.expr(body, w)?;
                let var = w.v(var);
                Ok(w.expr_of(expr, &[var, simple, body]))
            }
            _ => w.expr(self, expr),
        }
    }
}

impl<'b> TirRewrite<'b> for Simplify<'b> {
    fn rewrite(&mut self, body: &'b Body) -> Result<Body, PassError> {
        let mut w = Again::start(body);
        w.content_or_nothing(self, body.root())?;
        w.finish()
    }

    fn stmt(&mut self, stmt: Value<'b>, w: &mut Again<'b>) -> Result<(), PassError> {
        match stmt.stmt() {
            Some(Stmt::If { cond }) => self.choice(stmt, cond, w),
            Some(Stmt::Store { .. }) if stores_what_is_there(stmt, |a, b| self.are_written_as_one(a, b)) => Ok(()),
            Some(Stmt::Bind { value }) => {
                let ops = w.operands(self, stmt)?;
                if let (Some(sym), Some(dim)) = (symbol_of(stmt), index_to_dim(value)) {
                    self.analyzer.bind_value(sym, &dim);
                }
                w.header(stmt, &ops, |_| Ok(()))
            }
            Some(Stmt::For { .. } | Stmt::While { .. } | Stmt::Attr { .. } | Stmt::Launch { .. } | Stmt::Block) => {
                let ops = w.operands(self, stmt)?;
                w.header(stmt, &ops, |w| w.content_or_nothing(self, stmt))
            }
            _ => w.stmt(self, stmt),
        }
    }

    fn expr(&mut self, expr: Value<'b>, w: &mut Again<'b>) -> Result<V, PassError> {
        if expr.dim().is_some_and(|dim| dim.as_int().is_some()) {
            return Ok(w.v(expr));
        }
        if matches!(expr.view(), Expr::Arith { .. }) && self.effects.contains(expr) {
            return w.expr(self, expr);
        }
        if let Expr::Arith { op: op @ (PrimOp::And | PrimOp::Or), .. } = expr.view()
            && self.constraints
        {
            return self.constrained(op, expr, w);
        }
        let pieces = match expr.view() {
            Expr::Arith { op: PrimOp::And | PrimOp::Or, .. } if self.conjunctions => {
                self.analyzer.pieces_of_conjunction(expr)
            }
            Expr::Arith { .. } | Expr::Var | Expr::Param | Expr::Prim => self.analyzer.pieces(expr),
            _ if expr.is_nested() => return self.opaque(expr, w),
            _ => None,
        };
        let written = pieces.map(|pieces| self.pieces(pieces, w)).transpose()?;
        match written.flatten() {
            Some(v) => Ok(v),
            None => w.expr(self, expr),
        }
    }
}

impl<'b> Simplify<'b> {
    /// Writes an `and` or `or` without the sides that follow from the other sides.
    fn constrained(&mut self, op: PrimOp, expr: Value<'b>, w: &mut Again<'b>) -> Result<V, PassError> {
        let all = op == PrimOp::And;
        let mut sides = sides(op, expr);
        for at in (0..sides.len()).rev() {
            match self.known_beside(&sides, at, all) {
                Some(holds) if holds == all => drop(sides.remove(at)),
                Some(holds) => return Ok(w.int(holds.into(), DType::BOOL)),
                None => {}
            }
        }
        let mut out = None;
        for side in sides {
            let side = self.expr(side, w)?;
            out = Some(out.map_or(side, |out| combined(op, out, side, w)));
        }
        Ok(out.unwrap_or_else(|| w.int(all.into(), DType::BOOL)))
    }

    /// Returns the value of one side under the assumption that all other sides are true, or that all are false.
    fn known_beside(&mut self, sides: &[Value<'b>], at: usize, hold: bool) -> Option<bool> {
        let others = sides.iter().enumerate().filter(|(other, _)| *other != at);
        let mut under: Option<Analyzer> = None;
        for dim in others.filter_map(|(_, other)| index_to_dim(without_hint(*other))) {
            let dim = if hold { dim } else { Dim::Expr(DimExpr::Unary(PrimOp::Not, DType::BOOL, dim).into()) };
            under = Some(under.as_ref().unwrap_or(&self.analyzer).under(&dim));
        }
        let outer = under.map(|under| std::mem::replace(&mut self.analyzer, under))?;
        let known = self.known(sides[at]);
        self.analyzer = outer;
        known
    }
}

/// Converts a value. An integer constant becomes a constant of a floating-point type if that type represents it.
fn cast_of(a: V, dtype: DType, w: &mut Again<'_>) -> V {
    let number = w.as_int(a).map(|number| number as f64);
    match number.filter(|number| is_float(dtype) && dtype.has_float(*number)) {
        Some(number) => w.float(number, dtype),
        None => w.cast(a, dtype),
    }
}

fn is_float(dtype: DType) -> bool {
    dtype.is_float() && dtype.lanes() == 1
}

/// Returns true if a store writes an element back to its own position; `are_one` compares two indices.
pub(super) fn stores_what_is_there<'b>(stmt: Value<'b>, mut are_one: impl FnMut(Value<'b>, Value<'b>) -> bool) -> bool {
    let mut are_one = |(a, b)| a == b || are_one(a, b);
    !stmt.changes_state() && stmt.stored_element_indices().is_some_and(|pairs| pairs.into_iter().all(&mut are_one))
}

/// Returns the expressions of a function that contain calls with effects.
fn with_effects(body: &Body) -> ValueSet<'_> {
    let mut effects = ValueSet::new(body);
    // Operands precede the expression that contains them.
    for value in body.values().filter(|value| value.is_nested()) {
        if value.as_call().is_some() && value.changes_state()
            || value.operands().any(|operand| effects.contains(operand))
        {
            effects.insert(value);
        }
    }
    effects
}

/// Returns the conditions combined by `and` or `or`.
fn sides(op: PrimOp, expr: Value<'_>) -> Vec<Value<'_>> {
    let (mut work, mut sides) = (vec![expr], Vec::new());
    while let Some(side) = work.pop() {
        match side.view() {
            Expr::Arith { op: of, a, b: Some(b) } if of == op => work.extend([b, a]),
            _ => sides.push(side),
        }
    }
    sides
}

/// Strips the `likely` hint from a condition.
fn without_hint(cond: Value<'_>) -> Value<'_> {
    let hint = cond.as_call().filter(|call| matches!(call.op(), Some("tirx.likely" | "prim.likely")));
    hint.and_then(|call| call.arg(0)).unwrap_or(cond)
}

/// Combines two simplified values if one is a known boolean, or if they are vectors.
fn combined(op: PrimOp, a: V, b: V, w: &mut Again<'_>) -> V {
    let neutral = i64::from(op == PrimOp::And);
    if matches!(op, PrimOp::And | PrimOp::Or) {
        match (w.as_int(a), w.as_int(b)) {
            (Some(known), _) => return if known == neutral { b } else { a },
            (_, Some(known)) => return if known == neutral { a } else { b },
            _ => {}
        }
    }
    vector(op, a, b, w).unwrap_or_else(|| w.binary(op, a, b))
}

/// Combines two vectors, each a ramp or a broadcast.
fn vector(op: PrimOp, a: V, b: V, w: &mut Again<'_>) -> Option<V> {
    let dtype = w.dtype(a);
    if !matches!(op, PrimOp::Add | PrimOp::Sub | PrimOp::Mul) {
        return None;
    }
    let parts = |w: &mut Again<'_>, v: V| match w
        .with(v, |v| (matches!(v.view(), Expr::Ramp { .. }), matches!(v.view(), Expr::Broadcast { .. })))
    {
        (true, _) | (_, true) => w.parts(v),
        _ => Vec::new(),
    };
    Some(match (&parts(w, a)[..], &parts(w, b)[..]) {
        ([x, lanes], [y, _]) => {
            let value = w.folded(op, *x, *y);
            w.broadcast(value, *lanes, dtype)
        }
        ([base, stride, lanes], [y, _]) => {
            let base = w.folded(op, *base, *y);
            let stride = if op == PrimOp::Mul { w.folded(op, *stride, *y) } else { *stride };
            w.ramp(base, stride, *lanes, dtype)
        }
        ([x, _], [base, stride, lanes]) if op != PrimOp::Sub => {
            let base = w.folded(op, *x, *base);
            let stride = if op == PrimOp::Mul { w.folded(op, *stride, *x) } else { *stride };
            w.ramp(base, stride, *lanes, dtype)
        }
        ([x, s, lanes], [y, t, _]) if op != PrimOp::Mul => {
            let (base, stride) = (w.folded(op, *x, *y), w.folded(op, *s, *t));
            w.ramp(base, stride, *lanes, dtype)
        }
        _ => return None,
    })
}
