//! Prints the module at a point of a pipeline.
//!
//! *Expects* any module. *Keeps* everything: returns the same module.

use plugin_api::prelude::*;

declare_pass! {
    /// Prints the module as text on standard error of the host, at this point of the pipeline.
    ///
    /// The line above the text is `# transform.PrintIR: HEADER`. Expects any module, and returns it unchanged.
    /// `--print-after` of `passhost run` has the same effect without changing the pipeline.
    ///
    /// ```relax before
    /// @R.function
    /// def main(x: R.Tensor((2, 3), "float32")):
    ///     return x
    /// ```
    /// ```relax after
    /// @R.function
    /// def main(x: R.Tensor((2, 3), "float32")):
    ///     return x
    /// ```
    pub module pass PRINT_IR = "transform.PrintIR" {
        opt_level: 0,
        preserves: ["all"],
        options: Options {
            /// A line above the text, to identify it.
            header: String = "",
        },
        run: print_ir,
    }
}

fn print_ir(module: &Module, options: &Options, ctx: &Ctx) -> Result<Module, PassError> {
    ctx.show_module(module, &options.header)?;
    Ok(module.clone())
}
