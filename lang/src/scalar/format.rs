//! The formats of floats, and conversion to narrow floats.

use super::computed::Scalar;
use super::dtype::DType;

/// The format of a float type: sign, exponent and fraction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Format {
    /// Number of bits of the fraction.
    pub fraction: u32,
    /// Bias of the exponent. The least normal number has the exponent `1 - bias`; in IEEE 754 formats, the greatest number has the exponent
    /// `bias`.
    pub bias: i32,
    /// The greatest finite number.
    pub greatest: f64,
    /// The bits of infinity, or of NaN if the format cannot represent infinity.
    pub infinity: u64,
    /// The bits of NumPy's NaN.
    pub nan: u64,
}

impl Format {
    /// Returns the exponent of the least normal number.
    pub const fn least_exponent(self) -> i32 {
        1 - self.bias
    }

    /// Returns the bits of the nearest float in an 8-bit format, ties to even, rounded as in NumPy's `ml_dtypes`.
    fn eight_bits(self, value: f64) -> u64 {
        let sign = if value.is_sign_negative() { 0x80 } else { 0 };
        if value.is_nan() {
            return sign | self.nan;
        }
        // `exponent` is the greater of the exponents of the number and of the least normal number.
        let (magnitude, least) = (value.abs(), self.least_exponent());
        let exponent = match magnitude {
            0.0 => least,
            finite => (((finite.to_bits() >> 52) & 0x7ff) as i32 - 1023).clamp(least, 1023),
        };
        let unit = 2f64.powi(exponent - self.fraction as i32);
        let rounded = (magnitude / unit).round_ties_even();
        if rounded * unit > self.greatest {
            return sign | self.infinity;
        }
        // A carry out of the fraction increments the exponent.
        let below = ((exponent - least) as u64) << self.fraction;
        sign | (below + rounded as u64)
    }
}

impl DType {
    /// Returns the format of a float type; `None` for other types, and for floats whose numbers are not supported.
    pub fn format(self) -> Option<Format> {
        self.info()?.format
    }

    /// Returns the bits of the nearest float of a data type; `None` if the data type lacks a float format.
    pub fn bits_of_float(self, value: f64) -> Option<u64> {
        let format = self.format()?;
        Some(Scalar::of(self).map_or_else(|| format.eight_bits(value), |scalar| scalar.bits_of(value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(dtype: &str, value: f64) -> u64 {
        dtype.parse::<DType>().expect("a data type").bits_of_float(value).expect("an eight-bit float")
    }

    #[test]
    fn numbers_are_rounded_to_the_nearest() {
        let e4m3fn = |value| bits("float8_e4m3fn", value);
        assert_eq!((e4m3fn(0.0), e4m3fn(-0.0), e4m3fn(1.0), e4m3fn(1.5), e4m3fn(-2.0)), (0, 0x80, 0x38, 0x3c, 0xc0));
        assert_eq!((e4m3fn(448.0), e4m3fn(464.0), e4m3fn(465.0), e4m3fn(f64::INFINITY)), (0x7e, 0x7e, 0x7f, 0x7f));
        assert_eq!((e4m3fn(0.001953125), e4m3fn(0.0009765625), e4m3fn(0.00098)), (1, 0, 1), "denormal numbers");
        assert_eq!((e4m3fn(1.0625), e4m3fn(1.1875)), (0x38, 0x3a), "a tie rounds to the even number");
        let e5m2 = |value| bits("float8_e5m2", value);
        assert_eq!((e5m2(57344.0), e5m2(65504.0), e5m2(f64::NEG_INFINITY), e5m2(f64::NAN)), (0x7b, 0x7c, 0xfc, 0x7e));
        assert_eq!((e5m2(1e-7), e5m2(1e-45), e5m2(0.1)), (0, 0, 0x2e));
        assert_eq!((DType::I8.bits_of_float(1.0), DType::F16.bits_of_float(1.0)), (None, Some(0x3c00)));
    }
}
