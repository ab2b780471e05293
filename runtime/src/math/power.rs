//! Powers of `float32`, computed in `float64`; shared by all backends.
//!
//! The largest error is 0.51 units of the last place. Special numbers follow the C standard.

use super::elementary::{OfOne, Steps};

/// The operations on `float64` that a backend provides in addition to those on `float32`.
pub trait WideSteps: Steps {
    /// A number of `float64`.
    type Wide: Clone;

    /// Returns a constant.
    fn wide(&mut self, value: f64) -> Self::Wide;
    /// Converts a `float32` to `float64`.
    fn widened(&mut self, a: &Self::Number) -> Self::Wide;
    /// Rounds to `float32`.
    fn narrowed(&mut self, a: &Self::Wide) -> Self::Number;
    /// Returns `a + b`.
    fn wide_add(&mut self, a: &Self::Wide, b: &Self::Wide) -> Self::Wide;
    /// Returns `a - b`.
    fn wide_sub(&mut self, a: &Self::Wide, b: &Self::Wide) -> Self::Wide;
    /// Returns `a * b`.
    fn wide_mul(&mut self, a: &Self::Wide, b: &Self::Wide) -> Self::Wide;
    /// Returns `a / b`.
    fn wide_div(&mut self, a: &Self::Wide, b: &Self::Wide) -> Self::Wide;
    /// Returns true if `a < b`; false for NaN.
    fn wide_less(&mut self, a: &Self::Wide, b: &Self::Wide) -> Self::Truth;
    /// Returns one of two numbers.
    fn wide_choose(&mut self, which: &Self::Truth, yes: &Self::Wide, no: &Self::Wide) -> Self::Wide;
    /// Rounds to the nearest integer, ties to even. The result has fewer than 31 bits.
    fn wide_nearest(&mut self, a: &Self::Wide) -> (Self::Wide, Self::Whole);
    /// Returns `2^n`, for `n` from -1022 to 1023.
    fn wide_power_of_two(&mut self, n: &Self::Whole) -> Self::Wide;
    /// Splits a positive normal number into `2^n * m`, where `m` lies roughly between the square roots of 0.5 and 2.
    /// For other numbers, `n` and `m` are arbitrary but not NaN.
    fn parts(&mut self, a: &Self::Wide) -> (Self::Wide, Self::Wide);
}

/// A number whose last bit is worth 1, so that adding a small number rounds the small number to an integer.
pub const WIDE_LARGE: f64 = 6_755_399_441_055_744.0;
/// The bits of approximately the square root of 0.5.
pub const ROOT_OF_HALF: i64 = 0x3fe6_a09e_0000_0000;

/// Returns `x^y`.
pub fn pow<S: WideSteps>(s: &mut S, x: &S::Number, y: &S::Number) -> S::Number {
    let [zero, one, nan, minus] = [0.0, 1.0, f32::NAN, f32::NEG_INFINITY].map(|number| s.number(number));
    let size = s.abs(x);
    let power = of_size(s, &size, y);
    let [is_whole, is_even] = whole_and_even(s, y);
    let signed = s.with_sign(&power, x);
    let of_whole = s.choose(&is_even, &power, &signed);
    // A negative number has only integer powers; -0 and negative infinity also have others.
    let [is_finite, is_negative] = [s.less(&minus, x), s.less(x, &zero)];
    let of_finite = s.choose(&is_finite, &nan, &power);
    let of_other = s.choose(&is_negative, &of_finite, &power);
    let mut out = s.choose(&is_whole, &of_whole, &of_other);
    for number in [x, y] {
        let is_number = s.is_number(number);
        out = s.choose(&is_number, &out, number);
    }
    // 1 to any power is 1, and so is any number to the power of 0.
    let from_one = s.sub(x, &one);
    for number in [&from_one, y] {
        let is_zero = is_zero(s, number);
        out = s.choose(&is_zero, &one, &out);
    }
    out
}

/// Returns true if a number is 0; false for NaN.
fn is_zero<S: Steps>(s: &mut S, number: &S::Number) -> S::Truth {
    let (size, least) = (s.abs(number), s.number(f32::from_bits(1)));
    s.less(&size, &least)
}

/// Returns two flags: whether a number is an integer, and whether it is an even integer. Both are true for
/// infinities.
fn whole_and_even<S: WideSteps>(s: &mut S, y: &S::Number) -> [S::Truth; 2] {
    // From 2^25 on, all floats are even.
    let (size, most) = (s.abs(y), s.number(33_554_432.0));
    let is_small = s.less(&size, &most);
    let y = s.choose(&is_small, y, &most);
    let (y, half) = (s.widened(&y), s.wide(0.5));
    let half = s.wide_mul(&y, &half);
    [y, half].map(|number| {
        let (near, _) = s.wide_nearest(&number);
        let rest = s.wide_sub(&number, &near);
        let rest = s.narrowed(&rest);
        is_zero(s, &rest)
    })
}

/// Returns the power of a nonnegative number, except for cases such as `1^inf` and `0^0`.
fn of_size<S: WideSteps>(s: &mut S, size: &S::Number, y: &S::Number) -> S::Number {
    // Exponents beyond this limit yield the same powers: 0, 1 or infinity.
    let (of_y, most) = (s.abs(y), s.number(1e30));
    let (is_small, largest) = (s.less(&of_y, &most), s.with_sign(&most, y));
    let y = s.choose(&is_small, y, &largest);
    let (wide_size, wide_y) = (s.widened(size), s.widened(&y));
    let logarithm = log2(s, &wide_size);
    let (is_zero, highest) = (is_zero(s, size), s.number(f32::MAX));
    let is_infinite = s.less(&highest, size);
    let [below, above] = [f64::NEG_INFINITY, f64::INFINITY].map(|number| s.wide(number));
    let logarithm = s.wide_choose(&is_zero, &below, &logarithm);
    let logarithm = s.wide_choose(&is_infinite, &above, &logarithm);
    let powers = s.wide_mul(&wide_y, &logarithm);
    // 2^-160 is 0 as `float32`, and 2^160 is infinite. NaN is replaced by one of the limits.
    let [low, high] = [-160.0, 160.0].map(|number| s.wide(number));
    let is_less = s.wide_less(&powers, &high);
    let powers = s.wide_choose(&is_less, &powers, &high);
    let is_more = s.wide_less(&low, &powers);
    let powers = s.wide_choose(&is_more, &powers, &low);
    let power = exp2(s, &powers);
    s.narrowed(&power)
}

/// Returns the logarithm to base 2 of a positive number.
fn log2<S: WideSteps>(s: &mut S, x: &S::Wide) -> S::Wide {
    // log2(m) is 2 / ln 2 times artanh(t) with t = (m - 1) / (m + 1), which is at most 0.172.
    const FACTORS: [f64; 7] = {
        let (mut factors, mut at) = ([0.0; 7], 0);
        while at < factors.len() {
            factors[at] = 2.0 * std::f64::consts::LOG2_E / (2 * at + 1) as f64;
            at += 1;
        }
        factors
    };
    let (n, m) = s.parts(x);
    let one = s.wide(1.0);
    let (above, below) = (s.wide_sub(&m, &one), s.wide_add(&m, &one));
    let t = s.wide_div(&above, &below);
    let square = s.wide_mul(&t, &t);
    let sum = polynomial(s, &square, &FACTORS);
    let part = s.wide_mul(&t, &sum);
    s.wide_add(&n, &part)
}

/// Returns `2^x`, for absolute values up to 1000.
fn exp2<S: WideSteps>(s: &mut S, x: &S::Wide) -> S::Wide {
    // The series of e^(r ln 2), for absolute values of r up to a half.
    const FACTORS: [f64; 10] = {
        let (mut factors, mut at) = ([1.0; 10], 1);
        while at < factors.len() {
            factors[at] = factors[at - 1] * std::f64::consts::LN_2 / at as f64;
            at += 1;
        }
        factors
    };
    let (n, whole) = s.wide_nearest(x);
    let rest = s.wide_sub(x, &n);
    let sum = polynomial(s, &rest, &FACTORS);
    let power = s.wide_power_of_two(&whole);
    s.wide_mul(&sum, &power)
}

/// Evaluates a polynomial, given its coefficients from the lowest power to the highest.
fn polynomial<S: WideSteps>(s: &mut S, x: &S::Wide, factors: &[f64]) -> S::Wide {
    let mut rest = factors.iter().rev();
    let first = s.wide(rest.next().copied().unwrap_or_default());
    rest.fold(first, |sum, factor| {
        let (product, factor) = (s.wide_mul(&sum, x), s.wide(*factor));
        s.wide_add(&product, &factor)
    })
}

impl WideSteps for OfOne {
    type Wide = f64;

    fn wide(&mut self, value: f64) -> f64 {
        value
    }

    fn widened(&mut self, a: &f32) -> f64 {
        f64::from(*a)
    }

    fn narrowed(&mut self, a: &f64) -> f32 {
        *a as f32
    }

    fn wide_add(&mut self, a: &f64, b: &f64) -> f64 {
        a + b
    }

    fn wide_sub(&mut self, a: &f64, b: &f64) -> f64 {
        a - b
    }

    fn wide_mul(&mut self, a: &f64, b: &f64) -> f64 {
        a * b
    }

    fn wide_div(&mut self, a: &f64, b: &f64) -> f64 {
        a / b
    }

    fn wide_less(&mut self, a: &f64, b: &f64) -> bool {
        a < b
    }

    fn wide_choose(&mut self, which: &bool, yes: &f64, no: &f64) -> f64 {
        if *which { *yes } else { *no }
    }

    fn wide_nearest(&mut self, a: &f64) -> (f64, i32) {
        let near = (a + WIDE_LARGE) - WIDE_LARGE;
        (near, near as i32)
    }

    fn wide_power_of_two(&mut self, n: &i32) -> f64 {
        f64::from_bits(((i64::from(*n) + 1023) << 52) as u64)
    }

    fn parts(&mut self, a: &f64) -> (f64, f64) {
        let bits = a.to_bits() as i64;
        let n = (bits - ROOT_OF_HALF) >> 52;
        (f64::from(n as i32), f64::from_bits((bits - (n << 52)) as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(x: f32, y: f32) -> f32 {
        pow(&mut OfOne, &x, &y)
    }

    #[test]
    fn errors_are_small() {
        let mut most = 0f64;
        for n in 0..300_000u32 {
            // Numbers of all magnitudes, and exponents for results of all magnitudes.
            let x = f32::from_bits(n.wrapping_mul(2_654_435_761) & 0x7fff_ffff);
            let y = (n % 2999) as f32 * 0.1 - 150.0;
            let y = if n % 2 == 0 { y } else { y / x.log2() };
            let exact = libm::pow(x.into(), y.into());
            let size = (exact as f32).abs();
            if !size.is_finite() || size == 0.0 {
                continue;
            }
            let place = f64::from(size.next_up()) - f64::from(size);
            most = most.max((f64::from(of(x, y)) - exact).abs() / place);
        }
        assert!(most > 0.4 && most < 0.51, "{most}");
    }

    #[test]
    fn special_numbers_are_as_in_c() {
        let inf = f32::INFINITY;
        let numbers =
            [0.0, 1e-45, 1e-20, 0.3, 0.999_999_94, 1.0, 1.000_000_1, 2.5, 7.0, 3e4, 33_554_431.0, 1e20, 3e38, inf];
        let numbers: Vec<f32> = numbers.into_iter().flat_map(|x: f32| [x, -x]).chain([f32::NAN]).collect();
        let exponents = [0.0, 1e-45, 0.5, 1.0, 2.0, 3.0, 2.5, 16_777_215.0, 16_777_216.0, 33_554_434.0, 1e31, inf];
        let exponents: Vec<f32> = exponents.into_iter().flat_map(|y: f32| [y, -y]).chain([f32::NAN]).collect();
        for x in &numbers {
            for y in &exponents {
                let (found, expected) = (of(*x, *y), libm::pow(f64::from(*x), f64::from(*y)) as f32);
                let same = found.is_nan() && expected.is_nan()
                    || found.is_sign_negative() == expected.is_sign_negative()
                        && found.to_bits().abs_diff(expected.to_bits()) <= 1;
                assert!(same, "{x:?}^{y:?} is {expected:?}, not {found:?}");
            }
        }
    }
}
