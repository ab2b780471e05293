//! Arithmetic on dimensions and indices: one simplifier for Relax shapes and TIR index expressions.
//!
//! A dimension is brought into a sum of products of atoms with integer coefficients. An atom is a symbolic variable or
//! an operation that does not distribute (`//`, `%`, `min`, `max`, …) over simplified operands. Integers that do not
//! fit into 64 bits are left as they were written.

use crate::ir::records::prim;
use crate::ir::{Dim, DimExpr, Sym};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Longest sum that is kept in one form.
const MAX_SUM: usize = 1024;
/// Longest sum that is still multiplied out.
const MAX_TERMS: usize = 64;

/// Sum of products: for each sorted list of atoms its coefficient.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Sum {
    terms: BTreeMap<Vec<Atom>, i64>,
}

/// A factor, ordered by its text so that sums have one form.
#[derive(Clone, Debug)]
struct Atom {
    key: String,
    dim: Dim,
}

impl PartialEq for Atom {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}
impl Eq for Atom {}
impl PartialOrd for Atom {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Atom {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key.cmp(&other.key)
    }
}

impl Atom {
    fn new(dim: Dim) -> Atom {
        Atom { key: format!("{dim:?}"), dim }
    }
}

impl Sum {
    fn int(value: i64) -> Sum {
        let mut sum = Sum::default();
        if value != 0 {
            sum.terms.insert(Vec::new(), value);
        }
        sum
    }

    fn atom(dim: Dim) -> Sum {
        Sum { terms: BTreeMap::from([(vec![Atom::new(dim)], 1)]) }
    }

    fn as_int(&self) -> Option<i64> {
        match self.terms.len() {
            0 => Some(0),
            1 => self.terms.get(&Vec::new()).copied(),
            _ => None,
        }
    }

    fn add(mut self, other: &Sum, sign: i64) -> Option<Sum> {
        for (product, coefficient) in &other.terms {
            let entry = self.terms.entry(product.clone()).or_insert(0);
            *entry = entry.checked_add(coefficient.checked_mul(sign)?)?;
            if *entry == 0 {
                self.terms.remove(product);
            }
        }
        (self.terms.len() <= MAX_SUM).then_some(self)
    }

    fn mul(&self, other: &Sum) -> Option<Sum> {
        if self.terms.len() * other.terms.len() > MAX_TERMS {
            return None;
        }
        let mut out = Sum::default();
        for (a, x) in &self.terms {
            for (b, y) in &other.terms {
                let mut product: Vec<Atom> = a.iter().chain(b).cloned().collect();
                product.sort();
                let one = Sum { terms: BTreeMap::from([(product, x.checked_mul(*y)?)]) };
                out = out.add(&one, 1)?;
            }
        }
        Some(out)
    }

    /// Quotient and remainder of the terms by a positive constant, if every coefficient can be split that way.
    fn split(&self, by: i64) -> (Sum, Sum) {
        let (mut whole, mut rest) = (Sum::default(), Sum::default());
        for (product, coefficient) in &self.terms {
            let (q, r) = (coefficient.div_euclid(by), coefficient.rem_euclid(by));
            if r == 0 {
                whole.terms.insert(product.clone(), q);
            } else if product.is_empty() {
                if q != 0 {
                    whole.terms.insert(product.clone(), q);
                }
                rest.terms.insert(product.clone(), r);
            } else {
                rest.terms.insert(product.clone(), *coefficient);
            }
        }
        (whole, rest)
    }

    /// Whether no values of the atoms make it 0, as far as divisibility shows it. Atoms that are no integers show nothing.
    fn never_zero(&self) -> bool {
        let mut divisor: u64 = 0;
        for (product, coefficient) in &self.terms {
            if product.iter().any(|atom| !atom.dim.dtype().is_int()) {
                return false;
            }
            if !product.is_empty() {
                divisor = gcd(divisor, coefficient.unsigned_abs());
            }
        }
        let constant = self.terms.get(&Vec::new()).copied().unwrap_or(0);
        divisor > 1 && !constant.unsigned_abs().is_multiple_of(divisor)
    }

    fn to_dim(&self) -> Dim {
        let mut out: Option<Dim> = None;
        let (constant, products): (Vec<_>, Vec<_>) = self.terms.iter().partition(|(product, _)| product.is_empty());
        for (product, coefficient) in products.into_iter().chain(constant) {
            let mut factors = product.iter().map(|atom| atom.dim.clone());
            let magnitude = coefficient.checked_abs().unwrap_or(*coefficient);
            let negative = magnitude != *coefficient;
            let subtract = negative && out.is_some();
            let shown = if subtract { magnitude } else { *coefficient };
            let term = match factors.next() {
                None => Dim::Int(shown),
                Some(first) => {
                    let product = factors.fold(first, |a, b| Dim::binary(prim::MUL, a, b));
                    if shown == 1 { product } else { Dim::binary(prim::MUL, product, Dim::Int(shown)) }
                }
            };
            out = Some(match out {
                None => term,
                Some(sum) => Dim::binary(if subtract { prim::SUB } else { prim::ADD }, sum, term),
            });
        }
        out.unwrap_or(Dim::Int(0))
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The sum that a dimension is; `None` where 64 bits or the cap on terms do not suffice.
fn sum(dim: &Dim) -> Option<Sum> {
    match dim {
        Dim::Int(v) => Some(Sum::int(*v)),
        Dim::Var(_) => Some(Sum::atom(dim.clone())),
        Dim::Expr(e) => match &**e {
            DimExpr::Int(v, _) => Some(Sum::int(*v)),
            DimExpr::Float(..) => Some(Sum::atom(dim.clone())),
            DimExpr::Unary(op, t, a) => Some(Sum::atom(Dim::Expr(Arc::new(DimExpr::Unary(*op, *t, simplify(a)))))),
            // The sum so far is added to, not copied: long sums are nested to the left.
            DimExpr::Binary(prim::ADD, _, a, b) => sum(a)?.add(&sum(b)?, 1),
            DimExpr::Binary(prim::SUB, _, a, b) => sum(a)?.add(&sum(b)?, -1),
            DimExpr::Binary(op, t, a, b) => binary(*op, *t, &sum(a)?, &sum(b)?),
        },
    }
}

fn binary(op: u16, dtype: crate::ir::DType, a: &Sum, b: &Sum) -> Option<Sum> {
    let opaque =
        |a: &Sum, b: &Sum| Some(Sum::atom(Dim::Expr(Arc::new(DimExpr::Binary(op, dtype, a.to_dim(), b.to_dim())))));
    match (op, a.as_int(), b.as_int()) {
        (prim::ADD, ..) => a.clone().add(b, 1),
        (prim::SUB, ..) => a.clone().add(b, -1),
        (prim::MUL, ..) => a.mul(b),
        (_, Some(x), Some(y)) if fold(op, x, y).is_some() => fold(op, x, y).map(Sum::int),
        (prim::FLOORDIV, _, Some(1)) => Some(a.clone()),
        (prim::FLOORMOD, _, Some(1)) => Some(Sum::int(0)),
        (prim::FLOORDIV, _, Some(by)) if by > 1 => {
            let (whole, rest) = a.split(by);
            match rest.as_int() {
                Some(_) => Some(whole),
                None => whole.add(&opaque(&rest, b)?, 1),
            }
        }
        (prim::FLOORMOD, _, Some(by)) if by > 1 => {
            let (_, rest) = a.split(by);
            match rest.as_int() {
                Some(rest) => Some(Sum::int(rest)),
                None => opaque(&rest, b),
            }
        }
        (prim::MIN | prim::MAX, ..) if a == b => Some(a.clone()),
        (prim::MIN | prim::MAX, ..) => match a.clone().add(b, -1)?.as_int() {
            Some(difference) => Some(if (difference < 0) == (op == prim::MIN) { a.clone() } else { b.clone() }),
            None => opaque(a, b),
        },
        _ => opaque(a, b),
    }
}

/// Value of an operation on integers; `None` where it has none.
pub fn fold(op: u16, a: i64, b: i64) -> Option<i64> {
    let truth = |v: bool| Some(i64::from(v));
    match op {
        prim::ADD => a.checked_add(b),
        prim::SUB => a.checked_sub(b),
        prim::MUL => a.checked_mul(b),
        prim::FLOORDIV => {
            let q = a.checked_div(b)?;
            Some(if a % b != 0 && (a < 0) != (b < 0) { q - 1 } else { q })
        }
        prim::FLOORMOD => {
            let r = a.checked_rem(b)?;
            Some(if r != 0 && (r < 0) != (b < 0) { r + b } else { r })
        }
        prim::TRUNCDIV => a.checked_div(b),
        prim::TRUNCMOD => a.checked_rem(b),
        prim::MIN => Some(a.min(b)),
        prim::MAX => Some(a.max(b)),
        prim::EQ => truth(a == b),
        prim::NE => truth(a != b),
        prim::LT => truth(a < b),
        prim::LE => truth(a <= b),
        prim::GT => truth(a > b),
        prim::GE => truth(a >= b),
        prim::AND => truth(a != 0 && b != 0),
        prim::OR => truth(a != 0 || b != 0),
        _ => None,
    }
}

/// The same dimension in one form: equal sums of products come out equal.
pub fn simplify(dim: &Dim) -> Dim {
    match dim {
        Dim::Int(_) | Dim::Var(_) => dim.clone(),
        Dim::Expr(_) => sum(dim).map_or_else(|| dim.clone(), |sum| sum.to_dim()),
    }
}

/// Whether two dimensions are equal for all values of their variables (`Some(true)`), for none (`Some(false)`), or
/// neither is known.
pub fn prove_equal(a: &Dim, b: &Dim) -> Option<bool> {
    if a == b {
        return Some(true);
    }
    if let (Some(x), Some(y)) = (a.as_int(), b.as_int()) {
        return Some(x == y);
    }
    let difference = sum(a)?.add(&sum(b)?, -1)?;
    match difference.as_int() {
        Some(0) => Some(true),
        Some(_) => Some(false),
        // 4 * n + 8 * m is never 6: the constant is no multiple of what divides all other terms.
        None => difference.never_zero().then_some(false),
    }
}

/// Product of dimensions, simplified; 1 of none.
pub fn product<'a>(dims: impl IntoIterator<Item = &'a Dim>) -> Dim {
    let mut whole = Some(1i64);
    let mut out: Option<Dim> = None;
    for dim in dims {
        match dim.as_int() {
            Some(v) => whole = whole.and_then(|whole| whole.checked_mul(v)),
            None => {
                out = Some(match out {
                    None => dim.clone(),
                    Some(out) => Dim::binary(prim::MUL, out, dim.clone()),
                });
            }
        }
    }
    match (out, whole) {
        (None, Some(whole)) => Dim::Int(whole),
        (Some(out), Some(1)) => simplify(&out),
        (Some(out), Some(whole)) => simplify(&Dim::binary(prim::MUL, out, Dim::Int(whole))),
        // Too large for 64 bits: no tensor has so many elements.
        (_, None) => Dim::Int(i64::MAX),
    }
}

/// An operation on two dimensions, simplified.
pub fn apply(op: u16, a: &Dim, b: &Dim) -> Dim {
    match (a.as_int(), b.as_int()) {
        (Some(x), Some(y)) if fold(op, x, y).is_some() => Dim::Int(fold(op, x, y).unwrap_or(0)),
        _ => simplify(&Dim::binary(op, a.clone(), b.clone())),
    }
}

/// The dimension with variables replaced; those for which `with` gives `None` stay.
pub fn substitute(dim: &Dim, with: &impl Fn(Sym) -> Option<Dim>) -> Dim {
    match dim {
        Dim::Int(_) => dim.clone(),
        Dim::Var(sym) => with(*sym).unwrap_or_else(|| dim.clone()),
        Dim::Expr(e) => match &**e {
            DimExpr::Int(..) | DimExpr::Float(..) => dim.clone(),
            DimExpr::Unary(op, t, a) => Dim::Expr(Arc::new(DimExpr::Unary(*op, *t, substitute(a, with)))),
            DimExpr::Binary(op, t, a, b) => {
                Dim::Expr(Arc::new(DimExpr::Binary(*op, *t, substitute(a, with), substitute(b, with))))
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::DType;
    use proptest::prelude::*;

    fn var(id: u32) -> Dim {
        Dim::Var(Sym { id, dtype: DType::I64 })
    }

    fn value(dim: &Dim, vars: &[i64]) -> Option<i64> {
        match dim {
            Dim::Int(v) => Some(*v),
            Dim::Var(sym) => vars.get(sym.id as usize).copied(),
            Dim::Expr(e) => match &**e {
                DimExpr::Int(v, _) => Some(*v),
                DimExpr::Binary(op, _, a, b) => fold(*op, value(a, vars)?, value(b, vars)?),
                _ => None,
            },
        }
    }

    fn dims() -> impl Strategy<Value = Dim> {
        let leaf = prop_oneof![(-9i64..10).prop_map(Dim::Int), (0u32..3).prop_map(var)];
        leaf.prop_recursive(4, 24, 2, |inner| {
            (prim::ADD..=prim::MAX, inner.clone(), inner).prop_map(|(op, a, b)| Dim::binary(op, a, b))
        })
    }

    proptest! {
        #[test]
        fn simplified_dimensions_have_the_same_value(dim in dims(), vars in proptest::array::uniform3(1i64..40)) {
            if let Some(expected) = value(&dim, &vars) {
                prop_assert_eq!(value(&simplify(&dim), &vars), Some(expected), "{:?}", simplify(&dim));
            }
        }

        #[test]
        fn proofs_hold(a in dims(), b in dims(), vars in proptest::array::uniform3(1i64..40)) {
            if let (Some(proof), Some(x), Some(y)) = (prove_equal(&a, &b), value(&a, &vars), value(&b, &vars)) {
                prop_assert_eq!(proof, x == y);
            }
        }
    }

    #[test]
    fn sums_have_one_form() {
        let (n, m) = (var(0), var(1));
        let a = Dim::binary(prim::ADD, n.clone(), m.clone());
        let b = Dim::binary(prim::ADD, m.clone(), n.clone());
        assert_eq!(prove_equal(&a, &b), Some(true));
        let twice = Dim::binary(prim::MUL, n.clone(), Dim::Int(2));
        assert_eq!(prove_equal(&Dim::binary(prim::FLOORDIV, twice, Dim::Int(2)), &n), Some(true));
        assert_eq!(prove_equal(&n, &m), None);
        let times = |dim: &Dim, by| Dim::binary(prim::MUL, dim.clone(), Dim::Int(by));
        let even = Dim::binary(prim::ADD, times(&n, 4), times(&m, 6));
        assert_eq!(prove_equal(&even, &Dim::Int(7)), Some(false));
        assert_eq!(prove_equal(&even, &Dim::Int(8)), None);
        assert_eq!(prove_equal(&n, &Dim::binary(prim::ADD, n.clone(), Dim::Int(1))), Some(false));
    }
}
