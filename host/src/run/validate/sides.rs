//! Executes a function before and after a pass.

use super::cases::Case;
use super::reached::Branches;
use super::remembering::Remembering;
use super::units::Unit;
use crate::engine::Engine;
use crate::run::execute::backend::Executor;
use passhost_lang::ir::{Body, Module};
use runtime::vm::{At, Binding, Cause, Failure, Kernels, Machine, Observer, Scalar, Value};
use runtime::{Arg, FaultKind, Interpreter, Limits, Tensor};
use std::collections::BTreeMap;
use std::sync::Arc;

/// An execution.
#[derive(Clone)]
pub(super) struct Executed {
    pub(super) side: Side,
    /// The branches that it took.
    pub(super) branches: Branches,
    /// The work that it took, in units.
    pub(super) work: u64,
}

/// The result of an execution.
#[derive(Clone)]
pub(super) enum Side {
    Value(Computed),
    /// A limit was reached.
    Limit(String),
    /// An assertion of the module failed.
    Asserts(String),
    /// The runtime cannot execute the function.
    Cannot(String),
    /// A value does not match its annotated type, at this place.
    Refuses(String, Option<At>),
    /// The function failed, at this place.
    Fails(String, Option<At>),
}

/// The values that a function computed.
#[derive(Clone)]
pub(super) struct Computed {
    /// The returned value.
    pub(super) value: Value,
    /// The final contents of argument tensors that the function wrote to, by position of the argument.
    pub(super) written: BTreeMap<u32, Value>,
    /// True if uninitialized memory may have affected the values.
    pub(super) is_doubtful: bool,
}

/// Executes functions, and caches the results of the last module.
pub(super) struct Sides {
    /// Kernels that cache their results, so that both sides share the results that a pass did not affect.
    pub(super) kernels: Arc<Kernels>,
    known: Vec<Known>,
}

struct Known {
    module: Module,
    unit: Unit,
    case: usize,
    args: Vec<Value>,
    executed: Executed,
}

/// Maximum number of cached executions.
const MOST_KNOWN: usize = 256;

impl Sides {
    /// Creates an executor that caches this many bytes of intermediate results.
    pub(super) fn new(remembered: u64, executor: &Executor) -> Sides {
        let kernels = match &executor.native {
            Some(native) => Kernels::new(Remembering::new(native.remembering(), remembered)),
            None => Kernels::new(Remembering::new(Interpreter, remembered)),
        };
        Sides { kernels: Arc::new(kernels), known: Vec::new() }
    }

    /// Executes a function of a module, unless the result is cached.
    pub(super) fn execute(
        &mut self,
        engine: &Engine,
        module: &Module,
        unit: &Unit,
        case: &Case,
        args: &[Value],
        limits: &Limits,
    ) -> Executed {
        // Results of older modules are not needed again.
        if self.known.len() >= MOST_KNOWN {
            self.known.retain(|known| known.module.same(module));
        }
        let same = |known: &&Known| {
            known.case == case.number
                && known.unit == *unit
                && known.module.same(module)
                && known.args.len() == args.len()
                && known.args.iter().zip(args).all(|(known, arg)| known.same(arg))
        };
        if let Some(known) = self.known.iter().find(same) {
            return known.executed.clone();
        }
        let before = limits.work_done();
        let (result, branches) = computed(engine, module, unit, args, limits, &self.kernels);
        let work = limits.work_done().saturating_sub(before);
        let executed = Executed { side: result.map_or_else(|failure| side_of(&failure), Side::Value), branches, work };
        if self.known.len() < MOST_KNOWN {
            let (module, unit, args, executed) = (module.clone(), unit.clone(), args.to_vec(), executed.clone());
            self.known.push(Known { module, unit, case: case.number, args, executed });
        }
        executed
    }
}

/// Observes the branches that are taken, and the arguments that are written to.
struct Writes {
    branches: Branches,
    written: BTreeMap<u32, Value>,
}

impl Observer for Writes {
    fn branches(&mut self, binding: &Binding<'_>, holds: bool) {
        self.branches.branches(binding, holds);
    }

    fn written(&mut self, tensor: &Tensor) {
        self.written.extend(tensor.origin().map(|at| (at, Value::Tensor(tensor.clone()))));
    }
}

/// Executes a function of a module. Returns everything that it computed, and the branches that it took.
pub(super) fn computed(
    engine: &Engine,
    module: &Module,
    unit: &Unit,
    args: &[Value],
    limits: &Limits,
    kernels: &Arc<Kernels>,
) -> (Result<Computed, Failure>, Branches) {
    let mut writes = Writes { branches: Branches::default(), written: BTreeMap::new() };
    let result = execute_in_doubt(engine, module, unit, args, limits, kernels, &mut writes);
    let Writes { branches, written } = writes;
    (result.map(|(value, is_doubtful)| Computed { value, written, is_doubtful }), branches)
}

/// Executes a function of a module.
pub(super) fn execute(
    engine: &Engine,
    module: &Module,
    unit: &Unit,
    args: &[Value],
    limits: &Limits,
    kernels: &Arc<Kernels>,
    observer: &mut dyn Observer,
) -> Result<Value, Failure> {
    execute_in_doubt(engine, module, unit, args, limits, kernels, observer).map(|(value, _)| value)
}

/// Executes a function of a module. The origin of each tensor is its position among the arguments. Also returns true if uninitialized memory may
/// have affected the values.
fn execute_in_doubt(
    engine: &Engine,
    module: &Module,
    unit: &Unit,
    args: &[Value],
    limits: &Limits,
    kernels: &Arc<Kernels>,
    observer: &mut dyn Observer,
) -> Result<(Value, bool), Failure> {
    match unit {
        Unit::Function(name) => {
            let mut machine = Machine::new(module, engine).limits(limits).kernels(kernels).looking_for_unwritten();
            let with_origin = |(at, value): (u32, &Value)| match value {
                Value::Tensor(tensor) => Value::Tensor(tensor.clone().with_origin(at)),
                other => other.clone(),
            };
            let value = machine.run(name, (0..).zip(args).map(with_origin).collect(), observer)?;
            Ok((value, machine.unwritten().is_some()))
        }
        Unit::PrimFunc(name) => {
            let body = module.get(name).ok_or(Cause::NoFunction { name: name.clone(), near: Vec::new() })?;
            limits.take_unwritten();
            let value = prim_func(body, name, args, limits, kernels)?;
            Ok((value, limits.take_unwritten()))
        }
    }
}

/// Executes a PrimFunc. Returns the final contents of all tensors, and its result, if it has one.
fn prim_func(body: &Body, name: &str, args: &[Value], limits: &Limits, kernels: &Kernels) -> Result<Value, Cause> {
    let kernel = kernels.get(body).map_err(|fault| fault.in_function(name))?;
    let mut values = args.to_vec();
    let mut list = Vec::with_capacity(values.len());
    for value in &mut values {
        list.push(match value {
            Value::Tensor(tensor) => Arg::Out(tensor),
            Value::Scalar(scalar) => scalar.argument(),
            other => return Err(Cause::mismatch("an argument of the PrimFunc", other.described(), "a tensor")),
        });
    }
    let result = kernel.run(&mut list, limits).map_err(|fault| fault.in_function(name))?;
    drop(list);
    let dtype = body.root().ty().dtype();
    let mut out: Vec<Value> = values.into_iter().filter(|value| value.as_tensor().is_some()).collect();
    out.extend(result.map(|number| Value::Scalar(Scalar { number, dtype })));
    Value::tuple(out)
}

/// Classifies a failed execution.
pub(super) fn side_of(failure: &Failure) -> Side {
    let text = failure.to_string();
    let at = failure.at.first().cloned();
    let fails = || Side::Fails(text.clone(), at.clone());
    match &failure.cause {
        Cause::Fault(fault) => match &fault.kind {
            FaultKind::TooMuchWork { .. } => Side::Limit(format!("work limit: {text}")),
            FaultKind::OutOfMemory { .. } => Side::Limit(format!("memory limit: {text}")),
            FaultKind::Unsupported { .. } | FaultKind::Cancelled => Side::Cannot(text),
            FaultKind::Assertion { .. } => Side::Asserts(text),
            _ => fails(),
        },
        Cause::NotExecuted { .. }
        | Cause::NotTaken { .. }
        | Cause::NotRegistered { .. }
        | Cause::SharedArguments { .. }
        | Cause::TooDeep { .. }
        | Cause::NestedValue { .. } => Side::Cannot(text),
        Cause::Mismatch { .. } | Cause::OtherKind { .. } | Cause::OtherType { .. } => Side::Refuses(text, at),
        _ => fails(),
    }
}
