//! The bounds of an index over the ranges of some loop variables, under conditions.

use super::conditions::{Condition, as_less_or_equal, parts_of};
use super::linear::{Linear, add, cast, parts, sub, widened};
use crate::arith::{Analyzer, Bounds, index_to_dim_of_atoms, of_one_type, symbol_of};
use crate::ir::{DType, Dim, Expr, Stmt, Sym, Value};
use crate::scalar::PrimOp;
use std::collections::HashMap;

/// The greatest number of variables replaced in succession.
const MAX_REPLACED: usize = 64;

/// The first and last value of each variable.
pub type Ends = HashMap<Sym, (Dim, Dim)>;

/// A loop or a launch of threads: its variable, and the expressions of its range.
#[derive(Clone, Copy, Debug)]
pub struct Running<'b> {
    /// The variable.
    pub var: Value<'b>,
    /// The first value, if it is not 0.
    pub min: Option<Value<'b>>,
    /// The number of values.
    pub extent: Value<'b>,
}

impl<'b> Running<'b> {
    /// Returns the variable that a statement iterates; `None` if it does not iterate over a range.
    pub fn of(stmt: Value<'b>) -> Option<Running<'b>> {
        match stmt.stmt()? {
            Stmt::For { var, min, extent, .. } => Some(Running { var, min: Some(min), extent }),
            Stmt::Launch { extent, .. } => {
                let var = stmt.operand(1).or_else(|| stmt.region().children().next())?;
                Some(Running { var, min: None, extent })
            }
            _ => None,
        }
    }

    /// Returns the first and the last value; `dim` converts an expression. `None` if an expression cannot be converted.
    pub fn ends(&self, dim: impl Fn(Value<'b>) -> Option<Dim>) -> Option<(Dim, Dim)> {
        let min = match self.min {
            Some(min) => dim(min)?,
            None => Dim::int(0, self.extent.ty().dtype()),
        };
        Some(ends_of(symbol_of(self.var)?, min, dim(self.extent)?))
    }
}

/// Returns the first and last value of the variable of a loop.
fn ends_of(sym: Sym, min: Dim, extent: Dim) -> (Dim, Dim) {
    let last = sub(add(min.clone(), extent), Dim::int(1, sym.dtype));
    (min, Linear::of(&last).to_dim(sym.dtype).unwrap_or(last))
}

/// Returns `low + by - high`; `None` if a number does not fit in 128 bits.
fn difference(low: &Dim, high: &Dim, by: i64) -> Option<Linear> {
    let mut sum = Linear::of(low);
    sum.add_dim(high, -1)?;
    sum.add_dim(&Dim::Int(by), 1)?;
    Some(sum.without_zeros())
}

/// The facts known at the place of an index.
pub struct Reached<'a> {
    analyzer: &'a mut Analyzer,
    /// The variables that run over their ranges.
    running: Ends,
    /// Sums that are at most 0.
    most: Vec<Linear>,
}

impl<'a> Reached<'a> {
    /// Creates the facts that follow from conditions.
    pub fn new<'c, 'b: 'c>(
        analyzer: &'a mut Analyzer,
        running: Ends,
        conditions: impl Iterator<Item = &'c Condition<'b>>,
    ) -> Reached<'a> {
        let mut reached = Reached { analyzer, running, most: Vec::new() };
        for (cond, negated) in conditions.flat_map(|condition| parts_of(condition.cond, condition.negated)) {
            reached.assume(cond, negated);
        }
        reached
    }

    /// Uses a condition to bound a variable or a sum.
    pub(super) fn assume(&mut self, cond: Value<'_>, negated: bool) {
        let Some((low, high, by)) = as_less_or_equal(cond, negated) else { return self.assume_unequal(cond, negated) };
        let (Some(low), Some(high)) = (index_to_dim_of_atoms(low), index_to_dim_of_atoms(high)) else { return };
        // `low + by - high <= 0`.
        let (low, high) = (self.analyzer.simplify(&low), self.analyzer.simplify(&high));
        let Some(sum) = difference(&low, &high, by) else { return };
        let dtype = low.dtype();
        let running = sum.terms.iter().filter(|(term, _)| self.runs(term)).collect::<Vec<_>>();
        let [(Dim::Var(sym), by @ (1 | -1))] = running[..] else {
            self.tighten(&sum);
            return self.most.push(sum);
        };
        let (sym, by) = (*sym, *by);
        // `by * sym <= -rest`.
        let mut rest = sum.clone();
        rest.terms.retain(|(term, _)| *term != Dim::Var(sym));
        let bound = rest.scaled(&-by).and_then(|rest| rest.to_dim(dtype));
        let (Some((min, max)), Some(bound)) = (self.running.get(&sym).cloned(), bound) else { return };
        let ends = match by > 0 {
            true => (min, self.either(PrimOp::Min, bound, max)),
            false => (self.either(PrimOp::Max, bound, min), max),
        };
        self.running.insert(sym, ends);
    }

    /// Uses a sum that is at most 0 to bound each of its variables, if all ranges are constant.
    fn tighten(&mut self, sum: &Linear) {
        let number = |dim: &Dim| dim.as_int().map(i128::from);
        let mut ends = Vec::new();
        for (term, by) in &sum.terms {
            let Dim::Var(sym) = term else { return };
            let Some((min, max)) = self.running.get(sym).and_then(|(min, max)| number(min).zip(number(max))) else {
                return;
            };
            ends.push((*sym, *by, min, max));
        }
        let at_least = |by: i128, min, max| by.checked_mul(if by > 0 { min } else { max });
        let all = ends.iter().map(|(_, by, min, max)| at_least(*by, *min, *max));
        let Some(least) = all.into_iter().try_fold(0i128, |sum, least| sum.checked_add(least?)) else { return };
        for (sym, by, min, max) in ends {
            // `by * sym <= -number - (the least value of the other terms)`.
            let others = at_least(by, min, max).and_then(|own| least.checked_sub(own));
            let most = others.and_then(|others| sum.constant.checked_add(others)?.checked_neg());
            let (Some(most), Some((low, high))) = (most, self.running.get_mut(&sym)) else { return };
            let (end, bound) = if by > 0 { (high, most.div_euclid(by)) } else { (low, -most.div_euclid(-by)) };
            let tighter = if by > 0 { bound < max } else { bound > min };
            if let (true, Ok(bound)) = (tighter, i64::try_from(bound)) {
                *end = Dim::int(bound, sym.dtype);
            }
        }
    }

    /// Narrows the range of a variable that must differ from the number at one end of the range.
    fn assume_unequal(&mut self, cond: Value<'_>, negated: bool) {
        let (var, not) = match (cond.view(), negated) {
            (Expr::Arith { op: PrimOp::Ne, a, b: Some(b) }, false)
            | (Expr::Arith { op: PrimOp::Eq, a, b: Some(b) }, true) => (a, b.dim().and_then(|not| not.as_int())),
            (Expr::Var, false) => (cond, Some(0)),
            _ => return,
        };
        let (Some(Dim::Var(sym)), Some(not)) = (index_to_dim_of_atoms(var), not) else { return };
        let Some((min, max)) = self.running.get_mut(&sym) else { return };
        let one = Dim::int(1, sym.dtype);
        if min.as_int() == Some(not) {
            *min = add(min.clone(), one);
        } else if max.as_int() == Some(not) {
            *max = sub(max.clone(), one);
        }
    }

    /// Returns the least and greatest value of an index, in terms of the other variables; `None` if none was found.
    pub fn ends(&mut self, index: &Dim) -> (Option<Dim>, Option<Dim>) {
        let index = if self.runs(index) { self.analyzer.simplify(index) } else { index.clone() };
        (self.end(&index, false), self.end(&index, true))
    }

    fn runs(&self, dim: &Dim) -> bool {
        let mut found = false;
        dim.vars(&mut |sym| found |= self.running.contains_key(&sym));
        found
    }

    fn end(&mut self, dim: &Dim, upper: bool) -> Option<Dim> {
        let (sum, sign) = (Linear::of(dim), if upper { 1 } else { -1 });
        let bounded = sum.clone().scaled(&sign).and_then(|sum| self.bounded_sum(&sum));
        if let Some(bounded) = bounded.and_then(|less| Linear::of(&less).scaled(&sign)) {
            let plain = self.plain_end(sum, dim.dtype(), upper);
            let bounded = self.plain_end(bounded, dim.dtype(), upper);
            // TVM uses a condition only if it yields a tighter bound.
            return match (plain, bounded) {
                (Some(plain), Some(bounded)) => {
                    let op = if upper { PrimOp::Min } else { PrimOp::Max };
                    let tighter = self.extreme(op, plain.clone(), bounded.clone());
                    Some(if tighter == bounded { bounded } else { plain })
                }
                (plain, bounded) => plain.or(bounded),
            };
        }
        self.plain_end(sum, dim.dtype(), upper)
    }

    /// Returns an upper bound of a sum from a known condition. The running terms of the sum must be a multiple of the
    /// condition's running terms.
    fn bounded_sum(&self, sum: &Linear) -> Option<Dim> {
        let running = |sum: &Linear| -> Vec<(Dim, i128)> {
            sum.terms.iter().filter(|(term, _)| self.runs(term)).cloned().collect()
        };
        let of = running(sum);
        self.most.iter().find_map(|known| {
            let part = running(known);
            let (first, by) = part.first()?;
            let (_, have) = of.iter().find(|(term, _)| term == first)?;
            let times = have.checked_div(*by).filter(|times| *times > 0 && times * by == *have)?;
            let same = of.len() == part.len()
                && part.iter().all(|(term, by)| of.iter().any(|(other, have)| other == term && *have == by * times));
            // `sum <= sum - times * known`, because `known <= 0`.
            let rest = sum.clone().minus(known.clone().scaled(&times)?)?;
            let dtype = first.dtype();
            rest.to_dim(dtype).filter(|_| same)
        })
    }

    /// Replaces the running variables one by one by their end value.
    fn plain_end(&mut self, mut sum: Linear, dtype: DType, upper: bool) -> Option<Dim> {
        for _ in 0..MAX_REPLACED {
            let Some(at) = sum.terms.iter().position(|(term, by)| *by != 0 && self.runs(term)) else {
                return sum.without_zeros().to_dim(dtype);
            };
            let (term, by) = sum.terms.remove(at);
            let end = self.term_end(&term, upper == (by > 0))?;
            if let (1, Some((op @ (PrimOp::Min | PrimOp::Max), a, b))) = (by, parts(&end))
                && !sum.terms.iter().any(|(term, by)| *by != 0 && self.runs(term))
            {
                // `x + max(a, b)` is `max(x + a, x + b)`.
                let plus = |side: &Dim| {
                    let mut sum = sum.clone();
                    sum.add_dim(side, 1)?;
                    sum.without_zeros().to_dim(dtype)
                };
                return Some(Dim::binary(op, plus(a)?, plus(b)?));
            }
            sum.add_dim(&end, by)?;
        }
        None
    }

    fn term_end(&mut self, term: &Dim, upper: bool) -> Option<Dim> {
        if let Dim::Var(sym) = term {
            let (min, max) = self.running.get(sym)?;
            return Some(if upper { max.clone() } else { min.clone() });
        }
        if let Some(narrow) = widened(term) {
            return Some(cast(self.end(narrow, upper)?, term.dtype()));
        }
        let (op, a, b) = parts(term)?;
        match (op, b.as_int()) {
            (PrimOp::FloorDiv | PrimOp::TruncDiv, Some(by)) if by > 0 => {
                let end = self.end(a, upper)?;
                Some(self.analyzer.simplify(&Dim::binary(op, end, b.clone())))
            }
            (PrimOp::FloorMod, Some(by)) if by > 0 => self.remainder_end(a, by, upper),
            (PrimOp::Min | PrimOp::Max, _) => {
                let (a, b) = (self.end(a, upper)?, self.end(b, upper)?);
                Some(self.analyzer.simplify(&Dim::binary(op, a, b)))
            }
            _ => self.const_end(term, upper),
        }
    }

    /// Returns a constant bound of a term, from the constant bounds of its running variables. `None` if the distance to the
    /// opposite bound might not fit the data type.
    fn const_end(&mut self, term: &Dim, upper: bool) -> Option<Dim> {
        let mut vars = Vec::new();
        term.vars(&mut |sym| vars.push(sym));
        let mut analyzer = Analyzer::new();
        for sym in vars {
            let whole = Dim::Var(sym);
            let (min, max) = self.running.get(&sym).map_or((&whole, &whole), |(min, max)| (min, max));
            let (min, max) = (self.analyzer.const_bounds(min).min, self.analyzer.const_bounds(max).max);
            analyzer.bind_bounds(sym, Bounds::of(min, max));
        }
        let bounds = analyzer.const_bounds(term);
        let end = if upper { bounds.max } else { bounds.min };
        let fits = term.dtype().has_integer(i128::from(end).abs() * 2 + 1);
        fits.then(|| Dim::int(end, term.dtype()))
    }

    fn remainder_end(&mut self, of: &Dim, by: i64, upper: bool) -> Option<Dim> {
        let number = |value| Dim::int(value, of.dtype());
        let (low, high) = (self.end(of, false), self.end(of, true));
        if let (Some(low), Some(high)) = (low.and_then(|low| low.as_int()), high.and_then(|high| high.as_int()))
            && low.div_euclid(by) == high.div_euclid(by)
        {
            return Some(number(if upper { high.rem_euclid(by) } else { low.rem_euclid(by) }));
        }
        Some(number(if upper { by - 1 } else { 0 }))
    }

    /// Returns the lesser of two dimensions.
    pub fn least(&mut self, a: Dim, b: Dim) -> Dim {
        self.extreme(PrimOp::Min, a, b)
    }

    /// Returns the maximum of a value and 0; the value itself if it is known to be nonnegative.
    pub fn not_negative(&mut self, value: Dim) -> Dim {
        if let Some(number) = value.as_int() {
            return Dim::int(number.max(0), value.dtype());
        }
        match self.analyzer.const_bounds(&value).min >= 0 {
            true => value,
            false => Dim::binary(PrimOp::Max, Dim::int(0, value.dtype()), value),
        }
    }

    /// Returns true if an extent is known to be at most a shape's extent, assuming that its variables are at least 1.
    pub fn is_within(&mut self, extent: &Dim, shape: &Dim) -> bool {
        let difference = Dim::binary(PrimOp::Sub, extent.clone(), cast(shape.clone(), extent.dtype()));
        let least = shape.as_int().is_none().then(|| number_in(shape).abs());
        self.analyzer.const_bounds(&difference).max <= 0
            || least.is_some_and(|least| self.analyzer.const_bounds(extent).max <= least)
    }

    /// Returns the greater of two dimensions.
    pub fn greatest(&mut self, a: Dim, b: Dim) -> Dim {
        self.extreme(PrimOp::Max, a, b)
    }

    fn extreme(&mut self, op: PrimOp, a: Dim, b: Dim) -> Dim {
        let (a, b) = of_one_type(a, b);
        let simple = self.analyzer.simplify(&Dim::binary(op, a.clone(), b.clone()));
        self.one_of(&simple, a, b).unwrap_or(simple)
    }

    /// Returns the `min` or `max` of two dimensions, as written.
    fn either(&mut self, op: PrimOp, a: Dim, b: Dim) -> Dim {
        let (a, b) = of_one_type(a, b);
        let written = Dim::binary(op, a.clone(), b.clone());
        let simple = self.analyzer.simplify(&written);
        self.one_of(&simple, a, b).unwrap_or(written)
    }

    fn one_of(&mut self, value: &Dim, a: Dim, b: Dim) -> Option<Dim> {
        [a, b].into_iter().find(|one| self.analyzer.prove_equal(value, one) == Some(true))
    }
}

/// Returns the product of the constant factors of a product.
fn number_in(product: &Dim) -> i64 {
    match parts(product) {
        Some((PrimOp::Mul, a, b)) => number_in(a).saturating_mul(number_in(b)),
        _ => product.as_int().unwrap_or(1),
    }
}
