//! Joins split terms. The split terms of `x` for a constant `c` are `x // c` and `x % c`; `(x // c) * c + x % c` equals `x`.

use super::store::{Id, Store, is_index};
use super::sum::Sum;
use crate::ir::DType;
use crate::ir::records::prim;

/// Maximum number of joins of split terms in one sum.
const MAX_JOINS: usize = 16;
/// Maximum number of terms of a sum in which split terms are joined.
const MAX_SPLITS: usize = 32;

/// `x`, `lo` and `m` of `(x // lo) % m`; `m` is `None` for `x // lo`.
type Split = (Id, i64, Option<i64>);

impl Store {
    /// Returns the expression of a sum, with matching split terms joined.
    pub(super) fn make(&mut self, mut sum: Sum, dtype: DType) -> Option<Id> {
        for _ in 0..MAX_JOINS {
            match self.join(&sum, dtype) {
                Some(joined) => sum = joined,
                None => break,
            }
        }
        self.build(&sum, dtype)
    }

    fn join(&mut self, sum: &Sum, dtype: DType) -> Option<Sum> {
        if sum.terms.len() < 2 || sum.terms.len() > MAX_SPLITS || !is_index(dtype) {
            return None;
        }
        for (upper, p) in &sum.terms {
            let joined = match self.split_term(*upper) {
                Some(split) => self.deeper(|store| store.join_at(sum, (*upper, *p), split, dtype)),
                None => self.join_product(sum, (*upper, *p), dtype),
            };
            if joined.is_some() {
                return joined;
            }
        }
        None
    }

    /// Returns `x`, `lo` and `m` of the term `(x // lo) % m`; `m` is `None` for `x // lo`.
    fn split_term(&self, id: Id) -> Option<Split> {
        if let Some((x, lo)) = self.by_constant(id, prim::FLOORDIV) {
            return Some((x, lo, None));
        }
        let (inner, m) = self.by_constant(id, prim::FLOORMOD)?;
        let (x, lo) = self.by_constant(inner, prim::FLOORDIV)?;
        Some((x, lo, Some(m)))
    }

    /// Joins the upper part `p * ((x // lo) % m)` with the matching terms.
    fn join_at(&mut self, sum: &Sum, (upper, p): (Id, i64), split: Split, dtype: DType) -> Option<Sum> {
        let rest = self.plus(sum, &Sum::atom(upper), p.checked_neg()?)?;
        if p % split.1 == 0 {
            let q = p / split.1;
            if let Some(joined) = self.join_low(&rest, q, split, dtype) {
                return Some(joined);
            }
        }
        self.join_middle(&rest, p, split, dtype)
    }

    /// Rewrites `q * (x % lo) + q * lo * (x // lo)` as `q * x`, and `q * x - q * lo * (x // lo)` as `q * (x % lo)`. `rest` does not contain the upper
    /// part.
    fn join_low(&mut self, rest: &Sum, q: i64, (x, lo, m): Split, dtype: DType) -> Option<Sum> {
        let part = self.sum_of(x);
        let low = self.rem_const(&part, lo, dtype)?;
        let has = |sum: &Sum, q: i64| {
            sum.terms.iter().all(|(id, s)| s.checked_mul(q).is_some_and(|c| rest.coefficient(id) == c))
        };
        if !low.terms.is_empty() && has(&low, q) {
            let whole = self.rem_of_part(part, lo, m, dtype)?;
            let rest = self.plus(rest, &low, q.checked_neg()?)?;
            return self.plus(&rest, &whole, q);
        }
        if m.is_none() && has(&part, q.checked_neg()?) {
            let rest = self.plus(rest, &part, q)?;
            return self.plus(&rest, &low, q.checked_neg()?);
        }
        None
    }

    /// Rewrites `q * ((x // low) % r) + q * r * (x // (low * r))` as `q * (x // low)`. `rest` does not contain the upper part.
    fn join_middle(&mut self, rest: &Sum, p: i64, (x, lo, m): Split, dtype: DType) -> Option<Sum> {
        let part = self.sum_of(x);
        for (id, q) in rest.terms.clone() {
            let Some((y, low, Some(r))) = self.split_term(id) else { continue };
            if y == x && low.checked_mul(r) == Some(lo) && q.checked_mul(r) == Some(p) {
                let whole = self.div_const(&part, low, dtype)?;
                let whole = self.rem_of_part(whole, r, m, dtype)?;
                let rest = self.plus(rest, &Sum::atom(id), q.checked_neg()?)?;
                return self.plus(&rest, &whole, q);
            }
        }
        None
    }

    /// Returns `whole % (n * m)`; returns `whole` if the upper part has no `% m`.
    fn rem_of_part(&mut self, whole: Sum, n: i64, m: Option<i64>, dtype: DType) -> Option<Sum> {
        match m {
            None => Some(whole),
            Some(m) => self.rem_const(&whole, n.checked_mul(m)?, dtype),
        }
    }

    /// Rewrites `q * (x // n) * n + q * (x % n)` as `q * x`, for any nonzero `n`.
    fn join_product(&mut self, sum: &Sum, (term, p): (Id, i64), dtype: DType) -> Option<Sum> {
        let factors = self.factors(term);
        let [a, b] = factors[..] else { return None };
        for (quotient, n) in [(a, b), (b, a)] {
            let Some((x, _)) = self.is(quotient, prim::FLOORDIV).filter(|(_, by)| *by == n) else { continue };
            let low = self.binary(prim::FLOORMOD, dtype, x, n);
            if sum.coefficient(&low) == p {
                let rest = self.plus(sum, &Sum::atom(term), p.checked_neg()?)?;
                let rest = self.plus(&rest, &Sum::atom(low), p.checked_neg()?)?;
                return self.plus(&rest, &self.sum_of(x), p);
            }
        }
        None
    }
}
