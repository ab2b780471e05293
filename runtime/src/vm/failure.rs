//! The reason why a run failed, and its place in the module.

use crate::fault::{Fault, FaultKind};
use passhost_lang::names::{did_you_mean, with_more};
use std::fmt;

/// The reason if the plugin of an operator lacks a rule for legalizing it.
pub const NO_LEGALIZATION: &str = "it lacks a legalization";

/// The reason why a function does not return a result.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Cause {
    /// A kernel failed, or a limit was reached.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// The module lacks a function of this name.
    #[error("the module does not contain a function `{name}`{}", did_you_mean(near))]
    NoFunction {
        /// The requested name.
        name: String,
        /// Similar names of functions.
        near: Vec<String>,
    },
    /// A function of the module has a different kind.
    #[error("`{name}` is {found}, expected {wanted}")]
    OtherFunction {
        /// Name of the function.
        name: String,
        /// Kind of the function.
        found: &'static str,
        /// The expected kind.
        wanted: &'static str,
    },
    /// No packed function has this name.
    #[error("the packed function `{name}` is not registered{}", did_you_mean(near))]
    NotRegistered {
        /// Name of the function.
        name: String,
        /// Similar names.
        near: Vec<String>,
    },
    /// A registered packed function failed.
    #[error("the packed function `{name}` failed: {why}")]
    PackedFailed {
        /// Name of the function.
        name: String,
        /// The error message of the function.
        why: String,
    },
    /// An operator is neither implemented by the machine nor legalized.
    #[error("the operator `{name}` cannot be executed: {why}")]
    NotExecuted {
        /// Name of the operator.
        name: String,
        /// The reason: [`NO_LEGALIZATION`] if the plugin of the operator lacks a rule for legalizing it, otherwise the
        /// reason why the rule failed.
        why: String,
    },
    /// An operator does not accept its arguments.
    #[error("the operator `{name}` does not accept these values: {why}")]
    NotTaken {
        /// Name of the operator.
        name: String,
        /// The reason.
        why: String,
    },
    /// A call writes to an argument that shares its memory with another argument.
    #[error(
        "`{name}` writes to argument {written}, which shares memory with argument {other}; pass a copy of one of them"
    )]
    SharedArguments {
        /// The called function.
        name: String,
        /// The position of the written argument.
        written: usize,
        /// The position of the other argument.
        other: usize,
    },
    /// Calls are nested too deeply.
    #[error("calls are nested more than {limit} deep; a recursion may be endless")]
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
    /// A value does not have its declared type.
    #[error("{what} is {found}, but {wanted} is expected")]
    Mismatch {
        /// The value: a parameter, or an operand of a match_cast or an operator.
        what: String,
        /// The found type.
        found: String,
        /// The expected type.
        wanted: String,
    },
    /// The kind of a value differs from the declared kind, such as a tuple instead of a tensor.
    #[error("{what} is {found}, but {wanted} is expected")]
    OtherKind {
        /// The value.
        what: String,
        /// The found kind.
        found: String,
        /// The expected kind.
        wanted: String,
    },
    /// The data type or number of dimensions of a tensor or shape differs from the declaration.
    #[error("{what} has {aspect} {found}, but {wanted} is expected")]
    OtherType {
        /// The value.
        what: String,
        /// `dtype` or `ndim`.
        aspect: &'static str,
        /// The value found.
        found: String,
        /// The expected value.
        wanted: String,
    },
    /// A symbolic variable is unbound.
    #[error("the symbolic variable `{name}` is undefined here")]
    Unbound {
        /// Name of the variable.
        name: String,
    },
    /// The value of a dimension is undefined or does not fit in 64 bits.
    #[error("the value of a dimension cannot be computed: {why}")]
    NoExtent {
        /// The reason.
        why: String,
    },
}

impl From<FaultKind> for Cause {
    fn from(kind: FaultKind) -> Cause {
        Cause::Fault(kind.into())
    }
}

impl Cause {
    /// Creates a mismatch of a value.
    pub fn mismatch(what: impl Into<String>, found: impl Into<String>, wanted: impl Into<String>) -> Cause {
        Cause::Mismatch { what: what.into(), found: found.into(), wanted: wanted.into() }
    }
}

/// A place in the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct At {
    /// Name of the function.
    pub function: String,
    /// Index of the node in the function's body.
    pub node: usize,
    /// Name of the binding at the node, if any.
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

/// The cause of a failure, and the calls that led to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// The cause.
    pub cause: Cause,
    /// The places, the innermost call first; empty if no function was entered. If there are many calls, only the first
    /// few are kept.
    pub at: Vec<At>,
}

impl std::error::Error for Failure {}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at.first() {
            Some(at) => f.write_str(&with_more(&self.cause.to_string(), &format!("at {at}"))),
            None => write!(f, "{}", self.cause),
        }
    }
}

impl From<Cause> for Failure {
    fn from(cause: Cause) -> Failure {
        Failure { cause, at: Vec::new() }
    }
}
