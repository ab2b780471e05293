//! `between FILE.jsonl…` runs every standard pass on modules, such as those of `tests/oracle/mutate.py`, directly and
//! after printing and reading them.
#![forbid(unsafe_code)]

use clap::Parser;
use passhost_tests::conformance::between::{Between, Fate, Pairs};
use passhost_tests::conformance::{Failure, STACK};
use passhost_tests::engine;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Error, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Runs every standard pass on modules, and again on the modules that it reads back from their texts: no result may
/// differ. Texts that the reader refuses are counted. Exit code 0: nothing differs; 1: something differs; 2: a file
/// cannot be read, or contains no module.
#[derive(Parser)]
struct Cli {
    /// A file with a JSON object with `text` on each line; `-` is standard input.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Tries all ordered pairs of passes on each module. By default, each pass is followed by one other pass, which
    /// differs between modules.
    #[arg(long)]
    all_pairs: bool,
    /// Maximum number of differences to show.
    #[arg(long, default_value_t = 10)]
    show: usize,
}

/// The outcomes of all modules so far.
#[derive(Default)]
struct Tally {
    fates: BTreeMap<Fate, u64>,
    failures: BTreeMap<&'static str, u64>,
    shown: Vec<(String, Failure)>,
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            let _ = writeln!(std::io::stderr().lock(), "between: {error}");
            ExitCode::from(2)
        }
    }
}

/// Number of lines that all threads process before the next lines are read.
const BATCH: usize = 8_192;

fn run(cli: &Cli) -> Result<bool, Error> {
    let between = Between::new(engine()).map_err(Error::other)?;
    // A panic counts as a difference; its backtrace would only clutter the output.
    std::panic::set_hook(Box::new(|_| {}));
    let (tally, start) = (Mutex::new(Tally::default()), Instant::now());
    for file in &cli.files {
        let of_file = |error: Error| Error::other(format!("{}: {error}", file.display()));
        let mut lines: Box<dyn BufRead> = match file.to_str() {
            Some("-") => Box::new(BufReader::new(std::io::stdin())),
            _ => Box::new(BufReader::new(std::fs::File::open(file).map_err(of_file)?)),
        };
        loop {
            let mut batch = Vec::with_capacity(BATCH);
            for line in BufRead::lines(&mut lines).take(BATCH) {
                batch.push(line.map_err(of_file)?);
            }
            if batch.is_empty() {
                break;
            }
            try_all(&between, &batch, cli, &tally);
        }
    }
    let tally = tally.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    report(&tally, start.elapsed().as_secs_f64())
}

/// Tests a batch on as many threads as there are cores.
fn try_all(between: &Between<'_>, batch: &[String], cli: &Cli, tally: &Mutex<Tally>) {
    let next = AtomicU64::new(0);
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(line) = batch.get(at as usize) else { return };
            let case = serde_json::from_str::<Value>(line).unwrap_or_default();
            let id = case["id"].as_str().unwrap_or("a line").to_string();
            let outcome = match case["text"].as_str() {
                Some(text) => between.text(text, if cli.all_pairs { Pairs::All } else { Pairs::One(at) }),
                None => Err(Failure::new("no case", "the line has no `text`")),
            };
            let mut tally = tally.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            match outcome {
                Ok(fate) => *tally.fates.entry(fate).or_default() += 1,
                Err(failure) => {
                    *tally.failures.entry(failure.kind).or_default() += 1;
                    if tally.shown.len() < cli.show {
                        tally.shown.push((id, failure));
                    }
                }
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            // If a thread cannot be started, the others do its work.
            let _ = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work);
        }
    });
}

fn report(tally: &Tally, seconds: f64) -> Result<bool, Error> {
    let mut out = std::io::stdout().lock();
    for (id, failure) in &tally.shown {
        writeln!(out, "{id}: {}: {}\n", failure.kind, failure.why)?;
    }
    let tried = tally.fates.values().chain(tally.failures.values()).sum::<u64>();
    if tried == 0 {
        return Err(Error::other("no module to try"));
    }
    for (fate, n) in &tally.fates {
        writeln!(out, "{n:>9}  {fate:?}")?;
    }
    for (kind, n) in &tally.failures {
        writeln!(out, "{n:>9}  differ: {kind}")?;
    }
    let differ = tally.failures.values().sum::<u64>();
    writeln!(out, "total: {differ} of {tried} differ, {:.0} modules a second", tried as f64 / seconds.max(1e-9))?;
    Ok(differ == 0)
}
