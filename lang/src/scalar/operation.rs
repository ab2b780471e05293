//! The numeric operations of loop programs.

/// An operation on two registers of the same type. Comparisons and logical operations result in `bool`.
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
    /// Quotient of integers, rounded down; for floats, the floor of the quotient.
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
    /// Shift right by the lower bits of the second operand; arithmetic for signed numbers.
    Shr,
    /// Power of floats.
    Pow,
    /// Angle of a point: `atan2(a, b)`.
    Atan2,
    /// The first number with the sign of the second.
    CopySign,
    /// `sqrt(a² + b²)`.
    Hypot,
    /// The next representable number from `a` towards `b`.
    NextAfter,
    /// `a * 2^b`; `b` is a number of the same float type.
    Ldexp,
}

impl Binary {
    /// Returns true if the result is a Boolean.
    pub fn is_truth(self) -> bool {
        use Binary::{And, Eq, Ge, Gt, Le, Lt, Ne, Or};
        matches!(self, Eq | Ne | Lt | Le | Gt | Ge | And | Or)
    }

    /// Returns true if the operation is defined only for floats. Remainders of floats are the function `fmod`.
    pub fn takes_floats(self) -> bool {
        self == Binary::CopySign || Binary::CALLED.contains(&self)
    }

    /// Returns true if the operation is defined only for integers.
    pub fn takes_bits(self) -> bool {
        matches!(self, Binary::BitAnd | Binary::BitOr | Binary::BitXor | Binary::Shl | Binary::Shr)
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
    /// Conversion to the type of the result. Floats are truncated towards 0 and clamped to the integer range, and NaN
    /// becomes 0; integers lose their upper bits; for `bool`, everything but 0 is true.
    Cast,
    /// Reinterpretation of the bits as a value of a different type of the same size.
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

/// Defines the unary float functions, each with its cost (an upper bound per lane, in units of work), and the LLVM
/// intrinsic that computes it exactly as IEEE 754 requires.
macro_rules! functions_of_one {
    ($d:tt $($math:ident $cost:ident $llvm:expr;)*) => {
        /// Unary float functions.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[expect(missing_docs, reason = "each is named as in C")]
        pub enum Math {
            $($math,)*
        }

        impl Math {
            /// All functions.
            pub const ALL: &[Math] = &[$(Math::$math,)*];

            /// Returns the cost for one lane, in units of work.
            pub fn cost(self) -> u64 {
                match self {
                    $(Math::$math => $cost,)*
                }
            }

            /// Returns the name of the LLVM intrinsic whose results are bit-identical on every machine.
            pub fn llvm(self) -> Option<&'static str> {
                match self {
                    $(Math::$math => $llvm,)*
                }
            }
        }

        /// Calls a macro with some tokens, followed by the name of each unary float function.
        #[doc(hidden)]
        #[macro_export]
        macro_rules! each_function_of_one {
            ($d callback:ident $d ($d args:tt)*) => {
                $d callback! { $d ($d args)* $($math)* }
            };
        }
    };
}

/// The cost of single-instruction functions.
const INSTRUCTION: u64 = 60;
/// The cost of polynomials.
const POLYNOMIAL: u64 = 100;
/// The cost of the hyperbolic tangent.
const TANH: u64 = 200;
/// The cost of a very large angle, or of an argument beyond the range of the polynomials.
const LIBRARY: u64 = 3_000;

functions_of_one! { $
    Exp POLYNOMIAL None;
    Exp2 POLYNOMIAL None;
    Exp10 LIBRARY None;
    Log POLYNOMIAL None;
    Log2 POLYNOMIAL None;
    Log10 LIBRARY None;
    Log1p LIBRARY None;
    Expm1 LIBRARY None;
    Erf POLYNOMIAL None;
    Tanh TANH None;
    Sin LIBRARY None;
    Cos LIBRARY None;
    Tan LIBRARY None;
    Sinh LIBRARY None;
    Cosh LIBRARY None;
    Asin LIBRARY None;
    Acos LIBRARY None;
    Atan LIBRARY None;
    Asinh LIBRARY None;
    Acosh LIBRARY None;
    Atanh LIBRARY None;
    Cbrt LIBRARY None;
    Sqrt INSTRUCTION Some("sqrt");
    Rsqrt LIBRARY None;
    Sigmoid POLYNOMIAL None;
    Floor INSTRUCTION Some("floor");
    Ceil INSTRUCTION Some("ceil");
    Trunc INSTRUCTION Some("trunc");
    Round INSTRUCTION Some("roundeven");
    NearbyInt INSTRUCTION Some("roundeven");
}

impl Math {
    /// Returns true if the function rounds to an integer, and so leaves integers unchanged.
    pub fn is_rounding(self) -> bool {
        use Math::{Ceil, Floor, NearbyInt, Round, Trunc};
        matches!(self, Floor | Ceil | Trunc | Round | NearbyInt)
    }
}

/// Calls a macro with some tokens, followed by the name of each operation on two floats that native code calls.
#[doc(hidden)]
#[macro_export]
macro_rules! each_function_of_two {
    ($callback:ident $($args:tt)*) => {
        $callback! { $($args)* Pow Atan2 Hypot NextAfter Ldexp TruncMod }
    };
}

macro_rules! called {
    ($($op:ident)*) => {
        impl Binary {
            /// The operations on two floats that native code calls.
            pub const CALLED: &[Binary] = &[$(Binary::$op,)*];
        }
    };
}
each_function_of_two! { called }
