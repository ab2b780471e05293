//! Computes equal values once.
//!
//! *Expects* any function, best in A-normal form. *Keeps* effects, every binding and its name. *Never* uses a value
//! where it is not visible: what a branch, a dataflow block or a nested function computes stays there.

use plugin_api::ir::records::{flag, kind};
use plugin_api::prelude::*;

declare_pass! {
    /// Computes equal values once: a binding that repeats an earlier value becomes another name for it.
    ///
    /// Expects any function, best in A-normal form. Keeps effects, every binding and its name. Never uses a value where
    /// it is not visible.
    ///
    /// ```relax before
    /// @R.function
    /// def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")):
    ///     a = R.add(x, y)
    ///     b = R.add(x, y)
    ///     c = R.nn.relu(b)
    ///     return c
    /// ```
    /// ```relax after
    /// @R.function
    /// def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")):
    ///     a = R.add(x, y)
    ///     b = a
    ///     c = R.nn.relu(a)
    ///     return c
    /// ```
    pub function pass ELIMINATE_COMMON_SUBEXPR = "relax.EliminateCommonSubexpr" {
        opt_level: 1,
        preserves: ["relax.Normalize", "relax.anf", "relax.no_dataflow"],
        options: Options {
            /// Only calls are looked at, not tuples and their elements.
            call_only: bool = false,
        },
        run: eliminate_common_subexpr,
    }
}

fn eliminate_common_subexpr(body: &Body, options: &Options, ctx: &Ctx) -> Result<Body, PassError> {
    let repeats = Repeats { first: body.values().collect(), function: 0 };
    let mut cse = Cse { edit: body.edit(), seen: ScopedMap::new(), repeats, call_only: options.call_only, merged: 0 };
    cse.region(body.root(), false);
    ctx.statistic("bindings merged", cse.merged);
    Ok(cse.edit.finish()?)
}

struct Cse<'b> {
    edit: Edit<'b>,
    /// Values seen so far in the function that is open.
    seen: ScopedMap<Vec<u32>, Value<'b>>,
    repeats: Repeats<'b>,
    call_only: bool,
    /// Bindings that became other names.
    merged: usize,
}

struct Repeats<'b> {
    /// For each node itself, or the one that it repeats.
    first: Vec<Value<'b>>,
    /// Header of the function that is open: it uses what stands outside of it under its own name.
    function: usize,
}

impl<'b> Repeats<'b> {
    fn first_of(&self, value: Value<'b>) -> Value<'b> {
        value.index().filter(|at| *at > self.function).map_or(value, |at| self.first[at])
    }
}

impl<'b> Cse<'b> {
    fn region(&mut self, header: Value<'b>, flows: bool) {
        let mut repeated = Vec::new();
        for value in header.region().children() {
            self.edit.map_operands(value, |operand| self.repeats.first_of(operand));
            match value.kind() {
                kind::BLOCK => self.region(value, false),
                kind::DATAFLOW => self.scope(value, true),
                kind::IF => value.region().children().for_each(|branch| self.scope(branch, false)),
                kind::FUNC => {
                    let (seen, outside) = (std::mem::take(&mut self.seen), self.repeats.function);
                    self.repeats.function = value.index().unwrap_or(outside);
                    self.region(value, false);
                    (self.seen, self.repeats.function) = (seen, outside);
                }
                _ => repeated.extend(self.value(value, flows)),
            }
        }
        // Outside its dataflow block a repeated output is used under its own name.
        if flows {
            repeated.into_iter().for_each(|at: usize| self.repeats.first[at] = header.sibling(at));
        }
    }

    fn scope(&mut self, header: Value<'b>, flows: bool) {
        self.seen.enter();
        self.region(header, flows);
        self.seen.leave();
    }

    /// A binding that repeats an earlier one becomes another name for it; gives its position.
    fn value(&mut self, value: Value<'b>, flows: bool) -> Option<usize> {
        let at = value.index().filter(|_| value.is_binding() && !value.has_effect())?;
        // Nothing is computed by what is nothing.
        let void = value.ty().is_tuple() && value.ty().children().len() == 0;
        if void || self.call_only && value.kind() != kind::CALL || is_allocation(value) {
            return None;
        }
        let key = value_key(value, &|operand| self.repeats.first_of(operand));
        // An output of a dataflow block is visible behind it, though a variable of the block may stand for it inside.
        let level = self.seen.depth() - if flows && !value.has(flag::INNER) { 2 } else { 1 };
        let first = self.seen.get(&key).copied();
        if self.seen.level_of(&key).is_none_or(|known| known > level) {
            self.seen.insert_at(level, key, value);
        }
        self.edit.make_alias(value, first?);
        self.repeats.first[at] = first?;
        self.merged += 1;
        Some(at)
    }
}

/// Two allocations are two places, though they look alike.
fn is_allocation(value: Value<'_>) -> bool {
    let op = value.as_call().and_then(Call::op).unwrap_or("");
    op.contains("alloc_tensor") || op.contains("alloc_storage") || value.nested().any(is_allocation)
}
