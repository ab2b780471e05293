//! What is known of loop variables where a value is: their ranges, and the conditions around it.

use super::conditions::{Condition, Conditions, as_less_or_equal, parts_of};
use super::iter_sum::{Known, Ranges, in_order};
use super::linear::{Linear, sub};
use plugin_api::arith::{index_to_dim, symbol_of, value_of_atom};
use plugin_api::prelude::*;
use plugin_api::walk::visitors::post_order_visit_value;

/// Loops that were entered, and conditions that hold, while a body is walked in order.
pub(crate) struct IterContext<'b> {
    body: &'b Body,
    ranges: Ranges,
    /// Whether the range of no loop mentions another loop.
    independent: bool,
    conditions: Conditions<'b>,
}

impl<'b> IterContext<'b> {
    /// At the start of a body.
    pub(crate) fn new(body: &'b Body) -> IterContext<'b> {
        IterContext { body, ranges: Ranges::new(), independent: true, conditions: Conditions::new(body) }
    }

    /// Goes on to a value; to be called for each value in order.
    pub(crate) fn go_to(&mut self, value: Value<'b>) {
        self.conditions.go_to(value);
        let (var, min, extent) = match value.stmt() {
            Some(Stmt::For { var, min, extent, .. }) => (var, index_to_dim(min), extent),
            Some(Stmt::Launch { extent, .. }) => match value.region().children().next() {
                Some(var) => (var, Some(Dim::int(0, extent.ty().dtype())), extent),
                None => return,
            },
            _ => return,
        };
        if let (Some(var), Some(min), Some(extent)) = (symbol_of(var), min, index_to_dim(extent)) {
            let mut others = Vec::new();
            [&min, &extent].iter().for_each(|dim| dim.vars(&mut |sym| others.push(sym)));
            self.independent &= !others.iter().any(|sym| self.ranges.contains_key(sym));
            self.ranges.insert(var, (min, extent));
        }
    }

    /// An index in the form that TVM writes: from the greatest step to the least if the variables fill a range without gaps.
    pub(crate) fn simplify(&self, index: &Dim) -> Dim {
        let Some(sum) = Linear::of(index).to_dim(index.dtype()) else { return index.clone() };
        if !self.independent || self.has_opaque(&sum) {
            return sum;
        }
        let within = self.constrained().and_then(|ranges| in_order(&sum, &ranges));
        within.or_else(|| in_order(&sum, &Known { loops: &self.ranges, constrained: Ranges::new() })).unwrap_or(sum)
    }

    /// Whether an index uses the variable of a loop.
    pub(crate) fn uses_loop(&self, index: Value<'_>) -> bool {
        let is_loop = |value: Value<'_>| symbol_of(value).is_some_and(|sym| self.ranges.contains_key(&sym));
        let mut found = is_loop(index);
        if index.is_nested() {
            post_order_visit_value(index, |part| found |= part.operands().any(is_loop));
        }
        found
    }

    /// Whether a load or the like in an index uses a loop variable.
    fn has_opaque(&self, index: &Dim) -> bool {
        let mut found = false;
        index.vars(&mut |sym| {
            let Some(atom) = value_of_atom(self.body, sym).filter(|_| !self.ranges.contains_key(&sym)) else { return };
            post_order_visit_value(atom, |part| {
                let is_loop = |operand: Value<'_>| symbol_of(operand).is_some_and(|sym| self.ranges.contains_key(&sym));
                found |= part.operands().any(is_loop);
            });
        });
        found
    }

    /// The ranges where the conditions hold; `None` if these say nothing, or something else.
    fn constrained(&self) -> Option<Known<'_>> {
        let mut conditions = self.conditions.of_taken_branches_and_choices().peekable();
        conditions.peek()?;
        let mut known = Known { loops: &self.ranges, constrained: Ranges::new() };
        for condition in conditions {
            for (sym, least, most) in bounds(condition)? {
                let Some((min, extent)) = known.get(&sym).cloned() else { continue };
                let start = min.as_int()?;
                let first = least.map_or(start, |least| start.max(least));
                let n = match (extent.as_int(), most) {
                    (Some(n), most) => {
                        let whole = start.checked_add(n)?;
                        let end = most.map_or(whole, |most| whole.min(most.saturating_add(1)));
                        Dim::int(end.checked_sub(first)?, extent.dtype())
                    }
                    // What begins later ends no later.
                    (None, None) => {
                        let n = sub(extent.clone(), Dim::int(first.checked_sub(start)?, extent.dtype()));
                        Linear::of(&n).to_dim(n.dtype())?
                    }
                    _ => return None,
                };
                known.constrained.insert(sym, (Dim::int(first, min.dtype()), n));
            }
        }
        Some(known)
    }
}

/// Least and greatest values of variables that a condition says; `None` if it says something else.
fn bounds(condition: &Condition<'_>) -> Option<Vec<(Sym, Option<i64>, Option<i64>)>> {
    // TVM looks at conjunctions of comparisons only, and at nothing that is negated.
    let parts = parts_of(condition.cond, condition.negated);
    parts.into_iter().map(|(cond, negated)| if negated { None } else { bound(cond) }).collect()
}

fn bound(cond: Value<'_>) -> Option<(Sym, Option<i64>, Option<i64>)> {
    let (low, high, by) = as_less_or_equal(cond, false)?;
    match (index_to_dim(low)?, index_to_dim(high)?) {
        (Dim::Var(sym), high) => Some((sym, None, Some(high.as_int()?.checked_sub(by)?))),
        (low, Dim::Var(sym)) => Some((sym, Some(low.as_int()?.checked_add(by)?), None)),
        _ => None,
    }
}
