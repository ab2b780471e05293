//! Rewriting: a mutable copy of a body, changed in place. Insertions are collected separately, and applied by one compaction at the end.
//!
//! Old values keep their ids while editing, so a pass reads `Value`s of the body and writes `V`s. `k` changes cost O(nodes + k log k) in
//! total. An edit without changes keeps the handle.

mod compact;
mod limit;
mod origins;
mod scalars;
mod shared;
mod unshare;

use super::Operand;
use crate::ir::BodyKind;
use crate::ir::make::builder::{AttrsId, BodyBuilder, NodeSpec, TypeId, V};
use crate::ir::make::validate::{SealError, is_expression, is_nested};
use crate::ir::records::*;
use crate::ir::storage::body_handle::Body;
use crate::ir::storage::sections::Sections;
use crate::ir::types::{Sym, Type};
use crate::ir::value::Value;
use compact::{Changes, Compact, Written};
use std::collections::{BTreeSet, HashMap};

/// The state of a node of the old body.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Keep,
    /// Removed, together with its content.
    Removed,
    /// The header is removed, its content is kept.
    Dissolved,
    /// Moved to the position of an [`Item::Old`].
    Moved,
}

/// The position of an insertion.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    /// Old position.
    at: u32,
    /// True if it precedes the node at `at` (and follows regions that end there); false if it follows `!anchor`.
    before: bool,
    /// For insertions after a node, the complement of that node's position, so that insertions after inner nodes come
    /// first.
    anchor: u32,
}

impl Place {
    /// Returns the old position, and true for a position before the node there, or false for a position after the previous node.
    pub(crate) fn position(self) -> (u32, bool) {
        (self.at, self.before)
    }
}

#[derive(Clone, Copy)]
enum Item {
    Node(u32),
    /// A node of the old body that was moved here.
    Old(u32),
    Open(u32),
    Close,
}

/// A body under modification.
///
/// Values of the old body stay valid while it is edited. [`Edit::v`] converts an old value to a value of the edit, which can be an operand
/// of new nodes. [`Edit::finish`] validates the result.
///
/// ```
/// use plugin_api::prelude::*;
/// use plugin_api::ir::{AttrsId, BodyBuilder, SealError};
///
/// # let mut b = BodyBuilder::new();
/// # b.begin_function(0, AttrsId::NONE, None);
/// # let ty = b.ty(&Type::tensor([2, 3], DType::F32));
/// # let (x, relu, exp) = (b.param("x", ty), b.op("relax.nn.relu"), b.op("relax.exp"));
/// # b.begin_block();
/// # let a = b.call(relu, &[x], AttrsId::NONE, ty, false, Some("a"));
/// # let c = b.call(exp, &[a], AttrsId::NONE, ty, false, Some("c"));
/// # b.end();
/// # b.end_function(c, ty);
/// # let body = b.finish()?;
/// // def main(x: R.Tensor((2, 3), "float32")):
/// //     a = R.nn.relu(x)
/// //     c = R.exp(a)
/// //     return c
/// let mut edit = body.edit();
/// let (a, c) = (body.lookup_binding("a").expect("`a`"), body.lookup_binding("c").expect("`c`"));
/// // c = R.exp(a) becomes c = R.tanh(a)
/// let (tanh, old_a) = (edit.builder().op("relax.tanh"), edit.v(a));
/// let ty = edit.builder().ty(&Type::tensor([2, 3], DType::F32));
/// let new = edit.before(c).call(tanh, &[old_a], AttrsId::NONE, ty, false, Some("c"));
/// edit.replace(c, new);
/// let changed = edit.finish()?;
///
/// let c = changed.lookup_binding("c").expect("`c`");
/// assert_eq!(c.as_call().and_then(Call::op), Some("relax.tanh"));
/// assert_eq!(changed.bindings().count(), 2);
/// # Ok::<(), SealError>(())
/// ```
pub struct Edit<'b> {
    old: &'b Body,
    b: BodyBuilder,
    n_old: u32,
    state: Vec<State>,
    forward: Vec<u32>,
    side: Vec<(Place, Item)>,
    place: Place,
    dirty: bool,
    /// True if attributes of nodes changed.
    attrs_changed: bool,
    /// The enclosing region of each old node; computed on first use.
    parents: Vec<u32>,
    /// The old scalar of each symbolic variable, by the number of the variable; computed on first use.
    symbols: Option<HashMap<u32, u32>>,
    /// The function that completes the new body.
    complete: Option<fn(&Body) -> Result<Body, SealError>>,
    /// The groups created by earlier calls of [`Edit::outline`].
    pub(crate) groups: crate::rewrite::outline::Groups,
}

/// Returns the node that `op` refers to after all replacements.
fn resolved(forward: &[u32], mut op: u32) -> u32 {
    let mut steps = 0;
    while let Some(next) = forward.get(op as usize).copied().filter(|next| *next != NONE) {
        op = next;
        steps += 1;
        if steps > forward.len() {
            break;
        }
    }
    op
}

impl Body {
    /// Starts an edit.
    pub fn edit(&self) -> Edit<'_> {
        let n_old = self.len() as u32;
        let end = Place { at: n_old, before: true, anchor: 0 };
        Edit {
            old: self,
            b: BodyBuilder::over(Sections::copy_of(self.raw())),
            n_old,
            state: vec![State::Keep; self.len()],
            forward: Vec::new(),
            side: Vec::new(),
            place: end,
            dirty: false,
            attrs_changed: false,
            parents: Vec::new(),
            symbols: None,
            complete: None,
            groups: Default::default(),
        }
    }

    /// Keeps the bindings for which `keep` returns true; removes the others, with their nested expressions.
    ///
    /// # Errors
    /// If a removed binding is still used.
    pub fn retain(&self, mut keep: impl FnMut(Value<'_>) -> bool) -> Result<Body, SealError> {
        let mut drop: Vec<Value<'_>> = Vec::new();
        let mut at = 0;
        while at < self.len() {
            let value = self.value_at(at);
            at += 1;
            if value.is_binding() && !keep(value) {
                drop.push(value);
                at = value.end();
            }
        }
        if drop.is_empty() {
            return Ok(self.clone());
        }
        if self.kind() == BodyKind::PrimFunc || !self.raw().limit().is_empty() {
            let mut edit = self.edit();
            drop.into_iter().for_each(|value| edit.remove(value));
            return edit.finish();
        }
        self.without(drop)
    }

    /// Returns a Relax function without the given bindings. Nothing is added, so no table is copied.
    fn without(&self, dropped: Vec<Value<'_>>) -> Result<Body, SealError> {
        let raw = self.raw();
        let mut state = vec![State::Keep; self.len()];
        let mut work: Vec<usize> = dropped.into_iter().filter_map(Value::index).collect();
        while let Some(at) = work.pop() {
            state[at] = State::Removed;
            let operands = raw.nodes()[at].ops(raw.operands()).iter().map(|op| *op as usize);
            work.extend(operands.filter(|op| {
                raw.nodes().get(*op).is_some_and(|node| !node.has(flag::BOUND)) && state[*op] == State::Keep
            }));
        }
        let changes = Changes { state: &state, side: &[], forward: &[] };
        let written = Compact::new(changes, *raw).run()?;
        let rows = (&*written.names, &*written.origins);
        crate::ir::storage::sealer::seal(&raw.with_nodes(&written.nodes, &written.operands, rows))
    }
}

impl<'b> Edit<'b> {
    /// Returns the body before the edit.
    pub fn old(&self) -> &'b Body {
        self.old
    }

    /// Converts a value of the old body to a value of this edit.
    pub fn v(&self, value: Value<'_>) -> V {
        debug_assert!(std::ptr::eq(value.raw, self.old.raw()), "the value belongs to another body; import it first");
        self.b.v(value.op)
    }

    /// Returns the builder of this edit, for types, attributes and leaves. Add nodes with the methods of the edit.
    pub fn builder(&mut self) -> &mut BodyBuilder {
        &mut self.b
    }

    /// Calls `f` with the current state of a value of this edit, old or new.
    pub fn with<R>(&self, v: impl Operand, f: impl FnOnce(Value<'_>) -> R) -> R {
        self.b.with(v.of(self), f)
    }

    /// Returns the number of old and new nodes.
    pub(crate) fn n_nodes(&self) -> usize {
        self.b.pool.s.nodes.len()
    }

    /// Returns the operands of the node at a position, without leaves.
    pub(crate) fn operands_of(&self, at: usize) -> Vec<V> {
        let s = &self.b.pool.s;
        let words = &s.operands[s.nodes[at].op_range()];
        words.iter().filter(|op| **op & LEAF_BIT == 0).map(|op| self.b.v(*op)).collect()
    }

    /// Returns true if the edit contains changes.
    pub fn is_dirty(&self) -> bool {
        self.dirty || self.attrs_changed
    }

    /// Removes a node and its content, and the expressions nested in its operands.
    pub fn remove(&mut self, value: Value<'_>) {
        let v = self.v(value);
        self.remove_v(v);
    }

    fn remove_v(&mut self, v: V) {
        let mut work = vec![v.op];
        while let Some(op) = work.pop() {
            if op >= self.n_old || self.state[op as usize] == State::Removed {
                continue;
            }
            self.dirty = true;
            self.state[op as usize] = State::Removed;
            let node = self.b.pool.s.nodes[op as usize];
            for operand in node.ops(&self.b.pool.s.operands).iter().copied() {
                if operand < self.n_old && !self.b.pool.s.nodes[operand as usize].has(flag::BOUND) {
                    work.push(operand);
                }
            }
        }
    }

    /// Redirects every use of `value` to `with`, and removes `value`. Its nested expressions are also removed unless new nodes use them.
    /// If `with` uses `value`, that use still refers to the old value, which is kept before `with`.
    pub fn replace(&mut self, value: Value<'_>, with: impl Operand) {
        self.forward_to(value, with);
        self.discard(value);
    }

    /// Removes a node and its content. Expressions nested in its operands are also removed if they are unused at the end.
    pub fn discard(&mut self, value: Value<'_>) {
        if let Some(state) = value.index().and_then(|i| self.state.get_mut(i)) {
            *state = State::Removed;
            self.dirty = true;
        }
    }

    /// Redirects every use of `value` to `with`; `value` is kept.
    pub fn forward_to(&mut self, value: Value<'_>, with: impl Operand) {
        let (from, to) = (self.v(value).op, self.b.word(with.of(self)));
        if from == to || from & LEAF_BIT != 0 {
            return;
        }
        if self.forward.is_empty() {
            self.forward.resize(self.n_old as usize, NONE);
        }
        // Only uses of old nodes can be redirected.
        let Some(forward) = self.forward.get_mut(from as usize) else { return };
        *forward = to;
        self.dirty = true;
        self.make_visible(from, to);
    }

    /// Makes the replacement of an output of a dataflow block an output as well.
    fn make_visible(&mut self, from: u32, to: u32) {
        let nodes = &self.b.pool.s.nodes;
        let output = nodes[from as usize].has(flag::BOUND) && !nodes[from as usize].has(flag::INNER);
        let hidden = |node: &NodeRec| node.has(flag::INNER) && is_expression(node);
        if output && nodes.get(to as usize).is_some_and(hidden) && self.same_region(from, to) {
            self.b.pool.s.nodes[to as usize].flags &= !flag::INNER;
        }
    }

    /// Returns true if two nodes are directly in the same region; a new node is assumed to be in the right region.
    fn same_region(&mut self, a: u32, b: u32) -> bool {
        a >= self.n_old || b >= self.n_old || self.parents()[a as usize] == self.parents()[b as usize]
    }

    fn parents(&mut self) -> &[u32] {
        if self.parents.is_empty() {
            self.parents = self.old.parents();
        }
        &self.parents
    }

    /// Returns the old body's scalar for a symbolic variable.
    #[doc(hidden)]
    pub fn scalar_of(&mut self, sym: Sym) -> Option<Value<'b>> {
        let old = self.old;
        let symbols = self.symbols.get_or_insert_with(|| {
            let scalars = old.values().filter_map(|value| Some((value.symbol()?.id, value.index()? as u32)));
            scalars.collect()
        });
        symbols.get(&sym.id).map(|at| old.value_at(*at as usize))
    }

    /// Returns true if a value of this edit is new, or is directly in the same region as an old value.
    pub(crate) fn stands_with(&mut self, v: V, value: Value<'_>) -> bool {
        self.same_region(v.op, value.op)
    }

    /// Returns the kind of the region that directly contains an old value.
    pub(crate) fn kind_around(&mut self, value: Value<'_>) -> u16 {
        let header = value.index().and_then(|at| self.parents().get(at).copied()).unwrap_or(0);
        self.old.value_at(header as usize).kind()
    }

    /// Wraps a newly named old expression and its nested expressions in a block.
    pub(crate) fn enclose_old(&mut self, value: Value<'_>) {
        let place = self.place;
        self.before(value).open(NodeSpec::new(kind::BLOCK), &[], None);
        self.after(value).close();
        self.place = place;
    }

    /// Wraps the named insertions from `first` on in a block if all of them are directly before a value. Unnamed insertions
    /// between them get names.
    pub(crate) fn enclose_new(&mut self, first: usize, before: Value<'_>, name: &str) {
        self.just_before(before);
        let here = self.place;
        let bound = |item: &Item| matches!(item, Item::Node(op) if self.b.pool.s.nodes[*op as usize].has(flag::BOUND));
        let place = self.side.get(first).map(|(place, _)| *place).filter(|place| *place == here);
        let Some(last) = self.side.iter().rposition(|(_, item)| bound(item)).filter(|last| *last >= first) else {
            return;
        };
        let plain = |(at, item): &(Place, Item)| Some(*at) == place && matches!(item, Item::Node(_));
        let (Some(place), true) = (place, self.side[first..=last].iter().all(plain)) else { return };
        for at in first..last {
            if let Item::Node(op) = self.side[at].1
                && is_nested(&self.b.pool.s.nodes[op as usize])
            {
                let v = self.b.v(op);
                self.b.bind(v, name);
            }
        }
        let block = self.b.node(NodeSpec::new(kind::BLOCK).flags(flag::REGION), &[], None);
        self.side.insert(last + 1, (place, Item::Close));
        self.side.insert(first, (place, Item::Open(block.op)));
    }

    /// Returns the value that uses of `v` now refer to.
    pub fn resolve(&self, v: impl Operand) -> V {
        self.b.v(self.resolve_word(v.of(self).op))
    }

    fn resolve_word(&self, op: u32) -> u32 {
        resolved(&self.forward, op)
    }

    /// Returns true if an old value was removed.
    pub fn is_removed(&self, value: Value<'_>) -> bool {
        value.index().is_some_and(|i| self.state.get(i).is_some_and(|state| *state == State::Removed))
    }

    /// Returns true if the header of an old region was removed, but its content kept.
    pub(crate) fn is_dissolved(&self, value: Value<'_>) -> bool {
        value.index().is_some_and(|i| self.state.get(i).is_some_and(|state| *state == State::Dissolved))
    }

    /// Replaces one operand of an old or new node.
    pub fn set_operand(&mut self, v: impl Operand, i: usize, with: impl Operand) {
        let (op, with) = (self.b.word(v.of(self)), self.b.word(with.of(self)));
        let s = &mut self.b.pool.s;
        let Some(node) = s.nodes.get(op as usize).filter(|node| i < node.n_ops as usize) else { return };
        if let Some(operand) = s.operands.get_mut((node.ops as usize).saturating_add(i)) {
            self.dirty = true;
            *operand = with;
        }
    }

    /// Replaces all operands of a node.
    pub fn set_operands(&mut self, v: impl Operand, ops: &[impl Operand]) {
        let op = self.b.word(v.of(self));
        let ops: Vec<V> = ops.iter().map(|operand| operand.of(self)).collect();
        let at = self.b.pool.s.operands.len() as u32;
        let Some(node) = self.b.pool.s.nodes.get_mut(op as usize) else { return };
        (node.ops, node.n_ops) = (at, ops.len() as u32);
        for operand in ops {
            let word = self.b.word(operand);
            self.b.pool.s.operands.push(word);
        }
        self.dirty = true;
    }

    /// Changes the record of a node, except for its operands.
    pub fn update(&mut self, v: impl Operand, f: impl FnOnce(&mut NodeRec)) {
        let op = self.b.word(v.of(self)) as usize;
        if let Some(node) = self.b.pool.s.nodes.get_mut(op) {
            let before = *node;
            f(node);
            self.attrs_changed |= node.attrs != before.attrs;
            self.dirty |= *node != NodeRec { attrs: node.attrs, ..before };
        }
    }

    /// Sets the type of a node. Setting the current type does not count as a change.
    pub fn set_type(&mut self, v: impl Operand, ty: &Type) {
        let v = v.of(self);
        let before = self.b.type_of(v);
        if before != TypeId::NONE && self.b.type_owned(before) == *ty {
            return;
        }
        let ty = self.b.ty(ty);
        self.update(v, |node| node.ty = ty.0);
    }

    /// Sets the attributes of a node.
    pub fn set_attrs(&mut self, v: impl Operand, attrs: AttrsId) {
        self.update(v, |node| node.attrs = attrs.0);
    }

    /// Names a node, which makes a nested expression a binding.
    pub fn bind(&mut self, v: impl Operand, name: &str) {
        self.dirty = true;
        let v = v.of(self);
        self.b.bind(v, name);
    }

    /// Removes a region header but keeps its content.
    pub fn dissolve(&mut self, header: Value<'_>) {
        if let Some(state) = header.index().and_then(|i| self.state.get_mut(i)) {
            *state = State::Dissolved;
            self.dirty = true;
        }
    }

    /// Moves the current place before `value` and its nested expressions.
    pub fn before(&mut self, value: Value<'_>) -> &mut Self {
        self.place = Place { at: self.start_of(value), before: true, anchor: 0 };
        self
    }

    /// Returns the position of the first of the nested expressions directly before a statement.
    pub(crate) fn start_of(&self, value: Value<'_>) -> u32 {
        let raw = self.old.raw();
        let Some(mut at) = value.index() else { return self.n_old };
        let mut nested: Vec<u32> = Vec::new();
        loop {
            let operands = &raw.operands()[raw.nodes()[at].op_range()];
            nested.extend(operands.iter().filter(|op| **op & LEAF_BIT == 0));
            let before = at.wrapping_sub(1);
            match nested.iter().position(|op| *op as usize == before) {
                Some(i) if is_nested(&raw.nodes()[before]) => drop(nested.swap_remove(i)),
                _ => return at as u32,
            }
            at = before;
        }
    }

    /// Moves a statement, with its nested expressions, to the current place. Regions cannot be moved.
    pub(crate) fn move_here(&mut self, value: Value<'_>) {
        let Some(end) = value.index() else { return };
        for i in self.start_of(value)..=end as u32 {
            if self.state[i as usize] == State::Keep {
                self.state[i as usize] = State::Moved;
            }
            self.insert(Item::Old(i));
        }
    }

    /// Returns the current place.
    pub(crate) fn place(&self) -> Place {
        self.place
    }

    /// Restores a place.
    pub(crate) fn set_place(&mut self, place: Place) {
        self.place = place;
    }

    /// Returns the number of insertions; insertions at the same place keep their order.
    pub(crate) fn n_inserted(&self) -> u32 {
        self.side.len() as u32
    }

    /// Moves the current place directly before `value`. Expressions nested in `value` are written with it, after the new nodes.
    pub fn just_before(&mut self, value: Value<'_>) -> &mut Self {
        let at = value.index().map_or(self.n_old, |i| i as u32);
        self.place = Place { at, before: true, anchor: 0 };
        self
    }

    /// Sets the name of a node, as a hint.
    pub fn set_name(&mut self, v: impl Operand, name: &str) {
        let op = self.b.word(v.of(self)) as usize;
        if op < self.b.pool.s.names.len() {
            self.dirty = true;
            self.b.pool.s.names[op] = self.b.pool.name(name);
        }
    }

    /// Moves the current place after `value` and its content.
    pub fn after(&mut self, value: Value<'_>) -> &mut Self {
        self.place = Place { at: value.end() as u32, before: false, anchor: !value.op };
        self
    }

    /// Moves the current place to the start of a region.
    pub fn at_start(&mut self, header: Value<'_>) -> &mut Self {
        let at = header.index().map_or(self.n_old, |i| i as u32 + 1);
        // The anchor keeps the place inside this region, even if the region is empty; inner regions may end here.
        self.place = Place { at, before: false, anchor: !header.op.saturating_add(1) };
        self
    }

    /// Adds a node at the current place.
    pub fn node(&mut self, spec: NodeSpec, ops: &[V], name: Option<&str>) -> V {
        let v = self.b.node(spec, ops, name);
        self.insert(Item::Node(v.op));
        v
    }

    /// Adds a call at the current place.
    pub fn call(&mut self, callee: V, args: &[V], attrs: AttrsId, ty: TypeId, effect: bool, name: Option<&str>) -> V {
        let v = self.b.call(callee, args, attrs, ty, effect, name);
        self.insert(Item::Node(v.op));
        v
    }

    /// Inserts a node of the builder at the current place.
    pub(crate) fn put(&mut self, v: V) {
        self.insert(Item::Node(v.op));
    }

    /// Opens a region at the current place; [`Edit::close`] closes it at the current place of that call.
    pub fn open(&mut self, spec: NodeSpec, ops: &[V], name: Option<&str>) -> V {
        let v = self.b.node(spec.flags(flag::REGION), ops, name);
        self.insert(Item::Open(v.op));
        v
    }

    /// Closes the innermost opened region at the current place.
    pub fn close(&mut self) {
        self.insert(Item::Close);
    }

    /// Wraps the statements from `first` to `last` in a new region.
    pub fn wrap(&mut self, first: Value<'_>, last: Value<'_>, spec: NodeSpec) -> V {
        self.before(first);
        let v = self.open(spec, &[], None);
        self.after(last);
        self.close();
        v
    }

    fn insert(&mut self, item: Item) {
        self.dirty = true;
        self.side.push((self.place, item));
    }

    /// Compacts and validates the new body. An unchanged body keeps its handle.
    ///
    /// # Errors
    /// If a removed value is still used, or the result is not valid.
    pub fn finish(self) -> Result<Body, SealError> {
        let complete = self.complete;
        let body = self.compacted()?;
        complete.map_or(Ok(body.clone()), |complete| complete(&body))
    }

    /// Sets a function that completes the new body, for example with the regions that blocks access.
    #[doc(hidden)]
    pub fn complete_with(&mut self, complete: fn(&Body) -> Result<Body, SealError>) {
        self.complete = Some(complete);
    }

    fn compacted(mut self) -> Result<Body, SealError> {
        if !self.is_dirty() {
            return Ok(self.old.clone());
        }
        self.b.pool.check_whole()?;
        if let Some(unchanged) = self.limit()? {
            return Ok(unchanged);
        }
        self.note_origins();
        if !self.dirty && self.b.pool.s.nodes.len() == self.n_old as usize {
            // The nodes and their order are unchanged.
            let sections = Sections { spans: Vec::new(), ..std::mem::take(&mut self.b.pool.s) };
            return crate::ir::storage::sealer::seal(&sections.raw());
        }
        if self.is_tir() {
            self.unshare()?;
        }
        self.drop_unused_nested();
        if !self.is_tir() {
            self.name_shared();
        }
        // The sort is stable, so items at the same place keep their insertion order.
        self.side.sort_by_key(|(place, _)| *place);
        let old = std::mem::take(&mut self.b.pool.s);
        let changes = Changes { state: &self.state, side: &self.side, forward: &self.forward };
        let Written { nodes, operands, names, origins } = Compact::new(changes, old.raw()).run()?;
        let sections = Sections { nodes, operands, names, origins, spans: Vec::new(), ..old };
        let body = crate::ir::storage::sealer::seal(&sections.raw())?;
        if self.is_tir() { scalars::without_unused_symbols(body) } else { Ok(body) }
    }

    fn is_tir(&self) -> bool {
        self.old.kind() == BodyKind::PrimFunc
    }

    /// Counts the uses of each node by remaining nodes.
    fn uses_left(&self) -> Vec<u32> {
        let s = &self.b.pool.s;
        let mut uses = vec![0u32; s.nodes.len()];
        for (_, node) in s.nodes.iter().enumerate().filter(|(at, _)| self.is_left(*at)) {
            for op in node.ops(&s.operands) {
                if let Some(uses) = uses.get_mut(self.resolve_word(*op) as usize) {
                    *uses += 1;
                }
            }
        }
        uses
    }

    /// Returns true if the node at a position is new, or was not removed.
    fn is_left(&self, at: usize) -> bool {
        !matches!(self.state.get(at), Some(State::Removed | State::Dissolved))
    }

    /// Removes nested expressions that lost their user. In TIR, also removes new expressions that never had a user.
    fn drop_unused_nested(&mut self) {
        let s = &self.b.pool.s;
        let looked_at = if self.is_tir() { s.nodes.len() } else { self.n_old as usize };
        if !s.nodes[..looked_at].iter().any(is_nested) {
            return;
        }
        let mut uses = self.uses_left();
        let mut lost: Vec<usize> = (0..looked_at).filter(|i| uses[*i] == 0).collect();
        let mut new = BTreeSet::new();
        while let Some(i) = lost.pop() {
            let node = self.b.pool.s.nodes[i];
            let there = self.state.get(i).is_none_or(|state| matches!(state, State::Keep | State::Moved));
            if !is_nested(&node) || !there {
                continue;
            }
            match self.state.get_mut(i) {
                Some(state) => *state = State::Removed,
                None => drop(new.insert(i as u32)),
            }
            for op in node.ops(&self.b.pool.s.operands) {
                let op = self.resolve_word(*op) as usize;
                if let Some(uses) = uses.get_mut(op) {
                    *uses -= 1;
                    if *uses == 0 {
                        lost.push(op);
                    }
                }
            }
        }
        self.side.retain(|(_, item)| !matches!(item, Item::Node(op) if new.contains(op)));
    }
}
