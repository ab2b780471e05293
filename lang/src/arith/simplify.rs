//! The simplifier. It visits each part of an expression once, operands first.

use super::bounds::Bounds;
use super::store::{IF_THEN_ELSE, Id, Node, SELECT, Store, fold, is_index};
use crate::ir::DType;
use crate::ir::records::{NONE, prim};

/// Maximum number of times that a result is resimplified.
const MAX_ROUNDS: usize = 4;

impl Store {
    /// Returns the canonical form. The time is linear in the number of parts of the expression if sums are short.
    pub(super) fn simplify(&mut self, root: Id) -> Id {
        let mut id = root;
        for _ in 0..MAX_ROUNDS {
            let next = self.simplify_once(id);
            if next == id {
                break;
            }
            id = next;
        }
        self.simple[root as usize] = id;
        id
    }

    fn simplify_once(&mut self, root: Id) -> Id {
        if self.simple[root as usize] != NONE {
            return self.simple[root as usize];
        }
        if self.at(root).is_leaf() {
            let simple = self.canonical(root);
            self.simple[root as usize] = self.only_value(simple);
            return self.simple[root as usize];
        }
        let parts = self.parts(root);
        for id in &parts {
            for kid in self.at(*id).kids() {
                self.uses[kid as usize] += 1;
            }
        }
        // A sum used only by another sum is merged into that sum.
        let mut inner = std::collections::HashSet::with_hasher(foldhash::fast::FixedState::default());
        for id in &parts {
            if self.is_linear(*id) {
                let kids = self.at(*id).kids();
                inner.extend(kids.filter(|kid| self.uses[*kid as usize] == 1 && self.is_linear(*kid)));
            }
        }
        for id in &parts {
            self.uses[*id as usize] = 0;
        }
        for id in parts {
            if self.simple[id as usize] == NONE && !inner.contains(&id) {
                let simple = self.canonical(id);
                self.simple[id as usize] = self.only_value(simple);
            }
        }
        self.simple[root as usize]
    }

    /// Returns the only possible value of an integer, otherwise the expression. A number that does not fit the type is not a value. As in
    /// TVM, a variable that a condition restricts to one value keeps its name, also in sums.
    fn only_value(&mut self, id: Id) -> Id {
        let node = self.at(id);
        let dtype = node.dtype;
        let holds = |value: &i64| is_index(dtype) && Bounds::of_dtype(dtype).contains(*value);
        let bounds = match node.op {
            prim::VAR => self.facts.of_var(node.a as u32).map_or(Bounds::EVERYTHING, |(bounds, _)| bounds),
            _ if self.is_linear(id) => Bounds::EVERYTHING,
            _ => self.bounds[id as usize],
        };
        match bounds.constant().filter(holds) {
            Some(value) => self.int(value, dtype),
            None => id,
        }
    }

    /// Returns an integer that fits its type. Values of `uint64` must also fit in `i64`.
    fn held_int(&self, id: Id) -> Option<i64> {
        self.as_int(id).filter(|value| Bounds::of_dtype(self.at(id).dtype).contains(*value))
    }

    /// Returns true for a sum, a difference, or a multiple.
    pub(super) fn is_linear(&self, id: Id) -> bool {
        let node = self.at(id);
        is_index(node.dtype)
            && match node.op {
                prim::ADD | prim::SUB => true,
                prim::MUL => self.as_int(node.b).is_some(),
                _ => false,
            }
    }

    /// Returns the canonical form of an expression whose operands are canonical.
    fn canonical(&mut self, id: Id) -> Id {
        let node = self.at(id);
        if node.is_leaf() {
            return if node.op == prim::VAR && node.dtype == DType::BOOL { self.known(id) } else { id };
        }
        if self.is_linear(id) {
            let simple = |part: Id| Some(self.simple[part as usize]).filter(|simple| *simple != NONE);
            let sum = self.flatten(id, simple);
            // Sums that are too long or too large are kept as written.
            return sum.and_then(|sum| self.make(sum, node.dtype)).unwrap_or(id);
        }
        let of = |id: Id| self.simple[id as usize];
        match node.op {
            prim::NOT | prim::CAST => self.canonical_unary(node, of(node.a as Id)),
            SELECT | IF_THEN_ELSE => {
                let (cond, then, other) = (of(node.a as Id), of(node.b), of(node.c));
                self.choice(node.op, node.dtype, cond, then, other)
            }
            _ => self.canonical_binary(node, of(node.a as Id), of(node.b)),
        }
    }

    fn canonical_unary(&mut self, node: Node, a: Id) -> Id {
        match node.op {
            prim::NOT if node.dtype == DType::BOOL => self.opposite(a),
            prim::CAST if self.at(a).dtype == node.dtype => a,
            _ => match self.held_int(a).filter(|v| is_index(node.dtype) && Bounds::of_dtype(node.dtype).contains(*v)) {
                Some(v) if node.op == prim::CAST && self.at(a).dtype.is_int() => self.int(v, node.dtype),
                _ => self.unary(node.op, node.dtype, a),
            },
        }
    }

    /// Returns true if the first operand is known to be greater, and false if the second operand is. Uses the bounds of the operands as
    /// written, because multiplying out a product loses information about its bounds.
    fn greater_as_written(&self, node: Node) -> Option<bool> {
        let [a, b] = [node.a as usize, node.b as usize].map(|id| self.bounds[id]);
        let greater = |a: Bounds, b: Bounds| b.max != Bounds::POS_INF && a.min >= b.max;
        if greater(a, b) { Some(true) } else { greater(b, a).then_some(false) }
    }

    fn canonical_binary(&mut self, node: Node, a: Id, b: Id) -> Id {
        let Node { op, dtype, .. } = node;
        let scalar = dtype.lanes() == 1 && (dtype.is_int() || dtype == DType::BOOL);
        if let (true, Some(x), Some(y)) = (scalar, self.held_int(a), self.held_int(b))
            && let Some(value) = fold(op, x, y).filter(|value| Bounds::of_dtype(dtype).contains(*value))
        {
            return self.int(value, dtype);
        }
        match op {
            _ if !scalar => self.binary(op, dtype, a, b),
            prim::EQ..=prim::GE => self.comparison(op, a, b),
            prim::AND | prim::OR => self.logic(op, a, b),
            _ if !is_index(dtype) => self.binary(op, dtype, a, b),
            prim::ADD | prim::SUB => {
                let by = if op == prim::ADD { 1 } else { -1 };
                let sum = self.plus(&self.sum_of(a), &self.sum_of(b), by);
                sum.and_then(|sum| self.make(sum, dtype)).unwrap_or_else(|| self.binary(op, dtype, a, b))
            }
            prim::MUL => {
                let (x, y) = (self.sum_of(a), self.sum_of(b));
                let product = self.times(&x, &y, dtype);
                product.and_then(|sum| self.make(sum, dtype)).unwrap_or_else(|| self.binary(op, dtype, a, b))
            }
            prim::FLOORDIV => self.floordiv(a, b, dtype),
            prim::FLOORMOD => self.floormod(a, b, dtype),
            prim::TRUNCDIV | prim::TRUNCMOD => self.truncated(op, a, b, dtype),
            prim::MIN | prim::MAX => match self.greater_as_written(node) {
                Some(first_is_greater) if first_is_greater == (op == prim::MAX) => a,
                Some(_) => b,
                None => self.extreme(op, a, b, dtype),
            },
            _ => self.binary(op, dtype, a, b),
        }
    }
}
