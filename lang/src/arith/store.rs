//! The store of expressions during analysis, without duplicates, with their bounds and modular sets. Operands precede their users, so
//! traversals need no recursion.

use super::bounds::Bounds;
use super::facts::Facts;
use super::modular::ModularSet;
use crate::ir::records::{NONE, prim};
use crate::ir::{DType, Dim, DimExpr, Sym};
use crate::scalar::PrimOp;
use hashbrown::HashTable;
use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasher;
use std::sync::Arc;

/// The number of an expression in a store.
pub(super) type Id = u32;

/// A choice between two values that evaluates both.
pub(super) const SELECT: u16 = 0x100;
/// A choice between two values that evaluates only the selected one.
pub(super) const IF_THEN_ELSE: u16 = 0x101;

/// Evaluates an operation on integers; `None` if the result is undefined.
pub(super) fn fold(op: u16, a: i64, b: i64) -> Option<i64> {
    PrimOp::of_code(op)?.fold(a, b)
}

/// Maximum number of nodes of an expression whose parts are collected without a table of visited parts.
const FEW: usize = 16;

/// An expression. `a` holds the bits of a literal, the index of a variable, or the first operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Node {
    /// A code of [`prim`] or of a choice. [`prim`] also contains codes for numbers and variables.
    pub(super) op: u16,
    pub(super) dtype: DType,
    pub(super) a: u64,
    pub(super) b: Id,
    pub(super) c: Id,
}

impl Node {
    /// Returns true for a number or a variable.
    pub(super) fn is_leaf(&self) -> bool {
        matches!(self.op, prim::INT | prim::FLOAT | prim::VAR)
    }

    pub(super) fn kids(&self) -> impl DoubleEndedIterator<Item = Id> + use<> {
        let n = match self.op {
            prim::INT | prim::FLOAT | prim::VAR => 0,
            prim::NOT | prim::CAST => 1,
            SELECT | IF_THEN_ELSE => 3,
            _ => 2,
        };
        [self.a as Id, self.b, self.c].into_iter().take(n)
    }
}

/// Returns true for index types, whose arithmetic does not overflow, as in TIR.
pub(super) fn is_index(dtype: DType) -> bool {
    matches!(dtype, DType::I32 | DType::I64)
}

type Map<K, T> = HashMap<K, T, foldhash::fast::FixedState>;

#[derive(Default)]
pub(super) struct Store {
    pub(super) nodes: Vec<Node>,
    index: HashTable<Id>,
    hasher: foldhash::fast::FixedState,
    pub(super) bounds: Vec<Bounds>,
    pub(super) modular: Vec<ModularSet>,
    /// The number of nodes of each expression as a tree.
    pub(super) size: Vec<u32>,
    /// The canonical form of each expression; [`NONE`] until it is computed.
    pub(super) simple: Vec<Id>,
    /// The negation of each canonical condition; [`NONE`] until it is computed.
    pub(super) opposites: Vec<Id>,
    /// The number of users of each expression within the expression being simplified.
    pub(super) uses: Vec<u32>,
    pub(super) facts: Facts,
    /// Number of nested rule applications.
    pub(super) depth: u32,
}

impl Store {
    pub(super) fn node(&mut self, node: Node) -> Id {
        let hash = self.hasher.hash_one(node);
        if let Some(id) = self.index.find(hash, |id| self.nodes[*id as usize] == node) {
            return *id;
        }
        let id = self.nodes.len() as Id;
        let (nodes, hasher) = (&mut self.nodes, &self.hasher);
        nodes.push(node);
        self.index.insert_unique(hash, id, |id| hasher.hash_one(nodes[*id as usize]));
        let size = node.kids().fold(1u32, |sum, kid| sum.saturating_add(self.size[kid as usize]));
        let (bounds, modular) = self.know(id);
        self.bounds.push(bounds);
        self.modular.push(modular);
        self.size.push(size);
        self.simple.push(NONE);
        self.opposites.push(NONE);
        self.uses.push(0);
        id
    }

    /// Derives the bounds and the modular set of an expression from its operands and from the assumptions.
    fn know(&self, id: Id) -> (Bounds, ModularSet) {
        let node = self.nodes[id as usize];
        let of = |id: Id| (self.bounds[id as usize], self.modular[id as usize]);
        let all = (Bounds::EVERYTHING, ModularSet::EVERYTHING);
        let range = Bounds::of_dtype(node.dtype);
        let int = node.dtype.is_int() || node.dtype == DType::BOOL;
        let (bounds, modular) = match node.op {
            prim::INT if !int || range.contains(node.a as i64) => {
                return (Bounds::exactly(node.a as i64), ModularSet::exactly(node.a as i64));
            }
            // A float literal of an integer type, or an integer literal that its type cannot represent.
            prim::INT | prim::FLOAT => return all,
            _ if !int || node.dtype.lanes() != 1 => return all,
            prim::VAR => self.facts.of_var(node.a as u32).unwrap_or(all),
            prim::CAST if self.nodes[node.a as usize].dtype == node.dtype => return of(node.a as Id),
            prim::CAST => {
                let from = self.nodes[node.a as usize].dtype;
                let (bounds, modular) = of(node.a as Id);
                // Unsigned 64-bit numbers exceed the range that `Bounds` can represent.
                let more = from.code() == 1 && node.dtype.code() == 0 && bounds.max == Bounds::POS_INF;
                let fits = bounds.is_within(range) && !more;
                if from.is_int() && from.lanes() == 1 && fits { (bounds, modular) } else { all }
            }
            prim::NOT => (Bounds::of(0, 1), ModularSet::EVERYTHING),
            SELECT | IF_THEN_ELSE => {
                let ((b, m), (c, n)) = (of(node.b), of(node.c));
                (b.union(c), m.union(n))
            }
            // Integers of other types wrap around, so nothing is known about the result.
            _ if !is_index(node.dtype) && node.dtype != DType::BOOL => all,
            op => {
                let ((b, m), (c, n)) = (of(node.a as Id), of(node.b));
                let bounds = Bounds::binary(op, b, c);
                // A result that never fits its type wraps around, so nothing is known about it.
                let wraps = is_index(node.dtype) && (bounds.max < range.min || bounds.min > range.max);
                if wraps { all } else { (bounds, ModularSet::binary(op, m, n)) }
            }
        };
        let assumed = self.facts.atoms.get(&id).copied().unwrap_or(Bounds::EVERYTHING);
        // The range of the type is not used for results, because the expression may overflow.
        let computed = is_index(node.dtype) && !matches!(node.op, prim::INT | prim::VAR | prim::CAST);
        let bounds = if computed { bounds } else { bounds.intersect(range) }.intersect(assumed);
        (tighten(bounds, modular), bounds.constant().map_or(modular, ModularSet::exactly))
    }

    /// Recomputes all facts after a new assumption.
    pub(super) fn know_again(&mut self) {
        for id in 0..self.nodes.len() {
            (self.bounds[id], self.modular[id]) = self.know(id as Id);
            self.simple[id] = NONE;
            self.opposites[id] = NONE;
        }
    }

    pub(super) fn int(&mut self, value: i64, dtype: DType) -> Id {
        self.node(Node { op: prim::INT, dtype, a: value as u64, b: 0, c: 0 })
    }

    pub(super) fn truth(&mut self, value: bool) -> Id {
        self.int(value.into(), DType::BOOL)
    }

    pub(super) fn var(&mut self, sym: Sym) -> Id {
        self.node(Node { op: prim::VAR, dtype: sym.dtype, a: sym.id.into(), b: 0, c: 0 })
    }

    pub(super) fn unary(&mut self, op: u16, dtype: DType, a: Id) -> Id {
        self.node(Node { op, dtype, a: a.into(), b: 0, c: 0 })
    }

    pub(super) fn binary(&mut self, op: u16, dtype: DType, a: Id, b: Id) -> Id {
        self.node(Node { op, dtype, a: a.into(), b, c: 0 })
    }

    pub(super) fn at(&self, id: Id) -> Node {
        self.nodes[id as usize]
    }

    pub(super) fn as_int(&self, id: Id) -> Option<i64> {
        let node = self.at(id);
        (node.op == prim::INT).then_some(node.a as i64)
    }

    /// Returns the operands if `id` is the binary operation `op`.
    pub(super) fn is(&self, id: Id, op: u16) -> Option<(Id, Id)> {
        let node = self.at(id);
        (node.op == op).then_some((node.a as Id, node.b))
    }

    /// Returns `x` and the constant if `id` is `x op c` with a positive constant.
    pub(super) fn by_constant(&self, id: Id, op: u16) -> Option<(Id, i64)> {
        let (x, c) = self.is(id, op)?;
        Some((x, self.as_int(c).filter(|c| *c > 0)?))
    }

    /// Orders expressions by structure, so that the order is the same in every store. Follows a single path, down to the first difference.
    pub(super) fn compare(&self, mut a: Id, mut b: Id) -> Ordering {
        let rank = |op| match op {
            prim::INT => 1,
            prim::FLOAT => 2,
            prim::VAR => 3,
            _ => 0,
        };
        while a != b {
            let (x, y) = (self.at(a), self.at(b));
            let head = |n: &Node| (rank(n.op), n.op, if n.kids().next().is_some() { 0 } else { n.a as i64 }, n.dtype);
            match head(&x).cmp(&head(&y)) {
                Ordering::Equal => {}
                other => return other,
            }
            match x.kids().zip(y.kids()).find(|(a, b)| a != b) {
                Some(pair) => (a, b) = pair,
                None => return Ordering::Equal,
            }
        }
        Ordering::Equal
    }

    /// Returns all parts of an expression, operands before their users; the expression itself is last.
    pub(super) fn parts(&self, root: Id) -> Vec<Id> {
        let size = self.size[root as usize] as usize;
        if size <= FEW {
            // Shared parts may be visited repeatedly, but an expression of at most `FEW` nodes is small.
            let mut out = Vec::with_capacity(size);
            out.push(root);
            let mut at = 0;
            while let Some(id) = out.get(at) {
                out.extend(self.at(*id).kids());
                at += 1;
            }
            out.sort_unstable();
            out.dedup();
            return out;
        }
        let mut seen: Map<Id, ()> = Map::default();
        let (mut work, mut out) = (vec![root], Vec::new());
        while let Some(id) = work.pop() {
            if seen.insert(id, ()).is_none() {
                out.push(id);
                work.extend(self.at(id).kids());
            }
        }
        out.sort_unstable();
        out
    }

    /// Enters a dimension. Each variable in `values` is replaced by its value.
    pub(super) fn enter(&mut self, dim: &Dim, values: &BTreeMap<u32, Dim>) -> Id {
        enum Step<'d> {
            Enter(&'d Dim),
            Leave(&'d Arc<DimExpr>),
            /// The value of a variable has been entered.
            Known(u32),
        }
        match dim {
            Dim::Int(v) => return self.int(*v, DType::I64),
            Dim::Var(sym) if !values.contains_key(&sym.id) => return self.var(*sym),
            _ => {}
        }
        let (mut work, mut done, mut shared) = (vec![Step::Enter(dim)], Vec::new(), Map::<usize, Id>::default());
        let mut known: Map<u32, Id> = Map::default();
        while let Some(step) = work.pop() {
            match step {
                Step::Enter(Dim::Int(v)) => done.push(self.int(*v, DType::I64)),
                Step::Enter(Dim::Var(sym)) => match (known.get(&sym.id), values.get(&sym.id)) {
                    (Some(id), _) => done.push(*id),
                    (None, Some(value)) => work.extend([Step::Known(sym.id), Step::Enter(value)]),
                    (None, None) => done.push(self.var(*sym)),
                },
                Step::Known(sym) => drop(done.last().map(|id| known.insert(sym, *id))),
                Step::Enter(Dim::Expr(e)) => match (shared.get(&(Arc::as_ptr(e) as usize)), &**e) {
                    (Some(id), _) => done.push(*id),
                    (None, DimExpr::Int(v, t)) => done.push(self.int(*v, *t)),
                    (None, DimExpr::Float(v, t)) => {
                        done.push(self.node(Node { op: prim::FLOAT, dtype: *t, a: *v, b: 0, c: 0 }));
                    }
                    (None, DimExpr::Unary(_, _, a)) => work.extend([Step::Leave(e), Step::Enter(a)]),
                    (None, DimExpr::Binary(_, _, a, b)) => {
                        work.extend([Step::Leave(e), Step::Enter(b), Step::Enter(a)]);
                    }
                },
                Step::Leave(e) => {
                    let last = done.pop().unwrap_or(0);
                    let id = match **e {
                        DimExpr::Unary(op, t, _) => self.unary(op.code(), t, last),
                        DimExpr::Binary(op, t, ..) => {
                            let first = done.pop().unwrap_or(0);
                            self.binary(op.code(), t, first, last)
                        }
                        _ => last,
                    };
                    done.push(id);
                    if Arc::strong_count(e) > 1 {
                        shared.insert(Arc::as_ptr(e) as usize, id);
                    }
                }
            }
        }
        done.pop().unwrap_or(0)
    }

    /// Converts an expression to a dimension; `None` if it contains a node that a dimension cannot contain.
    pub(super) fn leave(&self, root: Id) -> Option<Dim> {
        let parts = self.parts(root);
        let mut dims: Vec<Dim> = Vec::with_capacity(parts.len());
        for id in &parts {
            let node = self.at(*id);
            let of = |id: Id| parts.binary_search(&id).ok().and_then(|at| dims.get(at).cloned());
            let dim = match node.op {
                prim::INT => Dim::int(node.a as i64, node.dtype),
                prim::FLOAT => Dim::Expr(Arc::new(DimExpr::Float(node.a, node.dtype))),
                prim::VAR => Dim::Var(Sym { id: node.a as u32, dtype: node.dtype }),
                // A dimension cannot be a choice.
                op => match PrimOp::of_code(op)? {
                    op @ (PrimOp::Not | PrimOp::Cast) => {
                        Dim::Expr(Arc::new(DimExpr::Unary(op, node.dtype, of(node.a as Id)?)))
                    }
                    op => Dim::Expr(Arc::new(DimExpr::Binary(op, node.dtype, of(node.a as Id)?, of(node.b)?))),
                },
            };
            dims.push(dim);
        }
        // Operands precede their users, so the whole expression is the last one.
        dims.pop()
    }
}

/// Narrows bounds to the least and greatest contained member of a modular set.
pub(super) fn tighten(bounds: Bounds, set: ModularSet) -> Bounds {
    if set.coeff <= 1 {
        return bounds;
    }
    let distance = |from: i64, to: i64| (i128::from(to) - i128::from(from)).rem_euclid(set.coeff.into()) as i64;
    let up = bounds.min.checked_add(distance(bounds.min, set.base)).filter(|_| bounds.min != Bounds::NEG_INF);
    let down = bounds.max.checked_sub(distance(set.base, bounds.max)).filter(|_| bounds.max != Bounds::POS_INF);
    let within = Bounds::of(up.unwrap_or(bounds.min), down.unwrap_or(bounds.max));
    if within.min <= within.max { within } else { bounds }
}
