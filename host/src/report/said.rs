//! What passes and instruments report while they run.

use plugin_api::declare::diagnostics::Severity;
use std::sync::Arc;

/// A diagnostic that a pass or an instrument reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassDiagnostic {
    /// Full name of the pass.
    pub pass: String,
    /// Full name of the instrument, if it was one.
    pub instrument: Option<String>,
    /// How bad it is.
    pub severity: Severity,
    /// Function that it is about.
    pub function: Option<String>,
    /// What it says.
    pub message: String,
    /// What the text shows, the text, and the place in it.
    pub place: Option<ShownPlace>,
    /// Other places in that text, and what to write there.
    pub labels: Vec<(std::ops::Range<usize>, String)>,
}

impl PassDiagnostic {
    /// Adds another place, if it is in the text that shows the first one.
    pub(crate) fn label(&mut self, place: Option<ShownPlace>, text: &str) {
        let same = |other: &ShownPlace| self.place.as_ref().is_some_and(|(_, text, _)| Arc::ptr_eq(text, &other.1));
        if let Some((_, _, span)) = place.filter(same) {
            self.labels.push((span, text.to_string()));
        }
    }
}

/// A place in a printed module: what is shown, the text, and the range in it.
pub type ShownPlace = (String, Arc<str>, std::ops::Range<usize>);

/// A counter of a pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statistic {
    /// Full name of the pass, or of the instrument that counted.
    pub pass: String,
    /// Name of the counter.
    pub name: String,
    /// What was added up.
    pub sum: u64,
}
