//! Folds constants as TVM does while it reads a text: `2 * 3` is 6, and `x + 0` is `x`. Constructors such as
//! `T.Add(x, 0)` do not fold, nor do some Python operators; the printer writes a constructor where an operator
//! could fold.

use passhost_lang::ir::DType;
use passhost_lang::ir::records::prim;

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
    /// An integer, or a truth value, before it is converted to its data type.
    Int(i128),
    /// A float.
    Float(f64),
    /// A division by zero, whose result is undefined.
    ByZero,
}

/// Returns TVM's result for `a op b`, whose operands have this data type; `None` if TVM does not fold it.
pub(crate) fn folded(op: u16, dtype: DType, a: Constant, b: Constant) -> Option<Folded> {
    use Constant::{Float, Int};
    let is = |x: Constant, v: i64| x == Int(v) || x == Float(v as f64);
    // The upper half of the numbers of 64 bits without a sign is negative in a constant.
    let wide = |x: i64| if dtype == DType::U64 { i128::from(x as u64) } else { x.into() };
    // Only for these, TVM folds remainders and bitwise operations.
    let index = matches!(dtype, DType::I32 | DType::I64);
    let on_indices = matches!(
        op,
        prim::FLOORMOD | prim::TRUNCMOD | prim::BITAND | prim::BITOR | prim::BITXOR | prim::SHL | prim::SHR
    );
    if on_indices && !index {
        // The remainder of two unsigned constants is an exception.
        return match (op, dtype.code(), a, b) {
            (prim::FLOORMOD, 1, Int(x), Int(y)) => of_integers(op, wide(x), wide(y)).or(Some(Folded::ByZero)),
            _ => None,
        };
    }
    let divides = matches!(op, prim::DIV | prim::FLOORDIV | prim::FLOORMOD | prim::TRUNCDIV | prim::TRUNCMOD);
    if divides && is(b, 0) {
        return Some(Folded::ByZero);
    }
    let known = match (a, b) {
        (Int(x), Int(y)) => of_integers(op, wide(x), wide(y)),
        (Float(x), Float(y)) => of_floats(op, x, y, dtype),
        _ => None,
    };
    known.or_else(|| match op {
        prim::ADD if is(a, 0) => Some(Folded::Right),
        prim::MUL if is(a, 1) || is(b, 0) => Some(Folded::Right),
        prim::ADD | prim::SUB | prim::SHL | prim::SHR if is(b, 0) => Some(Folded::Left),
        prim::MUL if is(b, 1) || is(a, 0) => Some(Folded::Left),
        prim::DIV | prim::FLOORDIV | prim::TRUNCDIV if is(a, 0) || is(b, 1) => Some(Folded::Left),
        prim::FLOORMOD | prim::TRUNCMOD if a == Int(0) => Some(Folded::Left),
        prim::FLOORMOD | prim::TRUNCMOD if b == Int(1) => Some(Folded::Int(0)),
        prim::AND => truth(a, b, 0),
        prim::OR => truth(a, b, 1),
        _ => None,
    })
}

/// Returns Python's result for two numbers.
pub(crate) fn of_numbers(op: u16, a: Constant, b: Constant) -> Option<Folded> {
    use Constant::{Float, Int};
    let float = |x| match x {
        Int(x) => Some(x as f64),
        Float(x) => Some(x),
        Constant::No => None,
    };
    let zero = |x| matches!(x, Int(0)) || x == Float(0.0);
    match op {
        prim::AND => Some(if zero(a) { Folded::Left } else { Folded::Right }),
        prim::OR => Some(if zero(a) { Folded::Right } else { Folded::Left }),
        prim::DIV | prim::FLOORDIV | prim::FLOORMOD if zero(b) => Some(Folded::ByZero),
        _ => match (a, b, op) {
            (Int(x), Int(y), prim::DIV) => Some(Folded::Float(x as f64 / y as f64)),
            (Int(x), Int(y), _) => of_integers(op, x.into(), y.into()),
            _ => {
                let (x, y) = (float(a)?, float(b)?);
                match op {
                    prim::FLOORDIV => Some(Folded::Float((x / y).floor())),
                    prim::FLOORMOD => Some(Folded::Float(x - y * (x / y).floor())),
                    _ => of_floats(op, x, y, DType::F64),
                }
            }
        },
    }
}

/// Folds `and` and `or` with a known operand: one value of it decides; with the other, the result is the other
/// operand.
fn truth(a: Constant, b: Constant, deciding: i64) -> Option<Folded> {
    match (a, b) {
        (Constant::Int(x), _) => Some(if x == deciding { Folded::Left } else { Folded::Right }),
        (_, Constant::Int(y)) => Some(if y == deciding { Folded::Right } else { Folded::Left }),
        _ => None,
    }
}

/// Returns the result of Python and TVM for two integers of any size.
pub(crate) fn of_integers(op: u16, x: i128, y: i128) -> Option<Folded> {
    let is = |v: bool| i128::from(v);
    Some(Folded::Int(match op {
        prim::ADD => x + y,
        prim::SUB => x - y,
        prim::MUL => x * y,
        prim::FLOORDIV => x.checked_div(y)? - is(x % y != 0 && (x < 0) != (y < 0)),
        prim::FLOORMOD => (x.checked_rem(y)? + y) % y,
        prim::TRUNCDIV | prim::DIV => x.checked_div(y)?,
        prim::TRUNCMOD => x.checked_rem(y)?,
        prim::MIN => x.min(y),
        prim::MAX => x.max(y),
        prim::EQ => is(x == y),
        prim::NE => is(x != y),
        prim::LT => is(x < y),
        prim::LE => is(x <= y),
        prim::GT => is(x > y),
        prim::GE => is(x >= y),
        prim::AND => is(x != 0 && y != 0),
        prim::OR => is(x != 0 || y != 0),
        prim::BITAND => x & y,
        prim::BITOR => x | y,
        prim::BITXOR => x ^ y,
        prim::SHL if (0..64).contains(&y) => x << y,
        prim::SHR if (0..64).contains(&y) => x >> y,
        _ => return None,
    }))
}

/// Folds arithmetic of 32-bit and 64-bit floats in their own precision. For other floats, only minimum, maximum and
/// comparisons are folded.
fn of_floats(op: u16, x: f64, y: f64, dtype: DType) -> Option<Folded> {
    let is = |v: bool| Some(Folded::Int(v.into()));
    let in_precision = |x: f64, y: f64| match (op, dtype) {
        (prim::ADD, DType::F64) => Some(x + y),
        (prim::SUB, DType::F64) => Some(x - y),
        (prim::MUL, DType::F64) => Some(x * y),
        (prim::DIV, DType::F64) => Some(x / y),
        (prim::ADD, DType::F32) => Some((x as f32 + y as f32).into()),
        (prim::SUB, DType::F32) => Some((x as f32 - y as f32).into()),
        (prim::MUL, DType::F32) => Some((x as f32 * y as f32).into()),
        (prim::DIV, DType::F32) => Some((x as f32 / y as f32).into()),
        _ => None,
    };
    match op {
        prim::MIN => Some(if y < x { Folded::Right } else { Folded::Left }),
        prim::MAX => Some(if y > x { Folded::Right } else { Folded::Left }),
        prim::EQ => is(x == y),
        prim::NE => is(x != y),
        prim::LT => is(x < y),
        prim::LE => is(x <= y),
        prim::GT => is(x > y),
        prim::GE => is(x >= y),
        _ => in_precision(x, y).map(Folded::Float),
    }
}

/// Wraps an integer to a width as TVM does.
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
            (prim::FLOORDIV, -7, 2, -4),
            (prim::FLOORDIV, 7, -2, -4),
            (prim::FLOORMOD, -7, 2, 1),
            (prim::FLOORMOD, 7, -2, -1),
            (prim::TRUNCDIV, -7, 2, -3),
            (prim::TRUNCMOD, -7, 2, -1),
            (prim::SHL, 3, 4, 48),
            (prim::GT, 1, 2, 0),
        ] {
            assert_eq!(of_integers(op, x, y), Some(Folded::Int(expected)), "{op} {x} {y}");
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
            (prim::FLOORDIV, large, 3, i128::from(large / 3)),
            (prim::FLOORMOD, large, 3, i128::from(large % 3)),
            (prim::TRUNCDIV, 8, large, 0),
            (prim::MAX, large, 3, large.into()),
            (prim::MIN, large, 3, 3),
            (prim::GT, large, 3, 1),
            (prim::SUB, 5, 256, -251),
        ] {
            assert_eq!(of(op, x, y), Some(Folded::Int(expected)), "{op} {x} {y}");
        }
        assert_eq!(wrapped(-251, 64, false), -251, "a difference wraps around");
        assert_eq!(wrapped(large.into(), 64, false), large as i64);
    }

    #[test]
    fn floats_are_computed_in_their_precision() {
        use Constant::Float;
        let sum = |dtype| folded(prim::ADD, dtype, Float(0.1), Float(0.2));
        assert_eq!(sum(DType::F32), Some(Folded::Float(0.30000001192092896)));
        assert_eq!(sum(DType::F64), Some(Folded::Float(0.1 + 0.2)));
        assert_eq!(sum(DType::F16), None);
    }
}
