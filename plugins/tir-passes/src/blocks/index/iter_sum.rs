//! Represents indices as sums of loop variables with steps, if they cover a range without gaps. TVM writes such sums
//! from the largest step to the smallest.

use plugin_api::arith::prove_equal;
use plugin_api::prelude::*;
use plugin_api::scalar::{self, Linear, PrimOp, ratio};
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
    /// The parts with their steps.
    terms: Vec<(Split, Dim)>,
    /// The sum in TVM's form.
    sum: Dim,
    least: i64,
    most: i64,
}

impl Group {
    /// Creates the group of a sum without a constant, with the bounds that are given. Returns `None` if the sum does
    /// not cover a range.
    pub(crate) fn of(sum: &Dim, least: Option<i64>, most: Option<i64>, ranges: &Known<'_>) -> Option<Group> {
        let form = form_of(sum, ranges)?;
        if form.terms.len() < 2 || form.constant.as_int() != Some(0) {
            return None;
        }
        let last = |(split, step): &(Split, Dim)| n_values(split).as_int()?.checked_sub(1)?.checked_mul(step.as_int()?);
        let whole = form.terms.iter().map(last).try_fold(0i64, |whole, last| whole.checked_add(last?))?;
        let (terms, ordered) = (form.terms.clone(), in_steps(form, sum.dtype())?);
        let (least, most) = (least.unwrap_or(0).max(0), most.unwrap_or(whole).min(whole));
        (least <= most).then_some(Group { terms, sum: ordered, least, most })
    }
}

impl Known<'_> {
    pub(crate) fn get(&self, sym: &Sym) -> Option<&(Dim, Dim)> {
        self.constrained.get(sym).or_else(|| self.loops.get(sym))
    }
}

/// An index that takes the values from 0 to `n - 1`.
#[derive(Clone, Debug, PartialEq)]
struct Source {
    index: Dim,
    n: Dim,
}

/// A part of a source. The number of its values divides that of the source.
type Split = scalar::Split<Source>;

/// A sum of parts of loop variables, and of terms without loop variables. The steps of the parts may be symbolic.
type IterSum = Linear<Split, Dim>;

/// Returns the index in the form of TVM if it covers a range without gaps; otherwise `None`.
pub(crate) fn in_order(dim: &Dim, ranges: &Known<'_>) -> Option<Dim> {
    let mut sum = form_of(dim, ranges)?;
    for group in &ranges.groups {
        sum = gathered(sum, group)?;
    }
    if sum.terms.is_empty() { Some(sum.constant) } else { in_steps(sum, dim.dtype()) }
}

/// Returns true if an index contains the quotient or remainder of anything other than a part of one loop variable. TVM
/// keeps the written order of such an index.
pub(crate) fn divides_a_sum(dim: &Dim, ranges: &Known<'_>) -> bool {
    match parts(dim) {
        Some((PrimOp::FloorDiv | PrimOp::FloorMod, ..)) if speaks_of(dim, ranges) => form_of(dim, ranges).is_none(),
        Some((_, a, b)) => divides_a_sum(a, ranges) || divides_a_sum(b, ranges),
        None => false,
    }
}

/// Returns true if a loop nest accesses every element of a box. In each dimension, each iteration accesses the given
/// number of elements from an index on. There must be no gaps between iterations, and no part of a loop variable may
/// occur in two indices, as on a diagonal.
pub(crate) fn fills_a_box(accesses: &[(Dim, i64)], loops: &Ranges) -> bool {
    let known = Known { loops, constrained: Ranges::new(), groups: Vec::new() };
    let mut parts: Vec<Split> = Vec::new();
    accesses.iter().all(|(start, n)| {
        let Some(mut form) = form_of(start, &known) else { return false };
        for (_, step) in &mut form.terms {
            *step =
                step.as_int().map_or_else(|| step.clone(), |number| Dim::int(number.saturating_abs(), step.dtype()));
        }
        let added = form.terms.iter().map(|(split, _)| split.clone()).collect::<Vec<_>>();
        let is_apart = added.iter().all(|split| parts.iter().all(|other| are_apart(split, other)));
        parts.extend(added);
        let step = least(&form.terms).map(|at| form.terms[at].1.as_int());
        let is_dense = step.is_none_or(|step| step.is_some_and(|step| step <= *n));
        is_apart && is_dense && (form.terms.is_empty() || in_steps(form, start.dtype()).is_some())
    })
}

/// Returns true if two parts share no digit of a variable.
fn are_apart(a: &Split, b: &Split) -> bool {
    let ends_before = |a: &Split, b: &Split| a.upper().is_some_and(|upper| upper <= b.lower);
    a.source != b.source || ends_before(a, b) || ends_before(b, a)
}

/// Converts an index to a sum of parts of loop variables; `None` if it is not one.
fn form_of(dim: &Dim, ranges: &Known<'_>) -> Option<IterSum> {
    if let Dim::Var(sym) = dim
        && let Some((min, extent)) = ranges.get(sym)
    {
        return Some(form_of_variable(dim, min, extent));
    }
    if !speaks_of(dim, ranges) {
        return Some(Linear::constant(dim.clone()));
    }
    let (op, a, b) = parts(dim)?;
    let (a, b) = (form_of(a, ranges)?, form_of(b, ranges)?);
    match (op, a.as_constant(), b.as_constant()) {
        (PrimOp::Add, ..) => a.plus(b),
        (PrimOp::Sub, ..) => a.minus(b),
        (PrimOp::Mul, Some(by), _) => b.scaled(&by),
        (PrimOp::Mul, _, Some(by)) => a.scaled(&by),
        (PrimOp::FloorDiv | PrimOp::FloorMod, _, Some(by)) => divided(a, op, by.as_int()?),
        _ => None,
    }
}

/// Creates the sum of one loop variable. A variable with one iteration becomes its start.
fn form_of_variable(var: &Dim, min: &Dim, extent: &Dim) -> IterSum {
    if extent.as_int() == Some(1) {
        return Linear::constant(min.clone());
    }
    let source = Source { index: sub(var.clone(), min.clone()), n: extent.clone() };
    Linear { terms: vec![(Split::whole(source), Dim::int(1, var.dtype()))], constant: min.clone() }
}

/// Divides a multiple of a variable, provided that the remaining divisor divides the extent of the variable. Unlike
/// [`scalar::Split::floordiv`], it keeps a quotient with a single value, as TVM does.
fn divided(sum: IterSum, op: PrimOp, by: i64) -> Option<IterSum> {
    let (split, step) = sum.as_term()?;
    let at = ratio(by, step.as_int()?).filter(|at| *at > 0)?;
    n_values(split).as_int().filter(|n| n % at == 0)?;
    let (quotient, remainder) = split.cut(at)?;
    let term = match op {
        PrimOp::FloorDiv => (quotient, Dim::int(1, step.dtype())),
        _ => (remainder, step.clone()),
    };
    Some(Linear { terms: vec![term], constant: sum.constant })
}

/// Replaces the parts of a group by one part, which is their sum. Returns `None` if only some of the parts are
/// present, or if their steps differ.
fn gathered(mut sum: IterSum, group: &Group) -> Option<IterSum> {
    let is_member = |split: &Split| group.terms.iter().any(|(of, _)| of == split);
    if !sum.terms.iter().any(|(split, _)| is_member(split)) {
        return Some(sum);
    }
    let step_of = |(split, by): &(Split, Dim)| {
        let (_, step) = sum.terms.iter().find(|(known, _)| known == split)?;
        let (step, by) = (step.as_int()?, by.as_int()?);
        (by != 0 && step % by == 0).then(|| step / by)
    };
    let steps: Vec<Option<i64>> = group.terms.iter().map(step_of).collect();
    let step = steps[0].filter(|step| steps.iter().all(|other| *other == Some(*step)))?;
    sum.terms.retain(|(split, _)| !is_member(split));
    let number = |value| Dim::int(value, group.sum.dtype());
    let (index, n) = match group.least {
        0 => (group.sum.clone(), group.most.checked_add(1)?),
        least => (Dim::binary(PrimOp::Add, group.sum.clone(), number(-least)), group.most.checked_sub(least - 1)?),
    };
    sum.constant = add(sum.constant, number(group.least.checked_mul(step)?));
    sum.terms.push((Split::whole(Source { index, n: number(n) }), number(step)));
    Some(sum)
}

/// Orders the parts. Starting with the smallest, each step must equal the size of the range that the previous parts
/// cover; it may be less if the smallest step is 1.
fn in_steps(IterSum { mut terms, constant }: IterSum, dtype: DType) -> Option<Dim> {
    let (base, step) = terms.remove(least(&terms)?);
    // Expresses the steps as multiples of the smallest step.
    let mut reached = n_values(&base);
    let mut order = vec![(base, Dim::int(1, dtype))];
    while !terms.is_empty() {
        let expected = mul(reached.clone(), step.clone());
        let exact = terms.iter().rposition(|(_, step)| prove_equal(step, &expected) == Some(true));
        let is_one = step.as_int() == Some(1);
        let at = exact.or_else(|| closest(&terms, reached.as_int().filter(|_| is_one)?))?;
        let (split, own) = terms.remove(at);
        let by = if is_one { own } else { reached };
        reached = mul(n_values(&split), by.clone());
        order.push((split, by));
    }
    let parts: Option<Vec<Dim>> = order.iter().rev().map(|(split, by)| Some(mul(to_dim(split)?, by.clone()))).collect();
    let sum = parts?.into_iter().reduce(add)?;
    Some(add(mul(sum, step), constant))
}

/// Returns the position of the term with the smallest step; if there are several, the last of them.
fn least(terms: &[(Split, Dim)]) -> Option<usize> {
    let numbers = terms.iter().enumerate().filter_map(|(i, (_, step))| Some((step.as_int()?, i)));
    numbers.rev_min().or_else(|| terms.iter().enumerate().map(|(i, (_, step))| (n_factors(step), i)).rev_min())
}

/// Returns the position of the term with the largest step that is at most `most`.
fn closest(terms: &[(Split, Dim)], most: i64) -> Option<usize> {
    let steps = terms.iter().enumerate().filter_map(|(i, (_, step))| Some((step.as_int()?, i)));
    steps.filter(|(step, _)| (0..=most).contains(step)).max().map(|(_, i)| i)
}

/// Finds the minimum; if there are several, the last of them.
trait RevMin: Iterator<Item = (i64, usize)> + Sized {
    fn rev_min(self) -> Option<usize> {
        self.min_by_key(|(value, i)| (*value, std::cmp::Reverse(*i))).map(|(_, i)| i)
    }
}

impl<I: Iterator<Item = (i64, usize)>> RevMin for I {}

/// Returns the number of values of a part.
fn n_values(Split { source, lower, extent }: &Split) -> Dim {
    let number = |value| Dim::int(value, source.index.dtype());
    match (extent, source.n.as_int()) {
        (Some(extent), _) => number(*extent),
        (None, Some(n)) if *lower != 1 => number(n / lower),
        _ => source.n.clone(),
    }
}

/// Returns a part as an expression; `None` if its range does not fit in 64 bits.
fn to_dim(split: &Split) -> Option<Dim> {
    let number = |value| Dim::int(value, split.source.index.dtype());
    let mut out = split.source.index.clone();
    if split.extent.is_some() && split.upper() != split.source.n.as_int() {
        out = Dim::binary(PrimOp::FloorMod, out, number(split.upper()?));
    }
    if split.lower != 1 {
        out = Dim::binary(PrimOp::FloorDiv, out, number(split.lower));
    }
    Some(out)
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
