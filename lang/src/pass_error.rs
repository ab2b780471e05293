//! The error of a failed pass.

use crate::ir::{ConstantError, SealError, Value};
use std::fmt;

/// The error of a failed pass. It contains only the reason; the host adds the pass, plugin, function and position.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PassError {
    /// What was found and what was expected.
    pub message: String,
    /// The position of the affected node.
    pub node: Option<usize>,
    /// The name of the affected function, if the pass transforms more than one function.
    pub function: Option<String>,
    /// True if the value of an option is invalid, which is the user's mistake, not the pass's.
    pub is_of_option: bool,
}

impl PassError {
    /// Creates an error from a message.
    pub fn new(message: impl Into<String>) -> PassError {
        PassError { message: message.into(), node: None, function: None, is_of_option: false }
    }

    /// Sets the position to a value of the input function.
    pub fn at(mut self, value: Value<'_>) -> PassError {
        self.node = value.index();
        self
    }

    /// Marks the error as an invalid option value, that is, as a user's mistake.
    pub fn of_option(mut self) -> PassError {
        self.is_of_option = true;
        self
    }

    /// Sets the function.
    pub fn in_function(mut self, name: &str) -> PassError {
        self.function.get_or_insert_with(|| name.to_string());
        self
    }
}

impl fmt::Display for PassError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for PassError {}

impl From<SealError> for PassError {
    fn from(error: SealError) -> PassError {
        PassError::new(format!("the result is not valid: {error}"))
    }
}

impl From<ConstantError> for PassError {
    fn from(error: ConstantError) -> PassError {
        PassError::new(error.to_string())
    }
}

/// Creates a [`PassError`](crate::PassError): `pass_error!("found {x}")`, or with a position, `pass_error!(at value, "found {x}")`. For an
/// invalid option value, write `option` first: `pass_error!(option "`factor` is {x}; it must be positive")`.
#[macro_export]
macro_rules! pass_error {
    (option $($error:tt)+) => { $crate::pass_error!($($error)+).of_option() };
    (at $value:expr, $($message:tt)+) => { $crate::PassError::new(format!($($message)+)).at($value) };
    ($($message:tt)+) => { $crate::PassError::new(format!($($message)+)) };
}

/// Returns from a pass with an error; takes the arguments of [`pass_error!`].
#[macro_export]
macro_rules! bail {
    ($($message:tt)+) => { return Err($crate::pass_error!($($message)+).into()) };
}
