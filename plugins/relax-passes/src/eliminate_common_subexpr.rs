//! Computes equal values once.
//!
//! *Expects* any function, best in A-normal form. *Keeps* effects, every binding and its name. *Never* uses a value
//! where it is not visible: what a branch, a dataflow block or a nested function computes stays there.
//!
//! Before: `a = R.add(x, y); b = R.add(x, y); c = R.nn.relu(b)`. After: `b = a; c = R.nn.relu(a)`.

use plugin_api::ir::records::{flag, kind};
use plugin_api::prelude::*;

declare_pass! {
    /// Computes equal values once: a binding that repeats an earlier value becomes another name for it.
    ///
    /// Expects any function, best in A-normal form. Keeps effects, every binding and its name. Never uses a value where
    /// it is not visible.
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

fn eliminate_common_subexpr(body: &Body, options: &Options, _: &Ctx) -> Result<Body, PassError> {
    let mut cse = Cse {
        edit: body.edit(),
        seen: vec![ScopedMap::new()],
        meaning: vec![None; body.len()],
        only: options.call_only,
    };
    cse.region(body.root().region(), None);
    Ok(cse.edit.finish()?)
}

struct Cse<'b> {
    edit: Edit<'b>,
    /// Values seen so far: one map for each function that is open.
    seen: Vec<ScopedMap<Vec<u32>, usize>>,
    /// For a binding that repeats another one, that one.
    meaning: Vec<Option<usize>>,
    only: bool,
}

impl Cse<'_> {
    /// `block` is the dataflow block around, if there is one.
    fn region(&mut self, region: Region<'_>, block: Option<()>) {
        let mut repeated = Vec::new();
        for value in region.children() {
            match value.kind() {
                kind::BLOCK => self.region(value.region(), None),
                kind::DATAFLOW => self.scope(value.region(), Some(())),
                kind::FUNC => {
                    self.seen.push(ScopedMap::new());
                    self.region(value.region(), None);
                    self.seen.pop();
                }
                kind::IF => {
                    self.use_meaning(value);
                    value.region().children().for_each(|branch| self.scope(branch.region(), None));
                }
                _ => repeated.extend(self.value(value, block)),
            }
        }
        // Outside its dataflow block a repeated output is used under its own name.
        if block.is_some() {
            repeated.into_iter().for_each(|at: usize| self.meaning[at] = None);
        }
    }

    fn scope(&mut self, region: Region<'_>, block: Option<()>) {
        self.seen.iter_mut().for_each(ScopedMap::enter);
        self.region(region, block);
        self.seen.iter_mut().for_each(ScopedMap::leave);
    }

    /// Gives the position of a binding that repeats an earlier one.
    fn value(&mut self, value: Value<'_>, block: Option<()>) -> Option<usize> {
        self.use_meaning(value);
        let at = value.index().filter(|_| value.is_binding() && !value.has_effect())?;
        if self.only && value.kind() != kind::CALL || is_allocation(value) {
            return None;
        }
        let key = self.key(value);
        let seen = self.seen.last_mut()?;
        // An output of a dataflow block is visible behind it, though a variable of the block may stand for it inside.
        let level = seen.depth() - if block.is_some() && !value.has(flag::INNER) { 2 } else { 1 };
        let first = seen.get(&key).copied();
        if first.is_none() || seen.level_of(&key).is_some_and(|known| known > level) {
            seen.insert_at(level, key, at);
        }
        let first = first?;
        let (v, source) = (self.edit.v(value), self.edit.v(value.sibling(first)));
        self.edit.set_operands(v, &[source]);
        self.edit.update(v, |node| (node.kind, node.attrs, node.a) = (kind::ALIAS, AttrsId::NONE.number(), 0));
        self.meaning[at] = Some(first);
        Some(at)
    }

    /// Operands that are repeated values become the first ones.
    fn use_meaning(&mut self, value: Value<'_>) {
        for (i, operand) in value.operands().enumerate() {
            if let Some(first) = operand.index().and_then(|at| self.meaning[at]) {
                let (v, source) = (self.edit.v(value), self.edit.v(value.sibling(first)));
                self.edit.set_operand(v, i, source);
            }
        }
    }

    /// What makes two values equal: kind, type, attributes, payload, operands.
    fn key(&self, value: Value<'_>) -> Vec<u32> {
        let mut key = Vec::with_capacity(4 + value.n_operands());
        self.add_key(value, &mut key);
        key
    }

    fn add_key(&self, value: Value<'_>, key: &mut Vec<u32>) {
        let payload = value.node().map_or(0, |node| node.a);
        key.extend([u32::from(value.kind()), value.ty().id(), value.attrs().id(), payload]);
        for operand in value.operands() {
            if operand.is_nested() {
                key.extend([u32::MAX, operand.n_operands() as u32]);
                self.add_key(operand, key);
            } else {
                let first = operand.index().and_then(|at| self.meaning[at]);
                key.push(first.map_or(operand.word(), |at| at as u32));
            }
        }
    }
}

/// Two allocations are two places, though they look alike.
fn is_allocation(value: Value<'_>) -> bool {
    let op = value.as_call().and_then(Call::op).unwrap_or("");
    op.contains("alloc_tensor") || op.contains("alloc_storage")
}
