//! Executes operators through their legalizations: a call, with the run-time types of its arguments, becomes a
//! PrimFunc.

use super::failure::{Cause, NO_LEGALIZATION};
use super::kernels::{Outputs, argument};
use super::machine::{Frame, Machine, Next};
use super::observe::Observer;
use super::value::{Scalar, Value};
use crate::fault::Fault;
use crate::kernel::Kernel;
use crate::tensor::Tensor;
use passhost_lang::arith::substitute;
use passhost_lang::ir::constant::{Element, Number};
use passhost_lang::ir::records::kind;
use passhost_lang::ir::{Attr, Call, Sym, Value as Node};
use passhost_lang::ir::{AttrsId, Body, BodyBuilder, DType, Dim, Type, TypeId, V};
use passhost_lang::typing::legalized::Legalized;
use passhost_lang::typing::legalized::{LegalizedArg, Replacement};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

/// Provides the types and legalizations of operators. The host implements this with its plugins.
pub trait Lower {
    /// Returns the type of a call whose arguments already have types.
    ///
    /// # Errors
    /// Fails if the operator is unknown, or the call does not match it.
    fn infer(&self, call: Call<'_>) -> Result<Type, String>;

    /// Returns the legalization of a call; `None` if the operator lacks a legalization.
    ///
    /// # Errors
    /// Fails if the operator is unknown, or the call cannot be legalized.
    fn lower(&self, call: Call<'_>) -> Result<Option<Legalized>, String>;
}

/// The implementation for modules without operators.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoLegalization;

impl Lower for NoLegalization {
    fn infer(&self, _: Call<'_>) -> Result<Type, String> {
        Err("the loaded plugins do not declare operators".to_string())
    }

    fn lower(&self, _: Call<'_>) -> Result<Option<Legalized>, String> {
        Err("the loaded plugins do not declare operators".to_string())
    }
}

/// Units of work of an operator called by name, and of its legalization, which is created once per combination of
/// argument types.
const OPERATOR: u64 = 200_000;
const LEGALIZATION: u64 = 2_000_000;

/// The source of a value: an argument of the call and a path of tuple fields, or a constant number.
#[derive(Debug)]
pub(super) enum Source {
    Path(Vec<usize>),
    Value(Value),
}

/// The replacement of a call, for specific argument types.
pub(super) enum Lowered {
    PrimFunc { kernel: Arc<dyn Kernel>, args: Vec<Source>, outputs: Outputs },
    Argument(Source),
    Constant(Value),
    Packed(String),
}

/// A call in a separate body, whose parameters have the argument types.
struct Alone {
    body: Body,
    call: u32,
    /// The paths of parameters and tuples to their sources, by operand word.
    paths: HashMap<u32, Vec<usize>>,
}

impl Machine<'_> {
    /// Executes a call of an operator that has a legalization.
    pub(super) fn call_lowered(
        &mut self,
        frame: &Frame,
        call: Call<'_>,
        name: &str,
        observer: &mut dyn Observer,
    ) -> Result<Next, Cause> {
        let args = frame.values(call.args())?;
        let not = |why: String| Cause::NotExecuted { name: name.to_string(), why };
        self.limits.work(OPERATOR)?;
        let (name, args) = match name {
            "relax.dynamic_strided_slice" => ("relax.strided_slice", with_known_ranges(&args)?),
            name => (name, args),
        };
        let alone = self.alone(frame, call, name, &args)?;
        let lowered = match self.lowered.get(&alone.body) {
            Some(lowered) => Arc::clone(lowered),
            None => {
                // The work is counted even if another machine created the kernel, so that the count is always the
                // same.
                self.limits.work(LEGALIZATION)?;
                let lowered = self.kernels.lowered(&alone.body, || self.lowered_call(&alone));
                let lowered = lowered.map_err(|refused| match refused {
                    Refused::Why(why) => not(why),
                    Refused::Fault(fault) => fault.in_function(name).into(),
                })?;
                self.lowered.insert(&alone.body, Arc::clone(&lowered));
                lowered
            }
        };
        match &*lowered {
            Lowered::Argument(source) => Ok(Next::Value(source.find(&args).clone())),
            Lowered::Constant(value) => Ok(Next::Value(value.clone())),
            Lowered::Packed(packed) => self.call_packed(packed, &args, observer),
            Lowered::PrimFunc { kernel, args: sources, outputs } => {
                let inputs = || sources.iter().map(|source| argument(source.find(&args))).collect();
                let tensors = self.fill(frame, (&**kernel, name), &inputs, outputs, &[])?;
                outputs.value(tensors).map(Next::Value)
            }
        }
    }

    /// Copies the call into a separate body.
    fn alone(&self, frame: &Frame, call: Call<'_>, name: &str, args: &[Value]) -> Result<Alone, Cause> {
        let mut writer = Writer { b: BodyBuilder::new(), params: HashMap::new(), paths: HashMap::new() };
        writer.b.begin_function(0, AttrsId::NONE, None);
        for (i, value) in args.iter().enumerate() {
            writer.params(value, &mut vec![i])?;
        }
        writer.b.begin_block();
        let mut operands = Vec::with_capacity(args.len());
        for (i, value) in args.iter().enumerate() {
            operands.push(writer.operand(value, &mut vec![i]).ok_or_else(|| Cause::NotExecuted {
                name: name.to_string(),
                why: format!("its argument {i} is {}", value.described()),
            })?);
        }
        for ty in call.type_args() {
            let ty = frame.constant_type(&ty.to_owned())?;
            let ty = writer.b.ty(&ty);
            operands.push(writer.b.type_arg(ty));
        }
        let (mut attrs, mut own) = (Vec::new(), HashMap::new());
        for (key, attr) in call.attrs().iter() {
            let attr = attr.to_owned();
            attrs.push((
                key,
                frame.constant_attr(&attr, &mut |sym| {
                    let name = frame.plan.body.sym_name(sym.id).unwrap_or("i");
                    *own.entry(sym.id).or_insert_with(|| writer.b.sym(name, sym.dtype))
                })?,
            ));
        }
        let Writer { mut b, paths, .. } = writer;
        let (attrs, op) = (b.attrs(attrs), b.op(name));
        let v = b.call(op, &operands, attrs, TypeId::NONE, call.value().has_effect(), Some("y"));
        let inferred = b.with(v, |value| value.as_call().map(|call| self.lower.infer(call)));
        let why = |why: String| Cause::NotTaken { name: name.to_string(), why };
        let ty = inferred.unwrap_or_else(|| Err("the value is not a call".to_string())).map_err(why)?;
        let ty = b.ty(&ty);
        b.set_type(v, ty);
        b.end();
        b.end_function(v, ty);
        let call = v.word();
        Ok(Alone { body: b.finish().map_err(|error| why(error.to_string()))?, call, paths })
    }

    fn lowered_call(&self, alone: &Alone) -> Result<Lowered, Refused> {
        let value = Node::of_word(&alone.body, alone.call);
        let Some(call) = value.as_call() else { return Err(Refused::Why("the value is not a call".to_string())) };
        let no_legalization = || Refused::Why(NO_LEGALIZATION.to_string());
        let legalized = self.lower.lower(call).map_err(Refused::Why)?.ok_or_else(no_legalization)?;
        let unknown = || Refused::Why("its legalization uses an argument that the call does not have".to_string());
        let source = |arg: LegalizedArg| alone.source(arg).ok_or_else(unknown);
        Ok(match legalized.replacement() {
            Some(Replacement::Argument(arg)) => Lowered::Argument(source(arg)?),
            Some(Replacement::Constant(array)) => {
                let array = array.view();
                let tensor = Tensor::new(array.dtype(), array.shape(), array.bytes()).map_err(Refused::Fault)?;
                Lowered::Constant(Value::Tensor(tensor))
            }
            Some(Replacement::Packed(name)) => Lowered::Packed(name),
            Some(Replacement::Function(function)) if legalized.symbols.is_empty() => {
                let args: Vec<Source> = legalized.args.iter().map(|arg| source(*arg)).collect::<Result<_, _>>()?;
                let outputs = outputs_of(function, args.len(), call.ty().is_tuple())?;
                let kernel = self.kernels.get(function).map_err(Refused::Fault)?;
                Lowered::PrimFunc { kernel, args, outputs }
            }
            _ => return Err(Refused::Why("its legalization depends on symbolic variables".to_string())),
        })
    }
}

/// Turns the arguments of `R.dynamic_strided_slice` into those of `R.strided_slice`, because the values that
/// determine the result's shape are now available.
fn with_known_ranges(args: &[Value]) -> Result<Vec<Value>, Cause> {
    let [x, ranges @ ..] = args else { return Ok(Vec::new()) };
    let numbers =
        |values: &mut dyn Iterator<Item = i64>| Value::tuple(values.map(|n| Value::int(n, DType::I64)).collect());
    let ndim = x.as_tensor().map_or(0, |x| x.shape().len());
    let mut out = vec![x.clone(), numbers(&mut (0..ndim as i64))?];
    for (what, range) in ["begin", "end", "strides"].iter().zip(ranges) {
        let fits = |tensor: &&Tensor| tensor.shape() == [ndim as i64] && tensor.dtype().is_int();
        let wrong = || {
            let what = format!("the argument `{what}` of `R.dynamic_strided_slice`");
            Cause::mismatch(what, range.described(), format!("a tensor of {ndim} integers, one for each axis"))
        };
        let tensor = range.as_tensor().filter(fits).ok_or_else(wrong)?;
        if *what == "strides" && tensor.numbers().any(|stride| i64::of(stride) == 0) {
            return Err(Cause::mismatch("a stride of `R.dynamic_strided_slice`", "0", "a nonzero number"));
        }
        out.push(numbers(&mut tensor.numbers().map(i64::of))?);
    }
    Ok(out)
}

enum Refused {
    Why(String),
    Fault(Fault),
}

/// Returns the outputs, which are the buffers after the argument buffers.
fn outputs_of(function: &Body, n_args: usize, tuple: bool) -> Result<Outputs, Refused> {
    let params = function.values().filter(|value| value.kind() == kind::PARAM).skip(n_args);
    let mut types = Vec::new();
    for param in params {
        let Type::Buffer(ty) = param.ty().to_owned() else { continue };
        let shape: Option<Vec<i64>> = ty.shape.iter().map(Dim::as_int).collect();
        let unknown = || Refused::Why("the shape of its result depends on values".to_string());
        types.push((ty.dtype, shape.ok_or_else(unknown)?));
    }
    Ok(Outputs { types, tuple })
}

impl Source {
    fn find<'v>(&'v self, args: &'v [Value]) -> &'v Value {
        let path = match self {
            Source::Path(path) => path,
            Source::Value(value) => return value,
        };
        let mut fields = args;
        let mut found = &Value::Null;
        for at in path {
            found = fields.get(*at).unwrap_or(&Value::Null);
            fields = found.as_tuple().unwrap_or_default();
        }
        found
    }
}

impl Alone {
    /// Returns the source of an argument of a legalization.
    fn source(&self, arg: LegalizedArg) -> Option<Source> {
        let (value, field) = arg.value(&self.body);
        if let Some(path) = self.paths.get(&value.word()) {
            return Some(Source::Path(path.iter().copied().chain(field.map(|field| field as usize)).collect()));
        }
        let dim = value.dim().filter(|_| field.is_none())?;
        let number = match &dim {
            Dim::Int(value) => Number::Int(*value),
            other => match other.as_int() {
                Some(value) => Number::Int(value),
                None => match other {
                    Dim::Expr(expr) => match **expr {
                        passhost_lang::ir::DimExpr::Float(bits, _) => Number::Float(f64::from_bits(bits)),
                        _ => return None,
                    },
                    _ => return None,
                },
            },
        };
        Some(Source::Value(Value::Scalar(Scalar { number, dtype: dim.dtype() })))
    }
}

struct Writer {
    b: BodyBuilder,
    /// Parameters, by the path to their value.
    params: HashMap<Vec<usize>, V>,
    paths: HashMap<u32, Vec<usize>>,
}

impl Writer {
    /// Adds a parameter for each tensor, including tensors in tuples.
    fn params(&mut self, value: &Value, path: &mut Vec<usize>) -> Result<(), Cause> {
        let ty = match value {
            Value::Tensor(tensor) => Type::tensor(tensor.shape().iter().copied(), tensor.dtype()),
            Value::Null | Value::Storage(_) => Type::Object,
            Value::Tuple(tuple) => {
                for (i, field) in tuple.fields().iter().enumerate() {
                    path.push(i);
                    self.params(field, path)?;
                    path.pop();
                }
                return Ok(());
            }
            _ => return Ok(()),
        };
        let ty = self.b.ty(&ty);
        let v = self.b.param(&format!("p{}", self.params.len()), ty);
        self.paths.insert(v.word(), path.clone());
        self.params.insert(path.clone(), v);
        Ok(())
    }

    /// Returns the operand that represents a value; `None` for functions.
    fn operand(&mut self, value: &Value, path: &mut Vec<usize>) -> Option<V> {
        Some(match value {
            Value::Tensor(_) | Value::Null | Value::Storage(_) => *self.params.get(path)?,
            Value::Tuple(tuple) => {
                let mut items = Vec::with_capacity(tuple.fields().len());
                for (i, field) in tuple.fields().iter().enumerate() {
                    path.push(i);
                    items.push(self.operand(field, path)?);
                    path.pop();
                }
                let v = self.b.tuple(&items, None);
                self.paths.insert(v.word(), path.clone());
                v
            }
            Value::Shape(extents) => self.b.shape(&extents.iter().map(|extent| Dim::Int(*extent)).collect::<Vec<_>>()),
            Value::Scalar(Scalar { number, dtype }) => self.b.prim_value(&match *number {
                Number::Float(value) => Dim::float(value, *dtype),
                Number::Bool(value) => Dim::int(value.into(), *dtype),
                Number::Int(value) => Dim::int(value, *dtype),
                Number::UInt(value) => Dim::int(value as i64, *dtype),
            }),
            Value::Str(text) => self.b.string(text),
            Value::DType(dtype) => self.b.dtype(*dtype),
            Value::Function(_) | Value::Closure(_) | Value::Packed(_) => return None,
        })
    }
}

impl Frame {
    /// Replaces the symbolic variables of a type by their values. Drops the devices of the type, because the new body
    /// lacks them.
    fn constant_type(&self, ty: &Type) -> Result<Type, Cause> {
        let dims = |dims: &Option<Vec<Dim>>| -> Result<Option<Vec<Dim>>, Cause> {
            let constant = |dim: &Dim| self.symbols.constant(dim, &self.plan.body);
            dims.as_ref().map(|dims| dims.iter().map(constant).collect()).transpose()
        };
        Ok(match ty {
            Type::Tensor(tensor) => Type::Tensor(passhost_lang::ir::TensorType {
                shape: dims(&tensor.shape)?,
                vdevice: None,
                ..tensor.clone()
            }),
            Type::DTensor(tensor) => self.constant_type(&Type::Tensor(tensor.tensor.clone()))?,
            Type::Shape { ndim, dims: extents } => Type::Shape { ndim: *ndim, dims: dims(extents)? },
            Type::Prim { dtype, .. } => Type::Prim { dtype: *dtype, value: None },
            Type::Tuple(fields) => {
                Type::tuple(fields.iter().map(|field| self.constant_type(field)).collect::<Result<Vec<_>, _>>()?)
            }
            _ => Type::Object,
        })
    }

    /// Replaces the symbolic variables of an attribute by their values. Variables defined by the attribute itself,
    /// such as the indices of an index map, are replaced by `own`.
    fn constant_attr(&self, attr: &Attr, own: &mut impl FnMut(Sym) -> Sym) -> Result<Attr, Cause> {
        Ok(match attr {
            Attr::Dim(dim) => {
                let own = RefCell::new(own);
                let value = |sym: Sym| match self.symbols.get(sym) {
                    Some(value) => Some(Dim::int(value, sym.dtype)),
                    None => Some(Dim::Var(own.borrow_mut()(sym))),
                };
                Attr::Dim(substitute(dim, &value))
            }
            Attr::Type(ty) => Attr::Type(self.constant_type(ty)?),
            Attr::List(items) => {
                Attr::List(items.iter().map(|item| self.constant_attr(item, own)).collect::<Result<_, _>>()?)
            }
            Attr::Dict(entries) => {
                let entry = |(key, attr): &(String, Attr)| Ok((key.clone(), self.constant_attr(attr, own)?));
                Attr::Dict(entries.iter().map(entry).collect::<Result<_, Cause>>()?)
            }
            Attr::Object(name, args) => {
                let arg = |(key, attr): &(Option<String>, Attr)| Ok((key.clone(), self.constant_attr(attr, own)?));
                Attr::Object(name.clone(), args.iter().map(arg).collect::<Result<_, Cause>>()?)
            }
            other => other.clone(),
        })
    }
}
