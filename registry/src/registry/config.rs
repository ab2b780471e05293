//! Config values, compared with the options that plugins declare.

use crate::registry::Registry;
use passhost_lang::metadata::{ConfigInfo, OptionType, OptionValue, summary};
use passhost_lang::names::{did_you_mean, listed, nearest};

/// Why a config value cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ConfigError {
    /// No plugin declares the key.
    #[error("no config option `{key}`{}{about}", did_you_mean(.near))]
    Unknown {
        /// Key that was given.
        key: String,
        /// Nearest keys.
        near: Vec<String>,
        /// Everything about the nearest one, as a sentence; nothing if there is none.
        about: String,
    },
    /// The key of a record, which has no value of its own.
    #[error("config key `{key}` is a record, found `{found}`; its fields: {}", listed(fields))]
    Record {
        /// Key that was given.
        key: String,
        /// Value found.
        found: String,
        /// Keys that continue it.
        fields: Vec<String>,
    },
    /// A value of another type.
    #[error("config option `{key}` is set to `{found}`, but {about}")]
    WrongType {
        /// The key.
        key: String,
        /// Value found.
        found: String,
        /// Type expected.
        ty: String,
        /// Everything about the option.
        about: String,
    },
    /// A number that is too small or too large.
    #[error("config option `{key}` is `{found}`, which is not in {range}; {about}")]
    OutOfRange {
        /// The key.
        key: String,
        /// Value found.
        found: String,
        /// Range expected.
        range: String,
        /// Everything about the option.
        about: String,
    },
}

/// Type, default, range and owner of an option, and what it is for.
fn about(registry: &Registry, info: &ConfigInfo) -> String {
    let default = info.default.as_ref().map_or("not set by default".to_string(), |value| format!("default {value}"));
    let range = info.allowed.text().map_or(String::new(), |range| format!(", range {range}"));
    let owner = registry.config(&info.name).map(|(_, owner)| registry.owner(owner).describe()).unwrap_or_default();
    format!("it is of type {}, {default}{range}, declared by {owner}: {}", info.ty, summary(&info.doc))
}

/// Reads `KEY=VALUE`, with a key such as `acme.limit`. Messages have `before` in front of the text, such as `--config `.
///
/// # Errors
/// What is wrong with the text.
pub fn entry(before: &str, text: &str) -> Result<(String, OptionValue), String> {
    let is_key = |key: &str| {
        let word = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-');
        key.split('.').all(word)
    };
    let Some((key, value)) = text.split_once('=').filter(|(key, _)| is_key(key)) else {
        return Err(format!("`{before}{text}` is not KEY=VALUE"));
    };
    let parsed = OptionValue::parse(value).map_err(|(at, expected)| {
        let found = value[at..].chars().next().map_or("the end".to_string(), |c| format!("`{c}`"));
        let at = value[..at].chars().count() + 1;
        format!("`{before}{text}`: expected {expected} at character {at} of the value, found {found}")
    })?;
    Ok((key.to_string(), parsed))
}

/// The value of a key as its option has it: integers widen to float, and a bool is an integer and the other way round, as in
/// TVM.
///
/// # Errors
/// If no plugin declares the key, or the value does not fit.
pub fn check(registry: &Registry, key: &str, value: &OptionValue) -> Result<OptionValue, ConfigError> {
    let Some((info, _)) = registry.config(key) else { return Err(unknown(registry, key, value)) };
    let (key, found) = (key.to_string(), value.to_string());
    let value = match (value, info.ty) {
        (OptionValue::Bool(value), OptionType::Int) => OptionValue::Int(i64::from(*value)),
        (OptionValue::Int(value), OptionType::Bool) => OptionValue::Bool(*value != 0),
        (value, _) => value.clone(),
    };
    let Some(value) = value.coerce(info.ty) else {
        return Err(ConfigError::WrongType { key, found, ty: info.ty.to_string(), about: about(registry, info) });
    };
    if info.allowed.has(&value) {
        return Ok(value);
    }
    let range = info.allowed.to_string();
    Err(ConfigError::OutOfRange { key, found, range, about: about(registry, info) })
}

fn unknown(registry: &Registry, key: &str, value: &OptionValue) -> ConfigError {
    let known = || registry.config_options().map(|(info, _)| info.name.as_str());
    let fields: Vec<String> = registry.config_fields(key).map(str::to_string).collect();
    let (key, found) = (key.to_string(), value.to_string());
    if !fields.is_empty() {
        return ConfigError::Record { key, found, fields };
    }
    let near = nearest(&key, known());
    let nearest = near.first().and_then(|name| registry.config(name));
    // Of several it is to be said which.
    let about = nearest.map_or(String::new(), |(info, _)| {
        let which = if near.len() > 1 { format!("`{}`", info.name) } else { "It".to_string() };
        format!(" {which}{}", about(registry, info).trim_start_matches("it"))
    });
    ConfigError::Unknown { key, near, about }
}
