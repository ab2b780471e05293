//! Determines whether the iterations of loops can be reordered, or concurrently.

use super::digits::{Digits, Runs};
use super::facts::{Effect, Facts};
use crate::tree::expr::Buf;
use crate::tree::{Block, Id, Tree, What};
use passhost_lang::ir::Dim;

/// The intended change to some loops.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Loops are reordered.
    Order,
    /// Iterations run concurrently, each with its own copy of buffers that are used only in the loops.
    AtOnce,
    /// Iterations run concurrently, in lockstep by statement.
    InLanes,
}

/// The loops to be changed, down to the innermost loop whose iterations are kept in order.
pub(crate) struct Moved<'a> {
    pub(crate) loops: &'a [Id],
    /// The innermost loop; its body is executed unchanged.
    pub(crate) at: Id,
    pub(crate) wanted: Wanted,
}

impl Tree {
    /// Returns the facts of the blocks in a loop.
    ///
    /// # Errors
    /// The reason why nothing is known about the content of the loop.
    pub(crate) fn facts_in(&self, at: Id) -> Result<Vec<Facts>, String> {
        let scope = self.scope_of(at);
        for id in self.subtree(at) {
            let bare = match &self.node(id).what {
                What::Store(_) | What::Other(_) => self.scope_of(id) == scope,
                _ => false,
            };
            if bare {
                return Err(format!("a statement in loop `{}` is outside any block", self.loop_name(at)));
            }
        }
        let blocks = self.blocks_in(at).into_iter().filter(|id| self.scope_of(*id) == scope);
        blocks.map(|id| self.facts(id)).collect()
    }

    /// Checks that iterations are independent. The error names a block and a buffer.
    pub(crate) fn are_independent(&self, moved: &Moved<'_>) -> Result<(), String> {
        let all = self.facts_in(moved.at)?;
        let mut written: Vec<Buf> = all.iter().flat_map(Facts::written).collect();
        written.sort();
        written.dedup();
        for buffer in written {
            let writers: Vec<&Facts> = all.iter().filter(|facts| facts.writes(buffer)).collect();
            for reader in all.iter().filter(|facts| facts.reads(buffer)) {
                self.read_is_of_this_iteration(moved, &writers, reader, buffer)?;
            }
            match (&writers[..], moved.wanted) {
                ([_], Wanted::Order) => {}
                (_, wanted) => {
                    self.have_one_place(moved, &writers, buffer)?;
                    for writer in &writers {
                        self.writes_its_own(moved, writer, buffer, wanted)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Checks that a block reads only elements that the same iteration of the loops wrote.
    fn read_is_of_this_iteration(
        &self,
        moved: &Moved<'_>,
        writers: &[&Facts],
        reader: &Facts,
        buffer: Buf,
    ) -> Result<(), String> {
        let alone = matches!(writers, [writer] if writer.id == reader.id);
        let covered = || writers.iter().any(|writer| self.covers(writer, reader, buffer, moved.at));
        if alone || covered() {
            return Ok(());
        }
        let writer = writers.iter().find(|writer| writer.id != reader.id).map_or("_", |w| self.block_name(w.id));
        Err(format!(
            "block `{}` reads elements of `{}` that block `{writer}` may not write in the same iteration of `{}`",
            self.block_name(reader.id),
            self.buffer(buffer).name,
            self.loop_name(moved.at)
        ))
    }

    /// Checks that if several blocks write a buffer, the first of them writes all elements that any of them writes in an iteration.
    fn have_one_place(&self, moved: &Moved<'_>, writers: &[&Facts], buffer: Buf) -> Result<(), String> {
        let first = |first: &&Facts| {
            let mut others = writers.iter().filter(|other| other.id != first.id);
            others.all(|other| self.encloses(first, other, buffer, moved.at, true))
        };
        match (writers.len(), writers.iter().copied().find(|writer| first(writer))) {
            (0 | 1, _) | (_, Some(_)) => Ok(()),
            _ => {
                let names: Vec<String> = writers.iter().map(|w| format!("`{}`", self.block_name(w.id))).collect();
                Err(format!(
                    "blocks {} may write different elements of `{}` in one iteration of `{}`",
                    names.join(" and "),
                    self.buffer(buffer).name,
                    self.loop_name(moved.at)
                ))
            }
        }
    }

    /// Checks that different iterations write different elements of a buffer.
    fn writes_its_own(&self, moved: &Moved<'_>, writer: &Facts, buffer: Buf, wanted: Wanted) -> Result<(), String> {
        let Some(top) = moved.loops.first() else { return Ok(()) };
        let loops = self.loops_between(*top, writer.id);
        let told = self.told_by_place(writer, buffer, &loops);
        for (id, told) in loops.iter().zip(told) {
            if told || !moved.loops.contains(id) {
                continue;
            }
            if wanted == Wanted::AtOnce && self.is_private(writer, buffer, *id) {
                continue;
            }
            let place = self.place_text(writer, buffer);
            let name = self.loop_name(*id);
            return Err(format!(
                "several iterations of `{name}` write `{place}` in block `{}`",
                self.block_name(writer.id)
            ));
        }
        Ok(())
    }

    /// Returns, for each loop, true if the position of a written element determines the iteration that wrote it.
    fn told_by_place(&self, writer: &Facts, buffer: Buf, loops: &[Id]) -> Vec<bool> {
        let place = writer.place(buffer).and_then(|place| self.in_loops(writer, &place));
        let Some(place) = place else { return vec![false; loops.len()] };
        let mut runs: Vec<Runs> = loops.iter().filter_map(|id| self.runs(*id)).collect();
        runs.extend(writer.inner.iter().filter_map(|id| self.runs(*id)));
        Digits::new(&place, &runs).told().into_iter().take(loops.len()).collect()
    }

    /// Returns true if each iteration of a loop can have its own copy of a buffer: it is used only in the loop, and each iteration
    /// initializes what it reads.
    fn is_private(&self, writer: &Facts, buffer: Buf, of: Id) -> bool {
        let uses = self.users_of(buffer);
        let inside = uses.iter().all(|id| self.is_under(*id, of));
        let begins = matches!(writer.effect, Effect::Complete) || self.is_final(writer, of);
        self.buffer(buffer).is_allocated && inside && begins
    }

    /// Returns the nodes whose expressions use a buffer.
    pub(crate) fn users_of(&self, buffer: Buf) -> Vec<Id> {
        self.subtree(Tree::ROOT).into_iter().filter(|id| self.uses(*id, buffer)).collect()
    }

    fn uses(&self, id: Id, buffer: Buf) -> bool {
        let mut found = match &self.node(id).what {
            What::Store(store) => store.buffer == buffer,
            _ => false,
        };
        for ex in self.own(id) {
            ex.each(&mut |part| found |= matches!(part, crate::tree::expr::Ex::Buffer(used) if *used == buffer));
        }
        found
    }

    /// Returns the source form of a written element, such as `C[vi, vj]`.
    pub(crate) fn place_text(&self, writer: &Facts, buffer: Buf) -> String {
        let names = |dim: &Dim| self.index_text(writer.id, dim);
        let place = writer.place(buffer).unwrap_or_default();
        let indices: Vec<String> = place.iter().map(names).collect();
        format!("{}[{}]", self.buffer(buffer).name, indices.join(", "))
    }

    /// Returns the source form of an index that is a number or an iterator.
    fn index_text(&self, block: Id, dim: &Dim) -> String {
        if let Some(value) = dim.as_int() {
            return value.to_string();
        }
        let Dim::Var(sym) = dim else { return "...".to_string() };
        let iter = self.as_block(block).and_then(|block| block.iters.iter().find(|iter| iter.var.id == sym.id));
        iter.map_or("...".to_string(), |iter| iter.name.clone())
    }

    /// Checks that blocks with reductions allow the loops around them to be reordered from `before` to `after`.
    pub(crate) fn keeps_reductions(&self, before: &[Id], after: &[Id]) -> Result<(), String> {
        let (Some(top), Some(at)) = (before.first(), before.last()) else { return Ok(()) };
        for facts in self.facts_in(*at)?.iter().filter(|facts| facts.accumulates()) {
            let Some(block) = self.as_block(facts.id) else { continue };
            let sums = Sums::of(self, block, &self.loops_between(*top, facts.id));
            let units = |(a, b): &(Id, Id)| self.is_unit(*a) || self.is_unit(*b);
            for (a, b) in flipped(before, after).into_iter().filter(|pair| !units(pair)) {
                sums.can_flip(self, facts, (a, b))?;
            }
        }
        Ok(())
    }

    pub(crate) fn is_unit(&self, id: Id) -> bool {
        self.as_loop(id).is_some_and(|of| of.extent.as_int() == Some(1))
    }
}

/// The loops around a block with a reduction, and how its iterators use them.
struct Sums<'t> {
    block: &'t Block,
    loops: Vec<Id>,
    /// True if no two iterations of the loops run the same instance of the block.
    once: bool,
    /// For each loop, `reduces` is true if a reduction iterator uses it, `is_spatial` is true if a spatial iterator uses it, and `told`
    /// is true if the spatial iterators determine the iteration of the loop.
    reduces: Vec<bool>,
    is_spatial: Vec<bool>,
    told: Vec<bool>,
}

impl<'t> Sums<'t> {
    fn of(tree: &Tree, block: &'t Block, loops: &[Id]) -> Sums<'t> {
        let runs: Vec<Runs> = loops.iter().filter_map(|id| tree.runs(*id)).collect();
        let values = |all: bool| {
            let iters = block.iters.iter().filter(move |iter| all || iter.is_spatial());
            iters.filter_map(|iter| iter.value.as_dim().cloned()).collect::<Vec<Dim>>()
        };
        let bound = |spatial: bool| {
            let is_for = move |id: &Id| {
                let Some(of) = tree.as_loop(*id) else { return false };
                block.iters.iter().any(|iter| iter.is_spatial() == spatial && iter.value.mentions(of.var))
            };
            loops.iter().map(is_for).collect::<Vec<bool>>()
        };
        let once = block.bound_once || Digits::new(&values(true), &runs).told().into_iter().all(|told| told);
        let told = Digits::new(&values(false), &runs).told();
        Sums { block, loops: loops.to_vec(), once, reduces: bound(false), is_spatial: bound(true), told }
    }

    /// Checks that two loops can be interchanged.
    fn can_flip(&self, tree: &Tree, facts: &Facts, (a, b): (Id, Id)) -> Result<(), String> {
        let at = |id: Id| self.loops.iter().position(|other| *other == id);
        let (Some(x), Some(y)) = (at(a), at(b)) else { return Ok(()) };
        let (a, b, name) = (tree.loop_name(a), tree.loop_name(b), &self.block.name);
        let both = self.reduces[x] && self.reduces[y];
        if both && !facts.combines {
            return Err(format!(
                "`{a}` and `{b}` are reductions of block `{name}`, whose operation may depend on the order"
            ));
        }
        if !(self.reduces[x] || self.reduces[y]) {
            return Ok(());
        }
        if !self.once {
            return Err(format!(
                "`{a}` and `{b}` must keep their order, because block `{name}` executes several times per element"
            ));
        }
        // The first instance for an element initializes it. It remains the first instance if no loop is used by both a reduction iterator
        // and a spatial iterator.
        let is_mixed = |at: usize| self.reduces[at] && self.is_spatial[at];
        let any_mixed = (0..self.loops.len()).any(is_mixed);
        let other = if self.reduces[x] { y } else { x };
        let stays = if both { !(is_mixed(x) || is_mixed(y)) } else { !any_mixed || self.told[other] };
        match stays || facts.effect != Effect::Reduction {
            true => Ok(()),
            false => Err(format!(
                "`{a}` and `{b}` must keep their order, because it determines where block `{name}` initializes a sum"
            )),
        }
    }
}

/// Returns the pairs of loops whose order differs.
fn flipped(before: &[Id], after: &[Id]) -> Vec<(Id, Id)> {
    let at = |id: Id| after.iter().position(|other| *other == id);
    let pairs = before.iter().enumerate().flat_map(|(i, a)| before[i + 1..].iter().map(move |b| (*a, *b)));
    pairs.filter(|(a, b)| at(*a) > at(*b)).collect()
}
