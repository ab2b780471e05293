//! Types as bytes, for the answer of an inference. Symbolic variables keep the numbers of the body that was asked about.

use crate::ir::records::NONE;
use crate::ir::storage::sections::{RawView, Sections};
use crate::ir::{BodyBuilder, Ty, Type};
use crate::typing::operators::{InferError, Inferred};

/// Status of an inference across the boundary.
pub(crate) const OK_PURE: u32 = 0;
pub(crate) const OK_IMPURE: u32 = 1;
pub(crate) const WRONG: u32 = 2;
pub(crate) const UNKNOWN_OP: u32 = 3;
pub(crate) const NO_HOST: u32 = 4;
pub(crate) const RULE_PANICKED: u32 = 5;
/// The operator has no legalization.
pub(crate) const NOT_LEGALIZED: u32 = 6;

/// Status and bytes of an answer.
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
    }
}

/// An answer from status and bytes.
pub(crate) fn decode_inferred(status: u32, bytes: &[u8]) -> Result<Inferred, InferError> {
    let text = || String::from_utf8_lossy(bytes).into_owned();
    match status {
        OK_PURE | OK_IMPURE => match decode_type(bytes) {
            Some(ty) => Ok(Inferred { ty, pure: status == OK_PURE }),
            None => {
                Err(InferError::wrong("the type that inference returned cannot be read; this is a fault of its plugin"))
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

/// A type as the three tables that it needs, each preceded by its length.
fn encode_type(ty: &Type) -> Vec<u8> {
    let mut b = BodyBuilder::new();
    let root = b.ty(ty).0;
    let s = &b.pool.s;
    let mut out = Vec::with_capacity(128);
    out.extend_from_slice(&root.to_le_bytes());
    for part in [
        crate::ir::storage::sections::bytes_of(&s.types),
        crate::ir::storage::sections::bytes_of(&s.lists),
        crate::ir::storage::sections::bytes_of(&s.prims),
    ] {
        out.extend_from_slice(&(part.len() as u32).to_le_bytes());
        out.extend_from_slice(part);
    }
    out
}

fn decode_type(bytes: &[u8]) -> Option<Type> {
    let (root, mut rest) = bytes.split_first_chunk::<4>()?;
    let mut next = || {
        let (len, tail) = rest.split_first_chunk::<4>()?;
        let part = tail.get(..u32::from_le_bytes(*len) as usize)?;
        rest = &tail[part.len()..];
        Some(part)
    };
    let types = crate::ir::storage::sections::records_from(next()?)?;
    let lists = crate::ir::storage::sections::records_from(next()?)?;
    let prims = crate::ir::storage::sections::records_from(next()?)?;
    // Names are only needed for their number: the variables are those of the other body.
    let highest = highest_sym(&prims);
    let names = vec![NONE; highest];
    let s = Sections { types, lists, prims, var_names: names, ..Sections::default() };
    let raw = s.raw();
    crate::ir::make::validate::validate_types(&raw).ok()?;
    let id = u32::from_le_bytes(*root);
    ((id as usize) < raw.types().len()).then(|| to_owned(&raw, id))
}

fn to_owned(raw: &RawView<'_>, id: u32) -> Type {
    Ty { raw, id }.to_owned()
}

fn highest_sym(prims: &[crate::ir::records::PrimRec]) -> usize {
    let vars = prims.iter().filter(|rec| rec.op == crate::ir::records::prim::VAR);
    vars.map(|rec| rec.a as usize + 1).max().unwrap_or(0).min(1 << 20)
}
