//! Converts a type to and from the bytes that cross the plugin boundary.

use crate::ir::make::builder::BodyBuilder;
use crate::ir::make::validate::validate_types;
use crate::ir::records::{NONE, PrimRec, prim};
use crate::ir::storage::sections::{RawView, Sections, bytes_of, records_from};
use crate::ir::types::{Ty, Type};

/// Encodes a type as its three tables, each preceded by its length.
#[doc(hidden)]
pub fn encode_type(ty: &Type) -> Vec<u8> {
    let mut b = BodyBuilder::new();
    let root = b.ty(ty).0;
    let s = &b.pool.s;
    let mut out = Vec::with_capacity(128);
    out.extend_from_slice(&root.to_le_bytes());
    for part in [bytes_of(&s.types), bytes_of(&s.lists), bytes_of(&s.prims)] {
        out.extend_from_slice(&(part.len() as u32).to_le_bytes());
        out.extend_from_slice(part);
    }
    out
}

/// Decodes the bytes of [`encode_type`]; `None` if they are not valid.
#[doc(hidden)]
pub fn decode_type(bytes: &[u8]) -> Option<Type> {
    let (root, mut rest) = bytes.split_first_chunk::<4>()?;
    let mut next = || {
        let (len, tail) = rest.split_first_chunk::<4>()?;
        let part = tail.get(..u32::from_le_bytes(*len) as usize)?;
        rest = &tail[part.len()..];
        Some(part)
    };
    let types = records_from(next()?)?;
    let lists = records_from(next()?)?;
    let prims = records_from(next()?)?;
    // The names are placeholders, because the variables belong to a different body; only their number matters.
    let highest = highest_sym(&prims);
    let names = vec![NONE; highest];
    let s = Sections { types, lists, prims, var_names: names, ..Sections::default() };
    let raw = s.raw();
    validate_types(&raw).ok()?;
    let id = u32::from_le_bytes(*root);
    ((id as usize) < raw.types().len()).then(|| to_owned(&raw, id))
}

fn to_owned(raw: &RawView<'_>, id: u32) -> Type {
    Ty { raw, id }.to_owned()
}

fn highest_sym(prims: &[PrimRec]) -> usize {
    let vars = prims.iter().filter(|rec| rec.op == prim::VAR);
    vars.map(|rec| rec.a as usize + 1).max().unwrap_or(0).min(1 << 20)
}
