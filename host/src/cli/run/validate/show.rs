//! Verdicts as a table and as JSON.

use crate::cli::show::table;
use crate::run::validate::{Difference, Mismatch, Same, ValidatedStep, Verdict, What};
use plugin_api::metadata::Tolerance;
use plugin_api::names::visible::visible_line;
use serde_json::{Value, json};
use std::fmt::Write;

/// A pass with its verdict, without the modules.
pub(super) struct Checked {
    position: usize,
    pass: String,
    plugin: String,
    tolerance: Tolerance,
    pub(super) verdict: Verdict,
}

impl Checked {
    pub(super) fn new(step: &ValidatedStep, verdict: Verdict) -> Checked {
        let (pass, plugin) = (step.pass.clone(), step.plugin.clone());
        Checked { position: step.position, pass, plugin, tolerance: step.tolerance, verdict }
    }

    fn word(&self) -> &'static str {
        match self.verdict {
            Verdict::Unchanged => "unchanged",
            Verdict::Same(_) => "same",
            Verdict::Different(_) => "different",
            Verdict::NotValidated { .. } => "not validated",
            Verdict::CheckerFailed { .. } => "checker failed",
        }
    }

    fn what(&self) -> String {
        match &self.verdict {
            Verdict::Unchanged => String::new(),
            Verdict::Same(same) => said_of_same(same),
            Verdict::Different(difference) => said_of(difference),
            Verdict::NotValidated { why } | Verdict::CheckerFailed { why } => why.clone(),
        }
    }
}

fn plural(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// A difference of numbers with three digits.
fn short(error: f64) -> String {
    if error.is_infinite() { "infinite".to_string() } else { format!("{error:.2e}") }
}

fn said_of_same(same: &Same) -> String {
    let executed = format!("{}, {}", plural(same.functions, "function"), plural(same.inputs, "input"));
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
        What::Value { output, .. } => format!("`{function}`: {output} is of another kind"),
        What::Fails { .. } => format!("`{function}` cannot be executed any more"),
        What::Signature { .. } => format!("`{function}` takes other arguments"),
        What::Gone => format!("`{function}` is gone"),
    }
}

/// For people: a table, and each difference in full.
pub(super) fn text(checked: &[Checked], seed: u64) -> String {
    let mut rows = vec![["STEP", "PASS", "PLUGIN", "VERDICT", "WHAT"].map(str::to_string).to_vec()];
    for one in checked {
        let (step, word) = (one.position.to_string(), one.word().to_string());
        rows.push(vec![step, one.pass.clone(), one.plugin.clone(), word, one.what()]);
    }
    if checked.is_empty() {
        return "no pass ran\n".to_string();
    }
    let mut out = table(&rows);
    for one in checked {
        if let Verdict::Different(difference) = &one.verdict {
            out.push('\n');
            full(&mut out, one, difference, seed);
        }
    }
    out
}

/// A place in a tensor: `[3, 0]`.
fn indexed(index: &[i64]) -> String {
    if index.is_empty() { String::new() } else { format!("{index:?}") }
}

fn told(mismatch: &Mismatch) -> String {
    match mismatch {
        Mismatch::Kind { before, after } => format!("{before} before, {after} after"),
        Mismatch::Elements { index, before, after, error, allowed, wrong, of } => {
            let place = match indexed(index) {
                text if text.is_empty() => String::new(),
                text => format!("at {text}: "),
            };
            let allowed = if *allowed > 0.0 { format!(", allowed {}", short(*allowed)) } else { String::new() };
            let count = if *of > 1 { format!(", {wrong} of {of} elements") } else { String::new() };
            format!("{place}{before} before, {after} after, error {}{allowed}{count}", short(*error))
        }
    }
}

fn full(out: &mut String, one: &Checked, difference: &Difference, seed: u64) {
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut row = |what: &str, text: String| rows.push(vec![format!("  {what}"), text]);
    row("contract", one.tolerance.to_string());
    match &difference.what {
        What::Value { output, mismatch } => row(output, told(mismatch)),
        What::Fails { why } => row("error", why.clone()),
        What::Signature { why } => row("signature", why.clone()),
        What::Gone => row("signature", "the module after the pass does not have the function".to_string()),
    }
    if let Some(binding) = &difference.binding {
        let name = binding.name.as_ref().map_or("the result".to_string(), |name| format!("`{name}`"));
        row("first in", format!("{name} of `{}`: {}", binding.function, binding.text));
        row("its value", binding.mismatch.as_ref().map_or_else(|| binding.value.clone(), told));
    }
    let dims: String = difference.case.dims.iter().map(|(name, extent)| format!(", {name} = {extent}")).collect();
    row("input", format!("--seed {seed}, input {}{dims}", difference.case.number + 1));
    let title = format!("{} of plugin `{}` changed what `{}` computes", one.pass, one.plugin, difference.function);
    let _ = writeln!(out, "{}", visible_line(&title));
    out.push_str(&table(&rows));
}

/// For programs.
pub(super) fn json(checked: &[Checked], seed: u64) -> String {
    format!("{}\n", json!({ "seed": seed, "passes": values(checked) }))
}

/// A list with an object for each pass.
pub(super) fn values(checked: &[Checked]) -> Value {
    checked.iter().map(value).collect()
}

fn value(one: &Checked) -> Value {
    let mut out = json!({
        "step": one.position, "pass": one.pass, "plugin": one.plugin, "tolerance": one.tolerance.to_string(),
        "verdict": one.word().replace(' ', "_"),
    });
    let mut put = |key: &str, value: Value| out[key] = value;
    match &one.verdict {
        Verdict::Unchanged => {}
        Verdict::Same(same) => {
            put("functions", same.functions.into());
            put("inputs", same.inputs.into());
            put("largest_error", json!(same.largest));
        }
        Verdict::NotValidated { why } | Verdict::CheckerFailed { why } => put("why", why.as_str().into()),
        Verdict::Different(difference) => {
            put("function", difference.function.as_str().into());
            put("input", (difference.case.number + 1).into());
            put("dims", json!(difference.case.dims));
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

fn what(what: &What) -> (&'static str, Value) {
    match what {
        What::Value { output, mismatch } => {
            let mut value = mismatched(mismatch);
            value["name"] = output.as_str().into();
            ("output", value)
        }
        What::Fails { why } => ("error", why.as_str().into()),
        What::Signature { why } => ("signature", why.as_str().into()),
        What::Gone => ("signature", "gone".into()),
    }
}

fn mismatched(mismatch: &Mismatch) -> Value {
    match mismatch {
        Mismatch::Kind { before, after } => json!({ "before": before, "after": after }),
        Mismatch::Elements { index, before, after, error, allowed, wrong, of } => json!({
            "index": index, "before": before, "after": after, "allowed": allowed, "wrong": wrong, "of": of,
            // JSON has no infinity.
            "error": if error.is_finite() { json!(error) } else { "infinite".into() },
        }),
    }
}
