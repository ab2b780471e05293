//! `conformance modules FILE.jsonl` and `conformance passes FILE.jsonl` compare passhost with recordings from TVM.
#![forbid(unsafe_code)]

use clap::{Args, Parser, Subcommand};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use passhost::{Engine, Isolation, Manifest};
use passhost_tests::conformance::modules::ModuleCase;
use passhost_tests::conformance::passes::PassCase;
use passhost_tests::conformance::{Outcome, in_parallel, isolated, modules, passes, report, validated};
use passhost_tests::generate::{self, Choices, bytes_of};
use passhost_tests::{engine, root, shared_engine};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Error, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

/// Compares passhost with recorded modules and pass runs of TVM. A case that cannot be tried counts as not equal, and so
/// does a line that is not a case. The last line is `total: N of M`. Exit code 0: all are equal; 1: some are not; 2: the
/// file cannot be read, or there is nothing to compare.
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Modules: read, check, print, read again, compare.
    Modules {
        #[command(flatten)]
        shown: Shown,
        /// Writes the printed text of each module: a JSON object on each line with `id` and `text`, or `error`.
        #[arg(long, value_name = "FILE")]
        texts: Option<PathBuf>,
        /// Writes the text after this pass instead. Requires `--texts`.
        #[arg(long, value_name = "PASS", requires = "texts")]
        after: Option<String>,
    },
    /// Prints generated modules: a JSON object on each line with `id` and `text`.
    Generate {
        /// Number of modules.
        count: u64,
        /// Number of the first module.
        #[arg(long, default_value_t = 0)]
        seed: u64,
    },
    /// Pass runs: reads the module before each pass, runs the pass, and compares the result with the recorded module.
    Passes {
        #[command(flatten)]
        shown: Shown,
        /// Only the runs of this pass, named as in the file.
        #[arg(long)]
        pass: Option<String>,
    },
    /// Pass runs: reads the module before each pass, runs the pass with all plugins in this process and with each in a
    /// separate process, and compares everything that the two runs report.
    Isolated {
        #[command(flatten)]
        shown: Shown,
        /// Only the runs of this pass, named as in the file.
        #[arg(long)]
        pass: Option<String>,
        /// The file contains modules, over which several passes are run.
        #[arg(long)]
        modules: bool,
    },
    /// Pass runs: reads the module before each pass, runs the pass, and compares the values that the module computes
    /// before and after it. Exit code 0: no pass is blamed.
    Validate {
        /// A file with a case on each line, as JSON.
        file: PathBuf,
        /// Only the runs of this pass, named as in the file.
        #[arg(long)]
        pass: Option<String>,
        /// Only the case with this id.
        #[arg(long, value_name = "ID")]
        show: Option<String>,
    },
}

#[derive(Args)]
struct Shown {
    /// A file with a case on each line, as JSON.
    file: PathBuf,
    /// Only cases whose text does not contain this.
    #[arg(long, value_name = "TEXT")]
    without: Option<String>,
    /// Only the case with this id, with its text as passhost prints it.
    #[arg(long, value_name = "ID")]
    show: Option<String>,
    /// Shows every id, not only the first few.
    #[arg(long)]
    ids: bool,
    /// Shows every case as JSON: one object with `equal`, `total` and `cases` on the standard output. The line `total: N
    /// of M` goes to standard error, so that it does not get into the JSON.
    #[arg(long)]
    json: bool,
}

impl Shown {
    /// Returns the lines that are not cases; empty if a single case was requested.
    fn faults(&self, faults: Vec<(usize, Outcome)>) -> Vec<(usize, Outcome)> {
        if self.show.is_some() { Vec::new() } else { faults }
    }

    fn takes(&self, id: &str, text: &str) -> bool {
        let held = self.without.as_deref().is_some_and(|part| text.contains(part));
        !held && self.show.as_deref().is_none_or(|only| only == id)
    }
}

fn main() -> ExitCode {
    if let Some(code) = passhost::worker() {
        return ExitCode::from(code);
    }
    match run(&Cli::parse().what) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        // The reader closed the pipe, which is not an error.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr().lock(), "conformance: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(what: &What) -> Result<bool, Error> {
    let (shown, outcomes) = match what {
        What::Generate { count, seed } => return generate(*seed, *count).map(|()| true),
        What::Validate { file, pass, show } => return validate(file, pass.as_deref(), show.as_deref()),
        What::Modules { shown, texts, after } => {
            let (cases, faults) = lines(&shown.file, |line| {
                Some(ModuleCase { id: line["id"].as_str()?.into(), text: line["text"].as_str()?.into() })
            })?;
            let cases: Vec<_> = cases.into_iter().filter(|(_, case)| shown.takes(&case.id, &case.text)).collect();
            if let ([(_, case)], true, false) = (cases.as_slice(), shown.show.is_some(), shown.json) {
                print_text(&case.text)?;
            }
            if let Some(file) = texts {
                write_texts(file, &cases, after.as_deref())?;
                if after.is_some() {
                    return Ok(true);
                }
            }
            (shown, all(cases, shown.faults(faults), |case| modules::run(case, engine())))
        }
        What::Isolated { shown, pass, modules } => {
            let (cases, faults) = if *modules { runs_of_modules(&shown.file)? } else { lines(&shown.file, pass_case)? };
            let wanted = |case: &PassCase| pass.as_deref().is_none_or(|pass| pass == case.pass);
            let cases =
                cases.into_iter().filter(|(_, case)| wanted(case) && shown.takes(&case.id, &case.before)).collect();
            let apart = isolated_engine()?;
            (shown, all(cases, shown.faults(faults), |case| isolated::run(case, shared_engine(), &apart)))
        }
        What::Passes { shown, pass } => {
            let (cases, faults) = lines(&shown.file, pass_case)?;
            let wanted = |case: &PassCase| pass.as_deref().is_none_or(|pass| pass == case.pass);
            let taken = |case: &PassCase| wanted(case) && shown.takes(&case.id, &case.before);
            let cases: Vec<_> = cases.into_iter().filter(|(_, case)| taken(case)).collect();
            if let (Some(pass), true) = (pass, cases.is_empty()) {
                return Err(nothing(&shown.file, &format!("no run of the pass `{pass}`")));
            }
            (shown, all(cases, shown.faults(faults), |case| passes::run(case, shared_engine())))
        }
    };
    if outcomes.is_empty() {
        return Err(nothing(&shown.file, "no case"));
    }
    let equal = outcomes.iter().all(|outcome| outcome.failure.is_none());
    write_report(&outcomes, shown).map(|()| equal).or_else(|error| match error.kind() {
        ErrorKind::BrokenPipe => Ok(equal),
        _ => Err(error),
    })
}

/// Returns the engine of the default manifest with every plugin in separate processes, which run this program.
fn isolated_engine() -> Result<Arc<Engine>, Error> {
    let manifest = Manifest::load(&root().join("passes.toml")).map_err(|error| Error::other(error.to_string()))?;
    let engine = Engine::new(&manifest).map_err(|error| Error::other(error.to_string()))?;
    engine.isolates(Isolation { worker: Some(std::env::current_exe()?), all: true, ..Isolation::default() });
    Ok(Arc::new(engine))
}

/// Returns runs of passes on each module of a file.
fn runs_of_modules(file: &Path) -> Result<(Numbered<PassCase>, Numbered<Outcome>), Error> {
    let (modules, faults) =
        lines(file, |line| Some((line["id"].as_str()?.to_string(), line["text"].as_str()?.to_string())))?;
    let runs = |(line, (id, text)): (usize, (String, String))| {
        isolated::cases(&id, &text, engine()).into_iter().map(move |case| (line, case))
    };
    Ok((modules.into_iter().flat_map(runs).collect(), faults))
}

fn validate(file: &Path, pass: Option<&str>, show: Option<&str>) -> Result<bool, Error> {
    let (cases, faults) = lines(file, pass_case)?;
    if let Some((_, fault)) = faults.first() {
        return Err(Error::other(format!("{}: {}: a line that is not a case", file.display(), fault.id)));
    }
    let taken = |case: &PassCase| pass.is_none_or(|pass| pass == case.pass) && show.is_none_or(|id| id == case.id);
    let cases: Vec<PassCase> = cases.into_iter().map(|(_, case)| case).filter(taken).collect();
    if cases.is_empty() {
        return Err(nothing(file, "no case"));
    }
    let verdicts = with_progress(&cases, |case| validated::run(case, shared_engine()));
    let (is_fine, text) = validated::report(cases.iter().zip(verdicts).collect());
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map(|()| is_fine)
}

fn nothing(file: &Path, found: &str) -> Error {
    Error::other(format!("nothing to compare: {found} in {}", file.display()))
}

fn write_report(outcomes: &[Outcome], shown: &Shown) -> Result<(), Error> {
    let mut out = std::io::stdout().lock();
    if !shown.json {
        out.write_all(report::text(outcomes, shown.ids).as_bytes())?;
        return out.flush();
    }
    writeln!(out, "{:#}", report::json(outcomes))?;
    out.flush()?;
    writeln!(std::io::stderr().lock(), "{}", report::total(outcomes))
}

/// The number of choice bytes of a generated module.
const CHOICES: std::ops::Range<usize> = 40..600;

fn generate(first: u64, count: u64) -> Result<(), Error> {
    let mut out = std::io::stdout().lock();
    for seed in first..first + count {
        let len = CHOICES.start + (seed as usize * 37) % CHOICES.len();
        let module = generate::module(&Choices::new(&bytes_of(seed, len)), engine());
        let text = script::print(&module, engine()).expect("the module can be printed");
        writeln!(out, "{}", json!({ "id": format!("generated-{seed}"), "text": text }))?;
    }
    Ok(())
}

fn write_texts(file: &Path, cases: &[(usize, ModuleCase)], after: Option<&str>) -> Result<(), Error> {
    let mut out = std::io::BufWriter::new(std::fs::File::create(file)?);
    for (_, case) in cases {
        let read = script::read(&case.text, engine()).map_err(|error| error.to_string());
        let result = read.and_then(|module| match after {
            None => Ok(module),
            Some(pass) => passes::after(pass, module, shared_engine()),
        });
        let text = result.and_then(|module| script::print(&module, engine()).map_err(|error| error.to_string()));
        let line = match text {
            Ok(text) => json!({ "id": case.id, "text": text }),
            Err(error) => json!({ "id": case.id, "error": error }),
        };
        writeln!(out, "{line}")?;
    }
    out.flush()
}

fn pass_case(line: &Value) -> Option<PassCase> {
    let text = |key: &str| line[key].as_str().map(str::to_string);
    Some(PassCase {
        id: text("id")?,
        pass: text("pass")?,
        args: line["args"].as_array().cloned().unwrap_or_default(),
        kwargs: line["kwargs"].as_object().cloned().unwrap_or_default(),
        context: line["ctx"].clone(),
        before: text("before")?,
        after: if line["raised"] == true { None } else { Some(text("after")?) },
    })
}

/// The items of a file, each with its line number.
type Numbered<T> = Vec<(usize, T)>;

/// Returns the cases of a file, and the outcomes of lines that are not cases.
fn lines<C>(file: &Path, case: impl Fn(&Value) -> Option<C>) -> Result<(Numbered<C>, Numbered<Outcome>), Error> {
    let of_file = |error: Error| Error::other(format!("{}: {error}", file.display()));
    let read = std::fs::File::open(file).map_err(of_file)?;
    let (mut cases, mut faults) = (Vec::new(), Vec::new());
    for (i, line) in BufReader::new(read).split(b'\n').enumerate() {
        let line = line.map_err(of_file)?;
        let found = match serde_json::from_slice::<Value>(&line) {
            _ if line.trim_ascii().is_empty() => Err("the line is empty".to_string()),
            Ok(value) => case(&value).ok_or_else(|| "a field is missing".to_string()),
            Err(error) => Err(error.to_string()),
        };
        match found {
            Ok(case) => cases.push((i, case)),
            Err(why) => faults.push((i, Outcome::no_case(format!("line {}", i + 1), why))),
        }
    }
    Ok((cases, faults))
}

/// Returns the outcomes of all cases, and of lines that are not cases, in file order.
fn all<C: Sync>(cases: Numbered<C>, faults: Numbered<Outcome>, f: impl Fn(&C) -> Outcome + Sync) -> Vec<Outcome> {
    let outcomes = with_progress(&cases, |(_, case)| f(case));
    let mut all: Numbered<Outcome> = cases.iter().map(|(line, _)| *line).zip(outcomes).chain(faults).collect();
    all.sort_by_key(|(line, _)| *line);
    all.into_iter().map(|(_, outcome)| outcome).collect()
}

/// Applies `f` to all cases.
fn with_progress<C: Sync, R: Send>(cases: &[C], f: impl Fn(&C) -> R + Sync) -> Vec<R> {
    engine();
    // The report contains the panic; its backtrace would only disturb the progress display.
    std::panic::set_hook(Box::new(|_| {}));
    let bar = ProgressBar::with_draw_target(Some(cases.len() as u64), ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos} of {len} {eta}") {
        bar.set_style(style);
    }
    let results = in_parallel(cases, f, || bar.inc(1));
    bar.finish_and_clear();
    results
}

fn print_text(text: &str) -> Result<(), Error> {
    match script::read(text, engine()) {
        Ok(module) => std::io::stdout()
            .lock()
            .write_all(script::print(&module, engine()).expect("the module can be printed").as_bytes()),
        Err(_) => Ok(()),
    }
}
