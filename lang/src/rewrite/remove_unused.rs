//! Removes unused bindings.

use crate::ir::make::validate::is_expression;
use crate::ir::make::validate::is_nested;
use crate::ir::records::{LEAF_BIT, NONE, NodeRec, flag, kind};
use crate::ir::{Body, SealError, Sym, Value};
use crate::rewrite::outline::symbols_of;
use crate::walk::in_place::{InPlace, WrittenParams};
use std::collections::HashSet;

/// Returns the body without unused bindings, including those in branches and nested functions, and without blocks that became empty. As in
/// TVM's `remove_all_unused`, values with effects are kept; every match_cast is kept as well, because it checks and may define symbolic
/// variables. A call that writes to its argument is kept if that memory is used later or comes from outside. Takes linear time. An
/// unchanged body keeps its handle.
///
/// ```
/// use plugin_api::prelude::*;
/// use plugin_api::ir::{AttrsId, BodyBuilder, SealError};
///
/// # let mut b = BodyBuilder::new();
/// # b.begin_function(0, AttrsId::NONE, None);
/// # let ty = b.ty(&Type::tensor([2, 3], DType::F32));
/// # let (x, relu, exp) = (b.param("x", ty), b.op("relax.nn.relu"), b.op("relax.exp"));
/// # b.begin_block();
/// # let a = b.call(relu, &[x], AttrsId::NONE, ty, false, Some("a"));
/// # b.call(exp, &[a], AttrsId::NONE, ty, false, Some("unused"));
/// # b.end();
/// # b.end_function(a, ty);
/// # let body = b.finish()?;
/// // def main(x: R.Tensor((2, 3), "float32")):
/// //     a = R.nn.relu(x)
/// //     unused = R.exp(a)
/// //     return a
/// let less = remove_all_unused(&body)?;
/// assert_eq!(less.bindings().filter_map(|value| value.name()).collect::<Vec<_>>(), ["a"]);
/// assert!(remove_all_unused(&less)?.same(&less));
/// # Ok::<(), SealError>(())
/// ```
///
/// # Errors
/// Never fails for a valid body, but the result is validated.
pub fn remove_all_unused(body: &Body) -> Result<Body, SealError> {
    without_unused(body, InPlace::of(body))
}

/// Like [`remove_all_unused`], but knows which parameters the module's functions write to, and keeps calls that write to memory used later.
///
/// # Errors
/// As for [`remove_all_unused`].
pub fn remove_all_unused_in(body: &Body, written: &WrittenParams) -> Result<Body, SealError> {
    without_unused(body, InPlace::in_module(body, written))
}

fn without_unused<'b>(body: &'b Body, in_place: InPlace<'b>) -> Result<Body, SealError> {
    let mut updates = Updates { in_place, read: HashSet::new() };
    let parents = body.parents();
    let raw = body.raw();
    let nodes = raw.nodes();
    let effects = effects(body);
    let mut live = vec![false; nodes.len()];
    let mut regions = vec![None; nodes.len()];
    let mut symbols = Symbols::of(body);
    // Backwards, because users follow their operands. Users of a region also follow it, so the liveness of the region is known before its
    // content is visited.
    for (i, node) in nodes.iter().enumerate().rev() {
        let value = body.value_at(i);
        // For unknown kinds, and in TIR, a named value can be live without users.
        let removable =
            value.is_bound() && (is_expression(node) || node.kind == kind::FUNC && i > 0) || value.is_nested();
        let wanted = live[i]
            || !removable
            || effects.get(i) == Some(&true)
            || symbols.owns_one(value)
            || updates.are_seen(value);
        live[i] = wanted && region_lives(body, &parents, &live, &mut regions, &updates, parents[i]);
        if live[i] {
            updates.used_by(value);
            for op in raw.operands()[node.op_range()].iter().filter(|op| **op & LEAF_BIT == 0) {
                live[*op as usize] = true;
            }
            symbols.used_by(value);
        }
    }
    body.retain(|value: Value<'_>| value.index().is_some_and(|i| live[i]))
}

/// Symbolic variables used by live values; they may be the only use of a scalar variable.
struct Symbols {
    /// True for each used variable; empty if the body lacks scalar bindings.
    used: Vec<bool>,
}

impl Symbols {
    fn of(body: &Body) -> Symbols {
        let n = body.raw().var_names().len();
        Symbols { used: vec![false; if body.has_scalars() { n } else { 0 }] }
    }

    fn owns_one(&self, value: Value<'_>) -> bool {
        !self.used.is_empty() && value.symbol().is_some_and(|sym| self.used[sym.id as usize])
    }

    fn used_by(&mut self, value: Value<'_>) {
        if self.used.is_empty() {
            return;
        }
        let own = value.symbol();
        let mut used = |sym: Sym| self.used[sym.id as usize] |= own != Some(sym);
        symbols_of(value, &mut used);
        // The type of a function may also mention variables of the enclosing function.
        value.ty().to_owned().each_dim(true, &mut |dim| dim.vars(&mut used));
    }
}

/// Finds calls that write to memory used later.
struct Updates<'b> {
    in_place: InPlace<'b>,
    /// Memory used by live values after the current position.
    read: HashSet<u32>,
}

impl<'b> Updates<'b> {
    /// Returns true if a value writes to memory that is used later or is visible outside the function.
    fn are_seen(&self, value: Value<'_>) -> bool {
        if self.in_place.is_empty() {
            return false;
        }
        let written = self.in_place.kept_writes(self.in_place.own(value));
        written.into_iter().any(|root| self.read.contains(&root) || self.in_place.is_from_outside(root))
    }

    fn used_by(&mut self, value: Value<'_>) {
        if !self.in_place.is_empty() {
            let used = self.in_place.own(value).operands();
            used.for_each(|used| self.read.extend(self.in_place.roots(used)));
        }
    }
}

/// Returns, for each node, true if it has an effect ([`Value::has_effect`]), or is or contains a match_cast. Takes one pass, whereas
/// `has_effect` visits nested values each time. Empty if no node has an effect.
fn effects(body: &Body) -> Vec<bool> {
    let raw = body.raw();
    let own = |node: &NodeRec| node.has(flag::IMPURE) && node.kind != kind::FUNC || node.kind == kind::MATCH_CAST;
    let mut effects = Vec::new();
    if !raw.nodes().iter().any(own) {
        return effects;
    }
    effects.reserve(body.len());
    for node in raw.nodes() {
        let inner = |op: &u32| {
            let at = *op as usize;
            op & LEAF_BIT == 0 && effects.get(at) == Some(&true) && is_nested(&raw.nodes()[at])
        };
        let effect = own(node) || raw.operands()[node.op_range()].iter().any(inner);
        effects.push(effect);
    }
    effects
}

/// Returns true if the content of a region is live. An unused If or function is dead, with all its content. Blocks and branches have no
/// users, so the enclosing value decides.
fn region_lives(
    body: &Body,
    parents: &[u32],
    live: &[bool],
    known: &mut [Option<bool>],
    updates: &Updates<'_>,
    header: u32,
) -> bool {
    if header == NONE || header == 0 {
        return true;
    }
    let at = header as usize;
    if let Some(known) = known[at] {
        return known;
    }
    let value = body.value_at(at);
    let wanted = !value.has(flag::OWNER) || live[at] || value.has_effect() || updates.are_seen(value);
    let lives = wanted && region_lives(body, parents, live, known, updates, parents[at]);
    known[at] = Some(lives);
    lives
}
