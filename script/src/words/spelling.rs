//! Finds names that Python normalizes, such as `ｎ` to `n`.

use crate::words::diagnostic::Diagnostic;
use passhost_lang::names::as_python_sees;
use ruff_python_ast::token::{TokenKind, Tokens};
use ruff_text_size::Ranged;
use std::ops::Range;

/// Rejects a text with a name that Python normalizes, because names that look different would be the same
/// in Python.
pub(crate) fn check(text: &str, tokens: &Tokens) -> Result<(), Diagnostic> {
    first_other(text, tokens).map_or(Ok(()), |(spelt, at)| {
        let seen = as_python_sees(spelt);
        Err(Diagnostic::new(at, format!("Python reads `{spelt}` as `{seen}`")).help(format!("write `{seen}`")))
    })
}

/// Rejects names that Python normalizes in a quoted expression.
pub(crate) fn check_quoted(text: &str, tokens: &Tokens) -> Result<(), String> {
    first_other(text, tokens).map_or(Ok(()), |(spelt, _)| {
        Err(format!("Python reads `{spelt}` as `{}`; write that instead", as_python_sees(spelt)))
    })
}

/// Returns the first name that Python normalizes, and its position.
fn first_other<'t>(text: &'t str, tokens: &Tokens) -> Option<(&'t str, Range<usize>)> {
    if text.is_ascii() {
        return None;
    }
    let names = tokens.iter().filter(|token| token.kind() == TokenKind::Name);
    let mut names = names.filter_map(|token| {
        let at = token.start().to_usize()..token.end().to_usize();
        text.get(at.clone()).map(|name| (name, at))
    });
    names.find(|(name, _)| as_python_sees(name) != *name)
}
