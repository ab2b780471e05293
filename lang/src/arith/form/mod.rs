//! Writes simplified expressions in TVM's form: terms, factors and operands appear in the order of the original expression, as far as
//! possible.

mod and_of_ors;
mod kept;

use crate::arith::analyzer::Analyzer;
use crate::arith::bounds::Bounds;
use crate::arith::store::{IF_THEN_ELSE, Id, Node, SELECT, Store, is_index};
use crate::arith::to_dim::atom_of;
use crate::ir::records::{NONE, prim};
use crate::ir::{DType, Dim, Sym, Value};
use crate::scalar::PrimOp;
use std::cmp::Reverse;
use std::collections::HashMap;

type Map<K, T> = HashMap<K, T, foldhash::fast::FixedState>;

/// A shared expression is repeated at each use, so a chain of variables whose values each use the previous variable twice would produce
/// exponentially many pieces. The limit is this number or, if greater, a fixed number of pieces per part of the original expression.
const MAX_PIECES: usize = 4096;
const MAX_COPIES: usize = 64;

/// A piece of a simplified expression. The pieces of an operation's operands precede the operation, as in reverse Polish notation.
#[derive(Clone, Debug, PartialEq)]
pub enum Piece {
    /// The position of an opaque value of the body: a variable, load, call and so on.
    Value(usize),
    /// A number or a symbolic variable.
    Leaf(Dim),
    /// An operation on the preceding one or two values.
    Op(PrimOp, DType),
}

/// Returns the step that writes an operation; `None` for a choice, because choices are opaque here.
fn out(op: u16, dtype: DType) -> Option<Todo> {
    PrimOp::of_code(op).map(|op| Todo::Out(Piece::Op(op, dtype)))
}

impl Analyzer {
    /// Returns the simplified expression. Choices, loads and calls are opaque: each becomes one [`Piece::Value`], and equal ones share a
    /// piece. Returns `None` if the value is not arithmetic or the result is too long. Takes time proportional to the size of the
    /// expression.
    ///
    /// ```
    /// use plugin_api::arith::{Analyzer, Piece};
    /// use plugin_api::scalar::PrimOp;
    /// use plugin_api::prelude::*;
    /// use plugin_api::tir::prim_func;
    ///
    /// // for i in range(4): A[i * 8 - i * 7 + 0] = 1
    /// let body = prim_func(|t| {
    ///     let a = t.buffer_param("A", &[4], DType::I32);
    ///     t.serial("i", 4, |i| t.store(a, [i * 8 - i * 7], 1));
    /// })?;
    /// let store = body.values().find(|value| matches!(value.stmt(), Some(Stmt::Store { .. }))).expect("a store");
    /// let index = store.operand(2).expect("an index");
    /// let pieces = Analyzer::of_body(&body).pieces(index).expect("an expression");
    /// assert!(matches!(pieces[..], [Piece::Value(_)]), "it is i");
    /// # Ok::<(), PassError>(())
    /// ```
    pub fn pieces(&mut self, value: Value<'_>) -> Option<Vec<Piece>> {
        self.refresh();
        let id = self.enter_opaque(value)?;
        let simple = self.store().simplify(id);
        self.pieces_of(id, simple)
    }

    /// Returns the pieces of a simplified expression, in the original order; `None` if there are too many.
    pub(super) fn pieces_of(&mut self, was: Id, simple: Id) -> Option<Vec<Piece>> {
        let store = self.store();
        if let Some(piece) = leaf(store.at(simple)) {
            return Some(vec![piece]);
        }
        let mut origin = Map::default();
        let parts = store.parts(was);
        if store.size[simple as usize] as usize > MAX_PIECES.max(MAX_COPIES.saturating_mul(parts.len())) {
            return None;
        }
        for part in parts {
            let simple = store.simple[part as usize];
            origin.entry(if simple == NONE { part } else { simple }).or_insert(part);
        }
        let mut form = Form { store, root: was, origin, out: Vec::new() };
        form.write(simple);
        Some(form.out)
    }
}

/// Returns the piece for a node that is a number or a variable.
fn leaf(Node { op, dtype, a, .. }: Node) -> Option<Piece> {
    Some(match op {
        prim::INT => Piece::Leaf(Dim::int(a as i64, dtype)),
        prim::FLOAT => Piece::Leaf(Dim::float(f64::from_bits(a), dtype)),
        prim::VAR => {
            let sym = Sym { id: a as u32, dtype };
            atom_of(sym).map_or(Piece::Leaf(Dim::Var(sym)), Piece::Value)
        }
        _ => return None,
    })
}

/// Writes a simplified expression as pieces.
struct Form<'s> {
    store: &'s Store,
    /// The original expression.
    root: Id,
    /// For each simplified expression, the first part of the original expression that simplified to it.
    origin: Map<Id, Id>,
    out: Vec<Piece>,
}

/// A part of the expression that has not been written yet.
enum Todo {
    Expr(Id),
    /// A sum to which a number is added.
    Sum(Id, i64),
    Out(Piece),
}

/// The order in which the parts of an original expression first occur.
struct Ranks<'s> {
    store: &'s Store,
    first: Map<Id, u32>,
}

impl<'s> Ranks<'s> {
    fn of(store: &'s Store, root: Id) -> Ranks<'s> {
        let mut first: Map<Id, u32> = Map::default();
        let (mut work, mut next) = (vec![root], 0);
        while let Some(id) = work.pop() {
            if first.contains_key(&id) {
                continue;
            }
            first.insert(id, next);
            let simple = store.simple[id as usize];
            if simple != NONE {
                first.entry(simple).or_insert(next);
            }
            next += 1;
            work.extend(store.at(id).kids().rev());
        }
        Ranks { store, first }
    }

    /// Returns the rank of an expression, or of the first of its parts.
    fn rank(&mut self, root: Id) -> u32 {
        for id in self.store.parts(root) {
            if !self.first.contains_key(&id) {
                let first = self.store.at(id).kids().filter_map(|kid| self.first.get(&kid).copied()).min();
                self.first.insert(id, first.unwrap_or(u32::MAX));
            }
        }
        self.first.get(&root).copied().unwrap_or(u32::MAX)
    }
}

impl<'s> Form<'s> {
    /// Returns the order of the parts of an expression's original.
    fn ranks(&self, id: Id) -> Ranks<'s> {
        Ranks::of(self.store, self.origin.get(&id).copied().unwrap_or(self.root))
    }

    /// Writes an expression. Uses an explicit work list, not the stack, so expressions may be deep.
    fn write(&mut self, root: Id) {
        let mut todo = vec![Todo::Expr(root)];
        while let Some(next) = todo.pop() {
            match next {
                Todo::Out(piece) => self.out.push(piece),
                Todo::Sum(id, more) => self.sum(id, more, &mut todo),
                Todo::Expr(id) => self.expr(id, &mut todo),
            }
        }
    }

    /// Pushes the steps that write an expression, the last step first.
    fn expr(&mut self, id: Id, todo: &mut Vec<Todo>) {
        let node = self.store.at(id);
        if let Some(piece) = leaf(node) {
            return self.out.push(piece);
        }
        let dtype = node.dtype;
        match node.op {
            _ if self.store.is_kept(id) => {
                let simple = |kid: Id| self.store.simple[kid as usize];
                self.operation(id, node.kids().map(simple), todo);
            }
            prim::ADD | prim::SUB if is_index(dtype) => todo.push(Todo::Sum(id, 0)),
            prim::MUL if is_index(dtype) && self.store.as_int(node.b).is_some() => todo.push(Todo::Sum(id, 0)),
            prim::MUL if is_index(dtype) => {
                let (mut factors, mut ranks) = (self.store.factors(id), self.ranks(id));
                factors.sort_by_key(|factor| ranks.rank(*factor));
                for (i, factor) in factors.iter().enumerate().rev() {
                    todo.extend((i > 0).then_some(Todo::Out(Piece::Op(PrimOp::Mul, dtype))));
                    todo.push(Todo::Expr(*factor));
                }
            }
            // A split of an index: `x // 2 % 4` is written as `x % 8 // 2`.
            prim::FLOORMOD if let Some((x, low, m)) = self.middle(id) => todo.extend([
                Todo::Out(Piece::Op(PrimOp::FloorDiv, dtype)),
                Todo::Out(Piece::Leaf(Dim::int(low, dtype))),
                Todo::Out(Piece::Op(PrimOp::FloorMod, dtype)),
                Todo::Out(Piece::Leaf(Dim::int(m, dtype))),
                Todo::Expr(x),
            ]),
            prim::AND | prim::OR => {
                // Writes the sides from left to right, regardless of the original parentheses.
                for (i, side) in self.store.sides(id).into_iter().enumerate().rev() {
                    todo.extend((i > 0).then(|| out(node.op, dtype)).flatten());
                    todo.push(Todo::Expr(side));
                }
            }
            prim::LT | prim::LE if is_index(self.store.at(node.b).dtype) => self.order(id, todo),
            SELECT | IF_THEN_ELSE => {}
            op => {
                let mut kids: Vec<Id> = node.kids().collect();
                // Numbers are the second operand of equations; in `min` and `max` they keep their position.
                let equal = matches!(op, prim::EQ | prim::NE);
                if let (true, [a, b]) = (equal || matches!(op, prim::MIN | prim::MAX), &kids[..])
                    && !(equal && self.store.as_int(*b).is_some())
                    && let mut ranks = self.ranks(id)
                    && ranks.rank(*b) < ranks.rank(*a)
                {
                    kids.reverse();
                }
                self.operation(id, kids.into_iter(), todo);
            }
        }
    }

    /// Pushes an operation on the given operands.
    fn operation(&self, id: Id, kids: impl DoubleEndedIterator<Item = Id>, todo: &mut Vec<Todo>) {
        let Node { op, dtype, .. } = self.store.at(id);
        todo.extend(out(op, dtype));
        todo.extend(kids.rev().map(Todo::Expr));
    }

    /// Pushes an inequality. An inequality with a number is strict if the original inequality was. It becomes an equation if one side is
    /// never less than the other.
    fn order(&self, id: Id, todo: &mut Vec<Todo>) {
        let Node { op, dtype, a, b, .. } = self.store.at(id);
        let a = a as Id;
        let number = |id: Id| self.store.as_int(id).is_some() || self.store.sum_of(id).constant != 0;
        let (op, more_a, more_b) = match (op, self.was_strict(id)) {
            (prim::LT, Some(false)) if number(b) => (prim::LE, 0, -1),
            (prim::LT, Some(false)) if number(a) => (prim::LE, 1, 0),
            (prim::LE, Some(true)) if number(a) => (prim::LT, -1, 0),
            _ => (op, 0, 0),
        };
        let fits =
            |id: Id, more: i64| self.sum_as_it_was(id).shift(more).is_some_and(|sum| sum.fits(self.store.at(id).dtype));
        let (op, more_a, more_b) = match fits(a, more_a) && fits(b, more_b) {
            true => (op, more_a, more_b),
            false => (self.store.at(id).op, 0, 0),
        };
        let mut sides = [Todo::Sum(b, more_b), Todo::Sum(a, more_a)];
        let difference = self.store.plus(&self.store.sum_of(a), &self.store.sum_of(b), -1);
        let difference = difference.and_then(|sum| sum.shift(more_a.checked_sub(more_b)?));
        let is_equation =
            op == prim::LE && difference.is_some_and(|difference| self.store.tight_bounds(&difference).min >= 0);
        if is_equation && self.store.as_int(a).is_some() {
            sides.reverse();
        }
        todo.extend(out(if is_equation { prim::EQ } else { op }, dtype));
        todo.extend(sides);
    }

    /// Returns true if the original comparison excludes equality.
    fn was_strict(&self, id: Id) -> Option<bool> {
        let (mut node, mut negated) = (self.store.at(self.origin.get(&id).copied().unwrap_or(id)), false);
        while node.op == prim::NOT {
            (node, negated) = (self.store.at(node.a as Id), !negated);
        }
        match node.op {
            prim::LT | prim::GT | prim::NE => Some(!negated),
            prim::LE | prim::GE | prim::EQ => Some(negated),
            _ => None,
        }
    }

    /// Pushes a sum plus a number.
    fn sum(&self, id: Id, more: i64, todo: &mut Vec<Todo>) {
        let dtype = self.store.at(id).dtype;
        let terms = self.terms(id, more);
        if terms.is_empty() {
            todo.push(Todo::Out(Piece::Leaf(Dim::int(0, dtype))));
        }
        // If the numbers of a sum do not fit its data type, the sum is its own only term, and is written unchanged.
        if let [(Some(term), 1)] = terms[..]
            && term == id
            && self.store.is_linear(id)
        {
            return self.operation(id, self.store.at(id).kids(), todo);
        }
        if let [(Some(term), 1)] = terms[..]
            && term == id
        {
            return todo.push(Todo::Expr(id));
        }
        for (i, (term, c)) in terms.iter().enumerate().rev() {
            if i > 0 {
                todo.push(Todo::Out(Piece::Op(if *c < 0 { PrimOp::Sub } else { PrimOp::Add }, dtype)));
            }
            let by = if i == 0 { *c } else { c.abs() };
            match term {
                None => todo.push(Todo::Out(Piece::Leaf(Dim::int(by, dtype)))),
                Some(term) => {
                    if by != 1 {
                        todo.push(Todo::Out(Piece::Op(PrimOp::Mul, dtype)));
                        todo.push(Todo::Out(Piece::Leaf(Dim::int(by, dtype))));
                    }
                    todo.push(Todo::Expr(*term));
                }
            }
        }
    }

    /// Returns the terms of a sum with their coefficients, in order; `None` is the constant. Positive terms come first, and larger coefficients come
    /// before smaller ones.
    fn terms(&self, id: Id, more: i64) -> Vec<(Option<Id>, i64)> {
        let sum = self.sum_as_it_was(id);
        let k = sum.constant.saturating_add(more);
        let mut terms = sum.terms;
        let (mut ranks, first) = (self.ranks(id), self.coefficients_as_they_were(id));
        terms.sort_by_cached_key(|(term, c)| {
            let (low, high) = self.split(*term);
            (Reverse(*c), Reverse(low), Reverse(high), Reverse(*first.get(term).unwrap_or(c)), ranks.rank(*term))
        });
        let negative = terms.partition_point(|(_, c)| *c > 0);
        let constant = (k != 0).then_some((None, k));
        let (mut out, below): (Vec<_>, Vec<_>) = {
            let all: Vec<(Option<Id>, i64)> = terms.into_iter().map(|(id, c)| (Some(id), c)).collect();
            (all[..negative].to_vec(), all[negative..].to_vec())
        };
        out.extend(constant.filter(|(_, k)| *k > 0));
        out.extend(below);
        out.extend(constant.filter(|(_, k)| *k < 0));
        out
    }

    /// Returns `x`, `low` and `low * m` of `x // low % m`.
    fn middle(&self, id: Id) -> Option<(Id, i64, i64)> {
        let (inner, m) = self.store.by_constant(id, prim::FLOORMOD)?;
        let (x, low) = self.store.by_constant(inner, prim::FLOORDIV)?;
        let high = low.checked_mul(m).filter(|high| Bounds::of_dtype(self.store.at(id).dtype).contains(*high))?;
        Some((x, low, high))
    }

    /// Returns the divisor and the modulus of a split index, such as 4 and 8 for `x // 4 % 2`.
    fn split(&self, term: Id) -> (i64, i64) {
        let store = self.store;
        let by = |id: Id, op: u16| store.by_constant(id, op);
        let modulus = by(term, prim::FLOORMOD).or_else(|| by(term, prim::TRUNCMOD));
        let inner = modulus.map_or(term, |(inner, _)| inner);
        let low = by(inner, prim::FLOORDIV).or_else(|| by(inner, prim::TRUNCDIV)).map_or(1, |(_, low)| low);
        (low, modulus.map_or(i64::MAX, |(_, m)| low.saturating_mul(m)))
    }
}
