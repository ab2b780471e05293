//! The data type that TVM gives to an untyped number as an operand of a call.

use passhost_lang::ir::{DType, Dim};
use passhost_lang::metadata::{ArgKind, OpInfo};

/// The types that TVM gives to Python numbers: `1`, `1.5`, `True`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Literal {
    /// int64 and float64, with bool as int64: elements of tuples, and arguments of packed functions.
    Wide,
    /// int64, float64 and bool: `R.prim_value(1)`, and scalar operands of operators.
    Scalar,
    /// int32, float32 and bool: operands that are usually tensors.
    Narrow,
}

impl Literal {
    /// Returns the types of numbers for an operand of an operator.
    pub(crate) fn of(info: &OpInfo, at: usize) -> Literal {
        let arg = info.args.get(at).or(info.args.last().filter(|arg| arg.name.starts_with('*')));
        match (arg.map(|arg| (arg.kind, arg.name.as_str())), info.name.as_str()) {
            (Some((ArgKind::Tensor, _)), _) | (Some((_, "indices")), "relax.take") => Literal::Narrow,
            (Some((_, name)), "relax.print" | "relax.assert_op") if name.starts_with('*') => Literal::Narrow,
            (Some((_, name)), _) if name.starts_with('*') => Literal::Wide,
            _ => Literal::Scalar,
        }
    }

    pub(crate) fn bool(self, value: bool) -> Dim {
        let dtype = if self == Literal::Wide { DType::I64 } else { DType::BOOL };
        Dim::int(i64::from(value), dtype)
    }

    /// Returns an integer; int64 if it does not fit in int32.
    pub(crate) fn int(self, value: i64) -> Dim {
        let narrow = self == Literal::Narrow && i32::try_from(value).is_ok();
        Dim::int(value, if narrow { DType::I32 } else { DType::I64 })
    }

    pub(crate) fn float(self, value: f64) -> Dim {
        let narrow = self == Literal::Narrow && DType::F32.has_float(f64::from(value as f32));
        match narrow {
            true => Dim::float(f64::from(value as f32), DType::F32),
            false => Dim::float(value, DType::F64),
        }
    }
}
