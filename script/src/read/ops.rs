//! Maps Python operators and TVM names to operations, for dimensions and expressions alike.

use passhost_lang::ir::records::prim;
use ruff_python_ast::{CmpOp, Operator};

/// Returns the operation of an infix operator.
pub(super) fn binary_op(op: Operator) -> Option<u16> {
    Some(match op {
        Operator::Add => prim::ADD,
        Operator::Sub => prim::SUB,
        Operator::Mult => prim::MUL,
        Operator::FloorDiv => prim::FLOORDIV,
        Operator::Mod => prim::FLOORMOD,
        Operator::Div => prim::DIV,
        Operator::LShift => prim::SHL,
        Operator::RShift => prim::SHR,
        Operator::BitAnd => prim::BITAND,
        Operator::BitOr => prim::BITOR,
        Operator::BitXor => prim::BITXOR,
        _ => return None,
    })
}

/// Returns the operation of a comparison.
pub(super) fn compare_op(op: CmpOp) -> Option<u16> {
    Some(match op {
        CmpOp::Eq => prim::EQ,
        CmpOp::NotEq => prim::NE,
        CmpOp::Lt => prim::LT,
        CmpOp::LtE => prim::LE,
        CmpOp::Gt => prim::GT,
        CmpOp::GtE => prim::GE,
        _ => return None,
    })
}

/// Returns the operation of `T.Add(a, b)` and the like.
pub(super) fn named_op(name: &str) -> Option<u16> {
    Some(match name {
        "Add" => prim::ADD,
        "Sub" => prim::SUB,
        "Mul" => prim::MUL,
        "FloorDiv" | "floordiv" => prim::FLOORDIV,
        "FloorMod" | "floormod" => prim::FLOORMOD,
        "Div" | "truncdiv" => prim::TRUNCDIV,
        "Mod" | "truncmod" => prim::TRUNCMOD,
        "min" | "Min" => prim::MIN,
        "max" | "Max" => prim::MAX,
        "EQ" => prim::EQ,
        "NE" => prim::NE,
        "LT" => prim::LT,
        "LE" => prim::LE,
        "GT" => prim::GT,
        "GE" => prim::GE,
        "And" => prim::AND,
        "Or" => prim::OR,
        "shift_left" | "LShift" => prim::SHL,
        "shift_right" | "RShift" => prim::SHR,
        "bitwise_and" | "BitwiseAnd" => prim::BITAND,
        "bitwise_or" | "BitwiseOr" => prim::BITOR,
        "bitwise_xor" | "BitwiseXor" => prim::BITXOR,
        _ => return None,
    })
}
