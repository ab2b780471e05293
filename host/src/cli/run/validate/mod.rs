//! The command `validate`: runs passes, and checks that each of them preserved the results of the module. `run
//! --validate` does the same after a run.

pub(in crate::cli) mod args;
mod show;

use self::args::ValidateArgs;
use super::executed::inputs::arrays;
use super::executed::{bounds, dims, memory, prepared, usual_memory};
use super::reading::in_the_original_process;
use crate::cli::messages::Messages;
use crate::engine::Engine;
use crate::files::to_stdout;
use crate::instruments::Instrument;
use crate::report::Report;
use crate::report::error::{Error, exit};
use crate::run::execute::backend::Executor;
use crate::run::validate::{
    ChangedSteps, Checked, ValidatedStep, Validation, Validator, Verdict, parameter_names, symbolic_dims,
};
use indicatif::{ProgressBar, ProgressStyle};
use passhost_lang::ir::DType;
use passhost_lang::ir::Module;
use passhost_lang::names::visible::visible_line;
use passhost_lang::names::{did_you_mean, nearest};
use runtime::vm::Inputs;
use runtime::{Limits, Tensor};
use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

/// The seed of `run --validate`.
const USUAL_SEED: u64 = 1;

/// Runs the passes, and shows a verdict on each. Returns the exit code.
pub(in crate::cli) fn validate(args: &ValidateArgs, messages: Messages) -> Result<u8, Error> {
    let executor = Executor::new(args.executed.backend)?;
    let how = Validation {
        dims: dims(&args.executed)?,
        function: args.function.clone(),
        work: args.limit_work,
        executor: executor.clone(),
        bounds: bounds(&args.range)?,
        inputs_per_size: args.inputs_per_size.into(),
        ..Validation::new(args.seed, memory(&args.executed))
    };
    let prepared = prepared(&args.executed.module, &args.executed.isolate, &args.select, messages)?;
    known_function(args.function.as_deref(), &prepared.module)?;
    known_dims(how.dims.keys(), &prepared.module)?;
    known_params(how.bounds.by_name.keys(), "--range", &prepared.module)?;
    let how = Validation { arrays: given(args, &prepared.module, &how)?, ..how };
    let (engine, steps) = (&prepared.engine, ChangedSteps::default());
    let runner = prepared.runner(messages).rewrites(args.limit.rewrites.clone());
    let runner = runner.instrument(collecting(&steps, engine));
    let report = prepared.run(runner, messages)?;
    messages.reports(report.warnings.iter().map(Report::warning), "warnings");
    let checked = check(engine, steps.take(), how, messages);
    executor.note().iter().for_each(|note| messages.tell(&format!("note: {note}")));
    in_the_original_process()?;
    // If the first pass failed, only its error is shown.
    if !checked.is_empty() || report.error.is_none() {
        to_stdout(&if args.executed.json { show::json(&checked, args.seed) } else { show::text(&checked, args.seed) })?;
    }
    report.error.map_or(Ok(code(&checked)), Err)
}

/// Returns the instrument that collects the changed modules for validation.
pub(super) fn collecting(steps: &ChangedSteps, engine: &Engine) -> Instrument {
    Instrument::new("passhost.validate", steps.instrument(engine.registry()))
}

/// Validates the passes of a finished run.
pub(super) fn after_run(engine: &Arc<Engine>, steps: &ChangedSteps, messages: Messages) -> Vec<Checked> {
    check(engine, steps.seen(), Validation::new(USUAL_SEED, usual_memory()), messages)
}

/// Shows the verdicts on standard error. Returns the exit code. Values that could not be compared do not fail the run.
pub(super) fn conclude(checked: &[Checked], messages: Messages) -> u8 {
    messages.table("validation", || show::text(checked, USUAL_SEED), || show::values(checked));
    match code(checked) {
        exit::NOT_VALIDATED => exit::DONE,
        code => code,
    }
}

fn known_function(name: Option<&str>, module: &Module) -> Result<(), Error> {
    let Some(name) = name.filter(|name| module.get(name).is_none()) else { return Ok(()) };
    let near = did_you_mean(&nearest(name, module.functions().map(|(name, _)| name)));
    let message = format!("the module does not have a function `{name}`{near}");
    Err(Error::Request { message, help: "use --function NAME with a function of the input module".into() })
}

fn known_dims<'n>(names: impl Iterator<Item = &'n String>, module: &Module) -> Result<(), Error> {
    let known = symbolic_dims(module);
    let unknown = names.into_iter().find(|name| !known.contains(*name));
    let Some(name) = unknown else { return Ok(()) };
    let near = did_you_mean(&nearest(name, known.iter().map(String::as_str)));
    let message = format!("--dim: the parameters of the module do not have a symbolic dimension `{name}`{near}");
    Err(Error::Request {
        message,
        help: "use --dim to set the extent of a symbolic dimension of the parameters".into(),
    })
}

/// Reads the arrays of `--inputs`.
fn given(args: &ValidateArgs, module: &Module, how: &Validation) -> Result<BTreeMap<String, Tensor>, Error> {
    let Some(path) = &args.inputs else { return Ok(BTreeMap::new()) };
    let dtypes: BTreeMap<String, DType> = module.functions().flat_map(|(_, body)| Inputs::dtypes(body)).collect();
    let arrays = arrays(path, &dtypes, &Limits::new(how.memory, u64::MAX))?;
    known_params(arrays.keys(), "--inputs", module)?;
    Ok(arrays)
}

fn known_params<'n>(names: impl Iterator<Item = &'n String>, option: &str, module: &Module) -> Result<(), Error> {
    let known: BTreeSet<String> = module.functions().flat_map(|(_, body)| parameter_names(body)).collect();
    let Some(name) = names.into_iter().find(|name| !known.contains(*name)) else { return Ok(()) };
    let near = did_you_mean(&nearest(name, known.iter().map(String::as_str)));
    let message = format!("{option}: the functions of the module do not have a parameter `{name}`{near}");
    Err(Error::Request { message, help: "a field of a tuple is named x_0, x_1, and so on".into() })
}

/// Returns all verdicts, in the order of the passes.
fn check(engine: &Engine, steps: Vec<ValidatedStep>, how: Validation, messages: Messages) -> Vec<Checked> {
    let on_terminal = std::io::stderr().is_terminal() && !messages.is_json();
    let bar = on_terminal.then(|| ProgressBar::new(steps.len() as u64));
    let style = "{bar:30} {pos} of {len} passes, {elapsed}  {wide_msg}";
    if let (Some(bar), Ok(style)) = (&bar, ProgressStyle::with_template(style)) {
        bar.set_style(style);
        bar.enable_steady_tick(Duration::from_millis(250));
    }
    let mut validator = Validator::new(engine, how);
    let mut checked = Vec::with_capacity(steps.len());
    for step in steps {
        let verdict = validator.check(&step, &mut |text| {
            bar.iter().for_each(|bar| bar.set_message(visible_line(text).into_owned()));
        });
        bar.iter().for_each(|bar| bar.inc(1));
        checked.push(Checked::new(&step, verdict));
    }
    bar.iter().for_each(ProgressBar::finish_and_clear);
    checked
}

fn code(checked: &[Checked]) -> u8 {
    let any = |is: fn(&Verdict) -> bool| checked.iter().any(|checked| is(&checked.verdict));
    if any(|verdict| matches!(verdict, Verdict::Different(_))) {
        exit::INPUT
    } else if any(|verdict| matches!(verdict, Verdict::CheckerFailed { .. })) {
        exit::FAULT
    } else if any(|verdict| matches!(verdict, Verdict::NotValidated { .. })) {
        exit::NOT_VALIDATED
    } else {
        exit::DONE
    }
}
