//! Gathers bindings without effects into dataflow blocks.
//!
//! *Expects* any function, best in A-normal form. *Keeps* the order of bindings. *Never* puts an If or anything with
//! an effect into a dataflow block.

use plugin_api::ir::records::{flag, kind};
use plugin_api::prelude::*;

declare_pass! {
    /// Gathers bindings without effects into dataflow blocks, then canonicalizes bindings.
    ///
    /// Expects any function, best in A-normal form. Keeps the order of bindings. Never puts an If or anything with an
    /// effect into a dataflow block.
    ///
    /// ```relax before
    /// @R.function
    /// def main(x: R.Tensor((2, 3), "float32")):
    ///     a = R.add(x, x)
    ///     b = R.nn.relu(a)
    ///     return b
    /// ```
    /// ```relax after
    /// @R.function
    /// def main(x: R.Tensor((2, 3), "float32")):
    ///     with R.dataflow():
    ///         a = R.add(x, x)
    ///         b = R.nn.relu(a)
    ///         R.output(b)
    ///     return b
    /// ```
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
    for owner in body.values().filter(|value| matches!(value.kind(), kind::FUNC | kind::BRANCH)) {
        let mut run = Run::default();
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
                    run.bindings.push(value);
                    run.was_dataflow |= !plain;
                } else {
                    gather(&mut edit, std::mem::take(&mut run), options.min_size);
                    wrap(&mut edit, &[value], kind::BLOCK);
                }
            }
        }
        gather(&mut edit, run, options.min_size);
    }
    let converted = edit.finish()?;
    let same = converted.structural_eq(body);
    crate::canonicalize_bindings::canonicalize(if same { body } else { &converted }, ctx)
}

fn can_flow(value: Value<'_>) -> bool {
    !value.has_effect() && value.kind() != kind::IF
}

/// Bindings without an effect that follow each other.
#[derive(Default)]
struct Run<'b> {
    bindings: Vec<Value<'b>>,
    /// Whether some come from a dataflow block: that is kept even where it is short.
    was_dataflow: bool,
}

/// A run of bindings becomes a dataflow block if it is long enough. Which of them are outputs, canonicalizing finds.
fn gather(edit: &mut Edit<'_>, run: Run<'_>, min_size: i64) {
    if !run.bindings.is_empty() {
        let flows = run.was_dataflow || run.bindings.len() as i64 >= min_size;
        wrap(edit, &run.bindings, if flows { kind::DATAFLOW } else { kind::BLOCK });
    }
}

fn wrap(edit: &mut Edit<'_>, run: &[Value<'_>], block: u16) {
    let flags = if block == kind::DATAFLOW { flag::DATAFLOW } else { 0 };
    edit.wrap(run[0], run[run.len() - 1], NodeSpec::new(block).flags(flags));
}
