//! Converts errors of the host to exceptions of the package.

use passhost::Error;
use passhost::plugin_api::PassError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// Function of the package that creates exceptions from host errors. Its arguments are the message, the error class,
/// the exit code of the command line, and the reports as lines of JSON.
static RAISE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// Returns the category of an error, which determines the exception class of the package.
fn class(error: &Error) -> &'static str {
    match error {
        Error::Several(all) => all.first().map_or("", class),
        Error::Entry { error, .. } => class(error),
        Error::Manifest { .. } | Error::Lockfile { .. } => "manifest",
        Error::Plugin { .. } | Error::Build { .. } | Error::Rule(_) => "plugin",
        Error::Registry(_) => "name",
        Error::Plan(_) => "plan",
        Error::Config { .. } => "config",
        Error::Input { .. } | Error::InputFile { .. } => "text",
        Error::IllFormed { .. } => "ill-formed",
        Error::Format(failure) if failure.code == passhost::report::error::exit::INPUT => "text",
        Error::Format(failure) if failure.code == passhost::report::error::exit::PLUGIN => "plugin",
        Error::Step { .. } => "step",
        Error::Instrument { .. } => "instrument",
        Error::Execution { .. } => "execution",
        _ => "",
    }
}

/// Returns the exception for an error of the host.
pub(crate) fn raised(py: Python<'_>, error: &Error) -> PyErr {
    raised_as(py, error, class(error))
}

/// Returns the exception for an error of the host, with a class that the package chooses by this name.
pub(crate) fn raised_as(py: Python<'_>, error: &Error, class: &str) -> PyErr {
    let reports: Vec<String> = error.reports().iter().map(passhost::report::Report::json).collect();
    let made = RAISE
        .import(py, "passhost.error", "of_host")
        .and_then(|raise| raise.call1((error.to_string(), class, error.exit_code(), reports)));
    made.map_or_else(|error| error, PyErr::from_value)
}

/// Returns the error for an ill-formed function.
pub(crate) fn ill_formed(py: Python<'_>, message: &str) -> PyErr {
    of_class(py, "IllFormedError", message)
}

/// Returns the error for a refused schedule primitive.
pub(crate) fn not_scheduled(py: Python<'_>, error: &PassError) -> PyErr {
    of_class(py, "ScheduleError", &error.message)
}

/// Returns an exception of a class of the package.
fn of_class(py: Python<'_>, class: &str, message: &str) -> PyErr {
    let made = py.import("passhost.error").and_then(|module| module.getattr(class)?.call1((message,)));
    made.map_or_else(|error| error, PyErr::from_value)
}
