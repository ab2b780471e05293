//! Classifies differences between printed and given texts by cause, so that suspicious differences can be found without
//! TVM.

use std::borrow::Cow;

/// The difference between a printed text and the given text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextDifference {
    /// The cause, as a keyword.
    pub cause: &'static str,
    /// The first line that differs, in both texts.
    pub lines: String,
}

impl TextDifference {
    /// Creates the difference for a missing printed text.
    pub fn not_printed() -> TextDifference {
        TextDifference { cause: "not printed", lines: "not printed".to_string() }
    }
}

/// Prefixes of buffer declarations.
const BUFFERS: &[&str] = &[
    "T.Buffer(",
    "T.match_buffer(",
    "T.alloc_buffer(",
    "T.alloc_local(",
    "T.alloc_shared(",
    "T.decl_buffer(",
    "T.decl_scalar(",
    "T.sblock_alloc_buffer(",
    ".view(",
];

/// Returns the cause of a difference, given all lines and the first pair of lines that differ.
pub(super) fn of(given: &[Cow<'_, str>], printed: &[Cow<'_, str>], first: (&str, &str)) -> &'static str {
    let (a, b) = first;
    let sorted = |lines: &[Cow<'_, str>]| {
        let mut lines: Vec<String> = lines.iter().map(|line| line.trim().to_string()).collect();
        lines.sort_unstable();
        lines
    };
    let buffer = BUFFERS.iter().any(|declares| a.contains(declares) || b.contains(declares));
    if a.starts_with("metadata = ")
        || b.starts_with("metadata = ")
        || a.contains("metadata[") != b.contains("metadata[")
    {
        "metadata"
    } else if unnumbered(a) == unnumbered(b) {
        "names of variables"
    } else if sorted(given) == sorted(printed) || is_declaration(a) || is_declaration(b) {
        "order of lines, place of a declaration"
    } else if spelled(a) == spelled(b) {
        "spelling of literals"
    } else if buffer {
        "declaration of a buffer"
    } else if without_annotation(a) == without_annotation(b) {
        "type of a binding"
    } else {
        "other"
    }
}

/// Returns true for `n = T.int64()`, which declares a variable that may also be declared elsewhere.
fn is_declaration(line: &str) -> bool {
    line.split_once(" = T.").is_some_and(|(_, ty)| ty.ends_with("()"))
}

/// Removes the numbers that make names unique: `A_1` becomes `A`.
fn unnumbered(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut word = String::new();
    for c in line.chars().chain([' ']) {
        if c.is_alphanumeric() || c == '_' {
            word.push(c);
            continue;
        }
        let short = word.trim_end_matches(|c: char| c.is_ascii_digit()).strip_suffix('_');
        out.push_str(short.filter(|short| !short.is_empty()).unwrap_or(&word));
        out.push(c);
        word.clear();
    }
    out
}

/// Normalizes the numbers in a line: `T.float32(0)` and `T.float32(0.0)`, `1e-5` and `1e-05`.
fn spelled(line: &str) -> String {
    let parts = line.split_inclusive(|c: char| !(c.is_alphanumeric() || matches!(c, '.' | '_')));
    let joined: String = parts
        .map(|part| {
            let word = part.trim_end_matches(|c: char| !(c.is_alphanumeric() || matches!(c, '.' | '_')));
            match word.parse::<f64>() {
                Ok(value) if !word.is_empty() => format!("{value:?}{}", &part[word.len()..]),
                _ => part.to_string(),
            }
        })
        .collect();
    joined.replace('\'', "\"")
}

fn without_annotation(line: &str) -> String {
    match (line.split_once(": "), line.split_once(" = ")) {
        (Some((name, _)), Some((left, value))) if left.starts_with(name) => format!("{name} = {value}"),
        _ => line.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::of;
    use std::borrow::Cow;

    #[test]
    fn each_cause_is_named() {
        let cause = |a: &str, b: &str| of(&[Cow::Borrowed(a)], &[Cow::Borrowed(b)], (a, b));
        assert_eq!(cause("A_1[0] = x", "A[0] = x_2"), "names of variables");
        assert_eq!(cause("A[0] = T.float32(0)", "A[0] = T.float32(0.0)"), "spelling of literals");
        assert_eq!(cause("B = A.view(4)", "B = T.decl_buffer((4,), data=A.data)"), "declaration of a buffer");
        assert_eq!(cause("y: R.Any = x", "y: R.Object = x"), "type of a binding");
        assert_eq!(cause("metadata = …", "class Module:"), "metadata");
        assert_eq!(cause("n = T.int64()", "cls = Module"), "order of lines, place of a declaration");
        assert_eq!(
            cause("T.evaluate(a + b)", "T.evaluate(b + a)"),
            "other",
            "texts with another meaning are suspicious"
        );
        assert_eq!(cause("T.evaluate(T.int64(1))", "T.evaluate(1)"), "other");
        let (a, b) = (["x", "y"].map(Cow::Borrowed), ["y", "x"].map(Cow::Borrowed));
        assert_eq!(of(&a, &b, ("x", "y")), "order of lines, place of a declaration");
    }
}
