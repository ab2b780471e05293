//! Maps Python operators and TVM names to operations, for both dimensions and expressions.

use passhost_lang::scalar::PrimOp;
use ruff_python_ast::{CmpOp, Operator};

/// Returns the operation of an infix operator.
pub(super) fn binary_op(op: Operator) -> Option<PrimOp> {
    Some(match op {
        Operator::Add => PrimOp::Add,
        Operator::Sub => PrimOp::Sub,
        Operator::Mult => PrimOp::Mul,
        Operator::FloorDiv => PrimOp::FloorDiv,
        Operator::Mod => PrimOp::FloorMod,
        Operator::Div => PrimOp::Div,
        Operator::LShift => PrimOp::Shl,
        Operator::RShift => PrimOp::Shr,
        Operator::BitAnd => PrimOp::BitAnd,
        Operator::BitOr => PrimOp::BitOr,
        Operator::BitXor => PrimOp::BitXor,
        _ => return None,
    })
}

/// Returns the operation of a comparison.
pub(super) fn compare_op(op: CmpOp) -> Option<PrimOp> {
    Some(match op {
        CmpOp::Eq => PrimOp::Eq,
        CmpOp::NotEq => PrimOp::Ne,
        CmpOp::Lt => PrimOp::Lt,
        CmpOp::LtE => PrimOp::Le,
        CmpOp::Gt => PrimOp::Gt,
        CmpOp::GtE => PrimOp::Ge,
        _ => return None,
    })
}

/// Returns the operation of a constructor such as `T.Add(a, b)`.
pub(super) fn named_op(name: &str) -> Option<PrimOp> {
    Some(match name {
        "Add" => PrimOp::Add,
        "Sub" => PrimOp::Sub,
        "Mul" => PrimOp::Mul,
        "FloorDiv" | "floordiv" => PrimOp::FloorDiv,
        "FloorMod" | "floormod" => PrimOp::FloorMod,
        "Div" | "truncdiv" => PrimOp::TruncDiv,
        "Mod" | "truncmod" => PrimOp::TruncMod,
        "min" | "Min" => PrimOp::Min,
        "max" | "Max" => PrimOp::Max,
        "EQ" => PrimOp::Eq,
        "NE" => PrimOp::Ne,
        "LT" => PrimOp::Lt,
        "LE" => PrimOp::Le,
        "GT" => PrimOp::Gt,
        "GE" => PrimOp::Ge,
        "And" => PrimOp::And,
        "Or" => PrimOp::Or,
        "shift_left" | "LShift" => PrimOp::Shl,
        "shift_right" | "RShift" => PrimOp::Shr,
        "bitwise_and" | "BitwiseAnd" => PrimOp::BitAnd,
        "bitwise_or" | "BitwiseOr" => PrimOp::BitOr,
        "bitwise_xor" | "BitwiseXor" => PrimOp::BitXor,
        _ => return None,
    })
}

/// Returns TVM's names of the operands of an operation that `named_op` knows.
pub(super) fn operands_of(name: &str) -> [&'static str; 2] {
    if name.starts_with("shift_") || name.starts_with("bitwise_") { ["x", "y"] } else { ["a", "b"] }
}
