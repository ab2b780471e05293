//! Renders lists, explanations and summaries as text and JSON.

use crate::engine::Engine;
use crate::plugins::hashes::Hashes;
use crate::report::Report;
use crate::run::{RunReport, StepReport};
use passhost_lang::metadata::{ConfigInfo, OptionInfo, PassInfo, doc_lines};
use passhost_lang::names::counted;
use passhost_lang::names::visible::{push_padded, shortened, visible, visible_line};
use registry::{Owner, PassId, Pipeline, Plan, Registry, Warning};
use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

/// Longest cell of a table in characters, except in the last column.
const WIDEST: usize = 120;
/// Longest cell of the last column.
const LONGEST: usize = 2_000;

/// Renders rows as columns; the last column is not padded. Cells may contain texts of plugins, so control characters
/// are escaped and long texts are cut.
pub(super) fn table(rows: &[Vec<String>]) -> String {
    let cell = |last: bool, cell: &String| {
        let most = if last { LONGEST } else { WIDEST };
        // An escaped control character can have ten characters.
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

/// Lists all passes, instruments, properties and config options.
pub(super) fn list(engine: &Engine) -> String {
    let registry = engine.registry();
    let mut rows =
        vec![["PASS", "PLUGIN", "LEVEL", "WORKS ON", "REQUIRED", "WHAT IT DOES"].map(str::to_string).to_vec()];
    let mut passes: Vec<(PassId, &PassInfo)> = registry.passes().collect();
    passes.sort_by(|a, b| a.1.name.cmp(&b.1.name));
    for (id, info) in passes {
        let required: Vec<String> = info.required.iter().map(ToString::to_string).collect();
        rows.push(vec![
            info.name.clone(),
            registry.pass_owner(id).name.clone(),
            info.opt_level.to_string(),
            info.granularity.to_string(),
            if required.is_empty() { "-".to_string() } else { required.join(",") },
            info.summary(),
        ]);
    }
    table(&rows) + &super::instruments::list(registry) + &super::catalog::list(registry)
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

/// Explains one pass.
pub(super) fn explain(engine: &Engine, pass: PassId) -> String {
    let registry = engine.registry();
    let (info, owner) = (registry.pass(pass), registry.pass_owner(pass));
    let mut out = heading(&info.name, &info.doc);
    let users = registry.passes().filter(|(_, other)| other.required.iter().any(|req| req.name == info.name));
    let users = users.map(|(id, other)| format!("{} ({})", other.name, registry.pass_owner(id).name)).collect();
    let mut rows = owner_rows(owner);
    rows.extend([
        vec!["sha256".to_string(), owner.file.as_deref().and_then(sha256).unwrap_or("-".to_string())],
        vec!["works on".to_string(), works_on(info)],
        vec!["opt_level".to_string(), info.opt_level.to_string()],
        vec!["requires".to_string(), or_dash(info.required.iter().map(ToString::to_string).collect())],
        vec!["required by".to_string(), or_dash(users)],
    ]);
    match registry.members(pass) {
        Some(members) => {
            let members = members.iter().map(ToString::to_string).collect();
            rows.push(vec!["members".to_string(), or_dash(members)]);
        }
        None => rows.extend([
            vec!["needs".to_string(), or_dash(info.contract.requires.clone())],
            vec!["establishes".to_string(), or_dash(info.contract.establishes.clone())],
            vec!["preserves".to_string(), or_dash(info.contract.preserves.clone())],
            vec!["invalidates".to_string(), or_dash(info.contract.invalidates.clone())],
            vec!["tolerance".to_string(), info.tolerance.to_string()],
        ]),
    }
    let inside = registry.passes().filter(|(id, _)| {
        let members = registry.members(*id).unwrap_or_default();
        members.iter().any(|member| member.name == info.name)
    });
    let inside: Vec<String> = inside.map(|(_, other)| other.name.clone()).collect();
    if !inside.is_empty() {
        rows.push(vec!["part of".to_string(), inside.join(", ")]);
    }
    if let Some(listed) = engine.listed(registry.pass_place(pass).0) {
        rows.push(vec!["plugin API".to_string(), listed.meta.api.to_string()]);
        rows.push(vec!["built by".to_string(), format!("{} for {}", listed.meta.rustc, listed.meta.target)]);
    }
    out.push_str(&table(&rows));
    if !info.options.is_empty() {
        out.push_str("\noptions\n");
        info.options.iter().for_each(|option| explain_option(&mut out, option));
    }
    if let Some(member) = registry.members(pass).unwrap_or_default().first() {
        let _ = writeln!(out, "\nto leave out a member, disable it: --disable {}", visible_line(&member.name));
    } else {
        config_of_plugin(&mut out, engine, pass);
    }
    out
}

/// Appends all config options of the plugin that owns the pass, because the metadata does not record which of them the
/// pass reads.
fn config_of_plugin(out: &mut String, engine: &Engine, pass: PassId) {
    let registry = engine.registry();
    let own = registry.pass_place(pass).0;
    let options: Vec<&ConfigInfo> =
        registry.config_options().filter(|(_, owner)| *owner == own).map(|(info, _)| info).collect();
    if options.is_empty() {
        return;
    }
    out.push_str("\nconfig options of its plugin\n");
    for info in options {
        let default = info.default.as_ref().map_or("not set".to_string(), |value| format!("default {value}"));
        let range = info.allowed.text().map_or(String::new(), |range| format!(", range {range}"));
        let _ = writeln!(out, "    {}: {} ({}{range})", visible_line(&info.name), info.ty, visible_line(&default));
        for line in visible(&info.doc).trim().lines() {
            let _ = writeln!(out, "{}", format!("        {}", line.trim()).trim_end());
        }
    }
}

fn works_on(info: &PassInfo) -> String {
    format!("{}{}", info.granularity, if info.sequential { ", never two at a time" } else { "" })
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
    let instruments = super::instruments::planned_json(plan, registry);
    let value = serde_json::json!({
        "pipeline": pipeline.to_string(), "opt_level": plan.opt_level, "tvm_compat": plan.compat.is_tvm(), "steps": steps, "instruments": instruments, "warnings": warnings,
    });
    format!("{value:#}\n")
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
