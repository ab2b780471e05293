//! The commands `run` and `plan`, which read the same request.

pub(super) mod exec;
mod executed;
mod expected;
pub(super) mod explain_match;
pub(super) mod validate;

use self::expected::expected;
use super::arguments::{IsolateArgs, PlanArgs, RunArgs};
use super::building::Building;
use super::messages::Messages;
use super::select::request;
use super::{check, instruments, listed_of, load, lock, show};
use crate::engine::Engine;
use crate::files::{Output, to_stdout};
use crate::plugins::lock::{Keeper, Mode};
use crate::plugins::manifest::Manifest;
use crate::process;
use crate::report::Report;
use crate::report::error::{Error, Kept, exit};
use crate::run::validate::ChangedSteps;
use crate::run::{RunReport, Runner};
use crate::text::{self, Input};
use plugin_api::ir::Module;
use registry::Plan;
use std::path::Path;
use std::sync::Arc;

/// Shows which steps would run, and why.
pub(super) fn plan(args: &PlanArgs, messages: Messages) -> Result<(), Error> {
    if let Some(input) = args.input.as_ref().filter(|input| input.as_os_str() != "-" && !input.exists()) {
        return Err(text::missing(input));
    }
    let (manifest, keeper) = load(&args.select.plugins, Mode::Off)?;
    let request = request(&args.select, &manifest)?;
    let engine = Arc::new(listed_of(&manifest, keeper.builds_nothing(), &(), messages)?);
    let (context, written) = request.context(&manifest, &engine)?;
    let plan = written.plan(&context, &engine)?;
    expected(&args.expect.expect, &args.select, &manifest, &plan, engine.registry())?;
    let pipeline = &written.pipeline;
    messages.reports(plan.warnings.iter().map(show::plan_warning), "warnings");
    let registry = engine.registry();
    let unknown = registry::registry::contracts::unknown_names(registry, plan.passes(registry));
    messages.reports(unknown.iter().map(check::unknown_name), "warnings");
    to_stdout(&match args.json {
        true => show::plan_json(pipeline, &plan, registry),
        false => format!("pipeline {pipeline}\n{}", plan.render(registry)),
    })
}

/// The text of the module to run passes over.
fn read_input(path: &Path) -> Result<Input, Error> {
    match path.as_os_str() == "-" {
        true => Input::stream("<stdin>", std::io::stdin().lock()),
        false => Input::file(path),
    }
}

/// Reads the module, runs the passes over it, and writes the result; gives the exit code.
pub(super) fn run(args: &RunArgs, seen: &instruments::Seen, messages: Messages) -> Result<u8, Error> {
    let output = args.output()?;
    let (manifest, keeper) = load(&args.select.plugins, Mode::Update)?;
    let request = request(&args.select, &manifest)?;
    let input = read_input(&args.input)?.strict(args.strict);
    let keeper = keeper.seen(seen.survey.take());
    let engine = seen.timing.span("list plugins", || engine(&manifest, keeper, &args.isolate, messages))?;
    seen.trace.iter().for_each(|trace| engine.traced(trace.clone()));
    let (context, written) = request.context(&manifest, &engine)?;
    let plan = seen.timing.span("plan", || written.plan(&context, &engine))?;
    messages.reports(plan.warnings.iter().map(show::plan_warning), "warnings");
    let expected = expected(&args.expect.expect, &args.select, &manifest, &plan, engine.registry())?;
    let looking = args.look.instruments(&engine, &plan, seen, messages)?;
    lock::tell(engine.lock(), messages);
    seen.timing.span("open plugins", || open(&engine, &plan, messages))?;
    let module = seen.timing.span("read", || read(&engine, &input, messages))?;
    let runner = Runner::in_context(&engine, &context).keep_going(args.keep_going).paranoid(args.paranoid);
    let runner = runner.verified_input(true);
    let runner = runner.deny_unknown_operators(args.deny_unknown_operators);
    let runner = runner.missed(args.missed);
    let runner = if let Some(jobs) = args.jobs { runner.jobs(usize::from(jobs)) } else { runner };
    let steps = args.validate.then(ChangedSteps::default);
    let collecting = steps.iter().map(|steps| validate::collecting(steps, &engine));
    let runner = looking.into_iter().chain(collecting).fold(runner, Runner::instrument);
    let runner = runner.hears(|diagnostic| messages.report(&diagnostic.report(engine.registry())));
    let report = seen.timing.span("passes", || runner.run(&plan, module))?;
    in_the_original_process()?;
    let unmet: Vec<Error> =
        expected.iter().filter_map(|it| it.check(&report.statistics, engine.registry()).err()).collect();
    let code = conclude(args, &engine, report, &output, seen, messages)?;
    let code = code.max(engine.close().err().map_or(exit::DONE, |error| messages.error(&error)));
    let unmet = if code == exit::DONE { unmet } else { Vec::new() };
    let code = if let Some(steps) = steps { code.max(validate::after_run(&engine, &steps, messages)) } else { code };
    Error::unless_any(unmet, Ok(code))
}

/// The engine of a manifest, with its plugins listed.
fn engine(
    manifest: &Manifest,
    keeper: Keeper,
    isolate: &IsolateArgs,
    messages: Messages,
) -> Result<Arc<Engine>, Error> {
    let building = Building::new(messages);
    let engine = Arc::new(listed_of(manifest, keeper, &building, messages)?);
    engine.isolates(isolate.isolation());
    engine.tries_first(lock::try_out);
    engine.prints_to(move |text| messages.text("printed", text));
    Ok(engine)
}

fn open(engine: &Engine, plan: &Plan, messages: Messages) -> Result<(), Error> {
    engine.open_for(plan)?.iter().for_each(|warning| messages.report(warning));
    Ok(())
}

fn read(engine: &Engine, input: &Input, messages: Messages) -> Result<Module, Error> {
    let reading = engine.read_module(input);
    messages.reports(reading.warnings(), "warnings");
    reading.module
}

fn in_the_original_process() -> Result<(), Error> {
    if process::is_original() {
        return Ok(());
    }
    let message = "a plugin made a copy of the process, which continued the run".to_string();
    let help = "this copy writes nothing; a plugin that forks must end its child".to_string();
    Err(Error::Ended { message, help, code: exit::PLUGIN })
}

/// Reports how the run ended, and writes the result; gives the exit code.
fn conclude(
    args: &RunArgs,
    engine: &Engine,
    report: RunReport,
    output: &Output,
    seen: &instruments::Seen,
    messages: Messages,
) -> Result<u8, Error> {
    messages.reports(report.warnings.iter().map(Report::warning), "warnings");
    let unread = report
        .unread_config
        .iter()
        .map(|key| Report::warning(format!("config option `{key}` is set, but nothing asked for it in this run")));
    // What did not run could not ask.
    if report.error.is_none() {
        messages.reports(unread, "warnings");
    }
    let failures: Vec<Report> = report.failures.iter().flat_map(Error::reports).collect();
    messages.reports(failures.into_iter(), "failures; the summary has all");
    let printed = seen.timing.span("print", || engine.print_module(&report.module))?;
    let summarize = |report: &RunReport| {
        let registry = engine.registry();
        messages.table("summary", || show::summary(report, registry), || show::summary_json(report, registry));
        args.look.tables(seen, report, messages);
    };
    if report.error.is_some() {
        summarize(&report);
    }
    if let Some(error) = report.error {
        seen.not_dumped().iter().for_each(|lost| {
            messages.error(lost);
        });
        return Err(keep_last_good(error, output, &printed, messages));
    }
    seen.timing.span("write", || output.write(&printed))?;
    summarize(&report);
    // The result does not depend on it.
    if let Some(error) = seen.not_dumped() {
        return Err(error);
    }
    Ok(report.failures.iter().map(Error::exit_code).max().unwrap_or(exit::DONE))
}

/// Writes the module before the failed step beside the output, and lets the error say so.
fn keep_last_good(mut error: Error, output: &Output, printed: &str, messages: Messages) -> Error {
    let kept = match &mut error {
        Error::Step { kept, .. } | Error::Instrument { kept: Some(kept), .. } => kept,
        _ => return error,
    };
    let Some(path) = output.failed() else { return error };
    match Output::look(&path).and_then(|file| file.write(printed)) {
        Ok(()) => *kept = Kept::File(path),
        // What stopped the run matters more.
        Err(other) => {
            messages
                .report(&Report::warning(format!("the module before the failed step could not be written: {other}")));
        }
    }
    error
}
