//! Finds the first binding whose value differs, by recording the values of both sides during execution and pairing them.
//!
//! A binding is paired with the binding of the same name if their values are equal, and otherwise with any unpaired binding
//! of equal value. The remaining values are new: they are wrong, or intermediate results of the pass. The result can be
//! wrong only because of new values that reach it through other new values. The first of these is reported.

use super::compare::{Allowed, Mismatch, is_same, outputs, shown};
use super::sides::execute;
use super::steps::ValidatedStep;
use super::units::Unit;
use super::verdict::Divergence;
use crate::engine::Engine;
use crate::run::shown::Shown;
use passhost_lang::ir::Value as Node;
use passhost_lang::ir::{Body, Module};
use runtime::Limits;
use runtime::vm::{At, Binding, Kernels, Observer, Value};
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

/// A binding that was executed.
struct Entry {
    function: String,
    body: Body,
    node: u32,
    depth: usize,
    /// Index of the first entry recorded while this binding was executed.
    first: usize,
    value: Value,
}

impl Entry {
    fn name(&self) -> Option<&str> {
        self.body.value_at(self.node as usize).name()
    }

    /// Describes the kind of its value, for a quick comparison.
    fn kind(&self) -> String {
        match &self.value {
            Value::Tensor(tensor) => format!("{} {:?}", tensor.dtype(), tensor.shape()),
            Value::Tuple(tuple) => format!("tuple {}", tuple.fields().len()),
            other => other.described(),
        }
    }
}

/// Records all bindings.
#[derive(Default)]
struct Recorder {
    entries: Vec<Entry>,
    /// Bindings in execution: depth, node, and the number of entries at their start.
    open: Vec<(usize, u32, usize)>,
}

impl Observer for Recorder {
    fn before(&mut self, binding: &Binding<'_>) {
        self.open.push((binding.depth(), binding.binding().word(), self.entries.len()));
    }

    fn after(&mut self, binding: &Binding<'_>, value: &Value) {
        let (depth, node) = (binding.depth(), binding.binding().word());
        let mut first = self.entries.len();
        while let Some((other_depth, other, start)) = self.open.pop_if(|(other, _, _)| *other >= depth) {
            if (other_depth, other) == (depth, node) {
                first = start;
                break;
            }
        }
        self.entries.push(Entry {
            function: binding.function().to_string(),
            body: binding.body().clone(),
            node,
            depth,
            first,
            value: value.clone(),
        });
    }
}

/// Returns the first binding after a pass whose value differs; `None` if there is none, or the values do not fit in memory.
pub(super) fn first_difference(
    engine: &Engine,
    step: &ValidatedStep,
    unit: &Unit,
    args: &[Value],
    allowed: &Allowed,
    limits: &Limits,
    kernels: &Arc<Kernels>,
) -> Option<Divergence> {
    let Unit::Function(name) = unit else { return None };
    let record = |module: &Module| {
        let limits = Limits::with_fresh_bytes(limits.memory_limit(), u64::MAX, limits.fresh_byte());
        let mut recorder = Recorder::default();
        let result = execute(engine, module, unit, args, &limits, kernels, &mut recorder);
        result.ok().map(|value| (recorder.entries, value))
    };
    let (before, old) = record(&step.before)?;
    let (after, new) = record(&step.after)?;
    let paired = pair(&before, &after, allowed);
    let body = step.after.get(name)?;
    let found = blamed(body, &after, &paired);
    let Some(found) = found else { return result(engine, &step.after, name, (&old, &new), allowed) };
    let entry = &after[found];
    let partner = namesakes(&before, &after).remove(&found).map(|partner| &before[partner].value);
    let mismatch = partner.and_then(|old| outputs(old, &entry.value, allowed).worst).map(|(_, mismatch)| mismatch);
    // A binding of the same name with a different kind of value is unrelated.
    let mismatch = mismatch.filter(|mismatch| matches!(mismatch, Mismatch::Elements { .. }));
    Some(Divergence {
        function: entry.function.clone(),
        name: entry.name().map(str::to_string),
        text: text(engine, &step.after, &entry.function, entry.node),
        mismatch,
        value: shown(&entry.value),
    })
}

/// Maps each binding after the pass to the binding of the same name before it. Repeated executions are matched in order.
fn namesakes(before: &[Entry], after: &[Entry]) -> HashMap<usize, usize> {
    let mut known: HashMap<(&str, &str), Vec<usize>> = HashMap::new();
    for (i, entry) in before.iter().enumerate() {
        if let Some(name) = entry.name() {
            known.entry((&entry.function, name)).or_default().push(i);
        }
    }
    let mut times: HashMap<(&str, &str), usize> = HashMap::new();
    let mut out = HashMap::new();
    for (i, entry) in after.iter().enumerate() {
        let Some(name) = entry.name() else { continue };
        let key = (entry.function.as_str(), name);
        let time = times.entry(key).or_default();
        if let Some(partner) = known.get(&key).and_then(|all| all.get(*time)) {
            out.insert(i, *partner);
        }
        *time += 1;
    }
    out
}

/// For each binding after the pass, returns true if a binding before the pass has the same value.
fn pair(before: &[Entry], after: &[Entry], allowed: &Allowed) -> Vec<bool> {
    let mut free = vec![true; before.len()];
    let mut paired = vec![false; after.len()];
    for (i, partner) in namesakes(before, after) {
        if is_same(&before[partner].value, &after[i].value, allowed) {
            (free[partner], paired[i]) = (false, true);
        }
    }
    let mut by_kind: HashMap<String, Vec<usize>> = HashMap::new();
    for (i, entry) in before.iter().enumerate().filter(|(i, _)| free[*i]) {
        by_kind.entry(entry.kind()).or_default().push(i);
    }
    for (i, entry) in after.iter().enumerate() {
        if paired[i] {
            continue;
        }
        let candidates = by_kind.get(&entry.kind()).map(Vec::as_slice).unwrap_or_default();
        let same = |partner: &&usize| free[**partner] && is_same(&before[**partner].value, &entry.value, allowed);
        if let Some(partner) = candidates.iter().find(same) {
            (free[*partner], paired[i]) = (false, true);
        }
    }
    paired
}

/// A called function: its body, the entries recorded in it, and its call depth.
struct Call<'e> {
    body: &'e Body,
    entries: Range<usize>,
    depth: usize,
}

/// Returns the first binding with a new value that reaches the result through new values.
fn blamed(body: &Body, after: &[Entry], paired: &[bool]) -> Option<usize> {
    let mut blamed: Option<usize> = None;
    let mut calls = vec![Call { body, entries: 0..after.len(), depth: 0 }];
    while let Some(call) = calls.pop() {
        // If a binding was executed several times, its last execution is used.
        let own: HashMap<u32, usize> = call
            .entries
            .clone()
            .filter(|i| after[*i].depth == call.depth && after[*i].body.same(call.body))
            .map(|i| (after[i].node, i))
            .collect();
        let mut seen = BTreeSet::new();
        let mut work: Vec<Node<'_>> = starts(&call, after);
        while let Some(node) = work.pop() {
            if node.is_leaf() || !seen.insert(node.word()) {
                continue;
            }
            if let Some(entry) = own.get(&node.word()) {
                if paired[*entry] {
                    continue;
                }
                blamed = Some(blamed.map_or(*entry, |blamed| blamed.min(*entry)));
                let inner = after[*entry].first..*entry;
                if let Some(callee) = inner.clone().rev().find(|i| after[*i].depth == call.depth + 1) {
                    calls.push(Call { body: &after[callee].body, entries: inner, depth: call.depth + 1 });
                }
            }
            work.extend(node.operands());
            if node.end() > node.word() as usize + 1 {
                work.extend(node.region().nodes().flat_map(Node::operands));
            }
        }
    }
    blamed
}

/// Returns the starting points of the search in a function: its result, or, in a nested function, all executed bindings.
fn starts<'e>(call: &Call<'e>, after: &'e [Entry]) -> Vec<Node<'e>> {
    let own = call.entries.clone().filter(|i| after[*i].depth == call.depth && after[*i].body.same(call.body));
    let result = call.body.function().and_then(|function| function.result());
    let is_nested = |node: u32| call.body.values().any(|f| f.word() > 0 && f.as_function().is_some() && holds(f, node));
    match own.clone().next_back() {
        Some(last) if is_nested(after[last].node) => own.map(|i| call.body.value_at(after[i].node as usize)).collect(),
        _ => result.into_iter().collect(),
    }
}

fn holds(function: Node<'_>, node: u32) -> bool {
    (function.word()..function.end() as u32).contains(&node)
}

/// Reports a wrong result of the function itself, if every value in it also existed before the pass.
fn result(
    engine: &Engine,
    module: &Module,
    name: &str,
    (old, new): (&Value, &Value),
    allowed: &Allowed,
) -> Option<Divergence> {
    let result = module.get(name)?.function()?.result()?;
    let (_, mismatch) = outputs(old, new, allowed).worst?;
    let text = match result.name() {
        Some(name) => format!("return {name}"),
        None => format!("return {}", text(engine, module, name, result.word())),
    };
    Some(Divergence { function: name.to_string(), name: None, text, mismatch: Some(mismatch), value: shown(new) })
}

/// Describes the binding at which a function fails.
pub(super) fn failing(engine: &Engine, module: &Module, at: &At) -> Option<Divergence> {
    let name = Some(at.binding.clone()?);
    let text = text(engine, module, &at.function, at.node as u32);
    Some(Divergence { function: at.function.clone(), name, text, mismatch: None, value: "no value".to_string() })
}

/// Returns the text of a binding in one line.
fn text(engine: &Engine, module: &Module, function: &str, node: u32) -> String {
    let place = Shown::new(engine, module, "after the pass").place(function, node as usize);
    place.map_or_else(String::new, |(_, text, span)| {
        let line = text.get(span).unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
        line.trim_end_matches(',').to_string()
    })
}
