//! Runs a case in-process and through the built library, and compares the outcomes.

use crate::{Tested, diff, text};
use passhost::run::{PassDiagnostic, Statistic};
use passhost::{Error, RunReport, Runner};
use plugin_api::declare::diagnostics::Severity;
use plugin_api::ir::Module;
use plugin_api::metadata::OptionValue;
use registry::{Pipeline, Plan, Request, Selection};
use std::collections::BTreeMap;

/// The settings of a case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Setup {
    /// A pipeline; empty if only properties are checked.
    pub(crate) passes: String,
    /// Config options, each `KEY=VALUE`.
    pub(crate) config: Vec<String>,
    pub(crate) opt_level: Option<i32>,
    /// Instruments, each as in `acme.Counter{every=2}`.
    pub(crate) instruments: Vec<String>,
    /// Properties that must hold after the passes.
    pub(crate) requires: Vec<String>,
    /// True if missed opportunities are among the diagnostics.
    pub(crate) missed: bool,
    /// True if statistics are shown.
    pub(crate) statistics: bool,
}

impl Setup {
    /// Creates the settings for a pipeline alone.
    pub(crate) fn of(passes: &str) -> Setup {
        Setup { passes: passes.to_string(), ..Setup::default() }
    }
}

/// How the code of the tested plugin is called.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Calls through the built library.
    Library,
    /// Direct calls of functions in this process.
    InProcess,
}

/// The result of a run in one way.
struct Run {
    way: Way,
    result: Result<Module, Error>,
    diagnostics: Vec<PassDiagnostic>,
    statistics: Vec<Statistic>,
}

/// The common result of both ways.
pub(crate) struct Outcome {
    /// Sections of a golden.
    pub(crate) golden: String,
    /// The module as text; `None` after an error.
    pub(crate) printed: Option<String>,
    /// Full names of the instruments that observed the run.
    pub(crate) instruments: Vec<String>,
    /// Properties that were checked, each with true if it held.
    pub(crate) checked: Vec<(String, bool)>,
}

impl Tested {
    /// Runs a pipeline over a module as text, in both ways.
    ///
    /// # Errors
    /// Fails if the module cannot be read, the pipeline cannot be planned, the result cannot be read back, or the
    /// two ways differ.
    pub(crate) fn outcome(&self, setup: &Setup, module: &str) -> Result<Outcome, String> {
        let before = self.read(module)?;
        let (plan, config) = (self.plan(setup)?, self.config(setup)?);
        let library = self.run(&plan, &config, &before, (Way::Library, setup.missed))?;
        let in_process = self.run(&plan, &config, &before, (Way::InProcess, setup.missed))?;
        let (through_library, process) = (self.show(&library)?, self.show(&in_process)?);
        if through_library != process {
            let diff = diff(("through the library", &through_library), ("in-process", &process));
            return Err(format!(
                "the library and the in-process run differ; a pass must not depend on state of its own process\n{diff}"
            ));
        }
        let registry = self.engine.registry();
        let instruments = plan.instruments.iter().map(|planned| registry.instrument(planned.instrument).name.clone());
        let checked = checked(setup, &library.result);
        let said = section("diagnostics", &diagnostics(&library));
        let shows_counts = setup.statistics || !setup.instruments.is_empty();
        let counted = if shows_counts { statistics(&library) } else { String::new() };
        let more = said + &section("statistics", &counted);
        let outcome = |golden: String, printed| Outcome {
            golden: golden + &more,
            printed,
            instruments: instruments.collect(),
            checked,
        };
        let after = match library.result {
            Ok(after) => after,
            Err(error) => return Ok(outcome(format!("-- error\n{error}\n\n"), None)),
        };
        let printed = self.print(&after)?;
        let again = self.read(&printed)?;
        if !after.structural_eq(&again) {
            let difference = script::difference(&after, &again).unwrap_or_default();
            return Err(format!("the result does not read back to itself: {difference}\n{printed}"));
        }
        let same = after.same(&before);
        let golden = if same { "-- unchanged\n\n".to_string() } else { format!("-- after\n{printed}\n") };
        Ok(outcome(golden, Some(printed)))
    }

    /// # Errors
    /// Returns the plan, or the reason why there is none.
    fn plan(&self, setup: &Setup) -> Result<Plan, String> {
        let required = setup.requires.iter().map(|property| self.requirement(property));
        let required = required.collect::<Result<Vec<String>, String>>()?;
        let passes = std::iter::once(setup.passes.clone()).filter(|passes| !passes.is_empty()).chain(required);
        let passes: Vec<String> = passes.collect();
        let pipeline = Pipeline::parse(&passes.join(",")).map_err(|error| error.to_string())?;
        let (opt_level, instruments) = (setup.opt_level, setup.instruments.clone());
        let case = Selection { source: "the case".to_string(), opt_level, instruments, ..Selection::default() };
        let request = Request { pipeline, selections: vec![case], ..Request::default() };
        Plan::new(&request, self.engine.registry()).map_err(|error| error.to_string())
    }

    /// Returns the pass that requires a property.
    fn requirement(&self, property: &str) -> Result<String, String> {
        let known = self.engine.registry().property(property).is_some_and(|(info, ..)| info.checked);
        match known {
            true => Ok(requirement(property)),
            false => Err(format!("`requires: {property}`: a property of this name with a checker is not declared")),
        }
    }

    /// Reads config values, checked like those of the command line.
    fn config(&self, setup: &Setup) -> Result<BTreeMap<String, OptionValue>, String> {
        let value = |text: &String| {
            let (key, value) = registry::registry::config::entry("config: ", text)?;
            let checked = self.engine.config_value(&key, &value);
            Ok((key, checked.map_err(|error| format!("`config: {text}`: {error}"))?))
        };
        setup.config.iter().map(value).collect()
    }

    /// # Errors
    /// Fails if the host could not run the plan, or if it was stopped by something other than a pass, a checker or
    /// an instrument.
    fn run(
        &self,
        plan: &Plan,
        config: &BTreeMap<String, OptionValue>,
        module: &Module,
        (way, missed): (Way, bool),
    ) -> Result<Run, String> {
        let runner = Runner::new(&self.engine, config.clone()).deny_unknown_operators(true).missed(missed);
        let runner = if way == Way::InProcess { runner.linked(self.plugin) } else { runner };
        let report = runner.run(plan, module.clone()).map_err(|error| text(&error))?;
        let RunReport { module, diagnostics, statistics, error, .. } = report;
        let result = match error {
            None => Ok(module),
            Some(error @ (Error::Step { .. } | Error::Instrument { .. })) => Err(error),
            Some(other) => return Err(text(&other)),
        };
        Ok(Run { way, result, diagnostics, statistics })
    }

    pub(crate) fn read(&self, module: &str) -> Result<Module, String> {
        script::read(module, &self.engine).map_err(|error| format!("{error}"))
    }

    pub(crate) fn print(&self, module: &Module) -> Result<String, String> {
        script::print_with_values(module, &self.engine).map_err(|error| error.to_string())
    }

    /// Formats a run independently of the way.
    fn show(&self, run: &Run) -> Result<String, String> {
        let end = match &run.result {
            Ok(module) => self.print(module)?,
            Err(Error::Step { pass, function, message, .. }) => {
                let function = function.as_ref().map_or(String::new(), |name| format!(", function `{name}`"));
                let message = if run.way == Way::Library { without_place(message) } else { message.clone() };
                format!("pass `{pass}`{function}: {message}\n")
            }
            Err(Error::Instrument { instrument, event, message, .. }) => {
                let message = if run.way == Way::Library { without_place(message) } else { message.clone() };
                format!("instrument `{instrument}`, {event}: {message}\n")
            }
            Err(other) => text(other),
        };
        Ok(format!("{}{}{end}", diagnostics(run), statistics(run)))
    }
}

/// Returns the name of the pass that requires a property; see [`crate::requirements`].
pub(crate) fn requirement(property: &str) -> String {
    format!("requires.{property}")
}

/// Returns the properties of a case that a run checked, and whether they held. Passes run in order, and the first
/// failure ends the run.
fn checked(setup: &Setup, result: &Result<Module, Error>) -> Vec<(String, bool)> {
    let failed = match result {
        Ok(_) => None,
        Err(Error::Step { pass, .. }) => setup.requires.iter().position(|property| requirement(property) == *pass),
        Err(_) => return Vec::new(),
    };
    match (result, failed) {
        (Ok(_), _) => setup.requires.iter().map(|property| (property.clone(), true)).collect(),
        (Err(_), Some(at)) => {
            let held = setup.requires[..at].iter().map(|property| (property.clone(), true));
            held.chain([(setup.requires[at].clone(), false)]).collect()
        }
        (Err(_), None) => Vec::new(),
    }
}

/// Formats a section of a golden, unless it is empty.
fn section(title: &str, lines: &str) -> String {
    if lines.is_empty() { String::new() } else { format!("-- {title}\n{lines}\n") }
}

/// Formats the diagnostics of passes and instruments, one per line.
fn diagnostics(run: &Run) -> String {
    let line = |said: &PassDiagnostic| {
        let by = said.instrument.as_ref().map_or(String::new(), |name| format!(", instrument `{name}`"));
        let function = said.function.as_ref().map_or(String::new(), |name| format!(", function `{name}`"));
        let message = said.message.replace('\n', "\n  ");
        let severity = match said.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Missed => "missed",
            Severity::Matched => "matched",
            _ => "remark",
        };
        format!("{severity}: pass `{}`{by}{function}: {message}\n", said.pass)
    };
    run.diagnostics.iter().map(line).collect()
}

/// Formats the statistics of passes and instruments, one per line.
fn statistics(run: &Run) -> String {
    run.statistics.iter().map(|Statistic { pass, name, sum }| format!("{pass}: {name}: {sum}\n")).collect()
}

/// Removes the place of a panic, which only the library reports.
fn without_place(message: &str) -> String {
    let cut = |text: &str| Some(text.rsplit_once(" (")?.0.to_string());
    let panicked = message.starts_with("panicked: ");
    panicked.then(|| cut(message)).flatten().unwrap_or_else(|| message.to_string())
}
