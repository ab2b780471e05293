//! Constant values, and the encoding of evaluation answers.

use crate::ir::constant::Array;
use crate::ir::make::import::Importer;
use crate::ir::records::{flag, kind};
use crate::ir::{AttrsId, Body, BodyBuilder, Call, Dim, Expr, NodeSpec, Type, V, Value};
use crate::rewrite::Edit;
use std::fmt;

/// A compile-time value.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ConstantValue {
    /// A tensor.
    Tensor(Array),
    /// A shape.
    Shape(Vec<i64>),
    /// A number: a [`Dim`] without variables.
    Number(Dim),
    /// A tuple.
    Tuple(Vec<ConstantValue>),
}

/// Maximum nesting of tuples.
const DEEPEST_TUPLE: u32 = 16;

impl ConstantValue {
    /// Returns the value of an expression that is a constant, a shape or number without variables, or a tuple of
    /// these. `None` for variables and computed values.
    ///
    /// ```
    /// use plugin_api::prelude::*;
    /// use plugin_api::ir::BodyBuilder;
    /// use plugin_api::services::evaluation::ConstantValue;
    ///
    /// let mut b = BodyBuilder::new();
    /// let shape = b.shape(&[Dim::Int(2), Dim::Int(3)]);
    /// let known = b.with(shape, ConstantValue::of);
    /// assert!(matches!(known, Some(ConstantValue::Shape(extents)) if extents == [2, 3]));
    /// ```
    pub fn of(value: Value<'_>) -> Option<ConstantValue> {
        ConstantValue::within(value, DEEPEST_TUPLE)
    }

    fn within(value: Value<'_>, depth: u32) -> Option<ConstantValue> {
        match value.view() {
            Expr::Const(_) => Some(ConstantValue::Tensor(value.as_constant()?.to_array())),
            Expr::Shape => value.dims()?.iter().map(Dim::as_int).collect::<Option<_>>().map(ConstantValue::Shape),
            Expr::Prim => value.dim().filter(has_no_variable).map(ConstantValue::Number),
            Expr::Tuple(fields) => {
                let depth = depth.checked_sub(1)?;
                let fields = fields.operands().map(|field| ConstantValue::within(field, depth));
                fields.collect::<Option<_>>().map(ConstantValue::Tuple)
            }
            _ => None,
        }
    }

    /// Writes the value as an expression at the current place of an edit; a tuple stays unnamed.
    pub fn write(&self, edit: &mut Edit<'_>) -> V {
        match self {
            ConstantValue::Tuple(fields) => {
                let fields: Vec<V> = fields.iter().map(|field| field.write(edit)).collect();
                let ty = edit.builder().ty(&self.ty());
                edit.node(NodeSpec::new(kind::TUPLE).ty(ty), &fields, None)
            }
            leaf => leaf.add_to(edit.builder()),
        }
    }

    /// Writes the value as an expression of a body under construction.
    pub fn add_to(&self, b: &mut BodyBuilder) -> V {
        match self {
            ConstantValue::Tensor(array) => b.array(array),
            ConstantValue::Shape(extents) => b.shape(&extents.iter().copied().map(Dim::Int).collect::<Vec<_>>()),
            ConstantValue::Number(number) => b.prim_value(number),
            ConstantValue::Tuple(fields) => {
                let fields: Vec<V> = fields.iter().map(|field| field.add_to(b)).collect();
                b.tuple(&fields, None)
            }
        }
    }

    /// Returns the type.
    pub fn ty(&self) -> Type {
        match self {
            ConstantValue::Tensor(array) => array.ty(),
            ConstantValue::Shape(extents) => {
                let dims = extents.iter().copied().map(Dim::Int).collect();
                Type::Shape { ndim: extents.len() as i32, dims: Some(dims) }
            }
            ConstantValue::Number(number) => Type::Prim { dtype: number.dtype(), value: Some(number.clone()) },
            ConstantValue::Tuple(fields) => Type::tuple(fields.iter().map(ConstantValue::ty).collect::<Vec<_>>()),
        }
    }

    /// Returns the size of the tensors in bytes.
    pub fn bytes(&self) -> u64 {
        match self {
            ConstantValue::Tensor(array) => array.view().bytes().len() as u64,
            ConstantValue::Shape(_) | ConstantValue::Number(_) => 0,
            ConstantValue::Tuple(fields) => fields.iter().map(ConstantValue::bytes).sum(),
        }
    }
}

fn has_no_variable(dim: &Dim) -> bool {
    let mut none = true;
    dim.vars(&mut |_| none = false);
    none
}

/// The resources of an evaluation. A larger number does not raise the host's own limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvaluationLimits {
    /// Peak bytes of tensors, without the constants of the function.
    pub memory: u64,
    /// Units of work. A unit is less than a tenth of a nanosecond: a scalar operation takes about 200 units, and a
    /// vectorized operation one unit per element.
    pub work: u64,
}

/// The default is 1 GiB of memory, and as much work as the interpreter does in a few seconds.
impl Default for EvaluationLimits {
    fn default() -> EvaluationLimits {
        EvaluationLimits { memory: 1 << 30, work: 100_000_000_000 }
    }
}

/// The result of an evaluation.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Evaluated {
    /// A function without parameters that returns the result.
    pub function: Body,
    /// Units of work spent. A cached result counts as if it had been computed.
    pub work: u64,
}

impl Evaluated {
    /// Creates a result with the work spent on it.
    pub fn new(function: Body, work: u64) -> Evaluated {
        Evaluated { function, work }
    }

    /// Returns the result; `None` unless it is a tensor, shape or number, or a tuple of these.
    pub fn value(&self) -> Option<ConstantValue> {
        ConstantValue::of(self.function.function()?.result()?)
    }
}

/// The reason why an evaluation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
#[non_exhaustive]
pub enum Reason {
    /// The host is missing, or does not support evaluation.
    NoHost = 1,
    /// A necessary value is unknown: an argument, parameter or symbolic variable.
    NotKnown = 2,
    /// The evaluated code has an effect.
    Effect = 3,
    /// The runtime cannot execute the code: an operator without a legalization, a packed function, and so on.
    NotExecuted = 4,
    /// An integer is divided by zero.
    DivisionByZero = 5,
    /// An index is out of bounds.
    OutOfBounds = 6,
    /// An assertion does not hold.
    Assertion = 7,
    /// The evaluation exceeds the work limit, or never terminates.
    Work = 8,
    /// The evaluation exceeds the memory limit.
    Memory = 9,
    /// The module is inconsistent: types do not match, or a function is missing.
    Wrong = 10,
}

impl Reason {
    const ALL: [Reason; 10] = [
        Reason::NoHost,
        Reason::NotKnown,
        Reason::Effect,
        Reason::NotExecuted,
        Reason::DivisionByZero,
        Reason::OutOfBounds,
        Reason::Assertion,
        Reason::Work,
        Reason::Memory,
        Reason::Wrong,
    ];

    /// Returns the reason whose number is `number`; for numbers unknown to this version of the API, the most general
    /// reason.
    fn of(number: u32) -> Reason {
        Reason::ALL.into_iter().find(|reason| *reason as u32 == number).unwrap_or(Reason::NotExecuted)
    }
}

/// The reason why an evaluation failed, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EvaluationError {
    /// The reason.
    pub reason: Reason,
    /// The reason as a detailed message for users.
    pub message: String,
    /// The module function or operator in which the evaluation failed, if any was entered.
    pub function: Option<String>,
    /// Statement of that function.
    pub statement: Option<String>,
    /// Units of work up to the failure; see [`EvaluationLimits`].
    pub work: u64,
}

impl EvaluationError {
    /// Creates an error without a place.
    pub fn new(reason: Reason, message: impl Into<String>) -> EvaluationError {
        EvaluationError { reason, message: message.into(), function: None, statement: None, work: 0 }
    }

    pub(crate) fn no_host() -> EvaluationError {
        EvaluationError::new(Reason::NoHost, "calls cannot be evaluated, because the code does not run in a host")
    }
}

impl fmt::Display for EvaluationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for EvaluationError {}

/// Turns a call into a parameterless function that returns its value. `known` returns the values of arguments that
/// are not leaves.
pub(crate) fn closed<'v>(
    call: Call<'v>,
    known: &mut dyn FnMut(Value<'v>) -> Option<ConstantValue>,
) -> Result<Body, EvaluationError> {
    let unknown = |what: String| EvaluationError::new(Reason::NotKnown, what);
    let value = call.value();
    let (mut b, mut importer) = (BodyBuilder::new(), Importer::of_few(value.raw));
    b.begin_function(0, AttrsId::NONE, None);
    b.begin_block();
    let mut operands = Vec::with_capacity(value.n_operands());
    for (i, operand) in value.operands().enumerate() {
        let v = if operand.is_leaf() {
            importer.value_of(&mut b, operand)
        } else {
            known(operand).map(|constant| constant.add_to(&mut b))
        };
        operands.push(v.ok_or_else(|| match i.checked_sub(1) {
            Some(argument) => unknown(format!("argument {argument} of the call is not constant")),
            None => unknown("the function of the call is not constant".to_string()),
        })?);
    }
    let wrong = |why: &dyn fmt::Display| EvaluationError::new(Reason::Wrong, format!("the call is invalid: {why}"));
    let v = importer.copy_with(&mut b, value, &operands).ok_or_else(|| wrong(&"the value is not a call"))?;
    b.bind(v, value.name().unwrap_or("y"));
    // The variable may be internal to a dataflow block, but this is a plain block.
    b.clear_flags(v, flag::INNER);
    b.end();
    let ty = b.type_of(v);
    b.end_function(v, ty);
    b.finish().map_err(|why| wrong(&why))
}

/// Status of an answer with a result; the other statuses are those of [`Reason`].
pub(crate) const EVALUATED: u32 = 0;

/// Encodes an answer as status and bytes: the work, and for an error three strings, each preceded by its length; a
/// missing string has the length `u32::MAX`.
pub(crate) fn encode_evaluation(answer: &Result<Evaluated, EvaluationError>) -> (u32, Vec<u8>) {
    let error = match answer {
        Ok(evaluated) => return (EVALUATED, evaluated.work.to_le_bytes().to_vec()),
        Err(error) => error,
    };
    let mut out = error.work.to_le_bytes().to_vec();
    for text in [Some(&error.message), error.function.as_ref(), error.statement.as_ref()] {
        out.extend_from_slice(&text.map_or(u32::MAX, |text| text.len() as u32).to_le_bytes());
        out.extend_from_slice(text.map_or("", String::as_str).as_bytes());
    }
    (error.reason as u32, out)
}

/// Decodes the bytes of [`encode_evaluation`], with the function that came with them.
pub(crate) fn decode_evaluation(
    status: u32,
    bytes: &[u8],
    function: Option<Body>,
) -> Result<Evaluated, EvaluationError> {
    if let (EVALUATED, Some(function), Some(work)) = (status, function, bytes.first_chunk()) {
        return Ok(Evaluated { function, work: u64::from_le_bytes(*work) });
    }
    let (work, mut rest) = bytes.split_first_chunk::<8>().unwrap_or((&[0; 8], &[]));
    let mut text = || {
        let (len, tail) = rest.split_first_chunk::<4>()?;
        let len = u32::from_le_bytes(*len);
        rest = tail;
        let (text, tail) = rest.split_at_checked(len as usize).filter(|_| len != u32::MAX)?;
        rest = tail;
        Some(String::from_utf8_lossy(text).into_owned())
    };
    let (message, function, statement) = (text(), text(), text());
    let message = message.unwrap_or_else(|| "the host sent an invalid result".to_string());
    Err(EvaluationError { reason: Reason::of(status), message, function, statement, work: u64::from_le_bytes(*work) })
}
