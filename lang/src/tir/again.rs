//! Rewrites a PrimFunc statement by statement into a new body. For passes that write some content several times, or need more context from
//! loops and conditions than hooks provide.

use super::Tir;
use super::expr::{Folded, folded};
use crate::PassError;
use crate::arith::substitute;
use crate::ir::records::{buffer_of, flag, kind};
use crate::ir::{Attr, AttrsId, Body, DType, Dim, DimExpr, NodeSpec, Sym, Type, TypeId, V, Value, loop_kind};
use crate::rewrite::Edit;
use crate::scalar::PrimOp;
use crate::walk::users::Users;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Rewrites TIR by writing all of it anew. Each method writes a statement or an expression; by default, the original with its parts
/// rewritten. A method may omit a statement, or write it several times with different values for its variables ([`Again::set`]).
///
/// The example unrolls loops marked `unroll`:
///
/// ```
/// use plugin_api::prelude::*;
/// use plugin_api::tir::{Again, LoopKind, TirRewrite, prim_func};
///
/// struct Unroll;
/// impl<'b> TirRewrite<'b> for Unroll {
///     fn stmt(&mut self, stmt: Value<'b>, w: &mut Again<'b>) -> Result<(), PassError> {
///         let Some(Stmt::For { var, extent, kind: "unroll", .. }) = stmt.stmt() else { return w.stmt(self, stmt) };
///         let Some(n) = extent.dim().and_then(|n| n.as_int()) else { return w.stmt(self, stmt) };
///         for i in 0..n {
///             let i = w.int(i, var.ty().dtype());
///             w.set(var, i);
///             w.iteration(self, stmt, var)?;
///         }
///         Ok(())
///     }
/// }
///
/// // for i in T.unroll(4): A[i] = 1
/// let body = prim_func(|t| {
///     let a = t.buffer_param("A", &[4], DType::I32);
///     t.unroll("i", 4, |i| t.store(a, [i], 1));
/// })?;
/// let body = Unroll.rewrite(&body)?;
/// let stores = body.values().filter(|value| matches!(value.stmt(), Some(Stmt::Store { .. })));
/// assert_eq!(stores.count(), 4);
/// # Ok::<(), PassError>(())
/// ```
pub trait TirRewrite<'b> {
    /// Rewrites a body; returns the same handle if at most names changed.
    ///
    /// # Errors
    /// The first error of a method, or the reason why the result is not valid.
    fn rewrite(&mut self, body: &'b Body) -> Result<Body, PassError> {
        let mut again = Again::start(body);
        let root = body.root();
        again.content(self, root)?;
        again.finish()
    }

    /// Writes a statement: a value directly in the body of another statement or of the function.
    ///
    /// # Errors
    /// Any error that the pass returns.
    fn stmt(&mut self, stmt: Value<'b>, w: &mut Again<'b>) -> Result<(), PassError> {
        w.stmt(self, stmt)
    }

    /// Writes an expression: a nested expression, a leaf, or a use of a variable or buffer.
    ///
    /// # Errors
    /// Any error that the pass returns.
    fn expr(&mut self, expr: Value<'b>, w: &mut Again<'b>) -> Result<V, PassError> {
        w.expr(self, expr)
    }
}

/// A body that is being rewritten. New nodes are appended to the written nodes.
pub struct Again<'b> {
    edit: Edit<'b>,
    /// The current value of each variable, buffer and expression of the old body.
    now: HashMap<u32, V, foldhash::fast::FixedState>,
    /// The current definition of each symbolic variable.
    definers: HashMap<u32, u32, foldhash::fast::FixedState>,
    /// Replacements of the symbolic variables whose definition was written more than once.
    syms: HashMap<u32, Sym, foldhash::fast::FixedState>,
    /// The number of statements written.
    written: u64,
}

impl<'b> Again<'b> {
    /// Starts a rewrite; at first, the new body contains only the parameters.
    pub fn start(body: &'b Body) -> Again<'b> {
        let mut edit = body.edit();
        let root = body.root();
        let (mut last, mut definers) = (None, HashMap::default());
        for child in root.region().children() {
            if child.kind() == kind::PARAM {
                for dim in child.ty().prims() {
                    dim.vars(&mut |sym| {
                        definers.entry(sym.id).or_insert(child.word());
                    });
                }
                last = Some(child);
            } else {
                edit.discard(child);
            }
        }
        match last {
            Some(param) => edit.after(param),
            None => edit.at_start(root),
        };
        Again { edit, now: HashMap::default(), definers, syms: HashMap::default(), written: 0 }
    }

    /// Returns the rewritten body, without unused free variables; the old handle if at most names differ.
    ///
    /// # Errors
    /// The reason why the body is not valid.
    pub fn finish(self) -> Result<Body, PassError> {
        let old = self.edit.old();
        let body = without_unused_variables(self.edit.finish()?)?;
        Ok(if body.structural_eq(old) { old.clone() } else { body })
    }

    /// Sets the type of a parameter.
    pub fn set_type(&mut self, param: Value<'b>, ty: &Type) {
        self.edit.set_type(param, ty);
    }

    /// Returns the body before the rewrite.
    pub fn old(&self) -> &'b Body {
        self.edit.old()
    }

    /// Sets the current value of a variable, a buffer or a nested expression of the old body.
    pub fn set(&mut self, old: Value<'b>, v: V) {
        self.now.insert(old.word(), v);
    }

    /// Resets an old value, so that its next use writes it again.
    pub fn unset(&mut self, old: Value<'b>) {
        self.now.remove(&old.word());
    }

    /// Returns the value set with [`Again::set`] for an old value.
    pub fn meaning(&self, old: Value<'b>) -> Option<V> {
        self.now.get(&old.word()).copied()
    }

    /// Returns the current value of a variable or a buffer of the old body.
    pub fn v(&self, old: Value<'b>) -> V {
        self.meaning(old).unwrap_or_else(|| self.edit.v(old))
    }

    /// Calls `f` with the view of a written value.
    pub fn with<R>(&self, v: V, f: impl FnOnce(Value<'_>) -> R) -> R {
        self.edit.with(v, f)
    }

    /// Returns the value of an integer constant.
    pub fn as_int(&self, v: V) -> Option<i64> {
        self.with(v, |value| value.dim()?.as_int())
    }

    /// Returns the data type of a written value.
    pub fn dtype(&self, v: V) -> DType {
        self.with(v, |value| value.ty().dtype())
    }

    /// Writes a statement unchanged, except for its parts, which `r` writes.
    ///
    /// # Errors
    /// The errors of `r`.
    pub fn stmt<R: TirRewrite<'b> + ?Sized>(&mut self, r: &mut R, stmt: Value<'b>) -> Result<(), PassError> {
        if stmt.kind() == kind::PARAM {
            return Ok(());
        }
        let ops = self.operands(r, stmt)?;
        self.header(stmt, &ops, |w| w.content(r, stmt))
    }

    /// Writes a statement with new operands; `content` writes its content.
    ///
    /// # Errors
    /// The errors of `content`.
    pub fn header(
        &mut self,
        stmt: Value<'b>,
        ops: &[V],
        content: impl FnOnce(&mut Again<'b>) -> Result<(), PassError>,
    ) -> Result<(), PassError> {
        // Declarations of a block do not count as statements.
        self.written += u64::from(stmt.stmt().is_some() || is_allocation_or_view(stmt));
        self.renew_symbols(stmt);
        let (mut spec, name) = (self.spec(stmt), stmt.name());
        if let (kind::BIND, [value]) = (spec.kind, ops) {
            // Binding a call has an effect, but the new value may no longer be a call.
            let call = self.with(*value, |value| value.as_call().is_some());
            spec.flags = spec.flags & !flag::IMPURE | if call { flag::IMPURE } else { 0 };
        }
        if !stmt.has(flag::REGION) {
            let v = self.edit.node(spec, ops, name);
            self.set(stmt, v);
            return Ok(());
        }
        let v = self.edit.open(spec, ops, name);
        self.set(stmt, v);
        content(self)?;
        self.edit.close();
        Ok(())
    }

    /// Creates a new symbolic variable for a repeated definition, to be used in later types and dimensions. A matched buffer defines the
    /// variables in its type that are not defined earlier.
    fn renew_symbols(&mut self, definition: Value<'b>) {
        let is_match =
            definition.kind() == kind::BUFFER && definition.node().is_some_and(|node| node.a == buffer_of::MATCH);
        let of_buffer = is_match.then(|| definition.ty().prims()).into_iter().flatten().filter_map(|dim| match dim {
            Dim::Var(sym) => Some(sym),
            _ => None,
        });
        let defined: Vec<Sym> = definition.symbol().into_iter().chain(of_buffer).collect();
        for sym in defined {
            let definer = *self.definers.entry(sym.id).or_insert(definition.word());
            if definer == definition.word() && self.meaning(definition).is_some() {
                let name = self.old().sym_name(sym.id).unwrap_or("n");
                let new = self.edit.builder().sym(name, sym.dtype);
                self.syms.insert(sym.id, new);
            }
        }
    }

    /// Returns the properties of a node, without its operands, with renewed symbolic variables.
    fn spec(&mut self, value: Value<'b>) -> NodeSpec {
        let spec = spec_of(value);
        if self.syms.is_empty() || !value.ty().is_known() {
            return spec;
        }
        let ty = match value.ty().to_owned() {
            Type::Buffer(buffer) => Type::Buffer(buffer.map_dims(&mut |dim| self.renewed(dim))),
            Type::Prim { dtype, value } => Type::Prim { dtype, value: value.map(|dim| self.renewed(&dim)) },
            _ => return spec,
        };
        spec.ty(self.edit.builder().ty(&ty))
    }

    fn renewed(&self, dim: &Dim) -> Dim {
        substitute(dim, &|sym| self.syms.get(&sym.id).map(|new| Dim::Var(*new)))
    }

    /// Writes the statements in the body of `stmt`, but not `stmt` itself.
    ///
    /// # Errors
    /// The errors of `r`.
    pub fn content<R: TirRewrite<'b> + ?Sized>(&mut self, r: &mut R, stmt: Value<'b>) -> Result<(), PassError> {
        for child in stmt.region().children().filter(|child| !child.is_nested()) {
            r.stmt(child, self)?;
        }
        Ok(())
    }

    /// Like [`Again::content`], but writes `T.evaluate(0)` if no statement remains.
    ///
    /// # Errors
    /// The errors of `r`.
    pub fn content_or_nothing<R: TirRewrite<'b> + ?Sized>(
        &mut self,
        r: &mut R,
        stmt: Value<'b>,
    ) -> Result<(), PassError> {
        let (before, any) = (self.written, stmt.statements().next().is_some());
        self.content(r, stmt)?;
        if any && self.written == before {
            let nothing = self.int(0, DType::I32);
            self.evaluate(nothing);
        }
        Ok(())
    }

    /// Writes the content of a loop without the loop variable `var`, whose value must be set with [`Again::set`].
    ///
    /// # Errors
    /// The errors of `r`.
    pub fn iteration<R: TirRewrite<'b> + ?Sized>(
        &mut self,
        r: &mut R,
        stmt: Value<'b>,
        var: Value<'b>,
    ) -> Result<(), PassError> {
        for child in stmt.region().children().filter(|child| !child.is_nested() && *child != var) {
            r.stmt(child, self)?;
        }
        Ok(())
    }

    /// Returns the values that `r` writes for the operands.
    ///
    /// # Errors
    /// The errors of `r`.
    pub fn operands<R: TirRewrite<'b> + ?Sized>(&mut self, r: &mut R, value: Value<'b>) -> Result<Vec<V>, PassError> {
        value.operands().map(|operand| r.expr(operand, self)).collect()
    }

    /// Writes an expression unchanged, except for its parts, which `r` writes. Returns the value set with [`Again::set`], if any.
    ///
    /// # Errors
    /// The errors of `r`.
    pub fn expr<R: TirRewrite<'b> + ?Sized>(&mut self, r: &mut R, expr: Value<'b>) -> Result<V, PassError> {
        if let Some(v) = self.meaning(expr) {
            return Ok(v);
        }
        if !expr.is_nested() {
            return Ok(match expr.dim().filter(|_| !self.syms.is_empty()) {
                Some(dim) => {
                    let dim = self.renewed(&dim);
                    self.edit.builder().scalar(&dim)
                }
                None => self.edit.v(expr),
            });
        }
        let ops = self.operands(r, expr)?;
        if !expr.has(flag::REGION) {
            return Ok(self.edit.node(spec_of(expr), &ops, None));
        }
        let v = self.edit.open(spec_of(expr), &ops, None);
        let inner = expr.region().children().try_for_each(|child| {
            let ops = self.operands(r, child)?;
            let v = self.edit.node(spec_of(child), &ops, child.name());
            self.set(child, v);
            Ok(())
        });
        self.edit.close();
        inner.map(|()| v)
    }

    /// Writes the same expression with different operands.
    pub fn expr_of(&mut self, expr: Value<'b>, ops: &[V]) -> V {
        self.edit.node(spec_of(expr), ops, None)
    }

    /// Writes the same expression with different operands and a different data type.
    pub fn expr_as(&mut self, expr: Value<'b>, ops: &[V], dtype: DType) -> V {
        let ty = self.scalar(dtype);
        self.edit.node(spec_of(expr).ty(ty), ops, None)
    }

    fn scalar(&mut self, dtype: DType) -> TypeId {
        self.edit.builder().ty(&Type::Prim { dtype, value: None })
    }

    /// Writes with [`Tir`] at the current place; numbers have type `int32` unless the other operand determines it.
    ///
    /// # Errors
    /// The first error of the written code.
    pub fn tir<R>(&mut self, f: impl FnOnce(&Tir<'_, 'b>) -> R) -> Result<R, PassError> {
        Tir::at(&mut self.edit, DType::I32, f)
    }

    /// Writes an integer.
    pub fn int(&mut self, value: i64, dtype: DType) -> V {
        self.edit.builder().scalar(&Dim::int(value, dtype))
    }

    /// Writes a float, which must fit the data type.
    pub fn float(&mut self, value: f64, dtype: DType) -> V {
        self.edit.builder().scalar(&Dim::Expr(Arc::new(DimExpr::Float(value.to_bits(), dtype))))
    }

    /// Writes a number, or an expression in symbolic variables.
    pub fn dim(&mut self, dim: &Dim) -> V {
        self.edit.builder().scalar(dim)
    }

    /// Writes an operation on two values, without folding it.
    pub fn binary(&mut self, op: PrimOp, a: V, b: V) -> V {
        let dtype = self.dtype(a);
        let dtype = if op.is_truth() { truth_of(dtype) } else { dtype };
        let ty = self.scalar(dtype);
        self.edit.node(NodeSpec::new(kind::ARITH).a(op.into()).ty(ty), &[a, b], None)
    }

    /// Writes an operation on two values, folded like an operation of [`PrimExpr`](super::PrimExpr).
    pub fn folded(&mut self, op: PrimOp, a: V, b: V) -> V {
        match folded(op, self.dtype(a), self.as_int(a), self.as_int(b)) {
            Some(Folded::Left) => a,
            Some(Folded::Right) => b,
            Some(Folded::Int(value)) => self.int(value, self.dtype(a)),
            None => self.binary(op, a, b),
        }
    }

    /// Writes the negation of a condition, without folding it.
    pub fn not(&mut self, a: V) -> V {
        let ty = self.scalar(self.dtype(a));
        self.edit.node(NodeSpec::new(kind::ARITH).a(PrimOp::Not.into()).ty(ty), &[a], None)
    }

    /// Writes a conversion to a data type, without folding it.
    pub fn cast(&mut self, a: V, dtype: DType) -> V {
        let ty = self.scalar(dtype);
        self.edit.node(NodeSpec::new(kind::ARITH).a(PrimOp::Cast.into()).ty(ty), &[a], None)
    }

    /// Writes a choice between two values that evaluates both.
    pub fn select(&mut self, cond: V, then: V, other: V) -> V {
        let ty = self.scalar(self.dtype(then));
        self.edit.node(NodeSpec::new(kind::SELECT).ty(ty), &[cond, then, other], None)
    }

    /// Writes a call of a TIR operator without effects.
    pub fn call(&mut self, op: &str, args: &[V], dtype: DType) -> V {
        let callee = self.edit.builder().op(op);
        let ops: Vec<V> = std::iter::once(callee).chain(args.iter().copied()).collect();
        let ty = self.scalar(dtype);
        self.edit.node(NodeSpec::new(kind::CALL).ty(ty), &ops, None)
    }

    /// Writes a call of a TIR operator for its effect, without a result.
    pub fn effect(&mut self, op: &str, args: &[V]) -> V {
        let callee = self.edit.builder().op(op);
        let ops: Vec<V> = std::iter::once(callee).chain(args.iter().copied()).collect();
        self.edit.node(NodeSpec::new(kind::CALL), &ops, None)
    }

    /// Writes a vector of numbers with a constant step.
    pub fn ramp(&mut self, base: V, stride: V, lanes: V, dtype: DType) -> V {
        let ty = self.scalar(dtype);
        self.edit.node(NodeSpec::new(kind::RAMP).ty(ty), &[base, stride, lanes], None)
    }

    /// Writes a vector of equal elements.
    pub fn broadcast(&mut self, value: V, lanes: V, dtype: DType) -> V {
        let ty = self.scalar(dtype);
        self.edit.node(NodeSpec::new(kind::BROADCAST).ty(ty), &[value, lanes], None)
    }

    /// Binds a value to a name until the end of the current content.
    pub fn bind(&mut self, name: &str, value: V) -> V {
        self.written += 1;
        let ty = self.scalar(self.dtype(value));
        self.edit.node(NodeSpec::new(kind::BIND).ty(ty), &[value], Some(name))
    }

    /// Binds a value to a new variable with the name and the data type of an old binding.
    pub fn bind_like(&mut self, old: Value<'b>, value: V) -> V {
        self.written += 1;
        let (spec, call) = (spec_of(old), self.with(value, |value| value.as_call().is_some()));
        let ty = if self.dtype(value) == old.ty().dtype() { spec.ty } else { self.scalar(self.dtype(value)) };
        let flags = spec.flags & !flag::IMPURE | if call { flag::IMPURE } else { 0 };
        let v = self.edit.node(NodeSpec { flags, ty, ..spec }, &[value], old.name());
        self.set(old, v);
        v
    }

    /// Like [`Again::bind`], but also returns a dimension through which types can mention the variable.
    pub fn bind_symbol(&mut self, name: &str, value: V) -> (V, Dim) {
        let v = self.bind(name, value);
        let dtype = self.dtype(value);
        let sym = self.edit.builder().sym(name, dtype);
        self.edit.set_type(v, &Type::Prim { dtype, value: Some(Dim::Var(sym)) });
        (v, Dim::Var(sym))
    }

    /// Writes a statement without content, a buffer or a variable, with new operands and a new type.
    pub fn retyped(&mut self, old: Value<'b>, ops: &[V], ty: &Type) -> V {
        self.written += 1;
        let ty = self.edit.builder().ty(ty);
        let v = self.edit.node(spec_of(old).ty(ty), ops, old.name());
        self.set(old, v);
        v
    }

    /// Turns a written view into an independent buffer, with the layout and offset of its type.
    pub fn no_view(&mut self, old: Value<'b>) {
        let v = self.v(old);
        self.edit.update(v, |node| {
            if node.kind == kind::BUFFER && node.a == buffer_of::VIEW {
                node.a = buffer_of::DECL;
            }
        });
    }

    /// Writes a dimension as an expression, without folding it. `var` returns the value of a symbolic variable.
    ///
    /// # Errors
    /// If an operation does not accept its operands.
    pub fn dim_expr(&mut self, dim: &Dim, var: &impl Fn(crate::ir::Sym) -> Option<V>) -> Result<V, PassError> {
        self.tir(|t| {
            t.dim(dim, &|sym| match var(sym) {
                Some(v) => t.value(v),
                None => t.symbol(sym),
            })
            .v()
        })
    }

    /// Returns the operands of a written value.
    pub fn parts(&mut self, v: V) -> Vec<V> {
        let words = self.edit.builder().operand_words(v).to_vec();
        words.into_iter().map(|word| self.edit.builder().value_of_word(word)).collect()
    }

    /// Evaluates an expression for its effects.
    pub fn evaluate(&mut self, value: V) {
        self.written += 1;
        self.edit.node(NodeSpec::new(kind::EVALUATE).flags(flag::IMPURE), &[value], None);
    }

    /// Writes an If; `branch` writes the statements of the branch.
    ///
    /// # Errors
    /// The errors of `branch`.
    pub fn if_then(
        &mut self,
        cond: V,
        branch: impl FnOnce(&mut Again<'b>) -> Result<(), PassError>,
    ) -> Result<(), PassError> {
        self.written += 1;
        self.edit.open(NodeSpec::new(kind::COND), &[cond], None);
        self.edit.open(NodeSpec::new(kind::SCOPE), &[], None);
        branch(self)?;
        self.edit.close();
        self.edit.close();
        Ok(())
    }

    /// Writes an If with two branches; `branch` is called with `true` for the first branch, then with `false`.
    ///
    /// # Errors
    /// The errors of `branch`.
    pub fn if_else(
        &mut self,
        cond: V,
        mut branch: impl FnMut(&mut Again<'b>, bool) -> Result<(), PassError>,
    ) -> Result<(), PassError> {
        self.written += 1;
        self.edit.open(NodeSpec::new(kind::COND), &[cond], None);
        for then in [true, false] {
            self.edit.open(NodeSpec::new(kind::SCOPE), &[], None);
            branch(self, then)?;
            self.edit.close();
        }
        self.edit.close();
        Ok(())
    }

    /// Writes a loop with the kind, annotations and variable name of an old loop, but with a new variable. Its variable runs from `min` for
    /// `extent` iterations. `content` writes its content.
    ///
    /// # Errors
    /// The errors of `content`.
    pub fn loop_like(
        &mut self,
        old: Value<'b>,
        min: V,
        extent: V,
        content: impl FnOnce(&mut Again<'b>, V) -> Result<(), PassError>,
    ) -> Result<(), PassError> {
        self.loop_with(old, AttrsId(old.attrs().id()), &[min, extent], content)
    }

    /// Writes an old loop with a different kind from [`loop_kind`](crate::ir::loop_kind), and a new variable. Unlike [`Again::loop_like`],
    /// this keeps the step of the loop.
    ///
    /// # Errors
    /// The errors of `content`.
    pub fn loop_as(
        &mut self,
        old: Value<'b>,
        kind: &str,
        (min, extent): (V, V),
        content: impl FnOnce(&mut Again<'b>, V) -> Result<(), PassError>,
    ) -> Result<(), PassError> {
        let kept = old.attrs().iter().filter(|(key, _)| !matches!(*key, "kind" | "thread"));
        let mut entries: Vec<(&str, Attr)> = kept.map(|(key, attr)| (key, attr.to_owned())).collect();
        if kind != loop_kind::SERIAL {
            entries.push(("kind", Attr::from(kind)));
        }
        let attrs = self.edit.builder().attrs(entries);
        let step = old.loop_step().map(|step| AsWritten.expr(step, self)).transpose()?;
        let range: Vec<V> = [min, extent].into_iter().chain(step).collect();
        self.loop_with(old, attrs, &range, content)
    }

    /// Writes a serial loop from 0 for `extent` iterations; `content` writes its content.
    ///
    /// # Errors
    /// The errors of `content`.
    pub fn new_loop(
        &mut self,
        name: &str,
        extent: V,
        content: impl FnOnce(&mut Again<'b>, V) -> Result<(), PassError>,
    ) -> Result<(), PassError> {
        self.written += 1;
        let ty = self.scalar(self.dtype(extent));
        let min = self.int(0, self.dtype(extent));
        self.edit.open(NodeSpec::new(kind::FOR), &[min, extent], None);
        let v = self.edit.node(NodeSpec::new(kind::LOOP_VAR).flags(flag::INNER).ty(ty), &[], Some(name));
        content(self, v)?;
        self.edit.close();
        Ok(())
    }

    fn loop_with(
        &mut self,
        old: Value<'b>,
        attrs: AttrsId,
        range: &[V],
        content: impl FnOnce(&mut Again<'b>, V) -> Result<(), PassError>,
    ) -> Result<(), PassError> {
        self.written += 1;
        let var = old.region().children().next().filter(|var| var.kind() == kind::LOOP_VAR);
        let Some(var) = var else { return Err(PassError::new("expected a loop").at(old)) };
        let ty = self.scalar(self.dtype(range[1]));
        self.edit.open(NodeSpec::new(kind::FOR).attrs(attrs), range, None);
        let v = self.edit.node(spec_of(var).ty(ty), &[], var.name());
        content(self, v)?;
        self.edit.close();
        Ok(())
    }
}

/// Writes everything unchanged.
struct AsWritten;

impl TirRewrite<'_> for AsWritten {}

/// Returns true for a statement that declares a buffer.
fn is_allocation_or_view(stmt: Value<'_>) -> bool {
    let of = stmt.node().filter(|node| node.kind == kind::BUFFER).map(|node| node.a);
    matches!(of, Some(buffer_of::ALLOC | buffer_of::DECL | buffer_of::VIEW))
}

/// Returns the result type of a comparison of values of a data type.
fn truth_of(dtype: DType) -> DType {
    DType::new(DType::BOOL.code(), DType::BOOL.bits(), dtype.lanes())
}

/// Returns the properties of a node, without its operands.
fn spec_of(value: Value<'_>) -> NodeSpec {
    let Some(node) = value.node() else { return NodeSpec::new(kind::VAR) };
    let a = if node.has(flag::REGION) { 0 } else { node.a };
    NodeSpec { kind: node.kind, flags: node.flags & !flag::REGION, ty: TypeId(node.ty), attrs: AttrsId(node.attrs), a }
}

/// Removes variables that are neither defined nor used, such as the variable of a removed `T.Let`.
fn without_unused_variables(body: Body) -> Result<Body, PassError> {
    let free: Vec<Value<'_>> = body.values().filter(|value| value.is_free_var()).collect();
    if free.is_empty() {
        return Ok(body);
    }
    let (users, mut mentioned) = (Users::of(&body), HashSet::new());
    for value in body.values() {
        let operands = value.operands().filter_map(|operand| operand.dim());
        for dim in operands.chain(value.ty().prims().into_iter().filter(|_| !value.is_free_var())) {
            dim.vars(&mut |sym| {
                mentioned.insert(sym);
            });
        }
    }
    let mut edit = body.edit();
    for var in free {
        let is_mentioned = var.symbol().is_some_and(|sym| mentioned.contains(&sym));
        if !is_mentioned && var.index().is_some_and(|at| users.at(at).is_empty()) {
            edit.discard(var);
        }
    }
    Ok(edit.finish()?)
}
