//! Rejects texts that are nested too deeply before they reach a parser, because parsers are recursive and stacks are
//! finite.

use crate::words::diagnostic::Diagnostic;

/// Maximum nesting of an input text.
pub(crate) const MAX: usize = 1_000;

/// Maximum nesting of a text that the host printed. The printer writes types, and calls for operators, so a function
/// within the limit of the input can be printed as a text beyond it.
pub(crate) const MAX_PRINTED: usize = 4 * MAX;

/// Returns true if a parser may start an inner expression or statement after this word.
fn nests(word: &[u8]) -> bool {
    matches!(
        word,
        b"not"
            | b"if"
            | b"else"
            | b"elif"
            | b"lambda"
            | b"await"
            | b"yield"
            | b"from"
            | b"and"
            | b"or"
            | b"in"
            | b"is"
            | b"for"
            | b"while"
            | b"with"
            | b"try"
            | b"except"
            | b"finally"
            | b"def"
            | b"class"
            | b"match"
            | b"case"
            | b"async"
    )
}

/// True for each byte that can be part of a word.
const WORD: [bool; 256] = {
    let (mut table, mut byte) = ([false; 256], 0u8);
    loop {
        table[byte as usize] = byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80;
        if byte == u8::MAX {
            break table;
        }
        byte += 1;
    }
};

/// Refuses an input text that nests more than [`MAX`] deep.
pub(crate) fn check(text: &str) -> Result<(), Diagnostic> {
    depth(text, MAX).map(drop)
}

/// Returns the nesting of a text. Scans the bytes once for brackets, indentation, and the open operators of a
/// statement. Each of these nests the parser by one level. The count may be too high, never too low.
///
/// # Errors
/// Fails if the text nests more than `most` deep.
pub(crate) fn depth(text: &str, most: usize) -> Result<usize, Diagnostic> {
    let bytes = text.as_bytes();
    let mut scan = Scan { levels: vec![Level::default()], most, ..Scan::default() };
    let mut at = 0;
    while at < bytes.len() {
        let byte = bytes[at];
        at = match byte {
            b'#' => line_end(bytes, at),
            b'"' | b'\'' => {
                scan.string(bytes, at)?;
                string_end(bytes, at)
            }
            _ => {
                scan.step(byte, bytes, at)?;
                at + 1 + scan.more(byte, &bytes[at + 1..])
            }
        };
    }
    Ok(scan.deepest)
}

fn line_end(bytes: &[u8], at: usize) -> usize {
    bytes[at..].iter().position(|b| is_newline(*b)).map_or(bytes.len(), |n| at + n)
}

/// Returns the position after a string literal that starts at `at`; the end of the text if the literal is not closed.
fn string_end(bytes: &[u8], at: usize) -> usize {
    let quote = bytes[at];
    let triple = bytes[at..].starts_with(&[quote; 3]);
    let mut i = at + if triple { 3 } else { 1 };
    while i < bytes.len() {
        match bytes[i] {
            b'\\' if bytes[i..].starts_with(b"\\\r\n") => i += 2,
            b'\\' => i += 1,
            b if !triple && is_newline(b) => return i,
            b if b == quote && (!triple || bytes[i..].starts_with(&[quote; 3])) => {
                return i + if triple { 3 } else { 1 };
            }
            _ => {}
        }
        i += 1;
    }
    bytes.len()
}

/// An open bracket or the statement.
#[derive(Default)]
struct Level {
    /// The bracket that ends this level.
    closer: u8,
    /// Operators since the last comma.
    operators: usize,
    /// Depth of the current operand: its dots nest the value before them, and its brackets nest what they contain. In
    /// `a.b.c(x)`, `x` is one level deep.
    operand: usize,
    /// Depth of the deepest operand before the current one, since the last comma.
    operands: usize,
    /// Depth of the deepest element before the last comma.
    elements: usize,
    /// Words that nest. A comma does not reset their number, because it can be between the parameters of a lambda.
    words: usize,
}

impl Level {
    /// Returns the depth of the element after the last comma without its operators.
    fn below(&self) -> usize {
        self.operand.max(self.operands)
    }

    fn end_operand(&mut self) {
        self.operands = self.below();
        self.operand = 0;
    }

    fn end_element(&mut self) {
        self.elements = self.depth_of_elements();
        (self.operand, self.operands) = (0, 0);
    }

    fn depth_of_elements(&self) -> usize {
        self.elements.max(self.operators + self.below())
    }
}

#[derive(Default)]
struct Scan {
    /// The statement, and each open bracket.
    levels: Vec<Level>,
    /// Maximum nesting.
    most: usize,
    /// The deepest nesting so far.
    deepest: usize,
    /// Number of operators and words at all levels.
    total: usize,
    /// Open indentations.
    indents: Vec<usize>,
    column: usize,
    blank: bool,
    /// Length of the word that ends before this byte.
    word: usize,
}

impl Scan {
    /// Handles the start of a string literal. Rejects f-strings with braces, which contain expressions and never occur
    /// in modules.
    fn string(&mut self, bytes: &[u8], at: usize) -> Result<(), Diagnostic> {
        let prefix = &bytes[at - self.word..at];
        let formatted = matches!(prefix.to_ascii_lowercase().as_slice(), b"f" | b"fr" | b"rf" | b"t" | b"tr" | b"rt");
        if formatted {
            return Err(Diagnostic::new(at - self.word..at + 1, "formatted strings are not allowed in a module")
                .help("write the complete string"));
        }
        (self.blank, self.word) = (false, 0);
        Ok(())
    }

    fn step(&mut self, byte: u8, bytes: &[u8], at: usize) -> Result<(), Diagnostic> {
        if at == 0 || is_newline(bytes[at - 1]) {
            (self.column, self.blank) = (0, true);
        }
        if self.blank && byte != b' ' && byte != b'\t' && !is_newline(byte) {
            self.blank = false;
            if self.levels.len() == 1 {
                self.indent(at)?;
            }
        }
        self.column += 1;
        let word_byte = WORD[usize::from(byte)];
        if !word_byte && self.word > 0 {
            self.end_word(&bytes[at - self.word..at], at)?;
        }
        self.word = if word_byte { self.word + 1 } else { 0 };
        match byte {
            b'(' => self.open(b')', at),
            b'[' => self.open(b']', at),
            b'{' => self.open(b'}', at),
            b')' | b']' | b'}' => self.close(byte, at),
            b'\n' | b'\r' if self.levels.len() == 1 && !is_continued(bytes, at) => {
                self.reset(true);
                Ok(())
            }
            b',' => {
                self.reset(false);
                Ok(())
            }
            b'+' | b'-' | b'*' | b'/' | b'%' | b'~' | b'@' | b'^' | b'|' | b'&' | b'<' | b'>' | b'=' => {
                self.level().end_operand();
                self.operator(at)
            }
            b'.' => {
                self.level().operand += 1;
                self.count(0, at)
            }
            _ => Ok(()),
        }
    }

    /// Returns the number of following bytes that continue the same word or blanks as `byte`.
    fn more(&mut self, byte: u8, after: &[u8]) -> usize {
        let (is_word, is_blank) = (WORD[usize::from(byte)], byte == b' ');
        let n = match (is_word, is_blank) {
            (true, _) => after.iter().take_while(|byte| WORD[usize::from(**byte)]).count(),
            (_, true) => after.iter().take_while(|byte| **byte == b' ').count(),
            _ => 0,
        };
        self.column += n;
        self.word += if is_word { n } else { 0 };
        n
    }

    fn end_word(&mut self, word: &[u8], at: usize) -> Result<(), Diagnostic> {
        // A number may directly precede a word: `1if x`, `0x1for`. Count each number that ends with such a word.
        let glued = word[0].is_ascii_digit() && (1..word.len()).any(|from| nests(&word[from..]));
        if glued || nests(word) {
            self.level().end_operand();
            self.level().words += 1;
            self.count(1, at)?;
        }
        Ok(())
    }

    fn level(&mut self) -> &mut Level {
        if self.levels.is_empty() {
            self.levels.push(Level::default());
        }
        let last = self.levels.len() - 1;
        &mut self.levels[last]
    }

    fn operator(&mut self, at: usize) -> Result<(), Diagnostic> {
        self.level().operators += 1;
        self.count(1, at)
    }

    fn open(&mut self, closer: u8, at: usize) -> Result<(), Diagnostic> {
        self.operator(at)?;
        self.levels.push(Level { closer, ..Level::default() });
        Ok(())
    }

    /// Handles a closing bracket. A mismatched bracket is ignored, because the parser stays at its level after this
    /// error.
    fn close(&mut self, closer: u8, at: usize) -> Result<(), Diagnostic> {
        if self.levels.len() == 1 || self.level().closer != closer {
            return Ok(());
        }
        let inner = self.level().depth_of_elements() + self.level().words;
        self.reset(true);
        self.levels.pop();
        self.level().operand = self.level().operand.max(inner);
        self.count(0, at)
    }

    fn reset(&mut self, words: bool) {
        let level = self.level();
        level.end_element();
        let mut gone = std::mem::take(&mut level.operators);
        if words {
            gone += std::mem::take(&mut level.words);
            level.elements = 0;
        }
        self.total -= gone;
    }

    fn count(&mut self, more: usize, at: usize) -> Result<(), Diagnostic> {
        self.total += more;
        let depth = self.total + self.level().below();
        self.limit(depth, at, "brackets and operators")
    }

    fn indent(&mut self, at: usize) -> Result<(), Diagnostic> {
        let column = self.column;
        while self.indents.last().is_some_and(|indent| *indent >= column) {
            self.indents.pop();
        }
        self.indents.push(column);
        self.limit(self.indents.len(), at, "indentation")
    }

    fn limit(&mut self, depth: usize, at: usize, what: &str) -> Result<(), Diagnostic> {
        self.deepest = self.deepest.max(depth);
        if depth <= self.most {
            return Ok(());
        }
        let message = format!("nested more than {} deep ({what})", self.most);
        Err(Diagnostic::new(at..at + 1, message).label("too deep here").help("bind inner parts to variables"))
    }
}

fn is_newline(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r')
}

/// Returns true if the line break at `at` follows a backslash, and the statement continues.
fn is_continued(bytes: &[u8], at: usize) -> bool {
    let before = &bytes[..at];
    let before = if bytes[at] == b'\n' { before.strip_suffix(b"\r").unwrap_or(before) } else { before };
    before.ends_with(b"\\")
}
