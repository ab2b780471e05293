//! Converts numbers to 8-bit floats, with the rounding of NumPy's `ml_dtypes`.

use passhost_lang::ir::DType;

/// A format: bits of the fraction, bias of the exponent, and the encoding of infinities and NaN.
struct Format {
    fraction: u32,
    bias: i32,
    greatest: f64,
    infinity: u8,
    nan: u8,
}

fn format(dtype: DType) -> Option<Format> {
    let of = |fraction, bias, greatest, infinity, nan| Some(Format { fraction, bias, greatest, infinity, nan });
    match dtype.to_string().as_str() {
        "float8_e3m4" => of(4, 3, 15.5, 0x70, 0x78),
        "float8_e4m3" => of(3, 7, 240.0, 0x78, 0x7c),
        // This format cannot represent infinity.
        "float8_e4m3fn" => of(3, 7, 448.0, 0x7f, 0x7f),
        "float8_e5m2" => of(2, 15, 57344.0, 0x7c, 0x7e),
        _ => None,
    }
}

/// Returns the bits of the nearest float of a data type, ties to even; `None` if it is not one of these data types.
pub(crate) fn float8_bits(dtype: DType, value: f64) -> Option<u8> {
    let Format { fraction, bias, greatest, infinity, nan } = format(dtype)?;
    let sign = if value.is_sign_negative() { 0x80 } else { 0 };
    if value.is_nan() {
        return Some(sign | nan);
    }
    // The exponent of the number, at least that of the least normal one; and that of the last bit of the fraction.
    let magnitude = value.abs();
    let least = 1 - bias;
    let exponent = match magnitude {
        0.0 => least,
        finite => (((finite.to_bits() >> 52) & 0x7ff) as i32 - 1023).clamp(least, 1023),
    };
    let unit = 2f64.powi(exponent - fraction as i32);
    let rounded = (magnitude / unit).round_ties_even();
    if rounded * unit > greatest {
        return Some(sign | infinity);
    }
    // A carry out of the fraction increments the exponent.
    let steps = rounded as u32;
    let below = ((exponent - least) as u32) << fraction;
    Some(sign | (below + steps) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(dtype: &str, value: f64) -> u8 {
        float8_bits(dtype.parse().expect("a data type"), value).expect("a float of eight bits")
    }

    #[test]
    fn numbers_are_rounded_to_the_nearest() {
        let e4m3fn = |value| bits("float8_e4m3fn", value);
        assert_eq!((e4m3fn(0.0), e4m3fn(-0.0), e4m3fn(1.0), e4m3fn(1.5), e4m3fn(-2.0)), (0, 0x80, 0x38, 0x3c, 0xc0));
        assert_eq!((e4m3fn(448.0), e4m3fn(464.0), e4m3fn(465.0), e4m3fn(f64::INFINITY)), (0x7e, 0x7e, 0x7f, 0x7f));
        assert_eq!((e4m3fn(0.001953125), e4m3fn(0.0009765625), e4m3fn(0.00098)), (1, 0, 1), "denormal numbers");
        assert_eq!((e4m3fn(1.0625), e4m3fn(1.1875)), (0x38, 0x3a), "half-way, to the even one");
        let e5m2 = |value| bits("float8_e5m2", value);
        assert_eq!((e5m2(57344.0), e5m2(65504.0), e5m2(f64::NEG_INFINITY), e5m2(f64::NAN)), (0x7b, 0x7c, 0xfc, 0x7e));
        assert_eq!((e5m2(1e-7), e5m2(1e-45), e5m2(0.1)), (0, 0, 0x2e));
        assert_eq!(float8_bits(DType::F16, 1.0), None);
    }
}
