//! Applies only the first rewrites of each pass in a function, to find a harmful rewrite.

use crate::report::said::PassDiagnostic;
use passhost_lang::ir::{Module, SealError};
use plugin_api::declare::diagnostics::Severity;
use std::fmt;

/// The maximum number of rewrites that a pass may apply in a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rewrites {
    /// The function; `None` for every function.
    pub function: Option<String>,
    /// The maximum number of rewrites.
    pub most: u32,
}

/// Returns the limit for a function. A limit for the function itself overrides the general limit.
fn limit_of(limits: &[Rewrites], function: &str) -> Option<u32> {
    let of = |name: Option<&str>| limits.iter().rfind(|limit| limit.function.as_deref() == name);
    of(Some(function)).or_else(|| of(None)).map(|limit| limit.most)
}

/// Writes the form that `--rewrites` takes: `7`, or `main=7`.
impl fmt::Display for Rewrites {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.function.iter().try_for_each(|name| write!(f, "{name}="))?;
        write!(f, "{}", self.most)
    }
}

const APPLIED: &str = "rewrites applied: ";
const NEXT: &str = "; the next one is at `";

/// Formats a note such as ``rewrites applied: 6; the next one is at `lv3` ``.
fn said(applied: u32, next: Option<&str>) -> String {
    format!("{APPLIED}{applied}{}", next.map_or(String::new(), |name| format!("{NEXT}{name}`")))
}

/// Parses the text of `said`: the number of rewrites, and the place of the next rewrite.
pub fn heard(message: &str) -> Option<(u32, Option<&str>)> {
    let rest = message.strip_prefix(APPLIED)?;
    let (applied, next) = rest.split_once(NEXT).map_or((rest, None), |(applied, next)| (applied, Some(next)));
    Some((applied.parse().ok()?, next.map(|next| next.trim_end_matches('`'))))
}

/// Returns the module as a pass gets it: each function with its limit.
pub(in crate::run) fn limited(limits: &[Rewrites], module: &Module) -> Result<Module, SealError> {
    if limits.is_empty() {
        return Ok(module.clone());
    }
    module.map_functions(|name, body| {
        let limit = limit_of(limits, name);
        Ok(if limit.is_some() { body.limited_to(limit) } else { body.clone() })
    })
}

/// Removes the limits from the result of a pass, and adds remarks on the number of rewrites applied in each function. `before` is the
/// module before the pass without limits, and `limited` is the same module with limits.
pub(in crate::run) fn unlimited(
    pass: &str,
    (before, limited): (&Module, &Module),
    after: &Module,
    remarks: &mut Vec<PassDiagnostic>,
) -> Result<Module, SealError> {
    after.map_functions(|name, body| {
        let Some(applied) = body.rewrites() else { return Ok(body.clone()) };
        if applied > 0 || body.next_rewrite().is_some() {
            remarks.push(PassDiagnostic {
                pass: pass.to_string(),
                instrument: None,
                severity: Severity::Remark,
                function: Some(name.to_string()),
                message: said(applied, body.next_rewrite()),
                place: None,
                labels: Vec::new(),
            });
        }
        let same = limited.get(name).filter(|given| given.same(body)).and_then(|_| before.get(name));
        Ok(same.cloned().unwrap_or_else(|| body.limited_to(None)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_for_one_function_counts_first() {
        let limit = |function: Option<&str>, most| Rewrites { function: function.map(str::to_string), most };
        let limits = [limit(Some("f"), 7), limit(None, 0)];
        assert_eq!((limit_of(&limits, "f"), limit_of(&limits, "g")), (Some(7), Some(0)));
        assert_eq!((limit_of(&limits[..1], "g"), limit_of(&[], "f")), (None, None));
        assert_eq!(limits.map(|limit| limit.to_string()), ["f=7", "0"]);
    }

    #[test]
    fn what_is_said_is_heard() {
        for next in [None, Some("lv3")] {
            assert_eq!(heard(&said(6, next)), Some((6, next)));
        }
        assert_eq!(heard("rewrites applied: many"), None);
        assert_eq!(heard("something else"), None);
    }
}
