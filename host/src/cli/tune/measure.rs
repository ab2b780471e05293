//! The process that measures schedules of one kernel. It writes a line of JSON for each schedule, so that a crash costs only one of them.

use super::alone::Alone;
use super::args::MeasureArgs;
use super::parts::Part;
use crate::cli::arguments::InputArgs;
use crate::cli::messages::Messages;
use crate::cli::run::executed::{Prepared, memory_or_usual, pairs, prepared_part};
use crate::cli::select::SCHEDULES;
use crate::files::{read_small, to_stdout};
use crate::report::error::{Error, exit};
use crate::run::validate::arguments_of_prim_func;
use crate::tune::database::Fate;
use native::{Cache, Native};
use passhost_lang::ir::{Body, BodyKind, Module};
use rayon::ThreadPool;
use runtime::Limits;
use runtime::vm::Value;
use serde_json::json;
use std::time::{Duration, Instant};

/// The extent of a symbolic dimension that `--dim` does not set.
const USUAL_EXTENT: i64 = 64;
/// Approximate time of one schedule's turn.
const TURN: Duration = Duration::from_millis(4);
/// A schedule that takes this many times as long as the usual one after a few turns is not measured longer.
const SLOW: f64 = 1.25;
const FEW_TURNS: u32 = 3;

/// Measures the schedules of the file, and writes the times.
pub(in crate::cli) fn measure(args: &MeasureArgs, messages: Messages) -> Result<u8, Error> {
    bind(args);
    let edit = |pipeline| Part::Scheduling.of(pipeline);
    let prepared =
        prepared_part(&InputArgs::of(args.kernel.clone()), &args.executed.isolate, &args.select, messages, &edit)?;
    let dims = pairs(&args.executed.dim)?;
    let schedules = schedules(args)?;
    let limits = Limits::new(memory_or_usual(args.executed.limit_memory), u64::MAX);
    let usual = scheduled(&prepared, args, None, messages)?;
    let values = arguments_of_prim_func(&usual, (&dims, USUAL_EXTENT), &limits).map_err(|why| not_run(&why))?;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(args.threads.into()).build();
    let pool = pool.map_err(|error| not_run(&error.to_string()))?;
    let mut usual = Timed::new(&pool, &usual, values.clone(), &limits).map_err(|why| not_run(&why))?;
    to_stdout(&format!("{}\n", json!({ "usual": usual.nanos() })))?;
    for schedule in &schedules {
        let answer = match scheduled(&prepared, args, Some(schedule), messages) {
            Ok(body) => one(&body, args, (&mut usual, &values), &pool, &limits),
            Err(error) => Err(Fate::Refused).inspect_err(|_| tracing::debug!("{schedule} is refused: {error}")),
        };
        let answer = match answer {
            Ok((nanos, usual)) => json!({ "nanos": nanos, "usual": usual }),
            Err(fate) => json!({ "failed": fate.name() }),
        };
        to_stdout(&format!("{answer}\n"))?;
    }
    Ok(exit::DONE)
}

/// Binds this process to its cores, if it has some of its own. A failure only makes the times less exact.
fn bind(args: &MeasureArgs) {
    #[cfg(target_os = "linux")]
    if let Some(first) = args.core {
        let mut cores = rustix::thread::CpuSet::new();
        (first..first + usize::from(args.threads)).for_each(|core| cores.set(core));
        if let Err(error) = rustix::thread::sched_setaffinity(None, &cores) {
            tracing::debug!("the process is not bound to cores: {error}");
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = args.core;
}

fn schedules(args: &MeasureArgs) -> Result<Vec<String>, Error> {
    let text = read_small(&args.schedules).map_err(|error| not_run(&error.to_string()))?;
    Ok(String::from_utf8_lossy(&text).lines().map(str::to_string).collect())
}

fn not_run(why: &str) -> Error {
    let message = format!("the kernel cannot be measured: {why}");
    Error::Ended { message, help: "its schedule stays the usual one".to_string(), code: exit::FAULT }
}

/// Runs the passes over the kernel with a schedule.
fn scheduled(
    prepared: &Prepared,
    args: &MeasureArgs,
    schedule: Option<&str>,
    messages: Messages,
) -> Result<Body, Error> {
    let mut select = args.select.clone();
    select.config.extend(schedule.map(|schedule| format!("{SCHEDULES}=[\"{} {schedule}\"]", args.key)));
    let edit = |pipeline| Part::Scheduling.of(pipeline);
    let module = prepared.run_other(&select, &edit, prepared.module.clone(), messages)?;
    kernel_of(&module).ok_or_else(|| not_run("the module does not contain one PrimFunc"))
}

fn kernel_of(module: &Module) -> Option<Body> {
    let mut all = module.functions().filter(|(_, body)| body.kind() == BodyKind::PrimFunc);
    all.next().map(|(_, body)| body.clone())
}

/// Measures one scheduled kernel. Returns the nanoseconds of the fastest call, and those of the usual schedule.
fn one(
    body: &Body,
    args: &MeasureArgs,
    (usual, values): (&mut Timed<'_>, &[Value]),
    pool: &ThreadPool,
    limits: &Limits,
) -> Result<(u64, u64), Fate> {
    let refused = |why: String| {
        tracing::debug!("a schedule is refused: {why}");
        Fate::Refused
    };
    // The pass uses the usual schedule if it refuses the chosen one.
    if body.structural_eq(&usual.body) {
        return Err(Fate::Refused);
    }
    let mut timed = Timed::new(pool, body, values.to_vec(), limits).map_err(refused)?;
    if !timed.result.same(&usual.result) {
        return Err(Fate::Differs);
    }
    in_turns(&mut timed, usual, Duration::from_millis(args.time)).map_err(refused)
}

/// Runs two kernels in turns, so that other load on the machine affects both. Returns the nanoseconds of the fastest call of each.
fn in_turns(one: &mut Timed<'_>, other: &mut Timed<'_>, time: Duration) -> Result<(u64, u64), String> {
    let begin = Instant::now();
    let mut least = [u64::MAX; 2];
    for turn in 1.. {
        least[0] = least[0].min(one.turn()?);
        least[1] = least[1].min(other.turn()?);
        let is_slow = least[0] as f64 > SLOW * least[1] as f64 && turn >= FEW_TURNS;
        if is_slow || begin.elapsed() > time && turn >= FEW_TURNS {
            break;
        }
    }
    let [one, other] = least.map(|nanos| nanos.max(1));
    Ok((one, other))
}

/// A compiled kernel with its arguments.
struct Timed<'l> {
    pool: &'l ThreadPool,
    body: Body,
    alone: Alone<'l>,
    /// The contents of all tensors after the first call.
    result: Value,
    /// The time of a call.
    usual: Duration,
}

impl<'l> Timed<'l> {
    fn new(pool: &'l ThreadPool, body: &Body, values: Vec<Value>, limits: &'l Limits) -> Result<Timed<'l>, String> {
        // Candidates are not kept in the cache, because most of them are never used again.
        let native = Native::finding(Cache::none());
        let mut alone = Alone::new(&native, body, values, limits)?;
        pool.install(|| alone.call())?;
        let result = alone.result()?;
        // The first call waited for the compiler.
        let usual = pool.install(|| alone.call())?;
        Ok(Timed { pool, body: body.clone(), alone, result, usual })
    }

    fn nanos(&self) -> u64 {
        nanos(self.usual)
    }

    /// Calls the kernel several times. Returns the nanoseconds of the fastest call.
    fn turn(&mut self) -> Result<u64, String> {
        let calls = (TURN.as_nanos() / self.usual.as_nanos().max(1)).clamp(1, 1000);
        let alone = &mut self.alone;
        self.pool.install(|| (0..calls).try_fold(u64::MAX, |least, _| Ok(least.min(nanos(alone.call()?)))))
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
