//! Makes buffers as small as what is accessed of them.

use super::flatten_buffer::is_vector;
use super::index::conditions::Conditions;
use super::index::linear::{Linear, add, mul, sub};
use super::index::reached::{Ends, Reached};
use super::lower_opaque_block::{DIM_ALIGN, alignments};
use plugin_api::arith::{Bounds, atom_of, index_to_dim, index_to_dim_of_atoms, prim, symbol_of};
use plugin_api::ir::BufferType;
use plugin_api::prelude::*;
use plugin_api::tir::RegionAccess;
use std::collections::{HashMap, HashSet};

declare_pass! {
    /// Makes buffers as small as what is accessed of them within one iteration of the loops around their allocation.
    ///
    /// Expects blocks without iterators: s_tir.ConvertBlocksToOpaque replaces these. Keeps parameters, and buffers whose data
    /// is passed to calls without a block that says what these access. A region whose size depends on loops gets the greatest
    /// size, if that is known.
    ///
    /// ```relax before
    /// @T.prim_func(s_tir=True)
    /// def f(A: T.Buffer((8, 16), "float32"), C: T.Buffer((8, 16), "float32")):
    ///     for i in range(8):
    ///         B = T.alloc_buffer((8, 16))
    ///         for j in range(16):
    ///             B[i, j] = A[i, j]
    ///         for j in range(16):
    ///             C[i, j] = B[i, 15 - j]
    /// ```
    /// ```relax after
    /// @T.prim_func(s_tir=True)
    /// def f(A: T.Buffer((8, 16), "float32"), C: T.Buffer((8, 16), "float32")):
    ///     for i in range(8):
    ///         B = T.alloc_buffer((1, 16))
    ///         for j in range(16):
    ///             B[i - i, j] = A[i, j]
    ///         for j in range(16):
    ///             C[i, j] = B[i - i, 15 - j]
    /// ```
    pub prim_func pass COMPACT_BUFFER_ALLOCATION = "s_tir.CompactBufferAllocation" {
        opt_level: 0,
        options: Options {
            /// Whether no buffer may get larger than it was.
            is_strict: bool = true,
        },
        run: compact_buffer_allocation,
    }
}

fn compact_buffer_allocation(body: &Body, options: &Options, _: &Ctx) -> Result<Body, PassError> {
    let mut collect = Collect::new(body);
    for value in body.values() {
        collect.visit(value)?;
    }
    let regions = collect.regions(options.is_strict)?;
    let aligned = alignments(body)?;
    body.try_rewrite(|value, rw| {
        if let Some(ty) = value.as_buffer_type()
            && let Some(region) = regions.get(value)
        {
            let rows = aligned.get(value).cloned().or_else(|| match value.attr(DIM_ALIGN)?.to_owned() {
                Attr::List(rows) => Some(rows.to_vec()),
                _ => None,
            });
            rw.set_type(value, &Type::Buffer(compacted(ty, region, &rows.unwrap_or_default())));
        }
        move_access(value, &regions, rw)?;
        Ok::<_, PassError>(Action::Keep)
    })
}

/// Start and extent in each dimension.
type Ranges = Vec<(Dim, Dim)>;

/// A loop or thread around the current place.
struct Around {
    sym: Sym,
    min: Dim,
    max: Dim,
    /// Kind of the threads; `None` of a loop.
    thread: Option<String>,
}

/// What is accessed of a buffer.
struct Accessed {
    /// Number of loops around its allocation.
    depth: usize,
    /// Number of names that were given before its allocation.
    names: usize,
    scope: String,
    /// Least and greatest index in each dimension; `None` before the first access.
    ends: Option<Vec<(Option<Dim>, Option<Dim>)>>,
}

/// Names of values, in the order in which they are given.
#[derive(Default)]
struct Names {
    of: HashMap<Sym, usize>,
    /// What they mean; `None` if that is no arithmetic.
    values: Vec<Option<Dim>>,
}

impl Names {
    fn insert(&mut self, sym: Sym, value: Option<Dim>) {
        self.of.insert(sym, self.values.len());
        self.values.push(value);
    }

    fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether a symbol is a name that was given after `before` others.
    fn is_since(&self, sym: Sym, before: usize) -> bool {
        self.of.get(&sym).is_some_and(|at| *at >= before)
    }

    /// A name that an index uses, also through others or loops, only has the value that it means.
    fn add_to(&self, running: &mut Ends, index: &Dim, before: usize) {
        let mut work = Vec::new();
        let loops = running.values().flat_map(|(min, max)| [min, max]);
        for dim in loops.chain([index]) {
            dim.vars(&mut |sym| work.push(sym));
        }
        while let Some(sym) = work.pop() {
            let value = self.of.get(&sym).filter(|at| **at >= before).and_then(|at| self.values[*at].as_ref());
            let Some(value) = value.filter(|_| !running.contains_key(&sym)) else { continue };
            value.vars(&mut |sym| work.push(sym));
            running.insert(sym, (value.clone(), value.clone()));
        }
    }
}

struct Collect<'b> {
    body: &'b Body,
    analyzer: Analyzer,
    conditions: Conditions<'b>,
    around: OpenScopes<Around>,
    accessed: ValueMap<'b, Accessed>,
    buffers: Vec<Value<'b>>,
    names: Names,
    /// Blocks around the current place.
    blocks: OpenScopes<Value<'b>>,
    /// Nested expressions that read an element of a buffer which the function allocates, and what they are in an index.
    reading: ValueSet<'b>,
    read: HashSet<Sym>,
}

impl<'b> Collect<'b> {
    fn new(body: &'b Body) -> Collect<'b> {
        Collect {
            body,
            analyzer: Analyzer::of_body(body),
            conditions: Conditions::new(body),
            around: OpenScopes::new(),
            accessed: ValueMap::new(body),
            buffers: Vec::new(),
            names: Names::default(),
            blocks: OpenScopes::new(),
            reading: ValueSet::new(body),
            read: HashSet::new(),
        }
    }

    fn visit(&mut self, value: Value<'b>) -> Result<(), PassError> {
        self.around.go_to(value);
        self.blocks.go_to(value);
        self.conditions.go_to(value);
        if matches!(value.stmt(), Some(Stmt::Block)) {
            if value.block_iters().next().is_some() {
                bail!(at value, "a block with iterators; run s_tir.ConvertBlocksToOpaque before");
            }
            self.blocks.open(value, value);
        }
        self.enter_loop(value);
        if let (Some(Stmt::Bind { value: named }), Some(sym)) = (value.stmt(), symbol_of(value)) {
            self.names.insert(sym, index_to_dim(named));
        }
        if let Some(ty) = value.as_buffer_type().filter(|_| is_allocated(value)) {
            let (depth, names) = (self.around.len(), self.names.len());
            self.accessed.insert(value, Accessed { depth, names, scope: ty.scope, ends: None });
            self.buffers.push(value);
        }
        self.note_reading(value);
        if let Some(access) = value.as_element_access() {
            let points: Vec<_> = access.indices.iter().map(|index| (*index, None)).collect();
            self.access(access.buffer, &points);
        }
        if let Some(region) = value.matched_region() {
            self.access_region(region.buffer, &region.ranges);
        }
        if let Expr::BufferPart { buffer, part: 0 } = value.view() {
            self.access_data(buffer);
        }
        Ok(())
    }

    /// Operands come before the expression that they are nested in.
    fn note_reading(&mut self, value: Value<'b>) {
        let reads = value.as_element_access().is_some_and(|access| is_allocated(access.buffer));
        if !value.is_nested() || !reads && !value.operands().any(|operand| self.reading.contains(operand)) {
            return;
        }
        self.reading.insert(value);
        if let Some(Dim::Var(sym)) = index_to_dim_of_atoms(value) {
            self.read.insert(sym);
        }
    }

    fn enter_loop(&mut self, value: Value<'b>) {
        let (var, min, extent, thread) = match value.stmt() {
            Some(Stmt::For { var, min, extent, .. }) => (Some(var), index_to_dim(min), extent, value.attr("thread")),
            Some(Stmt::Launch { extent, .. }) => {
                let zero = Dim::int(0, extent.ty().dtype());
                (value.region().children().next(), Some(zero), extent, value.attr("thread"))
            }
            _ => return,
        };
        if let (Some(sym), Some(min), Some(extent)) = (var.and_then(symbol_of), min, index_to_dim(extent)) {
            let max = sub(add(min.clone(), extent), Dim::int(1, sym.dtype));
            let max = Linear::of(&max).to_dim(sym.dtype).unwrap_or(max);
            let thread = thread.and_then(|thread| thread.as_str()).map(str::to_string);
            self.around.open(value, Around { sym, min, max, thread });
        }
    }

    /// The data of a buffer is used: what the block around says that it accesses, else all of it.
    fn access_data(&mut self, buffer: Value<'b>) {
        let Some(ty) = buffer.as_buffer_type().filter(|_| self.accessed.contains(buffer)) else { return };
        let said_by = |block: &Value<'b>| -> Vec<RegionAccess<'b>> {
            block.block_accesses().filter(|access| access.buffer == buffer).collect()
        };
        let said = self.blocks.iter().rev().map(said_by).find(|said| !said.is_empty());
        match said {
            Some(said) => said.iter().for_each(|access| self.access_region(buffer, &access.ranges)),
            None => {
                let all = ty.shape.iter().map(|extent| {
                    let one = Dim::int(1, extent.dtype());
                    (Some(Dim::int(0, extent.dtype())), Some(sub(extent.clone(), one)))
                });
                self.join(buffer, all.collect());
            }
        }
    }

    fn access_region(&mut self, buffer: Value<'b>, ranges: &[(Value<'b>, Value<'b>)]) {
        let ranges: Vec<_> = ranges.iter().map(|(min, extent)| (*min, Some(*extent))).collect();
        self.access(buffer, &ranges);
    }

    /// A part of a buffer is accessed: start and, if it is more than an element, extent in each dimension.
    fn access(&mut self, buffer: Value<'b>, part: &[(Value<'b>, Option<Value<'b>>)]) {
        let Some(accessed) = self.accessed.get(buffer) else { return };
        let mut running = Ends::new();
        for (i, around) in self.around.iter().enumerate() {
            let relaxed = around.thread.as_deref().is_some_and(|thread| is_shared(&accessed.scope, thread));
            if i >= accessed.depth || relaxed {
                running.insert(around.sym, (around.min.clone(), around.max.clone()));
            }
        }
        for (min, extent) in part {
            for dim in [Some(*min), *extent].into_iter().flatten().filter_map(index_to_dim_of_atoms) {
                self.names.add_to(&mut running, &dim, accessed.names);
            }
        }
        let (names, before) = (&self.names, accessed.names);
        let runs = |sym: Sym| running.contains_key(&sym) || names.is_since(sym, before);
        // The first element of a vector, and how far it is to the last one; whether a load or call in it is of what runs.
        let starts: Vec<(Value<'b>, i64, bool)> = part
            .iter()
            .map(|(min, _)| steps(*min).unwrap_or((*min, 0)))
            .map(|(start, steps)| (start, steps, has_atom_of(start, |var| symbol_of(var).is_some_and(runs))))
            .collect();
        let known = |end: &Dim| {
            let mut known = true;
            end.vars(&mut |sym| known &= !names.is_since(sym, before));
            known
        };
        let mut reached = Reached::new(&mut self.analyzer, running, self.conditions.active());
        let ends = part.iter().zip(starts).map(|((_, extent), (start, steps, varies))| {
            // Where any other vector begins is not known.
            let starts = !varies && start.ty().dtype().lanes() == 1;
            let Some(min) = index_to_dim_of_atoms(start).filter(|_| starts) else { return (None, None) };
            let last = match extent.and_then(index_to_dim_of_atoms) {
                _ if steps > 0 => add(min.clone(), Dim::int(steps, min.dtype())),
                Some(extent) => sub(add(min.clone(), extent), Dim::int(1, min.dtype())),
                None => min.clone(),
            };
            (reached.ends(&min).0.filter(known), reached.ends(&last).1.filter(known))
        });
        let ends = ends.collect();
        self.join(buffer, ends);
    }

    fn join(&mut self, buffer: Value<'b>, new: Vec<(Option<Dim>, Option<Dim>)>) {
        let mut reached = Reached::new(&mut self.analyzer, Ends::new(), std::iter::empty());
        let Some(accessed) = self.accessed.get_mut(buffer) else { return };
        accessed.ends = Some(match accessed.ends.take() {
            None => new,
            Some(old) => {
                let both = old.into_iter().zip(new);
                let joined = both.map(|((min, max), (other_min, other_max))| {
                    let min = min.zip(other_min).map(|(a, b)| reached.least(a, b));
                    (min, max.zip(other_max).map(|(a, b)| reached.greatest(a, b)))
                });
                joined.collect()
            }
        });
    }

    /// The region of each buffer that gets smaller, or has another start.
    fn regions(mut self, strict: bool) -> Result<ValueMap<'b, Ranges>, PassError> {
        let mut regions = ValueMap::new(self.body);
        for buffer in std::mem::take(&mut self.buffers) {
            let (Some(ty), Some(accessed)) = (buffer.as_buffer_type(), self.accessed.remove(buffer)) else { continue };
            let Some(ends) = accessed.ends else {
                if buffer.is_block_buffer() {
                    bail!(at buffer, "a buffer that nothing accesses; remove it");
                }
                continue;
            };
            let region = ends.into_iter().zip(&ty.shape).map(|(ends, shape)| self.range(ends, shape, strict)).collect();
            regions.insert(buffer, region);
        }
        Ok(regions)
    }

    /// Whether an end of a region depends on what is in a buffer that the function allocates: that changes, and the access
    /// that reads it may itself get another index, which would then be made of itself.
    fn reads_allocated(&self, end: &Dim) -> bool {
        let mut found = false;
        end.vars(&mut |sym| found |= self.read.contains(&sym));
        found
    }

    fn range(&mut self, ends: (Option<Dim>, Option<Dim>), shape: &Dim, strict: bool) -> (Dim, Dim) {
        let whole = (Dim::int(0, shape.dtype()), shape.clone());
        let (Some(min), Some(max)) = ends else { return whole };
        if self.reads_allocated(&min) {
            return whole;
        }
        let bounds = self.analyzer.const_bounds(&min);
        let min = if bounds.min == bounds.max { Dim::int(bounds.min, min.dtype()) } else { min };
        let bounds = self.analyzer.const_bounds(&max);
        let max = if bounds.min == bounds.max { Dim::int(bounds.min, max.dtype()) } else { max };
        let extent = add(sub(max, min.clone()), Dim::int(1, min.dtype()));
        let mut extent = self.analyzer.simplify(&extent);
        let mut reached = Reached::new(&mut self.analyzer, Ends::new(), std::iter::empty());
        let min = if strict { reached.not_negative(min) } else { min };
        if strict && !reached.is_within(&extent, shape) {
            extent = reached.least(shape.clone(), extent);
        }
        let mut atoms = false;
        extent.vars(&mut |sym| atoms |= atom_of(sym).is_some());
        if atoms {
            let bounds = self.analyzer.const_bounds(&extent);
            if bounds.max >= Bounds::of_dtype(extent.dtype()).max {
                return whole;
            }
            extent = Dim::int(bounds.max, extent.dtype());
        }
        (min, extent)
    }
}

fn is_allocated(buffer: Value<'_>) -> bool {
    buffer.is_block_buffer() || buffer.is_allocation()
}

/// Whether a load or call inside an index uses a variable that runs: nothing is known of its value then.
fn has_atom_of<'b>(index: Value<'b>, runs: impl Fn(Value<'b>) -> bool) -> bool {
    let mut work = vec![(index, false)];
    while let Some((value, inside)) = work.pop() {
        if inside && runs(value) {
            return true;
        }
        if value.is_nested() {
            let inside = inside || !matches!(value.view(), Expr::Arith { .. });
            work.extend(value.operands().map(|operand| (operand, inside)));
        }
    }
    false
}

/// Whether threads of a kind share memory of a scope.
fn is_shared(scope: &str, thread: &str) -> bool {
    let rank = match scope {
        "" | "global" => 0,
        "shared" | "shared.dyn" | "shared.barrier" | "shared.cluster" => 1,
        "warp" => return thread == "threadIdx.x",
        _ => 3,
    };
    let of = if thread.starts_with("blockIdx") || thread.starts_with("clusterCtaIdx") { 0 } else { 1 };
    rank <= of
}

/// Of numbers in steps of one number upwards: the first one, and how far it is to the end of the last step, as TVM counts.
fn steps(index: Value<'_>) -> Option<(Value<'_>, i64)> {
    let Expr::Ramp { base, stride, lanes } = index.view() else { return None };
    let number = |value: Value<'_>| value.dim()?.as_int().filter(|number| *number > 0);
    Some((base, number(stride)?.checked_mul(number(lanes)?)? - 1))
}

/// Accesses of a buffer begin at the start of its region.
fn move_access<'b>(value: Value<'b>, regions: &ValueMap<'b, Ranges>, rw: &mut Rewriter<'b>) -> Result<(), PassError> {
    let moved =
        |buffer: Value<'b>| regions.get(buffer).filter(|region| region.iter().any(|(min, _)| min.as_int() != Some(0)));
    if let Some(access) = value.as_element_access()
        && let Some(region) = regions.get(access.buffer)
        && (moved(access.buffer).is_some() || access.indices.iter().any(|index| is_vector(*index)))
    {
        let (buffer, indices) = rw.tir(|t| {
            let moved = access.indices.iter().zip(region).map(|(index, (min, _))| match is_vector(*index) {
                // TVM subtracts 0 from vectors, too.
                true => (t.value(*index) - t.broadcast(t.index(min), index.ty().dtype().lanes())).v(),
                false => (t.value(*index) - t.index(min)).v(),
            });
            (t.buffer(access.buffer).v(), moved.collect::<Vec<V>>())
        })?;
        rw.edit().set_access(value, buffer, &indices);
    }
    if let Some(access) = value.as_region_access()
        && let Some(region) = moved(access.buffer)
    {
        let (buffer, ranges) = rw.tir(|t| {
            let moved = access.ranges.iter().zip(region);
            let moved =
                moved.map(|((start, extent), (min, _))| ((t.value(*start) - t.index(min)).v(), t.value(*extent).v()));
            (t.buffer(access.buffer).v(), moved.collect::<Vec<(V, V)>>())
        })?;
        rw.edit().set_region(value, buffer, &ranges);
    }
    Ok(())
}

/// The buffer of the extents of a region, with strides where its rows are aligned.
fn compacted(ty: BufferType, region: &Ranges, rows: &[Attr]) -> BufferType {
    let shape: Vec<Dim> = region.iter().map(|(_, extent)| extent.clone()).collect();
    let mut aligned = vec![None; shape.len()];
    for row in rows {
        let Attr::List(row) = row else { continue };
        if let [_, Attr::Int(dim), Attr::Int(factor), Attr::Int(offset)] = row[..]
            && let Some(aligned) = aligned.get_mut(dim as usize)
        {
            *aligned = Some((factor, offset));
        }
    }
    if rows.is_empty() {
        return BufferType { strides: Vec::new(), ..ty.viewed(shape) };
    }
    let mut stride = Dim::int(1, shape.first().map_or(DType::I32, Dim::dtype));
    let mut strides = Vec::with_capacity(shape.len());
    for (extent, aligned) in shape.iter().zip(aligned).rev() {
        if let Some((factor, offset)) = aligned {
            stride = next_aligned(stride, factor, offset);
        }
        strides.push(stride.clone());
        stride = mul(stride, extent.clone());
    }
    strides.reverse();
    BufferType { strides, ..ty.viewed(shape) }
}

/// The least stride that is no less, and `offset` more than a multiple of `factor`.
fn next_aligned(stride: Dim, factor: i64, offset: i64) -> Dim {
    let number = |value| Dim::int(value, stride.dtype());
    match stride.as_int() {
        _ if factor <= 0 => stride,
        Some(known) => number(known + (factor + offset - known % factor) % factor),
        None => {
            let rest = Dim::binary(prim::FLOORMOD, stride.clone(), number(factor));
            let missing = Dim::binary(prim::FLOORMOD, sub(number(factor + offset), rest), number(factor));
            add(stride, missing)
        }
    }
}
