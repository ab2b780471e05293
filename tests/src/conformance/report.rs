//! Formats a conformance run: counts by kind of failure with their ids, and the total.

use super::Outcome;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Number of ids that are shown in a line, unless all are requested.
const FEW: usize = 4;

/// The ids of failures, by kind and message.
type Kinds<'a> = BTreeMap<&'static str, BTreeMap<String, Vec<&'a str>>>;

fn kinds(outcomes: &[Outcome]) -> Kinds<'_> {
    let mut kinds = Kinds::new();
    for outcome in outcomes {
        if let Some(failure) = &outcome.failure {
            let messages = kinds.entry(failure.kind).or_default();
            messages.entry(general(&failure.why)).or_default().push(&outcome.id);
        }
    }
    kinds
}

/// Removes the names and numbers of a case from a message, so that equal reasons are grouped.
fn general(message: &str) -> String {
    let mut out = String::new();
    for (i, part) in message.split('`').enumerate() {
        match i % 2 {
            1 => out.push_str("`…`"),
            _ => {
                let mut digits = false;
                for c in part.chars() {
                    match c.is_ascii_digit() {
                        true if digits => {}
                        true => out.push('#'),
                        false => out.push(c),
                    }
                    digits = c.is_ascii_digit();
                }
            }
        }
    }
    let mut short: String = out.chars().take(160).collect();
    if short.len() < out.len() {
        short.push('…');
    }
    short
}

fn ids(ids: &[&str], all: bool) -> String {
    let shown = if all { ids.len() } else { FEW.min(ids.len()) };
    let more = if shown < ids.len() { ", …" } else { "" };
    format!("{}{more}", ids[..shown].join(", "))
}

fn equal(outcomes: &[Outcome]) -> usize {
    outcomes.iter().filter(|outcome| outcome.failure.is_none()).count()
}

/// Formats the report as text; the last line is the total.
pub fn text(outcomes: &[Outcome], all_ids: bool) -> String {
    let mut out = String::new();
    let mut groups: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for outcome in outcomes.iter().filter(|outcome| !outcome.group.is_empty()) {
        let (equal, all) = groups.entry(&outcome.group).or_default();
        *equal += usize::from(outcome.failure.is_none());
        *all += 1;
    }
    for (group, (equal, all)) in &groups {
        let _ = writeln!(out, "{equal:>6} of {all:>4}  {group}");
    }
    for (kind, messages) in kinds(outcomes) {
        let count: usize = messages.values().map(Vec::len).sum();
        let _ = writeln!(out, "{count:>6}  {kind}");
        let mut messages: Vec<_> = messages.into_iter().collect();
        messages.sort_by_key(|(_, ids)| std::cmp::Reverse(ids.len()));
        for (message, found) in messages {
            let _ = writeln!(out, "{:>12}  {message}\n              {}", found.len(), ids(&found, all_ids));
        }
    }
    let opaque: Vec<_> = outcomes.iter().filter(|outcome| outcome.opaque_calls > 0).map(|o| o.id.as_str()).collect();
    if !opaque.is_empty() {
        let _ = writeln!(out, "{:>6}  with operators that no plugin declares: {}", opaque.len(), ids(&opaque, all_ids));
    }
    if groups.is_empty() {
        texts(&mut out, outcomes, all_ids);
        let same = outcomes.iter().filter(|outcome| outcome.text.is_none()).count();
        let _ = writeln!(out, "identical text: {same} of {}", outcomes.len());
    }
    let _ = writeln!(out, "{}", total(outcomes));
    out
}

/// Appends the text differences by cause. Shows the lines of the first few differences, or of all.
fn texts(out: &mut String, outcomes: &[Outcome], all_ids: bool) {
    let mut causes: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
    for outcome in outcomes.iter().filter(|outcome| outcome.failure.is_none()) {
        if let Some(text) = &outcome.text {
            causes.entry(text.cause).or_default().push((&outcome.id, &text.lines));
        }
    }
    for (cause, found) in causes {
        let _ = writeln!(out, "{:>6}  another text: {cause}", found.len());
        for (id, lines) in found.iter().take(if all_ids { found.len() } else { FEW }) {
            let _ = writeln!(out, "              {id}: {lines}");
        }
    }
}

/// Formats how many of all cases are equal.
pub fn total(outcomes: &[Outcome]) -> String {
    format!("total: {} of {}", equal(outcomes), outcomes.len())
}

/// Formats the report as JSON: every case with its outcome.
pub fn json(outcomes: &[Outcome]) -> Value {
    let cases: Vec<Value> = outcomes
        .iter()
        .map(|outcome| {
            let failure = outcome.failure.as_ref();
            json!({
                "id": outcome.id,
                "pass": (!outcome.group.is_empty()).then_some(&outcome.group),
                "equal": failure.is_none(),
                "kind": failure.map(|failure| failure.kind),
                "why": failure.map(|failure| &failure.why),
                "text": outcome.text.as_ref().map(|text| &text.lines),
                "cause": outcome.text.as_ref().map(|text| text.cause),
                "opaque_calls": outcome.opaque_calls,
            })
        })
        .collect();
    json!({"equal": equal(outcomes), "total": outcomes.len(), "cases": cases})
}

#[cfg(test)]
mod tests {
    use super::super::{Failure, TextDifference};
    use super::*;

    fn outcome(id: &str, failure: Option<Failure>) -> Outcome {
        Outcome { id: id.into(), group: String::new(), failure, text: None, opaque_calls: 0 }
    }

    #[test]
    fn every_case_is_counted_and_failures_fall_together() {
        let not_read = |name: &str| Some(Failure::new("not read", format!("no `{name}` (line {})", name.len() + 8)));
        let outcomes = [outcome("a", None), outcome("b", not_read("x")), outcome("c", not_read("long"))];
        let text = text(&outcomes, false);
        assert!(text.contains("     2  not read\n           2  no `…` (line #)\n              b, c\n"), "{text}");
        assert!(text.ends_with("total: 1 of 3\n"), "{text}");
        let cause = TextDifference { cause: "other", lines: "given a | printed b".to_string() };
        let other = [Outcome { text: Some(cause), ..outcome("d", None) }, outcome("e", None)];
        let text = super::text(&other, false);
        assert!(text.contains("     1  another text: other\n              d: given a | printed b\n"), "{text}");
        assert!(text.contains("identical text: 1 of 2\n"), "{text}");
        assert_eq!(json(&outcomes)["cases"].as_array().map(Vec::len), Some(3));
    }
}
