//! Removes bindings whose value is never used, and functions that nothing calls.
//!
//! *Expects* any module. *Keeps* everything with an effect, every `match_cast`, functions that others can call. *Never*
//! changes the order of what stays.
//!
//! Before: `a = R.add(x, x); b = R.nn.relu(x); return b`. After: `b = R.nn.relu(x); return b`.

use plugin_api::ir::records::{flag, kind, leaf};
use plugin_api::prelude::*;
use std::collections::BTreeSet;

declare_pass! {
    /// Removes bindings whose value is never used, and functions that nothing calls.
    ///
    /// Expects any module. Keeps everything with an effect, every match_cast, and functions that others can call.
    /// Never changes the order of what stays.
    pub module pass DEAD_CODE_ELIMINATION = "relax.DeadCodeElimination" {
        opt_level: 1,
        preserves: ["relax.Normalize", "relax.anf", "relax.no_dataflow"],
        options: Options {
            /// Functions from which everything that is kept can be reached; empty: all that are not private.
            entry_functions: Vec<String> = [],
        },
        run: dead_code_elimination,
    }
}

fn dead_code_elimination(module: &Module, options: &Options, _: &Ctx) -> Result<Module, PassError> {
    let cleaned = module.map_functions(|name, body| match body.function() {
        Some(function) if !function.skips_optimization() => {
            remove_unused(body, function).map_err(|error| PassError::from(error).in_function(name))
        }
        _ => Ok(body.clone()),
    })?;
    let reached = reachable(&cleaned, &options.entry_functions);
    let mut edit = cleaned.edit();
    for (name, _) in cleaned.functions().filter(|(name, _)| !reached.contains(name)) {
        edit.remove(name);
    }
    Ok(edit.finish())
}

/// Bindings that are live from the end backwards; the others go, and outputs of blocks that nobody outside uses.
fn remove_unused(body: &Body, function: Function<'_>) -> Result<Body, SealError> {
    let mut live = Live { used: vec![false; body.len()], keep: vec![false; body.len()] };
    live.region(function.value().region());
    body.retain(|value| live.keep[value.index().unwrap_or(0)])
}

struct Live {
    used: Vec<bool>,
    keep: Vec<bool>,
}

impl Live {
    /// Users stand behind what they use, so one walk backwards sees every use first.
    fn region(&mut self, region: Region<'_>) {
        let children: Vec<Value<'_>> = region.children().collect();
        for value in children.into_iter().rev() {
            let at = value.index().unwrap_or(0);
            let wanted = self.used[at] || value.has_effect() || value.kind() == kind::MATCH_CAST;
            if !value.is_bound() || value.kind() == kind::PARAM || wanted {
                self.keep[at] = true;
                self.operands(value);
                self.region(value.region());
            }
        }
    }

    fn operands(&mut self, value: Value<'_>) {
        // A nested value counts only if its user does, which was seen before it.
        if value.is_nested() && !self.used[value.index().unwrap_or(0)] {
            return;
        }
        for operand in value.operands().filter_map(Value::index) {
            self.used[operand] = true;
        }
    }
}

/// Names of functions that can be called from outside, or from one of these.
fn reachable<'m>(module: &'m Module, entries: &[String]) -> BTreeSet<&'m str> {
    let is_entry = |name: &str, body: &Body| match entries {
        [] => !body.root().has(flag::PRIVATE),
        names => names.iter().any(|entry| entry == name),
    };
    let entries = module.functions().filter(|(name, body)| is_entry(name, body));
    let mut work: Vec<(&str, &Body)> = entries.collect();
    let mut reached = BTreeSet::new();
    while let Some((name, body)) = work.pop() {
        if reached.insert(name) {
            let raw = body.raw();
            let callees = raw.leaves().iter().filter(|leaf| leaf.kind == leaf::GLOBAL_VAR);
            work.extend(callees.filter_map(|leaf| module.get_entry(raw.str(leaf.val as u32))));
        }
    }
    reached
}
