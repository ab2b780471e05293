//! Checks recorded modules. Each is parsed, checked, printed, parsed again and compared. The printed text is compared
//! with the given text.

use super::metadata::Entries;
use super::{Failure, Outcome, TextDifference, cause, guarded};
use passhost::Engine;
use passhost::verify::verify_read;
use plugin_api::ir::Module;
use std::borrow::Cow;

/// A recorded module.
#[derive(Debug)]
pub struct ModuleCase {
    /// The id of the case.
    pub id: String,
    /// The text, as TVM printed it.
    pub text: String,
}

/// Tests one module.
pub fn run(case: &ModuleCase, engine: &Engine) -> Outcome {
    let mut text = Some(TextDifference::not_printed());
    let mut opaque_calls = 0;
    let failure = guarded(|| {
        let first = read("not read", &case.text, engine)?;
        opaque_calls = first.1;
        let checked = verify_read(&first.0, engine).map_err(|why| Failure::new("ill-formed", why));
        let printed = script::print(&first.0, engine).expect("the module can be printed");
        text = text_difference(&case.text, &printed);
        checked?;
        let (again, _) = read("print not read", &printed, engine)?;
        match again.structural_eq(&first.0) {
            true => Ok(()),
            false => Err(Failure::new("another module", "the printed text reads as another module")),
        }
    });
    Outcome { id: case.id.clone(), group: String::new(), failure: failure.err(), text, opaque_calls }
}

/// Parses a text. Also returns the number of calls of undeclared operators.
pub(super) fn read(kind: &'static str, text: &str, engine: &Engine) -> Result<(Module, usize), Failure> {
    script::read_with_warnings(text, engine).map(|read| (read.module, read.opaque_calls)).map_err(|error| {
        let first = error.diagnostics.first();
        let line = first.map_or(0, |first| script::line_column(text, first.span.start).0);
        Failure::new(kind, format!("{} (line {line})", first.map_or("", |first| first.message.as_str())))
    })
}

/// Returns the first line in which two texts differ, ignoring comments and blank space; metadata is decoded where the
/// text refers to it. Returns `None` if there is none.
pub fn text_difference(given: &str, printed: &str) -> Option<TextDifference> {
    let (given, printed) = (significant(given), significant(printed));
    let n = given.len().max(printed.len());
    let at = (0..n).find(|i| given.get(*i) != printed.get(*i))?;
    let line = |lines: &[Cow<'_, str>]| lines.get(at).map_or("(nothing)", |line| line.trim()).to_string();
    let (a, b) = (line(&given), line(&printed));
    let lines = format!("given {a} | printed {b}");
    Some(TextDifference { cause: cause::of(&given, &printed, (&a, &b)), lines })
}

/// Returns the significant lines, without comments and trailing space, and with metadata decoded.
fn significant(text: &str) -> Vec<Cow<'_, str>> {
    let entries = Entries::of(text);
    let mut in_metadata = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        if in_metadata {
            in_metadata = !line.contains("\"\"\")");
            continue;
        }
        in_metadata = line.starts_with("metadata = ") && !line.trim_end().ends_with("\"\"\")");
        let line = if line.starts_with("metadata = ") { "metadata = …" } else { without_comment(line).trim_end() };
        if !line.is_empty() {
            let refers = line.contains("metadata[");
            lines.push(if refers { Cow::Owned(entries.decoded(line)) } else { Cow::Borrowed(line) });
        }
    }
    lines
}

fn without_comment(line: &str) -> &str {
    let (mut in_string, mut escaped) = (false, false);
    for (at, c) in line.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if in_string => escaped = true,
            '"' => in_string = !in_string,
            '#' if !in_string => return &line[..at],
            _ => {}
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_blank_space_are_no_difference() {
        assert_eq!(text_difference("# a\n\nx = 1  # b\n", "x = 1"), None);
        assert_eq!(text_difference("metadata = f(\"\"\"{\n1}\"\"\")\nx", "metadata = f(\"\"\"{}\"\"\")\nx"), None);
        assert!(text_difference("x = \"# a\"", "x = \"# b\"").is_some());
        assert!(text_difference("x", "x\ny").is_some());
    }

    #[test]
    fn metadata_is_compared_by_what_it_holds() {
        // Both texts use the same string, under different numbers.
        let text = |strings: &[&str], uses: &str| {
            let key = "ffi.String";
            let mut nodes = vec![serde_json::json!({"type": key, "data": key})];
            nodes.extend(strings.iter().map(|text| serde_json::json!({"type": key, "data": text})));
            let list: Vec<usize> = (1..nodes.len()).collect();
            nodes.push(serde_json::json!({"type": "ffi.Array", "data": list}));
            nodes.push(serde_json::json!({"type": "ffi.Map", "data": [0, nodes.len() - 1]}));
            let graph = serde_json::json!({"root_index": nodes.len() - 1, "nodes": nodes}).to_string();
            let graph = graph.replace('\\', "\\\\").replace('"', "\\\"");
            format!("metadata = tvm.ir.load_json(\"\"\"{graph}\"\"\")\n{uses}")
        };
        let uses = |a: usize, b: usize| format!("f(metadata[\"ffi.String\"][{a}], metadata[\"ffi.String\"][{b}])");
        let equal = text(&["a\nb", "a\nb"], &uses(0, 1));
        assert_eq!(text_difference(&equal, &text(&["a\nb"], &uses(0, 0))), None);
        assert_eq!(text_difference(&equal, &text(&["c", "a\nb"], &uses(1, 1))), None);
        let other = text_difference(&equal, &text(&["a\nb", "c"], &uses(0, 1)));
        assert!(other.expect("they differ").lines.contains("[\"c\"]"));
        assert!(text_difference(&equal, &text(&["a\nb"], &uses(0, 1))).is_some(), "a missing entry");
    }
}
