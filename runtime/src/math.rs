//! Functions of floats with the same bits on every machine.
//!
//! Square roots and roundings are exact by IEEE 754, so Rust's own are taken. Exponentials, hyperbolic tangents and error
//! functions of `float32` are [our own](elementary), and so are [powers](power). Everything else is from the crate `libm`, which is plain arithmetic in a
//! fixed order; Rust's `f32::exp` and the like call the library of the system, whose last
//! bits differ from machine to machine. Code that a backend generates has to call these same functions.

pub mod elementary;
pub mod power;

use self::elementary::OfOne;
use crate::program::{Binary, Math, Scalar};
use passhost_lang::ir::{Bf16, F16};

macro_rules! functions {
    ($ty:ty, $one:ident, $($math:ident => $libm:expr,)*) => {
        #[doc = concat!("A function of one ", stringify!($ty), ".")]
        pub fn $one(math: Math) -> fn($ty) -> $ty {
            match math {
                $(Math::$math => $libm,)*
                Math::Sqrt => <$ty>::sqrt,
                Math::Rsqrt => |x| 1.0 / x.sqrt(),
                Math::Floor => <$ty>::floor,
                Math::Ceil => <$ty>::ceil,
                Math::Trunc => <$ty>::trunc,
                Math::Round | Math::NearbyInt => <$ty>::round_ties_even,
                Math::Sigmoid => |x| 1.0 / (1.0 + $one(Math::Exp)(-x)),
            }
        }
    };
}

functions! {
    f32, of_f32,
    Exp => |x| elementary::exp(&mut OfOne, &x), Exp2 => libm::exp2f, Exp10 => libm::exp10f, Log => libm::logf, Log2 => libm::log2f, Log10 => libm::log10f, Log1p => libm::log1pf,
    Expm1 => libm::expm1f, Erf => |x| elementary::erf(&mut OfOne, &x), Tanh => |x| elementary::tanh(&mut OfOne, &x), Sin => libm::sinf, Cos => libm::cosf, Tan => libm::tanf, Sinh => libm::sinhf, Cosh => libm::coshf,
    Asin => libm::asinf, Acos => libm::acosf, Atan => libm::atanf, Asinh => libm::asinhf, Acosh => libm::acoshf, Atanh => libm::atanhf, Cbrt => libm::cbrtf,
}

functions! {
    f64, of_f64,
    Exp => libm::exp, Exp2 => libm::exp2, Exp10 => libm::exp10, Log => libm::log, Log2 => libm::log2, Log10 => libm::log10, Log1p => libm::log1p,
    Expm1 => libm::expm1, Erf => libm::erf, Tanh => libm::tanh, Sin => libm::sin, Cos => libm::cos, Tan => libm::tan, Sinh => libm::sinh, Cosh => libm::cosh,
    Asin => libm::asin, Acos => libm::acos, Atan => libm::atan, Asinh => libm::asinh, Acosh => libm::acosh, Atanh => libm::atanh, Cbrt => libm::cbrt,
}

macro_rules! of_two {
    ($name:ident, $ty:ty, $pow:expr, $atan2:ident, $hypot:ident, $next:ident, $ldexp:ident) => {
        #[doc = concat!("An operation on two ", stringify!($ty), "; of comparisons and what only integers have, the first.")]
        pub fn $name(op: Binary) -> fn($ty, $ty) -> $ty {
            match op {
                Binary::Add => |a, b| a + b,
                Binary::Sub => |a, b| a - b,
                Binary::Mul => |a, b| a * b,
                Binary::Div | Binary::TruncDiv => |a, b| a / b,
                Binary::FloorDiv => |a, b| (a / b).floor(),
                Binary::FloorMod => |a, b| a - (a / b).floor() * b,
                // The remainder of floats is exact.
                Binary::TruncMod => |a, b| a % b,
                Binary::Min => |a, b| if a < b { a } else { b },
                Binary::Max => |a, b| if a > b { a } else { b },
                Binary::Pow => $pow,
                Binary::Atan2 => libm::$atan2,
                Binary::CopySign => <$ty>::copysign,
                Binary::Hypot => libm::$hypot,
                Binary::NextAfter => libm::$next,
                Binary::Ldexp => |a, b| libm::$ldexp(a, b as i32),
                _ => |a, _| a,
            }
        }
    };
}

of_two!(of_two_f32, f32, |x, y| power::pow(&mut OfOne, &x, &y), atan2f, hypotf, nextafterf, ldexpf);
of_two!(of_two_f64, f64, libm::pow, atan2, hypot, nextafter, ldexp);

/// A comparison of floats.
pub fn compare<T: PartialOrd>(op: Binary, a: T, b: T) -> bool {
    match op {
        Binary::Eq => a == b,
        Binary::Ne => a != b,
        Binary::Lt => a < b,
        Binary::Le => a <= b,
        Binary::Gt => a > b,
        Binary::Ge => a >= b,
        _ => false,
    }
}

/// A `float32` rounded to a type.
pub fn round(of: Scalar, value: f32) -> f32 {
    match of {
        Scalar::F16 => round_f16(value),
        Scalar::Bf16 => Bf16::from_f32(value).to_f32(),
        _ => value,
    }
}

/// As [`F16::from_f32`] and back, but quick where the result is a normal number.
pub(crate) fn round_f16(value: f32) -> f32 {
    let bits = value.to_bits();
    match value.abs() {
        6.103_515_6e-5..65520.0 => f32::from_bits((bits + 0xfff + (bits >> 13 & 1)) & !0x1fff),
        _ => F16::from_f32(value).to_f32(),
    }
}

/// A `float64` as one of the narrower types, rounded once.
pub fn narrow(to: Scalar, value: f64) -> f32 {
    match to {
        Scalar::F16 => F16::from_f64(value).to_f32(),
        to => round(to, value as f32),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bits that were computed once: another machine, compiler or release of `libm` must not change them.
    #[test]
    fn bits_are_those_of_every_machine() {
        let x = 0.7f32;
        let bits = |math| of_f32(math)(x).to_bits();
        assert_eq!(bits(Math::Sqrt), 0x3f56_2f5a);
        assert_eq!(of_f32(Math::Round)(2.5), 2.0, "TVM rounds to the even one");
        assert_eq!(of_f32(Math::Exp)(0.0), 1.0);
        assert!((f64::from(of_f32(Math::Exp)(x)) - 2.013_752_707_470_476_5).abs() < 2e-7);
        assert!((of_f64(Math::Erf)(0.7) - 0.677_801_193_837_418_5).abs() < 1e-15);
        assert!((of_f64(Math::Tanh)(0.7) - 0.604_367_777_117_163_5).abs() < 1e-15);
        assert!(of_two_f32(Binary::Max)(f32::NAN, 1.0) == 1.0 && of_two_f32(Binary::Max)(1.0, f32::NAN).is_nan());
    }
}
