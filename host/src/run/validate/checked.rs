//! A pass with its verdict, in the form that is displayed.

use super::compare::Mismatch;
use super::coverage::Coverage;
use super::steps::ValidatedStep;
use super::verdict::{Difference, Same, Verdict, What};
use passhost_lang::metadata::Tolerance;
use passhost_lang::names::counted;
use serde_json::{Value, json};

/// A pass with its verdict, without the modules.
#[derive(Clone, Debug)]
pub struct Checked {
    /// Number of the step in the plan.
    pub position: usize,
    /// Full name of the pass.
    pub pass: String,
    /// The plugin that provides the pass.
    pub plugin: String,
    /// The tolerance in the pass's contract.
    pub tolerance: Tolerance,
    /// The result of the validation.
    pub verdict: Verdict,
}

impl Checked {
    /// Builds a row from a step and its verdict.
    pub fn new(step: &ValidatedStep, verdict: Verdict) -> Checked {
        let (pass, plugin) = (step.pass.clone(), step.plugin.clone());
        Checked { position: step.position, pass, plugin, tolerance: step.tolerance, verdict }
    }

    /// Returns the verdict in a word or two.
    pub fn word(&self) -> &'static str {
        match self.verdict {
            Verdict::Unchanged => "unchanged",
            Verdict::Same(_) => "same",
            Verdict::Different(_) => "different",
            Verdict::NotValidated { .. } => "not validated",
            Verdict::CheckerFailed { .. } => "checker failed",
        }
    }

    /// Returns a line that describes the comparison, the difference, or the reason why nothing was
    /// compared.
    pub fn what(&self) -> String {
        match &self.verdict {
            Verdict::Unchanged => String::new(),
            Verdict::Same(same) => said_of_same(same),
            Verdict::Different(difference) => said_of(difference),
            Verdict::NotValidated { why } | Verdict::CheckerFailed { why } => why.clone(),
        }
    }

    /// Returns a line of JSON, for programs.
    pub fn json(&self) -> String {
        self.value().to_string()
    }

    pub(crate) fn value(&self) -> Value {
        let mut out = json!({
            "step": self.position, "pass": self.pass, "plugin": self.plugin, "tolerance": self.tolerance.to_string(),
            "verdict": self.word().replace(' ', "_"),
        });
        let mut put = |key: &str, value: Value| out[key] = value;
        match &self.verdict {
            Verdict::Unchanged => {}
            Verdict::Same(same) => {
                put("functions", same.functions.into());
                put("inputs", same.inputs.into());
                put("largest_error", json!(same.largest));
                put("coverage", covered(&same.coverage));
            }
            Verdict::NotValidated { why } | Verdict::CheckerFailed { why } => put("why", why.as_str().into()),
            Verdict::Different(difference) => {
                put("function", difference.function.as_str().into());
                put("input", (difference.case.number + 1).into());
                put("dims", json!(difference.case.dims));
                put("values", difference.case.range.name().into());
                let (key, what) = what(&difference.what);
                put(key, what);
                put("binding", difference.binding.as_ref().map_or(Value::Null, |binding| {
                    let mismatch = binding.mismatch.as_ref().map_or(Value::Null, mismatched);
                    json!({
                        "function": binding.function, "name": binding.name, "text": binding.text, "value": binding.value,
                        "mismatch": mismatch,
                    })
                }));
            }
        }
        out
    }
}

/// Formats a numeric difference with three digits.
pub(crate) fn short(error: f64) -> String {
    if error.is_infinite() { "infinite".to_string() } else { format!("{error:.2e}") }
}

fn said_of_same(same: &Same) -> String {
    let (functions, inputs) = (counted(same.functions, "function"), counted(same.inputs, "input"));
    let executed = format!("{functions}, {inputs}: {}", same.coverage.short());
    match same.largest > 0.0 {
        true => format!("{executed}, largest error {}", short(same.largest)),
        false => executed,
    }
}

fn said_of(difference: &Difference) -> String {
    let function = &difference.function;
    match &difference.what {
        What::Value { output, mismatch: Mismatch::Elements { error, .. } } => {
            format!("`{function}`: {output} by {}", short(*error))
        }
        What::Value { output, .. } => format!("`{function}`: {output} has a different kind"),
        What::Fails { .. } => format!("`{function}` can no longer be executed"),
        What::Accepts { .. } => format!("`{function}` lost an assertion"),
        What::Unordered { .. } => format!("`{function}` depends on the order of execution"),
        What::Signature { .. } => format!("`{function}` takes different arguments"),
        What::Gone => format!("`{function}` was removed"),
    }
}

fn what(what: &What) -> (&'static str, Value) {
    match what {
        What::Value { output, mismatch } => {
            let mut value = mismatched(mismatch);
            value["name"] = output.as_str().into();
            ("output", value)
        }
        What::Fails { why } => ("error", why.as_str().into()),
        What::Accepts { why } => ("assertion", why.as_str().into()),
        What::Unordered { why } => ("order", why.as_str().into()),
        What::Signature { why } => ("signature", why.as_str().into()),
        What::Gone => ("signature", "gone".into()),
    }
}

fn covered(coverage: &Coverage) -> Value {
    let ranges: Vec<&str> = coverage.ranges.iter().map(|range| range.name()).collect();
    let left_out: Vec<&str> = coverage.left_out.iter().map(|aim| aim.name()).collect();
    json!({
        "values": ranges, "sizes": coverage.sizes, "left_out": left_out,
        "branches": { "reached": coverage.parts.0, "of": coverage.parts.1 },
        "loops": { "reached": coverage.loops.0, "of": coverage.loops.1 },
        "mode": coverage.mode.map(|mode| json!({ "of": mode.of, "calls": mode.calls })),
        "watched": coverage.watched, "violations": coverage.violations, "refused": coverage.refused,
    })
}

fn mismatched(mismatch: &Mismatch) -> Value {
    match mismatch {
        Mismatch::Kind { before, after } => json!({ "before": before, "after": after }),
        Mismatch::Elements { index, before, after, error, allowed, wrong, of } => json!({
            "index": index, "before": before, "after": after, "allowed": allowed, "wrong": wrong, "of": of,
            // JSON cannot represent infinity.
            "error": if error.is_finite() { json!(error) } else { "infinite".into() },
        }),
    }
}
