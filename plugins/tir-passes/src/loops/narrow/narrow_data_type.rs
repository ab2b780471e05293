//! Narrows indices to a smaller integer type if their values fit.
//!
//! *Expects* any PrimFunc. *Keeps* parameters, and variables with a use that does not fit. *Never* widens a type.

use super::narrowing::{Narrow, Widths};
use plugin_api::arith::{Analyzer, Bounds};
use plugin_api::prelude::*;
use plugin_api::tir::TirRewrite;
use std::collections::HashMap;

declare_pass! {
    /// Converts indices to a narrower integer type where their values fit into it.
    ///
    /// Loop variables, thread variables and block iterators are narrowed to `target_bits` if all expressions that use
    /// them fit; so are numbers in indices and shapes. Expects any PrimFunc. Keeps parameters.
    ///
    /// ```relax before
    /// @T.prim_func(s_tir=True)
    /// def main(A: T.Buffer((T.int64(64),), "float32")):
    ///     for i in range(T.int64(8)):
    ///         A[i * T.int64(8)] = T.float32(1)
    /// ```
    /// ```relax after
    /// @T.prim_func(s_tir=True)
    /// def main(A: T.Buffer((T.int64(64),), "float32")):
    ///     for i in range(8):
    ///         A[i * 8] = T.float32(1)
    /// ```
    pub prim_func pass NARROW_DATA_TYPE = "tirx.NarrowDataType" {
        opt_level: 0,
        options: Options {
            /// Bits of the narrower type.
            target_bits: i64 in [8, 16, 32] = 32,
        },
        run: narrow_data_type,
    }
}

fn narrow_data_type(body: &Body, options: &Options, _: &Ctx) -> Result<Body, PassError> {
    let mut fits = Fits::of(body, options.target_bits as u8);
    fits.content(body.root());
    Narrow::new(fits).rewrite(body)
}

/// The variables that fit into the target type.
struct Fits<'b> {
    target: u8,
    analyzer: Analyzer,
    /// The bits of each variable that may be narrowed: the maximum for its extent, and the number that its uses need.
    vars: HashMap<Value<'b>, (u8, u8)>,
}

impl<'b> Fits<'b> {
    fn of(body: &'b Body, target: u8) -> Fits<'b> {
        Fits { target, analyzer: Analyzer::of_body(body), vars: HashMap::new() }
    }

    fn content(&mut self, stmt: Value<'b>) {
        for child in stmt.region().children().filter(|child| !child.is_nested()) {
            if let Some((var, extent)) = ranged(child) {
                self.vars.insert(var, (extent.ty().dtype().bits(), 0));
            }
            for operand in child.operands() {
                self.expr(operand, self.target);
            }
            self.content(child);
        }
    }

    /// Records the bits that the variables of an expression need, inside expressions that need `around`.
    fn expr(&mut self, expr: Value<'b>, around: u8) {
        let bits = self.bits(expr, around);
        if let Some((_, needed)) = self.vars.get_mut(&expr) {
            *needed = (*needed).max(bits);
        }
        let inner = if matches!(expr.view(), Expr::Load { .. }) { self.target } else { bits };
        for operand in expr.operands().filter(|_| expr.is_nested()) {
            self.expr(operand, inner);
        }
    }

    /// Returns true if all values of an index fit into the target type. For a ramp, the first and last elements are
    /// checked.
    fn fits(&mut self, index: Value<'b>) -> bool {
        let holds = Bounds::of_dtype(DType::new(DType::I32.code(), self.target, 1));
        let all = |bounds: Bounds| holds.contains(bounds.min) && holds.contains(bounds.max);
        let Expr::Ramp { base, stride, lanes } = index.view() else { return all(self.analyzer.index_bounds(index)) };
        let Some(lanes) = lanes.dim().and_then(|lanes| lanes.as_int()) else { return false };
        let (first, step) = (self.analyzer.index_bounds(base), self.analyzer.index_bounds(stride));
        let last = |first: i64, step: i64| first.saturating_add(step.saturating_mul(lanes - 1));
        all(first) && all(Bounds::of(last(first.min, step.min), last(first.max, step.max)))
    }
}

impl<'b> Widths<'b> for Fits<'b> {
    fn bits(&mut self, expr: Value<'b>, around: u8) -> u8 {
        let dtype = expr.ty().dtype();
        if dtype.code() != DType::I32.code() {
            return around;
        }
        if dtype.bits() <= self.target || self.fits(expr) { around } else { 64 }
    }

    fn of_var(&self, var: Value<'b>) -> Option<u8> {
        let (most, needed) = self.vars.get(&var).copied().filter(|(_, needed)| *needed > 0)?;
        Some(most.min(needed)).filter(|bits| *bits != var.ty().dtype().bits())
    }

    fn of_number(&self, dtype: DType, bits: u8) -> u8 {
        dtype.bits().min(bits)
    }

    fn target(&self) -> u8 {
        self.target
    }
}

/// Returns the variable of a loop, thread or block iterator, and its extent.
pub(super) fn ranged(stmt: Value<'_>) -> Option<(Value<'_>, Value<'_>)> {
    match stmt.stmt() {
        Some(Stmt::For { var, extent, .. }) => Some((var, extent)),
        Some(Stmt::Launch { extent, .. }) => {
            let var = stmt.operand(1).or_else(|| stmt.region().children().next())?;
            Some((var, extent))
        }
        _ => stmt.as_block_iter().map(|iter| (iter.var, iter.extent)),
    }
}
