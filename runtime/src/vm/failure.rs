//! Why the machine ended a run, and where in the module.

use crate::fault::{Fault, FaultKind};
use passhost_lang::names::did_you_mean;
use std::fmt;

/// Why an operator is not executed whose plugin has no rule for that.
pub const NO_LEGALIZATION: &str = "it has no legalization";

/// Why a function has no result.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Cause {
    /// A kernel failed, or a limit was reached.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// The module has no such function.
    #[error("the module has no function `{name}`{}", did_you_mean(near))]
    NoFunction {
        /// The name that was asked for.
        name: String,
        /// Names of functions that are like it.
        near: Vec<String>,
    },
    /// A function of the module is of another kind.
    #[error("`{name}` is {found}; {wanted} is needed here")]
    OtherFunction {
        /// Its name.
        name: String,
        /// What it is.
        found: &'static str,
        /// What it should be.
        wanted: &'static str,
    },
    /// No packed function has this name.
    #[error("the packed function `{name}` is not registered{}", did_you_mean(near))]
    NotRegistered {
        /// Its name.
        name: String,
        /// Names that are like it.
        near: Vec<String>,
    },
    /// A packed function that the program registered failed.
    #[error("the packed function `{name}` failed: {why}")]
    PackedFailed {
        /// Its name.
        name: String,
        /// What it says.
        why: String,
    },
    /// An operator is neither executed by the machine nor legalized.
    #[error("the operator `{name}` cannot be executed: {why}")]
    NotExecuted {
        /// Its name.
        name: String,
        /// Why not; [`NO_LEGALIZATION`] if its plugin has no rule for it, else what is in the way of the rule.
        why: String,
    },
    /// An operator does not take these arguments.
    #[error("the operator `{name}` does not take these values: {why}")]
    NotTaken {
        /// Its name.
        name: String,
        /// Why not.
        why: String,
    },
    /// A call writes to an argument whose memory is that of another argument.
    #[error("`{name}` writes to argument {written}, and argument {other} is in the same memory; give it a copy of one")]
    SharedArguments {
        /// The function that is called.
        name: String,
        /// The position of the argument that it writes to.
        written: usize,
        /// The position of the other one.
        other: usize,
    },
    /// Calls are nested too deeply.
    #[error("calls are nested more than {limit} deep; a recursion may have no end")]
    TooDeep {
        /// The limit.
        limit: usize,
    },
    /// Tuples or closures are nested too deeply.
    #[error("a tuple or closure is nested more than {limit} deep")]
    NestedValue {
        /// The limit.
        limit: u32,
    },
    /// A value does not have the type that is written.
    #[error("{what} is {found}, but {wanted} is expected")]
    Mismatch {
        /// The value: a parameter, or what a match_cast or an operator takes.
        what: String,
        /// What it is.
        found: String,
        /// What it should be.
        wanted: String,
    },
    /// A value is of another kind than is written, as a tuple where a tensor is expected.
    #[error("{what} is {found}, but {wanted} is expected")]
    OtherKind {
        /// The value.
        what: String,
        /// What it is.
        found: String,
        /// What it should be.
        wanted: String,
    },
    /// A tensor or shape has another data type or number of dimensions than is written.
    #[error("{what} has {aspect} {found}, but {wanted} is expected")]
    OtherType {
        /// The value.
        what: String,
        /// `dtype` or `ndim`.
        aspect: &'static str,
        /// What it has.
        found: String,
        /// What it should have.
        wanted: String,
    },
    /// A symbolic variable has no value.
    #[error("the symbolic variable `{name}` has no value here")]
    Unbound {
        /// Its name.
        name: String,
    },
    /// A dimension has no value within 64 bits.
    #[error("a dimension has no value: {why}")]
    NoExtent {
        /// Why.
        why: String,
    },
}

impl From<FaultKind> for Cause {
    fn from(kind: FaultKind) -> Cause {
        Cause::Fault(kind.into())
    }
}

impl Cause {
    /// A value that is something else than expected.
    pub fn mismatch(what: impl Into<String>, found: impl Into<String>, wanted: impl Into<String>) -> Cause {
        Cause::Mismatch { what: what.into(), found: found.into(), wanted: wanted.into() }
    }
}

/// A place in the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct At {
    /// Name of the function.
    pub function: String,
    /// Node of its body.
    pub node: usize,
    /// Name of the binding at the node, if it has one.
    pub binding: Option<String>,
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.binding {
            Some(binding) => write!(f, "`{binding}` of `{}`", self.function),
            None => write!(f, "`{}`", self.function),
        }
    }
}

/// The cause, and the calls that led to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// What went wrong.
    pub cause: Cause,
    /// Where, the innermost call first; nothing if no function was entered. Of many calls the first ones.
    pub at: Vec<At>,
}

impl std::error::Error for Failure {}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.cause)?;
        self.at.first().map_or(Ok(()), |at| write!(f, "; at {at}"))
    }
}

impl From<Cause> for Failure {
    fn from(cause: Cause) -> Failure {
        Failure { cause, at: Vec::new() }
    }
}
