//! The allowed values of an option: their declaration, and their encoding in the metadata.

use crate::declare::declarations::{fail, same, write_value};
use crate::metadata::wire::{Writer, tag};
use crate::typing::operators::DefaultDecl;

/// Allowed values of an option, inclusive.
#[derive(Clone, Copy)]
pub enum RangeDecl {
    /// Every value.
    Any,
    /// Integers between two bounds.
    Int(Option<i64>, Option<i64>),
    /// Floats between two bounds.
    Float(Option<f64>, Option<f64>),
    /// The listed integers or strings.
    OneOf(DefaultDecl),
}

impl RangeDecl {
    /// Stops compilation if no value is allowed, or the default is not allowed. Messages call the option `what`
    /// `name`.
    pub(crate) const fn check(&self, default: &DefaultDecl, what: &str, name: &str) {
        let (empty, outside) = match self {
            RangeDecl::Any => (false, false),
            RangeDecl::Int(from, to) => {
                let value = if let DefaultDecl::Int(value) = default { Some(*value) } else { None };
                let (from, to) = (or_int(*from, i64::MIN), or_int(*to, i64::MAX));
                (from > to, matches!(value, Some(value) if value < from || value > to))
            }
            RangeDecl::Float(from, to) => {
                let value = if let DefaultDecl::Float(value) = default { Some(*value) } else { None };
                let (from, to) = (or_float(*from, f64::NEG_INFINITY), or_float(*to, f64::INFINITY));
                (from > to, matches!(value, Some(value) if value < from || value > to))
            }
            RangeDecl::OneOf(values) => (false, !matches!(default, DefaultDecl::Required) && !has(values, default)),
        };
        if empty {
            fail(&["the range of ", what, " `", name, "` is empty: its start is greater than its end"]);
        }
        if outside {
            fail(&["the default of ", what, " `", name, "` is outside its range"]);
        }
    }

    /// Writes the range into the metadata of the option.
    pub(crate) const fn write<const N: usize>(&self, w: &mut Writer<N>) {
        let (from, to) = match self {
            RangeDecl::Any => (None, None),
            RangeDecl::Int(from, to) => (int_bytes(*from), int_bytes(*to)),
            RangeDecl::Float(from, to) => (float_bytes(*from), float_bytes(*to)),
            RangeDecl::OneOf(values) => return write_value(w, tag::ONE_OF, values),
        };
        if let Some(from) = from {
            w.field(tag::FROM, &from);
        }
        if let Some(to) = to {
            w.field(tag::UP_TO, &to);
        }
    }
}

/// Returns true if a list of integers or strings contains a value.
const fn has(values: &DefaultDecl, one: &DefaultDecl) -> bool {
    let mut i = 0;
    match (values, one) {
        (DefaultDecl::Ints(values), DefaultDecl::Int(one)) => {
            while i < values.len() {
                if values[i] == *one {
                    return true;
                }
                i += 1;
            }
        }
        (DefaultDecl::Strs(values), DefaultDecl::Str(one)) => {
            while i < values.len() {
                if same(values[i], one) {
                    return true;
                }
                i += 1;
            }
        }
        _ => {}
    }
    false
}

const fn or_int(value: Option<i64>, other: i64) -> i64 {
    if let Some(value) = value { value } else { other }
}

const fn or_float(value: Option<f64>, other: f64) -> f64 {
    if let Some(value) = value { value } else { other }
}

const fn int_bytes(value: Option<i64>) -> Option<[u8; 8]> {
    if let Some(value) = value { Some(value.to_le_bytes()) } else { None }
}

const fn float_bytes(value: Option<f64>) -> Option<[u8; 8]> {
    if let Some(value) = value { Some(value.to_bits().to_le_bytes()) } else { None }
}
