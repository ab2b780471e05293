//! Functions as the page shows them: their text, what they call, how values flow in them, and what a pass changed.

use crate::engine::Engine;
use crate::report::diff::unified;
use crate::report::error::Error;
use plugin_api::ir::{Body, BodyKind, Module, Value};
use serde_json::{Value as Json, json};
use std::collections::{BTreeSet, HashMap};

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
        let diff = unified(&old_text, &new_text);
        // Its two first lines say which text is which.
        let lines: Vec<&str> = diff.lines().skip(2).collect();
        let count = |sign: char| lines.iter().filter(|line| line.starts_with(sign)).count();
        out.push(json!({
            "function": name,
            "kind": kind,
            "diff": lines[..lines.len().min(MOST_LINES)].join("\n"),
            "more": lines.len().saturating_sub(MOST_LINES),
            "plus": count('+'),
            "minus": count('-'),
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
