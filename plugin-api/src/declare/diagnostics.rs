//! What a pass says about the IR while it goes on.

use crate::declare::pass::Ctx;
use crate::ir::Value;

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

    /// Reports something, also without a place.
    pub fn report(self, severity: Severity, at: Option<Value<'_>>, message: &str) {
        self.ctx.diagnose(severity, self.function, at, message);
    }
}
