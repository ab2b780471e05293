//! The allowed values of an option.

use super::OptionValue;
use std::fmt;

/// The allowed values of an option, within its type.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Allowed {
    /// All values.
    #[default]
    All,
    /// Numbers between two bounds, inclusive; a bound of `None` is open.
    Range(Option<OptionValue>, Option<OptionValue>),
    /// Only the listed values.
    OneOf(Vec<OptionValue>),
}

impl Allowed {
    /// Returns true if a value is allowed.
    pub fn has(&self, value: &OptionValue) -> bool {
        let ordered = |a: &OptionValue, b: &OptionValue| match (a, b) {
            (OptionValue::Int(a), OptionValue::Int(b)) => a <= b,
            (OptionValue::Float(a), OptionValue::Float(b)) => a <= b,
            _ => false,
        };
        match self {
            Allowed::All => true,
            Allowed::Range(from, to) => {
                from.as_ref().is_none_or(|from| ordered(from, value)) && to.as_ref().is_none_or(|to| ordered(value, to))
            }
            Allowed::OneOf(values) => values.contains(value),
        }
    }

    /// Returns the declaration as text; `None` if all values are allowed.
    pub fn text(&self) -> Option<String> {
        (*self != Allowed::All).then(|| self.to_string())
    }
}

/// Writes `0..`, `..=9`, `0..=9`, `8 | 16 | 32`, or `all`.
impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Allowed::All => f.write_str("all"),
            Allowed::Range(from, to) => {
                from.iter().try_for_each(|from| write!(f, "{from}"))?;
                f.write_str("..")?;
                to.iter().try_for_each(|to| write!(f, "={to}"))
            }
            Allowed::OneOf(values) => {
                for (i, value) in values.iter().enumerate() {
                    write!(f, "{}{value}", if i == 0 { "" } else { " | " })?;
                }
                Ok(())
            }
        }
    }
}
