//! `compute_at` and `reverse_compute_at`: compute a block inside a loop of its consumers or producers.

use super::depend::facts::{Effect, Facts};
use super::depend::region::{Hull, as_type_of};
use super::tree::expr::{Buf, Ex, all_of};
use super::tree::{Id, Iter, Loop, Tree, plus};
use super::{BlockRef, LoopRef, Schedule};
use passhost_lang::arith::Analyzer;
use passhost_lang::ir::{Dim, loop_kind};
use passhost_lang::scalar::PrimOp;
use passhost_lang::{PassError, pass_error};

impl Schedule {
    /// Moves a block into a loop around its readers, so that each iteration computes the elements that it reads. The loops around the block
    /// are replaced by loops over the required part of its iterators.
    ///
    /// # Errors
    /// If a use outside the loop needs the results of the block, or if the block's inputs are not available there yet.
    pub fn compute_at(&mut self, block: BlockRef, of: LoopRef) -> Result<(), PassError> {
        const NAME: &str = "compute_at";
        let (id, at) = (self.block_id(NAME, block)?, self.loop_id(NAME, of)?);
        let mut tree = self.tree.with_allocations_first();
        tree.compute_at(id, at).map_err(|why| pass_error!("`{NAME}`: {why}"))?;
        let args = vec![self.block_arg(id), self.loop_arg(at)];
        self.commit(NAME, tree)?;
        self.record(NAME, args, &[]);
        Ok(())
    }

    /// Moves a block to the end of each iteration of a loop that computes its inputs, where it processes all available elements.
    ///
    /// ```
    /// use plugin_api::prelude::*;
    /// use plugin_api::schedule::Schedule;
    /// use plugin_api::tir::prim_func;
    ///
    /// let body = prim_func(|t| {
    ///     let [a, c] = ["A", "C"].map(|name| t.buffer_param(name, &[8, 8], DType::F32));
    ///     let b = t.alloc_buffer("B", &[8, 8], DType::F32, "global");
    ///     for (name, from, to) in [("B", a, b), ("C", b, c)] {
    ///         t.grid(["i", "j"], [8, 8], |[i, j]| {
    ///             t.block(name, || {
    ///                 let (vi, vj) = (t.spatial("vi", 8, i), t.spatial("vj", 8, j));
    ///                 t.store(to, [vi, vj], t.load(from, [vi, vj]) + 1.0);
    ///             });
    ///         });
    ///     }
    /// })?;
    /// let mut sch = Schedule::new(&body)?;
    /// let [i, _] = sch.loops(sch.get_block("B")?)?;
    /// let c = sch.get_block("C")?;
    /// sch.reverse_compute_at(c, i)?;
    /// assert_eq!(sch.get_loops(c)?[0], i);
    /// # Ok::<(), PassError>(())
    /// ```
    ///
    /// # Errors
    /// If the inputs of the block are not complete in an iteration, or are written after the loop.
    pub fn reverse_compute_at(&mut self, block: BlockRef, of: LoopRef) -> Result<(), PassError> {
        const NAME: &str = "reverse_compute_at";
        let (id, at) = (self.block_id(NAME, block)?, self.loop_id(NAME, of)?);
        let mut tree = self.tree.with_allocations_first();
        tree.reverse_compute_at(id, at).map_err(|why| pass_error!("`{NAME}`: {why}"))?;
        let args = vec![self.block_arg(id), self.loop_arg(at)];
        self.commit(NAME, tree)?;
        self.record(NAME, args, &[]);
        Ok(())
    }
}

/// The range of an iterator of a block: two indices, both inclusive.
type Domain = Option<(Dim, Dim)>;

impl Tree {
    fn compute_at(&mut self, id: Id, at: Id) -> Result<(), String> {
        let facts = self.movable(id, at)?;
        let name = self.block_name(id).to_string();
        let buffers = facts.written();
        let readers = self.readers_under(&facts, at)?;
        self.inputs_stay(&facts)?;
        let first = readers.iter().map(|reader| reader.id).reduce(|a, b| if self.comes_before(a, b) { a } else { b });
        let first = first
            .ok_or_else(|| format!("no block in loop `{}` reads the results of block `{name}`", self.loop_name(at)))?;
        let before = self.child_towards(at, first).ok_or("the insertion point is not in the loop")?;
        let mut domains: Vec<Domain> = vec![None; self.as_block(id).map_or(0, |block| block.iters.len())];
        let mut analyzer = self.analyzer_within(at);
        for buffer in buffers {
            let Some(read) = self.read_of(&readers, buffer, at, &mut analyzer) else { continue };
            self.add_domains(&facts, buffer, &read, &mut domains)?;
        }
        let nest = self.new_nest(id, &domains, &mut analyzer);
        self.detach(id);
        let place =
            self.node(at).kids.iter().position(|kid| *kid == before).ok_or("the insertion point no longer exists")?;
        self.place_nest(id, nest, at, place);
        Ok(())
    }

    /// Returns the accesses and properties of a block that can be moved, and executed there once or several times.
    fn movable(&self, id: Id, at: Id) -> Result<Facts, String> {
        let (name, of) = (self.block_name(id), self.loop_name(at));
        if self.is_under(id, at) {
            return Err(format!("block `{name}` is already in loop `{of}`"));
        }
        if self.scope_of(id) != self.scope_of(at) {
            return Err(format!("loop `{of}` and block `{name}` are in different blocks"));
        }
        let in_order = |of: &&Loop| of.is_checked || of.kind == loop_kind::SERIAL || of.kind == loop_kind::UNROLL;
        let mut around = std::iter::once(at).chain(self.around(at)).filter_map(|id| self.as_loop(id));
        if let Some(outer) = around.find(|of| !in_order(of)) {
            return Err(format!(
                "loop `{}` is {}; the loops around the new place must be serial, unrolled or checked",
                outer.name, outer.kind
            ));
        }
        let facts = self.facts(id)?;
        if matches!(facts.effect, Effect::InPlace | Effect::Update) {
            return Err(format!("block `{name}` reads what it writes, so it cannot be moved"));
        }
        if !self.as_block(id).is_some_and(|block| block.guards_domain_only) {
            return Err(format!(
                "the condition of block `{name}` excludes instances within the domain of its iterators"
            ));
        }
        for buffer in facts.written() {
            for user in self.users_of(buffer) {
                let block = if self.as_block(user).is_some() { user } else { self.scope_of(user) };
                let buffer_name = &self.buffer(buffer).name;
                if self.as_block(block).is_none() {
                    return Err(format!("`{buffer_name}` is used outside blocks"));
                }
                if block != id && self.facts(block)?.writes(buffer) {
                    return Err(format!("block `{}` also writes `{buffer_name}`", self.block_name(block)));
                }
            }
        }
        Ok(facts)
    }

    /// Returns the blocks that read the results of a block; all of them must be inside the loop `at`.
    fn readers_under(&self, facts: &Facts, at: Id) -> Result<Vec<Facts>, String> {
        let (name, of, mut readers) = (self.block_name(facts.id), self.loop_name(at), Vec::<Facts>::new());
        for buffer in facts.written() {
            let written = self.buffer(buffer);
            if !written.is_allocated {
                return Err(format!(
                    "`{}` is not allocated in the function, so all of it is needed outside loop `{of}`",
                    written.name
                ));
            }
            for user in self.blocks_using(buffer).into_iter().filter(|user| *user != facts.id) {
                let user_name = self.block_name(user);
                if !self.is_under(user, at) {
                    return Err(format!(
                        "the results of block `{name}` are read by block `{user_name}`, which is not in loop `{of}`"
                    ));
                }
                if !self.comes_before(facts.id, user) {
                    return Err(format!(
                        "block `{user_name}` reads `{}` before block `{name}` writes it",
                        written.name
                    ));
                }
                if readers.iter().all(|reader| reader.id != user) {
                    readers.push(self.facts(user)?);
                }
            }
        }
        Ok(readers)
    }

    /// Returns an analyser with the facts that hold in an iteration of a loop.
    fn analyzer_within(&self, at: Id) -> Analyzer {
        let mut analyzer = self.analyzer_at(at);
        if let Some(of) = self.as_loop(at)
            && let (Some(min), Some(extent)) = (of.min.as_dim(), of.extent.as_dim())
        {
            analyzer.bind_range(of.var, min, extent);
        }
        analyzer
    }

    /// Returns the region of a buffer that blocks read in an iteration; `None` if it is unknown.
    fn read_of(&self, readers: &[Facts], buffer: Buf, at: Id, analyzer: &mut Analyzer) -> Option<Hull> {
        let mut all: Option<Hull> = None;
        for reader in readers {
            for touch in reader.touches.iter().filter(|touch| touch.buffer == buffer && !touch.write) {
                let hull = self.hull(reader, touch, at)?;
                all = Some(match all {
                    None => hull,
                    Some(known) => known.joined(hull, analyzer),
                });
            }
        }
        all
    }

    /// Restricts the domains of iterators to the values for which a block writes a region.
    fn add_domains(&self, facts: &Facts, buffer: Buf, region: &Hull, domains: &mut [Domain]) -> Result<(), String> {
        let Some(block) = self.as_block(facts.id) else { return Err("expected a block".to_string()) };
        let place = facts.place(buffer).ok_or("the indices of a store are not arithmetic on integers")?;
        for (index, (min, max)) in place.iter().zip(&region.0) {
            let Some((at, offset)) = iter_and_offset(index, &block.iters) else { continue };
            let like = Dim::Var(block.iters[at].var);
            let domain = (plus(&as_type_of(min, &like), -offset), plus(&as_type_of(max, &like), -offset));
            match &domains[at] {
                None => domains[at] = Some(domain),
                Some(known) if *known == domain => {}
                // Different buffers may need different parts.
                Some(_) => domains[at] = whole_domain(&block.iters[at]),
            }
        }
        Ok(())
    }

    /// Builds loops over the domains of the iterators of a block, the outermost first, and binds the iterators to them.
    fn new_nest(&mut self, id: Id, domains: &[Domain], analyzer: &mut Analyzer) -> Vec<Id> {
        let Some(block) = self.as_block(id) else { return Vec::new() };
        let (iters, mut loops, mut values, mut conditions) = (block.iters.clone(), Vec::new(), Vec::new(), Vec::new());
        for (iter, domain) in iters.iter().zip(domains) {
            let part = domain.as_ref().and_then(|domain| part_of(iter, domain, analyzer));
            let Some(part) = part.or_else(|| Part::whole(iter)) else { continue };
            let value = match part.extent.as_int() {
                Some(1) => part.min,
                _ => {
                    let var = self.fresh(iter.var.dtype);
                    let of = self.new_loop(var, &format!("ax{}", loops.len()), part.extent.clone());
                    analyzer.bind_range(var, &Dim::int(0, var.dtype), &part.extent);
                    loops.push(of);
                    analyzer.simplify(&(part.min + Dim::Var(var)))
                }
            };
            let end = iter.extent.as_dim().zip(iter.min.as_dim()).map(|(extent, min)| min.clone() + extent.clone());
            if let (true, Some(min)) = (part.below, iter.min.as_dim()) {
                conditions.push(Dim::binary(PrimOp::Ge, value.clone(), min.clone()));
            }
            if let (true, Some(end)) = (part.above, end) {
                conditions.push(Dim::binary(PrimOp::Lt, value.clone(), end));
            }
            values.push(value);
        }
        if let Ok(block) = self.block_mut(id) {
            block.iters.iter_mut().zip(values).for_each(|(iter, value)| iter.value = Ex::Dim(value));
            block.condition = all_of(conditions).map(Ex::Dim);
            (block.bound_once, block.guards_domain_only) = (false, true);
        }
        loops
    }

    /// Wraps a block in loops and moves it into a loop, before the child at a given position.
    pub(super) fn place_nest(&mut self, id: Id, loops: Vec<Id>, at: Id, place: usize) {
        let mut nest = id;
        for of in loops.into_iter().rev() {
            self.push(of, nest);
            nest = of;
        }
        self.insert(at, place, nest);
    }

    fn reverse_compute_at(&mut self, id: Id, at: Id) -> Result<(), String> {
        let facts = self.movable(id, at)?;
        let name = self.block_name(id).to_string();
        let mut domains: Vec<Domain> = vec![None; self.as_block(id).map_or(0, |block| block.iters.len())];
        let mut any = false;
        for buffer in facts.buffers(false).into_iter().filter(|buffer| !facts.writes(*buffer)) {
            let mut writers = Vec::new();
            for user in self.blocks_using(buffer).into_iter().filter(|user| *user != id) {
                let other = self.facts(user)?;
                if other.writes(buffer) {
                    writers.push(other);
                }
            }
            any |= self.add_producers(&facts, buffer, &writers, at, &mut domains)?;
        }
        if !any {
            return Err(format!("block `{name}` reads nothing that loop `{}` writes", self.loop_name(at)));
        }
        self.outputs_can_be_early(&facts)?;
        let mut analyzer = self.analyzer_within(at);
        self.reductions_are_whole(&facts, &domains, &mut analyzer)?;
        self.parts_are_numbers(&facts, &domains, at, &mut analyzer)?;
        let nest = self.new_nest(id, &domains, &mut analyzer);
        self.detach(id);
        let place = self.node(at).kids.len();
        self.place_nest(id, nest, at, place);
        Ok(())
    }

    /// Adds the domains for which a block reads elements written in an iteration; returns true if there are any.
    fn add_producers(
        &self,
        facts: &Facts,
        buffer: Buf,
        writers: &[Facts],
        at: Id,
        domains: &mut [Domain],
    ) -> Result<bool, String> {
        let (name, of) = (self.block_name(facts.id), self.loop_name(at));
        let buffer_name = &self.buffer(buffer).name;
        let mut inside = Vec::new();
        for writer in writers {
            let writer_name = self.block_name(writer.id);
            if self.is_under(writer.id, at) {
                inside.push(writer);
            } else if !self.comes_before_node(writer.id, at) || self.common_loop(writer.id, at).is_some() {
                return Err(format!(
                    "block `{name}` reads `{buffer_name}`, which block `{writer_name}` does not write before loop `{of}`"
                ));
            }
        }
        let Some(writer) = first_writer(&inside) else {
            return match inside.is_empty() {
                true => Ok(false),
                false => Err(format!("several blocks write `{buffer_name}` in loop `{of}`")),
            };
        };
        if writers.len() > inside.len() {
            return Err(format!("several blocks write `{buffer_name}`"));
        }
        self.reads_what_is_complete(facts, writer, buffer, at)?;
        for other in inside.iter().filter(|other| other.id != writer.id) {
            self.combines_what_begins(other, writer, buffer, at)?;
        }
        let write = writer.touches.iter().find(|touch| touch.buffer == buffer && touch.write);
        let region = write.and_then(|write| self.hull(writer, write, at)).ok_or_else(|| {
            format!(
                "the part of `{buffer_name}` that block `{}` writes in one iteration of `{of}` is unknown",
                self.block_name(writer.id)
            )
        })?;
        self.add_read_domains(facts, writer, buffer, &region, domains)?;
        Ok(true)
    }

    /// Checks that elements written in an iteration are final before a block reads them.
    fn reads_what_is_complete(&self, facts: &Facts, writer: &Facts, buffer: Buf, at: Id) -> Result<(), String> {
        let (name, of) = (self.block_name(facts.id), self.loop_name(at));
        let (buffer_name, writer_name) = (&self.buffer(buffer).name, self.block_name(writer.id));
        if let Some(reduced) = self.reduced_outside(writer, at) {
            return Err(format!(
                "block `{name}` reads `{buffer_name}`, but block `{writer_name}` reduces over `{reduced}`, so its sums are incomplete within one \
                 iteration of `{of}`"
            ));
        }
        if !self.is_final(writer, at) {
            return Err(format!("block `{name}` reads `{buffer_name}`, which block `{writer_name}` updates in place"));
        }
        if !self.fills(writer, buffer, at) {
            return Err(format!(
                "block `{writer_name}` may leave gaps in the part of `{buffer_name}` that it writes in one iteration of `{of}`"
            ));
        }
        match self.comes_before(writer.id, facts.id) {
            true => Ok(()),
            false => Err(format!("block `{name}` reads `{buffer_name}` before block `{writer_name}` writes it")),
        }
    }

    /// Checks that a block combines values only into elements that were initialized in the same iteration, and that these elements are
    /// final at its end.
    fn combines_what_begins(&self, update: &Facts, init: &Facts, buffer: Buf, at: Id) -> Result<(), String> {
        let whole = self.reduces_inside(update, at) && self.covers(init, update, buffer, at);
        match whole && self.as_block(update.id).is_some_and(|block| block.guards_domain_only) {
            true => Ok(()),
            false => Err(format!(
                "block `{}` may not complete elements of `{}` within one iteration of `{}`",
                self.block_name(update.id),
                self.buffer(buffer).name,
                self.loop_name(at)
            )),
        }
    }

    fn add_read_domains(
        &self,
        facts: &Facts,
        writer: &Facts,
        buffer: Buf,
        region: &Hull,
        domains: &mut [Domain],
    ) -> Result<(), String> {
        let Some(block) = self.as_block(facts.id) else { return Err("expected a block".to_string()) };
        let (name, buffer_name) = (&block.name, &self.buffer(buffer).name);
        let other_index =
            || format!("block `{name}` reads `{buffer_name}` at an index that is not a distinct iterator");
        let mut reads = facts.touches.iter().filter(|touch| touch.buffer == buffer && !touch.write);
        let index = reads.next().and_then(|touch| touch.known()).ok_or_else(other_index)?;
        if reads.any(|touch| touch.known().as_ref() != Some(&index)) {
            return Err(format!("block `{name}` reads several elements of `{buffer_name}`"));
        }
        let scope = self.scope_of(writer.id);
        let write = writer.touches.iter().find(|touch| touch.buffer == buffer && touch.write);
        let whole = write.and_then(|write| self.hull(writer, write, scope)).ok_or_else(other_index)?;
        if !self.buffer(buffer).is_allocated && !self.fills(writer, buffer, scope) {
            return Err(format!("block `{name}` may read elements of `{buffer_name}` that are never written"));
        }
        let mut analyzer = self.analyzer_at(facts.id);
        for ((index, (min, max)), whole) in index.iter().zip(&region.0).zip(&whole.0) {
            let Some((at, offset)) = iter_and_offset(index, &block.iters) else {
                let same =
                    analyzer.prove_equal(min, max) == Some(true) && analyzer.prove_equal(min, index) == Some(true);
                same.then_some(()).ok_or_else(other_index)?;
                continue;
            };
            let like = Dim::Var(block.iters[at].var);
            let all = whole_domain(&block.iters[at]).ok_or_else(other_index)?;
            let is_written =
                analyzer.can_prove(&Dim::binary(PrimOp::Le, as_type_of(&whole.0, &like), plus(&all.0, offset)))
                    && analyzer.can_prove(&Dim::binary(PrimOp::Ge, as_type_of(&whole.1, &like), plus(&all.1, offset)));
            if !is_written {
                return Err(format!("block `{name}` reads elements of `{buffer_name}` that are not written"));
            }
            let domain = (plus(&as_type_of(min, &like), -offset), plus(&as_type_of(max, &like), -offset));
            match &domains[at] {
                Some(known) if *known != domain => {
                    return Err(format!("block `{name}` reads different parts of several buffers"));
                }
                _ => domains[at] = Some(domain),
            }
        }
        Ok(())
    }

    /// Checks that each reduction is executed as a whole within an iteration.
    fn reductions_are_whole(&self, facts: &Facts, domains: &[Domain], analyzer: &mut Analyzer) -> Result<(), String> {
        let Some(block) = self.as_block(facts.id) else { return Ok(()) };
        for (iter, domain) in block.iters.iter().zip(domains).filter(|(iter, _)| iter.is_reduction()) {
            let (Some((min, max)), Some(all)) = (domain, whole_domain(iter)) else { continue };
            let whole =
                analyzer.prove_equal(min, &all.0) == Some(true) && analyzer.prove_equal(max, &all.1) == Some(true);
            if !whole {
                return Err(format!(
                    "an iteration would execute only a part of the reduction `{}` of block `{}`",
                    iter.name, block.name
                ));
            }
        }
        Ok(())
    }

    /// Checks that the part executed in an iteration has a constant size, so that the block does not read elements
    /// written in other iterations.
    fn parts_are_numbers(
        &self,
        facts: &Facts,
        domains: &[Domain],
        at: Id,
        analyzer: &mut Analyzer,
    ) -> Result<(), String> {
        let Some(block) = self.as_block(facts.id) else { return Ok(()) };
        for (iter, domain) in block.iters.iter().zip(domains) {
            let Some((min, max)) = domain else { continue };
            let is_whole = whole_domain(iter).is_some_and(|(first, last)| {
                analyzer.prove_equal(min, &first) == Some(true) && analyzer.prove_equal(max, &last) == Some(true)
            });
            if !is_whole && analyzer.simplify(&(max.clone() - min.clone())).as_int().is_none() {
                return Err(format!(
                    "the range of `{}` that block `{}` would execute in one iteration of `{}` does not have a constant size",
                    iter.name,
                    block.name,
                    self.loop_name(at)
                ));
            }
        }
        Ok(())
    }

    /// Returns true if a block precedes all blocks of a node in program order.
    fn comes_before_node(&self, block: Id, at: Id) -> bool {
        self.blocks_in(at).first().is_some_and(|first| self.comes_before(block, *first))
    }
}

/// Returns the block that writes a buffer first: the only writer, or the one that initializes the elements that all other writers update.
fn first_writer<'f>(writers: &[&'f Facts]) -> Option<&'f Facts> {
    match writers {
        [writer] => Some(writer),
        _ => {
            let mut inits = writers.iter().filter(|writer| writer.effect == Effect::Complete);
            let others = writers.iter().all(|w| {
                matches!(w.effect, Effect::Complete | Effect::Update) && w.combines == (w.effect == Effect::Update)
            });
            inits.next().copied().filter(|_| inits.next().is_none() && others)
        }
    }
}

/// A part of the values of an iterator.
struct Part {
    min: Dim,
    extent: Dim,
    /// True if the part may include values below those of the iterator.
    below: bool,
    above: bool,
}

impl Part {
    fn whole(iter: &Iter) -> Option<Part> {
        let (min, extent) = (iter.min.as_dim()?.clone(), iter.extent.as_dim()?.clone());
        Some(Part { min, extent, below: false, above: false })
    }
}

/// Returns the part of an iterator that covers a domain: the whole iterator if the domain includes it, or `None` if the size of the part is
/// unknown.
fn part_of(iter: &Iter, (min, max): &(Dim, Dim), analyzer: &mut Analyzer) -> Option<Part> {
    let (first, last) = whole_domain(iter)?;
    let proves =
        |op, a: &Dim, b: &Dim, analyzer: &mut Analyzer| analyzer.can_prove(&Dim::binary(op, a.clone(), b.clone()));
    if proves(PrimOp::Le, min, &first, analyzer) && proves(PrimOp::Ge, max, &last, analyzer) {
        return Part::whole(iter);
    }
    let extent = analyzer.simplify(&(plus(&(max.clone() - min.clone()), 1)));
    let extent = match extent.as_int() {
        Some(_) => extent,
        None => {
            let most = analyzer.const_bounds(&extent).max;
            let fits = iter.extent.as_int().is_none_or(|all| most < all) && most < i64::from(i32::MAX);
            fits.then(|| Dim::int(most, extent.dtype()))?
        }
    };
    Some(Part {
        below: !proves(PrimOp::Ge, min, &first, analyzer),
        above: {
            let end = plus(&(min.clone() + extent.clone()), -1);
            !proves(PrimOp::Le, &end, &last, analyzer)
        },
        min: analyzer.simplify(min),
        extent,
    })
}

fn whole_domain(iter: &Iter) -> Domain {
    let (min, extent) = (iter.min.as_dim()?, iter.extent.as_dim()?);
    Some((min.clone(), plus(&(min.clone() + extent.clone()), -1)))
}

/// Splits an index into an iterator and a constant offset.
fn iter_and_offset(index: &Dim, iters: &[Iter]) -> Option<(usize, i64)> {
    let find = |dim: &Dim| match dim {
        Dim::Var(sym) => iters.iter().position(|iter| iter.var.id == sym.id),
        _ => None,
    };
    if let Some(at) = find(index) {
        return Some((at, 0));
    }
    match index.operation() {
        Some((PrimOp::Add, _, operands)) => match (find(operands[0]), operands[1].as_int()) {
            (Some(at), Some(offset)) => Some((at, offset)),
            _ => None,
        },
        Some((PrimOp::Sub, _, operands)) => match (find(operands[0]), operands[1].as_int()) {
            (Some(at), Some(offset)) => Some((at, -offset)),
            _ => None,
        },
        _ => None,
    }
}

impl Hull {
    /// Returns the smallest hull that contains both.
    fn joined(self, other: Hull, analyzer: &mut Analyzer) -> Hull {
        let pairs = self.0.into_iter().zip(other.0);
        Hull(pairs.map(|((a, b), (c, d))| (analyzer.least(a, c), analyzer.greatest(b, d))).collect())
    }
}
