//! Executes functions of a module: operators run through the legalizations of plugins, and failures become errors with their place in the
//! module.

pub mod backend;
pub(super) mod evaluate;
pub mod peak;
pub mod timed;

use super::shown::Shown;
use crate::context::services::{NoReports, OutsideRuns};
use crate::engine::Engine;
use crate::report::error::{Error, exit};
use passhost_lang::ir::{Call, Module, Type};
use passhost_lang::typing::legalized::Legalized;
use passhost_lang::typing::operators::Infer;
use runtime::vm::{At, Cause, Failure, Kernels, Lower, Machine, NO_LEGALIZATION, Value};
use runtime::{FaultKind, Limits};
use std::sync::Arc;

impl Lower for Engine {
    fn infer(&self, call: Call<'_>) -> Result<Type, String> {
        Infer::infer(self, call).map(|inferred| inferred.ty).map_err(|error| error.to_string())
    }

    fn lower(&self, call: Call<'_>) -> Result<Option<Legalized>, String> {
        self.legalize(call).map_err(|error| error.to_string())
    }
}

/// Runs `f`, during which a virtual machine ([`runtime::vm`]) can execute operators of the engine.
pub fn executing<R>(engine: &Engine, f: impl FnOnce() -> R) -> R {
    OutsideRuns { engine, settings: None, format: "", rules: engine, reports: &NoReports }.run(f)
}

/// The byte that fills unwritten memory: it gives a large finite float in every width.
pub const FRESH: u8 = 0x5a;

/// Returns true if the value of a function depends on memory that it never wrote. Runs the function again with different contents there;
/// that run counts toward the same limits.
///
/// # Errors
/// If the function fails with the other contents.
pub fn depends_on_unwritten(
    engine: &Engine,
    module: &Module,
    function: &str,
    args: Vec<Value>,
    (limits, kernels): (&Limits, &Arc<Kernels>),
    value: &Value,
) -> Result<bool, Failure> {
    let mut machine = Machine::new(module, engine).limits(&limits.with_other_fresh_bytes()).kernels(kernels);
    let again = executing(engine, || machine.run(function, args, &mut ()))?;
    Ok(!again.same(value))
}

/// Builds the error that the value of a run depends on unwritten memory. `at` is the first call that leaves some memory unwritten.
pub fn unwritten(engine: &Engine, module: &Module, at: &At) -> Error {
    Error::Execution {
        message: format!("the result of `{}` depends on uninitialized elements", at.function),
        place: Shown::new(engine, module, "the module that was executed").place(&at.function, at.node),
        notes: vec![match &at.binding {
            Some(name) => format!("the call of `{name}` reads uninitialized elements, or leaves a part of its result uninitialized"),
            None => "this call reads uninitialized elements, or leaves a part of its result uninitialized".to_string(),
        }],
        help: "initialize all elements, for example with `T.init()` of a reduction, or make its loops cover the whole buffer"
            .to_string(),
        function: Some(at.function.clone()),
        code: exit::INPUT,
    }
}

/// Builds the error about an operation that is not possible on a module as it was read, with its place.
pub fn not_done(
    engine: &Engine,
    (module, origin): (&Module, &str),
    (function, node): (&str, Option<usize>),
    message: String,
    help: &str,
) -> Error {
    let shown = || Shown::new(engine, module, &format!("{origin}, as read"));
    Error::Execution {
        message,
        place: node.and_then(|node| shown().place(function, node)),
        notes: Vec::new(),
        help: help.to_string(),
        function: Some(function.to_string()),
        code: exit::REQUEST,
    }
}

/// Turns a failure into an error with its place in the executed module.
pub fn failed(engine: &Engine, module: &Module, failure: &Failure) -> Error {
    let at = failure.at.first();
    let place =
        at.and_then(|at| Shown::new(engine, module, "the module that was executed").place(&at.function, at.node));
    Error::Execution {
        message: failure.cause.to_string(),
        place,
        notes: callers(failure),
        help: help(&failure.cause, at.is_none()),
        function: at.map(|at| at.function.clone()),
        // A failure without a place means that the request does not fit the module.
        code: if at.is_none() { exit::REQUEST } else { exit::INPUT },
    }
}

/// Lists the calls that led to a failure; repeated calls of a recursion are listed once.
fn callers(failure: &Failure) -> Vec<String> {
    let mut told: Vec<(String, usize)> = Vec::new();
    for at in failure.at.iter().skip(1) {
        let text = format!("called from {at}");
        match told.last_mut().filter(|(last, _)| *last == text) {
            Some((_, times)) => *times += 1,
            None => told.push((text, 1)),
        }
    }
    let shown = |(text, times): (String, usize)| if times > 1 { format!("{text}, repeatedly") } else { text };
    told.into_iter().map(shown).collect()
}

fn help(cause: &Cause, asked: bool) -> String {
    let help = match cause {
        Cause::Fault(fault) => help_of_fault(&fault.kind, asked),
        Cause::NoFunction { .. } | Cause::OtherFunction { .. } if asked => {
            "use --function NAME with a Relax function of the module"
        }
        Cause::NotRegistered { .. } => {
            "the command line provides only the packed functions that passes write into modules; a program that embeds passhost can register more"
        }
        Cause::NotTaken { .. } => "the preceding shapes and values cause this; use --trace to show them",
        Cause::NotExecuted { why, .. } if why == NO_LEGALIZATION => {
            "its plugin must declare a legalization, or a pass must replace the operator"
        }
        Cause::NotExecuted { .. } => "change the call or its arguments, or run a pass that replaces the operator",
        Cause::TooDeep { .. } | Cause::NestedValue { .. } => "limit the recursion depth in the module",
        _ => help_of_types(asked),
    };
    help.to_string()
}

fn help_of_fault(kind: &FaultKind, asked: bool) -> &'static str {
    match kind {
        FaultKind::OutOfMemory { .. } => "use --limit-memory SIZE to allow more",
        FaultKind::TooMuchWork { .. } => {
            "use --limit-work N to allow more, unless the module has an endless loop or recursion"
        }
        FaultKind::Unsupported { .. } => "run fewer lowering passes, or replace the unsupported part of the module",
        FaultKind::OutOfBounds { .. } | FaultKind::DivisionByZero | FaultKind::Assertion { .. } => {
            "an input value or a fault in the module causes this; use --trace to show the preceding values"
        }
        _ => help_of_types(asked),
    }
}

fn help_of_types(asked: bool) -> &'static str {
    match asked {
        true => "use --random SEED to create matching inputs, or correct the arrays of --inputs FILE",
        false => "correct the types in the module, or the inputs that determine them",
    }
}
