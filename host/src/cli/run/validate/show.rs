//! Renders verdicts as a table and as JSON.

use crate::cli::show::table;
use crate::run::validate::{Checked, Difference, Mismatch, Verdict, What, short};
use passhost_lang::names::visible::visible_line;
use serde_json::{Value, json};
use std::fmt::Write;

/// Renders the verdicts as a table, followed by each difference in full.
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

/// Formats a position in a tensor, as in `[3, 0]`.
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
        What::Accepts { why } => row("lost", format!("{why}; after the pass, the function accepts this input")),
        What::Unordered { why } => row("order", why.clone()),
        What::Signature { why } => row("signature", why.clone()),
        What::Gone => row("signature", "the function is missing in the module after the pass".to_string()),
    }
    if let Some(binding) = &difference.binding {
        let name = binding.name.as_ref().map_or("the result".to_string(), |name| format!("`{name}`"));
        row("first in", format!("{name} of `{}`: {}", binding.function, binding.text));
        row("its value", binding.mismatch.as_ref().map_or_else(|| binding.value.clone(), told));
    }
    let dims: String = difference.case.dims.iter().map(|(name, extent)| format!(", {name} = {extent}")).collect();
    let (number, values) = (difference.case.number + 1, difference.case.range.name());
    row("input", format!("--seed {seed}, input {number}, {values} values{dims}"));
    let title = format!("{} of plugin `{}` changed what `{}` computes", one.pass, one.plugin, difference.function);
    let _ = writeln!(out, "{}", visible_line(&title));
    out.push_str(&table(&rows));
}

/// Renders the verdicts as JSON.
pub(super) fn json(checked: &[Checked], seed: u64) -> String {
    format!("{}\n", json!({ "seed": seed, "passes": values(checked) }))
}

/// Returns a JSON array with an object for each pass.
pub(super) fn values(checked: &[Checked]) -> Value {
    checked.iter().map(Checked::value).collect()
}
