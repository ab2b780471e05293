//! Operations of dimensions and of TIR arithmetic.

use super::dtype::DType;

macro_rules! operations {
    ($($(#[$doc:meta])* $op:ident = $code:literal;)*) => {
        /// An operation of a dimension or of TIR arithmetic.
        ///
        /// ```
        /// use plugin_api::prelude::*;
        /// use plugin_api::scalar::PrimOp;
        ///
        /// assert_eq!(PrimOp::FloorDiv.fold(-7, 2), Some(-4));
        /// assert!(PrimOp::Lt.is_comparison() && PrimOp::Lt.result(DType::I32) == DType::BOOL);
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u16)]
        pub enum PrimOp {
            $($(#[$doc])* $op = $code,)*
        }

        impl PrimOp {
            /// All operations, ordered by code.
            pub const ALL: &[PrimOp] = &[$(PrimOp::$op,)*];

            /// Returns the operation with a code in a record; `None` for numbers, variables and unknown codes.
            pub const fn of_code(code: u16) -> Option<PrimOp> {
                match code {
                    $($code => Some(PrimOp::$op),)*
                    _ => None,
                }
            }
        }
    };
}

operations! {
    /// Sum.
    Add = 8;
    /// Difference.
    Sub = 9;
    /// Product.
    Mul = 10;
    /// Quotient, rounded down (`//`).
    FloorDiv = 11;
    /// Remainder of `FloorDiv` (`%`).
    FloorMod = 12;
    /// Quotient, truncated.
    TruncDiv = 13;
    /// Remainder of `TruncDiv`.
    TruncMod = 14;
    /// Minimum.
    Min = 15;
    /// Maximum.
    Max = 16;
    /// Equal.
    Eq = 17;
    /// Not equal.
    Ne = 18;
    /// Less.
    Lt = 19;
    /// Less or equal.
    Le = 20;
    /// Greater.
    Gt = 21;
    /// Greater or equal.
    Ge = 22;
    /// Logical and.
    And = 23;
    /// Logical or.
    Or = 24;
    /// Logical not, of one operand.
    Not = 25;
    /// Conversion of one operand to the type of the result.
    Cast = 26;
    /// True quotient (`/`).
    Div = 27;
    /// Shift left.
    Shl = 28;
    /// Shift right.
    Shr = 29;
    /// Bitwise and.
    BitAnd = 30;
    /// Bitwise or.
    BitOr = 31;
    /// Bitwise exclusive or.
    BitXor = 32;
    /// One of two values: a condition, and an `Else` with both values. Occurs only in dimensions.
    If = 33;
    /// The two values of an `If`, which is its only user.
    Else = 34;
}

impl PrimOp {
    /// Returns the code in records.
    pub const fn code(self) -> u16 {
        self as u16
    }

    /// Returns true for an operation on two operands.
    pub fn is_binary(self) -> bool {
        !matches!(self, PrimOp::Not | PrimOp::Cast | PrimOp::If | PrimOp::Else)
    }

    /// Returns true for a sum, difference, product, quotient, remainder, minimum or maximum.
    pub fn is_arithmetic(self) -> bool {
        use PrimOp::{Add, Max, Min, Mul, Sub};
        self.is_division() || matches!(self, Add | Sub | Mul | Min | Max)
    }

    /// Returns true for a comparison.
    pub fn is_comparison(self) -> bool {
        use PrimOp::{Eq, Ge, Gt, Le, Lt, Ne};
        matches!(self, Eq | Ne | Lt | Le | Gt | Ge)
    }

    /// Returns true for an operation on two operands whose result is a Boolean.
    pub fn is_truth(self) -> bool {
        self.is_comparison() || matches!(self, PrimOp::And | PrimOp::Or)
    }

    /// Returns true for a quotient or remainder.
    pub fn is_division(self) -> bool {
        use PrimOp::{Div, FloorDiv, FloorMod, TruncDiv, TruncMod};
        matches!(self, FloorDiv | FloorMod | TruncDiv | TruncMod | Div)
    }

    /// Returns true for an operation on bits.
    pub fn is_bitwise(self) -> bool {
        use PrimOp::{BitAnd, BitOr, BitXor, Shl, Shr};
        matches!(self, Shl | Shr | BitAnd | BitOr | BitXor)
    }

    /// Returns the type of the result for two operands of a data type.
    pub fn result(self, operands: DType) -> DType {
        if self.is_truth() { DType::BOOL } else { operands }
    }

    /// Evaluates the operation on integers; `None` if the result is undefined.
    pub fn fold(self, a: i64, b: i64) -> Option<i64> {
        let truth = |v: bool| Some(i64::from(v));
        match self {
            PrimOp::Add => a.checked_add(b),
            PrimOp::Sub => a.checked_sub(b),
            PrimOp::Mul => a.checked_mul(b),
            PrimOp::FloorDiv => {
                let q = a.checked_div(b)?;
                Some(if a % b != 0 && (a < 0) != (b < 0) { q - 1 } else { q })
            }
            PrimOp::FloorMod => {
                let r = a.checked_rem(b)?;
                Some(if r != 0 && (r < 0) != (b < 0) { r + b } else { r })
            }
            PrimOp::TruncDiv => a.checked_div(b),
            PrimOp::TruncMod => a.checked_rem(b),
            PrimOp::Min => Some(a.min(b)),
            PrimOp::Max => Some(a.max(b)),
            PrimOp::Eq => truth(a == b),
            PrimOp::Ne => truth(a != b),
            PrimOp::Lt => truth(a < b),
            PrimOp::Le => truth(a <= b),
            PrimOp::Gt => truth(a > b),
            PrimOp::Ge => truth(a >= b),
            PrimOp::And => truth(a != 0 && b != 0),
            PrimOp::Or => truth(a != 0 || b != 0),
            _ => None,
        }
    }
}

impl From<PrimOp> for u16 {
    fn from(op: PrimOp) -> u16 {
        op.code()
    }
}

impl From<PrimOp> for u32 {
    fn from(op: PrimOp) -> u32 {
        op.code().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::records::prim;

    #[test]
    fn codes_are_those_of_records() {
        let all = PrimOp::ALL.iter().map(|op| op.code());
        assert!(all.eq(prim::ADD..=prim::ELSE), "operations are numbered without gaps");
        assert!(PrimOp::ALL.iter().all(|op| PrimOp::of_code(op.code()) == Some(*op)));
        assert_eq!(PrimOp::of_code(prim::FLOAT), None);
        let of = |op: PrimOp, code: u16| assert_eq!(op.code(), code);
        of(PrimOp::FloorMod, prim::FLOORMOD);
        of(PrimOp::Cast, prim::CAST);
        of(PrimOp::BitXor, prim::BITXOR);
    }
}
