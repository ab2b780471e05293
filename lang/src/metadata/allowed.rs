//! Which values of its type an option may have.

use super::OptionValue;
use std::fmt;

/// Which values of its type an option may have.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Allowed {
    /// All.
    #[default]
    All,
    /// Numbers from the first one, and up to the second one.
    Range(Option<OptionValue>, Option<OptionValue>),
    /// These.
    OneOf(Vec<OptionValue>),
}

impl Allowed {
    /// Whether a value is one of these.
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

    /// As its declaration says it; `None` if all values are allowed.
    pub fn text(&self) -> Option<String> {
        (*self != Allowed::All).then(|| self.to_string())
    }
}

/// `0..`, `..=9`, `0..=9`, `8 | 16 | 32`, `all`.
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
