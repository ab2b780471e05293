//! The command `reduce`: shrinks a module while a fault persists.

use super::predicate::{Predicate, Shown, Until, until};
use super::prepared::{Prepared, SearchArgs, UNTIL, prepared};
use super::smaller::{Texts, WAYS, Way};
use crate::cli::arguments::InputArgs;
use crate::cli::messages::Messages;
use crate::files::Output;
use crate::plugins::amounts::within;
use crate::report::Report;
use crate::report::error::Error;
use crate::text::Input;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use passhost_lang::ir::Module;
use passhost_lang::names::counted;
use std::collections::HashSet;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Args)]
pub(in crate::cli) struct ReduceArgs {
    #[command(flatten)]
    search: SearchArgs,
    #[arg(long, value_name = "PREDICATE", value_parser = until, help = UNTIL)]
    until: Until,
    /// The file for the smallest module. It is replaced each time a smaller module is found. Default: standard output, at
    /// the end.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Continues with the module that an earlier `reduce` wrote to -o.
    #[arg(long, requires = "output")]
    resume: bool,
    /// The number of modules that are tried in parallel, at most 256. Default: the number of cores.
    #[arg(short, long, value_name = "N", value_parser = within::<u16>(1..=256))]
    jobs: Option<u16>,
}

/// The state of a reduction: the smallest module so far, and the modules that were tried.
struct Search<'s> {
    predicate: &'s Predicate,
    texts: &'s Texts<'s>,
    folder: &'s Path,
    output: &'s Output,
    jobs: usize,
    module: Module,
    /// Hashes of all modules that were tried, so that no module is tried twice.
    tried: HashSet<u64>,
    tries: usize,
    bar: Option<ProgressBar>,
}

/// Runs the reduction, and writes the smallest module.
pub(in crate::cli) fn reduce(args: &ReduceArgs, messages: Messages) -> Result<(), Error> {
    let output = args.output.as_deref().map_or_else(Output::stdout, |shown| args.search.output(shown))?;
    let input = match (&args.output, args.resume) {
        (Some(path), true) if path.exists() => InputArgs::of(path.clone()),
        _ => args.search.module.clone(),
    };
    if input.input != args.search.module.input {
        messages.report(&Report::remark(format!("continuing with {}", input.input.display())));
    }
    let prepared = prepared(&args.search, &args.until, &input, messages)?;
    let predicate = as_it_is(&prepared)?;
    let texts = Texts { engine: &prepared.engine };
    let jobs = args.jobs.map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), usize::from);
    let before = size(&prepared.module);
    let mut search = Search {
        predicate: &predicate,
        texts: &texts,
        folder: prepared.folder.path(),
        output: &output,
        jobs,
        module: prepared.module.clone(),
        tried: HashSet::new(),
        tries: 0,
        bar: bar(messages),
    };
    while search.round()? {}
    search.bar.iter().for_each(ProgressBar::finish_and_clear);
    let (tries, module) = (search.tries, search.module);
    let text = prepared.engine.print_module(&module)?;
    let last = prepared.folder.path().join("last.py");
    write(&last, &text)?;
    if !predicate.holds(&last)? {
        return Err(flaky("the smallest module found no longer shows the fault"));
    }
    output.write(&text)?;
    if matches!(predicate.until(), Until::Command(_)) && module.is_empty() {
        let title = "the command also fails for a module without functions, so it may fail for every module";
        let help = "run the command on a module without the fault; it must succeed there";
        messages.report(&Report::warning(title).help(help));
    }
    let (were, are) = (sized(before), sized(size(&module)));
    messages.report(&Report::remark(format!(
        "{were} before, {are} now; {tries} module{} tried",
        if tries == 1 { "" } else { "s" }
    )));
    Ok(())
}

fn bar(messages: Messages) -> Option<ProgressBar> {
    let wanted = std::io::stderr().is_terminal() && !messages.is_json();
    let bar = wanted.then(ProgressBar::new_spinner);
    if let (Some(bar), Ok(style)) = (&bar, ProgressStyle::with_template("{spinner} {elapsed}  {wide_msg}")) {
        bar.set_style(style);
        bar.enable_steady_tick(Duration::from_millis(250));
    }
    bar
}

/// Narrows the predicate to the failure of the original module.
///
/// # Errors
/// If the original module does not satisfy the predicate, or does so only sometimes.
pub(super) fn as_it_is(prepared: &Prepared) -> Result<Predicate, Error> {
    let Prepared { predicate, folder, text, origin, .. } = prepared;
    let file = folder.path().join("first.py");
    write(&file, text)?;
    let shown = predicate.look(&file)?;
    if !predicate.is(&shown) {
        let found = match shown {
            Shown::Nothing if matches!(predicate.until(), Until::Command(_)) => "the command succeeds".to_string(),
            Shown::Nothing => match predicate.until() {
                Until::Differs => "no pass changes values".to_string(),
                Until::Hangs => "the passes end in time".to_string(),
                _ => "no pass fails on it (values were not compared; --until differs does that)".to_string(),
            },
            Shown::Failure(failed) => format!("another failure was found: {}", failed.message),
            Shown::Timeout => "it exceeded the time limit; see --timeout".to_string(),
            Shown::Refused(why) => format!("its result is unknown: {why}"),
        };
        let help = "check the passes with `passhost run` or `passhost validate`".to_string();
        let message = format!("{origin} does not satisfy --until; {found}");
        return Err(Error::Unmet { message, help });
    }
    let like = match &shown {
        Shown::Failure(failed) if !matches!(predicate.until(), Until::Command(_)) => Some(failed.clone()),
        _ => None,
    };
    let predicate = predicate.clone().like(like);
    for _ in 0..2 {
        if predicate.look(&file)? != shown {
            return Err(flaky("the same module satisfies it in one run, but not in another"));
        }
    }
    Ok(predicate)
}

fn flaky(what: &str) -> Error {
    let help = "make the passes and the command deterministic: they must not depend on time, threads or addresses";
    Error::Unmet { message: format!("--until is not deterministic: {what}"), help: help.to_string() }
}

/// Returns the numbers of functions and bindings.
fn size(module: &Module) -> (usize, usize) {
    (module.len(), module.n_bindings())
}

fn sized((functions, bindings): (usize, usize)) -> String {
    format!("{} with {}", counted(functions, "function"), counted(bindings, "binding"))
}

pub(super) fn write(path: &Path, text: &str) -> Result<(), Error> {
    std::fs::write(path, text).map_err(|error| Error::Write { path: path.to_path_buf(), message: error.to_string() })
}

impl Search<'_> {
    /// Tries each way once. Returns true if the module became smaller.
    fn round(&mut self) -> Result<bool, Error> {
        let mut smaller = false;
        for way in WAYS {
            let mut chunk = way.count(&self.module, self.texts);
            while chunk > 0 {
                smaller |= self.chunks(way, chunk)?;
                chunk /= 2;
            }
        }
        Ok(smaller)
    }

    /// Tries to remove `chunk` adjacent parts at a time. Returns true if the module became smaller.
    fn chunks(&mut self, way: Way, chunk: usize) -> Result<bool, Error> {
        let (mut at, mut smaller) = (0, false);
        loop {
            let count = way.count(&self.module, self.texts);
            let starts = (at..count).step_by(chunk).take(self.jobs);
            let parts: Vec<_> = starts.map(|start| start..(start + chunk).min(count)).collect();
            let Some(last) = parts.last().cloned() else { return Ok(smaller) };
            self.show(way);
            let candidates: Vec<(usize, Module)> = parts
                .into_iter()
                .filter_map(|parts| Some((parts.start, way.without(&self.module, parts, self.texts)?)))
                .filter(|(_, module)| module.structural_hash() != self.module.structural_hash())
                .filter(|(_, module)| !self.tried.contains(&module.structural_hash()))
                .collect();
            match self.first_that_holds(&candidates)? {
                Some(found) => {
                    // The chunks before this one cannot be removed; the next chunk now begins in its place.
                    at = candidates[found].0;
                    self.tried.insert(self.module.structural_hash());
                    self.module = candidates[found].1.clone();
                    self.keep()?;
                    smaller = true;
                }
                None => at = last.end,
            }
        }
    }

    fn show(&self, way: Way) {
        if let Some(bar) = &self.bar {
            bar.set_message(format!("{}; {} tries; without {}", sized(size(&self.module)), self.tries, way.name()));
        }
    }

    /// Writes the smallest module so far, unless the result goes to a stream.
    fn keep(&self) -> Result<(), Error> {
        match self.output {
            Output::Stdout => Ok(()),
            file => file.write(&self.texts.engine.print_module(&self.module)?),
        }
    }

    /// Tries the candidates in parallel. Returns the first one that satisfies the predicate.
    fn first_that_holds(&mut self, candidates: &[(usize, Module)]) -> Result<Option<usize>, Error> {
        let mut files = Vec::with_capacity(candidates.len());
        for (at, (_, module)) in candidates.iter().enumerate() {
            let file = self.folder.join(format!("try{at}.py"));
            // Candidates that cannot be printed and read back are left out.
            let text = self.texts.engine.print_module(module).ok();
            let read = |text: &String| self.texts.engine.read_module(&Input::text("<smaller>", text.as_str())).module;
            let text = text.filter(|text| read(text).is_ok());
            text.as_ref().map(|text| write(&file, text)).transpose()?;
            files.push(text.is_some().then_some(file));
        }
        self.tries += files.iter().flatten().count();
        let predicate = self.predicate;
        let holds = std::thread::scope(|scope| {
            let tries: Vec<_> = files
                .iter()
                .map(|file| scope.spawn(move || file.as_ref().map_or(Ok(false), |file| predicate.holds(file))))
                .collect();
            tries.into_iter().map(|one| one.join().unwrap_or(Ok(false))).collect::<Result<Vec<bool>, Error>>()
        })?;
        let found = holds.iter().position(|holds| *holds);
        let failed = candidates.iter().zip(&holds).filter(|(_, holds)| !**holds);
        self.tried.extend(failed.map(|((_, module), _)| module.structural_hash()));
        Ok(found)
    }
}
