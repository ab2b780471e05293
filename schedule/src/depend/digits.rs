//! Determines the variables that an index identifies, by treating the index as a number with digits: `i * 8 + j` with `j < 8` identifies
//! both `i` and `j`.

use passhost_lang::arith::{Analyzer, substitute, unused_symbol};
use passhost_lang::ir::{Dim, DimExpr, Sym};
use passhost_lang::scalar::PrimOp;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Maximum number of divisions by something that is not constant.
const MOST_SPLITS: u16 = 4;

/// A variable that starts at 0, and its number of values if constant.
#[derive(Clone, Debug)]
pub(crate) struct Runs {
    pub(crate) sym: Sym,
    pub(crate) extent: Option<i64>,
}

/// Indices rewritten without quotients and remainders of variables. It contains the expressions of all indices, because a digit is
/// determined by several of them together; [`Analyzer::linear_form`] returns the linear form of one.
pub(crate) struct Digits {
    analyzer: Analyzer,
    dims: Vec<Dim>,
    digits: Vec<Runs>,
    /// The variable to which each digit belongs.
    of: Vec<usize>,
    /// True if every combination of digits corresponds to a value of the variables.
    exact: bool,
    n_vars: usize,
    /// Variables that two digits have replaced.
    split: Vec<Sym>,
}

impl Digits {
    /// Splits `dims` into digits of `vars`; other variables are treated as constant.
    pub(crate) fn new(dims: &[Dim], vars: &[Runs]) -> Digits {
        let (digits, of, n_vars) = (Vec::new(), Vec::new(), vars.len());
        let mut out = Digits {
            analyzer: Analyzer::new(),
            dims: dims.to_vec(),
            digits,
            of,
            exact: true,
            n_vars,
            split: Vec::new(),
        };
        let mut meanings = Vec::new();
        for (at, var) in vars.iter().enumerate() {
            meanings.push((var.sym, out.open(at, var, dims)));
        }
        let meaning = |sym: Sym| meanings.iter().find(|(var, _)| var.id == sym.id).map(|(_, dim)| dim.clone());
        out.dims = dims.iter().map(|dim| out.analyzer.simplify(&substitute(dim, &meaning))).collect();
        out.open_by_extents();
        out
    }

    /// Splits digits that are divided by something that is not constant into the quotient and the remainder.
    fn open_by_extents(&mut self) {
        for n in 0..MOST_SPLITS {
            let syms = self.syms();
            let divisor = |of: Sym| self.dims.iter().find_map(|dim| divisor(dim, of, &syms));
            let Some((at, by)) = syms.iter().enumerate().find_map(|(at, of)| Some((at, divisor(*of)?))) else { return };
            let (old, of) = (self.digits[at].sym, self.of[at]);
            // The numbers of the other digits are less than this.
            let parts = [1, 2].map(|k| unused_symbol(u16::MAX - 2 * n - k, old.dtype));
            self.split.push(old);
            self.dims = self.dims.iter().map(|dim| split(dim, old, &by, parts)).collect();
            self.digits[at] = Runs { sym: parts[0], extent: None };
            self.digits.push(Runs { sym: parts[1], extent: None });
            self.of.push(of);
            self.exact = false;
        }
    }

    fn syms(&self) -> Vec<Sym> {
        self.digits.iter().map(|digit| digit.sym).collect()
    }

    /// Splits a variable into digits, and returns the variable as an expression in these digits.
    fn open(&mut self, at: usize, var: &Runs, dims: &[Dim]) -> Dim {
        let mut points = BTreeSet::new();
        dims.iter().for_each(|dim| breaks(dim, var.sym, &mut points));
        let points: Vec<i64> = points.into_iter().filter(|c| *c > 1 && var.extent.is_none_or(|e| *c < e)).collect();
        let divides = points.windows(2).all(|pair| pair[1] % pair[0] == 0);
        if points.is_empty() || !divides {
            return self.digit(at, var.sym, var.extent);
        }
        let (mut sum, mut by) = (Dim::int(0, var.sym.dtype), 1);
        for point in points {
            let sym = unused_symbol(self.digits.len() as u16, var.sym.dtype);
            let digit = self.digit(at, sym, Some(point / by));
            sum = sum + digit * by;
            by = point;
        }
        self.exact &= var.extent.is_some_and(|extent| extent % by == 0);
        let sym = unused_symbol(self.digits.len() as u16, var.sym.dtype);
        let top = self.digit(at, sym, var.extent.map(|extent| (extent + by - 1) / by));
        sum + top * by
    }

    fn digit(&mut self, of: usize, sym: Sym, extent: Option<i64>) -> Dim {
        if let Some(extent) = extent {
            self.analyzer.bind_range(sym, &Dim::int(0, sym.dtype), &Dim::int(extent, sym.dtype));
        }
        self.digits.push(Runs { sym, extent });
        self.of.push(of);
        Dim::Var(sym)
    }

    /// Returns the digits in an index with their factors, the smallest factor first; `None` if the index is not a sum
    /// of digits.
    fn terms(&mut self, dim: usize) -> Option<Vec<(usize, i64)>> {
        if mentions_any(&self.dims[dim], &self.split) {
            return None;
        }
        let syms = self.syms();
        let form = self.analyzer.linear_form(&self.dims[dim], &syms)?;
        let mut terms = Vec::new();
        for (at, (_, coefficient)) in form.terms.iter().enumerate() {
            match coefficient.as_int()? {
                0 => {}
                _ if self.digits[at].extent == Some(1) => {}
                by => terms.push((at, by.checked_abs()?)),
            }
        }
        terms.sort_by_key(|(at, by)| (*by, self.digits[*at].extent.is_none()));
        Some(terms)
    }

    /// Returns, for each variable, true if the indices determine its value. A variable with a single value is always determined.
    pub(crate) fn told(mut self) -> Vec<bool> {
        let mut told: Vec<bool> = self.digits.iter().map(|digit| digit.extent == Some(1)).collect();
        let all: Vec<_> = (0..self.dims.len()).filter_map(|dim| self.terms(dim)).collect();
        let mut changed = true;
        while changed {
            changed = false;
            for terms in &all {
                let open: Vec<(usize, i64)> = terms.iter().filter(|(at, _)| !told[*at]).copied().collect();
                if !open.is_empty() && self.apart(&open) {
                    open.iter().for_each(|(at, _)| told[*at] = true);
                    changed = true;
                }
            }
        }
        (0..self.n_vars).map(|var| self.of.iter().zip(&told).all(|(of, told)| *of != var || *told)).collect()
    }

    /// Returns true if a sum of these digits determines each digit, that is, if each factor exceeds the maximum of the terms with smaller
    /// factors.
    fn apart(&self, terms: &[(usize, i64)]) -> bool {
        let mut most: Option<i64> = Some(0);
        for (at, by) in terms {
            if most.is_none_or(|most| *by <= most) {
                return false;
            }
            let steps = self.digits[*at].extent.map(|extent| (extent - 1).max(0));
            most = most.and_then(|most| most.checked_add(by.checked_mul(steps?)?));
        }
        true
    }

    /// Returns true if the indices take every value between their least and greatest values.
    pub(crate) fn dense(mut self) -> bool {
        let mut used = vec![false; self.digits.len()];
        for dim in 0..self.dims.len() {
            let Some(terms) = self.terms(dim) else { return false };
            let mut step = Some(1);
            for (at, by) in terms {
                if step != Some(by) || std::mem::replace(&mut used[at], true) {
                    return false;
                }
                step = self.digits[at].extent.and_then(|extent| by.checked_mul(extent));
            }
        }
        self.exact
    }
}

/// Returns an expression without digits that divides a digit.
fn divisor(dim: &Dim, of: Sym, digits: &[Sym]) -> Option<Dim> {
    let Dim::Expr(expr) = dim else { return None };
    match &**expr {
        DimExpr::Binary(PrimOp::FloorDiv | PrimOp::FloorMod, _, Dim::Var(var), by)
            if var.id == of.id && by.as_int().is_none() && !mentions_any(by, digits) =>
        {
            Some(by.clone())
        }
        DimExpr::Binary(_, _, a, b) => divisor(a, of, digits).or_else(|| divisor(b, of, digits)),
        DimExpr::Unary(_, _, a) => divisor(a, of, digits),
        DimExpr::Int(..) | DimExpr::Float(..) => None,
    }
}

/// Returns true if an expression mentions one of these variables.
pub(super) fn mentions_any(dim: &Dim, vars: &[Sym]) -> bool {
    let mut found = false;
    dim.vars(&mut |sym| found |= vars.iter().any(|var| var.id == sym.id));
    found
}

/// Replaces the quotient and the remainder of a variable by `by` with two variables. Other uses of the variable stay.
fn split(dim: &Dim, of: Sym, by: &Dim, [quotient, remainder]: [Sym; 2]) -> Dim {
    let Dim::Expr(expr) = dim else { return dim.clone() };
    let inner = |dim: &Dim| split(dim, of, by, [quotient, remainder]);
    Dim::Expr(Arc::new(match &**expr {
        DimExpr::Binary(PrimOp::FloorDiv, _, Dim::Var(var), c) if var.id == of.id && c == by => {
            return Dim::Var(quotient);
        }
        DimExpr::Binary(PrimOp::FloorMod, _, Dim::Var(var), c) if var.id == of.id && c == by => {
            return Dim::Var(remainder);
        }
        DimExpr::Binary(op, dtype, a, b) => DimExpr::Binary(*op, *dtype, inner(a), inner(b)),
        DimExpr::Unary(op, dtype, a) => DimExpr::Unary(*op, *dtype, inner(a)),
        DimExpr::Int(..) | DimExpr::Float(..) => return dim.clone(),
    }))
}

/// Collects the numbers by which a variable is divided.
fn breaks(dim: &Dim, sym: Sym, out: &mut BTreeSet<i64>) {
    let Dim::Expr(expr) = dim else { return };
    match &**expr {
        DimExpr::Binary(op, _, a, b) => {
            if let (PrimOp::FloorDiv | PrimOp::FloorMod, Some(by)) = (*op, b.as_int().filter(|by| *by > 0)) {
                match a {
                    Dim::Var(var) if var.id == sym.id => out.extend([by]),
                    _ => match quotient(a) {
                        Some((PrimOp::FloorDiv, var, c)) if var.id == sym.id => out.extend([c, c.saturating_mul(by)]),
                        Some((PrimOp::FloorMod, var, c)) if var.id == sym.id => out.extend([c, by]),
                        _ => {}
                    },
                }
            }
            breaks(a, sym, out);
            breaks(b, sym, out);
        }
        DimExpr::Unary(_, _, a) => breaks(a, sym, out),
        DimExpr::Int(..) | DimExpr::Float(..) => {}
    }
}

/// Returns the parts of a quotient or remainder of a variable by a number.
fn quotient(dim: &Dim) -> Option<(PrimOp, Sym, i64)> {
    let Dim::Expr(expr) = dim else { return None };
    match &**expr {
        DimExpr::Binary(op @ (PrimOp::FloorDiv | PrimOp::FloorMod), _, Dim::Var(var), by) => {
            Some((*op, *var, by.as_int().filter(|by| *by > 0)?))
        }
        _ => None,
    }
}
