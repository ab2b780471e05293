//! The syntax of operations, in both dimensions and expressions.

use crate::words::folding::{Constant, folded};
use passhost_lang::ir::DType;
use passhost_lang::scalar::PrimOp;

/// The syntax of an infix operator.
#[derive(Clone, Copy)]
pub(super) struct Infix {
    pub(super) text: &'static str,
    name: &'static str,
    /// Precedence of the operation.
    pub(super) level: u8,
}

impl Infix {
    /// Returns the least precedence of a left operand without parentheses. Higher for comparisons, because Python would
    /// chain them.
    pub(super) fn left(self) -> u8 {
        if self.level == COMPARISON { self.level + 1 } else { self.level }
    }
}

const COMPARISON: u8 = 6;

/// Returns the symbol and precedence of an infix operator.
pub(super) fn infix(op: PrimOp) -> Option<Infix> {
    let (text, name, level) = match op {
        PrimOp::Or => (" or ", "Or", 3),
        PrimOp::And => (" and ", "And", 4),
        PrimOp::Eq => (" == ", "EQ", COMPARISON),
        PrimOp::Ne => (" != ", "NE", COMPARISON),
        PrimOp::Lt => (" < ", "LT", COMPARISON),
        PrimOp::Le => (" <= ", "LE", COMPARISON),
        PrimOp::Gt => (" > ", "GT", COMPARISON),
        PrimOp::Ge => (" >= ", "GE", COMPARISON),
        PrimOp::BitOr => (" | ", "BitwiseOr", 7),
        PrimOp::BitXor => (" ^ ", "BitwiseXor", 8),
        PrimOp::BitAnd => (" & ", "BitwiseAnd", 9),
        PrimOp::Shl => (" << ", "LShift", 10),
        PrimOp::Shr => (" >> ", "RShift", 10),
        PrimOp::Add => (" + ", "Add", 11),
        PrimOp::Sub => (" - ", "Sub", 11),
        PrimOp::Mul => (" * ", "Mul", 12),
        PrimOp::FloorDiv => (" // ", "FloorDiv", 12),
        PrimOp::FloorMod => (" % ", "FloorMod", 12),
        PrimOp::Div => (" / ", "Div", 12),
        _ => return None,
    };
    Some(Infix { text, name, level })
}

/// Returns the name of a binary operation that is written as a call; `folds` is true if the usual TVM function
/// would fold it.
pub(super) fn binary_name(op: PrimOp, folds: bool) -> &'static str {
    if let Some(infix) = infix(op) {
        return infix.name;
    }
    match op {
        PrimOp::If => "if_then_else",
        PrimOp::Min if folds => "Min",
        PrimOp::Max if folds => "Max",
        PrimOp::TruncMod if folds => "Mod",
        PrimOp::Min => "min",
        PrimOp::Max => "max",
        PrimOp::TruncMod => "truncmod",
        _ => "Div",
    }
}

/// Returns the name of an operation in messages.
pub(crate) fn operation_name(op: PrimOp) -> String {
    match infix(op) {
        Some(infix) => format!("`{}`", infix.text.trim()),
        None if op == PrimOp::Not => "`not`".to_string(),
        None => format!("T.{}", binary_name(op, false)),
    }
}

/// Returns TVM's constructor of an operation, which does not fold constants.
pub(crate) fn operation_constructor(op: PrimOp) -> &'static str {
    binary_name(op, true)
}

/// Returns true if TVM would fold `a op b` for operands of this data type, so that the infix form would not read back.
pub(super) fn folds(op: PrimOp, dtype: DType, a: Constant, b: Constant) -> bool {
    folded(op, dtype, a, b).is_some()
}
