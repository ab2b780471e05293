//! Elements of constants: the Rust type of each data type, and conversions between numbers.

use super::half::{Bf16, F16};
use crate::ir::types::DType;

/// A number of any data type that has a Rust equivalent.
///
/// ```
/// use plugin_api::ir::constant::Number;
/// use plugin_api::prelude::*;
///
/// let array = Array::new(&[2], [1u8, 255])?;
/// assert!(array.view().numbers()?.eq([Number::UInt(1), Number::UInt(255)]));
/// # Ok::<(), PassError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// A value of type `bool`.
    Bool(bool),
    /// A value of a signed integer type.
    Int(i64),
    /// A value of an unsigned integer type.
    UInt(u64),
    /// A value of a float type; a `float64` represents all of them exactly.
    Float(f64),
}

impl Number {
    /// Returns true if the value is `True`, or not 0.
    fn is_true(self) -> bool {
        match self {
            Number::Bool(v) => v,
            Number::Int(v) => v != 0,
            Number::UInt(v) => v != 0,
            Number::Float(v) => v != 0.0,
        }
    }
}

mod sealed {
    pub trait Sealed {}
}

/// The Rust type of a data type: `f32`, `f64`, the integers from 8 to 64 bits, `bool`, [`F16`] and [`Bf16`].
///
/// ```
/// use plugin_api::ir::constant::{Element, Number};
/// use plugin_api::prelude::*;
///
/// assert_eq!(<F16 as Element>::DTYPE, DType::F16);
/// assert_eq!((i8::of(Number::Float(-1.7)), i8::of(Number::Float(1e9))), (-1, 127));
/// ```
pub trait Element: Copy + sealed::Sealed {
    /// The data type.
    const DTYPE: DType;

    /// Converts a number to this type as Rust's `as` does: floats are truncated towards 0 and saturate at the largest and smallest integer, integers
    /// that are too wide lose their upper bits, and conversions to floats round to the nearest one. Converted to `bool`, everything but 0 is true.
    fn of(number: Number) -> Self;

    /// Converts the element to a number.
    fn number(self) -> Number;

    #[doc(hidden)]
    fn put(self, out: &mut Vec<u8>);
}

/// An element of a constant to be built, or a reference to one.
pub trait AsElement {
    /// The type of the element.
    type Element: Element;

    /// Returns the element.
    fn element(self) -> Self::Element;
}

impl<T: Element> AsElement for &T {
    type Element = T;

    fn element(self) -> T {
        *self
    }
}

macro_rules! element {
    ($($ty:ty, $dtype:expr, $variant:ident, |$number:ident| $of:expr, |$value:ident| $put:expr;)*) => {$(
        impl sealed::Sealed for $ty {}

        impl Element for $ty {
            const DTYPE: DType = $dtype;

            fn of($number: Number) -> Self {
                $of
            }

            fn number(self) -> Number {
                Number::$variant(self.into())
            }

            fn put(self, out: &mut Vec<u8>) {
                let $value = self;
                out.extend_from_slice(&$put);
            }
        }

        impl AsElement for $ty {
            type Element = $ty;

            fn element(self) -> $ty {
                self
            }
        }
    )*};
}

macro_rules! cast {
    ($number:expr, $ty:ty) => {
        match $number {
            Number::Bool(v) => u8::from(v) as $ty,
            Number::Int(v) => v as $ty,
            Number::UInt(v) => v as $ty,
            Number::Float(v) => v as $ty,
        }
    };
}

element! {
    bool, DType::BOOL, Bool, |n| n.is_true(), |v| [u8::from(v)];
    i8, DType::I8, Int, |n| cast!(n, i8), |v| v.to_le_bytes();
    i16, DType::I16, Int, |n| cast!(n, i16), |v| v.to_le_bytes();
    i32, DType::I32, Int, |n| cast!(n, i32), |v| v.to_le_bytes();
    i64, DType::I64, Int, |n| cast!(n, i64), |v| v.to_le_bytes();
    u8, DType::U8, UInt, |n| cast!(n, u8), |v| v.to_le_bytes();
    u16, DType::U16, UInt, |n| cast!(n, u16), |v| v.to_le_bytes();
    u32, DType::U32, UInt, |n| cast!(n, u32), |v| v.to_le_bytes();
    u64, DType::U64, UInt, |n| cast!(n, u64), |v| v.to_le_bytes();
    f32, DType::F32, Float, |n| cast!(n, f32), |v| v.to_le_bytes();
    f64, DType::F64, Float, |n| cast!(n, f64), |v| v.to_le_bytes();
    F16, DType::F16, Float, |n| F16::from_f64(cast!(n, f64)), |v| v.0.to_le_bytes();
    Bf16, DType::BF16, Float, |n| Bf16::from_f32(cast!(n, f32)), |v| v.0.to_le_bytes();
}

impl From<F16> for f64 {
    fn from(value: F16) -> f64 {
        f64::from(value.to_f32())
    }
}

impl From<Bf16> for f64 {
    fn from(value: Bf16) -> f64 {
        f64::from(value.to_f32())
    }
}

/// Reads one element.
pub(super) type Get = fn(&[u8]) -> Number;
/// Writes one element.
pub(super) type Put = fn(Number, &mut Vec<u8>);

/// Returns the little-endian word of an element.
fn word(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

/// Returns the functions that read and write elements of a data type; `None` if Rust lacks a type for them.
pub(super) fn access(dtype: DType) -> Option<(Get, Put)> {
    macro_rules! pair {
        ($ty:ty, |$word:ident| $get:expr) => {
            (
                |bytes| {
                    let $word = word(bytes);
                    let value: $ty = $get;
                    value.number()
                },
                |number, out| <$ty as Element>::of(number).put(out),
            )
        };
    }
    Some(match dtype {
        DType::BOOL => pair!(bool, |w| w != 0),
        DType::I8 => pair!(i8, |w| w as i8),
        DType::I16 => pair!(i16, |w| w as i16),
        DType::I32 => pair!(i32, |w| w as i32),
        DType::I64 => pair!(i64, |w| w as i64),
        DType::U8 => pair!(u8, |w| w as u8),
        DType::U16 => pair!(u16, |w| w as u16),
        DType::U32 => pair!(u32, |w| w as u32),
        DType::U64 => pair!(u64, |w| w),
        DType::F32 => pair!(f32, |w| f32::from_bits(w as u32)),
        DType::F64 => pair!(f64, |w| f64::from_bits(w)),
        DType::F16 => pair!(F16, |w| F16(w as u16)),
        DType::BF16 => pair!(Bf16, |w| Bf16(w as u16)),
        _ => return None,
    })
}

impl DType {
    /// Returns true if the type can hold this integer. A float type holds every integer, possibly rounded.
    pub fn has_integer(self, value: i128) -> bool {
        match (self.code(), self.bits()) {
            (6, _) => matches!(value, 0 | 1),
            (1, bits) => value >= 0 && value < 1 << bits.min(64),
            (0, bits) => {
                let half = 1 << (bits.clamp(1, 64) - 1);
                (-half..half).contains(&value)
            }
            _ => true,
        }
    }
}

impl DType {
    /// Returns true for a float type whose greatest value is at least this large. Infinities and NaN fit every float type.
    pub fn has_float(self, value: f64) -> bool {
        let greatest = match (self.code(), self.bits()) {
            (2, 16) => 65504.0,
            (2, 32) => f64::from(f32::MAX),
            // bfloat16: TVM prints its extremes as those of float32, which round to infinity.
            (4, _) => f64::from(f32::MAX),
            (2, 64) => f64::MAX,
            (2, _) => f64::INFINITY,
            _ => return self.is_float(),
        };
        !value.is_finite() || value.abs() <= greatest
    }
}

/// Returns true if every value of data type `found` is also a value of data type `wanted`. A `bool` is not a number.
pub(super) fn holds_all(wanted: DType, found: DType) -> bool {
    const BOOL: u8 = 6;
    if wanted == found {
        return true;
    }
    if wanted.code() == BOOL || found.code() == BOOL {
        return false;
    }
    match (digits(wanted), digits(found)) {
        ((digits, range, true), (other, width, _)) => digits >= other && range >= width,
        ((_, _, false), (_, _, true)) => false,
        ((digits, ..), (other, ..)) => digits >= other && (wanted.code() == 0 || found.code() == 1),
    }
}

/// Returns the number of binary digits (of an integer, or of the fraction of a float), the largest exponent, and true for a float.
fn digits(dtype: DType) -> (u8, u16, bool) {
    let bits = dtype.bits();
    match (dtype.code(), bits) {
        (2, 16) => (11, 15, true),
        (4, _) => (8, 127, true),
        (2, 32) => (24, 127, true),
        (2, _) => (53, 1023, true),
        (0, _) => (bits - 1, u16::from(bits) - 1, false),
        _ => (bits, u16::from(bits) - 1, false),
    }
}
