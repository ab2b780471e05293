//! Analyses the index expressions of function bodies, and simplifies them.

use super::analyzer::Analyzer;
use super::bounds::Bounds;
use super::modular::ModularSet;
use super::store::{IF_THEN_ELSE, Id, Node, SELECT};
use super::to_dim::{FIRST_ATOM, atom_of, dtype_of, symbol_of};
use crate::ir::records::{flag, kind, leaf, prim};
use crate::ir::{Body, DType, Dim, NodeSpec, SealError, Sym, Type, V, Value};
use crate::rewrite::mutators::{Action, Rewriter};
use crate::walk::value_key::ValueNumbers;
use std::collections::{HashMap, HashSet};

/// The name of the operator that chooses between two values and evaluates only the selected one.
const IF_THEN_ELSE_OP: &str = "tirx.if_then_else";

impl Analyzer {
    /// Returns an analyser with the ranges of all loop variables, threads and block iterators of a PrimFunc. Each variable is in scope only
    /// in its own loop or block, so its range is valid at every use. Loops with a step are not bound.
    ///
    /// The example simplifies all indices of a function and checks that a store stays within its buffer:
    ///
    /// ```
    /// use plugin_api::arith::Bounds;
    /// use plugin_api::prelude::*;
    /// use plugin_api::tir::prim_func;
    ///
    /// /// The index of the only store.
    /// fn index(body: &Body) -> Value<'_> {
    ///     let store = body.values().find(|value| matches!(value.stmt(), Some(Stmt::Store { .. }))).expect("a store");
    ///     store.operand(2).expect("an index")
    /// }
    ///
    /// // for i in range(4): A[(i * 8 + 5) // 8] = 1
    /// let body = prim_func(|t| {
    ///     let a = t.buffer_param("A", &[4], DType::I32);
    ///     t.serial("i", 4, |i| t.store(a, [(i * 8 + 5) / 8], 1));
    /// })?;
    ///
    /// let mut analyzer = Analyzer::of_body(&body);
    /// assert_eq!(analyzer.index_bounds(index(&body)), Bounds::of(0, 3));
    ///
    /// let simple = analyzer.simplify_body(&body)?;
    /// assert_eq!(index(&simple).name(), Some("i"));
    /// # Ok::<(), PassError>(())
    /// ```
    pub fn of_body(body: &Body) -> Analyzer {
        let mut analyzer = Analyzer::new();
        for value in body.values() {
            let range = match value.kind() {
                kind::FOR if value.n_operands() == 2 => (value.sibling_var(), value.operand(0), value.operand(1)),
                kind::ITER_VAR => (Some(value), value.operand(0), value.operand(1)),
                kind::LAUNCH => (value.sibling_var(), None, value.operand(0)),
                _ => continue,
            };
            let (Some(var), min, Some(extent)) = range else { continue };
            let Some(sym) = symbol_of(var) else { continue };
            let min = min.map_or(Some(Dim::int(0, sym.dtype)), crate::arith::index_to_dim);
            if let (Some(min), Some(extent)) = (min, crate::arith::index_to_dim(extent)) {
                analyzer.bind_range(sym, &min, &extent);
            }
        }
        analyzer
    }

    /// Enters an expression: arithmetic and choices become nodes of the store, everything else becomes an atom. Not recursive, so
    /// expressions may be deep.
    fn enter_value(&mut self, root: Value<'_>) -> Option<Id> {
        let (mut work, mut done) = (vec![(root, false)], Vec::new());
        while let Some((value, entered)) = work.pop() {
            let Some((op, dtype, first)) = operation(value) else {
                done.push(self.enter_atom(value)?);
                continue;
            };
            if !entered {
                work.push((value, true));
                work.extend(value.operands().skip(first).rev().map(|operand| (operand, false)));
                continue;
            }
            let from = done.len().checked_sub(value.n_operands() - first)?;
            let kids: Vec<Id> = done.drain(from..).collect();
            let kid = |i: usize| kids.get(i).copied().unwrap_or(0);
            done.push(self.store().node(Node { op, dtype, a: kid(0).into(), b: kid(1), c: kid(2) }));
        }
        done.pop()
    }

    /// Enters an expression with choices as atoms. Equal atoms are merged.
    pub(super) fn enter_opaque(&mut self, root: Value<'_>) -> Option<Id> {
        let opened = |value| operation(value).filter(|(op, ..)| !matches!(*op, SELECT | IF_THEN_ELSE));
        if opened(root).is_none() {
            return self.enter_atom(root);
        }
        let (mut numbers, mut equal): (_, HashMap<u32, Id>) = (ValueNumbers::new(), HashMap::new());
        let (mut work, mut done) = (vec![(root, false)], Vec::new());
        while let Some((value, entered)) = work.pop() {
            let Some((op, dtype, _)) = opened(value) else {
                let id = if value.is_nested() && !value.has_effect() {
                    let computes = numbers.of(value, &|operand| operand);
                    match equal.get(&computes) {
                        Some(id) => *id,
                        None => *equal.entry(computes).or_insert(self.enter_atom(value)?),
                    }
                } else {
                    self.enter_atom(value)?
                };
                done.push(id);
                continue;
            };
            if !entered {
                work.push((value, true));
                work.extend(value.operands().rev().map(|operand| (operand, false)));
                continue;
            }
            let from = done.len().checked_sub(value.n_operands())?;
            let kids: Vec<Id> = done.drain(from..).collect();
            let kid = |i: usize| kids.get(i).copied().unwrap_or(0);
            done.push(self.store().node(Node { op, dtype, a: kid(0).into(), b: kid(1), c: 0 }));
        }
        done.pop()
    }

    fn enter_atom(&mut self, value: Value<'_>) -> Option<Id> {
        if value.is_leaf() {
            value.leaf().filter(|rec| rec.kind == leaf::PRIM)?;
            return Some(self.enter(&value.dim()?));
        }
        let atom = || Sym { id: FIRST_ATOM | value.word(), dtype: value.ty().dtype() };
        let sym = symbol_of(value).unwrap_or_else(atom);
        Some(self.enter(&Dim::Var(sym)))
    }

    /// Writes the simplified expression at the rewriter's position. Returns `None`, and keeps the original, if the result is not smaller.
    /// Call this from the hook of the user of the expression (a store, a load, a loop) and set the result as its operand with
    /// [`Edit::set_operand`](crate::rewrite::Edit::set_operand); [`Analyzer::simplify_body`] does this for a whole function. Takes time
    /// proportional to the size of the expression, where loads and other opaque operands count as one node.
    pub fn simplify_index<'b>(&mut self, value: Value<'b>, rw: &mut Rewriter<'b>) -> Option<V> {
        operation(value)?;
        self.refresh();
        let id = self.enter_value(value)?;
        let store = self.store();
        let simple = store.simplify(id);
        if store.size[simple as usize] >= store.size[id as usize] || value.has_effect() {
            return None;
        }
        let order = self.written(simple)?;
        self.atoms_once(&order, rw.body()).then_some(())?;
        let mut done: Vec<V> = Vec::new();
        for id in order {
            let node = self.store().at(id);
            let from = done.len().checked_sub(node.kids().count())?;
            let kids: Vec<V> = done.drain(from..).collect();
            done.push(write(node, kids, rw));
        }
        done.pop()
    }

    /// Returns the nodes of an expression as a tree, operands before their users.
    fn written(&mut self, root: Id) -> Option<Vec<Id>> {
        let store = self.store();
        let (mut work, mut out) = (vec![root], Vec::with_capacity(store.size[root as usize] as usize));
        while let Some(id) = work.pop() {
            out.push(id);
            work.extend(store.at(id).kids());
        }
        out.reverse();
        Some(out)
    }

    /// Returns true if each unnamed expression, such as a load, is used at most once, so that its position is unique.
    fn atoms_once(&mut self, order: &[Id], body: &Body) -> bool {
        let mut seen = HashSet::new();
        order.iter().all(|id| {
            let node = self.store().at(*id);
            let sym = Sym { id: node.a as u32, dtype: node.dtype };
            match atom_of(sym).filter(|_| node.op == prim::VAR) {
                Some(at) => !body.value_at(at).is_nested() || seen.insert(at),
                None => true,
            }
        })
    }

    /// Simplifies all arithmetic of a function using the facts in the analyser; [`Analyzer::of_body`] provides the ranges of the function's
    /// loops. Expressions that do not shrink are kept; an unchanged body keeps its handle.
    ///
    /// # Errors
    /// If the result is not valid.
    pub fn simplify_body(&mut self, body: &Body) -> Result<Body, SealError> {
        body.try_rewrite(|value, rw| {
            // The expressions of a buffer are in its type.
            if operation(value).is_none() && value.kind() != kind::BUFFER {
                for (i, operand) in value.operands().enumerate() {
                    if let Some(simple) = self.simplify_index(operand, rw) {
                        let edit = rw.edit();
                        let user = edit.v(value);
                        edit.set_operand(user, i, simple);
                    }
                }
            }
            Ok(Action::Keep)
        })
    }

    /// Returns the bounds of an expression in a body; see [`Analyzer::const_bounds`].
    pub fn index_bounds(&mut self, value: Value<'_>) -> Bounds {
        self.refresh();
        self.enter_value(value).map_or(Bounds::EVERYTHING, |id| self.bounds_of(id))
    }

    /// Returns the remainders of an expression in a body; see [`Analyzer::modular_set`].
    pub fn index_modular_set(&mut self, value: Value<'_>) -> ModularSet {
        self.refresh();
        self.enter_value(value).map_or(ModularSet::EVERYTHING, |id| self.remainders_of(id))
    }

    /// Compares two expressions in the same body; see [`Analyzer::prove_equal`]. Two loads are never provably equal.
    pub fn prove_index_equal(&mut self, a: Value<'_>, b: Value<'_>) -> Option<bool> {
        self.refresh();
        let (a, b) = (self.enter_value(a)?, self.enter_value(b)?);
        self.equal(a, b)
    }
}

impl<'a> Value<'a> {
    /// Returns the variable of a loop.
    fn sibling_var(self) -> Option<Value<'a>> {
        self.region().children().next().filter(|var| var.kind() == kind::LOOP_VAR)
    }
}

/// Returns the operation, type and first operand of a value that the analyser does not treat as opaque.
fn operation(value: Value<'_>) -> Option<(u16, DType, usize)> {
    let node = value.node()?;
    if node.has(flag::BOUND) {
        return None;
    }
    match (node.kind, node.n_ops) {
        (kind::ARITH, n) => {
            let op = u16::try_from(node.a).ok()?;
            let operands = match op {
                prim::NOT | prim::CAST => 1,
                prim::ADD..=prim::BITXOR => 2,
                _ => return None,
            };
            let truth = matches!(op, prim::EQ..=prim::NOT) && !value.ty().dtype().is_known();
            (n == operands).then(|| (op, if truth { DType::BOOL } else { dtype_of(value) }, 0))
        }
        (kind::SELECT, 3) => Some((SELECT, dtype_of(value), 0)),
        (kind::CALL, 4) if value.as_call_to(IF_THEN_ELSE_OP).is_some() => Some((IF_THEN_ELSE, dtype_of(value), 1)),
        _ => None,
    }
}

/// Writes one expression; or returns the existing value.
fn write<'b>(node: Node, mut kids: Vec<V>, rw: &mut Rewriter<'b>) -> V {
    let sym = Sym { id: node.a as u32, dtype: node.dtype };
    match node.op {
        prim::VAR => match atom_of(sym) {
            Some(at) => rw.v(rw.body().value_at(at)),
            None => rw.edit().builder().scalar(&Dim::Var(sym)),
        },
        prim::INT => rw.edit().builder().scalar(&Dim::int(node.a as i64, node.dtype)),
        prim::FLOAT => rw.edit().builder().scalar(&Dim::float(f64::from_bits(node.a), node.dtype)),
        op => {
            let edit = rw.edit();
            let ty = edit.builder().ty(&Type::Prim { dtype: node.dtype, value: None });
            let spec = match op {
                SELECT => NodeSpec::new(kind::SELECT),
                IF_THEN_ELSE => {
                    kids.insert(0, edit.builder().op(IF_THEN_ELSE_OP));
                    NodeSpec::new(kind::CALL)
                }
                op => NodeSpec::new(kind::ARITH).a(op.into()),
            };
            edit.node(spec.ty(ty), &kids, None)
        }
    }
}
