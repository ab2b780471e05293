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
}

/// A place in a printed module: what is shown, the text, and the range in it.
pub type ShownPlace = (String, Arc<str>, std::ops::Range<usize>);
