//! A plugin with one pass of each granularity, options of each type, and an operator.
#![forbid(unsafe_code)]

use plugin_api::ir::{AttrsId, BodyBuilder};
use plugin_api::prelude::*;

export_plugin! {
    passes: [SAME_MODULE, SAME_FUNCTION, COUNT_BLOCKS, WITH_OPTIONS, REBUILD, FAIL, TALK, KEEP],
    operators: [IDENTITY, UNSTABLE],
}

declare_pass! {
    /// Gives the module back as it is.
    pub module pass SAME_MODULE = "example.SameModule" { opt_level: 0, run: same_module }
}

fn same_module(module: &Module, _: &Ctx) -> Result<Module, PassError> {
    Ok(module.clone())
}

declare_pass! {
    /// Gives each function back as it is.
    pub function pass SAME_FUNCTION = "example.SameFunction" { opt_level: 0, run: same_function }
}

fn same_function(function: &Body, _: &Ctx) -> Result<Body, PassError> {
    Ok(function.clone())
}

declare_pass! {
    /// Remarks on the size of each dataflow block.
    pub dataflow pass COUNT_BLOCKS = "example.CountBlocks" { opt_level: 1, run: count_blocks }
}

fn count_blocks(edit: &mut Edit<'_>, block: Value<'_>, ctx: &Ctx) -> Result<(), PassError> {
    ctx.diagnostics().remark(block, &format!("ends at {} of {}", block.end(), edit.old().len()));
    Ok(())
}

declare_pass! {
    /// Returns an error that lists the given options.
    ///
    /// Its facts are written in an unusual order.
    pub module pass WITH_OPTIONS = "example.WithOptions" {
        options: Options {
            /// A switch.
            on: bool = true,
            /// A number.
            times: i64 = -1,
            /// A fraction.
            rate: f64 = 0.5,
            /// A text.
            label: String = "two\nlines, \"quoted\"",
            /// Names.
            names: Vec<String> = ["main", "a b"],
            /// Numbers.
            axes: Vec<i64> = [0, -2],
            /// Fractions.
            rates: Vec<f64> = [],
            /// Switches.
            flags: Vec<bool> = [true, false],
        },
        traceable: true,
        sequential: true,
        preserves: ["all"],
        establishes: ["example.seen"],
        requires: ["relax.anf"],
        invalidates: ["example.Other"],
        tolerance: Tolerance::Precision { rtol: 0.01, atol: 0.001 },
        required: ["example.SameModule", "relax.Normalize (>= 0.1)"],
        run: with_options,
        opt_level: 3,
    }
}

fn with_options(_: &Module, options: &Options, _: &Ctx) -> Result<Module, PassError> {
    Err(pass_error!("{options:?}"))
}

declare_pass! {
    /// Replaces each function by a constant: a new tensor, a new body, a new module.
    pub module pass REBUILD = "example.Rebuild" { opt_level: 0, run: rebuild }
}

fn rebuild(module: &Module, _: &Ctx) -> Result<Module, PassError> {
    module.map_functions(|_, _| {
        let ty = Type::tensor([2], DType::F32);
        let data = Tensor::new(&[1.0f32, 2.0].map(f32::to_le_bytes).concat());
        let mut b = BodyBuilder::new();
        let (result, ret) = (b.constant(&data, &ty), b.ty(&ty));
        b.begin_function(0, AttrsId::NONE, None);
        b.end_function(result, ret);
        Ok(b.finish()?)
    })
}

declare_pass! {
    /// Fails in the way that its option names, on functions whose name starts with `bad`.
    pub function pass FAIL = "example.Fail" {
        opt_level: 0,
        options: FailOptions {
            /// `error`, `text`, `string`, `number`, `drop` or `no`.
            how: String = "error",
        },
        run: fail,
    }
}

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("the payload panics too");
    }
}

fn fail(function: &Body, options: &FailOptions, ctx: &Ctx) -> Result<Body, PassError> {
    let name = ctx.function_name().unwrap_or_default();
    if !name.starts_with("bad") {
        return Ok(function.clone());
    }
    match options.how.as_str() {
        "error" => bail!(at function.root(), "`{name}` is not liked"),
        "text" => panic!("as text"),
        "string" => panic!("as string {name}"),
        "number" => std::panic::panic_any(7),
        "drop" => std::panic::panic_any(Bomb),
        other => bail!("`how` is `{other}`"),
    }
}

declare_pass! {
    /// Calls every service of the host, and logs the answers.
    pub module pass TALK = "example.Talk" { opt_level: 0, run: talk }
}

fn talk(module: &Module, ctx: &Ctx) -> Result<Module, PassError> {
    let now = Ctx::current();
    tracing::info!(level = now.opt_level(), pass = ctx.pass_name(), "asked {:?}", ctx.config("example.key"));
    tracing::debug!("nobody wants this");
    let (name, function) = module.functions().next().ok_or_else(|| pass_error!("no function"))?;
    ctx.diagnostics().in_function(name).report(Severity::Warning, Some(function.root()), &ctx.print(function)?);
    Err(pass_error!("target {:?}, function {:?}", ctx.target(), ctx.function_name()).in_function(name))
}

declare_pass! {
    /// Queries the context of its previous run, which has ended, and queries a context from another thread.
    pub module pass KEEP = "example.Keep" { opt_level: 0, run: keep }
}

thread_local! {
    static KEPT: std::cell::RefCell<Option<Ctx>> = const { std::cell::RefCell::new(None) };
}

fn keep(_: &Module, ctx: &Ctx) -> Result<Module, PassError> {
    let last = KEPT.replace(Some(Ctx::current()));
    let ask = |ctx: &Ctx| (ctx.opt_level(), ctx.config("example.key").is_some());
    let elsewhere = std::thread::spawn(move || ask(&Ctx::current())).join();
    let panic = std::thread::spawn(|| panic!("on a thread of its own")).join().is_err();
    bail!("{:?} {:?} {elsewhere:?} {panic}", ask(ctx), last.as_ref().map(ask));
}

const IDENTITY: OpDecl = OpDecl {
    name: "example.identity",
    args: &[ArgDecl { name: "data", kind: plugin_api::metadata::ArgKind::Any, optional: false }],
    attrs: &[AttrDecl {
        name: "axes",
        ty: plugin_api::metadata::AttrType::OptIntList,
        default: DefaultDecl::None,
        by_name: false,
    }],
    pure: true,
    doc: "Its argument.",
    infer: |call| call.arg(0).map(|arg| arg.ty().to_owned()).ok_or_else(|| InferError::wrong("no argument")),
    legalize: None,
};

const UNSTABLE: OpDecl = OpDecl { name: "example.unstable", pure: false, infer: |_| panic!("no rule"), ..IDENTITY };
