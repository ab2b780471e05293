//! What is wrong with sections that are not a body.

use crate::ir::types::MAX_SIZE;

/// Why sections are not a body.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SealError {
    /// No node at all.
    #[error("the body has no nodes; build a function with at least a result")]
    Empty,
    /// A table is longer than ids can say.
    #[error("section {section} has {len} records; at most 2^31 - 1 are possible: split the function")]
    TooLong {
        /// Which section.
        section: &'static str,
        /// Its number of records.
        len: usize,
    },
    /// An id or range points outside its table.
    #[error("{what} {index}: {field} is {found}, outside its table of {len}")]
    Dangling {
        /// Kind of record.
        what: &'static str,
        /// Which one.
        index: usize,
        /// Which field.
        field: &'static str,
        /// Value found.
        found: u64,
        /// Length of the table.
        len: usize,
    },
    /// A record refers to itself or to a later one.
    #[error("{what} {index}: refers to {found}; a record may refer only to earlier ones")]
    Forward {
        /// Kind of record.
        what: &'static str,
        /// Which one.
        index: usize,
        /// What it refers to.
        found: u32,
    },
    /// Nested too deeply.
    #[error("{what} {index}: nested more than {most} deep; name inner parts to flatten it")]
    TooDeep {
        /// Kind of record.
        what: &'static str,
        /// Which one.
        index: usize,
        /// How deep it may be.
        most: u32,
    },
    /// Small to store, but too large once shared parts are written out.
    #[error("{what} {index}: more than {MAX_SIZE} parts when written out; name inner parts")]
    TooLarge {
        /// Kind of record.
        what: &'static str,
        /// Which one.
        index: usize,
    },
    /// Bytes that are not UTF-8.
    #[error("{what} {index} is not UTF-8")]
    NotUtf8 {
        /// Kind of record.
        what: &'static str,
        /// Which one.
        index: usize,
    },
    /// A record that contradicts itself.
    #[error("{what} {index}: {why}")]
    Malformed {
        /// Kind of record.
        what: &'static str,
        /// Which one.
        index: usize,
        /// In which way.
        why: &'static str,
    },
    /// A value used where it is not visible.
    #[error("node {index}{}: uses `{name}` outside the region that defines it", named(.user))]
    Scope {
        /// Node that uses it.
        index: usize,
        /// Name of the user, or empty.
        user: String,
        /// Name of the value.
        name: String,
    },
    /// An operand that refers to its own node or a later one.
    #[error("node {index}{}: `{name}` is used here, before its definition; move the definition before its first use", named(.user))]
    UseBeforeDef {
        /// Node that uses it.
        index: usize,
        /// Name of the user, or empty.
        user: String,
        /// Name of the value.
        name: String,
    },
    /// A pass removed a value that is still used.
    #[error("node {index}{}: uses `{name}`, which was removed; replace its uses first", named(.user))]
    Removed {
        /// Node that uses it.
        index: usize,
        /// Name of the user, or empty.
        user: String,
        /// Name of the value.
        name: String,
    },
    /// A nested expression without a user, or with more than one.
    #[error(
        "node {index}: an expression without a name has {uses} users, and exactly one is allowed; bind it to a variable, which `rw.emit` does in a rewrite"
    )]
    UnboundUses {
        /// Which node.
        index: usize,
        /// Number of its users.
        uses: u32,
    },
    /// A block does not say what it accesses, and it cannot be found out.
    #[error(
        "block `{block}` uses the data of `{buffer}`, so what it accesses is not known; say it with `T.reads(...)` and \
         `T.writes(...)`"
    )]
    UnknownAccess {
        /// Name of the block.
        block: String,
        /// Name of the buffer.
        buffer: String,
    },
    /// The host refused.
    #[error("{0}")]
    Host(String),
}

fn named(name: &str) -> String {
    if name.is_empty() { String::new() } else { format!(" (`{name}`)") }
}
