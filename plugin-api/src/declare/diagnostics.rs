//! Reports of a pass about the IR while it runs.

use crate::declare::pass::Ctx;
use crate::ir::Value;
use crate::pattern::Wanted;

pub use crate::services::Severity;

/// Reports errors, warnings and remarks of a pass; returned by [`Ctx::diagnostics`]. The host shows them as
/// underlined TVMScript with pass, plugin and function, in the order of a single-threaded run. After an error, the
/// pass continues, and fails when it returns.
///
/// ```
/// use plugin_api::prelude::*;
///
/// fn look(function: &Body, ctx: &Ctx) {
///     for call in function.values().filter_map(Value::as_call) {
///         if call.op() == Some("relax.nn.dropout") {
///             ctx.diagnostics().warning(call.value(), "dropout does nothing in inference");
///         }
///     }
/// }
/// ```
#[derive(Clone, Copy)]
pub struct Diagnostics<'a> {
    pub(crate) ctx: &'a Ctx,
    /// Empty for the current function.
    pub(crate) function: &'a str,
}

impl<'a> Diagnostics<'a> {
    /// Sets the function that contains the values. Needed only in module passes; for other passes, the host tracks
    /// the current function.
    pub fn in_function(self, name: &'a str) -> Diagnostics<'a> {
        Diagnostics { function: name, ..self }
    }

    /// Reports an error at a value; the pass continues.
    pub fn error(self, at: Value<'_>, message: &str) {
        self.report(Severity::Error, Some(at), message);
    }

    /// Reports a warning at a value.
    pub fn warning(self, at: Value<'_>, message: &str) {
        self.report(Severity::Warning, Some(at), message);
    }

    /// Reports a remark at a value.
    pub fn remark(self, at: Value<'_>, message: &str) {
        self.report(Severity::Remark, Some(at), message);
    }

    /// Reports an optimization that the pass could not apply at a value, and the reason. Such reports are shown only
    /// on request (`passhost run --missed`), so a pass may make many; see [`Diagnostics::wants_missed`].
    pub fn missed(self, at: Value<'_>, message: &str) {
        self.report(Severity::Missed, Some(at), message);
    }

    /// Returns true if the user requested reports of missed opportunities; use this if finding the reason is
    /// expensive.
    pub fn wants_missed(self) -> bool {
        self.ctx.wants_missed(self.function) != Wanted::Nothing
    }

    /// Adds labelled places to the last diagnostic.
    pub fn labels<'v>(self, labels: impl IntoIterator<Item = (Value<'v>, impl AsRef<str>)>) {
        for (at, text) in labels {
            self.ctx.label(self.function, at, text.as_ref());
        }
    }

    /// Reports a diagnostic, with or without a place.
    pub fn report(self, severity: Severity, at: Option<Value<'_>>, message: &str) {
        self.ctx.diagnose(severity, self.function, at, message);
    }
}
