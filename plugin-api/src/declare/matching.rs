//! Pattern matchers of passes, which report through the context.

use crate::declare::diagnostics::Severity;
use crate::declare::pass::Ctx;
use crate::ir::{AttrsId, BodyBuilder, Type, Value};
use crate::names::did_you_mean;
use crate::pattern::{Explanation, Matcher, Pattern, Reporter, Wanted};
use crate::services;
use crate::typing::operators::InferError;
use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::Arc;

thread_local! {
    /// Operators in patterns that are known to be declared.
    static DECLARED: RefCell<HashSet<Arc<str>>> = RefCell::default();
}

impl Ctx {
    /// Returns a matcher for a pattern. The matcher reports failed matches on request: `passhost run --missed`
    /// shows every partial match, and `passhost explain-match` the result at one place.
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
    ///
    /// An undeclared operator that is similar to a declared operator causes a warning, because the pattern never
    /// matches.
    pub fn matcher<'c>(&'c self, pattern: &Pattern) -> Matcher<'c> {
        let matcher = Matcher::new(pattern).reports_to(self);
        if self.run().is_some() {
            matcher.operators().for_each(|name| self.look_for_operator(name));
        }
        matcher
    }

    fn look_for_operator(&self, name: &Arc<str>) {
        if DECLARED.with_borrow(|known| known.contains(name)) {
            return;
        }
        match near_operators(name) {
            None => drop(DECLARED.with_borrow_mut(|known| known.insert(Arc::clone(name)))),
            Some(near) if near.is_empty() => {}
            Some(near) => {
                let near = did_you_mean(&near);
                self.warn_of_all(&format!("a pattern contains the operator `{name}`, which no plugin declares{near}"));
            }
        }
    }
}

/// Returns the declared operators with names similar to `name`; `None` if `name` is declared, or if the declared
/// operators are unknown.
fn near_operators(name: &str) -> Option<Vec<String>> {
    let mut b = BodyBuilder::new();
    b.begin_function(0, AttrsId::NONE, None);
    let (op, ty) = (b.op(name), b.ty(&Type::Object));
    let call = b.call(op, &[], AttrsId::NONE, ty, false, None);
    b.end_function(call, ty);
    let body = b.finish().ok()?;
    let call = body.values().find_map(Value::as_call)?;
    match services::infer(call) {
        Err(InferError::UnknownOp { near, .. }) => Some(near),
        _ => None,
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
                // A value without a position is shown at the root.
                diagnostics.missed(if failed.index().is_some() { failed } else { at }, &message);
            }
        }
        let labels = explanation.matched().iter().filter(|(value, _)| Some(*value) != explanation.failed_at());
        diagnostics.labels(labels.map(|(value, text)| (*value, text)));
    }
}
