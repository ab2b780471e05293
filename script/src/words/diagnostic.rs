//! Errors and warnings with their positions in a text.

use std::borrow::Cow;
use std::ops::Range;

/// An error or warning at a position in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// What was found and what was expected.
    pub message: String,
    /// Byte range in the text.
    pub span: Range<usize>,
    /// The label under the position.
    pub label: String,
    /// A second, related position with its label.
    pub other: Option<(Range<usize>, String)>,
    /// Advice.
    pub help: Option<String>,
}

impl Diagnostic {
    pub(crate) fn new(span: impl Into<Range<usize>>, message: impl Into<String>) -> Diagnostic {
        let span = span.into();
        Diagnostic { message: message.into(), span, label: String::new(), other: None, help: None }
    }

    pub(crate) fn label(mut self, label: impl Into<String>) -> Diagnostic {
        self.label = label.into();
        self
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Diagnostic {
        self.help = Some(help.into());
        self
    }

    pub(crate) fn other(mut self, span: Range<usize>, label: impl Into<String>) -> Diagnostic {
        self.other = Some((span, label.into()));
        self
    }
}

/// The errors of a text that is not a module: at least the first error of each function.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", summary(.diagnostics))]
pub struct ReadError {
    /// The errors, in the order of the text.
    pub diagnostics: Vec<Diagnostic>,
}

fn summary(diagnostics: &[Diagnostic]) -> String {
    let first = diagnostics.first().map_or("the text does not contain a module", |d| d.message.as_str());
    match diagnostics.len() {
        0 | 1 => first.to_string(),
        n => format!("{first} (and {} more)", n - 1),
    }
}

impl From<Diagnostic> for ReadError {
    fn from(diagnostic: Diagnostic) -> ReadError {
        ReadError { diagnostics: vec![diagnostic] }
    }
}

/// Returns the line and column (in characters) of a position, both from 1.
pub fn line_column(text: &str, at: usize) -> (usize, usize) {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    let text = one_line_end(text);
    let before = &text[..at];
    let start = before.rfind('\n').map_or(0, |i| i + 1);
    (before.matches('\n').count() + 1, before[start..].chars().count() + 1)
}

/// Replaces lone carriage returns, which end lines in Python, by line feeds; positions do not change.
pub fn one_line_end(text: &str) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    let alone = |i: usize| bytes[i] == b'\r' && bytes.get(i + 1) != Some(&b'\n');
    if !(0..bytes.len()).any(alone) {
        return Cow::Borrowed(text);
    }
    let ends = text.char_indices().map(|(i, c)| if alone(i) { '\n' } else { c });
    Cow::Owned(ends.collect())
}
