//! Converts Python objects to a function of the host.

use crate::errors::ill_formed;
use crate::ir::classes::{Classes, Kind, classes};
use crate::ir::expand::CALL_PACKED;
use crate::ir::types::{Draft, dtype};
use crate::ir::{attrs, constants};
use crate::module::Body;
use passhost::Engine;
use passhost::plugin_api::ir::import::Importer;
use passhost::plugin_api::ir::records::{flag, kind};
use passhost::plugin_api::ir::{self, Attr, AttrsId, BodyKind, DType, Dim, NodeSpec, Type, TypeId, V};
use passhost::plugin_api::metadata::OpInfo;
use passhost::plugin_api::typing::operator_checks::{add_defaults, canonical_attr, takes_any_attributes};
use passhost::plugin_api::typing::operators::Infer;
use passhost::plugin_api::typing::relations::calls_are_pure;
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Maximum nesting depth of Python expressions.
const DEPTH: usize = 400;
/// Maximum number of expressions in one binding; shared expressions count repeatedly.
const MOST: usize = 1 << 18;

/// Builds a body from Python objects.
pub(crate) struct Sealer {
    pub(crate) draft: Draft,
    pub(crate) engine: Arc<Engine>,
    /// Visible variables, by the address of their object, which is kept alive.
    values: HashMap<usize, (Py<PyAny>, V)>,
    /// Functions of the module: bodies, or types.
    globals: Option<Py<PyDict>>,
    global_vars: HashMap<String, V>,
    /// One variable per type, if variables need no definition.
    free: Option<HashMap<TypeId, V>>,
    /// Variables defined in each open scope.
    scopes: Vec<Vec<usize>>,
    defined: HashSet<usize>,
    in_dataflow: bool,
    pure: bool,
    left: usize,
}

/// Creates a Relax function under a name, in a module with these functions.
#[pyfunction]
pub(crate) fn seal(
    py: Python<'_>,
    function: &Bound<'_, PyAny>,
    name: Option<&str>,
    globals: Bound<'_, PyDict>,
) -> PyResult<Body> {
    let mut sealer = Sealer::new(crate::engine::current(py)?, false);
    sealer.globals = Some(globals.unbind());
    sealer.function(function, name, None, 0)?;
    sealer.draft.b.finish().map(Body).map_err(|error| ill_formed(py, &error.to_string()))
}

/// The context of an expression that becomes a binding.
#[derive(Clone, Copy)]
struct Bound1<'n> {
    name: &'n str,
    flags: u16,
    ty: TypeId,
}

impl Sealer {
    /// Creates an empty sealer. If variables are `free`, any variable is accepted by its type, even if it is not
    /// defined.
    pub(crate) fn new(engine: Arc<Engine>, free: bool) -> Sealer {
        Sealer {
            draft: Draft::default(),
            engine,
            values: HashMap::new(),
            globals: None,
            global_vars: HashMap::new(),
            free: free.then(HashMap::new),
            scopes: Vec::new(),
            defined: HashSet::new(),
            in_dataflow: false,
            pure: false,
            left: MOST,
        }
    }

    fn enter(&mut self) {
        self.scopes.push(Vec::new());
    }

    fn leave(&mut self) {
        for key in self.scopes.pop().unwrap_or_default() {
            self.values.remove(&key);
        }
    }

    /// Defines a variable as a value from here on.
    fn define(&mut self, var: &Bound<'_, PyAny>, v: V, inner: bool) -> PyResult<()> {
        let key = var.as_ptr() as usize;
        if !self.defined.insert(key) {
            let name: String = var.getattr("name")?.extract()?;
            return Err(ill_formed(var.py(), &format!("Var {name} is defined more than once")));
        }
        self.values.insert(key, (var.clone().unbind(), v));
        // Output variables of a dataflow block belong to the surrounding scope.
        let scope = self.scopes.len().saturating_sub(if self.in_dataflow && !inner { 2 } else { 1 });
        if let Some(scope) = self.scopes.get_mut(scope) {
            scope.push(key);
        }
        Ok(())
    }

    /// Returns the type of a variable; the type of a scalar identifies its symbolic variable.
    fn var_type(&mut self, var: &Bound<'_, PyAny>) -> PyResult<TypeId> {
        let ty = var.getattr(intern!(var.py(), "ty"))?;
        if classes(var.py())?.kind(&ty) == Some(Kind::PrimType)
            && let Dim::Var(sym) = self.draft.symbol(var)?
        {
            return Ok(self.draft.b.symbol_type(sym));
        }
        self.draft.ty(&ty)
    }

    /// Converts a function: the root, or a nested function, which has a binding.
    fn function(
        &mut self,
        function: &Bound<'_, PyAny>,
        name: Option<&str>,
        bound: Option<(Bound1<'_>, &Bound<'_, PyAny>)>,
        depth: usize,
    ) -> PyResult<V> {
        let py = function.py();
        let attrs = function.getattr("attrs")?;
        let symbol = attrs.call_method1("get", ("global_symbol",))?;
        let pure: bool = function.getattr("is_pure")?.extract()?;
        let mut flags = if pure { 0 } else { flag::IMPURE };
        if symbol.is_none() && bound.is_none() {
            flags |= flag::PRIVATE;
        }
        let same = name.is_none() || symbol.extract::<&str>().ok() == name;
        let attrs = self.function_attrs(&attrs, same)?;
        let header = self.draft.b.begin_function(
            flags | bound.map_or(0, |(bound, _)| bound.flags),
            attrs,
            bound.map(|(bound, _)| bound.name),
        );
        if let Some((_, var)) = bound {
            let ty = self.draft.ty(&function.getattr("ty")?)?;
            self.draft.b.set_type(header, ty);
            self.define(var, header, var.is_instance(classes(py)?.dataflow_var.bind(py))?)?;
        }
        let (outer_pure, outer_dataflow) = (std::mem::replace(&mut self.pure, pure), self.in_dataflow);
        self.in_dataflow = false;
        self.enter();
        for param in function.getattr("params")?.try_iter()? {
            self.param(&param?)?;
        }
        let result = self.sequence(&function.getattr("body")?, depth + 1)?;
        let ret = self.draft.ty(&function.getattr("ret_ty")?)?;
        let ret = if ret == TypeId::NONE { self.draft.b.type_of(result) } else { ret };
        self.draft.b.end_function(result, ret);
        self.leave();
        (self.pure, self.in_dataflow) = (outer_pure, outer_dataflow);
        Ok(header)
    }

    fn param(&mut self, param: &Bound<'_, PyAny>) -> PyResult<()> {
        let (name, ty): (String, TypeId) = (param.getattr("name")?.extract()?, self.var_type(param)?);
        let v = self.draft.b.param(&name, ty);
        self.define(param, v, true)
    }

    /// Opens a function with these parameters and one block, and converts a call in it.
    pub(crate) fn begin_call(&mut self, params: &[Bound<'_, PyAny>], call: &Bound<'_, PyAny>) -> PyResult<V> {
        self.draft.b.begin_function(flag::PRIVATE, AttrsId::NONE, None);
        self.enter();
        for param in params {
            self.param(param)?;
        }
        self.draft.b.begin_block();
        self.alone(call)
    }

    fn function_attrs(&mut self, attrs: &Bound<'_, PyAny>, without_symbol: bool) -> PyResult<AttrsId> {
        let entries = self.entries(attrs)?;
        let kept = entries.into_iter().filter(|(key, _)| !(without_symbol && key == "global_symbol"));
        let kept: Vec<(String, Attr)> = kept.collect();
        if kept.is_empty() {
            return Ok(AttrsId::NONE);
        }
        Ok(self.draft.b.attrs(kept.iter().map(|(key, value)| (key.as_str(), value.clone()))))
    }

    /// Converts the entries of attributes; None counts as empty.
    fn entries(&mut self, attrs: &Bound<'_, PyAny>) -> PyResult<Vec<(String, Attr)>> {
        if attrs.is_none() {
            return Ok(Vec::new());
        }
        let entries = attrs.getattr(intern!(attrs.py(), "_entries"))?;
        let entries = entries.cast_into::<PyDict>()?;
        entries.iter().map(|(key, value)| Ok((key.extract()?, attrs::sealed(&mut self.draft, &value, 0)?))).collect()
    }

    /// Converts blocks and their result into the open region.
    fn sequence(&mut self, seq: &Bound<'_, PyAny>, depth: usize) -> PyResult<V> {
        let py = seq.py();
        if classes(py)?.kind(seq) != Some(Kind::SeqExpr) {
            return self.expr(seq, depth);
        }
        for block in seq.getattr(intern!(py, "blocks"))?.try_iter()? {
            let block = block?;
            let dataflow = classes(py)?.kind(&block) == Some(Kind::DataflowBlock);
            if dataflow {
                self.draft.b.begin_dataflow();
                self.enter();
            } else {
                self.draft.b.begin_block();
            }
            let outer = std::mem::replace(&mut self.in_dataflow, dataflow);
            for binding in block.getattr(intern!(py, "bindings"))?.try_iter()? {
                self.binding(&binding?, depth)?;
            }
            self.in_dataflow = outer;
            self.draft.b.end();
            if dataflow {
                self.leave();
            }
        }
        self.expr(&seq.getattr(intern!(py, "body"))?, depth)
    }

    fn binding(&mut self, binding: &Bound<'_, PyAny>, depth: usize) -> PyResult<()> {
        let py = binding.py();
        let classes = classes(py)?;
        self.left = MOST;
        let var = binding.getattr(intern!(py, "var"))?;
        let value = binding.getattr(intern!(py, "value"))?;
        let name: String = var.getattr(intern!(py, "name"))?.extract()?;
        let inner = classes.kind(&var) == Some(Kind::DataflowVar);
        if inner && !self.in_dataflow {
            return Err(ill_formed(py, &format!("DataflowVar {name} is defined outside DataflowBlock")));
        }
        let bound = Bound1 { name: &name, flags: if inner { flag::INNER } else { 0 }, ty: self.var_type(&var)? };
        if classes.kind(binding) == Some(Kind::MatchCast) {
            let source = self.expr(&value, depth)?;
            let said = self.draft.ty(&binding.getattr(intern!(py, "ty"))?)?;
            let spec = NodeSpec::new(kind::MATCH_CAST).ty(if bound.ty == TypeId::NONE { said } else { bound.ty });
            let v = self.draft.b.node(spec.flags(bound.flags), &[source], Some(&name));
            return self.define(&var, v, inner);
        }
        if classes.kind(&value) == Some(Kind::Function) {
            return self.function(&value, None, Some((bound, &var)), depth).map(drop);
        }
        let v = self.bound(&value, bound, depth)?;
        self.define(&var, v, inner)
    }

    /// Converts an expression that becomes a binding.
    fn bound(&mut self, value: &Bound<'_, PyAny>, bound: Bound1<'_>, depth: usize) -> PyResult<V> {
        let v = self.expr(value, depth)?;
        let is_new = matches!(
            classes(value.py())?.kind(value),
            Some(Kind::Call | Kind::Tuple | Kind::TupleGetItem | Kind::If | Kind::SeqExpr)
        );
        if !is_new || v.is_leaf() || self.draft.b.flags(v) & flag::BOUND != 0 {
            let ty = if bound.ty == TypeId::NONE { self.draft.b.type_of(v) } else { bound.ty };
            return Ok(self.draft.b.node(NodeSpec::new(kind::ALIAS).ty(ty).flags(bound.flags), &[v], Some(bound.name)));
        }
        self.draft.b.bind(v, bound.name);
        self.draft.b.add_flags(v, bound.flags);
        if bound.ty != TypeId::NONE {
            self.draft.b.set_type(v, bound.ty);
        }
        Ok(v)
    }

    /// Converts an expression on its own.
    pub(crate) fn alone(&mut self, expr: &Bound<'_, PyAny>) -> PyResult<V> {
        self.left = MOST;
        self.expr(expr, 0)
    }

    /// Converts an expression at its use.
    pub(crate) fn expr(&mut self, expr: &Bound<'_, PyAny>, depth: usize) -> PyResult<V> {
        let py = expr.py();
        let classes: &Classes = classes(py)?;
        if depth > DEPTH {
            let why = format!("an expression is nested more than {DEPTH} deep: bind nested expressions to variables");
            return Err(ill_formed(py, &why));
        }
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            let why = "has too many expressions: bind those that are used more than once to variables";
            return Err(ill_formed(py, why));
        }
        match classes.kind(expr) {
            Some(Kind::Var | Kind::DataflowVar) => self.variable(expr),
            Some(Kind::Call) => self.call(expr, depth),
            Some(Kind::Tuple) => {
                let fields = self.exprs(&expr.getattr(intern!(py, "fields"))?, depth)?;
                Ok(self.draft.b.tuple(&fields, None))
            }
            Some(Kind::TupleGetItem) => {
                let tuple = self.expr(&expr.getattr(intern!(py, "tuple_value"))?, depth + 1)?;
                Ok(self.draft.b.tuple_get(tuple, expr.getattr(intern!(py, "index"))?.extract()?, None))
            }
            Some(Kind::If) => self.choice(expr, depth),
            Some(Kind::SeqExpr) => {
                if expr.getattr("blocks")?.len()? == 0 {
                    return self.expr(&expr.getattr("body")?, depth + 1);
                }
                let ty = self.draft.ty(&expr.getattr("ty")?)?;
                let v = self.draft.b.begin(NodeSpec::new(kind::SEQ).ty(ty), &[], None);
                self.enter();
                let result = self.sequence(expr, depth + 1)?;
                self.draft.b.node(NodeSpec::new(kind::YIELD), &[result], None);
                self.leave();
                self.draft.b.end();
                Ok(v)
            }
            other => self.leaf(expr, other),
        }
    }

    fn exprs(&mut self, items: &Bound<'_, PyAny>, depth: usize) -> PyResult<Vec<V>> {
        items.try_iter()?.map(|item| self.expr(&item?, depth + 1)).collect()
    }

    fn variable(&mut self, var: &Bound<'_, PyAny>) -> PyResult<V> {
        if let Some((_, v)) = self.values.get(&(var.as_ptr() as usize)) {
            return Ok(*v);
        }
        let py = var.py();
        let ty = var.getattr(intern!(py, "ty"))?;
        if classes(py)?.kind(&ty) == Some(Kind::PrimType) {
            let dim = self.draft.symbol(var)?;
            return Ok(self.draft.b.prim_value(&dim));
        }
        let id = self.draft.ty(&ty)?;
        let Some(free) = &mut self.free else {
            let name: String = var.getattr("name")?.extract()?;
            let kind: String = var.get_type().name()?.extract()?;
            return Err(ill_formed(py, &format!("{kind} {name} is not defined")));
        };
        let b = &mut self.draft.b;
        Ok(*free.entry(id).or_insert_with(|| b.param("v", id)))
    }

    /// Converts constants, names and similar leaves.
    fn leaf(&mut self, expr: &Bound<'_, PyAny>, of: Option<Kind>) -> PyResult<V> {
        let py = expr.py();
        match of {
            Some(Kind::Op) => {
                let name: String = expr.getattr(intern!(py, "name"))?.extract()?;
                Ok(self.draft.b.op(&name))
            }
            Some(Kind::GlobalVar) => self.global(expr),
            Some(Kind::ShapeExpr) => {
                let dims = self.draft.dims(&expr.getattr(intern!(py, "values"))?)?.unwrap_or_default();
                Ok(self.draft.b.shape(&dims))
            }
            Some(Kind::Constant) => {
                let ty = self.draft.owned_type(&expr.getattr("ty")?, 0)?.unwrap_or_default();
                let tensor = constants::tensor(&expr.getattr("value")?)?;
                Ok(self.draft.b.constant(&tensor, &ty))
            }
            Some(Kind::StringImm) => {
                let text: String = expr.getattr("value")?.extract()?;
                Ok(self.draft.b.string(&text))
            }
            Some(Kind::DataTypeImm) => {
                let dtype: DType = dtype(&expr.getattr("value")?)?;
                Ok(self.draft.b.dtype(dtype))
            }
            Some(Kind::ExternFunc) => {
                let name: String = expr.getattr("global_symbol")?.extract()?;
                Ok(self.draft.b.extern_func(&name, TypeId::NONE))
            }
            Some(Kind::Function) => {
                Err(ill_formed(py, "a function inside an expression lacks a name: bind it to a variable"))
            }
            _ if expr.getattr("ty").is_ok_and(|ty| is_scalar(&ty)) => {
                let dim = self.draft.dim(expr, 0)?;
                Ok(self.draft.b.prim_value(&dim))
            }
            _ => Err(PyTypeError::new_err(format!("{} is not an expression of Relax", expr.get_type().name()?))),
        }
    }

    /// Converts a reference to a function of the module, with its type there.
    fn global(&mut self, var: &Bound<'_, PyAny>) -> PyResult<V> {
        let py = var.py();
        let name: String = var.getattr(intern!(py, "name_hint"))?.extract()?;
        if let Some(known) = self.global_vars.get(&name) {
            return Ok(*known);
        }
        let found = match &self.globals {
            Some(globals) => globals.bind(py).get_item(&name)?,
            None => None,
        };
        let ty = match found {
            Some(body) if body.is_instance_of::<Body>() => self.function_type(&body.cast::<Body>()?.get().0),
            Some(ty) => self.draft.type_of_its_own(&ty)?,
            None => self.draft.type_of_its_own(&var.getattr(intern!(py, "ty"))?)?,
        };
        let v = self.draft.b.global_var(&name, ty);
        // Free variables may belong to different modules, so they are not cached by name.
        if self.free.is_none() {
            self.global_vars.insert(name, v);
        }
        Ok(v)
    }

    fn function_type(&mut self, body: &ir::Body) -> TypeId {
        match body.kind() {
            BodyKind::PrimFunc => {
                let ty = body.prim_func_type().unwrap_or_else(Type::opaque_callable);
                self.draft.b.ty(&ty)
            }
            _ if !body.root().ty().is_known() => self.draft.b.ty(&Type::opaque_callable()),
            _ => Importer::of(body).ty(&mut self.draft.b, body.root().ty()),
        }
    }

    fn choice(&mut self, expr: &Bound<'_, PyAny>, depth: usize) -> PyResult<V> {
        let py = expr.py();
        let cond = self.expr(&expr.getattr(intern!(py, "cond"))?, depth + 1)?;
        let ty = self.draft.ty(&expr.getattr(intern!(py, "ty"))?)?;
        let v = self.draft.b.begin(NodeSpec::new(kind::IF).ty(ty), &[cond], None);
        // A binding in a branch of an If is never part of the surrounding dataflow block.
        let outer = std::mem::replace(&mut self.in_dataflow, false);
        for branch in ["true_branch", "false_branch"] {
            self.draft.b.begin(NodeSpec::new(kind::BRANCH), &[], None);
            self.enter();
            let result = self.sequence(&expr.getattr(branch)?, depth + 1)?;
            self.draft.b.node(NodeSpec::new(kind::YIELD), &[result], None);
            self.leave();
            self.draft.b.end();
        }
        self.in_dataflow = outer;
        self.draft.b.end();
        Ok(v)
    }

    fn call(&mut self, call: &Bound<'_, PyAny>, depth: usize) -> PyResult<V> {
        let py = call.py();
        let of = call.getattr(intern!(py, "op"))?;
        let mut callee = self.expr(&of, depth + 1)?;
        let mut args = self.exprs(&call.getattr(intern!(py, "args"))?, depth)?;
        if classes(py)?.kind(&of) == Some(Kind::ExternFunc) {
            args.insert(0, std::mem::replace(&mut callee, self.draft.b.op(CALL_PACKED)));
        }
        for ty in call.getattr(intern!(py, "ty_args"))?.try_iter()? {
            let ty = self.draft.ty(&ty?)?;
            args.push(self.draft.b.type_arg(ty));
        }
        let engine = self.engine.clone();
        let name = self.draft.b.with(callee, |callee| match callee.view() {
            ir::Expr::Op(name) => Some(name.to_string()),
            _ => None,
        });
        let info = name.as_deref().and_then(|name| engine.registry().operator(name)).map(|(info, ..)| info);
        let attrs = self.call_attrs(&call.getattr(intern!(py, "attrs"))?, info)?;
        let ty = self.draft.ty(&call.getattr(intern!(py, "ty"))?)?;
        let effect = match (info, &name) {
            (Some(info), _) => !info.pure,
            (None, Some(_)) => !self.in_dataflow && !self.pure,
            (None, None) => {
                let callee = self.draft.b.type_of(callee);
                callee == TypeId::NONE || !calls_are_pure(&self.draft.b.type_owned(callee))
            }
        };
        let v = self.draft.b.call(callee, &args, attrs, ty, effect, None);
        if ty == TypeId::NONE && self.free.is_none() {
            // A call without a type gets one when the function is normalized, which also reports its errors.
            if let Ok(found) = self.draft.b.with(v, |value| value.as_call().map(|call| engine.infer(call))).transpose()
                && let Some(inferred) = found
            {
                let ty = self.draft.b.ty(&inferred.ty);
                self.draft.b.set_type(v, ty);
            }
        }
        Ok(v)
    }

    fn call_attrs(&mut self, attrs: &Bound<'_, PyAny>, info: Option<&OpInfo>) -> PyResult<AttrsId> {
        let mut entries = self.entries(attrs)?;
        let Some(info) = info.filter(|info| !takes_any_attributes(info)) else {
            let entries: Vec<_> = entries.iter().map(|(key, value)| (key.as_str(), value.clone())).collect();
            return Ok(if entries.is_empty() { AttrsId::NONE } else { self.draft.b.attrs_as_given(entries) });
        };
        for (key, value) in &mut entries {
            if let Some(attr) = info.attrs.iter().find(|attr| attr.name == *key) {
                *value = canonical_attr(attr, std::mem::replace(value, Attr::None));
            }
        }
        // Attributes without a default stay missing, which the operator's type rule reports.
        add_defaults(info, &mut entries);
        if entries.is_empty() {
            return Ok(AttrsId::NONE);
        }
        Ok(self.draft.b.attrs(entries.iter().map(|(key, value)| (key.as_str(), value.clone()))))
    }
}

fn is_scalar(ty: &Bound<'_, PyAny>) -> bool {
    classes(ty.py()).is_ok_and(|classes| classes.kind(ty) == Some(Kind::PrimType))
}
