//! TVM's form of index expressions: sums with the largest factors first.
//!
//! [`simplify`](passhost_lang::arith::simplify) has a different form. Tuning, and matching on the printed form of a PrimFunc, require TVM's
//! form: a sum of splits `index % upper // lower * scale`, sorted by scale and `lower`, then the constant, then subtracted terms.

use passhost_lang::arith::fold_as;
use passhost_lang::ir::{DType, Dim, DimExpr};
use passhost_lang::scalar::{self, Linear, PrimOp, ratio};
use std::cmp::Reverse;
use std::sync::Arc;

type Split = scalar::Split<Dim>;

/// A sum of splits and a constant.
#[derive(Clone)]
struct Sum {
    form: Linear<Split>,
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
        return Some(Sum::of_form(Linear::constant(value), dtype));
    }
    let Dim::Expr(expr) = dim else { return Some(Sum::of(dim.clone())) };
    match &**expr {
        DimExpr::Binary(op, _, a, b) if is_index(dtype) => match *op {
            PrimOp::Add => sum_of(a)?.plus(sum_of(b)?),
            PrimOp::Sub => sum_of(a)?.plus(sum_of(b)?.scaled(-1)?),
            PrimOp::Mul => sum_of(a)?.times(sum_of(b)?),
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

/// Returns a multiple of a split as an expression; `None` if a number does not fit.
fn split_dim(split: &Split, scale: i64, dtype: DType) -> Option<Dim> {
    let int = |value: i64| Dim::int(value, dtype);
    let mut out = split.source.clone();
    if split.extent.is_some() {
        out = binary(PrimOp::FloorMod, dtype, out, int(split.upper()?));
    }
    if split.lower != 1 {
        out = binary(PrimOp::FloorDiv, dtype, out, int(split.lower));
    }
    Some(if scale != 1 { binary(PrimOp::Mul, dtype, out, int(scale)) } else { out })
}

/// Divides a multiple of a split by a number. If the quotient is not a multiple of a split, it becomes a new index.
fn floordiv(split: &Split, scale: i64, by: i64, dtype: DType) -> Option<(Split, i64)> {
    if let Some(quotient) = split.floordiv(scale, by) {
        return Some(quotient);
    }
    let (source, lower) = match ratio(by, scale).zip(split.upper()) {
        Some((by, upper)) => {
            let within = binary(PrimOp::FloorMod, dtype, split.source.clone(), Dim::int(upper, dtype));
            (within, split.lower.checked_mul(by)?)
        }
        None => (split_dim(split, scale, dtype)?, by),
    };
    Some((Split { source, lower, extent: None }, 1))
}

/// Returns the remainder of a multiple of a split. If it is not a multiple of a split, it becomes a new index.
fn floormod(split: &Split, scale: i64, by: i64, dtype: DType) -> Option<(Split, i64)> {
    let other = || Some((Split { source: split_dim(split, scale, dtype)?, lower: 1, extent: Some(by) }, 1));
    split.floormod(scale, by).or_else(other)
}

/// Returns the position of a new split among the terms of a sum: splits of the same index are adjacent, and the split with the larger
/// `lower` comes first.
fn place(terms: &[(Split, i64)], split: &Split) -> usize {
    let first = terms.iter().position(|(have, _)| have.source == split.source).unwrap_or(terms.len());
    let same = terms[first..].iter().take_while(|(have, _)| have.source == split.source && split.lower <= have.lower);
    first + same.count()
}

impl Sum {
    fn of(index: Dim) -> Sum {
        let dtype = index.dtype();
        Sum { form: Linear::atom(Split::whole(index)), dtype, alone: true }
    }

    fn of_form(form: Linear<Split>, dtype: DType) -> Sum {
        Sum { form: form.without_zeros(), dtype, alone: false }
    }

    fn as_int(&self) -> Option<i64> {
        self.form.as_constant()
    }

    /// Returns the sum as an expression; `None` if a number does not fit.
    fn dim(&self) -> Option<Dim> {
        if let (Some((split, scale)), true) = (self.form.as_term(), self.alone) {
            return split_dim(split, *scale, self.dtype);
        }
        if let Some(value) = self.as_int() {
            return Some(Dim::int(value, self.dtype));
        }
        let (mut terms, constant) = (self.joined(), self.form.constant);
        let rank = |(split, scale): &(Split, i64)| (*scale, split.lower, split.upper().unwrap_or(i64::MAX));
        terms.sort_by_key(|term| Reverse(rank(term)));
        let int = |value: i64| Dim::int(value, self.dtype);
        let add = |op: PrimOp, out: Option<Dim>, next: Dim| match out {
            Some(out) => binary(op, self.dtype, out, next),
            None if op == PrimOp::Add => next,
            None => binary(op, self.dtype, int(0), next),
        };
        let mut out = None;
        for (split, scale) in terms.iter().filter(|(_, scale)| *scale > 0) {
            out = Some(add(PrimOp::Add, out, split_dim(split, *scale, self.dtype)?));
        }
        if constant > 0 {
            out = Some(add(PrimOp::Add, out, int(constant)));
        }
        for (split, scale) in terms.iter().filter(|(_, scale)| *scale < 0) {
            out = Some(add(PrimOp::Sub, out, split_dim(split, scale.checked_neg()?, self.dtype)?));
        }
        if constant < 0 {
            out = Some(add(PrimOp::Sub, out, int(constant.checked_neg()?)));
        }
        Some(out.unwrap_or_else(|| int(0)))
    }

    /// Returns the terms, with `x // c * c + x % c` rewritten as `x`.
    fn joined(&self) -> Vec<(Split, i64)> {
        let mut out: Vec<(Split, i64)> = Vec::new();
        for (low, scale) in &self.form.terms {
            let joins = |(have, above): &(Split, i64)| {
                have.source == low.source
                    && low.upper() == Some(have.lower)
                    && scale.checked_mul(have.lower / low.lower) == Some(*above)
            };
            match out.iter_mut().find(|have| joins(have)) {
                Some(have) => {
                    let extent = have.0.upper().map(|upper| upper / low.lower);
                    *have = (Split { extent, ..low.clone() }, *scale);
                }
                None => out.push((low.clone(), *scale)),
            }
        }
        out
    }

    fn plus(self, other: Sum) -> Option<Sum> {
        Some(Sum::of_form(self.form.plus_at(other.form, place)?, self.dtype))
    }

    fn scaled(self, by: i64) -> Option<Sum> {
        Some(Sum { form: self.form.scaled(&by)?, ..self })
    }

    fn times(self, other: Sum) -> Option<Sum> {
        match (self.as_int(), other.as_int()) {
            (_, Some(by)) => self.scaled(by),
            (Some(by), _) => other.scaled(by),
            _ => {
                let dtype = self.dtype;
                let (a, x) = self.factored()?;
                let (b, y) = other.factored()?;
                Sum::of(binary(PrimOp::Mul, dtype, x, y)).scaled(a.checked_mul(b)?)
            }
        }
    }

    /// Returns the constant factor of a product, and the rest.
    fn factored(mut self) -> Option<(i64, Dim)> {
        match &mut self.form.terms[..] {
            [(_, scale)] if self.form.constant == 0 => {
                let scale = std::mem::replace(scale, 1);
                Some((scale, self.dim()?))
            }
            _ => Some((1, self.dim()?)),
        }
    }

    /// Splits the sum into the part divisible by a number, divided by that number, and the rest.
    fn separated(&self, by: i64) -> (Sum, Sum) {
        let (mut whole, rest): (Vec<_>, Vec<_>) =
            self.form.terms.iter().cloned().partition(|(_, scale)| scale % by == 0);
        whole.iter_mut().for_each(|(_, scale)| *scale /= by);
        let number = self.form.constant;
        let (quotient, left) = if number % by == 0 { (number / by, 0) } else { (0, number) };
        let sum = |terms, constant| Sum::of_form(Linear { terms, constant }, self.dtype);
        (sum(whole, quotient), sum(rest, left))
    }

    /// Returns the sum as a multiple of one split.
    fn one(&self) -> Option<(Split, i64)> {
        match self.form.as_term() {
            Some(term) => Some(term.clone()),
            None => Some((Split::whole(self.dim()?), 1)),
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
        let quotient = match rest.as_int() {
            Some(rest) => Linear::constant(rest.div_euclid(by)),
            None => {
                let (split, scale) = rest.one()?;
                Linear { terms: vec![floordiv(&split, scale, by, dtype)?], constant: 0 }
            }
        };
        whole.plus(Sum::of_form(quotient, dtype))
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
        rest.form.constant = rest.form.constant.rem_euclid(by);
        if rest.as_int().is_some() {
            return Some(rest);
        }
        let (split, scale) = rest.one()?;
        Some(Sum::of_form(Linear { terms: vec![floormod(&split, scale, by, dtype)?], constant: 0 }, dtype))
    }

    /// Returns true if the sum is at least 0 and less than a number for all values of its variables.
    fn is_within(&self, end: i64) -> bool {
        let largest = self.form.terms.iter().try_fold(self.form.constant, |largest, (split, scale)| {
            let last = split.extent.filter(|_| *scale > 0)? - 1;
            largest.checked_add(scale.checked_mul(last)?)
        });
        self.form.constant >= 0 && largest.is_some_and(|largest| largest < end)
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
