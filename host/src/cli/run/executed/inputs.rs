//! Makes the arguments of an executed function: arrays from a file, and random values.

use crate::engine::Engine;
use crate::files::{from_start, open_input};
use crate::report::error::Error;
use crate::run::execute::failed;
use passhost_lang::ir::{Body, DType, Module};
use passhost_lang::names::listed;
use runtime::files::{FileError, read_npz};
use runtime::vm::{Cause, Failure, InputError, Inputs, USUAL_EXTENT, Value};
use runtime::{Fault, FaultKind, Limits, Tensor};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Seek};
use std::path::Path;

/// The sources of the arguments of a function.
pub(in crate::cli) struct Asked<'a> {
    pub(in crate::cli) function: &'a str,
    /// A file with arrays.
    pub(in crate::cli) inputs: Option<&'a Path>,
    /// The seed of random values for parameters without an array.
    pub(in crate::cli) random: Option<u64>,
    pub(in crate::cli) dims: BTreeMap<String, i64>,
    /// The module before all passes: random values depend on it, so that they are the same before and after passes.
    pub(in crate::cli) read: &'a Module,
}

impl Asked<'_> {
    /// Returns the arguments of the function.
    pub(in crate::cli) fn values(&self, module: &Module, limits: &Limits) -> Result<Vec<Value>, Error> {
        // The run itself reports a function that is missing or of the wrong kind.
        let Some(body) = module.get(self.function) else { return Ok(Vec::new()) };
        self.sources(body, limits)?.arguments(body, limits).map_err(|error| self.wrong(&error))
    }

    fn sources(&self, body: &Body, limits: &Limits) -> Result<Inputs, Error> {
        let dtypes = Inputs::dtypes(body);
        let arrays = self.inputs.map(|path| arrays(path, &dtypes, limits)).transpose()?.unwrap_or_default();
        let variances = self.read.get(self.function).map(Inputs::variances).unwrap_or_default();
        Ok(Inputs { arrays, seed: self.random, dims: self.dims.clone(), variances, ..Inputs::default() })
    }

    /// Turns a failure of the function into an error. If sizes of its inputs were chosen here, they may be the cause, so the error names
    /// them.
    pub(in crate::cli) fn failed(&self, engine: &Engine, module: &Module, failure: &Failure, limits: &Limits) -> Error {
        let mut error = failed(engine, module, failure);
        let chosen =
            module.get(self.function).and_then(|body| Some(self.sources(body, limits).ok()?.chosen_dims(body)));
        let chosen = chosen.filter(|chosen| !chosen.is_empty() && depends_on_sizes(&failure.cause));
        if let (Error::Execution { notes, .. }, Some(chosen)) = (&mut error, chosen) {
            let at = failure.at.first().map_or_else(String::new, |at| format!("at {at}, "));
            let names: Vec<String> = chosen.iter().map(|name| format!("`{name}`")).collect();
            let (are, these) = if names.len() == 1 { ("is", "this size") } else { ("are", "these sizes") };
            let (first, names) = (chosen.first().map_or("n", String::as_str), listed(&names));
            notes.push(format!(
                "{at}{names} {are} {USUAL_EXTENT}, because no input determines {these}; use `--dim {first}=N` to change that"
            ));
        }
        error
    }

    fn wrong(&self, error: &InputError) -> Error {
        let of = self.inputs.map_or(String::new(), |path| format!("inputs {}: ", path.display()));
        let (help, of) = match error {
            InputError::Missing { .. } if self.inputs.is_none() => {
                ("use --inputs FILE to give arrays, or --random SEED for random values", String::new())
            }
            InputError::Missing { .. } => {
                ("use --random SEED to give random values to parameters without an array", of)
            }
            InputError::Twice { .. } => ("remove one of them from the file", of),
            InputError::Unknown { .. } | InputError::Tuple { .. } => {
                ("an array must have the name of a parameter, or be called arr_0, arr_1, ... in their order", of)
            }
            InputError::UnknownDim { .. } => {
                ("use --dim to set the extent of a symbolic dimension of the parameters", "--dim: ".to_string())
            }
            InputError::NotMade { cause: Cause::Fault(fault), .. } | InputError::Cause(Cause::Fault(fault))
                if limit(fault).is_some() =>
            {
                (limit(fault).unwrap_or_default(), of)
            }
            InputError::NotRandom { fault: Some(FaultKind::NoTensor { .. }), .. } => {
                ("--dim NAME=N gives a symbolic dimension a smaller extent", of)
            }
            InputError::NotRandom { fault: Some(FaultKind::Unsupported { .. }), .. } => (EXECUTED, of),
            _ => ("use --inputs FILE to give arrays for such parameters", of),
        };
        Error::Request { message: format!("{of}{error}"), help: help.to_string() }
    }
}

/// Returns true if the sizes of the inputs can cause a failure.
fn depends_on_sizes(cause: &Cause) -> bool {
    match cause {
        Cause::Fault(fault) => limit(fault).is_none() && !matches!(fault.kind, FaultKind::Unsupported { .. }),
        Cause::NotTaken { .. } | Cause::NotExecuted { .. } => true,
        other => matches!(other, Cause::Mismatch { .. } | Cause::NoExtent { .. }),
    }
}

/// Advice for data types that cannot be executed.
const EXECUTED: &str = "cast it in the module: bool, integers of 8, 16, 32 and 64 bits, float16, bfloat16, float32 and float64 are supported";

/// Returns the option that raises the limit, if a limit was reached.
fn limit(fault: &Fault) -> Option<&'static str> {
    match fault.kind {
        FaultKind::OutOfMemory { .. } => Some("use --limit-memory SIZE to allow more"),
        FaultKind::TooMuchWork { .. } => Some("use --limit-work N to allow more"),
        _ => None,
    }
}

/// Reads the arrays of a file. `dtypes` contains the data types of raw bytes, by the names of the arrays.
///
/// # Errors
/// If the file cannot be read.
pub(in crate::cli::run) fn arrays(
    path: &Path,
    dtypes: &BTreeMap<String, DType>,
    limits: &Limits,
) -> Result<BTreeMap<String, Tensor>, Error> {
    let wrong = |error: &FileError| Error::Request {
        message: format!("inputs {}: {error}", path.display()),
        help: match error {
            FileError::Fault { fault, .. } if limit(fault).is_some() => limit(fault).unwrap_or_default(),
            FileError::Io(_) => "give a readable file with --inputs",
            _ => "create such a file with numpy.savez(FILE, name=array, ...)",
        }
        .to_string(),
    };
    let file = open_input(&from_start(path)).and_then(seekable).map_err(|error| wrong(&error.into()))?;
    let meant = |name: &str| dtypes.get(name).copied();
    read_npz(BufReader::new(file), &meant, limits).map_err(|error| wrong(&error))
}

/// Returns the file, or a copy of it if it is a pipe, because the table of an archive is at its end.
fn seekable(mut file: File) -> io::Result<File> {
    if file.stream_position().is_ok() {
        return Ok(file);
    }
    let mut copy = tempfile::tempfile()?;
    io::copy(&mut file, &mut copy)?;
    copy.rewind()?;
    Ok(copy)
}
