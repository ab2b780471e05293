//! Merges composite functions of one compiler into functions for that compiler.

use super::merged_groups::merged_groups;
use crate::dead_code_elimination::without_dead_code;
use plugin_api::prelude::*;
use plugin_api::rewrite::grouping::{Constants, GroupedFunctions};
use std::collections::BTreeMap;

declare_pass! {
    /// Merges calls of composite functions of one compiler, in the dataflow blocks of `main`, into functions marked
    /// `Codegen`. Then eliminates dead code.
    ///
    /// A function marked `Composite` belongs to the compiler that is named in its mark before the first `.`. A call is
    /// merged into the group of its arguments unless two groups would then depend on each other. The composite
    /// functions become local functions of the merged function, so that a compiler needs nothing else from the module.
    ///
    /// Expects functions in A-normal form, with composite functions from FuseOpsByPattern. Results do not change, nor
    /// do functions other than `main`.
    ///
    /// ```relax before
    /// @R.function(private=True)
    /// def relu(x: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
    ///     R.func_attr({"Composite": "acme.relu", "Primitive": True})
    ///     with R.dataflow():
    ///         y = R.nn.relu(x)
    ///         R.output(y)
    ///     return y
    ///
    /// @R.function
    /// def main(x: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
    ///     cls = Module
    ///     with R.dataflow():
    ///         y: R.Tensor((2, 3), "float32") = cls.relu(x)
    ///         z: R.Tensor((2, 3), "float32") = cls.relu(y)
    ///         R.output(z)
    ///     return z
    /// ```
    /// ```relax after
    /// @R.function
    /// def fused_relu_relu_acme(x: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
    ///     R.func_attr({"Codegen": "acme"})
    ///     @R.function
    ///     def local_func(x_1: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
    ///         R.func_attr({"Composite": "acme.relu"})
    ///         with R.dataflow():
    ///             y = R.nn.relu(x_1)
    ///             R.output(y)
    ///         return y
    ///     y: R.Tensor((2, 3), "float32") = local_func(x)
    ///     z: R.Tensor((2, 3), "float32") = local_func(y)
    ///     return z
    ///
    /// @R.function
    /// def main(x: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
    ///     cls = Module
    ///     with R.dataflow():
    ///         z: R.Tensor((2, 3), "float32") = cls.fused_relu_relu_acme(x)
    ///         R.output(z)
    ///     return z
    /// ```
    pub module pass MERGE_COMPOSITE_FUNCTIONS = "relax.MergeCompositeFunctions" {
        opt_level: 0,
        preserves: [keeps_form],
        run: merge_composite_functions,
    }
}

fn merge_composite_functions(module: &Module, ctx: &Ctx) -> Result<Module, PassError> {
    let Some(main) = module.get("main").filter(|body| body.function().is_some()) else {
        bail!("the module needs a Relax function `main`, in which composite functions are merged");
    };
    let groups = merged_groups(main, module).map_err(|error| error.in_function("main"))?;
    ctx.statistic("functions formed", groups.len());
    let mut grouped = GroupedFunctions::new(module, Constants::Lifted);
    grouped.make("main", &groups).map_err(|error| error.in_function("main"))?;
    let grouped = grouped.finish();
    let (mut edit, mut names) = (grouped.edit(), BTreeMap::new());
    for (name, body) in grouped.functions().filter(|(name, _)| module.get(name).is_none()) {
        edit.set(name, with_local_functions(body, module)?);
        let compiler = body.root().attr("Codegen").and_then(|compiler| compiler.as_str()).unwrap_or_default();
        names.insert(name.to_string(), format!("{name}_{compiler}"));
    }
    without_dead_code(&edit.finish().rename_functions(&names)?, ctx)
}

/// Makes the function public and adds a local function for each composite function that it calls. Local functions need
/// a plain block.
fn with_local_functions(body: &Body, module: &Module) -> Result<Body, PassError> {
    let mut edit = body.edit();
    edit.set_private(false);
    body.dataflow_blocks().for_each(|block| edit.to_plain_block(block));
    let mut locals: BTreeMap<&str, V> = BTreeMap::new();
    for call in body.bindings().filter_map(Value::as_call) {
        let callee = call.global().and_then(|name| module.get_entry(name));
        let Some((name, composite)) = callee.filter(|(_, body)| body.root().attr("Composite").is_some()) else {
            continue;
        };
        let local = *locals.entry(name).or_insert_with(|| {
            edit.before(call.value());
            let local = edit.local_function(composite, "local_func");
            edit.remove_attr(local, "Primitive");
            local
        });
        edit.set_operand(call, 0, local);
    }
    Ok(edit.finish()?)
}
