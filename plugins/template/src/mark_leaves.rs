//! Marks functions that call no other function of the module.

use plugin_api::prelude::*;

declare_pass! {
    /// Adds an attribute to functions that do not call other functions of the module.
    ///
    /// Expects any module. The content of functions and existing attributes do not change.
    ///
    /// ```relax before
    /// @R.function
    /// def main(x: R.Tensor((2, 3), "float32")):
    ///     return x
    /// ```
    /// ```relax after
    /// @R.function
    /// def main(x: R.Tensor((2, 3), "float32")):
    ///     R.func_attr({"leaf": True})
    ///     return x
    /// ```
    pub module pass MARK_LEAVES = "template_plugin.MarkLeaves" {
        opt_level: 0,
        preserves: ["all"],
        options: Options {
            /// The key of the attribute.
            mark: String = "leaf",
            /// True to keep functions that are visible outside the module unchanged.
            only_private: bool = false,
        },
        run: mark_leaves,
    }
}

fn mark_leaves(module: &Module, options: &Options, _: &Ctx) -> Result<Module, PassError> {
    module.map_functions(|name, body| {
        let is_wanted = |function: Function<'_>| {
            (function.is_private() || !options.only_private) && function.attr(&options.mark).is_none()
        };
        if !body.function().is_some_and(is_wanted) || calls_others(body) {
            return Ok(body.clone());
        }
        mark(body, &options.mark).map_err(|error| error.in_function(name))
    })
}

fn calls_others(body: &Body) -> bool {
    body.values().flat_map(Value::operands).any(|operand| matches!(operand.view(), Expr::GlobalVar(_)))
}

fn mark(body: &Body, key: &str) -> Result<Body, PassError> {
    let mut edit = body.edit();
    let root = edit.v(body.root());
    let old = body.root().attrs().iter().map(|(key, value)| (key, value.to_owned()));
    let attrs = edit.builder().attrs(old.chain([(key, Attr::Bool(true))]));
    edit.set_attrs(root, attrs);
    Ok(edit.finish()?)
}
