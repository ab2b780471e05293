//! The command `tune`: measures schedules of the kernels of a model, and collects the times in a database.

mod alone;
pub(in crate::cli) mod args;
pub(in crate::cli) mod measure;
mod parts;
mod process;
mod show;
mod watch;

use self::args::TuneArgs;
use self::parts::Part;
use self::process::Place;
use self::watch::Watch;
use super::run::executed::inputs::Asked;
use super::run::executed::{memory_or_usual, pairs, prepared_part};
use super::run::reading::in_the_original_process;
use crate::cli::arguments::Select;
use crate::cli::messages::Messages;
use crate::cli::search::prepared::folder;
use crate::engine::Engine;
use crate::files::to_stdout;
use crate::report::error::{Error, exit};
use crate::run::execute::backend::{Backend, Executor, native_cache};
use crate::run::execute::executing;
use crate::tune::database::Database;
use crate::tune::kernel::{Kernel, kernels};
use crate::tune::processor::processor;
use crate::tune::search::Search;
use runtime::Limits;
use runtime::vm::Machine;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The default pipeline of `tune`.
const PIPELINE: &str = "native";
/// Number of runs of the model in which its kernels are measured.
const RUNS: usize = 5;

/// Measures schedules until the time is over, and shows the fastest. Returns the exit code.
pub(in crate::cli) fn tune(args: &TuneArgs, messages: Messages) -> Result<u8, Error> {
    let begin = Instant::now();
    let threads = threads(args)?;
    let processor = processor()?;
    let path = database_path(args);
    let database = Database::open(&path)?;
    let select = select(args);
    let (engine, found) = found(args, &select, threads, messages)?;
    let search = |(kernel, nanos)| Search::new(kernel, nanos, &database.records, &processor, threads);
    let searches: Vec<Search> = found.into_iter().map(search).collect();
    let folder = folder()?;
    let place = Place { args, select: &select, engine: &engine, folder: folder.path(), processor: &processor, threads };
    let time = Duration::from_millis(args.time).saturating_sub(begin.elapsed());
    let watch = Watch::new(messages, &path);
    let searches = process::search(&place, searches, database, time, &watch)?;
    watch.finish();
    in_the_original_process()?;
    to_stdout(&if args.json { show::json(&searches) } else { show::text(&searches, &path) })?;
    Ok(exit::DONE)
}

/// Returns the number of threads. Checks that all jobs have their own cores.
fn threads(args: &TuneArgs) -> Result<u16, Error> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = args.threads.map_or_else(rayon::current_num_threads, usize::from);
    if usize::from(args.jobs) * threads > cores && args.jobs > 1 {
        return Err(Error::Request {
            message: format!("--jobs {} with {threads} threads each needs more than the {cores} cores", args.jobs),
            help: "use fewer jobs, or tune for fewer threads with --threads N".to_string(),
        });
    }
    Ok(u16::try_from(threads).unwrap_or(u16::MAX))
}

fn database_path(args: &TuneArgs) -> PathBuf {
    let beside = || PathBuf::from(args.module.input.file_stem().unwrap_or_default()).with_extension("tuned");
    args.database.clone().unwrap_or_else(beside)
}

fn select(args: &TuneArgs) -> Select {
    let pipeline = args.select.pipeline.clone().or_else(|| args.select.passes.is_none().then(|| PIPELINE.to_string()));
    // The kernels are compared with their usual schedules.
    Select { pipeline, tuned: None, ..args.select.clone() }
}

/// Returns the kernels of the model with their nanoseconds in one run.
fn found(
    args: &TuneArgs,
    select: &Select,
    threads: u16,
    messages: Messages,
) -> Result<(Arc<Engine>, Vec<(Kernel, f64)>), Error> {
    let listing = |pipeline| Part::Listing.of(pipeline);
    let prepared = prepared_part(&args.module, &args.executed.isolate, select, messages, &listing)?;
    let report = prepared.run(prepared.runner(messages), messages)?;
    if let Some(error) = report.error {
        return Err(error);
    }
    let kernels = kernels(&report.module);
    let bare = kernels.iter().flat_map(|kernel| kernel.names.iter().map(|name| (name.clone(), kernel.body.clone())));
    let mut edit = report.module.edit();
    bare.for_each(|(name, body)| edit.set(name, body));
    let scheduling = |pipeline| Part::Scheduling.of(pipeline);
    let module = prepared.run_other(select, &scheduling, edit.finish(), messages)?;
    let limits = Limits::new(memory_or_usual(args.executed.limit_memory), u64::MAX);
    let dims = pairs(&args.executed.dim)?;
    let asked = Asked { function: &args.function, inputs: None, random: Some(1), dims, read: &prepared.module };
    let values = asked.values(&module, &limits)?;
    let (executor, times) = Executor::timed(Backend::Llvm, native_cache())?;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.into()).build();
    let pool = pool.map_err(|error| Error::Ended {
        message: format!("cannot start {threads} threads: {error}"),
        help: "use fewer with --threads N".to_string(),
        code: exit::FAULT,
    })?;
    let run = || {
        let mut machine = Machine::new(&module, &*prepared.engine).limits(&limits).kernels(&executor.kernels);
        machine.run(&args.function, values.clone(), &mut ())?;
        times.restart();
        (0..RUNS).try_for_each(|_| machine.run(&args.function, values.clone(), &mut ()).map(drop))
    };
    let measured = pool.install(|| executing(&prepared.engine, run));
    measured.map_err(|failure| asked.failed(&prepared.engine, &module, &failure, &limits))?;
    let taken = times.taken();
    let nanos = |kernel: &Kernel| {
        let bodies: Vec<_> = kernel.names.iter().filter_map(|name| module.get(name)).collect();
        let own = taken.iter().filter(|timed| bodies.iter().any(|body| body.structural_eq(&timed.function)));
        own.map(|timed| timed.time.as_nanos() as f64).sum::<f64>() / RUNS as f64
    };
    let timed = kernels.into_iter().map(|kernel| (nanos(&kernel), kernel));
    let mut timed: Vec<(Kernel, f64)> =
        timed.filter(|(nanos, _)| *nanos > 0.0).map(|(nanos, kernel)| (kernel, nanos)).collect();
    timed.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    Ok((Arc::clone(&prepared.engine), timed))
}
