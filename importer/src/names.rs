//! Converts names of a model to names of a module.

use plugin_api::names::{function_name, is_function_name};

/// Maximum length of a name; longer names are cut.
const LONGEST: usize = 200;

/// Converts a name to an identifier: other characters become `_`.
pub fn identifier(name: &str) -> String {
    if is_function_name(name) && name.len() <= LONGEST {
        return name.to_string();
    }
    function_name(
        &name.chars().take(LONGEST).map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect::<String>(),
    )
}
