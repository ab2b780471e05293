//! Errors of sections that are not a valid body.

use crate::ir::types::MAX_SIZE;

/// The reason why sections are not a valid body.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SealError {
    /// The body is empty.
    #[error("the body is empty; build a function with at least a result")]
    Empty,
    /// A table has more entries than ids can address.
    #[error("section {section} has {len} records, more than 2^31 - 1; split the function")]
    TooLong {
        /// The section.
        section: &'static str,
        /// Number of records in the table.
        len: usize,
    },
    /// An id or range is outside its table.
    #[error("{what} {index}: {field} is {found}, outside its table of {len}")]
    Dangling {
        /// The kind of record.
        what: &'static str,
        /// The number of the record.
        index: usize,
        /// The field.
        field: &'static str,
        /// The value found.
        found: u64,
        /// The length of the table.
        len: usize,
    },
    /// A record refers to itself or to a later record.
    #[error("{what} {index}: refers to {found}; a record may refer only to earlier ones")]
    Forward {
        /// The kind of record.
        what: &'static str,
        /// The number of the record.
        index: usize,
        /// The record to which it refers.
        found: u32,
    },
    /// A record is nested too deeply.
    #[error("{what} {index}: nested more than {most} deep; name inner parts to flatten it")]
    TooDeep {
        /// The kind of record.
        what: &'static str,
        /// The number of the record.
        index: usize,
        /// Maximum depth allowed.
        most: u32,
    },
    /// A record is too large when its shared parts are expanded.
    #[error("{what} {index}: more than {MAX_SIZE} parts when written out; name inner parts")]
    TooLarge {
        /// The kind of record.
        what: &'static str,
        /// The number of the record.
        index: usize,
    },
    /// The bytes are not UTF-8.
    #[error("{what} {index} is not UTF-8")]
    NotUtf8 {
        /// The kind of record.
        what: &'static str,
        /// The number of the record.
        index: usize,
    },
    /// A record is contradictory.
    #[error("{what} {index}: {why}")]
    Malformed {
        /// The kind of record.
        what: &'static str,
        /// The number of the record.
        index: usize,
        /// The contradiction.
        why: &'static str,
    },
    /// A value is used where it is not visible.
    #[error("node {index}{}: uses `{name}` outside the region that defines it", named(.user))]
    Scope {
        /// The node that uses the value.
        index: usize,
        /// The name of that node; may be empty.
        user: String,
        /// The name of the value.
        name: String,
    },
    /// An operand refers to its own node or a later node.
    #[error("node {index}{}: `{name}` is used here, before its definition; move the definition before its first use", named(.user))]
    UseBeforeDef {
        /// The node with the operand.
        index: usize,
        /// The name of that node; may be empty.
        user: String,
        /// The name of the value.
        name: String,
    },
    /// A pass removed a value that is still used.
    #[error("node {index}{}: uses `{name}`, which was removed; replace its uses first", named(.user))]
    Removed {
        /// The node that uses the value.
        index: usize,
        /// The name of that node; may be empty.
        user: String,
        /// The name of the value.
        name: String,
    },
    /// A nested expression does not have exactly one user.
    #[error(
        "node {index}: an expression without a name has {uses} users, but exactly one is allowed; bind it to a variable, for example with `rw.emit` in a rewrite"
    )]
    UnboundUses {
        /// The node.
        index: usize,
        /// Number of users of the expression.
        uses: u32,
    },
    /// A block does not declare its accesses, and they cannot be inferred.
    #[error(
        "block `{block}` uses the data of `{buffer}` directly, so its accesses cannot be found; declare them with `T.reads(...)` and \
         `T.writes(...)`"
    )]
    UnknownAccess {
        /// The name of the block.
        block: String,
        /// The name of the buffer.
        buffer: String,
    },
    /// The host rejected the body.
    #[error("{0}")]
    Host(String),
}

fn named(name: &str) -> String {
    if name.is_empty() { String::new() } else { format!(" (`{name}`)") }
}
