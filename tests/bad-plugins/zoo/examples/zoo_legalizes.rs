//! Operators whose legalizations have one fault each, and a pass that requests them.
#![forbid(unsafe_code)]

use plugin_api::ir::AttrsId;
use plugin_api::prelude::*;
use plugin_api::te::Te;
use plugin_api::tvm::BlockBuilder;
use plugin_api::typing::legalized::Legalized;

export_plugin! {
    passes: [LEGALIZES],
    operators: [PANICS, OTHER_TYPE, OTHER_COUNT, REFUSES, ENDLESS, FOREIGN, ITSELF, COMPUTES, MISSPELT, DOUBLES],
}

declare_pass! {
    /// Calls an operator and requests the legalization of the call.
    pub function pass LEGALIZES = "zoo.Legalizes" {
        opt_level: 0,
        options: Options {
            /// The operator.
            operator: String = "zoo.panics",
        },
        run: legalizes,
    }
}

fn legalizes(body: &Body, options: &Options, ctx: &Ctx) -> Result<Body, PassError> {
    let Some((first, data)) = body.bindings().find_map(|it| Some((it, it.as_call()?.arg(0)?))) else {
        return Ok(body.clone());
    };
    let mut edit = body.edit();
    edit.before(first);
    let op = edit.builder().op(&options.operator);
    let (ty, data) = (edit.builder().ty(&data.ty().to_owned()), edit.v(data));
    let new = edit.call(op, &[data], AttrsId::NONE, ty, false, Some("new"));
    edit.replace(first, new);
    let body = edit.finish()?;
    let call = body.bindings().find_map(|it| it.as_call().filter(|call| call.op() == Some(options.operator.as_str())));
    match call.map(|call| ctx.legalize(call)) {
        Some(Err(error)) => bail!("no legalization: {error}"),
        _ => Ok(body.clone()),
    }
}

const PANICS: OpDecl = OpDecl {
    name: "zoo.panics",
    args: &[ArgDecl { name: "data", ..ArgDecl::EMPTY }],
    attrs: &[],
    pure: true,
    doc: "Its argument.",
    infer: |call| call.arg(0).map(|arg| arg.ty().to_owned()).ok_or_else(|| InferError::wrong("no argument")),
    legalize: Some(panics),
};

#[allow(clippy::panic, reason = "it panics on purpose")]
fn panics(_: Call<'_>) -> Result<Legalized, InferError> {
    panic!("the legalization lost its way");
}

/// The data type of the result differs from that of the call.
const OTHER_TYPE: OpDecl = OpDecl { name: "zoo.other_type", legalize: Some(other_type), ..PANICS };

fn other_type(call: Call<'_>) -> Result<Legalized, InferError> {
    let te = Te::new("other_type", call);
    let x = te.input(0)?;
    let out = te.compute("out", x.shape(), |i| x.at(i).cast(DType::I32));
    te.finish(&[out])
}

/// The legalization has two results, but the call has one.
const OTHER_COUNT: OpDecl = OpDecl { name: "zoo.other_count", legalize: Some(other_count), ..PANICS };

fn other_count(call: Call<'_>) -> Result<Legalized, InferError> {
    let te = Te::new("other_count", call);
    let x = te.input(0)?;
    let out = || te.compute("out", x.shape(), |i| x.at(i) + 1);
    let outs = [out(), out()];
    te.finish(&outs)
}

const REFUSES: OpDecl =
    OpDecl { name: "zoo.refuses", legalize: Some(|_| Err(InferError::wrong("it is too large"))), ..PANICS };

/// The legalization requests itself, twice at each depth, and ignores errors.
const ENDLESS: OpDecl = OpDecl { name: "zoo.endless", legalize: Some(endless), ..PANICS };

fn endless(call: Call<'_>) -> Result<Legalized, InferError> {
    let ctx = Ctx::current();
    let _ = ctx.legalize(call);
    let _ = ctx.legalize(call);
    Err(InferError::wrong("never"))
}

/// The legalization is another plugin's, for a call in another function, and uses a value that this function lacks.
const FOREIGN: OpDecl = OpDecl { name: "zoo.foreign", legalize: Some(|call| foreign(call, 50)), ..PANICS };

/// Like `FOREIGN`, with a value that has the number of the call itself.
const ITSELF: OpDecl = OpDecl { name: "zoo.itself", legalize: Some(|call| foreign(call, 3)), ..PANICS };

/// Returns the legalization of a call of the last of some parameters.
fn foreign(call: Call<'_>, params: usize) -> Result<Legalized, InferError> {
    let ctx = Ctx::current();
    let ty = call.value().ty().to_owned();
    let other = BlockBuilder::new(&ctx).body("other", |b| {
        let last = (0..params).map(|i| b.param(&format!("x{i}"), ty.clone())).last();
        last.into_iter().for_each(|last| b.emit_func_output(b.emit(b.call("relax.exp", &[last]))));
    });
    let other = other.ok_or_else(|| InferError::wrong("no other function"))?;
    let call = other.bindings().find_map(Value::as_call).ok_or_else(|| InferError::wrong("no other call"))?;
    ctx.legalize(call)?.ok_or_else(|| InferError::wrong("no legalization"))
}

/// The legalization is a Relax function with a computation.
const COMPUTES: OpDecl = OpDecl { name: "zoo.computes", legalize: Some(computes), ..PANICS };

fn computes(call: Call<'_>) -> Result<Legalized, InferError> {
    let argument = call.arg(0).ok_or_else(|| InferError::wrong("no argument"))?;
    let ctx = Ctx::current();
    let function = BlockBuilder::new(&ctx).body("computes", |b| {
        let x = b.param("x", argument.ty().to_owned());
        b.emit_func_output(b.emit(b.call("relax.exp", &[x])));
    });
    let function = function.ok_or_else(|| InferError::wrong("no function"))?;
    let mut legalized = Legalized::argument(argument)?;
    legalized.function = function;
    Ok(legalized)
}

/// The legalization calls an intrinsic that does not exist.
const MISSPELT: OpDecl = OpDecl { name: "zoo.misspelt", legalize: Some(misspelt), ..PANICS };

fn misspelt(call: Call<'_>) -> Result<Legalized, InferError> {
    let te = Te::new("misspelt", call);
    let x = te.input(0)?;
    let out = te.compute("out", x.shape(), |i| x.at(i).math("ldxp"));
    te.finish(&[out])
}

/// Each step of the legalization uses the previous one twice.
const DOUBLES: OpDecl = OpDecl { name: "zoo.doubles", legalize: Some(doubles), ..PANICS };

fn doubles(call: Call<'_>) -> Result<Legalized, InferError> {
    let te = Te::new("doubles", call);
    let x = te.input(0)?;
    let out = te.compute("out", x.shape(), |i| (0..200).fold(x.at(i), |y, _| &y * &y + 1.0));
    te.finish(&[out])
}
