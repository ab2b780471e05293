//! Checks config values against the options declared by plugins.

use crate::pipeline::wanted;
use crate::registry::Registry;
use passhost_lang::metadata::{ConfigInfo, OptionType, OptionValue, summary};
use passhost_lang::names::{did_you_mean, listed, nearest};

/// The reason why a config value cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ConfigError {
    /// No plugin declares the key.
    #[error("unknown config option `{key}`{}{about}", did_you_mean(.near))]
    Unknown {
        /// The given key.
        key: String,
        /// The most similar keys.
        near: Vec<String>,
        /// A sentence about the most similar option; empty if there is none.
        about: String,
    },
    /// The key is that of a record; only its fields have values.
    #[error("config key `{key}` is a record, found `{found}`; its fields: {}", listed(fields))]
    Record {
        /// The given key.
        key: String,
        /// The value found.
        found: String,
        /// The keys of the fields of the record.
        fields: Vec<String>,
    },
    /// The value has the wrong type.
    #[error("config option `{key}` is set to `{found}`, but {about}")]
    WrongType {
        /// The key.
        key: String,
        /// The value found.
        found: String,
        /// The expected type.
        ty: String,
        /// Description of the option.
        about: String,
    },
    /// The number is out of range.
    #[error("config option `{key}` is `{found}`, which is not in {range}; {about}")]
    OutOfRange {
        /// The key.
        key: String,
        /// The value found.
        found: String,
        /// The expected range.
        range: String,
        /// Description of the option.
        about: String,
    },
}

/// Describes an option: type, default, range, owner and purpose.
fn about(registry: &Registry, info: &ConfigInfo) -> String {
    typed(registry, info, &info.ty.to_string())
}

fn typed(registry: &Registry, info: &ConfigInfo, ty: &str) -> String {
    let default = info.default.as_ref().map_or("not set by default".to_string(), |value| format!("default {value}"));
    let range = info.allowed.text().map_or(String::new(), |range| format!(", range {range}"));
    let owner = registry.config(&info.name).map(|(_, owner)| registry.owner(owner).describe()).unwrap_or_default();
    format!("it is of type {ty}, {default}{range}, declared by {owner}: {}", summary(&info.doc))
}

/// Parses `KEY=VALUE`, with a key such as `acme.limit`. Messages put `before`, such as `--config `, before the text.
///
/// # Errors
/// The error in the text.
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

/// Converts the value of a key to the type of its option: integers widen to float, and bools and integers convert
/// to each other, as in TVM.
///
/// # Errors
/// Fails if the key is undeclared, or the value is invalid.
pub fn check(registry: &Registry, key: &str, value: &OptionValue) -> Result<OptionValue, ConfigError> {
    let Some((info, _)) = registry.config(key) else { return Err(unknown(registry, key, value)) };
    let (key, found) = (key.to_string(), value.to_string());
    let value = match (value, info.ty) {
        (OptionValue::Bool(value), OptionType::Int) => OptionValue::Int(i64::from(*value)),
        (OptionValue::Int(value), OptionType::Bool) => OptionValue::Bool(*value != 0),
        (value, _) => value.clone(),
    };
    let ty = wanted(info.ty, &value);
    let Some(value) = value.coerce(info.ty) else {
        let about = typed(registry, info, &ty);
        return Err(ConfigError::WrongType { key, found, ty, about });
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
    // If several keys are similar, the message must name the option.
    let about = nearest.map_or(String::new(), |(info, _)| {
        let which = if near.len() > 1 { format!("`{}`", info.name) } else { "It".to_string() };
        format!(" {which}{}", about(registry, info).trim_start_matches("it"))
    });
    ConfigError::Unknown { key, near, about }
}
