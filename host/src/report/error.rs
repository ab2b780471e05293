//! All errors of the host, with their exit codes and reports.

use crate::report::{Place, Report};
use registry::{ConfigError, Direction, Owner, PlanError, RegistryError};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

/// Exit codes of the command line.
pub mod exit {
    /// Success.
    pub const DONE: u8 = 0;
    /// The input module is invalid, or the result of the run is not as expected.
    pub const INPUT: u8 = 1;
    /// The request is invalid.
    pub const REQUEST: u8 = 2;
    /// A plugin failed.
    pub const PLUGIN: u8 = 3;
    /// A fault of passhost itself, or of the system.
    pub const FAULT: u8 = 4;
    /// Passes ran, but their effect on values could not be compared.
    pub const NOT_VALIDATED: u8 = 5;
}

/// A mistake in a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The error message.
    pub message: String,
    /// The place, if it is in the text.
    pub span: Option<Range<usize>>,
    /// Advice on what to do.
    pub help: String,
}

/// The fate of the module before a failed step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kept {
    /// The module was not written.
    Nothing,
    /// The module was written to a file.
    File(PathBuf),
    /// The run continued with the module.
    WentOn,
    /// The module was lost when its process ended.
    Gone,
}

impl Kept {
    /// Returns help on the result that remains. The text mentions `kept` if the result is in a file, and `rest` if the run continued.
    fn help(&self, kept: &str, rest: &str) -> String {
        match self {
            Kept::File(path) => {
                format!("the input and the output did not change; {kept} is in {}", path.display())
            }
            Kept::Nothing => "the input and the output did not change; nothing was written".to_string(),
            Kept::WentOn => format!("the run continued with {rest} (--keep-going)"),
            Kept::Gone => {
                "the input and the output did not change; `--dump DIR` writes the module after each pass".to_string()
            }
        }
    }
}

/// An error that stopped the host.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The manifest cannot be read.
    #[error("manifest {}: {}", path.display(), first(problems))]
    Manifest {
        /// Path of the manifest.
        path: PathBuf,
        /// Text of the manifest, as far as it could be read.
        text: Arc<str>,
        /// All mistakes, in the order of the text.
        problems: Vec<Problem>,
    },
    /// The lockfile cannot be used.
    #[error("lockfile {}: {}", path.display(), problem.message)]
    Lockfile {
        /// Path of the lockfile.
        path: PathBuf,
        /// Text of the lockfile, as far as it could be read.
        text: Arc<str>,
        /// The mistake.
        problem: Problem,
    },
    /// Another error, with the entry of the manifest, or the part of a pipeline, that led to it.
    #[error("{error}")]
    Entry {
        /// The manifest, or the file of the pipeline, or `<--passes>`.
        path: PathBuf,
        /// Text of the file.
        text: Arc<str>,
        /// The entry or part.
        span: Range<usize>,
        /// The error.
        error: Box<Error>,
    },
    /// Several errors that are reported together.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Several(Vec<Error>),
    /// A plugin was refused, either before any of its code ran or when it was opened.
    #[error("plugin {}: {message}", path.display())]
    Plugin {
        /// Path of the plugin.
        path: PathBuf,
        /// The error message.
        message: String,
        /// Advice on what to do.
        help: String,
    },
    /// A plugin crate does not build.
    #[error("plugin crate {}: {message}", path.display())]
    Build {
        /// Folder of the crate.
        path: PathBuf,
        /// The error message.
        message: String,
        /// Output of cargo and the compiler.
        output: String,
    },
    /// Names clash or are unknown.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The request cannot be planned.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A config value of the command line or of a context is invalid.
    #[error("{of}: {error}")]
    Config {
        /// The source of the value: `--config`, `the context`.
        of: &'static str,
        /// The error.
        error: ConfigError,
    },
    /// The request is invalid in another way.
    #[error("{message}")]
    Request {
        /// The error message.
        message: String,
        /// Advice on what to do.
        help: String,
    },
    /// The input cannot be read as a file.
    #[error("input {origin}: {message}")]
    InputFile {
        /// Path or `<stdin>`.
        origin: String,
        /// The error message.
        message: String,
        /// Advice on what to do.
        help: String,
    },
    /// The input is not a module.
    #[error("{origin}: {error}")]
    Input {
        /// Path or `<stdin>`.
        origin: String,
        /// Text of the input.
        text: Arc<str>,
        /// The error of the reader.
        error: script::ReadError,
    },
    /// The module that was read is ill-formed.
    #[error("{origin}: {message}")]
    IllFormed {
        /// Path or `<stdin>`.
        origin: String,
        /// The violation.
        message: String,
        /// The module as text, and the place in it.
        place: Option<(String, Range<usize>)>,
    },
    /// The rule of an operator failed while a module was read. The plugin is at fault; the place shows the call.
    #[error("{0}")]
    Rule(Box<Error>),
    /// A reader or a writer of a file format failed.
    #[error(transparent)]
    Format(Box<FormatFailure>),
    /// A part of the module cannot be printed.
    #[error("cannot write the module: {0}")]
    Unprintable(#[from] script::Unprintable),
    /// A step failed.
    #[error("step {position}, {}: {message}", step_name(*kind, pass, plugin))]
    Step {
        /// Number of the step in the plan.
        position: usize,
        /// Kind of the step.
        kind: StepKind,
        /// Full name of the pass, or name of the Sequential or repetition.
        pass: String,
        /// Plugin.
        plugin: String,
        /// File of the plugin.
        file: Option<PathBuf>,
        /// Function, if known.
        function: Option<String>,
        /// The error message.
        message: String,
        /// The text with its description, and the place in it.
        place: Option<(String, Arc<str>, Range<usize>)>,
        /// The fate of the module before the step.
        kept: Kept,
        /// The kind of failure.
        cause: Cause,
        /// The exit code for a failed plugin, or for a request that ran the pass too early.
        code: u8,
    },
    /// An instrument failed.
    #[error("instrument `{instrument}` of plugin `{plugin}`, {event}{}: {message}", during(pass))]
    Instrument {
        /// Full name of the instrument, with the given options.
        instrument: String,
        /// Plugin.
        plugin: String,
        /// File of the plugin.
        file: Option<PathBuf>,
        /// The event that the instrument handled.
        event: &'static str,
        /// Position and full name of the pass that the event is about.
        pass: Option<(usize, String)>,
        /// The error message.
        message: String,
        /// The effect on the run; `None` if another error describes it.
        kept: Option<Kept>,
    },
    /// The process of the run ended before the run did.
    #[error("{message}")]
    Ended {
        /// The error message: what ended the process, and how.
        message: String,
        /// Advice on what to do.
        help: String,
        /// The exit code for a plugin that ended the process, or for passhost.
        code: u8,
    },
    /// Executing a function failed.
    #[error("{message}")]
    Execution {
        /// The error message.
        message: String,
        /// The text with its description, and the place in it.
        place: Option<(String, Arc<str>, Range<usize>)>,
        /// Calls that led to the failure.
        notes: Vec<String>,
        /// Advice on what to do.
        help: String,
        /// Function of the module, if known.
        function: Option<String>,
        /// The exit code for an invalid module, or for a request that does not fit it.
        code: u8,
    },
    /// The result of the run is not as expected.
    #[error("{message}")]
    Unmet {
        /// The error message, with the expected and the found value.
        message: String,
        /// Advice on what to do.
        help: String,
    },
    /// The output cannot be written, which was detected before anything ran.
    #[error("output {}: {message}", path.display())]
    Output {
        /// Path of the output.
        path: PathBuf,
        /// The error message.
        message: String,
    },
    /// The reader of standard output closed it before everything was written.
    #[error("output <stdout>: the reader closed it")]
    ReaderLeft,
    /// Writing the output failed.
    #[error("output {}: {message}", path.display())]
    Write {
        /// Path of the output, or `<stdout>`.
        path: PathBuf,
        /// The error message.
        message: String,
    },
}

/// The failure of a reader or a writer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{origin}: {direction} `{format}` of plugin `{}`: {message}", owner.name)]
pub struct FormatFailure {
    /// The direction: reading or writing.
    pub direction: Direction,
    /// Path, `<stdin>` or `<stdout>`.
    pub origin: String,
    /// Name of the format.
    pub format: String,
    /// The plugin that provides the reader or writer.
    pub owner: Owner,
    /// Function of the module, if known.
    pub function: Option<String>,
    /// The error message.
    pub message: String,
    /// The text with its description, and the place in it.
    pub place: Option<(String, Arc<str>, Range<usize>)>,
    /// The exit code, which depends on the cause: an invalid input, a failed plugin, or an invalid option in the request.
    pub code: u8,
}

impl FormatFailure {
    /// Adds the format, the plugin and the advice to a report.
    fn complete(&self, mut report: Report) -> Report {
        report = report.about("format", &self.format).about_owner(&self.owner);
        report.about.extend(self.function.clone().map(|name| ("function", name)));
        if let Some((what, text, span)) = &self.place {
            report = report.at(what, Arc::clone(text), span.clone(), "");
        }
        report.notes.extend(self.function.as_ref().map(|name| format!("in function `{name}`")));
        let (is_plugin, file) = (self.code == exit::PLUGIN, &self.owner.file);
        report.notes.extend(file.as_ref().filter(|_| is_plugin).map(|file| format!("plugin file {}", file.display())));
        let help = format!("`passhost explain {}` shows what the {} takes", self.format, self.direction);
        report.help(if is_plugin { RULE_HELP.to_string() } else { help })
    }
}

/// The cause of a failed step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The step returned an error, or a result that passhost refuses.
    Error,
    /// The step panicked.
    Panic,
    /// The step ended the process in which it ran.
    Crash,
    /// The step returned an ill-formed module.
    IllFormed,
    /// The step refused the value of an option.
    Option,
}

impl Cause {
    /// Returns the name used in messages for programs and in bundles.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Error => "error",
            Cause::Panic => "panic",
            Cause::Crash => "crash",
            Cause::IllFormed => "ill-formed",
            Cause::Option => "option",
        }
    }
}

/// The kind of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepKind {
    /// A pass of a plugin, or a composite pass.
    Pass,
    /// A Sequential of the pipeline.
    Sequential,
    /// A Sequential that runs until nothing changes.
    Repetition,
}

/// Help for an invalid config value.
pub(crate) const CONFIG_HELP: &str = "`passhost config` shows all keys with their types, defaults and ranges";

/// Help for a rule that failed.
const RULE_HELP: &str = "the output did not change; correct the plugin, or remove it from the manifest";

/// Maximum number of errors of one kind that are shown.
const SHOWN: usize = passhost_lang::names::FEW;

/// ` of step 2, pass `relax.Normalize``
fn during(pass: &Option<(usize, String)>) -> String {
    pass.as_ref().map_or(String::new(), |(position, name)| format!(" of step {position}, pass `{name}`"))
}

/// ``pass `relax.Normalize` of plugin `relax-passes` ``, or ``repetition `late` ``
fn step_name(kind: StepKind, pass: &str, plugin: &str) -> String {
    match kind {
        StepKind::Pass => format!("pass `{pass}` of plugin `{plugin}`"),
        StepKind::Sequential => format!("Sequential `{pass}`"),
        StepKind::Repetition => format!("repetition `{pass}`"),
    }
}

fn first(problems: &[Problem]) -> &str {
    problems.first().map_or("", |problem| &problem.message)
}

impl Error {
    /// Returns the result, unless there are errors. If there are any, returns `errors` first, followed by the result's
    /// own error.
    ///
    /// # Errors
    /// All errors as one.
    pub(crate) fn unless_any<T>(errors: impl IntoIterator<Item = Error>, result: Result<T, Error>) -> Result<T, Error> {
        let each = |error| match error {
            Error::Several(errors) => errors,
            error => vec![error],
        };
        let mut all: Vec<Error> = errors.into_iter().flat_map(each).collect();
        match result {
            Ok(value) if all.is_empty() => return Ok(value),
            Ok(_) => {}
            Err(error) => all.extend(each(error)),
        }
        Err(if all.len() == 1 { all.swap_remove(0) } else { Error::Several(all) })
    }

    /// Exit code of the command line.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Input { .. } | Error::InputFile { .. } | Error::IllFormed { .. } | Error::Unmet { .. } => {
                exit::INPUT
            }
            Error::Manifest { .. }
            | Error::Registry(_)
            | Error::Plan(_)
            | Error::Request { .. }
            | Error::Config { .. } => exit::REQUEST,
            Error::Output { .. } | Error::Lockfile { .. } => exit::REQUEST,
            Error::Plugin { .. } | Error::Build { .. } | Error::Instrument { .. } | Error::Rule(_) => exit::PLUGIN,
            Error::Format(failure) => failure.code,
            Error::Step { code, .. } | Error::Ended { code, .. } | Error::Execution { code, .. } => *code,
            Error::Write { .. } | Error::ReaderLeft | Error::Unprintable(_) => exit::FAULT,
            Error::Entry { error, .. } => error.exit_code(),
            // The highest exit code is used.
            Error::Several(errors) => errors.iter().map(Error::exit_code).max().unwrap_or(exit::FAULT),
        }
    }

    /// Returns the same failure of a step with a different cause.
    pub(crate) fn caused_by(mut self, by: Cause) -> Error {
        if let Error::Step { cause, code, .. } = &mut self {
            *cause = by;
            if by == Cause::Option {
                *code = exit::REQUEST;
            }
        }
        self
    }

    /// Returns the number of mistakes.
    pub fn count(&self) -> usize {
        match self {
            Error::Input { error, .. } => error.diagnostics.len(),
            Error::Manifest { problems, .. } => problems.len(),
            Error::Entry { error, .. } | Error::Rule(error) => error.count(),
            Error::Several(errors) => errors.iter().map(Error::count).sum(),
            _ => 1,
        }
    }

    /// Returns the reports to show: a single report, or a report for each diagnostic of the input or problem of the manifest. If there
    /// are many, returns the first reports, and the number of the others.
    pub fn reports(&self) -> Vec<Report> {
        match self {
            Error::Input { origin, text, error } => {
                let shown = error.diagnostics.iter().take(SHOWN);
                let mut reports: Vec<Report> = shown.map(|diagnostic| input_report(origin, text, diagnostic)).collect();
                let rest = error.diagnostics.len().saturating_sub(SHOWN);
                reports.extend((rest > 0).then(|| Report::remark(format!("... and {rest} more errors in {origin}"))));
                reports
            }
            Error::Manifest { path, text, problems } => {
                let origin = path.display().to_string();
                let shown = problems.iter().take(SHOWN);
                let mut reports: Vec<Report> = shown.map(|problem| manifest_report(&origin, text, problem)).collect();
                let rest = problems.len().saturating_sub(SHOWN);
                reports.extend((rest > 0).then(|| Report::remark(format!("... and {rest} more problems in {origin}"))));
                reports
            }
            Error::Entry { path, text, span, error } => {
                let mut reports = error.reports();
                // An error that already shows a place does not get another place.
                if let Some(report) = reports.first_mut().filter(|report| report.excerpts.is_empty()) {
                    let origin = path.display().to_string();
                    let label = match &**error {
                        Error::Plan(error) if error.span().is_some() => {
                            report.title = one_line(&error.beside_its_text());
                            ""
                        }
                        _ => "listed here",
                    };
                    *report = report.clone().at(origin, Arc::clone(text), span.clone(), label);
                }
                reports
            }
            Error::Rule(error) => {
                let mut reports = error.reports();
                if let Some(report) = reports.first_mut() {
                    report.help = Some(RULE_HELP.to_string());
                }
                reports
            }
            // The reader of the output stopped early, as `head` does in a shell pipeline.
            Error::ReaderLeft => Vec::new(),
            Error::Several(errors) => {
                let mut reports: Vec<Report> = errors.iter().take(SHOWN).flat_map(Error::reports).collect();
                let rest: usize = errors.iter().skip(SHOWN).map(Error::count).sum();
                reports.extend((rest > 0).then(|| Report::remark(format!("... and {rest} more errors"))));
                reports
            }
            other => vec![other.report()],
        }
    }

    fn report(&self) -> Report {
        let message = self.to_string();
        let mut report = Report::error(if matches!(self, Error::Plan(_)) { one_line(&message) } else { message });
        match self {
            Error::Lockfile { path, text, problem: Problem { span: Some(span), help, .. } } => {
                report.at(path.display().to_string(), Arc::clone(text), span.clone(), "").help(help)
            }
            Error::Lockfile { problem, .. } => report.help(&problem.help),
            Error::Plugin { path, help, .. } => report.help(help).about_file(Some(path)),
            Error::Request { help, .. }
            | Error::InputFile { help, .. }
            | Error::Unmet { help, .. }
            | Error::Ended { help, .. } => report.help(help),
            Error::Config { .. } => report.help(CONFIG_HELP),
            Error::Registry(error) => with_remedy(report, error),
            Error::Plan(PlanError::Name { error, .. } | PlanError::ListedName { error, .. }) => {
                with_remedy(report, error)
            }
            Error::Plan(error) => {
                let (pass, plugin) = error.about();
                report.about.extend(pass.map(|name| ("pass", name.to_string())));
                report.about.extend(plugin.map(|name| ("plugin", name.to_string())));
                report
            }
            Error::Build { output, .. } if !output.trim().is_empty() => report.note(output.trim_end()),
            Error::IllFormed { origin, message, place } => {
                let report = Report::error(message).note(format!(
                    "this is the module read from {origin}, printed again; its line numbers differ from those of the file"
                ));
                match place {
                    Some((text, span)) => report.at(format!("<{origin}, as read>"), text.as_str(), span.clone(), ""),
                    None => Report::error(message).note(format!("in {origin}")),
                }
            }
            Error::Execution { place, notes, help, function, .. } => {
                report.about.extend(function.clone().map(|name| ("function", name)));
                if let Some((what, text, span)) = place {
                    report = report.at(what, Arc::clone(text), span.clone(), "");
                }
                report.notes.extend(notes.iter().cloned());
                report.help(help)
            }
            Error::Format(failure) => failure.complete(report),
            Error::Step { .. } => self.of_step(report),
            Error::Instrument { instrument, plugin, file, pass, kept, .. } => {
                report = report.about("instrument", instrument).about("plugin", plugin).about_file(file.as_deref());
                if let Some((position, pass)) = pass {
                    report = report.about("pass", pass).about("position", position.to_string());
                }
                report.notes.extend(file.as_ref().map(|file| format!("plugin file {}", file.display())));
                match kept {
                    Some(kept) => {
                        report.help(kept.help("the module at that point", "everything except this instrument"))
                    }
                    None => report,
                }
            }
            _ => report,
        }
    }

    /// Adds the number, pass and plugin of a failed step.
    fn of_step(&self, mut report: Report) -> Report {
        let Error::Step { position, kind, pass, plugin, file, function, place, kept, cause, .. } = self else {
            return report;
        };
        report = report.about("pass", pass).about("cause", cause.name());
        // Text that a pipeline writes does not belong to a plugin.
        if *kind == StepKind::Pass {
            report = report.about("plugin", plugin).about_file(file.as_deref());
        }
        report.about.extend(function.clone().map(|name| ("function", name)));
        report = report.about("position", position.to_string());
        if let Some((what, text, span)) = place {
            report = report.at(what, Arc::clone(text), span.clone(), "");
        }
        let function = function.as_ref().map(|name| format!("in function `{name}`"));
        let file = file.as_ref().map(|file| format!("plugin file {}", file.display()));
        report.notes.extend(function.into_iter().chain(file));
        if *cause == Cause::IllFormed {
            report.notes.push(format!(
                "the input is well-formed, so the fault is in pass `{pass}` or in an operator that it uses; use `--bundle FILE` to write a file \
                 for the author of plugin `{plugin}`"
            ));
        }
        report.help(kept.help("the module before this step", "the module before this step"))
    }
}

/// Joins the lines of a message, because documentation in messages keeps the line breaks of its source.
fn one_line(message: &str) -> String {
    message.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

fn with_remedy(report: Report, error: &RegistryError) -> Report {
    match error {
        RegistryError::UnknownPass { .. } => report.help("`passhost list` shows all available passes, and `passhost check` finds declared passes that a plugin does not export"),
        RegistryError::UnknownOperator { .. } => report.help("`passhost ops` shows all available operators, and `passhost check` finds declared operators that a plugin does not export"),
        RegistryError::UnknownInstrument { .. } => report.help("`passhost list` shows all available instruments"),
        _ => report,
    }
}

fn manifest_report(origin: &str, text: &Arc<str>, Problem { message, span, help }: &Problem) -> Report {
    let report = Report::error(format!("manifest {origin}: {message}")).help(help);
    match span {
        Some(span) => report.at(origin, Arc::clone(text), span.clone(), ""),
        None => report,
    }
}

fn input_report(origin: &str, text: &Arc<str>, diagnostic: &script::Diagnostic) -> Report {
    at_input(Report::error(&diagnostic.message), origin, text, diagnostic)
}

/// Builds the report of a warning about an input that was accepted.
pub(crate) fn input_warning(origin: &str, text: &Arc<str>, diagnostic: &script::Diagnostic) -> Report {
    at_input(Report::warning(&diagnostic.message), origin, text, diagnostic)
}

fn at_input(report: Report, origin: &str, text: &Arc<str>, diagnostic: &script::Diagnostic) -> Report {
    let mut report = report.at(origin, Arc::clone(text), diagnostic.span.clone(), &diagnostic.label);
    if let (Some((span, label)), Some(excerpt)) = (&diagnostic.other, report.excerpts.first_mut()) {
        excerpt.places.push(Place { span: span.clone(), label: label.clone(), primary: false });
    }
    report.help = diagnostic.help.clone();
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reports about one input share its text, so that thousands of reports fit in memory.
    #[test]
    fn reports_share_the_text() {
        let text: Arc<str> = "x = y\n".repeat(100).into();
        let diagnostic = script::Diagnostic {
            span: 0..1,
            label: String::new(),
            message: "wrong".to_string(),
            other: None,
            help: None,
        };
        let error = script::ReadError { diagnostics: vec![diagnostic; 100] };
        let error = Error::Input { origin: "a.py".to_string(), text: Arc::clone(&text), error };
        let reports = error.reports();
        assert_eq!(reports.len(), SHOWN + 1);
        assert!(reports.iter().flat_map(|report| &report.excerpts).all(|excerpt| Arc::ptr_eq(&excerpt.text, &text)));
        assert_eq!(reports[SHOWN].title, "... and 80 more errors in a.py");
    }
}
