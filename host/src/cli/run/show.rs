//! Renders plans and the summaries of runs as text and JSON.

use crate::cli::show::{milliseconds, table};
use crate::report::Report;
use crate::run::{RunReport, StepReport};
use passhost_lang::names::counted;
use registry::registry::contracts::UnknownName;
use registry::{Pipeline, Plan, Registry, Warning};

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
pub(in crate::cli) fn unknown_name(unknown: &UnknownName) -> Report {
    Report::warning(unknown.to_string()).about("pass", &unknown.pass).about("plugin", &unknown.plugin)
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
        let ran = step.outcome.ran();
        let pass = step.unit.pass();
        let mut value = serde_json::json!({
            "pass": pass.map(|pass| &registry.pass(pass).name),
            "text": step.text(registry),
            "plugin": pass.map(|pass| &registry.pass_owner(pass).name),
            "nesting": nesting,
            "outcome": step.outcome.to_string(),
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
    let (mut what, ran) = (report.outcome.to_string(), report.outcome.ran());
    if let Some(rounds) = report.rounds.filter(|_| ran) {
        let s = if rounds == 1 { "" } else { "s" };
        what = format!("{what}, {rounds} round{s}");
    }
    let reason = report.reason(registry);
    // The time and the changes of a composite pass are shown in the rows of its members.
    let ran = ran && !report.has_members;
    let time = if ran { milliseconds(report.time) } else { "-".to_string() };
    vec![name, what, time, if ran { bindings } else { "-".to_string() }, reason]
}
