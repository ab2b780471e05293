//! Compilation targets.

use crate::report::error::Error;
use std::fmt;

/// A compilation target: a name such as `llvm`, or a JSON object with a `kind` or a `tag`, which is a name, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target(String);

impl Target {
    /// Reads one.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Target, Error> {
        let text = text.trim();
        let wrong = |why: &str| Error::Request {
            message: format!("target `{text}` {why}"),
            help: "a target is a name such as llvm, or JSON such as {\"kind\": \"llvm\", \"mcpu\": \"native\"}"
                .to_string(),
        };
        let is_name = |name: &str| {
            let in_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
            name.starts_with(char::is_alphabetic) && name.chars().all(in_name)
        };
        if !text.starts_with('{') {
            return if is_name(text) {
                Ok(Target(text.to_string()))
            } else {
                Err(wrong("is neither a name nor a JSON object"))
            };
        }
        let json: serde_json::Value =
            serde_json::from_str(text).map_err(|error| wrong(&format!("is not JSON: {error}")))?;
        let named = ["kind", "tag"].into_iter().find_map(|key| Some((key, json.get(key)?)));
        match named {
            Some((_, serde_json::Value::String(name))) if is_name(name) => Ok(Target(text.to_string())),
            Some((key, _)) => Err(wrong(&format!("has a `{key}` that is not a name"))),
            None => Err(wrong("has neither a `kind` nor a `tag`")),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_has_a_name() {
        for right in
            ["llvm", "nvidia/nvidia-a100", r#"{"kind": "llvm", "mcpu": "native"}"#, r#"{"tag": "raspberry-pi/4b"}"#]
        {
            assert_eq!(Target::parse(right).expect(right).to_string(), right);
        }
        for wrong in
            ["", "x y", "{}", r#"{"kind": ""}"#, r#"{"kind": 1}"#, r#"{"tag": ""}"#, r#"{"kind": "", "tag": "a"}"#]
        {
            let error = Target::parse(wrong).expect_err(wrong).to_string();
            assert!(error.starts_with(&format!("target `{wrong}` ")), "{error}");
        }
    }
}
