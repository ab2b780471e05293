//! Faults that end a run: the cause, and its place in the module.

use passhost_lang::ir::DType;
use std::fmt;

/// A place in a module; unknown parts are omitted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Source of the statement, or name of the binding.
    pub statement: Option<String>,
    /// Name of the function.
    pub function: Option<String>,
    /// The calling functions and bindings, the nearest first.
    pub called_from: Vec<String>,
}

impl Place {
    /// Creates the place of a statement in a function.
    pub fn new(function: impl Into<String>, statement: impl Into<String>) -> Place {
        Place { function: Some(function.into()), statement: Some(statement.into()), called_from: Vec::new() }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(statement) = &self.statement {
            write!(f, "; at {statement}")?;
        }
        if let Some(function) = &self.function {
            write!(f, "; in `{function}`")?;
        }
        for caller in &self.called_from {
            write!(f, "; called from {caller}")?;
        }
        Ok(())
    }
}

/// The reason why a run ended without a result.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FaultKind {
    /// An index is out of bounds.
    #[error("index {index:?} is outside of {of}, whose shape is {shape:?}")]
    OutOfBounds {
        /// The indexed object, with its name in backticks: a buffer, buffer region or iterator.
        of: String,
        /// The index.
        index: Vec<i64>,
        /// The extents.
        shape: Vec<i64>,
    },
    /// An integer is divided by 0.
    #[error("division of an integer by zero")]
    DivisionByZero,
    /// The run exceeds the memory limit.
    #[error("{needed} bytes are needed, but the limit is {limit} bytes")]
    OutOfMemory {
        /// Number of bytes in use, including the requested bytes.
        needed: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// The run exceeds the work limit.
    #[error("the run reached its limit of {limit} units of work")]
    TooMuchWork {
        /// The limit in units of work.
        limit: u64,
    },
    /// The run was cancelled.
    #[error("the run was cancelled")]
    Cancelled,
    /// The kind, data type or shape of an argument does not match its parameter.
    #[error("parameter `{parameter}` is {wanted}, but the argument is {found}")]
    WrongArgument {
        /// Name of the parameter.
        parameter: String,
        /// The expected argument.
        wanted: String,
        /// The argument found.
        found: String,
    },
    /// The number of arguments differs from the number of parameters.
    #[error("expected {wanted} arguments, found {found}")]
    ArgumentCount {
        /// Number of parameters.
        wanted: usize,
        /// Number of arguments.
        found: usize,
    },
    /// A tensor with this data type and shape cannot exist.
    #[error("{}", no_tensor_text(*dtype, shape, *bytes))]
    NoTensor {
        /// Data type of the elements.
        dtype: DType,
        /// The shape.
        shape: Vec<i64>,
        /// Bytes of data.
        bytes: u64,
    },
    /// Two iterations of a loop depend on each other, although they may run concurrently or in a different
    /// order.
    #[error(
        "iterations {} and {} of the {kind} loop over `{name}` both access element {element} of `{of}`, and at least one of them writes it",
        iterations[0], iterations[1]
    )]
    Race {
        /// Kind of the loop: parallel, vectorized or thread-bound.
        kind: &'static str,
        /// Name of the loop variable.
        name: String,
        /// Name of the accessed memory.
        of: String,
        /// Position of the element in the memory.
        element: i64,
        /// The two iterations, counted from 0.
        iterations: [i64; 2],
    },
    /// An assertion of the module does not hold.
    #[error("{message}")]
    Assertion {
        /// The message of the assertion.
        message: String,
    },
    /// The module uses an unsupported feature.
    #[error("the runtime does not support {what}")]
    Unsupported {
        /// Description of the unsupported feature.
        what: String,
    },
}

fn no_tensor_text(dtype: DType, shape: &[i64], bytes: u64) -> String {
    let elements = shape.iter().try_fold(1i64, |product, extent| product.checked_mul(*extent));
    match elements.and_then(|elements| elements.checked_mul(dtype.bytes() as i64)) {
        _ if shape.iter().any(|extent| *extent < 0) => {
            format!("a tensor cannot have the shape {shape:?}: an extent is negative")
        }
        None => format!("a tensor of {dtype} cannot have the shape {shape:?}: its size in bytes exceeds 64 bits"),
        Some(needed) => format!("a tensor of {dtype} with shape {shape:?} needs {needed} bytes, found {bytes}"),
    }
}

/// The reason why a run ended without a result, and its place.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{kind}{place}")]
pub struct Fault {
    /// The reason.
    pub kind: FaultKind,
    /// The place.
    pub place: Place,
}

impl From<FaultKind> for Fault {
    fn from(kind: FaultKind) -> Fault {
        Fault { kind, place: Place::default() }
    }
}

impl Fault {
    /// Creates a fault for an unsupported feature.
    pub fn unsupported(what: impl Into<String>) -> Fault {
        FaultKind::Unsupported { what: what.into() }.into()
    }

    /// Creates a fault for an unsupported data type.
    pub fn numbers_of(dtype: DType) -> Fault {
        Fault::unsupported(format!(
            "numbers of {dtype}, only bool, integers of 8 to 64 bits, float16, bfloat16, float32 and float64"
        ))
    }

    /// Sets the statement, unless it is already set.
    #[must_use]
    pub fn at(mut self, statement: impl Into<String>) -> Fault {
        self.place.statement.get_or_insert_with(|| statement.into());
        self
    }

    /// Sets the function, unless it is already set.
    #[must_use]
    pub fn in_function(mut self, function: impl Into<String>) -> Fault {
        self.place.function.get_or_insert_with(|| function.into());
        self
    }

    /// Adds a caller, which is a binding or a function.
    #[must_use]
    pub fn called_from(mut self, caller: impl Into<String>) -> Fault {
        self.place.called_from.push(caller.into());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_its_place() {
        let fault =
            Fault::unsupported("`T.ptx_mma`").at("the load of `A`").in_function("gemm").called_from("`lv` of `main`");
        assert_eq!(
            fault.to_string(),
            "the runtime does not support `T.ptx_mma`; at the load of `A`; in `gemm`; called from `lv` of `main`"
        );
        assert_eq!(fault.clone().at("elsewhere"), fault, "the first place is the nearest one");
    }
}
