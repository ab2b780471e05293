//! Diagnostics and counters that passes and instruments report while they run.

use super::Report;
use plugin_api::declare::diagnostics::Severity;
use registry::Registry;
use std::sync::Arc;

/// A diagnostic that a pass or an instrument reported.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PassDiagnostic {
    /// Full name of the pass.
    pub pass: String,
    /// Full name of the instrument, if one reported it.
    pub instrument: Option<String>,
    /// The severity.
    pub severity: Severity,
    /// The function that the diagnostic is about.
    pub function: Option<String>,
    /// The message.
    pub message: String,
    /// The text with its description, and the place in it.
    pub place: Option<ShownPlace>,
    /// Other places in that text, with their labels.
    pub labels: Vec<(std::ops::Range<usize>, String)>,
}

impl PassDiagnostic {
    /// Converts the diagnostic to a report, with the plugin that provides the pass.
    pub fn report(&self, registry: &Registry) -> Report {
        let mut report = match self.severity {
            Severity::Error => Report::error(&self.message),
            Severity::Warning => Report::warning(&self.message),
            Severity::Missed => Report::missed(&self.message),
            Severity::Matched => Report::matched(&self.message),
            _ => Report::remark(&self.message),
        };
        if let Some((what, text, span)) = &self.place {
            report = report.at(what, Arc::clone(text), span.clone(), "").with_places(self.labels.iter().cloned());
        }
        let function = self.function.as_ref().map_or(String::new(), |name| format!(", function `{name}`"));
        let whose = self.instrument.as_ref().map_or(String::new(), |name| format!("instrument {name}, at "));
        report = report.note(format!("from {whose}pass {}{function}", self.pass)).about("pass", &self.pass);
        if let Some(pass) = registry.find_full(&self.pass) {
            report = report.about_owner(registry.pass_owner(pass));
        }
        report.about.extend(self.function.clone().map(|name| ("function", name)));
        report.about.extend(self.instrument.clone().map(|name| ("instrument", name)));
        report
    }

    /// Adds another place, if it is in the same text as the main place.
    pub(crate) fn label(&mut self, place: Option<ShownPlace>, text: &str) {
        let same = |other: &ShownPlace| self.place.as_ref().is_some_and(|(_, text, _)| Arc::ptr_eq(text, &other.1));
        if let Some((_, _, span)) = place.filter(same) {
            self.labels.push((span, text.to_string()));
        }
    }
}

/// A place in a printed module: description, text, and range.
pub type ShownPlace = (String, Arc<str>, std::ops::Range<usize>);

/// A counter of a pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statistic {
    /// Full name of the pass or instrument.
    pub pass: String,
    /// Name of the counter.
    pub name: String,
    /// The sum.
    pub sum: u64,
}
