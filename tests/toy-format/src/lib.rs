//! A third party's file format. A file is a list of lines, such as:
//!
//! ```text
//! toy 1
//! input x 2 3      a parameter of float32 with these extents
//! relu y x         y = R.nn.relu(x)
//! add z x y        z = R.add(x, y)
//! weights w w.bin 0 2 3    a constant of float32 with these extents, from byte 0 of a file beside this one
//! output z
//! ```
#![forbid(unsafe_code)]

use plugin_api::prelude::*;
use plugin_api::tvm::{BlockBuilder, FunctionBuilder};
use std::collections::HashMap;

export_plugin! { readers: [TOY], writers: [TOY_AGAIN] }

declare_reader! {
    /// Reads toy models.
    ///
    /// The model becomes the function `main`. Lines that are empty or begin with `#` are ignored.
    reader TOY = "toy" {
        extensions: ["toy", "toy1"],
        begins: [b"toy 1\n"],
        options: ReadOptions {
            /// Name of the function.
            function: String = "main",
            /// A fault of the reader, for the tests.
            fault: String in ["none", "panic", "loop", "abort", "ill-formed"] = "none",
            /// Truncates this file beside the model after the model was read, as another program could; for the tests.
            shortens: String = "",
        },
        example: "passhost run model.toy -o model.py",
        run: read,
    }
}

/// The operators of the format: the name in a line, the operator, and the number of arguments.
const OPERATORS: [(&str, &str, usize); 3] =
    [("relu", "relax.nn.relu", 1), ("add", "relax.add", 2), ("multiply", "relax.multiply", 2)];

fn read(source: &Source, options: &ReadOptions, ctx: &Ctx) -> Result<Module, PassError> {
    make_fault(&options.fault);
    let text = source.text()?;
    if text.lines().next() != Some("toy 1") {
        bail!("line 1: expected `toy 1`, found `{}`", text.lines().next().unwrap_or_default());
    }
    let b = BlockBuilder::new(ctx);
    let mut wrong = None;
    b.function(&options.function, |f| wrong = lines(f, source, text, ctx).err());
    match wrong {
        Some(error) => Err(error),
        None if options.fault == "ill-formed" => ill_formed(&b.get()?),
        None => {
            shorten(source, &options.shortens)?;
            b.get()
        }
    }
}

fn shorten(source: &Source, name: &str) -> Result<(), PassError> {
    let Some(path) = source.path().filter(|_| !name.is_empty()) else { return Ok(()) };
    let file = std::fs::OpenOptions::new().write(true).open(path.with_file_name(name));
    file.and_then(|file| file.set_len(1)).map_err(|error| pass_error!("{error}"))
}

/// Returns a constant of float32 from a file beside the model.
fn weights(source: &Source, name: &str, start: &str, extents: &[&str]) -> Result<Array, PassError> {
    let extents: Result<Vec<i64>, _> = extents.iter().map(|extent| extent.parse()).collect();
    let (Ok(start), Ok(extents)) = (start.parse::<usize>(), extents) else { bail!("expected numbers") };
    let file = source.beside(name)?;
    let length = extents.iter().product::<i64>() as usize * 4;
    let Some(data) = file.bytes().get(start..start + length) else {
        bail!("`{name}` has {} bytes, expected {length} from byte {start} on", file.bytes().len());
    };
    Ok(Array::of(Tensor::new(data), DType::F32, &extents)?)
}

fn lines(f: &FunctionBuilder<'_, '_>, source: &Source, text: &str, ctx: &Ctx) -> Result<(), PassError> {
    let mut values: HashMap<&str, V> = HashMap::new();
    let lines = text.lines().enumerate().skip(1).map(|(at, line)| (at + 1, line.trim()));
    for (at, line) in lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let value =
            |name: &&str| values.get(name).copied().ok_or_else(|| pass_error!("line {at}: unknown value `{name}`"));
        let operator = OPERATORS.iter().find(|(word, ..)| *word == words[0]);
        match (words.as_slice(), operator) {
            (["input", name, extents @ ..], _) => {
                let extent = |word: &&str| {
                    word.parse().map_err(|_| pass_error!("line {at}: expected an extent, found `{word}`"))
                };
                let extents = extents.iter().map(extent).collect::<Result<Vec<i64>, _>>()?;
                if extents.contains(&0) {
                    let report = ctx.diagnostics().in_function("main");
                    report.report(Severity::Warning, None, &format!("line {at}: `{name}` lacks elements"));
                }
                values.insert(name, f.param(name, Type::tensor(extents, DType::F32)));
            }
            (["weights", name, file, start, extents @ ..], _) => {
                let array = weights(source, file, start, extents).map_err(|error| pass_error!("line {at}: {error}"))?;
                values.insert(name, f.array(&array));
            }
            (["output", name], _) => {
                f.emit_func_output(value(name)?);
                return Ok(());
            }
            ([_, name, args @ ..], Some((_, operator, n))) if args.len() == *n => {
                let args = args.iter().map(value).collect::<Result<Vec<V>, _>>()?;
                values.insert(name, f.emit(f.call(operator, &args)));
            }
            _ => bail!("line {at}: expected input, output or an operator with its arguments, found `{line}`"),
        }
    }
    bail!("expected a line `output NAME`, found the end")
}

#[allow(clippy::panic, reason = "this is what the option is for")]
fn make_fault(fault: &str) {
    match fault {
        "panic" => panic!("the reader lost its way"),
        "abort" => std::process::abort(),
        "loop" => loop {
            std::thread::sleep(std::time::Duration::from_millis(10));
        },
        _ => {}
    }
}

/// Returns the module with a wrong type on the first binding of each function.
fn ill_formed(module: &Module) -> Result<Module, PassError> {
    let functions = module.functions().map(|(name, body)| {
        let mut edit = body.edit();
        if let Some(value) = body.bindings().next() {
            let v = edit.v(value);
            edit.set_type(v, &Type::tensor([7i64], DType::F16));
        }
        Ok((name, edit.finish()?))
    });
    Ok(Module::new(functions.collect::<Result<Vec<_>, PassError>>()?))
}

declare_writer! {
    /// Writes toy models: modules with one function that calls only operators of the format.
    writer TOY_AGAIN = "toy" {
        extensions: ["toy"],
        options: WriteOptions {
            /// A file beside the model, to which a line for each value is written; empty for no such file.
            names: String = "",
        },
        example: "passhost run model.py --passes '' -o model.toy",
        run: write,
    }
}

fn write(module: &Module, output: &mut Output, options: &WriteOptions, _: &Ctx) -> Result<(), PassError> {
    let mut functions = module.functions();
    let (Some((name, body)), None) = (functions.next(), functions.next()) else {
        bail!("expected a module with one function, found {}", module.len());
    };
    let function = body.function().ok_or_else(|| pass_error!("`{name}` is not a Relax function"))?;
    output.put(b"toy 1\n")?;
    for param in function.params() {
        let name = named(param)?;
        let wrong = || pass_error!("expected float32 tensors of constant shapes as parameters, found `{name}`");
        let Type::Tensor(TensorType { shape: Some(shape), dtype: DType::F32, .. }) = param.ty().to_owned() else {
            return Err(wrong());
        };
        let extent = |dim: &Dim| if let Dim::Int(extent) = dim { Ok(extent.to_string()) } else { Err(wrong()) };
        let extents: Vec<String> = shape.iter().map(extent).collect::<Result<_, _>>()?;
        output.put(format!("input {name} {}\n", extents.join(" ")).as_bytes())?;
    }
    for binding in body.bindings() {
        let call = binding.as_call().ok_or_else(|| pass_error!("expected calls only").at(binding).in_function(name))?;
        let Some((word, ..)) = OPERATORS.iter().find(|(_, operator, _)| call.op() == Some(operator)) else {
            return Err(pass_error!("the format does not support {}", call.op().unwrap_or("this call"))
                .at(binding)
                .in_function(name));
        };
        let args = call.args().map(named).collect::<Result<Vec<_>, _>>()?;
        output.put(format!("{word} {} {}\n", named(binding)?, args.join(" ")).as_bytes())?;
        if !options.names.is_empty() {
            output.put_beside(&options.names, format!("{}\n", named(binding)?).as_bytes())?;
        }
    }
    let result = function.result().ok_or_else(|| pass_error!("`{name}` returns nothing"))?;
    output.put(format!("output {}\n", named(result)?).as_bytes())
}

fn named(value: Value<'_>) -> Result<&str, PassError> {
    value.name().ok_or_else(|| pass_error!("expected a value with a name").at(value))
}
