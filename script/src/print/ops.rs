//! The syntax of operations, in dimensions and expressions alike.

use crate::words::folding::{Constant, folded};
use passhost_lang::ir::DType;
use passhost_lang::ir::records::prim;

/// The syntax of an infix operator.
#[derive(Clone, Copy)]
pub(super) struct Infix {
    pub(super) text: &'static str,
    name: &'static str,
    /// Its precedence.
    pub(super) level: u8,
}

impl Infix {
    /// Returns the least precedence of a left operand without parentheses. It is higher for comparisons, which
    /// Python would chain.
    pub(super) fn left(self) -> u8 {
        if self.level == COMPARISON { self.level + 1 } else { self.level }
    }
}

const COMPARISON: u8 = 6;

/// Returns the text and precedence of an infix operator.
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

/// Returns the name of a binary operation that is written as a call; `folds` is true if the usual TVM function
/// would fold it.
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

/// Returns the name of an operation in messages.
pub(crate) fn operation_name(op: u16) -> String {
    match infix(op) {
        Some(infix) => format!("`{}`", infix.text.trim()),
        None if op == prim::NOT => "`not`".to_string(),
        None => format!("T.{}", binary_name(op, false)),
    }
}

/// Returns TVM's constructor of an operation, which does not fold constants.
pub(crate) fn operation_constructor(op: u16) -> &'static str {
    binary_name(op, true)
}

/// Returns true if TVM would fold `a op b` for operands of this data type, so that the infix form would not be read
/// back.
pub(super) fn folds(op: u16, dtype: DType, a: Constant, b: Constant) -> bool {
    folded(op, dtype, a, b).is_some()
}
