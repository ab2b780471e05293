//! The type of a TIR scalar mentions its symbolic variable only if another type does so.

use crate::ir::make::validate::SealError;
use crate::ir::records::tykind;
use crate::ir::storage::body_handle::Body;
use crate::ir::types::{Dim, Sym, Type};
use crate::ir::value::Value;
use crate::rewrite::outline::{symbols_of, symbols_of_operands};
use std::collections::HashSet;

/// Sets a plain type for each scalar whose symbolic variable is no longer used by a type, leaf or attribute. The printed form does not
/// contain these variables.
///
/// # Errors
/// If the result is not valid.
pub(super) fn without_unused_symbols(body: Body) -> Result<Body, SealError> {
    let owners: Vec<(Value<'_>, Sym)> = body.values().filter_map(|value| Some((value, own_symbol(value)?))).collect();
    if owners.is_empty() {
        return Ok(body.clone());
    }
    let mut used: HashSet<u32> = HashSet::new();
    for value in body.values() {
        let mut add = |sym: Sym| used.extend([sym.id]);
        match own_symbol(value) {
            Some(_) => symbols_of_operands(value, |_| true, &mut add),
            None => symbols_of(value, &mut add),
        }
    }
    let mut edit = body.edit();
    for (owner, sym) in owners.into_iter().filter(|(_, sym)| !used.contains(&sym.id)) {
        edit.set_type(owner, &Type::Prim { dtype: sym.dtype, value: None });
    }
    edit.finish()
}

/// Returns the symbolic variable of a scalar.
fn own_symbol(value: Value<'_>) -> Option<Sym> {
    let dims = (value.ty().kind() == tykind::PRIM).then(|| value.ty().prims())?;
    match dims[..] {
        [Dim::Var(sym)] => Some(sym),
        _ => None,
    }
}
