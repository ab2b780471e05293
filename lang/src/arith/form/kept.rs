//! Expressions that are kept in their original form, although the canonical form would take them apart: `(x + 1) * (y +
//! 1)`, and `max(x - 1, 0)`, whose canonical form is `max(x, 1) - 1`. As in TVM, they are replaced only if that
//! shortens a sum.

use super::{Form, Map};
use crate::arith::store::{Id, Store, is_index};
use crate::arith::sum::Sum;
use crate::ir::records::{NONE, prim};

impl Form<'_> {
    /// Returns the terms of a sum, some of which are parts of the original expression. If a number in the sum does not
    /// fit the data type, the whole sum is one term.
    pub(super) fn sum_as_it_was(&self, id: Id) -> Sum {
        let sum = self.shortest_sum(id);
        if sum.fits(self.store.at(id).dtype) { sum } else { Sum::atom(id) }
    }

    fn shortest_sum(&self, id: Id) -> Sum {
        let canonical = self.store.sum_of(id);
        let Some(origin) = self.origin.get(&id) else { return canonical };
        let was = self.store.flatten(*origin, |part| match part {
            _ if self.store.is_kept(part) => Some(part),
            _ if self.store.is_linear(part) => None,
            _ => Some(self.store.simple[part as usize]).filter(|simple| *simple != NONE),
        });
        let length = |sum: &Sum| sum.terms.len() + usize::from(sum.constant != 0);
        let has_product = |sum: &Sum| sum.terms.iter().any(|(term, _)| self.store.is_kept_product(*term));
        match was {
            Some(was) if length(&was) < length(&canonical) => was,
            Some(was) if length(&was) == length(&canonical) && !has_product(&was) => was,
            _ => canonical,
        }
    }
}

impl Form<'_> {
    /// Returns the coefficients that products had before the numbers inside them were moved out: 1 in `x * (y * 9)`.
    pub(super) fn coefficients_as_they_were(&self, id: Id) -> Map<Id, i64> {
        let simple = |part: Id| Some(self.store.simple[part as usize]).filter(|simple| *simple != NONE);
        let is_product = |part: Id| self.store.at(part).op == prim::MUL && !self.store.is_linear(part);
        let was = self.origin.get(&id).and_then(|origin| {
            self.store.flatten(*origin, |part| match part {
                _ if is_product(part) => Some(part),
                _ if self.store.is_linear(part) => None,
                _ => simple(part),
            })
        });
        let products = was.into_iter().flat_map(|sum| sum.terms).filter(|(part, _)| is_product(*part));
        let products = products.filter_map(|(part, c)| match self.store.sum_of(simple(part)?).terms[..] {
            [(term, _)] => Some((term, c)),
            _ => None,
        });
        products.collect()
    }
}

impl Store {
    /// Returns the conditions in a chain of `and` or `or`, from left to right.
    pub(super) fn sides(&self, id: Id) -> Vec<Id> {
        let (op, mut work, mut sides) = (self.at(id).op, vec![id], Vec::new());
        while let Some(side) = work.pop() {
            match self.is(side, op) {
                Some((a, b)) => work.extend([b, a]),
                None => sides.push(side),
            }
        }
        sides
    }

    /// Returns true if a part of the original expression is a product, `min` or `max` whose canonical form is a sum.
    pub(super) fn is_kept(&self, part: Id) -> bool {
        self.is_kept_product(part) || self.is_kept_extreme(part)
    }

    fn is_kept_product(&self, part: Id) -> bool {
        let is_number = |id: Id| self.as_int(id).is_some();
        self.is_taken_apart(part).is_some_and(|(op, a, b)| op == prim::MUL && !is_number(a) && !is_number(b))
    }

    fn is_kept_extreme(&self, part: Id) -> bool {
        let Some((prim::MIN | prim::MAX, a, b)) = self.is_taken_apart(part) else { return false };
        let sum = self.sum_of(self.simple[part as usize]);
        let is_extreme = |term: Id| matches!(self.at(term).op, prim::MIN | prim::MAX);
        (self.as_int(a).is_some() || self.as_int(b).is_some())
            && sum.constant != 0
            && matches!(sum.terms[..], [(term, _)] if is_extreme(term))
    }

    /// Returns the operation and simplified operands of an expression whose canonical form is a sum.
    fn is_taken_apart(&self, part: Id) -> Option<(u16, Id, Id)> {
        let node = self.at(part);
        let simple = |id: Id| Some(self.simple[id as usize]).filter(|simple| *simple != NONE);
        let sum =
            simple(part).filter(|_| matches!(node.op, prim::MUL | prim::MIN | prim::MAX) && is_index(node.dtype))?;
        let (a, b) = (simple(node.a as Id)?, simple(node.b)?);
        self.is_linear(sum).then_some((node.op, a, b))
    }
}
