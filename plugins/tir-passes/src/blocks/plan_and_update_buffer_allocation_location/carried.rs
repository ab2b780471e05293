//! Determines whether a buffer holds loop-carried values.

use crate::blocks::index::iter_sum::fills_a_box;
use plugin_api::arith::{Analyzer, index_to_dim_of_atoms, substitute, symbol_of, unused_symbol, value_of_atom};
use plugin_api::ir::DimExpr;
use plugin_api::prelude::*;
use plugin_api::scalar::PrimOp;
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

/// First and last index in each dimension of a box of elements.
type Region = Vec<(Dim, Dim)>;

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
}

/// Iterations of the loops around a write and a later read.
enum Iterations {
    /// The iteration of the read, or an earlier one: some loops are at their first value.
    First(HashMap<Sym, Dim>),
    /// The iteration of the read and all before it.
    All,
}

impl Iterations {
    fn are_first(&self) -> bool {
        matches!(self, Iterations::First(first) if !first.is_empty())
    }

    /// Returns true if the variable of a loop around both may have a different value than at the read.
    fn is_other(&self, sym: Sym) -> bool {
        match self {
            Iterations::First(first) => first.contains_key(&sym),
            Iterations::All => true,
        }
    }

    /// Returns an expression in these iterations.
    fn at(&self, dim: &Dim) -> Dim {
        match self {
            Iterations::First(first) => substitute(dim, &|sym| first.get(&sym).cloned()),
            Iterations::All => dim.clone(),
        }
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
            loops.open(value, self.loops.len());
            self.headers.insert(sym, header);
            self.loops.push(Loop { header, sym, ends });
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
    /// declares the regions.
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
            return vec![(buffer, false, Vec::new())];
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
        for Loop { sym, ends, .. } in read.loops.iter().map(|at| &self.loops[*at]) {
            if let Some((min, last)) = ends {
                let extent = add(sub(last.clone(), min.clone()), Dim::int(1, sym.dtype));
                analyzer.bind_range(*sym, min, &extent);
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
            for iterations in self.iterations(write, read, scope) {
                let is_certain = self.is_certain(buffer, (write, read), (writes, &iterations), scope, &mut analyzer);
                let reached = is_certain.then(|| self.reached((write, read), &iterations, scope, &mut analyzer));
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

    /// Returns the iterations of the loops around a write and a later read that may have written what is read.
    fn iterations(&self, write: &Touch<'b>, read: &Touch<'b>, scope: usize) -> Vec<Iterations> {
        let shared: Vec<usize> = self.own_loops(write, scope).filter(|at| read.loops.contains(at)).collect();
        let first = |n: usize| {
            let first = shared[shared.len() - n..].iter().map(|at| &self.loops[*at]);
            first.map(|of| Some((of.sym, of.ends.clone()?.0))).collect::<Option<_>>().map(Iterations::First)
        };
        (0..=shared.len()).filter_map(first).chain([Iterations::All]).collect()
    }

    /// Returns true if a write executes before a later read in the same execution of a scope, or if no execution of the
    /// scope writes the elements that it would write.
    fn is_certain(
        &self,
        buffer: Value<'b>,
        (write, read): (&Touch<'b>, &Touch<'b>),
        (writes, iterations): (&[&Touch<'b>], &Iterations),
        scope: usize,
        analyzer: &mut Analyzer,
    ) -> bool {
        if write.whiles.iter().any(|at| *at > scope && !read.whiles.contains(at)) {
            return false;
        }
        let is_same = |dim: &Dim| self.is_the_same(dim, buffer, scope);
        let of = |at: &usize| self.loops[*at].sym;
        let (shared, own): (Vec<usize>, Vec<usize>) =
            self.own_loops(write, scope).partition(|at| read.loops.contains(at));
        // A condition in a shared loop may not have held in earlier iterations.
        let from = shared.iter().find(|at| iterations.is_other(of(at))).map_or(usize::MAX, |at| self.loops[*at].header);
        // Variables that decide whether the write executes.
        let (mut certain, mut deciding) = (true, Vec::new());
        for condition in &write.conditions {
            let at = self.order.get(condition.0).copied().unwrap_or(usize::MAX);
            if at > scope && (at > from || !read.conditions.contains(condition)) {
                let Some(dim) = self.dim(condition.0) else { return false };
                // The facts at the read may not hold in other iterations, but first values do not mention the loops of these facts.
                let holds = iterations.are_first()
                    && self.is_plain(&dim)
                    && analyzer.can_prove(&signed(&iterations.at(&dim), condition.1));
                // In a shared loop, the condition may first hold in an iteration after that of the read.
                let is_shared = || mentions(&dim, |sym| shared.iter().any(|at| of(at) == sym));
                if !holds && (is_shared() || !is_same(&dim)) {
                    return false;
                }
                certain &= holds;
                dim.vars(&mut |sym| deciding.extend(Some(sym).filter(|_| !holds)));
            }
        }
        for at in own {
            let Some((min, last)) = &self.loops[at].ends else { return false };
            if !is_same(min) || !is_same(last) {
                return false;
            }
            let runs = analyzer.can_prove_greater_equal(&iterations.at(last), &iterations.at(min));
            certain &= runs;
            deciding.extend(Some(self.loops[at].sym).filter(|_| !runs));
        }
        if iterations.are_first() && !write.ranges.iter().flatten().all(|(a, b)| self.is_plain(a) && self.is_plain(b)) {
            return false;
        }
        let is_fixed = |dim: &Dim| !mentions(dim, |sym| deciding.contains(&sym)) || is_same(dim);
        let are_fixed = || write.ranges.iter().flatten().all(|(first, last)| is_fixed(first) && is_fixed(last));
        certain
            || !iterations.are_first()
                && are_fixed()
                && writes.iter().all(|other| self.writes_less(other, write, scope))
    }

    /// Returns true if an expression contains no load or other value that depends on loops without naming them.
    fn is_plain(&self, dim: &Dim) -> bool {
        !mentions(dim, |sym| value_of_atom(self.body, sym).is_some_and(Value::is_nested))
    }

    /// Returns the loops around an access that are inside a scope.
    fn own_loops<'t>(&'t self, touch: &'t Touch<'b>, scope: usize) -> impl Iterator<Item = usize> + 't {
        touch.loops.iter().copied().filter(move |at| self.loops[*at].header > scope)
    }

    /// Returns true if a write writes only elements that another write also writes: it has the same indices, loops and
    /// conditions, and possibly more loops and conditions.
    fn writes_less(&self, less: &Touch<'b>, more: &Touch<'b>, scope: usize) -> bool {
        let [of_less, of_more] = [less, more].map(|touch| self.index_loops(touch, scope));
        let names: HashMap<Sym, Dim> = of_less
            .iter()
            .zip(&of_more)
            .map(|(from, to)| (self.loops[*from].sym, Dim::Var(self.loops[*to].sym)))
            .collect();
        let renamed = |dim: &Dim| substitute(dim, &|sym| names.get(&sym).cloned());
        let ends = |at: &usize| self.loops[*at].ends.as_ref();
        let both = |(first, last): &(Dim, Dim)| (renamed(first), renamed(last));
        let same_ends = |a: &usize, b: &usize| ends(a).map(both).as_ref() == ends(b);
        let has_loop = |at: usize| less.loops.iter().any(|own| *own == at || same_ends(own, &at));
        let said = |(cond, negated): &(Value<'b>, bool)| self.dim(*cond).map(|dim| (dim, *negated));
        let has_condition = |of: &(Value<'b>, bool)| {
            let same = |(dim, negated): (Dim, bool)| said(of) == Some((renamed(&dim), negated));
            less.conditions.iter().any(|own| own == of || said(own).is_some_and(same))
        };
        let same_ranges = less.ranges.iter().map(|range| range.as_ref().map(both)).eq(more.ranges.iter().cloned());
        same_ranges
            && of_less.iter().zip(&of_more).all(|(a, b)| same_ends(a, b))
            && self.own_loops(more, scope).all(has_loop)
            && more.conditions.iter().all(has_condition)
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

    /// Returns the elements that a write has covered when a later read executes in the same execution of a scope;
    /// `None` if they are unknown, or do not form a box.
    fn reached(
        &self,
        (write, read): (&Touch<'b>, &Touch<'b>),
        iterations: &Iterations,
        scope: usize,
        analyzer: &mut Analyzer,
    ) -> Option<Region> {
        let (mut running, mut renamed) = (Ends::new(), HashMap::new());
        for at in self.own_loops(write, scope) {
            let Loop { sym, ends, .. } = &self.loops[at];
            let (min, last) = ends.clone()?;
            // Earlier iterations may have had other ranges.
            if [&min, &last].into_iter().any(|end| mentions(end, |sym| renamed.contains_key(&sym))) {
                return None;
            }
            if !read.loops.contains(&at) {
                running.insert(*sym, (iterations.at(&min), iterations.at(&last)));
            } else if matches!(iterations, Iterations::All) {
                let before = unused_symbol(renamed.len() as u16, sym.dtype);
                running.insert(before, (min, Dim::Var(*sym)));
                renamed.insert(*sym, Dim::Var(before));
            }
        }
        let renamed = |dim: &Dim| iterations.at(&substitute(dim, &|sym| renamed.get(&sym).cloned()));
        let ranges: Vec<(Dim, Dim)> = write.ranges.iter().flatten().map(|(a, b)| (renamed(a), renamed(b))).collect();
        let n_values = |(min, last): &(Dim, Dim)| add(sub(last.clone(), min.clone()), Dim::int(1, min.dtype()));
        let loops = running.iter().map(|(sym, ends)| (*sym, (ends.0.clone(), n_values(ends)))).collect();
        let starts: Vec<_> =
            ranges.iter().map(|range| (range.0.clone(), analyzer.const_bounds(&n_values(range)).min)).collect();
        if ranges.len() < write.ranges.len() || !fills_a_box(&starts, &loops) {
            return None;
        }
        let mut reached = Reached::new(analyzer, running, std::iter::empty());
        ranges.iter().map(|(first, last)| Some((reached.ends(first).0?, reached.ends(last).1?))).collect()
    }

    /// Returns true if an expression has the same values in each execution of a scope: it depends only on variables
    /// that live as long as the buffer, and on loops in the scope.
    fn is_the_same(&self, dim: &Dim, buffer: Value<'b>, scope: usize) -> bool {
        !mentions(dim, |sym| {
            let runs_inside = || self.headers.get(&sym).is_some_and(|header| *header > scope);
            let is_nested = value_of_atom(self.body, sym).is_some_and(Value::is_nested);
            !self.lasting.lasts_from(&Dim::Var(sym), buffer) && (is_nested || !runs_inside())
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
    let Some((at, ((a_min, a_max), (b_min, b_max)))) = differing.next() else { return Some(a.clone()) };
    let after = |max: &Dim| add(max.clone(), Dim::int(1, max.dtype()));
    let touch = analyzer.can_prove_greater_equal(&after(a_max), b_min)
        && analyzer.can_prove_greater_equal(&after(b_max), a_min);
    if !touch || differing.next().is_some() {
        return None;
    }
    let mut reached = Reached::new(analyzer, Ends::new(), std::iter::empty());
    let mut out = a.clone();
    out[at] = (reached.least(a_min.clone(), b_min.clone()), reached.greatest(a_max.clone(), b_max.clone()));
    Some(out)
}

/// Returns true if ranges provably contain other ranges.
fn covers(analyzer: &mut Analyzer, outer: &[(Dim, Dim)], inner: &Ranges) -> bool {
    outer.len() == inner.len()
        && outer.iter().zip(inner).all(|((min, max), inner)| {
            let Some((first, last)) = inner else { return false };
            let is_less = |analyzer: &mut Analyzer, a: &Dim, b: &Dim| a == b || analyzer.can_prove_greater_equal(b, a);
            is_less(analyzer, min, first) && is_less(analyzer, last, max)
        })
}
