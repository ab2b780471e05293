//! `conformance modules FILE.jsonl` and `conformance passes FILE.jsonl` hold passhost against what TVM recorded.
#![forbid(unsafe_code)]

use clap::{Args, Parser, Subcommand};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use passhost_tests::conformance::modules::ModuleCase;
use passhost_tests::conformance::passes::PassCase;
use passhost_tests::conformance::{Outcome, in_parallel, modules, passes, report};
use passhost_tests::generate::{self, Choices, bytes_of};
use passhost_tests::{engine, shared_engine};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Error, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Holds passhost against recorded modules and pass runs of TVM. A case that cannot be tried counts as not equal.
/// Exit code 0: all are equal; 1: some are not; 2: the file cannot be read.
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
        /// Writes what is printed for each module, one JSON object a line with `id` and `text`, or `error`.
        #[arg(long, value_name = "FILE")]
        texts: Option<PathBuf>,
    },
    /// Prints generated modules, one JSON object a line with `id` and `text`.
    Generate {
        /// How many.
        count: u64,
        /// Number of the first one.
        #[arg(long, default_value_t = 0)]
        seed: u64,
    },
    /// Pass runs: read what was before, run the pass, compare with what was after.
    Passes {
        #[command(flatten)]
        shown: Shown,
        /// Only the runs of this pass, named as in the file.
        #[arg(long)]
        pass: Option<String>,
    },
}

#[derive(Args)]
struct Shown {
    /// One case a line, as JSON.
    file: PathBuf,
    /// Only cases whose text does not hold this.
    #[arg(long, value_name = "TEXT")]
    without: Option<String>,
    /// Only the case of this id, with its text as passhost prints it.
    #[arg(long, value_name = "ID")]
    show: Option<String>,
    /// Every id, not only the first few.
    #[arg(long)]
    ids: bool,
    /// Every case, as JSON.
    #[arg(long)]
    json: bool,
}

impl Shown {
    fn takes(&self, id: &str, text: &str) -> bool {
        let held = self.without.as_deref().is_some_and(|part| text.contains(part));
        !held && self.show.as_deref().is_none_or(|only| only == id)
    }
}

fn main() -> ExitCode {
    match run(&Cli::parse().what) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            let _ = writeln!(std::io::stderr().lock(), "conformance: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(what: &What) -> Result<bool, Error> {
    let (shown, outcomes) = match what {
        What::Generate { count, seed } => return generate(*seed, *count).map(|()| true),
        What::Modules { shown, texts } => {
            let cases: Vec<ModuleCase> = lines(&shown.file, |line| {
                Some(ModuleCase { id: line["id"].as_str()?.into(), text: line["text"].as_str()?.into() })
            })?;
            let cases: Vec<_> = cases.into_iter().filter(|case| shown.takes(&case.id, &case.text)).collect();
            if let ([case], true) = (cases.as_slice(), shown.show.is_some()) {
                print_text(&case.text)?;
            }
            if let Some(file) = texts {
                write_texts(file, &cases)?;
            }
            (shown, all(&cases, |case| modules::run(case, engine())))
        }
        What::Passes { shown, pass } => {
            let cases: Vec<PassCase> = lines(&shown.file, pass_case)?;
            let wanted = |case: &PassCase| pass.as_deref().is_none_or(|pass| pass == case.pass);
            let cases: Vec<_> =
                cases.into_iter().filter(|case| wanted(case) && shown.takes(&case.id, &case.before)).collect();
            (shown, all(&cases, |case| passes::run(case, shared_engine())))
        }
    };
    let mut out = std::io::stdout().lock();
    match shown.json {
        true => writeln!(out, "{:#}", report::json(&outcomes))?,
        false => out.write_all(report::text(&outcomes, shown.ids).as_bytes())?,
    }
    Ok(outcomes.iter().all(|outcome| outcome.failure.is_none()))
}

/// Bytes of choices of a generated module.
const CHOICES: std::ops::Range<usize> = 40..600;

fn generate(first: u64, count: u64) -> Result<(), Error> {
    let mut out = std::io::stdout().lock();
    for seed in first..first + count {
        let len = CHOICES.start + (seed as usize * 37) % CHOICES.len();
        let module = generate::module(&Choices::new(&bytes_of(seed, len)), engine());
        let text = script::print(&module, engine());
        writeln!(out, "{}", json!({ "id": format!("generated-{seed}"), "text": text }))?;
    }
    Ok(())
}

fn write_texts(file: &Path, cases: &[ModuleCase]) -> Result<(), Error> {
    let mut out = std::io::BufWriter::new(std::fs::File::create(file)?);
    for case in cases {
        let line = match script::read(&case.text, engine()) {
            Ok(module) => json!({ "id": case.id, "text": script::print(&module, engine()) }),
            Err(error) => json!({ "id": case.id, "error": error.to_string() }),
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

fn lines<C>(file: &Path, case: impl Fn(&Value) -> Option<C>) -> Result<Vec<C>, Error> {
    let wrong = |i: usize, why: String| Error::other(format!("{}, line {}: {why}", file.display(), i + 1));
    let read = std::fs::File::open(file).map_err(|error| Error::other(format!("{}: {error}", file.display())))?;
    let mut cases = Vec::new();
    for (i, line) in BufReader::new(read).lines().enumerate() {
        let value: Value = serde_json::from_str(&line?).map_err(|error| wrong(i, error.to_string()))?;
        cases.push(case(&value).ok_or_else(|| wrong(i, "not a case: a field is missing".into()))?);
    }
    Ok(cases)
}

fn all<C: Sync>(cases: &[C], f: impl Fn(&C) -> Outcome + Sync) -> Vec<Outcome> {
    engine();
    // A panic is in the report; its backtrace would only be in the way of the progress.
    std::panic::set_hook(Box::new(|_| {}));
    let bar = ProgressBar::with_draw_target(Some(cases.len() as u64), ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos} of {len} {eta}") {
        bar.set_style(style);
    }
    let outcomes = in_parallel(cases, f, || bar.inc(1));
    bar.finish_and_clear();
    outcomes
}

fn print_text(text: &str) -> Result<(), Error> {
    match script::read(text, engine()) {
        Ok(module) => std::io::stdout().lock().write_all(script::print(&module, engine()).as_bytes()),
        Err(_) => Ok(()),
    }
}
