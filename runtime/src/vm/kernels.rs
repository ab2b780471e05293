//! Calls PrimFuncs with tensors and numbers. Each PrimFunc is prepared once for all its calls.

use super::failure::Cause;
use super::lowered::Lowered;
use super::machine::{Frame, Machine, Next};
use super::observe::Observer;
use super::plan::Plan;
use super::value::{Scalar, Value};
use crate::by_body::ByBody;
use crate::fault::Fault;
use crate::interpret::Interpreter;
use crate::kernel::{Arg, Backend, Kernel};
use crate::limits::Limits;
use crate::tensor::Tensor;
use passhost_lang::ir::constant::Number;
use passhost_lang::ir::{Body, DType, Dim, Expr, Type};
use passhost_lang::ir::{BodyKind, Call, Value as Node};
use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

/// Caches of prepared PrimFuncs and of lowered operator calls, keyed by their content. Machines with the same
/// operators can share them.
pub struct Kernels {
    backend: Box<dyn Backend>,
    known: Mutex<ByBody<Arc<dyn Kernel>>>,
    lowered: Mutex<ByBody<Arc<Lowered>>>,
}

impl Default for Kernels {
    fn default() -> Kernels {
        Kernels::new(Interpreter)
    }
}

impl Kernels {
    /// Creates the kernels of a backend.
    pub fn new(backend: impl Backend + 'static) -> Kernels {
        Kernels { backend: Box::new(backend), known: Mutex::default(), lowered: Mutex::default() }
    }

    /// Returns a prepared PrimFunc, cached or new.
    ///
    /// # Errors
    /// Fails if the backend does not support it.
    pub fn get(&self, function: &Body) -> Result<Arc<dyn Kernel>, Fault> {
        known_or_made(&self.known, function, || self.backend.prepare(function))
    }

    /// Makes those of the kernels ready that are not.
    fn make_ready(&self, kernels: impl Iterator<Item = Arc<dyn Kernel>>, limits: &Limits) {
        // Equal PrimFuncs share a kernel.
        let mut known = HashSet::new();
        let is_new = |kernel: &Arc<dyn Kernel>| known.insert(Arc::as_ptr(kernel).cast::<()>());
        let kernels: Vec<Arc<dyn Kernel>> = kernels.filter(is_new).filter(|kernel| !kernel.is_ready(limits)).collect();
        if !kernels.is_empty() {
            self.backend.make_ready(&kernels, limits);
        }
    }

    /// Returns the lowered form of an operator call, cached or new. `call` is a separate body.
    pub(super) fn lowered<E>(&self, call: &Body, make: impl FnOnce() -> Result<Lowered, E>) -> Result<Arc<Lowered>, E> {
        known_or_made(&self.lowered, call, || make().map(Arc::new))
    }
}

/// Returns a cached or new value. No lock is held while a value is made, so two threads may make the same value.
fn known_or_made<T: Clone, E>(
    known: &Mutex<ByBody<T>>,
    body: &Body,
    make: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    let lock = || known.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(value) = lock().get(body).cloned() {
        return Ok(value);
    }
    let value = make()?;
    lock().insert(body, value.clone());
    Ok(value)
}

/// A PrimFunc of the module.
pub(super) struct PrimFunc {
    kernel: Arc<dyn Kernel>,
    /// Positions of the parameters that the function writes to.
    written: BTreeSet<usize>,
}

/// The result tensors of a call.
pub(super) struct Outputs {
    pub(super) types: Vec<(DType, Vec<i64>)>,
    /// True if the results are fields of a tuple.
    pub(super) tuple: bool,
}

impl Outputs {
    /// Derives the outputs from the types in a call.
    pub(super) fn of_call(frame: &Frame, call: Call<'_>) -> Result<Outputs, Cause> {
        let mut types: Vec<Type> = call.type_args().map(|ty| ty.to_owned()).collect();
        let tuple = match types.as_slice() {
            [Type::Tuple(fields)] => {
                types = fields.to_vec();
                true
            }
            types => types.len() != 1,
        };
        let types = types.iter().map(|ty| frame.tensor_type(ty)).collect::<Result<_, Cause>>()?;
        Ok(Outputs { types, tuple })
    }

    /// Creates the tensors, unwritten.
    pub(super) fn made(&self, limits: &Limits) -> Result<Vec<Tensor>, Cause> {
        self.types.iter().map(|(dtype, shape)| Ok(Tensor::fresh(*dtype, shape, limits)?)).collect()
    }

    /// Creates the tensors for a kernel. Tensors that it writes completely are not filled. `first` is the argument
    /// position of the first tensor.
    fn made_for(&self, kernel: &dyn Kernel, first: usize, limits: &Limits) -> Result<Vec<Tensor>, Cause> {
        let made = self.types.iter().enumerate().map(|(at, (dtype, shape))| match kernel.writes_all(first + at) {
            true => Tensor::unfilled(*dtype, shape, limits),
            false => Tensor::fresh(*dtype, shape, limits),
        });
        Ok(made.collect::<Result<_, Fault>>()?)
    }

    /// Returns the tensors as the value of the call.
    pub(super) fn value(&self, tensors: Vec<Tensor>) -> Result<Value, Cause> {
        let mut values: Vec<Value> = tensors.into_iter().map(Value::Tensor).collect();
        match values.len() {
            1 if !self.tuple => Ok(values.swap_remove(0)),
            _ => Value::tuple(values),
        }
    }
}

impl Frame {
    /// Returns the data type and the evaluated extents of a tensor type.
    pub(super) fn tensor_type(&self, ty: &Type) -> Result<(DType, Vec<i64>), Cause> {
        let tensor = match ty {
            Type::Tensor(tensor) => tensor,
            Type::DTensor(tensor) => &tensor.tensor,
            _ => return Err(Cause::mismatch("a result of the call", "of a different kind", "a tensor")),
        };
        let dims: &[Dim] = match &tensor.shape {
            Some(dims) => dims,
            None => return Err(Cause::mismatch("a result of the call", "of unknown shape", "a tensor of known shape")),
        };
        Ok((tensor.dtype, self.symbols.extents(dims, &self.plan.body)?))
    }
}

/// Converts a value to a read-only argument.
pub(super) fn argument(value: &Value) -> Result<Arg<'_>, Cause> {
    match value {
        Value::Tensor(tensor) => Ok(Arg::In(tensor)),
        Value::Scalar(scalar) => Ok(scalar.argument()),
        other => Err(no_argument(other)),
    }
}

fn no_argument(value: &Value) -> Cause {
    Cause::mismatch("an argument of the PrimFunc", value.described(), "a tensor or a scalar")
}

impl Scalar {
    /// Converts the scalar to an argument of a PrimFunc.
    pub fn argument(self) -> Arg<'static> {
        match self.number {
            Number::Bool(value) => Arg::Int(value.into()),
            Number::Int(value) => Arg::Int(value),
            Number::UInt(value) => Arg::Int(value as i64),
            Number::Float(value) => Arg::Float(value),
        }
    }
}

impl Machine<'_> {
    /// Returns the module's PrimFunc `name`.
    fn prim_func(&mut self, name: &str) -> Result<Arc<PrimFunc>, Cause> {
        if let Some(known) = self.prim_funcs.get(name) {
            return Ok(Arc::clone(known));
        }
        let body = self.function(name)?;
        if body.kind() != BodyKind::PrimFunc {
            let (name, found, wanted) = (name.to_string(), "no PrimFunc", "a PrimFunc");
            return Err(Cause::OtherFunction { name, found, wanted });
        }
        let kernel = self.kernels.get(body).map_err(|fault| fault.in_function(name))?;
        let function = Arc::new(PrimFunc { kernel, written: body.written_params().into_iter().collect() });
        self.prim_funcs.insert(name.to_string(), Arc::clone(&function));
        Ok(function)
    }

    /// Makes the PrimFuncs that a function names ready before the first of them is called, because a backend can
    /// compile several at once.
    pub(super) fn make_ready(&mut self, plan: &Plan) {
        let nodes = plan.body.value_at(plan.root as usize).region().nodes();
        let mut kernels = Vec::new();
        for operand in nodes.flat_map(Node::operands) {
            if let Expr::GlobalVar(name) = operand.view()
                && !self.prim_funcs.contains_key(name)
                && let Ok(function) = self.prim_func(name)
            {
                kernels.push(Arc::clone(&function.kernel));
            }
        }
        self.kernels.make_ready(kernels.into_iter(), &self.limits);
    }

    /// Executes `R.call_tir` and its variants; the results are new tensors. `in_place` contains, for each result, the
    /// position of the argument that it overwrites, or -1.
    pub(super) fn call_tir(
        &mut self,
        frame: &Frame,
        call: Call<'_>,
        in_place: &[i64],
        observer: &mut dyn Observer,
    ) -> Result<Value, Cause> {
        let name = match call.arg(0).map(Node::view) {
            Some(Expr::GlobalVar(name)) => name,
            _ => return Err(Fault::unsupported("a call of a PrimFunc by a value other than its name").into()),
        };
        let function = self.prim_func(name)?;
        let args = arguments(frame, call)?;
        apart(name, &args, |i| in_place.contains(&(i as i64)))?;
        let scalars = match call.arg(2) {
            Some(shape) => frame.value(shape)?.as_shape().unwrap_or_default().to_vec(),
            None => Vec::new(),
        };
        let outputs = Outputs::of_call(frame, call)?;
        if in_place.is_empty() {
            let inputs = || args.iter().map(argument).collect();
            let tensors = self.fill(frame, (&*function.kernel, name), &inputs, &outputs, &scalars)?;
            return outputs.value(tensors);
        }
        let mut tensors = Vec::with_capacity(outputs.types.len());
        for (i, (dtype, shape)) in outputs.types.iter().enumerate() {
            let written = in_place.get(i).and_then(|at| usize::try_from(*at).ok()).and_then(|at| args.get(at));
            tensors.push(match written {
                Some(Value::Tensor(tensor)) => tensor.clone(),
                _ => Tensor::fresh(*dtype, shape, &self.limits)?,
            });
        }
        let mut rest: Vec<Option<&mut Tensor>> = tensors.iter_mut().map(Some).collect();
        let mut list = Vec::with_capacity(args.len() + rest.len() + scalars.len());
        for (i, value) in args.iter().enumerate() {
            let output = in_place.iter().position(|at| *at == i as i64);
            list.push(match output.and_then(|output| rest.get_mut(output)?.take()) {
                Some(tensor) => Arg::Out(tensor),
                None => argument(value)?,
            });
        }
        list.extend(rest.into_iter().flatten().map(Arg::Out));
        list.extend(scalars.into_iter().map(Arg::Int));
        function.kernel.run(&mut list, &self.limits).map_err(|fault| fault.in_function(name))?;
        self.look_for_unwritten(frame, &tensors);
        for (at, tensor) in in_place.iter().zip(&tensors) {
            let before = usize::try_from(*at).ok().and_then(|at| args.get(at)?.as_tensor());
            before.into_iter().for_each(|before| self.wrote(before.memory(), tensor, observer));
        }
        outputs.value(tensors)
    }

    /// Calls a kernel that fills new tensors, which are passed between the inputs and the symbolic variables. If some
    /// elements seem unwritten, the kernel is called again with different fresh bytes to make sure.
    pub(super) fn fill<'a>(
        &mut self,
        frame: &Frame,
        (kernel, name): (&dyn Kernel, &str),
        inputs: &dyn Fn() -> Result<Vec<Arg<'a>>, Cause>,
        outputs: &Outputs,
        scalars: &[i64],
    ) -> Result<Vec<Tensor>, Cause> {
        let filled = |limits: &Limits| -> Result<(Vec<Tensor>, usize), Cause> {
            let mut list = inputs()?;
            let first = list.len();
            let mut tensors = outputs.made_for(kernel, first, limits)?;
            list.extend(tensors.iter_mut().map(Arg::Out));
            list.extend(scalars.iter().copied().map(Arg::Int));
            kernel.run(&mut list, limits).map_err(|fault| fault.in_function(name))?;
            Ok((tensors, first))
        };
        let (tensors, first) = filled(&self.limits)?;
        let in_doubt = tensors.iter().enumerate().filter(|(at, _)| !kernel.writes_all(first + at));
        if self.may_be_unwritten(in_doubt.map(|(_, tensor)| tensor)) {
            let other = filled(&self.limits.with_other_fresh_bytes());
            self.limits.take_unwritten();
            if other.ok().map(|(other, _)| other).as_ref() != Some(&tensors) {
                self.unwritten = Some(frame.at());
            }
        }
        Ok(tensors)
    }

    /// Records a call that may have left elements of the given tensors unwritten.
    fn look_for_unwritten<'t>(&mut self, frame: &Frame, tensors: impl IntoIterator<Item = &'t Tensor>) {
        if self.may_be_unwritten(tensors) {
            self.unwritten = Some(frame.at());
        }
    }

    fn may_be_unwritten<'t>(&self, tensors: impl IntoIterator<Item = &'t Tensor>) -> bool {
        let skipped = self.limits.take_unwritten();
        let looks = self.looks_for_unwritten && self.unwritten.is_none();
        looks && (skipped || tensors.into_iter().any(|tensor| tensor.has_fresh(&self.limits)))
    }

    /// Executes `R.call_dps_packed`: a packed function fills new tensors.
    pub(super) fn call_filling(&mut self, frame: &Frame, call: Call<'_>) -> Result<Value, Cause> {
        let Some(Expr::ExternFunc(name)) = call.arg(0).map(Node::view) else {
            return Err(Fault::unsupported("a call of a packed function by a value other than its name").into());
        };
        let function = self.packed.filling(name)?;
        let args = arguments(frame, call)?;
        let outputs = Outputs::of_call(frame, call)?;
        let mut tensors = outputs.made(&self.limits)?;
        function(&args, &mut tensors, &self.limits)?;
        outputs.value(tensors)
    }

    /// Calls a packed function that may write to its arguments; returns `None` for other functions.
    pub(super) fn call_writing(
        &mut self,
        frame: &Frame,
        call: Call<'_>,
        observer: &mut dyn Observer,
    ) -> Result<Option<Value>, Cause> {
        let Some(Expr::ExternFunc(name)) = call.arg(0).map(Node::view) else { return Ok(None) };
        let Some(function) = self.packed.writing(name) else { return Ok(None) };
        let args = frame.values(call.args().skip(1))?;
        let (value, written) = function(&args, &self.limits)?;
        for (at, tensor) in written {
            let Some(Value::Tensor(before)) = args.get(at) else { continue };
            let tensor = before.origin().into_iter().fold(tensor, Tensor::with_origin);
            self.wrote(before.memory(), &tensor, observer);
        }
        Ok(Some(value))
    }

    /// Calls a PrimFunc directly; it may write to its arguments.
    pub(super) fn call_prim_func(
        &mut self,
        frame: &mut Frame,
        name: &str,
        call: Call<'_>,
        observer: &mut dyn Observer,
    ) -> Result<Next, Cause> {
        let function = self.prim_func(name)?;
        let before = frame.values(call.args())?;
        apart(name, &before, |i| function.written.contains(&i))?;
        let memory: Vec<Option<usize>> =
            before.into_iter().map(|value| value.as_tensor().map(Tensor::memory)).collect();
        let mut args = Vec::new();
        for (i, arg) in call.args().enumerate() {
            let written = function.written.contains(&i);
            args.push(if written { frame.take(arg)? } else { frame.value(arg)? });
        }
        let mut list = Vec::with_capacity(args.len());
        for (i, value) in args.iter_mut().enumerate() {
            match value {
                Value::Tensor(tensor) => {
                    let written = function.written.contains(&i);
                    list.push(if written { Arg::Out(tensor) } else { Arg::In(tensor) });
                }
                // `R.shape([...])` passes its extents as numbers.
                Value::Shape(extents) => list.extend(extents.iter().map(|extent| Arg::Int(*extent))),
                Value::Scalar(scalar) => list.push(scalar.argument()),
                other => return Err(no_argument(other)),
            }
        }
        let result = function.kernel.run(&mut list, &self.limits).map_err(|fault| fault.in_function(name))?;
        let written = args.iter().enumerate().filter(|(i, _)| function.written.contains(i));
        self.look_for_unwritten(frame, written.filter_map(|(_, value)| value.as_tensor()));
        for (i, (arg, value)) in call.args().zip(args).enumerate() {
            if function.written.contains(&i) {
                if let (Some(memory), Some(tensor)) = (memory[i], value.as_tensor()) {
                    self.wrote(memory, tensor, observer);
                }
                frame.put_back(arg, value);
            }
        }
        let dtype = call.ty().dtype();
        Ok(Next::Value(match result {
            Some(number) => Value::Scalar(Scalar { number, dtype }),
            None => Value::tuple(Vec::new())?,
        }))
    }
}

impl Frame {
    /// Takes the value of a variable that a function writes to. The variables that it aliases also lose the value, so
    /// that the data need not be copied.
    fn take(&mut self, variable: Node<'_>) -> Result<Value, Cause> {
        let value = self.value(variable)?;
        let mut source = Some(variable);
        while let Some(node) = source {
            if let Some(slot) = self.slot(node.word()).filter(|_| !node.is_leaf()) {
                *slot = None;
            }
            source = other_name(node);
        }
        Ok(value)
    }

    /// Stores the written value in the variable and in the variables that it aliases.
    fn put_back(&mut self, variable: Node<'_>, value: Value) {
        let mut source = Some(variable);
        while let Some(node) = source {
            if let Some(slot) = self.slot(node.word()).filter(|_| !node.is_leaf()) {
                *slot = Some(value.clone());
            }
            source = other_name(node);
        }
    }
}

/// Returns the variable that this variable aliases.
fn other_name(node: Node<'_>) -> Option<Node<'_>> {
    match node.view() {
        Expr::Alias(of) | Expr::MatchCast(of) => Some(of),
        _ => None,
    }
}

/// Rejects a call that writes to an argument that shares memory with another argument, because kernels assume that
/// arguments are disjoint.
fn apart(name: &str, args: &[Value], writes: impl Fn(usize) -> bool) -> Result<(), Cause> {
    let tensors = || args.iter().enumerate().filter_map(|(i, value)| Some((i, value.as_tensor()?)));
    for (i, written) in tensors().filter(|(i, tensor)| writes(*i) && !tensor.is_empty()) {
        if let Some((j, _)) = tensors().find(|(j, other)| *j != i && other.memory() == written.memory()) {
            return Err(Cause::SharedArguments { name: name.to_string(), written: i, other: j });
        }
    }
    Ok(())
}

/// Returns the arguments of `R.call_tir` and its variants: the elements of a tuple, or one value.
fn arguments(frame: &Frame, call: Call<'_>) -> Result<Vec<Value>, Cause> {
    let Some(args) = call.arg(1) else { return Ok(Vec::new()) };
    let args = frame.value(args)?;
    Ok(match args.as_tuple() {
        Some(fields) => fields.to_vec(),
        None => vec![args],
    })
}

/// Reports an executed part to the observer.
pub(super) fn told(value: Value, observer: &mut dyn Observer) -> Result<Next, Cause> {
    observer.called();
    Ok(Next::Value(value))
}
