//! Folds constants like TVM's parser: `2 * 3` is 6, and `x + 0` is `x`. Constructors such as `T.Add(x, 0)` and some
//! Python operators do not fold. The printer writes a constructor if an operator could fold.

use passhost_lang::ir::DType;
use passhost_lang::scalar::PrimOp;

/// A constant operand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Constant {
    No,
    Int(i64),
    Float(f64),
}

/// The result of folding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Folded {
    /// The left operand.
    Left,
    /// The right operand.
    Right,
    /// An integer or Boolean before conversion to its data type.
    Int(i128),
    /// A float.
    Float(f64),
    /// The operation is a division by zero.
    ByZero,
}

/// Returns TVM's result for `a op b`, whose operands have data type `dtype`; `None` if TVM does not fold the
/// operation.
pub(crate) fn folded(op: PrimOp, dtype: DType, a: Constant, b: Constant) -> Option<Folded> {
    use Constant::{Float, Int};
    let is = |x: Constant, v: i64| x == Int(v) || x == Float(v as f64);
    // In a constant, the upper half of the unsigned 64-bit range is negative.
    let wide = |x: i64| if dtype == DType::U64 { i128::from(x as u64) } else { x.into() };
    // TVM folds remainders and bitwise operations only for these types.
    let index = matches!(dtype, DType::I32 | DType::I64);
    let on_indices = matches!(
        op,
        PrimOp::FloorMod
            | PrimOp::TruncMod
            | PrimOp::BitAnd
            | PrimOp::BitOr
            | PrimOp::BitXor
            | PrimOp::Shl
            | PrimOp::Shr
    );
    if on_indices && !index {
        // The remainder of two unsigned constants is an exception.
        return match (op, dtype.code(), a, b) {
            (PrimOp::FloorMod, 1, Int(x), Int(y)) => of_integers(op, wide(x), wide(y)).or(Some(Folded::ByZero)),
            _ => None,
        };
    }
    let divides = matches!(op, PrimOp::Div | PrimOp::FloorDiv | PrimOp::FloorMod | PrimOp::TruncDiv | PrimOp::TruncMod);
    if divides && is(b, 0) {
        return Some(Folded::ByZero);
    }
    let known = match (a, b) {
        (Int(x), Int(y)) => of_integers(op, wide(x), wide(y)),
        (Float(x), Float(y)) => of_floats(op, x, y, dtype),
        _ => None,
    };
    known.or_else(|| match op {
        PrimOp::Add if is(a, 0) => Some(Folded::Right),
        PrimOp::Mul if is(a, 1) || is(b, 0) => Some(Folded::Right),
        PrimOp::Add | PrimOp::Sub | PrimOp::Shl | PrimOp::Shr if is(b, 0) => Some(Folded::Left),
        PrimOp::Mul if is(b, 1) || is(a, 0) => Some(Folded::Left),
        PrimOp::Div | PrimOp::FloorDiv | PrimOp::TruncDiv if is(a, 0) || is(b, 1) => Some(Folded::Left),
        PrimOp::FloorMod | PrimOp::TruncMod if a == Int(0) => Some(Folded::Left),
        PrimOp::FloorMod | PrimOp::TruncMod if b == Int(1) => Some(Folded::Int(0)),
        PrimOp::And => truth(a, b, 0),
        PrimOp::Or => truth(a, b, 1),
        _ => None,
    })
}

/// Returns Python's result for two numbers.
pub(crate) fn of_numbers(op: PrimOp, a: Constant, b: Constant) -> Option<Folded> {
    use Constant::{Float, Int};
    let float = |x| match x {
        Int(x) => Some(x as f64),
        Float(x) => Some(x),
        Constant::No => None,
    };
    let zero = |x| matches!(x, Int(0)) || x == Float(0.0);
    match op {
        PrimOp::And => Some(if zero(a) { Folded::Left } else { Folded::Right }),
        PrimOp::Or => Some(if zero(a) { Folded::Right } else { Folded::Left }),
        PrimOp::Div | PrimOp::FloorDiv | PrimOp::FloorMod if zero(b) => Some(Folded::ByZero),
        _ => match (a, b, op) {
            (Int(x), Int(y), PrimOp::Div) => Some(Folded::Float(x as f64 / y as f64)),
            (Int(x), Int(y), _) => of_integers(op, x.into(), y.into()),
            _ => {
                let (x, y) = (float(a)?, float(b)?);
                match op {
                    PrimOp::FloorDiv => Some(Folded::Float((x / y).floor())),
                    PrimOp::FloorMod => Some(Folded::Float(x - y * (x / y).floor())),
                    _ => of_floats(op, x, y, DType::F64),
                }
            }
        },
    }
}

/// Folds `and` and `or` with a known operand: one of its values decides the result; otherwise, the result is the other
/// operand.
fn truth(a: Constant, b: Constant, deciding: i64) -> Option<Folded> {
    match (a, b) {
        (Constant::Int(x), _) => Some(if x == deciding { Folded::Left } else { Folded::Right }),
        (_, Constant::Int(y)) => Some(if y == deciding { Folded::Right } else { Folded::Left }),
        _ => None,
    }
}

/// Returns the result of Python and TVM for two integers of any size.
pub(crate) fn of_integers(op: PrimOp, x: i128, y: i128) -> Option<Folded> {
    let is = |v: bool| i128::from(v);
    Some(Folded::Int(match op {
        PrimOp::Add => x + y,
        PrimOp::Sub => x - y,
        PrimOp::Mul => x * y,
        PrimOp::FloorDiv => x.checked_div(y)? - is(x % y != 0 && (x < 0) != (y < 0)),
        PrimOp::FloorMod => (x.checked_rem(y)? + y) % y,
        PrimOp::TruncDiv | PrimOp::Div => x.checked_div(y)?,
        PrimOp::TruncMod => x.checked_rem(y)?,
        PrimOp::Min => x.min(y),
        PrimOp::Max => x.max(y),
        PrimOp::Eq => is(x == y),
        PrimOp::Ne => is(x != y),
        PrimOp::Lt => is(x < y),
        PrimOp::Le => is(x <= y),
        PrimOp::Gt => is(x > y),
        PrimOp::Ge => is(x >= y),
        PrimOp::And => is(x != 0 && y != 0),
        PrimOp::Or => is(x != 0 || y != 0),
        PrimOp::BitAnd => x & y,
        PrimOp::BitOr => x | y,
        PrimOp::BitXor => x ^ y,
        PrimOp::Shl if (0..64).contains(&y) => x << y,
        PrimOp::Shr if (0..64).contains(&y) => x >> y,
        _ => return None,
    }))
}

/// Folds arithmetic of 32-bit and 64-bit floats in their own precision. For other floats, only minimum, maximum and
/// comparisons are folded.
fn of_floats(op: PrimOp, x: f64, y: f64, dtype: DType) -> Option<Folded> {
    let is = |v: bool| Some(Folded::Int(v.into()));
    let in_precision = |x: f64, y: f64| match (op, dtype) {
        (PrimOp::Add, DType::F64) => Some(x + y),
        (PrimOp::Sub, DType::F64) => Some(x - y),
        (PrimOp::Mul, DType::F64) => Some(x * y),
        (PrimOp::Div, DType::F64) => Some(x / y),
        (PrimOp::Add, DType::F32) => Some((x as f32 + y as f32).into()),
        (PrimOp::Sub, DType::F32) => Some((x as f32 - y as f32).into()),
        (PrimOp::Mul, DType::F32) => Some((x as f32 * y as f32).into()),
        (PrimOp::Div, DType::F32) => Some((x as f32 / y as f32).into()),
        _ => None,
    };
    match op {
        PrimOp::Min => Some(if y < x { Folded::Right } else { Folded::Left }),
        PrimOp::Max => Some(if y > x { Folded::Right } else { Folded::Left }),
        PrimOp::Eq => is(x == y),
        PrimOp::Ne => is(x != y),
        PrimOp::Lt => is(x < y),
        PrimOp::Le => is(x <= y),
        PrimOp::Gt => is(x > y),
        PrimOp::Ge => is(x >= y),
        _ => in_precision(x, y).map(Folded::Float),
    }
}

/// Wraps an integer to a width, as in TVM.
pub(crate) fn wrapped(value: i128, bits: u8, signed: bool) -> i64 {
    let unused = 64 - u32::from(bits.clamp(1, 64));
    let low = (value as u64) << unused;
    if signed { low as i64 >> unused } else { (low >> unused) as i64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_round_down_and_wrap() {
        for (op, x, y, expected) in [
            (PrimOp::FloorDiv, -7, 2, -4),
            (PrimOp::FloorDiv, 7, -2, -4),
            (PrimOp::FloorMod, -7, 2, 1),
            (PrimOp::FloorMod, 7, -2, -1),
            (PrimOp::TruncDiv, -7, 2, -3),
            (PrimOp::TruncMod, -7, 2, -1),
            (PrimOp::Shl, 3, 4, 48),
            (PrimOp::Gt, 1, 2, 0),
        ] {
            assert_eq!(of_integers(op, x, y), Some(Folded::Int(expected)), "{op:?} {x} {y}");
        }
        assert_eq!(wrapped(200, 8, true), -56);
        assert_eq!(wrapped(300, 8, false), 44);
        assert_eq!(wrapped(1 << 31, 32, true), -2147483648);
        assert_eq!(wrapped(-1, 64, true), -1);
    }

    /// The upper half of `uint64` is negative in a [`Constant`].
    #[test]
    fn numbers_without_a_sign_use_64_bits() {
        let of = |op, x: u64, y: u64| folded(op, DType::U64, Constant::Int(x as i64), Constant::Int(y as i64));
        let large = u64::MAX - 1;
        for (op, x, y, expected) in [
            (PrimOp::FloorDiv, large, 3, i128::from(large / 3)),
            (PrimOp::FloorMod, large, 3, i128::from(large % 3)),
            (PrimOp::TruncDiv, 8, large, 0),
            (PrimOp::Max, large, 3, large.into()),
            (PrimOp::Min, large, 3, 3),
            (PrimOp::Gt, large, 3, 1),
            (PrimOp::Sub, 5, 256, -251),
        ] {
            assert_eq!(of(op, x, y), Some(Folded::Int(expected)), "{op:?} {x} {y}");
        }
        assert_eq!(wrapped(-251, 64, false), -251, "a difference wraps around");
        assert_eq!(wrapped(large.into(), 64, false), large as i64);
    }

    #[test]
    fn floats_are_computed_in_their_precision() {
        use Constant::Float;
        let sum = |dtype| folded(PrimOp::Add, dtype, Float(0.1), Float(0.2));
        assert_eq!(sum(DType::F32), Some(Folded::Float(0.30000001192092896)));
        assert_eq!(sum(DType::F64), Some(Folded::Float(0.1 + 0.2)));
        assert_eq!(sum(DType::F16), None);
    }
}
