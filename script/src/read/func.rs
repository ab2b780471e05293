//! Reads Relax functions: signature, statements, bindings.

mod flow;
mod operators;
mod scope;
mod unpack;

use super::arguments::{accept, sym_declaration};
use super::reader::{FnReader, Local, Open};
use super::top::{decorated_by, flags};
use crate::metadata::Object;
use crate::read::scope::Scope;
use crate::words::diagnostic::Diagnostic;
use crate::words::syntax::{Read, is_name, is_path, path_after, sealed, span, unexpected};
use passhost_lang::ir::erase::{erase_unbound, seen_outside};
use passhost_lang::ir::records::{flag, kind};
use passhost_lang::ir::{Attr, AttrsId, Body, BodyBuilder, DType, Dim, NodeSpec, Sym, Type, TypeId, V};
use passhost_lang::typing::relations::{Relation, relation};
use ruff_python_ast::{Expr, Stmt, StmtFunctionDef, StmtReturn, TypeParam};
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// The content of the decorator.
struct Decorator {
    private: bool,
    pure: bool,
}

fn decorator(def: &StmtFunctionDef) -> Read<Decorator> {
    let mut found = Decorator { private: false, pure: true };
    let Some(decorator) = def.decorator_list.first() else {
        let message = format!("function `{}` lacks a decorator", def.name);
        return Err(Diagnostic::new(span(&def.name), message).help("write `@R.function` above it"));
    };
    if let Some(second) = def.decorator_list.get(1) {
        return Err(Diagnostic::new(span(second), "a second decorator").help("a function has exactly one"));
    }
    plain_parameters(def)?;
    if !is_path(decorated_by(&decorator.expression).0, &["R", "function"]) {
        return Err(Diagnostic::new(span(decorator), "expected `@R.function`"));
    }
    for (name, value) in flags(&decorator.expression, &["private", "pure", "check_well_formed"])? {
        match name {
            "private" => found.private = value,
            "pure" => found.pure = value,
            _ => {}
        }
    }
    Ok(found)
}

/// Returns the type parameters of `def f[n, m](...)`: symbolic variables, like a preceding `n = TypeVar("n")`.
pub(super) fn type_params(def: &StmtFunctionDef) -> Read<Vec<&str>> {
    let params = def.type_params.as_deref().map_or(&[][..], |params| &params.type_params);
    let mut names = Vec::with_capacity(params.len());
    for param in params {
        match param {
            TypeParam::TypeVar(var) if var.bound.is_none() && var.default.is_none() => names.push(var.name.as_str()),
            other => {
                return Err(Diagnostic::new(
                    span(other),
                    "a type parameter must be a plain name, which becomes a symbolic variable",
                )
                .help(format!("def {}[n](...), without bounds and default values", def.name)));
            }
        }
    }
    Ok(names)
}

/// Returns true if an attribute merely repeats the name of a public function as its symbol.
pub(super) fn is_implied(key: &str, value: &Attr, public: Option<&str>) -> bool {
    key == "global_symbol" && matches!(value, Attr::Str(symbol) if public == Some(symbol.as_str()))
}

/// Rejects functions and parameters that the IR cannot represent.
pub(super) fn plain_parameters(def: &StmtFunctionDef) -> Read<()> {
    if def.is_async {
        let message = format!("function `{}` must be defined with a plain `def`", def.name);
        return Err(Diagnostic::new(span(&def.name), message).help("remove `async`"));
    }
    let all = &def.parameters;
    let mut seen: HashMap<&str, Range<usize>> = HashMap::new();
    for name in all.args.iter().map(|param| &param.parameter.name) {
        if let Some(first) = seen.insert(name.as_str(), span(name)) {
            let message = format!("`{name}` is defined twice");
            let again = Diagnostic::new(span(name), message).label("again here").other(first, "first here");
            return Err(again.help("rename the second one"));
        }
    }
    let starred = all.vararg.as_deref().or(all.kwarg.as_deref()).map(span);
    let special = all.posonlyargs.first().or(all.kwonlyargs.first()).map(span);
    let default = all.args.iter().find_map(|param| param.default.as_deref()).map(span);
    match starred.or(special).or(default) {
        Some(at) => Err(Diagnostic::new(at, "the parameters of the function must be plain")
            .help("do not use `/`, `*`, `**` or default values")),
        None => Ok(()),
    }
}

impl<'a> FnReader<'a> {
    pub(crate) fn new(scope: &'a Scope<'a>) -> FnReader<'a> {
        FnReader {
            scope,
            b: BodyBuilder::new(),
            locals: HashMap::default(),
            scopes: vec![Vec::new()],
            blocks: vec![Open::No],
            in_dataflow: false,
            outputs: Vec::new(),
            syms: HashMap::default(),
            index_syms: HashMap::default(),
            implicit_syms: false,
            types: HashMap::default(),
            named_dims: HashMap::default(),
            exact_shapes: false,
            speaks_of_values: false,
            calls: HashMap::default(),
            globals: HashMap::default(),
            attrs: HashMap::default(),
            attrs_op: HashMap::default(),
            operators: HashMap::default(),
            func_attrs: Vec::new(),
            public: None,
            pure: Vec::new(),
            local_type_vars: HashSet::default(),
            modules: HashSet::from_iter(["cls", scope.class]),
            opaque: HashSet::default(),
            later: HashSet::default(),
            scalars: HashMap::default(),
            parts: 0,
        }
    }

    /// Returns the type of a function as seen by callers, and its number of symbolic variables.
    pub(crate) fn signature(def: &'a StmtFunctionDef, scope: &Scope<'a>) -> Read<(Type, u32)> {
        let facts = decorator(def)?;
        let mut reader = FnReader::new(scope);
        reader.local_type_vars.extend(type_params(def)?);
        let mut params = Vec::new();
        for param in &def.parameters.args {
            let ty = reader.param_type(&param.parameter)?;
            params.push(reader.param_symbol(&param.parameter, ty, 0)?);
        }
        let ret = match &def.returns {
            Some(ret) => reader.ty(ret)?,
            None => Type::Object,
        };
        let ty = Type::callable(Some(params), ret, facts.pure);
        Ok((ty, reader.syms.len() as u32))
    }

    /// Returns the body of an external function, its type, and the number of symbolic variables in the type.
    pub(crate) fn extern_function(value: &'a Expr, scope: &'a Scope<'a>) -> Read<(Body, Type, u32)> {
        let mut reader = FnReader::new(scope);
        let (symbol, ty) = match value {
            Expr::Call(call) if is_path(&call.func, &["R", "ExternFunc"]) && call.arguments.keywords.is_empty() => {
                match &*call.arguments.args {
                    [Expr::StringLiteral(symbol)] => (symbol, Some(Type::opaque_callable())),
                    [Expr::StringLiteral(symbol), ty] => (symbol, reader.extern_type(ty)?),
                    _ => return Err(Diagnostic::new(span(value), "expected `R.ExternFunc(\"symbol\")`")),
                }
            }
            _ => return Err(Diagnostic::new(span(value), "expected `R.ExternFunc(\"symbol\")`")),
        };
        let id = ty.as_ref().map_or(TypeId::NONE, |ty| reader.b.ty(ty));
        let callee = reader.b.extern_func(symbol.value.to_str(), id);
        reader.b.node(NodeSpec::new(kind::EXTERN).ty(id), &[callee], None);
        let n_syms = reader.syms.len() as u32;
        let body = reader.b.finish().map_err(|error| sealed(&error, span(value)))?;
        Ok((body, ty.unwrap_or_else(Type::opaque_callable), n_syms))
    }

    /// Reads the type of an external function; `None` if it is unknown according to the metadata.
    fn extern_type(&mut self, expr: &'a Expr) -> Read<Option<Type>> {
        match self.scope.metadata(expr)? {
            Some(Object::Type) => Ok(None),
            Some(_) => Err(Diagnostic::new(span(expr), "expected a type")),
            None => {
                self.implicit_syms = true;
                let ty = self.ty(expr);
                self.implicit_syms = false;
                ty.map(Some)
            }
        }
    }

    fn param_type(&mut self, param: &ruff_python_ast::Parameter) -> Read<Type> {
        match &param.annotation {
            Some(annotation) => self.ty(annotation),
            None => Err(Diagnostic::new(span(&param.name), format!("parameter `{}` needs a type", param.name))
                .help("R.Tensor((1, n), dtype=\"float32\")")),
        }
    }

    /// Turns a scalar parameter into a symbolic variable. Reuses the variable if the signature, whose variables start
    /// at `first`, already mentioned the name.
    fn param_symbol(&mut self, param: &ruff_python_ast::Parameter, ty: Type, first: u32) -> Read<Type> {
        let Type::Prim { dtype, value: None } = ty else { return Ok(ty) };
        let name = param.name.as_str();
        let sym = match self.syms.get(name).copied().filter(|sym| sym.id >= first) {
            Some(sym) if sym.dtype == dtype => sym,
            Some(sym) => {
                let message = format!("`{name}` is {dtype} here, but a dimension of type {} before", sym.dtype);
                return Err(Diagnostic::new(span(&param.name), message).help("rename one of them"));
            }
            None => self.b.sym(name, dtype),
        };
        self.know_sym(name, sym);
        Ok(Type::Prim { dtype, value: Some(Dim::Var(sym)) })
    }

    /// Binds a name to a symbolic variable, and drops cached source that mentions it.
    fn know_sym(&mut self, name: &str, sym: Sym) {
        if self.syms.insert(name.to_string(), sym).is_some_and(|before| before != sym) {
            self.types.clear();
            self.attrs.clear();
        }
    }

    /// Reads a function of the module.
    pub(crate) fn function(def: &'a StmtFunctionDef, scope: &'a Scope<'a>) -> Read<Body> {
        let mut reader = FnReader::new(scope);
        reader.define_function(def, None)?;
        let at = span(&def.name);
        reader.b.finish().map_err(|error| sealed(&error, at))
    }

    /// Reads a function of the module (`name` is `None`) or a nested function.
    fn define_function(&mut self, def: &'a StmtFunctionDef, name: Option<(&'a str, u16)>) -> Read<V> {
        let facts = decorator(def)?;
        let mut flags = if facts.private { flag::PRIVATE } else { 0 };
        if name.is_none() && !facts.private {
            self.public = Some(def.name.as_str());
        }
        flags |= if facts.pure { 0 } else { flag::IMPURE };
        flags |= name.map_or(0, |(_, flags)| flags);
        let function = self.b.begin_function(flags, AttrsId::NONE, name.map(|(name, _)| name));
        let outer_dataflow = std::mem::replace(&mut self.in_dataflow, false);
        // The symbolic variables of a local function, and the cached types, are valid only inside it.
        let outer = name.is_some().then(|| (self.syms.clone(), std::mem::take(&mut self.types)));
        let own_type_vars: Vec<&str> = type_params(def)?;
        let own_type_vars: Vec<&str> = own_type_vars.into_iter().filter(|n| self.local_type_vars.insert(n)).collect();
        let first_sym = self.b.n_syms();
        self.pure.push(facts.pure);
        self.enter();
        self.func_attrs.push(Vec::new());
        let params = self.params(def, first_sym)?;
        let known: Vec<u32> = self.syms.values().map(|sym| sym.id).collect();
        let declared = match &def.returns {
            Some(ret) => Some(self.result_type(ret, &known)?),
            None => self.scope.again.result.clone().filter(|_| name.is_none()),
        };
        if let (Some((name, _)), Some(ret)) = (name, &declared)
            && !def.parameters.args.iter().any(|param| param.parameter.name.as_str() == name)
        {
            // A local function with a declared result type can call itself.
            let ty = self.b.ty(&Type::callable(Some(params), ret.clone(), facts.pure));
            self.b.set_type(function, ty);
            self.define(name, function, span(&def.name));
        }
        let (last, front) = result_and_rest(def)?;
        for stmt in front {
            self.statement(stmt, Some(function))?;
        }
        let Some(value) = &last.value else {
            return Err(Diagnostic::new(span(last), "expected a value after `return`"));
        };
        self.close_block();
        let result = self.operand(value, None)?;
        let ret = self.return_type(declared, result, &known, def)?;
        self.b.end_function(result, ret);
        self.func_attrs.pop();
        self.pure.pop();
        self.leave();
        if let Some((syms, types)) = outer {
            (self.syms, self.types) = (syms, types);
        }
        own_type_vars.iter().for_each(|name| {
            self.local_type_vars.remove(name);
        });
        self.in_dataflow = outer_dataflow;
        Ok(function)
    }

    /// Reads the parameters of a function, with the symbolic variables that they define. Returns their types.
    fn params(&mut self, def: &'a StmtFunctionDef, first_sym: u32) -> Read<Vec<Type>> {
        let mut params = Vec::new();
        for param in &def.parameters.args {
            let ty = self.param_type(&param.parameter)?;
            let ty = self.param_symbol(&param.parameter, ty, first_sym)?;
            let id = self.b.ty(&ty);
            let v = self.b.param(param.parameter.name.as_str(), id);
            if let Type::Prim { value: Some(Dim::Var(sym)), .. } = ty {
                self.scalars.insert(v, sym);
            }
            self.define(param.parameter.name.as_str(), v, span(&param.parameter.name));
            params.push(ty);
        }
        Ok(params)
    }

    /// Reads a declared result type, which may mention the symbolic variables `known` at the start of the function.
    fn result_type(&mut self, ret: &'a Expr, known: &[u32]) -> Read<Type> {
        let ty = self.ty(ret)?;
        let mut unknown = None;
        crate::print::each_free_sym(&ty, &mut |sym| {
            if !known.contains(&sym.id) {
                unknown = Some(sym);
            }
        });
        let name = unknown.and_then(|sym| self.syms.iter().find(|(_, known)| **known == sym)).map(|(name, _)| name);
        match name {
            None => Ok(ty),
            Some(name) => {
                let message =
                    format!("the result uses the symbolic variable `{name}`, which the parameters do not define");
                Err(Diagnostic::new(span(ret), message)
                    .help("use it in the type of a parameter, or use a less specific type: R.Tensor(ndim=2)"))
            }
        }
    }

    /// Returns the result type; `known` are the symbolic variables defined at the start of the function.
    fn return_type(&mut self, declared: Option<Type>, result: V, known: &[u32], def: &StmtFunctionDef) -> Read<TypeId> {
        let found = self.b.type_of(result);
        let Some(declared) = declared else {
            // Outside the function, only the symbolic variables of the parameters are known.
            let seen = seen_outside(self.b.type_owned(found), &|sym| !known.contains(&sym.id));
            return Ok(self.b.ty(&seen));
        };
        let id = self.b.ty(&declared);
        if found != TypeId::NONE
            && id != found
            && let Relation::Contradicts(why) = relation(&declared, &self.b.type_owned(found))
        {
            let at = def.returns.as_ref().map_or(span(&def.name), |ret| span(&**ret));
            // TVM accepts functions with this contradiction, and some of its passes create them, so the declaration is
            // kept.
            let message = format!("the declared result type contradicts the returned value: {why}");
            let at_start = at.start;
            self.scope
                .contradictions
                .borrow_mut()
                .insert(at_start, Diagnostic::new(at, message).label("declared here"));
        }
        Ok(id)
    }

    fn statement(&mut self, stmt: &'a Stmt, function: Option<V>) -> Read<()> {
        match stmt {
            Stmt::Assign(assign) => match assign.targets.as_slice() {
                [Expr::Name(name)] => self.assign(name.id.as_str(), span(name), None, &assign.value),
                [target @ (Expr::Tuple(_) | Expr::List(_))] => self.unpack(target, &assign.value),
                [_] => Err(unexpected(stmt, "one variable, or several, to the left of `=`")),
                _ => Err(unexpected(stmt, "one `=`; write a binding for each variable")),
            },
            Stmt::AnnAssign(assign) => match (&*assign.target, &assign.value) {
                (Expr::Name(name), Some(value)) => {
                    self.assign(name.id.as_str(), span(name), Some(&assign.annotation), value)
                }
                _ => Err(unexpected(stmt, "`name: type = value`")),
            },
            Stmt::Expr(expr) => self.expression_statement(&expr.value, function),
            Stmt::With(with) => self.dataflow(with),
            Stmt::If(branch) => self.if_(branch),
            Stmt::Pass(_) => Ok(()),
            Stmt::FunctionDef(def) => {
                self.open_block();
                let flags = if self.in_dataflow { flag::INNER } else { 0 };
                self.no_local(def.name.as_str(), span(&def.name))?;
                let v = self.define_function(def, Some((def.name.as_str(), flags)))?;
                self.define(def.name.as_str(), v, span(&def.name));
                Ok(())
            }
            Stmt::Return(_) => Err(unexpected(stmt, "`return` at the end of the function only")),
            _ => Err(unexpected(stmt, "a binding, `with R.dataflow():`, `if`, a nested function or `return`")),
        }
    }

    fn expression_statement(&mut self, expr: &'a Expr, function: Option<V>) -> Read<()> {
        if let Expr::Call(call) = expr {
            match path_after(self.scope.text, &call.func, "R") {
                Some("func_attr") => {
                    let (Some(function), [dict]) = (function, &*call.arguments.args) else {
                        return Err(Diagnostic::new(span(call), "`R.func_attr({...})` is only allowed in a function"));
                    };
                    let mut entries = self.func_attrs.last().cloned().unwrap_or_default();
                    for (key, value) in self.attr_dict(dict)? {
                        if entries.iter().any(|(known, _)| *known == key) {
                            let message = format!("function attribute `{key}` is given twice");
                            return Err(Diagnostic::new(span(dict), message).help("remove one of them"));
                        }
                        // The `global_symbol` of a public function is implied by its name.
                        let public = self.public.filter(|_| self.func_attrs.len() == 1 && !self.scope.as_written);
                        if !is_implied(&key, &value, public) {
                            entries.push((key, value));
                        }
                    }
                    let attrs = self.b.attrs(entries.iter().map(|(k, v): &(String, Attr)| (k.as_str(), v.clone())));
                    if let Some(last) = self.func_attrs.last_mut() {
                        *last = entries;
                    }
                    self.b.set_attrs(function, attrs);
                    return Ok(());
                }
                Some("output") => {
                    return Err(Diagnostic::new(
                        span(call),
                        "`R.output` must be the last statement of a dataflow block",
                    ));
                }
                _ => {}
            }
        }
        if expr.is_string_literal_expr() {
            return Err(Diagnostic::new(span(expr), "a string is not a statement").help("write it as a comment"));
        }
        self.bind("_", span(expr), None, expr)
    }

    fn assign(&mut self, name: &'a str, at: Range<usize>, annotation: Option<&'a Expr>, value: &'a Expr) -> Read<()> {
        if self.declares(name, annotation, value)? {
            return Ok(());
        }
        self.bind(name, at, annotation, value)
    }

    /// Reads a statement that declares a name but is not a binding.
    fn declares(&mut self, name: &'a str, annotation: Option<&'a Expr>, value: &'a Expr) -> Read<bool> {
        if annotation.is_none() && is_name(value, self.scope.class) {
            self.modules.insert(name);
            return Ok(true);
        }
        if let Expr::Call(call) = value
            && is_name(&call.func, "TypeVar")
        {
            accept(call, 1, &[], "n = TypeVar(\"n\")")?;
            // Above a local function, the statement only declares a name. Each function whose signature mentions the
            // name gets a separate variable.
            self.local_type_vars.insert(name);
            return Ok(true);
        }
        if annotation.is_none()
            && let Some(dtype) = sym_declaration(self.scope.text, value)
        {
            if dtype != DType::I64 {
                let message = format!("a symbolic variable in Relax must be int64, found {dtype}");
                return Err(Diagnostic::new(span(value), message).help(format!("{name} = T.int64()")));
            }
            // `n = T.int64()` may follow a signature that mentions `n`; it is the same variable.
            if self.known_sym(name).is_none() {
                self.new_sym(name, dtype);
            }
            return Ok(true);
        }
        Ok(false)
    }

    /// Reads one binding.
    fn bind(&mut self, name: &'a str, at: Range<usize>, annotation: Option<&'a Expr>, value: &'a Expr) -> Read<()> {
        let v = self.bind_unseen(name, &at, annotation, value)?;
        self.define(name, v, at);
        Ok(())
    }

    /// Reads a binding whose name is not yet defined.
    fn bind_unseen(
        &mut self,
        name: &'a str,
        at: &Range<usize>,
        annotation: Option<&'a Expr>,
        value: &'a Expr,
    ) -> Read<V> {
        self.open_block();
        let v = match self.bound_number(annotation, value)? {
            Some(number) => number,
            None => self.bound(value)?,
        };
        self.bind_here(name, at, v, annotation)
    }

    /// Binds a value in the open block.
    pub(crate) fn bind_here(&mut self, name: &str, at: &Range<usize>, v: V, annotation: Option<&'a Expr>) -> Read<V> {
        let v = self.bind_value(name, v, annotation)?;
        self.name_scalar(v, name);
        if self.in_dataflow {
            self.b.add_flags(v, flag::INNER);
        }
        self.count_parts(v, at)?;
        Ok(v)
    }

    /// Limits the total size of the types of all bindings, because each type is printed.
    fn count_parts(&mut self, v: V, at: &Range<usize>) -> Read<()> {
        self.parts += u64::from(self.b.type_size(self.b.type_of(v)).0);
        let most = (1 << 20) + 100 * self.scope.text.len() as u64;
        if self.parts <= most {
            return Ok(());
        }
        let message = format!("the types of all bindings up to this one have more than {most} parts when written out");
        Err(Diagnostic::new(at.clone(), message).help("bind fewer large tuples"))
    }

    /// Reads the declared type of a binding, and compares it with the inferred type. The second result is true if
    /// both are equal.
    fn declared(&mut self, name: &str, v: V, annotation: &'a Expr) -> Read<(TypeId, bool)> {
        let (id, found_id) = (self.type_id(annotation)?, self.b.type_of(v));
        if id == found_id || self.opaque.contains(&v) {
            return Ok((id, true));
        }
        let found = if found_id == TypeId::NONE { Type::Object } else { self.b.type_owned(found_id) };
        match relation(&self.b.type_owned(id), &found) {
            Relation::Contradicts(_) if self.scope.options.unchecked => Ok((id, true)),
            Relation::Contradicts(why) => {
                let message = format!("the declared type contradicts inference: {why}");
                Err(Diagnostic::new(span(annotation), message)
                    .label("declared here")
                    .help(format!("inferred: {}", crate::print::type_text(&found))))
            }
            // As in TVM, only a call may be declared with a less precise type, or with the same type in a different
            // form.
            Relation::Equal | Relation::Wider if v.is_leaf() || self.is_bound(v) || self.b.kind(v) != kind::CALL => {
                Ok((found_id, true))
            }
            Relation::Equal => Ok((id, true)),
            Relation::Wider if self.is_output(name) && self.without_inner(&found) == self.b.type_owned(id) => {
                Ok((id, true))
            }
            _ => Ok((id, false)),
        }
    }

    fn is_output(&self, name: &str) -> bool {
        self.in_dataflow && self.outputs.contains(&name)
    }

    /// Removes shapes with scalars of the dataflow block from a type, such as the type of an output.
    fn without_inner(&self, ty: &Type) -> Type {
        let is_inner = |v: &V| !v.is_leaf() && self.b.flags(*v) & flag::INNER != 0;
        let inner: Vec<u32> = self.scalars.iter().filter(|(v, _)| is_inner(v)).map(|(_, sym)| sym.id).collect();
        erase_unbound(ty, &|sym| inner.contains(&sym.id))
    }

    fn is_bound(&self, v: V) -> bool {
        !v.is_leaf() && self.b.flags(v) & flag::BOUND != 0
    }

    /// Returns true if a value calls a function without an earlier declared result type.
    fn calls_later(&self, v: V) -> bool {
        let callee = self.b.operand_words(v).first().map(|word| self.b.value_of_word(*word));
        self.b.kind(v) == kind::CALL && callee.is_some_and(|callee| self.later.contains(&callee))
    }

    fn bind_value(&mut self, name: &str, v: V, annotation: Option<&'a Expr>) -> Read<V> {
        let nested = !v.is_leaf() && !self.is_bound(v);
        let (ty, same) = match annotation {
            Some(annotation) => self.declared(name, v, annotation)?,
            None if nested && self.calls_later(v) => {
                let any = self.b.ty(&Type::Object);
                (any, any == self.b.type_of(v))
            }
            None => (self.b.type_of(v), true),
        };
        if nested && same {
            self.b.set_type(v, ty);
            self.b.bind(v, name);
            return Ok(v);
        }
        Ok(self.b.node(NodeSpec::new(kind::ALIAS).ty(ty), &[v], Some(name)))
    }
}

/// Returns the `return` that ends a function, and the statements before it.
fn result_and_rest(def: &StmtFunctionDef) -> Read<(&StmtReturn, &[Stmt])> {
    if let Some((Stmt::Return(last), front)) = def.body.split_last() {
        return Ok((last, front));
    }
    if let Some(at) = def.body.iter().position(Stmt::is_return_stmt) {
        let message = "a statement after `return`";
        return Err(Diagnostic::new(span(&def.body[at + 1]), message)
            .other(span(&def.body[at]), "the function ends here")
            .help("remove it, or move it in front of the `return`"));
    }
    let at = def.body.last().map_or(span(&def.name), span);
    let message = format!("function `{}` does not end in `return`", def.name);
    Err(Diagnostic::new(at, message).help("end it with `return` and a value"))
}
