//! Renders a run as a page in a single file that needs no network: the plan, the time spent, the changes of each pass in each function, its
//! counters and diagnostics, and the final module. The page is rendered from data, which `--report FILE.json` writes directly.

pub mod bench;
mod functions;

use crate::engine::Engine;
use crate::instruments::memory::bytes_of;
use crate::instruments::trace::Trace;
use crate::report::error::Error;
use crate::run::RunReport;
use crate::run::validate::{Checked, ValidatedStep};
use functions::{Printer, changes, functions};
use minijinja::{Environment, context};
use registry::{Pipeline, Plan};
use serde_json::{Value, json};

/// Contents of a page in addition to the run itself.
pub struct About<'a> {
    /// The name of the input.
    pub input: &'a str,
    /// The pipeline.
    pub pipeline: &'a Pipeline,
    /// Plan of the run.
    pub plan: &'a Plan,
    /// The first rows of the summary.
    pub summary: Vec<Value>,
    /// The spans of the run.
    pub trace: &'a Trace,
    /// The verdicts of the validation; empty without a validation.
    pub checked: &'a [Checked],
}

/// Maximum number of steps on the page. Browsers cannot handle more, and nobody would read them.
pub const MOST_ROWS: usize = 5_000;
/// Maximum number of events on the timeline.
pub const MOST_EVENTS: usize = 10 * MOST_ROWS;

/// Returns all data of the page.
///
/// # Errors
/// If a function of a module cannot be printed.
pub fn data(engine: &Engine, about: &About<'_>, report: &RunReport, steps: &[ValidatedStep]) -> Result<Value, Error> {
    let registry = engine.registry();
    let printer = Printer { engine, provenance: report.provenance.as_ref() };
    let line = |line: &registry::plan::Line| {
        let plugin = line.unit.pass().map(|pass| registry.pass_owner(pass).name.as_str());
        json!({ "text": line.text, "plugin": plugin, "depth": line.depth + line.nesting, "reason": line.reason })
    };
    let mut passes = Vec::with_capacity(steps.len().min(MOST_ROWS));
    for step in steps.iter().take(MOST_ROWS) {
        passes.push(json!({
            "step": step.position,
            "pass": step.pass,
            "plugin": step.plugin,
            "bytes": [bytes_of(&step.before), bytes_of(&step.after)],
            "bindings": [step.before.n_bindings(), step.after.n_bindings()],
            "changes": changes(&step.before, &step.after, &printer)?,
        }));
    }
    let said = report.diagnostics.iter().map(|diagnostic| diagnostic.report(registry));
    let failures = report.error.iter().chain(&report.failures).flat_map(Error::reports);
    let reports: Vec<Value> = said.chain(failures).map(|report| report.value()).collect();
    let counts = report.statistics.iter().map(|it| json!({ "pass": it.pass, "name": it.name, "value": it.sum }));
    let (timeline, more_events) = about.trace.first(MOST_EVENTS);
    let lines = about.plan.lines(registry);
    let left_out = json!({
        "steps": report.rows().count().saturating_sub(MOST_ROWS),
        "plan": lines.len().saturating_sub(MOST_ROWS),
        "events": more_events,
    });
    Ok(json!({
        "passhost": env!("CARGO_PKG_VERSION"),
        "input": about.input,
        "pipeline": about.pipeline.to_string(),
        "failed": report.error.is_some(),
        "left_out": left_out,
        "plan": lines.iter().take(MOST_ROWS).map(line).collect::<Vec<_>>(),
        "summary": about.summary,
        "timeline": timeline,
        "passes": passes,
        "validation": about.checked.iter().map(verdict).collect::<Vec<_>>(),
        "counts": counts.collect::<Vec<_>>(),
        "diagnostics": reports,
        "functions": functions(&report.module, &printer)?,
    }))
}

/// Returns a verdict, with its description for the table.
fn verdict(checked: &Checked) -> Value {
    let mut value = checked.value();
    (value["word"], value["what"]) = (checked.word().into(), checked.what().into());
    value
}

/// Renders the page from its data.
///
/// # Errors
/// If the template does not fit the data, which is a bug.
pub fn html(data: &Value) -> Result<String, Error> {
    // Escaped, so that a string in the data cannot close the element that contains it.
    let text = data.to_string().replace('<', "\\u003c");
    rendered(
        include_str!("page.html"),
        context! {
            input => data["input"].as_str().unwrap_or_default(),
            style => include_str!("page.css"),
            script => include_str!("page.js"),
            data => text,
        },
    )
}

/// Renders an HTML template with its values.
fn rendered(template: &str, values: minijinja::Value) -> Result<String, Error> {
    let mut environment = Environment::new();
    let made = environment
        .add_template("page.html", template)
        .and_then(|()| environment.get_template("page.html")?.render(values));
    made.map_err(|error| Error::Ended {
        message: format!("cannot create the page: {error:#}"),
        help: "this is a bug in passhost; please report it".to_string(),
        code: crate::report::error::exit::FAULT,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_data_stay_texts() {
        let data = json!({ "input": "<b>a & b</b>", "pipeline": "</script><script>alert(1)</script><!-- x" });
        let page = html(&data).expect("a page");
        assert!(page.contains("&lt;b&gt;a &amp; b&lt;") && !page.contains("<b>a"), "{page}");
        assert!(!page.contains("</script><script>alert") && !page.contains("<!-- x"), "{page}");
        let start = page.find("application/json\">").expect("the data") + "application/json\">".len();
        let end = start + page[start..].find("</script>").expect("the end of the data");
        let again: Value = serde_json::from_str(&page[start..end]).expect("JSON");
        assert_eq!(again, data);
    }
}
