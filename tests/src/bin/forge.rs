//! `forge` changes records of generated modules at random, as a faulty pass could, and checks that every module that
//! verifies prints as a text that parses to the same module. Each failure is printed with its seed; the exit code is 1
//! if there is one.
#![forbid(unsafe_code)]

use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use passhost::verify::is_plain_prim_func;
use passhost_tests::engine;
use passhost_tests::fuzz::{Counts, Forge, Outcome, prim_funcs};
use plugin_api::ir::Module;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

#[derive(Parser)]
#[command(about = "Changes records at random; whatever verifies must read back as the same module")]
struct Args {
    /// Stop after this many changed bodies that verify
    #[arg(long, default_value_t = 100_000)]
    count: u64,
    /// Stop after this many seconds
    #[arg(long)]
    seconds: Option<u64>,
    /// First seed
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Only this seed, with its outcome
    #[arg(long)]
    only: bool,
    /// Threads
    #[arg(long, default_value_t = 1)]
    jobs: u64,
    /// Print at most this many findings
    #[arg(long, default_value_t = 20)]
    findings: u64,
    /// Count why bodies do not verify
    #[arg(long)]
    why: bool,
    /// Change the PrimFuncs of these texts, and of the texts in these lines of JSON, instead of generated modules
    #[arg(long, value_name = "FILE", num_args = 1..)]
    prim_funcs: Vec<PathBuf>,
}

/// Number of seeds that one thread takes at once, which is the number of seeds of a module.
const STRETCH: u64 = 1_024;

struct Run {
    args: Args,
    given: Vec<Module>,
    next: AtomicU64,
    stop: AtomicBool,
    counts: Mutex<Counts>,
    reasons: Mutex<BTreeMap<String, u64>>,
    shown: AtomicU64,
    bar: ProgressBar,
    deadline: Option<Instant>,
}

impl Run {
    fn work(&self) {
        let mut forge = forge_of(&self.given);
        while !self.stop.load(Ordering::Relaxed) {
            let from = self.next.fetch_add(STRETCH, Ordering::Relaxed);
            let mut counts = Counts::default();
            for seed in from..from + STRETCH {
                let outcome = forge.outcome(seed);
                counts.add(&outcome);
                match &outcome {
                    Outcome::Bad(finding) if self.shown.fetch_add(1, Ordering::Relaxed) < self.args.findings => {
                        let report = forge.report(seed, finding);
                        self.bar.suspend(|| say(&report));
                    }
                    Outcome::Violation(why) if self.args.why => self.reason(why),
                    _ => {}
                }
            }
            self.tell(&counts);
        }
    }

    /// Counts a reason, ignoring the names in it.
    fn reason(&self, why: &str) {
        let mut quoted = false;
        let plain = why.chars().filter(|c| {
            quoted ^= *c == '`';
            !quoted && !c.is_ascii_digit()
        });
        let reason = plain.take(90).collect();
        if let Ok(mut reasons) = self.reasons.lock() {
            *reasons.entry(reason).or_default() += 1;
        }
    }

    fn tell(&self, counts: &Counts) {
        let Ok(mut all) = self.counts.lock() else { return };
        *all = all.plus(counts);
        self.bar.set_position(all.verified.min(self.args.count));
        self.bar.set_message(summary(&all));
        let late = self.deadline.is_some_and(|deadline| Instant::now() >= deadline);
        if late || all.verified >= self.args.count {
            self.stop.store(true, Ordering::Relaxed);
        }
    }
}

/// Writes a line to standard output, and ignores write errors.
fn say(line: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}

/// Returns a forge for the given modules, or for generated modules.
fn forge_of(given: &[Module]) -> Forge<'static> {
    if given.is_empty() { Forge::new(engine()) } else { Forge::of(&script::NoOps, given.to_vec()) }
}

/// Returns the texts of modules: each file is one text, or contains texts in the fields of its lines.
fn texts(files: &[PathBuf]) -> Result<Vec<String>, String> {
    let mut out = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
        if file.extension() != Some(Path::new("jsonl").as_os_str()) {
            out.push(text);
            continue;
        }
        for line in text.lines() {
            let record: serde_json::Value =
                serde_json::from_str(line).map_err(|error| format!("{}: {error}", file.display()))?;
            let fields = ["text", "before", "after"].iter().filter_map(|field| record.get(field)?.as_str());
            out.extend(fields.map(str::to_string));
        }
    }
    Ok(out)
}

fn summary(counts: &Counts) -> String {
    let Counts { tried, sealed, verified, plain, unreadable, other_module, panics } = counts;
    format!(
        "{tried} changes, {sealed} sealed, {verified} verified, {plain} plain PrimFuncs: {unreadable} unreadable, \
         {other_module} other modules, {panics} panics"
    )
}

fn main() -> ExitCode {
    let args = Args::parse();
    let texts = match texts(&args.prim_funcs) {
        Ok(texts) => texts,
        Err(error) => {
            say(&error);
            return ExitCode::FAILURE;
        }
    };
    let given = prim_funcs(texts.iter().map(String::as_str));
    if !args.prim_funcs.is_empty() {
        let n: usize = given.iter().map(Module::len).sum();
        let plain = given.iter().flat_map(Module::functions).filter(|(_, body)| is_plain_prim_func(body)).count();
        say(&format!("{n} PrimFuncs, {plain} of them of usual form"));
        if n == 0 {
            return ExitCode::FAILURE;
        }
    }
    if args.only {
        let mut forge = forge_of(&given);
        let outcome = forge.outcome(args.seed);
        match &outcome {
            Outcome::Bad(finding) => say(&forge.report(args.seed, finding)),
            other => say(&format!("{other:?}")),
        }
        return ExitCode::from(u8::from(matches!(outcome, Outcome::Bad(_))));
    }
    // A panic is reported as a finding.
    std::panic::set_hook(Box::new(|_| {}));
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} {eta}\n{msg}");
    let bar = ProgressBar::new(args.count).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let run = Run {
        next: AtomicU64::new(args.seed),
        stop: AtomicBool::new(false),
        counts: Mutex::default(),
        reasons: Mutex::default(),
        shown: AtomicU64::new(0),
        deadline: args.seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds)),
        bar,
        given,
        args,
    };
    std::thread::scope(|scope| {
        for _ in 0..run.args.jobs {
            scope.spawn(|| run.work());
        }
    });
    run.bar.finish_and_clear();
    let counts = run.counts.lock().map_or_else(|_| Counts::default(), |counts| *counts);
    if let Ok(reasons) = run.reasons.lock() {
        let mut reasons: Vec<_> = reasons.iter().collect();
        reasons.sort_by_key(|(_, n)| std::cmp::Reverse(**n));
        reasons.iter().take(60).for_each(|(why, n)| say(&format!("{n:8} {why}")));
    }
    say(&summary(&counts));
    ExitCode::from(u8::from(counts.unreadable + counts.other_module + counts.panics > 0))
}
