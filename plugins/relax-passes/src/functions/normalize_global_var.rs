//! Renames each public function to the symbol under which it is visible outside of its module.

use plugin_api::prelude::*;

declare_pass! {
    /// Renames each public function to the name under which it is visible outside its module.
    ///
    /// That name is its `global_symbol`. A private function that has such a name is renamed. Expects any module.
    /// Results of functions do not change. Functions that are read from text already have these names, like the one
    /// below.
    ///
    /// ```relax before
    /// @R.function
    /// def f(x: R.Tensor((2, 3), "float32")):
    ///     return x
    /// ```
    /// ```relax after
    /// @R.function
    /// def f(x: R.Tensor((2, 3), "float32")):
    ///     return x
    /// ```
    pub module pass NORMALIZE_GLOBAL_VAR = "relax.NormalizeGlobalVar" {
        opt_level: 0,
        preserves: [keeps_form],
        run: normalize_global_var,
    }
}

fn normalize_global_var(module: &Module, ctx: &Ctx) -> Result<Module, PassError> {
    let names = module.visible_names()?;
    ctx.statistic("functions renamed", names.iter().filter(|(old, new)| old != new).count());
    module.rename_functions(&names)?.map_functions(|_, body| {
        let mut edit = body.edit();
        edit.remove_attr(body.root(), "global_symbol");
        Ok(edit.finish()?)
    })
}
