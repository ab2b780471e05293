//! Computes the accessed regions of the buffers that a function allocates.

use super::names::Names;
use plugin_api::arith::{self, atom_of, index_to_dim_of_atoms, symbol_of, value_of_atom};
use plugin_api::prelude::*;
use plugin_api::tir::RegionAccess;
use plugin_api::tir::regions::conditions::Conditions;
use plugin_api::tir::regions::lasting::Lasting;
use plugin_api::tir::regions::linear::{add, sub};
use plugin_api::tir::regions::reached::{Ends, Reached, Running};
use plugin_api::tir::regions::region::{Bounds, Part, Range};
use plugin_api::walk::open_scopes::OpenScopes;
use std::cell::OnceCell;

/// A loop or thread around the current position.
struct Around {
    sym: Sym,
    /// The first and the last value of the variable, if both are integer arithmetic.
    ends: Option<(Dim, Dim)>,
    /// Kind of the threads; `None` for a loop.
    thread: Option<String>,
}

/// The accessed region of a buffer.
struct Accessed {
    /// Number of loops around the allocation.
    depth: usize,
    /// Number of names defined before the allocation.
    names: usize,
    scope: String,
    /// The bounds in each dimension; `None` before the first access.
    bounds: Option<Vec<Bounds>>,
}

/// The start of an access in one dimension.
struct Start<'b> {
    /// The index, or the first element if the index is a vector.
    min: Value<'b>,
    /// The distance to the last element of the vector.
    steps: i64,
}

impl<'b> Start<'b> {
    fn of(index: Value<'b>) -> Start<'b> {
        let (min, steps) = steps(index).unwrap_or((index, 0));
        Start { min, steps }
    }
}

/// The accessed regions of all buffers that a function allocates.
pub(super) struct Accesses<'b> {
    body: &'b Body,
    analyzer: Analyzer,
    conditions: Conditions<'b>,
    around: OpenScopes<Around>,
    accessed: ValueMap<'b, Accessed>,
    buffers: Vec<Value<'b>>,
    names: Names,
    /// Blocks around the current position.
    blocks: OpenScopes<Value<'b>>,
    /// Computed when it is first needed.
    lasting: OnceCell<Lasting<'b>>,
}

impl<'b> Accesses<'b> {
    pub(super) fn of(body: &'b Body) -> Result<Accesses<'b>, PassError> {
        let mut accesses = Accesses::none(body);
        for value in body.values() {
            accesses.visit(value)?;
        }
        Ok(accesses)
    }

    fn none(body: &'b Body) -> Accesses<'b> {
        Accesses {
            body,
            analyzer: Analyzer::of_body(body),
            conditions: Conditions::new(body),
            around: OpenScopes::new(),
            accessed: ValueMap::new(body),
            buffers: Vec::new(),
            names: Names::default(),
            blocks: OpenScopes::new(),
            lasting: OnceCell::new(),
        }
    }

    fn lasting(&self) -> &Lasting<'b> {
        self.lasting.get_or_init(|| Lasting::of(self.body))
    }

    fn visit(&mut self, value: Value<'b>) -> Result<(), PassError> {
        self.around.go_to(value);
        self.blocks.go_to(value);
        self.conditions.go_to(value);
        if matches!(value.stmt(), Some(Stmt::Block)) {
            if value.block_iters().next().is_some() {
                bail!(at value, "found a block with iterators; run s_tir.ConvertBlocksToOpaque first");
            }
            self.blocks.open(value, value);
        }
        self.enter_loop(value);
        if let (Some(Stmt::Bind { value: named }), Some(sym)) = (value.stmt(), symbol_of(value)) {
            self.names.insert(sym, index_to_dim_of_atoms(named));
        }
        if let Some(ty) = value.as_buffer_type().filter(|_| is_allocated(value)) {
            let (depth, names) = (self.around.len(), self.names.len());
            self.accessed.insert(value, Accessed { depth, names, scope: ty.scope, bounds: None });
            self.buffers.push(value);
        }
        if let Some(access) = value.as_element_access() {
            self.access(access.buffer, &Part::element(&access.indices));
        }
        if let Some(region) = value.matched_region() {
            self.access(region.buffer, &Part::region(&region.ranges));
        }
        if let Expr::BufferPart { buffer, part: 0 } = value.view() {
            self.access_data(buffer);
        }
        Ok(())
    }

    /// Enters a loop or thread. If its range is not arithmetic, the bounds of accesses that depend on it are unknown.
    fn enter_loop(&mut self, value: Value<'b>) {
        let Some(running) = Running::of(value) else { return };
        if let Some(sym) = symbol_of(running.var) {
            let thread = value.attr("thread").and_then(|thread| thread.as_str()).map(str::to_string);
            self.around.open(value, Around { sym, ends: running.ends(index_to_dim_of_atoms), thread });
        }
    }

    /// Adds a use of a buffer's data: the region that the enclosing block declares, or the whole buffer if there is
    /// none.
    fn access_data(&mut self, buffer: Value<'b>) {
        let Some(ty) = buffer.as_buffer_type().filter(|_| self.accessed.contains(buffer)) else { return };
        let said_by = |block: &Value<'b>| -> Vec<RegionAccess<'b>> {
            block.block_accesses().filter(|access| access.buffer == buffer).collect()
        };
        let said = self.blocks.iter().rev().map(said_by).find(|said| !said.is_empty());
        match said {
            Some(said) => said.iter().for_each(|access| self.access(buffer, &Part::region(&access.ranges))),
            None => {
                let number = |value, of: &Dim| Dim::int(value, of.dtype());
                let all = |extent: &Dim| Bounds {
                    min: Some(number(0, extent)),
                    max: Some(sub(extent.clone(), number(1, extent))),
                };
                self.join(buffer, ty.shape.iter().map(all).collect());
            }
        }
    }

    /// Adds an access to part of a buffer.
    fn access(&mut self, buffer: Value<'b>, parts: &[Part<'b>]) {
        let Some(accessed) = self.accessed.get(buffer) else { return };
        let (running, unknown) = self.running(accessed, parts);
        let mut reached = Reached::new(&mut self.analyzer, running, self.conditions.active());
        let ends = parts.iter().map(|part| {
            let start = Start::of(part.min);
            // Only a scalar has a known start.
            let is_scalar = start.min.ty().dtype().lanes() == 1;
            let first = index_to_dim_of_atoms(start.min).filter(|_| is_scalar)?;
            let last = match part.extent.and_then(index_to_dim_of_atoms) {
                _ if start.steps > 0 => add(first.clone(), Dim::int(start.steps, first.dtype())),
                Some(extent) => sub(add(first.clone(), extent), Dim::int(1, first.dtype())),
                None => first.clone(),
            };
            Some((reached.ends(&first).0, reached.ends(&last).1))
        });
        let ends: Vec<_> = ends.map(Option::unwrap_or_default).collect();
        let bounds = ends.into_iter().map(|(min, max)| Bounds {
            min: min.and_then(|min| self.least(min, buffer, &unknown)),
            max: max.filter(|max| self.is_most(max, buffer, &unknown)),
        });
        let bounds = bounds.collect();
        self.join(buffer, bounds);
    }

    /// Returns the lowest index of an access as an expression with the same value for all accesses of the buffer, or,
    /// if there is none, as a number.
    fn least(&mut self, min: Dim, buffer: Value<'b>, unknown: &[Sym]) -> Option<Dim> {
        let mut runs = false;
        min.vars(&mut |sym| runs |= unknown.contains(&sym));
        if !runs && self.lasting().lasts_from(&min, buffer) {
            return Some(min);
        }
        let least = self.analyzer.const_bounds(&min).min;
        (least >= 0).then(|| Dim::int(least, min.dtype()))
    }

    /// Returns true if the highest index of an access consists of expressions that have the same value for all accesses
    /// of the buffer, and of loads and similar values, which are bounded by the range of their data type.
    fn is_most(&self, max: &Dim, buffer: Value<'b>, unknown: &[Sym]) -> bool {
        let mut known = true;
        max.vars(&mut |sym| {
            let is_computed = || value_of_atom(self.body, sym).is_some_and(Value::is_nested);
            let lasts = || !unknown.contains(&sym) && self.lasting().lasts_from(&Dim::Var(sym), buffer);
            known = known && (is_computed() || lasts());
        });
        known
    }

    /// Returns the variables that vary between the allocation of a buffer and an access: loops, threads that share its
    /// memory, and names that the access uses. Also returns the variables of loops with unknown bounds.
    fn running(&self, accessed: &Accessed, parts: &[Part<'b>]) -> (Ends, Vec<Sym>) {
        let (mut running, mut unknown) = (Ends::new(), Vec::new());
        for (i, around) in self.around.iter().enumerate() {
            let shared = around.thread.as_deref().is_some_and(|thread| is_shared(&accessed.scope, thread));
            match &around.ends {
                _ if i < accessed.depth && !shared => {}
                Some(ends) => drop(running.insert(around.sym, ends.clone())),
                None => unknown.push(around.sym),
            }
        }
        for value in parts.iter().flat_map(|part| [Some(part.min), part.extent]).flatten() {
            if let Some(dim) = index_to_dim_of_atoms(value) {
                self.names.add_to(&mut running, &dim, accessed.names);
            }
        }
        (running, unknown)
    }

    fn join(&mut self, buffer: Value<'b>, new: Vec<Bounds>) {
        let mut reached = Reached::new(&mut self.analyzer, Ends::new(), std::iter::empty());
        let Some(accessed) = self.accessed.get_mut(buffer) else { return };
        let body = self.body;
        let is_computed = |bounds: &Bounds| bounds.ends().any(|end| has_nested(body, end));
        match &mut accessed.bounds {
            None => accessed.bounds = Some(new),
            Some(known) => known.iter_mut().zip(new).for_each(|(known, new)| {
                // A loaded value is unknown at the position of the other access.
                match *known != new && (is_computed(known) || is_computed(&new)) {
                    true => *known = Bounds::UNKNOWN,
                    false => known.join(new, &mut reached),
                }
            }),
        }
    }

    /// Returns the region of each accessed buffer.
    pub(super) fn regions(mut self, strict: bool) -> Result<ValueMap<'b, Vec<Range>>, PassError> {
        let mut regions = ValueMap::new(self.body);
        for buffer in std::mem::take(&mut self.buffers) {
            let (Some(ty), Some(accessed)) = (buffer.as_buffer_type(), self.accessed.remove(buffer)) else { continue };
            let Some(bounds) = accessed.bounds else {
                if buffer.is_block_buffer() {
                    bail!(at buffer, "found a buffer that is never accessed; remove it");
                }
                continue;
            };
            let region = bounds.into_iter().zip(&ty.shape).map(|(bounds, shape)| self.range(bounds, shape, strict));
            regions.insert(buffer, region.collect());
        }
        Ok(regions)
    }

    fn range(&mut self, bounds: Bounds, shape: &Dim, strict: bool) -> Range {
        let whole = Range::whole(shape.clone());
        let (Some(min), Some(max)) = (bounds.min, bounds.max) else { return whole };
        let (min, max) = (self.as_number(min), self.as_number(max));
        let extent = add(sub(max, min.clone()), Dim::int(1, min.dtype()));
        if extent.as_int().is_some_and(|number| !extent.dtype().has_integer(number.into())) {
            return whole;
        }
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
            if bounds.max >= arith::Bounds::of_dtype(extent.dtype()).max {
                return whole;
            }
            extent = Dim::int(bounds.max, extent.dtype());
        }
        Range { min, extent }
    }

    /// Replaces a bound that has only one value by a number.
    fn as_number(&mut self, end: Dim) -> Dim {
        let bounds = self.analyzer.const_bounds(&end);
        if bounds.min == bounds.max { Dim::int(bounds.min, end.dtype()) } else { end }
    }
}

/// Returns true if an index contains a load or another nested value.
fn has_nested(body: &Body, index: &Dim) -> bool {
    let mut found = false;
    index.vars(&mut |sym| found |= value_of_atom(body, sym).is_some_and(Value::is_nested));
    found
}

fn is_allocated(buffer: Value<'_>) -> bool {
    buffer.is_block_buffer() || buffer.is_allocation()
}

/// Returns true if threads of a kind share memory of a scope.
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

/// Returns the base of a ramp with positive constant stride, and its length minus one as TVM counts it: stride times
/// lanes, minus 1.
fn steps(index: Value<'_>) -> Option<(Value<'_>, i64)> {
    let Expr::Ramp { base, stride, lanes } = index.view() else { return None };
    let number = |value: Value<'_>| value.dim()?.as_int().filter(|number| *number > 0);
    Some((base, number(stride)?.checked_mul(number(lanes)?)? - 1))
}
