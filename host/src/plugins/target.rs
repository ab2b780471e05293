//! Compilation targets.

use crate::report::error::Error;
use passhost_lang::names::{did_you_mean, nearest};
use std::fmt;

/// Target kinds of TVM. Plugins may define others.
const KINDS: [&str; 13] = [
    "c",
    "composite",
    "cuda",
    "ext_dev",
    "hexagon",
    "llvm",
    "metal",
    "nvptx",
    "opencl",
    "rocm",
    "test",
    "vulkan",
    "webgpu",
];
/// Names of processors, with the target kind that is probably meant.
const PROCESSORS: [(&str, &str); 5] =
    [("cpu", "llvm"), ("x86", "llvm"), ("x86_64", "llvm"), ("arm", "llvm"), ("gpu", "cuda")];

/// A compilation target: a name such as `llvm`, or a JSON object with a `kind` or a `tag`, which is also a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target(String);

impl Target {
    /// Parses a target.
    ///
    /// # Errors
    /// The reason why the target is invalid.
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
        let misspelt = |name: &str| match meant(name) {
            near if near.is_empty() => Ok(Target(text.to_string())),
            near => Err(wrong(&format!("has the unknown kind `{name}`{}", did_you_mean(&near)))),
        };
        if !text.starts_with('{') {
            return if is_name(text) { misspelt(text) } else { Err(wrong("is neither a name nor a JSON object")) };
        }
        let json: serde_json::Value =
            serde_json::from_str(text).map_err(|error| wrong(&format!("is not JSON: {error}")))?;
        let named = ["kind", "tag"].into_iter().find_map(|key| Some((key, json.get(key)?)));
        match named {
            Some(("kind", serde_json::Value::String(name))) if is_name(name) => misspelt(name),
            Some((_, serde_json::Value::String(name))) if is_name(name) => Ok(Target(text.to_string())),
            Some((key, _)) => Err(wrong(&format!("has a `{key}` that is not a name"))),
            None => Err(wrong("has neither a `kind` nor a `tag`")),
        }
    }
}

/// Returns the kinds that are probably meant by an unknown name, or nothing if the name may be a kind that a plugin
/// defines.
fn meant(name: &str) -> Vec<String> {
    // Tags contain a slash.
    if KINDS.contains(&name) || name.contains('/') {
        return Vec::new();
    }
    if let Some((_, kind)) = PROCESSORS.iter().find(|(word, _)| *word == name) {
        return vec![(*kind).to_string()];
    }
    let same_start = |kind: &&str| kind.chars().next().is_some_and(|c| name.to_lowercase().starts_with(c));
    let close = |kind: &&str| kind.len() > 1 && kind.len().abs_diff(name.len()) <= 2 && same_start(kind);
    nearest(name, KINDS.into_iter().filter(close))
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
        for right in [
            "llvm",
            "nvidia/nvidia-a100",
            r#"{"kind": "llvm", "mcpu": "native"}"#,
            r#"{"tag": "raspberry-pi/4b"}"#,
            "acme-npu",
        ] {
            assert_eq!(Target::parse(right).expect(right).to_string(), right);
        }
        for (wrong, kind) in
            [("cudaa", "cuda"), ("lllvm", "llvm"), ("LLVM", "llvm"), ("gpu", "cuda"), ("vulcan", "vulkan")]
        {
            for text in [wrong.to_string(), format!("{{\"kind\": \"{wrong}\"}}")] {
                let error = Target::parse(&text).expect_err(wrong).to_string();
                assert_eq!(error, format!("target `{text}` has the unknown kind `{wrong}`; did you mean `{kind}`?"));
            }
        }
        for wrong in
            ["", "x y", "{}", r#"{"kind": ""}"#, r#"{"kind": 1}"#, r#"{"tag": ""}"#, r#"{"kind": "", "tag": "a"}"#]
        {
            let error = Target::parse(wrong).expect_err(wrong).to_string();
            assert!(error.starts_with(&format!("target `{wrong}` ")), "{error}");
        }
    }
}
