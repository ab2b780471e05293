//! Gathers bindings without effects into dataflow blocks.
//!
//! *Expects* any function, preferably in A-normal form. *Keeps* the order of bindings. *Never* puts an If or anything
//! with an effect into a dataflow block.

use plugin_api::prelude::*;

declare_pass! {
    /// Gathers bindings without side effects into dataflow blocks, then canonicalizes bindings.
    ///
    /// Expects any function, preferably in A-normal form. The order of bindings does not change. Ifs and bindings with
    /// side effects are never put into a dataflow block.
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
            /// The minimum number of bindings in a new block.
            min_size: i64 in (0..) = 2,
        },
        run: convert_to_dataflow,
    }
}

fn convert_to_dataflow(body: &Body, options: &Options, ctx: &Ctx) -> Result<Body, PassError> {
    let mut edit = body.edit();
    for sequence in body.sequences() {
        let (mut run, mut stays_plain) = (Run::default(), false);
        for block in sequence.blocks() {
            edit.dissolve(block.header());
            stays_plain &= !block.is_dataflow();
            for value in block.header().region().children().filter(|value| !value.is_nested()) {
                if can_flow(value) && !stays_plain {
                    run.bindings.push(value);
                    run.was_dataflow |= block.is_dataflow();
                } else {
                    gather(&mut edit, std::mem::take(&mut run), options.min_size);
                    edit.wrap_plain(value, value);
                    stays_plain &= can_flow(value);
                }
            }
            stays_plain |= has_own_scalars(block);
        }
        gather(&mut edit, run, options.min_size);
    }
    let converted = edit.finish()?;
    let same = converted.structural_eq(body);
    crate::canonicalize_bindings::canonicalize(if same { body } else { &converted }, ctx)
}

fn can_flow(value: Value<'_>) -> bool {
    !value.has_effect() && !value.is_if()
}

/// Returns true if a dataflow block defines scalars that are visible only inside it. Other code is not moved into such
/// a block, because the types of the outputs are less precise after the block than inside it.
fn has_own_scalars(block: Block<'_>) -> bool {
    block.is_dataflow() && block.bindings().any(|value| value.is_dataflow_var() && value.symbol().is_some())
}

/// A run of consecutive bindings without effects.
#[derive(Default)]
struct Run<'b> {
    bindings: Vec<Value<'b>>,
    /// True if some of the bindings come from a dataflow block, which is kept even if it is short.
    was_dataflow: bool,
}

/// Turns a run of bindings into a dataflow block if it is long enough. Canonicalization determines the outputs.
fn gather(edit: &mut Edit<'_>, run: Run<'_>, min_size: i64) {
    let (Some(first), Some(last)) = (run.bindings.first(), run.bindings.last()) else { return };
    if run.was_dataflow || run.bindings.len() as i64 >= min_size {
        edit.wrap_dataflow(*first, *last);
    } else {
        edit.wrap_plain(*first, *last);
    }
}
