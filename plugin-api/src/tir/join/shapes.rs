//! What the symbolic variables of a function mean where it is taken over.

use crate::ir::{Dim, DimExpr, Sym};
use std::collections::HashMap;

/// The values of symbolic variables.
#[derive(Default)]
pub(super) struct Shapes {
    dims: HashMap<u32, Dim, foldhash::fast::RandomState>,
}

impl Shapes {
    pub(super) fn bind(&mut self, sym: Sym, dim: &Dim) {
        self.dims.entry(sym.id).or_insert_with(|| dim.clone());
    }

    pub(super) fn get(&self, sym: Sym) -> Option<&Dim> {
        self.dims.get(&sym.id)
    }

    /// Finds variables of a shape in another one that it is equal to.
    pub(super) fn learn(&mut self, shape: &[Dim], other: &[Dim]) {
        for (dim, other) in shape.iter().zip(other) {
            self.fits(dim, other);
        }
    }

    /// Says what differs if a shape cannot be equal to another one.
    pub(super) fn check(&mut self, shape: &[Dim], other: &[Dim]) -> Result<(), String> {
        if shape.len() != other.len() {
            return Err(format!("{} dimensions and {}", shape.len(), other.len()));
        }
        match shape.iter().zip(other).position(|(dim, other)| !self.fits(dim, other)) {
            Some(at) => Err(format!("dimension {at} differs")),
            None => Ok(()),
        }
    }

    /// Whether a dimension can be equal to another one; says what its variables are then.
    fn fits(&mut self, dim: &Dim, other: &Dim) -> bool {
        if let (Some(a), Some(b)) = (dim.as_int(), other.as_int()) {
            return a == b;
        }
        match (dim, other) {
            (Dim::Var(sym), _) => match self.dims.get(&sym.id) {
                // Two expressions may be equal though they look different.
                Some(known) => known.as_int().zip(other.as_int()).is_none_or(|(a, b)| a == b),
                None => {
                    self.bind(*sym, other);
                    true
                }
            },
            (Dim::Expr(expr), Dim::Expr(other_expr)) if same_operation(expr, other_expr) => {
                let pairs = operands(expr).into_iter().zip(operands(other_expr));
                pairs.fold(true, |fits, (a, b)| self.fits(a, b) && fits)
            }
            _ => self.knows_all(dim),
        }
    }

    fn knows_all(&self, dim: &Dim) -> bool {
        let mut known = dim.as_int().is_none();
        dim.vars(&mut |sym| known &= self.dims.contains_key(&sym.id));
        known
    }
}

fn same_operation(a: &DimExpr, b: &DimExpr) -> bool {
    match (a, b) {
        (DimExpr::Binary(a, ..), DimExpr::Binary(b, ..)) | (DimExpr::Unary(a, ..), DimExpr::Unary(b, ..)) => a == b,
        _ => false,
    }
}

fn operands(expr: &DimExpr) -> Vec<&Dim> {
    match expr {
        DimExpr::Binary(_, _, a, b) => vec![a, b],
        DimExpr::Unary(_, _, a) => vec![a],
        _ => Vec::new(),
    }
}
