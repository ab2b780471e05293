//! Determines whether a buffer holds loop-carried values.

use crate::blocks::index::iter_sum::fills_a_box;
use plugin_api::arith::{Analyzer, index_to_dim_of_atoms, substitute, symbol_of, unused_symbol};
use plugin_api::ir::DimExpr;
use plugin_api::prelude::*;
use plugin_api::scalar::PrimOp;
use plugin_api::tir::has_jumps;
use plugin_api::tir::regions::conditions::{Condition, Conditions};
use plugin_api::tir::regions::lasting::Lasting;
use plugin_api::tir::regions::linear::{add, sub};
use plugin_api::tir::regions::reached::{Ends, Reached, Running};
use plugin_api::walk::open_scopes::OpenScopes;
use plugin_api::walk::visitors::post_order_visit_value;
use std::collections::HashMap;

/// Maximum number of read-write pairs of a buffer that are compared. A buffer with more pairs is not moved.
const MOST_PAIRS: usize = 1 << 14;

/// First and last index in each dimension, in terms of loops; `None` where unknown.
type Ranges = Vec<Option<(Dim, Dim)>>;

/// First and last index in each dimension of a box of elements; `None` where all elements are in the box, or never
/// written.
type Region = Ranges;

/// A read or write of a buffer that a block allocates.
struct Touch<'b> {
    at: usize,
    is_write: bool,
    ranges: Ranges,
    /// The loops around the access, outermost first.
    loops: Vec<usize>,
    conditions: Vec<(Value<'b>, bool)>,
    /// Positions of the `while` loops around the access.
    whiles: Vec<usize>,
}

/// A loop over a range, or a thread launch.
struct Loop {
    header: usize,
    sym: Sym,
    ends: Option<(Dim, Dim)>,
    /// False if a step or a jump leaves out some of the range.
    is_whole: bool,
}

/// Iterations of the loops that contain both a write and a later read. They are not after the iteration of the read, and
/// some of the loop variables have other values than at the read.
#[derive(Default)]
struct Iterations {
    /// The variables with other values, and these values.
    changed: HashMap<Sym, Dim>,
    /// The ranges of the variables that occur in these values.
    running: Ends,
    /// The innermost loop that contains both, if the write need not execute, but writes the same elements in each
    /// execution of a scope.
    rewritten_in: Option<usize>,
}

impl Iterations {
    /// Returns an expression in these iterations.
    fn at(&self, dim: &Dim) -> Dim {
        substitute(dim, &|sym| self.changed.get(&sym).cloned())
    }

    fn change(&self, dim: &Dim) -> bool {
        mentions(dim, |sym| self.changed.contains_key(&sym))
    }
}

/// All reads and writes of the buffers that blocks of a function allocate.
pub(super) struct CarriedValues<'b> {
    body: &'b Body,
    /// The position of each value in the function.
    order: ValueMap<'b, usize>,
    lasting: Lasting<'b>,
    loops: Vec<Loop>,
    /// The loop of each variable.
    headers: HashMap<Sym, usize>,
    touches: ValueMap<'b, Vec<Touch<'b>>>,
    /// The values of block iterators and names.
    values: HashMap<Sym, Dim>,
}

impl<'b> CarriedValues<'b> {
    pub(super) fn of(body: &'b Body) -> CarriedValues<'b> {
        let (order, lasting, touches) = (ValueMap::new(body), Lasting::of(body), ValueMap::new(body));
        let (loops, headers, values) = (Vec::new(), HashMap::new(), HashMap::new());
        let mut carried = CarriedValues { body, order, lasting, loops, headers, touches, values };
        carried.collect();
        carried
    }

    fn collect(&mut self) {
        let (mut loops, mut whiles, mut blocks) = (OpenScopes::new(), OpenScopes::new(), OpenScopes::new());
        let mut conditions = Conditions::new(self.body);
        let said = said_by_blocks(self.body);
        for (at, value) in self.body.values().enumerate() {
            self.order.insert(value, at);
            loops.go_to(value);
            whiles.go_to(value);
            blocks.go_to(value);
            conditions.go_to(value);
            self.enter((at, value), &mut loops);
            match value.stmt() {
                Some(Stmt::While { .. }) => whiles.open(value, at),
                Some(Stmt::Block) => blocks.open(value, value),
                _ => {}
            }
            if said.contains(value) {
                continue;
            }
            for (buffer, is_write, ranges) in self.touched(value, &blocks) {
                let touch = Touch {
                    at,
                    is_write,
                    ranges,
                    loops: loops.iter().copied().collect(),
                    conditions: conditions.active().map(|of: &Condition<'b>| (of.cond, of.negated)).collect(),
                    whiles: whiles.iter().copied().collect(),
                };
                match self.touches.get_mut(buffer) {
                    Some(all) => all.push(touch),
                    None => drop(self.touches.insert(buffer, vec![touch])),
                }
            }
        }
    }

    /// Records the definitions that a loop, a block or a name makes.
    fn enter(&mut self, (header, value): (usize, Value<'b>), loops: &mut OpenScopes<usize>) {
        if let Some(running) = Running::of(value)
            && let Some(sym) = symbol_of(running.var)
        {
            let ends = running.ends(|value| self.dim(value));
            let is_whole = value.loop_step().is_none() && !has_jumps(value);
            loops.open(value, self.loops.len());
            self.headers.insert(sym, header);
            self.loops.push(Loop { header, sym, ends, is_whole });
        }
        for iter in value.block_iters().filter(|_| matches!(value.stmt(), Some(Stmt::Block))) {
            if let (Some(sym), Some(dim)) = (symbol_of(iter.var), self.dim(iter.value)) {
                self.values.insert(sym, dim);
            }
        }
        if let Some(Stmt::Bind { value: named }) = value.stmt()
            && let (Some(sym), Some(dim)) = (symbol_of(value), self.dim(named))
        {
            self.values.insert(sym, dim);
        }
    }

    fn dim(&self, value: Value<'b>) -> Option<Dim> {
        let dim = index_to_dim_of_atoms(value).filter(|dim| dim.dtype().lanes() == 1)?;
        Some(substitute(&dim, &|sym| self.values.get(&sym).cloned()))
    }

    /// Returns the block buffers that a value reads or writes. For a use of a buffer's data, the enclosing block
    /// declares the regions; if no block does, any element may be read and written.
    fn touched(&self, value: Value<'b>, blocks: &OpenScopes<Value<'b>>) -> Vec<(Value<'b>, bool, Ranges)> {
        if let Some(access) = value.as_element_access() {
            let element = |index: &Value<'b>| self.dim(*index).map(|dim| (dim.clone(), dim));
            let ranges = access.indices.iter().map(element).collect();
            let is_write = matches!(value.stmt(), Some(Stmt::Store { .. }));
            return if access.buffer.is_block_buffer() { vec![(access.buffer, is_write, ranges)] } else { Vec::new() };
        }
        let used = match value.view() {
            Expr::BufferPart { buffer, part: 0 } => Some(buffer),
            _ => value.matched_region().map(|region| region.buffer),
        };
        let Some(buffer) = used.filter(|buffer| buffer.is_block_buffer()) else { return Vec::new() };
        let said = blocks.iter().rev().map(|block| {
            // A nested region belongs to a matched buffer.
            let all = block.region().children().filter(|value| !value.is_nested());
            let of_buffer = all.filter_map(Value::as_region_access).filter(|access| access.buffer == buffer);
            of_buffer.map(|access| (access.is_write, access.ranges)).collect::<Vec<_>>()
        });
        let Some(said) = said.into_iter().find(|said| !said.is_empty()) else {
            let unknown = vec![None; buffer.as_buffer_type().map_or(0, |ty| ty.shape.len())];
            return vec![(buffer, false, unknown.clone()), (buffer, true, unknown)];
        };
        let range = |(min, extent): &(Value<'b>, Value<'b>)| {
            let (min, extent) = (self.dim(*min)?, self.dim(*extent)?);
            let last = sub(add(min.clone(), extent), Dim::int(1, min.dtype()));
            Some((min, last))
        };
        said.into_iter().map(|(is_write, ranges)| (buffer, is_write, ranges.iter().map(range).collect())).collect()
    }

    /// Returns true if an execution of a scope may read elements that an earlier execution wrote, because a read in the
    /// scope is not covered by earlier writes in the scope.
    pub(super) fn reads_what_is_left(&self, buffer: Value<'b>, scope: Value<'b>) -> bool {
        let (Some(all), Some(start)) = (self.touches.get(buffer), self.order.get(scope).copied()) else { return false };
        let range = scope.region().range();
        let inside = || all.iter().filter(|touch| range.contains(&touch.at));
        let (reads, writes) = inside().partition::<Vec<&Touch<'b>>, _>(|touch| !touch.is_write);
        if self.each_has_its_own(buffer, scope, inside()) {
            return false;
        }
        let pairs = reads.len().saturating_mul(writes.len());
        pairs > MOST_PAIRS || reads.iter().any(|read| !self.is_written_before(buffer, read, &writes, start))
    }

    /// Returns true if each execution of a scope uses different elements: the variable of each loop between the
    /// allocation of a buffer and the scope is an index of all accesses of the buffer.
    fn each_has_its_own<'t>(
        &self,
        buffer: Value<'b>,
        scope: Value<'b>,
        touches: impl Iterator<Item = &'t Touch<'b>>,
    ) -> bool
    where
        'b: 't,
    {
        let (Some(from), Some(to)) = (self.order.get(buffer), self.order.get(scope)) else { return false };
        let between = |at: &usize| (from..=to).contains(&at);
        let touches: Vec<&Touch<'b>> = touches.collect();
        let Some(first) = touches.first() else { return true };
        if first.whiles.iter().any(between) {
            return false;
        }
        let mut around = first.loops.iter().map(|at| &self.loops[*at]).filter(|of| between(&of.header));
        around.all(|of| {
            let index = Dim::Var(of.sym);
            let is_index = |touch: &&Touch<'b>, dim: usize| {
                touch.ranges.get(dim).is_some_and(|range| *range == Some((index.clone(), index.clone())))
            };
            (0..first.ranges.len()).any(|dim| touches.iter().all(|touch| is_index(touch, dim)))
        })
    }

    /// Returns an analyzer with the facts at a read: the ranges of the loops around it, and conditions.
    fn analyzer_at(&self, read: &Touch<'b>) -> Analyzer {
        let mut analyzer = Analyzer::new();
        for at in &read.loops {
            let Loop { sym, ends, .. } = &self.loops[*at];
            if let Some((min, last)) = ends {
                let extent = add(sub(last.clone(), min.clone()), Dim::int(1, sym.dtype));
                analyzer.bind_range(*sym, min, &extent);
            }
            if let Some((min, last)) = self.ends(*at) {
                analyzer.assume(&Dim::binary(PrimOp::Le, min, last));
            }
        }
        for (cond, negated) in &read.conditions {
            if let Some(cond) = self.dim(*cond) {
                analyzer.assume(&signed(&cond, *negated));
            }
        }
        analyzer
    }

    fn is_written_before(&self, buffer: Value<'b>, read: &Touch<'b>, writes: &[&Touch<'b>], scope: usize) -> bool {
        let shape = buffer.as_buffer_type().map(|ty| ty.shape).unwrap_or_default();
        let last = |extent: &Dim| sub(extent.clone(), Dim::int(1, extent.dtype()));
        let whole: Vec<_> = shape.iter().map(|extent| Some((Dim::int(0, extent.dtype()), last(extent)))).collect();
        let mut analyzer = self.analyzer_at(read);
        let mut written: Option<Region> = None;
        for write in writes.iter().filter(|write| write.at < read.at) {
            for iterations in self.iterations(buffer, (write, read), scope) {
                let is_written = match iterations.rewritten_in {
                    Some(inside) => self.is_rewritten(buffer, (write, read), writes, (scope, inside)),
                    None => self.is_certain(buffer, (write, read), &iterations, scope, &mut analyzer),
                };
                let reached = is_written.then(|| self.reached(buffer, (write, read), iterations, scope, &mut analyzer));
                let Some(reached) = reached.flatten() else { continue };
                let joined = written.as_ref().and_then(|known| joined(&mut analyzer, known, &reached));
                let all = joined.as_ref().unwrap_or(&reached);
                if [&reached, all].iter().any(|of| [&read.ranges, &whole].iter().any(|r| covers(&mut analyzer, of, r)))
                {
                    return true;
                }
                written = Some(joined.unwrap_or(reached));
            }
        }
        false
    }

    /// Returns true if a write has the same conditions and loops in each execution of a scope, and no other write writes
    /// more. Then all writes write the same part of those dimensions whose indices are the same. In elements beside it, a
    /// read finds what it would find in a new buffer: nothing.
    fn is_rewritten(
        &self,
        buffer: Value<'b>,
        (write, read): (&Touch<'b>, &Touch<'b>),
        writes: &[&Touch<'b>],
        (scope, inside): (usize, usize),
    ) -> bool {
        let is_same = |range: &Option<(Dim, Dim)>| range.as_ref().is_some_and(|of| self.are_same(of, buffer, inside));
        let conditions = write.conditions.iter().filter(|of| !read.conditions.contains(of));
        let conditions: Ranges = conditions.map(|of| self.dim(of.0).map(|dim| (dim.clone(), dim))).collect();
        let (same, others): (Vec<_>, Vec<_>) = write.ranges.iter().partition(|range| is_same(range));
        // The other dimensions must not depend on these, nor on the conditions.
        let decides = |sym: Sym| {
            let mut fixed = conditions.iter().chain(same.iter().copied()).flatten();
            fixed.any(|range| range_mentions(range, |other| other == sym))
        };
        others.into_iter().flatten().all(|range| !range_mentions(range, decides))
            && write.whiles.iter().all(|at| *at < scope || read.whiles.contains(at))
            && self.own_loops(write, inside).all(|at| is_same(&self.ends(at)))
            && conditions.iter().all(is_same)
            && writes.iter().all(|other| self.writes_less(other, (write, read), (scope, inside)))
    }

    /// Returns the iterations that may have written what a later read reads: the iteration of the read, the iterations in
    /// which some of the loops that contain both are at their first value, and all iterations up to the read.
    fn iterations(&self, buffer: Value<'b>, (write, read): (&Touch<'b>, &Touch<'b>), scope: usize) -> Vec<Iterations> {
        let shared: Vec<usize> = self.own_loops(write, scope).filter(|at| read.loops.contains(at)).collect();
        let last = |n: usize, are_first: bool| {
            let mut iterations = Iterations::default();
            for at in &shared[shared.len() - n..] {
                let (sym, (min, last)) = (self.loops[*at].sym, self.ends(*at)?);
                // In another iteration of an outer loop, the range may be another one.
                if [&min, &last].into_iter().any(|end| iterations.change(end) || !self.is_stable(end, buffer)) {
                    return None;
                }
                let mut value = min.clone();
                if !are_first {
                    let before = unused_symbol(iterations.running.len() as u16, sym.dtype);
                    value = Dim::Var(before);
                    iterations.running.insert(before, (min, Dim::Var(sym)));
                }
                iterations.changed.insert(sym, value);
            }
            Some(iterations)
        };
        let rewritten_in = Some(shared.last().map_or(scope, |at| self.loops[*at].header));
        let rewritten = Iterations { rewritten_in, ..Iterations::default() };
        let certain = (0..=shared.len()).filter_map(|n| last(n, true)).chain(last(shared.len(), false));
        std::iter::once(rewritten).chain(certain).collect()
    }

    /// Returns true if a write certainly executes in the given iterations before a later read.
    fn is_certain(
        &self,
        buffer: Value<'b>,
        (write, read): (&Touch<'b>, &Touch<'b>),
        iterations: &Iterations,
        scope: usize,
        analyzer: &mut Analyzer,
    ) -> bool {
        // A condition in a loop that contains both may differ in other iterations of that loop.
        let mut around = self.own_loops(write, scope).map(|at| &self.loops[at]);
        let from =
            around.find(|of| iterations.changed.contains_key(&of.sym)).map_or(usize::MAX, |changed| changed.header);
        let holds = |condition: &(Value<'b>, bool)| {
            let (cond, negated) = *condition;
            // A condition that is a variable may be defined far from its If, so its place is unknown.
            let at = self.order.get(cond).copied().filter(|_| cond.is_nested()).unwrap_or(usize::MAX);
            if at < scope || at < from && read.conditions.contains(condition) {
                return true;
            }
            let Some(dim) = self.dim(cond).filter(|dim| self.is_stable(dim, buffer)) else { return false };
            analyzer.can_prove(&signed(&iterations.at(&dim), negated))
        };
        if !write.conditions.iter().all(holds) {
            return false;
        }
        let mut runs = |at: usize| {
            let Some((min, last)) = self.ends(at) else { return false };
            analyzer.can_prove_greater_equal(&iterations.at(&last), &iterations.at(&min))
        };
        write.whiles.iter().all(|at| *at < scope || *at < from && read.whiles.contains(at))
            && self.own_loops(write, scope).all(|at| read.loops.contains(&at) || runs(at))
    }

    /// Returns the first and the last value of a loop that takes all values between them.
    fn ends(&self, at: usize) -> Option<(Dim, Dim)> {
        self.loops[at].ends.clone().filter(|_| self.loops[at].is_whole)
    }

    /// Returns the loops around an access that are inside a scope.
    fn own_loops<'t>(&'t self, touch: &'t Touch<'b>, scope: usize) -> impl Iterator<Item = usize> + 't {
        touch.loops.iter().copied().filter(move |at| self.loops[*at].header > scope)
    }

    /// Returns true if a write writes only elements that another write has written before a read: it has the same
    /// indices, loops and conditions, and possibly more loops and conditions.
    fn writes_less(
        &self,
        less: &Touch<'b>,
        (more, read): (&Touch<'b>, &Touch<'b>),
        (scope, inside): (usize, usize),
    ) -> bool {
        let [of_less, of_more] = [less, more].map(|touch| self.index_loops(touch, scope));
        let names: HashMap<Sym, Dim> = of_less
            .iter()
            .zip(&of_more)
            .map(|(from, to)| (self.loops[*from].sym, Dim::Var(self.loops[*to].sym)))
            .collect();
        let renamed = |dim: &Dim| substitute(dim, &|sym| names.get(&sym).cloned());
        let both = |(first, last): &(Dim, Dim)| (renamed(first), renamed(last));
        let same_ends = |a: &usize, b: &usize| self.ends(*a).as_ref().map(both) == self.ends(*b);
        // A loop that contains both writes corresponds only to itself.
        let same_loop = |a: &usize, b: &usize| a == b || !less.loops.contains(b) && same_ends(a, b);
        let has_loop = |at: usize| less.loops.iter().any(|own| same_ends(own, &at));
        let has_condition = |(cond, negated): &(Value<'b>, bool)| {
            let said = self.dim(*cond);
            let is_same = |(own, sign): &(Value<'b>, bool)| {
                sign == negated && self.dim(*own).is_some_and(|own| said.as_ref() == Some(&renamed(&own)))
            };
            less.conditions.iter().any(is_same)
        };
        let same_ranges = less.ranges.iter().map(|range| range.as_ref().map(both)).eq(more.ranges.iter().cloned());
        same_ranges
            && of_less.iter().zip(&of_more).all(|(a, b)| same_loop(a, b))
            && self.own_loops(more, inside).all(has_loop)
            && more.conditions.iter().all(|of| read.conditions.contains(of) || has_condition(of))
    }

    /// Returns the loops in a scope whose variables are in the indices of an access, in the order of the indices.
    fn index_loops(&self, touch: &Touch<'b>, scope: usize) -> Vec<usize> {
        let mut found = Vec::new();
        for (first, _) in touch.ranges.iter().flatten() {
            first.vars(&mut |sym| {
                let at = self.own_loops(touch, scope).find(|at| self.loops[*at].sym == sym);
                found.extend(at.filter(|at| !found.contains(at)));
            });
        }
        found
    }

    /// Returns the elements that a write has covered in the given iterations before a later read; `None` if they are
    /// unknown, or do not form a box.
    fn reached(
        &self,
        buffer: Value<'b>,
        (write, read): (&Touch<'b>, &Touch<'b>),
        iterations: Iterations,
        scope: usize,
        analyzer: &mut Analyzer,
    ) -> Option<Region> {
        let mut running = iterations.running.clone();
        for at in self.own_loops(write, scope).filter(|at| !read.loops.contains(at)) {
            let (min, last) = self.ends(at).map(|(min, last)| (iterations.at(&min), iterations.at(&last)))?;
            // The loops of a triangle or a band do not form a box.
            let varies = |end: &Dim| mentions(end, |sym| running.contains_key(&sym)) || !self.is_stable(end, buffer);
            if varies(&min) || varies(&last) {
                return None;
            }
            running.insert(self.loops[at].sym, (min, last));
        }
        let is_here = iterations.changed.is_empty() && running.is_empty();
        let known = |dim: &Dim| is_here || self.is_stable(dim, buffer);
        let mut ranges = Region::new();
        for range in &write.ranges {
            let range = range.as_ref().filter(|(first, last)| known(first) && known(last))?;
            let is_same = iterations.rewritten_in.is_some_and(|inside| self.are_same(range, buffer, inside));
            ranges.push(Some((iterations.at(&range.0), iterations.at(&range.1))).filter(|_| !is_same));
        }
        let n_values = |(min, last): &(Dim, Dim)| add(sub(last.clone(), min.clone()), Dim::int(1, min.dtype()));
        let loops = running.iter().map(|(sym, ends)| (*sym, (ends.0.clone(), n_values(ends)))).collect();
        let start = |range: &(Dim, Dim)| (range.0.clone(), analyzer.const_bounds(&n_values(range)).min);
        if !fills_a_box(&ranges.iter().flatten().map(start).collect::<Vec<_>>(), &loops) {
            return None;
        }
        let mut reached = Reached::new(analyzer, running, std::iter::empty());
        let mut ends = |(first, last): (Dim, Dim)| Some((reached.ends(&first).0?, reached.ends(&last).1?));
        ranges.into_iter().map(|range| range.map_or(Some(None), |range| ends(range).map(Some))).collect()
    }

    /// Returns true if an expression has the same value whenever the loops around it are at the same values.
    fn is_stable(&self, dim: &Dim, buffer: Value<'b>) -> bool {
        self.is_the_same(dim, buffer, 0)
    }

    fn are_same(&self, (first, last): &(Dim, Dim), buffer: Value<'b>, scope: usize) -> bool {
        self.is_the_same(first, buffer, scope) && self.is_the_same(last, buffer, scope)
    }

    /// Returns true if an expression has the same values in each execution of a scope: it depends only on variables
    /// and elements that live as long as the buffer, and on loops in the scope.
    fn is_the_same(&self, dim: &Dim, buffer: Value<'b>, scope: usize) -> bool {
        !mentions(dim, |sym| {
            let runs_inside = self.headers.get(&sym).is_some_and(|header| *header > scope);
            !runs_inside && !self.lasting.lasts_from(&Dim::Var(sym), buffer)
        })
    }
}

/// Returns the expressions in the declared accesses of blocks, which are never evaluated.
fn said_by_blocks(body: &Body) -> ValueSet<'_> {
    let mut said = ValueSet::new(body);
    for access in body.values().filter(|value| value.is_access() && !value.is_nested()) {
        post_order_visit_value(access, |part| {
            said.insert(part);
        });
    }
    said
}

/// Returns true if an expression mentions a variable for which `is_of_kind` is true.
fn mentions(dim: &Dim, is_of_kind: impl Fn(Sym) -> bool) -> bool {
    let mut found = false;
    dim.vars(&mut |sym| found |= is_of_kind(sym));
    found
}

fn range_mentions((first, last): &(Dim, Dim), is_of_kind: impl Fn(Sym) -> bool) -> bool {
    mentions(first, &is_of_kind) || mentions(last, is_of_kind)
}

/// Returns a condition or its negation.
fn signed(cond: &Dim, negated: bool) -> Dim {
    match negated {
        true => Dim::Expr(DimExpr::Unary(PrimOp::Not, DType::BOOL, cond.clone()).into()),
        false => cond.clone(),
    }
}

/// Returns the union of two regions if it is a box, because they touch in one dimension and are equal in all others.
fn joined(analyzer: &mut Analyzer, a: &Region, b: &Region) -> Option<Region> {
    let mut differing = a.iter().zip(b).enumerate().filter(|(_, (a, b))| a != b);
    let Some((at, ranges)) = differing.next() else { return Some(a.clone()) };
    let (Some((a_min, a_max)), Some((b_min, b_max))) = ranges else { return None };
    let after = |max: &Dim| add(max.clone(), Dim::int(1, max.dtype()));
    let touch = analyzer.can_prove_greater_equal(&after(a_max), b_min)
        && analyzer.can_prove_greater_equal(&after(b_max), a_min);
    if !touch || differing.next().is_some() {
        return None;
    }
    let mut reached = Reached::new(analyzer, Ends::new(), std::iter::empty());
    let mut out = a.clone();
    out[at] = Some((reached.least(a_min.clone(), b_min.clone()), reached.greatest(a_max.clone(), b_max.clone())));
    Some(out)
}

/// Returns true if ranges provably contain other ranges.
fn covers(analyzer: &mut Analyzer, outer: &Region, inner: &Ranges) -> bool {
    outer.len() == inner.len()
        && outer.iter().zip(inner).all(|(outer, inner)| {
            let Some((min, max)) = outer else { return true };
            let Some((first, last)) = inner else { return false };
            let is_less = |analyzer: &mut Analyzer, a: &Dim, b: &Dim| a == b || analyzer.can_prove_greater_equal(b, a);
            is_less(analyzer, min, first) && is_less(analyzer, last, max)
        })
}
