//! A plugin as authors wrote it against plugin API 1.1. It uses what the prelude of 1.1 has beyond 1.0: a reader and a writer.
//! Do not change this file after the release of 1.1: it must compile, load and run as it is with every later version 1.x.
#![forbid(unsafe_code)]

use plugin_api::prelude::*;
use std::io::Write;

export_plugin! {
    readers: [SIZES, NOTHING],
    writers: [NAMES, SIZES_AGAIN],
}

declare_reader! {
    /// Reads lists of sizes.
    ///
    /// Each line becomes a function whose parameter is a tensor of this size.
    reader SIZES = "sizes" {
        extensions: ["sizes", "sz"],
        begins: [b"#sizes"],
        options: SizesOptions {
            /// More functions are refused.
            most: i64 in (1..) = 3,
        },
        example: "passhost run model.sizes -o model.py",
        run: read,
    }
}

fn read(source: &Source, options: &SizesOptions, ctx: &Ctx) -> Result<Module, PassError> {
    let mut functions = Vec::new();
    for (at, line) in source.text()?.lines().enumerate().filter(|(_, line)| !line.starts_with('#')) {
        let Ok(size) = line.parse::<i64>() else { bail!("line {}: expected a size, found `{line}`", at + 1) };
        if size == 0 {
            ctx.diagnostics().report(Severity::Warning, None, "a tensor without elements");
        }
        let mut b = BodyBuilder::new();
        b.begin_function(0, AttrsId::NONE, None);
        let ty = b.ty(&Type::tensor([Dim::Int(size)], DType::F32));
        let x = b.param("x", ty);
        b.end_function(x, ty);
        functions.push((format!("f{at}"), b.finish()?));
    }
    if functions.len() as i64 > options.most {
        return Err(pass_error!("option `most` is {}, but {} has more", options.most, source.name()).of_option());
    }
    if source.bytes().is_empty() && source.path().is_some() {
        panic!("an empty file");
    }
    Ok(Module::new(functions))
}

declare_reader! {
    /// Reads any file as an empty module.
    reader NOTHING = "nothing" { extensions: [], run: nothing }
}

fn nothing(source: &Source, _: &Ctx) -> Result<Module, PassError> {
    if let Some(name) = source.name().strip_prefix("beside:") {
        let (own, other): (FileBytes, FileBytes) = (source.shared()?, source.beside(name)?);
        bail!("{} bytes, and {} beside them", own.bytes().len(), other.as_ref().len());
    }
    Ok(Module::new(Vec::<(String, Body)>::new()))
}

declare_writer! {
    /// Writes the names of the functions, one in each line.
    writer NAMES = "names" { extensions: ["names"], run: write }
}

fn write(module: &Module, output: &mut Output, _: &Ctx) -> Result<(), PassError> {
    for (name, _) in module.functions() {
        writeln!(output, "{name}").map_err(|error| pass_error!("{error}"))?;
    }
    Ok(())
}

declare_writer! {
    /// Writes how many functions there are, and the number of bytes of each beside it.
    writer SIZES_AGAIN = "sizes" {
        extensions: ["sizes"],
        options: WriterOptions {
            /// The file beside it.
            beside: String = "beside.txt",
        },
        example: "passhost run model.py -o model.sizes",
        run: write_sizes,
    }
}

fn write_sizes(module: &Module, output: &mut Output, options: &WriterOptions, _: &Ctx) -> Result<(), PassError> {
    output.put(format!("{} of {}\n", module.len(), output.name()).as_bytes())?;
    for (name, body) in module.functions() {
        output.put_beside(&options.beside, format!("{name} {}\n", body.byte_size()).as_bytes())?;
    }
    if output.path().is_none() { bail!("no path") } else { Ok(()) }
}
