//! The command `emit`: writes the native code of PrimFuncs, as text or as files for other programs.

use super::args::{EmitArgs, EmitKind};
use super::export::Files;
use crate::cli::arguments::Select;
use crate::cli::messages::Messages;
use crate::cli::run::executed::prepared;
use crate::cli::run::spared;
use crate::files::{Output, Written};
use crate::report::error::{Error, exit};
use crate::run::execute::backend::{Backend, Executor};
use native::Text;
use passhost_lang::ir::{Body, BodyKind, Module};
use passhost_lang::names::{did_you_mean, listed, nearest};

/// Runs the passes, and writes the code of the resulting PrimFuncs.
pub(in crate::cli) fn emit(args: &EmitArgs, messages: Messages) -> Result<(), Error> {
    match text_of(args.kind) {
        Some(of) => {
            let output = match &args.output {
                None => Output::Stdout,
                Some(shown) => {
                    let place = (shown.as_path(), "-o", args.kind.written());
                    spared::output(&args.select, place, &[("the module", args.module.input.as_path())])?
                }
            };
            let (module, executor) = ready(args, messages)?;
            output.write(&text(&asked(&module, args)?, args.kind, of, &executor)?)
        }
        None => {
            let files = Files::look(args)?;
            let (module, executor) = ready(args, messages)?;
            files.write(&asked(&module, args)?, args.kind, &executor, messages)
        }
    }
}

impl EmitKind {
    /// Returns the format of the file.
    pub(super) fn written(self) -> Written {
        match self {
            EmitKind::LlvmIr | EmitKind::Optimized => Written::LlvmIr,
            EmitKind::Asm => Written::Assembly,
            EmitKind::Object => Written::Object,
            EmitKind::Shared => Written::Library,
        }
    }
}

/// Returns the kind of text to write; `None` for objects and libraries.
fn text_of(kind: EmitKind) -> Option<Text> {
    match kind {
        EmitKind::LlvmIr => Some(Text::Written),
        EmitKind::Optimized => Some(Text::Optimized),
        EmitKind::Asm => Some(Text::Assembly),
        EmitKind::Object | EmitKind::Shared => None,
    }
}

/// Returns the module after the passes, and the executor that compiles it.
fn ready(args: &EmitArgs, messages: Messages) -> Result<(Module, Executor), Error> {
    let executor = Executor::new(Backend::Llvm)?;
    // Exported code runs on one thread.
    let threads = text_of(args.kind).is_none().then_some(1);
    let select = Select { threads, ..args.select.or_no_passes() };
    let prepared = prepared(&args.module, &args.isolate, &select, messages)?;
    let report = prepared.run(prepared.runner(messages), messages)?;
    match report.error {
        Some(error) => Err(error),
        None => Ok((report.module, executor)),
    }
}

/// Returns the requested PrimFuncs.
fn asked<'m>(module: &'m Module, args: &EmitArgs) -> Result<Vec<(&'m str, &'m Body)>, Error> {
    let is_asked = |name: &str| args.function.as_deref().is_none_or(|function| function == name);
    let functions = module.functions().filter(|(name, body)| is_asked(name) && body.kind() == BodyKind::PrimFunc);
    let functions: Vec<(&str, &Body)> = functions.collect();
    match (functions.is_empty(), &args.function) {
        (false, _) => Ok(functions),
        (true, Some(name)) => {
            let all: Vec<&str> = module
                .functions()
                .filter(|(_, body)| body.kind() == BodyKind::PrimFunc)
                .map(|(name, _)| name)
                .collect();
            let near = did_you_mean(&nearest(name, all.iter().copied()));
            let help = match all.as_slice() {
                [] => "it has none; use --passes relax.LegalizeOps to create PrimFuncs from operators".to_string(),
                all => format!("PrimFuncs: {}; without --function, the code of all of them is written", listed(all)),
            };
            Err(Error::Request { message: format!("the module has no PrimFunc `{name}`{near}"), help })
        }
        (true, None) => Err(Error::Execution {
            message: "the module does not contain a PrimFunc".to_string(),
            place: None,
            notes: Vec::new(),
            help: "use --passes relax.LegalizeOps to create PrimFuncs from operators".to_string(),
            function: None,
            code: exit::INPUT,
        }),
    }
}

/// Returns the code of all functions as one text.
fn text(functions: &[(&str, &Body)], kind: EmitKind, of: Text, executor: &Executor) -> Result<String, Error> {
    let comment = if kind == EmitKind::Asm { "#" } else { ";" };
    let mut text = String::new();
    for (name, body) in functions {
        let code = executor.text(body, of).map_err(|fault| Error::Request {
            message: format!("`{name}`: {fault}"),
            help: "`passhost exec` interprets such a function".to_string(),
        })?;
        text.push_str(&format!("{comment} {name}\n{code}\n"));
    }
    Ok(text)
}
