//! A plugin with its own allocator: freeing memory on the wrong side of the boundary would end the process.

use plugin_api::prelude::*;
use std::sync::Mutex;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

export_plugin! { passes: [RENAMES, FAILS, PANICS] }

/// Modules of earlier runs, dropped after the host drops its own.
static KEPT: Mutex<Vec<Module>> = Mutex::new(Vec::new());

declare_pass! {
    /// Rebuilds every function twice, adds a function, and keeps its input alive.
    pub module pass RENAMES = "zoo.Rebuilds" {
        opt_level: 0,
        options: RebuildsOptions {
            /// Name of the new function.
            name: String = "a_function_with_a_name_that_is_long_enough_to_be_allocated",
        },
        run: rebuilds,
    }
}

fn rebuilds(module: &Module, options: &RebuildsOptions, ctx: &Ctx) -> Result<Module, PassError> {
    let mut functions = Vec::new();
    for (name, body) in module.functions() {
        let mut edit = body.edit();
        for value in body.bindings() {
            let v = edit.v(value);
            edit.set_name(v, &format!("renamed_{}", value.name().unwrap_or("value")));
        }
        let new = edit.finish()?;
        functions.push((name.to_string(), new.clone()));
        functions.push((format!("{name}_{}", options.name), new));
    }
    ctx.diagnostics().report(
        Severity::Remark,
        None,
        &format!("pass {:?} of target {:?}", ctx.pass_name(), ctx.target()),
    );
    let mut kept = KEPT.lock().map_err(|error| pass_error!("{error}"))?;
    kept.clear();
    kept.push(module.clone());
    Ok(Module::new(functions))
}

declare_pass! {
    /// Returns an error whose text it allocated.
    pub function pass FAILS = "zoo.FailsAtLength" { opt_level: 0, run: fails }
}

fn fails(body: &Body, ctx: &Ctx) -> Result<Body, PassError> {
    bail!("refused after {} characters", ctx.print(body)?.len().max(1000) / 1000 * 1000)
}

declare_pass! {
    /// Panics with text of its own.
    pub function pass PANICS = "zoo.PanicsAtLength" { opt_level: 0, run: panics }
}

#[allow(clippy::panic, reason = "the pass panics on purpose")]
fn panics(body: &Body, _: &Ctx) -> Result<Body, PassError> {
    panic!("lost {} nodes", body.len())
}
