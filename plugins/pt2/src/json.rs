//! Access to parts of the program, which is JSON. Errors name the missing part.

use importer::tensor::Res;
use serde_json::Value;

/// Returns a field of an object.
pub(crate) fn field<'j>(object: &'j Value, name: &str) -> Res<&'j Value> {
    object.get(name).ok_or_else(|| format!("the program lacks the field `{name}` where it is needed"))
}

/// Returns a field that is a string.
pub(crate) fn text<'j>(object: &'j Value, name: &str) -> Res<&'j str> {
    field(object, name)?.as_str().ok_or_else(|| format!("the field `{name}` of the program is not a string"))
}

/// Returns a field that is a list.
pub(crate) fn list<'j>(object: &'j Value, name: &str) -> Res<&'j [Value]> {
    let list = field(object, name)?.as_array();
    Ok(list.ok_or_else(|| format!("the field `{name}` of the program is not a list"))?)
}

/// Returns the only key of a union, and its value.
pub(crate) fn union(value: &Value) -> Res<(&str, &Value)> {
    let mut fields = value.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
    // `as_none` has the value true, and optional fields of other kinds may be written as null.
    match (fields.next(), fields.next()) {
        (Some((key, value)), None) => Ok((key.as_str(), value)),
        _ => Err(format!("a union of the program must have one key, found {}", shortened(value))),
    }
}

/// Returns an integer.
pub(crate) fn int(value: &Value) -> Res<i64> {
    value.as_i64().ok_or_else(|| format!("expected an integer in the program, found {}", shortened(value)))
}

/// Returns a float, which may be written as the name of a special value.
pub(crate) fn float(value: &Value) -> Res<f64> {
    match value.as_str() {
        Some("Infinity") => Ok(f64::INFINITY),
        Some("-Infinity") => Ok(f64::NEG_INFINITY),
        Some("NaN") => Ok(f64::NAN),
        _ => value.as_f64().ok_or_else(|| format!("expected a float in the program, found {}", shortened(value))),
    }
}

/// Returns the first characters of a value as JSON.
pub(crate) fn shortened(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
