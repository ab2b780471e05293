//! Recognizes TIR functions of usual forms: loops, blocks, loads, stores, arithmetic. Their text always reads as the same
//! function, so it is not read again; `tests/src/bin/forge.rs` compares this with the reader. Any other function is printed
//! and read again.
//!
//! One pass over the records: an expression comes directly before its user, so what is known of its parts is known when
//! its own node comes.

mod expressions;
mod statements;
mod tables;

use passhost_lang::ir::Body;

/// Whether a well-formed PrimFunc is of usual form, so that its text reads as the same function.
pub fn is_plain(body: &Body) -> bool {
    statements::function(body.raw()).is_some()
}

/// Nothing where a record is not plain.
type Plain = Option<()>;
