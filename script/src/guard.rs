//! Refuses texts that nest too deeply, before any parser sees them: parsers recurse, and a stack has an end.

use crate::diagnostic::Diagnostic;

/// Deepest nesting that is read.
const MAX: usize = 1_000;

/// One pass over the bytes: brackets, indentation, and the longest chain of operators in one statement (a parser nests
/// once for each of them).
pub(crate) fn check(text: &str) -> Result<(), Diagnostic> {
    let bytes = text.as_bytes();
    let mut scan = Scan::default();
    let mut at = 0;
    while at < bytes.len() {
        let byte = bytes[at];
        at = match byte {
            b'#' => line_end(bytes, at),
            b'"' | b'\'' => {
                scan.operators_only(byte);
                string_end(bytes, at)
            }
            _ => {
                scan.step(byte, bytes, at)?;
                at + 1
            }
        };
    }
    Ok(())
}

fn line_end(bytes: &[u8], at: usize) -> usize {
    bytes[at..].iter().position(|b| *b == b'\n').map_or(bytes.len(), |n| at + n)
}

/// Position after a string literal that starts at `at`; the end of the text if it is not closed.
fn string_end(bytes: &[u8], at: usize) -> usize {
    let quote = bytes[at];
    let triple = bytes[at..].starts_with(&[quote; 3]);
    let mut i = at + if triple { 3 } else { 1 };
    while i < bytes.len() {
        match bytes[i] {
            b'\\' => i += 1,
            b'\n' if !triple => return i,
            b if b == quote && (!triple || bytes[i..].starts_with(&[quote; 3])) => {
                return i + if triple { 3 } else { 1 };
            }
            _ => {}
        }
        i += 1;
    }
    bytes.len()
}

#[derive(Default)]
struct Scan {
    /// Brackets that are open, and the operators seen at each level.
    open: Vec<usize>,
    /// Operators of the statement at the outermost level.
    operators: usize,
    /// Indentations that are open.
    indents: Vec<usize>,
    column: usize,
    blank: bool,
    word: usize,
}

impl Scan {
    fn operators_only(&mut self, _: u8) {
        self.blank = false;
        self.word = 0;
    }

    fn step(&mut self, byte: u8, bytes: &[u8], at: usize) -> Result<(), Diagnostic> {
        if at == 0 || bytes[at - 1] == b'\n' {
            (self.column, self.blank) = (0, true);
        }
        if self.blank && byte != b' ' && byte != b'\t' && byte != b'\n' && byte != b'\r' {
            self.blank = false;
            if self.open.is_empty() {
                self.indent(at)?;
            }
        }
        self.column += 1;
        let word_byte = byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80;
        if !word_byte && self.word > 0 {
            let word = &bytes[at - self.word..at];
            // Words that nest: unary, conditional and lambda expressions.
            if matches!(word, b"not" | b"if" | b"else" | b"lambda" | b"await" | b"and" | b"or" | b"in" | b"is") {
                self.operator(at)?;
            }
        }
        self.word = if word_byte { self.word + 1 } else { 0 };
        match byte {
            b'(' | b'[' | b'{' => {
                self.operator(at)?;
                self.open.push(0);
                self.depth(self.open.len(), at, "brackets")?;
            }
            b')' | b']' | b'}' => {
                self.open.pop();
            }
            b'\n' if self.open.is_empty() => self.operators = 0,
            b',' => *self.level() = 0,
            b'+' | b'-' | b'*' | b'/' | b'%' | b'~' | b'@' | b'^' | b'|' | b'&' | b'<' | b'>' | b'.' | b'=' => {
                self.operator(at)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn level(&mut self) -> &mut usize {
        self.open.last_mut().unwrap_or(&mut self.operators)
    }

    fn operator(&mut self, at: usize) -> Result<(), Diagnostic> {
        let level = self.level();
        *level += 1;
        let count = *level;
        self.depth(count, at, "operators in one expression")
    }

    fn indent(&mut self, at: usize) -> Result<(), Diagnostic> {
        let column = self.column;
        while self.indents.last().is_some_and(|indent| *indent >= column) {
            self.indents.pop();
        }
        self.indents.push(column);
        self.depth(self.indents.len(), at, "indentation")
    }

    fn depth(&self, depth: usize, at: usize, what: &str) -> Result<(), Diagnostic> {
        // The two add up in the parser: each open bracket holds the operators before it.
        if depth + self.open.len() <= MAX {
            return Ok(());
        }
        let message = format!("nested more than {MAX} deep ({what})");
        Err(Diagnostic::new(at..at + 1, message).label("too deep here").help("bind inner parts to variables"))
    }
}
