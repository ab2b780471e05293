//! Functions in the form of the page: their text, their calls, the data flow in them, and the changes of a pass.

use crate::engine::Engine;
use crate::report::diff::unified;
use crate::report::error::Error;
use crate::run::provenance::Provenance;
use passhost_lang::ir::{Body, BodyKind, Module, Value};
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Maximum number of diff lines to show.
const MOST_LINES: usize = 5_000;

/// Returns the functions that a pass added, removed or changed, with the diffs of their texts.
pub(super) fn changes(before: &Module, after: &Module, printer: &Printer<'_>) -> Result<Vec<Json>, Error> {
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
        let text = |body: Option<&Body>| body.map_or(Ok(Default::default()), |body| printer.text(name, body));
        let ((old_text, _), (new_text, from)) = (text(old)?, text(new)?);
        if old_text == new_text {
            continue;
        }
        let kind = match (old, new) {
            (None, _) => "added",
            (_, None) => "removed",
            _ => "changed",
        };
        let diff = unified(&old_text, &new_text);
        // The first two lines contain only names.
        let lines: Vec<&str> = diff.lines().skip(2).collect();
        let shown = &lines[..lines.len().min(MOST_LINES)];
        let count = |sign: char| lines.iter().filter(|line| line.starts_with(sign)).count();
        out.push(json!({
            "function": name,
            "kind": kind,
            "diff": shown.join("\n"),
            "from": of_diff(shown, &from),
            "more": lines.len().saturating_sub(MOST_LINES),
            "plus": count('+'),
            "minus": count('-'),
        }));
    }
    Ok(out)
}

/// Returns the origins of the added lines of a diff, by their position in the diff.
fn of_diff<'f>(lines: &[&str], from: &'f Lines) -> Vec<(usize, &'f str)> {
    let mut at = 0;
    let mut out = Vec::new();
    for (i, line) in lines.iter().enumerate() {
        if let Some(range) = line.strip_prefix("@@ ") {
            // A hunk header such as `@@ -1,7 +3,9 @@` counts lines from 1.
            let start =
                range.split_once('+').and_then(|(_, range)| range.split([',', ' ']).next()?.parse::<usize>().ok());
            at = start.map_or(at, |start| start.saturating_sub(1));
            continue;
        }
        if line.starts_with('-') {
            continue;
        }
        if line.starts_with('+') {
            out.extend(from.get(&at).map(|said| (i, said.as_str())));
        }
        at += 1;
    }
    out
}

/// The origins of the lines of a text, by line number from 0.
type Lines = BTreeMap<usize, String>;

/// Prints functions of the run.
pub(super) struct Printer<'p> {
    pub(super) engine: &'p Engine,
    pub(super) provenance: Option<&'p Provenance>,
}

impl Printer<'_> {
    /// Returns the text of a function, and the origins of its bindings.
    fn text(&self, name: &str, body: &Body) -> Result<(String, Lines), Error> {
        let Some(provenance) = self.provenance else {
            return Ok((script::print_function(name, body, self.engine)?, Lines::new()));
        };
        let module = Module::new([(name, body.clone())]);
        let printed = script::print_with_spans(&module, self.engine)?;
        let (mut lines, mut line, mut done) = (Lines::new(), 0, 0);
        for (end, said) in provenance.lines(&module, &printed) {
            line += printed.text[done..end].bytes().filter(|byte| *byte == b'\n').count();
            done = end;
            lines.insert(line, said);
        }
        Ok((printed.text, lines))
    }
}

/// Returns all functions of a module.
pub(super) fn functions(module: &Module, printer: &Printer<'_>) -> Result<Vec<Json>, Error> {
    let one = |(name, body): (&str, &Body)| {
        let (text, from) = printer.text(name, body)?;
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
            "text": text,
            "from": from.into_iter().collect::<Vec<_>>(),
        }))
    };
    module.functions().map(one).collect()
}

/// Returns the parameters and bindings, each with its name, its operation, and the positions of the values that it
/// uses.
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

/// Collects the values that a value uses, including uses in nested expressions.
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
