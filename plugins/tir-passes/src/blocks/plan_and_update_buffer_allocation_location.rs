//! Allocates each buffer of a block in the innermost loop or block around all of its accesses.

mod carried;

use carried::CarriedValues;
use plugin_api::arith::value_of_atom;
use plugin_api::ir::loop_kind;
use plugin_api::prelude::*;
use plugin_api::tir::regions::region::Range;
use plugin_api::tir::regions::{Accessed, BufferRegion, Detector};
use plugin_api::tir::{BlockIter, PrimExpr, RegionAccess, Tir};
use plugin_api::walk::open_scopes::OpenScopes;
use plugin_api::walk::visitors::post_order_visit_value;
use std::cell::LazyCell;
use std::collections::BTreeMap;

declare_pass! {
    /// Allocates each buffer of a block in the innermost loop or block around all of its accesses.
    ///
    /// A block that allocates the buffer is added around the content of the loop. Blocks around the allocation no
    /// longer declare accesses to the buffer. A buffer does not move into a loop whose iterations may read values that
    /// earlier iterations wrote. Nor does a buffer move into a loop if a block binds the loop to a non-spatial
    /// iterator and accesses the buffer with this iterator. A buffer in global memory is allocated at the outermost
    /// level of the thread block. Buffers that are never accessed are not allocated.
    ///
    /// Expects blocks without an initialization; run s_tir.LowerInitBlock first.
    ///
    /// ```relax before
    /// @T.prim_func(s_tir=True)
    /// def f(A: T.Buffer((8,), "float32")):
    ///     B = T.sblock_alloc_buffer((8,))
    ///     for i in range(8):
    ///         with T.sblock("update"):
    ///             T.reads(A[i], B[i])
    ///             T.writes(B[i], A[i])
    ///             B[i] = A[i]
    ///             A[i] = B[i] + T.float32(1)
    /// ```
    /// ```relax after
    /// @T.prim_func(s_tir=True)
    /// def f(A: T.Buffer((8,), "float32")):
    ///     for i in range(8):
    ///         with T.sblock("update"):
    ///             T.reads(A[i])
    ///             T.writes(A[i])
    ///             B = T.sblock_alloc_buffer((8,))
    ///             B[i] = A[i]
    ///             A[i] = B[i] + T.float32(1)
    /// ```
    pub prim_func pass PLAN_AND_UPDATE_BUFFER_ALLOCATION_LOCATION = "s_tir.PlanAndUpdateBufferAllocationLocation" {
        opt_level: 0,
        run: plan_and_update,
    }
}

fn plan_and_update(body: &Body, _: &Ctx) -> Result<Body, PassError> {
    if let Some(init) = body.values().find(|value| value.is_init()) {
        bail!(at init, "found a block with an initialization; run s_tir.LowerInitBlock first");
    }
    let (places, scopes) = Places::of(body);
    let (scope_of, unused) = (ValueMap::new(body), ValueSet::new(body));
    let (detector, at) = (Detector::new(body), BTreeMap::new());
    // Most functions have no buffer that moves into a loop.
    let carried = LazyCell::new(|| CarriedValues::of(body));
    let mut planned = Planned { body, detector, at, scope_of, unused, scopes };
    for buffer in body.values().filter(|value| value.is_block_buffer()) {
        let Some(mut scope) = places.get(buffer).copied() else {
            planned.unused.insert(buffer);
            continue;
        };
        // Each iteration gets its own buffer, so no iteration may read elements that another iteration wrote.
        let around = planned.scopes.around(buffer);
        while planned.scopes.is_within(scope, around)
            && runs_in_order(planned.scopes.header(scope))
            && carried.reads_what_is_left(buffer, planned.scopes.header(scope))
        {
            scope = planned.scopes.all[scope].around;
        }
        planned.scope_of.insert(buffer, scope);
        if planned.scopes.header_around(buffer) != planned.scopes.header(scope) {
            planned.at.entry(scope).or_default().push(buffer);
        }
    }
    let mut started = false;
    body.try_rewrite(|value, rw| {
        if !std::mem::replace(&mut started, true) {
            planned.allocate(0, rw)?;
        }
        planned.visit(value, rw)?;
        Ok::<_, PassError>(Action::Keep)
    })
}

/// Returns true if the iterations of a loop run one after the other, so that an iteration can use results of earlier
/// iterations. In a parallel loop, each iteration needs its own buffer.
fn runs_in_order(scope: Value<'_>) -> bool {
    match scope.stmt() {
        Some(Stmt::For { kind, .. }) => matches!(kind, loop_kind::SERIAL | loop_kind::UNROLL),
        _ => true,
    }
}

/// A scope: the function, a loop or a block.
struct Scope<'b> {
    header: Value<'b>,
    /// The enclosing scope; the function encloses itself.
    around: usize,
    /// Number of scopes around this scope.
    depth: usize,
}

/// Loops and blocks, the function first; each refers to its enclosing scope.
struct Scopes<'b> {
    all: Vec<Scope<'b>>,
    of: ValueMap<'b, usize>,
    /// For each value, the scope that contains it.
    around: ValueMap<'b, usize>,
}

impl<'b> Scopes<'b> {
    fn of(body: &'b Body) -> Scopes<'b> {
        let all = vec![Scope { header: body.root(), around: 0, depth: 0 }];
        let mut scopes = Scopes { all, of: ValueMap::new(body), around: ValueMap::new(body) };
        let mut open = OpenScopes::new();
        for value in body.values() {
            open.go_to(value);
            let around = open.last().copied().unwrap_or(0);
            scopes.around.insert(value, around);
            if matches!(value.stmt(), Some(Stmt::For { .. } | Stmt::Block)) {
                let depth = scopes.all[around].depth + 1;
                scopes.of.insert(value, scopes.all.len());
                open.open(value, scopes.all.len());
                scopes.all.push(Scope { header: value, around, depth });
            }
        }
        scopes
    }

    fn header(&self, scope: usize) -> Value<'b> {
        self.all[scope].header
    }

    /// Returns the scope that contains a value.
    fn around(&self, value: Value<'b>) -> usize {
        self.around.get(value).copied().unwrap_or(0)
    }

    fn header_around(&self, value: Value<'b>) -> Value<'b> {
        self.header(self.around(value))
    }

    /// Returns the innermost scope that contains two given scopes.
    fn common(&self, mut a: usize, mut b: usize) -> usize {
        while a != b {
            let (of_a, of_b) = (&self.all[a], &self.all[b]);
            if of_a.depth >= of_b.depth { a = of_a.around } else { b = of_b.around }
        }
        a
    }

    /// Returns true if a scope is strictly inside another.
    fn is_within(&self, inner: usize, outer: usize) -> bool {
        inner != outer && self.common(inner, outer) == outer
    }

    /// Returns the outer of two nested scopes.
    fn outer(&self, a: usize, b: usize) -> usize {
        if self.all[a].depth <= self.all[b].depth { a } else { b }
    }
}

/// For each buffer, the innermost scope that contains all of its accesses.
struct Places<'b> {
    scopes: Scopes<'b>,
    lowest: ValueMap<'b, usize>,
    /// The scope of each loop variable.
    loops: ValueMap<'b, usize>,
    /// Loops over thread blocks.
    thread_blocks: Vec<usize>,
}

impl<'b> Places<'b> {
    fn of(body: &'b Body) -> (ValueMap<'b, usize>, Scopes<'b>) {
        let (lowest, loops) = (ValueMap::new(body), ValueMap::new(body));
        let scopes = Scopes::of(body);
        let mut places = Places { scopes, lowest, loops, thread_blocks: Vec::new() };
        body.values().for_each(|value| places.visit(value));
        let thread_blocks = places.thread_blocks.iter().copied().reduce(|a, b| places.scopes.common(a, b));
        for buffer in body.values().filter(|value| value.is_block_buffer()) {
            let Some(scope) = places.lowest.get(buffer).copied() else { continue };
            if buffer.as_buffer_type().is_some_and(|ty| ty.scope.is_empty()) {
                let common = thread_blocks.map_or(scope, |thread_blocks| places.scopes.common(scope, thread_blocks));
                places.lowest.insert(buffer, common);
            }
        }
        (places.lowest, places.scopes)
    }

    fn visit(&mut self, value: Value<'b>) {
        let around = self.scopes.around(value);
        if let Some(Stmt::For { var, .. }) = value.stmt() {
            let Some(scope) = self.scopes.of.get(value).copied() else { return };
            self.loops.insert(var, scope);
            let thread = value.attr("thread").and_then(|thread| thread.as_str());
            if thread.is_some_and(|thread| thread.starts_with("blockIdx")) {
                self.thread_blocks.push(scope);
            }
        }
        if matches!(value.stmt(), Some(Stmt::Block)) {
            self.stay_outside_of_carried_loops(value);
        }
        if let Some(region) = value.matched_region() {
            self.use_in(region.buffer, around);
        }
        if let Some(access) = value.as_element_access() {
            self.use_in(access.buffer, around);
        }
        if let Expr::BufferPart { buffer, part: 0 } = value.view() {
            self.use_in(buffer, around);
        }
    }

    fn use_in(&mut self, buffer: Value<'b>, scope: usize) {
        let known = self.lowest.get(buffer).copied();
        self.lowest.insert(buffer, known.map_or(scope, |known| self.scopes.common(known, scope)));
    }

    /// Moves allocations of buffers that a block accesses with non-spatial iterators out of the loops on which these
    /// iterators depend.
    fn stay_outside_of_carried_loops(&mut self, block: Value<'b>) {
        let Some(scope) = self.scopes.of.get(block).copied() else { return };
        let carried: Vec<Carried<'b>> = block.block_iters().filter_map(|iter| self.carried(&iter)).collect();
        if carried.is_empty() {
            return;
        }
        let reduced = carried.iter().filter(|iter| iter.is_reduction).map(|iter| iter.outside);
        let reduced = reduced.reduce(|a, b| self.scopes.outer(a, b));
        for access in block.block_accesses().collect::<Vec<_>>() {
            let mut place = scope;
            for value in access.ranges.iter().flat_map(|(min, extent)| [*min, *extent]) {
                visit_values_of(value, |used| {
                    for iter in carried.iter().filter(|iter| iter.var == used) {
                        place = self.scopes.outer(place, iter.outside);
                    }
                });
            }
            if let Some(reduced) = reduced.filter(|_| access.is_write) {
                place = self.scopes.outer(place, reduced);
            }
            self.use_in(access.buffer, place);
        }
    }

    /// Returns the scope outside of the loops on which an iterator depends; `None` if it is spatial or depends on none.
    fn carried(&self, iter: &BlockIter<'b>) -> Option<Carried<'b>> {
        if iter.is_spatial {
            return None;
        }
        let mut outside: Option<usize> = None;
        visit_values_of(iter.value, |part| {
            if let Some(scope) = self.loops.get(part) {
                let around = self.scopes.all[*scope].around;
                outside = Some(outside.map_or(around, |known| self.scopes.outer(known, around)));
            }
        });
        outside.map(|outside| Carried { var: iter.var, is_reduction: iter.is_reduction, outside })
    }
}

/// A block iterator with loop-carried values.
struct Carried<'b> {
    var: Value<'b>,
    is_reduction: bool,
    /// The scope outside of the loops of the iterator.
    outside: usize,
}

/// Calls `visit` with an expression and each of its operands.
fn visit_values_of<'b>(value: Value<'b>, mut visit: impl FnMut(Value<'b>)) {
    visit(value);
    post_order_visit_value(value, |part| part.operands().for_each(&mut visit));
}

/// The buffers whose allocations will move.
struct Planned<'b> {
    body: &'b Body,
    detector: Detector<'b>,
    /// The buffers allocated in each scope.
    at: BTreeMap<usize, Vec<Value<'b>>>,
    /// The scope of each buffer of a block.
    scope_of: ValueMap<'b, usize>,
    /// Buffers that are never accessed, which are removed.
    unused: ValueSet<'b>,
    scopes: Scopes<'b>,
}

impl<'b> Planned<'b> {
    fn visit(&mut self, value: Value<'b>, rw: &mut Rewriter<'b>) -> Result<(), PassError> {
        if let Some(scope) = self.scopes.of.get(value).copied() {
            self.allocate(scope, rw)?;
        }
        let is_access_of_what_is_not_outside = value
            .as_region_access()
            .is_some_and(|access| !value.is_nested() && self.is_not_outside(access.buffer, value));
        if self.unused.contains(value) || is_access_of_what_is_not_outside {
            rw.edit().discard(value);
        } else if let Some(access) = value.as_region_access().filter(|_| !value.is_nested()) {
            self.widen(value, &access, rw)?;
        }
        Ok(())
    }

    /// Widens a declared access to whole dimensions if its index is loaded from a buffer that the block itself
    /// allocates, because the declaration cannot refer to that buffer.
    fn widen(&self, value: Value<'b>, access: &RegionAccess<'b>, rw: &mut Rewriter<'b>) -> Result<(), PassError> {
        let is_own = |buffer: Value<'b>| self.is_not_outside(buffer, value);
        let reads_own =
            |(min, extent): &(Value<'b>, Value<'b>)| loads_from(*min, is_own) || loads_from(*extent, is_own);
        let Some(ty) = access.buffer.as_buffer_type().filter(|_| access.ranges.iter().any(reads_own)) else {
            return Ok(());
        };
        let (buffer, ranges) = rw.tir(|t| {
            let ranges = access.ranges.iter().zip(&ty.shape).map(|(range, shape)| match reads_own(range) {
                true => (t.int(0, shape.dtype()).v(), t.index(shape).v()),
                false => (t.value(range.0).v(), t.value(range.1).v()),
            });
            (t.buffer(access.buffer).v(), ranges.collect::<Vec<(V, V)>>())
        })?;
        rw.edit().set_region(value, buffer, &ranges);
        Ok(())
    }

    /// Returns true if a buffer is unused, or is not allocated outside of the block that declares the access. A block
    /// may declare accesses that it does not perform. The buffer is then allocated where other blocks use it.
    fn is_not_outside(&self, buffer: Value<'b>, access: Value<'b>) -> bool {
        let around = self.scopes.around(access);
        self.unused.contains(buffer)
            || self.scope_of.get(buffer).is_some_and(|scope| !self.scopes.is_within(around, *scope))
    }

    fn allocate(&mut self, scope: usize, rw: &mut Rewriter<'b>) -> Result<(), PassError> {
        let Some(buffers) = self.at.remove(&scope) else { return Ok(()) };
        let header = self.scopes.header(scope);
        let (Some(first), Some(last)) = (header.content().next(), header.content().last()) else { return Ok(()) };
        if !matches!(header.stmt(), Some(Stmt::For { .. })) {
            return rw.tir(|t| {
                t.before(first);
                buffers.iter().for_each(|buffer| t.place(*buffer));
            });
        }
        let [reads, writes] = self.accessed(header, scope);
        rw.tir(|t| {
            t.before(first);
            t.block("", || {
                reads.iter().for_each(|region| t.reads(t.buffer(region.buffer), written(t, &region.ranges)));
                writes.iter().for_each(|region| t.writes(t.buffer(region.buffer), written(t, &region.ranges)));
                buffers.iter().for_each(|buffer| t.place(*buffer));
                t.keep(last);
            });
        })
    }

    /// Returns the regions that a loop reads and the regions that it writes, in buffers that are allocated outside of
    /// the loop.
    fn accessed(&mut self, header: Value<'b>, scope: usize) -> [Vec<BufferRegion<'b>>; 2] {
        let Accessed { mut reads, mut writes, opaque } = self.detector.accessed_in(header);
        // Any other use counts as a read and a write of the whole buffer.
        let is_opaque = |region: &BufferRegion<'b>| opaque.iter().any(|of| of.buffer == region.buffer);
        for regions in [&mut reads, &mut writes] {
            regions.retain(|region| !is_opaque(region));
            regions.extend(opaque.iter().cloned());
        }
        let inside =
            |buffer: Value<'b>| self.scope_of.get(buffer).is_some_and(|of| self.scopes.common(*of, scope) == scope);
        let body = self.body;
        let reads_inside = |dim: &Dim| {
            let mut found = false;
            dim.vars(&mut |sym| found |= value_of_atom(body, sym).is_some_and(|atom| loads_from(atom, inside)));
            found
        };
        [reads, writes].map(|mut regions| {
            regions.retain(|region| !inside(region.buffer));
            for region in &mut regions {
                let shape = region.buffer.as_buffer_type().map(|ty| ty.shape).unwrap_or_default();
                for (range, extent) in region.ranges.iter_mut().zip(shape) {
                    if reads_inside(&range.min) || reads_inside(&range.extent) {
                        *range = Range::whole(extent);
                    }
                }
            }
            regions
        })
    }
}

/// Returns true if an expression loads from a buffer for which `is_of_kind` is true.
fn loads_from<'b>(root: Value<'b>, is_of_kind: impl Fn(Value<'b>) -> bool) -> bool {
    let mut found = false;
    post_order_visit_value(root, |part| {
        found |= part.as_element_access().is_some_and(|access| is_of_kind(access.buffer));
    });
    found
}

fn written<'s>(t: &'s Tir<'_, '_>, ranges: &[Range]) -> Vec<(PrimExpr<'s>, PrimExpr<'s>)> {
    ranges.iter().map(|range| (t.index(&range.min), t.index(&range.extent))).collect()
}
