//! Executing a function before and after a pass.

use super::cases::Case;
use super::reached::Branches;
use super::remembering::Remembering;
use super::units::Unit;
use crate::engine::Engine;
use plugin_api::prelude::{Body, Module};
use runtime::vm::{At, Cause, Failure, Kernels, Machine, Observer, Scalar, Value};
use runtime::{Arg, FaultKind, Interpreter, Limits};
use std::sync::Arc;

/// What came of an execution.
#[derive(Clone)]
pub(super) enum Side {
    Value(Value),
    /// A limit was reached.
    Limit(String),
    /// The runtime cannot execute it.
    Cannot(String),
    /// A value has another type than what is written, and where.
    Refuses(String, Option<At>),
    /// It is wrong, and where.
    Fails(String, Option<At>),
}

/// Executes functions, and knows the results of the last module.
pub(super) struct Sides {
    /// They remember what they computed, so that both sides share what a pass left alone.
    pub(super) kernels: Arc<Kernels>,
    known: Vec<Known>,
}

struct Known {
    module: Module,
    unit: Unit,
    case: usize,
    args: Vec<Value>,
    side: Side,
    branches: Branches,
}

/// Results are known of so many executions.
const MOST_KNOWN: usize = 256;

impl Sides {
    /// That remember so many bytes of intermediate results.
    pub(super) fn new(remembered: u64) -> Sides {
        let kernels = Kernels::new(Remembering::new(Interpreter, remembered));
        Sides { kernels: Arc::new(kernels), known: Vec::new() }
    }

    /// Executes a function of a module, unless that is known: what came of it, and the branches that it took.
    pub(super) fn execute(
        &mut self,
        engine: &Engine,
        module: &Module,
        unit: &Unit,
        case: &Case,
        args: &[Value],
        limits: &Limits,
    ) -> (Side, Branches) {
        // What an older module gave is not asked for again.
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
            return (known.side.clone(), known.branches.clone());
        }
        let mut branches = Branches::default();
        let result = execute(engine, module, unit, args, limits, &self.kernels, &mut branches);
        let side = result.map_or_else(|failure| side_of(&failure), Side::Value);
        if self.known.len() < MOST_KNOWN {
            let (module, unit, args) = (module.clone(), unit.clone(), args.to_vec());
            let (side, branches) = (side.clone(), branches.clone());
            self.known.push(Known { module, unit, case: case.number, args, side, branches });
        }
        (side, branches)
    }
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
    match unit {
        Unit::Function(name) => {
            let mut machine = Machine::new(module, engine).limits(limits).kernels(kernels);
            machine.run(name, args.to_vec(), observer)
        }
        Unit::PrimFunc(name) => {
            let body = module.get(name).ok_or(Cause::NoFunction { name: name.clone(), near: Vec::new() })?;
            Ok(prim_func(body, name, args, limits, kernels)?)
        }
    }
}

/// A PrimFunc gives all tensors as it leaves them, and its result, if it has one.
fn prim_func(body: &Body, name: &str, args: &[Value], limits: &Limits, kernels: &Kernels) -> Result<Value, Cause> {
    let kernel = kernels.get(body).map_err(|fault| fault.in_function(name))?;
    let mut values = args.to_vec();
    let mut list = Vec::with_capacity(values.len());
    for value in &mut values {
        list.push(match value {
            Value::Tensor(tensor) => Arg::Out(tensor),
            Value::Scalar(scalar) => number(scalar),
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

fn number(scalar: &Scalar) -> Arg<'static> {
    use plugin_api::ir::constant::Number;
    match scalar.number {
        Number::Bool(value) => Arg::Int(value.into()),
        Number::Int(value) => Arg::Int(value),
        Number::UInt(value) => Arg::Int(value as i64),
        Number::Float(value) => Arg::Float(value),
    }
}

fn side_of(failure: &Failure) -> Side {
    let text = failure.to_string();
    let at = failure.at.first().cloned();
    let fails = || Side::Fails(text.clone(), at.clone());
    match &failure.cause {
        Cause::Fault(fault) => match &fault.kind {
            FaultKind::TooMuchWork { .. } => Side::Limit(format!("work limit: {text}")),
            FaultKind::OutOfMemory { .. } => Side::Limit(format!("memory limit: {text}")),
            FaultKind::Unsupported { .. } | FaultKind::Cancelled => Side::Cannot(text),
            _ => fails(),
        },
        Cause::NotExecuted { .. }
        | Cause::NotTaken { .. }
        | Cause::NotRegistered { .. }
        | Cause::TooDeep { .. }
        | Cause::NestedValue { .. } => Side::Cannot(text),
        Cause::Mismatch { .. } | Cause::OtherKind { .. } | Cause::OtherType { .. } => Side::Refuses(text, at),
        _ => fails(),
    }
}
