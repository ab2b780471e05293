//! How operations are written, in dimensions and expressions alike.

use crate::words::folding::{Constant, folded};
use passhost_lang::ir::DType;
use passhost_lang::ir::records::prim;

/// How an infix operator is written.
#[derive(Clone, Copy)]
pub(super) struct Infix {
    pub(super) text: &'static str,
    name: &'static str,
    /// How tightly it binds.
    pub(super) level: u8,
}

impl Infix {
    /// What a left operand must at least bind like: comparisons in a row would be one that is chained.
    pub(super) fn left(self) -> u8 {
        if self.level == COMPARISON { self.level + 1 } else { self.level }
    }
}

const COMPARISON: u8 = 6;

/// Text and precedence of an infix operator.
pub(super) fn infix(op: u16) -> Option<Infix> {
    let (text, name, level) = match op {
        prim::OR => (" or ", "Or", 3),
        prim::AND => (" and ", "And", 4),
        prim::EQ => (" == ", "EQ", COMPARISON),
        prim::NE => (" != ", "NE", COMPARISON),
        prim::LT => (" < ", "LT", COMPARISON),
        prim::LE => (" <= ", "LE", COMPARISON),
        prim::GT => (" > ", "GT", COMPARISON),
        prim::GE => (" >= ", "GE", COMPARISON),
        prim::BITOR => (" | ", "BitwiseOr", 7),
        prim::BITXOR => (" ^ ", "BitwiseXor", 8),
        prim::BITAND => (" & ", "BitwiseAnd", 9),
        prim::SHL => (" << ", "LShift", 10),
        prim::SHR => (" >> ", "RShift", 10),
        prim::ADD => (" + ", "Add", 11),
        prim::SUB => (" - ", "Sub", 11),
        prim::MUL => (" * ", "Mul", 12),
        prim::FLOORDIV => (" // ", "FloorDiv", 12),
        prim::FLOORMOD => (" % ", "FloorMod", 12),
        prim::DIV => (" / ", "Div", 12),
        _ => return None,
    };
    Some(Infix { text, name, level })
}

/// Name of an operation on two values that is written as a call; `folds`: the function of TVM would compute it.
pub(super) fn binary_name(op: u16, folds: bool) -> &'static str {
    if let Some(infix) = infix(op) {
        return infix.name;
    }
    match op {
        prim::IF => "if_then_else",
        prim::MIN if folds => "Min",
        prim::MAX if folds => "Max",
        prim::TRUNCMOD if folds => "Mod",
        prim::MIN => "min",
        prim::MAX => "max",
        prim::TRUNCMOD => "truncmod",
        _ => "Div",
    }
}

/// How messages name an operation.
pub(crate) fn operation_name(op: u16) -> String {
    match infix(op) {
        Some(infix) => format!("`{}`", infix.text.trim()),
        None if op == prim::NOT => "`not`".to_string(),
        None => format!("T.{}", binary_name(op, false)),
    }
}

/// The constructor of TVM that makes an operation and computes nothing.
pub(crate) fn operation_constructor(op: u16) -> &'static str {
    binary_name(op, true)
}

/// Whether TVM would compute `a op b` at once, of operands of this data type: then the infix form is not read back.
pub(super) fn folds(op: u16, dtype: DType, a: Constant, b: Constant) -> bool {
    folded(op, dtype, a, b).is_some()
}
