//! Determines the values of a variable for which a comparison is known.

use plugin_api::prelude::*;
use plugin_api::scalar::{Linear, PrimOp};
use std::collections::HashMap;

/// Values from `min` to `max`, inclusive; `None` means unbounded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Interval {
    pub(super) min: Option<i64>,
    pub(super) max: Option<i64>,
}

impl Interval {
    pub(super) fn of(min: i64, max: i64) -> Interval {
        Interval { min: Some(min), max: Some(max) }
    }

    pub(super) fn and(self, other: Interval) -> Interval {
        let tighter = |a: Option<i64>, b: Option<i64>, pick: fn(i64, i64) -> i64| match (a, b) {
            (Some(a), Some(b)) => Some(pick(a, b)),
            (a, b) => a.or(b),
        };
        Interval { min: tighter(self.min, other.min, i64::max), max: tighter(self.max, other.max, i64::min) }
    }

    pub(super) fn is_empty(self) -> bool {
        matches!((self.min, self.max), (Some(min), Some(max)) if min > max)
    }

    pub(super) fn is_point(self) -> bool {
        self.min.is_some() && self.min == self.max
    }

    /// Subtracts a number from both ends; `None` if an end overflows.
    pub(super) fn less(self, by: i64) -> Option<Interval> {
        let less = |end: Option<i64>| match end {
            Some(end) => end.checked_sub(by).map(Some),
            None => Some(None),
        };
        Some(Interval { min: less(self.min)?, max: less(self.max)? })
    }
}

/// Solves comparisons for a loop variable.
pub(super) struct Solver<'b> {
    var: Value<'b>,
    /// Lowest and highest values of the loops inside this one, and of enclosing loops with a single value.
    ranges: HashMap<Value<'b>, (i64, i64)>,
}

impl<'b> Solver<'b> {
    pub(super) fn new(stmt: Value<'b>, var: Value<'b>, fixed: &HashMap<Value<'b>, i64>) -> Solver<'b> {
        let mut ranges: HashMap<_, _> = fixed.iter().map(|(var, value)| (*var, (*value, *value))).collect();
        let number = |value: Value<'b>| value.dim()?.as_int();
        for inner in stmt.region().nodes() {
            let Some(Stmt::For { var, min, extent, .. }) = inner.stmt() else { continue };
            if let (Some(min), Some(extent @ 1..)) = (number(min), number(extent))
                && let Some(end) = min.checked_add(extent)
            {
                ranges.entry(var).or_insert((min, end - 1));
            }
        }
        Solver { var, ranges }
    }

    /// Returns the values for which a comparison holds (or fails) regardless of the inner variables, or `None` if
    /// unknown.
    pub(super) fn solve(&self, cond: Value<'b>, holds: bool) -> Option<Interval> {
        let Expr::Arith { op, a, b: Some(b) } = cond.view() else { return None };
        let difference = self.linear(a)?.minus(self.linear(b)?)?;
        let by = difference.coefficient(&self.var);
        let (low, high) = self.ends_without_variable(&difference)?;
        let op = if holds { op } else { opposite(op) };
        // Solves `by * var <= most` or `by * var >= least`.
        let (least, most) = match op {
            PrimOp::Lt => (None, Some(high.checked_neg()?.checked_sub(1)?)),
            PrimOp::Le => (None, Some(high.checked_neg()?)),
            PrimOp::Gt => (Some(low.checked_neg()?.checked_add(1)?), None),
            PrimOp::Ge => (Some(low.checked_neg()?), None),
            PrimOp::Eq => (Some(low.checked_neg()?), Some(high.checked_neg()?)),
            _ => return None,
        };
        if by == 0 {
            return None;
        }
        let down = |value: i64| i128::from(value).div_euclid(by.into());
        let up = |value: i64| -(-i128::from(value)).div_euclid(by.into());
        let number = |end: Option<i128>| end.map(i64::try_from).transpose().ok();
        let (min, max) = if by > 0 {
            (least.map(up), most.map(down))
        } else {
            // Dividing by a negative number swaps the bounds, and `div_euclid` rounds the other way.
            (most.map(down), least.map(up))
        };
        let found = Interval { min: number(min)?, max: number(max)? };
        (!found.is_empty()).then_some(found)
    }

    /// Returns an expression as a sum of multiples of variables.
    fn linear(&self, value: Value<'b>) -> Option<Linear<Value<'b>>> {
        if let Some(number) = value.dim().and_then(|dim| dim.as_int()) {
            return Some(Linear::constant(number));
        }
        if value == self.var {
            return Some(Linear::atom(value));
        }
        if let Some((low, high)) = self.ranges.get(&value).copied() {
            return Some(if low == high { Linear::constant(low) } else { Linear::atom(value) });
        }
        let Expr::Arith { op, a, b: Some(b) } = value.view() else { return None };
        let (a, b) = (self.linear(a)?, self.linear(b)?);
        match (op, a.as_constant(), b.as_constant()) {
            (PrimOp::Add, ..) => a.plus(b),
            (PrimOp::Sub, ..) => a.minus(b),
            (PrimOp::Mul, _, Some(by)) => a.scaled(&by),
            (PrimOp::Mul, Some(by), _) => b.scaled(&by),
            _ => None,
        }
    }

    /// Returns the least and the greatest value of the terms without the loop variable.
    fn ends_without_variable(&self, sum: &Linear<Value<'b>>) -> Option<(i64, i64)> {
        let mut others = sum.terms.iter().filter(|(var, _)| *var != self.var);
        others.try_fold((sum.constant, sum.constant), |(low, high), (var, by)| {
            let (min, max) = self.ranges.get(var)?;
            let (a, b) = (min.checked_mul(*by)?, max.checked_mul(*by)?);
            Some((low.checked_add(a.min(b))?, high.checked_add(a.max(b))?))
        })
    }
}

/// Returns the negated comparison.
fn opposite(op: PrimOp) -> PrimOp {
    match op {
        PrimOp::Lt => PrimOp::Ge,
        PrimOp::Ge => PrimOp::Lt,
        PrimOp::Le => PrimOp::Gt,
        PrimOp::Gt => PrimOp::Le,
        PrimOp::Eq => PrimOp::Ne,
        _ => PrimOp::Eq,
    }
}

pub(super) fn is_comparison(value: Value<'_>) -> bool {
    matches!(value.view(), Expr::Arith { op, .. } if op.is_comparison())
}

/// Returns true if an expression uses a variable.
pub(super) fn uses(value: Value<'_>, var: Value<'_>) -> bool {
    let mut work = vec![value];
    while let Some(value) = work.pop() {
        if value == var {
            return true;
        }
        work.extend(value.operands().filter(|_| value.is_nested()));
    }
    false
}
