//! The command `bench`: measures the time of a function and of each of its kernels.

mod against;
pub(in crate::cli) mod args;
mod progress;
mod results;
mod show;
mod turns;

use self::against::{Compared, Opponent};
use self::args::BenchArgs;
use self::progress::Progress;
use self::results::{Bench, Kernel, Measured};
use super::executed::inputs::Asked;
use super::executed::results::results;
use super::executed::{dims, memory, prepared};
use super::reading::in_the_original_process;
use super::spared;
use crate::cli::arguments::Select;
use crate::cli::listing::manifest_path;
use crate::cli::messages::Messages;
use crate::engine::Engine;
use crate::files::{Output, Written, to_stdout};
use crate::page;
use crate::plugins::manifest::Manifest;
use crate::report::error::{Error, exit};
use crate::run::execute::backend::{Executor, native_cache};
use crate::run::execute::executing;
use crate::run::execute::timed::{Timed, Times};
use native::{Cache, Made};
use passhost_lang::ir::Module;
use runtime::Limits;
use runtime::vm::{Failure, Machine, Observer, Value};
use std::path::Path;
use tempfile::TempDir;

/// The default pipeline of `bench`.
const PIPELINE: &str = "native";

/// Runs the passes, measures the function, and shows the results. Returns the exit code.
pub(in crate::cli) fn bench(args: &BenchArgs, messages: Messages) -> Result<u8, Error> {
    let html = args.html.as_deref().map(|path| page_at(args, path)).transpose()?;
    let (mut select, passes) = selected(&args.select)?;
    select.threads = args.threads.map(usize::from);
    let dims = dims(&args.executed)?;
    let prepared = prepared(&args.executed.module, &args.executed.isolate, &select, messages)?;
    let report = prepared.run(prepared.runner(messages), messages)?;
    if let Some(error) = report.error {
        return Err(error);
    }
    let limits = Limits::new(memory(&args.executed), u64::MAX);
    let (inputs, read) = (args.inputs.as_deref(), &prepared.module);
    let asked = Asked { function: &args.function, inputs, random: Some(args.random), dims, read };
    let values = asked.values(&prepared.module, &limits)?;
    let threads = args.threads.map_or_else(rayon::current_num_threads, usize::from);
    let opponent = Opponent::of(args, &prepared, &values, threads)?;
    let progress = Progress::new(messages);
    let run = Run {
        engine: &prepared.engine,
        module: &report.module,
        args,
        asked: &asked,
        limits: &limits,
        threads,
        progress: &progress,
    };
    let (cold, cache) = if args.cold { run.cold(&values)? } else { (None, None) };
    let cache = cache.as_ref().map_or_else(native_cache, |folder| Cache::new(folder.path()));
    let (executor, times) = Executor::timed(args.executed.backend, cache)?;
    let (measured, made) = run.measured((&executor, &times), &values, opponent)?;
    progress.finish();
    in_the_original_process()?;
    let bench = Bench {
        input: args.executed.module.input.display().to_string(),
        function: args.function.clone(),
        passes,
        backend: executor.described(),
        threads,
        cold,
        made,
        measured,
        kernels: named(times.taken(), &report.module),
    };
    executor.note().iter().for_each(|note| messages.tell(&format!("note: {note}")));
    show(&bench, args, html)
}

/// Writes the results. Returns the exit code.
fn show(bench: &Bench, args: &BenchArgs, html: Option<Output>) -> Result<u8, Error> {
    let data = show::data(bench);
    if let Some(html) = html {
        html.write(&page::bench::html(&data)?)?;
    }
    to_stdout(&if args.executed.json { format!("{data}\n") } else { show::text(bench) })?;
    bench.measured.against.as_ref().and_then(Compared::differs).map_or(Ok(exit::DONE), Err)
}

/// Checks the file for the page.
fn page_at(args: &BenchArgs, path: &Path) -> Result<Output, Error> {
    let mut others = vec![("the module", args.executed.module.input.as_path())];
    others.extend(args.inputs.as_deref().map(|path| ("the file of --inputs", path)));
    match spared::output(&args.select, (path, "--html", Written::Page), &others)? {
        Output::Stdout => {
            let message = "the table is already written to standard output; choose a file for the page".to_string();
            Err(Error::Output { path: path.to_path_buf(), message })
        }
        output => Ok(output),
    }
}

/// Returns the selected passes, and a description of them. The default is the pipeline `native`.
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
        None => {
            return Ok((
                select.or_no_passes(),
                format!("no passes (the manifest does not define the pipeline `{PIPELINE}`)"),
            ));
        }
    };
    let words = format!("the pipeline `{pipeline}`");
    Ok((Select { pipeline: Some(pipeline), ..select.clone() }, words))
}

/// The function to execute, with its settings.
struct Run<'r> {
    engine: &'r Engine,
    /// The module after the passes.
    module: &'r Module,
    args: &'r BenchArgs,
    asked: &'r Asked<'r>,
    limits: &'r Limits,
    threads: usize,
    progress: &'r Progress,
}

impl Run<'_> {
    /// Compiles all kernels into a new cache, in a temporary folder that is removed when the returned handle is
    /// dropped.
    fn cold(&self, values: &[Value]) -> Result<(Option<Made>, Option<TempDir>), Error> {
        let folder = TempDir::new().map_err(|error| Error::Ended {
            message: format!("cannot create a folder for code: {error}"),
            help: "set TMPDIR to a writable folder".to_string(),
            code: exit::FAULT,
        })?;
        let (executor, _) = Executor::timed(self.args.executed.backend, Cache::new(folder.path()))?;
        self.progress.says("compiling");
        let run = || self.machine(&executor).run(&self.args.function, values.to_vec(), &mut ());
        let run = self.in_threads(run)?;
        run.map_err(|failure| self.failed(&failure))?;
        Ok((Some(executor.made()), Some(folder)))
    }

    /// Measures the function, alternating with the other program if there is one. Also returns statistics on the
    /// compiled and loaded kernels.
    fn measured(
        &self,
        (executor, times): (&Executor, &Times),
        values: &[Value],
        mut opponent: Option<Opponent>,
    ) -> Result<(Measured, Made), Error> {
        let work = || {
            let mut machine = self.machine(executor);
            let (mut names, mut nobody, mut is_first) = (times.clone(), (), true);
            let mut run = || {
                let observer: &mut dyn Observer = if is_first { &mut names } else { &mut nobody };
                is_first = false;
                machine.run(&self.args.function, values.to_vec(), observer)
            };
            turns::measured(&mut run, times, opponent.as_mut(), (self.args.times, self.progress))
        };
        let (turns, value) = self.in_threads(work)?.map_err(|stopped| match stopped {
            turns::Stopped::Ours(failure) => self.failed(&failure),
            turns::Stopped::Theirs(error) => against::stopped(&error),
        })?;
        let made = executor.made();
        let against = opponent.map(|opponent| opponent.compared(&results(&value))).transpose()?;
        self.progress.says("measuring the machine");
        let peaks = self.in_threads(|| executor.peaks())?;
        Ok((Measured { turns, peaks, against }, made))
    }

    fn failed(&self, failure: &Failure) -> Error {
        self.asked.failed(self.engine, self.module, failure, self.limits)
    }

    fn machine(&self, executor: &Executor) -> Machine<'_> {
        Machine::new(self.module, self.engine).limits(self.limits).kernels(&executor.kernels)
    }

    /// Runs `work` with the requested number of threads.
    fn in_threads<R: Send>(&self, work: impl FnOnce() -> R + Send) -> Result<R, Error> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(self.threads).build();
        let pool = pool.map_err(|error| Error::Ended {
            message: format!("cannot start {} threads: {error}", self.threads),
            help: "use fewer with --threads N".to_string(),
            code: exit::FAULT,
        })?;
        Ok(pool.install(|| executing(self.engine, work)))
    }
}

/// Returns the kernels with the names of their functions, slowest first.
fn named(timed: Vec<Timed>, module: &Module) -> Vec<Kernel> {
    let named = |timed: Timed| {
        let has = |body: &passhost_lang::ir::Body| body.structural_eq(&timed.function);
        let same: Vec<&str> = module.functions().filter(|(_, body)| has(body)).map(|(name, _)| name).collect();
        let name = match same.as_slice() {
            // The kernel is an operator that was legalized when it was called.
            [] => timed.operator.clone().unwrap_or_else(|| "an operator".to_string()),
            [name] => (*name).to_string(),
            [name, others @ ..] => format!("{name} and {} similar ones", others.len()),
        };
        Kernel { name, timed }
    };
    let mut kernels: Vec<Kernel> = timed.into_iter().map(named).collect();
    kernels.sort_by_key(|kernel| std::cmp::Reverse(kernel.timed.time));
    kernels
}
