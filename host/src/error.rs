//! Everything that can stop the host, with its exit code and its report.

use crate::report::{Place, Report};
use registry::{PlanError, RegistryError};
use std::ops::Range;
use std::path::PathBuf;

/// Exit codes of the command line.
pub mod exit {
    /// Done.
    pub const DONE: u8 = 0;
    /// The input module is wrong.
    pub const INPUT: u8 = 1;
    /// The request is wrong.
    pub const REQUEST: u8 = 2;
    /// A plugin failed.
    pub const PLUGIN: u8 = 3;
    /// A fault of passhost itself.
    pub const FAULT: u8 = 4;
}

/// What stopped the host.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The manifest cannot be read.
    #[error("manifest {}: {message}", path.display())]
    Manifest {
        /// Its path.
        path: PathBuf,
        /// What is wrong.
        message: String,
        /// Its text, and the place in it.
        place: Option<(String, Range<usize>)>,
        /// What to do.
        help: String,
    },
    /// A plugin is refused before any of its code ran, or when it was opened.
    #[error("plugin {}: {message}", path.display())]
    Plugin {
        /// Its path.
        path: PathBuf,
        /// What was found.
        message: String,
        /// What to do.
        help: String,
    },
    /// A plugin crate does not build.
    #[error("plugin crate {}: {message}", path.display())]
    Build {
        /// Folder of the crate.
        path: PathBuf,
        /// What happened.
        message: String,
        /// What cargo and the compiler said.
        output: String,
    },
    /// Names clash or are unknown.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The request cannot be planned.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The request is wrong in another way.
    #[error("{message}")]
    Request {
        /// What was found.
        message: String,
        /// What to do.
        help: String,
    },
    /// The input cannot be read as a file.
    #[error("input {origin}: {message}")]
    InputFile {
        /// Path or `<stdin>`.
        origin: String,
        /// What is wrong.
        message: String,
        /// What to do.
        help: String,
    },
    /// The input is no module.
    #[error("{origin}: {error}")]
    Input {
        /// Path or `<stdin>`.
        origin: String,
        /// Its text.
        text: String,
        /// What is wrong.
        error: script::ReadError,
    },
    /// The module that was read does not hold together.
    #[error("{origin}: {message}")]
    IllFormed {
        /// Path or `<stdin>`.
        origin: String,
        /// What is wrong.
        message: String,
        /// The module as text, and the place in it.
        place: Option<(String, Range<usize>)>,
    },
    /// A step failed.
    #[error("step {position}, pass `{pass}` of plugin `{plugin}`: {message}")]
    Step {
        /// Position among the steps that ran, from 1.
        position: usize,
        /// Full name of the pass.
        pass: String,
        /// Plugin.
        plugin: String,
        /// File of the plugin.
        file: Option<PathBuf>,
        /// Function, where one is known.
        function: Option<String>,
        /// What happened.
        message: String,
        /// What the text shows, the text, and the place in it.
        place: Option<(String, String, Range<usize>)>,
    },
    /// The output cannot be written.
    #[error("output {}: {message}", path.display())]
    Output {
        /// Its path.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
}

impl Error {
    /// Exit code of the command line.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Input { .. } | Error::InputFile { .. } | Error::IllFormed { .. } => exit::INPUT,
            Error::Manifest { .. } | Error::Registry(_) | Error::Plan(_) | Error::Request { .. } => exit::REQUEST,
            Error::Output { .. } => exit::REQUEST,
            Error::Plugin { .. } | Error::Build { .. } | Error::Step { .. } => exit::PLUGIN,
        }
    }

    /// What to show: one report, or one for each diagnostic of the input.
    pub fn reports(&self) -> Vec<Report> {
        match self {
            Error::Input { origin, text, error } => {
                error.diagnostics.iter().map(|diagnostic| input_report(origin, text, diagnostic)).collect()
            }
            Error::Manifest { path, message, place, help } => {
                let report = Report::error(format!("manifest {}: {message}", path.display())).help(help);
                vec![match place {
                    Some((text, span)) => report.at(path.display().to_string(), text, span.clone(), ""),
                    None => report,
                }]
            }
            Error::Plugin { help, .. } | Error::Request { help, .. } | Error::InputFile { help, .. } => {
                vec![Report::error(self.to_string()).help(help)]
            }
            Error::Build { output, .. } if output.trim().is_empty() => vec![Report::error(self.to_string())],
            Error::Build { output, .. } => vec![Report::error(self.to_string()).note(output.trim_end())],
            Error::IllFormed { origin, message, place } => {
                let report = Report::error(message.clone()).note(format!("in {origin}, as printed after reading"));
                vec![match place {
                    Some((text, span)) => report.at(origin.clone(), text, span.clone(), ""),
                    None => report,
                }]
            }
            Error::Step { file, function, place, .. } => {
                let mut report = Report::error(self.to_string());
                if let Some((what, text, span)) = place {
                    report = report.at(what.clone(), text, span.clone(), "");
                }
                let function = function.as_ref().map(|name| format!("in function `{name}`"));
                let file = file.as_ref().map(|file| format!("plugin file {}", file.display()));
                report.notes.extend(function.into_iter().chain(file));
                vec![report.help("the input module is unharmed; nothing was written")]
            }
            other => vec![Report::error(other.to_string())],
        }
    }
}

fn input_report(origin: &str, text: &str, diagnostic: &script::Diagnostic) -> Report {
    let mut report = Report::error(&diagnostic.message);
    report = report.at(origin, text, diagnostic.span.clone(), &diagnostic.label);
    if let (Some((span, label)), Some(excerpt)) = (&diagnostic.other, report.excerpts.first_mut()) {
        excerpt.places.push(Place { span: span.clone(), label: label.clone(), primary: false });
    }
    report.help = diagnostic.help.clone();
    report
}
