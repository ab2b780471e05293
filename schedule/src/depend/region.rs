//! The part of a buffer that is accessed during some loops.

use super::digits::{Digits, mentions_any};
use super::facts::{Effect, Facts, Touch};
use crate::tree::expr::Buf;
use crate::tree::{Id, Loop, Tree, plus};
use passhost_lang::arith::Analyzer;
use passhost_lang::ir::{Dim, Sym};
use passhost_lang::scalar::PrimOp;

/// The least and greatest index in each dimension, in terms of the loop-invariant variables.
#[derive(Clone, Debug)]
pub(crate) struct Hull(pub(crate) Vec<(Dim, Dim)>);

impl Tree {
    /// Returns the loops that run within an iteration of a node `at` while one of its blocks runs: the loops between
    /// the node and the block, and the loops in the block. The node is a loop, or contains the loops.
    fn running(&self, facts: &Facts, at: Id) -> Vec<Id> {
        let between = self.loops_around(facts.id).into_iter().filter(|of| *of != at && self.is_under(*of, at));
        between.chain(facts.inner.iter().copied()).collect()
    }

    /// Returns an analyser with the ranges of all loops around a block and inside it.
    fn analyzer_in(&self, facts: &Facts) -> Analyzer {
        let mut analyzer = self.analyzer_at(facts.id);
        for of in facts.inner.iter().filter_map(|id| self.as_loop(*id)) {
            if let (Some(min), Some(extent)) = (of.min.as_dim(), of.extent.as_dim()) {
                analyzer.bind_range(of.var, min, extent);
            }
        }
        analyzer
    }

    /// Expresses indices in terms of loop variables.
    pub(crate) fn in_loops(&self, facts: &Facts, indices: &[Dim]) -> Option<Vec<Dim>> {
        let bindings = Tree::bindings(self.as_block(facts.id)?);
        indices.iter().map(|index| bindings.dim(index)).collect()
    }

    /// Returns the hull of an access in an iteration of `at`.
    pub(crate) fn hull(&self, facts: &Facts, touch: &Touch, at: Id) -> Option<Hull> {
        let indices = self.in_loops(facts, &touch.known()?)?;
        let over: Vec<Sym> = self.running(facts, at).into_iter().filter_map(|id| Some(self.as_loop(id)?.var)).collect();
        let mut analyzer = self.analyzer_in(facts);
        let mut ends = |index: &Dim| {
            let set = analyzer.int_set(index, &over);
            let known = |end: Option<Dim>| end.filter(|end| !mentions_any(end, &over));
            Some((known(set.min)?, known(set.max)?))
        };
        indices.iter().map(&mut ends).collect::<Option<Vec<_>>>().map(Hull)
    }

    /// Returns true if a block writes the whole hull of its accesses to a buffer in an iteration of `at`, and the values are final at the
    /// end of the iteration.
    pub(crate) fn fills(&self, facts: &Facts, buffer: Buf, at: Id) -> bool {
        let Some(block) = self.as_block(facts.id) else { return false };
        if !(facts.writes_all && block.guards_domain_only && self.is_final(facts, at)) {
            return false;
        }
        let Some(indices) = facts.place(buffer).and_then(|place| self.in_loops(facts, &place)) else { return false };
        let running = self.running(facts, at);
        if running.iter().any(|id| self.is_of_another_form(*id, &running)) {
            return false;
        }
        let running: Vec<_> = running.into_iter().filter_map(|id| self.runs(id)).collect();
        // Loops used only by reduction iterators do not occur in the indices.
        Digits::new(&indices, &running).dense()
    }

    /// Returns true if a loop has a step, or its range depends on other loops.
    fn is_of_another_form(&self, id: Id, others: &[Id]) -> bool {
        let has_step = self.as_loop(id).is_some_and(|of| of.step.is_some());
        let vars = others.iter().filter_map(|other| Some(self.as_loop(*other)?.var));
        let own = self.own(id);
        has_step || vars.into_iter().any(|var| own.iter().any(|ex| ex.mentions(var)))
    }

    /// Returns true if the results of a block are complete after an iteration of `at`.
    pub(crate) fn is_final(&self, facts: &Facts, at: Id) -> bool {
        match facts.effect {
            Effect::Complete => true,
            Effect::InPlace | Effect::Update => false,
            Effect::Reduction => self.reduces_inside(facts, at),
        }
    }

    /// Returns true if a block combines all values for an element in one iteration of `at`.
    pub(crate) fn reduces_inside(&self, facts: &Facts, at: Id) -> bool {
        self.reduced_outside(facts, at).is_none()
    }

    /// Returns the name of a reduction loop of a block that is `at` or a loop around it.
    pub(crate) fn reduced_outside(&self, facts: &Facts, at: Id) -> Option<&str> {
        let block = self.as_block(facts.id)?;
        let outer = std::iter::once(at).chain(self.around(at)).filter_map(|id| self.as_loop(id));
        let is_for = |of: &&Loop| block.iters.iter().any(|iter| iter.is_reduction() && iter.value.mentions(of.var));
        outer.filter(is_for).map(|of| of.name.as_str()).next()
    }

    /// Returns true if all elements of a buffer that are read in an iteration of `at` were written in that iteration.
    pub(crate) fn covers(&self, writer: &Facts, reader: &Facts, buffer: Buf, at: Id) -> bool {
        self.encloses(writer, reader, buffer, at, false)
    }

    /// Returns true if all elements of a buffer that a block reads or writes in an iteration of `at` were written earlier in that iteration.
    pub(crate) fn encloses(&self, writer: &Facts, reader: &Facts, buffer: Buf, at: Id, writes: bool) -> bool {
        if !self.fills(writer, buffer, at) || !self.comes_before(writer.id, reader.id) {
            return false;
        }
        let Some(write) = writer.touches.iter().find(|touch| touch.buffer == buffer && touch.write) else {
            return false;
        };
        let Some(written) = self.hull(writer, write, at) else { return false };
        let mut analyzer = self.analyzer_at(at);
        if let Some(of) = self.as_loop(at)
            && let (Some(min), Some(extent)) = (of.min.as_dim(), of.extent.as_dim())
        {
            analyzer.bind_range(of.var, min, extent);
        }
        let shape = &self.buffer(buffer).ty.shape;
        reader.touches.iter().filter(|touch| touch.buffer == buffer && touch.write == writes).all(|touch| {
            let Some(read) = self.hull(reader, touch, at) else {
                return written.0.iter().zip(shape).all(|(ends, extent)| is_whole(ends, extent, &mut analyzer));
            };
            let dims = written.0.iter().zip(&read.0).zip(shape);
            dims.into_iter().all(|((written, read), extent)| within(read, written, extent, &mut analyzer))
        })
    }

    /// Returns true if a block precedes another block in program order.
    pub(crate) fn comes_before(&self, a: Id, b: Id) -> bool {
        let blocks = self.blocks_in(Tree::ROOT);
        let at = |id: Id| blocks.iter().position(|block| *block == id);
        at(a) < at(b)
    }
}

pub(crate) fn is_whole((min, max): &(Dim, Dim), extent: &Dim, analyzer: &mut Analyzer) -> bool {
    let zero = crate::tree::number(0, min);
    analyzer.can_prove(&Dim::binary(PrimOp::Le, min.clone(), zero)) && analyzer.can_prove(&reaches_end(max, extent))
}

fn reaches_end(max: &Dim, extent: &Dim) -> Dim {
    Dim::binary(PrimOp::Ge, plus(max, 1), as_type_of(extent, max))
}

/// Converts an extent to the data type of an index.
pub(crate) fn as_type_of(extent: &Dim, like: &Dim) -> Dim {
    passhost_lang::tir::regions::linear::cast(extent.clone(), like.dtype())
}

/// Returns true if the range read in a dimension lies within the range written. Reads outside the buffer do not occur.
fn within(read: &(Dim, Dim), written: &(Dim, Dim), extent: &Dim, analyzer: &mut Analyzer) -> bool {
    let zero = crate::tree::number(0, &read.0);
    let last = plus(&as_type_of(extent, &read.1), -1);
    let le = |a: &Dim, b: &Dim| Dim::binary(PrimOp::Le, a.clone(), b.clone());
    let low = [
        le(&written.0, &read.0),
        le(&written.0, &zero),
        le(&written.0, &Dim::binary(PrimOp::Max, read.0.clone(), zero.clone())),
    ];
    let high = [
        le(&read.1, &written.1),
        le(&last, &written.1),
        le(&Dim::binary(PrimOp::Min, read.1.clone(), last.clone()), &written.1),
    ];
    low.iter().any(|condition| analyzer.can_prove(condition))
        && high.iter().any(|condition| analyzer.can_prove(condition))
}
