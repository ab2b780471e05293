//! Prepares runs for all commands that run passes over one module. Also contains the arguments of commands that
//! execute functions.

pub(in crate::cli) mod inputs;
pub(super) mod named;
pub(super) mod results;

use super::args::RunArgs;
use super::bundling::{self, Before, Bundling};
use super::reading::{engine, open, read, read_input};
use super::show;
use crate::bundle::Asked;
use crate::cli::arguments::{Executed, InputArgs, IsolateArgs, Select};
use crate::cli::listing::{self, load, manifest_path};
use crate::cli::messages::Messages;
use crate::cli::select::request;
use crate::context::PassContext;
use crate::engine::Engine;
use crate::plugins::lock::Mode;
use crate::plugins::manifest::Manifest;
use crate::report::error::Error;
use crate::run::{Failure, PassDiagnostic, RunReport, Runner};
use crate::text::Input;
use passhost_lang::ir::Module;
use registry::{Pipeline, Plan};
use runtime::vm::{Between, Bounds};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Default memory limit if the memory of the machine is unknown.
const USUAL_MEMORY: u64 = 8 << 30;

/// A run that is ready to start.
pub(in crate::cli) struct Prepared {
    pub(in crate::cli) engine: Arc<Engine>,
    pub(super) input: Input,
    context: PassContext,
    plan: Plan,
    /// The module before all passes.
    pub(in crate::cli) module: Module,
    /// The equivalent request to `passhost run`, which bundles contain.
    asked: Asked,
}

/// Changes a pipeline before it is planned.
pub(in crate::cli) type EditPipeline<'e> = dyn Fn(Pipeline) -> Result<Pipeline, Error> + 'e;

/// Plans the requested passes, opens their plugins, and reads the module.
pub(in crate::cli) fn prepared(
    input: &InputArgs,
    isolate: &IsolateArgs,
    select: &Select,
    messages: Messages,
) -> Result<Prepared, Error> {
    prepared_part(input, isolate, select, messages, &Ok)
}

/// As [`prepared`], for a part of the pipeline.
pub(in crate::cli) fn prepared_part(
    input: &InputArgs,
    isolate: &IsolateArgs,
    select: &Select,
    messages: Messages,
    part: &EditPipeline<'_>,
) -> Result<Prepared, Error> {
    let args = RunArgs { isolate: isolate.clone(), ..RunArgs::of(input.clone(), select.clone()) };
    let (manifest, keeper) = load(&select.plugins, Mode::Update)?;
    let request = request(select, &manifest)?;
    let input = read_input(input)?;
    let engine = engine(&manifest, keeper, isolate, messages)?;
    let (context, mut written) = request.context(&manifest, &engine)?;
    written.pipeline = part(written.pipeline)?;
    let plan = written.plan(&context, &engine)?;
    messages.reports(plan.warnings.iter().map(show::plan_warning), "warnings");
    listing::tell(engine.lock(), messages);
    let asked = bundling::asked(&args, &context, &written.pipeline, Vec::new());
    let early = |error: &Error| Bundling::default().failed_early(error, &input, (&asked, &engine), messages);
    open(&engine, &plan, &input, messages).inspect_err(early)?;
    let module = read(&engine, &context, &input, messages).inspect_err(early)?;
    Ok(Prepared { engine, input, context, plan, module, asked })
}

impl Prepared {
    /// Returns a runner in the context that reports the diagnostics of passes.
    pub(in crate::cli) fn runner(&self, messages: Messages) -> Runner<'_> {
        let registry = self.engine.registry();
        self.quiet_runner().hears(move |diagnostic| messages.report(&diagnostic.report(registry)))
    }

    /// Returns a runner that uses the context, and reports nothing.
    pub(super) fn quiet_runner(&self) -> Runner<'_> {
        Runner::in_context(&self.engine, &self.context).verified_input(true)
    }

    /// Runs other passes over a module. The plugins of the manifest are the same.
    pub(in crate::cli) fn run_other(
        &self,
        select: &Select,
        part: &EditPipeline<'_>,
        module: Module,
        messages: Messages,
    ) -> Result<Module, Error> {
        let manifest = Manifest::load(&manifest_path(select.plugins.manifest.manifest.as_ref())?)?;
        let (context, mut written) = request(select, &manifest)?.context(&manifest, &self.engine)?;
        written.pipeline = part(written.pipeline)?;
        let plan = written.plan(&context, &self.engine)?;
        self.engine.open_for(&plan)?.iter().for_each(|warning| messages.report(warning));
        let report = Runner::in_context(&self.engine, &context).verified_input(true).run(&plan, module)?;
        match report.error {
            Some(error) => Err(error),
            None => Ok(report.module),
        }
    }

    /// Runs the passes. If the process of a plugin dies, writes a bundle for `passhost replay`.
    pub(in crate::cli) fn run(&self, runner: Runner<'_>, messages: Messages) -> Result<RunReport, Error> {
        let whole = Failure { before: self.module.clone(), past: Vec::new() };
        let fails = |error: &Error, at: &Failure, said: &[PassDiagnostic]| {
            Bundling::default().failed(error, Before::Step(at), (&self.asked, &self.engine), said, messages);
        };
        let report = runner.run(&self.plan, self.module.clone()).inspect_err(|error| fails(error, &whole, &[]))?;
        if let Some(error) = &report.error {
            fails(error, report.failed_at.as_ref().unwrap_or(&whole), &report.diagnostics);
        }
        Ok(report)
    }
}

/// Parses the extents of `--dim`.
pub(super) fn dims(args: &Executed) -> Result<BTreeMap<String, i64>, Error> {
    pairs(&args.dim)
}

/// Parses names with extents.
pub(in crate::cli) fn pairs(given: &[String]) -> Result<BTreeMap<String, i64>, Error> {
    let mut out = BTreeMap::new();
    for given in given {
        let parsed = given.split_once('=').and_then(|(name, n)| Some((name.trim(), n.trim().parse::<i64>().ok()?)));
        let Some((name, extent)) = parsed.filter(|(name, extent)| !name.is_empty() && *extent >= 0) else {
            let message = format!("--dim {given}: expected a name and an extent of 0 or more");
            return Err(Error::Request { message, help: "use, for example, --dim n=5".to_string() });
        };
        if let Some(other) = out.insert(name.to_string(), extent).filter(|other| *other != extent) {
            let message = format!("--dim {given}: `{name}` is already {other}");
            return Err(Error::Request { message, help: "give each dimension only one extent".to_string() });
        }
    }
    Ok(out)
}

/// Parses the bounds of `--range`.
pub(super) fn bounds(ranges: &[String]) -> Result<Bounds, Error> {
    let mut out = Bounds::default();
    for given in ranges {
        let (name, range) = given.split_once('=').map_or((None, given.as_str()), |(name, range)| (Some(name), range));
        let parsed = range.split_once(':').and_then(|(low, high)| {
            let [low, high] = [low, high].map(|end| end.trim().parse::<f64>().ok());
            Some(Between { low: low?, high: high? })
        });
        let between = match parsed {
            Some(Between { low, high }) if !(low.is_finite() && high.is_finite()) => Err("both bounds must be finite"),
            Some(Between { low, high }) if low > high => Err("the lower bound must come first"),
            Some(between) => Ok(between),
            None => Err("expected two numbers, the lower and the upper bound"),
        };
        let between = between.map_err(|why| Error::Request {
            message: format!("--range {given}: {why}"),
            help: "use, for example, --range -1:1 or --range x=0:255".to_string(),
        })?;
        match name.map(str::trim) {
            Some(name) => drop(out.by_name.insert(name.to_string(), between)),
            None => out.all = Some(between),
        }
    }
    Ok(out)
}

/// Returns the memory limit; by default, half of the memory of the machine.
pub(super) fn memory(args: &Executed) -> u64 {
    memory_or_usual(args.limit_memory)
}

/// Returns the memory limit, or half of the memory of the machine.
pub(in crate::cli) fn memory_or_usual(limit: Option<u64>) -> u64 {
    limit.unwrap_or_else(usual_memory)
}

/// Returns half of the memory of the machine.
pub(super) fn usual_memory() -> u64 {
    memory_of_machine().map_or(USUAL_MEMORY, |bytes| bytes / 2)
}

/// Returns the memory of the machine in bytes, on systems with `/proc/meminfo`.
fn memory_of_machine() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}
