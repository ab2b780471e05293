//! Analyzes how callers use a function.

use plugin_api::prelude::*;
use std::collections::BTreeSet;

/// Returns the private Relax functions that are never used as values, and that are called only by functions that
/// passes may change. Their parameters and results can change together with all calls. A function that is used as a
/// value, as in a closure, may be called from anywhere.
pub(super) fn only_called(module: &Module) -> BTreeSet<&str> {
    let private = module.functions().filter(|(_, body)| body.is_private() && body.function().is_some());
    let mut only_called: BTreeSet<&str> = private.map(|(name, _)| name).collect();
    for (_, body) in module.functions().filter(|(_, body)| body.mentions_functions()) {
        let stays = body.function().is_some_and(|function| function.skips_optimization());
        for value in body.values() {
            let may_change = value.as_call().is_some() && !stays;
            let values = value.operands().skip(usize::from(may_change));
            values.filter_map(Value::as_global).for_each(|name| {
                only_called.remove(name);
            });
        }
    }
    only_called
}

/// Applies `f` to the Relax functions that passes may change.
pub(super) fn map_relax(
    module: &Module,
    mut f: impl FnMut(&Body) -> Result<Body, PassError>,
) -> Result<Module, PassError> {
    module.map_functions(|name, body| match body.function() {
        Some(function) if !function.skips_optimization() => f(body).map_err(|error| error.in_function(name)),
        _ => Ok(body.clone()),
    })
}
