//! The phases of a run: plan, read the module, run the passes, and conclude.

use super::args::RunArgs;
use super::bundling::{self, Before, Bundling};
use super::expected::expected;
use super::job::Job;
use super::paging::Page;
use super::reading::{self, engine, in_the_original_process, open};
use super::result_text::{Placing, Text};
use super::{show, validate};
use crate::bundle;
use crate::cli::messages::Messages;
use crate::cli::{instruments, listing};
use crate::context::PassContext;
use crate::engine::Engine;
use crate::files::Output;
use crate::instruments::Instrument;
use crate::page::MOST_ROWS;
use crate::plugins::lock::Keeper;
use crate::report::Report;
use crate::report::error::{Error, Kept, exit};
use crate::run::validate::{ChangedSteps, Checked};
use crate::run::{Expectation, Failure, Part, PassDiagnostic, RunReport, Runner};
use crate::text::{Input, WrittenAs};
use passhost_lang::ir::Module;
use passhost_lang::names::syntax::TVMSCRIPT_EXTENSION;
use passhost_lang::names::{did_you_mean, nearest};
use registry::{Pipeline, Plan};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The arguments of a run, and the destinations of its results and messages.
#[derive(Clone, Copy)]
pub(super) struct Asking<'a> {
    pub(super) args: &'a RunArgs,
    pub(super) output: &'a Output,
    pub(super) bundling: &'a Bundling,
    pub(super) seen: &'a instruments::Seen,
    pub(super) messages: Messages,
}

/// Runs the job of `run` or `replay`. Returns the exit code.
pub(super) fn go(keeper: Keeper, job: Job, asking: Asking<'_>) -> Result<u8, Error> {
    let keeper = keeper.seen(asking.seen.survey.take());
    let list = || engine(&job.manifest, keeper, &asking.args.isolate, asking.messages);
    let engine = asking.seen.timing.span("list plugins", list)?;
    let planned = Planned::of(&engine, job, asking)?;
    let module = planned.read()?;
    planned.run(module)?.conclude()
}

/// A run with a plan. Nothing has been read or opened.
pub(super) struct Planned<'a> {
    asking: Asking<'a>,
    engine: &'a Arc<Engine>,
    context: PassContext,
    input: Input,
    pipeline: Pipeline,
    plan: Plan,
    part: Part,
    expected: Vec<Expectation>,
    /// The request as a bundle stores it.
    request: bundle::Asked,
    instruments: Vec<Instrument>,
    /// The format of the result.
    format: WrittenAs<'a>,
    /// Files that must not be overwritten.
    spared: Vec<PathBuf>,
    page: Option<Page>,
}

/// A run whose passes have ended, perhaps with an error.
pub(super) struct Ran<'a> {
    of: Planned<'a>,
    /// The module before the first step.
    before: Failure,
    /// The steps that changed the module, if they are validated or shown.
    steps: Option<ChangedSteps>,
    report: RunReport,
}

/// Determines the format of the result.
fn format<'e>(engine: &'e Engine, args: &RunArgs) -> Result<WrittenAs<'e>, Error> {
    let format = engine.written_as(args.output.as_deref(), args.to.as_deref())?;
    match format {
        WrittenAs::Writer(writer, _) if args.provenance => Err(Error::Request {
            message: format!("--provenance writes comments, which `{}` files cannot contain", writer.info.name),
            help: "write TVMScript: -o FILE.py".to_string(),
        }),
        format => Ok(format),
    }
}

impl<'a> Planned<'a> {
    /// Plans a job.
    pub(super) fn of(engine: &'a Arc<Engine>, job: Job, asking: Asking<'a>) -> Result<Planned<'a>, Error> {
        let Asking { args, seen, messages, .. } = asking;
        let Job { manifest, asked, input, names } = job;
        seen.trace.iter().for_each(|trace| engine.traced(trace.clone()));
        let (context, written) = asked.context(&manifest, engine)?;
        let params = args.module.params.clone();
        let spared = params.into_iter().chain([args.module.input.clone(), manifest.path.clone()]).collect();
        let format = format(engine, args)?;
        let plan = seen.timing.span("plan", || written.plan(&context, engine))?;
        messages.reports(plan.warnings.iter().map(show::plan_warning), "warnings");
        let expected = expected(&args.expect.expect, &args.select, &manifest, &plan, engine.registry())?;
        let expectations = expected.iter().map(ToString::to_string).collect();
        let pipeline = written.pipeline;
        let request = bundling::asked(args, &context, &pipeline, expectations);
        let instruments = args.look.instruments(engine, &plan, seen, messages)?;
        listing::tell(engine.lock(), messages);
        let part = names.part(&plan, engine)?;
        let page = args.look.report_path().map(Page::to).transpose()?;
        Ok(Planned {
            asking,
            engine,
            context,
            input,
            pipeline,
            plan,
            part,
            expected,
            request,
            instruments,
            format,
            spared,
            page,
        })
    }

    /// Opens the plugins, and reads the module.
    pub(super) fn read(&self) -> Result<Module, Error> {
        let Asking { bundling, seen, messages, .. } = self.asking;
        let (engine, input) = (self.engine, &self.input);
        let early = |error: &Error| bundling.failed_early(error, input, (&self.request, engine), messages);
        seen.timing.span("open plugins", || open(engine, &self.plan, input, messages)).inspect_err(early)?;
        seen.timing.span("read", || reading::read(engine, &self.context, input, messages)).inspect_err(early)
    }

    /// Runs the passes.
    pub(super) fn run(mut self, module: Module) -> Result<Ran<'a>, Error> {
        let (Asking { args, seen, messages, .. }, engine) = (self.asking, self.engine);
        let steps = match args.validate {
            true => Some(ChangedSteps::default()),
            false => self.page.is_some().then(|| ChangedSteps::first(MOST_ROWS)),
        };
        let collecting = steps.iter().map(|steps| validate::collecting(steps, engine));
        let instruments = std::mem::take(&mut self.instruments).into_iter().chain(collecting);
        let runner = instruments.fold(runner(args, engine, &self.context), Runner::instrument);
        let runner = runner.part(std::mem::take(&mut self.part));
        let runner = runner.hears(|diagnostic| messages.report(&diagnostic.report(engine.registry())));
        let before = Failure { before: module.clone(), past: Vec::new() };
        let run = seen.timing.span("passes", || runner.run(&self.plan, module));
        let report = run.inspect_err(|error| self.failed(error, &before, &[]))?;
        in_the_original_process()?;
        if let Some(error) = report.error.as_ref().or(report.failures.first()) {
            self.failed(error, report.failed_at.as_ref().unwrap_or(&before), &report.diagnostics);
        }
        Ok(Ran { of: self, before, steps, report })
    }

    /// Records a failure for the bundle.
    fn failed(&self, error: &Error, at: &Failure, said: &[PassDiagnostic]) {
        let Asking { bundling, messages, .. } = self.asking;
        bundling.failed(error, Before::Step(at), (&self.request, self.engine), said, messages);
    }

    /// Reports the outcome of the run, and writes the result. Then reports errors of the page and of the processes of plugins. Returns the
    /// exit code.
    fn concluded(&self, report: RunReport, page: Option<Result<(), Error>>) -> Result<u8, Error> {
        let messages = self.asking.messages;
        let code = self.written(report);
        let lost = page.and_then(Result::err);
        if let (Err(_), Some(lost)) = (&code, &lost) {
            // Only a warning, because the error that stopped the run is more important.
            messages.report(&Report::warning(format!("the page could not be written: {lost}")));
        }
        let code = code?;
        let closed = self.engine.close().err().map_or(exit::DONE, |error| messages.error(&error));
        lost.map_or(Ok(code.max(closed)), Err)
    }

    /// Reports the outcome of the run, and writes the result. Returns the exit code.
    fn written(&self, mut report: RunReport) -> Result<u8, Error> {
        let (Asking { args, output, seen, messages, .. }, engine) = (self.asking, self.engine);
        tell_outcome(&report, messages);
        let placing = Placing { file: args.weights.clone(), inline: args.inline_weights };
        let spared: Vec<&Path> = self.spared.iter().map(PathBuf::as_path).collect();
        let provenance = report.provenance.as_ref().filter(|_| args.provenance);
        let (module, input) = (&report.module, args.module.input.as_path());
        let text = Text { module, provenance, placing: &placing, input, spared: &spared };
        let print = |output: &Output| seen.timing.span("print", || text.print(engine, output));
        let summarize = |report: &RunReport| {
            let registry = engine.registry();
            messages.table("summary", || show::summary(report, registry), || show::summary_json(report, registry));
            args.look.tables(seen, report, messages);
        };
        if let Some(error) = report.error.take() {
            // The result is printed before the summary, so that the summary's times include printing.
            let error = self.keep_last_good(error, &|output| text.write(engine, output, &print(output)?));
            summarize(&report);
            seen.not_dumped().iter().for_each(|lost| {
                messages.error(lost);
            });
            return Err(error);
        }
        match &self.format {
            WrittenAs::Text => {
                let ready = print(output)?;
                seen.timing.span("write", || text.write(engine, output, &ready))?;
            }
            WrittenAs::Writer(writer, options) => {
                let write = || engine.write_by(module, (writer, options), output, &spared, &self.context);
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
    fn keep_last_good(&self, mut error: Error, write: &dyn Fn(&Output) -> Result<(), Error>) -> Error {
        let kept = match &mut error {
            Error::Step { kept, .. } | Error::Instrument { kept: Some(kept), .. } => kept,
            _ => return error,
        };
        let Some(mut path) = self.asking.output.failed() else { return error };
        if let WrittenAs::Writer(..) = self.format {
            path.set_extension(TVMSCRIPT_EXTENSION);
        }
        match Output::look(&path).and_then(|file| write(&file)) {
            Ok(()) => *kept = Kept::File(path),
            // Only a warning, because the error that stopped the run is more important.
            Err(other) => {
                let title = format!("the module before the failed step could not be written: {other}");
                self.asking.messages.report(&Report::warning(title));
            }
        }
        error
    }
}

impl Ran<'_> {
    /// Reports the outcome, and writes the result and the page. Returns the exit code.
    pub(super) fn conclude(self) -> Result<u8, Error> {
        let checked = self.validated();
        let page = self.page(checked.as_deref().unwrap_or_default());
        let Ran { of, before, report, .. } = self;
        let Asking { args, bundling, seen, messages, .. } = of.asking;
        tell_unknown_functions(args, [&before.before, &report.module], seen, messages);
        let registry = of.engine.registry();
        let unmet: Vec<Error> =
            of.expected.iter().filter_map(|it| it.check(&report.statistics, registry).err()).collect();
        let said = if bundling.is_wanted() { report.diagnostics.clone() } else { Vec::new() };
        let code = of.concluded(report, page)?;
        let unmet = if code == exit::DONE { unmet } else { Vec::new() };
        unmet.first().into_iter().for_each(|error| of.failed(error, &before, &said));
        let Some(checked) = checked else { return Error::unless_any(unmet, Ok(code)) };
        let validated = validate::conclude(&checked, messages);
        if validated != exit::DONE {
            let message = "a pass changed values".to_string();
            of.failed(&Error::Unmet { message, help: "see the table above".to_string() }, &before, &said);
        }
        Error::unless_any(unmet, Ok(code.max(validated)))
    }

    /// Validates the steps, if requested.
    fn validated(&self) -> Option<Vec<Checked>> {
        let Planned { asking, engine, .. } = &self.of;
        let steps = self.steps.as_ref().filter(|_| asking.args.validate)?;
        Some(validate::after_run(engine, steps, asking.messages))
    }

    /// Writes the page, if requested.
    fn page(&self, checked: &[Checked]) -> Option<Result<(), Error>> {
        let Planned { asking, engine, input, pipeline, plan, page, .. } = &self.of;
        let (page, steps) = page.as_ref().zip(self.steps.as_ref())?;
        let about = (input.origin(), pipeline, plan);
        Some(page.write(engine, about, asking.seen, &self.report, (&steps.seen(), checked)))
    }
}

/// Warns about options without effect, because the function that they name exists in neither the module nor the result.
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

/// Reports warnings and failures of a run.
fn tell_outcome(report: &RunReport, messages: Messages) {
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
