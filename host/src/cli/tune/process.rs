//! Measures in processes of their own. A schedule that crashes or hangs costs only itself.

use super::args::TuneArgs;
use super::watch::Watch;
use crate::cli::arguments::Select;
use crate::cli::listing::manifest_path;
use crate::cli::search::prepared::words;
use crate::cli::search::tied::{self, Event};
use crate::engine::Engine;
use crate::report::error::{Error, exit};
use crate::tune::database::{Database, Fate, Outcome, Record};
use crate::tune::search::Search;
use passhost_lang::ir::Module;
use serde_json::Value as Json;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Share of the time after which the fastest schedules are compared again.
const SEARCH: f64 = 0.8;
/// Time limit for the start of a process, and for each schedule, in addition to its measurement.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time for a schedule during the search, and in the final comparison.
const SHORT: Duration = Duration::from_millis(120);
const LONG: Duration = Duration::from_millis(1000);
/// Waiting time of a job while the others measure all kernels.
const NAP: Duration = Duration::from_millis(20);

/// Everything that the processes need to know.
pub(super) struct Place<'p> {
    pub(super) args: &'p TuneArgs,
    pub(super) select: &'p Select,
    pub(super) engine: &'p Engine,
    /// The temporary folder.
    pub(super) folder: &'p Path,
    pub(super) processor: &'p str,
    pub(super) threads: u16,
}

/// The state that the jobs share.
struct Shared {
    searches: Vec<Search>,
    database: Database,
    /// The first error, which ends all jobs.
    error: Option<Error>,
}

/// Work for one process.
struct Batch {
    /// Position of the kernel.
    at: usize,
    schedules: Vec<String>,
    is_final: bool,
    /// The share of the fastest schedule before.
    best: f64,
    /// The end of the available time.
    end: Instant,
}

/// Searches until the time is over, or nothing remains to be measured.
///
/// # Errors
/// If the database cannot be written, or passhost cannot start itself.
pub(super) fn search(
    place: &Place<'_>,
    searches: Vec<Search>,
    database: Database,
    time: Duration,
    watch: &Watch,
) -> Result<Vec<Search>, Error> {
    let begin = Instant::now();
    let shared = Mutex::new(Shared { searches, database, error: None });
    for is_final in [false, true] {
        let end = begin + if is_final { time } else { time.mul_f64(SEARCH) };
        std::thread::scope(|scope| {
            for job in 0..place.args.jobs {
                let shared = &shared;
                scope.spawn(move || {
                    while Instant::now() < end {
                        match next(shared, is_final, end) {
                            Next::Batch(batch) => measure(place, shared, batch, job, watch),
                            Next::Wait => std::thread::sleep(NAP),
                            Next::Done => break,
                        }
                    }
                });
            }
        });
    }
    let shared = shared.into_inner().unwrap_or_else(PoisonError::into_inner);
    shared.error.map_or(Ok(shared.searches), Err)
}

fn locked(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

enum Next {
    Batch(Batch),
    /// Other jobs measure all kernels with remaining work.
    Wait,
    Done,
}

/// Takes the most promising batch.
fn next(shared: &Mutex<Shared>, is_final: bool, end: Instant) -> Next {
    let mut shared = locked(shared);
    if shared.error.is_some() {
        return Next::Done;
    }
    loop {
        let open = shared.searches.iter().enumerate().filter(|(_, search)| !search.is_busy);
        let found = match is_final {
            true => open
                .map(|(at, search)| (at, search.finalists(), search.gain()))
                .filter(|(_, schedules, _)| !schedules.is_empty())
                .max_by(|(.., a), (.., b)| a.total_cmp(b))
                .map(|(at, schedules, _)| (at, schedules)),
            false => open
                .filter(|(_, search)| search.worth() > 0.0)
                .max_by(|(_, a), (_, b)| a.worth().total_cmp(&b.worth()))
                .map(|(at, search)| (at, search.next())),
        };
        let Some((at, schedules)) = found else {
            let is_busy = shared.searches.iter().any(|search| search.is_busy);
            return if is_busy { Next::Wait } else { Next::Done };
        };
        let search = &mut shared.searches[at];
        search.is_busy = !schedules.is_empty();
        search.is_done |= schedules.is_empty();
        if search.is_busy {
            return Next::Batch(Batch { at, schedules, is_final, best: search.best(), end });
        }
    }
}

/// Measures a batch, and adds its records to the database.
fn measure(place: &Place<'_>, shared: &Mutex<Shared>, batch: Batch, job: u16, watch: &Watch) {
    let mut rest = &batch.schedules[..];
    let mut outcome = Ok(());
    while !rest.is_empty() && outcome.is_ok() {
        match place.process(shared, &batch, rest, job, watch) {
            // The process ended early. It measured some schedules, at least one.
            Ok(measured) if measured > 0 => rest = &rest[measured.min(rest.len())..],
            Ok(_) => {
                locked(shared).searches[batch.at].is_done = true;
                break;
            }
            Err(error) => outcome = Err(error),
        }
    }
    let mut shared = locked(shared);
    let search = &mut shared.searches[batch.at];
    search.is_busy = false;
    if !batch.is_final {
        search.ended(batch.best);
    }
    if let Err(error) = outcome {
        shared.error.get_or_insert(error);
    }
}

impl Place<'_> {
    /// Measures schedules in one process. Returns the number of schedules that have a record afterwards; 0 if the kernel cannot be measured at
    /// all.
    fn process(
        &self,
        shared: &Mutex<Shared>,
        batch: &Batch,
        schedules: &[String],
        job: u16,
        watch: &Watch,
    ) -> Result<usize, Error> {
        let (key, words) = {
            let shared = locked(shared);
            let search = &shared.searches[batch.at];
            (search.kernel.key.clone(), self.words(search, schedules, batch.is_final, job)?)
        };
        let running = tied::start(&words, self.folder).map_err(|error| Error::Ended {
            message: format!("passhost cannot run itself: {error}"),
            help: "the program must not be moved while it runs".to_string(),
            code: exit::FAULT,
        })?;
        let usual = match running.next(PATIENCE) {
            Event::Line(line) => serde_json::from_str::<Json>(&line).ok().and_then(|said| said["usual"].as_u64()),
            Event::End => {
                watch.note(&key, running.errors().lines().find(|line| !line.trim().is_empty()).unwrap_or_default());
                None
            }
            Event::Timeout => None,
        };
        let Some(usual) = usual else { return Ok(0) };
        // Slow schedules are called at least four times, in turns with the usual one.
        let limit = PATIENCE + time_of(batch.is_final) + Duration::from_nanos(usual).saturating_mul(100);
        for (at, schedule) in schedules.iter().enumerate() {
            let (outcome, ended) = match running.next(limit) {
                Event::Line(line) => (outcome(&line, batch.is_final), false),
                Event::End => (Outcome::Failed(Fate::Crashed), true),
                Event::Timeout => (Outcome::Failed(Fate::TimedOut), true),
            };
            self.add(shared, batch.at, (key.clone(), schedule.clone(), outcome), watch)?;
            if ended {
                return Ok(at + 1);
            }
            if Instant::now() >= batch.end {
                break;
            }
        }
        Ok(schedules.len())
    }

    /// Adds a record to the database and to the search.
    fn add(
        &self,
        shared: &Mutex<Shared>,
        at: usize,
        (kernel, schedule, outcome): (String, String, Outcome),
        watch: &Watch,
    ) -> Result<(), Error> {
        let processor = self.processor.to_string();
        let record = Record { kernel, processor, threads: self.threads, schedule, outcome };
        let mut shared = locked(shared);
        shared.searches[at].add(&record);
        shared.database.add(record)?;
        watch.measured(&shared.searches);
        Ok(())
    }

    /// Writes the files for a process, and returns its program and arguments.
    fn words(&self, search: &Search, schedules: &[String], is_final: bool, job: u16) -> Result<Vec<OsString>, Error> {
        let kernel = self.folder.join(format!("{}.py", search.kernel.key));
        if !kernel.exists() {
            let module = Module::new([(search.kernel.names[0].clone(), search.kernel.body.clone())]);
            self.write(&kernel, &self.engine.print_module(&module)?)?;
        }
        let list = self.folder.join(format!("schedules-{job}"));
        self.write(&list, &schedules.iter().map(|schedule| format!("{schedule}\n")).collect::<String>())?;
        let program = std::env::current_exe().map_err(|error| Error::Ended {
            message: format!("passhost cannot find itself: {error}"),
            help: "the program must not be moved while it runs".to_string(),
            code: exit::FAULT,
        })?;
        let mut out: Vec<OsString> = vec![program.into(), "tune-measure".into(), kernel.into()];
        let mut option = |name: &str, value: OsString| out.extend([name.into(), value]);
        option("--schedules", list.into());
        option("--key", search.kernel.key.clone().into());
        option("--threads", self.threads.to_string().into());
        option("--time", time_of(is_final).as_millis().to_string().into());
        if self.args.jobs > 1 {
            option("--core", (usize::from(job) * usize::from(self.threads)).to_string().into());
        }
        self.args.executed.dim.iter().for_each(|dim| option("--dim", dim.into()));
        self.args.executed.limit_memory.iter().for_each(|limit| option("--limit-memory", limit.to_string().into()));
        let manifest = manifest_path(self.select.plugins.manifest.manifest.as_ref())?;
        out.extend(words(self.select, manifest));
        out.extend(self.select.plugins.locked.then(|| "--locked".into()));
        Ok(out)
    }

    fn write(&self, path: &PathBuf, text: &str) -> Result<(), Error> {
        let wrong = |error: std::io::Error| Error::Write { path: path.clone(), message: error.to_string() };
        std::fs::write(path, text).map_err(wrong)
    }
}

fn time_of(is_final: bool) -> Duration {
    if is_final { LONG } else { SHORT }
}

/// Reads the answer of a process.
fn outcome(line: &str, is_final: bool) -> Outcome {
    let said: Json = serde_json::from_str(line).unwrap_or_default();
    match (said["nanos"].as_u64(), said["usual"].as_u64()) {
        (Some(nanos), Some(usual)) => Outcome::Time { nanos, usual, is_final },
        _ => Outcome::Failed(said["failed"].as_str().and_then(Fate::of).unwrap_or(Fate::Refused)),
    }
}
