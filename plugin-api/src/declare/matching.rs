//! Patterns in a pass: matchers that report through its context.

use crate::declare::diagnostics::Severity;
use crate::declare::pass::Ctx;
use crate::ir::Value;
use crate::pattern::{Explanation, Matcher, Pattern, Reporter, Wanted};

impl Ctx {
    /// A matcher of a pattern. It reports why the pattern did not match, if the user asks for that: `passhost run --missed`
    /// shows each place at which a pattern began to match, and `passhost explain-match` one place.
    ///
    /// ```
    /// use plugin_api::prelude::*;
    ///
    /// /// relu(relu(x)) = relu(x)
    /// fn fold(body: &Body, ctx: &Ctx) -> Result<Body, PassError> {
    ///     let inner = is_op("relax.nn.relu", ..).bind("inner");
    ///     let pattern = is_op("relax.nn.relu", [inner]);
    ///     ctx.matcher(&pattern).rewrite(body, |found, rw| Ok(Action::Replace(rw.v(found.get("inner")?))))
    /// }
    /// ```
    pub fn matcher<'c>(&'c self, pattern: &Pattern) -> Matcher<'c> {
        Matcher::new(pattern).reports_to(self)
    }
}

impl Reporter for Ctx {
    fn wanted(&self, function: &str) -> Wanted {
        self.wants_missed(function)
    }

    fn tried(&self, function: &str, at: Value<'_>, pattern: &Pattern, explanation: &Explanation<'_>) {
        let diagnostics = self.diagnostics().in_function(function);
        let name = at.name().map_or_else(|| "a nested expression".to_string(), |name| format!("`{name}`"));
        match explanation.failed_at() {
            None => diagnostics.report(Severity::Matched, Some(at), &format!("{name} matches {pattern}")),
            Some(failed) => {
                let message = format!("{name} does not match {pattern}: {explanation}");
                // What has no place of its own is shown at the root.
                diagnostics.missed(if failed.index().is_some() { failed } else { at }, &message);
            }
        }
        let labels = explanation.matched().iter().filter(|(value, _)| Some(*value) != explanation.failed_at());
        diagnostics.labels(labels.map(|(value, text)| (*value, text)));
    }
}
