//! Parses text into IR: module, functions, statements. Expressions, calls and types are in separate files.

mod arguments;
mod calls;
mod constants;
mod defaults;
mod dims;
mod exprs;
mod func;
pub(crate) mod guard;
mod ops;
mod reader;
pub(crate) mod scope;
mod targets;
mod tir;
mod top;
mod types;

pub use scope::ReadOptions;

use crate::Operators;
use crate::metadata::weights::{NoWeights, Weights};
use crate::words::devices::Devices;
use crate::words::diagnostic::{Diagnostic, ReadError};
use crate::words::dtypes::dtype_named;
use crate::words::syntax::{Read, is_path, path_after, sealed, span, unexpected};
use passhost_lang::ir::records::leaf;
use passhost_lang::ir::{Attr, Module, Type};
use passhost_lang::names::{did_you_mean, few_suggestions, suggestions};
use reader::FnReader;
use ruff_python_ast::{Expr, Stmt, StmtFunctionDef};
use scope::{Again, Around, Scope};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use top::Top;

/// A module, and the warnings of the reader.
#[derive(Debug)]
pub struct ReadModule {
    /// The module.
    pub module: Module,
    /// One warning for each undeclared operator, whose calls are kept unchanged, and one for each function whose
    /// declared result type contradicts the returned value.
    pub warnings: Vec<Diagnostic>,
    /// Number of calls of undeclared operators.
    pub opaque_calls: usize,
}

/// Reads a module.
///
/// # Errors
/// The errors with their positions: at least the first error of each function.
pub fn read(text: &str, ops: &dyn Operators) -> Result<Module, ReadError> {
    read_with_warnings(text, ops).map(|read| read.module)
}

/// Reads a module. Warns about undeclared operators, and about functions whose declared result type contradicts the
/// returned value.
///
/// # Errors
/// Fails like [`read`].
pub fn read_with_warnings(text: &str, ops: &dyn Operators) -> Result<ReadModule, ReadError> {
    read_with(text, ops, ReadOptions::default())
}

/// Reads a module with options.
///
/// # Errors
/// Fails like [`read`].
pub fn read_with(text: &str, ops: &dyn Operators, options: ReadOptions) -> Result<ReadModule, ReadError> {
    read_from(text, ops, options, &NoWeights)
}

/// Reads a module with options, and with the files that contain its constants.
///
/// # Errors
/// Fails like [`read`].
pub fn read_from(
    text: &str,
    ops: &dyn Operators,
    options: ReadOptions,
    weights: &dyn Weights,
) -> Result<ReadModule, ReadError> {
    guard::check(text)?;
    let around = Around { options, weights: Some(weights), ..Around::default() };
    // The recursion depth of the parser and the reader is the nesting depth of the text, which the guard limits.
    stacker::maybe_grow(STACK, STACK, || {
        few_suggestions(|| {
            check_beginning(text, ops)?;
            read_shallow(text, around, ops)
        })
    })
}

/// Rejects a long text that does not start like a module, because parsing it takes many times its size in memory.
fn check_beginning(text: &str, ops: &dyn Operators) -> Result<(), ReadError> {
    const LONG: usize = 1 << 20;
    const BEGINNING: usize = 1 << 12;
    if text.len() < LONG {
        return Ok(());
    }
    // The checked part ends before a line that is probably a statement.
    let lines =
        text.as_bytes()[..BEGINNING].windows(2).rposition(|two| two[0] == b'\n' && two[1].is_ascii_alphabetic());
    let Some(beginning) = lines.map(|at| &text[..=at]) else { return Ok(()) };
    let Ok(parsed) = ruff_python_parser::parse_module(beginning) else { return Ok(()) };
    let mut scope = Scope::of(beginning, Around::default(), ops);
    top::statements(&parsed.syntax().body, &mut scope).map(drop)
}

/// Reads some functions of a larger module, without warnings. The text was printed by the host, so misspelt names get
/// no suggestions.
///
/// # Errors
/// Fails like [`read`].
pub(crate) fn read_within<'a>(text: &'a str, around: Around<'a>, ops: &'a dyn Operators) -> Result<Module, ReadError> {
    let depth = guard::depth(text, guard::MAX_PRINTED)?;
    let stack = STACK * depth.div_ceil(guard::MAX).max(1);
    let around = Around { as_written: true, ..around };
    let read = stacker::maybe_grow(stack, stack, || suggestions(0, || read_shallow(text, around, ops)));
    read.map(|read| read.module)
}

/// Bytes of stack that a text with a nesting of [`guard::MAX`] needs, even without optimization.
const STACK: usize = 64 << 20;

fn read_shallow<'a>(text: &'a str, around: Around<'a>, ops: &'a dyn Operators) -> Result<ReadModule, ReadError> {
    let parsed = ruff_python_parser::parse_module(text).map_err(|error| {
        let message = format!("not Python: {}", error.error);
        Diagnostic::new(span(&error.location), message).label("here")
    })?;
    crate::words::spelling::check(text, parsed.tokens())?;
    let mut scope = Scope::of(text, around, ops);
    let body = &parsed.syntax().body;
    let module = top::read(body, &mut scope).and_then(|top| {
        scope.class = top.class;
        module(&top, &mut scope)
    });
    let module = module.map_err(|mut error| {
        // Shown first, because a different TVM version is the most likely reason.
        if !scope.as_written {
            error.diagnostics.splice(0..0, crate::words::versions::of_another(text, body));
        }
        error
    })?;
    let opaque = scope.opaque.take();
    let opaque_calls = opaque.values().map(|(_, calls)| calls).sum();
    let unknown = opaque.into_iter().map(|(name, (at, calls))| unknown_operator(&name, at, calls, ops));
    let warnings = unknown.chain(scope.contradictions.take().into_values()).collect();
    Ok(ReadModule { module, warnings, opaque_calls })
}

fn unknown_operator(name: &str, at: Range<usize>, calls: usize, ops: &dyn Operators) -> Diagnostic {
    let near = did_you_mean(&ops.near_ops(name));
    let label = if calls == 1 { "called here".to_string() } else { format!("called {calls} times, first here") };
    Diagnostic::new(at, format!("unknown operator `{name}`{near}")).label(label).help(
        "its calls are kept unchanged; operators come from plugins: list the plugin that declares it in passes.toml, and the operator in `operators` of the plugin's `export_plugin!`",
    )
}

fn module<'a>(top: &Top<'a>, scope: &mut Scope<'a>) -> Result<Module, ReadError> {
    let (mut said, mut defs) = (ModuleSays::default(), Vec::new());
    let mut externs = Vec::new();
    let mut places: BTreeMap<&str, Range<usize>> = BTreeMap::new();
    let mut twice = |name: &'a str, at: Range<usize>| match places.insert(name, at.clone()) {
        Some(first) => Err(Diagnostic::new(at, format!("function `{name}` is defined twice"))
            .label("again here")
            .other(first, "first here")
            .help("rename one of them")),
        None => Ok(()),
    };
    for stmt in top.body {
        match stmt {
            Stmt::FunctionDef(def) => {
                twice(def.name.as_str(), span(&def.name))?;
                defs.push(def);
            }
            // The docstring of the class is a comment.
            Stmt::Expr(expr) if expr.value.is_string_literal_expr() || expr.value.is_ellipsis_literal_expr() => {}
            Stmt::Expr(expr) => said.statement(&expr.value, scope)?,
            Stmt::Assign(assign) => match assign.targets.as_slice() {
                [Expr::Name(name)] => {
                    twice(name.id.as_str(), span(name))?;
                    externs.push((name.id.as_str(), &*assign.value));
                }
                _ => return Err(unexpected(stmt, "`name = R.ExternFunc(\"symbol\")`").into()),
            },
            Stmt::Pass(_) => {}
            _ => return Err(unexpected(stmt, "a function, `I.module_attrs` or `R.ExternFunc`").into()),
        }
    }
    let (attrs, infos) = (said.attrs.entries, said.infos.entries);
    if !infos.is_empty() {
        scope.vdevices = Devices::of(&infos);
        scope.meshes = n_meshes(&infos);
    }
    let mut bodies = Vec::new();
    for (name, value) in externs {
        let (body, ty, n_syms) = FnReader::extern_function(value, scope)?;
        scope.globals.insert(name, (ty, n_syms));
        bodies.push((name, body));
    }
    let externs = bodies;
    functions(&defs, scope).and_then(|bodies| {
        let mut edit = Module::new(bodies).edit();
        for (name, body) in externs {
            edit.set(name, body);
        }
        if !attrs.is_empty() || !infos.is_empty() {
            edit.set_attrs(attrs, infos).map_err(|error| sealed(&error, top.name.clone()))?;
        }
        Ok(edit.finish())
    })
}

/// Returns the type of the scalar that a TIR function returns.
fn tir_result(def: &StmtFunctionDef, text: &str) -> Option<Type> {
    let dtype = dtype_named(path_after(text, def.returns.as_deref()?, "T")?)?;
    Some(Type::Prim { dtype, value: None })
}

/// Reads the signatures first, so that functions can call later functions; then the bodies.
fn functions<'a>(
    defs: &[&'a StmtFunctionDef],
    scope: &mut Scope<'a>,
) -> Result<Vec<(String, passhost_lang::ir::Body)>, ReadError> {
    let mut diagnostics = Vec::new();
    for def in defs {
        if tir::is_prim_func(def) {
            scope.globals.insert(def.name.as_str(), (Type::prim_func(tir_result(def, scope.text)), 0));
            continue;
        }
        match FnReader::signature(def, scope) {
            Ok(signature) => {
                scope.globals.insert(def.name.as_str(), signature);
            }
            Err(diagnostic) => diagnostics.push(diagnostic),
        }
    }
    if !diagnostics.is_empty() {
        return Err(ReadError { diagnostics });
    }
    let tir_bodies = tir_bodies(defs, scope);
    let mut bodies = Vec::new();
    // Functions with unknown result types, and the functions that refer to them.
    let mut open: BTreeSet<&str> = defs
        .iter()
        .filter(|def| def.returns.is_none() && !tir::is_prim_func(def))
        .map(|def| def.name.as_str())
        .collect();
    let mut early = Vec::new();
    for (def, tir_body) in defs.iter().zip(tir_bodies) {
        match tir_body.unwrap_or_else(|| FnReader::function(def, scope).map_err(|diagnostic| vec![diagnostic])) {
            Ok(body) => {
                let later = named(&body, &open);
                let undeclared = open.remove(def.name.as_str());
                let ty = body.root().ty();
                if !later.is_empty() {
                    let result = match ty.to_owned() {
                        Type::Callable { ret, .. } if undeclared => Some(ret.into_inner()),
                        _ => None,
                    };
                    early.push((bodies.len(), *def, Again { later, result }));
                }
                if undeclared {
                    scope.globals.insert(def.name.as_str(), (ty.to_owned(), body.raw().var_names().len() as u32));
                }
                bodies.push((def.name.to_string(), body));
            }
            Err(faults) => diagnostics.extend(faults),
        }
    }
    if diagnostics.is_empty() {
        for (at, def, again) in early {
            match read_again(def, again, scope) {
                Ok(body) => bodies[at].1 = body,
                Err(fault) => diagnostics.push(fault),
            }
        }
    }
    if diagnostics.is_empty() { Ok(bodies) } else { Err(ReadError { diagnostics }) }
}

/// Reads the bodies of PrimFuncs first, because the effect of Relax calls depends on the body. `None` for Relax
/// functions.
fn tir_bodies<'a>(
    defs: &[&'a StmtFunctionDef],
    scope: &mut Scope<'a>,
) -> Vec<Option<Result<passhost_lang::ir::Body, Vec<Diagnostic>>>> {
    let mut bodies = Vec::with_capacity(defs.len());
    for def in defs {
        let body = tir::is_prim_func(def).then(|| tir::TirReader::function(def, scope));
        if let Some(Ok(body)) = &body
            && let Some((ty, _)) = scope.globals.get_mut(def.name.as_str())
        {
            *ty = ty.clone().with_purity(body.is_pure_prim_func());
        }
        bodies.push(body);
    }
    bodies
}

/// Returns the functions in `functions` that a body refers to.
fn named<'a>(body: &passhost_lang::ir::Body, functions: &BTreeSet<&'a str>) -> BTreeSet<&'a str> {
    if functions.is_empty() {
        return BTreeSet::new();
    }
    let globals = body.raw().leaves().iter().filter(|leaf| leaf.kind == leaf::GLOBAL_VAR);
    globals.filter_map(|leaf| functions.get(body.raw().str(leaf.val as u32)).copied()).collect()
}

/// Reads a function a second time, because it referred to functions with unknown result types. Its calls of undeclared
/// operators were already counted.
fn read_again<'a>(def: &'a StmtFunctionDef, again: Again<'a>, scope: &mut Scope<'a>) -> Read<passhost_lang::ir::Body> {
    let opaque = scope.opaque.take();
    scope.again = again;
    let body = FnReader::function(def, scope);
    scope.again = Again::default();
    scope.opaque = RefCell::new(opaque);
    body
}

/// The attributes and global infos of a module.
#[derive(Default)]
struct ModuleSays {
    attrs: Said,
    infos: Said,
}

/// A dict of the module's attributes or global infos, and its position.
#[derive(Default)]
struct Said {
    entries: Vec<(String, Attr)>,
    place: Range<usize>,
}

impl Said {
    /// Stores a dict. An empty dict can be followed by a further dict.
    fn say(&mut self, what: &str, entries: Vec<(String, Attr)>, place: Range<usize>) -> Read<()> {
        if !self.entries.is_empty() {
            return Err(Diagnostic::new(place, format!("a module has only one `{what}`"))
                .label("again here")
                .other(self.place.clone(), "first here")
                .help("put all entries into one dict"));
        }
        (self.entries, self.place) = (entries, place);
        Ok(())
    }
}

impl ModuleSays {
    fn statement(&mut self, expr: &Expr, scope: &Scope<'_>) -> Read<()> {
        if let Expr::Call(call) = expr
            && let Some(argument) = only_argument(call, &["attrs", "infos", "global_infos"])
        {
            if is_path(&call.func, &["I", "module_attrs"]) {
                let said = FnReader::new(scope).attr_dict(argument)?;
                return self.attrs.say("I.module_attrs", said, span(call));
            }
            if is_path(&call.func, &["I", "module_global_infos"]) {
                let said = FnReader::new(scope).attr_dict(argument)?;
                // Types refer to these entries by index, so they must have the expected kind.
                check_list(&said, "vdevice", "I.vdevice", span(argument))?;
                check_list(&said, "mesh", "R.device_mesh", span(argument))?;
                return self.infos.say("I.module_global_infos", said, span(call));
            }
        }
        Err(Diagnostic::new(
            span(expr),
            "expected `I.module_attrs({...})`, `I.module_global_infos({...})` or a function",
        ))
    }
}

/// Returns the only argument of a call, by position or by one of the given names.
fn only_argument<'e>(call: &'e ruff_python_ast::ExprCall, names: &[&str]) -> Option<&'e Expr> {
    match (&*call.arguments.args, &*call.arguments.keywords) {
        ([argument], []) => Some(argument),
        ([], [named]) if named.arg.as_ref().is_some_and(|name| names.contains(&name.as_str())) => Some(&named.value),
        _ => None,
    }
}

/// Rejects global infos under a key unless they are a list of objects with the given constructor.
fn check_list(infos: &[(String, Attr)], key: &str, constructor: &str, at: Range<usize>) -> Read<()> {
    let is_one = |item: &Attr| matches!(item, Attr::Object(name, _) if name == constructor);
    let right = |value: &Attr| matches!(value, Attr::List(items) if items.iter().all(is_one));
    match infos.iter().find(|(name, value)| name == key && !right(value)) {
        Some(_) => Err(Diagnostic::new(at, format!("the global info `{key}` must be a list of {constructor}(...)"))),
        None => Ok(()),
    }
}

/// Returns the number of device meshes among the global infos.
pub(crate) fn n_meshes(infos: &[(String, Attr)]) -> usize {
    match infos.iter().find(|(key, _)| key == "mesh") {
        Some((_, Attr::List(meshes))) => meshes.len(),
        _ => 0,
    }
}
