//! Options of passes: the field types, and values as text.

use crate::PassError;
use crate::declare::declarations::OptionDecl;
use crate::metadata::{OptionType, OptionValue};

/// The Rust type of an option.
pub trait OptionField: Sized {
    /// The option type in the metadata.
    const TYPE: OptionType;

    /// Converts a value; `None` if it has a different type.
    fn from_value(value: &OptionValue) -> Option<Self>;

    /// Converts to a value.
    fn to_value(&self) -> OptionValue;
}

macro_rules! scalar {
    ($ty:ty, $variant:ident, $scalar:ident, $list:ident) => {
        impl OptionField for $ty {
            const TYPE: OptionType = OptionType::$scalar;
            fn from_value(value: &OptionValue) -> Option<Self> {
                if let OptionValue::$variant(v) = value { Some(v.clone()) } else { None }
            }
            fn to_value(&self) -> OptionValue {
                OptionValue::$variant(self.clone())
            }
        }
        impl OptionField for Vec<$ty> {
            const TYPE: OptionType = OptionType::$list;
            fn from_value(value: &OptionValue) -> Option<Self> {
                let OptionValue::List(items) = value else { return None };
                items.iter().map(<$ty>::from_value).collect()
            }
            fn to_value(&self) -> OptionValue {
                OptionValue::List(self.iter().map(|v| OptionValue::$variant(v.clone())).collect())
            }
        }
    };
}
scalar!(bool, Bool, Bool, BoolList);
scalar!(i64, Int, Int, IntList);
scalar!(f64, Float, Float, FloatList);
scalar!(String, Str, Str, StrList);

/// Reads the values passed by the host, in the order of the declarations.
pub struct Values<'a> {
    decls: std::slice::Iter<'a, OptionDecl>,
    values: &'a [OptionValue],
    given: usize,
}

impl<'a> Values<'a> {
    /// Creates a reader for the values of the given options.
    pub fn new(decls: &'a [OptionDecl], values: &'a [OptionValue]) -> Values<'a> {
        Values { decls: decls.iter(), values, given: values.len() }
    }

    /// Reads the next value.
    ///
    /// # Errors
    /// If the value is missing or has a different type; the host checks both before a run.
    #[expect(clippy::should_implement_trait, reason = "not an iterator, because each value has its own type")]
    pub fn next<T: OptionField>(&mut self) -> Result<T, PassError> {
        let name = self.decls.next().map_or("", |decl| decl.name);
        let Some((value, rest)) = self.values.split_first() else {
            return Err(PassError::new(format!("the host passed {} option values, but none for `{name}`", self.given)));
        };
        self.values = rest;
        let wrong = || PassError::new(format!("option `{name}` is {value}; it must be a {}", T::TYPE));
        T::from_value(value).ok_or_else(wrong)
    }

    /// Checks that no value is left.
    ///
    /// # Errors
    /// If the host passed more values than there are options.
    pub fn end(self) -> Result<(), PassError> {
        let n = self.given - self.values.len();
        let extra =
            || PassError::new(format!("the host passed {} option values, but there are only {n} options", self.given));
        if self.values.is_empty() { Ok(()) } else { Err(extra()) }
    }
}
