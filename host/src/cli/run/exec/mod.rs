//! The command `exec`: executes a function of a module, and shows its results.

pub(in crate::cli) mod args;
mod progress;
mod show;

use self::args::ExecArgs;
use self::progress::Watching;
use super::executed::inputs::Asked;
use super::executed::results::{Shown, results};
use super::executed::{dims, memory, prepared};
use super::reading::in_the_original_process;
use super::spared;
use crate::cli::messages::Messages;
use crate::files::{Output, Written, to_stdout};
use crate::report::error::{Error, exit};
use crate::run::execute::backend::Executor;
use crate::run::execute::{FRESH, depends_on_unwritten, executing, unwritten};
use runtime::files::{FileError, write_npz};
use runtime::vm::Machine;
use runtime::{Limits, Tensor};
use std::io::{BufWriter, Write};

/// Reads the module and the inputs, executes the function, and shows and writes its results. Returns the exit code.
pub(in crate::cli) fn exec(args: &ExecArgs, messages: Messages) -> Result<u8, Error> {
    let output = output(args)?;
    let dims = dims(&args.executed)?;
    let prepared = prepared(&args.executed.module, &args.executed.isolate, &args.select.or_no_passes(), messages)?;
    let report = prepared.run(prepared.runner(messages), messages)?;
    let (engine, module) = (&prepared.engine, report.module);
    if let Some(error) = report.error {
        return Err(error);
    }
    let limits = Limits::with_fresh_bytes(memory(&args.executed), args.limit_work, FRESH);
    let (inputs, read) = (args.inputs.as_deref(), &prepared.module);
    let asked = Asked { function: &args.function, inputs, random: args.random, dims, read };
    let values = asked.values(&module, &limits)?;
    let mut watching = Watching::new(&module, args, messages);
    let executor = Executor::new(args.executed.backend)?;
    let kernels = &executor.kernels;
    let mut machine = Machine::new(&module, &**engine).limits(&limits).kernels(kernels).looking_for_unwritten();
    let result = executing(engine, || machine.run(&args.function, values, &mut watching));
    watching.finish();
    executor.note().iter().for_each(|note| messages.tell(&format!("note: {note}")));
    let value = result.map_err(|failure| asked.failed(engine, &module, &failure, &limits))?;
    if let Some(at) = machine.unwritten() {
        let values = asked.values(&module, &limits)?;
        let depends = depends_on_unwritten(engine, &module, &args.function, values, (&limits, kernels), &value);
        if depends.map_err(|failure| asked.failed(engine, &module, &failure, &limits))? {
            return Err(unwritten(engine, &module, at));
        }
    }
    in_the_original_process()?;
    let results = results(&value);
    if let Some(output) = output {
        write(&output, &results)?;
    }
    to_stdout(&match args.executed.json {
        true => show::json(&args.function, &results, &limits),
        false => show::text(&results),
    })?;
    Ok(exit::DONE)
}

/// Checks the file for the results, if there is one.
fn output(args: &ExecArgs) -> Result<Option<Output>, Error> {
    let Some(shown) = &args.output else { return Ok(None) };
    let mut others = vec![("the module", args.executed.module.input.as_path())];
    others.extend(args.inputs.as_deref().map(|path| ("the file of --inputs", path)));
    match spared::output(&args.select, (shown, "-o", Written::Arrays), &others)? {
        Output::Stdout => {
            let message = "arrays cannot be written to standard output; choose a file".to_string();
            Err(Error::Output { path: shown.clone(), message })
        }
        output => Ok(Some(output)),
    }
}

/// Writes the results to a file one by one, so that at most one result is in memory twice.
fn write(output: &Output, results: &[Shown<'_>]) -> Result<(), Error> {
    let mut tensors: Vec<(&str, Tensor)> = Vec::with_capacity(results.len());
    for result in results {
        let no_array = || Error::Request {
            message: format!(
                "the result `{}` is {}, which cannot be written as an array",
                result.name,
                result.value.described()
            ),
            help: "only tensors, shapes and scalars can be written; remove -o".to_string(),
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
        Some(message) => {
            Err(Error::Request { message, help: "results of this data type cannot be written; remove -o".to_string() })
        }
        None => written,
    }
}
