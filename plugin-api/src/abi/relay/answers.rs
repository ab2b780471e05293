//! Encodes options, errors and rule answers as bytes, in the same form as at the boundary within a process.

use super::bytes::{Forged, Reader, Writer};
use super::known::Known;
use crate::PassError;
use crate::abi::entry::{FAILED, OK, PANICKED, REFUSED_OPTION, error_bytes, status_of};
use crate::abi::host::RunFailure;
use crate::ir::{Body, Call};
use crate::metadata::OptionValue;
use crate::metadata::wire::{read_value, value_bytes};
use crate::services::evaluation::{Evaluated, EvaluationError, decode_evaluation, encode_evaluation};
use crate::services::inferred::{NOT_LEGALIZED, OK_PURE, decode_inferred, encode_inferred};
use crate::services::read_legalized;
use crate::typing::legalized::{Legalized, encode_legalized};
use crate::typing::operators::{InferError, Inferred};

/// Writes option values; a missing value is empty.
pub fn put_values(out: &mut Writer, values: &[OptionValue]) {
    out.number(values.len() as u64);
    values.iter().for_each(|value| out.block(&value_bytes(value)));
}

/// Reads option values.
///
/// # Errors
/// If a value is invalid.
pub fn take_values(from: &mut Reader<'_>) -> Result<Vec<OptionValue>, Forged> {
    let value = |from: &mut Reader<'_>| {
        read_value(from.block()?).ok_or_else(|| Forged::new("the value of an option cannot be read"))
    };
    (0..from.count()?).map(|_| value(from)).collect()
}

/// The outcome of plugin code.
pub struct Outcome;

impl Outcome {
    /// Writes the success or the failure.
    pub fn put<T>(out: &mut Writer, outcome: &Result<T, RunFailure>) {
        let (status, bytes) = match outcome {
            Ok(_) => (OK, Vec::new()),
            Err(RunFailure::Error(error)) => (status_of(error), error_bytes(error)),
            Err(RunFailure::Panic(text)) => (PANICKED, text.clone().into_bytes()),
            Err(RunFailure::Protocol(text) | RunFailure::Ended { message: text, .. }) => {
                (PROTOCOL, text.clone().into_bytes())
            }
        };
        out.byte(status as u8);
        out.block(&bytes);
    }

    /// Reads an outcome.
    ///
    /// # Errors
    /// If the outcome is invalid.
    pub fn take(from: &mut Reader<'_>) -> Result<Result<(), RunFailure>, Forged> {
        let (status, bytes) = (u32::from(from.byte()?), from.block()?);
        Ok(match status {
            OK => Ok(()),
            PROTOCOL => Err(RunFailure::Protocol(String::from_utf8_lossy(bytes).into_owned())),
            FAILED | PANICKED | REFUSED_OPTION => Err(RunFailure::read(status, bytes)),
            other => return Err(Forged::new(format!("a call ended with the undefined status {other}"))),
        })
    }

    /// Converts the failure of an instrument to an error.
    pub fn error(failure: RunFailure) -> PassError {
        match failure {
            RunFailure::Error(error) => error,
            other => PassError::new(other.to_string()),
        }
    }
}

/// Status of a plugin that returned an invalid result.
const PROTOCOL: u32 = 250;

/// Writes the answer of a type rule.
pub fn put_inferred(out: &mut Writer, answer: &Result<Inferred, InferError>) {
    let (status, bytes) = encode_inferred(answer);
    out.number(u64::from(status));
    out.block(&bytes);
}

/// Reads the answer of a type rule.
///
/// # Errors
/// If the answer is invalid.
pub fn take_inferred(from: &mut Reader<'_>) -> Result<Result<Inferred, InferError>, Forged> {
    Ok(decode_inferred(from.number()? as u32, from.block()?))
}

/// Writes the answer of a legalization rule.
pub fn put_legalized(known: &mut Known, out: &mut Writer, answer: &Result<Option<Legalized>, InferError>) {
    let (status, bytes) = match answer {
        Ok(None) => (NOT_LEGALIZED, Vec::new()),
        Ok(Some(given)) => (OK_PURE, encode_legalized(given)),
        Err(error) => encode_inferred(&Err(error.clone())),
    };
    out.number(u64::from(status));
    out.block(&bytes);
    if let Ok(Some(given)) = answer {
        known.put_body(out, &given.function);
    }
}

/// Returns the status, bytes and function of a legalization answer.
pub(super) fn legalized_parts(
    known: &mut Known,
    from: &mut Reader<'_>,
) -> Result<(u32, Vec<u8>, Option<Body>), Forged> {
    let (status, bytes) = (from.number()? as u32, from.block()?.to_vec());
    let function = if status == OK_PURE { Some(known.take_body(from)?) } else { None };
    Ok((status, bytes, function))
}

/// Builds the legalization of a call from these parts.
pub(super) fn take_legalized(
    status: u32,
    bytes: &[u8],
    function: Option<Body>,
    call: Call<'_>,
) -> Result<Option<Legalized>, InferError> {
    read_legalized(status, bytes, function, call)
}

/// Writes the answer of an evaluation.
pub fn put_evaluated(known: &mut Known, out: &mut Writer, answer: &Result<Evaluated, EvaluationError>) {
    let (status, bytes) = encode_evaluation(answer);
    out.number(u64::from(status));
    out.block(&bytes);
    if let Ok(evaluated) = answer {
        known.put_body(out, &evaluated.function);
    }
}

/// Reads the answer of an evaluation.
///
/// # Errors
/// If the answer is invalid.
pub fn take_evaluated(known: &mut Known, from: &mut Reader<'_>) -> Result<Result<Evaluated, EvaluationError>, Forged> {
    let (status, bytes) = (from.number()? as u32, from.block()?);
    let function = if status == crate::services::evaluation::EVALUATED { Some(known.take_body(from)?) } else { None };
    Ok(decode_evaluation(status, bytes, function))
}
