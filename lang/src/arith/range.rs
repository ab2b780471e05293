//! Bounds of an expression in which some variables take all values of their ranges, and its linear form.

use super::analyzer::Analyzer;
use super::store::{Id, Store, is_index};
use super::sum::Sum;
use crate::ir::records::prim;
use crate::ir::{DType, Dim, Sym};
use crate::scalar::{Linear, PrimOp};
use std::collections::HashSet;

/// Maximum depth to which nested variables and operations are expanded.
const MAX_OPENED: u32 = 24;

/// Bounds that may be symbolic; `None` if none was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IntSet {
    /// A lower bound.
    pub min: Option<Dim>,
    /// An upper bound.
    pub max: Option<Dim>,
}

impl Analyzer {
    /// Returns the bounds of an expression when some variables take all values of their bound ranges, in terms of the other variables. An
    /// example is the region of a buffer that a loop accesses. The bounds may be wider than necessary.
    ///
    /// ```
    /// # use plugin_api::{arith::Analyzer, prelude::*, scalar::PrimOp};
    /// let (i, n) = (Sym { id: 0, dtype: DType::I64 }, Sym { id: 1, dtype: DType::I64 });
    /// let mut analyzer = Analyzer::new();
    /// analyzer.bind_range(i, &Dim::Int(0), &Dim::Int(16));
    /// let set = analyzer.int_set(&Dim::binary(PrimOp::Add, Dim::Var(n), Dim::Var(i)), &[i]);
    /// assert_eq!(set.min, Some(Dim::Var(n)));
    /// assert_eq!(set.max, Some(Dim::binary(PrimOp::Add, Dim::Var(n), Dim::Int(15))));
    /// ```
    pub fn int_set(&mut self, dim: &Dim, over: &[Sym]) -> IntSet {
        self.refresh();
        let id = self.enter_simple(dim);
        let mut end = |upper| {
            let id = self.reach(id, over, upper, MAX_OPENED)?;
            let id = self.store().simplify(id);
            self.store().leave(id)
        };
        IntSet { min: end(false), max: end(true) }
    }

    /// Returns the greatest or the least value, in terms of the other variables.
    fn reach(&mut self, id: Id, over: &[Sym], upper: bool, depth: u32) -> Option<Id> {
        if !self.store().speaks_of(id, over) {
            return Some(id);
        }
        let dtype = self.store().at(id).dtype;
        if depth == 0 || !is_index(dtype) {
            return None;
        }
        let sum = self.store().sum_of(id);
        let mut out = Sum::constant(sum.constant);
        for (term, c) in &sum.terms {
            let end = self.reach_term(*term, over, upper == (*c > 0), depth - 1)?;
            out = self.store().plus(&out, &end, *c)?;
        }
        self.store().make(out, dtype)
    }

    fn reach_term(&mut self, term: Id, over: &[Sym], upper: bool, depth: u32) -> Option<Sum> {
        let store = self.store();
        let dtype = store.at(term).dtype;
        let mut fixed = store.factors(term);
        let running: Vec<Id> = fixed.extract_if(.., |factor| store.speaks_of(*factor, over)).collect();
        if fixed.is_empty() && running.len() == 1 {
            return self.reach_atom(running[0], over, upper, depth);
        }
        let [one] = running[..] else {
            return if running.is_empty() { Some(Sum::atom(term)) } else { self.constant_end(term, upper) };
        };
        // The sign of the factor decides which bound is used.
        let by = store.product(fixed, dtype)?;
        let bounds = store.bounds[by as usize];
        let upper = match (bounds.min >= 0, bounds.max <= 0) {
            (true, _) => upper,
            (_, true) => !upper,
            _ => return None,
        };
        let end = self.reach_atom(one, over, upper, depth)?;
        let store = self.store();
        let by = store.sum_of(by);
        store.times(&end, &by, dtype)
    }

    fn reach_atom(&mut self, atom: Id, over: &[Sym], upper: bool, depth: u32) -> Option<Sum> {
        let node = self.store().at(atom);
        let (a, b) = (node.a as Id, node.b);
        let end = match node.op {
            prim::VAR => {
                let range = self.ranges.get(&(node.a as u32)).cloned();
                let Some((_, min, extent)) = range else { return self.constant_end(atom, upper) };
                let end = if upper {
                    let past = Dim::binary(PrimOp::Add, min, extent);
                    Dim::binary(PrimOp::Sub, past, Dim::int(1, node.dtype))
                } else {
                    min
                };
                let end = self.enter_simple(&end);
                self.reach(end, over, upper, depth.checked_sub(1)?)
            }
            prim::FLOORDIV if self.store().as_int(b).is_some_and(|by| by > 0) => {
                let end = self.reach(a, over, upper, depth.checked_sub(1)?);
                end.map(|end| self.store().floordiv(end, b, node.dtype))
            }
            prim::MIN | prim::MAX => {
                let depth = depth.checked_sub(1)?;
                let ends = (self.reach(a, over, upper, depth), self.reach(b, over, upper, depth));
                match ends {
                    (Some(x), Some(y)) => Some(self.store().extreme(node.op, x, y, node.dtype)),
                    // The known operand bounds a `min` from above and a `max` from below.
                    (Some(one), None) | (None, Some(one)) if upper == (node.op == prim::MIN) => Some(one),
                    _ => None,
                }
            }
            _ => None,
        };
        match end {
            Some(end) => Some(self.store().sum_of(end)),
            None => self.constant_end(atom, upper),
        }
    }

    fn constant_end(&mut self, id: Id, upper: bool) -> Option<Sum> {
        let bounds = self.bounds_of(id);
        let end = if upper { bounds.max } else { bounds.min };
        (end != i64::MIN && end != i64::MAX).then(|| Sum::constant(end))
    }

    /// Returns the expression as a sum of multiples of variables, and a constant without these variables; `None` if that is impossible. Each
    /// variable has a term, whose coefficient may be 0, or symbolic, such as the stride of an access.
    ///
    /// ```
    /// # use plugin_api::{arith::Analyzer, prelude::*, scalar::PrimOp};
    /// let [i, j, n] = [0, 1, 2].map(|id| Sym { id, dtype: DType::I64 });
    /// let row = Dim::binary(PrimOp::Mul, Dim::Var(i), Dim::Var(n));
    /// let form = Analyzer::new().linear_form(&Dim::binary(PrimOp::Add, row, Dim::Var(j)), &[i, j]).expect("linear");
    /// assert_eq!(form.terms, [(i, Dim::Var(n)), (j, Dim::Int(1))]);
    /// assert_eq!(form.constant, Dim::Int(0));
    /// ```
    pub fn linear_form(&mut self, dim: &Dim, vars: &[Sym]) -> Option<Linear<Sym, Dim>> {
        self.refresh();
        let id = self.enter_simple(dim);
        let dtype = self.store().at(id).dtype;
        if !is_index(dtype) {
            return None;
        }
        let sum = self.store().sum_of(id);
        let mut coeffs = vec![Sum::constant(0); vars.len()];
        let mut rest = Sum::constant(sum.constant);
        for (term, c) in &sum.terms {
            let store = self.store();
            let mut factors = store.factors(*term);
            let at = |store: &Store, id: Id| {
                vars.iter().position(|sym| store.at(id).op == prim::VAR && store.at(id).a == u64::from(sym.id))
            };
            let found = factors.iter().enumerate().find_map(|(i, factor)| Some((i, at(store, *factor)?)));
            let Some((i, which)) = found else {
                if store.speaks_of(*term, vars) {
                    return None;
                }
                rest = store.plus(&rest, &Sum::atom(*term), *c)?;
                continue;
            };
            factors.remove(i);
            if factors.iter().any(|factor| store.speaks_of(*factor, vars)) {
                return None;
            }
            let by = if factors.is_empty() { Sum::constant(1) } else { Sum::atom(store.product(factors, dtype)?) };
            coeffs[which] = store.plus(&coeffs[which], &by, *c)?;
        }
        let coeffs = vars.iter().zip(&coeffs).map(|(sym, sum)| Some((*sym, self.leave_sum(sum, dtype)?)));
        Some(Linear { terms: coeffs.collect::<Option<_>>()?, constant: self.leave_sum(&rest, dtype)? })
    }

    fn leave_sum(&mut self, sum: &Sum, dtype: DType) -> Option<Dim> {
        let id = self.store().build(sum, dtype)?;
        self.store().leave(id)
    }
}

impl Store {
    /// Returns true if an expression contains one of the variables.
    fn speaks_of(&self, id: Id, vars: &[Sym]) -> bool {
        let vars: HashSet<u64> = vars.iter().map(|sym| sym.id.into()).collect();
        self.parts(id).into_iter().any(|part| self.at(part).op == prim::VAR && vars.contains(&self.at(part).a))
    }
}
