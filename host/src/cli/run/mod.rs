//! The commands `run` and `plan`, which read the same request.

pub(super) mod args;
pub(super) mod bench;
pub(super) mod blame;
mod bundling;
pub(super) mod exec;
pub(super) mod executed;
mod expected;
pub(super) mod explain_match;
mod grants;
mod paging;
mod phases;
pub(super) mod replay;
mod result_text;
pub(super) mod spared;
pub(super) mod validate;

use self::args::{PlanArgs, RunArgs};
use self::bundling::Bundling;
use self::expected::expected;
use self::phases::{Asking, Planned};
use super::arguments::{InputArgs, IsolateArgs};
use super::building::Building;
use super::messages::Messages;
use super::select::{Asked, request};
use super::{instruments, listed_of, load, lock, show};
use crate::context::PassContext;
use crate::engine::Engine;
use crate::files::to_stdout;
use crate::plugins::lock::{Keeper, Mode};
use crate::plugins::manifest::Manifest;
use crate::process;
use crate::report::error::{Error, exit};
use crate::run::{Part, Past};
use crate::text::{self, Input};
use passhost_lang::ir::Module;
use passhost_lang::names::listed;
use registry::{PassId, Plan};
use std::collections::BTreeSet;
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
    messages.reports(unknown.iter().map(show::unknown_name), "warnings");
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
    let job = Job { manifest, asked, input, names: Names::default() };
    go(keeper, job, Asking { args, output: &output, bundling: &bundling, seen, messages })
}

/// Runs the job of `run` or `replay`. Returns the exit code.
fn go(keeper: Keeper, job: Job, asking: Asking<'_>) -> Result<u8, Error> {
    let keeper = keeper.seen(asking.seen.survey.take());
    let list = || engine(&job.manifest, keeper, &asking.args.isolate, asking.messages);
    let engine = asking.seen.timing.span("list plugins", list)?;
    let planned = Planned::of(&engine, job, asking)?;
    let module = planned.read()?;
    planned.run(module)?.conclude()
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
