//! Converts a TIR function to Python objects, parameters and statements, in one walk over its nodes in program order.
//! Open regions are kept on a stack instead of recursing.

use crate::ir::classes::{classes, made};
use crate::ir::scalars::class_of;
use crate::ir::tables::{Tables, broken, scalar_type};
use crate::module::Body;
use passhost::plugin_api::ir::records::{axis, buffer_of, kind, leaf};
use passhost::plugin_api::ir::{self, BodyKind, DType, RawView, Value};
use passhost::plugin_api::scalar::PrimOp;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use std::collections::HashMap;

pub(crate) type Object<'py> = Bound<'py, PyAny>;

/// A region whose statements are being converted.
struct Open<'a, 'py> {
    header: Value<'a>,
    /// Statements, or other parts of the header, depending on the kind.
    statements: Vec<Object<'py>>,
    scopes: Vec<Object<'py>>,
    iters: Vec<Object<'py>>,
    iter_values: Vec<Object<'py>>,
    reads: Vec<Object<'py>>,
    writes: Vec<Object<'py>>,
    allocated: Vec<Object<'py>>,
    matched: Vec<Object<'py>>,
    annotations: Option<Object<'py>>,
    predicate: Option<Object<'py>>,
    init: Option<Object<'py>>,
    var: Option<Object<'py>>,
}

struct Expander<'a, 'py> {
    py: Python<'py>,
    raw: &'a RawView<'a>,
    tables: Tables,
    values: Vec<Option<Object<'py>>>,
    open: Vec<Open<'a, 'py>>,
    /// Parameters by the position of their node; a buffer replaces its handle.
    params: Vec<(usize, Object<'py>)>,
    module: Bound<'py, PyModule>,
}

/// Returns the parameters and the body of a TIR function.
#[pyfunction]
pub(crate) fn expand_prim_func<'py>(py: Python<'py>, body: &Body) -> PyResult<(Bound<'py, PyTuple>, Object<'py>)> {
    if body.0.kind() != BodyKind::PrimFunc {
        return Err(PyValueError::new_err("not a function of TIR"));
    }
    expanded(py, &body.0, HashMap::new())
}

/// Returns the parameters and the body of a TIR function in which some symbolic variables, by number, are these objects.
pub(crate) fn expanded<'py>(
    py: Python<'py>,
    body: &ir::Body,
    syms: HashMap<u32, Py<PyAny>>,
) -> PyResult<(Bound<'py, PyTuple>, Object<'py>)> {
    let module = py.import("passhost.tirx.stmt")?;
    let values = vec![None; body.len()];
    let (tables, params) = (Tables::with_symbols(syms), Vec::new());
    Expander { py, raw: body.raw(), tables, values, open: Vec::new(), params, module }.function(body)
}

impl<'a, 'py> Expander<'a, 'py> {
    fn function(mut self, body: &'a ir::Body) -> PyResult<(Bound<'py, PyTuple>, Object<'py>)> {
        for value in body.values() {
            let at = value.index().unwrap_or(0);
            while self.open.last().is_some_and(|open| open.header.end() <= at) {
                self.close()?;
            }
            self.node(value, at)?;
        }
        while self.open.len() > 1 {
            self.close()?;
        }
        let root = self.open.pop().ok_or_else(broken)?;
        let params = PyTuple::new(self.py, self.params.iter().map(|(_, var)| var))?;
        let has_blocks = body.values().any(|value| value.kind() == kind::SBLOCK);
        let allocated = PyList::new(self.py, root.allocated)?;
        let body = self.module.call_method1("root_of", (root.statements, allocated, has_blocks))?;
        Ok((params, body))
    }

    /// Creates an object of a class of `passhost.tirx.stmt`, with its fields in order.
    fn make<F>(&self, class: &str, fields: F) -> PyResult<Object<'py>>
    where
        F: IntoPyObject<'py, Target = PyTuple, Output = Bound<'py, PyTuple>, Error = PyErr>,
    {
        let class = self.module.getattr(class)?;
        self.module.getattr("made")?.call1((class, fields.into_pyobject(self.py)?))
    }

    fn operand(&mut self, value: Value<'a>) -> PyResult<Object<'py>> {
        match value.index() {
            Some(at) => self.values.get(at).cloned().flatten().ok_or_else(broken),
            None => self.tables.leaf(self.py, value, self.raw),
        }
    }

    fn nth(&mut self, value: Value<'a>, at: usize) -> PyResult<Object<'py>> {
        value.operand(at).map_or_else(|| Err(broken()), |operand| self.operand(operand))
    }

    fn rest(&mut self, value: Value<'a>, from: usize) -> PyResult<Vec<Object<'py>>> {
        value.operands().skip(from).map(|operand| self.operand(operand)).collect()
    }

    fn top(&mut self) -> PyResult<&mut Open<'a, 'py>> {
        self.open.last_mut().ok_or_else(broken)
    }

    fn none(&self) -> Object<'py> {
        self.py.None().into_bound(self.py)
    }

    /// Returns a variable. A scalar variable is the symbolic variable that types mention.
    fn variable(&mut self, value: Value<'a>) -> PyResult<Object<'py>> {
        if let Some(sym) = value.symbol() {
            return self.tables.sym(self.py, self.raw, sym.id, sym.dtype);
        }
        let py = self.py;
        let ty = self.tables.of_ty(py, value.ty(), self.raw)?;
        Ok(made!(py, classes(py)?.var, "_name": value.name().unwrap_or("v"), "_ty": ty))
    }

    fn node(&mut self, value: Value<'a>, at: usize) -> PyResult<()> {
        match value.kind() {
            kind::PRIM_FUNC
            | kind::FOR
            | kind::SBLOCK
            | kind::INIT
            | kind::WHILE
            | kind::COND
            | kind::SCOPE
            | kind::ATTR
            | kind::LAUNCH => self.begin(value),
            kind::PARAM => {
                let var = self.variable(value)?;
                self.values[at] = Some(var.clone());
                self.params.push((at, var));
            }
            kind::LOOP_VAR => {
                let var = match value.operand(0) {
                    Some(free) => self.operand(free)?,
                    None => self.variable(value)?,
                };
                self.values[at] = Some(var.clone());
                self.top()?.var = Some(var);
            }
            kind::VAR => self.values[at] = Some(self.variable(value)?),
            kind::ITER_VAR => self.iter_var(value, at)?,
            kind::BUFFER => self.buffer(value, at)?,
            kind::ACCESS => self.access(value, at)?,
            kind::WHERE => {
                let predicate = self.nth(value, 0)?;
                self.top()?.predicate = Some(predicate);
            }
            kind::ANNOTATE => {
                let annotations = self.dict(value)?;
                self.top()?.annotations = Some(annotations.into_any());
            }
            kind::STORE | kind::EVALUATE | kind::BIND | kind::ASSERT | kind::RETURN | kind::BREAK | kind::CONTINUE => {
                self.simple(value, at)?;
            }
            _ => {
                let expr = self.expr(value)?;
                self.values[at] = Some(expr);
            }
        }
        Ok(())
    }

    fn begin(&mut self, header: Value<'a>) {
        self.open.push(Open {
            header,
            statements: Vec::new(),
            scopes: Vec::new(),
            iters: Vec::new(),
            iter_values: Vec::new(),
            reads: Vec::new(),
            writes: Vec::new(),
            allocated: Vec::new(),
            matched: Vec::new(),
            annotations: None,
            predicate: None,
            init: None,
            var: None,
        });
    }

    fn dict(&mut self, value: Value<'a>) -> PyResult<Bound<'py, PyDict>> {
        let made = PyDict::new(self.py);
        for (key, attr) in value.attrs().iter() {
            made.set_item(key, self.tables.attr(self.py, attr, self.raw)?)?;
        }
        Ok(made)
    }

    fn iter_var(&mut self, value: Value<'a>, at: usize) -> PyResult<()> {
        let var = self.variable(value)?;
        self.values[at] = Some(var.clone());
        let (min, extent) = (self.nth(value, 0)?, self.nth(value, 1)?);
        let dom = self.module.call_method1("range_of", (min, extent))?;
        // TVM's numbers for kinds of iterators.
        let kind = match value.node().map_or(axis::OPAQUE, |node| node.a) {
            axis::SPATIAL => 0,
            axis::REDUCE => 2,
            axis::SCAN => 3,
            _ => 4,
        };
        let iter = self.make("IterVar", (dom, var, kind, ""))?;
        let bound = self.nth(value, 2)?;
        let open = self.top()?;
        open.iters.push(iter);
        open.iter_values.push(bound);
        Ok(())
    }

    fn buffer(&mut self, value: Value<'a>, at: usize) -> PyResult<()> {
        let var = self.variable(value)?;
        self.values[at] = Some(var.clone());
        let of = value.operand(0).filter(|of| !of.is_leaf());
        let statement = match value.node().map_or(buffer_of::FREE, |node| node.a) {
            buffer_of::PARAM | buffer_of::MATCH => {
                let param = of.and_then(|of| of.index());
                match self.params.iter_mut().find(|(at, _)| Some(*at) == param) {
                    Some((_, param)) => *param = var,
                    None => {
                        let source = self.nth(value, 0)?;
                        let matched = self.make("MatchBufferRegion", (var, source))?;
                        self.top()?.matched.push(matched);
                    }
                }
                return Ok(());
            }
            buffer_of::BLOCK => {
                self.top()?.allocated.push(var);
                return Ok(());
            }
            buffer_of::ALLOC => {
                let annotations = self.dict(value)?;
                self.make("AllocBuffer", (var, annotations))?
            }
            buffer_of::DECL | buffer_of::VIEW => {
                let data = if value.n_operands() > 0 { self.nth(value, 0)? } else { self.none() };
                self.make("DeclBuffer", (var, data))?
            }
            _ => return Ok(()),
        };
        self.top()?.statements.push(statement);
        Ok(())
    }

    fn access(&mut self, value: Value<'a>, at: usize) -> PyResult<()> {
        let source = self.nth(value, 0)?;
        let bounds = self.rest(value, 1)?;
        let ranges = bounds.chunks(2).map(|pair| self.module.call_method1("range_of", (&pair[0], pair.get(1))));
        let ranges = PyTuple::new(self.py, ranges.collect::<PyResult<Vec<_>>>()?)?;
        let region = self.make("TensorRegion", (source, ranges))?;
        self.values[at] = Some(region.clone());
        match value.node().map_or(2, |node| node.a) {
            0 => self.top()?.reads.push(region),
            1 => self.top()?.writes.push(region),
            _ => {}
        }
        Ok(())
    }

    fn simple(&mut self, value: Value<'a>, at: usize) -> PyResult<()> {
        let statement = match value.kind() {
            kind::STORE => {
                let (buffer, stored) = (self.nth(value, 0)?, self.nth(value, 1)?);
                let (indices, predicate) = self.indices(value, 2)?;
                self.make("BufferStore", (buffer, stored, indices, predicate))?
            }
            kind::EVALUATE => {
                let evaluated = self.nth(value, 0)?;
                self.make("Evaluate", (evaluated,))?
            }
            kind::BIND => {
                let var = match value.operand(1) {
                    Some(before) => self.operand(before)?,
                    None => self.variable(value)?,
                };
                self.values[at] = Some(var.clone());
                let bound = self.nth(value, 0)?;
                self.make("Bind", (var, bound))?
            }
            kind::ASSERT => {
                let (condition, error, parts) = (self.nth(value, 0)?, self.nth(value, 1)?, self.rest(value, 2)?);
                self.make("AssertStmt", (error, condition, PyTuple::new(self.py, parts)?))?
            }
            kind::RETURN => {
                let result = if value.n_operands() > 0 { self.nth(value, 0)? } else { self.none() };
                self.make("Return", (result,))?
            }
            other => self.module.call_method1("jump", (other == kind::BREAK,))?,
        };
        self.top()?.statements.push(statement);
        Ok(())
    }

    /// Returns the indices of a load or store, and its predicate.
    fn indices(&mut self, value: Value<'a>, from: usize) -> PyResult<(Bound<'py, PyTuple>, Object<'py>)> {
        let mut indices = self.rest(value, from)?;
        let has_predicate = value.node().is_some_and(|node| node.a == 1);
        let predicate = indices.pop_if(|_| has_predicate).unwrap_or_else(|| self.none());
        Ok((PyTuple::new(self.py, indices)?, predicate))
    }

    fn expr(&mut self, value: Value<'a>) -> PyResult<Object<'py>> {
        let py = self.py;
        let classes = classes(py)?;
        let of_type = |this: &mut Self| this.tables.of_ty(py, value.ty(), this.raw);
        let number = value.node().map_or(0, |node| node.a);
        Ok(match value.kind() {
            kind::LOAD => {
                let source = self.nth(value, 0)?;
                let (indices, predicate) = self.indices(value, 1)?;
                self.module.call_method1("load", (source, indices, predicate, scalar_type(py, value.ty().dtype())?))?
            }
            kind::ARITH => {
                let op = u16::try_from(number).ok().and_then(PrimOp::of_code);
                let unknown = || PyValueError::new_err(format!("an operation on scalars of an unknown kind, {number}"));
                self.arith(value, op.ok_or_else(unknown)?)?
            }
            kind::CALL => self.call(value)?,
            kind::SELECT => {
                let (cond, then, other) = (self.nth(value, 0)?, self.nth(value, 1)?, self.nth(value, 2)?);
                let ty = of_type(self)?;
                made!(py, classes.select, "_condition": cond, "_true_value": then, "_false_value": other, "_ty": ty)
            }
            kind::RAMP | kind::BROADCAST | kind::SHUFFLE | kind::LET | kind::BUFFER_PART => {
                let operands = self.rest(value, 0)?;
                let name = match value.kind() {
                    kind::RAMP => "ramp",
                    kind::BROADCAST => "broadcast",
                    kind::SHUFFLE => "shuffle",
                    kind::LET => "let",
                    _ => "buffer_part",
                };
                let ty = of_type(self)?;
                self.module.call_method1(name, (PyTuple::new(py, operands)?, number, ty))?
            }
            other => return Err(PyValueError::new_err(format!("a TIR node of kind {other:#x} is not supported"))),
        })
    }

    fn arith(&mut self, value: Value<'a>, op: PrimOp) -> PyResult<Object<'py>> {
        let py = self.py;
        let classes = classes(py)?;
        let dtype: DType = value.ty().dtype();
        let (a, ty) = (self.nth(value, 0)?, scalar_type(py, dtype)?);
        Ok(match op {
            PrimOp::Not => made!(py, classes.not, "_a": a, "_ty": ty),
            PrimOp::Cast => made!(py, classes.cast, "_value": a, "_ty": ty),
            _ => {
                let Some(class) = class_of(classes, op) else {
                    let why = format!("an operation on scalars of an unknown kind, {op:?}");
                    return Err(PyValueError::new_err(why));
                };
                let b = self.nth(value, 1)?;
                made!(py, class, "_a": a, "_b": b, "_ty": ty)
            }
        })
    }

    fn call(&mut self, value: Value<'a>) -> PyResult<Object<'py>> {
        let py = self.py;
        let is_type = |v: &Value<'_>| v.leaf().is_some_and(|rec| rec.kind == leaf::TYPE);
        let callee = self.nth(value, 0)?;
        let args: Vec<Value<'a>> = value.operands().skip(1).filter(|arg| !is_type(arg)).collect();
        let types: Vec<Value<'a>> = value.operands().skip(1).filter(is_type).collect();
        let args = args.into_iter().map(|arg| self.operand(arg)).collect::<PyResult<Vec<_>>>()?;
        let types = types.into_iter().map(|ty| self.operand(ty)).collect::<PyResult<Vec<_>>>()?;
        let attrs = self.tables.attrs_of_call(py, value.attrs(), self.raw)?;
        let ty = self.tables.of_ty(py, value.ty(), self.raw)?;
        let (args, types, class) = (PyTuple::new(py, args)?, PyTuple::new(py, types)?, &classes(py)?.call);
        Ok(made!(py, class, "_op": callee, "_args": args, "_attrs": attrs, "_ty_args": types, "_ty": ty))
    }

    fn text(&self, value: Value<'a>, key: &str) -> String {
        value.attr(key).and_then(|attr| attr.as_str()).unwrap_or_default().to_string()
    }

    /// Closes a region, which becomes a statement of the surrounding region.
    fn close(&mut self) -> PyResult<()> {
        let mut open = self.open.pop().ok_or_else(broken)?;
        let header = open.header;
        let body = self.module.call_method1("sequence", (std::mem::take(&mut open.statements),))?;
        let statement = match header.kind() {
            kind::SCOPE => {
                self.top()?.scopes.push(body);
                return Ok(());
            }
            kind::INIT => {
                self.top()?.init = Some(body);
                return Ok(());
            }
            kind::FOR => self.loop_of(header, open.var, body)?,
            kind::WHILE => {
                let condition = self.nth(header, 0)?;
                self.make("While", (condition, body))?
            }
            kind::COND => {
                let mut scopes = open.scopes.into_iter();
                let then = scopes.next().ok_or_else(broken)?;
                let other = scopes.next().unwrap_or_else(|| self.none());
                let condition = self.nth(header, 0)?;
                self.make("IfThenElse", (condition, then, other))?
            }
            kind::ATTR => {
                let value = self.nth(header, 0)?;
                let about = match (header.n_operands() > 1, header.attr("node")) {
                    (true, _) => self.nth(header, 1)?,
                    (false, Some(node)) => self.tables.attr(self.py, node, self.raw)?,
                    (false, None) => self.none(),
                };
                self.make("AttrStmt", (about, self.text(header, "key"), value, body))?
            }
            kind::LAUNCH => {
                let extent = self.nth(header, 0)?;
                let var = match header.operand(1) {
                    Some(var) => self.operand(var)?,
                    None => open.var.ok_or_else(broken)?,
                };
                self.module.call_method1("launch", (var, extent, self.text(header, "thread"), body))?
            }
            kind::SBLOCK => self.block(open, body)?,
            other => return Err(PyValueError::new_err(format!("a region of kind {other:#x} is not supported"))),
        };
        self.top()?.statements.push(statement);
        Ok(())
    }

    fn loop_of(&mut self, header: Value<'a>, var: Option<Object<'py>>, body: Object<'py>) -> PyResult<Object<'py>> {
        let (min, extent) = (self.nth(header, 0)?, self.nth(header, 1)?);
        let step = if header.n_operands() > 2 { self.nth(header, 2)? } else { self.none() };
        let annotations = match header.attr("annotations") {
            Some(view) => self.tables.attr(self.py, view, self.raw)?,
            None => PyDict::new(self.py).into_any(),
        };
        let (kind, thread) = (self.text(header, "kind"), self.text(header, "thread"));
        let var = var.ok_or_else(broken)?;
        self.module.call_method1("loop", (var, min, extent, kind, body, thread, annotations, step))
    }

    fn block(&mut self, open: Open<'a, 'py>, body: Object<'py>) -> PyResult<Object<'py>> {
        let py = self.py;
        let lists = [open.iters, open.reads, open.writes, open.allocated, open.matched, open.iter_values];
        let [iters, reads, writes, allocated, matched, values] = lists.map(|list| PyTuple::new(py, list));
        let name = open.header.name().unwrap_or("").to_string();
        let annotations = open.annotations.unwrap_or_else(|| PyDict::new(py).into_any());
        let init = open.init.unwrap_or_else(|| self.none());
        let (iters, reads, writes) = (iters?, reads?, writes?);
        let block = self.make("SBlock", (iters, reads, writes, name, body, init, allocated?, matched?, annotations))?;
        let said = |key| open.header.attr(key).is_none();
        block.setattr("_said", (said("no_reads"), said("no_writes")))?;
        let predicate = match open.predicate {
            Some(predicate) => predicate,
            None => classes(py)?.scalar.bind(py).call1((true, "bool"))?,
        };
        self.make("SBlockRealize", (values?, predicate, block))
    }
}
