//! Brings functions into A-normal form: every computed value has a name.
//!
//! *Expects* any function. *Keeps* the order of evaluation, blocks, names and types. *Never* changes computed values.

use plugin_api::prelude::*;
use plugin_api::typing::normalize::{first_not_normal, normalize};

declare_pass! {
    /// Brings functions into A-normal form: nested calls become bindings.
    ///
    /// Expects any function. Keeps the order of evaluation, blocks, names and types. Results never change. Tuples,
    /// constants and shapes may stay where they are used.
    ///
    /// ```relax before
    /// @R.function
    /// def main(x: R.Tensor((2, 3), "float32")):
    ///     y = R.nn.relu(R.add(x, x))
    ///     return y
    /// ```
    /// ```relax after
    /// @R.function
    /// def main(x: R.Tensor((2, 3), "float32")):
    ///     gv = R.add(x, x)
    ///     y = R.nn.relu(gv)
    ///     return y
    /// ```
    pub function pass NORMALIZE = "relax.Normalize" {
        opt_level: 1,
        establishes: ["relax.anf"],
        preserves: ["all"],
        run: run,
    }
}

declare_property! {
    /// A-normal form: every computed value has a name.
    ///
    /// Tuples, constants and shapes may appear where they are used.
    pub ANF = "relax.anf" { check: is_normal }
}

fn is_normal(function: &Body, _: &Ctx) -> Result<(), PassError> {
    match first_not_normal(function) {
        Some(value) => {
            bail!(at value, "a value inside another expression is unnamed (a pass names it with `rw.emit` or `rw.emit_op`)")
        }
        None => Ok(()),
    }
}

fn run(body: &Body, ctx: &Ctx) -> Result<Body, PassError> {
    normalize(body, ctx)
}
