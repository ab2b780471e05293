//! Converts Python tensor expressions to a PrimFunc.

use crate::errors::ill_formed;
use crate::ir::attrs;
use crate::ir::classes::{Kind, classes};
use crate::ir::scalars::number_of;
use crate::ir::types::{Draft, dtype};
use crate::module::Body;
use passhost::plugin_api::ir::{self, AttrsId, Dim, Sym, Type};
use passhost::plugin_api::scalar::PrimOp;
use passhost_te::{Note, Te, TeExpr, TeTensor};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::collections::HashMap;

/// Maximum nesting depth of an element.
const DEPTH: usize = 300;

/// The result for a function of tensor expressions: the PrimFunc, the arguments that it takes, and its symbolic
/// variables.
type Made = (Body, Vec<usize>, Vec<Py<PyAny>>);

/// Converts Python objects to the expressions of elements.
struct Elements<'t, 'c> {
    te: &'t Te<'c>,
    syms: HashMap<usize, Sym>,
    axes: HashMap<usize, TeExpr>,
    tensors: HashMap<usize, TeTensor>,
    /// Tensors that are computed together, by the address of their pair.
    pairs: HashMap<usize, [TeTensor; 2]>,
}

/// Creates the PrimFunc that computes tensors, from the inputs with their names and types, the computed tensors in
/// order, each after those that it reads, and the results.
#[pyfunction]
pub(crate) fn te_function<'py>(
    py: Python<'py>,
    name: &str,
    inputs: Vec<(Bound<'py, PyAny>, String, Bound<'py, PyAny>)>,
    steps: Vec<Bound<'py, PyAny>>,
    results: Vec<Bound<'py, PyAny>>,
) -> PyResult<Made> {
    let mut draft = Draft::default();
    let op = draft.b.op("python.te");
    draft.b.begin_function(0, AttrsId::NONE, None);
    let mut args = Vec::new();
    for (_, name, ty) in &inputs {
        let ty = draft.ty(ty)?;
        args.push(draft.b.param(name, ty));
    }
    let shapes = steps.iter().map(|step| Ok(draft.dims(&step.getattr("shape")?)?.unwrap_or_default()));
    let shapes = shapes.collect::<PyResult<Vec<Vec<Dim>>>>()?;
    let notes = steps.iter().map(|step| notes(&mut draft, step)).collect::<PyResult<Vec<_>>>()?;
    draft.b.begin_block();
    let object = draft.b.ty(&Type::Object);
    let call = draft.b.call(op, &args, AttrsId::NONE, object, false, Some("gv"));
    draft.b.end();
    draft.b.end_function(call, object);
    let (syms, vars) = draft.symbols();
    let body = draft.b.finish().map_err(|error| ill_formed(py, &error.to_string()))?;
    let call = body.bindings().find_map(|value| value.as_call());
    let te = Te::new(name, call.ok_or_else(|| PyValueError::new_err("no call"))?);
    te.name_axes("i");
    let mut elements = Elements { te: &te, syms, axes: HashMap::new(), tensors: HashMap::new(), pairs: HashMap::new() };
    for (i, (tensor, ..)) in inputs.iter().enumerate() {
        let input = te.input(i).map_err(|error| PyValueError::new_err(error.to_string()))?;
        elements.tensors.insert(tensor.as_ptr() as usize, input);
    }
    for ((step, shape), notes) in steps.iter().zip(&shapes).zip(&notes) {
        elements.step(step, shape, notes)?;
    }
    let results = results.iter().map(|result| elements.tensor(result)).collect::<PyResult<Vec<TeTensor>>>()?;
    drop(elements);
    let made = te.finish(&results).map_err(|error| PyValueError::new_err(error.to_string()))?;
    let number = |value: ir::Value<'_>| value.index().map_or(0, |at| at - 1);
    let used = made.args.iter().map(|arg| number(arg.value(&body).0)).collect();
    let symbols = made.symbols.iter().filter_map(|sym| vars.get(&sym.id).map(|var| var.clone_ref(py))).collect();
    Ok((Body(made.function), used, symbols))
}

fn too_deep() -> PyErr {
    PyValueError::new_err(format!("an element is nested more than {DEPTH} deep: compute parts of it as tensors"))
}

/// Returns the annotations of a computed tensor.
fn notes(draft: &mut Draft, step: &Bound<'_, PyAny>) -> PyResult<Vec<(String, Note)>> {
    let notes = step.getattr("attrs")?.cast_into::<PyDict>()?;
    notes.iter().map(|(key, value)| Ok((key.extract()?, Note::Attr(attrs::sealed(draft, &value, 0)?)))).collect()
}

impl Elements<'_, '_> {
    fn step(&mut self, tensor: &Bound<'_, PyAny>, shape: &[Dim], notes: &[(String, Note)]) -> PyResult<()> {
        let (te, element) = (self.te, tensor.getattr("element")?);
        let axes: Vec<Bound<'_, PyAny>> = tensor.getattr("axes")?.extract()?;
        let names = axes.iter().map(|axis| axis.getattr("name")?.extract()).collect::<PyResult<Vec<String>>>()?;
        let notes: Vec<(&str, Note)> = notes.iter().map(|(key, note)| (key.as_str(), note.clone())).collect();
        let name: String = tensor.getattr("name")?.extract()?;
        let computed = if classes(tensor.py())?.kind(&element) == Some(Kind::PairItem) {
            self.pair(&element, &name, shape, &axes)?
        } else {
            let mut failed = None;
            let computed = te.compute_named(&name, shape, &names, &notes, |indices| {
                self.name_indices(&axes, indices);
                self.value(&element).unwrap_or_else(|error| {
                    failed = Some(error);
                    TeExpr::int(0, ir::DType::I64)
                })
            });
            failed.map_or(Ok(computed), Err)?
        };
        self.tensors.insert(tensor.as_ptr() as usize, computed);
        Ok(())
    }

    fn name_indices(&mut self, axes: &[Bound<'_, PyAny>], indices: &[TeExpr]) {
        for (axis, index) in axes.iter().zip(indices) {
            self.axes.insert(axis.as_ptr() as usize, index.clone());
        }
    }

    /// Returns one of two tensors that are computed together, and computes them before the first use of either.
    fn pair(
        &mut self,
        item: &Bound<'_, PyAny>,
        name: &str,
        shape: &[Dim],
        axes: &[Bound<'_, PyAny>],
    ) -> PyResult<TeTensor> {
        let (of, index): (_, usize) = (item.getattr("of")?, item.getattr("index")?.extract()?);
        let key = of.as_ptr() as usize;
        if !self.pairs.contains_key(&key) {
            let [a, b] = self.both(&of.getattr("start")?)?;
            let over = self.reduced(&of)?;
            let current: [Bound<'_, PyAny>; 2] = of.getattr("current")?.extract()?;
            let mut next = Err(PyValueError::new_err("the values of a pair are not computed"));
            let (te, over) = (self.te, over.iter().collect::<Vec<_>>());
            // The tensors are named after their block, which has the name without the number.
            let name = name.strip_suffix(&format!("_v{index}")).unwrap_or(name);
            let made = te.compute_pair(name, shape, [a.clone(), b.clone()], &over, |indices, so_far| {
                self.name_indices(axes, indices);
                self.name_indices(&current, &so_far);
                next = of.getattr("next").and_then(|next| self.both(&next));
                next.as_ref().map_or([a, b], Clone::clone)
            });
            next?;
            self.pairs.insert(key, made);
        }
        Ok(self.pairs[&key][index].clone())
    }

    fn both(&mut self, pair: &Bound<'_, PyAny>) -> PyResult<[TeExpr; 2]> {
        Ok([self.expr(&pair.get_item(0)?, 0)?, self.expr(&pair.get_item(1)?, 0)?])
    }

    fn tensor(&self, tensor: &Bound<'_, PyAny>) -> PyResult<TeTensor> {
        let found = self.tensors.get(&(tensor.as_ptr() as usize)).cloned();
        found.ok_or_else(|| PyValueError::new_err("a tensor must be an argument, or be computed from the arguments"))
    }

    /// Converts the value of an element, which may be a reduction.
    fn value(&mut self, element: &Bound<'_, PyAny>) -> PyResult<TeExpr> {
        let py = element.py();
        if classes(py)?.kind(element) != Some(Kind::Reduce) {
            return self.expr(element, 0);
        }
        let axes = self.reduced(element)?;
        let axes: Vec<&TeExpr> = axes.iter().collect();
        let value = self.expr(&element.getattr("value")?, 0)?;
        let start = element.getattr("start")?;
        let start = if start.is_none() { None } else { Some(self.expr(&start, 0)?) };
        match (element.getattr("kind")?.extract::<&str>()?, start) {
            ("sum", _) => Ok(value.sum(&axes)),
            ("prod", _) => Ok(value.prod(&axes)),
            ("max", None) => Ok(value.largest(&axes)),
            ("max", Some(start)) => Ok(value.largest_from(start, &axes)),
            ("min", None) => Ok(value.smallest(&axes)),
            ("min", Some(start)) => Ok(value.smallest_from(start, &axes)),
            (other, _) => Err(PyValueError::new_err(format!("unknown reduction `{other}`"))),
        }
    }

    /// Adds the axes of a reduction.
    fn reduced(&mut self, reduction: &Bound<'_, PyAny>) -> PyResult<Vec<TeExpr>> {
        let mut axes = Vec::new();
        for axis in reduction.getattr("axes")?.try_iter()? {
            let axis = axis?;
            let extent = self.expr(&axis.getattr("extent")?, 0)?;
            let var = axis.getattr("var")?;
            let name: String = var.getattr("name")?.extract()?;
            let extent = dim_of(&extent, &axis, self)?;
            let made = self.te.reduce_axis(&name, &extent);
            self.axes.insert(var.as_ptr() as usize, made.clone());
            axes.push(made);
        }
        Ok(axes)
    }

    fn expr(&mut self, expr: &Bound<'_, PyAny>, depth: usize) -> PyResult<TeExpr> {
        let py = expr.py();
        if depth > DEPTH {
            return Err(too_deep());
        }
        let kind = classes(py)?.kind(expr);
        let of_type = || dtype(&expr.getattr(intern!(py, "ty"))?);
        match kind {
            Some(Kind::Var | Kind::DataflowVar) => {
                let key = expr.as_ptr() as usize;
                if let Some(axis) = self.axes.get(&key) {
                    return Ok(axis.clone());
                }
                let sym = self.syms.get(&key).copied();
                sym.map(|sym| TeExpr::of_dim(Dim::Var(sym))).ok_or_else(|| {
                    PyValueError::new_err(format!("{expr} is neither an axis nor a symbolic variable of an argument"))
                })
            }
            Some(Kind::IterVar) => self.expr(&expr.getattr("var")?, depth + 1),
            Some(Kind::IntImm) => Ok(TeExpr::int(expr.getattr("value")?.extract()?, of_type()?)),
            Some(Kind::FloatImm) => Ok(TeExpr::float(expr.getattr("value")?.extract()?, of_type()?)),
            Some(Kind::Cast) => Ok(self.expr(&expr.getattr("value")?, depth + 1)?.cast(of_type()?)),
            Some(Kind::Not) => Ok(self.expr(&expr.getattr("a")?, depth + 1)?.negated()),
            Some(Kind::EqualOp) => self.expr(&expr.call_method0("asobject")?, depth + 1),
            Some(Kind::TensorRead) => {
                let tensor = self.tensor(&expr.getattr("tensor")?)?;
                let indices = expr.getattr("indices")?;
                let indices = indices.try_iter()?.map(|index| self.expr(&index?, depth + 1));
                Ok(tensor.at(indices.collect::<PyResult<Vec<_>>>()?))
            }
            Some(Kind::Select) => {
                let [cond, then, other] = ["condition", "true_value", "false_value"].map(|name| expr.getattr(name));
                let cond = self.expr(&cond?, depth + 1)?;
                Ok(cond.select(self.expr(&then?, depth + 1)?, self.expr(&other?, depth + 1)?))
            }
            Some(Kind::Call) => self.call(expr, depth),
            Some(Kind::Reduce | Kind::PairItem) => Err(PyValueError::new_err(
                "a reduction must be the whole value of an element; compute it as a separate tensor",
            )),
            _ => self.binary(expr, kind, depth),
        }
    }

    fn call(&mut self, call: &Bound<'_, PyAny>, depth: usize) -> PyResult<TeExpr> {
        let name: String = call.getattr("op")?.getattr("name")?.extract()?;
        let name = name.strip_prefix("tirx.").unwrap_or(&name).to_string();
        let args = call.getattr("args")?;
        let mut args = args.try_iter()?.map(|arg| self.expr(&arg?, depth + 1)).collect::<PyResult<Vec<_>>>()?;
        if args.is_empty() {
            return Err(PyValueError::new_err(format!("a call of {name} without arguments is not an element")));
        }
        let first = args.remove(0);
        match (name.as_str(), &args[..]) {
            ("if_then_else", [then, other]) => Ok(first.if_then_else(then, other)),
            ("isnan" | "isinf" | "isfinite", []) => Ok(first.test(&name)),
            _ => Ok(first.math_with(&name, &args)),
        }
    }

    fn binary(&mut self, expr: &Bound<'_, PyAny>, kind: Option<Kind>, depth: usize) -> PyResult<TeExpr> {
        let Some(number) = kind.and_then(number_of) else {
            return Err(PyTypeError::new_err(format!("{} is not an element of a tensor", expr.get_type().name()?)));
        };
        let a = self.expr(&expr.getattr(intern!(expr.py(), "a"))?, depth + 1)?;
        let b = self.expr(&expr.getattr(intern!(expr.py(), "b"))?, depth + 1)?;
        Ok(match number {
            PrimOp::Add => &a + &b,
            PrimOp::Sub => &a - &b,
            PrimOp::Mul => &a * &b,
            PrimOp::Div if a.dtype().is_int() => a.trunc_div(&b),
            PrimOp::Div | PrimOp::FloorDiv => &a / &b,
            PrimOp::FloorMod => &a % &b,
            PrimOp::TruncMod => a.trunc_mod(&b),
            PrimOp::Min => a.min(&b),
            PrimOp::Max => a.max(&b),
            PrimOp::Eq => a.eq(&b),
            PrimOp::Ne => a.ne(&b),
            PrimOp::Lt => a.lt(&b),
            PrimOp::Le => a.le(&b),
            PrimOp::Gt => a.gt(&b),
            PrimOp::Ge => a.ge(&b),
            PrimOp::And => a.and(&b),
            PrimOp::Or => a.or(&b),
            PrimOp::Shl => a.shift_left(&b),
            PrimOp::Shr => a.shift_right(&b),
            PrimOp::BitAnd => a.bit_and(&b),
            PrimOp::BitOr => a.bit_or(&b),
            _ => a.bit_xor(&b),
        })
    }
}

/// Returns the extent of an axis: a number, or a symbolic variable.
fn dim_of(extent: &TeExpr, axis: &Bound<'_, PyAny>, elements: &Elements<'_, '_>) -> PyResult<Dim> {
    if let Some(number) = extent.as_int() {
        return Ok(Dim::int(number, extent.dtype()));
    }
    let var = axis.getattr("extent")?;
    let sym = elements.syms.get(&(var.as_ptr() as usize));
    sym.map(|sym| Dim::Var(*sym))
        .ok_or_else(|| PyValueError::new_err("the extent of a reduction must be a number or a symbolic variable"))
}
