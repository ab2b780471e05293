//! Building blocks of several legalizations: one TIR block each.

use plugin_api::ir::Dim;
use plugin_api::te::{Te, TeExpr, TeTensor};

/// Computes a tensor of the same shape, element by element.
pub(super) fn map(te: &Te<'_>, name: &str, x: &TeTensor, f: impl FnOnce(TeExpr) -> TeExpr) -> TeTensor {
    te.compute(name, x.shape(), |i| f(x.at(i)))
}

/// Computes a tensor from two tensors of the same shape, element by element.
pub(super) fn map2(
    te: &Te<'_>,
    name: &str,
    x: &TeTensor,
    y: &TeTensor,
    f: impl FnOnce(TeExpr, TeExpr) -> TeExpr,
) -> TeTensor {
    te.compute(name, x.shape(), |i| f(x.at(i), y.at(i)))
}

/// Computes a tensor of the shape of `x` from `x` and a tensor that is broadcast to that shape.
pub(super) fn with(
    te: &Te<'_>,
    name: &str,
    x: &TeTensor,
    y: &TeTensor,
    f: impl FnOnce(TeExpr, TeExpr) -> TeExpr,
) -> TeTensor {
    te.compute(name, x.shape(), |i| f(x.at(i), y.broadcast_at(i, x.shape())))
}

/// Applies a mathematical function to each element; the axes are named `i0`, `i1`, …
pub(super) fn math(te: &Te<'_>, x: &TeTensor, f: &str) -> TeTensor {
    te.name_axes("i");
    let out = map(te, "compute", x, |x| x.math(f));
    te.name_axes("ax");
    out
}

/// Reshapes a tensor; the elements keep their order.
pub(super) fn reshaped(te: &Te<'_>, x: &TeTensor, shape: &[Dim]) -> TeTensor {
    te.compute("T_reshape", shape, |i| x.at(unraveled(raveled(i, shape), x.shape())))
}

/// Returns the flat index of an element.
pub(super) fn raveled(i: &[TeExpr], shape: &[Dim]) -> TeExpr {
    let start = TeExpr::of_dim(Dim::Int(0));
    i.iter().zip(shape).fold(start, |flat, (index, dim)| flat * dim + index)
}

/// Returns the indices of the element at a flat index.
pub(super) fn unraveled(flat: TeExpr, shape: &[Dim]) -> Vec<TeExpr> {
    let (mut rest, mut out) = (flat, Vec::new());
    for dim in shape.iter().rev() {
        out.push(&rest % dim);
        rest = rest / dim;
    }
    out.reverse();
    out
}

/// Permutes the dimensions.
pub(super) fn transposed(te: &Te<'_>, x: &TeTensor, axes: &[usize], shape: &[Dim]) -> TeTensor {
    te.compute("T_transpose", shape, |i| {
        let place = |axis: usize| axes.iter().position(|from| *from == axis).unwrap_or(axis);
        x.at((0..x.ndim()).map(|axis| &i[place(axis)]))
    })
}

/// Returns the conditions under which an index is outside of the padding, and the index without padding.
pub(super) fn unpadded(at: &TeExpr, size: &Dim, (before, after): &(Dim, Dim)) -> (Vec<TeExpr>, TeExpr) {
    let is_none = |dim: &Dim| dim.as_int() == Some(0);
    let mut inside = Vec::new();
    if !is_none(before) {
        inside.push(TeExpr::of_dim(before.clone()).le(at));
    }
    if !is_none(after) {
        inside.push(match (before.as_int(), size.as_int()) {
            (Some(1), None) => at.le(size),
            _ => at.lt(size.clone() + before.clone()),
        });
    }
    (inside, at - before)
}

/// Pads each axis of the data, before and after, with a value.
pub(super) fn padded(te: &Te<'_>, name: &str, x: &TeTensor, padding: &[(Dim, Dim)], with: TeExpr) -> TeTensor {
    let sizes = x.shape().iter().zip(padding);
    let shape: Vec<Dim> = sizes.map(|(size, (before, after))| size.clone() + before.clone() + after.clone()).collect();
    te.compute(name, &shape, |i| {
        let each = i.iter().zip(x.shape()).zip(padding).map(|((at, size), pad)| unpadded(at, size, pad));
        let (inside, index): (Vec<_>, Vec<_>) = each.unzip();
        let inside = inside.into_iter().flatten().reduce(|all, one| all.and(one));
        let value = x.at(&index);
        inside.map_or(value.clone(), |inside| inside.if_then_else(value, with))
    })
}

/// Divides; integer quotients are truncated.
pub(super) fn divide(a: TeExpr, b: TeExpr) -> TeExpr {
    if a.dtype().is_float() { a / b } else { a.trunc_div(b) }
}
