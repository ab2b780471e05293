//! A plugin that contributes every kind of item, with contracts that are true, false, or not checkable.
#![forbid(unsafe_code)]

use plugin_api::ir::AttrsId;
use plugin_api::ir::records::{flag, kind};
use plugin_api::metadata::OptionValue;
use plugin_api::prelude::*;

export_plugin! {
    passes: [PLAIN, UNWRAPS, ASKS, CLAIMS, MERGES, NEEDS_PLAIN_BLOCKS, NEEDS_PANIC, NEEDS_NOBODY, NEEDS_CLEANUP, USES_PANICS],
    operators: [IDENTITY, BOOM],
    config: [LIMIT, RATE, NAMES, DEPTH, EXPLICIT],
    properties: [NO_DATAFLOW, TWO_USED, PANICS, UNCHECKED],
    composites: [CLEANUP, LATE, STUMBLES],
}

declare_config! {
    /// Maximum number of items.
    ///
    /// It applies to each kind of item.
    pub LIMIT: i64 = "zoo.limit" { default: 16, range: 0..=1024 }
}

declare_config! {
    /// A fraction of a whole.
    pub RATE: f64 = "zoo.rate" { range: 0.0..=1.0 }
}

declare_config! {
    /// Names of the functions to change.
    pub NAMES: Vec<String> = "zoo.names" { default: ["main"] }
}

declare_config! {
    /// Maximum nesting of unrolled loops.
    pub DEPTH: i64 = "zoo.unroll.depth" { default: 8, range: ..=64 }
}

declare_config! {
    /// True if unrolled loops are written out.
    pub EXPLICIT: bool = "zoo.unroll.explicit" { default: true }
}

declare_pass! {
    /// Does nothing.
    ///
    /// What follows is room for tests, which write other fields into its place: ----------------------------------------
    pub function pass PLAIN = "zoo.Plain" {
        opt_level: 0,
        establishes: ["zoo.unchecked"],
        preserves: ["all"],
        options: PlainOptions {
            /// Number of repetitions.
            times: i64 = 1,
        },
        run: plain,
    }
}

fn plain(body: &Body, _: &PlainOptions, _: &Ctx) -> Result<Body, PassError> {
    Ok(body.clone())
}

fn nothing(body: &Body, _: &Ctx) -> Result<Body, PassError> {
    Ok(body.clone())
}

declare_pass! {
    /// Makes dataflow blocks plain.
    pub function pass UNWRAPS = "zoo.Unwraps" {
        opt_level: 1,
        establishes: ["zoo.no_dataflow"],
        preserves: ["all"],
        run: unwraps,
    }
}

fn unwraps(body: &Body, _: &Ctx) -> Result<Body, PassError> {
    let mut edit = body.edit();
    for block in body.values().filter(|value| value.kind() == kind::DATAFLOW) {
        let header = edit.v(block);
        edit.update(header, |node| {
            node.kind = kind::BLOCK;
            node.flags &= !flag::DATAFLOW;
        });
        for binding in block.region().bindings() {
            let v = edit.v(binding);
            edit.update(v, |node| node.flags &= !flag::INNER);
        }
    }
    Ok(edit.finish()?)
}

declare_pass! {
    /// Reports the config values that it sees.
    pub module pass ASKS = "zoo.Asks" { opt_level: 0, preserves: ["all"], run: asks }
}

fn asks(module: &Module, ctx: &Ctx) -> Result<Module, PassError> {
    let keys = [LIMIT.name(), RATE.name(), NAMES.name(), DEPTH.name(), EXPLICIT.name()];
    let value = |key: &str| ctx.config(key).map_or(format!("{key} is not set"), |value| format!("{key}={value}"));
    ctx.diagnostics().report(Severity::Remark, None, &keys.map(value).join(", "));
    let (limit, rate): (i64, Option<f64>) = (LIMIT.get(ctx), RATE.get(ctx));
    let same = Some(OptionValue::Int(limit)) == ctx.config(LIMIT.name())
        && rate.map(OptionValue::Float) == ctx.config(RATE.name());
    if same { Ok(module.clone()) } else { Err(pass_error!("`zoo.limit` or `zoo.rate` differs")) }
}

/// Replaces the second binding by the first.
fn merge(body: &Body) -> Result<Body, PassError> {
    let mut bindings = body.bindings();
    let (Some(first), Some(second)) = (bindings.next(), bindings.next()) else { return Ok(body.clone()) };
    let mut edit = body.edit();
    let with = edit.v(first);
    edit.forward_to(second, with);
    Ok(edit.finish()?)
}

declare_pass! {
    /// Changes something and claims that the module contains no dataflow block.
    pub function pass CLAIMS = "zoo.Claims" {
        opt_level: 0,
        establishes: ["zoo.no_dataflow"],
        run: claims,
    }
}

fn claims(body: &Body, _: &Ctx) -> Result<Body, PassError> {
    merge(body)
}

declare_pass! {
    /// Breaks its required property, and claims to keep it.
    pub function pass MERGES = "zoo.Merges" {
        opt_level: 0,
        requires: ["zoo.two_used"],
        preserves: ["all"],
        run: claims,
    }
}

declare_pass! {
    /// Requires functions without dataflow blocks.
    pub function pass NEEDS_PLAIN_BLOCKS = "zoo.NeedsPlainBlocks" {
        opt_level: 0,
        requires: ["zoo.no_dataflow"],
        run: nothing,
    }
}

declare_pass! {
    /// Requires a property that cannot be checked.
    pub function pass NEEDS_PANIC = "zoo.NeedsPanic" { opt_level: 0, requires: ["zoo.panics"], run: nothing }
}

declare_pass! {
    /// Requires an unknown property.
    pub function pass NEEDS_NOBODY = "zoo.NeedsNobody" { opt_level: 0, requires: ["zoo.no_dataflows"], run: nothing }
}

declare_pass! {
    /// Requires a composite pass.
    pub function pass NEEDS_CLEANUP = "zoo.NeedsCleanup" { opt_level: 0, required: ["zoo.Cleanup"], run: nothing }
}

declare_pass! {
    /// Calls an operator whose rule panics.
    pub function pass USES_PANICS = "zoo.UsesPanics" { opt_level: 0, run: uses_panics }
}

fn uses_panics(body: &Body, _: &Ctx) -> Result<Body, PassError> {
    let Some((first, data)) = body.bindings().find_map(|it| Some((it, it.as_call()?.arg(0)?))) else {
        return Ok(body.clone());
    };
    let mut edit = body.edit();
    edit.before(first);
    let (boom, ty, data) = (edit.builder().op(BOOM.name), edit.builder().ty(&data.ty().to_owned()), edit.v(data));
    let new = edit.call(boom, &[data], AttrsId::NONE, ty, false, Some("boom"));
    edit.replace(first, new);
    Ok(edit.finish()?)
}

declare_property! {
    /// The module contains no dataflow block.
    pub NO_DATAFLOW = "zoo.no_dataflow" { check: no_dataflow }
}

fn no_dataflow(body: &Body, _: &Ctx) -> Result<(), PassError> {
    let block = body.values().find(|value| value.kind() == kind::DATAFLOW);
    match block.and_then(|block| block.region().bindings().next()) {
        Some(binding) => bail!(at binding, "this binding is in a dataflow block"),
        None => Ok(()),
    }
}

declare_property! {
    /// The first two bindings are used.
    pub TWO_USED = "zoo.two_used" { check: two_used }
}

fn two_used(body: &Body, ctx: &Ctx) -> Result<(), PassError> {
    let uses = body.use_counts();
    let unused = body.bindings().take(2).find(|value| uses.of(*value) == 0);
    match unused {
        Some(value) => bail!(at value, "nothing in `{}` uses this", ctx.function_name().unwrap_or_default()),
        None => Ok(()),
    }
}

declare_property! {
    /// A property whose checker panics.
    pub PANICS = "zoo.panics" { check: panics }
}

#[allow(clippy::panic, reason = "it panics on purpose")]
fn panics(_: &Body, _: &Ctx) -> Result<(), PassError> {
    panic!("the checker lost its way");
}

declare_property! {
    /// A property without a checker, so that claims are trusted.
    pub UNCHECKED = "zoo.unchecked" {}
}

declare_composite! {
    /// Tidies up.
    ///
    /// In several steps.
    pub CLEANUP = "zoo.Cleanup" {
        opt_level: 1,
        required: ["zoo.Plain"],
        passes: ["zoo.Unwraps", "zoo.NeedsPlainBlocks", "zoo.Plain{times=2}", "zoo.Late"],
    }
}

declare_composite! {
    /// Runs at opt_level 2 and above.
    pub LATE = "zoo.Late" { opt_level: 2, passes: ["zoo.Asks"] }
}

declare_composite! {
    /// Fails in the middle.
    pub STUMBLES = "zoo.Stumbles" { opt_level: 0, passes: ["zoo.Plain", "zoo.Claims", "zoo.Asks"] }
}

const IDENTITY: OpDecl = OpDecl {
    name: "zoo.identity",
    args: &[ArgDecl { name: "data", ..ArgDecl::EMPTY }],
    attrs: &[],
    pure: true,
    doc: "Its argument.",
    infer: |call| call.arg(0).map(|arg| arg.ty().to_owned()).ok_or_else(|| InferError::wrong("no argument")),
    legalize: None,
};

const BOOM: OpDecl = OpDecl { name: "zoo.boom", doc: "Nobody knows.", infer: boom, ..IDENTITY };

#[allow(clippy::panic, reason = "it panics on purpose")]
fn boom(_: Call<'_>) -> Result<Type, InferError> {
    panic!("the rule lost its way");
}
