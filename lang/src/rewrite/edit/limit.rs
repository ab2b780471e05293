//! Applies the rewrite limit of a body to an edit: only rewrites within the limit are kept. Interdependent changes form one rewrite, so a
//! partially applied edit is still valid.

use super::{Edit, Item, Place, State};
use crate::ir::make::validate::{SealError, is_expression, is_nested};
use crate::ir::records::{LEAF_BIT, NONE, flag};
use crate::ir::storage::body_handle::Body;
use crate::walk::disjoint_sets::DisjointSets;
use std::collections::{BTreeMap, BTreeSet};

impl Edit<'_> {
    /// Undoes rewrites beyond the limit of the body, if any, and counts the rest. Returns the body if no rewrite is left. Its handle is the
    /// same if its counts are unchanged, so that code that edits to a fixed point terminates.
    ///
    /// # Errors
    /// Never fails for a valid body.
    pub(super) fn limit(&mut self) -> Result<Option<Body>, SealError> {
        let &[left, done, next] = self.b.pool.s.limit.as_slice() else { return Ok(None) };
        self.side.sort_by_key(|(place, _)| *place);
        let mut sets = DisjointSets::of(self.n_nodes());
        self.join_by_use(&mut sets);
        self.join_by_region(&mut sets);
        self.join_by_place(&mut sets);
        let rewrites = self.rewrites(&mut sets);
        let kept = rewrites.len().min(left as usize);
        let limit = match rewrites.get(kept) {
            Some((_, at)) if next == NONE => self.name_near(*at),
            _ => next,
        };
        let limit = [left - kept as u32, done + kept as u32, limit];
        if kept == rewrites.len() {
            // The whole edit is within the limit, including changes that are not rewrites, such as a new order of nested expressions.
            self.b.pool.s.limit = limit.to_vec();
            return Ok(None);
        }
        if kept == 0 {
            let same = self.old.raw().limit() == limit;
            return if same { Ok(Some(self.old.clone())) } else { self.old.with_limit(&limit).map(Some) };
        }
        self.b.pool.s.limit = limit.to_vec();
        let undone: BTreeSet<usize> = rewrites[kept..].iter().map(|(root, _)| *root).collect();
        self.undo(&mut sets, &undone);
        Ok(None)
    }

    /// Returns true if an old node was changed.
    fn is_changed(&self, at: usize) -> bool {
        let (s, old) = (&self.b.pool.s, self.old.raw());
        self.state[at] != State::Keep
            || self.forward.get(at).is_some_and(|to| *to != NONE)
            || s.nodes[at] != old.nodes()[at]
            || s.names.get(at) != Some(old.names().get(at).unwrap_or(&NONE))
            || s.nodes[at].ops(&s.operands) != old.nodes()[at].ops(old.operands())
    }

    /// Maps each new node that replaces an old node to the old node, which the users of the new node could also use.
    fn targets(&self) -> BTreeMap<u32, u32> {
        let replaced = self.forward.iter().enumerate().rev().filter(|(_, to)| **to != NONE && **to & LEAF_BIT == 0);
        replaced.filter(|(_, to)| **to >= self.n_old).map(|(from, to)| (*to, from as u32)).collect()
    }

    /// Joins each new or changed node with the new nodes that it uses, except for replacements of old nodes. Joins each replaced node with
    /// its replacement.
    fn join_by_use(&self, sets: &mut DisjointSets) {
        let (s, n_old, targets) = (&self.b.pool.s, self.n_old as usize, self.targets());
        let scalars = self.changed_scalars();
        let takes_part = |op: u32| op & LEAF_BIT == 0 && (op as usize >= n_old || self.is_changed(op as usize));
        for at in (0..s.nodes.len()).filter(|at| takes_part(*at as u32)) {
            let new = |op: &&u32| **op as usize >= n_old && takes_part(**op) && !targets.contains_key(*op);
            for op in s.nodes[at].ops(&s.operands).iter().filter(new) {
                sets.merge(*op as usize, at);
            }
            if at >= n_old {
                continue;
            }
            let replaced = |op: u32| self.forward.get(op as usize).copied().filter(|to| *to != NONE);
            // Nodes removed together with a user belong to the same rewrite.
            for op in self.used_before(at, &scalars).into_iter().filter(|op| takes_part(*op) && replaced(*op).is_none())
            {
                sets.merge(op as usize, at);
            }
            // A replacement that was itself replaced no longer counts.
            if let Some(to) = replaced(at as u32).filter(|to| takes_part(*to) && replaced(*to).is_none()) {
                sets.merge(to as usize, at);
            }
        }
    }

    /// Returns the old operands of an old node, of its nested expressions, and of its content if the region is removed. Types also use
    /// scalars.
    fn used_before(&self, at: usize, scalars: &BTreeMap<u32, u32>) -> Vec<u32> {
        let old = self.old.raw();
        let (mut used, mut work) = (Vec::new(), vec![at]);
        while let Some(at) = work.pop() {
            let node = &old.nodes()[at];
            let goes = node.has(flag::REGION) && self.state[at] != State::Keep;
            for at in at..if goes { node.end(at as u32) as usize } else { at + 1 } {
                let operands = old.nodes()[at].ops(old.operands()).iter().filter(|op| **op & LEAF_BIT == 0);
                used.extend(operands.clone());
                let nested = operands.filter(|op| !goes && is_nested(&old.nodes()[**op as usize]));
                work.extend(nested.map(|op| *op as usize));
                if !scalars.is_empty() {
                    self.old.value_at(at).each_symbol(&mut |sym| used.extend(scalars.get(&sym.id).copied()));
                }
            }
        }
        used
    }

    /// Maps the symbolic variables of changed old scalars to these scalars.
    fn changed_scalars(&self) -> BTreeMap<u32, u32> {
        let scalars = self.old.values().filter_map(|value| Some((value.symbol()?.id, value.index()?)));
        scalars.filter(|(_, at)| self.is_changed(*at)).map(|(sym, at)| (sym, at as u32)).collect()
    }

    /// Joins changes inside a removed region with that region.
    fn join_by_region(&self, sets: &mut DisjointSets) {
        let mut at = 0;
        while at < self.n_old as usize {
            let node = self.old.raw().nodes()[at];
            if !node.has(flag::REGION) || self.state[at] == State::Keep {
                at += 1;
                continue;
            }
            let end = node.end(at as u32) as usize;
            (at + 1..end).filter(|inner| self.is_changed(*inner)).for_each(|inner| {
                sets.merge(inner, at);
            });
            let inside = |place: &Place| (at < place.at as usize) && (place.at as usize) < end;
            for (_, item) in self.side.iter().filter(|(place, _)| inside(place)) {
                item.node().into_iter().for_each(|op| {
                    sets.merge(op, at);
                });
            }
            at = end;
        }
    }

    /// Joins statements inserted at the same place with each other, and with a changed statement there. Joins the content of a new region
    /// with the region.
    fn join_by_place(&self, sets: &mut DisjointSets) {
        let (mut open, mut last): (Vec<usize>, Option<(Place, usize)>) = (Vec::new(), None);
        for (place, item) in &self.side {
            let Some(op) = item.node() else {
                open.pop();
                continue;
            };
            if let Some(header) = open.last() {
                sets.merge(op, *header);
            }
            if matches!(item, Item::Open(_)) {
                open.push(op);
            }
            if is_expression(&self.b.pool.s.nodes[op]) && matches!(item, Item::Node(_)) {
                continue;
            }
            if let Some((_, before)) = last.filter(|(before, _)| before == place) {
                sets.merge(op, before);
            }
            last = Some((*place, op));
            let beside = if place.before { self.statement_from(place.at) } else { Some(!place.anchor as usize) };
            if let Some(beside) = beside.filter(|at| *at < self.n_old as usize && self.is_changed(*at)) {
                sets.merge(op, beside);
            }
        }
    }

    /// Returns the statement whose nested expressions start at a position.
    fn statement_from(&self, at: u32) -> Option<usize> {
        let nodes = self.old.raw().nodes();
        (at as usize..nodes.len()).find(|at| !is_nested(&nodes[*at]))
    }

    /// Returns the roots of the sets that contain changes, each with its first position in the old body, sorted by that position.
    fn rewrites(&self, sets: &mut DisjointSets) -> Vec<(usize, usize)> {
        let mut first: BTreeMap<usize, usize> = BTreeMap::new();
        for at in (0..self.n_old as usize).filter(|at| self.is_changed(*at)) {
            first.entry(sets.root(at)).or_insert(at);
        }
        for (place, item) in &self.side {
            if let Some(op) = item.node() {
                first.entry(sets.root(op)).or_insert((place.at as usize).min(self.n_old as usize - 1));
            }
        }
        let mut all: Vec<(usize, usize)> = first.into_iter().collect();
        all.sort_by_key(|(_, at)| *at);
        all
    }

    /// Returns the name of the first named value at or after a position.
    fn name_near(&self, at: usize) -> u32 {
        let raw = self.old.raw();
        raw.names().get(at..).and_then(|names| names.iter().find(|name| **name != NONE)).copied().unwrap_or(NONE)
    }

    /// Restores the old state of all nodes in some sets.
    fn undo(&mut self, sets: &mut DisjointSets, undone: &BTreeSet<usize>) {
        let (old, targets) = (*self.old.raw(), self.targets());
        for at in 0..self.n_old as usize {
            if !self.is_changed(at) || !undone.contains(&sets.root(at)) {
                continue;
            }
            self.state[at] = State::Keep;
            if let Some(forward) = self.forward.get_mut(at) {
                *forward = NONE;
            }
            let (s, node) = (&mut self.b.pool.s, old.nodes()[at]);
            s.nodes[at] = node;
            s.names[at] = old.names().get(at).copied().unwrap_or(NONE);
            if let Some(operands) = s.operands.get_mut(node.op_range()) {
                operands.copy_from_slice(node.ops(old.operands()));
            }
        }
        // Remaining nodes refer to the restored nodes again.
        let s = &mut self.b.pool.s;
        for op in s.operands.iter_mut().filter(|op| **op & LEAF_BIT == 0) {
            if let Some(from) = targets.get(op).filter(|_| undone.contains(&sets.root(*op as usize))) {
                *op = *from;
            }
        }
        let mut open = Vec::new();
        self.side.retain(|(_, item)| {
            let goes = match item.node() {
                Some(op) => undone.contains(&sets.root(op)),
                None => open.pop().unwrap_or(false),
            };
            if matches!(item, Item::Open(_)) {
                open.push(goes);
            }
            !goes
        });
    }
}

impl Item {
    /// Returns the inserted node, if any.
    fn node(&self) -> Option<usize> {
        match self {
            Item::Node(op) | Item::Old(op) | Item::Open(op) => Some(*op as usize),
            Item::Close => None,
        }
    }
}
