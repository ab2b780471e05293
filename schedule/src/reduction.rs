//! `decompose_reduction`: turns the initialization of a reduction into a separate block.

use super::depend::digits::{Digits, Runs};
use super::depend::facts::{Effect, Facts};
use super::tree::expr::{Ex, Meanings, all_of, conjuncts};
use super::tree::{Access, Block, Id, Iter, Loop, Tree, What};
use super::{BlockRef, LoopRef, Schedule};
use passhost_lang::ir::Dim;
use passhost_lang::{PassError, pass_error};

impl Schedule {
    /// Moves the initialization of a reduction block before an enclosing loop, as a block `…_init`; the original block becomes `…_update`. Returns
    /// the new block.
    ///
    /// ```
    /// use plugin_api::prelude::*;
    /// use plugin_api::schedule::Schedule;
    /// use plugin_api::tir::prim_func;
    ///
    /// let body = prim_func(|t| {
    ///     let (a, c) = (t.buffer_param("A", &[8, 8], DType::F32), t.buffer_param("C", &[8], DType::F32));
    ///     t.grid(["i", "k"], [8, 8], |[i, k]| {
    ///         t.block("C", || {
    ///             let (vi, vk) = (t.spatial("vi", 8, i), t.reduce("vk", 8, k));
    ///             t.init(|| t.store(c, [vi], 0.0));
    ///             t.store(c, [vi], t.load(c, [vi]) + t.load(a, [vi, vk]));
    ///         });
    ///     });
    /// })?;
    /// let mut sch = Schedule::new(&body)?;
    /// let block = sch.get_block("C")?;
    /// let [_, k] = sch.loops(block)?;
    /// sch.decompose_reduction(block, k)?;
    /// let names: Vec<String> = sch.blocks().into_iter().map(|block| block.name).collect();
    /// assert_eq!(names, ["C_init", "C_update"]);
    /// # Ok::<(), PassError>(())
    /// ```
    ///
    /// # Errors
    /// If the block lacks an initialization, if a loop around this one is a reduction loop of the block, or if an element would be
    /// initialized a different number of times than before.
    pub fn decompose_reduction(&mut self, block: BlockRef, of: LoopRef) -> Result<BlockRef, PassError> {
        const NAME: &str = "decompose_reduction";
        let (id, at) = (self.block_id(NAME, block)?, self.loop_id(NAME, of)?);
        let mut tree = self.tree.clone();
        let init = tree.decompose(id, at).map_err(|why| pass_error!("`{NAME}`: {why}"))?;
        let args = vec![self.block_arg(id), self.loop_arg(at)];
        self.commit(NAME, tree)?;
        self.record(NAME, args, &[init]);
        Ok(self.block_ref(init))
    }
}

impl Tree {
    fn decompose(&mut self, id: Id, at: Id) -> Result<Id, String> {
        let facts = self.facts(id)?;
        let block = self.as_block(id).ok_or("expected a block")?.clone();
        if facts.effect != Effect::Reduction {
            return Err(format!("block `{}` lacks an initialization", block.name));
        }
        let spatial = self.loops_of_init(&facts, &block, at)?;
        self.others_see_sums(&facts, at)?;
        let init = self.init_block(&block, &spatial);
        let top = self.node(at).parent.unwrap_or(Tree::ROOT);
        let mut nest = init;
        for (new, _) in spatial.iter().rev() {
            self.push(*new, nest);
            nest = *new;
        }
        let place = self.node(top).kids.iter().position(|kid| *kid == at).unwrap_or(0);
        self.insert(top, place, nest);
        let of_init = block.init.into_iter().collect::<Vec<Id>>();
        let update = self.block_mut(id).map_err(|error| error.message)?;
        update.name = format!("{}_update", block.name);
        update.init = None;
        let own = block.accesses.iter().filter(|access| access.write).map(Access::as_read);
        let is_read = |access: &Access| block.accesses.iter().any(|a| !a.write && a.buffer == access.buffer);
        let own: Vec<Access> = own.filter(|access| !is_read(access)).collect();
        update.accesses.splice(0..0, own);
        of_init.into_iter().for_each(|id| self.kill(id));
        Ok(init)
    }

    /// Returns copies of the loops that the initialization needs, each with its original.
    fn loops_of_init(&mut self, facts: &Facts, block: &Block, at: Id) -> Result<Vec<(Id, Id)>, String> {
        let (loops, name) = (self.loops_around(facts.id), &block.name);
        let Some(place) = loops.iter().position(|id| *id == at) else {
            return Err(format!("loop `{}` does not enclose block `{name}`", self.loop_name(at)));
        };
        let reduces = |tree: &Tree, id: Id| tree.binds(block, id, false);
        if let Some(outer) = loops[..place].iter().find(|id| reduces(self, **id)) {
            let (outer, at) = (self.loop_name(*outer), self.loop_name(at));
            return Err(format!(
                "loop `{outer}` is a reduction of block `{name}` and encloses `{at}`, so each of its iterations would restart the sums"
            ));
        }
        let mut spatial = Vec::new();
        for id in &loops[place..] {
            match (self.binds(block, *id, true), reduces(self, *id)) {
                (true, true) => {
                    let of = self.loop_name(*id);
                    return Err(format!("loop `{of}` is both spatial and a reduction of block `{name}`"));
                }
                (true, false) => spatial.push(*id),
                (false, false) if !self.is_unit(*id) => {
                    let of = self.loop_name(*id);
                    return Err(format!("block `{name}` restarts its sums in each iteration of `{of}`"));
                }
                _ => {}
            }
        }
        self.begins_first(block, &loops[place..])?;
        let values: Vec<Dim> = block.iters.iter().filter_map(|iter| iter.value.as_dim().cloned()).collect();
        let runs: Vec<Runs> = spatial.iter().filter_map(|id| self.runs(*id)).collect();
        let told = Digits::new(&values, &runs).told();
        if let Some((of, _)) = spatial.iter().zip(told).find(|(_, told)| !told) {
            let of = self.loop_name(*of);
            return Err(format!("several iterations of `{of}` may initialize the same element of block `{name}`"));
        }
        if !block.guards_domain_only {
            return Err(format!(
                "the condition of block `{name}` excludes instances within the domain of its iterators"
            ));
        }
        let reduced = block.iters.iter().find(|iter| !iter.is_spatial() && self.init_mentions(block, iter));
        if let Some(iter) = reduced {
            return Err(format!("the initialization of block `{name}` uses the reduction `{}`", iter.name));
        }
        Ok(spatial.into_iter().map(|id| (self.loop_like(id, "_init"), id)).collect())
    }

    /// Checks that each reduction iterator starts at its first value in the first iteration, which runs the initialization.
    fn begins_first(&self, block: &Block, loops: &[Id]) -> Result<(), String> {
        let mut first = Meanings::default();
        for of in loops.iter().filter_map(|id| self.as_loop(*id)) {
            first.set(of.var, of.min.clone());
        }
        let mut analyzer = self.analyzer_at(loops[0]);
        for iter in block.iters.iter().filter(|iter| iter.is_reduction()) {
            let value = iter.value.as_dim().and_then(|value| first.dim(value));
            let begins = value.zip(iter.min.as_dim().cloned()).and_then(|(a, b)| analyzer.prove_equal(&a, &b));
            if begins != Some(true) {
                let (name, iter) = (&block.name, &iter.name);
                return Err(format!("the reduction `{iter}` of block `{name}` may not start in the first iteration"));
            }
        }
        Ok(())
    }

    fn init_mentions(&self, block: &Block, iter: &Iter) -> bool {
        let nodes = block.init.into_iter().flat_map(|init| self.subtree(init));
        nodes.into_iter().any(|id| self.own(id).iter().any(|ex| ex.mentions(iter.var)))
    }

    /// Returns true if a loop binds a spatial iterator of a block (if `spatial` is false, a non-spatial iterator).
    fn binds(&self, block: &Block, id: Id, spatial: bool) -> bool {
        let Some(of) = self.as_loop(id) else { return false };
        block.iters.iter().any(|iter| iter.is_spatial() == spatial && iter.value.mentions(of.var))
    }

    /// Adds a loop with the range and the kind of another loop.
    fn loop_like(&mut self, id: Id, suffix: &str) -> Id {
        let Some(of) = self.as_loop(id).cloned() else { return id };
        let var = self.fresh(of.var.dtype);
        self.add(What::Loop(Loop { var, name: format!("{}{suffix}", of.name), var_of: None, ..of }))
    }

    /// Checks that other blocks in the loop read only complete sums.
    fn others_see_sums(&self, facts: &Facts, at: Id) -> Result<(), String> {
        let name = self.block_name(facts.id);
        for buffer in facts.written() {
            for user in self.blocks_using(buffer).into_iter().filter(|user| *user != facts.id) {
                let (user_name, buffer_name) = (self.block_name(user), &self.buffer(buffer).name);
                let other = self.facts(user)?;
                if other.writes(buffer) {
                    return Err(format!("block `{user_name}` also writes `{buffer_name}`"));
                }
                let common = self.around(user).find(|id| self.is_under(facts.id, *id)).unwrap_or(Tree::ROOT);
                if self.is_under(user, at) && !self.covers(facts, &other, buffer, common) {
                    return Err(format!(
                        "block `{user_name}` in loop `{}` reads elements of `{buffer_name}` that block `{name}` may not have completed",
                        self.loop_name(at)
                    ));
                }
            }
        }
        let inits: Vec<_> = facts.buffers(false).into_iter().filter(|buffer| !facts.writes(*buffer)).collect();
        let written = self.blocks_in(at).into_iter().filter(|id| *id != facts.id);
        let written: Vec<Id> =
            written.filter(|id| self.facts(*id).is_ok_and(|f| inits.iter().any(|b| f.writes(*b)))).collect();
        match written.first().filter(|_| self.as_block(facts.id).is_some_and(|block| self.has_loads(block))) {
            Some(writer) => Err(format!("block `{}` writes what the initialization reads", self.block_name(*writer))),
            None => Ok(()),
        }
    }

    /// Returns true if the initialization of a block loads from a buffer.
    fn has_loads(&self, block: &Block) -> bool {
        let mut found = false;
        for at in block.init.into_iter().flat_map(|init| self.subtree(init)) {
            self.own(at).into_iter().for_each(|ex| ex.each(&mut |part| found |= part.as_load().is_some()));
        }
        found
    }

    /// Builds the block that initializes the reduction inside these loops.
    fn init_block(&mut self, block: &Block, loops: &[(Id, Id)]) -> Id {
        let (mut in_loops, mut in_block) = (Meanings::default(), Meanings::default());
        for (new, old) in loops {
            if let (Some(new), Some(old)) = (self.as_loop(*new), self.as_loop(*old)) {
                in_loops.set(old.var, Ex::var(new.var));
            }
        }
        let mut iters = Vec::new();
        for iter in block.iters.iter().filter(|iter| iter.is_spatial()) {
            let var = self.fresh(iter.var.dtype);
            in_block.set(iter.var, Ex::var(var));
            iters.push(Iter { var, value: iter.value.substituted(&in_loops), ..iter.clone() });
        }
        let write = |access: &Access| {
            let ranges = access.ranges.iter().map(|(a, b)| (a.substituted(&in_block), b.substituted(&in_block)));
            Access { ranges: ranges.collect(), ..access.clone() }
        };
        let accesses = block.accesses.iter().filter(|access| access.write).map(write).collect();
        let reduced: Vec<_> = block.iters.iter().filter(|iter| !iter.is_spatial()).collect();
        let keeps = |part: &Dim| {
            let mut free = true;
            part.vars(&mut |sym| free &= !reduced.iter().any(|iter| iter.value.mentions(sym)));
            free
        };
        let parts = block.condition.as_ref().and_then(Ex::as_dim).map(conjuncts).unwrap_or_default();
        let condition =
            all_of(parts.into_iter().filter(keeps).collect()).map(|all| Ex::Dim(all).substituted(&in_loops));
        let has_loads = self.has_loads(block);
        let new = Block { iters, accesses, condition, ..Block::new(&format!("{}_init", block.name)) };
        let id = self.add(What::Block(Box::new(Block { found_again: has_loads, ..new })));
        let kids = block.init.map(|init| self.node(init).kids.clone()).unwrap_or_default();
        for kid in kids {
            let copy = self.copy(kid, &mut in_block);
            self.push(id, copy);
        }
        id
    }

    /// Copies a statement with new values for its variables. Loops in the copy get new variables.
    pub(super) fn copy(&mut self, id: Id, meanings: &mut Meanings) -> Id {
        let node = self.node(id).clone();
        let new = self.add(node.what);
        if let What::Loop(of) = &self.node(id).what {
            let old = of.var;
            let var = self.fresh(old.dtype);
            meanings.set(old, Ex::var(var));
            if let Ok(of) = self.loop_mut(new) {
                of.var = var;
            }
        }
        self.map_own(new, &mut |ex| *ex = ex.substituted(meanings));
        for kid in node.kids {
            let copy = self.copy(kid, meanings);
            self.push(new, copy);
        }
        new
    }

    /// Returns the blocks that use a buffer, without duplicates.
    pub(super) fn blocks_using(&self, buffer: super::tree::expr::Buf) -> Vec<Id> {
        let users = self.users_of(buffer).into_iter();
        let mut blocks: Vec<Id> =
            users.map(|id| if self.as_block(id).is_some() { id } else { self.scope_of(id) }).collect();
        blocks.dedup();
        let mut seen = std::collections::HashSet::new();
        blocks.retain(|id| seen.insert(*id));
        blocks
    }
}
