//! `cache_read` and `cache_write`: make a block read or write a copy of a buffer.

use super::depend::region::{Hull, as_type_of};
use super::trace::Arg;
use super::tree::expr::{Buf, Ex};
use super::tree::{Access, Block, Buffer, Id, Iter, Store, Tree, What, plus};
use super::{BlockRef, Schedule};
use passhost_lang::ir::records::{axis, buffer_of, flag, kind};
use passhost_lang::ir::{BufferType, DType, Dim, NodeSpec};
use passhost_lang::{PassError, pass_error};

impl Schedule {
    /// Copies a buffer that a block reads into a new buffer in a memory scope, such as `local`. The block and all other
    /// readers of the buffer then read the copy. Returns the block that copies. `read` is an index into
    /// [`BlockInfo::reads`](super::BlockInfo).
    ///
    /// ```
    /// use plugin_api::prelude::*;
    /// use plugin_api::schedule::Schedule;
    /// use plugin_api::tir::prim_func;
    ///
    /// let body = prim_func(|t| {
    ///     let [a, b] = ["A", "B"].map(|name| t.buffer_param(name, &[8], DType::F32));
    ///     t.serial("i", 8, |i| {
    ///         t.block("B", || {
    ///             let vi = t.spatial("vi", 8, i);
    ///             t.store(b, [vi], t.load(a, [vi]) + 1.0);
    ///         });
    ///     });
    /// })?;
    /// let mut sch = Schedule::new(&body)?;
    /// let copy = sch.cache_read(sch.get_block("B")?, 0, "local")?;
    /// let info = sch.block_info(copy)?;
    /// assert_eq!((info.name.as_str(), info.writes[0].ty.scope.as_str()), ("A_local", "local"));
    /// # Ok::<(), PassError>(())
    /// ```
    ///
    /// # Errors
    /// If the block has no such read, or if the buffer is written after the point of the copy.
    pub fn cache_read(&mut self, block: BlockRef, read: usize, scope: &str) -> Result<BlockRef, PassError> {
        self.cache("cache_read", block, read, scope, false)
    }

    /// Makes a block write to a new buffer in a memory scope, which another block then copies to the original buffer. Returns the copying
    /// block. `write` is an index into [`BlockInfo::writes`](super::BlockInfo).
    ///
    /// # Errors
    /// If the block has no such write, or if another statement writes the buffer, or reads it before the point of the copy.
    pub fn cache_write(&mut self, block: BlockRef, write: usize, scope: &str) -> Result<BlockRef, PassError> {
        self.cache("cache_write", block, write, scope, true)
    }

    fn cache(
        &mut self,
        primitive: &str,
        block: BlockRef,
        nth: usize,
        scope: &str,
        write: bool,
    ) -> Result<BlockRef, PassError> {
        let id = self.block_id(primitive, block)?;
        let mut tree = self.tree.with_allocations_first();
        let made = match write {
            true => tree.cache_write(id, nth, scope),
            false => tree.cache_read(id, nth, scope),
        };
        let made = made.map_err(|why| pass_error!("`{primitive}`: {why}"))?;
        let args = vec![self.block_arg(id), Arg::Int(nth as i64), Arg::Text(scope.to_string())];
        self.commit(primitive, tree)?;
        self.record(primitive, args, &[made]);
        Ok(self.block_ref(made))
    }
}

impl Tree {
    fn cache_read(&mut self, id: Id, nth: usize, memory: &str) -> Result<Id, String> {
        let buffer = self.accessed(id, nth, false)?;
        let (scope, name) = (self.scope_of(id), self.buffer(buffer).name.clone());
        let (mut readers, mut place, mut region) = (Vec::new(), 0, None);
        for user in self.blocks_using(buffer) {
            if self.as_block(user).is_none() || self.scope_of(user) != scope {
                return Err(format!(
                    "`{name}` is used outside the block that contains block `{}`",
                    self.block_name(id)
                ));
            }
            let facts = self.facts(user)?;
            match (facts.writes(buffer), facts.reads(buffer)) {
                (true, _) if user == id => {
                    return Err(format!("block `{}` also writes `{name}`", self.block_name(id)));
                }
                (true, _) => place = self.place_after(scope, user)?,
                (false, true) => readers.push(facts),
                (false, false) => {}
            }
        }
        for reader in &readers {
            if self.place_after(scope, reader.id)? <= place {
                return Err(format!(
                    "block `{}` reads `{name}` inside the loop that writes it, or before it is written",
                    self.block_name(reader.id)
                ));
            }
            for touch in reader.touches.iter().filter(|touch| touch.buffer == buffer) {
                region = self.with_part(region, self.hull(reader, touch, scope), buffer);
            }
        }
        let copy = self.copied_buffer(buffer, memory, scope);
        readers.iter().for_each(|reader| self.use_instead(reader.id, buffer, copy));
        Ok(self.copy_nest(buffer, copy, copy, region, (scope, place)))
    }

    fn cache_write(&mut self, id: Id, nth: usize, memory: &str) -> Result<Id, String> {
        let buffer = self.accessed(id, nth, true)?;
        let (scope, name) = (self.scope_of(id), self.buffer(buffer).name.clone());
        let facts = self.facts(id)?;
        let place = self.place_after(scope, id)?;
        for user in self.blocks_using(buffer).into_iter().filter(|user| *user != id) {
            if self.as_block(user).is_none() || self.scope_of(user) != scope {
                return Err(format!(
                    "`{name}` is used outside the block that contains block `{}`",
                    self.block_name(id)
                ));
            }
            if self.facts(user)?.writes(buffer) {
                return Err(format!("block `{}` also writes `{name}`", self.block_name(user)));
            }
            if self.place_after(scope, user)? <= place {
                return Err(format!(
                    "block `{}` reads `{name}` inside the loop that writes it, or before it is written",
                    self.block_name(user)
                ));
            }
        }
        let whole = self.as_block(id).is_some_and(|block| block.guards_domain_only) && facts.writes_all;
        if !whole || self.needs_what_was(&facts, buffer) {
            return Err(format!(
                "block `{}` does not write every element of `{name}` that would be copied",
                self.block_name(id)
            ));
        }
        let mut region = None;
        for touch in facts.touches.iter().filter(|touch| touch.buffer == buffer && touch.write) {
            region = self.with_part(region, self.hull(&facts, touch, scope), buffer);
        }
        let is_dense = facts.place(buffer).is_some_and(|_| self.fills(&facts, buffer, scope));
        if !is_dense {
            return Err(format!(
                "block `{}` may leave gaps in the part of `{name}` that it writes",
                self.block_name(id)
            ));
        }
        let copy = self.copied_buffer(buffer, memory, scope);
        self.use_instead(id, buffer, copy);
        Ok(self.copy_nest(copy, buffer, copy, region, (scope, place)))
    }

    /// Returns true if a block reads elements of a buffer before it writes them.
    fn needs_what_was(&self, facts: &super::depend::facts::Facts, buffer: Buf) -> bool {
        use super::depend::facts::Effect;
        facts.reads(buffer) && !matches!(facts.effect, Effect::Reduction)
    }

    /// Returns the buffer of the `nth` declared read or write of a block.
    pub(super) fn accessed(&self, id: Id, nth: usize, write: bool) -> Result<Buf, String> {
        let block = self.as_block(id).ok_or("expected a block")?;
        let mut accesses = block.accesses.iter().filter(|access| access.write == write);
        let n = accesses.clone().count();
        let buffer = accesses.nth(nth).map(|access| access.buffer).ok_or_else(|| {
            format!(
                "block `{}` {} {n} buffers; index {nth} is out of range",
                block.name,
                if write { "writes" } else { "reads" }
            )
        })?;
        match self.buffer(buffer).is_view {
            true => Err(format!("`{}` is a view of another buffer", self.buffer(buffer).name)),
            false => Ok(buffer),
        }
    }

    /// Returns the place directly after the child of the scope that contains a node.
    fn place_after(&self, scope: Id, id: Id) -> Result<usize, String> {
        let kid = self.child_towards(scope, id).ok_or("the block is not in its scope")?;
        let at = self.node(scope).kids.iter().position(|other| *other == kid);
        at.map(|at| at + 1).ok_or_else(|| "the block is not among the statements of its scope".to_string())
    }

    /// Extends a region to include another region; returns the whole buffer if a bound is not constant.
    fn with_part(&self, known: Option<Hull>, more: Option<Hull>, buffer: Buf) -> Option<Hull> {
        let shape = &self.buffer(buffer).ty.shape;
        let zero = |extent: &Dim| super::tree::number(0, extent);
        let whole = || shape.iter().map(|extent| (zero(extent), plus(extent, -1))).collect();
        let Some(more) = more else { return Some(Hull(whole())) };
        let clipped = more.0.into_iter().zip(shape).zip(whole()).map(|(((min, max), extent), whole)| {
            match (min.as_int(), max.as_int(), extent.as_int()) {
                (Some(min), Some(max), Some(extent)) => {
                    let number = |value: i64| super::tree::number(value, &whole.0);
                    (number(min.max(0)), number(max.min(extent - 1)))
                }
                _ => whole,
            }
        });
        let more: Vec<(Dim, Dim)> = clipped.collect();
        let Some(known) = known else { return Some(Hull(more)) };
        let pairs = known.0.into_iter().zip(more).zip(whole());
        Some(Hull(pairs.map(|((a, b), whole)| joined(a, b, whole)).collect()))
    }

    /// Adds a buffer like `of`, but in a different memory scope; the node `scope` allocates it.
    fn copied_buffer(&mut self, of: Buf, memory: &str, scope: Id) -> Buf {
        let old = self.buffer(of);
        let ty = BufferType {
            scope: if memory == "global" { String::new() } else { memory.to_string() },
            strides: Vec::new(),
            elem_offset: None,
            ..old.ty.clone()
        };
        let spec = NodeSpec::new(kind::BUFFER).a(buffer_of::BLOCK).flags(flag::INNER);
        let name = format!("{}_{memory}", old.name);
        let new = Buffer { name, ty, spec, ops: Vec::new(), old: None, is_allocated: true, is_view: false };
        let buffer = Buf(self.buffers.len() as u32);
        self.buffers.push(new);
        match &mut self.node_mut(scope).what {
            What::Root(root) => root.allocs.push(buffer),
            What::Block(block) => block.allocs.push(buffer),
            _ => {}
        }
        buffer
    }

    /// Makes a block use one buffer instead of another.
    fn use_instead(&mut self, id: Id, old: Buf, new: Buf) {
        for at in self.subtree(id) {
            self.map_own(at, &mut |ex| {
                *ex = ex.replaced(&mut |part| match part {
                    Ex::Buffer(used) if *used == old => Some(Ex::Buffer(new)),
                    _ => None,
                });
            });
            match &mut self.node_mut(at).what {
                What::Store(store) if store.buffer == old => store.buffer = new,
                What::Block(block) => {
                    block.accesses.iter_mut().filter(|access| access.buffer == old).for_each(|a| a.buffer = new);
                }
                _ => {}
            }
        }
    }

    /// Builds loops around a block that copies a region of a buffer, and inserts them among the statements of a scope.
    fn copy_nest(&mut self, from: Buf, to: Buf, copy: Buf, region: Option<Hull>, (scope, place): (Id, usize)) -> Id {
        let ty = self.buffer(from).ty.clone();
        let region = region.or_else(|| self.with_part(None, None, from)).map_or(Vec::new(), |hull| hull.0);
        let (mut loops, mut iters) = (Vec::new(), Vec::new());
        for (at, ((min, max), extent)) in region.into_iter().zip(&ty.shape).enumerate() {
            let dtype = index_type(extent);
            let (outer, var) = (self.fresh(dtype), self.fresh(dtype));
            let like = Dim::Var(var);
            let (min, max) = (as_type_of(&min, &like), as_type_of(&max, &like));
            let length = passhost_lang::arith::simplify(&plus(&(max - min.clone()), 1));
            loops.push(self.new_loop(outer, &format!("ax{at}"), length));
            let value = if min.as_int() == Some(0) { Dim::Var(outer) } else { min + Dim::Var(outer) };
            iters.push(Iter {
                var,
                name: format!("v{at}"),
                spec: NodeSpec::new(kind::ITER_VAR).a(axis::SPATIAL).flags(flag::INNER),
                min: Ex::Dim(Dim::int(0, dtype)),
                extent: Ex::Dim(as_type_of(extent, &like)),
                value: Ex::Dim(value),
            });
        }
        let index: Vec<Dim> = iters.iter().map(|iter| Dim::Var(iter.var)).collect();
        let store = Store {
            spec: NodeSpec::new(kind::STORE).flags(flag::IMPURE),
            buffer: to,
            value: Ex::load(from, ty.dtype, index.clone()),
            indices: index.iter().cloned().map(Ex::Dim).collect(),
        };
        let accesses = vec![Access::element(from, &index, false), Access::element(to, &index, true)];
        let name = self.buffer(copy).name.clone();
        let block = Block { iters, accesses, bound_once: true, ..Block::new(&name) };
        let id = self.add(What::Block(Box::new(block)));
        let store = self.add(What::Store(store));
        self.push(id, store);
        self.place_nest(id, loops, scope, place);
        id
    }
}

/// Returns the union of two ranges; returns the whole dimension if a bound is not constant.
fn joined((a, b): (Dim, Dim), (c, d): (Dim, Dim), whole: (Dim, Dim)) -> (Dim, Dim) {
    match (a.as_int(), b.as_int(), c.as_int(), d.as_int()) {
        (Some(a), Some(b), Some(c), Some(d)) => {
            (super::tree::number(a.min(c), &whole.0), super::tree::number(b.max(d), &whole.0))
        }
        _ => whole,
    }
}

/// Returns the data type of indices into a dimension.
fn index_type(extent: &Dim) -> DType {
    let dtype = extent.dtype();
    if dtype.is_int() { dtype } else { DType::I32 }
}
