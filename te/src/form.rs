//! TVM's form of index expressions: sums with the largest factors first.
//!
//! [`simplify`](passhost_lang::arith::simplify) has a different form. Tuning, and matching on the printed form of a PrimFunc, require TVM's
//! form: a sum of splits `index % upper // lower * scale`, sorted by scale and `lower`, then the constant, then subtracted terms.

use passhost_lang::arith::fold_as;
use passhost_lang::ir::{DType, Dim, DimExpr};
use passhost_lang::scalar::PrimOp;
use std::sync::Arc;

/// The split `index % upper // lower * scale`.
#[derive(Clone)]
struct Split {
    index: Dim,
    lower: i64,
    upper: Option<i64>,
    scale: i64,
}

/// A sum of splits and a constant.
#[derive(Clone)]
struct Sum {
    splits: Vec<Split>,
    base: i64,
    dtype: DType,
    /// True if the sum is a single term and never had another.
    alone: bool,
}

/// Converts an index expression to TVM's form: `1 + n - m * 2 + n` becomes `n * 2 + 1 - m * 2`.
pub fn form(dim: &Dim) -> Dim {
    if !matches!(dim, Dim::Expr(_)) {
        return dim.clone();
    }
    sum_of(dim).and_then(|sum| sum.dim()).unwrap_or_else(|| dim.clone())
}

/// Converts an expression to a sum; `None` if a number does not fit.
fn sum_of(dim: &Dim) -> Option<Sum> {
    let dtype = dim.dtype();
    if let Some(value) = dim.as_int() {
        return Some(Sum { splits: Vec::new(), base: value, dtype, alone: false });
    }
    let Dim::Expr(expr) = dim else { return Some(Sum::of(dim.clone())) };
    match &**expr {
        DimExpr::Binary(op, _, a, b) if is_index(dtype) => match *op {
            PrimOp::Add => sum_of(a)?.plus(&sum_of(b)?, 1),
            PrimOp::Sub => sum_of(a)?.plus(&sum_of(b)?, -1),
            PrimOp::Mul => sum_of(a)?.times(&sum_of(b)?),
            PrimOp::FloorDiv => sum_of(a)?.floordiv(&sum_of(b)?),
            PrimOp::FloorMod => sum_of(a)?.floormod(&sum_of(b)?),
            op => Some(Sum::of(folded(op, dtype, form(a), form(b)))),
        },
        DimExpr::Binary(op, _, a, b) => Some(Sum::of(folded(*op, dtype, form(a), form(b)))),
        DimExpr::Unary(op, _, a) => Some(Sum::of(Dim::Expr(Arc::new(DimExpr::Unary(*op, dtype, form(a)))))),
        DimExpr::Int(..) | DimExpr::Float(..) => Some(Sum::of(dim.clone())),
    }
}

/// Returns true for index types, whose arithmetic does not overflow. Arithmetic of other types wraps around, so it is kept as written.
fn is_index(dtype: DType) -> bool {
    dtype.code() == 0 && dtype.bits() >= 32
}

fn binary(op: PrimOp, dtype: DType, a: Dim, b: Dim) -> Dim {
    Dim::Expr(Arc::new(DimExpr::Binary(op, dtype, a, b)))
}

/// Returns an operation on two operands, folded if possible.
fn folded(op: PrimOp, dtype: DType, a: Dim, b: Dim) -> Dim {
    match (a.as_int(), b.as_int()) {
        (Some(x), Some(y)) => match fold_as(op, a.dtype(), x, y) {
            Some(value) if dtype.has_integer(value.into()) => Dim::int(value, dtype),
            _ => binary(op, dtype, a, b),
        },
        _ => binary(op, dtype, a, b),
    }
}

impl Split {
    fn dim(&self, dtype: DType, scale: i64) -> Dim {
        let int = |value: i64| Dim::int(value, dtype);
        let mut out = self.index.clone();
        if let Some(upper) = self.upper {
            out = binary(PrimOp::FloorMod, dtype, out, int(upper));
        }
        if self.lower != 1 {
            out = binary(PrimOp::FloorDiv, dtype, out, int(self.lower));
        }
        if scale != 1 { binary(PrimOp::Mul, dtype, out, int(scale)) } else { out }
    }

    /// Wraps the value in a new index with scale 1.
    fn whole(self, dtype: DType) -> Split {
        Split { index: self.dim(dtype, self.scale), lower: 1, upper: None, scale: 1 }
    }

    fn floordiv(self, by: i64, dtype: DType) -> Option<Split> {
        if self.scale % by == 0 {
            return Some(Split { scale: self.scale / by, ..self });
        }
        if self.scale <= 0 || by % self.scale != 0 {
            let whole = self.whole(dtype);
            return Some(Split { lower: by, ..whole });
        }
        let lower = self.lower.checked_mul(by / self.scale)?;
        Some(match self.upper {
            Some(upper) if upper <= lower => Split { scale: 0, ..self },
            Some(upper) if upper % lower != 0 => {
                let index = binary(PrimOp::FloorMod, dtype, self.index, Dim::int(upper, dtype));
                Split { index, lower, upper: None, scale: 1 }
            }
            upper => Split { index: self.index, lower, upper, scale: 1 },
        })
    }

    fn floormod(self, by: i64, dtype: DType) -> Option<Split> {
        if self.scale % by == 0 {
            return Some(Split { scale: 0, ..self });
        }
        if self.scale > 0 && by % self.scale == 0 {
            let next = self.lower.checked_mul(by / self.scale)?;
            match self.upper {
                Some(upper) if next % upper == 0 => return Some(self),
                Some(upper) if upper % next != 0 => {}
                _ => return Some(Split { upper: Some(next), ..self }),
            }
        }
        let whole = self.whole(dtype);
        Some(Split { upper: Some(by), ..whole })
    }

    fn same(&self, other: &Split) -> bool {
        self.index == other.index && self.lower == other.lower && self.upper == other.upper
    }
}

impl Sum {
    fn of(index: Dim) -> Sum {
        let dtype = index.dtype();
        Sum { splits: vec![Split { index, lower: 1, upper: None, scale: 1 }], base: 0, dtype, alone: true }
    }

    fn of_splits(splits: Vec<Split>, base: i64, dtype: DType) -> Sum {
        Sum { splits: splits.into_iter().filter(|split| split.scale != 0).collect(), base, dtype, alone: false }
    }

    fn as_int(&self) -> Option<i64> {
        self.splits.is_empty().then_some(self.base)
    }

    /// Returns the sum as an expression; `None` if a number does not fit.
    fn dim(&self) -> Option<Dim> {
        if let ([split], 0, true) = (&self.splits[..], self.base, self.alone) {
            return Some(split.dim(self.dtype, split.scale));
        }
        if let Some(value) = self.as_int() {
            return Some(Dim::int(value, self.dtype));
        }
        let mut splits = self.joined().splits;
        splits.sort_by(|a, b| {
            let upper = |split: &Split| split.upper.unwrap_or(i64::MAX);
            (b.scale, b.lower, upper(b)).cmp(&(a.scale, a.lower, upper(a)))
        });
        let int = |value: i64| Dim::int(value, self.dtype);
        let add = |op: PrimOp, out: Option<Dim>, next: Dim| match out {
            Some(out) => binary(op, self.dtype, out, next),
            None if op == PrimOp::Add => next,
            None => binary(op, self.dtype, int(0), next),
        };
        let mut out = None;
        for split in splits.iter().filter(|split| split.scale > 0) {
            out = Some(add(PrimOp::Add, out, split.dim(self.dtype, split.scale)));
        }
        if self.base > 0 {
            out = Some(add(PrimOp::Add, out, int(self.base)));
        }
        for split in splits.iter().filter(|split| split.scale < 0) {
            out = Some(add(PrimOp::Sub, out, split.dim(self.dtype, split.scale.checked_neg()?)));
        }
        if self.base < 0 {
            out = Some(add(PrimOp::Sub, out, int(self.base.checked_neg()?)));
        }
        Some(out.unwrap_or_else(|| int(0)))
    }

    /// Rewrites `x // c * c + x % c` as `x`.
    fn joined(&self) -> Sum {
        let mut out: Vec<Split> = Vec::new();
        for split in &self.splits {
            let joins = |have: &Split| {
                have.index == split.index
                    && split.upper == Some(have.lower)
                    && split.scale.checked_mul(have.lower / split.lower) == Some(have.scale)
            };
            match out.iter().position(joins) {
                Some(at) => {
                    out[at] = Split { lower: split.lower, scale: split.scale, ..out[at].clone() };
                }
                None => out.push(split.clone()),
            }
        }
        Sum { splits: out, ..self.clone() }
    }

    fn plus(mut self, other: &Sum, by: i64) -> Option<Sum> {
        for split in &other.splits {
            let scale = split.scale.checked_mul(by)?;
            match self.splits.iter_mut().find(|have| have.same(split)) {
                Some(have) => have.scale = have.scale.checked_add(scale)?,
                None => {
                    // Splits of the same index are adjacent, and the split with the larger `lower` comes first.
                    let first = self.splits.iter().position(|have| have.index == split.index);
                    let at = first.map_or(self.splits.len(), |first| {
                        let behind = |have: &Split| have.index != split.index || split.lower > have.lower;
                        first + self.splits[first..].iter().position(behind).unwrap_or(self.splits.len() - first)
                    });
                    self.splits.insert(at, Split { scale, ..split.clone() });
                }
            }
        }
        let base = self.base.checked_add(other.base.checked_mul(by)?)?;
        Some(Sum::of_splits(self.splits, base, self.dtype))
    }

    fn scaled(mut self, by: i64) -> Option<Sum> {
        for split in &mut self.splits {
            split.scale = split.scale.checked_mul(by)?;
        }
        self.base = self.base.checked_mul(by)?;
        let alone = self.alone;
        Some(Sum { alone, ..Sum::of_splits(self.splits, self.base, self.dtype) })
    }

    fn times(self, other: &Sum) -> Option<Sum> {
        match (self.as_int(), other.as_int()) {
            (_, Some(by)) => self.scaled(by),
            (Some(by), _) => other.clone().scaled(by),
            _ => {
                let dtype = self.dtype;
                let (a, x) = self.factored()?;
                let (b, y) = other.clone().factored()?;
                Sum::of(binary(PrimOp::Mul, dtype, x, y)).scaled(a.checked_mul(b)?)
            }
        }
    }

    /// Returns the constant factor of a product, and the rest.
    fn factored(mut self) -> Option<(i64, Dim)> {
        match &mut self.splits[..] {
            [split] if self.base == 0 => {
                let scale = std::mem::replace(&mut split.scale, 1);
                Some((scale, self.dim()?))
            }
            _ => Some((1, self.dim()?)),
        }
    }

    /// Splits the sum into the part divisible by a number, divided by that number, and the rest.
    fn separated(&self, by: i64) -> (Sum, Sum) {
        let (whole, rest): (Vec<Split>, Vec<Split>) =
            self.splits.iter().cloned().partition(|split| split.scale % by == 0);
        let whole = whole.into_iter().map(|split| Split { scale: split.scale / by, ..split }).collect();
        let (quotient, left) = if self.base % by == 0 { (self.base / by, 0) } else { (0, self.base) };
        (Sum::of_splits(whole, quotient, self.dtype), Sum::of_splits(rest, left, self.dtype))
    }

    /// Returns the sum as one split.
    fn one(self) -> Option<Split> {
        match &self.splits[..] {
            [split] if self.base == 0 => Some(split.clone()),
            _ => Some(Split { index: self.dim()?, lower: 1, upper: None, scale: 1 }),
        }
    }

    fn floordiv(self, other: &Sum) -> Option<Sum> {
        let dtype = self.dtype;
        let Some(by) = other.as_int().filter(|by| *by > 0) else {
            return Some(Sum::of(folded(PrimOp::FloorDiv, dtype, self.dim()?, other.dim()?)));
        };
        let (whole, rest) = self.separated(by);
        if rest.is_within(by) {
            return Some(whole);
        }
        if let Some(rest) = rest.as_int() {
            let quotient = Sum::of_splits(Vec::new(), rest.div_euclid(by), dtype);
            return whole.plus(&quotient, 1);
        }
        let split = rest.one()?.floordiv(by, dtype)?;
        whole.plus(&Sum::of_splits(vec![split], 0, dtype), 1)
    }

    fn floormod(self, other: &Sum) -> Option<Sum> {
        let dtype = self.dtype;
        let Some(by) = other.as_int().filter(|by| *by > 0) else {
            return Some(Sum::of(folded(PrimOp::FloorMod, dtype, self.dim()?, other.dim()?)));
        };
        let (_, mut rest) = self.separated(by);
        if rest.is_within(by) {
            return Some(rest);
        }
        rest.base = rest.base.rem_euclid(by);
        if rest.as_int().is_some() {
            return Some(rest);
        }
        let split = rest.one()?.floormod(by, dtype)?;
        Some(Sum::of_splits(vec![split], 0, dtype))
    }

    /// Returns true if the sum is at least 0 and less than a number for all values of its variables.
    fn is_within(&self, end: i64) -> bool {
        let mut largest = self.base;
        for split in &self.splits {
            let Some(upper) = split.upper.filter(|_| split.scale > 0) else { return false };
            let Some(sum) = split.scale.checked_mul((upper - 1) / split.lower).and_then(|top| largest.checked_add(top))
            else {
                return false;
            };
            largest = sum;
        }
        self.base >= 0 && largest < end
    }
}

#[cfg(test)]
mod tests {
    use super::{binary, form};
    use passhost_lang::ir::{DType, Dim, Sym};
    use passhost_lang::scalar::PrimOp;

    /// These expressions get the same forms as in TVM 0.27.
    #[test]
    fn sums_have_the_order_of_tvm() {
        let [n, m] = [0, 1].map(|id| Dim::Var(Sym { id, dtype: DType::I64 }));
        let op = |op: PrimOp, a: &Dim, b: &Dim| binary(op, DType::I64, a.clone(), b.clone());
        let int = |value: i64| Dim::Int(value);
        let times = |a: &Dim, by: i64| op(PrimOp::Mul, a, &int(by));
        let div = |a: &Dim, by: i64| op(PrimOp::FloorDiv, a, &int(by));
        let rem = |a: &Dim, by: i64| op(PrimOp::FloorMod, a, &int(by));
        let add = |a: &Dim, b: &Dim| op(PrimOp::Add, a, b);
        let sub = |a: &Dim, b: &Dim| op(PrimOp::Sub, a, b);
        let cases = [
            (sub(&add(&int(1), &n), &m), sub(&add(&n, &int(1)), &m)),
            (add(&m, &times(&n, 2)), add(&times(&n, 2), &m)),
            (times(&times(&n, 2), 3), times(&n, 6)),
            (add(&times(&n, -1), &int(5)), sub(&int(5), &n)),
            (times(&n, -1), times(&n, -1)),
            (rem(&div(&n, 12), 2), div(&rem(&n, 24), 12)),
            (rem(&div(&div(&add(&times(&n, 4), &m), 4), 3), 2), div(&rem(&add(&div(&m, 4), &n), 6), 3)),
            (add(&times(&div(&n, 4), 4), &rem(&n, 4)), n.clone()),
            (op(PrimOp::Mul, &times(&n, 3), &m), times(&op(PrimOp::Mul, &n, &m), 3)),
            (sub(&n, &n), int(0)),
            (rem(&add(&rem(&n, 2), &times(&rem(&m, 3), 2)), 6), add(&times(&rem(&m, 3), 2), &rem(&n, 2))),
        ];
        for (given, formed) in cases {
            assert_eq!(form(&given), formed, "{given:?}");
        }
    }
}
