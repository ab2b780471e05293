//! Computes equal values once.
//!
//! *Expects* any function, preferably in A-normal form. *Keeps* effects, every binding and its name. *Never* uses a
//! value where it is not visible: the values of a branch, a dataflow block or a nested function stay local to it.

use plugin_api::ir::Region;
use plugin_api::prelude::*;
use plugin_api::walk::in_place::WrittenParams;
use plugin_api::walk::scoped_map::ScopedMap;
use plugin_api::walk::scopes::{Scope, ScopeVisitor, visit_scopes};
use plugin_api::walk::value_key::ValueNumbers;

declare_pass! {
    /// Computes equal values once: a binding that repeats an earlier value becomes an alias of it.
    ///
    /// Expects any function, preferably in A-normal form. Keeps side effects, and every binding with its name. Never
    /// uses a value where it is not visible, nor across a call that writes to its inputs.
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
    pub module pass ELIMINATE_COMMON_SUBEXPR = "relax.EliminateCommonSubexpr" {
        opt_level: 1,
        preserves: [keeps_form],
        options: Options {
            /// True to consider only calls, not tuples and their elements.
            call_only: bool = false,
        },
        run: eliminate_common_subexpr,
    }
}

/// Runs on the whole module, to find the functions that write to their arguments, because calls of such functions are
/// never equal.
fn eliminate_common_subexpr(module: &Module, options: &Options, ctx: &Ctx) -> Result<Module, PassError> {
    let (written, mut all) = (WrittenParams::of(module), 0);
    let result = module.map_functions(|name, body| match body.function() {
        Some(function) if !function.skips_optimization() => {
            let in_place = InPlace::in_module(body, &written);
            let (body, merged) = merged(body, in_place, options.call_only).map_err(|error| error.in_function(name))?;
            all += merged;
            Ok::<_, PassError>(body)
        }
        _ => Ok(body.clone()),
    })?;
    ctx.statistic("bindings merged", all);
    Ok(result)
}

/// Returns the function with equal values computed once, and the number of bindings that became aliases; other passes
/// call it as their last step.
pub(crate) fn without_repeats(body: &Body, call_only: bool) -> Result<(Body, usize), PassError> {
    merged(body, InPlace::of(body), call_only)
}

fn merged<'b>(body: &'b Body, in_place: InPlace<'b>, call_only: bool) -> Result<(Body, usize), PassError> {
    let repeats = Repeats { first: ValueMap::new(body), function: body.root().region() };
    let mut cse = Cse {
        edit: body.edit(),
        in_place,
        numbers: ValueNumbers::new(),
        seen: ScopedMap::new(),
        repeats,
        around: Vec::new(),
        scopes: Vec::new(),
        call_only,
        merged: 0,
    };
    visit_scopes(body, &mut cse);
    Ok((cse.edit.finish()?, cse.merged))
}

struct Cse<'b> {
    edit: Edit<'b>,
    in_place: InPlace<'b>,
    /// The value numbers.
    numbers: ValueNumbers,
    /// Values seen so far in the current function, by value number.
    seen: ScopedMap<u32, Value<'b>>,
    repeats: Repeats<'b>,
    /// The values seen in each enclosing function, and the content of that function.
    around: Vec<(ScopedMap<u32, Value<'b>>, Region<'b>)>,
    /// The open scopes. For a dataflow block, the bindings in it that repeat other bindings.
    scopes: Vec<Option<Vec<Value<'b>>>>,
    call_only: bool,
    /// Number of bindings that became aliases.
    merged: usize,
}

struct Repeats<'b> {
    /// For each repeated binding, the value that it repeats.
    first: ValueMap<'b, Value<'b>>,
    /// The body of the current function. Values from outside of it are used under their own names.
    function: Region<'b>,
}

impl<'b> Repeats<'b> {
    fn first_of(&self, value: Value<'b>) -> Value<'b> {
        let first = self.first.get(value).filter(|_| self.function.contains(value));
        first.copied().unwrap_or(value)
    }
}

impl<'b> ScopeVisitor<'b> for Cse<'b> {
    fn enter(&mut self, scope: Scope<'b>) {
        let mut flows = false;
        match scope {
            Scope::Function(function) => {
                let inside = function.value().region();
                let outside = std::mem::replace(&mut self.repeats.function, inside);
                self.around.push((std::mem::take(&mut self.seen), outside));
            }
            Scope::Branch(_) => self.seen.enter(),
            Scope::Block(block) if block.is_dataflow() => {
                self.seen.enter();
                flows = true;
            }
            Scope::Block(_) => {}
        }
        self.scopes.push(flows.then(Vec::new));
    }

    fn leave(&mut self, scope: Scope<'b>) {
        // Outside of its dataflow block, a repeated output keeps its own name.
        for repeated in self.scopes.pop().flatten().unwrap_or_default() {
            self.repeats.first.remove(repeated);
        }
        match scope {
            Scope::Function(_) => {
                if let Some((seen, function)) = self.around.pop() {
                    (self.seen, self.repeats.function) = (seen, function);
                }
            }
            Scope::Branch(_) => self.seen.leave(),
            Scope::Block(block) if block.is_dataflow() => self.seen.leave(),
            Scope::Block(_) => {}
        }
    }

    /// Turns a binding that repeats an earlier binding into an alias of that binding.
    fn value(&mut self, value: Value<'b>) {
        self.edit.map_operands(value, |operand| self.repeats.first_of(operand));
        if !self.is_looked_at(value) {
            return;
        }
        let computes = self.numbers.of(value, &|operand| self.repeats.first_of(operand));
        let repeated = self.scopes.last_mut().and_then(Option::as_mut);
        // An output of a dataflow block is visible after it, although inside the block a variable may replace it.
        let level = self.seen.depth() - if repeated.is_some() && !value.is_dataflow_var() { 2 } else { 1 };
        let Some(first) = self.seen.insert_if_new(level, computes, value) else { return };
        if !self.in_place.may_merge(first, value) {
            // From here on, later bindings are compared with `value`.
            return self.seen.insert_at(level, computes, value);
        }
        self.edit.make_alias(value, first);
        self.repeats.first.insert(value, first);
        self.merged += 1;
        repeated.into_iter().for_each(|repeated| repeated.push(value));
    }
}

impl Cse<'_> {
    /// Returns true if a value is a binding that another binding could repeat.
    fn is_looked_at(&self, value: Value<'_>) -> bool {
        let holds_others = matches!(value.view(), Expr::If { .. } | Expr::Function(_));
        // A call that returns the empty tuple computes no value.
        let void = value.ty().is_tuple() && value.ty().children().len() == 0;
        let wanted = !self.call_only || value.as_call().is_some();
        value.is_binding() && !value.has_effect() && !holds_others && !void && wanted && !is_allocation(value)
    }
}

/// Returns true for an allocation. Equal allocations return different memory.
fn is_allocation(value: Value<'_>) -> bool {
    let op = value.as_call().and_then(Call::op).unwrap_or("");
    op.ends_with("alloc_tensor") || op.ends_with("alloc_storage") || value.nested().any(is_allocation)
}
