//! The `target` attribute of a function, as a name or as JSON.

use crate::ir::Body;
use crate::ir::attrs::AttrView;
use std::fmt::Write;

impl Body {
    /// Returns the `target` attribute of the function: the name of a target, or JSON.
    pub fn target(&self) -> Option<String> {
        let attr = self.root().attr("target")?;
        if let Some(name) = attr.as_str() {
            return Some(name.to_string());
        }
        // Handles both `T.target({"kind": "llvm"})` and `T.target("llvm")`.
        let content = if attr.object_name().is_some() { attr.items().next()? } else { attr };
        if let Some(name) = content.as_str() {
            return Some(name.to_string());
        }
        let mut out = String::new();
        content.as_dict().map(|_| write_json(content, &mut out))?;
        Some(out)
    }
}

/// Writes an attribute value as JSON. Values without a JSON equivalent become `null`.
fn write_json(value: AttrView<'_>, out: &mut String) {
    use crate::ir::records::attr;
    match value.kind() {
        attr::BOOL => out.push_str(if value.as_bool() == Some(true) { "true" } else { "false" }),
        attr::INT => out.push_str(&value.as_int().unwrap_or_default().to_string()),
        attr::FLOAT if value.as_float().is_some_and(f64::is_finite) => {
            let _ = write!(out, "{:?}", value.as_float().unwrap_or_default());
        }
        attr::STR => write_string(value.as_str().unwrap_or_default(), out),
        attr::LIST => write_items(out, ['[', ']'], value.items(), |item, out| write_json(item, out)),
        attr::DICT => {
            let entries = value.as_dict().into_iter().flat_map(|dict| dict.iter().collect::<Vec<_>>());
            write_items(out, ['{', '}'], entries, |(key, value), out| {
                write_string(key, out);
                out.push_str(": ");
                write_json(value, out);
            });
        }
        attr::OBJECT => match value.items().next() {
            Some(content) => write_json(content, out),
            None => out.push_str("null"),
        },
        _ => out.push_str("null"),
    }
}

fn write_items<T>(out: &mut String, brackets: [char; 2], items: impl Iterator<Item = T>, f: impl Fn(T, &mut String)) {
    out.push(brackets[0]);
    for (i, item) in items.enumerate() {
        if i > 0 {
            out.push_str(", ");
        }
        f(item, out);
    }
    out.push(brackets[1]);
}

fn write_string(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}
