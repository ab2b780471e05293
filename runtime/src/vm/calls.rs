//! Executes calls of functions, closures and packed functions, and of the operators that the machine implements.

use super::bind::Binder;
use super::failure::Cause;
use super::kernels::told;
use super::machine::{Frame, Machine, Next, Target};
use super::observe::Observer;
use super::packed::{sorting, standard};
use super::value::{Callee, Value};
use crate::fault::{Fault, FaultKind};
use crate::tensor::{Tensor, size_of};
use passhost_lang::ir::{Body, BodyKind, Call, Expr, Type, Value as Node};
use std::sync::Arc;

impl Machine<'_> {
    /// Executes any call.
    pub(super) fn call(
        &mut self,
        frame: &mut Frame,
        call: Call<'_>,
        observer: &mut dyn Observer,
    ) -> Result<Next, Cause> {
        match call.callee().view() {
            Expr::Op(name) => self.operator(frame, call, name, observer),
            Expr::GlobalVar(name) if self.function(name)?.kind() == BodyKind::PrimFunc => {
                let next = self.call_prim_func(frame, name, call, observer);
                observer.called();
                next
            }
            _ => {
                let args = frame.values(call.args())?;
                let callee = frame.value(call.callee())?;
                let next = self.call_value(&callee, args, observer)?;
                returned(frame, call, &callee, next)
            }
        }
    }

    /// Calls a value.
    fn call_value(&mut self, callee: &Value, mut args: Vec<Value>, observer: &mut dyn Observer) -> Result<Next, Cause> {
        match callee {
            Value::Function(name) => {
                let body = self.function(name)?;
                match body.kind() {
                    BodyKind::Function => Ok(Next::Call { callee: Target::Global(name.clone()), args }),
                    BodyKind::Extern => {
                        let symbol = body.root().operand(0).map(Node::view);
                        let symbol = if let Some(Expr::ExternFunc(symbol)) = symbol { symbol } else { name };
                        self.call_packed(symbol, &args, observer)
                    }
                    _ => Err(Fault::unsupported("a PrimFunc as the callee of a plain call").into()),
                }
            }
            Value::Closure(closure) => {
                // Bound arguments come last, as in TVM.
                args.extend(closure.bound.iter().cloned());
                let callee = match (&closure.callee, closure.unbound()) {
                    (Callee::Global(name), _) => Target::Global(name.clone()),
                    (_, nested) => Target::Nested(nested.unwrap_or_else(|| closure.clone())),
                };
                Ok(Next::Call { callee, args })
            }
            Value::Packed(name) => self.call_packed(name, &args, observer),
            other => Err(Cause::mismatch("the callee", other.described(), "a function")),
        }
    }

    /// Calls a packed function that returns a value.
    pub(super) fn call_packed(
        &mut self,
        name: &str,
        args: &[Value],
        observer: &mut dyn Observer,
    ) -> Result<Next, Cause> {
        let value = match (name, args) {
            ("relax.run.print", [Value::Str(format), args @ ..]) => {
                observer.printed(&formatted(format, args, " ")?);
                Value::tuple(Vec::new())?
            }
            ("relax.run.assert_op", [condition, Value::Str(format), args @ ..]) => asserted(condition, format, args)?,
            _ => self.packed.returning(name)?(args, &self.limits)?,
        };
        told(value, observer)
    }

    /// Executes a call of an operator.
    fn operator(
        &mut self,
        frame: &mut Frame,
        call: Call<'_>,
        name: &str,
        observer: &mut dyn Observer,
    ) -> Result<Next, Cause> {
        match name {
            "relax.call_tir" | "relax.call_tir_with_grad" => {
                let value = self.call_tir(frame, call, &[], observer)?;
                told(value, observer)
            }
            "relax.call_tir_inplace" => {
                let indices = call.attr("inplace_indices").map(|list| list.items().filter_map(|item| item.as_int()));
                let indices: Vec<i64> = indices.into_iter().flatten().collect();
                let value = self.call_tir(frame, call, &indices, observer)?;
                told(value, observer)
            }
            "relax.call_dps_packed" => {
                let value = self.call_filling(frame, call)?;
                told(value, observer)
            }
            "relax.call_packed" | "relax.call_pure_packed" | "relax.call_inplace_packed" => {
                let written = self.call_writing(frame, call, observer)?;
                let mut args = frame.values(call.args())?;
                let callee = if args.is_empty() { Value::Null } else { args.remove(0) };
                let next = match written {
                    Some(value) => told(value, observer)?,
                    None => self.call_value(&callee, args, observer)?,
                };
                returned(frame, call, &callee, next)
            }
            "relax.call_builtin_with_ctx" | "relax.invoke_closure" | "relax.invoke_pure_closure" => {
                let (callee, args) = callee_and_tuple(frame, call)?;
                let next = self.call_value(&callee, args, observer)?;
                returned(frame, call, &callee, next)
            }
            "relax.make_closure" => {
                let (callee, bound) = callee_and_tuple(frame, call)?;
                closure_of(&callee, bound).map(Next::Value)
            }
            "relax.print" | "relax.assert_op" => {
                let args = frame.values(call.args())?;
                let format = call.attr("format").and_then(|format| format.as_str()).unwrap_or_default();
                match (name, args.as_slice()) {
                    ("relax.assert_op", [condition, args @ ..]) => asserted(condition, format, args).map(Next::Value),
                    (_, args) => {
                        observer.printed(&formatted(format, args, " ")?);
                        Value::tuple(Vec::new()).map(Next::Value)
                    }
                }
            }
            _ => match self.simple_operator(frame, call, name)? {
                Some(value) => Ok(Next::Value(value)),
                None => {
                    let next = self.call_lowered(frame, call, name, observer)?;
                    observer.called();
                    Ok(next)
                }
            },
        }
    }

    /// Executes an operator on shapes, devices or memory; `None` for all other operators.
    fn simple_operator(&mut self, frame: &Frame, call: Call<'_>, name: &str) -> Result<Option<Value>, Cause> {
        let value = |i: usize| match call.arg(i) {
            Some(arg) => frame.value(arg),
            None => Err(Cause::mismatch(format!("argument {i} of `{name}`"), "missing", "a value")),
        };
        Ok(Some(match name {
            "relax.shape_of" => match value(0)? {
                Value::Tensor(tensor) => Value::shape(tensor.shape()),
                Value::Shape(extents) => Value::Shape(extents),
                other => return Err(Cause::mismatch("the argument of `R.shape_of`", other.described(), "a tensor")),
            },
            "relax.tensor_to_shape" => standard::tensor_to_shape(&value(0)?)?,
            "relax.shape_to_tensor" => standard::shape_to_tensor(&[value(0)?], &self.limits)?,
            "relax.reshape" => return reshaped(call, &value(0)?, &value(1)?),
            "relax.null_value" => Value::Null,
            "relax.to_vdevice"
            | "relax.hint_on_device"
            | "relax.builtin.stop_lift_params"
            | "relax.memory.ensure_zero_offset" => value(0)?,
            "relax.sort" | "relax.argsort" | "relax.topk" => sorting::sorted(call, name, &value(0)?, &self.limits)?,
            "relax.builtin.alloc_tensor" => self.allocated(frame, &value(0)?, &value(1)?)?,
            "relax.memory.alloc_tensor" | "relax.vm.alloc_tensor" => {
                let tensor = self.allocated(frame, &value(2)?, &value(3)?)?;
                if let (Value::Storage(piece), Some(offset), Value::Tensor(tensor)) =
                    (value(0)?, value(1)?.as_int(), &tensor)
                {
                    self.pieces.give(name, &piece, offset, tensor)?;
                }
                tensor
            }
            "relax.memory.view" => {
                let args = frame.values(call.args())?;
                let view = standard::viewed(&args)?;
                let memory = |value: &Value| value.as_tensor().map(Tensor::memory);
                if memory(&view) != args.first().and_then(memory) && writes_in_place(&frame.plan.body) {
                    let why = "it is a part of a tensor, and the function writes to memory of arguments".to_string();
                    return Err(Cause::NotTaken { name: name.to_string(), why });
                }
                view
            }
            "relax.memory.alloc_storage" => self.piece(name, &value(0)?, &value(3)?)?,
            "relax.vm.alloc_storage" => self.piece(name, &value(0)?, &value(2)?)?,
            "relax.memory.kill_storage" | "relax.memory.kill_tensor" | "relax.vm.kill_object" => {
                Value::tuple(Vec::new())?
            }
            _ => return Ok(None),
        }))
    }

    /// Allocates a storage with the number of elements in `shape`.
    fn piece(&mut self, name: &str, shape: &Value, dtype: &Value) -> Result<Value, Cause> {
        let bytes = match (shape, dtype) {
            (Value::Shape(extents), Value::DType(dtype)) => size_of(*dtype, extents),
            _ => None,
        };
        let none =
            || Cause::NotTaken { name: name.to_string(), why: "the size is invalid for a piece of memory".to_string() };
        Ok(Value::Storage(self.pieces.piece(bytes.ok_or_else(none)?)))
    }

    /// Allocates a tensor.
    fn allocated(&mut self, frame: &Frame, shape: &Value, dtype: &Value) -> Result<Value, Cause> {
        match (shape, dtype) {
            (Value::Shape(extents), Value::DType(dtype)) => {
                // Writes to the allocated tensor are not tracked.
                if self.looks_for_unwritten && self.unwritten.is_none() {
                    self.unwritten = Some(frame.at());
                }
                Ok(Value::Tensor(Tensor::fresh(*dtype, extents, &self.limits)?))
            }
            (Value::Shape(_), other) => Err(Cause::mismatch("the allocated value", other.described(), "a data type")),
            (other, _) => Err(Cause::mismatch("the allocated value", other.described(), "a shape")),
        }
    }
}

/// Returns true if a function contains calls that write to their arguments. In this machine, a view of a part of a
/// tensor is a copy, so these writes would not reach the tensor.
fn writes_in_place(body: &Body) -> bool {
    let writes = |call: Call<'_>| match call.op() {
        Some(op) => matches!(op, "relax.call_tir_inplace" | "relax.call_inplace_packed" | "relax.call_packed"),
        None => call.value().has_effect(),
    };
    body.values().any(|value| value.as_call().is_some_and(writes))
}

/// Checks the result of a packed function against the type in `ty_args` of the call.
fn returned(frame: &mut Frame, call: Call<'_>, callee: &Value, next: Next) -> Result<Next, Cause> {
    let (Next::Value(value), Value::Packed(name)) = (&next, callee) else { return Ok(next) };
    let ty = call.ty().to_owned();
    // A call without a result has the empty tuple type.
    if !matches!((&ty, value), (Type::Tuple(fields), Value::Null) if fields.is_empty()) {
        let plan = Arc::clone(&frame.plan);
        let mut binder = Binder::new(&mut frame.symbols, &plan.body);
        binder.bind(&format!("the result of `{name}`"), &ty, value)?;
        binder.finish()?;
    }
    Ok(next)
}

/// Returns the first argument, and the fields of the second argument.
fn callee_and_tuple(frame: &Frame, call: Call<'_>) -> Result<(Value, Vec<Value>), Cause> {
    let mut args = frame.values(call.args())?.into_iter();
    let callee = args.next().unwrap_or(Value::Null);
    Ok(match args.next() {
        Some(Value::Tuple(tuple)) => (callee, tuple.fields().to_vec()),
        other => (callee, other.into_iter().collect()),
    })
}

/// Binds some arguments of a function.
fn closure_of(callee: &Value, bound: Vec<Value>) -> Result<Value, Cause> {
    match callee {
        Value::Function(name) => Value::closure(Callee::Global(name.clone()), bound),
        Value::Closure(closure) => {
            let all = bound.into_iter().chain(closure.bound.iter().cloned()).collect();
            Value::closure(closure.callee.clone(), all)
        }
        other => Err(Cause::mismatch("the value of a closure", other.described(), "a function")),
    }
}

/// Formats values like Python's `str.format`: `{}` stands for the next value, `{0}` for the first value, and `{{`
/// for a brace. Values without a placeholder are omitted. If the format is empty, all values are joined with
/// `between`.
fn formatted(format: &str, args: &[Value], between: &str) -> Result<String, Cause> {
    if format.is_empty() {
        return Ok(args.iter().map(ToString::to_string).collect::<Vec<_>>().join(between));
    }
    let wrong = |what: &str, found: String, wanted: String| {
        Cause::mismatch(format!("a {what} in the format {format:?}"), found, wanted)
    };
    let (mut out, mut next) = (String::new(), 0);
    let mut rest = format;
    while let Some((before, brace)) = rest.find(['{', '}']).and_then(|at| rest.split_at_checked(at)) {
        out.push_str(before);
        let after = &brace[1..];
        if after.starts_with(&brace[..1]) {
            out.push_str(&brace[..1]);
            rest = &after[1..];
            continue;
        }
        let place = after.split_once('}').filter(|_| brace.starts_with('{'));
        let either = || "`{}` for a value, or `{{` or `}}` for a brace,".to_string();
        let (place, after) = place.ok_or_else(|| wrong("brace", "single".to_string(), either()))?;
        let at = if place.is_empty() { Ok(next) } else { place.parse::<usize>() };
        let number = || "`{}` or a number, as in `{0}`,".to_string();
        let at = at.map_err(|_| wrong("place", format!("`{{{place}}}`"), number()))?;
        let below = || wrong("place", format!("number {at}"), format!("a number below {}", args.len()));
        let value = args.get(at).ok_or_else(below)?;
        out.push_str(&value.to_string());
        next += 1;
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

fn asserted(condition: &Value, format: &str, args: &[Value]) -> Result<Value, Cause> {
    let Some(holds) = condition.as_int() else {
        return Err(Cause::mismatch("the condition of an assertion", condition.described(), "a single boolean"));
    };
    if holds != 0 {
        return Value::tuple(Vec::new());
    }
    let message = match formatted(format, args, ", ")? {
        text if text.is_empty() => "an assertion failed".to_string(),
        text => format!("an assertion failed: {text}"),
    };
    Err(FaultKind::Assertion { message }.into())
}

/// Reshapes a tensor without a copy of its elements; `None` if a size follows from the others, or does not fit. A size that
/// is symbolic in the module may be 0. Only a literal 0 means that the tensor's dimension is kept.
fn reshaped(call: Call<'_>, x: &Value, shape: &Value) -> Result<Option<Value>, Cause> {
    let (Value::Tensor(x), Value::Shape(extents)) = (x, shape) else { return Ok(None) };
    if extents.iter().all(|extent| *extent > 0) {
        return Ok(x.reshaped(extents).ok().map(Value::Tensor));
    }
    let Some(Type::Shape { dims: Some(dims), .. }) = call.arg(1).map(|shape| shape.ty().to_owned()) else {
        return Ok(None);
    };
    let is_written = |axis: usize| dims.get(axis).is_none_or(|dim| dim.as_int().is_some());
    if extents.iter().enumerate().all(|(axis, extent)| *extent > 0 || is_written(axis)) {
        return Ok(None);
    }
    let kept = |axis: usize| x.shape().get(axis).copied().unwrap_or(0);
    let sizes = extents.iter().enumerate();
    let sizes: Vec<i64> = sizes.map(|(i, size)| if *size == 0 && is_written(i) { kept(i) } else { *size }).collect();
    if size_of(x.dtype(), &sizes) != Some(0) || !x.is_empty() {
        let sizes: Vec<String> = sizes.iter().map(i64::to_string).collect();
        let why = format!("{} elements do not fit the shape ({})", x.len(), sizes.join(", "));
        return Err(Cause::NotTaken { name: "relax.reshape".to_string(), why });
    }
    Ok(Some(Value::Tensor(x.reshaped(&sizes)?)))
}
