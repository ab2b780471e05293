//! Operators that this plugin declares because ONNX has them and they cannot be composed of Relax operators.

mod deform;
mod packed;
mod pool;
mod recurrent;
mod roi;
mod select;

use plugin_api::ir::{Call, DType, Dim, TensorType, Type};
use plugin_api::metadata::{ArgKind, AttrType};
use plugin_api::typing::operators::{ArgDecl, AttrDecl, InferError, OpDecl};

/// All operators of this plugin.
pub(crate) const OPERATORS: &[OpDecl] = &[
    deform::BIT_CAST,
    deform::DEFORM_CONV,
    packed::MATMUL_N_BITS,
    pool::MAX_POOL_INDICES,
    recurrent::RECURRENT,
    roi::ROI_MAX,
    select::NON_MAX_SUPPRESSION,
];

/// Declares a tensor argument.
const fn arg(name: &'static str) -> ArgDecl {
    ArgDecl { name, kind: ArgKind::Tensor, ..ArgDecl::EMPTY }
}

/// Declares a required attribute.
const fn attr(name: &'static str, ty: AttrType) -> AttrDecl {
    AttrDecl { name, ty, ..AttrDecl::EMPTY }
}

fn wrong<A>(message: impl Into<String>) -> Result<A, InferError> {
    Err(InferError::wrong(message))
}

/// Returns the type of argument `i`, which must be a tensor.
fn tensor(call: Call<'_>, i: usize) -> Result<TensorType, InferError> {
    match call.arg(i).map(|arg| arg.ty().to_owned()) {
        Some(Type::Tensor(ty)) => Ok(ty),
        _ => wrong(format!("argument {i} must be a tensor")),
    }
}

/// Returns the dimensions of argument `i`, which must have rank `rank`; `None` if the dimensions are unknown.
fn dims(call: Call<'_>, i: usize, rank: usize) -> Result<Option<Vec<Dim>>, InferError> {
    let ty = tensor(call, i)?;
    match ty.shape {
        Some(dims) if dims.len() != rank => {
            wrong(format!("argument {i} must have {rank} dimensions, found {}", dims.len()))
        }
        shape => Ok(shape),
    }
}

fn of_shape(dtype: DType, rank: usize, shape: Option<Vec<Dim>>) -> Type {
    Type::Tensor(TensorType { dtype, ndim: rank as i32, shape, vdevice: None })
}

fn text<'a>(call: Call<'a>, key: &str) -> &'a str {
    call.attr(key).and_then(|attr| attr.as_str()).unwrap_or("")
}

fn int(call: Call<'_>, key: &str) -> i64 {
    call.attr(key).and_then(|attr| attr.as_int()).unwrap_or(0)
}

fn float(call: Call<'_>, key: &str) -> f64 {
    call.attr(key).and_then(|attr| attr.as_float().or_else(|| attr.as_int().map(|value| value as f64))).unwrap_or(0.0)
}

fn flag(call: Call<'_>, key: &str) -> bool {
    call.attr(key).and_then(|attr| attr.as_bool()).unwrap_or(false)
}

fn ints(call: Call<'_>, key: &str) -> Vec<i64> {
    call.attr(key).and_then(|attr| attr.as_ints()).unwrap_or_default()
}
