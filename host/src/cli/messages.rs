//! Messages of the command line on standard error, as text or as JSON.

use crate::report::Report;
use crate::report::error::Error;
use clap::ValueEnum;
use passhost_lang::names::FEW;
use std::io::Write;

/// The format of diagnostics, warnings, errors and summaries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// As text.
    #[default]
    Human,
    /// One line of JSON for each message.
    Json,
}

/// A writer of messages in the chosen format. It is passed by value to all code that reports
/// something.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Messages {
    format: Format,
}

impl Messages {
    pub(crate) fn new(format: Format) -> Messages {
        Messages { format }
    }

    /// Finds the message format in arguments that could not be parsed.
    pub(crate) fn of_arguments(mut arguments: impl Iterator<Item = String>) -> Messages {
        while let Some(argument) = arguments.next() {
            let value = match argument.strip_prefix("--message-format") {
                Some("") => arguments.next(),
                Some(rest) => rest.strip_prefix('=').map(str::to_string),
                None => None,
            };
            if value.as_deref() == Some("json") {
                return Messages::new(Format::Json);
            }
        }
        Messages::default()
    }

    pub(crate) fn is_json(self) -> bool {
        self.format == Format::Json
    }

    /// Writes a diagnostic, warning or error.
    pub(crate) fn report(self, report: &Report) {
        self.write(&if self.is_json() { report.json() } else { report.render(true) });
    }

    /// Writes the first of several reports of one kind, and the number of the remaining reports.
    pub(crate) fn reports(self, reports: impl ExactSizeIterator<Item = Report>, what: &str) {
        let more = reports.len().saturating_sub(FEW);
        reports.take(FEW).for_each(|report| self.report(&report));
        if more > 0 {
            self.report(&Report::remark(format!("... and {more} more {what}")));
        }
    }

    /// Writes all reports of an error, and returns its exit code.
    pub(crate) fn error(self, error: &Error) -> u8 {
        error.reports().iter().for_each(|report| self.report(report));
        error.exit_code()
    }

    /// Writes a line of text among the reports.
    pub(crate) fn tell(self, line: &str) {
        match self.format {
            Format::Human => self.write(&format!("{line}\n")),
            Format::Json => self.report(&Report::remark(line)),
        }
    }

    /// Writes a text unchanged; in JSON, as `{"KIND": TEXT}`.
    pub(crate) fn text(self, kind: &str, text: &str) {
        match self.format {
            Format::Human => self.write(text),
            Format::Json => self.data(kind, text.into()),
        }
    }

    /// Writes data as JSON: `{"KIND": DATA}`.
    pub(crate) fn data(self, kind: &str, data: serde_json::Value) {
        self.write(&format!("{}\n", serde_json::json!({ kind: data })));
    }

    /// Writes a text; with the JSON format, writes the data instead.
    pub(crate) fn table(self, kind: &str, text: impl FnOnce() -> String, data: impl FnOnce() -> serde_json::Value) {
        match self.format {
            Format::Human => self.write(&text()),
            Format::Json => self.data(kind, data()),
        }
    }

    fn write(self, text: &str) {
        let _ = anstream::stderr().lock().write_all(text.as_bytes());
    }
}

/// Writes log events. Each event is written with one call.
pub(crate) struct LogWriter(pub(crate) Messages);

impl Write for LogWriter {
    fn write(&mut self, event: &[u8]) -> std::io::Result<usize> {
        match self.0.format {
            Format::Human => std::io::stderr().lock().write_all(event)?,
            Format::Json => self.0.data("log", String::from_utf8_lossy(event).trim_end().into()),
        }
        Ok(event.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        std::io::stderr().flush()
    }
}
