//! Functions as the page shows them: their text, what they call, how values flow in them, and what a pass changed.

use crate::engine::Engine;
use crate::report::error::Error;
use plugin_api::ir::{Body, BodyKind, Module, Value};
use serde_json::{Value as Json, json};
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

/// A longer search for the smallest difference helps nobody; what is found until then is shown.
const PATIENCE: Duration = Duration::from_secs(2);

/// Of a longer diff, so many lines are shown.
const MOST_LINES: usize = 5_000;

/// The functions that a pass added, removed or changed, with the difference of their texts.
pub(super) fn changes(before: &Module, after: &Module, engine: &Engine) -> Result<Vec<Json>, Error> {
    if before.same(after) {
        return Ok(Vec::new());
    }
    let names: BTreeSet<&str> = before.functions().chain(after.functions()).map(|(name, _)| name).collect();
    let mut out = Vec::new();
    for name in names {
        let (old, new) = (before.get(name), after.get(name));
        if old.zip(new).is_some_and(|(old, new)| old.same(new)) {
            continue;
        }
        let text = |body: Option<&Body>| body.map_or(Ok(String::new()), |body| printed(name, body, engine));
        let (old_text, new_text) = (text(old)?, text(new)?);
        if old_text == new_text {
            continue;
        }
        let kind = match (old, new) {
            (None, _) => "added",
            (_, None) => "removed",
            _ => "changed",
        };
        let diff = similar::TextDiff::configure().timeout(PATIENCE).diff_lines(&old_text, &new_text);
        let diff = diff.unified_diff().to_string();
        let lines = diff.lines().count();
        let shown: Vec<&str> = diff.lines().take(MOST_LINES).collect();
        let (plus, minus) = diff.lines().fold((0, 0), |(plus, minus), line| match line.as_bytes().first() {
            Some(b'+') => (plus + 1, minus),
            Some(b'-') => (plus, minus + 1),
            _ => (plus, minus),
        });
        out.push(json!({
            "function": name, "kind": kind, "diff": shown.join("\n"), "more": lines.saturating_sub(MOST_LINES),
            "plus": plus, "minus": minus,
        }));
    }
    Ok(out)
}

fn printed(name: &str, body: &Body, engine: &Engine) -> Result<String, Error> {
    Ok(script::print_function(name, body, engine)?)
}

/// All functions of a module.
pub(super) fn functions(module: &Module, engine: &Engine) -> Result<Vec<Json>, Error> {
    let one = |(name, body): (&str, &Body)| {
        let is_relax = body.kind() == BodyKind::Function;
        let calls: BTreeSet<&str> =
            body.values().flat_map(|value| value.operands().filter_map(Value::as_global)).collect();
        Ok(json!({
            "name": name,
            "kind": if is_relax { "Relax" } else { "TIR" },
            "private": body.is_private(),
            "bindings": body.n_bindings(),
            "calls": calls,
            "flow": if is_relax { flow(body) } else { Vec::new() },
            "text": printed(name, body, engine)?,
        }))
    };
    module.functions().map(one).collect()
}

/// Parameters and bindings, each as name, what makes it, and the positions of those that it uses.
fn flow(body: &Body) -> Vec<Json> {
    let named = |value: &Value<'_>| value.is_binding() || value.name().is_some();
    let mut places: HashMap<usize, usize> = HashMap::new();
    let mut out = Vec::new();
    for value in body.values().filter(named) {
        let Some(at) = value.index() else { continue };
        let mut uses = BTreeSet::new();
        used(value, &places, &mut uses);
        let what = match value.as_call() {
            Some(call) => call.op().or(call.arg(0).and_then(Value::as_global)).or(call.global()).unwrap_or("call"),
            None if value.is_binding() => "binding",
            None => "parameter",
        };
        places.insert(at, out.len());
        out.push(json!([value.name().unwrap_or("_"), what, uses]));
    }
    out
}

/// What a value uses, also in expressions that are nested in it.
fn used(value: Value<'_>, places: &HashMap<usize, usize>, uses: &mut BTreeSet<usize>) {
    let mut work: Vec<Value<'_>> = value.operands().collect();
    while let Some(operand) = work.pop() {
        match operand.index() {
            Some(at) if places.contains_key(&at) => drop(uses.insert(places[&at])),
            Some(_) if operand.is_nested() => work.extend(operand.operands()),
            _ => {}
        }
    }
}
