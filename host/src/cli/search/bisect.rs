//! The command `bisect`: finds the pass that introduces a fault, and the function it breaks.

use super::between::between;
use super::predicate::{Passes, Predicate, Shown, Until, until};
use super::prepared::{Prepared, SearchArgs, UNTIL, prepared};
use super::reduce::{as_it_is, write};
use super::rewrites::{Place, Rewrite};
use super::smaller::{Texts, Way};
use crate::bundle::Failed;
use crate::cli::messages::Messages;
use crate::files::to_stdout;
use crate::report::error::Error;
use crate::text::Input;
use clap::Args;
use passhost_lang::ir::Module;
use serde_json::json;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(in crate::cli) struct BisectArgs {
    #[command(flatten)]
    search: SearchArgs,
    #[arg(long, value_name = "PREDICATE", value_parser = until, help = UNTIL, required_unless_present = "between")]
    until: Option<Until>,
    /// Finds the changed plugin, instead of the pass, that makes --until hold or changes the result.
    ///
    /// Each lockfile is next to its manifest (`old/passes.lock`, `old/passes.toml`), whose plugins must match the
    /// lockfile. All other settings come from the second manifest.
    #[arg(long, num_args = 2, value_names = ["OLD.lock", "NEW.lock"], conflicts_with_all = ["output", "manifest", "locked"])]
    between: Option<Vec<PathBuf>>,
    /// The file for the module before the found pass. `passhost reduce` can shrink it.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Prints the result as JSON.
    #[arg(long)]
    json: bool,
}

/// The origin of a fault.
struct Found {
    /// The pass with its options, as `--passes` takes it; `None` if it is unknown.
    pass: Option<String>,
    plugin: Option<String>,
    /// Number of the step, as in the plan.
    position: Option<usize>,
    /// The functions without which the fault does not occur.
    functions: Vec<String>,
    /// The rewrite that introduces the fault, if the module has only one function.
    rewrite: Option<Rewrite>,
    /// The bindings without which the fault does not occur, if no rewrite introduces it.
    bindings: Vec<String>,
    /// Description of the fault.
    what: String,
    /// Text of the module before the pass.
    before: String,
}

/// A step of the run, and the module after the step.
struct After {
    /// The line of the plan for this step.
    line: Line,
    file: PathBuf,
}

/// Runs the search, and prints the origin of the fault.
pub(in crate::cli) fn bisect(args: &BisectArgs, messages: Messages) -> Result<(), Error> {
    if let Some([old, new]) = args.between.as_deref() {
        return between(&args.search, args.until.as_ref(), (old, new), args.json);
    }
    let Some(until) = &args.until else { return Ok(()) };
    let output = args.output.as_deref().map(|shown| args.search.output(shown)).transpose()?;
    let prepared = prepared(&args.search, until, &args.search.module, messages)?;
    let predicate = as_it_is(&prepared)?;
    let first = prepared.folder.path().join("first.py");
    let steps = steps(&prepared, &first)?;
    let mut found = match predicate.until() {
        Until::Command(command) => by_command(&prepared, &predicate, command, &first, &steps)?,
        _ => by_failure(&prepared, &predicate, &first, &steps)?,
    };
    closer(&prepared, &predicate, &mut found)?;
    if let Some(output) = &output {
        output.write(&found.before)?;
    }
    to_stdout(&if args.json { found.json() } else { found.text(args.output.as_deref()) })
}

/// Runs the passes once, and dumps the module after each pass.
fn steps(prepared: &Prepared, first: &Path) -> Result<Vec<After>, Error> {
    let folder = prepared.folder.path().join("steps");
    let mut passes = prepared.passes.clone();
    passes.of_run.extend(["--dump".into(), folder.clone().into_os_string(), "--dump-all".into()]);
    let said = passes.messages(first)?;
    let mut names: Vec<String> = std::fs::read_dir(&folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort_by_key(|name| name.split('_').next().and_then(|number| number.parse::<usize>().ok()));
    let ran = prepared.ran(&said);
    // A repetition calls a pass several times, but has only one row for it.
    let is_each = ran.len() == names.len();
    let after = |(at, name): (usize, String)| {
        let pass = name.split_once('_').map_or("", |(_, pass)| pass).trim_end_matches(".py");
        let line = if is_each { ran[at].clone() } else { prepared.line_of(pass) };
        After { line, file: folder.join(name) }
    };
    Ok(names.into_iter().enumerate().map(after).collect())
}

/// Finds the step named by a failed run or by a report of differing values.
fn by_failure(prepared: &Prepared, predicate: &Predicate, first: &Path, steps: &[After]) -> Result<Found, Error> {
    let shown = predicate.look(first)?;
    let Shown::Failure(failed) = shown else { return hanging(prepared, first, steps) };
    let before = before(prepared, predicate, &failed, first, steps)?;
    let line = failed.position.and_then(|position| prepared.line(position));
    Ok(Found {
        functions: failed.function.into_iter().collect(),
        before: text_of(&before)?,
        pass: failed.pass,
        position: failed.position,
        ..Found::unknown(failed.message)
    }
    .at(line))
}

/// Finds the step in which a run hangs: the first step that calls a pass after the last finished step.
fn hanging(prepared: &Prepared, first: &Path, steps: &[After]) -> Result<Found, Error> {
    let last = steps.last().and_then(|step| step.line.position).unwrap_or(0);
    let mut next = prepared.lines().into_iter().filter(|line| line.position > Some(last) && line.is_called);
    let before = steps.last().map_or(first, |step| &step.file);
    let found =
        Found { before: text_of(before)?, ..Found::unknown("it does not end within the time limit".to_string()) };
    Ok(found.at(next.next()))
}

/// Returns the file with the module before the failed step. If values differ, the run continued after that step; the
/// result is then the module before the first step of the same pass that changes values.
fn before(
    prepared: &Prepared,
    predicate: &Predicate,
    failed: &Failed,
    first: &Path,
    steps: &[After],
) -> Result<PathBuf, Error> {
    let file = |at: usize| at.checked_sub(1).map_or(first, |at| steps[at].file.as_path()).to_path_buf();
    if predicate.until() != &Until::Differs {
        return Ok(file(steps.len()));
    }
    for (at, step) in steps.iter().enumerate().filter(|(_, step)| step.line.pass == failed.pass) {
        let alone = prepared.alone(&step.line.text);
        if Predicate::new(Until::Differs, alone).holds(&file(at))? {
            return Ok(file(at));
        }
    }
    Ok(first.to_path_buf())
}

/// Finds the first step after which a command fails, by binary search.
fn by_command(
    prepared: &Prepared,
    predicate: &Predicate,
    command: &str,
    first: &Path,
    steps: &[After],
) -> Result<Found, Error> {
    let fails = |file: &Path| Ok::<bool, Error>(predicate.is(&predicate.command(command, file)?));
    if fails(first)? {
        let message = format!("the command `{command}` fails on the module before all passes");
        let help = "bisect finds the pass after which it fails; use `passhost reduce --passes ''` to shrink the module";
        return Err(Error::Unmet { message, help: help.to_string() });
    }
    // The command succeeds after `good` steps, and fails after `bad` steps.
    let (mut good, mut bad) = (0, steps.len());
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        if fails(&steps[middle - 1].file)? { bad = middle } else { good = middle }
    }
    let before = good.checked_sub(1).map_or(first, |at| &steps[at].file);
    let Some(step) = bad.checked_sub(1).and_then(|at| steps.get(at)) else {
        return Ok(Found { before: text_of(first)?, ..Found::unknown("no pass has finished".to_string()) });
    };
    let functions = changed_until(prepared, &fails, before, &step.file)?;
    let what = format!("the command `{command}` fails after it");
    Ok(Found { functions, before: text_of(before)?, ..Found::unknown(what) }.at(Some(step.line.clone())))
}

/// Applies the changes of functions one by one, in the order of the module, and returns the first function whose change
/// makes the command fail.
fn changed_until(
    prepared: &Prepared,
    fails: &dyn Fn(&Path) -> Result<bool, Error>,
    before: &Path,
    after: &Path,
) -> Result<Vec<String>, Error> {
    let read = |file: &Path| prepared.engine.read_module(&Input::file(file)?).module;
    let (old, new) = (read(before)?, read(after)?);
    let differs = |name: &str| old.get(name).zip(new.get(name)).is_some_and(|(old, new)| !old.structural_eq(new));
    let changed: Vec<&str> = new.functions().map(|(name, _)| name).filter(|name| differs(name)).collect();
    let mixed = |upto: usize| {
        let mut edit = new.edit();
        changed[upto..].iter().filter_map(|name| Some((*name, old.get(name)?))).for_each(|(name, body)| {
            edit.set(name, body.clone());
        });
        edit.finish()
    };
    let file = prepared.folder.path().join("mixed.py");
    for upto in 1..=changed.len() {
        let Ok(text) = prepared.engine.print_module(&mixed(upto)) else { continue };
        write(&file, &text)?;
        if prepared.engine.read_module(&Input::text("<mixed>", text)).module.is_ok() && fails(&file)? {
            return Ok(vec![changed[upto - 1].to_string()]);
        }
    }
    Ok(Vec::new())
}

/// Narrows the fault down to a function, a rewrite and bindings, by running only the pass at fault.
fn closer(prepared: &Prepared, predicate: &Predicate, found: &mut Found) -> Result<(), Error> {
    let Some(pass) = &found.pass else { return Ok(()) };
    let passes = prepared.alone(pass);
    let predicate = Predicate::new(predicate.until().clone(), passes.clone());
    let Ok(module) = prepared.engine.read_module(&Input::text("<before>", found.before.as_str())).module else {
        return Ok(());
    };
    // Functions are kept if the predicate is a command, which may fail just because a function is missing.
    let is_command = matches!(predicate.until(), Until::Command(_));
    let few =
        if is_command { Some(module) } else { with_few_functions(prepared, &predicate, module, &found.functions)? };
    let Some(module) = few else { return Ok(()) };
    let names = || module.functions().map(|(name, _)| name.to_string()).collect();
    if found.functions.is_empty() && !is_command {
        found.functions = names();
    }
    let place = Place { prepared, predicate, passes, module };
    match place.rewrite()? {
        Some((function, rewrite)) => (found.functions, found.rewrite) = (vec![function], Some(rewrite)),
        None if !is_command => found.bindings = place.bindings()?,
        None => {}
    }
    Ok(())
}

/// Removes every function that the fault does not need, except those that the failure names. Returns `None` if the
/// fault does not occur in the whole module.
fn with_few_functions(
    prepared: &Prepared,
    predicate: &Predicate,
    mut module: Module,
    named: &[String],
) -> Result<Option<Module>, Error> {
    let texts = Texts { engine: &prepared.engine };
    let file = prepared.folder.path().join("functions.py");
    let holds = |module: &Module| {
        let Ok(text) = prepared.engine.print_module(module) else { return Ok(false) };
        write(&file, &text)?;
        predicate.holds(&file)
    };
    if !holds(&module)? {
        return Ok(None);
    }
    let mut at = 0;
    while at < module.len() {
        let stays = module.functions().nth(at).is_some_and(|(name, _)| named.iter().any(|named| named == name));
        let smaller = if stays { None } else { Way::Functions.without(&module, at..at + 1, &texts) };
        match smaller {
            Some(smaller) if holds(&smaller)? => module = smaller,
            _ => at += 1,
        }
    }
    Ok(Some(module))
}

fn text_of(file: &Path) -> Result<String, Error> {
    std::fs::read_to_string(file)
        .map_err(|error| Error::Write { path: file.to_path_buf(), message: format!("cannot be read back: {error}") })
}

/// A line of the plan.
#[derive(Clone)]
struct Line {
    /// The pass with its options, as `--passes` takes it.
    text: String,
    pass: Option<String>,
    plugin: Option<String>,
    /// The number of the line.
    position: Option<usize>,
    /// True if the line calls a pass, false if it only groups other lines.
    is_called: bool,
}

impl Prepared {
    fn lines(&self) -> Vec<Line> {
        let registry = self.engine.registry();
        let lines = self.plan.lines(registry);
        let line = |(at, line): (usize, &registry::plan::Line)| {
            let pass = line.unit.pass();
            Line {
                text: line.text.clone(),
                pass: pass.map(|pass| registry.pass(pass).name.clone()),
                plugin: pass.map(|pass| registry.pass_owner(pass).name.clone()),
                position: Some(at + 1),
                is_called: pass.is_some_and(|pass| registry.members(pass).is_none()),
            }
        };
        lines.iter().enumerate().map(line).collect()
    }

    fn line(&self, position: usize) -> Option<Line> {
        self.lines().into_iter().nth(position.checked_sub(1)?)
    }

    /// Returns the first line that runs `pass`.
    fn line_of(&self, pass: &str) -> Line {
        let found = self.lines().into_iter().find(|line| line.pass.as_deref() == Some(pass));
        let (plugin, position) = (None, None);
        found.unwrap_or(Line {
            text: pass.to_string(),
            pass: Some(pass.to_string()),
            plugin,
            position,
            is_called: true,
        })
    }

    /// Returns the lines of the passes that ran. They are determined from the summary in the messages of a run, whose
    /// rows have the order of the plan.
    fn ran(&self, said: &[serde_json::Value]) -> Vec<Line> {
        let rows = said.iter().find_map(|line| line["summary"].as_array()).into_iter().flatten();
        let mut lines = self.lines().into_iter();
        let mut out = Vec::new();
        for row in rows {
            let found = lines.find(|line| row["text"] == line.text.as_str());
            out.extend(found.filter(|line| line.is_called && row["time_ms"].is_number()));
        }
        out
    }

    /// Returns options that call only `pass`, without the passes that it requires.
    fn alone(&self, pass: &str) -> Passes {
        let is_kept = |word: &&OsString| {
            let word = word.to_string_lossy();
            let others = word.starts_with("--passes=") || word.starts_with("--pipeline=") || word == "--tvm-compat";
            !others
        };
        let mut words: Vec<OsString> = self.passes.words.iter().filter(is_kept).cloned().collect();
        words.extend([format!("--passes={pass}").into(), "--tvm-compat".into()]);
        Passes { words, ..self.passes.clone() }
    }
}

impl Found {
    fn unknown(what: String) -> Found {
        let (pass, plugin, position, functions, before) = Default::default();
        Found { pass, plugin, position, functions, rewrite: None, bindings: Vec::new(), what, before }
    }

    /// Sets the pass, plugin and position from a line of the plan.
    fn at(self, line: Option<Line>) -> Found {
        match line {
            Some(Line { text, plugin, position, .. }) => Found { pass: Some(text), plugin, position, ..self },
            None => self,
        }
    }

    fn text(&self, output: Option<&Path>) -> String {
        let mut out = String::new();
        let mut row = |name: &str, value: String| {
            let _ = writeln!(out, "{name:<10}{value}");
        };
        if let Some(pass) = &self.pass {
            row("pass", pass.clone());
        }
        if let Some(plugin) = &self.plugin {
            row("plugin", plugin.clone());
        }
        if let Some(position) = self.position {
            row("step", position.to_string());
        }
        if !self.functions.is_empty() {
            row("function", self.functions.join(", "));
        }
        if let Some(Rewrite { number, at }) = &self.rewrite {
            row("rewrite", at.as_ref().map_or(number.to_string(), |at| format!("{number}, at {at}")));
        }
        if !self.bindings.is_empty() {
            row("binding", self.bindings.join(", "));
        }
        row("fault", self.what.clone());
        if let Some(output) = output {
            row("before it", output.display().to_string());
        }
        out
    }

    fn json(&self) -> String {
        let Found { pass, plugin, position, functions, rewrite, bindings, what, .. } = self;
        let rewrite = rewrite.as_ref().map(|rewrite| json!({ "number": rewrite.number, "at": rewrite.at }));
        let value = json!({
            "pass": pass,
            "plugin": plugin,
            "step": position,
            "functions": functions,
            "rewrite": rewrite,
            "bindings": bindings,
            "fault": what,
        });
        format!("{value}\n")
    }
}
