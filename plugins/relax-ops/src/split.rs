//! Parts of a tensor along an axis.

use crate::declare::*;
use plugin_api::arith::{Analyzer, Bounds, apply};
use plugin_api::ir::{Call, Dim, Type};
use plugin_api::scalar::PrimOp;
use plugin_api::typing::operators::InferError;

/// Maximum number of parts; more is treated as a mistake.
const MAX_PARTS: usize = 1 << 16;

/// Infers `split`: a tuple of parts; as in TVM, a single part is not wrapped in a tuple.
pub(crate) fn split(call: Call<'_>) -> Inferred {
    let x = tensor(call, 0)?;
    let at = axis(int(call, "axis").unwrap_or(0), x.ndim)?;
    let size = x.shape.as_ref().zip(at).map(|(dims, at)| &dims[at]);
    let sizes = match (int(call, "indices_or_sections"), ints(call, "indices_or_sections")) {
        (Some(sections), _) => equal_parts(size, sections)?,
        (None, Some(cuts)) => cut_parts(size, &cuts),
        (None, None) => return wrong("indices_or_sections must be an integer or a list of integers".to_string()),
    };
    let mut parts: Vec<Type> = sizes
        .into_iter()
        .map(|size| match (&x.shape, at, size) {
            (Some(dims), Some(at), Some(size)) => {
                let mut dims = dims.clone();
                dims[at] = size;
                with_shape(&x, x.ndim, Some(dims))
            }
            _ => with_shape(&x, x.ndim, None),
        })
        .collect();
    Ok(if parts.len() == 1 { parts.remove(0) } else { Type::tuple(parts) })
}

/// Returns the lengths of `sections` parts; the last may be shorter.
fn equal_parts(size: Option<&Dim>, sections: i64) -> Result<Vec<Option<Dim>>, InferError> {
    let n = usize::try_from(sections).ok().filter(|n| (1..=MAX_PARTS).contains(n));
    let Some(n) = n else {
        return wrong(format!("the number of parts must be from 1 to {MAX_PARTS}, found {sections}"));
    };
    let Some(size) = size else { return Ok(vec![None; n]) };
    let each = apply(PrimOp::FloorDiv, &apply(PrimOp::Add, size, &Dim::Int(sections - 1)), &Dim::Int(sections));
    let rest = apply(PrimOp::Sub, size, &apply(PrimOp::Mul, &each, &Dim::Int(sections - 1)));
    if rest.as_int().is_some_and(|rest| rest < 0) {
        return wrong(format!("{} elements cannot be split into {sections} equal parts", show(size)));
    }
    let mut parts = vec![Some(each); n - 1];
    parts.push(Some(rest));
    Ok(parts)
}

/// Returns the lengths of the parts between cuts. A cut past the end is clamped to the end; a cut before the previous
/// cut gives an empty part.
fn cut_parts(size: Option<&Dim>, cuts: &[i64]) -> Vec<Option<Dim>> {
    let Some(size) = size.filter(|_| !cuts.is_empty()) else { return vec![size.cloned(); cuts.len() + 1] };
    // Dimensions are never negative, so `n + 8` elements include the 8 elements before a cut at 8.
    let mut analyzer = Analyzer::new();
    size.vars(&mut |sym| analyzer.bind_bounds(sym, Bounds::at_least(0)));
    let mut simple = |op: PrimOp, a: &Dim, b: &Dim| analyzer.simplify(&apply(op, a, b));
    let mut start = Dim::Int(0);
    let mut parts = Vec::with_capacity(cuts.len() + 1);
    let ends: Vec<Dim> = cuts.iter().map(|cut| simple(PrimOp::Min, &Dim::Int((*cut).max(0)), size)).collect();
    for end in ends.into_iter().chain([size.clone()]) {
        let part = simple(PrimOp::Sub, &end, &start);
        parts.push(Some(simple(PrimOp::Max, &part, &Dim::Int(0))));
        start = end;
    }
    parts
}
