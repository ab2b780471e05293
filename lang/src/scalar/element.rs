//! Elements of constants: the Rust type of each data type, and conversions between numbers.

use super::dtype::DType;
use super::half::{Bf16, F16};

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
    /// A value of a float type; `f64` represents all of these exactly.
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
/// use plugin_api::ir::F16;
///
/// assert_eq!(<F16 as Element>::DTYPE, DType::F16);
/// assert_eq!((i8::of(Number::Float(-1.7)), i8::of(Number::Float(1e9))), (-1, 127));
/// ```
pub trait Element: Copy + sealed::Sealed {
    /// The data type.
    const DTYPE: DType;

    /// Converts a number to this type as Rust's `as` does: floats are truncated towards 0 and saturate at the largest and smallest integer,
    /// integers that are too wide lose their upper bits, and conversions to floats round to nearest. As `bool`, everything but 0 is true.
    fn of(number: Number) -> Self;

    /// Converts the element to a number.
    fn number(self) -> Number;

    /// Returns the element represented by the lower bits of a word.
    #[doc(hidden)]
    fn of_word(word: u64) -> Self;

    /// Returns the bits of the element, as the lower bits of a word.
    #[doc(hidden)]
    fn word(self) -> u64;

    #[doc(hidden)]
    fn put(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.word().to_le_bytes()[..size_of::<Self>()]);
    }
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

/// Reads one element.
pub(crate) type Get = fn(&[u8]) -> Number;
/// Writes one element.
pub(crate) type Put = fn(Number, &mut Vec<u8>);

/// Returns the little-endian word of an element.
fn word(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

macro_rules! elements {
    ($($ty:ty, $dtype:ident, $variant:ident, |$number:ident| $of:expr, |$word:ident| $of_word:expr, |$value:ident| $to_word:expr;)*) => {
        $(
            impl sealed::Sealed for $ty {}

            impl Element for $ty {
                const DTYPE: DType = DType::$dtype;

                fn of($number: Number) -> Self {
                    $of
                }

                fn number(self) -> Number {
                    Number::$variant(self.into())
                }

                fn of_word($word: u64) -> Self {
                    $of_word
                }

                fn word(self) -> u64 {
                    let $value = self;
                    $to_word
                }
            }

            impl AsElement for $ty {
                type Element = $ty;

                fn element(self) -> $ty {
                    self
                }
            }
        )*

        /// Returns the functions that read and write elements of a data type; `None` if Rust lacks a type for them.
        pub(crate) fn access(dtype: DType) -> Option<(Get, Put)> {
            Some(match dtype {
                $(DType::$dtype => {
                    (|bytes| <$ty>::of_word(word(bytes)).number(), |number, out| <$ty>::of(number).put(out))
                })*
                _ => return None,
            })
        }

        /// Returns the number whose little-endian bytes are the lower bytes of a word; `None` if Rust lacks a type for
        /// it.
        pub fn number_of(dtype: DType, word: u64) -> Option<Number> {
            Some(match dtype {
                $(DType::$dtype => <$ty>::of_word(word).number(),)*
                _ => return None,
            })
        }

        /// Replaces each element by the number that `f` returns for it, in order; `None` if Rust lacks a type for the elements. The type is
        /// looked up only once, which is much faster than [`number_of`] and [`word_of`] per element.
        pub fn map_elements(dtype: DType, bytes: &mut [u8], mut f: impl FnMut(Number) -> Number) -> Option<()> {
            match dtype {
                $(DType::$dtype => {
                    for element in bytes.as_chunks_mut::<{ size_of::<$ty>() }>().0 {
                        let number = <$ty>::of(f(<$ty>::of_word(word(element)).number()));
                        element.copy_from_slice(&number.word().to_le_bytes()[..size_of::<$ty>()]);
                    }
                })*
                _ => return None,
            }
            Some(())
        }

        /// Returns a number as the lower bytes of a word, and the number of bytes; `None` if Rust lacks a type for the number.
        pub fn word_of(dtype: DType, number: Number) -> Option<(u64, usize)> {
            let word = match dtype {
                $(DType::$dtype => <$ty>::of(number).word(),)*
                _ => return None,
            };
            Some((word, dtype.bytes()))
        }
    };
}

elements! {
    bool, BOOL, Bool, |n| n.is_true(), |w| w as u8 != 0, |v| v.into();
    i8, I8, Int, |n| cast!(n, i8), |w| w as i8, |v| v as u64;
    i16, I16, Int, |n| cast!(n, i16), |w| w as i16, |v| v as u64;
    i32, I32, Int, |n| cast!(n, i32), |w| w as i32, |v| v as u64;
    i64, I64, Int, |n| cast!(n, i64), |w| w as i64, |v| v as u64;
    u8, U8, UInt, |n| cast!(n, u8), |w| w as u8, |v| v.into();
    u16, U16, UInt, |n| cast!(n, u16), |w| w as u16, |v| v.into();
    u32, U32, UInt, |n| cast!(n, u32), |w| w as u32, |v| v.into();
    u64, U64, UInt, |n| cast!(n, u64), |w| w, |v| v;
    f32, F32, Float, |n| cast!(n, f32), |w| f32::from_bits(w as u32), |v| v.to_bits().into();
    f64, F64, Float, |n| cast!(n, f64), |w| f64::from_bits(w), |v| v.to_bits();
    F16, F16, Float, |n| F16::from_f64(cast!(n, f64)), |w| F16(w as u16), |v| v.0.into();
    Bf16, BF16, Float, |n| Bf16::from_f32(cast!(n, f32)), |w| Bf16(w as u16), |v| v.0.into();
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

impl DType {
    /// Returns true if the type can represent an integer. A float type represents every integer, possibly rounded.
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
    /// Returns true for a float type whose greatest value is at least this large. Infinities and NaN fit any float type.
    pub fn has_float(self, value: f64) -> bool {
        match self.info().filter(|info| info.scalar.is_some()).and_then(|info| info.limit) {
            Some(greatest) => !value.is_finite() || value.abs() <= greatest,
            None => self.is_float(),
        }
    }
}

/// Returns true if every value of data type `found` is also a value of data type `wanted`. A `bool` is not a number.
pub(crate) fn holds_all(wanted: DType, found: DType) -> bool {
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
fn digits(dtype: DType) -> (u32, i32, bool) {
    let bits = u32::from(dtype.bits());
    match dtype.format() {
        Some(format) => (format.fraction + 1, format.bias, true),
        None if dtype.code() == 0 => (bits - 1, bits as i32 - 1, false),
        None => (bits, bits as i32 - 1, false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_mapped_as_one_by_one() {
        let words: Vec<u8> = (0..=255).collect();
        let of = |number: Number| Number::Float(f64::of(number) / 2.0);
        for dtype in [DType::BOOL, DType::I8, DType::I32, DType::I64, DType::U8, DType::U16, DType::F32, DType::F64]
            .into_iter()
            .chain([DType::F16, DType::BF16])
        {
            let mut bytes = words.clone();
            map_elements(dtype, &mut bytes, of).expect("a Rust type");
            for (was, is) in words.chunks(dtype.bytes()).zip(bytes.chunks(dtype.bytes())) {
                let number = number_of(dtype, word(was)).expect("a number");
                let (one, width) = word_of(dtype, of(number)).expect("a Rust type");
                assert_eq!(&one.to_le_bytes()[..width], is, "{dtype} {number:?}");
            }
        }
        let mut bytes = words.clone();
        assert_eq!(map_elements(DType::new(2, 32, 4), &mut bytes, |_| Number::Int(0)), None);
        assert_eq!(bytes, words);
    }
}
