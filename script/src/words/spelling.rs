//! Names that Python takes for others, such as `ｎ` for `n`: it compares their normal form.

use crate::words::diagnostic::Diagnostic;
use passhost_lang::names::as_python_sees;
use ruff_python_ast::token::{TokenKind, Tokens};
use ruff_text_size::Ranged;
use std::ops::Range;

/// Refuses a text that spells a name in another way than Python does: whoever reads it sees two names where Python sees one.
pub(crate) fn check(text: &str, tokens: &Tokens) -> Result<(), Diagnostic> {
    first_other(text, tokens).map_or(Ok(()), |(spelt, at)| {
        let seen = as_python_sees(spelt);
        Err(Diagnostic::new(at, format!("Python takes `{spelt}` for `{seen}`")).help(format!("write `{seen}`")))
    })
}

/// The same for an expression in quotes, of which nothing else is known.
pub(crate) fn check_quoted(text: &str, tokens: &Tokens) -> Result<(), String> {
    first_other(text, tokens)
        .map_or(Ok(()), |(spelt, _)| Err(format!("Python takes `{spelt}` for `{}`; write that", as_python_sees(spelt))))
}

/// The first name that Python spells in another way, and its place.
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
