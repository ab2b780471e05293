//! Makes all indices 32 bits wide.
//!
//! *Expects* PrimFuncs whose integers fit into 32 bits. *Keeps* floats and narrower integers. *Never* changes computed
//! values that fit.

use super::narrow_data_type::ranged;
use super::narrowing::{Narrow, Widths};
use plugin_api::ir::DimExpr;
use plugin_api::prelude::*;
use plugin_api::tir::Again;
use std::collections::HashSet;

declare_pass! {
    /// Makes all indices 32 bits wide: numbers, loops, shapes and parameters.
    ///
    /// Expects PrimFuncs whose integers fit into 32 bits; buffers of wider integers, and numbers that do not fit, are
    /// errors. Floats do not change.
    ///
    /// ```relax before
    /// @T.prim_func(s_tir=True)
    /// def main(A: T.Buffer((T.int64(64),), "float32"), n: T.int64):
    ///     for i in range(n):
    ///         A[i * T.int64(8)] = T.float32(1)
    /// ```
    /// ```relax after
    /// @T.prim_func(s_tir=True)
    /// def main(A: T.Buffer((64,), "float32"), n: T.int32):
    ///     for i in range(n):
    ///         A[i * 8] = T.float32(1)
    /// ```
    pub prim_func pass FORCE_NARROW_INDEX_TO_INT32 = "tirx.ForceNarrowIndexToInt32" {
        opt_level: 0,
        tolerance: Tolerance::Signature,
        run: force_narrow_index_to_int32,
    }
}

fn force_narrow_index_to_int32(body: &Body, _: &Ctx) -> Result<Body, PassError> {
    for value in body.values() {
        fits(value)?;
    }
    let mut used = Used::default();
    used.content(body.root());
    let mut w = Again::start(body);
    let mut narrow = Narrow::new(used);
    for param in body.root().region().children().filter(|value| matches!(value.view(), Expr::Param)) {
        narrow.param(param, &mut w);
    }
    w.content(&mut narrow, body.root())?;
    w.finish()
}

/// Returns an error if a buffer, or a number that a statement or expression uses, does not fit into 32 bits.
fn fits(value: Value<'_>) -> Result<(), PassError> {
    for dim in value.operands().filter_map(|operand| operand.dim()) {
        if let Some(number) = too_large(&dim) {
            bail!("the number {number} does not fit in 32 bits; do not run this pass on this function");
        }
    }
    let Some(ty) = value.as_buffer_type() else { return Ok(()) };
    let name = value.name().unwrap_or("_");
    if ty.dtype.code() == DType::I64.code() && ty.dtype.bits() > 32 {
        bail!("the buffer `{name}` has elements of {}; convert it to `int32` before this pass", ty.dtype);
    }
    match ty.shape.iter().chain(&ty.strides).chain(&ty.elem_offset).find_map(too_large) {
        Some(number) => {
            bail!(
                "the buffer `{name}` has a dimension of {number}, which does not fit in 32 bits; do not run this pass on this function"
            )
        }
        None => Ok(()),
    }
}

/// Returns a number in a dimension that does not fit into 32 bits.
fn too_large(dim: &Dim) -> Option<i64> {
    match dim {
        Dim::Expr(expr) => match &**expr {
            DimExpr::Int(..) | DimExpr::Float(..) => None,
            DimExpr::Unary(_, _, a) => too_large(a),
            DimExpr::Binary(_, _, a, b) => too_large(a).or_else(|| too_large(b)),
        },
        Dim::Int(value) => Some(*value).filter(|value| i32::try_from(*value).is_err()),
        Dim::Var(_) => None,
    }
}

/// Named values used by indices, loop bounds and conditions. All other 64-bit integers become 32-bit regardless.
#[derive(Default)]
struct Used<'b>(HashSet<Value<'b>>);

impl<'b> Used<'b> {
    fn content(&mut self, stmt: Value<'b>) {
        for child in stmt.region().children().filter(|child| !child.is_nested()) {
            let all = ranged(child).is_some() || child.is_access();
            for operand in child.operands() {
                self.expr(operand, all);
            }
            if let Some(Stmt::If { cond }) = child.stmt() {
                self.condition(cond);
            }
            self.indices(child);
            self.content(child);
        }
    }

    /// Adds a condition, in which compared integers are indices.
    fn condition(&mut self, cond: Value<'b>) {
        let compares = matches!(cond.view(), Expr::Arith { op, .. } if op.is_comparison());
        for operand in cond.operands().filter(|_| cond.is_nested()) {
            if compares { self.expr(operand, true) } else { self.condition(operand) }
        }
    }

    fn indices(&mut self, value: Value<'b>) {
        for index in value.as_element_access().into_iter().flat_map(|access| access.indices) {
            self.expr(index, true);
        }
    }

    fn expr(&mut self, expr: Value<'b>, is_index: bool) {
        if is_index && expr.stmt().is_some() && expr.ty().dtype() == DType::I64 {
            self.0.insert(expr);
        }
        if let Expr::Select { cond, .. } = expr.view() {
            self.condition(cond);
        } else if let Some(cond) = expr.as_call_to("tirx.if_then_else").and_then(|call| call.arg(0)) {
            self.condition(cond);
        }
        self.indices(expr);
        for operand in expr.operands().filter(|_| expr.is_nested()) {
            self.expr(operand, is_index);
        }
    }
}

impl<'b> Widths<'b> for Used<'b> {
    fn bits(&mut self, _: Value<'b>, _: u8) -> u8 {
        32
    }

    fn of_var(&self, var: Value<'b>) -> Option<u8> {
        let named = matches!(var.stmt(), Some(Stmt::Bind { .. })) && !self.0.contains(&var);
        (var.ty().dtype() == DType::I64 && !named).then_some(32)
    }

    fn of_number(&self, dtype: DType, _: u8) -> u8 {
        if dtype == DType::I64 { 32 } else { dtype.bits() }
    }

    fn target(&self) -> u8 {
        32
    }

    fn all(&self) -> bool {
        true
    }
}
