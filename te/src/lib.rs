//! Tensor expressions: writes the computation of an operator as a PrimFunc, in mathematical style.
//!
//! A [`Te`] is created for one call of an operator. [`Te::input`] returns an argument of the call, [`Te::compute`] a tensor whose elements
//! are given by an expression in their indices, and [`Te::finish`] a PrimFunc with a buffer for each input and result. Each tensor becomes
//! a loop nest around one schedulable block; tensors that are not results become allocated buffers.
//!
//! This example legalizes the sum of two tensors of the same shape:
//!
//! ```
//! use plugin_api::prelude::*;
//! use plugin_api::ir::{AttrsId, BodyBuilder};
//! use plugin_api::te::Te;
//!
//! fn legalize_add(call: Call<'_>) -> Result<Legalized, InferError> {
//!     let te = Te::new("add", call);
//!     let (a, b) = (te.input(0)?, te.input(1)?);
//!     let sum = te.compute("T_add", a.shape(), |i| a.at(i) + b.at(i));
//!     te.finish(&[sum])
//! }
//! # let mut b = BodyBuilder::new();
//! # b.begin_function(0, AttrsId::NONE, None);
//! # let ty = b.ty(&Type::tensor([2, 3], DType::F32));
//! # let (x, add) = (b.param("x", ty), b.op("acme.add"));
//! # b.begin_block();
//! # let y = b.call(add, &[x, x], AttrsId::NONE, ty, false, Some("y"));
//! # b.end();
//! # b.end_function(y, ty);
//! # let body = b.finish()?;
//! # let call = body.bindings().find_map(|value| value.as_call()).expect("a call");
//! let legalized = legalize_add(call)?;
//! assert_eq!((legalized.name.as_str(), legalized.args.len()), ("add", 2));
//! let loops = legalized.function.values().filter(|value| matches!(value.stmt(), Some(Stmt::For { .. })));
//! assert_eq!(loops.count(), 2);
//! # Ok::<(), PassError>(())
//! ```
//!
//! A matrix product sums over a separate axis:
//!
//! ```
//! use plugin_api::prelude::*;
//! use plugin_api::te::Te;
//!
//! fn legalize_matmul(call: Call<'_>) -> Result<Legalized, InferError> {
//!     let te = Te::new("matmul", call);
//!     let (a, b) = (te.input(0)?, te.input(1)?);
//!     let k = te.reduce_axis("k", &a.shape()[1]);
//!     let shape = [a.shape()[0].clone(), b.shape()[1].clone()];
//!     let product = te.compute("matmul", &shape, |i| (a.at([&i[0], &k]) * b.at([&k, &i[1]])).sum(&[&k]));
//!     te.finish(&[product])
//! }
//! ```
//!
//! [`Te::scan`] computes tensors step by step, in a loop over time.

mod emit;
mod expr;
mod form;
mod intrinsics;
mod order;
mod reads;
mod scan;
mod size;

pub use expr::{Operand, TeExpr, greatest_value, least_value};
pub use form::form;

use expr::{Node, Pair, Scatter, symbols};
use passhost_lang::ir::{Attr, Call, DType, Dim, DimExpr, Sym, Type, Value};
use passhost_lang::typing::legalized::{Legalized, LegalizedArg};
use passhost_lang::typing::operators::InferError;
use scan::Scan;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// First number of a variable that denotes an axis, not a symbolic variable of the caller.
const FIRST_AXIS: u32 = 1 << 30;
/// First number of a variable that denotes a part of an integer expression that is not integer arithmetic.
const FIRST_ATOM: u32 = 3 << 29;

/// A tensor: an argument of the call, or a computed one.
#[derive(Clone, Debug)]
pub struct TeTensor {
    id: usize,
    name: Rc<str>,
    shape: Rc<[Dim]>,
    dtype: DType,
}

impl TeTensor {
    /// Returns the name of the argument or the computation.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the dimensions.
    pub fn shape(&self) -> &[Dim] {
        &self.shape
    }

    /// Returns the number of dimensions.
    pub fn ndim(&self) -> usize {
        self.shape.len()
    }

    /// Returns the element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Returns the element at the given indices, one for each dimension.
    pub fn at(&self, indices: impl IntoIterator<Item = impl Into<Operand>>) -> TeExpr {
        let index = |index: Operand| index.expr(DType::I64);
        let indices: Vec<TeExpr> = indices.into_iter().map(|operand| index(operand.into())).collect();
        if indices.len() != self.ndim() {
            let message =
                format!("a tensor of {} dimensions needs as many indices, found {}", self.ndim(), indices.len());
            return TeExpr::fault_of(message, self.dtype);
        }
        TeExpr::new(Node::Load(self.clone(), indices), self.dtype).bounded()
    }

    /// Returns the element at these indices after broadcasting to a shape. Dimensions are aligned at the last one. A dimension of extent 1
    /// is indexed with 0 if the target extent differs.
    pub fn broadcast_at(&self, indices: &[TeExpr], to: &[Dim]) -> TeExpr {
        let skipped = indices.len().saturating_sub(self.ndim());
        let of = |((dim, index), to): ((&Dim, &TeExpr), &Dim)| match (dim.as_int(), to.as_int()) {
            (Some(1), other) if other != Some(1) => Operand::from(0),
            _ => Operand::from(index),
        };
        self.at(self.shape.iter().zip(&indices[skipped..]).zip(&to[skipped..]).map(of))
    }
}

/// An axis of a computed tensor, or of a reduction.
#[derive(Clone, Debug)]
struct Axis {
    sym: Sym,
    extent: Dim,
    name: String,
}

/// A computed tensor.
struct Step {
    name: String,
    axes: Vec<Axis>,
    value: TeExpr,
    /// The indices of the written element, if they are not the axes.
    place: Option<Vec<TeExpr>>,
    /// The annotations of its block.
    notes: Vec<(String, Note)>,
}

impl Step {
    /// Returns the value, and the indices of the written element.
    fn exprs(&self) -> impl Iterator<Item = &TeExpr> {
        [&self.value].into_iter().chain(self.place.iter().flatten())
    }
}

/// An annotation of a block.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Note {
    /// An attribute.
    Attr(Attr),
    /// A list of tensors, each an input or an earlier computation.
    Tensors(Vec<TeTensor>),
}

impl From<Attr> for Note {
    fn from(attr: Attr) -> Note {
        Note::Attr(attr)
    }
}

/// The origin of a tensor.
enum Source {
    Input(LegalizedArg, String),
    Step(Step),
    /// The second of two tensors that are computed together; contains the number of the first.
    Second(usize, String),
    /// A result of a loop over time.
    State(Rc<Scan>, String),
}

impl Source {
    fn name(&self) -> &str {
        match self {
            Source::Input(_, name) | Source::Second(_, name) | Source::State(_, name) => name,
            Source::Step(step) => &step.name,
        }
    }
}

/// Writes the PrimFunc of one call of an operator. The documentation of [the crate](crate) has examples.
pub struct Te<'c> {
    name: String,
    call: Call<'c>,
    tensors: RefCell<Vec<(TeTensor, Source)>>,
    axes: Cell<u32>,
    reduced: RefCell<Vec<Axis>>,
    /// The prefix of the names of axes: `ax0`, `ax1`, …
    prefix: Cell<&'static str>,
    error: RefCell<Option<InferError>>,
}

impl<'c> Te<'c> {
    /// Starts the PrimFunc of a call under a given name.
    pub fn new(name: &str, call: Call<'c>) -> Te<'c> {
        Te {
            name: name.to_string(),
            call,
            tensors: RefCell::default(),
            axes: Cell::new(0),
            reduced: RefCell::default(),
            prefix: Cell::new("ax"),
            error: RefCell::new(None),
        }
    }

    /// Returns the call.
    pub fn call(&self) -> Call<'c> {
        self.call
    }

    /// Returns an argument of the call: a tensor of known shape and data type. Each call adds a separate input.
    ///
    /// # Errors
    /// If the argument is missing, or is not a tensor of known rank and data type.
    pub fn input(&self, i: usize) -> Result<TeTensor, InferError> {
        let arg = self.argument(i)?;
        self.tensor(&arg.ty().to_owned(), LegalizedArg::of(arg), arg.name().unwrap_or("A"), &format!("argument {i}"))
    }

    /// Returns the elements of an argument that is a tuple of tensors: the operands of a known tuple, otherwise elements extracted from it.
    ///
    /// # Errors
    /// If the argument is missing or is not a tuple of tensors.
    pub fn inputs(&self, i: usize) -> Result<Vec<TeTensor>, InferError> {
        let is_known = self.argument(i)?.kind() == passhost_lang::ir::records::kind::TUPLE;
        self.elements(i, is_known)
    }

    /// Like [`Te::inputs`], but extracts the elements from a named tuple.
    ///
    /// # Errors
    /// If the argument is missing or is not a tuple of tensors.
    pub fn taken_inputs(&self, i: usize) -> Result<Vec<TeTensor>, InferError> {
        let is_written = self.argument(i)?.is_nested();
        self.elements(i, is_written)
    }

    /// Returns the elements of a tuple: the operands that created it, or elements extracted from it.
    fn elements(&self, i: usize, operands: bool) -> Result<Vec<TeTensor>, InferError> {
        let tuple = self.argument(i)?;
        let Type::Tuple(fields) = tuple.ty().to_owned() else {
            return Err(InferError::wrong(format!("argument {i} must be a tuple of tensors")));
        };
        let element = |(k, ty): (usize, &Type)| {
            let operand = tuple.operand(k).filter(|_| operands);
            let arg = operand.map_or_else(|| LegalizedArg::element(tuple, k as u32), LegalizedArg::of);
            let name = operand.and_then(Value::name).unwrap_or("A");
            self.tensor(ty, arg, name, &format!("element {k} of argument {i}"))
        };
        fields.iter().enumerate().map(element).collect()
    }

    /// Returns an argument that is a tensor or a number; a constant with one element is written into the function as a number.
    /// [`TeOperand::broadcast_at`] returns its element at the indices of a result.
    ///
    /// # Errors
    /// If the argument has a different kind, or its shape is unknown.
    pub fn operand(&self, i: usize) -> Result<TeOperand, InferError> {
        let arg = self.argument(i)?;
        if let Some(number) = number(arg) {
            return Ok(TeOperand::Number(number));
        }
        self.input(i).map(TeOperand::Tensor)
    }

    fn argument(&self, i: usize) -> Result<Value<'c>, InferError> {
        self.call.arg(i).ok_or_else(|| InferError::wrong(format!("argument {i} is missing")))
    }

    fn tensor(&self, ty: &Type, arg: LegalizedArg, name: &str, what: &str) -> Result<TeTensor, InferError> {
        let Type::Tensor(ty) = ty else {
            return Err(InferError::wrong(format!("{what} must be a tensor")));
        };
        let Some(shape) = ty.shape.as_ref().filter(|_| ty.dtype.is_known()) else {
            return Err(InferError::wrong(format!("the shape or data type of {what} is unknown")));
        };
        Ok(self.add(shape, ty.dtype, Source::Input(arg, name.to_string())))
    }

    fn add(&self, shape: &[Dim], dtype: DType, source: Source) -> TeTensor {
        let mut tensors = self.tensors.borrow_mut();
        let tensor = TeTensor { id: tensors.len(), name: source.name().into(), shape: shape.into(), dtype };
        tensors.push((tensor.clone(), source));
        tensor
    }

    fn axis(&self, name: String, extent: &Dim) -> Axis {
        let id = FIRST_AXIS + self.axes.get();
        self.axes.set(self.axes.get() + 1);
        let dtype = extent.dtype();
        Axis { sym: Sym { id, dtype }, extent: extent.clone(), name }
    }

    /// Sets the prefix of axis names for tensors computed from now on, such as `i`; the default is `ax`.
    pub fn name_axes(&self, prefix: &'static str) -> &Self {
        self.prefix.set(prefix);
        self
    }

    /// Adds an axis for a reduction.
    pub fn reduce_axis(&self, name: &str, extent: &Dim) -> TeExpr {
        let axis = self.axis(name.to_string(), extent);
        let expr = TeExpr::of_dim(Dim::Var(axis.sym));
        self.reduced.borrow_mut().push(axis);
        expr
    }

    /// Computes a tensor of the given shape; `element` returns the element for given indices. An element may be a reduction, such as
    /// [`TeExpr::sum`].
    pub fn compute(&self, name: &str, shape: &[Dim], element: impl FnOnce(&[TeExpr]) -> TeExpr) -> TeTensor {
        self.compute_with(name, shape, &[], element)
    }

    /// Like [`Te::compute`], but also annotates the block.
    pub fn compute_with(
        &self,
        name: &str,
        shape: &[Dim],
        notes: &[(&str, Note)],
        element: impl FnOnce(&[TeExpr]) -> TeExpr,
    ) -> TeTensor {
        self.compute_named(name, shape, &[], notes, element)
    }

    /// Like [`Te::compute_with`], with names for the axes. Axes without a name are named after the prefix of [`Te::name_axes`].
    pub fn compute_named(
        &self,
        name: &str,
        shape: &[Dim],
        axes: &[String],
        notes: &[(&str, Note)],
        element: impl FnOnce(&[TeExpr]) -> TeExpr,
    ) -> TeTensor {
        let (mut own, indices) = self.axes_of(shape);
        own.iter_mut().zip(axes).for_each(|(axis, name)| axis.name.clone_from(name));
        let value = element(&indices);
        self.note_fault(name, &value);
        let dtype = value.dtype();
        let notes = notes.iter().map(|(key, note)| (key.to_string(), note.clone())).collect();
        let step = Step { name: name.to_string(), axes: own, value, place: None, notes };
        self.add(shape, dtype, Source::Step(step))
    }

    /// Computes a tensor of the given shape with one element for each index of a second shape: `element` returns the position and the value
    /// of the element for an index. Each position must belong to exactly one index. A position may depend on elements of other tensors.
    pub fn compute_placed(
        &self,
        name: &str,
        shape: &[Dim],
        over: &[Dim],
        element: impl FnOnce(&[TeExpr]) -> (Vec<TeExpr>, TeExpr),
    ) -> TeTensor {
        let (axes, indices) = self.axes_of(over);
        let (place, value) = element(&indices);
        place.iter().chain([&value]).for_each(|part| self.note_fault(name, part));
        let dtype = value.dtype();
        let step = Step { name: name.to_string(), axes, value, place: Some(place), notes: Vec::new() };
        self.add(shape, dtype, Source::Step(step))
    }

    /// Computes two tensors of the same shape together over axes of [`Te::reduce_axis`]: `start` contains their initial values, and `next`
    /// returns the next values from the indices and the current values.
    ///
    /// The example computes the position of the greatest element, as in `argmax`:
    ///
    /// ```
    /// use plugin_api::prelude::*;
    /// use plugin_api::te::{Te, TeExpr, least_value};
    ///
    /// fn legalize_argmax(call: Call<'_>) -> Result<Legalized, InferError> {
    ///     let te = Te::new("argmax", call);
    ///     let x = te.input(0)?;
    ///     let k = te.reduce_axis("k", &x.shape()[0]);
    ///     let start = [TeExpr::int(-1, DType::I64), least_value(x.dtype())];
    ///     let [place, _] = te.compute_pair("argmax", &[], start, &[&k], |_, [at, largest]| {
    ///         let stays = largest.ge(x.at([&k]));
    ///         [stays.select(at, &k), stays.select(largest, x.at([&k]))]
    ///     });
    ///     te.finish(&[place])
    /// }
    /// ```
    pub fn compute_pair(
        &self,
        name: &str,
        shape: &[Dim],
        start: [TeExpr; 2],
        over: &[&TeExpr],
        next: impl FnOnce(&[TeExpr], [TeExpr; 2]) -> [TeExpr; 2],
    ) -> [TeTensor; 2] {
        let (axes, indices) = self.axes_of(shape);
        let first = self.tensors.borrow().len();
        let tensor = |k: usize| {
            let name = format!("{name}_v{k}");
            TeTensor { id: first + k, name: name.into(), shape: shape.into(), dtype: start[k].dtype() }
        };
        let tensors = [tensor(0), tensor(1)];
        let next = next(&indices, [tensors[0].at(&indices), tensors[1].at(&indices)]);
        let dtype = start[0].dtype();
        let pair = Pair { tensors: tensors.clone(), start, next, axes: symbols(over) };
        let value = TeExpr::new(Node::Pair(pair), dtype);
        self.note_fault(name, &value);
        let step = Step { name: name.to_string(), axes, value, place: None, notes: Vec::new() };
        let second = Source::Second(first, tensors[1].name().to_string());
        self.tensors.borrow_mut().extend(tensors.clone().into_iter().zip([Source::Step(step), second]));
        tensors
    }

    /// Computes a copy of a tensor with some elements changed. For each value of `over` (axes of [`Te::reduce_axis`]), in order, the element at
    /// `place` is set to the value that `next` returns for the current tensor.
    ///
    /// The example counts the occurrences of each value:
    ///
    /// ```
    /// use plugin_api::prelude::*;
    /// use plugin_api::te::{Te, TeExpr};
    ///
    /// fn legalize_count(call: Call<'_>) -> Result<Legalized, InferError> {
    ///     let te = Te::new("count", call);
    ///     let numbers = te.input(0)?;
    ///     let zeros = te.compute("zeros", &[Dim::Int(10)], |_| TeExpr::int(0, DType::I64));
    ///     let k = te.reduce_axis("k", &numbers.shape()[0]);
    ///     let place = [numbers.at([&k])];
    ///     let count = te.scatter("count", &zeros, &[&k], &place, |so_far| so_far.at(&place) + 1);
    ///     te.finish(&[count])
    /// }
    /// ```
    pub fn scatter(
        &self,
        name: &str,
        x: &TeTensor,
        over: &[&TeExpr],
        place: &[TeExpr],
        next: impl FnOnce(&TeTensor) -> TeExpr,
    ) -> TeTensor {
        let (axes, indices) = self.axes_of(x.shape());
        let id = self.tensors.borrow().len();
        let changed = TeTensor { id, name: name.into(), shape: x.shape.clone(), dtype: x.dtype };
        let next = next(&changed);
        let next = match next.dtype == x.dtype {
            true => next,
            false => TeExpr::fault_of(format!("an element of {} cannot be stored as {}", x.dtype, next.dtype), x.dtype),
        };
        let scatter = Scatter { start: x.at(&indices), place: place.to_vec(), next, axes: symbols(over) };
        let value = TeExpr::new(Node::Scatter(scatter), x.dtype);
        self.note_fault(name, &value);
        let step = Step { name: name.to_string(), axes, value, place: None, notes: Vec::new() };
        self.add(x.shape(), x.dtype, Source::Step(step))
    }

    /// Creates axes for a shape, and returns them with their variables.
    fn axes_of(&self, shape: &[Dim]) -> (Vec<Axis>, Vec<TeExpr>) {
        let prefix = self.prefix.get();
        let axes: Vec<Axis> = shape.iter().enumerate().map(|(i, dim)| self.axis(format!("{prefix}{i}"), dim)).collect();
        let indices = axes.iter().map(|axis| TeExpr::of_dim(Dim::Var(axis.sym))).collect();
        (axes, indices)
    }

    fn note_fault(&self, element: &str, value: &TeExpr) {
        if let Some(fault) = value.fault() {
            self.error.borrow_mut().get_or_insert(fault.error(element));
        }
    }

    /// Returns the axes over which a reduction runs.
    fn reduced_axes(&self, axes: &[Sym]) -> Vec<Axis> {
        let known = self.reduced.borrow();
        axes.iter().filter_map(|sym| known.iter().find(|axis| axis.sym == *sym).cloned()).collect()
    }

    /// Returns the PrimFunc, with these tensors as results.
    ///
    /// # Errors
    /// If an expression has operands of different data types, or the function is not valid.
    pub fn finish(self, results: &[TeTensor]) -> Result<Legalized, InferError> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        if let Some(error) = self.escape(results) {
            return Err(error);
        }
        emit::function(&self, results)
    }
}

/// An argument that is either a tensor or a number.
#[derive(Clone, Debug)]
pub enum TeOperand {
    /// A tensor.
    Tensor(TeTensor),
    /// A number.
    Number(TeExpr),
}

impl TeOperand {
    /// Returns the dimensions; empty for a number.
    pub fn shape(&self) -> &[Dim] {
        match self {
            TeOperand::Tensor(tensor) => tensor.shape(),
            TeOperand::Number(_) => &[],
        }
    }

    /// Returns the data type of the elements.
    pub fn dtype(&self) -> DType {
        match self {
            TeOperand::Tensor(tensor) => tensor.dtype(),
            TeOperand::Number(number) => number.dtype(),
        }
    }

    /// Returns the element at these indices after broadcasting to a shape.
    pub fn broadcast_at(&self, indices: &[TeExpr], to: &[Dim]) -> TeExpr {
        match self {
            TeOperand::Tensor(tensor) => tensor.broadcast_at(indices, to),
            TeOperand::Number(number) => number.clone(),
        }
    }
}

/// Returns the value of a constant with one element, or of a scalar.
fn number(value: Value<'_>) -> Option<TeExpr> {
    if let Some(constant) = value.as_constant().filter(|constant| constant.shape().is_empty()) {
        let dtype = constant.dtype();
        return match dtype.is_float() {
            true => constant.cast::<f64>().ok()?.next().map(|number| TeExpr::float(number, dtype)),
            false if dtype == DType::U64 => {
                constant.cast::<u64>().ok()?.next().map(|number| TeExpr::int(number as i64, dtype))
            }
            false => constant.cast::<i64>().ok()?.next().map(|number| TeExpr::int(number, dtype)),
        };
    }
    match value.ty().to_owned() {
        Type::Prim { value: Some(Dim::Expr(expr)), .. } => match *expr {
            DimExpr::Float(bits, dtype) => Some(TeExpr::float(f64::from_bits(bits), dtype)),
            _ => Some(TeExpr::of_dim(Dim::Expr(expr))),
        },
        Type::Prim { value: Some(dim), .. } => Some(TeExpr::of_dim(dim)),
        _ => None,
    }
}
