//! Recognizes common forms of TIR functions: loops, blocks, loads, stores, arithmetic. Their text always reads as the same function, so it
//! need not be read again; `tests/src/bin/forge.rs` compares this with the reader. Any other function is printed and read again.
//!
//! This takes one pass over the records: an expression comes directly before its user, so its parts are already checked when its own node is
//! reached.

mod expressions;
mod statements;
mod tables;

use passhost_lang::ir::Body;

/// Returns true if a well-formed PrimFunc has a common form, so that its text reads as the same function.
pub fn is_plain(body: &Body) -> bool {
    statements::function(body.raw()).is_some()
}

/// The result of a check: `None` if a record is not plain.
type Plain = Option<()>;
