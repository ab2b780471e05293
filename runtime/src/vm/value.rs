//! Values of the virtual machine.

mod pieces;

use super::failure::Cause;
use super::plan::Plan;
use super::symbols::Symbols;
use crate::tensor::Tensor;
use passhost_lang::ir::DType;
use passhost_lang::ir::constant::Number;
use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::sync::Arc;

pub use pieces::Piece;
pub(super) use pieces::Pieces;

/// Maximum nesting depth of tuples and closures, so that values can be dropped and compared recursively.
pub const DEEPEST_VALUE: u32 = 1_000;

/// A runtime value of Relax. Clones share data.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Value {
    /// A tensor.
    Tensor(Tensor),
    /// A tuple.
    Tuple(Tuple),
    /// A shape.
    Shape(Arc<[i64]>),
    /// A number: `R.prim_value`, or a symbolic dimension.
    Scalar(Scalar),
    /// A string.
    Str(Arc<str>),
    /// A data type.
    DType(DType),
    /// A function of the module, by name.
    Function(Arc<str>),
    /// A nested function, or a function with some arguments bound.
    Closure(Arc<Closure>),
    /// An external function, by name.
    Packed(Arc<str>),
    /// A piece of memory. Tensors allocated from it nevertheless have separate memory.
    Storage(Piece),
    /// A missing value.
    Null,
}

/// A number with its data type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scalar {
    /// The number.
    pub number: Number,
    /// Data type of the scalar.
    pub dtype: DType,
}

/// The fields of a tuple.
#[derive(Clone, Debug)]
pub struct Tuple {
    fields: Arc<[Value]>,
    depth: u32,
}

impl Tuple {
    /// Returns the fields in order.
    pub fn fields(&self) -> &[Value] {
        &self.fields
    }
}

/// A function with its captured values.
#[derive(Clone, Debug)]
pub struct Closure {
    pub(super) callee: Callee,
    /// Arguments appended to those of a call.
    pub(super) bound: Vec<Value>,
    depth: u32,
}

/// The function that a closure calls.
#[derive(Clone, Debug)]
pub(super) enum Callee {
    /// A function of the module, by name.
    Global(Arc<str>),
    /// A nested function, with its captured values by node, and the symbolic variables bound in it.
    Nested { plan: Arc<Plan>, captured: BTreeMap<u32, Value>, symbols: Symbols },
}

impl Closure {
    /// Creates a closure that captures nothing.
    pub(super) fn of_function(plan: Arc<Plan>) -> Closure {
        let callee = Callee::Nested { plan, captured: BTreeMap::new(), symbols: Symbols::default() };
        Closure { callee, bound: Vec::new(), depth: 1 }
    }

    /// Updates the closure after a write, like [`Value::after_write`].
    pub(super) fn after_write(&self, from: usize, to: &Tensor) -> Option<Closure> {
        let mut out = self.clone();
        let captured = match &mut out.callee {
            Callee::Nested { captured, .. } => Some(captured.values_mut()),
            Callee::Global(_) => None,
        };
        after_write(captured.into_iter().flatten().chain(&mut out.bound), from, to).then_some(out)
    }

    /// Returns the nested function without bound arguments, as for references inside it; `None` for a function of
    /// the module.
    pub(super) fn unbound(self: &Arc<Closure>) -> Option<Arc<Closure>> {
        match &self.callee {
            Callee::Global(_) => None,
            Callee::Nested { .. } if self.bound.is_empty() => Some(Arc::clone(self)),
            nested => Some(Arc::new(Closure { callee: nested.clone(), bound: Vec::new(), depth: self.depth })),
        }
    }
}

/// Updates values after a write, like [`Value::after_write`]. Returns true if any value changed.
pub(super) fn after_write<'v>(values: impl IntoIterator<Item = &'v mut Value>, from: usize, to: &Tensor) -> bool {
    let mut some = false;
    for value in values {
        if let Some(new) = value.after_write(from, to) {
            (*value, some) = (new, true);
        }
    }
    some
}

fn depth_of<'v>(values: impl Iterator<Item = &'v Value>) -> u32 {
    let depth = |value: &Value| match value {
        Value::Tuple(tuple) => tuple.depth,
        Value::Closure(closure) => closure.depth,
        _ => 0,
    };
    values.map(depth).max().unwrap_or(0)
}

fn within(depth: u32) -> Result<(), Cause> {
    if depth > DEEPEST_VALUE { Err(Cause::NestedValue { limit: DEEPEST_VALUE }) } else { Ok(()) }
}

impl Value {
    /// Creates a tuple.
    ///
    /// # Errors
    /// Fails if its fields are nested too deeply.
    pub fn tuple(fields: Vec<Value>) -> Result<Value, Cause> {
        let depth = depth_of(fields.iter()) + 1;
        within(depth)?;
        Ok(Value::Tuple(Tuple { fields: fields.into(), depth }))
    }

    /// Creates a closure.
    ///
    /// # Errors
    /// Fails if the closure is nested too deeply.
    pub(super) fn closure(callee: Callee, bound: Vec<Value>) -> Result<Value, Cause> {
        let captured = match &callee {
            Callee::Nested { captured, .. } => depth_of(captured.values()),
            Callee::Global(_) => 0,
        };
        let depth = captured.max(depth_of(bound.iter())) + 1;
        within(depth)?;
        Ok(Value::Closure(Arc::new(Closure { callee, bound, depth })))
    }

    /// Creates an integer of a data type.
    pub fn int(value: i64, dtype: DType) -> Value {
        let number = if dtype == DType::BOOL { Number::Bool(value != 0) } else { Number::Int(value) };
        Value::Scalar(Scalar { number, dtype })
    }

    /// Creates a shape.
    pub fn shape(extents: &[i64]) -> Value {
        Value::Shape(extents.into())
    }

    /// Returns the value after a write that moved the tensors in memory `from` to the memory of `to`; `None` if the
    /// value contains no such tensors.
    pub(super) fn after_write(&self, from: usize, to: &Tensor) -> Option<Value> {
        match self {
            Value::Tensor(tensor) if tensor.memory() == from => Some(Value::Tensor(tensor.in_memory_of(to))),
            Value::Tuple(tuple) => {
                let mut fields = tuple.fields.to_vec();
                let some = after_write(&mut fields, from, to);
                some.then(|| Value::Tuple(Tuple { fields: fields.into(), depth: tuple.depth }))
            }
            Value::Closure(closure) => closure.after_write(from, to).map(|closure| Value::Closure(Arc::new(closure))),
            _ => None,
        }
    }

    /// Returns the value as a tensor.
    pub fn as_tensor(&self) -> Option<&Tensor> {
        match self {
            Value::Tensor(tensor) => Some(tensor),
            _ => None,
        }
    }

    /// Returns the fields if the value is a tuple.
    pub fn as_tuple(&self) -> Option<&[Value]> {
        match self {
            Value::Tuple(tuple) => Some(tuple.fields()),
            _ => None,
        }
    }

    /// Returns the extents if the value is a shape.
    pub fn as_shape(&self) -> Option<&[i64]> {
        match self {
            Value::Shape(extents) => Some(extents),
            _ => None,
        }
    }

    /// Returns the integer if the value is an integer, a Boolean, or a single-element tensor of such a type.
    pub fn as_int(&self) -> Option<i64> {
        let number = match self {
            Value::Scalar(scalar) => scalar.number,
            Value::Tensor(tensor) if tensor.len() == 1 => tensor.number(0)?,
            _ => return None,
        };
        match number {
            Number::Bool(value) => Some(value.into()),
            Number::Int(value) => Some(value),
            Number::UInt(value) => i64::try_from(value).ok(),
            Number::Float(_) => None,
        }
    }

    /// Returns true if both values have the same bits; for functions and memory, if they have the same kind.
    pub fn same(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Tensor(a), Value::Tensor(b)) => a == b,
            (Value::Tuple(a), Value::Tuple(b)) => {
                a.fields.len() == b.fields.len() && a.fields.iter().zip(&*b.fields).all(|(a, b)| a.same(b))
            }
            (Value::Shape(a), Value::Shape(b)) => a == b,
            (Value::Scalar(a), Value::Scalar(b)) => a == b || a.dtype == b.dtype && is_nan(a) && is_nan(b),
            (Value::Str(a), Value::Str(b)) => a == b,
            (Value::DType(a), Value::DType(b)) => a == b,
            (a, b) => std::mem::discriminant(a) == std::mem::discriminant(b),
        }
    }

    /// Describes the value in messages: `a tensor of float32 of shape (2, 3)`.
    pub fn described(&self) -> String {
        match self {
            Value::Tensor(tensor) => format!("a tensor of {} of shape {}", tensor.dtype(), shape_text(tensor.shape())),
            Value::Tuple(tuple) => match tuple.fields.len() {
                1 => "a tuple of 1 value".to_string(),
                n => format!("a tuple of {n} values"),
            },
            Value::Shape(extents) => format!("the shape {}", shape_text(extents)),
            Value::Scalar(scalar) => format!("the {} {}", scalar.dtype, number_text(scalar.number)),
            Value::Str(_) => "a string".to_string(),
            Value::DType(dtype) => format!("the data type {dtype}"),
            Value::Function(name) => format!("the function `{name}`"),
            Value::Closure(_) => "a closure".to_string(),
            Value::Packed(name) => format!("the packed function `{name}`"),
            Value::Storage(_) => "a piece of memory".to_string(),
            Value::Null => "no value".to_string(),
        }
    }
}

fn is_nan(scalar: &Scalar) -> bool {
    matches!(scalar.number, Number::Float(value) if value.is_nan())
}

/// Formats a shape as Python does: `(2, 3)`, `(2,)` or `()`.
pub fn shape_text(extents: &[i64]) -> String {
    let list = extents.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
    if extents.len() == 1 { format!("({list},)") } else { format!("({list})") }
}

/// Formats a number for users.
pub fn number_text(number: Number) -> String {
    match number {
        Number::Bool(value) => if value { "True" } else { "False" }.to_string(),
        Number::Int(value) => value.to_string(),
        Number::UInt(value) => value.to_string(),
        Number::Float(value) => value.to_string(),
    }
}

/// Maximum number of printed elements of a tensor.
const PRINTED: usize = 100;

/// Formats the value like `R.print`.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Tensor(tensor) => {
                let numbers: Vec<String> = tensor.numbers().take(PRINTED).map(number_text).collect();
                let more = if tensor.len() > PRINTED { ", ..." } else { "" };
                match tensor.shape() {
                    [] => f.write_str(&numbers.concat()),
                    shape => write!(f, "[{}{more}] of shape {}", numbers.join(", "), shape_text(shape)),
                }
            }
            Value::Tuple(tuple) => {
                f.write_char('(')?;
                for (i, field) in tuple.fields.iter().enumerate() {
                    write!(f, "{}{field}", if i > 0 { ", " } else { "" })?;
                }
                f.write_char(')')
            }
            Value::Shape(extents) => f.write_str(&shape_text(extents)),
            Value::Scalar(scalar) => f.write_str(&number_text(scalar.number)),
            Value::Str(text) => f.write_str(text),
            Value::DType(dtype) => write!(f, "{dtype}"),
            other => f.write_str(&other.described()),
        }
    }
}
