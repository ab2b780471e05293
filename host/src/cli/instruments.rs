//! Instruments on the command line: runs the instruments of the host, and lists those of plugins.

use super::figures;
use super::messages::Messages;
use super::show::{milliseconds, table};
use crate::engine::Engine;
use crate::files::Output;
use crate::instruments::Instrument;
use crate::instruments::dump::{Dump, Failure};
use crate::instruments::memory::Memory;
use crate::instruments::print_ir::{Changes, Met, Passes, PrintIr, Printed};
use crate::instruments::timing::{Span, Timing};
use crate::instruments::trace::Trace;
use crate::page::MOST_EVENTS;
use crate::plugins::crates::Survey;
use crate::report::Report;
use crate::report::error::Error;
use crate::run::RunReport;
use clap::{Args, ValueEnum};
use registry::{PassId, Plan};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

#[derive(Args, Clone, Default)]
pub(super) struct LookArgs {
    /// Shows the time of each part of the run, as a tree, even if the run fails.
    #[arg(long, value_name = "FORMAT", num_args = 0..=1, require_equals = true, default_missing_value = "text")]
    timing: Option<TimingFormat>,
    /// Prints the module on standard error before these passes.
    #[arg(long, value_name = "PASS,...", value_delimiter = ',')]
    print_before: Vec<String>,
    /// Prints the module on standard error after these passes.
    #[arg(long, value_name = "PASS,...", value_delimiter = ',')]
    print_after: Vec<String>,
    /// Prints the module before each pass.
    #[arg(long)]
    print_before_all: bool,
    /// Prints the module after each pass.
    #[arg(long)]
    print_after_all: bool,
    /// Prints what each pass changed: a unified diff, the changed functions, or the module.
    #[arg(long, value_name = "AS", num_args = 0..=1, require_equals = true, default_missing_value = "diff")]
    print_changed: Option<Changes>,
    /// Limits the options above to these functions.
    #[arg(long, value_name = "FUNCTION,...", value_delimiter = ',')]
    print_function: Vec<String>,
    /// Writes the module to this folder after each pass that changed it: 000_relax.Normalize.py, 001_…, in the order in
    /// which the passes end.
    ///
    /// The folder is created if it does not exist. Other files in it are kept, and files of the same name are replaced.
    /// In file names, characters that some systems forbid become `_`, and long names are shortened. If a file cannot be
    /// written, later files are not written either; the run continues, reports this at the end, and exits with 4.
    #[arg(long, value_name = "DIR")]
    dump: Option<PathBuf>,
    /// With --dump, also writes the module after passes that did not change it.
    #[arg(long, requires = "dump")]
    dump_all: bool,
    /// Writes a trace of times and threads in the Chrome trace format, even if the run fails.
    ///
    /// Open the file in https://ui.perfetto.dev or chrome://tracing. It contains spans for listing and opening plugins,
    /// planning, reading, each pass, each function of a function pass, verification, instruments, printing and writing.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Writes a page about the run, even if it fails: the plan, a timeline, the changes of each pass in each function,
    /// counters, diagnostics, and the module with its call graph and dataflow.
    ///
    /// The page is one HTML file that works offline. If the file name ends with `.json`, the data of the page is written
    /// instead.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Shows the counters of each pass, such as `bindings removed`.
    ///
    /// A pass adds to a counter with `ctx.statistic("bindings removed", n)`. Counters of a failed pass are left out.
    #[arg(long)]
    statistics: bool,
    /// Shows the size of the module's functions in bytes before and after each pass, and the change of resident memory.
    ///
    /// A function bound to several names is counted once. Resident memory is that of the whole process, including memory
    /// that the allocator keeps for later; it is known on Linux only.
    #[arg(long)]
    memory: bool,
}

/// The records of the host's instruments for one run.
pub(super) struct Seen {
    pub(super) timing: Timing,
    pub(super) trace: Option<Trace>,
    memory: Memory,
    /// The error that ended `--dump`.
    dump: RefCell<Option<Failure>>,
    /// Functions selected by --print-function that occurred in a module.
    met: RefCell<Option<Met>>,
    /// Verification time of each pass that ran.
    verify: RefCell<Vec<Duration>>,
    /// Facts about plugin crates, collected before the run.
    pub(super) survey: RefCell<Survey>,
}

impl Seen {
    /// Returns the error that ended `--dump`, if there was one.
    pub(super) fn not_dumped(&self) -> Option<Error> {
        self.dump.take().and_then(|failure| failure.take())
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TimingFormat {
    /// A table.
    Text,
    /// One line of JSON, written last on standard error, even if the run fails.
    Json,
}

impl LookArgs {
    /// Starts the clocks, and returns empty records.
    pub(super) fn begin(&self) -> Seen {
        let trace = match (&self.trace, &self.report) {
            (Some(_), _) => Some(Trace::new()),
            (None, Some(_)) => Some(Trace::of_first(MOST_EVENTS)),
            (None, None) => None,
        };
        Seen {
            timing: Timing::new().traced(trace.clone()),
            trace,
            memory: Memory::new(),
            dump: RefCell::default(),
            met: RefCell::default(),
            verify: RefCell::default(),
            survey: RefCell::default(),
        }
    }

    /// Calls `survey` to check the outputs, then calls `run`, and writes the trace even if the run fails. With
    /// `--timing=json`, reports the error of the run first and prints the times last.
    pub(super) fn seen(
        &self,
        survey: impl FnOnce() -> Result<Survey, Error>,
        messages: Messages,
        run: impl FnOnce(&Seen) -> Result<u8, Error>,
    ) -> Result<u8, Error> {
        let seen = self.begin();
        let result = survey().and_then(|survey| {
            seen.survey.replace(survey);
            self.traced(&seen, messages, run)
        });
        if self.timing != Some(TimingFormat::Json) {
            return result;
        }
        let code = result.unwrap_or_else(|error| messages.error(&error));
        self.timing(&seen, messages);
        Ok(code)
    }

    /// Returns the path of the trace.
    pub(super) fn trace_path(&self) -> Option<&Path> {
        self.trace.as_deref()
    }

    /// Returns the path of the page that shows the run.
    pub(super) fn report_path(&self) -> Option<&Path> {
        self.report.as_deref()
    }

    /// Returns the folder of dumped modules.
    pub(super) fn dump_folder(&self) -> Option<&Path> {
        self.dump.as_deref()
    }

    fn traced(
        &self,
        seen: &Seen,
        messages: Messages,
        run: impl FnOnce(&Seen) -> Result<u8, Error>,
    ) -> Result<u8, Error> {
        let file = self.trace.as_deref().map(Output::look).transpose()?;
        let result = run(seen);
        let Some((file, trace)) = file.zip(seen.trace.as_ref()) else { return result };
        match (file.write(&trace.json()), result) {
            (Err(error), Ok(_)) => Err(error),
            (Err(error), Err(first)) => {
                // Only a warning, because the error that stopped the run is more important.
                messages.report(&Report::warning(format!("the trace could not be written: {error}")));
                Err(first)
            }
            (Ok(()), result) => result,
        }
    }

    /// Returns the instruments of the host that the options request.
    pub(super) fn instruments(
        &self,
        engine: &Arc<Engine>,
        plan: &Plan,
        seen: &Seen,
        messages: Messages,
    ) -> Result<Vec<Instrument>, Error> {
        let mut out = Vec::new();
        if self.timing.is_some() {
            out.push(Instrument::clock("timing", seen.timing.instrument()));
        }
        if self.memory {
            out.push(Instrument::new("memory", seen.memory.instrument()));
        }
        let printed = Printed {
            before: chosen(&self.print_before, self.print_before_all, engine, plan, messages)?,
            after: chosen(&self.print_after, self.print_after_all, engine, plan, messages)?,
            changes: self.print_changed,
            functions: self.print_function.iter().cloned().collect(),
            coloured: !messages.is_json(),
        };
        if printed.prints() {
            let write = move |text: &str| messages.text("printed", text);
            let print = PrintIr::new(printed, Arc::clone(engine) as _, Box::new(write));
            *seen.met.borrow_mut() = Some(print.met());
            out.push(Instrument::new("print IR", Box::new(print)));
        } else if !self.print_function.is_empty() {
            let title = "--print-function has no effect without an option that prints";
            let help =
                "add one of --print-before, --print-after, --print-before-all, --print-after-all, --print-changed";
            messages.report(&Report::warning(title).help(help));
        }
        if let Some(folder) = &self.dump {
            let wrong = |error: std::io::Error| Error::Output {
                path: folder.clone(),
                message: format!("cannot create this folder: {error}; choose a different folder with --dump"),
            };
            std::fs::create_dir_all(folder).map_err(wrong)?;
            let dump = Dump::new(folder.clone(), self.dump_all, Arc::clone(engine) as _);
            *seen.dump.borrow_mut() = Some(dump.failure());
            out.push(Instrument::new("dump", Box::new(dump)));
        }
        Ok(out)
    }

    /// Returns the functions selected by --print-function that did not occur in any module of the run.
    pub(super) fn not_printed(&self, seen: &Seen) -> Vec<&str> {
        let Some(met) = seen.met.take() else { return Vec::new() };
        let names = self.print_function.iter().map(String::as_str);
        names.filter(|name| !met.borrow().contains(*name)).collect()
    }

    /// Prints the requested tables after the summary.
    pub(super) fn tables(&self, seen: &Seen, report: &RunReport, messages: Messages) {
        // Composite passes are left out, because their time is that of their members.
        let passes = report.rows().map(|(_, step)| step).filter(|step| step.outcome.ran() && !step.has_members);
        *seen.verify.borrow_mut() = passes.map(|step| step.verify).collect();
        // In JSON, the times are on the last line, which `seen` prints.
        if self.timing == Some(TimingFormat::Text) {
            self.timing(seen, messages);
        }
        if self.memory {
            let rows = seen.memory.rows();
            messages.table("memory", || figures::memory(&rows), || figures::memory_json(&rows));
        }
        if self.statistics {
            let counted = &report.statistics;
            messages.table("statistics", || figures::statistics(counted), || figures::statistics_json(counted));
        }
    }

    /// Prints the times if they are requested. With `--message-format json`, always prints them as JSON.
    fn timing(&self, seen: &Seen, messages: Messages) {
        let Some(format) = self.timing else { return };
        let spans = seen.timing.spans(&seen.verify.borrow());
        let json = || timing_json(&spans, whole(&spans)).0;
        let text = || match format {
            TimingFormat::Text => timing_text(&spans),
            TimingFormat::Json => format!("{}\n", json()),
        };
        messages.table("timing", text, json);
    }
}

/// Resolves the names in a print option: passes by full or short name, and Sequentials of the plan by their own name.
fn chosen(names: &[String], all: bool, engine: &Engine, plan: &Plan, messages: Messages) -> Result<Passes, Error> {
    let registry = engine.registry();
    let planned: BTreeSet<PassId> = plan.passes(registry).into_iter().collect();
    let mut found = BTreeSet::new();
    for name in names {
        if plan.has_sequential(name) {
            found.insert(name.clone());
            continue;
        }
        let pass = registry.find(name)?;
        let name = &registry.pass(pass).name;
        if !planned.contains(&pass) {
            let title = format!("a --print option refers to `{name}`, which is not in the plan");
            messages.report(&Report::warning(title).about("pass", name));
        }
        found.insert(name.clone());
    }
    Ok(match (all, found.is_empty()) {
        (true, _) => Passes::All,
        (false, true) => Passes::None,
        (false, false) => Passes::Named(found),
    })
}

fn whole(spans: &[Span]) -> Duration {
    spans.first().map_or(Duration::ZERO, |span| span.total)
}

fn percent(time: Duration, whole: Duration) -> f64 {
    100.0 * time.as_secs_f64() / whole.as_secs_f64().max(1e-9)
}

fn timing_text(spans: &[Span]) -> String {
    let whole = whole(spans);
    let mut rows = vec![["WHERE", "TOTAL", "SELF", "OF ALL"].map(str::to_string).to_vec()];
    for span in spans {
        let failed = if span.failed { " (failed)" } else { "" };
        rows.push(vec![
            format!("{}{}{failed}", "  ".repeat(span.depth), span.name),
            milliseconds(span.total),
            milliseconds(span.own),
            format!("{:.1} %", percent(span.total, whole)),
        ]);
    }
    format!("\n{}", table(&rows))
}

/// Returns the first span and its descendants as JSON, and the spans that remain.
fn timing_json(spans: &[Span], whole: Duration) -> (serde_json::Value, &[Span]) {
    let Some((span, mut rest)) = spans.split_first() else { return (serde_json::Value::Null, spans) };
    let mut children = Vec::new();
    while rest.first().is_some_and(|next| next.depth > span.depth) {
        let (child, behind) = timing_json(rest, whole);
        children.push(child);
        rest = behind;
    }
    let mut value = serde_json::json!({
        "name": span.name,
        "total_ms": span.total.as_secs_f64() * 1e3,
        "self_ms": span.own.as_secs_f64() * 1e3,
        "percent": percent(span.total, whole),
        "children": children,
    });
    if span.failed {
        value["failed"] = true.into();
    }
    (value, rest)
}
