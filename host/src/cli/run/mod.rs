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
mod job;
mod paging;
mod phases;
pub(super) mod reading;
pub(super) mod replay;
mod result_text;
pub(super) mod show;
pub(super) mod spared;
pub(super) mod validate;

use self::args::{PlanArgs, RunArgs};
use self::bundling::Bundling;
use self::expected::expected;
use self::job::{Job, Names};
use self::phases::{Asking, go};
use self::reading::read_input;
use super::instruments;
use super::listing::{listed_of, load};
use super::messages::Messages;
use super::select::request;
use crate::files::to_stdout;
use crate::plugins::lock::Mode;
use crate::report::error::Error;
use crate::text;
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
