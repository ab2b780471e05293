//! Evaluates functions without parameters for passes. Each function is executed once, on the module before the pass.

use super::{FRESH, executing};
use crate::engine::Engine;
use passhost_lang::ir::constant::Number;
use passhost_lang::ir::{AttrsId, Body, BodyBuilder, Dim, Module, Tensor, Type, V};
use plugin_api::services::evaluation::{Evaluated, EvaluationError, EvaluationLimits, Reason};
use runtime::vm::{At, Cause, Failure, Kernels, Machine, Packed, Value};
use runtime::{ByBody, FaultKind, Limits};
use std::borrow::Cow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum limits that passes can set: 4 GiB, and about a minute of work.
const MOST: EvaluationLimits = EvaluationLimits { memory: 4 << 30, work: 750_000_000_000 };

/// The evaluations on one module, shared by all threads.
#[derive(Default)]
pub(in crate::run) struct Evaluations {
    kernels: Arc<Kernels>,
    /// Outcomes by function.
    known: Mutex<ByBody<Arc<Mutex<Option<Outcome>>>>>,
    /// Number of executions.
    executed: AtomicUsize,
}

/// The outcome of evaluating a function. It stays locked during execution, so that no other thread repeats the
/// evaluation.
#[derive(Clone)]
struct Outcome {
    answer: Result<Evaluated, EvaluationError>,
    /// Memory that the evaluation used, or the limit that it exceeded.
    memory: u64,
    work: u64,
}

impl Outcome {
    /// Returns true if the outcome would be the same under these limits.
    fn holds_for(&self, limits: EvaluationLimits) -> bool {
        let fits = self.work <= limits.work && self.memory <= limits.memory;
        match &self.answer {
            Err(error) if error.reason == Reason::Work => limits.work == self.work && limits.memory == self.memory,
            Err(error) if error.reason == Reason::Memory => limits.work == self.work && limits.memory == self.memory,
            _ => fits,
        }
    }
}

impl Evaluations {
    /// Executes a function without parameters, unless it was already executed.
    pub(in crate::run) fn evaluate(
        &self,
        engine: &Engine,
        module: &Module,
        function: &Body,
        limits: EvaluationLimits,
    ) -> Result<Evaluated, EvaluationError> {
        let limits = EvaluationLimits { memory: limits.memory.min(MOST.memory), work: limits.work.min(MOST.work) };
        check(function)?;
        let evaluation = self.of(function);
        let mut outcome = evaluation.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = outcome.as_ref().filter(|known| known.holds_for(limits)) {
            return known.answer.clone();
        }
        let new = self.executed(engine, module, function, limits);
        outcome.insert(new).answer.clone()
    }

    fn of(&self, function: &Body) -> Arc<Mutex<Option<Outcome>>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(evaluation) = known.get(function) {
            return Arc::clone(evaluation);
        }
        let new = Arc::default();
        known.insert(function, Arc::clone(&new));
        new
    }

    fn executed(&self, engine: &Engine, module: &Module, function: &Body, limits: EvaluationLimits) -> Outcome {
        let n = self.executed.fetch_add(1, Ordering::Relaxed) + 1;
        tracing::debug!(target: LOG, n, "evaluates");
        let used = Limits::with_fresh_bytes(limits.memory, limits.work, FRESH);
        let machine = Machine::new(module, engine).limits(&used).kernels(&self.kernels).packed(Packed::default());
        let mut machine = machine.looking_for_unwritten();
        let result = executing(engine, || machine.run_function(NAME, function, Vec::new(), &mut ()));
        let (memory, work) = (used.memory_peak(), used.work_done());
        let answer = result.map_err(|failure| error(&failure)).and_then(|value| match machine.unwritten() {
            Some(at) => Err(unwritten(at)),
            None => Ok(Evaluated::new(returning(&value)?, work)),
        });
        let answer = answer.map_err(|mut error| {
            error.work = work;
            error
        });
        match &answer {
            // The whole limit counts as used, because the actual need is unknown.
            Err(error) if matches!(error.reason, Reason::Work | Reason::Memory) => {
                Outcome { answer, memory: limits.memory, work: limits.work }
            }
            _ => Outcome { answer, memory, work },
        }
    }
}

/// Source of the log messages.
const LOG: &str = "passhost::evaluate";
/// Name of the function, for interfaces that require one.
const NAME: &str = "evaluation";

fn unwritten(at: &At) -> EvaluationError {
    let mut error = EvaluationError::new(Reason::NotKnown, "its result may contain uninitialized memory");
    error.function = Some(at.function.clone());
    error
}

/// Returns an error if a function must not be executed.
fn check(function: &Body) -> Result<(), EvaluationError> {
    let wrong = |message: &str| Err(EvaluationError::new(Reason::Wrong, message));
    let Some(relax) = function.function() else { return wrong("only Relax functions can be evaluated") };
    if relax.params().next().is_some() {
        return Err(EvaluationError::new(Reason::NotKnown, "a function with parameters cannot be evaluated"));
    }
    match function.values().find(|value| value.index() != Some(0) && value.has_effect()) {
        Some(effect) => {
            let what = effect.as_call().and_then(|call| call.op().or_else(|| call.global()));
            let message = format!("`{}` has side effects", what.unwrap_or("a call"));
            Err(EvaluationError::new(Reason::Effect, message))
        }
        None => Ok(()),
    }
}

/// Builds a function that returns a value.
fn returning(value: &Value) -> Result<Body, EvaluationError> {
    let mut b = BodyBuilder::new();
    b.begin_function(0, AttrsId::NONE, None);
    let v = written(&mut b, value).ok_or_else(|| {
        let message = format!("the result is {}, which cannot be written as an expression", value.described());
        EvaluationError::new(Reason::NotExecuted, message)
    })?;
    let ty = b.type_of(v);
    b.end_function(v, ty);
    b.finish().map_err(|why| EvaluationError::new(Reason::Wrong, format!("the result is not valid: {why}")))
}

fn written(b: &mut BodyBuilder, value: &Value) -> Option<V> {
    Some(match value {
        Value::Tensor(tensor) => {
            let ty = Type::tensor(tensor.shape().iter().copied(), tensor.dtype());
            b.constant(&Tensor::new(usual_nans(tensor).bytes()), &ty)
        }
        Value::Shape(extents) => b.shape(&extents.iter().copied().map(Dim::Int).collect::<Vec<_>>()),
        Value::Scalar(scalar) => b.prim_value(&match scalar.number {
            Number::Bool(value) => Dim::int(value.into(), scalar.dtype),
            Number::Int(value) => Dim::int(value, scalar.dtype),
            Number::UInt(value) => Dim::int(i64::try_from(value).ok()?, scalar.dtype),
            Number::Float(value) => Dim::float(usual_nan(value), scalar.dtype),
        }),
        // The recursion is limited, because the machine limits the nesting of tuples.
        Value::Tuple(tuple) => {
            let fields = tuple.fields().iter().map(|field| written(b, field)).collect::<Option<Vec<V>>>()?;
            b.tuple(&fields, None)
        }
        _ => return None,
    })
}

/// Replaces any NaN by the canonical NaN, because the sign and payload differ between machines, and the text of a
/// scalar cannot express them.
fn usual_nan(value: f64) -> f64 {
    if value.is_nan() { f64::NAN } else { value }
}

fn usual_nans(tensor: &runtime::Tensor) -> Cow<'_, runtime::Tensor> {
    let is_nan = |number: Number| matches!(number, Number::Float(value) if value.is_nan());
    if !tensor.dtype().is_float() || !tensor.numbers().any(is_nan) {
        return Cow::Borrowed(tensor);
    }
    let usual = |number| if let Number::Float(value) = number { Number::Float(usual_nan(value)) } else { number };
    let numbers = tensor.numbers().map(usual);
    runtime::Tensor::from_numbers(tensor.dtype(), tensor.shape(), numbers).map_or(Cow::Borrowed(tensor), Cow::Owned)
}

fn error(failure: &Failure) -> EvaluationError {
    let place = if let Cause::Fault(fault) = &failure.cause { Some(&fault.place) } else { None };
    let called = || failure.at.first().map(|at| at.function.clone()).filter(|name| name != NAME);
    let mut error = EvaluationError::new(reason(&failure.cause), failure.cause.to_string());
    error.function = place.and_then(|place| place.function.clone()).or_else(called);
    error.statement = place.and_then(|place| place.statement.clone());
    error
}

fn reason(cause: &Cause) -> Reason {
    match cause {
        Cause::Fault(fault) => match fault.kind {
            FaultKind::OutOfBounds { .. } => Reason::OutOfBounds,
            FaultKind::DivisionByZero => Reason::DivisionByZero,
            FaultKind::OutOfMemory { .. } => Reason::Memory,
            FaultKind::TooMuchWork { .. } | FaultKind::Cancelled => Reason::Work,
            FaultKind::Assertion { .. } => Reason::Assertion,
            FaultKind::Unsupported { .. } => Reason::NotExecuted,
            _ => Reason::Wrong,
        },
        Cause::NotRegistered { .. }
        | Cause::NotExecuted { .. }
        | Cause::NotTaken { .. }
        | Cause::SharedArguments { .. } => Reason::NotExecuted,
        Cause::Unbound { .. } => Reason::NotKnown,
        // Endless recursion is endless work.
        Cause::TooDeep { .. } => Reason::Work,
        _ => Reason::Wrong,
    }
}

#[cfg(test)]
mod tests;
