//! Records the origins of the new and changed nodes of an edit, for hosts that request them.

use super::{Edit, State};
use crate::ir::origins::Origin;
use crate::ir::records::{LEAF_BIT, NONE, NodeRec, flag, kind};
use std::collections::BTreeMap;

/// Maximum number of nodes searched for each replaced node.
const MOST_SWALLOWED: usize = 256;

impl Edit<'_> {
    /// Records the origins of nodes. A changed node originates from itself, a replacement from the nodes that it replaces and the bindings
    /// that only they used, and any other new node from the origins of its users.
    pub(super) fn note_origins(&mut self) {
        if self.b.pool.s.origins.is_empty() {
            return;
        }
        for at in (0..self.n_old as usize).filter(|at| self.is_left(*at)).collect::<Vec<_>>() {
            if self.does_another_thing(at) {
                let own = self.old.raw().origin_numbers(at);
                self.b.pool.s.make_from(at, own.iter().copied());
            }
        }
        for (to, numbers) in self.replaced() {
            self.b.pool.s.make_from(to, numbers);
        }
        let (state, forward) = (&self.state, &self.forward);
        let is_left = |at: usize| !matches!(state.get(at), Some(State::Removed | State::Dissolved));
        self.b.pool.s.settle_origins(is_left, |op| super::resolved(forward, op));
    }

    /// Returns true if the operands, attributes or kind of an old node changed. A change of type, name or flags does not count.
    fn does_another_thing(&self, at: usize) -> bool {
        let (s, old) = (&self.b.pool.s, self.old.raw());
        let (now, before) = (&s.nodes[at], &old.nodes()[at]);
        let of = |node: &NodeRec| (node.kind, node.attrs, if node.has(flag::REGION) { 0 } else { node.a });
        of(now) != of(before) || now.ops(&s.operands) != before.ops(old.operands())
    }

    /// Maps each new node to the numbers of the nodes that it replaces.
    fn replaced(&self) -> BTreeMap<usize, Vec<u32>> {
        let mut found: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
        if self.forward.is_empty() {
            return found;
        }
        let uses = self.uses_left();
        for from in (0..self.forward.len()).filter(|at| self.forward[*at] != NONE) {
            let to = self.resolve_word(from as u32);
            let is_new = to >= self.n_old && to & LEAF_BIT == 0;
            // A copy keeps the origin of the copied value.
            if is_new && !matches!(self.b.pool.s.raw().origin(to as usize), Origin::Is(_)) {
                self.swallowed(from, &uses, found.entry(to as usize).or_default());
            }
        }
        found
    }

    /// Collects the numbers of a replaced node, and of bindings that only that node used.
    fn swallowed(&self, replaced: usize, uses: &[u32], numbers: &mut Vec<u32>) {
        let old = self.old.raw();
        let (mut work, mut looked_at) = (vec![replaced], 0);
        while let Some(at) = work.pop() {
            let node = &old.nodes()[at];
            if at == replaced || node.has(flag::BOUND) {
                numbers.extend(old.origin_numbers(at));
            }
            looked_at += 1;
            if looked_at > MOST_SWALLOWED {
                return;
            }
            let lost = |op: &usize| {
                let node = old.nodes().get(*op).filter(|node| node.kind != kind::PARAM);
                node.is_some() && uses[*op] == 0 && self.forward[*op] == NONE
            };
            work.extend(node.ops(old.operands()).iter().rev().map(|op| *op as usize).filter(lost));
        }
    }
}
