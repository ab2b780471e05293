//! Removes from types variables and values that are unknown outside its scope.

use super::types::{DTensorType, Dim, Sym, TensorType, Type};

/// Returns the type without the shapes that use variables for which `unknown` returns true.
pub fn erase_unbound(ty: &Type, unknown: &impl Fn(Sym) -> bool) -> Type {
    let mut ty = ty.clone();
    hide(&mut ty, false, unknown);
    ty
}

/// Returns the type of a result as callers of the function see it: without the values of scalars, and without shapes that use variables for which
/// `unknown` returns true.
pub fn seen_outside(mut ty: Type, unknown: &dyn Fn(Sym) -> bool) -> Type {
    hide(&mut ty, true, unknown);
    ty
}

/// Removes, in place, everything that uses unknown variables, and the values of scalars if `values` is true.
pub(crate) fn hide(ty: &mut Type, values: bool, unknown: &dyn Fn(Sym) -> bool) {
    let uses_unknown = |dim: &Dim| {
        let mut found = false;
        dim.vars(&mut |sym| found |= unknown(sym));
        found
    };
    match ty {
        Type::Prim { value, .. } => *value = value.take().filter(|value| !values && !uses_unknown(value)),
        Type::Tuple(fields) => {
            fields.edit(|fields| fields.iter_mut().for_each(|field| hide(field, values, unknown)));
        }
        Type::Tensor(TensorType { shape: dims, .. })
        | Type::DTensor(DTensorType { tensor: TensorType { shape: dims, .. }, .. })
        | Type::Shape { dims, .. } => *dims = dims.take().filter(|dims| !dims.iter().any(uses_unknown)),
        Type::Callable { params, ret, .. } => {
            // Variables defined by the parameters are bound in the function type.
            let own = params.as_deref().map_or(Vec::new(), symbols_of);
            ret.edit(|ret| hide(ret, false, &|sym| !own.contains(&sym) && unknown(sym)));
        }
        _ => {}
    }
}

pub(crate) fn symbols_of(types: &[Type]) -> Vec<Sym> {
    let mut out = Vec::new();
    types.iter().for_each(|ty| ty.each_dim(false, &mut |dim| dim.vars(&mut |sym| out.push(sym))));
    out
}
