//! Builds the PrimFunc that is equivalent to a function of PrimFunc calls.

use plugin_api::ir::{BodyKind, BufferType};
use plugin_api::prelude::*;
use plugin_api::tir::{Join, JoinArg, JoinParam, JoinedBuffer};

/// A PrimFunc, and the mapping from its outputs to arguments and results.
pub(super) struct Joined {
    pub(super) prim_func: Body,
    /// For each output, the number of the argument that it overwrites, or -1 for a new tensor; `None` if all outputs
    /// are new.
    pub(super) in_place: Option<Vec<i64>>,
    /// For each result of the function, the output that contains it. The other outputs are arguments to which the
    /// function writes.
    pub(super) results: Vec<usize>,
    /// Number of outputs.
    pub(super) n_outputs: usize,
}

impl Joined {
    /// Returns true if the outputs are the results of the function, in order.
    pub(super) fn outputs_are_results(&self) -> bool {
        self.results.iter().copied().eq(0..self.n_outputs)
    }
}

/// Builds the PrimFunc of a function.
///
/// # Errors
/// If the function does anything other than call PrimFuncs.
pub(super) fn joined(body: &Body, module: &Module) -> Result<Joined, PassError> {
    let mut plan =
        Plan { join: Join::new(body), module, buffers: ValueMap::new(body), params: Vec::new(), written: Vec::new() };
    let function = body.function().into_iter();
    for param in function.clone().flat_map(Function::params) {
        let buffers =
            plan.param(param.ty().to_owned(), param.name().unwrap_or("x")).map_err(|error| error.at(param))?;
        plan.buffers.insert(param, buffers);
    }
    for binding in body.bindings() {
        let buffers = plan.buffers_of_expr(binding).map_err(|error| error.at(binding))?;
        plan.buffers.insert(binding, buffers);
    }
    let Some(result) = function.flat_map(Function::result).next() else { bail!("the function must have a result") };
    let results = plan.buffers_of(result)?;
    plan.finish(&results)
}

struct Plan<'m> {
    join: Join<'m>,
    module: &'m Module,
    /// The buffers of the tensors in each value.
    buffers: ValueMap<'m, Vec<JoinedBuffer>>,
    params: Vec<JoinParam>,
    /// The buffers to which calls write in place.
    written: Vec<JoinedBuffer>,
}

impl<'m> Plan<'m> {
    /// Adds a parameter: a buffer for each tensor, a scalar for each symbolic variable of a shape.
    fn param(&mut self, ty: Type, name: &str) -> Result<Vec<JoinedBuffer>, PassError> {
        match ty {
            Type::Tensor(tensor) => {
                let Some(shape) = tensor.shape else {
                    bail!("the shape of `{name}` must be known, because it becomes a buffer")
                };
                let buffer = self.join.buffer(name, BufferType::new(shape, tensor.dtype));
                self.params.push(JoinParam::Buffer(buffer));
                Ok(vec![buffer])
            }
            Type::Tuple(fields) => {
                let mut buffers = Vec::new();
                for (index, field) in fields.iter().enumerate() {
                    buffers.extend(self.param(field.clone(), &format!("{name}_{index}"))?);
                }
                Ok(buffers)
            }
            Type::Shape { dims: Some(dims), .. } => {
                for dim in dims {
                    let Dim::Var(sym) = dim else {
                        bail!("`{name}` must be a shape of symbolic variables, one for each dimension")
                    };
                    self.params.push(JoinParam::Scalar(sym));
                }
                Ok(Vec::new())
            }
            Type::Prim { value: Some(Dim::Var(sym)), .. } => {
                self.params.push(JoinParam::Scalar(sym));
                Ok(Vec::new())
            }
            other => bail!("`{name}` must be a tensor, a tuple or a shape, found {other:?}"),
        }
    }

    /// Returns the buffers of a binding. If the binding is a call, the call writes them.
    fn buffers_of_expr(&mut self, value: Value<'m>) -> Result<Vec<JoinedBuffer>, PassError> {
        match value.view() {
            Expr::Call(call) => self.call(call),
            Expr::TupleGet { tuple, index } => {
                let all = self.buffers_of(tuple)?;
                let sizes = tuple.ty().children().map(|field| n_tensors(&field.to_owned()));
                let before: usize = sizes.take(index as usize).sum();
                let own = n_tensors(&value.ty().to_owned());
                Ok(all.into_iter().skip(before).take(own).collect())
            }
            Expr::Tuple(_) => self.of_all(value.operands()),
            Expr::Alias(source) => self.buffers_of(source),
            _ => bail!("a function marked `Primitive` must consist of calls of PrimFuncs and of tuples"),
        }
    }

    fn buffers_of(&mut self, value: Value<'m>) -> Result<Vec<JoinedBuffer>, PassError> {
        match self.buffers.get(value) {
            Some(buffers) => Ok(buffers.clone()),
            None if value.is_nested() => self.buffers_of_expr(value),
            None => bail!("a function marked `Primitive` cannot use a constant; make it a parameter"),
        }
    }

    fn of_all(&mut self, values: impl Iterator<Item = Value<'m>>) -> Result<Vec<JoinedBuffer>, PassError> {
        let mut buffers = Vec::new();
        for value in values {
            buffers.extend(self.buffers_of(value)?);
        }
        Ok(buffers)
    }

    fn call(&mut self, call: Call<'m>) -> Result<Vec<JoinedBuffer>, PassError> {
        let is_call_tir = matches!(call.op(), Some("relax.call_tir" | "relax.call_tir_inplace"));
        let callee = call.arg(0).filter(|_| is_call_tir).and_then(Value::as_global);
        let prim_func =
            callee.and_then(|callee| self.module.get(callee)).filter(|body| body.kind() == BodyKind::PrimFunc);
        let (Some(prim_func), Some(tuple)) = (prim_func, call.arg(1)) else {
            bail!("a function marked `Primitive` can use only R.call_tir and R.call_tir_inplace with PrimFuncs");
        };
        let mut args = Vec::new();
        let given: Vec<Value<'m>> = if tuple.is_nested() { tuple.operands().collect() } else { vec![tuple] };
        for arg in given {
            match arg.dim().or(arg.symbol().map(Dim::Var)) {
                Some(dim) => args.push(JoinArg::Scalar(dim)),
                None => args.extend(self.buffers_of(arg)?.into_iter().map(JoinArg::Buffer)),
            }
        }
        let in_place = call.attr("inplace_indices").and_then(|indices| indices.as_ints()).unwrap_or_default();
        let taken: Vec<Option<usize>> = in_place.iter().map(|index| usize::try_from(*index).ok()).collect();
        let inputs = args.clone();
        for (at, shape) in shapes(&call.ty().to_owned())?.into_iter().enumerate() {
            if taken.get(at).copied().flatten().is_none() {
                args.push(JoinArg::New(shape));
            }
        }
        let mut new = self.join.take(prim_func, &args)?.into_iter();
        let mut results = Vec::new();
        for at in 0..n_tensors(&call.ty().to_owned()) {
            match taken.get(at).copied().flatten().and_then(|index| inputs.get(index)) {
                Some(JoinArg::Buffer(buffer)) => {
                    self.written.push(*buffer);
                    results.push(*buffer);
                }
                _ => results.extend(new.next()),
            }
        }
        Ok(results)
    }

    /// Makes each buffer a single output, even if it contains several results. Parameters to which the function
    /// writes are also outputs, so that the call of the PrimFunc declares the writes.
    fn finish(mut self, results: &[JoinedBuffer]) -> Result<Joined, PassError> {
        let inputs = self.params.clone();
        let place_of = |buffer: &JoinedBuffer| {
            inputs.iter().position(|input| matches!(input, JoinParam::Buffer(input) if input == buffer))
        };
        let updated = self.written.iter().filter(|buffer| place_of(buffer).is_some());
        let mut outputs: Vec<JoinedBuffer> = Vec::new();
        for buffer in results.iter().chain(updated) {
            if !outputs.contains(buffer) {
                outputs.push(*buffer);
            }
        }
        let mut places = Vec::new();
        for output in &outputs {
            let place = place_of(output);
            places.push(place.map_or(-1, |place| place as i64));
            if place.is_none() {
                self.params.push(JoinParam::Buffer(*output));
            }
        }
        let n_outputs = outputs.len();
        let in_place = places.iter().any(|place| *place >= 0).then_some(places);
        let results = results.iter().filter_map(|result| outputs.iter().position(|output| output == result)).collect();
        Ok(Joined { prim_func: self.join.finish(&self.params)?, in_place, results, n_outputs })
    }
}

/// Returns the number of tensors in a value of a type.
fn n_tensors(ty: &Type) -> usize {
    match ty {
        Type::Tuple(fields) => fields.iter().map(n_tensors).sum(),
        Type::Tensor(_) => 1,
        _ => 0,
    }
}

/// Returns the shapes of the tensors in a value of a type.
fn shapes(ty: &Type) -> Result<Vec<Vec<Dim>>, PassError> {
    match ty {
        Type::Tuple(fields) => {
            let shapes: Result<Vec<Vec<Vec<Dim>>>, PassError> = fields.iter().map(shapes).collect();
            Ok(shapes?.into_iter().flatten().collect())
        }
        Type::Tensor(TensorType { shape: Some(shape), .. }) => Ok(vec![shape.clone()]),
        other => bail!("the shapes of results must be known, because they become buffers; found {other:?}"),
    }
}
