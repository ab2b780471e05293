//! Splits loops into parts in which conditions are known.
//!
//! *Expects* any PrimFunc. *Keeps* loops whose conditions hold within non-constant bounds. *Never* changes the order of
//! iterations.

mod interval;

use interval::{Interval, Solver};
use plugin_api::ir::loop_kind;
use plugin_api::prelude::*;
use plugin_api::scalar::PrimOp;
use plugin_api::tir::{Again, TirRewrite, has_jumps};
use std::collections::{HashMap, HashSet};

declare_pass! {
    /// Splits loops into parts in which conditions are known.
    ///
    /// A loop is split by conditions that are marked as `T.likely`, and by all of its conditions if the attribute
    /// `pragma_loop_partition_hint` names its variable. The marks are removed. Expects any PrimFunc. Keeps loops whose
    /// parts would not have constant bounds, and loops with a `break` or `continue`.
    ///
    /// ```relax before
    /// @T.prim_func(s_tir=True)
    /// def main(A: T.Buffer((16,), "int32")):
    ///     for i in range(16):
    ///         if T.likely(i < 16):
    ///             A[i] = 1
    /// ```
    /// ```relax after
    /// @T.prim_func(s_tir=True)
    /// def main(A: T.Buffer((16,), "int32")):
    ///     for i in range(16):
    ///         if i < 16:
    ///             A[i] = 1
    /// ```
    pub prim_func pass LOOP_PARTITION = "s_tir.LoopPartition" {
        opt_level: 0,
        run: loop_partition,
    }
}

declare_config! {
    /// True if loops with a known trip count are split without a hint.
    pub PARTITION_CONST_LOOP: bool = "s_tir.LoopPartition.partition_const_loop" { default: false }
}

declare_config! {
    /// True if a part with one iteration stays a loop.
    pub NO_UNROLL_LOOP_WITH_EXTENT_ONE: bool = "s_tir.LoopPartition.no_unroll_loop_with_extent_one" { default: false }
}

declare_config! {
    /// True if a loop with a hint becomes an `unroll` loop when it cannot be split.
    pub UNROLL_LOOP_WITHOUT_INTERVAL: bool = "s_tir.LoopPartition.unroll_loop_with_partition_hint_no_interval" {
        default: false,
    }
}

fn loop_partition<'b>(body: &'b Body, ctx: &'b Ctx) -> Result<Body, PassError> {
    let hints = body.values().filter_map(|value| match value.stmt()? {
        Stmt::Attr { key: "pragma_loop_partition_hint", value: holds } => {
            let holds = holds.dim().and_then(|holds| holds.as_int()).is_some_and(|holds| holds != 0);
            value.operand(1).filter(|_| holds)
        }
        _ => None,
    });
    let mut split = Partition {
        const_loops: PARTITION_CONST_LOOP.get(ctx),
        keeps_single: NO_UNROLL_LOOP_WITH_EXTENT_ONE.get(ctx),
        unrolls: UNROLL_LOOP_WITHOUT_INTERVAL.get(ctx),
        hints: hints.collect(),
        known: HashSet::new(),
        fixed: HashMap::new(),
        left: MOST_COPIES,
        missed: ValueSet::new(body),
        ctx,
    };
    split.rewrite(body)
}

/// Maximum number of nodes written as loop parts; a split loop multiplies the nodes of the loops inside it.
const MOST_COPIES: usize = 1 << 20;
const TOO_MANY: &str = "the loop is not split, because its parts would be duplicated too many times";

struct Partition<'b> {
    /// True if loops with constant bounds are split without a hint.
    const_loops: bool,
    keeps_single: bool,
    unrolls: bool,
    /// Variables mentioned by a hint.
    hints: HashSet<Value<'b>>,
    /// Conditions that are known in the part being written.
    known: HashSet<Value<'b>>,
    /// Variables with a single value: the variables of loops with one iteration, and of one-iteration parts that are
    /// being written.
    fixed: HashMap<Value<'b>, i64>,
    /// Number of nodes that may still be written as parts.
    left: usize,
    /// Loops that are not split because there would be too many parts, and are reported.
    missed: ValueSet<'b>,
    ctx: &'b Ctx,
}

/// A part of a loop. Its variable is the original variable minus the sum of `offsets`.
#[derive(Clone)]
struct Part<'b> {
    stmt: Value<'b>,
    var: Value<'b>,
    min: i64,
    max: i64,
    offsets: Vec<i64>,
}

impl<'b> TirRewrite<'b> for Partition<'b> {
    fn stmt(&mut self, stmt: Value<'b>, w: &mut Again<'b>) -> Result<(), PassError> {
        match stmt.stmt() {
            Some(Stmt::Attr { key: "pragma_loop_partition_hint", .. }) => w.content(self, stmt),
            Some(Stmt::For { var, min, extent, .. }) if self.is_candidate(stmt, var, min, extent) => {
                let range = int(min).zip(int(extent));
                match range.and_then(|(min, extent)| Some((min, last(min, extent)?))) {
                    Some((min, max)) => self.part(&Part { stmt, var, min, max, offsets: Vec::new() }, w),
                    None => self.whole(stmt, var, w),
                }
            }
            Some(Stmt::For { var, .. }) => self.whole(stmt, var, w),
            _ => w.stmt(self, stmt),
        }
    }

    fn expr(&mut self, expr: Value<'b>, w: &mut Again<'b>) -> Result<V, PassError> {
        match mark(expr) {
            Some(cond) => self.expr(cond, w),
            None => w.expr(self, expr),
        }
    }
}

impl<'b> Partition<'b> {
    fn has_hint(&self, var: Value<'b>) -> bool {
        var.operand(0).is_some_and(|of| self.hints.contains(&of))
    }

    fn is_candidate(&self, stmt: Value<'b>, var: Value<'b>, min: Value<'b>, extent: Value<'b>) -> bool {
        // After a `break`, later parts of the loop would still execute. Each part of a loop with a step would have to
        // begin at one of the values of the loop.
        if has_jumps(stmt) || stmt.loop_step().is_some() {
            return false;
        }
        let is_const = int(min).is_some() && int(extent).is_some();
        self.has_hint(var) || (!is_const || self.const_loops) && !self.conditions(stmt, var).is_empty()
    }

    /// Writes a loop unsplit.
    fn whole(&mut self, stmt: Value<'b>, var: Value<'b>, w: &mut Again<'b>) -> Result<(), PassError> {
        let only = match stmt.stmt() {
            Some(Stmt::For { min, extent, .. }) if int(extent) == Some(1) => int(min),
            _ => None,
        };
        self.fixed.extend(only.map(|only| (var, only)));
        if stmt.n_operands() != 2 || !self.has_hint(var) {
            return w.stmt(self, stmt);
        }
        let ops = w.operands(self, stmt)?;
        w.loop_like(stmt, ops[0], ops[1], |w, new| {
            w.set(var, new);
            w.iteration(self, stmt, var)
        })
    }

    /// Writes a part of a loop, split further if conditions differ within it.
    fn part(&mut self, part: &Part<'b>, w: &mut Again<'b>) -> Result<(), PassError> {
        // The total is at most the largest value of the loop variable, so the sum does not overflow.
        let total: i64 = part.offsets.iter().sum();
        let conditions = self.conditions(part.stmt, part.var);
        let solver = Solver::new(part.stmt, part.var, &self.fixed);
        let mut solved: Vec<(Value<'b>, bool, Interval)> = Vec::new();
        for cond in conditions {
            for holds in [true, false] {
                let interval = solver.solve(cond, holds).and_then(|interval| interval.less(total));
                solved.extend(interval.map(|interval| (cond, holds, interval)));
            }
        }
        let range = Interval::of(part.min, part.max);
        let hint = self.has_hint(part.var);
        let found = [true, false].into_iter().find_map(|holds| {
            let (interval, conditions) = common(&solved, range, holds, hint)?;
            Some((interval, conditions, holds))
        });
        let cost = part.stmt.region().nodes().count().saturating_mul(3);
        let left = self.left.checked_sub(cost);
        if found.is_some() && left.is_none() && self.missed.insert(part.stmt) {
            self.ctx.diagnostics().missed(part.stmt, TOO_MANY);
        }
        match found.zip(left) {
            Some(((interval, conditions, holds), left)) => {
                self.left = left;
                self.split(part, interval, (&conditions, holds), w)
            }
            None => {
                let points = !solved.is_empty() && solved.iter().all(|(_, _, interval)| interval.is_point());
                let unroll = hint && self.unrolls && part.max > part.min && !solved.is_empty() && !points;
                self.single(part, if unroll { Some(loop_kind::UNROLL) } else { None }, w)
            }
        }
    }

    /// Writes the part before an interval, the interval in which conditions are known, and the part after it.
    fn split(
        &mut self,
        part: &Part<'b>,
        interval: Interval,
        (conditions, holds): (&[Value<'b>], bool),
        w: &mut Again<'b>,
    ) -> Result<(), PassError> {
        let begin = interval.min.map_or(part.min, |min| min.max(part.min));
        let end = interval.max.map_or(part.max, |max| max.min(part.max)) + 1;
        if begin > part.min {
            self.sub(part, part.min, begin - part.min, w)?;
        }
        let before: Vec<Option<V>> = conditions.iter().map(|cond| w.meaning(*cond)).collect();
        for cond in conditions {
            self.known.insert(*cond);
            let truth = w.int(holds.into(), DType::BOOL);
            w.set(*cond, truth);
        }
        self.sub(part, begin, end - begin, w)?;
        for (cond, before) in conditions.iter().zip(before) {
            self.known.remove(cond);
            match before {
                Some(before) => w.set(*cond, before),
                None => w.unset(*cond),
            }
        }
        if end <= part.max {
            self.sub(part, end, part.max + 1 - end, w)?;
        }
        Ok(())
    }

    /// Writes `n` iterations of a part, starting at `from`.
    fn sub(&mut self, part: &Part<'b>, from: i64, n: i64, w: &mut Again<'b>) -> Result<(), PassError> {
        let mut sub = Part { min: 0, max: n - 1, ..part.clone() };
        sub.offsets.push(from);
        let annotated = part.stmt.attrs().iter().any(|(key, _)| !matches!(key, "kind" | "thread"));
        if n == 1 && !self.keeps_single && !annotated {
            let zero = w.int(0, part.var.ty().dtype());
            self.mean(&sub, zero, w);
            self.fixed.insert(sub.var, sub.offsets.iter().sum());
            w.iteration(self, sub.stmt, sub.var)?;
            self.fixed.remove(&sub.var);
            return Ok(());
        }
        if self.has_hint(part.var) || self.const_loops { self.part(&sub, w) } else { self.single(&sub, None, w) }
    }

    /// Writes a part as one loop.
    fn single(&mut self, part: &Part<'b>, kind: Option<&str>, w: &mut Again<'b>) -> Result<(), PassError> {
        if part.offsets.is_empty() && kind.is_none() {
            return self.whole(part.stmt, part.var, w);
        }
        let dtype = part.var.ty().dtype();
        let range = (w.int(part.min, dtype), w.int(part.max - part.min + 1, dtype));
        let mut content = |w: &mut Again<'b>, new: V| {
            self.mean(part, new, w);
            w.iteration(self, part.stmt, part.var)
        };
        match kind {
            Some(kind) => w.loop_as(part.stmt, kind, range, &mut content),
            None => w.loop_like(part.stmt, range.0, range.1, &mut content),
        }
    }

    /// Maps the loop variable to its value in a part.
    fn mean(&self, part: &Part<'b>, new: V, w: &mut Again<'b>) {
        let mut v = new;
        for offset in part.offsets.iter().rev().filter(|offset| **offset != 0) {
            let by = w.int(*offset, part.var.ty().dtype());
            v = w.binary(PrimOp::Add, v, by);
        }
        w.set(part.var, v);
    }

    /// Returns the conditions in a loop that use its variable and are not known: the marked conditions, or all of them
    /// if there is a hint.
    fn conditions(&self, stmt: Value<'b>, var: Value<'b>) -> Vec<Value<'b>> {
        let hint = self.has_hint(var);
        let (mut out, mut work) = (Vec::new(), Vec::new());
        for node in stmt.region().nodes().filter(|node| !node.is_nested()) {
            work.extend(node.operands().rev());
            while let Some(value) = work.pop() {
                let marked = mark(value);
                let cond = marked.unwrap_or(value);
                if self.known.contains(&cond) || is_ignored(value) {
                    continue;
                }
                if (hint || marked.is_some()) && interval::is_comparison(cond) {
                    out.extend(interval::uses(cond, var).then_some(cond));
                } else if marked.is_none() && value.is_nested() {
                    work.extend(value.operands().rev());
                }
            }
        }
        out
    }
}

/// Returns true if a condition is marked to be ignored by this pass.
fn is_ignored(expr: Value<'_>) -> bool {
    expr.as_call_to("tirx.ignore_loop_partition").is_some()
}

/// Returns the iterations in which conditions of one kind are known, and these conditions. If there is a hint and the
/// conditions are not all known at the same time, the conditions found last are returned.
fn common<'b>(
    solved: &[(Value<'b>, bool, Interval)],
    range: Interval,
    holds: bool,
    hint: bool,
) -> Option<(Interval, Vec<Value<'b>>)> {
    let of_kind = solved.iter().filter(|(_, kind, interval)| *kind == holds && !interval.and(range).is_empty());
    let all: Vec<(Value<'b>, Interval)> = of_kind.map(|(cond, _, interval)| (*cond, *interval)).collect();
    let whole = all.iter().fold(Interval::default(), |whole, (_, interval)| whole.and(*interval));
    if all.is_empty() {
        return None;
    }
    if !whole.is_empty() {
        return Some((whole, all.into_iter().map(|(cond, _)| cond).collect()));
    }
    let (mut some, mut conditions) = (Interval::default(), Vec::new());
    for (cond, interval) in all.into_iter().rev().filter(|_| hint) {
        if some.and(interval).is_empty() {
            break;
        }
        some = some.and(interval);
        conditions.push(cond);
    }
    (!conditions.is_empty()).then_some((some, conditions))
}

/// Returns the condition marked by a hint for this pass.
fn mark(expr: Value<'_>) -> Option<Value<'_>> {
    let call = expr.as_call()?;
    matches!(call.op()?, "tirx.likely" | "prim.likely" | "tirx.ignore_loop_partition").then(|| call.arg(0))?
}

/// Returns the last value of a loop, if the following number does not overflow.
fn last(min: i64, extent: i64) -> Option<i64> {
    Some(min.checked_add(extent)? - 1)
}

fn int(value: Value<'_>) -> Option<i64> {
    value.dim()?.as_int()
}
