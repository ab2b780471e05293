//! Reads arguments of calls: presence, integers, data types and variable declarations.

use crate::words::diagnostic::Diagnostic;
use crate::words::dtypes::dtype_named;
use crate::words::syntax::{Read, is_path, path_after, span};
use passhost_lang::ir::DType;
use ruff_python_ast::{Expr, ExprCall, Keyword, Number, UnaryOp};

pub(crate) fn dtype_of(expr: &Expr) -> Read<DType> {
    match expr {
        Expr::StringLiteral(text) => text
            .value
            .to_str()
            .parse()
            .map_err(|error: passhost_lang::ir::types::UnknownDType| Diagnostic::new(span(expr), error.to_string())),
        Expr::NoneLiteral(_) => Ok(DType::VOID),
        other => Err(Diagnostic::new(span(other), "expected a data type such as \"float32\"")),
    }
}

/// Returns a signed 64-bit integer.
pub(crate) fn int(expr: &Expr) -> Option<i64> {
    wide_int(expr)?.try_into().ok()
}

/// Returns an integer that fits in 64 bits, signed or unsigned.
pub(crate) fn wide_int(expr: &Expr) -> Option<i128> {
    match expr {
        Expr::NumberLiteral(number) => match &number.value {
            Number::Int(value) => value.as_u64().map(i128::from),
            _ => None,
        },
        Expr::UnaryOp(unary) if unary.op == UnaryOp::USub => wide_int(&unary.operand).map(|value| -value),
        Expr::UnaryOp(unary) if unary.op == UnaryOp::UAdd => wide_int(&unary.operand),
        _ => None,
    }
}

/// Returns an argument by name.
pub(crate) fn keyword<'c>(call: &'c ExprCall, name: &str) -> Option<&'c Expr> {
    let keywords = &call.arguments.keywords;
    keywords.iter().find(|k| k.arg.as_ref().is_some_and(|arg| arg.as_str() == name)).map(|k| &k.value)
}

/// Returns all arguments of a call, given by position or by name.
pub(crate) fn in_order<'c, const N: usize>(call: &'c ExprCall, name: &str, names: [&str; N]) -> Read<[&'c Expr; N]> {
    let usage = format!("{name}({})", names.join(", "));
    accept(call, N, &names, &usage)?;
    let argument = |(at, name): (usize, &&str)| call.arguments.args.get(at).or_else(|| keyword(call, name));
    let given: Vec<_> = names.iter().enumerate().filter_map(argument).collect();
    let n_given = given.len();
    given
        .try_into()
        .map_err(|_| Diagnostic::new(span(call), format!("{name} takes {N} arguments, found {n_given}")).help(usage))
}

/// Rejects arguments that a call does not accept, so that none is ignored.
pub(crate) fn accept(call: &ExprCall, positional: usize, names: &[&str], usage: &str) -> Read<()> {
    if let Some(extra) = call.arguments.args.get(positional) {
        return Err(Diagnostic::new(span(extra), "too many arguments").help(usage));
    }
    for keyword in &call.arguments.keywords {
        let name = keyword.arg.as_ref().map_or("**", |arg| arg.as_str());
        let place = names.iter().position(|known| *known == name);
        if place.is_none() {
            return Err(Diagnostic::new(span(keyword), format!("unexpected argument `{name}`")).help(usage));
        }
        if place.is_some_and(|place| place < call.arguments.args.len()) {
            return Err(Diagnostic::new(span(keyword), format!("argument `{name}` is given twice")).help(usage));
        }
    }
    Ok(())
}

/// Rejects arguments like [`accept`], for a call with any number of positional arguments.
pub(crate) fn accept_named(call: &ExprCall, names: &[&str], usage: &str) -> Read<()> {
    let unknown = |keyword: &&Keyword| !keyword.arg.as_ref().is_some_and(|arg| names.contains(&arg.as_str()));
    match call.arguments.keywords.iter().find(unknown) {
        Some(keyword) => {
            let name = keyword.arg.as_ref().map_or("**", |arg| arg.as_str());
            Err(Diagnostic::new(span(keyword), format!("unexpected argument `{name}`")).help(usage))
        }
        None => Ok(()),
    }
}

/// Returns the data type of a symbolic variable if an expression declares one, as in `n = T.int64()`.
pub(crate) fn sym_declaration(text: &str, expr: &Expr) -> Option<DType> {
    let Expr::Call(call) = expr else { return None };
    let empty = call.arguments.args.is_empty() && call.arguments.keywords.is_empty();
    let name = path_after(text, &call.func, "T").filter(|_| empty)?;
    if is_path(&call.func, &["T", "handle"]) { None } else { dtype_named(name) }
}

/// Returns a non-finite float by name.
pub(crate) fn not_finite(name: &str) -> Option<f64> {
    matches!(name, "nan" | "inf" | "-inf").then(|| name.parse().ok()).flatten()
}
