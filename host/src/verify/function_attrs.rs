//! Checks function attributes whose values TVM reads. TVM cannot read a text in which such an attribute has the wrong
//! kind of value.

use passhost_lang::ir::{Body, BodyKind, Value};

/// Checks the `global_symbol` attribute. For a public Relax function, it must be the function's own name; for a private
/// function, it must be missing. For a PrimFunc, it may be a different name.
pub(crate) fn symbol_fault(name: &str, body: &Body) -> Option<String> {
    let value = body.root().attr("global_symbol")?;
    let symbol = value.as_str();
    let shown = symbol.map_or_else(String::new, |symbol| format!(" \"{symbol}\""));
    if body.is_private() {
        return Some(format!("is private, but has the global_symbol{shown}; remove one of them"));
    }
    let Some(symbol) = symbol else {
        return Some(format!("has a global_symbol that is not a string; set it to \"{name}\", or remove it"));
    };
    let other = symbol != name && body.kind() == BodyKind::Function;
    other.then(|| format!("is called `{name}`, but its global_symbol is \"{symbol}\"; use the same name for both"))
}

/// Returns the fault in the attributes of a Relax function, which may be nested in another function.
pub(crate) fn attribute_fault(function: Value<'_>) -> Option<String> {
    if function.index() != Some(0) && function.attr("global_symbol").is_some() {
        return Some("is inside another function, but has a global_symbol; remove it".to_string());
    }
    let forced = function.attr("relax.force_pure")?;
    let wrong = || "sets relax.force_pure to a value that is not a boolean; set it to True, or remove it".to_string();
    forced.as_int().is_none().then(wrong)
}
