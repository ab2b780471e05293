//! Converts names of a model to names of a module.

use plugin_api::names::{function_name, is_function_name};

/// Maximum length of a name. A longer name is cut, and ends in a hash of the whole name, so that names with the same
/// beginning stay different, and the host finds the parameter to which an array with the model's name belongs.
const LONGEST: usize = 200;

/// Converts a name to an identifier: other characters become `_`. The host has the same function for the names of arrays.
pub fn identifier(name: &str) -> String {
    if is_function_name(name) && name.len() <= LONGEST {
        return name.to_string();
    }
    let letter = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    if name.chars().count() <= LONGEST {
        return function_name(&name.chars().map(letter).collect::<String>());
    }
    let hash = name.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let start: String = name.chars().take(LONGEST - 10).map(letter).collect();
    function_name(&format!("{start}_{hash:08x}"))
}
