//! Makes every function visible outside its module.

use plugin_api::ir::BodyKind;
use plugin_api::prelude::*;

declare_pass! {
    /// Makes every function visible outside its module, under its name.
    ///
    /// Expects any module. External functions do not change. If the module has the attribute `system_lib_prefix`, the
    /// prefix is added to the names of PrimFuncs and to all references to them.
    ///
    /// ```relax before
    /// @R.function(private=True)
    /// def twice(x: R.Tensor((2, 3), "float32")):
    ///     y = R.add(x, x)
    ///     return y
    /// ```
    /// ```relax after
    /// @R.function
    /// def twice(x: R.Tensor((2, 3), "float32")):
    ///     y = R.add(x, x)
    ///     return y
    /// ```
    pub module pass ATTACH_GLOBAL_SYMBOL = "relax.AttachGlobalSymbol" {
        opt_level: 0,
        preserves: [keeps_form],
        run: attach_global_symbol,
    }
}

fn attach_global_symbol(module: &Module, ctx: &Ctx) -> Result<Module, PassError> {
    let mut attached = 0;
    let public = module.map_functions(|name, body| {
        let has_code = matches!(body.kind(), BodyKind::Function | BodyKind::PrimFunc);
        if !has_code || !(body.is_private() || body.root().attr("global_symbol").is_some()) {
            return Ok(body.clone());
        }
        attached += 1;
        make_public(body).map_err(|error| error.in_function(name))
    })?;
    ctx.statistic("functions made public", attached);
    let attrs = module.attrs();
    let prefix = attrs.and_then(|attrs| attrs.get("system_lib_prefix")).and_then(|prefix| prefix.as_str());
    let Some(prefix) = prefix.filter(|prefix| !prefix.is_empty()) else { return Ok(public) };
    let prim_funcs = module.functions().filter(|(_, body)| body.kind() == BodyKind::PrimFunc);
    public.rename_functions(&prim_funcs.map(|(name, _)| (name.to_string(), format!("{prefix}{name}"))).collect())
}

/// Makes a function public, with its name in the module as its symbol.
fn make_public(body: &Body) -> Result<Body, PassError> {
    let mut edit = body.edit();
    edit.set_private(false);
    edit.remove_attr(body.root(), "global_symbol");
    Ok(edit.finish()?)
}
