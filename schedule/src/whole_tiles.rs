//! `compute_whole_tiles`: computes the surplus iterations of a split loop instead of skipping them.

use super::depend::facts::{Facts, Touch};
use super::loops::mul;
use super::tree::expr::{Buf, Ex, Meanings, all_of, conjuncts};
use super::tree::{Id, Tree, What, plus};
use super::{BlockRef, LoopRef, Schedule};
use passhost_lang::ir::{Dim, Sym, loop_kind};
use passhost_lang::scalar::PrimOp;
use passhost_lang::{PassError, pass_error};

impl Schedule {
    /// Removes the condition that a split added to a block for the iterations of the inner loop `of`. In surplus
    /// iterations, the block computes its last result again, and stores it in elements that are added to its buffer.
    /// The last tile is then computed without branches, like all others.
    ///
    /// ```
    /// use plugin_api::prelude::*;
    /// use plugin_api::schedule::Schedule;
    /// use plugin_api::tir::prim_func;
    ///
    /// let body = prim_func(|t| {
    ///     let [a, b] = ["A", "B"].map(|name| t.buffer_param(name, &[30], DType::F32));
    ///     t.serial("i", 30, |i| {
    ///         t.block("B", || {
    ///             let vi = t.spatial("vi", 30, i);
    ///             t.store(b, [vi], t.load(a, [vi]) * 2.0);
    ///         });
    ///     });
    /// })?;
    /// let mut sch = Schedule::new(&body)?;
    /// let block = sch.get_block("B")?;
    /// let [i] = sch.loops(block)?;
    /// sch.cache_write(block, 0, "local")?;
    /// let [_, i_1] = sch.split(i, [None, Some(8)])?;
    /// sch.compute_whole_tiles(block, i_1)?;
    /// assert_eq!(sch.block_info(block)?.iters[0].extent, Some(32));
    /// assert_eq!(sch.finish()?.values().filter_map(Value::block_condition).count(), 0);
    /// # Ok::<(), PassError>(())
    /// ```
    ///
    /// # Errors
    /// If the block has no condition on `of`; if the condition is not that of a split into tiles of the size of `of`; or
    /// if the block writes a buffer that the function does not allocate, or in which the surplus elements would not be
    /// new.
    pub fn compute_whole_tiles(&mut self, block: BlockRef, of: LoopRef) -> Result<(), PassError> {
        const NAME: &str = "compute_whole_tiles";
        let (id, at) = (self.block_id(NAME, block)?, self.loop_id(NAME, of)?);
        let mut tree = self.tree.with_allocations_first();
        tree.whole_tiles(id, at).map_err(|why| pass_error!("`{NAME}`: {why}"))?;
        let args = vec![self.block_arg(id), self.loop_arg(at)];
        self.commit(NAME, tree)?;
        self.record(NAME, args, &[]);
        Ok(())
    }
}

/// An iterator whose loop was split into tiles that may exceed its extent.
struct Tiled {
    /// The position of the iterator.
    iter: usize,
    extent: Dim,
    /// The extent rounded up to whole tiles.
    whole: Dim,
    /// The loops within a tile. The first iterations of these loops are within the extent, in each tile.
    inner: Vec<Id>,
    /// The other conditions of the block.
    others: Vec<Dim>,
}

impl Tree {
    fn whole_tiles(&mut self, id: Id, at: Id) -> Result<(), String> {
        let facts = self.facts(id)?;
        let tiled = self.tiled(id, at)?;
        let dims = self.dims_of_surplus(&facts, &tiled)?;
        self.inputs_are_of_whole_tiles(&facts, &tiled, &dims)?;
        let iter = &self.as_block(id).ok_or("expected a block")?.iters[tiled.iter];
        let last = plus(&tiled.extent, -1);
        let meaning = Meanings::one(iter.var, Dim::binary(PrimOp::Min, Dim::Var(iter.var), last));
        for store in self.subtree(id) {
            if let What::Store(store) = &mut self.node_mut(store).what {
                store.value = clamped(&store.value, &meaning, &|buffer| dims.iter().any(|(of, _)| *of == buffer));
            }
        }
        for (buffer, dim) in dims {
            self.buffers[buffer.0 as usize].ty.shape[dim] = tiled.whole.clone();
        }
        let block = self.block_mut(id).map_err(|error| error.message)?;
        block.iters[tiled.iter].extent = Ex::Dim(tiled.whole);
        block.condition = all_of(tiled.others).map(Ex::Dim);
        self.simplify_and_find_accesses(id);
        Ok(())
    }

    /// Finds the iterator that the condition on a loop limits.
    fn tiled(&self, id: Id, at: Id) -> Result<Tiled, String> {
        let block = self.as_block(id).ok_or("expected a block")?;
        let of = self.as_loop(at).ok_or("expected a loop")?;
        let (name, loop_name) = (&block.name, &of.name);
        let all = block.condition.as_ref().and_then(Ex::as_dim).map(conjuncts).unwrap_or_default();
        let is_own = |part: &Dim| Ex::Dim(part.clone()).mentions(of.var);
        let (own, others): (Vec<Dim>, Vec<Dim>) = all.into_iter().partition(is_own);
        let [condition] = &own[..] else {
            return Err(format!("block `{name}` must have one condition on loop `{loop_name}`, found {}", own.len()));
        };
        let unexpected = || format!("the condition of block `{name}` on loop `{loop_name}` is not that of a split");
        let Some((PrimOp::Lt, _, operands)) = condition.operation() else { return Err(unexpected()) };
        let (value, extent) = (operands[0], operands[1]);
        let mut analyzer = self.analyzer_at(id);
        let mut same = |a: Option<&Dim>, b: &Dim| a.is_some_and(|a| analyzer.prove_equal(a, b) == Some(true));
        let iter = block.iters.iter().position(|iter| {
            let is_bound = same(iter.value.as_dim(), value) && same(iter.extent.as_dim(), extent);
            is_bound && iter.is_spatial() && iter.min.as_int() == Some(0)
        });
        let iter = iter.ok_or_else(unexpected)?;
        let (whole, inner) = self.tiles_of(id, value, extent).ok_or_else(unexpected)?;
        Ok(Tiled { iter, extent: extent.clone(), whole, inner, others })
    }

    /// Finds the loop over tiles in the value of a split loop, and returns the extent of all tiles and the loops in a
    /// tile. In each tile, at least one value is within the extent.
    fn tiles_of(&self, id: Id, value: &Dim, extent: &Dim) -> Option<(Dim, Vec<Id>)> {
        let is_used = |id: &Id| self.as_loop(*id).is_some_and(|of| Ex::Dim(value.clone()).mentions(of.var));
        let mut inner: Vec<Id> = self.loops_around(id).into_iter().filter(is_used).collect();
        let outer = self.as_loop(inner.first().copied()?)?;
        inner.remove(0);
        let mut size = 1i64;
        for of in &inner {
            size = size.checked_mul(self.as_loop(*of)?.extent.as_int().filter(|extent| *extent > 0)?)?;
        }
        let number = |value: i64| super::tree::number(value, extent);
        let mut analyzer = self.analyzer_at(id);
        let rest = value.clone() - mul(Dim::Var(outer.var), number(size));
        let rest = analyzer.const_bounds(&rest);
        let tiles = plus(extent, size - 1).floor_div(number(size));
        let n = outer.extent.as_dim()?;
        let covers = analyzer.prove_equal(n, &tiles) == Some(true) && outer.min.as_int() == Some(0);
        (covers && rest.min == 0 && rest.max < size).then(|| (mul(n.clone(), number(size)), inner))
    }

    /// Checks that the inputs of the last instance within the extent are complete in each iteration of the loops in its
    /// tile. Also refuses lanes: those beyond the end would all read the last element, which is correct but slow.
    fn inputs_are_of_whole_tiles(&self, facts: &Facts, tiled: &Tiled, written: &[(Buf, usize)]) -> Result<(), String> {
        let block = self.as_block(facts.id).ok_or("expected a block")?;
        let var = block.iters[tiled.iter].var;
        let is_vector = |id: &&Id| self.as_loop(**id).is_some_and(|of| of.kind == loop_kind::VECTORIZED);
        let lanes = tiled.inner.iter().find(is_vector);
        for touch in facts.touches.iter().filter(|touch| !touch.write) {
            let indices = touch.indices.iter();
            let depends = |index: &Option<Dim>| index.clone().is_none_or(|index| Ex::Dim(index).mentions(var));
            if written.iter().any(|(buffer, _)| *buffer == touch.buffer) || !indices.clone().any(depends) {
                continue;
            }
            if let Some(lanes) = lanes {
                return Err(format!(
                    "lanes of `{}` beyond the end would read elements of `{}`",
                    self.loop_name(*lanes),
                    self.buffer(touch.buffer).name
                ));
            }
            for user in self.blocks_using(touch.buffer) {
                if let Some(of) = tiled.inner.iter().find(|of| self.is_under(user, **of))
                    && self.facts(user)?.writes(touch.buffer)
                {
                    return Err(format!(
                        "block `{}` reads `{}`, which each iteration of `{}` writes only in part",
                        block.name,
                        self.buffer(touch.buffer).name,
                        self.loop_name(*of)
                    ));
                }
            }
        }
        Ok(())
    }

    /// Returns the buffers that a block writes, each with the dimension in which surplus elements are added.
    fn dims_of_surplus(&self, facts: &Facts, tiled: &Tiled) -> Result<Vec<(Buf, usize)>, String> {
        let block = self.as_block(facts.id).ok_or("expected a block")?;
        let var = block.iters[tiled.iter].var;
        let mut analyzer = self.analyzer_at(facts.id);
        let mut out = Vec::new();
        for touch in facts.touches.iter().filter(|touch| touch.write) {
            let of = self.buffer(touch.buffer);
            let is_plain = of.is_allocated && !of.is_view && of.ty.strides.is_empty() && of.ty.elem_offset.is_none();
            let dim = dim_of(touch, var).filter(|_| is_plain).filter(|dim| {
                let extent = &of.ty.shape[*dim];
                [&tiled.extent, &tiled.whole].iter().any(|known| analyzer.prove_equal(extent, known) == Some(true))
            });
            let dim = dim.ok_or_else(|| {
                format!("`{}`, which block `{}` writes, cannot get surplus elements", of.name, block.name)
            })?;
            if !out.contains(&(touch.buffer, dim)) {
                out.push((touch.buffer, dim));
            }
        }
        Ok(out)
    }
}

/// Returns the only dimension whose index depends on a variable, if the index is the variable.
fn dim_of(touch: &Touch, var: Sym) -> Option<usize> {
    let indices = touch.known()?;
    let mut depending = indices.iter().enumerate().filter(|(_, index)| Ex::Dim((*index).clone()).mentions(var));
    let (dim, index) = depending.next()?;
    (matches!(index, Dim::Var(of) if of.id == var.id) && depending.next().is_none()).then_some(dim)
}

/// Replaces a variable in an expression, except in loads of the written buffers.
fn clamped(value: &Ex, meaning: &Meanings, is_written: &dyn Fn(Buf) -> bool) -> Ex {
    value.replaced(&mut |part| match part {
        Ex::Dim(_) => Some(part.substituted(meaning)),
        _ => part.as_load().filter(|(buffer, _)| is_written(*buffer)).map(|_| part.clone()),
    })
}
