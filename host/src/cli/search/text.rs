//! Finds and replaces parts of the text of a module: statements of PrimFuncs, integers, types of bindings.

use std::collections::BTreeSet;
use std::ops::Range;

/// Returns the lines of each statement of the PrimFuncs, including the statements inside it.
pub(super) fn statements(text: &str) -> Vec<Range<usize>> {
    let lines: Vec<&str> = text.lines().collect();
    let mut out = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        if lines[at].trim_start().starts_with("@T.prim_func") {
            let Some(def) = (at..lines.len()).find(|line| lines[*line].trim_start().starts_with("def ")) else { break };
            let end = end_of_block(&lines, def);
            let inside = (def + 1..end).filter(|line| !lines[*line].trim().is_empty());
            out.extend(inside.map(|line| line..end_of_block(&lines, line)));
            at = end;
        } else {
            at += 1;
        }
    }
    out
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Returns the line after a statement and everything inside it.
fn end_of_block(lines: &[&str], start: usize) -> usize {
    let deeper = |line: &&str| line.trim().is_empty() || indent(line) > indent(lines[start]);
    start + 1 + lines[start + 1..].iter().take_while(|line| deeper(line)).count()
}

/// Returns the text without a range of its statements. A block that becomes empty gets a statement that evaluates 0.
pub(super) fn without_statements(text: &str, parts: Range<usize>) -> Option<String> {
    let (lines, all) = (text.lines().collect::<Vec<&str>>(), statements(text));
    let mut kept = vec![true; lines.len()];
    all.get(parts)?.iter().for_each(|lines| kept[lines.clone()].fill(false));
    let mut out = String::with_capacity(text.len());
    for (at, line) in lines.iter().enumerate().filter(|(at, _)| kept[*at]) {
        out.push_str(line);
        out.push('\n');
        let inside = at + 1..end_of_block(&lines, at);
        let first = inside.clone().find(|line| !lines[*line].trim().is_empty());
        if let Some(first) = first.filter(|_| inside.clone().all(|line| !kept[line] || lines[line].trim().is_empty())) {
            out.push_str(&" ".repeat(indent(lines[first])));
            out.push_str("T.evaluate(0)\n");
        }
    }
    Some(out)
}

/// Returns the integers in a line with their positions. Skips strings, names and floats.
fn integers(text: &str) -> Vec<(Range<usize>, u64)> {
    let bytes = text.as_bytes();
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte == b'.';
    let (mut out, mut at, mut quote) = (Vec::new(), 0, None);
    while at < bytes.len() {
        match (quote, bytes[at]) {
            (Some(_), b'\\') => at += 2,
            (Some(open), byte) => {
                if byte == open || byte == b'\n' {
                    quote = None;
                }
                at += 1;
            }
            (None, byte @ (b'"' | b'\'')) => {
                quote = Some(byte);
                at += 1;
            }
            (None, b'#') => at += bytes[at..].iter().take_while(|byte| **byte != b'\n').count(),
            (None, byte) if is_word(&byte) => {
                let end = at + bytes[at..].iter().take_while(|byte| is_word(byte)).count();
                if let Ok(number) = text[at..end].parse() {
                    out.push((at..end, number));
                }
                at = end;
            }
            _ => at += 1,
        }
    }
    out
}

/// Returns the integers above 1 in the text, largest first.
pub(super) fn numbers(text: &str) -> Vec<u64> {
    let all: BTreeSet<u64> =
        integers(text).into_iter().map(|(_, number)| number).filter(|number| *number > 1).collect();
    all.into_iter().rev().collect()
}

/// Replaces every occurrence of the integer `from` with `to`.
pub(super) fn with_number(text: &str, from: u64, to: u64) -> String {
    let (mut out, mut done) = (String::with_capacity(text.len()), 0);
    for (place, _) in integers(text).into_iter().filter(|(_, number)| *number == from) {
        out.push_str(&text[done..place.start]);
        out.push_str(&to.to_string());
        done = place.end;
    }
    out.push_str(&text[done..]);
    out
}

/// Removes the types of Relax bindings and results, so that the reader infers them.
pub(super) fn unannotated(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        let binding =
            line.find(": R.").filter(|at| line[..*at].trim().chars().all(|c| c.is_alphanumeric() || c == '_'));
        let plain = binding.and_then(|at| Some(format!("{}{}", &line[..at], &line[at + after_type(&line[at..])?..])));
        let result = line.find(") -> R.").filter(|_| line.trim_start().starts_with("def ") && line.ends_with(':'));
        match (plain, result) {
            (Some(plain), _) => out.push_str(&plain),
            (None, Some(at)) => {
                out.push_str(&line[..=at]);
                out.push(':');
            }
            (None, None) => out.push_str(line),
        }
        out.push('\n');
    }
    out
}

/// Returns the position of the ` = ` after the type at the start of a text.
fn after_type(text: &str) -> Option<usize> {
    let mut depth = 0_i32;
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            '=' if depth == 0 && text[..at].ends_with(' ') && text[at + 1..].starts_with(' ') => return Some(at - 1),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRIM: &str = "\
@I.ir_module
class Module:
    @T.prim_func
    def f(a: T.Buffer((8,), \"float32\")):
        for i in range(8):
            with T.sblock(\"b\"):
                a[i] = T.float32(8.5)

        T.evaluate(1)

    @R.function
    def main(x: R.Tensor((8, n8), dtype=\"float32\")) -> R.Tensor((8, 2), dtype=\"float32\"):
        y: R.Tensor((8, 2), dtype=\"float32\") = R.add(x, x)
        return y
";

    #[test]
    fn statements_go_with_what_is_inside() {
        let found = statements(PRIM);
        assert_eq!(found, [4..8, 5..8, 6..8, 8..10]);
        let without = without_statements(PRIM, 2..3).expect("a text");
        assert!(without.contains("with T.sblock(\"b\"):\n                T.evaluate(0)\n"), "{without}");
        let without = without_statements(PRIM, 0..4).expect("a text");
        assert!(without.contains("\"float32\")):\n        T.evaluate(0)\n    @R.function"), "{without}");
    }

    #[test]
    fn numbers_are_not_parts_of_names_strings_and_floats() {
        assert_eq!(numbers(PRIM), [8, 2]);
        let small = with_number(PRIM, 8, 3);
        assert!(small.contains("range(3)") && small.contains("(3, n8)") && small.contains("8.5"), "{small}");
        assert_eq!(numbers("x = \"a 7 \\\" 9\"  # 5\ny = 3"), [3]);
    }

    #[test]
    fn types_of_bindings_can_be_left_out() {
        let plain = unannotated(PRIM);
        assert!(plain.contains("        y = R.add(x, x)\n"), "{plain}");
        assert!(plain.contains("def main(x: R.Tensor((8, n8), dtype=\"float32\")):\n"), "{plain}");
        assert!(plain.contains("def f(a: T.Buffer((8,), \"float32\")):\n"), "{plain}");
    }
}
