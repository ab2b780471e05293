//! The command `bench`: how long a function takes, and each of its kernels.

mod against;
mod show;
mod turns;

use self::against::Opponent;
use self::turns::Turns;
use super::executed::{Prepared, dims, memory, prepared};
use super::in_the_original_process;
use super::inputs::Asked;
use super::results::results;
use crate::cli::arguments::{BenchArgs, Select};
use crate::cli::manifest_path;
use crate::cli::messages::Messages;
use crate::files::to_stdout;
use crate::plugins::manifest::Manifest;
use crate::report::error::{Error, exit};
use crate::run::execute::backend::{Executor, native_cache};
use crate::run::execute::timed::{Timed, Times};
use crate::run::execute::{executing, failed};
use native::Made;
use plugin_api::ir::Module;
use runtime::Limits;
use runtime::vm::{Machine, Value};
use std::time::Duration;

/// The pipeline that runs unless another one is asked for.
const PIPELINE: &str = "native";

/// What was measured.
struct Bench {
    /// The passes that ran, in words.
    passes: String,
    /// What executed the kernels, in words.
    backend: String,
    threads: usize,
    function: String,
    made: Made,
    turns: Turns,
    kernels: Vec<Kernel>,
    against: Option<against::Compared>,
}

/// A kernel of the module that was executed.
struct Kernel {
    name: String,
    timed: Timed,
}

/// Runs the passes, measures the function, and shows it; gives the exit code.
pub(in crate::cli) fn bench(args: &BenchArgs, messages: Messages) -> Result<u8, Error> {
    let (select, passes) = selected(&args.select)?;
    let dims = dims(&args.executed)?;
    let prepared = prepared(&args.executed.input, &args.executed.isolate, &select, messages)?;
    let report = prepared.run(prepared.runner(messages), messages)?;
    if let Some(error) = report.error {
        return Err(error);
    }
    let limits = Limits::new(memory(&args.executed), u64::MAX);
    let asked = Asked { function: &args.function, inputs: args.inputs.as_deref(), random: Some(args.random), dims };
    let values = asked.values(&prepared.module, &limits)?;
    let threads = args.threads.map_or_else(rayon::current_num_threads, usize::from);
    let opponent = Opponent::of(args, &prepared, &values, threads)?;
    let (executor, times) = Executor::timed(args.executed.backend.into(), native_cache())?;
    let run = Run { prepared: &prepared, module: &report.module, args, limits: &limits };
    let (turns, value, against) = run.measured((&executor, &times), threads, &values, opponent)?;
    in_the_original_process()?;
    let kernels = named(times.taken(), &report.module);
    let backend = executor.described();
    let (function, made) = (args.function.clone(), executor.made());
    let bench = Bench { passes, backend, threads, function, made, turns, kernels, against };
    to_stdout(&if args.executed.json { show::json(&bench) } else { show::text(&bench) })?;
    drop(value);
    match bench.against.as_ref().and_then(against::Compared::differs) {
        Some(error) => Err(error),
        None => Ok(exit::DONE),
    }
}

/// The passes that run, also in words: those of the pipeline `native` if nothing else is asked for.
fn selected(select: &Select) -> Result<(Select, String), Error> {
    if let Some(passes) = &select.passes {
        let words = if passes.trim().is_empty() { "no passes".to_string() } else { format!("the passes {passes}") };
        return Ok((select.clone(), words));
    }
    let has_native = || -> Result<bool, Error> {
        let manifest = Manifest::load(&manifest_path(select.plugins.manifest.manifest.as_ref())?)?;
        Ok(manifest.pipelines.contains_key(PIPELINE))
    };
    let pipeline = match &select.pipeline {
        Some(pipeline) => pipeline.clone(),
        None if has_native()? => PIPELINE.to_string(),
        None => return Ok((select.or_no_passes(), format!("no passes: the manifest has no pipeline `{PIPELINE}`"))),
    };
    let words = format!("the pipeline `{pipeline}`");
    Ok((Select { pipeline: Some(pipeline), ..select.clone() }, words))
}

/// What is executed.
struct Run<'r> {
    prepared: &'r Prepared,
    /// After the passes.
    module: &'r Module,
    args: &'r BenchArgs,
    limits: &'r Limits,
}

impl Run<'_> {
    /// Measures it, in turns with the opponent.
    fn measured(
        &self,
        (executor, times): (&Executor, &Times),
        threads: usize,
        values: &[Value],
        mut opponent: Option<Opponent>,
    ) -> Result<(Turns, Value, Option<against::Compared>), Error> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let pool = pool.map_err(|error| Error::Ended {
            message: format!("{threads} threads cannot be started: {error}"),
            help: "--threads N asks for fewer".to_string(),
            code: exit::FAULT,
        })?;
        let engine = &*self.prepared.engine;
        let work = || {
            let machine = Machine::new(self.module, engine).limits(self.limits).kernels(&executor.kernels);
            let mut machine = machine;
            let mut run = || machine.run(&self.args.function, values.to_vec(), &mut ());
            turns::measured(&mut run, times, opponent.as_mut(), self.args.times)
        };
        let (turns, value) = pool.install(|| executing(engine, work)).map_err(|stopped| match stopped {
            turns::Stopped::Ours(failure) => failed(engine, self.module, &failure),
            turns::Stopped::Theirs(error) => against::stopped(&error),
        })?;
        let shown = results(&value);
        let compared = opponent.map(|opponent| opponent.compared(&shown)).transpose()?;
        drop(shown);
        Ok((turns, value, compared))
    }
}

/// The kernels with the names of their functions, the one that took most first.
fn named(timed: Vec<Timed>, module: &Module) -> Vec<Kernel> {
    let mut kernels: Vec<Kernel> = timed
        .into_iter()
        .map(|timed| {
            let same: Vec<&str> = module
                .functions()
                .filter(|(_, body)| body.structural_eq(&timed.function))
                .map(|(name, _)| name)
                .collect();
            let own = || timed.function.root().attr("global_symbol").and_then(|attr| attr.as_str().map(str::to_string));
            let name = match same.as_slice() {
                [] => own().unwrap_or_else(|| "an operator".to_string()),
                [name] => (*name).to_string(),
                [name, others @ ..] => format!("{name} (and {} like it)", others.len()),
            };
            Kernel { name, timed }
        })
        .collect();
    kernels.sort_by_key(|kernel| std::cmp::Reverse(kernel.timed.time));
    kernels
}

impl Bench {
    /// How long all kernels took in a run.
    fn in_kernels(&self) -> Duration {
        let all: Duration = self.kernels.iter().map(|kernel| kernel.timed.time).sum();
        all / self.turns.ours.len().max(1) as u32
    }
}
