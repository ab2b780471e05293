//! From text to IR: module, functions, statements. Expressions, calls and types have files of their own.

mod calls;
mod constants;
mod defaults;
mod exprs;
mod func;
pub(crate) mod guard;
mod ops;
mod targets;
mod tir;
mod top;
mod types;

use crate::Operators;
use crate::metadata::{Metadata, Object};
use crate::words::devices::Devices;
use crate::words::diagnostic::{Diagnostic, ReadError};
use crate::words::dtypes::dtype_named;
use func::FnReader;
use passhost_lang::ir::records::leaf;
use passhost_lang::ir::{Attr, Module, SealError, Type};
use passhost_lang::names::{did_you_mean, few_suggestions, suggestions};
use ruff_python_ast::{Expr, Stmt, StmtFunctionDef};
use ruff_text_size::Ranged;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::ops::Range;
use top::Top;

/// Result of reading a part.
pub(crate) type Read<T> = Result<T, Diagnostic>;

pub(crate) fn span(node: &impl Ranged) -> Range<usize> {
    node.start().to_usize()..node.end().to_usize()
}

/// What the functions of a module know of each other.
pub(crate) struct Scope<'a> {
    pub(crate) text: &'a str,
    pub(crate) ops: &'a dyn Operators,
    /// Type of each function of the module, with the number of its symbolic variables.
    pub(crate) globals: BTreeMap<&'a str, (Type, u32)>,
    /// Names declared as `n = TypeVar("n")`.
    pub(crate) type_vars: BTreeSet<&'a str>,
    /// Name of the class that holds the module.
    pub(crate) class: &'a str,
    /// Global infos, to which types refer.
    pub(crate) vdevices: Devices,
    /// Number of device meshes among the global infos.
    pub(crate) meshes: usize,
    /// Objects that the text refers to.
    pub(crate) metadata: Metadata,
    /// Operators that no plugin declares: where each is called first, and how often it is called.
    pub(crate) opaque: RefCell<BTreeMap<String, (Range<usize>, usize)>>,
    /// Declared results that contradict what is returned, by where they begin.
    pub(crate) contradictions: RefCell<BTreeMap<usize, Diagnostic>>,
    /// What the function that is read did not know when it was read first.
    pub(crate) again: Again<'a>,
    pub(crate) options: ReadOptions,
    /// Whether what says nothing is kept: the host compares what it printed with what is read.
    pub(crate) as_written: bool,
}

/// A function that calls another one before the text says what that gives is read twice: then the call has its type, and a
/// variable of it says `R.Any`, as in TVM.
#[derive(Default)]
pub(crate) struct Again<'a> {
    /// The functions that it calls so.
    pub(crate) later: BTreeSet<&'a str>,
    /// Its own result, if the text does not declare one.
    pub(crate) result: Option<Type>,
}

impl Scope<'_> {
    /// The object of the metadata that an expression names; `None` if it names none.
    pub(crate) fn metadata(&self, expr: &Expr) -> Read<Option<Object>> {
        let Expr::Subscript(outer) = expr else { return Ok(None) };
        let Expr::Subscript(inner) = &*outer.value else { return Ok(None) };
        if !is_name(&inner.value, "metadata") {
            return Ok(None);
        }
        let (Expr::StringLiteral(key), Some(index)) = (&*inner.slice, types::int(&outer.slice)) else {
            let message = "expected an object such as metadata[\"ir.GenericConst\"][0]";
            return Err(Diagnostic::new(span(expr), message));
        };
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        let object = self.metadata.object(key.value.to_str(), index);
        object.map(Some).map_err(|why| Diagnostic::new(span(expr), why))
    }

    /// The key of an attribute: what does not fit on one line is in the metadata.
    pub(crate) fn string(&self, expr: &Expr) -> Read<String> {
        if let Expr::StringLiteral(text) = expr {
            return Ok(text.value.to_str().to_string());
        }
        match self.metadata(expr)? {
            Some(Object::Str(text)) => Ok(text),
            _ => Err(Diagnostic::new(span(expr), "expected a string as key")),
        }
    }
}

/// How a text is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadOptions {
    /// Whether types may contradict each other: a call that does not fit its operator or function has no type, and a
    /// declared type counts. Verification finds them.
    pub unchecked: bool,
    /// Whether a parameter `a: T.handle` that `A = T.match_buffer(a, ...)` alone uses is the buffer `A`, as for TVM.
    /// Otherwise the function has a handle, and a buffer that is made of it.
    pub matched_parameters: bool,
}

/// A module, and what the reader noticed.
#[derive(Debug)]
pub struct ReadModule {
    /// The module.
    pub module: Module,
    /// One for each operator that no plugin declares, of which calls are kept as they are; and one for each function whose
    /// declared result contradicts what it returns.
    pub warnings: Vec<Diagnostic>,
    /// Calls of such operators.
    pub opaque_calls: usize,
}

/// Reads a module.
///
/// # Errors
/// What is wrong, and where: at least the first fault of each function.
pub fn read(text: &str, ops: &dyn Operators) -> Result<Module, ReadError> {
    read_with_warnings(text, ops).map(|read| read.module)
}

/// Reads a module, and says which operators no plugin declares, and which functions return something else than they declare.
///
/// # Errors
/// As [`read`].
pub fn read_with_warnings(text: &str, ops: &dyn Operators) -> Result<ReadModule, ReadError> {
    read_with(text, ops, ReadOptions::default())
}

/// Reads a module as the options say.
///
/// # Errors
/// As [`read`].
pub fn read_with(text: &str, ops: &dyn Operators, options: ReadOptions) -> Result<ReadModule, ReadError> {
    guard::check(text)?;
    let around = Around { options, ..Around::default() };
    // The parser and the reader recurse as deeply as the text nests; the guard says how deep that can be.
    stacker::maybe_grow(STACK, STACK, || few_suggestions(|| read_shallow(text, around, ops)))
}

/// What a function that is read alone finds around it.
#[derive(Default)]
pub(crate) struct Around<'a> {
    /// Functions that it names, each with its type and the number of the symbolic variables of that.
    pub(crate) functions: BTreeMap<&'a str, (Type, u32)>,
    /// The virtual devices of its module.
    pub(crate) vdevices: Devices,
    /// Number of device meshes of its module.
    pub(crate) meshes: usize,
    pub(crate) options: ReadOptions,
    /// Whether the text is one that the host printed.
    pub(crate) as_written: bool,
}

/// Reads a text of functions of a module that has more than these. Nobody reads its warnings, and its errors are about a
/// text that the host printed: no misspelt name gets suggestions.
///
/// # Errors
/// As [`read`].
pub(crate) fn read_within<'a>(text: &'a str, around: Around<'a>, ops: &'a dyn Operators) -> Result<Module, ReadError> {
    guard::check(text)?;
    let around = Around { as_written: true, ..around };
    let read = stacker::maybe_grow(STACK, STACK, || suggestions(0, || read_shallow(text, around, ops)));
    read.map(|read| read.module)
}

/// Bytes of stack that the deepest text needs, also without optimization.
const STACK: usize = 64 << 20;

fn read_shallow<'a>(text: &'a str, around: Around<'a>, ops: &'a dyn Operators) -> Result<ReadModule, ReadError> {
    let parsed = ruff_python_parser::parse_module(text).map_err(|error| {
        let message = format!("not Python: {}", error.error);
        Diagnostic::new(span(&error.location), message).label("here")
    })?;
    crate::words::spelling::check(text, parsed.tokens())?;
    let Around { functions: globals, vdevices, meshes, options, as_written } = around;
    let mut scope = Scope {
        text,
        ops,
        globals,
        type_vars: BTreeSet::new(),
        class: "Module",
        vdevices,
        meshes,
        metadata: Metadata::default(),
        opaque: RefCell::default(),
        contradictions: RefCell::default(),
        again: Again::default(),
        options,
        as_written,
    };
    let body = &parsed.syntax().body;
    let module = top::read(body, &mut scope).and_then(|top| {
        scope.class = top.class;
        module(&top, &mut scope)
    });
    let module = module.map_err(|mut error| {
        // Why it is refused is then most often the version.
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
    Diagnostic::new(at, format!("no operator `{name}`{near}")).label(label).help(
        "its calls are kept as they are; operators come from plugins: list the plugin that declares it in passes.toml",
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
            // What the class says of itself is a comment.
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

/// The scalar that a TIR function returns.
fn tir_result(def: &StmtFunctionDef, text: &str) -> Option<Type> {
    let dtype = dtype_named(path_after(text, def.returns.as_deref()?, "T")?)?;
    Some(Type::Prim { dtype, value: None })
}

/// Signatures first, so that functions can call later ones; then bodies.
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
    // Functions whose result nobody knows yet; those that name such functions, and which.
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

/// The bodies of PrimFuncs, which are read first: calls from Relax have the effect of the body. `None` for Relax functions.
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

/// Those of `functions` that a body names.
fn named<'a>(body: &passhost_lang::ir::Body, functions: &BTreeSet<&'a str>) -> BTreeSet<&'a str> {
    if functions.is_empty() {
        return BTreeSet::new();
    }
    let globals = body.raw().leaves().iter().filter(|leaf| leaf.kind == leaf::GLOBAL_VAR);
    globals.filter_map(|leaf| functions.get(body.raw().str(leaf.val as u32)).copied()).collect()
}

/// Reads a function that named others before their results were known. Its calls of unknown operators are counted already.
fn read_again<'a>(def: &'a StmtFunctionDef, again: Again<'a>, scope: &mut Scope<'a>) -> Read<passhost_lang::ir::Body> {
    let opaque = scope.opaque.take();
    scope.again = again;
    let body = FnReader::function(def, scope);
    scope.again = Again::default();
    scope.opaque = RefCell::new(opaque);
    body
}

/// What a module says of itself.
#[derive(Default)]
struct ModuleSays {
    attrs: Said,
    infos: Said,
}

/// One of its dicts, and where it is.
#[derive(Default)]
struct Said {
    entries: Vec<(String, Attr)>,
    place: Range<usize>,
}

impl Said {
    /// An empty dict says nothing, so another one may follow it.
    fn say(&mut self, what: &str, entries: Vec<(String, Attr)>, place: Range<usize>) -> Read<()> {
        if !self.entries.is_empty() {
            return Err(Diagnostic::new(place, format!("a module has one `{what}`"))
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
                // Types name these by their place, so they must be what they are taken for.
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

/// The one argument of a call, by position or by one of these names.
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

/// Number of device meshes among the global infos.
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

/// Whether an expression is `a.b.c`.
pub(crate) fn is_path(expr: &Expr, path: &[&str]) -> bool {
    match (expr, path) {
        (Expr::Name(name), [only]) => name.id.as_str() == *only || other_name(only) == Some(name.id.as_str()),
        (Expr::Attribute(attribute), [front @ .., last]) if !front.is_empty() => {
            attribute.attr.as_str() == *last && is_path(&attribute.value, front)
        }
        _ => false,
    }
}

/// Another name under which people import a dialect: `from tvm import relax`.
fn other_name(root: &str) -> Option<&'static str> {
    (root == "R").then_some("relax")
}

/// The part after `R.` of `R.a.b`; for other roots likewise. Python allows blanks and lines between the parts: then it is
/// known for one part only.
pub(crate) fn path_after<'t>(text: &'t str, expr: &'t Expr, root: &str) -> Option<&'t str> {
    let mut inner = expr;
    while let Expr::Attribute(attribute) = inner {
        inner = &attribute.value;
    }
    let Expr::Attribute(last) = expr else { return None };
    let root = [root].into_iter().chain(other_name(root)).find(|root| is_name(inner, root))?;
    // No text is needed for one part. That is all that dimensions in strings have, whose places are not those of the text.
    if is_name(&last.value, root) {
        return Some(last.attr.as_str());
    }
    let path = text.get(span(expr)).and_then(|path| path.get(root.len()..)?.strip_prefix('.'));
    let is_plain = |path: &&str| path.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '.');
    path.filter(is_plain)
}
