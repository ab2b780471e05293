//! Computes constant dimensions, like TVM's parser.

use super::arguments::dtype_of;
use crate::words::diagnostic::Diagnostic;
use crate::words::dtypes::{Extreme, extreme};
use crate::words::folding::{Constant, Folded, folded, wrapped};
use crate::words::syntax::{Read, span};
use passhost_lang::ir::{DType, Dim, DimExpr};
use passhost_lang::scalar::PrimOp;
use ruff_python_ast::Expr;
use std::sync::Arc;

pub(super) fn cast(dtype: DType, value: Dim) -> Dim {
    if value.dtype() == dtype { value } else { Dim::Expr(Arc::new(DimExpr::Unary(PrimOp::Cast, dtype, value))) }
}

/// Returns a float in its data type.
///
/// # Errors
/// Fails at `at` if the value exceeds the range of the type.
pub(super) fn float(value: f64, dtype: DType, at: std::ops::Range<usize>) -> Read<Dim> {
    match dtype.has_float(value) {
        true => Ok(Dim::float(value, dtype)),
        false => Err(Diagnostic::new(at, format!("{value:e} does not fit {dtype}"))),
    }
}

/// Builds `a op b`, folded if TVM folds it.
///
/// # Errors
/// Fails at `at` for a division by zero, or an integer that does not fit in 64 bits.
pub(crate) fn computed(op: PrimOp, a: Dim, b: Dim, at: std::ops::Range<usize>) -> Read<Dim> {
    no_bools(op, &a, &b, &at)?;
    let (a, b) = of_one_type(a, b);
    let dtype = if matches!(a, Dim::Int(_)) { b.dtype() } else { a.dtype() };
    if matches!(op, PrimOp::Min | PrimOp::Max) && matches!((&a, &b), (Dim::Var(a), Dim::Var(b)) if a == b) {
        return Ok(a);
    }
    // If one operand is a float, Python converts integers to floats.
    let (x, y) = match (constant(&a), constant(&b)) {
        (Constant::Int(x), Constant::Float(y)) => (Constant::Float(x as f64), Constant::Float(y)),
        (Constant::Float(x), Constant::Int(y)) => (Constant::Float(x), Constant::Float(y as f64)),
        both => both,
    };
    Ok(match folded(op, dtype, x, y) {
        Some(Folded::Left) => a,
        Some(Folded::Right) => b,
        Some(Folded::Float(value)) if matches!(dtype, DType::F32 | DType::F64) => Dim::float(value, dtype),
        Some(Folded::Int(value)) if op.is_truth() => Dim::int(value as i64, DType::BOOL),
        Some(Folded::Int(value)) if dtype == DType::I64 => match i64::try_from(value) {
            Ok(value) => Dim::Int(value),
            Err(_) => return Err(Diagnostic::new(at, format!("{value} does not fit in 64 bits"))),
        },
        Some(Folded::Int(value)) => Dim::int(wrapped(value, dtype.bits(), dtype.code() == 0), dtype),
        Some(Folded::ByZero) => return Err(Diagnostic::new(at, "this divides by zero")),
        _ => Dim::binary(op, a, b),
    })
}

/// Converts the narrower of two integers to the type of the other. A Python integer fits any type.
fn of_one_type(a: Dim, b: Dim) -> (Dim, Dim) {
    let is_int = |dim: &Dim| dim.dtype().is_int() && dim.dtype().code() == 0 && !matches!(dim, Dim::Int(_));
    let wide = |dim: Dim, dtype: DType| match dim.as_int() {
        Some(value) => Dim::int(value, dtype),
        None => cast(dtype, dim),
    };
    let (of_a, of_b) = (a.dtype(), b.dtype());
    match is_int(&a) && is_int(&b) {
        true if of_a.bits() > of_b.bits() => (a, wide(b, of_a)),
        true if of_a.bits() < of_b.bits() => (wide(a, of_b), b),
        _ => (a, b),
    }
}

/// Builds `(a + b - 1) // b`.
pub(super) fn ceildiv(a: Dim, b: Dim, at: std::ops::Range<usize>) -> Read<Dim> {
    let sum = computed(PrimOp::Add, a, b.clone(), at.clone())?;
    let one = if b.dtype() == DType::I64 { Dim::Int(1) } else { Dim::int(1, b.dtype()) };
    computed(PrimOp::FloorDiv, computed(PrimOp::Sub, sum, one, at.clone())?, b, at)
}

/// Reads limits such as `T.max_value("int64")`.
pub(super) fn limit_of(limit: &str, expr: &Expr) -> Read<Dim> {
    let dtype = dtype_of(expr)?;
    let found = match limit {
        "infinity" => dtype.is_float().then_some(Extreme::Float(f64::INFINITY)),
        limit => extreme(dtype, limit == "max_value"),
    };
    match found {
        Some(Extreme::Int(value)) if dtype == DType::I64 => Ok(Dim::Int(value)),
        Some(Extreme::Int(value)) => Ok(Dim::int(value, dtype)),
        Some(Extreme::Float(value)) => Ok(Dim::float(value, dtype)),
        None => Err(Diagnostic::new(span(expr), format!("T.{limit} is not defined for {dtype}"))),
    }
}

/// Rejects bools as operands of arithmetic.
pub(super) fn no_bools(op: PrimOp, a: &Dim, b: &Dim, at: &std::ops::Range<usize>) -> Read<()> {
    let arithmetic = op.is_arithmetic() || matches!(op, PrimOp::Shl | PrimOp::Shr);
    if arithmetic && [a, b].iter().any(|operand| operand.dtype() == DType::BOOL) {
        return Err(Diagnostic::new(at.clone(), "a bool cannot be used as a dimension or in arithmetic")
            .help("use 0 or 1, or convert a comparison with T.Cast(\"int64\", n > 4)"));
    }
    Ok(())
}

/// Returns the constant value of a dimension, if it has one.
fn constant(dim: &Dim) -> Constant {
    match (dim.as_int(), float_of(dim)) {
        (Some(value), _) => Constant::Int(value),
        (None, Some(value)) => Constant::Float(value),
        (None, None) => Constant::No,
    }
}

/// Negates a dimension: a number directly, anything else as a product with -1.
pub(super) fn negated(a: Dim) -> Dim {
    let dtype = a.dtype();
    match (float_of(&a), a.as_int().and_then(i64::checked_neg)) {
        (Some(value), _) => Dim::float(-value, dtype),
        (None, Some(value)) if dtype.is_int() => Dim::int(value, dtype),
        _ => Dim::binary(PrimOp::Mul, a, Dim::int(-1, dtype)),
    }
}

pub(super) fn float_of(dim: &Dim) -> Option<f64> {
    match dim {
        Dim::Expr(e) => match **e {
            DimExpr::Float(bits, _) => Some(f64::from_bits(bits)),
            _ => None,
        },
        _ => None,
    }
}

/// Returns true if it contains a float.
pub(super) fn has_float(dim: &Dim) -> bool {
    match dim {
        Dim::Int(_) => false,
        Dim::Var(sym) => sym.dtype.is_float(),
        Dim::Expr(expr) => match &**expr {
            DimExpr::Int(..) => false,
            DimExpr::Float(..) => true,
            DimExpr::Binary(_, _, a, b) => has_float(a) || has_float(b),
            // A cast to an integer hides inner floats.
            DimExpr::Unary(PrimOp::Cast, dtype, _) => dtype.is_float(),
            DimExpr::Unary(_, _, a) => has_float(a),
        },
    }
}

/// The error for a shape with unknown dimensions.
pub(super) fn unknown_rank(name: &str, at: std::ops::Range<usize>) -> Diagnostic {
    Diagnostic::new(at, format!("the dimensions of the shape `{name}` are unknown here"))
        .help(format!("name them first: `shape = R.match_cast({name}, R.Shape([a, b]))`, then R.Tensor((a, b), ...)"))
}

/// Builds the absolute value of an integer, as a choice between two values, like TVM.
pub(super) fn absolute(value: Dim) -> Dim {
    let zero = || Dim::int(0, value.dtype());
    let (holds, negative) =
        (Dim::binary(PrimOp::Ge, value.clone(), zero()), Dim::binary(PrimOp::Sub, zero(), value.clone()));
    Dim::if_then_else(holds, value, negative)
}
