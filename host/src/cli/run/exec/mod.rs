//! The command `exec`: executes a function of a module, and shows its results.

mod progress;
mod show;

use self::progress::Watching;
use super::executed::{dims, memory, prepared};
use super::in_the_original_process;
use crate::cli::arguments::ExecArgs;
use crate::cli::messages::Messages;
use crate::cli::spared;
use crate::files::{Output, from_start, to_stdout};
use crate::report::error::{Error, exit};
use crate::run::execute::backend::Executor;
use crate::run::execute::{FRESH, depends_on_unwritten, executing, failed, unwritten};
use plugin_api::ir::{Body, Module};
use runtime::files::{FileError, read_npz, write_npz};
use runtime::vm::{Cause, InputError, Inputs, Machine, Value};
use runtime::{Fault, FaultKind, Limits, Tensor};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Seek, Write};
use std::path::Path;

/// Reads the module and the inputs, executes the function, and shows and writes its results; gives the exit code.
pub(in crate::cli) fn exec(args: &ExecArgs, messages: Messages) -> Result<u8, Error> {
    let output = output(args)?;
    let dims = dims(&args.executed)?;
    let prepared = prepared(&args.executed.input, &args.executed.isolate, &args.select.or_no_passes(), messages)?;
    let report = prepared.run(prepared.runner(messages), messages)?;
    let (engine, module) = (&prepared.engine, report.module);
    if let Some(error) = report.error {
        return Err(error);
    }
    let limits = Limits::with_fresh_bytes(memory(&args.executed), args.limit_work, FRESH);
    let values = inputs(args, dims.clone(), &module, &limits)?;
    let mut watching = Watching::new(&module, args, messages);
    let executor = Executor::new(args.executed.backend.into())?;
    let kernels = &executor.kernels;
    let mut machine = Machine::new(&module, &**engine).limits(&limits).kernels(kernels).looking_for_unwritten();
    let result = executing(engine, || machine.run(&args.function, values, &mut watching));
    watching.finish();
    executor.note().iter().for_each(|note| messages.tell(&format!("note: {note}")));
    let value = result.map_err(|failure| failed(engine, &module, &failure))?;
    if let Some(at) = machine.unwritten() {
        let values = inputs(args, dims, &module, &limits)?;
        let depends = depends_on_unwritten(engine, &module, &args.function, values, (&limits, kernels), &value);
        if depends.map_err(|failure| failed(engine, &module, &failure))? {
            return Err(unwritten(engine, &module, at));
        }
    }
    in_the_original_process()?;
    let results = show::results(&value);
    if let Some(output) = output {
        write(&output, &results)?;
    }
    to_stdout(&match args.executed.json {
        true => show::json(&args.function, &results, &limits),
        false => show::text(&results),
    })?;
    Ok(exit::DONE)
}

/// Where the results go, if anywhere.
fn output(args: &ExecArgs) -> Result<Option<Output>, Error> {
    let Some(shown) = &args.output else { return Ok(None) };
    let mut others = vec![("the module", args.executed.input.as_path())];
    others.extend(args.inputs.as_deref().map(|path| ("the file of the inputs", path)));
    match spared::output(&args.select, shown, &others)? {
        Output::Stdout => {
            let message = "arrays are not written to standard output; name a file".to_string();
            Err(Error::Output { path: shown.clone(), message })
        }
        output => Ok(Some(output)),
    }
}

/// The arguments of the function.
fn inputs(args: &ExecArgs, dims: BTreeMap<String, i64>, module: &Module, limits: &Limits) -> Result<Vec<Value>, Error> {
    // The machine says what is wrong with a function that is not there, or of another kind.
    let Some(body) = module.get(&args.function) else { return Ok(Vec::new()) };
    let arrays = args.inputs.as_deref().map(|path| arrays(path, body, limits)).transpose()?.unwrap_or_default();
    let inputs = Inputs { arrays, seed: args.random, dims, ..Inputs::default() };
    inputs.arguments(body, limits).map_err(|error| {
        let of = args.inputs.as_ref().map_or(String::new(), |path| format!("inputs {}: ", path.display()));
        let (help, of) = match &error {
            InputError::Missing { .. } if args.inputs.is_none() => {
                ("--inputs FILE gives arrays, and --random SEED random values", String::new())
            }
            InputError::Missing { .. } => ("--random SEED gives random values to parameters without an array", of),
            InputError::Twice { .. } => ("remove one of them from the file", of),
            InputError::Unknown { .. } | InputError::Tuple { .. } => {
                ("an array has the name of a parameter, or arr_0, arr_1, ... in their order", of)
            }
            InputError::UnknownDim { .. } => {
                ("--dim gives an extent to a symbolic dimension of the parameters", "--dim: ".to_string())
            }
            InputError::NotMade { cause: Cause::Fault(fault), .. } | InputError::Cause(Cause::Fault(fault))
                if limit(fault).is_some() =>
            {
                (limit(fault).unwrap_or_default(), of)
            }
            _ => ("--inputs FILE gives arrays for such parameters", of),
        };
        Error::Request { message: format!("{of}{error}"), help: help.to_string() }
    })
}

/// How more is allowed, if a limit is what is wrong.
fn limit(fault: &Fault) -> Option<&'static str> {
    match fault.kind {
        FaultKind::OutOfMemory { .. } => Some("--limit-memory SIZE allows more"),
        FaultKind::TooMuchWork { .. } => Some("--limit-work N allows more"),
        _ => None,
    }
}

/// The arrays of a file.
fn arrays(path: &Path, body: &Body, limits: &Limits) -> Result<BTreeMap<String, Tensor>, Error> {
    let wrong = |error: &FileError| Error::Request {
        message: format!("inputs {}: {error}", path.display()),
        help: match error {
            FileError::Fault { fault, .. } if limit(fault).is_some() => limit(fault).unwrap_or_default(),
            FileError::Io(_) => "--inputs names a file that can be read",
            _ => "numpy.savez(FILE, name=array, ...) writes such a file",
        }
        .to_string(),
    };
    let file = File::open(from_start(path)).and_then(seekable).map_err(|error| wrong(&error.into()))?;
    let dtypes = Inputs::dtypes(body);
    let meant = |name: &str| dtypes.get(name).copied();
    read_npz(BufReader::new(file), &meant, limits).map_err(|error| wrong(&error))
}

/// The file, or what a pipe gives as a file: the table of an archive is at its end.
fn seekable(mut file: File) -> io::Result<File> {
    if file.stream_position().is_ok() {
        return Ok(file);
    }
    let mut copy = tempfile::tempfile()?;
    io::copy(&mut file, &mut copy)?;
    copy.rewind()?;
    Ok(copy)
}

/// Writes the results to a file, array by array: they are not in memory twice.
fn write(output: &Output, results: &[show::Shown<'_>]) -> Result<(), Error> {
    let mut tensors: Vec<(&str, Tensor)> = Vec::with_capacity(results.len());
    for result in results {
        let no_array = || Error::Request {
            message: format!(
                "the result `{}` is {}, which is not written as an array",
                result.name,
                result.value.described()
            ),
            help: "only tensors, shapes and numbers are written; leave out -o".to_string(),
        };
        tensors.push((result.name.as_str(), result.as_array().ok_or_else(no_array)?));
    }
    let mut no_form = None;
    let written = output.write_with(|file| {
        let mut file = BufWriter::new(file);
        write_npz(tensors.iter().map(|(name, tensor)| (*name, tensor)), &mut file).map_err(|error| match error {
            FileError::Io(error) => error,
            other => std::io::Error::other(no_form.insert(other.to_string()).clone()),
        })?;
        file.flush()
    });
    match no_form {
        Some(message) => Err(Error::Request {
            message,
            help: "results of this data type cannot be written; leave out -o".to_string(),
        }),
        None => written,
    }
}
