//! What a pass says about the IR while it goes on.

use crate::declare::pass::Ctx;
use crate::ir::Value;
use crate::pattern::Wanted;

pub use crate::services::Severity;

/// Errors, warnings and remarks of a pass, from [`Ctx::diagnostics`]. The host shows them as underlined TVMScript with
/// pass, plugin and function, in the order in which one thread would report them; after an error the pass goes on, and
/// fails when it returns.
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
    /// Empty for the one that is being worked on.
    pub(crate) function: &'a str,
}

impl<'a> Diagnostics<'a> {
    /// Says in which function of the module the values lie. Only a module pass has to: of the others the host knows on
    /// which function they work.
    pub fn in_function(self, name: &'a str) -> Diagnostics<'a> {
        Diagnostics { function: name, ..self }
    }

    /// Reports an error at a value; the pass goes on.
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

    /// Reports what the pass could not do at a value, and why. It is shown only to users who ask for it
    /// (`passhost run --missed`), so it may be said often; [`Diagnostics::wants_missed`] says whether anyone asks.
    pub fn missed(self, at: Value<'_>, message: &str) {
        self.report(Severity::Missed, Some(at), message);
    }

    /// Whether the user asks for what passes miss: where finding the reason costs something.
    pub fn wants_missed(self) -> bool {
        self.ctx.wants_missed(self.function) != Wanted::Nothing
    }

    /// Adds places to the diagnostic that was reported last, with what to write at each.
    pub fn labels<'v>(self, labels: impl IntoIterator<Item = (Value<'v>, impl AsRef<str>)>) {
        for (at, text) in labels {
            self.ctx.label(self.function, at, text.as_ref());
        }
    }

    /// Reports something, also without a place.
    pub fn report(self, severity: Severity, at: Option<Value<'_>>, message: &str) {
        self.ctx.diagnose(severity, self.function, at, message);
    }
}
