//! Checks targets in attributes, and rejects values that TVM does not accept as a target.

use crate::words::diagnostic::Diagnostic;
use crate::words::syntax::{Read, span};
use passhost_lang::ir::Attr;
use ruff_python_ast::ExprCall;
use serde_core::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::collections::BTreeSet;
use std::fmt;

const USAGE: &str = "T.target({\"kind\": \"llvm\"}), T.target(\"llvm\"), T.target({\"kind\": \"cuda\"}, host=\"llvm\")";

/// Checks the arguments of `T.target`: a target, and optionally its host. The names of targets are not
/// checked.
pub(super) fn check(call: &ExprCall, args: &[(Option<String>, Attr)]) -> Read<()> {
    let wrong = |why: String| Err(Diagnostic::new(span(call), why).help(USAGE));
    let (target, host) = match args {
        [(None, target)] => (target, None),
        [(None, target), (None, host)] => (target, Some(host)),
        [(None, target), (Some(key), host)] if key == "host" => (target, Some(host)),
        _ => return wrong("`T.target` takes a target, and optionally its host".to_string()),
    };
    for target in [Some(target), host].into_iter().flatten() {
        if let Some(why) = fault(target) {
            return wrong(why);
        }
    }
    Ok(())
}

/// Returns the error in a target.
fn fault(target: &Attr) -> Option<String> {
    match target {
        Attr::Str(json) if json.starts_with('{') => {
            let error = serde_json::from_str::<Unique>(json).err()?;
            Some(format!("the JSON of a target cannot be read: {error}"))
        }
        Attr::Str(name) if name.is_empty() || name.contains(char::is_whitespace) => {
            Some(format!("unknown target `{name}`; give options as entries of a dict"))
        }
        Attr::Dict(entries) => {
            let named =
                |(key, value): &(String, Attr)| matches!(value, Attr::Str(_)) && matches!(key.as_str(), "kind" | "tag");
            (!entries.iter().any(named)).then(|| "a target needs a string `kind`".to_string())
        }
        // A host can itself be a target.
        Attr::Str(_) | Attr::Object(..) => None,
        _ => Some("a target must be a string or a dict".to_string()),
    }
}

/// Any JSON whose objects do not repeat keys.
struct Unique;

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Unique, D::Error> {
        from.deserialize_any(Any)
    }
}

struct Any;

impl<'de> Visitor<'de> for Any {
    type Value = Unique;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Unique, E> {
        Ok(Unique)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Unique, E> {
        Ok(Unique)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Unique, E> {
        Ok(Unique)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Unique, E> {
        Ok(Unique)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Unique, E> {
        Ok(Unique)
    }

    fn visit_str<E>(self, _: &str) -> Result<Unique, E> {
        Ok(Unique)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Unique, A::Error> {
        while items.next_element::<Unique>()?.is_some() {}
        Ok(Unique)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Unique, A::Error> {
        let mut keys = BTreeSet::new();
        while let Some(key) = entries.next_key::<String>()? {
            entries.next_value::<Unique>()?;
            if let Some(key) = keys.replace(key) {
                return Err(A::Error::custom(format!("key `{key}` is given twice; remove one of them")));
            }
        }
        Ok(Unique)
    }
}
