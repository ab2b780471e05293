//! Finds bindings that a pass did not change. Earlier checks of these bindings are still valid.
//!
//! A binding is kept if the function before the pass has a binding with the same record, the same leaves, and operands of the same types.
//! The numbers of leaves, types and attributes have the same meaning in both functions if the tables of the new function begin with the
//! tables of the old function, as in an edited function.

use passhost_lang::ir::records::*;
use passhost_lang::ir::{Body, Module, RawView};
use std::collections::HashMap;

/// Number of old nodes that the search may inspect for each new node. Unused steps accumulate, so the search can skip a
/// long removed range and still takes linear time.
const STEPS: usize = 8;

/// The nodes of a function that its previous version already had.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kept {
    /// For each node, the matching node in the previous version, or [`NONE`]; empty if no node is kept.
    old: Vec<u32>,
}

impl Kept {
    /// Finds the nodes of `before` that `after` kept.
    pub(crate) fn of(before: &Body, after: &Body) -> Kept {
        let (old, new) = (before.raw(), after.raw());
        if before.kind() != after.kind() || !begins_with(new, old) {
            return Kept::default();
        }
        let mut search = Search { old, new, at: 0, steps: 0, found: Vec::with_capacity(new.nodes().len()) };
        new.nodes().iter().enumerate().for_each(|(at, node)| search.come_to(at, node));
        Kept { old: search.found }
    }

    /// Returns true if a node existed before.
    pub(crate) fn has(&self, node: usize) -> bool {
        self.old.get(node).is_some_and(|old| *old != NONE)
    }

    /// Returns true if all calls of a function existed before.
    pub(crate) fn has_all_calls(&self, body: &Body) -> bool {
        let nodes = body.raw().nodes().iter().zip(&self.old);
        !self.old.is_empty() && nodes.filter(|(node, _)| node.kind == kind::CALL).all(|(_, old)| *old != NONE)
    }
}

/// Functions that were never checked, because a program built them directly. None of their nodes count as kept.
#[derive(Debug, Default)]
pub(crate) struct Unverified {
    /// Functions by address, which cannot be reused while the handle exists.
    bodies: HashMap<usize, Body, foldhash::fast::RandomState>,
}

impl Unverified {
    /// Collects all functions of a module.
    pub(crate) fn of(module: &Module) -> Unverified {
        Unverified { bodies: module.functions().map(|(_, body)| (body.addr(), body.clone())).collect() }
    }

    fn kept(&self, before: &Body, after: &Body) -> Kept {
        if self.bodies.contains_key(&before.addr()) { Kept::default() } else { Kept::of(before, after) }
    }
}

/// The kept nodes of changed functions, which two checks use. The handles ensure that addresses are not reused.
#[derive(Debug)]
pub(crate) struct KeptParts<'u> {
    unverified: &'u Unverified,
    known: HashMap<usize, (Body, Kept), foldhash::fast::RandomState>,
}

impl<'u> KeptParts<'u> {
    /// Creates an empty cache.
    pub(crate) fn new(unverified: &'u Unverified) -> KeptParts<'u> {
        KeptParts { unverified, known: HashMap::default() }
    }

    /// Returns the nodes of `before` that `after` kept, and caches the result until it is taken.
    pub(crate) fn of(&mut self, before: &Body, after: &Body) -> &Kept {
        let unverified = self.unverified;
        let kept = || (after.clone(), unverified.kept(before, after));
        &self.known.entry(after.addr()).or_insert_with(kept).1
    }

    /// Like [`KeptParts::of`], but removes the result from the cache.
    pub(crate) fn take(&mut self, before: &Body, after: &Body) -> Kept {
        let known = self.known.remove(&after.addr());
        known.map_or_else(|| self.unverified.kept(before, after), |(_, kept)| kept)
    }
}

/// Returns true if the tables of a function begin with all entries of the tables of another function.
fn begins_with(new: &RawView<'_>, old: &RawView<'_>) -> bool {
    macro_rules! all {
        ($($table:ident),*) => { $(new.$table().starts_with(old.$table()))&&* };
    }
    all!(leaves, types, prims, lists, dicts, attrs, consts, strs, str_bytes, var_names)
}

struct Search<'a> {
    old: &'a RawView<'a>,
    new: &'a RawView<'a>,
    /// The old node after the last match.
    at: usize,
    /// Number of old nodes that may still be inspected.
    steps: usize,
    found: Vec<u32>,
}

impl Search<'_> {
    fn come_to(&mut self, at: usize, node: &NodeRec) {
        self.steps += STEPS;
        let is_value = matches!(
            node.kind,
            kind::PARAM | kind::CALL | kind::TUPLE | kind::TUPLE_GET | kind::ALIAS | kind::MATCH_CAST
        );
        if !is_value || node.has(flag::REGION) {
            return self.found.push(NONE);
        }
        let operands = self.new.operands().get(node.op_range()).unwrap_or(&[]);
        let from = self.at.min(self.old.nodes().len());
        let ahead = self.old.nodes()[from..].iter().take(self.steps);
        // Comparing names prevents skipping to a later binding that has the same content.
        let name = self.new.names().get(at);
        let is_same =
            |(i, old): (usize, &NodeRec)| self.old.names().get(from + i) == name && self.is_same(node, operands, old);
        match ahead.clone().enumerate().position(is_same) {
            Some(i) => {
                self.steps -= i + 1;
                self.at = from + i + 1;
                self.found.push((from + i) as u32);
            }
            None => {
                self.steps -= ahead.len();
                self.found.push(NONE);
            }
        }
    }

    fn is_same(&self, node: &NodeRec, operands: &[u32], old: &NodeRec) -> bool {
        let fields = |node: &NodeRec| (node.kind, node.flags, node.ty, node.attrs, node.a, node.n_ops);
        if fields(node) != fields(old) {
            return false;
        }
        let before = self.old.operands().get(old.op_range()).unwrap_or(&[]);
        operands.len() == before.len() && operands.iter().zip(before).all(|(new, old)| self.is_same_operand(*new, *old))
    }

    /// Returns true for the same leaf, for a value of the same type, and for a value that is itself kept. An unbound value, or a value of
    /// unknown type, must be kept, because rules examine the value itself.
    fn is_same_operand(&self, new: u32, old: u32) -> bool {
        if (new | old) & LEAF_BIT != 0 {
            return new == old;
        }
        let (Some(node), Some(before)) = (self.new.nodes().get(new as usize), self.old.nodes().get(old as usize))
        else {
            return false;
        };
        let says_something = |ty: &TypeRec| ty.kind != tykind::OBJECT;
        let by_type = node.has(flag::BOUND) && self.new.types().get(node.ty as usize).is_some_and(says_something);
        if by_type && before.has(flag::BOUND) {
            return node.ty == before.ty;
        }
        self.found.get(new as usize) == Some(&old)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use passhost_lang::ir::{AttrsId, BodyBuilder, DType, Dim, Type, Value};

    /// Builds `n` calls, each with the previous one as its argument.
    fn chain(n: usize) -> Body {
        let mut b = BodyBuilder::new();
        b.begin_function(0, AttrsId::NONE, None);
        let ty = b.ty(&Type::tensor(vec![Dim::Int(4)], DType::F32));
        let mut last = b.param("x", ty);
        b.begin_block();
        for i in 0..n {
            let callee = b.op(if i % 2 == 0 { "relax.exp" } else { "relax.abs" });
            last = b.call(callee, &[last], AttrsId::NONE, ty, false, Some("y"));
        }
        b.end();
        b.end_function(last, ty);
        b.finish().expect("a function")
    }

    fn n_kept(kept: &Kept, body: &Body) -> usize {
        body.bindings().filter(|value| value.index().is_some_and(|i| kept.has(i))).count()
    }

    #[test]
    fn bindings_are_found_again_after_others_are_removed() {
        let before = chain(200);
        let calls: Vec<Value<'_>> = before.bindings().collect();
        // Sixty consecutive calls, and every tenth call.
        let removed = |i: usize| (80..140).contains(&i) || i % 10 == 3;
        let mut edit = before.edit();
        for (i, call) in calls.iter().enumerate().filter(|(i, _)| removed(*i)) {
            edit.replace(*call, calls.get(i.wrapping_sub(1)).copied().unwrap_or(*call));
        }
        let after = edit.finish().expect("a function");
        let kept = Kept::of(&before, &after);
        assert_eq!(n_kept(&kept, &after), after.bindings().count());
        assert!(kept.has_all_calls(&after));
    }

    #[test]
    fn what_changed_is_not_kept() {
        let before = chain(20);
        let mut edit = before.edit();
        let call = before.bindings().nth(7).expect("a call");
        let other = edit.builder().op("relax.negative");
        edit.set_operand(call, 0, other);
        let after = edit.finish().expect("a function");
        let kept = Kept::of(&before, &after);
        assert_eq!(n_kept(&kept, &after), 19);
        assert!(!kept.has_all_calls(&after));
    }

    #[test]
    fn functions_with_other_tables_keep_nothing() {
        let (before, after) = (chain(4), chain(4));
        assert!(Kept::of(&before, &after).has_all_calls(&after), "the tables are equal");
        let mut b = BodyBuilder::new();
        b.string("something else");
        b.begin_function(0, AttrsId::NONE, None);
        let ty = b.ty(&Type::tensor(vec![Dim::Int(4)], DType::F32));
        let x = b.param("x", ty);
        b.end_function(x, ty);
        let after = b.finish().expect("a function");
        assert_eq!(n_kept(&Kept::of(&before, &after), &after), 0);
    }
}
