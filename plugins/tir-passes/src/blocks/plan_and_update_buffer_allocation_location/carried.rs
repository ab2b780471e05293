//! Determines whether a buffer holds loop-carried values.

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
                let not = || Dim::Expr(DimExpr::Unary(PrimOp::Not, DType::BOOL, cond.clone()).into());
                analyzer.assume(&if *negated { not() } else { cond.clone() });
            }
        }
        analyzer
    }

    fn is_written_before(&self, buffer: Value<'b>, read: &Touch<'b>, writes: &[&Touch<'b>], scope: usize) -> bool {
        let shape = buffer.as_buffer_type().map(|ty| ty.shape).unwrap_or_default();
        let last = |extent: &Dim| sub(extent.clone(), Dim::int(1, extent.dtype()));
        let whole: Vec<_> = shape.iter().map(|extent| Some((Dim::int(0, extent.dtype()), last(extent)))).collect();
        let mut analyzer = self.analyzer_at(read);
        let mut written: Option<Vec<(Dim, Dim)>> = None;
        for write in writes.iter().filter(|write| write.at < read.at) {
            let Some(reached) = self.reached(buffer, (write, read), scope, &mut analyzer) else { continue };
            let reached = match written.take() {
                None => reached,
                Some(known) => known
                    .into_iter()
                    .zip(reached)
                    .map(|((a, b), (c, d))| (analyzer.least(a, c), analyzer.greatest(b, d)))
                    .collect(),
            };
            if covers(&mut analyzer, &reached, &read.ranges) || covers(&mut analyzer, &reached, &whole) {
                return true;
            }
            written = Some(reached);
        }
        false
    }

    /// Returns the elements that a write has covered when a later read executes in the same execution of a scope.
    /// Returns `None` if the write may not execute, or if its elements are unknown.
    fn reached(
        &self,
        buffer: Value<'b>,
        (write, read): (&Touch<'b>, &Touch<'b>),
        scope: usize,
        analyzer: &mut Analyzer,
    ) -> Option<Vec<(Dim, Dim)>> {
        if write.whiles.iter().any(|at| *at > scope && !read.whiles.contains(at)) {
            return None;
        }
        for condition in write.conditions.iter().filter(|condition| !read.conditions.contains(condition)) {
            let is_outside = self.order.get(condition.0).is_some_and(|at| *at <= scope);
            let is_same = |dim: Dim| self.is_the_same(&dim, buffer, scope);
            if !is_outside && !self.dim(condition.0).is_some_and(is_same) {
                return None;
            }
        }
        let (mut running, mut renamed) = (Ends::new(), HashMap::new());
        for at in write.loops.iter().filter(|at| self.loops[**at].header > scope) {
            let Loop { sym, ends, .. } = &self.loops[*at];
            let (min, last) = ends.clone()?;
            if read.loops.contains(at) {
                // Covers the iterations up to the iteration of the read.
                let before = unused_symbol(renamed.len() as u16, sym.dtype);
                running.insert(before, (min, Dim::Var(*sym)));
                renamed.insert(*sym, Dim::Var(before));
            } else if self.is_the_same(&min, buffer, scope) && self.is_the_same(&last, buffer, scope) {
                running.insert(*sym, (min, last));
            } else {
                return None;
            }
        }
        let mut reached = Reached::new(analyzer, running, std::iter::empty());
        let ranges = write.ranges.iter().map(|range| {
            let (first, last) = range.as_ref()?;
            let renamed = |dim: &Dim| substitute(dim, &|sym| renamed.get(&sym).cloned());
            Some((reached.ends(&renamed(first)).0?, reached.ends(&renamed(last)).1?))
        });
        ranges.collect()
    }

    /// Returns true if an expression has the same values in each execution of a scope: it depends only on variables
    /// that live as long as the buffer, and on loops in the scope.
    fn is_the_same(&self, dim: &Dim, buffer: Value<'b>, scope: usize) -> bool {
        let mut same = true;
        dim.vars(&mut |sym| {
            let runs_inside = || self.headers.get(&sym).is_some_and(|header| *header > scope);
            let is_nested = value_of_atom(self.body, sym).is_some_and(Value::is_nested);
            same = same && (self.lasting.lasts_from(&Dim::Var(sym), buffer) || !is_nested && runs_inside());
        });
        same
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

/// Returns true if ranges provably contain other ranges.
fn covers(analyzer: &mut Analyzer, outer: &[(Dim, Dim)], inner: &Ranges) -> bool {
    outer.len() == inner.len()
        && outer.iter().zip(inner).all(|((min, max), inner)| {
            let Some((first, last)) = inner else { return false };
            let is_less = |analyzer: &mut Analyzer, a: &Dim, b: &Dim| a == b || analyzer.can_prove_greater_equal(b, a);
            is_less(analyzer, min, first) && is_less(analyzer, last, max)
        })
}
