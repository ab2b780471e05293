//! Converts a function of the host to Python objects, in one walk over its nodes in program order. Open regions are
//! kept on a stack instead of recursing.

use crate::ir::classes::{Kind, classes, made};
use crate::ir::tables::{Tables, broken};
use crate::module::{Body, printed};
use passhost::plugin_api::ir::records::{flag, kind, leaf};
use passhost::plugin_api::ir::{self, BodyKind, RawView, Value};
use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

/// The operator that calls external functions.
pub(crate) const CALL_PACKED: &str = "relax.call_packed";

/// A region whose content is being converted.
struct Open<'a, 'py> {
    header: Value<'a>,
    params: Vec<Bound<'py, PyAny>>,
    blocks: Vec<Bound<'py, PyAny>>,
    bindings: Vec<Bound<'py, PyAny>>,
    result: Option<Bound<'py, PyAny>>,
}

struct Expander<'a, 'py> {
    py: Python<'py>,
    raw: &'a RawView<'a>,
    tables: Tables,
    /// The object by which users refer to each node: its variable, or the expression itself.
    values: Vec<Option<Bound<'py, PyAny>>>,
    open: Vec<Open<'a, 'py>>,
}

/// Returns the parameters, the body, the result type and the purity of a Relax function. A variable whose name and
/// type match a variable in `known`, a dict by name, becomes that object; `known` contains the variables of the
/// original function.
#[pyfunction]
pub(crate) fn expand<'py>(
    py: Python<'py>,
    body: &Body,
    known: Option<Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyTuple>> {
    if body.0.kind() != BodyKind::Function {
        return Err(PyValueError::new_err("not a function of Relax"));
    }
    let mut expander = Expander::new(py, &body.0);
    expander.tables.known = known.map(Bound::unbind);
    expander.function(&body.0)
}

/// Returns the callee and the arguments of a call. As in TVM, the callee of an external call is the function; the host
/// represents it by the operator `relax.call_packed`.
fn called<'py>(
    py: Python<'py>,
    callee: Bound<'py, PyAny>,
    mut args: Vec<Bound<'py, PyAny>>,
) -> PyResult<(Bound<'py, PyAny>, Vec<Bound<'py, PyAny>>)> {
    let classes = classes(py)?;
    let is_extern = args.first().is_some_and(|first| classes.kind(first) == Some(Kind::ExternFunc));
    let is_packed = is_extern && callee.is(classes.op_of.bind(py).call1((CALL_PACKED,))?);
    Ok(if is_packed { (args.remove(0), args) } else { (callee, args) })
}

/// Returns the attributes of a function under a name, which is the global symbol of a public function.
#[pyfunction]
pub(crate) fn function_attrs<'py>(py: Python<'py>, body: &Body, name: &str) -> PyResult<Bound<'py, PyDict>> {
    let attrs = Tables::default().entries(py, body.0.root().attrs(), body.0.raw())?;
    if !body.0.is_private() && !attrs.contains("global_symbol")? {
        attrs.set_item("global_symbol", name)?;
    }
    Ok(attrs)
}

/// Prints a function as TVMScript; without `show_meta`, the data of large constants is omitted.
#[pyfunction]
pub(crate) fn print_function(py: Python<'_>, name: &str, body: &Body, show_meta: bool) -> PyResult<String> {
    printed(py, &ir::Module::new([(name, body.0.clone())]), show_meta)
}

impl<'a, 'py> Expander<'a, 'py> {
    fn new(py: Python<'py>, body: &'a ir::Body) -> Expander<'a, 'py> {
        let values = vec![None; body.len()];
        Expander { py, raw: body.raw(), tables: Tables::default(), values, open: Vec::new() }
    }

    fn function(mut self, body: &'a ir::Body) -> PyResult<Bound<'py, PyTuple>> {
        for value in body.values() {
            let at = value.index().unwrap_or(0);
            self.close(at)?;
            self.node(value, at)?;
        }
        while self.open.len() > 1 {
            self.close_last()?;
        }
        let root = self.open.pop().ok_or_else(broken)?;
        self.parts(root)
    }

    /// Closes the regions that end before a position.
    fn close(&mut self, at: usize) -> PyResult<()> {
        while self.open.last().is_some_and(|open| open.header.end() <= at) {
            self.close_last()?;
        }
        Ok(())
    }

    fn operand(&mut self, value: Value<'a>) -> PyResult<Bound<'py, PyAny>> {
        match value.index() {
            Some(at) => self.values.get(at).cloned().flatten().ok_or_else(broken),
            None => self.tables.leaf(self.py, value, self.raw),
        }
    }

    fn operands(&mut self, value: Value<'a>) -> PyResult<Bound<'py, PyTuple>> {
        let items = value.operands().map(|operand| self.operand(operand)).collect::<PyResult<Vec<_>>>()?;
        PyTuple::new(self.py, items)
    }

    fn first(&mut self, value: Value<'a>) -> PyResult<Bound<'py, PyAny>> {
        value.operand(0).map_or_else(|| Err(broken()), |operand| self.operand(operand))
    }

    fn ty(&mut self, value: Value<'a>) -> PyResult<Bound<'py, PyAny>> {
        self.tables.of_ty(self.py, value.ty(), self.raw)
    }

    fn node(&mut self, value: Value<'a>, at: usize) -> PyResult<()> {
        match value.kind() {
            kind::FUNC => {
                // The function can call itself, so its variable is created first.
                if at > 0 {
                    self.values[at] = Some(self.variable(value)?);
                }
                self.open(value);
            }
            kind::BLOCK | kind::DATAFLOW | kind::IF | kind::BRANCH | kind::SEQ => self.open(value),
            kind::PARAM => {
                let var = self.variable(value)?;
                self.values[at] = Some(var.clone());
                self.open.last_mut().ok_or_else(broken)?.params.push(var);
            }
            kind::YIELD => {
                let result = self.first(value)?;
                self.open.last_mut().ok_or_else(broken)?.result = Some(result);
            }
            _ => {
                let expr = self.expr(value)?;
                self.place(value, expr)?;
            }
        }
        Ok(())
    }

    fn open(&mut self, header: Value<'a>) {
        let (params, blocks, bindings) = (Vec::new(), Vec::new(), Vec::new());
        self.open.push(Open { header, params, blocks, bindings, result: None });
    }

    /// Returns the variable of a parameter or binding. A scalar variable is the symbolic variable that types mention.
    fn variable(&mut self, value: Value<'a>) -> PyResult<Bound<'py, PyAny>> {
        if let Some(sym) = value.symbol() {
            return self.tables.sym(self.py, self.raw, sym.id, sym.dtype);
        }
        let py = self.py;
        let classes = classes(py)?;
        let inner = value.has(flag::INNER) && value.kind() != kind::PARAM;
        let class = if inner { &classes.dataflow_var } else { &classes.var };
        let ty = self.ty(value)?;
        let name = value.name().unwrap_or("v");
        if let Some(known) = self.tables.take_known(py, name, class, &ty)? {
            return Ok(known);
        }
        Ok(made!(py, class, "_name": name, "_ty": ty))
    }

    fn expr(&mut self, value: Value<'a>) -> PyResult<Bound<'py, PyAny>> {
        let py = self.py;
        let classes = classes(py)?;
        match value.kind() {
            kind::CALL => self.call(value),
            kind::TUPLE => {
                let (fields, ty) = (self.operands(value)?, self.ty(value)?);
                Ok(made!(py, classes.tuple, "_fields": fields, "_ty": ty))
            }
            kind::TUPLE_GET => {
                let index = value.as_tuple_get().map_or(0, |(_, index)| index);
                let (tuple, ty) = (self.first(value)?, self.ty(value)?);
                Ok(made!(py, classes.tuple_get, "_tuple_value": tuple, "_index": index, "_ty": ty))
            }
            kind::MATCH_CAST | kind::ALIAS => self.first(value),
            other => Err(PyValueError::new_err(format!("a value of an unknown kind, {other}"))),
        }
    }

    fn call(&mut self, value: Value<'a>) -> PyResult<Bound<'py, PyAny>> {
        let py = self.py;
        let is_type = |v: &Value<'_>| v.leaf().is_some_and(|rec| rec.kind == leaf::TYPE);
        let callee = self.first(value)?;
        let n_types = value.operands().rev().take_while(is_type).count();
        let n_args = value.n_operands() - n_types;
        let args = value.operands().take(n_args).skip(1).map(|arg| self.operand(arg)).collect::<PyResult<Vec<_>>>()?;
        let (callee, args) = called(py, callee, args)?;
        let types = value.operands().skip(n_args).map(|arg| self.operand(arg)).collect::<PyResult<Vec<_>>>()?;
        let attrs = self.tables.attrs_of_call(py, value.attrs(), self.raw)?;
        let (args, types, ty) = (PyTuple::new(py, args)?, PyTuple::new(py, types)?, self.ty(value)?);
        let class = &classes(py)?.call;
        Ok(made!(py, class, "_op": callee, "_args": args, "_attrs": attrs, "_ty_args": types, "_ty": ty))
    }

    /// Adds a value as a binding of the open block, or returns it to its user as an expression.
    fn place(&mut self, value: Value<'a>, expr: Bound<'py, PyAny>) -> PyResult<()> {
        let py = self.py;
        let at = value.index().ok_or_else(broken)?;
        if !value.is_bound() {
            self.values[at] = Some(expr);
            return Ok(());
        }
        let var = match &self.values[at] {
            Some(var) => var.clone(),
            None => self.variable(value)?,
        };
        let classes = classes(py)?;
        let binding = if value.is_match_cast() {
            let ty = self.ty(value)?;
            made!(py, classes.match_cast, "_var": &var, "_value": expr, "_ty": ty)
        } else {
            made!(py, classes.var_binding, "_var": &var, "_value": expr)
        };
        self.values[at] = Some(var);
        self.open.last_mut().ok_or_else(broken)?.bindings.push(binding);
        Ok(())
    }

    fn close_last(&mut self) -> PyResult<()> {
        let py = self.py;
        let classes = classes(py)?;
        let open = self.open.pop().ok_or_else(broken)?;
        let header = open.header;
        match header.kind() {
            kind::BLOCK | kind::DATAFLOW => {
                let class = if header.kind() == kind::DATAFLOW { &classes.dataflow } else { &classes.block };
                let block = made!(py, class, "_bindings": PyTuple::new(py, open.bindings)?);
                self.open.last_mut().ok_or_else(broken)?.blocks.push(block);
            }
            kind::BRANCH => {
                let seq = self.sequence(open)?;
                // The enclosing If stores its branches where a function stores its parameters.
                self.open.last_mut().ok_or_else(broken)?.params.push(seq);
            }
            kind::SEQ => {
                let seq = self.sequence(open)?;
                self.place(header, seq)?;
            }
            kind::IF => {
                let mut branches = open.params.into_iter();
                let (then, other) = (branches.next().ok_or_else(broken)?, branches.next().ok_or_else(broken)?);
                let (cond, ty) = (self.first(header)?, self.ty(header)?);
                let expr = made!(
                    py, classes.if_, "_cond": cond, "_true_branch": then, "_false_branch": other, "_ty": ty
                );
                self.place(header, expr)?;
            }
            kind::FUNC => {
                let attrs = self.tables.entries(py, header.attrs(), self.raw)?;
                let ty = self.ty(header)?;
                let parts = self.parts(open)?;
                let attrs = made!(py, classes.dict_attrs, "_entries": attrs);
                let function = made!(
                    py, classes.function, "_handle": py.None(), "_before": py.None(), "_sealed_as": py.None(), "_parts": parts,
                    "_attrs": attrs, "_ty": ty
                );
                self.place(header, function)?;
            }
            other => return Err(PyValueError::new_err(format!("a region of an unknown kind, {other}"))),
        }
        Ok(())
    }

    fn sequence(&mut self, open: Open<'a, 'py>) -> PyResult<Bound<'py, PyAny>> {
        let py = self.py;
        let result = open.result.ok_or_else(broken)?;
        let ty = result.getattr(intern!(py, "ty"))?;
        Ok(made!(py, classes(py)?.seq, "_blocks": PyTuple::new(py, open.blocks)?, "_body": result, "_ty": ty))
    }

    /// Returns the parts of a function.
    fn parts(&mut self, mut open: Open<'a, 'py>) -> PyResult<Bound<'py, PyTuple>> {
        let py = self.py;
        let params = PyTuple::new(py, std::mem::take(&mut open.params))?;
        let ret = match open.header.as_function() {
            Some(function) => self.tables.of_ty(py, function.ret_ty(), self.raw)?,
            None => return Err(broken()),
        };
        let pure = !open.header.has(flag::IMPURE);
        let body = self.sequence(open)?;
        (params, body, ret, pure).into_pyobject(py)
    }
}
