//! The commands `run` and `plan`, which read the same request.

pub(super) mod bench;
pub(super) mod blame;
mod bundling;
pub(super) mod exec;
pub(super) mod executed;
mod expected;
pub(super) mod explain_match;
mod grants;
mod inputs;
mod named;
mod paging;
pub(super) mod replay;
mod result_text;
mod results;
pub(super) mod validate;

use self::bundling::{Before, Bundling};
use self::expected::expected;
use self::paging::Page;
use self::result_text::{Placing, Text};
use super::arguments::{InputArgs, IsolateArgs, PlanArgs, RunArgs};
use super::building::Building;
use super::messages::Messages;
use super::select::{Asked, request};
use super::{check, instruments, listed_of, load, lock, show};
use crate::context::PassContext;
use crate::engine::Engine;
use crate::files::{Output, to_stdout};
use crate::plugins::lock::{Keeper, Mode};
use crate::plugins::manifest::Manifest;
use crate::process;
use crate::report::Report;
use crate::report::error::{Error, Kept, exit};
use crate::run::validate::ChangedSteps;
use crate::run::{Failure, Part, PassDiagnostic, Past, RunReport, Runner};
use crate::text::{self, Input, WrittenAs};
use passhost_lang::ir::Module;
use passhost_lang::names::syntax::TVMSCRIPT_EXTENSION;
use passhost_lang::names::{did_you_mean, listed, nearest};
use registry::{PassId, Plan};
use std::collections::BTreeSet;
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

/// Opens the input module.
pub(super) fn read_input(args: &InputArgs) -> Result<Input, Error> {
    let input = match args.input.as_os_str() == "-" {
        true => Input::stream_as("<stdin>", std::io::stdin().lock(), args.from.as_deref()),
        false => Input::file_as(&args.input, args.from.as_deref()),
    };
    input.map(|input| input.params(args.params.clone()))
}

/// A requested run.
struct Job {
    manifest: Manifest,
    keeper: Keeper,
    asked: Asked,
    input: Input,
    names: Names,
}

/// The names of the passes that run, if only a part of the plan does.
#[derive(Default)]
struct Names {
    past: Vec<Past>,
    /// The first step to run; `None` to run all of them.
    first: Option<usize>,
    only: Option<String>,
    until: Option<String>,
}

impl Names {
    /// Returns the part of the plan that runs.
    ///
    /// # Errors
    /// If the plan does not have such a pass, or has it only before the part that runs.
    fn part(self, plan: &Plan, engine: &Engine) -> Result<Part, Error> {
        let registry = engine.registry();
        let steps: Vec<Option<PassId>> = plan.lines(registry).iter().map(|line| line.unit.pass()).collect();
        let left: Vec<PassId> =
            steps.iter().skip(self.first.map_or(0, |step| step.saturating_sub(1))).copied().flatten().collect();
        let find = |name: Option<String>, option: &str| {
            let Some(name) = name else { return Ok(None) };
            let pass = registry.find(&name)?;
            if left.contains(&pass) {
                return Ok(Some(pass));
            }
            let why = match steps.contains(&Some(pass)) {
                true => format!("it ran before the bundle, which starts with step {}", self.first.unwrap_or(1)),
                false => "the plan does not contain this pass".to_string(),
            };
            let known: BTreeSet<&str> = left.iter().map(|pass| &*registry.pass(*pass).name).collect();
            let help = format!("passes of this part of the plan: {}", listed(&known.into_iter().collect::<Vec<_>>()));
            Err(Error::Request { message: format!("{option} {name}: {why}"), help })
        };
        let (only, until) = (find(self.only, "--only")?, find(self.until, "--until")?);
        Ok(Part { past: self.past, first: self.first, only, until })
    }
}

/// Reads the module, runs the passes over it, and writes the result. Returns the exit code.
pub(super) fn run(args: &RunArgs, seen: &instruments::Seen, messages: Messages) -> Result<u8, Error> {
    let output = args.output()?;
    let bundling = Bundling::to(args.bundle.as_ref())?;
    let (manifest, keeper) = load(&args.select.plugins, Mode::Update)?;
    let asked = request(&args.select, &manifest)?;
    let input = read_input(&args.module)?.strict(args.strict);
    let job = Job { manifest, keeper, asked, input, names: Names::default() };
    go(job, args, (&output, &bundling), seen, messages)
}

/// The destination and the format of the result.
struct Goal<'a> {
    output: &'a Output,
    format: WrittenAs<'a>,
    context: &'a PassContext,
    /// Files that must not be overwritten.
    spared: &'a [&'a Path],
}

/// Determines the format of the result.
fn format<'e>(engine: &'e Engine, args: &RunArgs) -> Result<WrittenAs<'e>, Error> {
    let format = engine.written_as(args.output.as_deref(), args.to.as_deref())?;
    match format {
        WrittenAs::Writer(writer, _) if args.provenance => Err(Error::Request {
            message: format!("--provenance writes comments, which `{}` files do not have", writer.info.name),
            help: "write TVMScript: -o FILE.py".to_string(),
        }),
        format => Ok(format),
    }
}

/// Runs the job of `run` or `replay`. Returns the exit code.
fn go(
    job: Job,
    args: &RunArgs,
    (output, bundling): (&Output, &Bundling),
    seen: &instruments::Seen,
    messages: Messages,
) -> Result<u8, Error> {
    let Job { manifest, keeper, asked, input, names } = job;
    let keeper = keeper.seen(seen.survey.take());
    let engine = seen.timing.span("list plugins", || engine(&manifest, keeper, &args.isolate, messages))?;
    seen.trace.iter().for_each(|trace| engine.traced(trace.clone()));
    let (context, written) = asked.context(&manifest, &engine)?;
    let params = args.module.params.as_deref();
    let spared: Vec<&Path> = params.into_iter().chain([args.module.input.as_path(), &manifest.path]).collect();
    let to = Goal { output, format: format(&engine, args)?, context: &context, spared: &spared };
    let plan = seen.timing.span("plan", || written.plan(&context, &engine))?;
    messages.reports(plan.warnings.iter().map(show::plan_warning), "warnings");
    let expected = expected(&args.expect.expect, &args.select, &manifest, &plan, engine.registry())?;
    let expectations = expected.iter().map(ToString::to_string).collect();
    let asked = (&bundling::asked(args, &context, &written.pipeline, expectations), &*engine);
    let looking = args.look.instruments(&engine, &plan, seen, messages)?;
    lock::tell(engine.lock(), messages);
    let early = |error: &Error| bundling.failed_early(error, &input, asked, messages);
    seen.timing.span("open plugins", || open(&engine, &plan, &input, messages)).inspect_err(early)?;
    let module = seen.timing.span("read", || read(&engine, &context, &input, messages)).inspect_err(early)?;
    let page = args.look.report_path().map(Page::to).transpose()?;
    let steps = (args.validate || page.is_some()).then(ChangedSteps::default);
    let collecting = steps.iter().map(|steps| validate::collecting(steps, &engine));
    let runner = looking.into_iter().chain(collecting).fold(runner(args, &engine, &context), Runner::instrument);
    let runner = runner.part(names.part(&plan, &engine)?);
    let runner = runner.hears(|diagnostic| messages.report(&diagnostic.report(engine.registry())));
    let whole = Failure { before: module.clone(), past: Vec::new() };
    let fails = |error: &Error, at: &Failure, said: &[PassDiagnostic]| {
        bundling.failed(error, Before::Step(at), asked, said, messages);
    };
    let run = seen.timing.span("passes", || runner.run(&plan, module));
    let report = run.inspect_err(|error| fails(error, &whole, &[]))?;
    in_the_original_process()?;
    if let Some(error) = report.error.as_ref().or(report.failures.first()) {
        fails(error, report.failed_at.as_ref().unwrap_or(&whole), &report.diagnostics);
    }
    let checked = steps.as_ref().filter(|_| args.validate);
    let checked = checked.map(|steps| validate::after_run(&engine, steps, messages));
    let written_page = page.zip(steps.as_ref()).map(|(page, steps)| {
        let checked = checked.as_deref().unwrap_or_default();
        page.write(&engine, (input.origin(), &written.pipeline, &plan), seen, &report, (&steps.seen(), checked))
    });
    tell_unknown_functions(args, [&whole.before, &report.module], seen, messages);
    let unmet: Vec<Error> =
        expected.iter().filter_map(|it| it.check(&report.statistics, engine.registry()).err()).collect();
    let said = if bundling.is_wanted() { report.diagnostics.clone() } else { Vec::new() };
    let code = concluded(args, &engine, report, &to, (seen, written_page), messages)?;
    let unmet = if code == exit::DONE { unmet } else { Vec::new() };
    unmet.first().into_iter().for_each(|error| fails(error, &whole, &said));
    let Some(checked) = checked else { return Error::unless_any(unmet, Ok(code)) };
    let validated = validate::conclude(&checked, messages);
    if validated != exit::DONE {
        let message = "a pass changed values".to_string();
        fails(&Error::Unmet { message, help: "see the table above".to_string() }, &whole, &said);
    }
    Error::unless_any(unmet, Ok(code.max(validated)))
}

/// Warns about options that name a function which exists in neither the module nor the result, so that they had no effect.
fn tell_unknown_functions(args: &RunArgs, modules: [&Module; 2], seen: &instruments::Seen, messages: Messages) {
    let limited = args.limit.rewrites.iter().filter_map(|limit| limit.function.as_deref());
    let limited = limited.map(|name| ("--rewrites limited", name, "name a function of the module, as in main=7"));
    let printed = args.look.not_printed(seen).into_iter();
    let printed = printed.map(|name| ("--print-function printed", name, "name functions of the module"));
    for (option, name, help) in limited.chain(printed) {
        if modules.iter().any(|module| module.get(name).is_some()) {
            continue;
        }
        let near = did_you_mean(&nearest(name, modules[0].functions().map(|(name, _)| name)));
        let title = format!("{option} nothing: unknown function `{name}`{near}");
        messages.report(&Report::warning(title).help(help));
    }
}

/// Calls [`conclude`], then reports errors of the page and of the processes of plugins.
fn concluded(
    args: &RunArgs,
    engine: &Engine,
    report: RunReport,
    to: &Goal<'_>,
    (seen, page): (&instruments::Seen, Option<Result<(), Error>>),
    messages: Messages,
) -> Result<u8, Error> {
    let code = conclude(args, engine, report, to, seen, messages);
    let lost = page.and_then(Result::err);
    if let (Err(_), Some(lost)) = (&code, &lost) {
        // The error that stopped the run is more important.
        messages.report(&Report::warning(format!("the page could not be written: {lost}")));
    }
    let code = code?;
    let closed = engine.close().err().map_or(exit::DONE, |error| messages.error(&error));
    lost.map_or(Ok(code.max(closed)), Err)
}

/// Returns a runner with the settings of the arguments.
fn runner<'e>(args: &RunArgs, engine: &'e Engine, context: &PassContext) -> Runner<'e> {
    let runner = Runner::in_context(engine, context).verified_input(true);
    let runner = runner.provenance(args.provenance || args.look.report_path().is_some());
    let runner = runner
        .rewrites(args.limit.rewrites.clone())
        .keep_going(args.keep_going)
        .paranoid(args.paranoid)
        .missed(args.missed);
    let runner = runner.deny_unknown_operators(args.deny_unknown_operators);
    if let Some(jobs) = args.jobs { runner.jobs(usize::from(jobs)) } else { runner }
}

/// Creates the engine of a manifest, and lists its plugins.
pub(super) fn engine(
    manifest: &Manifest,
    keeper: Keeper,
    isolate: &IsolateArgs,
    messages: Messages,
) -> Result<Arc<Engine>, Error> {
    messages.reports(grants::without_effect(manifest, isolate).into_iter(), "warnings");
    let building = Building::new(messages);
    let engine = Arc::new(listed_of(manifest, keeper, &building, messages)?);
    engine.isolates(isolate.isolation());
    engine.tries_first(lock::try_out);
    engine.prints_to(move |text| messages.text("printed", text));
    Ok(engine)
}

/// Opens the plugins of the plan, and tries the plugin that reads the input.
fn open(engine: &Engine, plan: &Plan, input: &Input, messages: Messages) -> Result<(), Error> {
    engine.prepare(input)?;
    engine.open_for(plan)?.iter().for_each(|warning| messages.report(warning));
    Ok(())
}

pub(super) fn read(engine: &Engine, context: &PassContext, input: &Input, messages: Messages) -> Result<Module, Error> {
    let reading = engine.read_module_in(input, context);
    messages.reports(reading.warnings(), "warnings");
    reading.module
}

fn in_the_original_process() -> Result<(), Error> {
    if process::is_original() {
        return Ok(());
    }
    let message = "a plugin forked the process, and the copy continued the run".to_string();
    let help = "the copy does not write anything; a plugin that forks must end its child".to_string();
    Err(Error::Ended { message, help, code: exit::PLUGIN })
}

/// Reports the outcome of the run, and writes the result. Returns the exit code.
fn conclude(
    args: &RunArgs,
    engine: &Engine,
    mut report: RunReport,
    to: &Goal<'_>,
    seen: &instruments::Seen,
    messages: Messages,
) -> Result<u8, Error> {
    messages.reports(report.warnings.iter().map(Report::warning), "warnings");
    let unread = report
        .unread_config
        .iter()
        .map(|key| Report::warning(format!("config option `{key}` is set, but unused in this run")));
    // After a failure, the option may belong to a step that did not run.
    if report.error.is_none() {
        messages.reports(unread, "warnings");
    }
    let failures: Vec<Report> = report.failures.iter().flat_map(Error::reports).collect();
    messages.reports(failures.into_iter(), "failures; see the summary for all of them");
    let placing = Placing { file: args.weights.clone(), inline: args.inline_weights };
    let provenance = report.provenance.as_ref().filter(|_| args.provenance);
    let (module, input) = (&report.module, args.module.input.as_path());
    let text = Text { module, provenance, placing: &placing, input, spared: to.spared };
    let print = |output: &Output| seen.timing.span("print", || text.print(engine, output));
    let summarize = |report: &RunReport| {
        let registry = engine.registry();
        messages.table("summary", || show::summary(report, registry), || show::summary_json(report, registry));
        args.look.tables(seen, report, messages);
    };
    if let Some(error) = report.error.take() {
        // Before the summary, because printing is a part of the time.
        let write = |output: &Output| text.write(engine, output, &print(output)?);
        let error = keep_last_good(error, to, &write, messages);
        summarize(&report);
        seen.not_dumped().iter().for_each(|lost| {
            messages.error(lost);
        });
        return Err(error);
    }
    match &to.format {
        WrittenAs::Text => {
            let ready = print(to.output)?;
            seen.timing.span("write", || text.write(engine, to.output, &ready))?;
        }
        WrittenAs::Writer(writer, options) => {
            let write = || engine.write_by(&report.module, (writer, options), to.output, to.spared, to.context);
            let said = seen.timing.span("write", write)?;
            messages.reports(said.into_iter(), "warnings");
        }
    }
    summarize(&report);
    // The result is written even if a module could not be dumped.
    if let Some(error) = seen.not_dumped() {
        return Err(error);
    }
    Ok(report.failures.iter().map(Error::exit_code).max().unwrap_or(exit::DONE))
}

/// Writes the module before the failed step beside the output, and adds its path to the error.
fn keep_last_good(
    mut error: Error,
    to: &Goal<'_>,
    write: &dyn Fn(&Output) -> Result<(), Error>,
    messages: Messages,
) -> Error {
    let kept = match &mut error {
        Error::Step { kept, .. } | Error::Instrument { kept: Some(kept), .. } => kept,
        _ => return error,
    };
    let Some(mut path) = to.output.failed() else { return error };
    if let WrittenAs::Writer(..) = to.format {
        path.set_extension(TVMSCRIPT_EXTENSION);
    }
    match Output::look(&path).and_then(|file| write(&file)) {
        Ok(()) => *kept = Kept::File(path),
        // The error that stopped the run is more important.
        Err(other) => {
            messages
                .report(&Report::warning(format!("the module before the failed step could not be written: {other}")));
        }
    }
    error
}
