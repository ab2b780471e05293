//! A view: the bytes of a tensor, or part of them, reinterpreted as another tensor.

use crate::declare::*;
use plugin_api::arith::{apply, product};
use plugin_api::ir::{Call, DType, Dim, Expr, TensorType, Type, Value};
use plugin_api::metadata::ArgKind;
use plugin_api::scalar::PrimOp;
use plugin_api::typing::operators::{ArgDecl, InferError};

const fn optional(name: &'static str) -> ArgDecl {
    ArgDecl { name, kind: ArgKind::Any, optional: true }
}

pub(crate) const VIEW: &[ArgDecl] =
    &[arg("data", ArgKind::Tensor), optional("shape"), optional("dtype"), optional("relative_byte_offset")];

/// Returns an argument if it is set: `R.tuple()` means unset.
fn said(call: Call<'_>, i: usize) -> Option<Value<'_>> {
    call.arg(i).filter(|value| !(value.ty().is_tuple() && value.ty().children().len() == 0))
}

/// Returns the requested data type; `None` if it is that of the input; unknown if it is known only at run time.
fn asked(call: Call<'_>) -> Result<Option<DType>, InferError> {
    let Some(mut value) = said(call, 2) else { return Ok(None) };
    while let Expr::Alias(source) = value.view() {
        value = source;
    }
    match value.view() {
        Expr::DType(dtype) if dtype.is_known() => Ok(Some(dtype)),
        Expr::DType(_) => wrong("the data type of a view must not be void".to_string()),
        Expr::Call(call) if call.op() == Some("relax.null_value") => Ok(None),
        Expr::Str(name) => wrong(format!("the data type must be R.dtype({name:?}), found a string")),
        _ if matches!(value.ty().to_owned(), Type::Object) => Ok(Some(DType::VOID)),
        _ => wrong("the data type must be like R.dtype(\"float32\"), or R.tuple() to keep it".to_string()),
    }
}

/// Returns the byte offset of the view, or `None` if unknown.
fn offset(call: Call<'_>) -> Result<Option<Dim>, InferError> {
    let Some(value) = said(call, 3) else { return Ok(Some(Dim::Int(0))) };
    match value.ty().to_owned() {
        Type::Prim { dtype: DType::I64, value } => Ok(value),
        Type::Prim { dtype, .. } => wrong(format!("relative_byte_offset must be int64, found {dtype}")),
        other => wrong(format!("relative_byte_offset must be a scalar of int64, found {}", kind_name(&other))),
    }
}

/// Returns the size of a tensor in bytes, if its type determines it.
fn bytes(dims: Option<&Vec<Dim>>, dtype: DType) -> Option<Dim> {
    let each = Dim::Int(i64::try_from(dtype.bytes()).ok()?);
    dims.filter(|_| dtype.is_known()).map(|dims| apply(PrimOp::Mul, &product(dims), &each))
}

pub(crate) fn view(call: Call<'_>) -> Inferred {
    let x = tensor(call, 0)?;
    let shape = said(call, 1).map(|_| shape(call, 1)).transpose()?;
    let (asked, offset) = (asked(call)?, offset(call)?);
    let dtype = asked.unwrap_or(x.dtype);
    let (ndim, dims) = shape.clone().unwrap_or((x.ndim, x.shape.clone()));
    let like = TensorType { dtype, ..x.clone() };
    let beyond = |end: &Dim, size: &Dim| apply(PrimOp::Sub, end, size).as_int().is_some_and(|more| more > 0);
    let found = match (bytes(x.shape.as_ref(), x.dtype), bytes(dims.as_ref(), dtype)) {
        (Some(has), Some(needs)) => beyond(&apply(PrimOp::Add, &needs, &offset.unwrap_or(Dim::Int(0))), &has),
        _ if shape.is_none() && x.dtype.is_known() && dtype.is_known() => dtype.bytes() > x.dtype.bytes(),
        _ => match (&x.shape, &dims) {
            (Some(has), Some(needs)) if asked.is_none() => beyond(&product(needs), &product(has)),
            _ => {
                let moved = offset.and_then(|offset| offset.as_int()).is_some_and(|offset| offset > 0);
                moved && shape.is_none() && asked.is_none()
            }
        },
    };
    match found {
        true => wrong("the view exceeds the tensor; reduce the view or relative_byte_offset".to_string()),
        false => Ok(with_shape(&like, ndim, dims)),
    }
}
