//! `compute_inline` and `reverse_compute_inline`: compute a block inside its consumers or its producer.

use super::depend::facts::{Effect, Facts};
use super::tree::expr::{Buf, Ex, MAX_DEPTH, Meanings};
use super::tree::{Id, Store, Tree, What};
use super::{BlockRef, Schedule};
use passhost_lang::ir::Dim;
use passhost_lang::scalar::PrimOp;
use passhost_lang::{PassError, pass_error};

impl Schedule {
    /// Inlines a block into the blocks that read its elements, and removes the block and its buffer.
    ///
    /// ```
    /// use plugin_api::prelude::*;
    /// use plugin_api::schedule::Schedule;
    /// use plugin_api::tir::prim_func;
    ///
    /// let body = prim_func(|t| {
    ///     let [a, c] = ["A", "C"].map(|name| t.buffer_param(name, &[8], DType::F32));
    ///     let b = t.alloc_buffer("B", &[8], DType::F32, "global");
    ///     for (name, from, to) in [("B", a, b), ("C", b, c)] {
    ///         t.serial("i", 8, |i| {
    ///             t.block(name, || {
    ///                 let vi = t.spatial("vi", 8, i);
    ///                 t.store(to, [vi], t.load(from, [vi]) + 1.0);
    ///             });
    ///         });
    ///     }
    /// })?;
    /// let mut sch = Schedule::new(&body)?;
    /// sch.compute_inline(sch.get_block("B")?)?;
    /// // C[vi] = A[vi] + 1 + 1
    /// let blocks = sch.blocks();
    /// assert_eq!((blocks.len(), blocks[0].reads[0].name.as_str()), (1, "A"));
    /// # Ok::<(), PassError>(())
    /// ```
    ///
    /// # Errors
    /// If the block is not a single store of one element for each value of its iterators, if the function returns its buffer, or if the
    /// buffer is written elsewhere or has uses other than loads.
    pub fn compute_inline(&mut self, block: BlockRef) -> Result<(), PassError> {
        const NAME: &str = "compute_inline";
        let id = self.block_id(NAME, block)?;
        let mut tree = self.tree.with_allocations_first();
        tree.inline(id).map_err(|why| pass_error!("`{NAME}`: {why}"))?;
        let args = vec![self.block_arg(id)];
        self.commit(NAME, tree)?;
        self.record(NAME, args, &[]);
        Ok(())
    }

    /// Inlines a block into the producer of its input, and removes the block and the intermediate buffer.
    ///
    /// # Errors
    /// If one of the two blocks is not a single store of one element for each value of its iterators, or if the buffer is used elsewhere.
    pub fn reverse_compute_inline(&mut self, block: BlockRef) -> Result<(), PassError> {
        const NAME: &str = "reverse_compute_inline";
        let id = self.block_id(NAME, block)?;
        let mut tree = self.tree.with_allocations_first();
        tree.reverse_inline(id).map_err(|why| pass_error!("`{NAME}`: {why}"))?;
        let args = vec![self.block_arg(id)];
        self.commit(NAME, tree)?;
        self.record(NAME, args, &[]);
        Ok(())
    }
}

/// A block that consists of one store whose indices determine the iterators.
struct Single {
    facts: Facts,
    store: Store,
}

impl Tree {
    fn single(&self, id: Id) -> Result<Single, String> {
        let facts = self.facts(id)?;
        let Some(block) = self.as_block(id) else { return Err("expected a block".to_string()) };
        let name = &block.name;
        if facts.effect != Effect::Complete {
            return Err(format!("block `{name}` reads what it writes, or has a reduction"));
        }
        if !block.guards_domain_only {
            return Err(format!(
                "the condition of block `{name}` excludes instances within the domain of its iterators"
            ));
        }
        let kids = &self.node(id).kids;
        let [kid] = kids[..] else { return Err(format!("block `{name}` is not a single store")) };
        match &self.node(kid).what {
            What::Store(store) if facts.writes_all => Ok(Single { facts, store: store.clone() }),
            _ => Err(format!("block `{name}` is not a single store")),
        }
    }

    /// Returns the iterator in each dimension of an access to a buffer.
    fn iters_of(&self, id: Id, place: &[Dim], buffer: Buf) -> Result<Vec<Option<usize>>, String> {
        let Some(block) = self.as_block(id) else { return Err("expected a block".to_string()) };
        let mut used = vec![false; block.iters.len()];
        let mut dims = Vec::new();
        for dim in place {
            let at = match dim {
                Dim::Var(sym) => block.iters.iter().position(|iter| iter.var.id == sym.id),
                _ => None,
            };
            match at {
                Some(at) if !std::mem::replace(&mut used[at], true) => dims.push(Some(at)),
                None if dim.as_int().is_some() => dims.push(None),
                _ => {
                    return Err(format!(
                        "block `{}` accesses `{}` at an index that is not a distinct iterator",
                        block.name,
                        self.buffer(buffer).name
                    ));
                }
            }
        }
        match block.iters.iter().zip(used).find(|(iter, used)| !used && iter.extent.as_int() != Some(1)) {
            Some((iter, _)) => Err(format!(
                "iterator `{}` of block `{}` does not occur in the indices of `{}`",
                iter.name,
                block.name,
                self.buffer(buffer).name
            )),
            None => Ok(dims),
        }
    }

    /// Checks that a buffer is used only by blocks of the function, and that only one of them writes it.
    fn is_between(&self, buffer: Buf, writer: Id) -> Result<(), String> {
        let of = self.buffer(buffer);
        if !of.is_allocated {
            return Err(format!("`{}` is not allocated in the function, so its values are needed outside", of.name));
        }
        for user in self.users_of(buffer) {
            let block = if self.as_block(user).is_some() { user } else { self.scope_of(user) };
            if self.as_block(block).is_none() {
                return Err(format!("`{}` is used outside blocks", of.name));
            }
            if block == writer {
                continue;
            }
            if self.scope_of(block) != self.scope_of(writer) {
                return Err(format!(
                    "block `{}`, which uses `{}`, is inside a different block",
                    self.block_name(block),
                    of.name
                ));
            }
            if matches!(&self.node(user).what, What::Store(store) if store.buffer == buffer) {
                return Err(format!("block `{}` also writes `{}`", self.block_name(block), of.name));
            }
            if !self.comes_before(writer, block) {
                let (user, writer) = (self.block_name(block), self.block_name(writer));
                return Err(format!("block `{user}` reads `{}` before block `{writer}` writes it", of.name));
            }
            self.only_loads(user, buffer)?;
        }
        Ok(())
    }

    fn only_loads(&self, user: Id, buffer: Buf) -> Result<(), String> {
        let (mut uses, mut loads) = (0, 0);
        for ex in self.own(user) {
            ex.each(&mut |part| match part {
                Ex::Buffer(used) if *used == buffer => uses += 1,
                part => loads += usize::from(part.as_load().is_some_and(|(used, _)| used == buffer)),
            });
        }
        match uses == loads {
            true => Ok(()),
            false => Err(format!("`{}` is used other than by loads", self.buffer(buffer).name)),
        }
    }

    /// Checks that the inputs of a block are still unchanged at a later point: they are not written after the block, and all earlier writes
    /// are complete.
    pub(super) fn inputs_stay(&self, facts: &Facts) -> Result<(), String> {
        for buffer in facts.buffers(false).into_iter().filter(|buffer| !facts.writes(*buffer)) {
            let mut writers = Vec::new();
            for user in self.blocks_using(buffer).into_iter().filter(|id| *id != facts.id) {
                let writes = |at: &Id| matches!(&self.node(*at).what, What::Store(store) if store.buffer == buffer);
                if self.subtree(user).iter().any(writes) {
                    writers.push(user);
                }
            }
            let (name, buffer_name) = (self.block_name(facts.id), &self.buffer(buffer).name);
            if let Some(writer) = writers.iter().find(|writer| !self.comes_before(**writer, facts.id)) {
                let writer = self.block_name(*writer);
                return Err(format!("block `{writer}` writes `{buffer_name}` after block `{name}` reads it"));
            }
            for writer in &writers {
                let Some(common) = self.common_loop(*writer, facts.id) else { continue };
                let covers = |other: Facts| writers.len() == 1 && self.covers(&other, facts, buffer, common);
                if !self.facts(*writer).is_ok_and(covers) {
                    let (writer, common) = (self.block_name(*writer), self.loop_name(common));
                    return Err(format!(
                        "block `{name}` reads elements of `{buffer_name}` that block `{writer}` may not write earlier in the same iteration of \
                         `{common}`"
                    ));
                }
            }
        }
        Ok(())
    }

    fn inline(&mut self, id: Id) -> Result<(), String> {
        let Single { facts, store } = self.single(id)?;
        self.is_between(store.buffer, id)?;
        self.inputs_stay(&facts)?;
        let place = facts.place(store.buffer).ok_or("the indices of a store are not arithmetic on integers")?;
        let dims = self.iters_of(id, &place, store.buffer)?;
        let block = self.as_block(id).ok_or("expected a block")?.clone();
        let inlined = Inlined {
            buffer: store.buffer,
            value: store.value.clone(),
            vars: dims.iter().map(|at| at.map(|at| block.iters[at].var)).collect(),
            fixed: block.iters.iter().map(|iter| (iter.var, iter.min.clone())).collect(),
        };
        let users: Vec<Id> = self.users_of(store.buffer).into_iter().filter(|at| !self.is_under(*at, id)).collect();
        let readers: Vec<Id> = self.blocks_using(store.buffer).into_iter().filter(|at| *at != id).collect();
        for user in users {
            self.drop_accesses(user, store.buffer);
            let mut depth = 0;
            self.map_own(user, &mut |ex| {
                *ex = inlined.within(ex);
                depth = depth.max(ex.depth());
            });
            if depth > MAX_DEPTH {
                return Err(format!("an expression would be nested deeper than {MAX_DEPTH}"));
            }
        }
        readers.into_iter().for_each(|reader| self.simplify_and_find_accesses(reader));
        self.remove_block(id, store.buffer);
        Ok(())
    }

    /// Removes a block and its intermediate buffer from the function.
    fn remove_block(&mut self, id: Id, buffer: Buf) {
        self.detach(id);
        self.kill(id);
        for node in &mut self.nodes {
            match &mut node.what {
                What::Root(root) => root.allocs.retain(|known| *known != buffer),
                What::Block(block) => block.allocs.retain(|known| *known != buffer),
                _ => {}
            }
        }
    }

    /// Removes the declared reads of a buffer from a block.
    fn drop_accesses(&mut self, id: Id, buffer: Buf) {
        if let Ok(block) = self.block_mut(id) {
            block.accesses.retain(|access| access.buffer != buffer);
        }
    }

    fn reverse_inline(&mut self, id: Id) -> Result<(), String> {
        let consumer = self.single(id)?;
        let name = self.block_name(id).to_string();
        let (buffer, producer) = self.producer_of(&consumer)?;
        let producer = self.single(producer)?;
        self.is_between(buffer, producer.facts.id)?;
        if let Some(other) = self.blocks_using(buffer).into_iter().find(|at| *at != id && *at != producer.facts.id) {
            return Err(format!("block `{}` also reads `{}`", self.block_name(other), self.buffer(buffer).name));
        }
        self.can_move_up(&consumer.facts, producer.facts.id, buffer)?;
        let read = consumer.facts.touches.iter().find(|touch| touch.buffer == buffer).and_then(|touch| touch.known());
        let read =
            read.ok_or_else(|| format!("block `{name}` reads at an index that is not arithmetic on integers"))?;
        let same =
            |touch: &super::depend::facts::Touch| touch.buffer != buffer || touch.known().as_ref() == Some(&read);
        if !consumer.facts.touches.iter().all(same) {
            return Err(format!("block `{name}` reads several elements of `{}`", self.buffer(buffer).name));
        }
        let dims = self.iters_of(id, &read, buffer)?;
        let place = producer.facts.place(buffer).ok_or("the indices of a store are not arithmetic on integers")?;
        let (meanings, conditions) = self.iters_in_producer(id, &producer, &place, &dims)?;
        let value = consumer.store.value.replaced(&mut |part| match part.as_load() {
            Some((used, _)) if used == buffer => Some(producer.store.value.clone()),
            _ => match part {
                Ex::Dim(_) => Some(part.substituted(&meanings)),
                _ => None,
            },
        });
        if value.depth() > MAX_DEPTH {
            return Err(format!("an expression would be nested deeper than {MAX_DEPTH}"));
        }
        let indices = consumer.store.indices.iter().map(|index| index.substituted(&meanings)).collect();
        let kid = self.node(producer.facts.id).kids[0];
        self.node_mut(kid).what = What::Store(Store { value, indices, ..consumer.store });
        let block = self.block_mut(producer.facts.id).map_err(|error| error.message)?;
        let has_conditions = !conditions.is_empty();
        conditions.into_iter().for_each(|condition| block.add_condition(condition));
        block.guards_domain_only &= !has_conditions;
        self.simplify_and_find_accesses(producer.facts.id);
        self.remove_block(id, buffer);
        Ok(())
    }

    /// Returns the buffer that a block reads and another block writes, and the writer.
    fn producer_of(&self, consumer: &Single) -> Result<(Buf, Id), String> {
        let name = self.block_name(consumer.facts.id);
        let mut found = None;
        for buffer in consumer.facts.buffers(false) {
            let writes = |id: &Id| {
                let stores = |at: &Id| matches!(&self.node(*at).what, What::Store(store) if store.buffer == buffer);
                self.subtree(*id).iter().any(stores)
            };
            let writers: Vec<Id> = self.blocks_using(buffer).into_iter().filter(writes).collect();
            match writers[..] {
                [] => {}
                [writer] if found.is_none() => found = Some((buffer, writer)),
                _ => return Err(format!("block `{name}` reads buffers that several blocks write")),
            }
        }
        found.ok_or_else(|| format!("block `{name}` reads nothing that another block writes"))
    }

    /// Checks that a block can be executed as early as the block `to`, which writes its input `between`.
    fn can_move_up(&self, facts: &Facts, to: Id, between: Buf) -> Result<(), String> {
        let name = self.block_name(facts.id);
        for buffer in facts.buffers(false).into_iter().filter(|buffer| *buffer != between) {
            for user in self.blocks_using(buffer) {
                let stores = |at: &Id| matches!(&self.node(*at).what, What::Store(store) if store.buffer == buffer);
                let is_done = self.comes_before(user, to) && self.common_loop(user, to).is_none();
                if self.subtree(user).iter().any(stores) && !is_done {
                    let (user, to) = (self.block_name(user), self.block_name(to));
                    return Err(format!(
                        "block `{name}` reads `{}`, which block `{user}` does not write before block `{to}`",
                        self.buffer(buffer).name
                    ));
                }
            }
        }
        self.outputs_can_be_early(facts)
    }

    /// Checks that nothing uses the results of a block before it, so that the block can be executed earlier.
    pub(super) fn outputs_can_be_early(&self, facts: &Facts) -> Result<(), String> {
        let name = self.block_name(facts.id);
        for buffer in facts.written() {
            for user in self.blocks_using(buffer).into_iter().filter(|user| *user != facts.id) {
                let covers =
                    |common: Id, other: &Facts| !other.writes(buffer) && self.covers(facts, other, buffer, common);
                let is_after = self.comes_before(facts.id, user)
                    && match self.common_loop(facts.id, user) {
                        Some(common) => self.facts(user).is_ok_and(|other| covers(common, &other)),
                        None => true,
                    };
                if !is_after {
                    let (user, buffer) = (self.block_name(user), &self.buffer(buffer).name);
                    return Err(format!("block `{user}` uses `{buffer}` before block `{name}` writes it"));
                }
            }
        }
        Ok(())
    }

    /// Returns the innermost loop that contains both nodes.
    pub(super) fn common_loop(&self, a: Id, b: Id) -> Option<Id> {
        let around: Vec<Id> = self.loops_around(b);
        self.loops_around(a).into_iter().rev().find(|of| around.contains(of))
    }

    /// Returns the values of the consumer's iterators in terms of the producer's, and the conditions under which the consumer has an
    /// instance with these values.
    fn iters_in_producer(
        &self,
        consumer: Id,
        producer: &Single,
        place: &[Dim],
        dims: &[Option<usize>],
    ) -> Result<(Meanings, Vec<Dim>), String> {
        let not_all = || {
            let (consumer, producer) = (self.block_name(consumer), self.block_name(producer.facts.id));
            format!("block `{consumer}` may not read exactly the elements that block `{producer}` writes")
        };
        let block = self.as_block(consumer).ok_or("expected a block")?;
        let from = self.as_block(producer.facts.id).ok_or("expected a block")?;
        let bindings = Tree::bindings(from);
        let (mut meanings, mut conditions) = (Meanings::default(), Vec::new());
        block.iters.iter().for_each(|iter| meanings.set(iter.var, iter.min.clone()));
        let mut analyzer = self.analyzer_at(producer.facts.id);
        for (index, at) in place.iter().zip(dims) {
            let written = match index {
                Dim::Var(sym) => from.iters.iter().find(|iter| iter.var.id == sym.id).and_then(|i| i.extent.as_dim()),
                other if other.as_int() == Some(0) => Some(&Dim::Int(1)),
                _ => None,
            };
            let written = written.ok_or_else(not_all)?;
            let Some(at) = at else {
                let alone = written.as_int() == Some(1);
                alone.then_some(()).ok_or_else(not_all)?;
                continue;
            };
            let iter = &block.iters[*at];
            let extent = iter.extent.as_dim().filter(|_| iter.min.as_int() == Some(0)).ok_or_else(not_all)?;
            let written = super::depend::region::as_type_of(written, extent);
            meanings.set(iter.var, Ex::Dim(index.clone()));
            if analyzer.prove_equal(&written, extent) == Some(true) {
                continue;
            }
            let more = analyzer.can_prove(&Dim::binary(PrimOp::Ge, written, extent.clone()));
            let value = bindings.dim(index).filter(|_| more).ok_or_else(not_all)?;
            conditions.push(Dim::binary(PrimOp::Lt, value, extent.clone()));
        }
        Ok((meanings, conditions))
    }
}

/// The expression that replaces an element of a buffer.
struct Inlined {
    buffer: Buf,
    value: Ex,
    /// The iterator of each dimension.
    vars: Vec<Option<passhost_lang::ir::Sym>>,
    /// The iterators with a single value, and that value.
    fixed: Vec<(passhost_lang::ir::Sym, Ex)>,
}

impl Inlined {
    fn within(&self, ex: &Ex) -> Ex {
        ex.replaced(&mut |part| {
            let (_, indices) = part.as_load().filter(|(buffer, _)| *buffer == self.buffer)?;
            let mut meanings = Meanings::default();
            self.fixed.iter().for_each(|(var, min)| meanings.set(*var, min.clone()));
            for (var, index) in self.vars.iter().zip(indices) {
                if let Some(var) = var {
                    meanings.set(*var, self.within(index));
                }
            }
            Some(self.value.substituted(&meanings))
        })
    }
}
