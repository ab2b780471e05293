//! Replaces loops around the same statements: `split`, `fuse`, `reorder`.

use super::depend::order::{Moved, Wanted};
use super::trace::Arg;
use super::tree::expr::{Ex, Meanings, all_of, conjuncts};
use super::tree::{Id, Loop, Tree, What};
use super::{LoopRef, Schedule};
use passhost_lang::ir::records::kind;
use passhost_lang::ir::{DType, Dim, loop_kind};
use passhost_lang::scalar::PrimOp;
use passhost_lang::{PassError, bail, pass_error};

impl Schedule {
    /// Splits a loop into nested loops with the given extents, the outermost first. One of the extents may be `None`, which is then
    /// inferred. If the product exceeds the extent of the loop, each block in it gets a condition that excludes the surplus iterations.
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
    /// let [i] = sch.loops(sch.get_block("B")?)?;
    /// let [i_0, i_1] = sch.split(i, [None, Some(8)])?;
    /// assert_eq!((sch.loop_extent(i_0)?.as_int(), sch.loop_extent(i_1)?.as_int()), (Some(4), Some(8)));
    /// let block = sch.finish()?.values().filter_map(Value::block_condition).count();
    /// assert_eq!(block, 1, "i_0 * 8 + i_1 < 30");
    /// # Ok::<(), PassError>(())
    /// ```
    ///
    /// # Errors
    /// If the loop does not start at 0, is not serial or contains a `break`; if the extents are too small; or if a condition is necessary for a
    /// statement outside any block.
    pub fn split<const N: usize>(&mut self, of: LoopRef, factors: [Option<i64>; N]) -> Result<[LoopRef; N], PassError> {
        let loops = self.split_by(of, &factors)?;
        loops.try_into().map_err(|_| pass_error!("`split`: the number of loops is not {N}"))
    }

    /// Like [`Schedule::split`], with a number of loops that is not constant.
    ///
    /// # Errors
    /// As for [`Schedule::split`].
    pub fn split_by(&mut self, of: LoopRef, factors: &[Option<i64>]) -> Result<Vec<LoopRef>, PassError> {
        let id = self.loop_id("split", of)?;
        let mut tree = self.tree.clone();
        let loops = tree.split(id, factors).map_err(|why| pass_error!("`split`: {why}"))?;
        let args = vec![self.loop_arg(id), Arg::Factors(factors.to_vec())];
        self.commit("split", tree)?;
        self.record("split", args, &loops);
        Ok(loops.into_iter().map(|id| self.loop_ref(id)).collect())
    }

    /// Fuses perfectly nested loops, given from the outermost one, into a single loop.
    ///
    /// # Errors
    /// If a loop contains more than the next loop, does not start at 0, is not serial or contains a `break`, or if the extent of a loop
    /// depends on another loop.
    pub fn fuse(&mut self, loops: &[LoopRef]) -> Result<LoopRef, PassError> {
        let ids = self.loop_ids("fuse", loops)?;
        let mut tree = self.tree.clone();
        let fused = tree.fuse(&ids).map_err(|why| pass_error!("`fuse`: {why}"))?;
        let args = vec![self.loops_arg(&ids)];
        self.commit("fuse", tree)?;
        self.record("fuse", args, &[fused]);
        Ok(self.loop_ref(fused))
    }

    /// Reorders perfectly nested loops, the outermost first. Loops between them keep their place.
    ///
    /// # Errors
    /// If one of the loops contains more than the next loop, if the range of a loop would depend on a loop inside it, or if iterations
    /// depend on each other.
    pub fn reorder(&mut self, loops: &[LoopRef]) -> Result<(), PassError> {
        let ids = self.loop_ids("reorder", loops)?;
        let mut tree = self.tree.clone();
        tree.reorder(&ids).map_err(|why| pass_error!("`reorder`: {why}"))?;
        let args = vec![self.loops_arg(&ids)];
        self.commit("reorder", tree)?;
        self.record("reorder", args, &[]);
        Ok(())
    }

    pub(super) fn loop_ids(&self, primitive: &str, loops: &[LoopRef]) -> Result<Vec<Id>, PassError> {
        let ids = loops.iter().map(|of| self.loop_id(primitive, *of)).collect::<Result<Vec<Id>, _>>()?;
        match ids.iter().enumerate().find(|(at, id)| ids[..*at].contains(id)) {
            Some((_, id)) => bail!("`{primitive}`: loop `{}` is given twice", self.tree.loop_name(*id)),
            None if ids.is_empty() => bail!("`{primitive}`: at least one loop is needed"),
            None => Ok(ids),
        }
    }
}

impl Tree {
    fn split(&mut self, id: Id, factors: &[Option<i64>]) -> Result<Vec<Id>, String> {
        let extent = self.plain_loop(id)?;
        let of = self.as_loop(id).ok_or("expected a loop")?.clone();
        let (extents, exact) = self.extents(id, &extent, factors)?;
        if !exact {
            self.needs_blocks(id)?;
        }
        let mut loops = Vec::new();
        let mut index = Dim::int(0, of.var.dtype);
        for (at, extent) in extents.iter().enumerate() {
            let var = self.fresh(of.var.dtype);
            index = mul(index, extent.clone()) + Dim::Var(var);
            loops.push(self.new_loop(var, &format!("{}_{at}", of.name), extent.clone()));
        }
        let index = self.analyzer_of(&loops).simplify(&index);
        self.nest(id, &loops);
        let last = *loops.last().ok_or("at least one factor is needed")?;
        self.substitute(last, &Meanings::one(of.var, index.clone()));
        if !exact {
            self.guard(last, &Dim::binary(PrimOp::Lt, index, extent));
        }
        self.simplify_bindings(last);
        Ok(loops)
    }

    /// Returns the extents of the loops into which a loop is split, and whether their product equals the extent of the original loop.
    fn extents(&self, id: Id, extent: &Dim, factors: &[Option<i64>]) -> Result<(Vec<Dim>, bool), String> {
        let name = self.loop_name(id);
        let known: Vec<i64> = factors.iter().flatten().copied().collect();
        if factors.is_empty() || factors.len() > known.len() + 1 {
            return Err(format!(
                "`{name}` is split by {} factors; give at least one factor, at most one of them `None`",
                factors.len()
            ));
        }
        if let Some(factor) = known.iter().find(|factor| **factor < 1) {
            return Err(format!("`{name}` is split by {factor}; factors must be positive"));
        }
        let product = known.iter().try_fold(1i64, |product, factor| product.checked_mul(*factor));
        let product = product.filter(|product| extent.dtype().has_integer((*product).into()));
        let product = product.ok_or_else(|| format!("the factors of `{name}` are too large"))?;
        let number = |value: i64| Dim::int(value, extent.dtype());
        let mut analyzer = self.analyzer_at(id);
        let inferred = match extent.as_int() {
            Some(extent) => number(extent.div_euclid(product) + i64::from(extent.rem_euclid(product) != 0)),
            None => analyzer.simplify(&(extent.clone() + (product - 1)).floor_div(number(product))),
        };
        let complete = known.len() == factors.len();
        let extents: Vec<Dim> = factors.iter().map(|factor| factor.map_or_else(|| inferred.clone(), number)).collect();
        let whole = if complete { number(product) } else { mul(inferred, number(product)) };
        if complete && !analyzer.can_prove(&Dim::binary(PrimOp::Le, extent.clone(), whole.clone())) {
            return Err(match extent.as_int() {
                Some(extent) => {
                    format!("`{name}` has {extent} iterations, but the product of the factors is only {product}")
                }
                None => format!("`{name}` may have more iterations than the product of the factors, {product}"),
            });
        }
        let exact = analyzer.prove_equal(&whole, extent) == Some(true);
        Ok((extents, exact))
    }

    fn fuse(&mut self, ids: &[Id]) -> Result<Id, String> {
        let mut extents = Vec::new();
        for (at, id) in ids.iter().enumerate() {
            extents.push(self.plain_loop(*id)?);
            if let Some(next) = ids.get(at + 1)
                && self.node(*id).kids != [*next]
            {
                return Err(format!(
                    "loop `{}` must be the only content of loop `{}`",
                    self.loop_name(*next),
                    self.loop_name(*id)
                ));
            }
            self.range_is_free_of(*id, &ids[..at])?;
        }
        let name = ids.iter().map(|id| self.loop_name(*id)).collect::<Vec<_>>().join("_");
        let dtype = extents.iter().map(Dim::dtype).max_by_key(|dtype| dtype.bits()).unwrap_or(DType::I32);
        if ids.iter().filter_map(|id| self.as_loop(*id)).any(|of| of.var.dtype != dtype) {
            return Err(format!("`{name}` are loops with different data types"));
        }
        let whole = extents.iter().cloned().reduce(mul).ok_or("at least one loop is needed")?;
        let whole = self.analyzer_at(ids[0]).simplify(&whole);
        let var = self.fresh(dtype);
        let fused = self.new_loop(var, &format!("{name}_fused"), whole);
        let (mut rest, mut meanings) = (Dim::Var(var), Meanings::default());
        for (at, (id, extent)) in ids.iter().zip(&extents).enumerate().rev() {
            let value = if at == 0 { rest.clone() } else { rest.clone().floor_mod(extent.clone()) };
            rest = rest.floor_div(extent.clone());
            if let Some(of) = self.as_loop(*id) {
                meanings.set(of.var, Ex::Dim(value));
            }
        }
        self.nest_content(ids[0], ids[ids.len() - 1], &[fused]);
        ids.iter().for_each(|id| self.node_mut(*id).live = false);
        self.substitute(fused, &meanings);
        self.simplify_bindings(fused);
        Ok(fused)
    }

    fn reorder(&mut self, ids: &[Id]) -> Result<(), String> {
        let before = self.chain(ids)?;
        let mut order = ids.iter();
        let after: Vec<Id> =
            before.iter().map(|id| if ids.contains(id) { order.next().copied().unwrap_or(*id) } else { *id }).collect();
        if before == after {
            return Ok(());
        }
        for (at, id) in after.iter().enumerate() {
            self.range_is_free_of(*id, &after[at + 1..])?;
        }
        let at = before[before.len() - 1];
        if self.subtree(at).into_iter().any(|id| self.jumps(id)) {
            return Err(format!("loop `{}` contains a `break`, `continue` or `return`", self.loop_name(at)));
        }
        self.keeps_reductions(&before, &after)?;
        self.are_independent(&Moved { loops: &before, at, wanted: Wanted::Order })?;
        let kids = std::mem::take(&mut self.node_mut(at).kids);
        self.replace(before[0], &[after[0]]);
        for pair in after.windows(2) {
            self.node_mut(pair[0]).kids = vec![pair[1]];
            self.node_mut(pair[1]).parent = Some(pair[0]);
        }
        let last = after[after.len() - 1];
        kids.iter().for_each(|kid| self.node_mut(*kid).parent = Some(last));
        self.node_mut(last).kids = kids;
        Ok(())
    }

    /// Returns all loops from the outermost to the innermost of the given loops, which must be perfectly nested.
    fn chain(&self, ids: &[Id]) -> Result<Vec<Id>, String> {
        let depth = |id: &Id| self.around(*id).count();
        let top = *ids.iter().min_by_key(|id| depth(id)).ok_or("at least one loop is needed")?;
        let bottom = *ids.iter().max_by_key(|id| depth(id)).ok_or("at least one loop is needed")?;
        let mut chain = vec![bottom];
        while let Some(inner) = chain.last().copied().filter(|inner| *inner != top) {
            let outer = self.node(inner).parent.filter(|outer| self.as_loop(*outer).is_some());
            let outer =
                outer.ok_or_else(|| format!("`{}` is not in `{}`", self.loop_name(bottom), self.loop_name(top)))?;
            if self.node(outer).kids != [inner] {
                return Err(format!(
                    "loop `{}` must be the only content of loop `{}`",
                    self.loop_name(inner),
                    self.loop_name(outer)
                ));
            }
            chain.push(outer);
        }
        chain.reverse();
        match ids.iter().find(|id| !chain.contains(id)) {
            Some(id) => Err(format!("`{}` does not enclose `{}`", self.loop_name(*id), self.loop_name(bottom))),
            None => Ok(chain),
        }
    }

    fn range_is_free_of(&self, id: Id, others: &[Id]) -> Result<(), String> {
        for other in others {
            let Some(var) = self.as_loop(*other).map(|of| of.var) else { continue };
            if self.own(id).iter().any(|ex| ex.mentions(var)) {
                let (name, other) = (self.loop_name(id), self.loop_name(*other));
                return Err(format!("the range of `{name}` depends on `{other}`"));
            }
        }
        Ok(())
    }

    /// Returns the extent of a loop, which must start at 0, be serial and contain no `break`.
    fn plain_loop(&self, id: Id) -> Result<Dim, String> {
        let of = self.as_loop(id).ok_or("expected a loop")?;
        if of.kind != loop_kind::SERIAL {
            return Err(format!("loop `{}` is already {}; apply this primitive first", of.name, of.kind));
        }
        if of.min.as_int() != Some(0) || of.step.is_some() || of.var_of.is_some() {
            return Err(format!("`{}` does not run from 0 in steps of 1", of.name));
        }
        if self.subtree(id).into_iter().any(|id| self.jumps(id)) {
            return Err(format!("loop `{}` contains a `break`, `continue` or `return`", of.name));
        }
        let extent = of.extent.as_dim().cloned();
        extent.ok_or_else(|| format!("the extent of `{}` is not arithmetic on integers", of.name))
    }

    fn jumps(&self, id: Id) -> bool {
        let What::Other(other) = &self.node(id).what else { return false };
        let mut called = false;
        for ex in &other.ops {
            ex.each(&mut |part| {
                called |= matches!(part, Ex::Op(op) if op.spec.kind == kind::CALL
                    && matches!(op.ops.first(), Some(Ex::Leaf(callee)) if self.effects.contains(callee)));
            });
        }
        called || matches!(other.spec.kind, kind::BREAK | kind::CONTINUE | kind::RETURN)
    }

    /// Checks that each statement in a loop is in a block, because only blocks can have a condition.
    fn needs_blocks(&self, id: Id) -> Result<(), String> {
        let scope = self.scope_of(id);
        let is_bare =
            |at: &Id| matches!(self.node(*at).what, What::Store(_) | What::Other(_)) && self.scope_of(*at) == scope;
        match self.subtree(id).iter().any(is_bare) {
            true => Err(format!(
                "the factors do not divide the extent of `{}`, and a statement in it is outside any block that could take a condition",
                self.loop_name(id)
            )),
            false => Ok(()),
        }
    }

    /// Returns the outermost blocks in a node.
    pub(super) fn outer_blocks(&self, id: Id) -> Vec<Id> {
        let scope = self.scope_of(id);
        let outer = |block: &Id| *block == id || self.scope_of(*block) == scope;
        self.blocks_in(id).into_iter().filter(outer).collect()
    }

    /// Adds a condition to the blocks in a node.
    fn guard(&mut self, id: Id, condition: &Dim) {
        for block in self.outer_blocks(id) {
            if let Ok(block) = self.block_mut(block) {
                block.add_condition(condition.clone());
            }
        }
    }

    /// Creates a loop from 0 that is not yet part of the tree.
    pub(super) fn new_loop(&mut self, var: passhost_lang::ir::Sym, name: &str, extent: Dim) -> Id {
        self.add(What::Loop(Loop {
            var,
            name: name.to_string(),
            min: Ex::Dim(Dim::int(0, var.dtype)),
            extent: Ex::Dim(extent),
            step: None,
            kind: loop_kind::SERIAL.to_string(),
            old: None,
            var_of: None,
            is_checked: false,
        }))
    }

    /// Replaces a loop by nested loops, and moves its content into the innermost one.
    fn nest(&mut self, id: Id, loops: &[Id]) {
        self.nest_content(id, id, loops);
        self.node_mut(id).live = false;
    }

    fn nest_content(&mut self, top: Id, bottom: Id, loops: &[Id]) {
        let kids = std::mem::take(&mut self.node_mut(bottom).kids);
        let (Some(first), Some(last)) = (loops.first(), loops.last()) else { return };
        self.replace(top, &[*first]);
        for pair in loops.windows(2) {
            self.push(pair[0], pair[1]);
        }
        kids.into_iter().for_each(|kid| self.push(*last, kid));
    }

    fn analyzer_of(&self, loops: &[Id]) -> passhost_lang::arith::Analyzer {
        let mut analyzer = passhost_lang::arith::Analyzer::new();
        for of in loops.iter().filter_map(|id| self.as_loop(*id)) {
            if let (Some(min), Some(extent)) = (of.min.as_dim(), of.extent.as_dim()) {
                analyzer.bind_range(of.var, min, extent);
            }
        }
        analyzer
    }

    /// Simplifies iterator values and block conditions, using the ranges of the enclosing loops.
    pub(super) fn simplify_bindings(&mut self, id: Id) {
        for block in self.outer_blocks(id) {
            let mut analyzer = self.analyzer_at(block);
            let Ok(block) = self.block_mut(block) else { continue };
            for iter in &mut block.iters {
                if let Ex::Dim(dim) = &iter.value {
                    iter.value = Ex::Dim(analyzer.simplify(dim));
                }
            }
            if let Some(Ex::Dim(condition)) = &block.condition {
                let parts = conjuncts(condition);
                let parts: Vec<Dim> = parts.iter().filter(|part| !analyzer.can_prove(part)).cloned().collect();
                let parts = parts.iter().map(|part| simpler_comparison(part, &mut analyzer)).collect();
                block.condition = all_of(parts).map(Ex::Dim);
            }
        }
    }
}

/// Simplifies each side of a comparison separately.
fn simpler_comparison(part: &Dim, analyzer: &mut passhost_lang::arith::Analyzer) -> Dim {
    match part.operation() {
        Some((op, _, operands)) if op.is_comparison() && operands.len() == 2 => {
            Dim::binary(op, analyzer.simplify(operands[0]), analyzer.simplify(operands[1]))
        }
        _ => part.clone(),
    }
}

/// Builds a product as TVM writes it, with constants folded.
pub(super) fn mul(a: Dim, b: Dim) -> Dim {
    passhost_lang::tir::regions::linear::mul(a, b)
}
