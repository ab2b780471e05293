//! Linear forms as TVM writes them: positive terms in their original order, then a positive number, then subtracted terms, and a negative
//! number last.

pub use crate::arith::cast;
use crate::arith::{Analyzer, of_one_type};
use crate::ir::{DType, Dim, DimExpr};
use crate::scalar::{self, Coefficient, PrimOp};

/// A linear form of an index. No atom is a sum or a multiple of an expression.
pub type Linear = scalar::Linear<Dim, i128>;

impl Linear {
    /// Converts an expression to a sum. Matching quotients and remainders are joined into the original expression. The sum is a single term
    /// if a number does not fit in 128 bits.
    pub fn of(dim: &Dim) -> Linear {
        Linear::and_whether_joined(dim).0
    }

    /// Converts an expression to a sum; also returns true if quotients and remainders were joined.
    pub fn and_whether_joined(dim: &Dim) -> (Linear, bool) {
        let sum = || {
            let (mut sum, mut joined) = (Linear::constant(0), false);
            sum.add_dim(dim, 1)?;
            while sum.join_quotient_and_remainder()? {
                joined = true;
            }
            Some((sum.without_zeros(), joined))
        };
        sum().unwrap_or_else(|| (Linear::atom(dim.clone()), false))
    }

    /// Adds a multiple of an expression; `None` if a number does not fit in 128 bits.
    pub fn add_dim(&mut self, dim: &Dim, by: i128) -> Option<()> {
        if let Some(number) = dim.as_int() {
            self.constant = self.constant.checked_add(i128::from(number).checked_mul(by)?)?;
            return Some(());
        }
        if let Some(wide) = widened(dim) {
            return self.add_widened(wide, dim.dtype(), by);
        }
        match parts(dim) {
            Some((PrimOp::Add, a, b)) => {
                self.add_dim(a, by)?;
                self.add_dim(b, by)
            }
            Some((PrimOp::Sub, a, b)) => {
                self.add_dim(a, by)?;
                self.add_dim(b, by.checked_neg()?)
            }
            Some((PrimOp::Mul, a, b)) => match (a.as_int(), b.as_int()) {
                (Some(number), _) => self.add_dim(b, by.checked_mul(number.into())?),
                (_, Some(number)) => self.add_dim(a, by.checked_mul(number.into())?),
                _ => self.add_product(a, b, dim.dtype(), by),
            },
            Some((op @ (PrimOp::FloorDiv | PrimOp::FloorMod), ..)) => match Analyzer::new().simplify(dim) {
                simple if parts(&simple).is_some_and(|(found, ..)| found == op) => self.add(simple, by),
                simple => self.add_dim(&simple, by),
            },
            _ => self.add(dim.clone(), by),
        }
    }

    /// Adds a sum with a wider data type: each of its terms is converted.
    fn add_widened(&mut self, dim: &Dim, dtype: DType, by: i128) -> Option<()> {
        let sum = Linear::of(dim).scaled(&by)?;
        self.constant = self.constant.checked_add(sum.constant)?;
        sum.terms.into_iter().try_for_each(|(term, by)| self.add(cast(term, dtype), by))
    }

    /// Adds a product; integer factors of its operands become part of the coefficient.
    fn add_product(&mut self, left: &Dim, right: &Dim, dtype: DType, by: i128) -> Option<()> {
        let part = |dim: &Dim| {
            let sum = Linear::of(dim);
            match sum.as_term() {
                Some((term, by)) => (term.clone(), *by),
                None => (sum.to_dim(dtype).unwrap_or_else(|| dim.clone()), 1),
            }
        };
        let ((a, x), (b, y)) = (part(left), part(right));
        self.add(Dim::binary(PrimOp::Mul, a, b), by.checked_mul(x)?.checked_mul(y)?)
    }

    /// Rewrites `x // c * c + x % c` as `x`, and `x // (c * d) * d + x // c % d` as `x // c`. Returns true if it found
    /// a pair to rewrite.
    fn join_quotient_and_remainder(&mut self) -> Option<bool> {
        for (i, (quotient, by)) in self.terms.iter().enumerate() {
            let Some((PrimOp::FloorDiv, x, divisor)) = parts(quotient) else { continue };
            let joined = self.terms.iter().enumerate().find_map(|(j, (remainder, rest))| {
                let (dim, of) = whole_of(x, divisor.as_int()?, remainder)?;
                (rest.checked_mul(of.into())? == *by).then_some((j, dim, *rest))
            });
            if let Some((j, dim, rest)) = joined {
                let at = i.min(j);
                self.terms.remove(i.max(j));
                self.terms.remove(at);
                let after = self.terms.split_off(at);
                self.add_dim(&dim, rest)?;
                after.into_iter().try_for_each(|(term, by)| self.add(term, by))?;
                return Some(true);
            }
        }
        Some(false)
    }

    /// Returns the expression; `None` if a number does not fit its data type.
    pub fn to_dim(&self, dtype: DType) -> Option<Dim> {
        let fits = |number: &i128| dtype.has_integer(*number) && dtype.has_integer(-*number);
        if !(fits(&self.constant) && self.terms.iter().all(|(_, by)| fits(by))) {
            return None;
        }
        let number = |value: i128| Dim::int(value as i64, dtype);
        let scaled = |term: &Dim, by: i128| mul(term.clone(), number(by));
        let mut out = Dim::int(0, dtype);
        for (term, by) in self.terms.iter().filter(|(_, by)| *by > 0) {
            out = add(out, scaled(term, *by));
        }
        if self.constant > 0 {
            out = add(out, number(self.constant));
        }
        for (term, by) in self.terms.iter().rev().filter(|(_, by)| *by < 0) {
            out = match out.as_int() {
                Some(0) => scaled(term, *by),
                _ => sub(out, scaled(term, -by)),
            };
        }
        Some(if self.constant < 0 { sub(out, number(-self.constant)) } else { out })
    }
}

/// Symbolic coefficients as TVM writes them.
impl Coefficient for Dim {
    fn plus(&self, other: &Dim) -> Option<Dim> {
        Some(add(self.clone(), other.clone()))
    }

    fn minus(&self, other: &Dim) -> Option<Dim> {
        Some(sub(self.clone(), other.clone()))
    }

    fn times(&self, other: &Dim) -> Option<Dim> {
        Some(mul(self.clone(), other.clone()))
    }

    fn negated(&self) -> Option<Dim> {
        Some(sub(Dim::int(0, self.dtype()), self.clone()))
    }

    fn is_zero(&self) -> bool {
        self.as_int() == Some(0)
    }
}

/// Returns the expression that a quotient of `x` and a remainder join to, and the ratio of their coefficients.
fn whole_of(x: &Dim, divisor: i64, remainder: &Dim) -> Option<(Dim, i64)> {
    let (PrimOp::FloorMod, of, modulus) = parts(remainder)? else { return None };
    let modulus = modulus.as_int()?;
    if *of == *x && modulus == divisor {
        return Some((x.clone(), divisor));
    }
    let (PrimOp::FloorDiv, inner, by) = parts(of)? else { return None };
    (*inner == *x && by.as_int()?.checked_mul(modulus)? == divisor).then(|| (of.clone(), modulus))
}

/// Returns the operand of a conversion to a wider integer type.
pub(super) fn widened(dim: &Dim) -> Option<&Dim> {
    match dim {
        Dim::Expr(expr) => match &**expr {
            DimExpr::Unary(PrimOp::Cast, to, of) if to.is_int() && of.dtype().is_int() => {
                Some(of).filter(|of| to.bits() >= of.dtype().bits())
            }
            _ => None,
        },
        _ => None,
    }
}

/// Returns the operation and the operands of a binary integer operation.
pub fn parts(dim: &Dim) -> Option<(PrimOp, &Dim, &Dim)> {
    match dim {
        Dim::Expr(expr) => match &**expr {
            DimExpr::Binary(op, dtype, a, b) if dtype.is_int() => Some((*op, a, b)),
            _ => None,
        },
        _ => None,
    }
}

/// Builds a sum as TVM does: constants are folded, and 0 is omitted.
pub fn add(a: Dim, b: Dim) -> Dim {
    match (a.as_int(), b.as_int()) {
        (Some(0), _) => b,
        (_, Some(0)) => a,
        _ => folded(PrimOp::Add, a, b),
    }
}

/// Builds a difference as TVM does.
pub fn sub(a: Dim, b: Dim) -> Dim {
    if b.as_int() == Some(0) { a } else { folded(PrimOp::Sub, a, b) }
}

/// Builds a product as TVM does: constants are folded, and 1 is omitted.
pub fn mul(a: Dim, b: Dim) -> Dim {
    match (a.as_int(), b.as_int()) {
        (Some(1), _) => b,
        (_, Some(1)) => a,
        (Some(0), _) => a,
        (_, Some(0)) => b,
        _ => folded(PrimOp::Mul, a, b),
    }
}

fn folded(op: PrimOp, a: Dim, b: Dim) -> Dim {
    let (a, b) = of_one_type(a, b);
    let number = a.as_int().zip(b.as_int()).and_then(|(x, y)| op.fold(x, y));
    match number {
        Some(number) => Dim::int(number, a.dtype()),
        None => Dim::binary(op, a, b),
    }
}
