//! Represents indices as sums of loop variables with steps, if they cover a range without gaps. TVM writes such sums
//! from the largest step to the smallest.

use plugin_api::arith::prove_equal;
use plugin_api::prelude::*;
use plugin_api::scalar::PrimOp;
use plugin_api::tir::regions::linear::{add, mul, parts, sub};
use std::collections::HashMap;

/// Start and extent of each loop variable.
pub(crate) type Ranges = HashMap<Sym, (Dim, Dim)>;

/// The ranges that hold under conditions; they may be smaller than those of the loops.
pub(crate) struct Known<'r> {
    pub(crate) loops: &'r Ranges,
    pub(crate) constrained: Ranges,
    /// Sums of loop variables that conditions bound.
    pub(crate) groups: Vec<Group>,
}

/// A sum of parts of loop variables that covers a range without gaps, between a lower and an upper bound.
pub(crate) struct Group {
    splits: Vec<Split>,
    /// The sum in TVM's form.
    sum: Dim,
    least: i64,
    most: i64,
}

impl Group {
    /// Creates the group of a sum without a constant, with the bounds that are given. Returns `None` if the sum does
    /// not cover a range.
    pub(crate) fn of(sum: &Dim, least: Option<i64>, most: Option<i64>, ranges: &Known<'_>) -> Option<Group> {
        let IterSum { splits, base } = IterSum::of(sum, ranges)?;
        if splits.len() < 2 || base.as_int() != Some(0) {
            return None;
        }
        let last = |split: &Split| split.extent.as_int()?.checked_sub(1)?.checked_mul(split.scale.as_int()?);
        let whole = splits.iter().map(last).try_fold(0i64, |whole, last| whole.checked_add(last?))?;
        let ordered = IterSum { splits: splits.clone(), base }.fused(sum.dtype())?;
        let (least, most) = (least.unwrap_or(0).max(0), most.unwrap_or(whole).min(whole));
        (least <= most).then_some(Group { splits, sum: ordered, least, most })
    }
}

impl Known<'_> {
    pub(crate) fn get(&self, sym: &Sym) -> Option<&(Dim, Dim)> {
        self.constrained.get(sym).or_else(|| self.loops.get(sym))
    }
}

/// A part of an index: `(source // lower) % extent * scale`.
#[derive(Clone, Debug)]
struct Split {
    source: Dim,
    /// Number of values of the source.
    whole: Dim,
    lower: i64,
    extent: Dim,
    scale: Dim,
}

/// A sum of parts of loop variables, and of terms without loop variables.
#[derive(Clone, Debug)]
struct IterSum {
    splits: Vec<Split>,
    base: Dim,
}

/// Returns the index in the form of TVM if it covers a range without gaps; otherwise `None`.
pub(crate) fn in_order(dim: &Dim, ranges: &Known<'_>) -> Option<Dim> {
    let mut sum = IterSum::of(dim, ranges)?;
    for group in &ranges.groups {
        sum.gather(group)?;
    }
    if sum.splits.is_empty() { Some(sum.base) } else { sum.fused(dim.dtype()) }
}

/// Returns true if an index contains the quotient or remainder of anything other than a part of one loop variable. TVM
/// keeps the written order of such an index.
pub(crate) fn divides_a_sum(dim: &Dim, ranges: &Known<'_>) -> bool {
    match parts(dim) {
        Some((PrimOp::FloorDiv | PrimOp::FloorMod, ..)) if speaks_of(dim, ranges) => IterSum::of(dim, ranges).is_none(),
        Some((_, a, b)) => divides_a_sum(a, ranges) || divides_a_sum(b, ranges),
        None => false,
    }
}

impl IterSum {
    fn of(dim: &Dim, ranges: &Known<'_>) -> Option<IterSum> {
        if let Dim::Var(sym) = dim
            && let Some((min, extent)) = ranges.get(sym)
        {
            return Some(IterSum::of_variable(dim, min, extent));
        }
        let alone = || IterSum { splits: Vec::new(), base: dim.clone() };
        if !speaks_of(dim, ranges) {
            return Some(alone());
        }
        let (op, a, b) = parts(dim)?;
        let (mut a, b) = (IterSum::of(a, ranges)?, IterSum::of(b, ranges)?);
        match op {
            PrimOp::Add => {
                b.splits.into_iter().for_each(|split| a.add(split));
                a.base = add(a.base, b.base);
                Some(a)
            }
            PrimOp::Sub => {
                let zero = Dim::int(0, dim.dtype());
                for split in b.splits {
                    a.add(Split { scale: sub(zero.clone(), split.scale), ..split });
                }
                a.base = sub(a.base, b.base);
                Some(a)
            }
            PrimOp::Mul if a.splits.is_empty() => Some(b.times(&a.base)),
            PrimOp::Mul if b.splits.is_empty() => Some(a.times(&b.base)),
            PrimOp::FloorDiv | PrimOp::FloorMod if b.splits.is_empty() => a.divided(op, b.base.as_int()?),
            _ => None,
        }
    }

    /// Replaces the parts of a group by one part, which is their sum. Returns `None` if only some of the parts are
    /// present, or if their scales differ.
    fn gather(&mut self, group: &Group) -> Option<()> {
        let is_same = |split: &Split, of: &Split| {
            split.source == of.source && split.lower == of.lower && split.extent == of.extent
        };
        let scale_of = |of: &Split| {
            let split = self.splits.iter().find(|split| is_same(split, of))?;
            let (scale, by) = (split.scale.as_int()?, of.scale.as_int()?);
            (by != 0 && scale % by == 0).then_some(scale / by)
        };
        let scales: Vec<Option<i64>> = group.splits.iter().map(scale_of).collect();
        if !self.splits.iter().any(|split| group.splits.iter().any(|of| is_same(split, of))) {
            return Some(());
        }
        let scale = scales[0].filter(|scale| scales.iter().all(|other| *other == Some(*scale)))?;
        self.splits.retain(|split| !group.splits.iter().any(|of| is_same(split, of)));
        let number = |value| Dim::int(value, group.sum.dtype());
        let (source, extent) = match group.least {
            0 => (group.sum.clone(), group.most.checked_add(1)?),
            least => (Dim::binary(PrimOp::Add, group.sum.clone(), number(-least)), group.most.checked_sub(least - 1)?),
        };
        let extent = number(extent);
        self.base = add(self.base.clone(), number(group.least.checked_mul(scale)?));
        self.splits.push(Split { source, whole: extent.clone(), lower: 1, extent, scale: number(scale) });
        Some(())
    }

    /// Creates the sum of one loop variable. A variable with one iteration becomes its start.
    fn of_variable(var: &Dim, min: &Dim, extent: &Dim) -> IterSum {
        if extent.as_int() == Some(1) {
            return IterSum { splits: Vec::new(), base: min.clone() };
        }
        let split = Split {
            source: sub(var.clone(), min.clone()),
            whole: extent.clone(),
            lower: 1,
            extent: extent.clone(),
            scale: Dim::int(1, var.dtype()),
        };
        IterSum { splits: vec![split], base: min.clone() }
    }

    fn add(&mut self, split: Split) {
        let same = |known: &&mut Split| {
            known.source == split.source && known.lower == split.lower && known.extent == split.extent
        };
        match self.splits.iter_mut().find(same) {
            Some(known) => known.scale = add(known.scale.clone(), split.scale),
            None => self.splits.push(split),
        }
    }

    fn times(mut self, by: &Dim) -> IterSum {
        for split in &mut self.splits {
            split.scale = mul(split.scale.clone(), by.clone());
        }
        IterSum { base: mul(self.base, by.clone()), ..self }
    }

    /// Divides a multiple of a variable, provided that the remaining divisor divides the extent of the variable.
    fn divided(mut self, op: PrimOp, by: i64) -> Option<IterSum> {
        let split = self.splits.pop().filter(|_| self.splits.is_empty() && self.base.as_int() == Some(0))?;
        let scale = split.scale.as_int().filter(|scale| *scale > 0 && by % scale == 0)?;
        let by = by / scale;
        let extent = split.extent.as_int().filter(|extent| by > 0 && extent % by == 0)?;
        let number = |value| Dim::int(value, split.scale.dtype());
        let part = match op {
            PrimOp::FloorDiv => {
                Split { lower: split.lower * by, extent: number(extent / by), scale: number(1), ..split }
            }
            _ => Split { extent: number(by), ..split },
        };
        Some(IterSum { splits: vec![part], ..self })
    }

    /// Orders the parts. Starting with the smallest, each step must equal the size of the range that the previous
    /// parts cover; it may be less if the smallest step is 1.
    fn fused(mut self, dtype: DType) -> Option<Dim> {
        let base = self.splits.remove(self.least()?);
        let step = base.scale.clone();
        // Expresses the steps as multiples of the smallest step.
        let mut reached = base.extent.clone();
        let mut order = vec![Split { scale: Dim::int(1, dtype), ..base }];
        while !self.splits.is_empty() {
            let expected = mul(reached.clone(), step.clone());
            let exact = self.splits.iter().rposition(|split| prove_equal(&split.scale, &expected) == Some(true));
            let is_one = step.as_int() == Some(1);
            let at = exact.or_else(|| self.closest(reached.as_int().filter(|_| is_one)?))?;
            let split = self.splits.remove(at);
            let scale = if is_one { split.scale.clone() } else { reached.clone() };
            reached = mul(split.extent.clone(), scale.clone());
            order.push(Split { scale, ..split });
        }
        let parts: Option<Vec<Dim>> = order.iter().rev().map(Split::to_dim).collect();
        let sum = parts?.into_iter().reduce(add)?;
        Some(add(mul(sum, step), self.base))
    }

    /// Returns the position of the split with the smallest step; if there are several, the last of them.
    fn least(&self) -> Option<usize> {
        let numbers = self.splits.iter().enumerate().filter_map(|(i, split)| Some((split.scale.as_int()?, i)));
        let least = numbers.rev_min();
        least.or_else(|| self.splits.iter().enumerate().map(|(i, split)| (n_factors(&split.scale), i)).rev_min())
    }

    /// Returns the position of the split with the largest step that is at most `most`.
    fn closest(&self, most: i64) -> Option<usize> {
        let steps = self.splits.iter().enumerate().filter_map(|(i, split)| Some((split.scale.as_int()?, i)));
        let steps: Vec<(i64, usize)> = steps.filter(|(step, _)| (0..=most).contains(step)).collect();
        let greatest = steps.iter().map(|(step, _)| *step).max()?;
        steps.iter().rfind(|(step, _)| *step == greatest).map(|(_, i)| *i)
    }
}

/// Finds the minimum; if there are several, the last of them.
trait RevMin: Iterator<Item = (i64, usize)> + Sized {
    fn rev_min(self) -> Option<usize> {
        self.min_by_key(|(value, i)| (*value, std::cmp::Reverse(*i))).map(|(_, i)| i)
    }
}

impl<I: Iterator<Item = (i64, usize)>> RevMin for I {}

impl Split {
    /// Returns the split as an expression; `None` if its range is not constant or does not fit in 64 bits.
    fn to_dim(&self) -> Option<Dim> {
        let number = |value| Dim::int(value, self.scale.dtype());
        let mut out = self.source.clone();
        if self.extent != self.whole || self.lower != 1 {
            let within = self.extent.as_int()?.checked_mul(self.lower)?;
            if Some(within) != self.whole.as_int() {
                out = Dim::binary(PrimOp::FloorMod, out, number(within));
            }
            if self.lower != 1 {
                out = Dim::binary(PrimOp::FloorDiv, out, number(self.lower));
            }
        }
        Some(mul(out, self.scale.clone()))
    }
}

/// Returns the number of factors of a product.
fn n_factors(dim: &Dim) -> i64 {
    match parts(dim) {
        Some((PrimOp::Mul, a, b)) => n_factors(a) + n_factors(b),
        _ => 1,
    }
}

fn speaks_of(dim: &Dim, ranges: &Known<'_>) -> bool {
    let mut found = false;
    dim.vars(&mut |sym| found |= ranges.get(&sym).is_some());
    found
}
