//! Runs the same function in onnxruntime, and compares the results.

use super::args::{Against, BenchArgs, Weights};
use crate::cli::run::executed::Prepared;
use crate::cli::run::executed::results::Shown;
use crate::onnx::session::{Session, SessionError, VARIABLE};
use crate::report::error::{Error, exit};
use crate::run::execute::not_done;
use passhost_lang::ir::DType;
use passhost_lang::ir::constant::Element;
use runtime::Tensor;
use runtime::vm::{NUM_INPUT, Value};
use std::time::Duration;

/// A session of onnxruntime with the function as it was before the passes.
pub(super) struct Opponent {
    pub(super) session: Session,
    weights: Weights,
}

/// The outcome of a comparison.
pub(super) struct Compared {
    pub(super) version: String,
    /// Time to load and optimize the model.
    pub(super) loaded: Duration,
    pub(super) constants: bool,
    pub(super) difference: Difference,
}

/// The largest difference between two results.
#[derive(Clone, Debug, Default)]
pub(super) struct Difference {
    /// The difference, relative to the largest element of the output.
    pub(super) relative: f64,
    /// A description of the output that differs most, if the difference exceeds the tolerance.
    wrong: Option<String>,
}

impl Opponent {
    /// Starts the program that `--against` names, if there is one.
    pub(super) fn of(
        args: &BenchArgs,
        prepared: &Prepared,
        values: &[Value],
        threads: usize,
    ) -> Result<Option<Opponent>, Error> {
        let Some(Against::Onnxruntime) = args.against else { return Ok(None) };
        let Some(function) = prepared.module.get(&args.function).and_then(|body| body.function()) else {
            // The run itself reports the missing function.
            return Ok(None);
        };
        let inputs = function.attr(NUM_INPUT).and_then(|n| n.as_int()).and_then(|n| usize::try_from(n).ok());
        let constants = match args.weights {
            Weights::Constants => inputs.unwrap_or(values.len()),
            Weights::Inputs => values.len(),
        };
        // An ONNX model is passed to onnxruntime unchanged.
        let file = match args.weights {
            Weights::Constants => prepared.engine.as_onnx_file(&prepared.input),
            Weights::Inputs => None,
        };
        let session = match &file {
            Some(path) => Session::of_file(path, &values[..constants.min(values.len())], threads),
            None => Session::start(function, values, constants, threads),
        };
        match session {
            Ok(session) => Ok(Some(Opponent { session, weights: args.weights })),
            Err(SessionError::NotWritten(not)) => {
                let origin = args.executed.module.input.display().to_string();
                let known = crate::onnx::known().join(", ");
                let help = format!("passhost can write these operators as ONNX: {known}");
                let at = (args.function.as_str(), not.node);
                Err(not_done(&prepared.engine, (&prepared.module, &origin), at, not.why, &help))
            }
            Err(error) => Err(stopped(&error)),
        }
    }

    /// Compares the results of onnxruntime's last run with those of passhost.
    pub(super) fn compared(mut self, ours: &[Shown<'_>]) -> Result<Compared, Error> {
        let theirs = self.session.outputs().map_err(|error| stopped(&error))?;
        let mut difference = Difference::default();
        if ours.len() != theirs.len() {
            let wrong = format!("passhost has {} results, but onnxruntime has {}", ours.len(), theirs.len());
            difference = Difference { relative: f64::INFINITY, wrong: Some(wrong) };
        }
        for (shown, theirs) in ours.iter().zip(&theirs) {
            let one = differ(&shown.name, shown.value, theirs);
            if one.wrong.is_some() && difference.wrong.is_none() || one.relative > difference.relative {
                difference = Difference { wrong: one.wrong.or(difference.wrong), ..one };
            }
        }
        Ok(Compared {
            version: self.session.version.clone(),
            loaded: self.session.loaded,
            constants: self.weights == Weights::Constants,
            difference,
        })
    }
}

impl Compared {
    /// Returns an error if the results differ.
    pub(super) fn differs(&self) -> Option<Error> {
        let message = self.difference.wrong.clone()?;
        let help = "use `passhost validate` to find a pass that changes values; if there is none, an operator gives different results";
        Some(Error::Unmet { message, help: help.to_string() })
    }
}

/// Returns the difference between two results.
fn differ(name: &str, ours: &Value, theirs: &Tensor) -> Difference {
    let apart = |wrong: String| Difference { relative: f64::INFINITY, wrong: Some(wrong) };
    let Some(ours) = ours.as_tensor() else {
        return apart(format!("result `{name}` is {}, but in onnxruntime it is a tensor", ours.described()));
    };
    if (ours.dtype(), ours.shape()) != (theirs.dtype(), theirs.shape()) {
        let of = |tensor: &Tensor| format!("{} of shape {:?}", tensor.dtype(), tensor.shape());
        return apart(format!("`{name}` is {}, but {} in onnxruntime", of(ours), of(theirs)));
    }
    let (mut most, mut largest, mut other_nan) = (0.0f64, 0.0f64, false);
    for (a, b) in ours.numbers().map(f64::of).zip(theirs.numbers().map(f64::of)) {
        other_nan |= a.is_nan() != b.is_nan();
        if a != b && !a.is_nan() {
            most = most.max((a - b).abs());
        }
        largest = largest.max(if b.is_finite() { b.abs() } else { 0.0 });
    }
    let relative = if most == 0.0 { 0.0 } else { most / largest };
    let within = relative <= tolerance(ours.dtype()) && !other_nan;
    let said =
        || format!("`{name}` differs from the result of onnxruntime by {most:e}; its largest element is {largest:e}");
    Difference { relative, wrong: (!within).then(said) }
}

/// Returns the tolerance for results of this type, relative to the largest element. Results differ because sums are
/// computed in a different order.
fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 1e-9,
        DType::F32 => 1e-4,
        _ if dtype.is_float() => 2e-2,
        _ => 0.0,
    }
}

/// Returns the error for a session that cannot start or failed.
pub(super) fn stopped(error: &SessionError) -> Error {
    let help = match error {
        SessionError::NoPython { .. } => format!("set {VARIABLE} to a Python with onnxruntime"),
        SessionError::Missing { .. } => {
            format!("run `pip install onnxruntime`, or set {VARIABLE} to a Python that has it")
        }
        SessionError::NotWritten(_) | SessionError::Failed(_) | SessionError::Io(_) => {
            "without --against, only passhost is measured".to_string()
        }
    };
    Error::Ended { message: format!("--against onnxruntime: {error}"), help, code: exit::REQUEST }
}
