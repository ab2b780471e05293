//! Collects the constants in the code before and after a pass. Extents and values near them reach both sides of its conditions.

use crate::run::validate::units::{Unit, reach};
use passhost_lang::ir::DimExpr;
use passhost_lang::ir::{Body, BodyKind, Dim, Module, Type};
use std::collections::BTreeSet;

/// Constants of a function and all functions that it calls.
#[derive(Clone, Debug, Default)]
pub(in crate::run::validate) struct Constants {
    /// Integers that may bound an extent. Constants that occur only before or only after the pass come first.
    pub(in crate::run::validate) extents: Vec<i64>,
    /// All numbers that values are compared or computed with.
    pub(in crate::run::validate) values: Vec<f64>,
}

/// Maximum extent that is tried, because larger ones take too long.
const LARGEST: i64 = 1 << 12;
/// Maximum number of values.
const MOST: usize = 32;

impl Constants {
    /// Collects the constants of a function on both sides of a pass.
    pub(in crate::run::validate) fn of(before: &Module, after: &Module, unit: &Unit) -> Constants {
        let [before, after] = [before, after].map(|module| Numbers::of(module, unit.name()));
        let is_extent = |n: &i64| (2..=LARGEST).contains(n);
        let new = before.integers.symmetric_difference(&after.integers).copied();
        let shared = before.integers.intersection(&after.integers).copied();
        let extents = new.filter(is_extent).chain(shared.filter(is_extent)).collect();
        let integers = before.integers.union(&after.integers).map(|n| *n as f64);
        let floats = before.floats.union(&after.floats).map(|bits| f64::from_bits(*bits));
        let mut values: Vec<f64> = floats.chain(integers).filter(|value| value.is_finite()).take(MOST).collect();
        let derived = derived(&values);
        // At least every second value is an original constant.
        let times = if values.is_empty() { 0 } else { derived.len().div_ceil(values.len()).max(1) };
        values = values.repeat(times).into_iter().chain(derived).collect();
        Constants { extents, values }
    }

    /// Returns at most `most` extents at which a condition on a product of constants or on the square of an extent changes.
    pub(in crate::run::validate) fn derived_extents(&self, most: usize) -> Vec<i64> {
        let mut out = Vec::new();
        for (at, a) in self.extents.iter().enumerate().take(FEW) {
            let products = self.extents[at..].iter().take(FEW).map(|b| a * b);
            out.extend(products.flat_map(|n| [n + 1, n]).filter(|n| *n <= LARGEST));
        }
        let roots =
            self.values.iter().filter(|value| (16.0..1e7).contains(*value)).map(|value| value.sqrt() as i64 + 1);
        let mut out: Vec<i64> = roots.chain(out).filter(|n| !self.extents.contains(n)).collect();
        let mut seen = BTreeSet::new();
        out.retain(|n| seen.insert(*n));
        out.truncate(most);
        out
    }
}

/// Returns values that conditions on sums, products and powers compare with: numbers between two constants, their sum, product and quotient,
/// and roots.
fn derived(constants: &[f64]) -> Vec<f64> {
    let some: Vec<f64> =
        constants.iter().copied().filter(|value| value.abs() > 1.0 || value.fract() != 0.0).take(FEW).collect();
    let mut out = Vec::new();
    for (at, a) in some.iter().enumerate() {
        out.extend([a.abs().sqrt(), -a]);
        for b in &some[at + 1..] {
            out.extend([(a + b) / 2.0, a + b, a * b, a / b, b / a]);
        }
    }
    out.retain(|value| value.is_finite() && !constants.contains(value));
    out.truncate(MOST);
    out
}

/// Number of constants that are combined in pairs.
const FEW: usize = 5;

/// The numbers in some functions; floats as bits.
#[derive(Default)]
struct Numbers {
    integers: BTreeSet<i64>,
    floats: BTreeSet<u64>,
}

impl Numbers {
    fn of(module: &Module, name: &str) -> Numbers {
        let mut out = Numbers::default();
        for body in reach(module, name).into_iter().filter_map(|name| module.get(name)) {
            out.body(body);
        }
        out
    }

    fn body(&mut self, body: &Body) {
        for operand in body.values().flat_map(|value| value.operands()).filter(|operand| operand.is_leaf()) {
            operand.dim().iter().for_each(|dim| self.dim(dim));
            operand.dims().iter().flatten().for_each(|dim| self.dim(dim));
        }
        // The types of a Relax function contain the extents of the loops that it is lowered to.
        if body.kind() == BodyKind::Function {
            for value in body.values() {
                if let Type::Tensor(ty) = value.ty().to_owned() {
                    ty.shape.iter().flatten().filter(|dim| dim.as_int().is_none()).for_each(|dim| self.dim(dim));
                }
            }
        }
    }

    fn dim(&mut self, dim: &Dim) {
        let mut work = vec![dim];
        while let Some(dim) = work.pop() {
            let expr = match dim {
                Dim::Int(value) => {
                    self.integers.insert(*value);
                    continue;
                }
                Dim::Var(_) => continue,
                Dim::Expr(expr) => expr,
            };
            match &**expr {
                DimExpr::Int(value, _) => drop(self.integers.insert(*value)),
                DimExpr::Float(bits, _) => drop(self.floats.insert(*bits)),
                DimExpr::Binary(_, _, a, b) => work.extend([a, b]),
                DimExpr::Unary(_, _, a) => work.push(a),
            }
        }
    }
}
