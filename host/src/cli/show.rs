//! Renders lists, explanations and summaries as text and JSON.

use crate::plugins::hashes::Hashes;
use crate::report::Report;
use crate::run::{RunReport, StepReport};
use passhost_lang::metadata::{OptionInfo, doc_lines};
use passhost_lang::names::counted;
use passhost_lang::names::visible::{push_padded, shortened, visible, visible_line};
use registry::registry::contracts::UnknownName;
use registry::{Owner, Pipeline, Plan, Registry, Warning};
use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

/// Maximum length of a table cell in characters, except in the last column.
const WIDEST: usize = 120;
/// Maximum length of a cell in the last column.
const LONGEST: usize = 2_000;

/// Renders rows as columns. The last column is not padded. Cells may contain texts of plugins, so control characters
/// are escaped and long texts are cut.
pub(super) fn table(rows: &[Vec<String>]) -> String {
    let cell = |last: bool, cell: &String| {
        let most = if last { LONGEST } else { WIDEST };
        // An escaped control character takes up to ten characters.
        shortened(&visible_line(&shortened(cell, most)), most).into_owned()
    };
    let row = |row: &Vec<String>| -> Vec<String> {
        row.iter().enumerate().map(|(i, text)| cell(i + 1 == row.len(), text)).collect()
    };
    let rows: Vec<Vec<String>> = rows.iter().map(row).collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let mut widths = vec![0; columns];
    for row in &rows {
        // The last cell of a row is not padded, so it must not widen its column.
        for (width, cell) in widths.iter_mut().zip(row).take(row.len().saturating_sub(1)) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut out = String::new();
    for row in &rows {
        let start = out.len();
        for (width, cell) in widths.iter().zip(row) {
            push_padded(&mut out, cell, *width);
            out.push_str("  ");
        }
        out.truncate(start + out[start..].trim_end().len());
        out.push('\n');
    }
    out
}

/// Returns the name and the documentation of an item.
pub(super) fn heading(name: &str, doc: &str) -> String {
    let mut out = format!("{name}\n\n");
    for line in doc_lines(&visible(doc)) {
        let _ = writeln!(out, "{}", format!("    {line}").trim_end());
    }
    out.push('\n');
    out
}

/// Returns table rows with the plugin and its file.
pub(super) fn owner_rows(owner: &Owner) -> Vec<Vec<String>> {
    vec![
        vec!["plugin".to_string(), format!("{} {}", owner.name, owner.version)],
        vec!["file".to_string(), owner.file.as_ref().map_or("-".to_string(), |file| file.display().to_string())],
    ]
}

pub(super) fn or_dash(items: Vec<String>) -> String {
    if items.is_empty() { "-".to_string() } else { items.join(", ") }
}

/// Returns the SHA-256 of a file, which distinguishes builds of one plugin.
pub(super) fn sha256(file: &Path) -> Option<String> {
    Hashes::fresh().sha256(file).ok()
}

pub(super) fn explain_option(out: &mut String, option: &OptionInfo) {
    let default = option.default.as_ref().map_or("must be given".to_string(), |value| format!("default {value}"));
    let (name, default) = (visible_line(&option.name), visible_line(&default));
    let allowed = option.allowed.text().map_or(String::new(), |allowed| format!(", {}", visible_line(&allowed)));
    let _ = writeln!(out, "    {name}: {}{allowed} ({default})", option.ty);
    for line in visible(&option.doc).trim().lines() {
        let _ = writeln!(out, "        {}", line.trim());
    }
}

/// Returns a plan as JSON.
pub(super) fn plan_json(pipeline: &Pipeline, plan: &Plan, registry: &Registry) -> String {
    let lines = plan.lines(registry);
    let steps: Vec<serde_json::Value> = lines
        .iter()
        .map(|line| {
            serde_json::json!({
                "pass": line.unit.pass().map(|pass| &registry.pass(pass).name),
                "text": line.text,
                "plugin": line.unit.pass().map(|pass| &registry.pass_owner(pass).name),
                "depth": line.depth,
                "nesting": line.nesting,
                "reason": line.reason,
            })
        })
        .collect();
    let warnings: Vec<String> = plan.warnings.iter().map(ToString::to_string).collect();
    let instruments = planned_json(plan, registry);
    let value = serde_json::json!({
        "pipeline": pipeline.to_string(), "opt_level": plan.opt_level, "tvm_compat": plan.compat.is_tvm(), "steps": steps, "instruments": instruments, "warnings": warnings,
    });
    format!("{value:#}\n")
}

/// Returns the instruments of a plan as JSON.
fn planned_json(plan: &Plan, registry: &Registry) -> Vec<serde_json::Value> {
    let one = |planned: &registry::PlannedInstrument| {
        let name = &registry.instrument(planned.instrument).name;
        serde_json::json!({
            "instrument": name,
            "text": format!("{name}{}", registry::pipeline::options_text(&planned.given)),
            "plugin": registry.instrument_owner(planned.instrument).name,
        })
    };
    plan.instruments.iter().map(one).collect()
}

/// Returns a warning about an unknown name.
pub(super) fn unknown_name(unknown: &UnknownName) -> Report {
    Report::warning(unknown.to_string()).about("pass", &unknown.pass).about("plugin", &unknown.plugin)
}

pub(super) fn milliseconds(time: Duration) -> String {
    format!("{:.3} ms", time.as_secs_f64() * 1e3)
}

/// Returns a warning of a plan as a report.
pub(super) fn plan_warning(warning: &Warning) -> Report {
    Report::warning(warning.to_string()).about("pass", warning.pass())
}

/// Returns the summary of a run as JSON.
pub(super) fn summary_json(report: &RunReport, registry: &Registry) -> serde_json::Value {
    summary_rows(report, registry, usize::MAX).into()
}

/// Returns the first `most` rows of the summary as JSON.
pub(super) fn summary_rows(report: &RunReport, registry: &Registry, most: usize) -> Vec<serde_json::Value> {
    let step = |(nesting, step): (usize, &StepReport)| {
        let ran = step.fate.ran();
        let pass = step.unit.pass();
        let mut value = serde_json::json!({
            "pass": pass.map(|pass| &registry.pass(pass).name),
            "text": step.text(registry),
            "plugin": pass.map(|pass| &registry.pass_owner(pass).name),
            "nesting": nesting,
            "outcome": step.fate.to_string(),
            "reason": step.reason(registry),
        });
        if let Some(rounds) = step.rounds.filter(|_| ran) {
            value["rounds"] = rounds.into();
        }
        if ran && !step.has_members {
            let (before, after) = step.bindings;
            value["time_ms"] = (step.time.as_secs_f64() * 1e3).into();
            value["verify_ms"] = (step.verify.as_secs_f64() * 1e3).into();
            value["bindings"] = serde_json::json!({ "before": before, "after": after });
        }
        value
    };
    report.rows().take(most).map(step).collect()
}

/// Returns the summary of a run as a table.
pub(super) fn summary(report: &RunReport, registry: &Registry) -> String {
    let rows: Vec<Vec<String>> = report.rows().map(|(nesting, step)| row(nesting, step, registry)).collect();
    table(&rows)
}

fn row(nesting: usize, report: &StepReport, registry: &Registry) -> Vec<String> {
    let name = format!("{}{}", "  ".repeat(nesting), report.text(registry));
    let (before, after) = report.bindings;
    let bindings = if before == after { counted(after, "binding") } else { format!("{before} -> {after} bindings") };
    let (mut what, ran) = (report.fate.to_string(), report.fate.ran());
    if let Some(rounds) = report.rounds.filter(|_| ran) {
        let s = if rounds == 1 { "" } else { "s" };
        what = format!("{what}, {rounds} round{s}");
    }
    let reason = report.reason(registry);
    // Time and changes of a composite pass are shown at its members.
    let ran = ran && !report.has_members;
    let time = if ran { milliseconds(report.time) } else { "-".to_string() };
    vec![name, what, time, if ran { bindings } else { "-".to_string() }, reason]
}
