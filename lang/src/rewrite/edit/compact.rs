//! Writes an edited body in one pass over the old nodes and the insertions between them.

use crate::ir::make::validate::is_nested;
use crate::ir::make::validate::{SealError, is_expression};
use crate::ir::records::*;
use crate::ir::storage::sections::RawView;
use crate::rewrite::edit::{Item, Place, State, resolved};
use std::collections::BTreeSet;

/// The entry in the map of a [`Compact`] for a nested expression that was reached but will be written with its user.
const WAITS: u32 = NONE - 1;

/// The changes to the nodes of a body.
#[derive(Clone, Copy)]
pub(super) struct Changes<'e> {
    /// The state of each old node.
    pub(super) state: &'e [State],
    /// The insertions, sorted by place.
    pub(super) side: &'e [(Place, Item)],
    /// The replacement of each node, or [`NONE`].
    pub(super) forward: &'e [u32],
}

/// The tables of an edited body.
pub(super) struct Written {
    pub(super) nodes: Vec<NodeRec>,
    pub(super) operands: Vec<u32>,
    pub(super) names: Vec<u32>,
    pub(super) origins: Vec<u32>,
}

/// One forward pass that writes the new nodes. A nested expression is written directly before its user, regardless of its old position.
pub(super) struct Compact<'e> {
    changes: Changes<'e>,
    /// The old and new nodes.
    old: RawView<'e>,
    n_old: u32,
    map: Vec<u32>,
    nodes: Vec<NodeRec>,
    operands: Vec<u32>,
    names: Vec<u32>,
    /// The origins of the nodes; empty if the host does not request them.
    origins: Vec<u32>,
    /// Open regions: new header, old end (`NONE` if an item closes the region), old header.
    open: Vec<(u32, u32, u32)>,
    next: usize,
    /// The block that was closed last; a block of the same kind directly after it is merged into it.
    closed_block: Option<u32>,
    /// Reopened blocks, each with its previous end; effects before that position are already known.
    joined: Vec<(u32, u32)>,
}

impl<'e> Compact<'e> {
    pub(super) fn new(changes: Changes<'e>, old: RawView<'e>) -> Compact<'e> {
        let n = old.nodes().len();
        Compact {
            changes,
            old,
            n_old: changes.state.len() as u32,
            map: vec![NONE; n],
            nodes: Vec::with_capacity(n),
            operands: Vec::with_capacity(old.operands().len()),
            names: Vec::with_capacity(n),
            origins: Vec::with_capacity(old.origins().len()),
            open: Vec::new(),
            next: 0,
            closed_block: None,
            joined: Vec::new(),
        }
    }

    pub(super) fn run(mut self) -> Result<Written, SealError> {
        let n_old = self.n_old;
        let mut at = 0;
        loop {
            self.items(at, false)?;
            self.close_ended(at, 0);
            self.items(at, true)?;
            if at >= n_old {
                break;
            }
            let node = self.old.nodes()[at as usize];
            match self.changes.state[at as usize] {
                State::Removed | State::Moved => {
                    let end = node.end(at).min(n_old);
                    self.skip_items(end);
                    at = end;
                    continue;
                }
                State::Dissolved => {}
                State::Keep => {
                    self.come_to(at)?;
                    if node.has(flag::REGION) {
                        self.open.push((self.map[at as usize], node.end(at), at));
                    }
                }
            }
            at += 1;
        }
        while let Some((header, ..)) = self.open.pop() {
            self.set_extent(header);
        }
        let Compact { nodes, operands, names, origins, .. } = self;
        Ok(Written { nodes, operands, names, origins })
    }

    /// Closes old regions that end at `at` and whose header is at or after `from`.
    fn close_ended(&mut self, at: u32, from: u32) {
        while let Some((header, end, old)) = self.open.last().copied() {
            if end != at || old < from {
                break;
            }
            self.open.pop();
            self.set_extent(header);
        }
    }

    /// Ends a region: sets its extent and its effect flag. An empty block is removed.
    fn set_extent(&mut self, header: u32) {
        let extent = self.nodes.len() as u32 - header - 1;
        let node = self.nodes[header as usize];
        let block = matches!(node.kind, kind::BLOCK | kind::DATAFLOW);
        if block && extent == 0 {
            self.nodes.pop();
            self.names.pop();
            self.origins.truncate(self.nodes.len());
            return;
        }
        if block {
            self.closed_block = Some(header);
        }
        self.nodes[header as usize].a = extent;
        if matches!(node.kind, kind::FUNC | kind::PRIM_FUNC) {
            return;
        }
        let effect = match self.joined.pop_if(|(joined, _)| *joined == header) {
            Some((_, end)) => node.has(flag::IMPURE) || self.have_effect(end),
            None => self.have_effect(header + 1),
        };
        // A region of an unknown kind may itself have an effect.
        let derived = matches!(
            node.kind,
            kind::BLOCK | kind::DATAFLOW | kind::BRANCH | kind::IF | kind::SEQ | kind::FOR | kind::WHILE | kind::COND
        ) || matches!(node.kind, kind::SCOPE | kind::SBLOCK | kind::INIT | kind::ATTR | kind::LAUNCH);
        let flags = if derived { node.flags & !flag::IMPURE } else { node.flags };
        self.nodes[header as usize].flags = flags | if effect { flag::IMPURE } else { 0 };
    }

    /// Returns true if a node from here to the end has an effect. Inner regions are already closed; a nested function does not count as an
    /// effect.
    fn have_effect(&self, mut at: u32) -> bool {
        let end = self.nodes.len() as u32;
        while at < end {
            let node = &self.nodes[at as usize];
            let function = matches!(node.kind, kind::FUNC | kind::PRIM_FUNC);
            if node.has(flag::IMPURE) && !function {
                return true;
            }
            at = node.end(at);
        }
        false
    }

    fn items(&mut self, at: u32, before: bool) -> Result<(), SealError> {
        while let Some((place, item)) = self.changes.side.get(self.next).copied() {
            if place.at != at || place.before != before {
                break;
            }
            if !before {
                self.close_ended(at, !place.anchor);
            }
            self.next += 1;
            match item {
                Item::Node(op) => self.come_to(op)?,
                Item::Old(op) if self.changes.state[op as usize] == State::Moved => self.come_to(op)?,
                Item::Old(_) => {}
                Item::Open(op) => {
                    self.emit(op)?;
                    self.open.push((self.map[op as usize], NONE, NONE));
                }
                Item::Close => {
                    if let Some((header, ..)) = self.open.pop() {
                        self.set_extent(header);
                    }
                }
            }
        }
        Ok(())
    }

    /// Skips insertions inside a removed region.
    fn skip_items(&mut self, end: u32) {
        while self.changes.side.get(self.next).is_some_and(|(place, _)| place.at < end) {
            self.next += 1;
        }
    }

    /// Writes a node, or postpones it until its user, by the rule of `put_in_order` in `usual_form.rs`. Regions are not postponed, because their
    /// content follows.
    fn come_to(&mut self, op: u32) -> Result<(), SealError> {
        let node = &self.old.nodes()[op as usize];
        if !is_nested(node) || node.has(flag::REGION) {
            return self.emit(op);
        }
        self.map[op as usize] = WAITS;
        Ok(())
    }

    /// Writes the postponed expressions of a user, operands first. Uses a work list, because nesting can be deep.
    fn emit_waiting(&mut self, user: u32) -> Result<(), SealError> {
        let mut work = vec![(user, false)];
        while let Some((op, ready)) = work.pop() {
            if ready {
                self.emit(op)?;
                continue;
            }
            if op != user {
                // The expression may be an operand twice.
                if !self.waits(op) {
                    continue;
                }
                // Without the mark, the operands of `op` cannot add it to the work list again, so cycles cannot arise.
                self.map[op as usize] = NONE;
                work.push((op, true));
            }
            let operands = self.old.operands().get(self.old.nodes()[op as usize].op_range()).unwrap_or(&[]);
            let targets = operands.iter().rev().map(|operand| self.resolved(*operand));
            work.extend(targets.filter(|word| self.waits(*word)).map(|word| (word, false)));
        }
        Ok(())
    }

    fn resolved(&self, op: u32) -> u32 {
        resolved(self.changes.forward, op)
    }

    fn waits(&self, word: u32) -> bool {
        self.map.get(word as usize) == Some(&WAITS)
    }

    fn emit(&mut self, op: u32) -> Result<(), SealError> {
        let mut node = self.old.nodes()[op as usize];
        if matches!(node.kind, kind::BLOCK | kind::DATAFLOW)
            && let Some(before) = self.closed_block
            && let Some(block) = self.nodes.get(before as usize).filter(|block| block.kind == node.kind)
            && before as usize + 1 + block.a as usize == self.nodes.len()
        {
            self.map[op as usize] = before;
            self.joined.push((before, self.nodes.len() as u32));
            return Ok(());
        }
        node.ops = self.emit_operands(op, &node)?;
        self.map[op as usize] = self.nodes.len() as u32;
        self.push(op, node);
        Ok(())
    }

    /// Writes a node with its name and origin.
    fn push(&mut self, op: u32, node: NodeRec) {
        self.nodes.push(node);
        self.names.push(self.old.names().get(op as usize).copied().unwrap_or(NONE));
        if !self.old.origins().is_empty() {
            self.origins.push(self.old.origins().get(op as usize).copied().unwrap_or(NONE));
        }
    }

    /// Writes the operands of a node; returns the start of the operands.
    fn emit_operands(&mut self, op: u32, node: &NodeRec) -> Result<u32, SealError> {
        let range = node.op_range();
        let (end, len) = (range.end as u64, self.old.operands().len());
        let Some(operands) = self.old.operands().get(range) else {
            return Err(SealError::Dangling { what: "node", index: op as usize, field: "operands", found: end, len });
        };
        // Operands of this node that still refer to the old value of the node that it replaces.
        let mut before: Vec<(usize, u32)> = Vec::new();
        'again: loop {
            let ops = self.operands.len() as u32;
            for (i, operand) in operands.iter().enumerate() {
                let word = self.resolved(*operand);
                let word = match before.iter().find(|(at, _)| *at == i) {
                    Some((_, word)) => *word,
                    None if word & LEAF_BIT != 0 => word,
                    None => self.map.get(word as usize).copied().unwrap_or(NONE),
                };
                if word == WAITS {
                    self.operands.truncate(ops as usize);
                    self.emit_waiting(op)?;
                    continue 'again;
                }
                if word == NONE {
                    self.operands.truncate(ops as usize);
                    before.push((i, self.emit_replaced(op, *operand)?));
                    continue 'again;
                }
                self.operands.push(word);
            }
            return Ok(ops);
        }
    }

    /// Writes the old value of an operand that is replaced by `user`, as when `f(x)` becomes `g(f(x))`. The old value then precedes the
    /// user.
    fn emit_replaced(&mut self, user: u32, operand: u32) -> Result<u32, SealError> {
        let mut node = match self.old.nodes().get(operand as usize) {
            Some(node) if self.takes_the_place(user, operand) => *node,
            _ => return Err(self.dangling(user, operand)),
        };
        // A kept binding has already been written; a nested value is written once per user.
        let there = self.map[operand as usize];
        if there != NONE && node.has(flag::BOUND) {
            return Ok(there);
        }
        node.ops = self.emit_operands(operand, &node)?;
        // The replacement inherits visibility outside the dataflow block.
        let region = self.open.last().and_then(|(header, ..)| self.nodes.get(*header as usize));
        if node.has(flag::BOUND) && region.is_some_and(|region| region.has(flag::DATAFLOW)) {
            node.flags |= flag::INNER;
        }
        let word = self.nodes.len() as u32;
        self.map[operand as usize] = word;
        self.push(operand, node);
        Ok(word)
    }

    /// Returns true if `operand`, an old value other than a region, was replaced by a new value that uses `user`.
    fn takes_the_place(&self, user: u32, operand: u32) -> bool {
        let (n_old, target) = (self.n_old, self.resolved(operand));
        let plain = |node: &NodeRec| is_expression(node) && !node.has(flag::REGION);
        if user < n_old
            || operand >= n_old
            || target < n_old
            || !self.old.nodes().get(operand as usize).is_some_and(plain)
        {
            return false;
        }
        let (mut seen, mut work) = (BTreeSet::new(), vec![target]);
        while let Some(op) = work.pop() {
            if op == user {
                return true;
            }
            let Some(node) = self.old.nodes().get(op as usize).filter(|_| op >= n_old && seen.insert(op)) else {
                continue;
            };
            let operands = self.old.operands().get(node.op_range()).unwrap_or(&[]);
            work.extend(operands.iter().filter(|op| **op & LEAF_BIT == 0));
        }
        false
    }

    fn dangling(&self, user: u32, operand: u32) -> SealError {
        let name = |op: u32| {
            self.old.names().get(op as usize).and_then(|off| self.old.name_at(*off)).unwrap_or("").to_string()
        };
        let target = self.resolved(operand);
        let removed = self.changes.state.get(target as usize).is_some_and(|state| *state == State::Removed);
        let (index, user) = (user as usize, name(user));
        let name = Some(name(target)).filter(|name| !name.is_empty()).unwrap_or_else(|| format!("node {target}"));
        if removed { SealError::Removed { index, user, name } } else { SealError::UseBeforeDef { index, user, name } }
    }
}
