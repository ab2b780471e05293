//! Matrix products.

use crate::declare::*;
use plugin_api::arith::prove_equal;
use plugin_api::ir::{Call, Dim, TensorType, Type};
use plugin_api::meta::AttrType;
use plugin_api::op::{DefaultDecl, OpDecl};

pub(crate) const OPERATORS: &[OpDecl] = &[op(
    "relax.matmul",
    "Matrix product of the last two axes, with broadcasting of the others; one axis counts as a vector.",
    X1_X2,
    &[attr_or("out_dtype", AttrType::DType, DefaultDecl::None)],
    matmul,
)];

fn matmul(call: Call<'_>) -> Inferred {
    let (a, b) = (tensor(call, 0)?, tensor(call, 1)?);
    let dtype = out_dtype(call, "out_dtype", same_dtype(a.dtype, b.dtype)?);
    if a.ndim == 0 || b.ndim == 0 {
        return wrong("a tensor without dimensions has no matrix product".to_string());
    }
    let ndim = match (a.ndim, b.ndim) {
        (x, y) if x < 0 || y < 0 => -1,
        (1, 1) => 0,
        (1, n) | (n, 1) => n - 1,
        (x, y) => x.max(y),
    };
    let unknown = Type::Tensor(TensorType { dtype, ndim, shape: None, vdevice: a.vdevice.or(b.vdevice) });
    let (Some(x), Some(y)) = (&a.shape, &b.shape) else { return Ok(unknown) };
    let (rows, inner) = match x.as_slice() {
        [inner] => (None, inner),
        [.., rows, inner] => (Some(rows), inner),
        [] => return Ok(unknown),
    };
    let (inner2, columns) = match y.as_slice() {
        [inner] => (inner, None),
        [.., inner, columns] => (inner, Some(columns)),
        [] => return Ok(unknown),
    };
    if prove_equal(inner, inner2) == Some(false) {
        let show = |dim: &Dim| dim.as_int().map_or("symbolic".to_string(), |v| v.to_string());
        return wrong(format!("columns of the first ({}) and rows of the second ({}) differ", show(inner), show(inner2)));
    }
    let outer = |dims: &'_ [Dim]| dims[..dims.len().saturating_sub(2)].to_vec();
    let Some(mut dims) = broadcast(&outer(x), &outer(y))? else { return Ok(unknown) };
    dims.extend(rows.into_iter().chain(columns).cloned());
    Ok(Type::Tensor(TensorType { dtype, ndim, shape: Some(dims), vdevice: a.vdevice.or(b.vdevice) }))
}
