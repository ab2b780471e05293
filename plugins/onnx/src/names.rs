//! Names of a model as names in a module.

use plugin_api::names::{function_name, is_function_name};

/// The longest name that is kept; the rest of others is cut off.
const LONGEST: usize = 200;

/// A name as an identifier: other characters become `_`.
pub(crate) fn identifier(name: &str) -> String {
    if is_function_name(name) && name.len() <= LONGEST {
        return name.to_string();
    }
    function_name(
        &name.chars().take(LONGEST).map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect::<String>(),
    )
}
