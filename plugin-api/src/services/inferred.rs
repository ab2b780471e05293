//! Encodes types as bytes, for inference answers. Symbolic variables keep their numbers in the body.

use crate::ir::make::type_bytes::{decode_type, encode_type};
use crate::typing::operators::{InferError, Inferred};

/// Status of an inference across the boundary.
pub(crate) const OK_PURE: u32 = 0;
pub(crate) const OK_IMPURE: u32 = 1;
pub(crate) const WRONG: u32 = 2;
pub(crate) const UNKNOWN_OP: u32 = 3;
pub(crate) const NO_HOST: u32 = 4;
pub(crate) const RULE_PANICKED: u32 = 5;
/// The operator lacks a legalization.
pub(crate) const NOT_LEGALIZED: u32 = 6;

/// Encodes an answer as status and bytes.
pub(crate) fn encode_inferred(answer: &Result<Inferred, InferError>) -> (u32, Vec<u8>) {
    match answer {
        Ok(inferred) => (if inferred.pure { OK_PURE } else { OK_IMPURE }, encode_type(&inferred.ty)),
        Err(InferError::Wrong(message)) => (WRONG, message.clone().into_bytes()),
        Err(InferError::UnknownOp { name, near }) => {
            let mut text = name.clone();
            near.iter().for_each(|near| {
                text.push('\n');
                text.push_str(near);
            });
            (UNKNOWN_OP, text.into_bytes())
        }
        Err(InferError::Panicked(message)) => (RULE_PANICKED, message.clone().into_bytes()),
        Err(InferError::NoHost(name)) => (NO_HOST, name.clone().into_bytes()),
        // An error kind without a number at the boundary.
        Err(error) => (WRONG, error.to_string().into_bytes()),
    }
}

/// Decodes an answer from status and bytes.
pub(crate) fn decode_inferred(status: u32, bytes: &[u8]) -> Result<Inferred, InferError> {
    let text = || String::from_utf8_lossy(bytes).into_owned();
    match status {
        OK_PURE | OK_IMPURE => match decode_type(bytes) {
            Some(ty) => Ok(Inferred { ty, pure: status == OK_PURE }),
            None => {
                Err(InferError::wrong("type inference returned invalid data; this is a fault of the operator's plugin"))
            }
        },
        UNKNOWN_OP => {
            let text = text();
            let mut lines = text.lines().map(str::to_string);
            Err(InferError::UnknownOp { name: lines.next().unwrap_or_default(), near: lines.collect() })
        }
        NO_HOST => Err(InferError::NoHost(text())),
        RULE_PANICKED => Err(InferError::Panicked(text())),
        _ => Err(InferError::Wrong(text())),
    }
}
