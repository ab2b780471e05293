//! Reads the top level of a text: a module or a single function, with the declarations above it.

use super::arguments::accept;
use crate::metadata::Metadata;
use crate::read::scope::Scope;
use crate::words::diagnostic::{Diagnostic, ReadError};
use crate::words::syntax::{Read, is_name, is_path, span, unexpected};
use ruff_python_ast::{Decorator, Expr, Stmt, StmtAssign, StmtClassDef};
use std::ops::Range;

/// The functions of a text.
pub(super) struct Top<'a> {
    /// Name of the class; for a single function, the name of the class in which it is printed.
    pub(super) class: &'a str,
    /// The content of the class, or the single function.
    pub(super) body: &'a [Stmt],
    /// Position of the name of the class or function.
    pub(super) name: Range<usize>,
}

const USAGE: &str = "write a module as `@I.ir_module class Module:` with functions in it";
const EXPECTED: &str = "`@I.ir_module class Module:`, one function or `n = TypeVar(\"n\")`";
const DECORATORS: &[&[&str]] = &[&["I", "ir_module"], &["tvm", "script", "ir_module"], &["ir_module"]];

/// Reads statements at the top level. Returns the statement that contains the class or the function.
pub(super) fn statements<'a>(body: &'a [Stmt], scope: &mut Scope<'a>) -> Result<Option<&'a Stmt>, ReadError> {
    let mut found: Option<&Stmt> = None;
    for stmt in body {
        match stmt {
            Stmt::ClassDef(_) | Stmt::FunctionDef(_) if found.is_none() => found = Some(stmt),
            Stmt::ClassDef(def) => return Err(second(span(&def.name))),
            Stmt::FunctionDef(def) => return Err(second(span(&def.name))),
            Stmt::Assign(assign) => declaration(stmt, assign, scope)?,
            Stmt::Import(_) | Stmt::ImportFrom(_) => {}
            // A docstring is a comment.
            Stmt::Expr(expr) if expr.value.is_string_literal_expr() => {}
            _ => return Err(unexpected(stmt, EXPECTED).into()),
        }
    }
    Ok(found)
}

/// Finds the module, or the single function that forms a module.
pub(super) fn read<'a>(body: &'a [Stmt], scope: &mut Scope<'a>) -> Result<Top<'a>, ReadError> {
    match statements(body, scope)? {
        Some(Stmt::ClassDef(class)) => {
            decorated(class)?;
            plain(class)?;
            Ok(Top { class: class.name.as_str(), body: &class.body, name: span(&class.name) })
        }
        Some(stmt @ Stmt::FunctionDef(def)) => {
            Ok(Top { class: "Module", body: std::slice::from_ref(stmt), name: span(&def.name) })
        }
        _ => {
            let end = scope.text.trim_end().len();
            Err(Diagnostic::new(end..end, "the text does not contain a module").help(USAGE).into())
        }
    }
}

fn second(at: Range<usize>) -> ReadError {
    let message = "expected one module or one function";
    Diagnostic::new(at, message).label("a second one").help("put all functions into one class").into()
}

/// Reads `n = TypeVar("n")`, or the objects referred to by the text.
fn declaration<'a>(stmt: &'a Stmt, assign: &'a StmtAssign, scope: &mut Scope<'a>) -> Read<()> {
    match (assign.targets.as_slice(), &*assign.value) {
        ([Expr::Name(name)], Expr::Call(call)) if is_name(&call.func, "TypeVar") => {
            accept(call, 1, &[], "n = TypeVar(\"n\")")?;
            scope.type_vars.insert(name.id.as_str());
        }
        ([Expr::Name(name)], value) if name.id.as_str() == "metadata" => scope.metadata = load_metadata(value)?,
        ([Expr::Name(name)], Expr::Call(call))
            if name.id.as_str() == "weights" && is_path(&call.func, &["I", "weights"]) =>
        {
            accept(call, 1, &[], WEIGHTS)?;
            let [Expr::StringLiteral(file)] = &*call.arguments.args else {
                return Err(Diagnostic::new(span(call), format!("expected `{WEIGHTS}`")));
            };
            scope.weights_file = Some(file.value.to_str());
        }
        _ => return Err(unexpected(stmt, EXPECTED)),
    }
    Ok(())
}

const WEIGHTS: &str = "weights = I.weights(\"model.safetensors\")";

/// Reads `tvm.ir.load_json("""…""")`.
fn load_metadata(value: &Expr) -> Read<Metadata> {
    if let Expr::Call(call) = value
        && is_path(&call.func, &["tvm", "ir", "load_json"])
        && let [Expr::StringLiteral(json)] = &*call.arguments.args
        && call.arguments.keywords.is_empty()
    {
        let start = span(json).start;
        return Metadata::read(json.value.to_str())
            .map_err(|why| Diagnostic::new(start..start + 3, format!("the metadata cannot be read: {why}")));
    }
    Err(Diagnostic::new(span(value), "expected `tvm.ir.load_json(\"\"\"...\"\"\")`"))
}

/// Checks that the only decorator is `@I.ir_module`, optionally with arguments.
fn decorated(class: &StmtClassDef) -> Read<()> {
    let (module, other): (Vec<&Decorator>, Vec<_>) =
        class.decorator_list.iter().partition(|decorator| is_module(decorated_by(&decorator.expression).0));
    if module.is_empty() {
        return Err(undecorated(class));
    }
    if let Some(decorator) = other.first() {
        let message = "only `@I.ir_module` can decorate a module; other decorators are not supported";
        return Err(Diagnostic::new(span(*decorator), message).help("remove it"));
    }
    if let Some(second) = module.get(1) {
        return Err(Diagnostic::new(span(*second), "a second decorator").help("a module has exactly one"));
    }
    // With these flags, TVM checks less of a module; parts that the IR cannot represent are still
    // rejected.
    module.iter().try_for_each(|decorator| flags(&decorator.expression, &["check_well_formed", "s_tir"]).map(drop))
}

/// Returns the error for a class that is not a module but possibly a model for another framework.
fn undecorated(class: &StmtClassDef) -> Diagnostic {
    let name = &class.name;
    let is_model = |base: &Expr| match base {
        Expr::Attribute(base) => base.attr.as_str() == "Module",
        Expr::Name(base) => base.id.as_str() == "Module",
        _ => false,
    };
    let (message, help) = match class.bases().iter().any(is_model) {
        true => (
            format!("class `{name}` is a model in Python, not a module in TVMScript"),
            "import the model into TVM first, and write what `mod.script()` returns",
        ),
        false => (format!("class `{name}` is not a module"), "write `@I.ir_module` above it"),
    };
    Diagnostic::new(span(name), message).help(help)
}

fn is_module(path: &Expr) -> bool {
    DECORATORS.iter().any(|known| is_path(path, known))
}

/// Returns a decorator without its arguments, and the call if there are arguments.
pub(super) fn decorated_by(expr: &Expr) -> (&Expr, Option<&ruff_python_ast::ExprCall>) {
    match expr {
        Expr::Call(call) => (&call.func, Some(call)),
        path => (path, None),
    }
}

/// Returns the arguments of a decorator. Each must be one of `names`, with True or False.
pub(super) fn flags<'a>(decorator: &'a Expr, names: &[&str]) -> Read<Vec<(&'a str, bool)>> {
    let (_, Some(call)) = decorated_by(decorator) else { return Ok(Vec::new()) };
    let usage = || names.iter().map(|name| format!("{name}=True")).collect::<Vec<_>>().join(", ");
    accept(call, 0, names, &usage())?;
    let mut found = Vec::new();
    for keyword in &call.arguments.keywords {
        let Expr::BooleanLiteral(value) = &keyword.value else {
            return Err(Diagnostic::new(span(&keyword.value), "expected True or False"));
        };
        found.push((keyword.arg.as_ref().map_or("", |arg| arg.as_str()), value.value));
    }
    Ok(found)
}

/// Rejects a class that contains more than functions.
fn plain(class: &StmtClassDef) -> Read<()> {
    let arguments = class.arguments.as_deref();
    let base = arguments.and_then(|all| all.args.first()).map(span);
    let keyword = arguments.and_then(|all| all.keywords.first()).map(span);
    match base.or(keyword).or(class.type_params.as_deref().map(span)) {
        Some(at) => {
            let message = "a module must be a plain class; bases, keywords and type parameters would be lost";
            Err(Diagnostic::new(at, message).help(format!("write `class {}:`", class.name)))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use crate::{NoOps, read};

    /// A long text that does not start like a module is not parsed to the end.
    #[test]
    fn a_long_text_is_refused_by_its_beginning() {
        let said = |text: &str| read(text, &NoOps).expect_err("no module").to_string();
        let (short, long) = ("x = 1\n".repeat(2), "x = 1\n".repeat(300_000));
        assert_eq!(said(&format!("{long})")), said(&short));
        let module = "import a\n".repeat(200_000);
        assert!(said(&format!("{module})")).contains("not Python"), "{}", said(&format!("{module})")));
    }
}
