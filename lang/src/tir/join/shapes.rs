//! The values of a joined function's symbolic variables.

use crate::arith::{prove_equal, substitute};
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

    /// Binds variables that stand alone as a dimension.
    pub(super) fn learn(&mut self, shape: &[Dim], other: &[Dim]) {
        for (dim, other) in shape.iter().zip(other) {
            if let Dim::Var(sym) = dim {
                self.bind(*sym, other);
            }
        }
    }

    /// Returns the difference if two shapes cannot be equal. Variables inside larger dimensions are bound by matching expressions of the
    /// same form.
    pub(super) fn check(&mut self, shape: &[Dim], other: &[Dim]) -> Result<(), String> {
        if shape.len() != other.len() {
            return Err(format!("{} dimensions and {}", shape.len(), other.len()));
        }
        match shape.iter().zip(other).position(|(dim, other)| !self.fits(dim, other)) {
            Some(at) => Err(format!("dimension {at} differs")),
            None => Ok(()),
        }
    }

    /// Returns true if two dimensions can be equal, and binds its variables accordingly.
    fn fits(&mut self, dim: &Dim, other: &Dim) -> bool {
        if self.knows_all(dim) {
            let meant = substitute(dim, &|sym| self.dims.get(&sym.id).cloned());
            // Two expressions may be equal although they look different.
            return prove_equal(&meant, other) != Some(false);
        }
        match (dim, other) {
            (Dim::Var(sym), _) => {
                self.bind(*sym, other);
                true
            }
            (Dim::Expr(expr), Dim::Expr(other_expr)) if same_operation(expr, other_expr) => {
                let before = self.dims.clone();
                let pairs = operands(expr).into_iter().zip(operands(other_expr));
                let fits = pairs.fold(true, |fits, (a, b)| self.fits(a, b) && fits);
                // Comparing `n * 2` with `2 * m` must not bind `n` to 2.
                if !fits {
                    self.dims = before;
                }
                fits
            }
            _ => false,
        }
    }

    fn knows_all(&self, dim: &Dim) -> bool {
        let mut known = true;
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
