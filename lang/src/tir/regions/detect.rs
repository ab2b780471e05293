//! Infers the accesses of a schedulable block, or of the content of a loop, to the buffers around it.

use super::conditions::{Condition, parts_of};
use super::linear::{add, mul, sub};
use super::reached::{Ends, Reached, Running};
use super::region::{Bounds, Range};
use crate::arith::{Analyzer, index_to_dim, index_to_dim_of_atoms, substitute, symbol_of, value_of_atom};
use crate::ir::records::{buffer_of, kind};
use crate::ir::{Body, DType, Dim, DimExpr, Expr, Stmt, Sym, Value};
use crate::walk::open_scopes::OpenScopes;
use std::collections::{HashMap, HashSet};

/// A part of a buffer: its start and extent in each dimension.
#[derive(Clone, Debug)]
pub struct BufferRegion<'b> {
    /// The buffer.
    pub buffer: Value<'b>,
    /// Start and extent in each dimension.
    pub ranges: Vec<Range>,
}

/// The reads and writes, one region per buffer, in the order of the first accesses.
#[derive(Clone, Debug, Default)]
pub struct Accessed<'b> {
    /// Regions that are read.
    pub reads: Vec<BufferRegion<'b>>,
    /// Regions that are written.
    pub writes: Vec<BufferRegion<'b>>,
    /// Buffers whose data is used in a way that may read or write the buffer.
    pub opaque: Vec<BufferRegion<'b>>,
}

/// Infers the accesses of blocks and loops of a function to the buffers around them.
///
/// Inner blocks are not analysed again: their declared or previously inferred accesses are used. This follows TVM's
/// `GetSBlockAccessRegion`, except that a region never mentions values defined in the content.
pub struct Detector<'b> {
    body: &'b Body,
    analyzer: Analyzer,
    /// The scalar of each symbolic variable.
    symbols: HashMap<u32, usize>,
    /// The inferred accesses of blocks without declarations: reads, then writes.
    found: HashMap<usize, [Option<Vec<BufferRegion<'b>>>; 2]>,
}

impl<'b> Detector<'b> {
    /// Creates a detector for a function.
    pub fn new(body: &'b Body) -> Detector<'b> {
        let symbols = body.values().filter_map(|value| Some((value.symbol()?.id, value.index()?))).collect();
        Detector { body, analyzer: Analyzer::new(), symbols, found: HashMap::new() }
    }

    /// Returns the accesses of the content of a block or loop.
    pub fn accessed_in(&mut self, header: Value<'b>) -> Accessed<'b> {
        let mut content = Content::new(self, header);
        content.walk();
        let [mut reads, writes, opaque] = content.regions;
        if header.block_init().is_some() {
            // A reduction reads the elements that it initialized, but these reads do not count.
            reads.all.retain(|(buffer, _)| !writes.at.contains_key(&buffer.word()));
        }
        let [reads, writes, opaque] = [reads, writes, opaque].map(|regions| self.ranges(regions.all));
        Accessed { reads, writes, opaque }
    }

    /// Sets the accesses of a block that does not declare them.
    pub(super) fn note(&mut self, block: Value<'b>, accessed: &Accessed<'b>) {
        let Some(at) = block.index() else { return };
        let unsaid = |key: &str, regions: &Vec<BufferRegion<'b>>| block.attr(key).map(|_| regions.clone());
        self.found.insert(at, [unsaid("no_reads", &accessed.reads), unsaid("no_writes", &accessed.writes)]);
    }

    fn ranges(&mut self, regions: Vec<(Value<'b>, Vec<Bounds>)>) -> Vec<BufferRegion<'b>> {
        let mut ranges = |(buffer, bounds): (Value<'b>, Vec<Bounds>)| {
            let shape = buffer.as_buffer_type().map(|ty| ty.shape).unwrap_or_default();
            let ranges = bounds.into_iter().zip(shape);
            let ranges = ranges.map(|(bounds, shape)| range(&mut self.analyzer, bounds, shape)).collect();
            BufferRegion { buffer, ranges }
        };
        regions.into_iter().map(&mut ranges).collect()
    }
}

/// Returns the range with the given bounds; the whole dimension if nothing is known.
fn range(analyzer: &mut Analyzer, bounds: Bounds, shape: Dim) -> Range {
    let (Some(min), Some(max)) = (bounds.min, bounds.max) else {
        // As in TVM, the start is an int32, whatever the data type of the shape.
        return Range { min: Dim::int(0, DType::I32), extent: shape };
    };
    let one = Dim::int(1, min.dtype());
    if min == max || analyzer.prove_equal(&min, &max) == Some(true) {
        return Range { min, extent: one };
    }
    let extent = sub(add(max, one), min.clone());
    Range { min: analyzer.simplify(&min), extent: analyzer.simplify(&extent) }
}

/// The greatest number of variables in a bound of a region. A bound with more variables is treated as unknown, to keep the analysis linear.
const MOST_VARIABLES: usize = 64;

const READ: usize = 0;
const WRITE: usize = 1;
const OPAQUE: usize = 2;

/// The bounds known for each accessed buffer.
#[derive(Default)]
struct Regions<'b> {
    all: Vec<(Value<'b>, Vec<Bounds>)>,
    /// The position of each buffer in `all`.
    at: HashMap<u32, usize>,
}

/// The memory that a buffer access refers to.
enum Target<'b> {
    /// The buffer itself.
    Itself,
    /// A region of another buffer.
    Matched(Value<'b>, Vec<(Dim, Dim)>),
    /// An unknown part of another buffer.
    PartOf(Value<'b>),
    /// No buffer outside the content.
    Nothing,
}

/// A step of the traversal of an expression.
enum Step<'b> {
    Visit(Value<'b>),
    Begin(Condition<'b>),
    End,
}

/// The content of a block or loop, during an in-order traversal.
struct Content<'a, 'b> {
    of: &'a mut Detector<'b>,
    header: Value<'b>,
    /// The iterators of the block, or the variable of the loop.
    own: HashSet<usize>,
    /// Blocks in the content.
    blocks: OpenScopes<()>,
    loops: OpenScopes<(Sym, (Dim, Dim))>,
    branches: OpenScopes<Condition<'b>>,
    /// Upcoming branches with their conditions, the next one last.
    ahead: Vec<(Value<'b>, Condition<'b>)>,
    /// The conditions of the enclosing sides of choices at the current expression.
    choices: Vec<Condition<'b>>,
    /// The values of named scalars, and of iterators of blocks, in the content.
    values: HashMap<Sym, Dim>,
    regions: [Regions<'b>; 3],
}

impl<'a, 'b> Content<'a, 'b> {
    fn new(of: &'a mut Detector<'b>, header: Value<'b>) -> Content<'a, 'b> {
        let is_own = |value: &Value<'b>| matches!(value.kind(), kind::ITER_VAR | kind::LOOP_VAR);
        let own = header.region().children().filter(is_own).filter_map(Value::index).collect();
        let (loops, branches, blocks) = (OpenScopes::new(), OpenScopes::new(), OpenScopes::new());
        let (ahead, choices, values) = (Vec::new(), Vec::new(), HashMap::new());
        Content { of, header, own, blocks, loops, branches, ahead, choices, values, regions: Default::default() }
    }

    fn walk(&mut self) {
        for value in self.header.region().nodes() {
            self.blocks.go_to(value);
            if self.blocks.is_empty() && !value.is_nested() {
                self.loops.go_to(value);
                self.branches.go_to(value);
                self.visit(value);
            }
        }
    }

    fn visit(&mut self, value: Value<'b>) {
        if let Some(branch) = self.ahead.pop_if(|(branch, _)| *branch == value) {
            self.branches.open(value, branch.1);
        }
        match value.kind() {
            kind::WHERE | kind::ANNOTATE => {}
            // The value of the iterator in the enclosing loops is evaluated outside the block.
            kind::ITER_VAR => value.operands().take(2).for_each(|operand| self.expression(operand)),
            kind::BUFFER if is_view(value) => value.operands().skip(1).for_each(|operand| self.expression(operand)),
            kind::SBLOCK => self.block(value),
            kind::STORE => {
                if let Some(access) = value.as_element_access() {
                    self.element(WRITE, access.buffer, &access.indices);
                }
                value.operands().skip(1).for_each(|operand| self.expression(operand));
            }
            _ => value.operands().for_each(|operand| self.expression(operand)),
        }
        if let Some(running) = Running::of(value) {
            self.enter(value, &running);
        }
        match value.stmt() {
            Some(Stmt::If { cond }) => {
                let branches = value.if_branches().zip([false, true]);
                let branches = branches.map(|(branch, negated)| (branch, Condition { cond, negated }));
                let branches: Vec<_> = branches.collect();
                self.ahead.extend(branches.into_iter().rev());
            }
            Some(Stmt::Bind { value: named }) => {
                if let (Some(sym), Some(dim)) = (symbol_of(value), self.dim(named)) {
                    self.values.insert(sym, dim);
                }
            }
            _ => {}
        }
    }

    fn enter(&mut self, header: Value<'b>, running: &Running<'b>) {
        if let (Some(sym), Some(ends)) = (symbol_of(running.var), running.ends(|value| self.dim(value))) {
            self.loops.open(header, (sym, ends));
        }
    }

    /// Adds the declared accesses of a block in the content, in terms of values defined outside the block.
    fn block(&mut self, block: Value<'b>) {
        self.blocks.open(block, ());
        for iter in block.block_iters() {
            if let (Some(sym), Some(dim)) = (symbol_of(iter.var), self.dim(iter.value)) {
                self.values.insert(sym, dim);
            }
        }
        let found = block.index().and_then(|at| self.of.found.get(&at).cloned()).unwrap_or_default();
        for (which, found) in [READ, WRITE].into_iter().zip(found) {
            let said = block.block_accesses().filter(|access| usize::from(access.is_write) == which);
            let said = said.map(|access| {
                let ends = access.ranges.iter().map(|(min, extent)| self.dim(*min).zip(self.dim(*extent))).collect();
                (access.buffer, ends)
            });
            let said: Vec<(Value<'b>, Vec<_>)> = match found {
                None => said.collect(),
                Some(found) => found.into_iter().map(|region| (region.buffer, self.written_inside(&region))).collect(),
            };
            for (buffer, ranges) in said {
                let bounds = ranges.into_iter().map(|range| match range {
                    Some((min, extent)) => self.bounds_of_range(min, extent),
                    None => Bounds::UNKNOWN,
                });
                let bounds = bounds.collect();
                self.add(which, buffer, bounds);
            }
        }
    }

    /// Returns the region inferred for a block in the content, with its variables replaced by their values.
    fn written_inside(&self, region: &BufferRegion<'b>) -> Vec<Option<(Dim, Dim)>> {
        region.ranges.iter().map(|range| Some((self.meant(&range.min), self.meant(&range.extent)))).collect()
    }

    /// Visits an expression and its nested expressions: users before their operands, as TVM does.
    fn expression(&mut self, root: Value<'b>) {
        let mut work = vec![Step::Visit(root)];
        while let Some(step) = work.pop() {
            match step {
                Step::Visit(value) if value.is_nested() => self.part(value, &mut work),
                Step::Visit(_) => {}
                Step::Begin(condition) => self.choices.push(condition),
                Step::End => drop(self.choices.pop()),
            }
        }
    }

    fn part(&mut self, value: Value<'b>, work: &mut Vec<Step<'b>>) {
        if let Some(access) = value.as_element_access() {
            self.element(READ, access.buffer, &access.indices);
        }
        if let Expr::BufferPart { buffer, part: 0 } = value.view() {
            self.whole(OPAQUE, buffer);
        }
        if let Some(call) = value.as_call_to("tirx.tvm_access_ptr") {
            let mask = call.arg(4).and_then(|mask| mask.dim()?.as_int());
            if let (Some(Expr::BufferPart { buffer, part: 0 }), Some(mask)) = (call.arg(1).map(Value::view), mask) {
                match mask & 3 {
                    1 => self.whole(READ, buffer),
                    2 => self.whole(WRITE, buffer),
                    3 => self.whole(OPAQUE, buffer),
                    _ => {}
                }
                return;
            }
        }
        if let Some(call) = value.as_call_to("tirx.if_then_else")
            && let [cond, then, otherwise] = call.args().collect::<Vec<_>>()[..]
        {
            for (side, negated) in [(otherwise, true), (then, false)] {
                work.extend([Step::End, Step::Visit(side), Step::Begin(Condition { cond, negated })]);
            }
            return work.push(Step::Visit(cond));
        }
        let operands: Vec<Value<'b>> = value.operands().collect();
        work.extend(operands.into_iter().rev().map(Step::Visit));
    }

    fn element(&mut self, which: usize, buffer: Value<'b>, indices: &[Value<'b>]) {
        let bounds = indices.iter().map(|index| self.bounds(*index)).collect();
        self.add(which, buffer, bounds);
    }

    /// Adds an access of a whole buffer.
    fn whole(&mut self, which: usize, buffer: Value<'b>) {
        let shape = buffer.as_buffer_type().map(|ty| ty.shape).unwrap_or_default();
        let all = |extent: Dim| Bounds {
            min: Some(Dim::int(0, extent.dtype())),
            max: Some(sub(extent.clone(), Dim::int(1, extent.dtype()))),
        };
        self.add(which, buffer, shape.into_iter().map(all).collect());
    }

    /// Adds an access of a region.
    fn add(&mut self, which: usize, buffer: Value<'b>, bounds: Vec<Bounds>) {
        match self.target(buffer) {
            Target::Nothing => {}
            Target::PartOf(other) => self.whole(which, other),
            Target::Matched(source, ranges) => {
                let bounds = self.in_source(buffer, bounds, ranges);
                self.add(which, source, bounds);
            }
            Target::Itself => self.join(which, buffer, bounds),
        }
    }

    fn join(&mut self, which: usize, buffer: Value<'b>, bounds: Vec<Bounds>) {
        let (regions, analyzer) = (&mut self.regions[which], &mut self.of.analyzer);
        let next = regions.all.len();
        let at = *regions.at.entry(buffer.word()).or_insert(next);
        match regions.all.get_mut(at) {
            None => regions.all.push((buffer, bounds)),
            Some((_, known)) => known.iter_mut().zip(bounds).for_each(|(known, new)| join(analyzer, known, new)),
        }
    }

    /// Translates the bounds of a matched buffer to the buffer that contains the matched region.
    fn in_source(&mut self, buffer: Value<'b>, bounds: Vec<Bounds>, source: Vec<(Dim, Dim)>) -> Vec<Bounds> {
        let shape = buffer.as_buffer_type().map(|ty| ty.shape).unwrap_or_default();
        let before = source.len().saturating_sub(bounds.len());
        let mut out = Vec::new();
        for (min, extent) in &source[..before] {
            out.push(self.bounds_of_range(min.clone(), extent.clone()));
        }
        for ((bounds, shape), (start, _)) in bounds.into_iter().zip(shape).zip(source.into_iter().skip(before)) {
            let Range { min, extent } = range(&mut self.of.analyzer, bounds, shape);
            // As in TVM, the start of the matched region comes first, without simplification.
            out.push(self.bounds_of_range(add(start, min), extent));
        }
        out
    }

    fn target(&self, buffer: Value<'b>) -> Target<'b> {
        let inside = buffer.index().is_some_and(|at| self.header.region().range().contains(&at));
        let viewed = || match buffer.operand(0).map(Value::view) {
            Some(Expr::BufferPart { buffer, part: 0 }) => Some(buffer),
            _ => None,
        };
        if let Some(region) = buffer.matched_region().filter(|_| inside) {
            let ends = region.ranges.iter().map(|(min, extent)| self.dim(*min).zip(self.dim(*extent)));
            return match ends.collect() {
                Some(ranges) => Target::Matched(region.buffer, ranges),
                None => Target::PartOf(region.buffer),
            };
        }
        match (is_view(buffer), inside) {
            (true, true) => viewed().map_or(Target::Nothing, Target::PartOf),
            // A view is relevant if its source buffer is relevant.
            (true, false) => viewed().map_or(Target::Nothing, |of| match self.target(of) {
                Target::Nothing => Target::Nothing,
                _ => Target::Itself,
            }),
            (false, true) => Target::Nothing,
            (false, false) => {
                let is_matched = buffer.kind() == kind::BUFFER && buffer.matched_region().is_some();
                let is_known = buffer.is_matched_param() || is_matched;
                match is_known || buffer.is_block_buffer() || buffer.is_allocation() {
                    true => Target::Itself,
                    false => Target::Nothing,
                }
            }
        }
    }

    /// Returns the bounds of an index.
    fn bounds(&mut self, index: Value<'b>) -> Bounds {
        match index.view() {
            Expr::Broadcast { value, .. } => self.bounds(value),
            Expr::Ramp { base, stride, lanes } => {
                let Bounds { min, max } = self.bounds(base);
                let number = |value: Value<'b>| value.dim()?.as_int();
                let steps = number(stride).zip(number(lanes)).and_then(|(by, lanes)| by.checked_mul(lanes - 1));
                let Some(steps) = steps else { return Bounds::UNKNOWN };
                let moved = |end: Dim, by| add(end.clone(), mul(Dim::int(1, end.dtype()), Dim::int(by, end.dtype())));
                let (least, most) = (steps.min(0), steps.max(0));
                Bounds { min: min.map(|min| moved(min, least)), max: max.map(|max| moved(max, most)) }
            }
            Expr::Select { then, otherwise, .. } => {
                let (mut then, otherwise) = (self.bounds(then), self.bounds(otherwise));
                join(&mut self.of.analyzer, &mut then, otherwise);
                then
            }
            _ => match self.dim(index).filter(|_| index.ty().dtype().lanes() == 1) {
                Some(dim) => self.ends(&dim),
                None => Bounds::UNKNOWN,
            },
        }
    }

    fn bounds_of_range(&mut self, min: Dim, extent: Dim) -> Bounds {
        let first = self.ends(&min);
        if extent.as_int() == Some(1) {
            return first;
        }
        let last = sub(add(min.clone(), extent), Dim::int(1, min.dtype()));
        Bounds { min: first.min, max: self.ends(&last).max }
    }

    /// Returns the least and greatest value of an index, as far as they can be expressed outside the content.
    fn ends(&mut self, index: &Dim) -> Bounds {
        let running: Ends = self.loops.iter().cloned().collect();
        let mut runs = false;
        index.vars(&mut |sym| runs |= running.contains_key(&sym));
        let (min, max) = match runs {
            false => (Some(index.clone()), Some(index.clone())),
            true => {
                let conditions: Vec<_> = self.conditions().flat_map(|condition| usable(condition, &running)).collect();
                let mut reached = Reached::new(&mut self.of.analyzer, running, std::iter::empty());
                conditions.into_iter().for_each(|(cond, negated)| reached.assume(cond, negated));
                reached.ends(index)
            }
        };
        Bounds { min: min.filter(|end| self.is_known(end)), max: max.filter(|end| self.is_known(end)) }
    }

    fn conditions(&self) -> impl Iterator<Item = &Condition<'b>> {
        self.branches.iter().chain(&self.choices)
    }

    /// Returns true if a bound uses only scalars defined outside the content, and no calls.
    fn is_known(&self, end: &Dim) -> bool {
        let mut known = true;
        end.vars(&mut |sym| {
            let value = value_of_atom(self.of.body, sym);
            let value = value.or_else(|| self.of.symbols.get(&sym.id).map(|at| self.of.body.value_at(*at)));
            known &= value.is_none_or(|value| self.is_outside(value));
        });
        known
    }

    fn is_outside(&self, value: Value<'b>) -> bool {
        let mut work = vec![value];
        while let Some(value) = work.pop() {
            let Some(at) = value.index() else { continue };
            if value.is_nested() {
                if value.as_call().is_some() || matches!(value.view(), Expr::Let { .. }) {
                    return false;
                }
                work.extend(value.operands());
            } else if self.header.region().range().contains(&at) && !self.own.contains(&at) {
                return false;
            }
        }
        true
    }

    /// Returns an index in terms of outer values and of loops in the content; `None` if TVM cannot analyse its operations.
    fn dim(&self, value: Value<'b>) -> Option<Dim> {
        let dim = index_to_dim_of_atoms(value).filter(|dim| !has_bits(dim))?;
        Some(self.meant(&dim))
    }

    fn meant(&self, dim: &Dim) -> Dim {
        if self.values.is_empty() { dim.clone() } else { substitute(dim, &|sym| self.values.get(&sym).cloned()) }
    }
}

/// Returns true if a dimension contains a bitwise operation.
fn has_bits(dim: &Dim) -> bool {
    let mut work = vec![dim];
    while let Some(dim) = work.pop() {
        let Dim::Expr(expr) = dim else { continue };
        match &**expr {
            // Results of bitwise operations have unknown bounds.
            DimExpr::Binary(op, ..) if op.is_bitwise() => return true,
            DimExpr::Binary(_, _, a, b) => work.extend([a, b]),
            DimExpr::Unary(_, _, a) => work.push(a),
            _ => {}
        }
    }
    false
}

/// Widens bounds to include other bounds.
fn join(analyzer: &mut Analyzer, known: &mut Bounds, new: Bounds) {
    let short = |end: &Dim| {
        let mut variables = 0;
        end.vars(&mut |_| variables += 1);
        variables <= MOST_VARIABLES
    };
    known.min = known.min.take().zip(new.min).map(|(a, b)| analyzer.least(a, b)).filter(short);
    known.max = known.max.take().zip(new.max).map(|(a, b)| analyzer.greatest(a, b)).filter(short);
}

/// Returns the comparisons of a condition, if they contain only running variables, because TVM solves only these.
fn usable<'b>(condition: &Condition<'b>, running: &Ends) -> Vec<(Value<'b>, bool)> {
    let mut usable = Vec::new();
    for (part, negated) in parts_of(condition.cond, condition.negated) {
        let Expr::Arith { op, a, b: Some(b) } = part.view() else { continue };
        if !op.is_comparison() {
            continue;
        }
        let (Some(a), Some(b)) = (index_to_dim(a), index_to_dim(b)) else { continue };
        let (mut all, mut any) = (true, false);
        for dim in [&a, &b] {
            dim.vars(&mut |sym| (all, any) = (all && running.contains_key(&sym), true));
        }
        if !all {
            return Vec::new();
        }
        if any {
            usable.push((part, negated));
        }
    }
    usable
}

/// Returns true for a buffer over the data of another buffer.
fn is_view(buffer: Value<'_>) -> bool {
    let of = buffer.node().filter(|node| node.kind == kind::BUFFER).map(|node| node.a);
    matches!(of, Some(buffer_of::DECL | buffer_of::VIEW))
}
