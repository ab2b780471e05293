//! Data types of TIR values: lanes, and the types to which operands are converted.

use crate::read::tir::reader::{E, HERE, Is};
use passhost_lang::ir::{DType, Type, TypeId, V};
use std::cmp::Ordering;

/// Returns the data type of the result of two operands in TVM: floats take precedence over integers, and wider types
/// over narrower types.
pub(in crate::read) fn promoted(x: DType, y: DType) -> Option<DType> {
    let rank = |dtype: DType| match dtype.code() {
        2 => 6,
        4 => 5,
        7..=14 => 4,
        15 | 16 => 3,
        17 => 2,
        6 => 0,
        _ => 1,
    };
    match rank(x).cmp(&rank(y)) {
        Ordering::Greater => Some(x),
        Ordering::Less => Some(y),
        Ordering::Equal if x.code() == y.code() => Some(if x.bits() < y.bits() { y } else { x }),
        // Of two integer types of equal width, the unsigned type is chosen.
        Ordering::Equal if x.is_int() => Some(match x.bits().cmp(&y.bits()) {
            Ordering::Less => y,
            Ordering::Greater => x,
            Ordering::Equal if x.code() == 1 => x,
            Ordering::Equal => y,
        }),
        Ordering::Equal => None,
    }
}

pub(in crate::read) fn in_one_lane(e: E) -> E {
    E { dtype: scalar(e.dtype), ..e }
}

pub(in crate::read) fn scalar(dtype: DType) -> DType {
    DType::new(dtype.code(), dtype.bits(), 1)
}

/// Returns a data type with the lanes of another data type.
pub(in crate::read) fn with_code(dtype: DType, lanes_of: DType) -> DType {
    DType::new(dtype.code(), dtype.bits(), lanes_of.lanes().max(1))
}

/// Returns the number of lanes; negative numbers are multiples of `T.vscale()`.
pub(in crate::read) fn lanes(dtype: DType) -> i32 {
    i32::from(dtype.lanes() as i16)
}

/// Returns a vector type; negative lanes are multiples of `T.vscale()`.
pub(in crate::read) fn with_lanes(dtype: DType, lanes: i32) -> DType {
    let own = self::lanes(dtype).max(1);
    let lanes = i16::try_from(own.saturating_mul(lanes)).unwrap_or(1);
    DType::new(dtype.code(), dtype.bits(), lanes as u16)
}

/// Returns the number of buffer elements in a value.
pub(in crate::read) fn times(value: DType, element: DType) -> i32 {
    lanes(value) / lanes(element).max(1)
}

pub(in crate::read) fn void_type() -> Type {
    Type::Prim { dtype: DType::VOID, value: None }
}

/// Returns true if both are integers and `a` has fewer bits.
pub(in crate::read) fn is_narrower(a: DType, b: DType) -> bool {
    a.is_int() && b.is_int() && a.bits() < b.bits()
}

/// Returns a typed expression.
pub(in crate::read) fn typed(v: V, ty: TypeId, dtype: DType) -> E {
    E { v, ty, dtype, is: Is::Value, end: HERE }
}
