//! Operators that work on each element: one tensor in, or two that broadcast.

use crate::declare::*;
use plugin_api::ir::{Call, DType, TensorType, Type};
use plugin_api::meta::{ArgKind, AttrType};
use plugin_api::op::{DefaultDecl, OpDecl};

const fn unary(name: &'static str, doc: &'static str) -> OpDecl {
    op(name, doc, X, &[], same)
}

const fn unary_float(name: &'static str, doc: &'static str) -> OpDecl {
    op(name, doc, X, &[], same_float)
}

const fn binary(name: &'static str, doc: &'static str) -> OpDecl {
    op(name, doc, X1_X2, &[], arithmetic)
}

const fn compare(name: &'static str, doc: &'static str) -> OpDecl {
    op(name, doc, X1_X2, &[], comparison)
}

pub(crate) const OPERATORS: &[OpDecl] = &[
    binary("relax.add", "Sum of two tensors, with broadcasting."),
    binary("relax.subtract", "Difference of two tensors, with broadcasting."),
    binary("relax.multiply", "Product of two tensors, element by element, with broadcasting."),
    binary("relax.divide", "Quotient of two tensors, with broadcasting."),
    binary("relax.floor_divide", "Quotient rounded down, with broadcasting."),
    binary("relax.power", "First tensor to the power of the second, with broadcasting."),
    binary("relax.mod", "Remainder, with broadcasting."),
    binary("relax.floor_mod", "Remainder of the quotient rounded down, with broadcasting."),
    binary("relax.maximum", "Larger elements, with broadcasting."),
    binary("relax.minimum", "Smaller elements, with broadcasting."),
    binary("relax.atan2", "Angle of two tensors, with broadcasting."),
    binary("relax.bitwise_and", "Bitwise and, with broadcasting."),
    binary("relax.bitwise_or", "Bitwise or, with broadcasting."),
    binary("relax.bitwise_xor", "Bitwise exclusive or, with broadcasting."),
    binary("relax.left_shift", "Shift left, with broadcasting."),
    binary("relax.right_shift", "Shift right, with broadcasting."),
    binary("relax.logical_and", "Logical and, with broadcasting."),
    binary("relax.logical_or", "Logical or, with broadcasting."),
    binary("relax.logical_xor", "Logical exclusive or, with broadcasting."),
    compare("relax.equal", "Whether elements are equal, as bool."),
    compare("relax.not_equal", "Whether elements differ, as bool."),
    compare("relax.less", "Whether elements of the first are smaller, as bool."),
    compare("relax.less_equal", "Whether elements of the first are not larger, as bool."),
    compare("relax.greater", "Whether elements of the first are larger, as bool."),
    compare("relax.greater_equal", "Whether elements of the first are not smaller, as bool."),
    unary("relax.abs", "Absolute value."),
    unary("relax.negative", "Negated elements."),
    unary("relax.square", "Elements squared."),
    unary("relax.sign", "-1, 0 or 1."),
    unary("relax.ceil", "Rounded up."),
    unary("relax.floor", "Rounded down."),
    unary("relax.round", "Rounded to the nearest."),
    unary("relax.trunc", "Rounded towards zero."),
    unary("relax.bitwise_not", "Bitwise not."),
    unary("relax.logical_not", "Logical not."),
    unary_float("relax.exp", "Exponential."),
    unary_float("relax.log", "Natural logarithm."),
    unary_float("relax.sqrt", "Square root."),
    unary_float("relax.rsqrt", "One over the square root."),
    unary_float("relax.sigmoid", "Logistic function."),
    unary_float("relax.sin", "Sine."),
    unary_float("relax.cos", "Cosine."),
    unary_float("relax.tan", "Tangent."),
    unary_float("relax.sinh", "Hyperbolic sine."),
    unary_float("relax.cosh", "Hyperbolic cosine."),
    unary_float("relax.tanh", "Hyperbolic tangent."),
    unary_float("relax.asin", "Inverse sine."),
    unary_float("relax.acos", "Inverse cosine."),
    unary_float("relax.atan", "Inverse tangent."),
    unary_float("relax.asinh", "Inverse hyperbolic sine."),
    unary_float("relax.acosh", "Inverse hyperbolic cosine."),
    unary_float("relax.atanh", "Inverse hyperbolic tangent."),
    unary_float("relax.erf", "Error function."),
    op("relax.isfinite", "Whether elements are finite, as bool.", X, &[], to_bool),
    op("relax.isinf", "Whether elements are infinite, as bool.", X, &[], to_bool),
    op("relax.isnan", "Whether elements are not a number, as bool.", X, &[], to_bool),
    op("relax.nn.relu", "Elements, or 0 where they are negative.", DATA, &[], same),
    op("relax.nn.gelu", "Gaussian error linear unit.", DATA, &[], same_float),
    op("relax.nn.gelu_tanh", "Gaussian error linear unit, by tanh.", DATA, &[], same_float),
    op("relax.nn.silu", "Sigmoid linear unit.", DATA, &[], same_float),
    op("relax.nn.selu", "Scaled exponential linear unit.", DATA, &[], same_float),
    op(
        "relax.nn.leakyrelu",
        "Elements, or `alpha` times them where they are negative.",
        DATA,
        &[attr_or("alpha", AttrType::Float, DefaultDecl::Float(0.01))],
        same_float,
    ),
    op(
        "relax.clip",
        "Elements kept between two scalars.",
        &[arg("x", ArgKind::Tensor), arg("min", ArgKind::Prim), arg("max", ArgKind::Prim)],
        &[],
        same,
    ),
    op("relax.astype", "Elements converted to `dtype`.", X, &[attr("dtype", AttrType::DType)], astype),
    op(
        "relax.where",
        "Elements of `x1` where the condition holds, else of `x2`, with broadcasting.",
        &[arg("condition", ArgKind::Tensor), arg("x1", ArgKind::Tensor), arg("x2", ArgKind::Tensor)],
        &[],
        select,
    ),
    op(
        "relax.ewise_fma",
        "`x1 * x2 + x3`, element by element.",
        &[arg("x1", ArgKind::Tensor), arg("x2", ArgKind::Tensor), arg("x3", ArgKind::Tensor)],
        &[],
        same,
    ),
];

fn same(call: Call<'_>) -> Inferred {
    tensor(call, 0).map(Type::Tensor)
}

fn same_float(call: Call<'_>) -> Inferred {
    let x = tensor(call, 0)?;
    if x.dtype.is_known() && !x.dtype.is_float() {
        return wrong(format!("needs a tensor of floats, found {}; convert it with R.astype", x.dtype));
    }
    Ok(Type::Tensor(x))
}

fn to_bool(call: Call<'_>) -> Inferred {
    Ok(Type::Tensor(TensorType { dtype: DType::BOOL, ..tensor(call, 0)? }))
}

fn astype(call: Call<'_>) -> Inferred {
    let x = tensor(call, 0)?;
    Ok(Type::Tensor(TensorType { dtype: out_dtype(call, "dtype", DType::VOID), ..x }))
}

/// A tensor, or a scalar as one without dimensions.
fn operand(call: Call<'_>, i: usize) -> Result<TensorType, plugin_api::op::InferError> {
    match argument(call, i)?.ty().to_owned() {
        Type::Prim { dtype, .. } => Ok(TensorType { dtype, ndim: 0, shape: Some(Vec::new()), vdevice: None }),
        other => tensor_type(&other, &format!("argument {i}")),
    }
}

fn arithmetic(call: Call<'_>) -> Inferred {
    let (a, b) = (operand(call, 0)?, operand(call, 1)?);
    broadcast_tensors(&a, &b, same_dtype(a.dtype, b.dtype)?)
}

fn comparison(call: Call<'_>) -> Inferred {
    let (a, b) = (operand(call, 0)?, operand(call, 1)?);
    same_dtype(a.dtype, b.dtype)?;
    broadcast_tensors(&a, &b, DType::BOOL)
}

fn select(call: Call<'_>) -> Inferred {
    let (condition, a, b) = (tensor(call, 0)?, tensor(call, 1)?, tensor(call, 2)?);
    if condition.dtype.is_known() && condition.dtype != DType::BOOL {
        return wrong(format!("the condition must be of bool, found {}", condition.dtype));
    }
    let dtype = same_dtype(a.dtype, b.dtype)?;
    let both = tensor_type(&broadcast_tensors(&a, &b, dtype)?, "the operands")?;
    broadcast_tensors(&condition, &both, dtype)
}
