//! Integer operations.

use super::columns::{DIMS, Ints, Mask, Shape};
use crate::program::{Binary, Scalar, Unary};
use passhost_lang::scalar::PrimOp;

/// Applies an operation to two integers of the same type, stored in 64 bits; `None` for a division by
/// zero.
pub(super) fn operation(op: Binary, of: Scalar, a: i64, b: i64) -> Option<i64> {
    if of == Scalar::UInt(64) {
        return unsigned(op, a as u64, b as u64);
    }
    let bits = of.bytes() as i64 * 8;
    let shift = (b & (bits - 1)) as u32;
    Some(match op {
        Binary::Add => of.wrap(a.wrapping_add(b)),
        Binary::Sub => of.wrap(a.wrapping_sub(b)),
        Binary::Mul => of.wrap(a.wrapping_mul(b)),
        Binary::FloorDiv | Binary::FloorMod | Binary::TruncDiv | Binary::TruncMod | Binary::Div => {
            return divide(op, of, a, b);
        }
        Binary::Shl => of.wrap(a.wrapping_shl(shift)),
        Binary::Shr => a.wrapping_shr(shift),
        Binary::BitAnd => a & b,
        Binary::BitOr => a | b,
        Binary::BitXor => of.wrap(a ^ b),
        Binary::Min => a.min(b),
        Binary::Max => a.max(b),
        Binary::Eq => (a == b).into(),
        Binary::Ne => (a != b).into(),
        Binary::Lt => (a < b).into(),
        Binary::Le => (a <= b).into(),
        Binary::Gt => (a > b).into(),
        Binary::Ge => (a >= b).into(),
        Binary::And => (a != 0 && b != 0).into(),
        Binary::Or => (a != 0 || b != 0).into(),
        // The remaining operations are functions that exist only for floats.
        _ => a,
    })
}

/// Divides. The least number divided by -1 wraps around.
fn divide(op: Binary, of: Scalar, a: i64, b: i64) -> Option<i64> {
    if b == 0 {
        return None;
    }
    let op = match op {
        Binary::FloorDiv => PrimOp::FloorDiv,
        Binary::FloorMod => PrimOp::FloorMod,
        Binary::TruncMod => PrimOp::TruncMod,
        _ => PrimOp::TruncDiv,
    };
    let wrapped = if matches!(op, PrimOp::FloorDiv | PrimOp::TruncDiv) { a } else { 0 };
    Some(op.fold(a, b).map_or(wrapped, |value| of.wrap(value)))
}

fn unsigned(op: Binary, a: u64, b: u64) -> Option<i64> {
    Some(match op {
        Binary::FloorDiv | Binary::TruncDiv | Binary::Div => a.checked_div(b)? as i64,
        Binary::FloorMod | Binary::TruncMod => a.checked_rem(b)? as i64,
        Binary::Shr => a.wrapping_shr(b as u32 & 63) as i64,
        Binary::Min => a.min(b) as i64,
        Binary::Max => a.max(b) as i64,
        Binary::Lt => (a < b).into(),
        Binary::Le => (a <= b).into(),
        Binary::Gt => (a > b).into(),
        Binary::Ge => (a >= b).into(),
        // The other operations do not depend on the sign.
        op => return operation(op, Scalar::Int(64), a as i64, b as i64),
    })
}

/// Memory for the expanded linear forms of two operands.
#[derive(Default)]
pub(super) struct Rooms(Vec<i64>, Vec<i64>);

/// Applies an operation to two registers; `None` if an active lane divides by zero.
pub(super) fn binary(
    op: Binary,
    of: Scalar,
    [a, b]: [&Ints; 2],
    out: &mut Ints,
    (shape, mask, rooms): (&Shape, &Mask, &mut Rooms),
) -> Option<()> {
    if let (Some(a), Some(b)) = (a.uniform(), b.uniform()) {
        out.set(operation(op, of, a, b)?);
        return Some(());
    }
    if linear(op, of, a, b, out, shape).is_some() {
        return Some(());
    }
    let (a, b) = (a.spread(shape, &mut rooms.0), b.spread(shape, &mut rooms.1));
    let out = out.vary(shape);
    let lanes = out.iter_mut().zip(a.iter().zip(b));
    match op {
        Binary::Lt if of != Scalar::UInt(64) => lanes.for_each(|(out, (a, b))| *out = (a < b).into()),
        Binary::Le if of != Scalar::UInt(64) => lanes.for_each(|(out, (a, b))| *out = (a <= b).into()),
        Binary::Eq => lanes.for_each(|(out, (a, b))| *out = (a == b).into()),
        // Booleans are 0 or 1.
        Binary::And if of == Scalar::Bool => lanes.for_each(|(out, (a, b))| *out = a & b),
        Binary::Or if of == Scalar::Bool => lanes.for_each(|(out, (a, b))| *out = a | b),
        _ if op.divides() => {
            lanes.for_each(|(out, (a, b))| *out = operation(op, of, *a, *b).unwrap_or(0));
            let zero = |lane: usize| b[lane] == 0;
            let divides_by_zero = match mask {
                None => (0..shape.total).any(zero),
                Some(runs) => runs.iter().cloned().flatten().any(zero),
            };
            return (!divides_by_zero).then_some(());
        }
        _ => lanes.for_each(|(out, (a, b))| *out = operation(op, of, *a, *b).unwrap_or(0)),
    }
    Some(())
}

/// Applies an operation to linear forms, if the result is linear or uniform.
fn linear(op: Binary, of: Scalar, a: &Ints, b: &Ints, out: &mut Ints, shape: &Shape) -> Option<()> {
    if a.varying || b.varying || of == Scalar::UInt(64) || of == Scalar::Bool {
        return None;
    }
    let mix = |f: fn(i64, i64) -> i64| -> [i64; DIMS] { std::array::from_fn(|dim| f(a.strides[dim], b.strides[dim])) };
    let (base, strides) = match op {
        Binary::Add => (a.base.checked_add(b.base)?, mix(i64::wrapping_add)),
        Binary::Sub => (a.base.checked_sub(b.base)?, mix(i64::wrapping_sub)),
        Binary::Mul => {
            let (form, factor) = if let Some(factor) = b.uniform() { (a, factor) } else { (b, a.uniform()?) };
            (form.base.checked_mul(factor)?, form.strides.map(|stride| stride.wrapping_mul(factor)))
        }
        _ => {
            let [least, most] = [shape.range(a.base, &a.strides)?, shape.range(b.base, &b.strides)?];
            return agreed(op, least, most, a, b, out);
        }
    };
    let (least, most) = shape.range(base, &strides)?;
    let (low, high) = of.range();
    (low <= least && most <= high).then(|| out.set_linear(base, strides))
}

/// Evaluates comparisons with a uniform result.
fn agreed(op: Binary, a: (i64, i64), b: (i64, i64), left: &Ints, right: &Ints, out: &mut Ints) -> Option<()> {
    let (below, not_above) = (a.1 < b.0, a.1 <= b.0);
    let (above, not_below) = (a.0 > b.1, a.0 >= b.1);
    let truth = |yes: bool, no: bool| if yes { Some(1) } else { no.then_some(0) };
    let value = match op {
        Binary::Lt => truth(below, not_below)?,
        Binary::Le => truth(not_above, above)?,
        Binary::Gt => truth(above, not_above)?,
        Binary::Ge => truth(not_below, below)?,
        Binary::Eq => truth(false, below || above)?,
        Binary::Ne => truth(below || above, false)?,
        Binary::Min | Binary::Max => {
            let first = if op == Binary::Min { not_above } else { not_below };
            let second = if op == Binary::Min { not_below } else { not_above };
            let of = if first { left } else { second.then_some(right)? };
            out.set_linear(of.base, of.strides);
            return Some(());
        }
        _ => return None,
    };
    out.set(value);
    Some(())
}

/// Applies an operation to one integer, including a cast to an integer.
pub(super) fn of_one(op: Unary, from: Scalar, to: Scalar, a: i64) -> i64 {
    let bits = from.bytes() as u32 * 8;
    let own = if bits == 64 { a as u64 } else { a as u64 & ((1 << bits) - 1) };
    match op {
        Unary::Not => (a == 0).into(),
        Unary::BitNot => from.wrap(if from == Scalar::Bool { i64::from(a == 0) } else { !a }),
        Unary::Cast | Unary::Reinterpret => to.wrap(a),
        Unary::Abs if matches!(from, Scalar::Int(_)) => from.wrap(a.wrapping_abs()),
        Unary::PopCount => own.count_ones().into(),
        Unary::Clz => i64::from(own.leading_zeros()) - 64 + i64::from(bits),
        _ => a,
    }
}

/// Applies an operation to one register.
pub(super) fn unary(op: Unary, from: Scalar, to: Scalar, a: &Ints, out: &mut Ints, shape: &Shape) {
    if let Some(a) = a.uniform() {
        return out.set(of_one(op, from, to, a));
    }
    let (low, high) = to.range();
    let fits = |(least, most)| low <= least && most <= high;
    if op == Unary::Cast && !a.varying && to != Scalar::Bool && shape.range(a.base, &a.strides).is_some_and(fits) {
        return out.set_linear(a.base, a.strides);
    }
    for (lane, out) in out.vary(shape).iter_mut().enumerate() {
        *out = of_one(op, from, to, a.at(lane, shape));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_wrap_and_divide_as_in_tvm() {
        let int = |bits, op, a, b| operation(op, Scalar::Int(bits), a, b);
        assert_eq!(int(8, Binary::Add, 127, 1), Some(-128));
        assert_eq!(int(32, Binary::Mul, 1 << 20, 1 << 20), Some(0));
        assert_eq!(int(64, Binary::Mul, i64::MAX, 2), Some(-2));
        assert_eq!((int(32, Binary::FloorDiv, -7, 2), int(32, Binary::FloorMod, -7, 2)), (Some(-4), Some(1)));
        assert_eq!((int(32, Binary::TruncDiv, -7, 2), int(32, Binary::TruncMod, -7, 2)), (Some(-3), Some(-1)));
        assert_eq!(int(32, Binary::FloorDiv, 1, 0), None);
        assert_eq!(int(32, Binary::TruncDiv, i64::from(i32::MIN), -1), Some(i64::from(i32::MIN)));
        assert_eq!(
            (int(64, Binary::TruncDiv, i64::MIN, -1), int(64, Binary::FloorMod, i64::MIN, -1)),
            (Some(i64::MIN), Some(0))
        );
        assert_eq!(int(8, Binary::Shl, 1, 9), Some(2), "the lower bits of the distance count");
        let word = |op, a, b| operation(op, Scalar::UInt(64), a, b);
        assert_eq!((word(Binary::Lt, -1, 1), word(Binary::TruncDiv, -1, 2)), (Some(0), Some(i64::MAX)));
        assert_eq!(operation(Binary::Sub, Scalar::UInt(8), 1, 2), Some(255));
        assert_eq!(of_one(Unary::Clz, Scalar::Int(32), Scalar::Int(32), 1), 31);
        assert_eq!(of_one(Unary::BitNot, Scalar::UInt(8), Scalar::UInt(8), 1), 254);
    }
}
