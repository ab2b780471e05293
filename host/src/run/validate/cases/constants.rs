//! The constants of the code before and after a pass: extents and values that lie around them decide which way it goes.

use crate::run::validate::units::{Unit, reach};
use plugin_api::ir::DimExpr;
use plugin_api::prelude::{Body, BodyKind, Dim, Module, Type};
use std::collections::BTreeSet;

/// Constants of the functions that a function reaches.
#[derive(Clone, Debug, Default)]
pub(in crate::run::validate) struct Constants {
    /// Integers that may bound an extent, those that only one side has first.
    pub(in crate::run::validate) extents: Vec<i64>,
    /// All numbers that values are compared or computed with.
    pub(in crate::run::validate) values: Vec<f64>,
}

/// Extents that are looked at: larger ones take too long.
const LARGEST: i64 = 1 << 12;
/// Most values.
const MOST: usize = 32;

impl Constants {
    /// Of a function on both sides of a pass.
    pub(in crate::run::validate) fn of(before: &Module, after: &Module, unit: &Unit) -> Constants {
        let [before, after] = [before, after].map(|module| Numbers::of(module, unit.name()));
        let is_extent = |n: &i64| (2..=LARGEST).contains(n);
        let new = before.integers.symmetric_difference(&after.integers).copied();
        let shared = before.integers.intersection(&after.integers).copied();
        let extents = new.filter(is_extent).chain(shared.filter(is_extent)).collect();
        let integers = before.integers.union(&after.integers).map(|n| *n as f64);
        let floats = before.floats.union(&after.floats).map(|bits| f64::from_bits(*bits));
        let values = floats.chain(integers).filter(|value| value.is_finite()).take(MOST).collect();
        Constants { extents, values }
    }
}

/// The numbers of some functions; floats by their bits.
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
        // Extents of the loops that a Relax function stands for are in its types.
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
