//! Names that Python takes for one although they are spelt in two ways, such as `n` and `ｎ`: it compares their normal form.

use crate::diagnostic::Diagnostic;
use plugin_api::names::as_python_sees;
use ruff_python_ast::token::{TokenKind, Tokens};
use ruff_text_size::Ranged;
use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

/// Refuses a text that spells one name in two ways: whoever reads it sees two.
pub(crate) fn check(text: &str, tokens: &Tokens) -> Result<(), Diagnostic> {
    if text.is_ascii() {
        return Ok(());
    }
    let mut seen: HashMap<Cow<'_, str>, (&str, Range<usize>)> = HashMap::new();
    for (spelt, at) in names(text, tokens) {
        let (known, first) = seen.entry(as_python_sees(spelt)).or_insert_with(|| (spelt, at.clone()));
        if *known != spelt {
            let message = format!("`{spelt}` and `{known}` are one name for Python");
            return Err(Diagnostic::new(at, message)
                .other(first.clone(), "spelt otherwise here")
                .help("give one of them another name"));
        }
    }
    Ok(())
}

/// Refuses a dimension in quotes that spells a name in another way than Python does: what is around it is not seen here.
pub(crate) fn check_quoted(text: &str, tokens: &Tokens) -> Result<(), String> {
    let other = names(text, tokens).find(|(spelt, _)| as_python_sees(spelt) != *spelt);
    other
        .map_or(Ok(()), |(spelt, _)| Err(format!("Python takes `{spelt}` for `{}`; write that", as_python_sees(spelt))))
}

fn names<'t>(text: &'t str, tokens: &'t Tokens) -> impl Iterator<Item = (&'t str, Range<usize>)> {
    let names = tokens.iter().filter(|token| token.kind() == TokenKind::Name);
    names.filter_map(move |token| {
        let at = token.start().to_usize()..token.end().to_usize();
        text.get(at.clone()).map(|name| (name, at))
    })
}
