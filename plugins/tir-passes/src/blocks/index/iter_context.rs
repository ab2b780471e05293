//! Tracks, for a value, the ranges of loop variables and the conditions that hold.

use super::iter_sum::{Group, Known, Ranges, divides_a_sum, in_order};
use plugin_api::arith::{index_to_dim, symbol_of, value_of_atom};
use plugin_api::prelude::*;
use plugin_api::tir::regions::conditions::{Condition, Conditions, as_less_or_equal, parts_of};
use plugin_api::tir::regions::linear::{Linear, sub};
use plugin_api::tir::regions::reached::Running;
use plugin_api::walk::visitors::post_order_visit_value;

/// The open loops and the conditions that hold, tracked while a body is walked in order.
pub(crate) struct IterContext<'b> {
    body: &'b Body,
    ranges: Ranges,
    /// True if the range of no loop depends on another loop.
    independent: bool,
    conditions: Conditions<'b>,
}

impl<'b> IterContext<'b> {
    /// Creates the context at the start of a body.
    pub(crate) fn new(body: &'b Body) -> IterContext<'b> {
        IterContext { body, ranges: Ranges::new(), independent: true, conditions: Conditions::new(body) }
    }

    /// Advances to a value. Must be called for every value, in order.
    pub(crate) fn go_to(&mut self, value: Value<'b>) {
        self.conditions.go_to(value);
        let Some(Running { var, min, extent }) = Running::of(value) else { return };
        let min = min.map_or(Some(Dim::int(0, extent.ty().dtype())), index_to_dim);
        if let (Some(var), Some(min), Some(extent)) = (symbol_of(var), min, index_to_dim(extent)) {
            let mut others = Vec::new();
            [&min, &extent].iter().for_each(|dim| dim.vars(&mut |sym| others.push(sym)));
            self.independent &= !others.iter().any(|sym| self.ranges.contains_key(sym));
            self.ranges.insert(var, (min, extent));
        }
    }

    /// Returns an index in TVM's form: ordered from the largest step to the smallest. An index that contains a quotient
    /// or remainder of a sum is kept, but matching quotients and remainders are combined.
    pub(crate) fn simplify(&self, index: &Dim) -> Dim {
        let (mut sum, joined) = Linear::and_whether_joined(index);
        sum.terms.sort_by_key(|(_, by)| std::cmp::Reverse(*by));
        let Some(sum) = sum.to_dim(index.dtype()) else { return index.clone() };
        if !self.independent || self.has_opaque(&sum) {
            return sum;
        }
        let loops = self.loops();
        let within = self.constrained().and_then(|ranges| in_order(&sum, &ranges));
        match within.or_else(|| in_order(&sum, &loops)) {
            Some(ordered) => ordered,
            None if !joined && divides_a_sum(index, &loops) => index.clone(),
            None => sum,
        }
    }

    /// Returns the ranges of the loops, ignoring conditions.
    fn loops(&self) -> Known<'_> {
        Known { loops: &self.ranges, constrained: Ranges::new(), groups: Vec::new() }
    }

    /// Returns true if an index uses a loop variable.
    pub(crate) fn uses_loop(&self, index: Value<'_>) -> bool {
        let is_loop = |value: Value<'_>| symbol_of(value).is_some_and(|sym| self.ranges.contains_key(&sym));
        let mut found = is_loop(index);
        if index.is_nested() {
            post_order_visit_value(index, |part| found |= part.operands().any(is_loop));
        }
        found
    }

    /// Returns true if a load or similar value in an index uses a loop variable.
    fn has_opaque(&self, index: &Dim) -> bool {
        let mut found = false;
        index.vars(&mut |sym| {
            let atom = value_of_atom(self.body, sym).filter(|atom| atom.is_nested() && !self.ranges.contains_key(&sym));
            let Some(atom) = atom else { return };
            post_order_visit_value(atom, |part| {
                let is_loop = |operand: Value<'_>| symbol_of(operand).is_some_and(|sym| self.ranges.contains_key(&sym));
                found |= part.operands().any(is_loop);
            });
        });
        found
    }

    /// Returns the ranges under the conditions; `None` if some condition is not a bound.
    fn constrained(&self) -> Option<Known<'_>> {
        let (mut known, mut groups) = (self.loops(), Vec::<Bounded>::new());
        for condition in self.conditions.of_taken_branches_and_choices() {
            for (of, least, most) in bounds(condition)? {
                let sym = match of {
                    Dim::Var(sym) => sym,
                    sum => {
                        match groups.iter_mut().find(|(other, ..)| *other == sum) {
                            Some((_, from, to)) => {
                                (*from, *to) = ((*from).max(least), [*to, most].into_iter().flatten().min());
                            }
                            None => groups.push((sum, least, most)),
                        }
                        continue;
                    }
                };
                let Some((min, extent)) = known.get(&sym).cloned() else { continue };
                let start = min.as_int()?;
                let first = least.map_or(start, |least| start.max(least));
                let n = match (extent.as_int(), most) {
                    (Some(n), most) => {
                        let whole = start.checked_add(n)?;
                        let end = most.map_or(whole, |most| whole.min(most.saturating_add(1)));
                        Dim::int(end.checked_sub(first)?, extent.dtype())
                    }
                    // A condition that raises the start does not move the end, so the extent shrinks.
                    (None, None) => {
                        let n = sub(extent.clone(), Dim::int(first.checked_sub(start)?, extent.dtype()));
                        Linear::of(&n).to_dim(n.dtype())?
                    }
                    _ => return None,
                };
                known.constrained.insert(sym, (Dim::int(first, min.dtype()), n));
            }
        }
        for (sum, least, most) in groups {
            let group = Group::of(&sum, least, most, &known)?;
            known.groups.push(group);
        }
        Some(known)
    }
}

/// A variable or a sum of variables, with the lower and upper bound that a condition sets.
type Bounded = (Dim, Option<i64>, Option<i64>);

/// Returns the bounds that a condition sets; `None` if the condition is not a bound.
fn bounds(condition: &Condition<'_>) -> Option<Vec<Bounded>> {
    // TVM handles only conjunctions of comparisons, without negations.
    let parts = parts_of(condition.cond, condition.negated);
    parts.into_iter().map(|(cond, negated)| if negated { None } else { bound(cond) }).collect()
}

fn bound(cond: Value<'_>) -> Option<Bounded> {
    let (low, high, by) = as_less_or_equal(cond, false)?;
    let (low, high) = (index_to_dim(low)?, index_to_dim(high)?);
    match (low.as_int(), high.as_int()) {
        (None, Some(most)) => {
            let (of, number) = without_number(&low)?;
            Some((of, None, Some(most.checked_sub(by)?.checked_sub(number)?)))
        }
        (Some(least), None) => {
            let (of, number) = without_number(&high)?;
            Some((of, Some(least.checked_add(by)?.checked_sub(number)?), None))
        }
        _ => None,
    }
}

/// Splits a sum into its symbolic part and its constant.
fn without_number(sum: &Dim) -> Option<(Dim, i64)> {
    let mut terms = Linear::of(sum);
    let number = i64::try_from(std::mem::take(&mut terms.constant)).ok()?;
    Some((terms.to_dim(sum.dtype())?, number))
}
