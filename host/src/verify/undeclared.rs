//! Finds undeclared operators that a pass is the first to call. Most of them are misspelt.

use crate::verify::{Affected, KeptParts, Unverified, affected};
use passhost_lang::ir::records::{LEAF_BIT, leaf};
use passhost_lang::ir::{Body, BodyKind, Module};
use passhost_lang::names::did_you_mean;
use script::Operators;
use std::collections::BTreeSet;

/// An operator that no plugin declares, with the place of its first call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("introduces a call of `{name}`, an operator that no plugin declares{}", did_you_mean(.near))]
pub struct UndeclaredOperator {
    /// Full name of the operator.
    pub name: String,
    /// The function that calls it.
    pub function: String,
    /// Position of the call in its body.
    pub node: usize,
    /// Declared operators with the most similar names.
    pub near: Vec<String>,
}

/// Returns the operators that Relax functions of `after` call, that no plugin declares, and that no function of `before`
/// calls. Each is listed once, in the order in which it was found.
pub fn undeclared_operators(before: &Module, after: &Module, ops: &dyn Operators) -> Vec<UndeclaredOperator> {
    undeclared_among(&affected(before, after, &mut KeptParts::new(&Unverified::default())), before, ops)
}

/// Like [`undeclared_operators`], but only for the affected functions.
pub(crate) fn undeclared_among(
    affected: &[Affected<'_>],
    before: &Module,
    ops: &dyn Operators,
) -> Vec<UndeclaredOperator> {
    let (mut found, mut known) = (Vec::new(), BTreeSet::new());
    for (function, body) in affected.iter().filter_map(Affected::changed) {
        for (name, node) in undeclared(body, ops) {
            if known.insert(name) {
                let (name, function) = (name.to_string(), function.to_string());
                found.push(UndeclaredOperator { name, function, node, near: Vec::new() });
            }
        }
    }
    if found.is_empty() {
        return found;
    }
    let old: BTreeSet<&str> =
        before.functions().flat_map(|(_, body)| undeclared(body, ops)).map(|(name, _)| name).collect();
    found.retain(|undeclared| !old.contains(undeclared.name.as_str()));
    found.iter_mut().for_each(|undeclared| undeclared.near = ops.near_ops(&undeclared.name));
    found
}

/// Returns the undeclared operators of a Relax function, each with its first call.
fn undeclared<'b>(body: &'b Body, ops: &dyn Operators) -> Vec<(&'b str, usize)> {
    let raw = body.raw();
    let name = |leaf: &passhost_lang::ir::records::LeafRec| raw.str(leaf.val as u32);
    let is_undeclared =
        |leaf: &passhost_lang::ir::records::LeafRec| leaf.kind == leaf::OP && ops.op_info(name(leaf)).is_none();
    if body.kind() != BodyKind::Function || !raw.leaves().iter().any(is_undeclared) {
        return Vec::new();
    }
    // Unused leaves stay in the table, so only uses count.
    let mut calls: Vec<Option<usize>> = vec![None; raw.leaves().len()];
    for (at, node) in raw.nodes().iter().enumerate() {
        for op in raw.operands().get(node.op_range()).unwrap_or(&[]).iter().filter(|op| *op & LEAF_BIT != 0) {
            if let Some(call) = calls.get_mut((op & !LEAF_BIT) as usize) {
                call.get_or_insert(at);
            }
        }
    }
    let used = raw.leaves().iter().zip(calls).filter(|(leaf, _)| is_undeclared(leaf));
    let mut used: Vec<(&str, usize)> = used.filter_map(|(leaf, call)| Some((name(leaf), call?))).collect();
    used.sort_by_key(|(_, call)| *call);
    used
}
