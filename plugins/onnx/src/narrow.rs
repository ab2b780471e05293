//! Narrow types: integers of less than 8 bits, and floats of 8 bits or less. Kernels cannot compute with them, so a module
//! stores them as bytes: small integers as int8 or uint8, and the bits of small floats as uint8. Conversions to and from
//! other types are exact.

use crate::cx::Cx;
use crate::value::{Res, T};
use plugin_api::prelude::*;

/// Returns the type of the bytes that hold a narrow type; `None` for other types.
pub(crate) fn storage(dtype: DType) -> Option<DType> {
    match (dtype.code(), dtype.bits()) {
        (0, 2 | 4) => Some(DType::I8),
        (1, 2 | 4) => Some(DType::U8),
        (7.., _) => Some(DType::U8),
        _ => None,
    }
}

/// A format of small floats.
struct Format {
    mantissa: i32,
    bias: i32,
    /// The code of the greatest finite number.
    most: u8,
    /// The code of NaN.
    nan: u8,
    /// The code for infinity, if the format has infinity.
    infinity: Option<u8>,
    signed: bool,
    /// True if the format lacks a negative zero, and uses its code for NaN.
    unsigned_zero: bool,
}

fn format(dtype: DType) -> Res<Format> {
    let of = |mantissa, bias, most, nan, infinity| Format {
        mantissa,
        bias,
        most,
        nan,
        infinity,
        signed: true,
        unsigned_zero: false,
    };
    Ok(match dtype.code() {
        10 => of(3, 7, 0x7e, 0x7f, None),
        11 => Format { unsigned_zero: true, ..of(3, 8, 0x7f, 0x80, None) },
        12 => of(2, 15, 0x7b, 0x7f, Some(0x7c)),
        13 => Format { unsigned_zero: true, ..of(2, 16, 0x7f, 0x80, None) },
        14 => Format { signed: false, ..of(0, 127, 0xfe, 0xff, None) },
        17 => of(1, 1, 0x7, 0x0, None),
        _ => return Err(format!("conversions of {dtype} are not supported")),
    })
}

impl Format {
    /// Returns the absolute value of the number with a code.
    fn value(&self, code: u8) -> f64 {
        if !self.signed {
            return 2f64.powi(i32::from(code) - self.bias);
        }
        let (exponent, part) = (i32::from(code) >> self.mantissa, i32::from(code) & ((1 << self.mantissa) - 1));
        let part = f64::from(part) / f64::from(1 << self.mantissa);
        match exponent {
            0 => part * 2f64.powi(1 - self.bias),
            exponent => (1.0 + part) * 2f64.powi(exponent - self.bias),
        }
    }

    /// Returns the numbers of all codes.
    fn table(&self, bits: u8) -> Vec<f32> {
        let sign = 1u16 << (bits - 1);
        let of = |code: u16| {
            let (negative, rest) =
                (self.signed && code & sign != 0, if self.signed { code & (sign - 1) } else { code } as u8);
            let value = match rest {
                _ if self.unsigned_zero && code == sign => f64::NAN,
                rest if Some(rest) == self.infinity => f64::INFINITY,
                rest if rest > self.most => f64::NAN,
                rest => self.value(rest),
            };
            (if negative { -value } else { value }) as f32
        };
        (0..1u16 << bits).map(of).collect()
    }

    /// Returns, for each code, the number above which values round to the next code. Ties round to even codes.
    fn edges(&self) -> Vec<f32> {
        (0..self.most)
            .map(|code| {
                if !self.signed {
                    // The values of an unsigned format are powers of two; numbers between two of them round up.
                    return self.value(code) as f32;
                }
                let half = ((self.value(code) + self.value(code + 1)) / 2.0) as f32;
                if code % 2 == 1 { f32::from_bits(half.to_bits() - 1) } else { half }
            })
            .collect()
    }

    /// Returns the least number that rounds to more than the greatest number of the format.
    fn overflow(&self) -> f64 {
        let step = self.value(self.most) - self.value(self.most - 1);
        self.value(self.most) + step / 2.0
    }
}

/// Converts a narrow tensor to another type.
pub(crate) fn widened(cx: &Cx<'_>, x: &T, to: DType) -> Res<T> {
    let Some(narrow) = x.narrow() else { return cx.cast(x, to) };
    if narrow.code() < 7 {
        return match to {
            DType::BOOL => cx.bin("not_equal", x, &cx.scalar(0.0, x.dtype())?),
            to => cx.cast(&x.plain(), to),
        };
    }
    let table =
        Array::new(&[1 << narrow.bits()], format(narrow)?.table(narrow.bits())).map_err(|error| error.to_string())?;
    let at = cx.cast(&x.plain(), DType::I64)?;
    let values = cx.call("relax.take", &[&cx.array(&table)?, &at], &[("axis", 0i64.into())])?;
    match to {
        DType::BOOL => cx.bin("not_equal", &values, &cx.scalar(0.0, DType::F32)?),
        to => cx.cast(&values, to),
    }
}

/// Converts a tensor to a narrow type.
pub(crate) fn narrowed(cx: &Cx<'_>, x: &T, to: DType, saturates: bool) -> Res<T> {
    if to.code() < 7 {
        return small_integer(cx, x, to);
    }
    let format = format(to)?;
    let x = cx.cast(x, DType::F32)?;
    let size = cx.un("abs", &x)?;
    let edges = format.edges();
    let edges = cx.array(&Array::new(&[edges.len() as i64], edges).map_err(|error| error.to_string())?)?;
    let attrs = [("out_int32", true.into()), ("right", false.into())];
    let mut code = cx.call("relax.bucketize", &[&size, &edges], &attrs)?;
    let of = |value: u8| cx.scalar(f64::from(value), DType::I32);
    if !saturates || !format.signed {
        let limit = cx.scalar(format.overflow(), DType::F32)?;
        // A tie rounds to the even code, which may be that of the greatest number.
        let op = if format.most % 2 == 0 { "greater" } else { "greater_equal" };
        let beyond = cx.bin(op, &size, &limit)?;
        let instead = if saturates { format.most } else { format.infinity.unwrap_or(format.nan) };
        code = cx.select(&beyond, &of(instead)?, &code)?;
    } else if format.infinity.is_some() {
        code = cx.bin("minimum", &code, &of(format.most)?)?;
    }
    if format.signed {
        let sign = 1u8 << (to.bits() - 1);
        let mut negative = cx.bin("less", &cx.div(&cx.scalar(1.0, DType::F32)?, &x)?, &cx.scalar(0.0, DType::F32)?)?;
        let below = cx.bin("less", &x, &cx.scalar(0.0, DType::F32)?)?;
        negative = cx.bin("logical_or", &negative, &below)?;
        if format.unsigned_zero {
            let is_zero = cx.bin("equal", &code, &of(0)?)?;
            let is_nan = cx.bin("equal", &code, &of(format.nan)?)?;
            let plain = cx.bin("logical_or", &is_zero, &is_nan)?;
            negative = cx.bin("logical_and", &negative, &cx.un("logical_not", &plain)?)?;
        }
        let signed = cx.add(&code, &of(sign)?)?;
        code = cx.select(&negative, &signed, &code)?;
    }
    if format.nan != 0 {
        let is_nan = cx.un("isnan", &x)?;
        code = cx.select(&is_nan, &of(format.nan)?, &code)?;
    }
    Ok(cx.cast(&code, DType::U8)?.with_narrow(to))
}

/// Returns the lowest bits of an integer, as int8 or uint8.
fn small_integer(cx: &Cx<'_>, x: &T, to: DType) -> Res<T> {
    let bits = f64::from(to.bits());
    let x = cx.cast(x, DType::I32)?;
    let kept = cx.bin("bitwise_and", &x, &cx.scalar(2f64.powf(bits) - 1.0, DType::I32)?)?;
    if to.code() == 1 {
        return Ok(cx.cast(&kept, DType::U8)?.with_narrow(to));
    }
    let half = cx.scalar(2f64.powf(bits - 1.0), DType::I32)?;
    let signed = cx.sub(&cx.bin("bitwise_xor", &kept, &half)?, &half)?;
    Ok(cx.cast(&signed, DType::I8)?.with_narrow(to))
}
