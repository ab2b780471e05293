//! Recognizes names and paths in the syntax tree of a text, and reports errors at its nodes.

use crate::words::diagnostic::Diagnostic;
use passhost_lang::ir::SealError;
use ruff_python_ast::Expr;
use ruff_text_size::Ranged;
use std::ops::Range;

/// The result of reading a part of a text.
pub(crate) type Read<T> = Result<T, Diagnostic>;

/// Returns the byte range of a node in the text.
pub(crate) fn span(node: &impl Ranged) -> Range<usize> {
    node.start().to_usize()..node.end().to_usize()
}

/// Returns the error for a part that cannot be sealed.
pub(crate) fn sealed(error: &SealError, at: Range<usize>) -> Diagnostic {
    Diagnostic::new(at, error.to_string())
}

/// Returns the error for a statement or expression in place of the expected kind.
pub(crate) fn unexpected(stmt: &impl Ranged, expected: &str) -> Diagnostic {
    Diagnostic::new(span(stmt), format!("expected {expected}")).label("found this")
}

/// Returns true if an expression is the given name.
pub(crate) fn is_name(expr: &Expr, name: &str) -> bool {
    matches!(expr, Expr::Name(found) if found.id.as_str() == name)
}

/// Returns true if an expression is `a.b.c`.
pub(crate) fn is_path(expr: &Expr, path: &[&str]) -> bool {
    match (expr, path) {
        (Expr::Name(name), [only]) => name.id.as_str() == *only || other_name(only) == Some(name.id.as_str()),
        (Expr::Attribute(attribute), [front @ .., last]) if !front.is_empty() => {
            attribute.attr.as_str() == *last && is_path(&attribute.value, front)
        }
        _ => false,
    }
}

/// Returns the alternative common name of an imported dialect: `from tvm import relax`.
fn other_name(root: &str) -> Option<&'static str> {
    (root == "R").then_some("relax")
}

/// Returns the part after `R.` in `R.a.b`; similarly for other roots. Python allows blanks and line breaks between
/// the parts; such an expression is recognized only if it has one part.
pub(crate) fn path_after<'t>(text: &'t str, expr: &'t Expr, root: &str) -> Option<&'t str> {
    let mut inner = expr;
    while let Expr::Attribute(attribute) = inner {
        inner = &attribute.value;
    }
    let Expr::Attribute(last) = expr else { return None };
    let root = [root].into_iter().chain(other_name(root)).find(|root| is_name(inner, root))?;
    // An expression of one part does not need the text. Dimensions in strings have only one part, and their positions
    // do not refer to the text.
    if is_name(&last.value, root) {
        return Some(last.attr.as_str());
    }
    let path = text.get(span(expr)).and_then(|path| path.get(root.len()..)?.strip_prefix('.'));
    let is_plain = |path: &&str| path.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '.');
    path.filter(is_plain)
}
