//! Reads text as IR: module, functions, statements. Expressions, calls and types are in separate files.

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
mod targets;
mod tir;
mod top;
mod types;

use crate::Operators;
use crate::metadata::weights::{NoWeights, Weights};
use crate::metadata::{Metadata, Object};
use crate::words::devices::Devices;
use crate::words::diagnostic::{Diagnostic, ReadError};
use crate::words::dtypes::dtype_named;
use passhost_lang::ir::records::leaf;
use passhost_lang::ir::{Attr, Module, SealError, Type};
use passhost_lang::names::{did_you_mean, few_suggestions, suggestions};
use reader::FnReader;
use ruff_python_ast::{Expr, Stmt, StmtFunctionDef};
use ruff_text_size::Ranged;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::ops::Range;
use top::Top;

/// The result of reading a part.
pub(crate) type Read<T> = Result<T, Diagnostic>;

pub(crate) fn span(node: &impl Ranged) -> Range<usize> {
    node.start().to_usize()..node.end().to_usize()
}

/// Facts shared by the functions of a module.
pub(crate) struct Scope<'a> {
    pub(crate) text: &'a str,
    pub(crate) ops: &'a dyn Operators,
    /// Type of each function of the module, with its number of symbolic variables.
    pub(crate) globals: BTreeMap<&'a str, (Type, u32)>,
    /// Names declared as `n = TypeVar("n")`.
    pub(crate) type_vars: BTreeSet<&'a str>,
    /// Name of the class that contains the module.
    pub(crate) class: &'a str,
    /// Global infos, to which types refer.
    pub(crate) vdevices: Devices,
    /// Number of device meshes among the global infos.
    pub(crate) meshes: usize,
    /// Objects that the text refers to.
    pub(crate) metadata: Metadata,
    /// The file with constants that the text names as `weights["w0"]`, if it has one.
    pub(crate) weights_file: Option<&'a str>,
    pub(crate) weights: &'a dyn Weights,
    /// Operators that are not declared by any plugin, with their first call and their number of calls.
    pub(crate) opaque: RefCell<BTreeMap<String, (Range<usize>, usize)>>,
    /// Declared results that contradict the returned values, by their positions.
    pub(crate) contradictions: RefCell<BTreeMap<usize, Diagnostic>>,
    /// Results needed by the current function that were unknown when it was read first.
    pub(crate) again: Again<'a>,
    pub(crate) options: ReadOptions,
    /// True if redundant parts are kept, because the host compares its own printed text with the result.
    pub(crate) as_written: bool,
}

/// The state for reading a function twice. This happens if the function calls another function before the text
/// determines the result of that function. In the second reading the call has its type, and its variable has the type
/// `R.Any`, as in TVM.
#[derive(Default)]
pub(crate) struct Again<'a> {
    /// The functions that it calls too early.
    pub(crate) later: BTreeSet<&'a str>,
    /// Its own result, if the text does not declare one.
    pub(crate) result: Option<Type>,
}

impl Scope<'_> {
    /// Returns the metadata object that an expression refers to; `None` if it does not refer to one.
    pub(crate) fn metadata(&self, expr: &Expr) -> Read<Option<Object>> {
        let Expr::Subscript(outer) = expr else { return Ok(None) };
        if let (Some(file), Expr::StringLiteral(name)) = (self.weights_file, &*outer.slice)
            && is_name(&outer.value, "weights")
        {
            let found = self.weights.tensor(file, name.value.to_str());
            let object = found.map(|(tensor, ty)| Some(Object::Tensor(tensor, ty)));
            return object.map_err(|why| Diagnostic::new(span(expr), why));
        }
        let Expr::Subscript(inner) = &*outer.value else { return Ok(None) };
        if !is_name(&inner.value, "metadata") {
            return Ok(None);
        }
        let (Expr::StringLiteral(key), Some(index)) = (&*inner.slice, arguments::int(&outer.slice)) else {
            let message = "expected an object such as metadata[\"ir.GenericConst\"][0]";
            return Err(Diagnostic::new(span(expr), message));
        };
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        let object = self.metadata.object(key.value.to_str(), index);
        object.map(Some).map_err(|why| Diagnostic::new(span(expr), why))
    }

    /// Reads the key of an attribute; a multi-line one is in the metadata.
    pub(crate) fn string(&self, expr: &Expr) -> Read<String> {
        if let Expr::StringLiteral(text) = expr {
            return Ok(text.value.to_str().to_string());
        }
        match self.metadata(expr)? {
            Some(Object::Str(text)) => Ok(text),
            _ => Err(Diagnostic::new(span(expr), "expected a string as the key")),
        }
    }
}

/// Options for reading a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadOptions {
    /// True if types may contradict each other: a call that does not fit its operator or function remains untyped, and
    /// a declared type is accepted. Verification finds such types.
    pub unchecked: bool,
    /// True if a parameter `a: T.handle` that is used only by `A = T.match_buffer(a, ...)` becomes the buffer `A`, as
    /// in TVM. Otherwise, the parameter remains a handle, and the buffer is derived from it.
    pub matched_parameters: bool,
}

/// A module, and the warnings of the reader.
#[derive(Debug)]
pub struct ReadModule {
    /// The module.
    pub module: Module,
    /// There is one warning for each operator that no plugin declares, whose calls are kept unchanged, and one for each
    /// function whose declared result contradicts the returned value.
    pub warnings: Vec<Diagnostic>,
    /// Calls of operators that no plugin declares.
    pub opaque_calls: usize,
}

/// Reads a module.
///
/// # Errors
/// Returns the errors with their places: at least the first error of each function.
pub fn read(text: &str, ops: &dyn Operators) -> Result<Module, ReadError> {
    read_with_warnings(text, ops).map(|read| read.module)
}

/// Reads a module. Warns of operators that no plugin declares, and of functions that return something other than they
/// declare.
///
/// # Errors
/// Fails as [`read`] does.
pub fn read_with_warnings(text: &str, ops: &dyn Operators) -> Result<ReadModule, ReadError> {
    read_with(text, ops, ReadOptions::default())
}

/// Reads a module with options.
///
/// # Errors
/// Fails as [`read`] does.
pub fn read_with(text: &str, ops: &dyn Operators, options: ReadOptions) -> Result<ReadModule, ReadError> {
    read_from(text, ops, options, &NoWeights)
}

/// Reads a module with options, and with the files that contain its constants.
///
/// # Errors
/// Fails as [`read`] does.
pub fn read_from(
    text: &str,
    ops: &dyn Operators,
    options: ReadOptions,
    weights: &dyn Weights,
) -> Result<ReadModule, ReadError> {
    guard::check(text)?;
    let around = Around { options, weights: Some(weights), ..Around::default() };
    // The parser and the reader recurse as deeply as the text nests, which the guard limits.
    stacker::maybe_grow(STACK, STACK, || {
        few_suggestions(|| {
            check_beginning(text, ops)?;
            read_shallow(text, around, ops)
        })
    })
}

/// Refuses a long text that does not begin as a module does, because parsing all of it takes many times its memory.
fn check_beginning(text: &str, ops: &dyn Operators) -> Result<(), ReadError> {
    const LONG: usize = 1 << 20;
    const BEGINNING: usize = 1 << 12;
    if text.len() < LONG {
        return Ok(());
    }
    // The beginning ends before a line that is probably a statement.
    let lines =
        text.as_bytes()[..BEGINNING].windows(2).rposition(|two| two[0] == b'\n' && two[1].is_ascii_alphabetic());
    let Some(beginning) = lines.map(|at| &text[..=at]) else { return Ok(()) };
    let Ok(parsed) = ruff_python_parser::parse_module(beginning) else { return Ok(()) };
    let mut scope = scope_of(beginning, Around::default(), ops);
    top::statements(&parsed.syntax().body, &mut scope).map(drop)
}

/// The context of a function that is read alone.
#[derive(Default)]
pub(crate) struct Around<'a> {
    /// Functions that it refers to, each with its type and the number of symbolic variables in this type.
    pub(crate) functions: BTreeMap<&'a str, (Type, u32)>,
    /// The virtual devices of its module.
    pub(crate) vdevices: Devices,
    /// Number of device meshes of its module.
    pub(crate) meshes: usize,
    /// Constants that are not in the text.
    pub(crate) weights: Option<&'a dyn Weights>,
    pub(crate) options: ReadOptions,
    /// True if the text was printed by the host.
    pub(crate) as_written: bool,
}

/// Reads some functions of a larger module. Warnings are not used, and the text was printed by the host, so
/// misspelt names get no suggestions.
///
/// # Errors
/// Fails as [`read`] does.
pub(crate) fn read_within<'a>(text: &'a str, around: Around<'a>, ops: &'a dyn Operators) -> Result<Module, ReadError> {
    guard::check(text)?;
    let around = Around { as_written: true, ..around };
    let read = stacker::maybe_grow(STACK, STACK, || suggestions(0, || read_shallow(text, around, ops)));
    read.map(|read| read.module)
}

/// Bytes of stack that the deepest text needs, even without optimization.
const STACK: usize = 64 << 20;

fn scope_of<'a>(text: &'a str, around: Around<'a>, ops: &'a dyn Operators) -> Scope<'a> {
    let Around { functions: globals, vdevices, meshes, weights, options, as_written } = around;
    Scope {
        text,
        ops,
        globals,
        type_vars: BTreeSet::new(),
        class: "Module",
        vdevices,
        meshes,
        metadata: Metadata::default(),
        weights_file: None,
        weights: weights.unwrap_or(&NoWeights),
        opaque: RefCell::default(),
        contradictions: RefCell::default(),
        again: Again::default(),
        options,
        as_written,
    }
}

fn read_shallow<'a>(text: &'a str, around: Around<'a>, ops: &'a dyn Operators) -> Result<ReadModule, ReadError> {
    let parsed = ruff_python_parser::parse_module(text).map_err(|error| {
        let message = format!("not Python: {}", error.error);
        Diagnostic::new(span(&error.location), message).label("here")
    })?;
    crate::words::spelling::check(text, parsed.tokens())?;
    let mut scope = scope_of(text, around, ops);
    let body = &parsed.syntax().body;
    let module = top::read(body, &mut scope).and_then(|top| {
        scope.class = top.class;
        module(&top, &mut scope)
    });
    let module = module.map_err(|mut error| {
        // In this case, the most likely reason is the version.
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
        "its calls are kept unchanged; operators come from plugins: list the plugin that declares it in passes.toml",
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

/// Reads the signatures first, so that functions can call later ones; then the bodies.
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
    // Functions with unknown results; and the functions that refer to them, with their names.
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

/// Reads the bodies of PrimFuncs first, because calls from Relax have the effect of the body. `None` for Relax
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

/// Returns those of `functions` that a body refers to.
fn named<'a>(body: &passhost_lang::ir::Body, functions: &BTreeSet<&'a str>) -> BTreeSet<&'a str> {
    if functions.is_empty() {
        return BTreeSet::new();
    }
    let globals = body.raw().leaves().iter().filter(|leaf| leaf.kind == leaf::GLOBAL_VAR);
    globals.filter_map(|leaf| functions.get(body.raw().str(leaf.val as u32)).copied()).collect()
}

/// Reads a function a second time, because it referred to others before their results were known. Its calls of unknown
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

/// A dict of the module's attributes or global infos, and its place.
#[derive(Default)]
struct Said {
    entries: Vec<(String, Attr)>,
    place: Range<usize>,
}

impl Said {
    /// Stores a dict. An empty one can be followed by another one.
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
                // Types refer to these by index, so they must have the expected kind.
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

/// Returns the only argument of a call, by position or by one of these names.
fn only_argument<'e>(call: &'e ruff_python_ast::ExprCall, names: &[&str]) -> Option<&'e Expr> {
    match (&*call.arguments.args, &*call.arguments.keywords) {
        ([argument], []) => Some(argument),
        ([], [named]) if named.arg.as_ref().is_some_and(|name| names.contains(&name.as_str())) => Some(&named.value),
        _ => None,
    }
}

/// Refuses global infos under a key that are not a list of objects of one constructor.
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

pub(crate) fn sealed(error: &SealError, at: Range<usize>) -> Diagnostic {
    Diagnostic::new(at, error.to_string())
}

pub(crate) fn unexpected(stmt: &impl Ranged, expected: &str) -> Diagnostic {
    Diagnostic::new(span(stmt), format!("expected {expected}")).label("found this")
}

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

/// Returns another common name of an imported dialect: `from tvm import relax`.
fn other_name(root: &str) -> Option<&'static str> {
    (root == "R").then_some("relax")
}

/// Returns the part after `R.` in `R.a.b`; similarly for other roots. Python allows blanks and lines between the
/// parts; such an expression is only recognized if it has one part.
pub(crate) fn path_after<'t>(text: &'t str, expr: &'t Expr, root: &str) -> Option<&'t str> {
    let mut inner = expr;
    while let Expr::Attribute(attribute) = inner {
        inner = &attribute.value;
    }
    let Expr::Attribute(last) = expr else { return None };
    let root = [root].into_iter().chain(other_name(root)).find(|root| is_name(inner, root))?;
    // An expression of one part does not need the text. Dimensions in strings have only one part, and their places do
    // not refer to the text.
    if is_name(&last.value, root) {
        return Some(last.attr.as_str());
    }
    let path = text.get(span(expr)).and_then(|path| path.get(root.len()..)?.strip_prefix('.'));
    let is_plain = |path: &&str| path.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '.');
    path.filter(is_plain)
}
