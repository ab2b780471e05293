//! Float operations. `float16` and `bfloat16` are computed in `float32` and rounded after each operation.

use super::columns::{Floats, Ints, Shape};
use crate::math;
use crate::program::{Binary, Math, Scalar, Unary};
use passhost_lang::scalar::{Bf16, F16};

/// Returns the bits of a `float16` that represents the value exactly.
pub(super) fn to_f16(value: f32) -> u16 {
    let bits = value.to_bits();
    match value.abs() {
        6.103_515_6e-5..65520.0 => (bits >> 16 & 0x8000) as u16 | (((bits & 0x7fff_ffff) - 0x3800_0000) >> 13) as u16,
        _ => F16::from_f32(value).0,
    }
}

/// Converts the bits of a `float16` to a number.
pub(super) fn of_f16(bits: u16) -> f32 {
    match bits >> 10 & 0x1f {
        1..31 => f32::from_bits(u32::from(bits & 0x8000) << 16 | ((u32::from(bits & 0x7fff) << 13) + 0x3800_0000)),
        _ => F16(bits).to_f32(),
    }
}

/// Applies an operation to two `float32` registers, and rounds the result to their type.
pub(super) fn binary_single(op: Binary, of: Scalar, [a, b]: [&Floats<f32>; 2], out: &mut Floats<f32>, shape: &Shape) {
    match of {
        Scalar::F16 => rounded(op, [a, b], out, shape, F16::round),
        Scalar::Bf16 => rounded(op, [a, b], out, shape, |value| Bf16::from_f32(value).to_f32()),
        Scalar::F32 => rounded(op, [a, b], out, shape, |value| value),
        of => rounded(op, [a, b], out, shape, |value| of.round(value)),
    }
}

fn rounded(
    op: Binary,
    [a, b]: [&Floats<f32>; 2],
    out: &mut Floats<f32>,
    shape: &Shape,
    round: impl Fn(f32) -> f32 + Copy,
) {
    match op {
        Binary::Add => out.zip(a, b, shape, |a, b| round(a + b)),
        Binary::Sub => out.zip(a, b, shape, |a, b| round(a - b)),
        Binary::Mul => out.zip(a, b, shape, |a, b| round(a * b)),
        Binary::Div => out.zip(a, b, shape, |a, b| round(a / b)),
        Binary::Min => out.zip(a, b, shape, |a, b| if a < b { a } else { b }),
        Binary::Max => out.zip(a, b, shape, |a, b| if a > b { a } else { b }),
        op => {
            let f = math::of_two_f32(op);
            out.zip(a, b, shape, |a, b| round(f(a, b)));
        }
    }
}

/// Applies an operation to two `float64` registers.
pub(super) fn binary_double(op: Binary, [a, b]: [&Floats<f64>; 2], out: &mut Floats<f64>, shape: &Shape) {
    match op {
        Binary::Add => out.zip(a, b, shape, |a, b| a + b),
        Binary::Mul => out.zip(a, b, shape, |a, b| a * b),
        op => {
            let f = math::of_two_f64(op);
            out.zip(a, b, shape, f);
        }
    }
}

/// Applies a comparison or a logical operation; nonzero floats are true.
pub(super) fn compare<T: Copy + Default + PartialOrd>(
    op: Binary,
    [a, b]: [&Floats<T>; 2],
    out: &mut Ints,
    shape: &Shape,
) {
    let zero = T::default();
    let truth = |a: T, b: T| match op {
        Binary::And => a != zero && b != zero,
        Binary::Or => a != zero || b != zero,
        op => math::compare(op, a, b),
    };
    if !a.varying && !b.varying {
        return out.set(truth(a.value, b.value).into());
    }
    for (lane, out) in out.vary(shape).iter_mut().enumerate() {
        *out = truth(a.at(lane), b.at(lane)).into();
    }
}

/// Applies an operation to one `float32` register, and rounds the result to its type.
pub(super) fn unary_single(op: Unary, of: Scalar, a: &Floats<f32>, out: &mut Floats<f32>, shape: &Shape) {
    match op {
        Unary::Abs => out.map(a, shape, f32::abs),
        Unary::Math(Math::Sqrt) => out.map(a, shape, |a| of.round(a.sqrt())),
        Unary::Math(function) => {
            let f = math::of_f32(function);
            out.map(a, shape, |a| of.round(f(a)));
        }
        _ => out.map(a, shape, |a| a),
    }
}

/// Applies an operation to one `float64` register.
pub(super) fn unary_double(op: Unary, a: &Floats<f64>, out: &mut Floats<f64>, shape: &Shape) {
    match op {
        Unary::Abs => out.map(a, shape, f64::abs),
        Unary::Math(function) => {
            let f = math::of_f64(function);
            out.map(a, shape, f);
        }
        _ => out.map(a, shape, |a| a),
    }
}

/// Applies a test, such as `isnan`, to a float register.
pub(super) fn question<T: Copy + Default + Into<f64>>(op: Unary, a: &Floats<T>, out: &mut Ints, shape: &Shape) {
    let answer = |a: T| {
        let a: f64 = a.into();
        i64::from(match op {
            Unary::IsNan => a.is_nan(),
            Unary::IsInf => a.is_infinite(),
            Unary::IsFinite => a.is_finite(),
            Unary::Not => a == 0.0,
            _ => a != 0.0,
        })
    };
    convert(a, out, shape, answer);
}

/// Converts a float register to integers.
pub(super) fn convert<T: Copy + Default>(a: &Floats<T>, out: &mut Ints, shape: &Shape, f: impl Fn(T) -> i64) {
    if !a.varying {
        return out.set(f(a.value));
    }
    let a = &a.lanes[..shape.total];
    out.vary(shape).iter_mut().zip(a).for_each(|(out, a)| *out = f(*a));
}

/// Converts a float to an integer type: truncates it, and clamps it to the range of the type.
pub(super) fn to_int(to: Scalar, value: f64) -> i64 {
    match to {
        Scalar::Bool => (value != 0.0).into(),
        Scalar::UInt(64) => value as u64 as i64,
        to => {
            let (low, high) = to.range();
            (value as i64).clamp(low, high)
        }
    }
}

/// Converts an integer to a `float32`, rounded once, and then to the type.
pub(super) fn single_of(from: Scalar, to: Scalar, value: i64) -> f32 {
    to.round(if from == Scalar::UInt(64) { value as u64 as f32 } else { value as f32 })
}

/// Converts an integer to a `float64`.
pub(super) fn double_of(from: Scalar, value: i64) -> f64 {
    if from == Scalar::UInt(64) { value as u64 as f64 } else { value as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quick_conversions_of_float16_are_the_exact_ones() {
        for bits in 0..=u16::MAX {
            let value = F16(bits).to_f32();
            assert!(of_f16(bits) == value || value.is_nan() && of_f16(bits).is_nan(), "{bits:#x}");
            assert!(to_f16(value) == bits || value.is_nan(), "{bits:#x}");
            for near in [value, f32::from_bits(value.to_bits() + 0x1000), f32::from_bits(value.to_bits() + 0xfff)] {
                let (quick, exact) = (F16::round(near), F16::from_f32(near).to_f32());
                assert!(quick.to_bits() == exact.to_bits() || exact.is_nan(), "{near}: {quick} {exact}");
            }
        }
    }

    #[test]
    fn floats_become_integers_within_their_range() {
        assert_eq!(to_int(Scalar::Int(8), 300.7), 127);
        assert_eq!((to_int(Scalar::Int(32), -1.9), to_int(Scalar::Int(64), f64::NAN)), (-1, 0));
        assert_eq!((to_int(Scalar::UInt(8), -5.0), to_int(Scalar::UInt(64), 1e19)), (0, 1e19 as u64 as i64));
        assert_eq!(single_of(Scalar::UInt(64), Scalar::F32, -1), 1.844_674_4e19);
    }
}
