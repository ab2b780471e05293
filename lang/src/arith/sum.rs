//! Canonical sums: a constant plus products of atoms with integer coefficients. An atom is a variable or an operation that
//! does not distribute.

use super::bounds::Bounds;
use super::facts::Fact;
use super::modular::{ModularSet, gcd};
use super::store::{Id, Store, is_index};
use crate::ir::DType;
use crate::ir::records::prim;
use crate::scalar::Linear;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Maximum length of a sum in canonical form, and therefore its maximum depth as a dimension.
const MAX_SUM: usize = 512;
/// Maximum length of a sum that is multiplied out.
const MAX_TERMS: usize = 64;
/// Maximum length of a product in canonical form.
const MAX_FACTORS: usize = 32;

/// A canonical sum: each atom of the form is a product, and the terms are in the order of the products.
pub(super) type Sum = Linear<Id>;

impl Sum {
    pub(super) fn scale(&self, by: i64) -> Option<Sum> {
        let sum = self.clone().scaled(&by)?;
        // The least integer is not allowed as a coefficient, because its negation overflows.
        sum.terms.iter().all(|(_, c)| *c != i64::MIN).then_some(sum)
    }

    pub(super) fn shift(mut self, by: i64) -> Option<Sum> {
        self.constant = self.constant.checked_add(by)?;
        Some(self)
    }

    /// Returns true if each number in the written sum fits a data type. Negative numbers are written as subtractions,
    /// unless they stand alone.
    pub(super) fn fits(&self, dtype: DType) -> bool {
        let range = Bounds::of_dtype(dtype);
        let fits = |c: i64| range.contains(c) && c.checked_neg().is_some_and(|c| range.contains(c));
        let alone = self.terms.is_empty() && self.constant != i64::MIN && range.contains(self.constant);
        alone || fits(self.constant) && self.terms.iter().all(|(_, c)| fits(*c))
    }

    /// Returns the greatest common divisor of the coefficients, without the constant; 0 if there are none.
    pub(super) fn divisor(&self) -> i64 {
        let all = self.terms.iter().fold(0, |g, (_, c)| gcd(g, i128::from(*c)));
        i64::try_from(all).unwrap_or(1)
    }

    /// Divides the coefficients and the constant by a common divisor of the coefficients; the constant is rounded down.
    pub(super) fn divide(&self, by: i64) -> Sum {
        Sum { terms: self.terms.iter().map(|(id, c)| (*id, c / by)).collect(), constant: self.constant.div_euclid(by) }
    }

    /// Splits the terms into those whose coefficients are multiples of `by`, and the other terms with the constant.
    pub(super) fn split(&self, by: i64) -> (Sum, Sum) {
        let (whole, rest) = self.terms.iter().partition(|(_, c)| c % by == 0);
        (Sum { terms: whole, constant: 0 }, Sum { terms: rest, constant: self.constant })
    }
}

impl Store {
    /// Returns the canonical expression as a sum. If 64 bits do not suffice, the sum is a single atom.
    pub(super) fn sum_of(&self, id: Id) -> Sum {
        match self.as_int(id) {
            Some(k) if Bounds::of_dtype(self.at(id).dtype).contains(k) => Sum::constant(k),
            // The greater half of the unsigned 64-bit range would be negative here.
            Some(_) => Sum::atom(id),
            None => self.flatten(id, |_| None).unwrap_or_else(|| Sum::atom(id)),
        }
    }

    /// Adds up the sums and differences below `root`; `part` returns the replacement for expressions that are not expanded.
    pub(super) fn flatten(&self, root: Id, part: impl Fn(Id) -> Option<Id>) -> Option<Sum> {
        let (mut terms, mut k) = (Vec::new(), 0i64);
        // A replacement is expanded, but not replaced again.
        let mut work = vec![(root, 1i64, false)];
        while let Some((id, c, stands)) = work.pop() {
            if let Some(other) = part(id).filter(|_| !stands) {
                work.push((other, c, true));
                continue;
            }
            let node = self.at(id);
            let (a, b) = (node.a as Id, node.b);
            match node.op {
                prim::INT if node.dtype.is_int() => k = k.checked_add(c.checked_mul(node.a as i64)?)?,
                prim::ADD if is_index(node.dtype) => work.extend([(b, c, stands), (a, c, stands)]),
                prim::SUB if is_index(node.dtype) => work.extend([(b, c.checked_neg()?, stands), (a, c, stands)]),
                prim::MUL if is_index(node.dtype) && self.as_int(b).is_some() => {
                    work.push((a, c.checked_mul(self.as_int(b)?)?, stands));
                }
                _ => terms.push((id, c)),
            }
        }
        self.tidy(Sum { terms, constant: k })
    }

    /// Sorts the terms and merges equal ones.
    fn tidy(&self, mut sum: Sum) -> Option<Sum> {
        sum.terms.sort_unstable_by_key(|(id, _)| *id);
        let mut out: Vec<(Id, i64)> = Vec::new();
        for (id, c) in sum.terms {
            match out.last_mut().filter(|last| last.0 == id) {
                Some(last) => last.1 = last.1.checked_add(c)?,
                None => out.push((id, c)),
            }
        }
        out.retain(|(_, c)| *c != 0);
        if out.len() > MAX_SUM || out.iter().any(|(_, c)| *c == i64::MIN) {
            return None;
        }
        out.sort_by(|a, b| self.compare_terms(a.0, b.0));
        Some(Sum { terms: out, constant: sum.constant })
    }

    /// Returns the atoms of a product, in order.
    pub(super) fn factors(&self, term: Id) -> Vec<Id> {
        let (mut out, mut at) = (Vec::new(), term);
        while let Some((a, b)) = self.is(at, prim::MUL).filter(|_| is_index(self.at(at).dtype)) {
            if out.len() > MAX_FACTORS {
                return vec![term];
            }
            out.push(b);
            at = a;
        }
        out.push(at);
        out.reverse();
        out
    }

    fn compare_terms(&self, a: Id, b: Id) -> Ordering {
        if self.at(a).op != prim::MUL && self.at(b).op != prim::MUL {
            return self.compare(a, b);
        }
        let (a, b) = (self.factors(a), self.factors(b));
        let first = a.iter().zip(&b).map(|(a, b)| self.compare(*a, *b)).find(|order| order.is_ne());
        first.unwrap_or_else(|| a.len().cmp(&b.len()))
    }

    /// Returns the product of atoms.
    pub(super) fn product(&mut self, mut atoms: Vec<Id>, dtype: DType) -> Option<Id> {
        if atoms.len() > MAX_FACTORS {
            return None;
        }
        atoms.sort_by(|a, b| self.compare(*a, *b));
        atoms.into_iter().reduce(|a, b| self.binary(prim::MUL, dtype, a, b))
    }

    pub(super) fn plus(&self, a: &Sum, b: &Sum, by: i64) -> Option<Sum> {
        let mut sum = Sum { terms: a.terms.clone(), constant: a.constant.checked_add(b.constant.checked_mul(by)?)? };
        for (id, c) in &b.terms {
            sum.terms.push((*id, c.checked_mul(by)?));
        }
        self.tidy(sum)
    }

    pub(super) fn times(&mut self, a: &Sum, b: &Sum, dtype: DType) -> Option<Sum> {
        match (a.as_constant(), b.as_constant()) {
            (Some(by), _) => return b.scale(by),
            (_, Some(by)) => return a.scale(by),
            _ => {}
        }
        if (a.terms.len() + 1) * (b.terms.len() + 1) > MAX_TERMS {
            return None;
        }
        let mut out = Sum::constant(a.constant.checked_mul(b.constant)?);
        for (x, c) in &a.terms {
            for (y, d) in &b.terms {
                let atoms = [self.factors(*x), self.factors(*y)].concat();
                out.terms.push((self.product(atoms, dtype)?, c.checked_mul(*d)?));
            }
            out.terms.push((*x, c.checked_mul(b.constant)?));
        }
        for (y, d) in &b.terms {
            out.terms.push((*y, d.checked_mul(a.constant)?));
        }
        self.tidy(out)
    }

    /// Builds the expression of a sum without applying rules: a positive term, if any, is first, and the constant is last.
    /// Returns `None` if a number does not fit the type.
    pub(super) fn build(&mut self, sum: &Sum, dtype: DType) -> Option<Id> {
        if !sum.fits(dtype) {
            return None;
        }
        let terms = self.grouped(&sum.terms, dtype)?;
        let first = terms.iter().position(|(_, c)| *c > 0);
        let (mut out, mut k) = (None, sum.constant);
        if first.is_none() && k > 0 {
            out = Some(self.int(k, dtype));
            k = 0;
        }
        let order = first.into_iter().chain((0..terms.len()).filter(|i| Some(*i) != first));
        for (id, c) in order.map(|i| terms[i]) {
            out = Some(match out {
                None => self.scaled(id, c, dtype),
                Some(sum) => {
                    let term = self.scaled(id, c.abs(), dtype);
                    self.binary(if c < 0 { prim::SUB } else { prim::ADD }, dtype, sum, term)
                }
            });
        }
        Some(match out {
            None => self.int(k, dtype),
            Some(out) if k == 0 => out,
            Some(out) => {
                let by = self.int(k.abs(), dtype);
                self.binary(if k < 0 { prim::SUB } else { prim::ADD }, dtype, out, by)
            }
        })
    }

    /// Groups terms whose coefficients are equal up to the sign into a multiple of the sum of these terms.
    fn grouped(&mut self, terms: &[(Id, i64)], dtype: DType) -> Option<Vec<(Id, i64)>> {
        let mut groups: BTreeMap<i64, Vec<(Id, i64)>> = BTreeMap::new();
        for (id, c) in terms.iter().filter(|(_, c)| c.abs() > 1) {
            groups.entry(c.abs()).or_default().push((*id, c.signum()));
        }
        groups.retain(|_, group| group.len() > 1);
        let mut out = Vec::with_capacity(terms.len());
        for (id, c) in terms {
            let Some(group) = groups.get_mut(&c.abs()) else {
                out.push((*id, *c));
                continue;
            };
            // The whole group takes the position of its first term.
            let mut part = std::mem::take(group);
            if part.is_empty() {
                continue;
            }
            let sign = if part.iter().all(|(_, sign)| *sign < 0) { -1 } else { 1 };
            part.iter_mut().for_each(|(_, c)| *c *= sign);
            out.push((self.build(&Sum { terms: part, constant: 0 }, dtype)?, sign * c.abs()));
        }
        Some(out)
    }

    fn scaled(&mut self, id: Id, c: i64, dtype: DType) -> Id {
        if c == 1 {
            return id;
        }
        let by = self.int(c, dtype);
        self.binary(prim::MUL, dtype, id, by)
    }

    /// Returns the bounds of a sum, derived from its terms and from assumptions about partial sums.
    pub(super) fn sum_bounds(&self, sum: &Sum) -> Bounds {
        self.facts_bounds(sum, 2)
    }

    pub(super) fn terms_bounds(&self, sum: &Sum) -> Bounds {
        let terms = sum.terms.iter().map(|(id, c)| self.bounds[*id as usize].scale(*c));
        super::store::tighten(terms.fold(Bounds::exactly(sum.constant), Bounds::add), self.sum_modular(sum))
    }

    fn facts_bounds(&self, sum: &Sum, depth: u32) -> Bounds {
        let mut bounds = self.terms_bounds(sum);
        let mut tried: Vec<(usize, i64)> = Vec::new();
        for (id, of) in sum.terms.iter().filter(|_| depth > 0) {
            for fact in self.facts.with_term.get(id).into_iter().flatten() {
                // A multiple of this fact cancels the term.
                let Fact { terms, bounds: known, of: var } = &self.facts.linear[*fact];
                if var.is_some_and(|var| sum.coefficient(&var) == 0) {
                    continue;
                }
                let c = terms.coefficient(id);
                if of % c != 0 || tried.contains(&(*fact, of / c)) {
                    continue;
                }
                tried.push((*fact, of / c));
                if let Some(rest) = self.plus(sum, terms, -(of / c)) {
                    bounds = bounds.intersect(known.scale(of / c).add(self.facts_bounds(&rest, depth - 1)));
                }
            }
        }
        bounds
    }

    pub(super) fn sum_modular(&self, sum: &Sum) -> ModularSet {
        let terms = sum.terms.iter().map(|(id, c)| self.modular[*id as usize].scale(*c));
        terms.fold(ModularSet::exactly(sum.constant), ModularSet::add)
    }
}
