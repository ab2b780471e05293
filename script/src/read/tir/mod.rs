//! Reads TIR functions: signature and scopes.

mod arith;
mod assign;
mod buffer;
mod call;
mod dtypes;
mod expr;
mod matched;
mod python;
mod reader;
mod stmt;
mod sugar;
mod view;

pub(super) use python::python_int;
pub(super) use reader::TirReader;

use crate::read::func::is_implied;
use crate::read::reader::FnReader;
use crate::read::scope::Scope;
use crate::read::tir::buffer::BufferFacts;
use crate::read::tir::reader::{E, HERE, Is, Mark, Matched};
use crate::read::top::flags;
use crate::words::diagnostic::Diagnostic;
use crate::words::dtypes::dtype_named;
use crate::words::syntax::{Read, is_path, path_after, sealed, span};
use passhost_lang::ir::records::{flag, kind};
use passhost_lang::ir::{Attr, AttrsId, Body, BodyBuilder, DType, Dim, NodeSpec, Sym, Type, TypeId, V};
use passhost_lang::names::{did_you_mean, nearest};
use passhost_lang::tir::regions::complete_regions;
use ruff_python_ast::{Expr, ExprCall, Stmt, StmtFunctionDef};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// Greatest number of errors reported for one function.
const MAX_FAULTS: usize = 20;

/// Returns true for a TIR function, judging by the decorator.
pub(super) fn is_prim_func(def: &StmtFunctionDef) -> bool {
    def.decorator_list.first().is_some_and(|decorator| {
        let path = match &decorator.expression {
            Expr::Call(call) => &call.func,
            path => path,
        };
        is_path(path, &["T", "prim_func"])
    })
}

/// Returns an unreported error, which merely follows from an earlier error.
pub(super) fn silent(at: Range<usize>) -> Diagnostic {
    Diagnostic::new(at, "")
}

impl<'a> TirReader<'a> {
    /// Reads a TIR function of the module.
    pub(super) fn function(def: &'a StmtFunctionDef, scope: &'a Scope<'a>) -> Result<Body, Vec<Diagnostic>> {
        let text = scope.text.get(span(def)).unwrap_or("");
        let mut reader = TirReader {
            scope,
            b: BodyBuilder::new(),
            names: HashMap::default(),
            log: Vec::new(),
            block: 0,
            type_params: Vec::new(),
            public: None,
            syms: HashMap::default(),
            sym_of: BTreeMap::new(),
            declared: HashMap::default(),
            literals: HashMap::default(),
            prim_types: HashMap::default(),
            loops: BTreeMap::new(),
            in_signature: true,
            runs: Vec::new(),
            s_tir: false,
            old: text.contains("T.block("),
            func_attrs: Vec::new(),
            root: None,
            matched: HashMap::new(),
            unsaid: false,
            faults: Vec::new(),
            poisoned: Vec::new(),
        };
        reader.s_tir = reader.old;
        let read = reader.define(def);
        if let Err(fault) = read {
            reader.faults.push(fault);
        }
        reader.faults.retain(|fault| !fault.message.is_empty());
        if !reader.faults.is_empty() {
            reader.faults.truncate(MAX_FAULTS);
            return Err(reader.faults);
        }
        let body = reader.b.finish();
        let body = body.and_then(|body| if reader.unsaid { complete_regions(&body) } else { Ok(body) });
        body.map_err(|error| vec![sealed(&error, span(&def.name))])
    }

    fn define(&mut self, def: &'a StmtFunctionDef) -> Read<()> {
        let private = self.decorator(def)?;
        crate::read::func::plain_parameters(def)?;
        self.type_params = crate::read::func::type_params(def)?;
        self.public = (!private).then_some(def.name.as_str());
        let ret = match def.returns.as_deref() {
            Some(Expr::NoneLiteral(_)) | None => TypeId::NONE,
            Some(ret) => self.value_type(ret)?.0,
        };
        let flags = if private { flag::PRIVATE } else { 0 };
        let root = self.b.begin(NodeSpec::new(kind::PRIM_FUNC).flags(flags).ty(ret), &[], None);
        self.root = Some(root);
        if self.s_tir {
            self.func_attrs.push(("s_tir".to_string(), Attr::Bool(true)));
        }
        self.set_func_attrs();
        self.matched = self.matched_handles(def);
        self.declarations_ahead(def);
        for param in &def.parameters.args {
            let (name, at) = (param.parameter.name.as_str(), span(&param.parameter.name));
            let Some(annotation) = param.parameter.annotation.as_deref() else {
                return Err(Diagnostic::new(at, format!("parameter `{name}` lacks a type"))
                    .help("T.Buffer((n, 16), \"float32\"), T.handle, T.int32"));
            };
            match self.matched.get(name).copied() {
                Some(Matched { name, call }) => {
                    let facts = BufferFacts { wide_strides: true, without_bytes: true, ..BufferFacts::default() };
                    self.buffer_param(name, call, 1, facts)?;
                }
                None => self.param(name, annotation)?,
            }
        }
        self.in_signature = false;
        let matched: Vec<&Stmt> = def.body.iter().filter(|stmt| !self.is_of_parameter(stmt)).collect();
        self.body(matched);
        self.b.end();
        Ok(())
    }

    /// Reads the decorator. Returns true if the function is private.
    fn decorator(&mut self, def: &'a StmtFunctionDef) -> Read<bool> {
        let mut private = false;
        if let Some(second) = def.decorator_list.get(1) {
            return Err(Diagnostic::new(span(second), "a second decorator").help("a function has exactly one"));
        }
        let names = ["private", "s_tir", "check_well_formed"];
        for (name, value) in
            def.decorator_list.first().map_or(Ok(Vec::new()), |first| flags(&first.expression, &names))?
        {
            match name {
                "private" => private = value,
                "s_tir" => self.s_tir = value,
                _ => {}
            }
        }
        Ok(private)
    }

    /// Collects variables declared by later parameters or the head of the body, because shapes in the signature
    /// may mention them.
    fn declarations_ahead(&mut self, def: &'a StmtFunctionDef) {
        for param in &def.parameters.args {
            let annotation = param.parameter.annotation.as_deref();
            let dtype = annotation.and_then(|annotation| path_after(self.scope.text, annotation, "T"));
            if let Some(dtype) = dtype.and_then(dtype_named) {
                self.declared.insert(param.parameter.name.as_str(), dtype);
            }
        }
        for stmt in &def.body {
            let assign = match stmt {
                stmt if self.is_of_parameter(stmt) => continue,
                Stmt::Assign(assign) => assign,
                // Attributes, and docstrings.
                Stmt::Expr(_) => continue,
                _ => break,
            };
            let [target] = assign.targets.as_slice() else { break };
            let pairs: Vec<(&Expr, &Expr)> = match (target, &*assign.value) {
                (Expr::Tuple(names), Expr::Tuple(values)) => names.elts.iter().zip(&values.elts).collect(),
                (name, value) => vec![(name, value)],
            };
            for (name, value) in pairs {
                let (Expr::Name(name), Some(dtype)) =
                    (name, crate::read::arguments::sym_declaration(self.scope.text, value))
                else {
                    return;
                };
                self.declared.entry(name.id.as_str()).or_insert(dtype);
            }
        }
    }

    fn param(&mut self, name: &'a str, annotation: &'a Expr) -> Read<()> {
        if let Expr::Call(call) = annotation
            && matches!(path_after(self.scope.text, &call.func, "T"), Some("Buffer" | "buffer"))
        {
            return self.buffer_param(name, call, 0, BufferFacts::default());
        }
        let (mut ty, dtype) = self.value_type(annotation)?;
        let sym = self.syms.get(name).copied();
        if let Some(sym) = sym {
            ty = self.b.ty(&Type::Prim { dtype, value: Some(Dim::Var(sym)) });
        }
        let v = self.b.param(name, ty);
        if let Some(sym) = sym {
            self.sym_of.insert(v.word(), sym);
        }
        self.define_name(name, E { v, ty, dtype, is: Is::Value, end: HERE });
        Ok(())
    }

    /// Reads a parameter that is a buffer.
    fn buffer_param(&mut self, name: &'a str, call: &'a ExprCall, skip: usize, facts: BufferFacts) -> Read<()> {
        let (buffer, extras) = self.buffer_type(call, skip, facts)?;
        let ty = self.b.ty(&Type::Buffer(buffer.clone()));
        let v = self.b.node(NodeSpec::new(kind::PARAM).ty(ty), &extras, Some(name));
        let is = self.is_scalar(&buffer, None);
        self.define_name(name, E { v, ty, dtype: buffer.dtype, is, end: HERE });
        Ok(())
    }

    pub(super) fn set_func_attrs(&mut self) {
        let attrs = if self.func_attrs.is_empty() {
            AttrsId::NONE
        } else {
            self.b.attrs(self.func_attrs.iter().map(|(key, value)| (key.as_str(), value.clone())))
        };
        if let Some(root) = self.root {
            self.b.set_attrs(root, attrs);
        }
    }

    /// Reads an attribute that does not contain a value of the function.
    pub(super) fn plain_attr(&mut self, expr: &'a Expr) -> Read<Attr> {
        self.attributes(|reader| reader.attr(expr))
    }

    /// Reads a dict of such attributes.
    pub(super) fn plain_dict(&mut self, expr: &'a Expr) -> Read<Vec<(String, Attr)>> {
        self.attributes(|reader| reader.attr_dict(expr))
    }

    /// Reads attributes as in Relax; the variables of an index map become variables of this body.
    fn attributes<T>(&mut self, read: impl FnOnce(&mut FnReader<'a>) -> Read<T>) -> Read<T> {
        let mut reader = FnReader::new(self.scope);
        std::mem::swap(&mut reader.b, &mut self.b);
        let found = read(&mut reader);
        std::mem::swap(&mut reader.b, &mut self.b);
        found
    }

    pub(super) fn func_attr(&mut self, dict: &'a Expr) -> Read<()> {
        for (key, value) in self.plain_dict(dict)? {
            if self.func_attrs.iter().any(|(known, _)| *known == key) {
                let message = format!("function attribute `{key}` is given twice");
                return Err(Diagnostic::new(span(dict), message).help("remove one of them"));
            }
            // The `global_symbol` of a public function is implied by its name.
            let implied = !self.scope.as_written && is_implied(&key, &value, self.public);
            if !implied {
                self.func_attrs.push((key, value));
            }
        }
        self.set_func_attrs();
        Ok(())
    }

    /// Reads the statements of one scope. Reports errors, and continues with the remaining statements.
    pub(super) fn body(&mut self, stmts: impl IntoIterator<Item = &'a Stmt>) {
        let (mark, depth) = (self.mark(), self.b.depth());
        for stmt in stmts {
            let inner = self.b.depth();
            self.settle();
            if let Err(fault) = self.statement(stmt) {
                if self.faults.len() < MAX_FAULTS {
                    self.faults.push(fault);
                }
                self.poison(stmt);
                while self.b.depth() > inner {
                    self.b.end();
                }
            }
        }
        self.settle();
        // Ends attributes and threads, which apply to the rest of the scope.
        while self.b.depth() > depth {
            self.b.end();
        }
        self.leave(mark);
    }

    fn poison(&mut self, stmt: &'a Stmt) {
        let mut add = |target: &'a Expr| match target {
            Expr::Name(name) => self.poisoned.push(name.id.as_str()),
            Expr::Tuple(names) => {
                self.poisoned.extend(names.elts.iter().filter_map(|name| Some(name.as_name_expr()?.id.as_str())));
            }
            _ => {}
        };
        match stmt {
            Stmt::Assign(assign) => assign.targets.iter().for_each(add),
            Stmt::AnnAssign(assign) => add(&assign.target),
            Stmt::For(stmt) => add(&stmt.target),
            _ => {}
        }
    }

    /// Returns the variable or expression that a symbolic variable represents.
    pub(super) fn node_of(&self, sym: Sym) -> Option<V> {
        let words = self.sym_of.iter().filter(|(_, known)| **known == sym).map(|(word, _)| *word);
        words.min().map(|word| self.b.value_of_word(word))
    }

    pub(super) fn mark(&self) -> Mark {
        Mark(self.log.len())
    }

    pub(super) fn leave(&mut self, mark: Mark) {
        for (name, before) in self.log.drain(mark.0..).rev() {
            match before {
                Some(before) => self.names.insert(name, before),
                None => self.names.remove(name),
            };
        }
    }

    /// Starts the names of a schedulable block. Returns the value to be passed when the block ends.
    pub(super) fn enter_block(&mut self) -> usize {
        std::mem::replace(&mut self.block, self.log.len())
    }

    pub(super) fn leave_block(&mut self, outer: usize) {
        self.block = outer;
    }

    /// Returns true if the innermost schedulable block has an iterator with this name.
    pub(super) fn has_iter(&self, name: &str) -> bool {
        let own = self.log.get(self.block..).unwrap_or(&[]).iter().any(|(defined, _)| *defined == name);
        own && self.known(name).is_some_and(|e| self.b.kind(e.v) == kind::ITER_VAR)
    }

    pub(super) fn define_name(&mut self, name: &'a str, e: E) {
        let before = self.names.insert(name, e);
        self.log.push((name, before));
    }

    pub(super) fn known(&self, name: &str) -> Option<E> {
        self.names.get(name).copied()
    }

    pub(super) fn unknown(&self, name: &str, at: Range<usize>) -> Diagnostic {
        if self.poisoned.contains(&name) {
            return silent(at);
        }
        let near = did_you_mean(&nearest(name, self.names.keys().copied()));
        Diagnostic::new(at, format!("undefined variable `{name}`{near}"))
            .help(format!("define it before its use; a free variable is written `{name} = T.int32()`"))
    }

    /// Returns the value or buffer with a name.
    pub(super) fn lookup(&mut self, name: &str, at: Range<usize>) -> Read<E> {
        if let Some(e) = self.known(name) {
            return Ok(e);
        }
        let known = self.syms.get(name).copied();
        match known {
            Some(sym) => {
                let v = self.b.scalar(&Dim::Var(sym));
                Ok(E { v, ty: self.b.type_of(v), dtype: sym.dtype, is: Is::Value, end: HERE })
            }
            None => Err(self.unknown(name, at)),
        }
    }

    /// Returns the type of scalars of a data type.
    pub(super) fn prim_type(&mut self, dtype: DType) -> TypeId {
        if !dtype.is_known() {
            return TypeId::NONE;
        }
        let b = &mut self.b;
        *self.prim_types.entry(dtype.0).or_insert_with(|| b.ty(&Type::Prim { dtype, value: None }))
    }

    /// Returns the symbolic variable that represents a scalar variable in shapes.
    pub(super) fn sym_for(&mut self, name: &str, e: E) -> Sym {
        if let Some(sym) = self.sym_of.get(&e.v.word()) {
            return *sym;
        }
        let sym = self.b.sym(name, e.dtype);
        let ty = self.b.ty(&Type::Prim { dtype: e.dtype, value: Some(Dim::Var(sym)) });
        self.b.set_type(e.v, ty);
        self.sym_of.insert(e.v.word(), sym);
        sym
    }
}
