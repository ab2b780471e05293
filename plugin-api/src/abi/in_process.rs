//! Runs passes in this process without the boundary: passes of an embedding program, and of plugins linked into
//! tests that compare both ways.

use crate::PassError;
use crate::abi::host::{NOTHING_DONE, RunFailure, with_batch};
use crate::declare::contributions::{InstrumentDecl, PropertyDecl};
use crate::declare::declarations::{PassDecl, RunFn};
use crate::declare::formats::{Output, ReaderDecl, Source, WriterDecl};
use crate::declare::instrument::PassInstrument;
use crate::declare::pass::{Batch, Ctx};
use crate::ir::Body;
use crate::ir::Module;
use crate::metadata::OptionValue;
use crate::services;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Returns the current context ([`with_current`](crate::abi::host::with_current)) for passes of this process.
fn context() -> Ctx {
    services::install(&crate::abi::host::table::SERVICES);
    Ctx::current()
}

fn panicked(payload: Box<dyn Any + Send>) -> RunFailure {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_string());
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
    // The payload's destructor could panic again.
    std::mem::forget(payload);
    RunFailure::Panic(text.unwrap_or_else(|| "a payload that is not text".to_string()))
}

/// Calls code of this program; turns a panic into a failure.
///
/// # Errors
/// The panic.
pub fn caught<R>(work: impl FnOnce() -> R) -> Result<R, RunFailure> {
    catch_unwind(AssertUnwindSafe(work)).map_err(panicked)
}

fn other_granularity() -> RunFailure {
    RunFailure::Error(PassError::new("the pass works at a different granularity"))
}

/// Runs a module pass of this program. A context must be current.
///
/// # Errors
/// The failure.
pub fn call_module(
    module: &Module,
    run: impl FnOnce(&Module, &Ctx) -> Result<Module, PassError>,
) -> Result<Module, RunFailure> {
    let ctx = Ctx::current();
    caught(|| run(module, &ctx))?.map_err(RunFailure::Error)
}

/// Runs a pass of this program over functions, with one result per function. A context must be current.
pub fn call_functions(
    functions: &[(&str, &Body)],
    run: impl FnMut(&Body, &Ctx) -> Result<Body, PassError>,
) -> Vec<Result<Body, RunFailure>> {
    let ctx = Ctx::current();
    let bodies: Vec<Body> = functions.iter().map(|(_, body)| (*body).clone()).collect();
    let mut results = Vec::with_capacity(bodies.len());
    let mut done = |_: usize, result: std::thread::Result<Result<Body, PassError>>| {
        results.push(result.map_err(panicked).and_then(|result| result.map_err(RunFailure::Error)));
    };
    with_batch(functions, NOTHING_DONE, || Batch::new(&bodies, &ctx, &mut done).each(run));
    results
}

/// Runs a module pass with the values of all its options. A context must be current.
///
/// # Errors
/// The failure.
pub fn run_module(pass: &PassDecl, module: &Module, options: &[OptionValue]) -> Result<Module, RunFailure> {
    let RunFn::Module(run) = pass.run else { return Err(other_granularity()) };
    let ctx = context();
    let result = catch_unwind(AssertUnwindSafe(|| run(module, options, &ctx)));
    result.map_err(panicked)?.map_err(RunFailure::Error)
}

/// Reads a file with the values of all options of the reader. A context must be current.
///
/// # Errors
/// The reason for the failure.
pub fn read(reader: &ReaderDecl, source: &Source<'_>, options: &[OptionValue]) -> Result<Module, RunFailure> {
    let ctx = context();
    caught(|| (reader.read)(source, options, &ctx))?.map_err(RunFailure::Error)
}

/// Writes a module with the values of all options of the writer. A context must be current.
///
/// # Errors
/// The reason for the failure.
pub fn write(
    writer: &WriterDecl,
    module: &Module,
    output: &mut Output<'_>,
    options: &[OptionValue],
) -> Result<(), RunFailure> {
    let ctx = context();
    caught(|| (writer.write)(module, output, options, &ctx))?.map_err(RunFailure::Error)
}

/// Runs the checker of a property on a function. A context must be current.
///
/// # Errors
/// The reason why the function lacks the property ([`RunFailure::Error`]), or the failure of the checker.
pub fn check_property(property: &PropertyDecl, function: (&str, &Body)) -> Result<(), RunFailure> {
    let Some(check) = property.check else {
        return Err(RunFailure::Protocol(format!("lacks a checker of `{}`", property.name)));
    };
    let ctx = context();
    let mut answer = Ok(());
    let mut done = |_: usize, result: std::thread::Result<Result<Body, PassError>>| {
        answer = result.map_err(panicked).and_then(|result| result.map(drop).map_err(RunFailure::Error));
    };
    let body = [function.1.clone()];
    let run = || Batch::new(&body, &ctx, &mut done).each(|body, ctx| check(body, ctx).map(|()| body.clone()));
    with_batch(&[function], NOTHING_DONE, run);
    answer
}

/// Creates an instrument with the values of all its options. A context must be current.
///
/// # Errors
/// The failure.
pub fn make_instrument(
    instrument: &InstrumentDecl,
    options: &[OptionValue],
) -> Result<Box<dyn PassInstrument>, RunFailure> {
    let ctx = context();
    caught(|| (instrument.new)(options, &ctx))?.map_err(RunFailure::Error)
}

/// Runs a function, PrimFunc or dataflow-block pass on each function, with one result per function. A context must
/// be current.
pub fn run_functions(
    pass: &PassDecl,
    functions: &[(&str, &Body)],
    options: &[OptionValue],
) -> Vec<Result<Body, RunFailure>> {
    let ctx = context();
    let bodies: Vec<Body> = functions.iter().map(|(_, body)| (*body).clone()).collect();
    let mut results: Vec<Result<Body, RunFailure>> = bodies.iter().map(|_| Err(other_granularity())).collect();
    let mut done = |at: usize, result: std::thread::Result<Result<Body, PassError>>| {
        results[at] = result.map_err(panicked).and_then(|result| result.map_err(RunFailure::Error));
    };
    if let RunFn::Function(run) | RunFn::DataflowBlock(run) | RunFn::PrimFunc(run) = pass.run {
        with_batch(functions, NOTHING_DONE, || run(options, &mut Batch::new(&bodies, &ctx, &mut done)));
    }
    results
}
