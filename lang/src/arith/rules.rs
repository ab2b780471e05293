//! Rules for division: multiples of the divisor are moved out of the dividend, and a rest that is known to be smaller than the divisor is
//! dropped.
//!
//! A sum that wraps around is still correct modulo its type, but dividing it is not. The dividend that a rule writes must therefore fit its
//! data type whenever the given dividend does. [`Store::fits_where`] checks this, for comparisons as well.

use super::bounds::Bounds;
use super::modular::gcd;
use super::store::{Id, Store};
use super::sum::Sum;
use crate::ir::DType;
use crate::ir::records::prim;

/// Maximum number of nested rule applications; deeper expressions are left unchanged.
const MAX_RULES: u32 = 24;

impl Store {
    /// Returns the canonical quotient, rounded down, of canonical operands.
    pub(super) fn floordiv(&mut self, a: Id, b: Id, dtype: DType) -> Id {
        self.divide(prim::FLOORDIV, a, b, dtype)
    }

    /// Returns the canonical remainder of the same division.
    pub(super) fn floormod(&mut self, a: Id, b: Id, dtype: DType) -> Id {
        self.divide(prim::FLOORMOD, a, b, dtype)
    }

    fn divide(&mut self, op: u16, a: Id, b: Id, dtype: DType) -> Id {
        if self.depth < MAX_RULES {
            self.depth += 1;
            let (x, y) = (self.sum_of(a), self.sum_of(b));
            let out = if op == prim::FLOORDIV { self.div(&x, &y, dtype) } else { self.rem(&x, &y, dtype) };
            let out = out.and_then(|sum| self.make(sum, dtype));
            self.depth -= 1;
            if let Some(id) = out {
                return id;
            }
        }
        self.binary(op, dtype, a, b)
    }

    fn div(&mut self, a: &Sum, b: &Sum, dtype: DType) -> Option<Sum> {
        match b.as_constant() {
            Some(0) => None,
            Some(c) if c < 0 => self.div_const(&self.negative(a, dtype)?, c.checked_neg()?, dtype),
            Some(c) => self.div_const(a, c, dtype),
            None => self.div_any(a, b, dtype),
        }
    }

    fn rem(&mut self, a: &Sum, b: &Sum, dtype: DType) -> Option<Sum> {
        match b.as_constant() {
            Some(0) => None,
            Some(c) if c < 0 => self.rem_const(&self.negative(a, dtype)?, c.checked_neg()?, dtype)?.scale(-1),
            Some(c) => self.rem_const(a, c, dtype),
            None => self.rem_any(a, b, dtype),
        }
    }

    /// Returns the negated dividend, if it fits its data type whenever the original does.
    fn negative(&self, a: &Sum, dtype: DType) -> Option<Sum> {
        a.scale(-1).filter(|negative| self.fits_where(negative, a, dtype))
    }

    /// Returns `q` if all values of the sum lie in `q * c ..= q * c + c - 1`.
    fn block(&self, sum: &Sum, c: i64) -> Option<i64> {
        let bounds = self.sum_bounds(sum);
        let q = bounds.min.div_euclid(c);
        (bounds.is_finite() && q == bounds.max.div_euclid(c)).then_some(q)
    }

    /// Returns the divisors of `c` that divide some terms but not others, the greatest first.
    fn divisors(sum: &Sum, c: i64) -> Vec<i64> {
        let of = |(_, coeff): &(Id, i64)| i64::try_from(gcd(i128::from(*coeff), i128::from(c))).unwrap_or(1);
        let mut all: Vec<i64> = sum.terms.iter().map(of).filter(|g| *g > 1).collect();
        all.sort_unstable_by(|a, b| b.cmp(a));
        all.dedup();
        all
    }

    /// Splits a sum into a multiple of `g`, divided by `g`, and the rest. Returns `None` unless the rest lies within `0..g`.
    fn parts_by(&self, sum: &Sum, g: i64) -> Option<(Sum, Sum)> {
        let (whole, rest) = sum.split(g);
        let q = self.block(&rest, g)?;
        Some((whole.divide(g).shift(q)?, rest.shift(q.checked_mul(g)?.checked_neg()?)?))
    }

    /// Splits a sum into the part moved out of a division by `c` and the rest. The constant of the rest lies within `0..c`, moves towards
    /// 0, or is unchanged, so that the rest fits its data type.
    fn take_out(&self, sum: &Sum, c: i64, dtype: DType) -> (Sum, Sum) {
        let (whole, rest) = sum.split(c);
        let whole = whole.divide(c);
        let by = |(q, k)| (Sum { constant: q, ..whole.clone() }, Sum { constant: k, ..rest.clone() });
        let candidates =
            [(rest.constant.div_euclid(c), rest.constant.rem_euclid(c)), (rest.constant / c, rest.constant % c)];
        let fitting = candidates.into_iter().map(by).find(|(_, rest)| self.fits_where(rest, sum, dtype));
        fitting.unwrap_or_else(|| (Sum::constant(0), sum.clone()))
    }

    pub(super) fn div_const(&mut self, a: &Sum, c: i64, dtype: DType) -> Option<Sum> {
        if c == 1 {
            return Some(a.clone());
        }
        if let Some(q) = self.block(a, c) {
            return Some(Sum::constant(q));
        }
        let (whole, rest) = self.take_out(a, c, dtype);
        let rest = self.div_rest(&rest, c, dtype)?;
        self.plus(&whole, &rest, 1)
    }

    fn div_rest(&mut self, rest: &Sum, c: i64, dtype: DType) -> Option<Sum> {
        if rest.terms.is_empty() {
            return Some(Sum::constant(0));
        }
        if let Some(q) = self.block(rest, c) {
            return Some(Sum::constant(q));
        }
        let g = i64::try_from(gcd(rest.divisor().into(), c.into())).ok()?;
        if g > 1 {
            return self.deeper(|store| store.div_const(&rest.divide(g), c / g, dtype));
        }
        for g in Store::divisors(rest, c) {
            if let Some((whole, _)) = self.parts_by(rest, g) {
                return self.deeper(|store| store.div_const(&whole, c / g, dtype));
            }
        }
        if let [(atom, 1)] = rest.terms[..] {
            // `((x // d) + k) // c` is `(x + k * d) // (d * c)`.
            if let Some((x, d)) = self.by_constant(atom, prim::FLOORDIV)
                && let (Some(by), Some(k)) = (d.checked_mul(c), rest.constant.checked_mul(d))
                && Bounds::of_dtype(dtype).contains(by)
                && let inner = self.sum_of(x)
                && let Some(x) = inner.clone().shift(k).filter(|x| self.fits_where(x, &inner, dtype))
            {
                return self.deeper(|store| store.div_const(&x, by, dtype));
            }
            // `(x % m) // c` is `(x // c) % (m / c)`.
            if let Some((x, m)) = self.by_constant(atom, prim::FLOORMOD)
                && rest.constant == 0
                && m % c == 0
            {
                let x = self.sum_of(x);
                return self.deeper(|store| {
                    let x = store.div_const(&x, c, dtype)?;
                    store.rem_const(&x, m / c, dtype)
                });
            }
        }
        self.opaque(prim::FLOORDIV, rest, &Sum::constant(c), dtype)
    }

    pub(super) fn rem_const(&mut self, a: &Sum, c: i64, dtype: DType) -> Option<Sum> {
        if c == 1 {
            return Some(Sum::constant(0));
        }
        if let Some(q) = self.block(a, c) {
            return a.clone().shift(q.checked_mul(c)?.checked_neg()?);
        }
        let rest = self.take_out(a, c, dtype).1;
        let rest = self.without_remainders(&rest, c, dtype)?;
        let set = self.sum_modular(&rest);
        if set.coeff % c == 0 {
            return Some(Sum::constant(set.base.rem_euclid(c)));
        }
        if let Some(out) = self.rem_of_parts(&rest, c, dtype) {
            return Some(out);
        }
        // The coefficients of least magnitude are chosen so that `x * 9` and `x` have the same remainder modulo 8.
        let least = |v: i64| if v.rem_euclid(c) > c / 2 { v.rem_euclid(c) - c } else { v.rem_euclid(c) };
        let less = Sum { terms: rest.terms.iter().map(|(id, v)| (*id, least(*v))).collect(), constant: rest.constant };
        if less != rest
            && self.fits_where(&less, &rest, dtype)
            && let Some(out) = self.rem_of_parts(&less, c, dtype)
        {
            return Some(out);
        }
        // As in TVM, the coefficients of several terms are kept.
        let mut kept = rest.clone();
        if let [(_, v)] = &mut kept.terms[..] {
            *v = v.rem_euclid(c);
        }
        let kept = [kept, less].into_iter().find(|sum| self.fits_where(sum, &rest, dtype)).unwrap_or(rest);
        self.opaque(prim::FLOORMOD, &kept, &Sum::constant(c), dtype)
    }

    /// Returns the remainder of a sum that lies in one block or shares a divisor with `c`, or whose parts do so.
    fn rem_of_parts(&mut self, rest: &Sum, c: i64, dtype: DType) -> Option<Sum> {
        if let Some(q) = self.block(rest, c) {
            return rest.clone().shift(q.checked_mul(c)?.checked_neg()?);
        }
        let g = i64::try_from(gcd(rest.divisor().into(), c.into())).ok()?;
        if g > 1 {
            let inner = self.deeper(|store| store.rem_const(&rest.divide(g), c / g, dtype))?;
            return inner.scale(g)?.shift(rest.constant.rem_euclid(g));
        }
        for g in Store::divisors(rest, c) {
            if let Some((whole, small)) = self.parts_by(rest, g) {
                let inner = self.deeper(|store| store.rem_const(&whole, c / g, dtype))?.scale(g)?;
                return self.plus(&inner, &small, 1);
            }
        }
        None
    }

    /// Removes inner remainders from a remainder modulo `c`: `(x % m) * k` is `x * k` if `c` divides `m * k`.
    fn without_remainders(&mut self, sum: &Sum, c: i64, dtype: DType) -> Option<Sum> {
        let mut out = Sum::constant(sum.constant);
        for (id, k) in &sum.terms {
            let inner = self.by_constant(*id, prim::FLOORMOD);
            out = match inner.filter(|(_, m)| i128::from(*m) * i128::from(*k) % i128::from(c) == 0) {
                Some((x, _)) => self.plus(&out, &self.sum_of(x), *k)?,
                None => self.plus(&out, &Sum::atom(*id), *k)?,
            };
        }
        // If a remainder was removed, `out` differs from `sum`, and only the bounds of `out` can prove that it fits.
        let known = if self.fits_where(&out, sum, dtype) { &out } else { sum };
        Some(self.take_out(known, c, dtype).1)
    }

    /// Divides by a divisor that is not constant. The divisor is never 0.
    fn div_any(&mut self, a: &Sum, b: &Sum, dtype: DType) -> Option<Sum> {
        if let Some(q) = multiple(a, b) {
            return Some(Sum::constant(q));
        }
        let (whole, rest) = self.take_factor(a, b, dtype)?;
        if self.within(&rest, b) {
            return Some(whole);
        }
        if !self.fits_where(&rest, a, dtype) {
            return None;
        }
        let rest = self.opaque(prim::FLOORDIV, &rest, b, dtype)?;
        self.plus(&whole, &rest, 1)
    }

    fn rem_any(&mut self, a: &Sum, b: &Sum, dtype: DType) -> Option<Sum> {
        if multiple(a, b).is_some() {
            return Some(Sum::constant(0));
        }
        let (_, rest) = self.take_factor(a, b, dtype)?;
        match self.within(&rest, b) {
            true => Some(rest),
            false if self.fits_where(&rest, a, dtype) => self.opaque(prim::FLOORMOD, &rest, b, dtype),
            false => None,
        }
    }

    /// Returns true if `0 <= a < b`.
    fn within(&mut self, a: &Sum, b: &Sum) -> bool {
        let below = self.plus(b, a, -1).and_then(|sum| sum.shift(-1));
        a.terms.is_empty() && a.constant == 0
            || self.at_least_0(a) && below.is_some_and(|below| self.at_least_0(&below))
    }

    /// Splits the terms into those with the factor `by`, which is removed, and the others.
    fn take_factor(&mut self, a: &Sum, by: &Sum, dtype: DType) -> Option<(Sum, Sum)> {
        let (mut whole, mut rest) = (Sum::constant(0), Sum::constant(a.constant));
        let Some((product, k)) = by.as_term().copied() else { return Some((whole, a.clone())) };
        let factors = self.factors(product);
        for (id, c) in &a.terms {
            let mut left = self.factors(*id);
            let taken = factors.iter().all(|factor| {
                let at = left.iter().position(|atom| atom == factor);
                at.map(|at| left.remove(at)).is_some()
            });
            if !taken || c % k != 0 {
                rest.terms.push((*id, *c));
            } else if left.is_empty() {
                whole = whole.shift(c / k)?;
            } else {
                let left = Sum::atom(self.product(left, dtype)?);
                whole = self.plus(&whole, &left, c / k)?;
            }
        }
        Some((whole, rest))
    }

    /// Returns the operation as an atom.
    pub(super) fn opaque(&mut self, op: u16, a: &Sum, b: &Sum, dtype: DType) -> Option<Sum> {
        let (a, b) = (self.build(a, dtype)?, self.build(b, dtype)?);
        Some(Sum::atom(self.binary(op, dtype, a, b)))
    }

    pub(super) fn deeper<T>(&mut self, f: impl FnOnce(&mut Store) -> Option<T>) -> Option<T> {
        if self.depth >= MAX_RULES {
            return None;
        }
        self.depth += 1;
        let out = f(self);
        self.depth -= 1;
        out
    }

    /// Returns the canonical form of a truncating operation. For nonnegative operands, this is the form of the operation that rounds down.
    pub(super) fn truncated(&mut self, op: u16, a: Id, b: Id, dtype: DType) -> Id {
        let (x, y) = (self.sum_of(a), self.sum_of(b));
        if self.sum_bounds(&y).min > 0 && self.sum_bounds(&x).min >= 0 {
            let floor = if op == prim::TRUNCDIV { prim::FLOORDIV } else { prim::FLOORMOD };
            return self.divide(floor, a, b, dtype);
        }
        if let Some(q) = multiple(&x, &y).filter(|q| Bounds::of_dtype(dtype).contains(*q)) {
            return self.int(if op == prim::TRUNCDIV { q } else { 0 }, dtype);
        }
        let out = y.as_constant().filter(|c| *c > 0).and_then(|c| self.truncated_by(op, &x, c, dtype));
        out.and_then(|sum| self.make(sum, dtype)).unwrap_or_else(|| self.binary(op, dtype, a, b))
    }

    fn truncated_by(&mut self, op: u16, x: &Sum, c: i64, dtype: DType) -> Option<Sum> {
        let bounds = self.sum_bounds(x);
        if bounds.min > -c && bounds.max < c {
            return Some(if op == prim::TRUNCDIV { Sum::constant(0) } else { x.clone() });
        }
        // A common divisor is factored out.
        let g = i64::try_from([x.divisor(), x.constant].iter().fold(c.into(), |g, v| gcd(g, (*v).into()))).ok()?;
        let (x, c) = (x.divide(g), c / g);
        let back = if op == prim::TRUNCDIV { 1 } else { g };
        if c == 1 {
            return Some(if op == prim::TRUNCDIV { x } else { Sum::constant(0) });
        }
        if let Some((inner, d)) =
            x.as_term().copied().filter(|(_, c)| *c == 1).and_then(|(id, _)| self.by_constant(id, op))
        {
            let whole = d.checked_mul(c).filter(|by| Bounds::of_dtype(dtype).contains(*by));
            match (op, whole) {
                (prim::TRUNCDIV, Some(by)) => return self.opaque(op, &self.sum_of(inner), &Sum::constant(by), dtype),
                (prim::TRUNCMOD, _) if d % c == 0 => {
                    return self.opaque(op, &self.sum_of(inner), &Sum::constant(c), dtype)?.scale(back);
                }
                _ => {}
            }
        }
        self.opaque(op, &x, &Sum::constant(c), dtype)?.scale(back)
    }
}

/// Returns `q` if `a` is `q * b`.
fn multiple(a: &Sum, b: &Sum) -> Option<i64> {
    let ((_, first), (_, of)) = (a.terms.first()?, b.terms.first()?);
    let q = (first % of == 0).then(|| first / of)?;
    (b.scale(q)? == *a).then_some(q)
}
