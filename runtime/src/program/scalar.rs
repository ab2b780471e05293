//! Data types of registers, and the operations on them.

use passhost_lang::ir::DType;

/// Data type of a register, or of an element in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scalar {
    /// Truth value: 0 or 1, one byte.
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
    /// Returns the scalar of a data type, or of one lane of it; `None` if the runtime does not compute with it.
    pub fn of(dtype: DType) -> Option<Scalar> {
        let bits = dtype.bits();
        Some(match dtype.code() {
            6 => Scalar::Bool,
            // Older texts write `bool` as `uint1`.
            1 if bits == 1 => Scalar::Bool,
            0 if matches!(bits, 8 | 16 | 32 | 64) => Scalar::Int(bits),
            1 if matches!(bits, 8 | 16 | 32 | 64) => Scalar::UInt(bits),
            2 if bits == 16 => Scalar::F16,
            4 if bits == 16 => Scalar::Bf16,
            2 if bits == 32 => Scalar::F32,
            2 if bits == 64 => Scalar::F64,
            _ => return None,
        })
    }

    /// Returns true if it is a float.
    pub fn is_float(self) -> bool {
        matches!(self, Scalar::F16 | Scalar::Bf16 | Scalar::F32 | Scalar::F64)
    }

    /// Returns its size in memory, in bytes.
    pub fn bytes(self) -> u64 {
        match self {
            Scalar::Bool => 1,
            Scalar::Int(bits) | Scalar::UInt(bits) => u64::from(bits) / 8,
            Scalar::F16 | Scalar::Bf16 => 2,
            Scalar::F32 => 4,
            Scalar::F64 => 8,
        }
    }

    /// Wraps an integer to the width of this type, as a 64-bit register holds it. Unsigned 64-bit numbers are held
    /// as signed ones with the same bits.
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

    /// Returns the least and the greatest integer, as 64 bits hold them.
    pub fn range(self) -> (i64, i64) {
        match self {
            Scalar::Bool => (0, 1),
            Scalar::Int(bits @ (8 | 16 | 32)) => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
            Scalar::UInt(bits @ (8 | 16 | 32)) => (0, (1 << bits) - 1),
            _ => (i64::MIN, i64::MAX),
        }
    }
}

impl Scalar {
    /// Returns [`Scalar::range`] as floats.
    pub fn float_range(self) -> (f64, f64) {
        let (low, high) = self.range();
        (low as f64, high as f64)
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

/// An operation on two registers of one type. Comparisons and logical operations result in `bool`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Binary {
    /// Sum.
    Add,
    /// Difference.
    Sub,
    /// Product.
    Mul,
    /// Quotient of floats.
    Div,
    /// Quotient of integers, rounded down; of floats, the floor of the quotient.
    FloorDiv,
    /// Remainder of `FloorDiv`.
    FloorMod,
    /// Quotient of integers, truncated towards 0.
    TruncDiv,
    /// Remainder of `TruncDiv`, also for floats.
    TruncMod,
    /// `a < b ? a : b`.
    Min,
    /// `a > b ? a : b`.
    Max,
    /// Equal.
    Eq,
    /// Not equal; true for NaN.
    Ne,
    /// Less.
    Lt,
    /// Less or equal.
    Le,
    /// Greater.
    Gt,
    /// Greater or equal.
    Ge,
    /// Logical and.
    And,
    /// Logical or.
    Or,
    /// Bitwise and.
    BitAnd,
    /// Bitwise or.
    BitOr,
    /// Bitwise exclusive or.
    BitXor,
    /// Shift left by the lower bits of the second operand.
    Shl,
    /// Shift right by the lower bits of the second operand; signed numbers keep their sign.
    Shr,
    /// Power of floats.
    Pow,
    /// Angle of a point: `atan2(a, b)`.
    Atan2,
    /// The first number with the sign of the second one.
    CopySign,
    /// `sqrt(a² + b²)`.
    Hypot,
    /// The next number from `a` towards `b`.
    NextAfter,
    /// `a * 2^b`; `b` is a number of the same float type.
    Ldexp,
}

impl Binary {
    /// Returns true if the result is a truth value.
    pub fn is_truth(self) -> bool {
        use Binary::{And, Eq, Ge, Gt, Le, Lt, Ne, Or};
        matches!(self, Eq | Ne | Lt | Le | Gt | Ge | And | Or)
    }

    /// Returns true if, for integers, the second operand is a divisor.
    pub fn divides(self) -> bool {
        matches!(self, Binary::FloorDiv | Binary::FloorMod | Binary::TruncDiv | Binary::TruncMod | Binary::Div)
    }
}

/// An operation on one register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unary {
    /// Logical not.
    Not,
    /// Bitwise not.
    BitNot,
    /// Conversion to the type of the result. Floats are truncated towards 0 and clamped to the range of the
    /// integer, and NaN becomes 0; integers lose their upper bits; for `bool`, everything but 0 is true.
    Cast,
    /// Reinterpretation of the bits as a value of another type of the same size.
    Reinterpret,
    /// Absolute value, also of integers.
    Abs,
    /// Number of one bits.
    PopCount,
    /// Number of leading zero bits.
    Clz,
    /// True for NaN.
    IsNan,
    /// True for infinities.
    IsInf,
    /// True for finite numbers.
    IsFinite,
    /// A function of floats.
    Math(Math),
}

/// Functions of one float.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each is named as in C")]
pub enum Math {
    Exp,
    Exp2,
    Exp10,
    Log,
    Log2,
    Log10,
    Log1p,
    Expm1,
    Sqrt,
    Rsqrt,
    Sigmoid,
    Erf,
    Tanh,
    Sin,
    Cos,
    Tan,
    Sinh,
    Cosh,
    Asin,
    Acos,
    Atan,
    Asinh,
    Acosh,
    Atanh,
    Floor,
    Ceil,
    Trunc,
    Round,
    NearbyInt,
    Cbrt,
}
