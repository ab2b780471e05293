//! Why a pass failed.

use crate::ir::{ConstantError, SealError, Value};
use std::fmt;

/// Why a pass failed. It says only why; the host adds pass, plugin, function and place.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PassError {
    /// What was found, and what would be right.
    pub message: String,
    /// Position of the node that it is about.
    pub node: Option<usize>,
    /// Name of the function that it is about, where a pass works on more than one.
    pub function: Option<String>,
    /// Whether the value of an option is wrong. That is a mistake of the user, not of the pass.
    pub is_of_option: bool,
}

impl PassError {
    /// Says why.
    pub fn new(message: impl Into<String>) -> PassError {
        PassError { message: message.into(), node: None, function: None, is_of_option: false }
    }

    /// Says where: at this value of the function that the pass was given.
    pub fn at(mut self, value: Value<'_>) -> PassError {
        self.node = value.index();
        self
    }

    /// Says that the value of an option is wrong: what the pass was given, and not what it does.
    pub fn of_option(mut self) -> PassError {
        self.is_of_option = true;
        self
    }

    /// Says in which function.
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

/// Makes a [`PassError`](crate::PassError): `pass_error!("found {x}")`, or with a place,
/// `pass_error!(at value, "found {x}")`. If the value of an option is wrong, `option` comes first:
/// `pass_error!(option "`factor` is {x}; it must be positive")`.
#[macro_export]
macro_rules! pass_error {
    (option $($error:tt)+) => { $crate::pass_error!($($error)+).of_option() };
    (at $value:expr, $($message:tt)+) => { $crate::PassError::new(format!($($message)+)).at($value) };
    ($($message:tt)+) => { $crate::PassError::new(format!($($message)+)) };
}

/// Leaves a pass with an error, as [`pass_error!`] makes it.
#[macro_export]
macro_rules! bail {
    ($($message:tt)+) => { return Err($crate::pass_error!($($message)+).into()) };
}
