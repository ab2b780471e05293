//! Makes the arguments of an executed function: arrays from a file, and random values.

use crate::files::{from_start, open_input};
use crate::report::error::Error;
use passhost_lang::ir::DType;
use passhost_lang::ir::Module;
use runtime::files::{FileError, read_npz};
use runtime::vm::{Cause, InputError, Inputs, Value};
use runtime::{Fault, FaultKind, Limits, Tensor};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Seek};
use std::path::Path;

/// The sources of the arguments of a function.
pub(super) struct Asked<'a> {
    pub(super) function: &'a str,
    /// A file with arrays.
    pub(super) inputs: Option<&'a Path>,
    /// The seed of random values for parameters without an array.
    pub(super) random: Option<u64>,
    pub(super) dims: BTreeMap<String, i64>,
    /// The module before all passes: random values depend on it, so that they are the same before and after passes.
    pub(super) read: &'a Module,
}

impl Asked<'_> {
    /// Returns the arguments of the function.
    pub(super) fn values(&self, module: &Module, limits: &Limits) -> Result<Vec<Value>, Error> {
        // The run itself reports a function that is missing or of the wrong kind.
        let Some(body) = module.get(self.function) else { return Ok(Vec::new()) };
        let dtypes = Inputs::dtypes(body);
        let arrays = self.inputs.map(|path| arrays(path, &dtypes, limits)).transpose()?.unwrap_or_default();
        let variances = self.read.get(self.function).map(Inputs::variances).unwrap_or_default();
        let inputs = Inputs { arrays, seed: self.random, dims: self.dims.clone(), variances, ..Inputs::default() };
        inputs.arguments(body, limits).map_err(|error| self.wrong(&error))
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

/// Advice for data types that cannot be executed.
const EXECUTED: &str = "cast it in the module: bool, integers of 8, 16, 32 and 64 bits, float16, bfloat16, float32 and float64 are executed";

/// Returns the option that raises the limit, if a limit was reached.
fn limit(fault: &Fault) -> Option<&'static str> {
    match fault.kind {
        FaultKind::OutOfMemory { .. } => Some("use --limit-memory SIZE to allow more"),
        FaultKind::TooMuchWork { .. } => Some("use --limit-work N to allow more"),
        _ => None,
    }
}

/// Reads the arrays of a file. `dtypes` has the data types of raw bytes, by the names of the arrays.
///
/// # Errors
/// If the file cannot be read.
pub(super) fn arrays(
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
