//! Exponential, hyperbolic tangent and error function of `float32`, shared by all backends.
//!
//! Each is a fixed sequence of [`Steps`]: sums, products and choices, which round the same everywhere. The
//! interpreter applies the steps to numbers; native code emits them as vector instructions. Therefore, both yield
//! the same bits on every machine.
//!
//! | function | largest error, in units of the last place |
//! |---|---|
//! | [`exp`] | 1.1 |
//! | [`tanh`] | 1.3 |
//! | [`erf`] | 2.3 |
//!
//! The polynomials are minimax fits over the ranges named in the functions.

use crate::program::Math;

/// A number whose last bit is worth 1, so that adding a small number rounds the small number to an integer.
pub const LARGE: f32 = 12_582_912.0;

/// The operations on `float32` that a backend provides.
pub trait Steps {
    /// A number.
    type Number: Clone;
    /// An integer.
    type Whole: Clone;
    /// A Boolean.
    type Truth;

    /// Returns a constant.
    fn number(&mut self, value: f32) -> Self::Number;
    /// Returns `a + b`.
    fn add(&mut self, a: &Self::Number, b: &Self::Number) -> Self::Number;
    /// Returns `a - b`.
    fn sub(&mut self, a: &Self::Number, b: &Self::Number) -> Self::Number;
    /// Returns `a * b`.
    fn mul(&mut self, a: &Self::Number, b: &Self::Number) -> Self::Number;
    /// Returns `a / b`.
    fn div(&mut self, a: &Self::Number, b: &Self::Number) -> Self::Number;
    /// Returns the absolute value.
    fn abs(&mut self, a: &Self::Number) -> Self::Number;
    /// Returns `size` with the sign of `sign`.
    fn with_sign(&mut self, size: &Self::Number, sign: &Self::Number) -> Self::Number;
    /// Returns true if the number is not NaN.
    fn is_number(&mut self, a: &Self::Number) -> Self::Truth;
    /// Returns true if `a < b`; false for NaN.
    fn less(&mut self, a: &Self::Number, b: &Self::Number) -> Self::Truth;
    /// Returns one of two numbers.
    fn choose(&mut self, which: &Self::Truth, yes: &Self::Number, no: &Self::Number) -> Self::Number;
    /// Rounds to the nearest integer, ties to even. The result has fewer than 10 bits.
    fn nearest(&mut self, a: &Self::Number) -> (Self::Number, Self::Whole);
    /// Splits an integer into its half, rounded down, and the remainder.
    fn halves(&mut self, n: &Self::Whole) -> [Self::Whole; 2];
    /// Returns `2^n`, for `n` from -126 to 127.
    fn power_of_two(&mut self, n: &Self::Whole) -> Self::Number;
}

/// Returns the steps of a function if it is defined here.
pub fn of<S: Steps>(math: Math) -> Option<fn(&mut S, &S::Number) -> S::Number> {
    match math {
        Math::Exp => Some(exp),
        Math::Tanh => Some(tanh),
        Math::Erf => Some(erf),
        _ => None,
    }
}

/// Returns `e^x`.
pub fn exp<S: Steps>(s: &mut S, x: &S::Number) -> S::Number {
    // e^-104 is 0, and e^89 is infinite.
    let [low, zero, high] = [-104.0, 0.0, 89.0].map(|number| s.number(number));
    let below = s.less(x, &low);
    let within = s.choose(&below, &low, x);
    let above = s.less(&high, &within);
    let within = s.choose(&above, &high, &within);
    let is_number = s.is_number(x);
    let within = s.choose(&is_number, &within, &zero);
    let power = exp_of_number(s, &within);
    s.choose(&is_number, &power, x)
}

/// Returns `e^x` for `x` from -104 to 89, as `2^n * e^r`, where the absolute value of `r` is at most half of ln 2.
fn exp_of_number<S: Steps>(s: &mut S, x: &S::Number) -> S::Number {
    const FACTORS: [f32; 5] = [0.5, 0.166_665_73, 0.041_666_362, 0.008_363_776, 0.001_394_216_1];
    // ln 2 as two numbers; the first has so few bits that its product with n is exact.
    let [per_power, upper, lower, one] =
        [std::f32::consts::LOG2_E, 0.693_359_4, -2.121_944_4e-4, 1.0].map(|number| s.number(number));
    let powers = s.mul(x, &per_power);
    let (n, whole) = s.nearest(&powers);
    let (upper, lower) = (s.mul(&n, &upper), s.mul(&n, &lower));
    let rest = s.sub(x, &upper);
    let rest = s.sub(&rest, &lower);
    let sum = polynomial(s, &rest, &FACTORS);
    let square = s.mul(&sum, &rest);
    let square = s.mul(&square, &rest);
    let sum = s.add(&square, &rest);
    let sum = s.add(&sum, &one);
    // In two steps, because 2^n may be subnormal or infinite.
    let halves = s.halves(&whole).map(|half| s.power_of_two(&half));
    let half = s.mul(&sum, &halves[0]);
    s.mul(&half, &halves[1])
}

/// Returns the hyperbolic tangent.
pub fn tanh<S: Steps>(s: &mut S, x: &S::Number) -> S::Number {
    // For absolute values below 0.625, the result is x + x^3 times this polynomial of x^2.
    const FACTORS: [f32; 5] = [-0.333_333_28, 0.133_327_95, -0.053_854_06, 0.021_010_047, -0.006_113_151_6];
    let [bound, one, two] = [0.625, 1.0, 2.0].map(|number| s.number(number));
    let size = s.abs(x);
    let square = s.mul(&size, &size);
    let small = polynomial(s, &square, &FACTORS);
    let small = s.mul(&square, &small);
    let small = s.mul(&size, &small);
    let small = s.add(&size, &small);
    // For larger values, the result is 1 - 2 / (e^2x + 1).
    let twice = s.mul(&size, &two);
    let power = exp(s, &twice);
    let sum = s.add(&power, &one);
    let part = s.div(&two, &sum);
    let large = s.sub(&one, &part);
    let is_small = s.less(&size, &bound);
    let size = s.choose(&is_small, &small, &large);
    s.with_sign(&size, x)
}

/// Returns the error function.
pub fn erf<S: Steps>(s: &mut S, x: &S::Number) -> S::Number {
    // For absolute values below 1, the result is x times this polynomial of x^2.
    #[expect(clippy::approx_constant, reason = "the best first factor is not the one of the series")]
    const FACTORS: [f32; 7] =
        [1.128_379_1, -0.376_126_26, 0.112_836, -0.026_854_444, 0.005_189_535, -8.020_841e-4, 7.889_119e-5];
    // From 1 to 4, this is the logarithm of 1 - erf(x).
    const LOGARITHM: [f32; 8] = [
        1.880_402_3e-4,
        -1.129_578_5,
        -0.633_219_9,
        -0.108_418_58,
        0.025_208_257,
        -0.004_204_562,
        4.413_363_4e-4,
        -2.168_685e-5,
    ];
    let [one, most] = [1.0, 4.0].map(|number| s.number(number));
    let size = s.abs(x);
    let square = s.mul(&size, &size);
    let small = polynomial(s, &square, &FACTORS);
    let small = s.mul(&size, &small);
    // erf(4) is 1.
    let beyond = s.less(&most, &size);
    let within = s.choose(&beyond, &most, &size);
    let logarithm = polynomial(s, &within, &LOGARITHM);
    let rest = exp(s, &logarithm);
    let large = s.sub(&one, &rest);
    let is_small = s.less(&size, &one);
    let size = s.choose(&is_small, &small, &large);
    s.with_sign(&size, x)
}

/// Evaluates a polynomial, given its coefficients from the lowest power to the highest.
fn polynomial<S: Steps>(s: &mut S, x: &S::Number, factors: &[f32]) -> S::Number {
    let mut rest = factors.iter().rev();
    let first = s.number(rest.next().copied().unwrap_or_default());
    rest.fold(first, |sum, factor| {
        let (product, factor) = (s.mul(&sum, x), s.number(*factor));
        s.add(&product, &factor)
    })
}

/// The steps on a single number.
pub(super) struct OfOne;

impl Steps for OfOne {
    type Number = f32;
    type Whole = i32;
    type Truth = bool;

    fn number(&mut self, value: f32) -> f32 {
        value
    }

    fn add(&mut self, a: &f32, b: &f32) -> f32 {
        a + b
    }

    fn sub(&mut self, a: &f32, b: &f32) -> f32 {
        a - b
    }

    fn mul(&mut self, a: &f32, b: &f32) -> f32 {
        a * b
    }

    fn div(&mut self, a: &f32, b: &f32) -> f32 {
        a / b
    }

    fn abs(&mut self, a: &f32) -> f32 {
        a.abs()
    }

    fn with_sign(&mut self, size: &f32, sign: &f32) -> f32 {
        size.copysign(*sign)
    }

    fn is_number(&mut self, a: &f32) -> bool {
        !a.is_nan()
    }

    fn less(&mut self, a: &f32, b: &f32) -> bool {
        a < b
    }

    fn choose(&mut self, which: &bool, yes: &f32, no: &f32) -> f32 {
        if *which { *yes } else { *no }
    }

    fn nearest(&mut self, a: &f32) -> (f32, i32) {
        let near = (a + LARGE) - LARGE;
        (near, near as i32)
    }

    fn halves(&mut self, n: &i32) -> [i32; 2] {
        let half = n >> 1;
        [half, n - half]
    }

    fn power_of_two(&mut self, n: &i32) -> f32 {
        f32::from_bits(((n + 127) << 23) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the largest error of a function, in units of the last place.
    fn error(f: impl Fn(f32) -> f32, exact: impl Fn(f64) -> f64, numbers: impl Iterator<Item = f32>) -> f64 {
        numbers.fold(0.0, |most, x| {
            let exact = exact(x.into());
            let place = f64::from((exact as f32).abs().next_up()) - f64::from((exact as f32).abs());
            (f64::from(f(x)) - exact).abs().max(most * place) / place
        })
    }

    fn between(low: f32, high: f32) -> impl Iterator<Item = f32> {
        (0..=200_000).map(move |n| low + (high - low) * (n as f32 / 200_000.0))
    }

    #[test]
    fn errors_are_small() {
        assert!(error(|x| exp(&mut OfOne, &x), libm::exp, between(-87.0, 88.7)) < 1.1);
        assert!(error(|x| tanh(&mut OfOne, &x), libm::tanh, between(-12.0, 12.0)) < 1.4);
        assert!(error(|x| erf(&mut OfOne, &x), libm::erf, between(-5.0, 5.0)) < 2.4);
    }

    #[test]
    fn special_numbers_are_as_in_c() {
        let [plus, minus] = [f32::INFINITY, f32::NEG_INFINITY];
        assert_eq!([plus, minus, 0.0, 1e30, -1e30].map(|x| exp(&mut OfOne, &x)), [plus, 0.0, 1.0, plus, 0.0]);
        assert_eq!([plus, minus, 1e-30].map(|x| tanh(&mut OfOne, &x)), [1.0, -1.0, 1e-30]);
        assert_eq!([plus, minus, 20.0].map(|x| erf(&mut OfOne, &x)), [1.0, -1.0, 1.0]);
        for f in [exp::<OfOne>, tanh, erf] {
            assert!(f(&mut OfOne, &f32::NAN).is_nan());
        }
        assert_eq!([tanh::<OfOne>, erf].map(|f| f(&mut OfOne, &-0.0).to_bits()), [1 << 31; 2]);
        // Subnormal results are rounded once.
        assert_eq!(exp(&mut OfOne, &-103.0), libm::exp(-103.0) as f32);
    }
}
