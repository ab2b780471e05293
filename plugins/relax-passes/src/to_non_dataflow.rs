//! Turns dataflow blocks into plain binding blocks.
//!
//! *Expects* any function. *Keeps* bindings, their order and names. *Never* moves anything.

use plugin_api::prelude::*;
use plugin_api::typing::infer_types::infer_types;

declare_pass! {
    /// Replaces dataflow blocks by plain binding blocks.
    ///
    /// Expects any function. Keeps bindings, their order and names. Never moves anything.
    ///
    /// ```relax before
    /// @R.function
    /// def main(x: R.Tensor((2, 3), "float32")):
    ///     with R.dataflow():
    ///         lv = R.add(x, x)
    ///         y = R.nn.relu(lv)
    ///         R.output(y)
    ///     return y
    /// ```
    /// ```relax after
    /// @R.function
    /// def main(x: R.Tensor((2, 3), "float32")):
    ///     lv = R.add(x, x)
    ///     y = R.nn.relu(lv)
    ///     return y
    /// ```
    pub function pass TO_NON_DATAFLOW = "relax.ToNonDataflow" {
        opt_level: 0,
        establishes: ["relax.no_dataflow"],
        preserves: ["all"],
        run: to_non_dataflow,
    }
}

declare_property! {
    /// All bindings are in plain blocks, so the module does not contain dataflow blocks.
    pub NO_DATAFLOW = "relax.no_dataflow" { check: no_dataflow }
}

fn no_dataflow(function: &Body, _: &Ctx) -> Result<(), PassError> {
    match function.dataflow_blocks().next() {
        // A block is not printed as one piece, so the error points to its first binding.
        Some(block) => bail!(at block.bindings().next().unwrap_or(block.header()), "it is in a dataflow block"),
        None => Ok(()),
    }
}

/// Makes blocks plain. As in TVM, the source of a match_cast in them gets a name.
fn to_non_dataflow(body: &Body, ctx: &Ctx) -> Result<Body, PassError> {
    let mut edit = body.edit();
    for block in body.dataflow_blocks() {
        edit.to_plain_block(block);
        for binding in block.bindings() {
            if let Expr::MatchCast(source) = binding.view()
                && source.is_nested()
            {
                edit.bind(source, "gv");
            }
        }
    }
    let plain = edit.finish()?;
    // An output and its users may now mention all scalars.
    if body.has_scalars() && !plain.same(body) { infer_types(&plain, ctx) } else { Ok(plain) }
}
