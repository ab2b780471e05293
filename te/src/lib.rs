//! Writes what an operator computes as a PrimFunc: tensors of expressions, as in mathematics.
//!
//! A [`Te`] is made for one call of an operator. [`Te::input`] is an argument of it, [`Te::compute`] a tensor of which each
//! element is an expression of its indices, and [`Te::finish`] the PrimFunc with a buffer for each input and result. Each
//! tensor becomes a loop nest around one schedulable block; those that are not results become buffers that are allocated.
//!
//! The legalization of a sum of two tensors of one shape:
//!
//! ```
//! use plugin_api::prelude::*;
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
//! A matrix product sums over an axis of its own:
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

mod emit;
mod expr;
mod form;
mod order;
mod reads;

pub use expr::{Operand, TeExpr, greatest_value, least_value};
pub use form::form;

use expr::{Node, Pair, Scatter, symbols};
use passhost_lang::ir::{Attr, Call, DType, Dim, DimExpr, Sym, Type, Value};
use passhost_lang::typing::legalized::{Legalized, LegalizedArg};
use passhost_lang::typing::operators::InferError;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Numbers from here on are those of axes, not of symbolic variables of the caller.
const FIRST_AXIS: u32 = 1 << 30;
/// Numbers from here on are those of parts of integer expressions that are not integer arithmetic.
const FIRST_ATOM: u32 = 3 << 29;

/// A tensor: an argument of the call, or one that is computed.
#[derive(Clone, Debug)]
pub struct TeTensor {
    id: usize,
    name: Rc<str>,
    shape: Rc<[Dim]>,
    dtype: DType,
}

impl TeTensor {
    /// Its name: that of the argument, or of the computation.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its dimensions.
    pub fn shape(&self) -> &[Dim] {
        &self.shape
    }

    /// Number of its dimensions.
    pub fn ndim(&self) -> usize {
        self.shape.len()
    }

    /// Data type of its elements.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The element at these indices, one for each dimension.
    pub fn at(&self, indices: impl IntoIterator<Item = impl Into<Operand>>) -> TeExpr {
        let index = |index: Operand| index.expr(DType::I64);
        let indices: Vec<TeExpr> = indices.into_iter().map(|operand| index(operand.into())).collect();
        if indices.len() != self.ndim() {
            let message =
                format!("a tensor of {} dimensions has as many indices, found {}", self.ndim(), indices.len());
            return TeExpr::new(Node::Fault(message), self.dtype);
        }
        TeExpr::new(Node::Load(self.clone(), indices), self.dtype).bounded()
    }

    /// The element that broadcasting to a shape has at these indices: dimensions are counted from the last one, and the
    /// index of a dimension of 1 is 0 where that of the shape is another one.
    pub fn broadcast_at(&self, indices: &[TeExpr], to: &[Dim]) -> TeExpr {
        let skipped = indices.len().saturating_sub(self.ndim());
        let of = |((dim, index), to): ((&Dim, &TeExpr), &Dim)| match (dim.as_int(), to.as_int()) {
            (Some(1), other) if other != Some(1) => Operand::from(0),
            _ => Operand::from(index),
        };
        self.at(self.shape.iter().zip(&indices[skipped..]).zip(&to[skipped..]).map(of))
    }
}

/// An axis of a tensor that is computed, or of a reduction.
#[derive(Clone, Debug)]
struct Axis {
    sym: Sym,
    extent: Dim,
    name: String,
}

/// A tensor that is computed.
struct Step {
    name: String,
    axes: Vec<Axis>,
    value: TeExpr,
    /// Where the element is, if not at its axes.
    place: Option<Vec<TeExpr>>,
    /// Annotations of its block.
    notes: Vec<(&'static str, Note)>,
}

/// An annotation of a block.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Note {
    /// An attribute.
    Attr(Attr),
    /// A list of tensors, which inputs or earlier computations are.
    Tensors(Vec<TeTensor>),
}

impl From<Attr> for Note {
    fn from(attr: Attr) -> Note {
        Note::Attr(attr)
    }
}

/// What tensor a number is.
enum Source {
    Input(LegalizedArg, String),
    Step(Step),
    /// The second of two that are computed together, and the number of the first.
    Second(usize, String),
}

impl Source {
    fn name(&self) -> &str {
        match self {
            Source::Input(_, name) | Source::Second(_, name) => name,
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
    /// How the axes of tensors are called: `ax0`, `ax1`, …
    prefix: Cell<&'static str>,
    error: RefCell<Option<InferError>>,
}

impl<'c> Te<'c> {
    /// Begins the PrimFunc of a call, under this name.
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

    /// The call.
    pub fn call(&self) -> Call<'c> {
        self.call
    }

    /// An argument of the call: a tensor whose shape and data type are known. Each use of an argument is an input of its own.
    ///
    /// # Errors
    /// If it is missing, or something else.
    pub fn input(&self, i: usize) -> Result<TeTensor, InferError> {
        let arg = self.argument(i)?;
        self.tensor(&arg.ty().to_owned(), LegalizedArg::of(arg), arg.name().unwrap_or("A"), &format!("argument {i}"))
    }

    /// The elements of an argument that is a tuple of tensors: what a known tuple was made of, else what is taken out of it.
    ///
    /// # Errors
    /// If it is missing, or something else.
    pub fn inputs(&self, i: usize) -> Result<Vec<TeTensor>, InferError> {
        let is_known = self.argument(i)?.kind() == passhost_lang::ir::records::kind::TUPLE;
        self.elements(i, is_known)
    }

    /// The elements of an argument that is a tuple of tensors, as [`Te::inputs`], but taken out of a tuple that has a name.
    ///
    /// # Errors
    /// If it is missing, or something else.
    pub fn taken_inputs(&self, i: usize) -> Result<Vec<TeTensor>, InferError> {
        let is_written = self.argument(i)?.is_nested();
        self.elements(i, is_written)
    }

    /// The elements of a tuple: its operands, or what is taken out of it.
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

    /// An argument that is a tensor, or a number: a constant of one element is written into the function. The function
    /// that is returned is the element for the indices of a result, with broadcasting.
    ///
    /// # Errors
    /// If it is something else, or the shape is not known.
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
            return Err(InferError::wrong(format!("{what} is not a tensor")));
        };
        let Some(shape) = ty.shape.as_ref().filter(|_| ty.dtype.is_known()) else {
            return Err(InferError::wrong(format!("shape or data type of {what} are not known")));
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

    /// The tensors that are computed from now on call their axes by this prefix, as in `i0`; it is `ax` at first.
    pub fn name_axes(&self, prefix: &'static str) -> &Self {
        self.prefix.set(prefix);
        self
    }

    /// An axis to reduce over.
    pub fn reduce_axis(&self, name: &str, extent: &Dim) -> TeExpr {
        let axis = self.axis(name.to_string(), extent);
        let expr = TeExpr::of_dim(Dim::Var(axis.sym));
        self.reduced.borrow_mut().push(axis);
        expr
    }

    /// A tensor of this shape, whose elements are what `element` makes of their indices. An element may be a
    /// reduction, such as [`TeExpr::sum`].
    pub fn compute(&self, name: &str, shape: &[Dim], element: impl FnOnce(&[TeExpr]) -> TeExpr) -> TeTensor {
        self.compute_with(name, shape, &[], element)
    }

    /// As [`Te::compute`], with annotations of the block.
    pub fn compute_with(
        &self,
        name: &str,
        shape: &[Dim],
        notes: &[(&'static str, Note)],
        element: impl FnOnce(&[TeExpr]) -> TeExpr,
    ) -> TeTensor {
        let (axes, indices) = self.axes_of(shape);
        let value = element(&indices);
        self.note_fault(&value);
        let dtype = value.dtype();
        let step = Step { name: name.to_string(), axes, value, place: None, notes: notes.to_vec() };
        self.add(shape, dtype, Source::Step(step))
    }

    /// A tensor of this shape, of which an element is computed for each index of another shape: `element` makes of such
    /// an index the place of the element and its value. Each place must be that of one index.
    pub fn compute_placed(
        &self,
        name: &str,
        shape: &[Dim],
        over: &[Dim],
        element: impl FnOnce(&[TeExpr]) -> (Vec<TeExpr>, TeExpr),
    ) -> TeTensor {
        let (axes, indices) = self.axes_of(over);
        let (place, value) = element(&indices);
        self.note_fault(&value);
        let dtype = value.dtype();
        let step = Step { name: name.to_string(), axes, value, place: Some(place), notes: Vec::new() };
        self.add(shape, dtype, Source::Step(step))
    }

    /// Two tensors of one shape, whose elements are computed together over axes of [`Te::reduce_axis`]: `start` is what
    /// they are at first, and `next` makes the next values of their indices and of what they are so far.
    ///
    /// The place of the largest element, as in `argmax`:
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
        self.note_fault(&value);
        let step = Step { name: name.to_string(), axes, value, place: None, notes: Vec::new() };
        let second = Source::Second(first, tensors[1].name().to_string());
        self.tensors.borrow_mut().extend(tensors.clone().into_iter().zip([Source::Step(step), second]));
        tensors
    }

    /// A copy of a tensor of which some elements change: for all values of `over`, which are axes of [`Te::reduce_axis`], in
    /// order, the element at `place` becomes what `next` makes of the tensor so far.
    ///
    /// How often each number occurs:
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
            false => {
                TeExpr::new(Node::Fault(format!("an element of {} that becomes {}", x.dtype, next.dtype)), x.dtype)
            }
        };
        let scatter = Scatter { start: x.at(&indices), place: place.to_vec(), next, axes: symbols(over) };
        let value = TeExpr::new(Node::Scatter(scatter), x.dtype);
        self.note_fault(&value);
        let step = Step { name: name.to_string(), axes, value, place: None, notes: Vec::new() };
        self.add(x.shape(), x.dtype, Source::Step(step))
    }

    /// New axes for a shape, and their variables.
    fn axes_of(&self, shape: &[Dim]) -> (Vec<Axis>, Vec<TeExpr>) {
        let prefix = self.prefix.get();
        let axes: Vec<Axis> = shape.iter().enumerate().map(|(i, dim)| self.axis(format!("{prefix}{i}"), dim)).collect();
        let indices = axes.iter().map(|axis| TeExpr::of_dim(Dim::Var(axis.sym))).collect();
        (axes, indices)
    }

    fn note_fault(&self, value: &TeExpr) {
        if let Some(error) = value.fault() {
            self.error.borrow_mut().get_or_insert(InferError::wrong(error));
        }
    }

    /// The axes that a reduction runs over.
    fn reduced_axes(&self, axes: &[Sym]) -> Vec<Axis> {
        let known = self.reduced.borrow();
        axes.iter().filter_map(|sym| known.iter().find(|axis| axis.sym == *sym).cloned()).collect()
    }

    /// The PrimFunc, with these tensors as results.
    ///
    /// # Errors
    /// If an expression has operands of two data types, or the function is not valid.
    pub fn finish(self, results: &[TeTensor]) -> Result<Legalized, InferError> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        emit::function(&self, results)
    }
}

/// An argument that is a tensor or a number.
#[derive(Clone, Debug)]
pub enum TeOperand {
    /// A tensor.
    Tensor(TeTensor),
    /// A number.
    Number(TeExpr),
}

impl TeOperand {
    /// Its dimensions; none of a number.
    pub fn shape(&self) -> &[Dim] {
        match self {
            TeOperand::Tensor(tensor) => tensor.shape(),
            TeOperand::Number(_) => &[],
        }
    }

    /// Data type of its elements.
    pub fn dtype(&self) -> DType {
        match self {
            TeOperand::Tensor(tensor) => tensor.dtype(),
            TeOperand::Number(number) => number.dtype(),
        }
    }

    /// The element that broadcasting to a shape has at these indices.
    pub fn broadcast_at(&self, indices: &[TeExpr], to: &[Dim]) -> TeExpr {
        match self {
            TeOperand::Tensor(tensor) => tensor.broadcast_at(indices, to),
            TeOperand::Number(number) => number.clone(),
        }
    }
}

/// The value of a constant of one element, or of a scalar.
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
