//! The command `emit`: the native code of PrimFuncs as text.

use crate::cli::arguments::{EmitArgs, EmitKind};
use crate::cli::messages::Messages;
use crate::cli::run::executed::prepared;
use crate::cli::spared;
use crate::files::{Output, to_stdout};
use crate::report::error::{Error, exit};
use crate::run::execute::backend::{Backend, Executor};
use native::Text;
use plugin_api::ir::{BodyKind, Module};

/// Runs the passes, and writes the code of the PrimFuncs of the result.
pub(in crate::cli) fn emit(args: &EmitArgs, messages: Messages) -> Result<(), Error> {
    let output = match &args.output {
        None => None,
        Some(shown) => Some(spared::output(&args.select, (shown, "-o"), &[("the module", args.input.as_path())])?),
    };
    let executor = Executor::new(Backend::Llvm)?;
    let prepared = prepared(&args.input, &args.isolate, &args.select.or_no_passes(), messages)?;
    let report = prepared.run(prepared.runner(messages), messages)?;
    if let Some(error) = report.error {
        return Err(error);
    }
    let text = code(&report.module, args, &executor)?;
    match output {
        None | Some(Output::Stdout) => to_stdout(&text),
        Some(output) => output.write(&text),
    }
}

/// The code of the functions that are asked for, one after the other.
fn code(module: &Module, args: &EmitArgs, executor: &Executor) -> Result<String, Error> {
    let of = match args.kind {
        EmitKind::LlvmIr => Text::Written,
        EmitKind::Optimized => Text::Optimized,
        EmitKind::Asm => Text::Assembly,
    };
    let comment = if args.kind == EmitKind::Asm { "#" } else { ";" };
    let asked = |name: &str| args.function.as_deref().is_none_or(|function| function == name);
    let functions = module.functions().filter(|(name, body)| asked(name) && body.kind() == BodyKind::PrimFunc);
    let mut text = String::new();
    for (name, body) in functions {
        let code = executor.text(body, of).map_err(|fault| Error::Request {
            message: format!("`{name}`: {fault}"),
            help: "exec interprets such a function".to_string(),
        })?;
        text.push_str(&format!("{comment} {name}\n{code}\n"));
    }
    match (text.is_empty(), &args.function) {
        (false, _) => Ok(text),
        (true, Some(name)) => Err(Error::Request {
            message: format!("the module has no PrimFunc `{name}`"),
            help: "without --function, the code of each PrimFunc is written".to_string(),
        }),
        (true, None) => Err(Error::Execution {
            message: "the module has no PrimFunc".to_string(),
            place: None,
            notes: Vec::new(),
            help: "--passes relax.LegalizeOps makes PrimFuncs of operators".to_string(),
            function: None,
            code: exit::INPUT,
        }),
    }
}
