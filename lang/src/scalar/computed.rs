//! The data types of computations.

use super::dtype::DType;
use super::half::{Bf16, F16};

/// A data type of computations: the type of a register, or of an element in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scalar {
    /// Boolean: 0 or 1, one byte.
    Bool,
    /// Signed integer of 8, 16, 32 or 64 bits.
    Int(u8),
    /// Unsigned integer of 8, 16, 32 or 64 bits.
    UInt(u8),
    /// `float16`: computed in `float32`, rounded after each operation.
    F16,
    /// `bfloat16`: computed in `float32`, rounded after each operation.
    Bf16,
    /// `float32`.
    F32,
    /// `float64`.
    F64,
}

impl Scalar {
    /// Returns the scalar of a data type, or of one of its lanes; `None` if programs cannot compute with it.
    pub fn of(dtype: DType) -> Option<Scalar> {
        // Older modules write `bool` as `uint1`.
        if (dtype.code(), dtype.bits()) == (1, 1) {
            return Some(Scalar::Bool);
        }
        dtype.info()?.scalar
    }

    /// Returns true if the type is a float.
    pub fn is_float(self) -> bool {
        matches!(self, Scalar::F16 | Scalar::Bf16 | Scalar::F32 | Scalar::F64)
    }

    /// Returns true for a signed integer.
    pub fn is_signed(self) -> bool {
        matches!(self, Scalar::Int(_))
    }

    /// Returns the size in memory, in bytes.
    pub fn bytes(self) -> u64 {
        match self {
            Scalar::Bool => 1,
            Scalar::Int(bits) | Scalar::UInt(bits) => u64::from(bits) / 8,
            Scalar::F16 | Scalar::Bf16 => 2,
            Scalar::F32 => 4,
            Scalar::F64 => 8,
        }
    }

    /// Wraps an integer to the width of this type and returns it as stored in a 64-bit register. An unsigned 64-bit
    /// number is stored as the signed number with the same bits.
    pub fn wrap(self, value: i64) -> i64 {
        match self {
            Scalar::Bool => i64::from(value != 0),
            Scalar::Int(8) => i64::from(value as i8),
            Scalar::Int(16) => i64::from(value as i16),
            Scalar::Int(32) => i64::from(value as i32),
            Scalar::UInt(8) => i64::from(value as u8),
            Scalar::UInt(16) => i64::from(value as u16),
            Scalar::UInt(32) => i64::from(value as u32),
            _ => value,
        }
    }

    /// Returns the least and greatest integer, as stored in 64 bits.
    pub fn range(self) -> (i64, i64) {
        match self {
            Scalar::Bool => (0, 1),
            Scalar::Int(bits @ (8 | 16 | 32)) => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
            Scalar::UInt(bits @ (8 | 16 | 32)) => (0, (1 << bits) - 1),
            _ => (i64::MIN, i64::MAX),
        }
    }

    /// Returns [`Scalar::range`] as floats.
    pub fn float_range(self) -> (f64, f64) {
        let (low, high) = self.range();
        (low as f64, high as f64)
    }
}

/// Conversions between registers and the bits of elements.
impl Scalar {
    /// Returns the float represented by the lower bits of a word, for types that are computed in `float32`.
    #[inline]
    pub fn single_of_bits(self, bits: u32) -> f32 {
        match self {
            Scalar::F16 => F16(bits as u16).to_f32(),
            Scalar::Bf16 => Bf16(bits as u16).to_f32(),
            _ => f32::from_bits(bits),
        }
    }

    /// Returns the bits of the nearest float of this type.
    #[inline]
    pub fn bits_of(self, value: f64) -> u64 {
        match self {
            Scalar::F16 => F16::from_f64(value).0.into(),
            Scalar::Bf16 => Bf16::from_f32(value as f32).0.into(),
            Scalar::F32 => (value as f32).to_bits().into(),
            _ => value.to_bits(),
        }
    }

    /// Rounds a `float32` to this type. The number does not change if the type is at least as wide.
    #[inline]
    pub fn round(self, value: f32) -> f32 {
        match self {
            Scalar::F16 => F16::round(value),
            Scalar::Bf16 => Bf16::from_f32(value).to_f32(),
            _ => value,
        }
    }

    /// Rounds a `float64` once, to a type that is computed in `float32`.
    #[inline]
    pub fn narrow(self, value: f64) -> f32 {
        match self {
            Scalar::F16 => F16::from_f64(value).to_f32(),
            to => to.round(value as f32),
        }
    }

    /// Rounds a number if this is a float type; otherwise returns it unchanged.
    pub fn rounded(self, value: f64) -> f64 {
        if self == Scalar::F64 || !self.is_float() { value } else { self.narrow(value).into() }
    }

    /// Returns true for a float type that is narrower than the type in which it is computed.
    pub fn is_narrow(self) -> bool {
        self.is_float() && self.bytes() < 4
    }
}

/// The LLVM types of a scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LlvmTypes {
    /// The type of a register.
    pub register: &'static str,
    /// The type of an element in memory.
    pub memory: &'static str,
}

impl Scalar {
    /// Returns the LLVM types.
    pub fn llvm(self) -> LlvmTypes {
        let (register, memory) = match self {
            Scalar::Bool => ("i1", "i8"),
            Scalar::Int(8) | Scalar::UInt(8) => ("i8", "i8"),
            Scalar::Int(16) | Scalar::UInt(16) => ("i16", "i16"),
            Scalar::Int(32) | Scalar::UInt(32) => ("i32", "i32"),
            Scalar::Int(_) | Scalar::UInt(_) => ("i64", "i64"),
            Scalar::F16 => ("float", "half"),
            Scalar::Bf16 => ("float", "i16"),
            Scalar::F32 => ("float", "float"),
            Scalar::F64 => ("double", "double"),
        };
        LlvmTypes { register, memory }
    }
}

impl std::fmt::Display for Scalar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Scalar::Bool => f.write_str("bool"),
            Scalar::Int(bits) => write!(f, "int{bits}"),
            Scalar::UInt(bits) => write!(f, "uint{bits}"),
            Scalar::F16 => f.write_str("float16"),
            Scalar::Bf16 => f.write_str("bfloat16"),
            Scalar::F32 => f.write_str("float32"),
            Scalar::F64 => f.write_str("float64"),
        }
    }
}
