//! Decodes the metadata of a text. TVM numbers metadata entries by object, and passhost by content, so texts must be
//! compared by the contents of entries.

use serde_json::Value;

/// The entries of the metadata of a text.
#[derive(Default)]
pub(super) struct Entries(Value);

impl Entries {
    /// Returns the entries of a text; empty if its metadata is missing or cannot be read.
    pub(super) fn of(text: &str) -> Entries {
        let graph =
            text.split_once("metadata = tvm.ir.load_json(\"\"\"").and_then(|(_, rest)| rest.split_once("\"\"\")"));
        let graph = graph.and_then(|(graph, _)| serde_json::from_str(&unescaped(graph)).ok());
        Entries(graph.unwrap_or_default())
    }

    /// Replaces the numbers of metadata entries in a line by the contents.
    pub(super) fn decoded(&self, line: &str) -> String {
        let mut out = String::with_capacity(line.len());
        let mut rest = line;
        while let Some((before, reference)) = rest.split_once("metadata[\"") {
            out.push_str(before);
            let parts = reference.split_once("\"][").and_then(|(key, after)| Some((key, after.split_once(']')?)));
            let entry = parts.and_then(|(key, (index, _))| self.entry(key, index.parse().ok()?));
            match (parts, entry) {
                (Some((key, (_, after))), Some(entry)) => {
                    out.push_str(&format!("metadata[\"{key}\"][{entry:?}]"));
                    rest = after;
                }
                _ => {
                    out.push_str("metadata[\"");
                    rest = reference;
                }
            }
        }
        out + rest
    }

    /// Returns the content of an entry: a text, or the bytes of a tensor after its data type and shape.
    fn entry(&self, key: &str, index: usize) -> Option<&str> {
        let map = self.data(self.0["root_index"].as_u64()?)?.as_array()?;
        let pair = map.chunks(2).find(|pair| self.data_of(&pair[0]).and_then(Value::as_str) == Some(key))?;
        let node = self.data_of(pair.get(1)?)?.get(index)?;
        match key {
            "ir.StringImm" | "ir.GenericConst" => self.data_of(&self.data_of(node)?["value"])?.as_str(),
            _ => self.data_of(node)?.as_str(),
        }
    }

    fn data_of(&self, node: &Value) -> Option<&Value> {
        self.data(node.as_u64()?)
    }

    fn data(&self, at: u64) -> Option<&Value> {
        Some(&self.0["nodes"].get(usize::try_from(at).ok()?)?["data"])
    }
}

/// Returns the value of a Python string literal, given the text between the quotes.
fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        out.extend(if c == '\\' { chars.next() } else { Some(c) });
    }
    out
}
