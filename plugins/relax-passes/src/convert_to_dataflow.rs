//! Gathers bindings without effects into dataflow blocks.
//!
//! *Expects* any function, best in A-normal form. *Keeps* the order of bindings. *Never* puts an If or anything with
//! an effect into a dataflow block.
//!
//! Before: `a = R.add(x, x); b = R.nn.relu(a); return b`. After: both stand in one `with R.dataflow():`, which gives
//! out `b`.

use plugin_api::ir::records::{flag, kind};
use plugin_api::prelude::*;

declare_pass! {
    /// Gathers bindings without effects into dataflow blocks, then canonicalizes bindings.
    ///
    /// Expects any function, best in A-normal form. Keeps the order of bindings. Never puts an If or anything with an
    /// effect into a dataflow block.
    pub function pass CONVERT_TO_DATAFLOW = "relax.ConvertToDataflow" {
        opt_level: 0,
        preserves: ["relax.Normalize", "relax.anf"],
        options: Options {
            /// Least number of bindings in a new block.
            min_size: i64 = 2,
        },
        run: convert_to_dataflow,
    }
}

fn convert_to_dataflow(body: &Body, options: &Options, ctx: &Ctx) -> Result<Body, PassError> {
    let mut edit = body.edit();
    let last_use = last_uses(body);
    for owner in body.values().filter(|value| matches!(value.kind(), kind::FUNC | kind::BRANCH)) {
        let mut run: Vec<Value<'_>> = Vec::new();
        for block in owner.region().children() {
            let plain = block.kind() == kind::BLOCK;
            if !plain && block.kind() != kind::DATAFLOW {
                continue;
            }
            edit.dissolve(block);
            for value in block.region().children() {
                if value.is_nested() {
                    continue;
                }
                if can_flow(value) {
                    run.push(value);
                } else {
                    gather(&mut edit, std::mem::take(&mut run), options.min_size, &last_use);
                    wrap(&mut edit, &[value], kind::BLOCK);
                }
            }
        }
        gather(&mut edit, run, options.min_size, &last_use);
    }
    let converted = edit.finish()?;
    let same = converted.structural_eq(body);
    crate::canonicalize_bindings::canonicalize(if same { body } else { &converted }, ctx)
}

fn can_flow(value: Value<'_>) -> bool {
    !value.has_effect() && value.kind() != kind::IF
}

/// A run of bindings becomes a dataflow block if it is long enough.
fn gather(edit: &mut Edit<'_>, run: Vec<Value<'_>>, min_size: i64, last_use: &[usize]) {
    if run.is_empty() {
        return;
    }
    let flows = run.len() as i64 >= min_size;
    wrap(edit, &run, if flows { kind::DATAFLOW } else { kind::BLOCK });
    let end = run[run.len() - 1].end();
    for value in run {
        let inner = flows && value.index().is_some_and(|at| last_use[at] < end);
        let v = edit.v(value);
        edit.update(v, |node| node.flags = node.flags & !flag::INNER | if inner { flag::INNER } else { 0 });
    }
}

fn wrap(edit: &mut Edit<'_>, run: &[Value<'_>], block: u16) {
    let flags = if block == kind::DATAFLOW { flag::DATAFLOW } else { 0 };
    edit.wrap(run[0], run[run.len() - 1], NodeSpec::new(block).flags(flags));
}

/// For each node the position of its last user.
fn last_uses(body: &Body) -> Vec<usize> {
    let mut last = vec![0; body.len()];
    for user in body.values() {
        for at in user.operands().filter_map(Value::index) {
            last[at] = user.index().unwrap_or(0);
        }
    }
    last
}
