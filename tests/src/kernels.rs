//! PrimFuncs with arguments, for execution by several backends.

use native::Native;
use plugin_api::ir::constant::Number;
use plugin_api::ir::{BodyKind, Module};
use plugin_api::prelude::{Body, Dim, Sym};
use runtime::program::{ParamKind, Program, lower};
use runtime::vm::Inputs;
use runtime::{Arg, Backend, Fault, Interpreter, Limits, Tensor};
use std::collections::{BTreeMap, BTreeSet};
use std::mem::discriminant;
use std::time::{Duration, Instant};

/// Limits for one call: bytes of tensors, and units of work.
const MEMORY: u64 = 4 << 30;
const WORK: u64 = 400_000_000_000;

/// An argument that is owned by its call.
#[derive(Clone)]
enum Owned {
    Tensor(Tensor),
    Int(i64),
    Float(f64),
}

/// The result of comparing a PrimFunc between both backends.
pub enum Verdict {
    /// The results are bitwise equal. Includes the times of both backends (for native code, of the fastest call), and
    /// of the first native call with compilation.
    Same {
        /// Time of the interpreter.
        interpreted: Duration,
        /// Time of native code.
        native: Duration,
        /// Time of the first native call.
        first: Duration,
    },
    /// Both backends report the same fault.
    Fault(Fault),
    /// The PrimFunc cannot be called, or exceeds a limit.
    Not(String),
    /// The results or the faults differ.
    Differs(String),
}

/// Returns the PrimFuncs of a module.
pub fn prim_funcs(module: &Module) -> impl Iterator<Item = (&str, &Body)> {
    module.functions().filter(|(_, body)| body.kind() == BodyKind::PrimFunc)
}

/// Executes a PrimFunc in both backends, with symbolic dimensions of this extent.
pub fn compare(native: &Native, body: &Body, extent: i64, seed: u64) -> Verdict {
    let args = match lower(body).map_err(|fault| fault.to_string()).and_then(|of| arguments(&of, body, extent, seed)) {
        Ok(args) => args,
        Err(why) => return Verdict::Not(why),
    };
    // Each call has the full limit.
    let limits = || Limits::new(MEMORY, WORK);
    let started = Instant::now();
    let expected = run(&Interpreter, body, args.clone(), &limits());
    let interpreted = started.elapsed();
    if let Err(fault) = &expected
        && matches!(fault.kind, runtime::FaultKind::TooMuchWork { .. } | runtime::FaultKind::Unsupported { .. })
    {
        return Verdict::Not(fault.to_string());
    }
    let started = Instant::now();
    let kernel = match native.prepare(body) {
        Ok(kernel) => kernel,
        Err(fault) => return Verdict::Differs(format!("native code: {fault}")),
    };
    let found = call(&*kernel, args.clone(), &limits());
    let first = started.elapsed();
    let (again, native) = fastest(|| call(&*kernel, args.clone(), &limits()));
    match (expected, found, again) {
        (Ok(expected), Ok(found), Ok(again)) if bits(&expected) == bits(&found) && bits(&found) == bits(&again) => {
            Verdict::Same { interpreted, native, first }
        }
        (Ok(_), Ok(_), Ok(_)) => Verdict::Differs("other bits".to_string()),
        // If several indices are out of bounds, the first such index depends on the order of iterations.
        (Err(expected), Err(found), Err(_)) if discriminant(&expected.kind) == discriminant(&found.kind) => {
            Verdict::Fault(found)
        }
        (expected, found, _) => Verdict::Differs(format!("{:?} / {:?}", expected.err(), found.err())),
    }
}

/// Returns the bits of tensors after a PrimFunc ran with them as arguments.
///
/// # Errors
/// If the PrimFunc cannot be executed with these tensors.
pub fn executed(backend: &dyn Backend, body: &Body, tensors: &[Tensor]) -> Result<Vec<u64>, Fault> {
    let args = tensors.iter().cloned().map(Owned::Tensor).collect();
    run(backend, body, args, &Limits::new(MEMORY, WORK)).map(|left| bits(&left))
}

/// Calls `f` several times, for about 50 ms in total. Returns the result of the last call, and the time of the fastest
/// call.
fn fastest<T>(f: impl Fn() -> T) -> (T, Duration) {
    let timed = || {
        let started = Instant::now();
        let out = f();
        (out, started.elapsed())
    };
    let (mut out, mut least) = timed();
    let mut left = Duration::from_millis(50).saturating_sub(least);
    while !left.is_zero() {
        let (again, took) = timed();
        left = left.saturating_sub(took);
        (out, least) = (again, least.min(took));
    }
    (out, least)
}

/// The tensors after a call, and its result.
type Left = (Vec<Owned>, Option<Number>);

fn run(backend: &dyn Backend, body: &Body, args: Vec<Owned>, limits: &Limits) -> Result<Left, Fault> {
    call(&*backend.prepare(body)?, args, limits)
}

fn call(kernel: &dyn runtime::Kernel, mut args: Vec<Owned>, limits: &Limits) -> Result<Left, Fault> {
    let mut list: Vec<Arg<'_>> = args
        .iter_mut()
        .map(|arg| match arg {
            Owned::Tensor(tensor) => Arg::Out(tensor),
            Owned::Int(value) => Arg::Int(*value),
            Owned::Float(value) => Arg::Float(*value),
        })
        .collect();
    let result = kernel.run(&mut list, limits)?;
    drop(list);
    Ok((args, result))
}

/// Returns the bits of the tensors and the result; all NaNs count as equal.
fn bits((args, result): &Left) -> Vec<u64> {
    let bits = |number: Number| match number {
        Number::Bool(value) => value.into(),
        Number::Int(value) => value as u64,
        Number::UInt(value) => value,
        Number::Float(value) if value.is_nan() => f64::NAN.to_bits(),
        Number::Float(value) => value.to_bits(),
    };
    let tensors = args.iter().filter_map(|arg| match arg {
        Owned::Tensor(tensor) => Some(tensor),
        _ => None,
    });
    tensors.flat_map(Tensor::numbers).chain(*result).map(bits).collect()
}

fn arguments(program: &Program, body: &Body, extent: i64, seed: u64) -> Result<Vec<Owned>, String> {
    let mut symbols = BTreeSet::new();
    let mut note = |dim: &Dim| {
        dim.vars(&mut |sym: Sym| {
            symbols.insert(sym.id);
        });
    };
    for param in &program.params {
        if let ParamKind::Tensor(of) = &param.kind {
            of.shape.iter().chain(&of.strides).chain([&of.offset]).for_each(&mut note);
        }
    }
    let values: BTreeMap<u32, i64> = symbols.into_iter().map(|id| (id, extent)).collect();
    let limits = Limits::new(MEMORY, WORK);
    let argument = |(at, param): (u64, &runtime::program::Param)| match &param.kind {
        ParamKind::Scalar(reg) if program.registers[reg.index()].is_float() => Ok(Owned::Float(1.5)),
        ParamKind::Scalar(_) => Ok(Owned::Int(param.symbol.and_then(|id| values.get(&id)).copied().unwrap_or(3))),
        ParamKind::Tensor(of) => {
            let shape: Result<Vec<i64>, _> = of.shape.iter().map(|dim| Inputs::extent(dim, &values, body)).collect();
            let shape = shape.map_err(|why| why.to_string())?;
            let tensor = Inputs::default().tensor("", of.dtype, &shape, seed * 64 + at, &limits);
            tensor.map(Owned::Tensor).map_err(|error| error.to_string())
        }
        ParamKind::Handle { .. } => Err("a pointer to memory of any type".to_string()),
    };
    (0..).zip(&program.params).map(argument).collect()
}
