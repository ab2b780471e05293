//! Elementwise operators: unary, or binary with broadcasting.

use crate::declare::*;
use crate::type_rules::*;
use plugin_api::ir::{Call, DType, TensorType, Type};
use plugin_api::metadata::{ArgKind, AttrType};
use plugin_api::typing::operators::{ArgDecl, DefaultDecl, InferError, OpDecl};

const TRIANGLE: &[ArgDecl] = &[arg("x", ArgKind::Tensor), arg("k", ArgKind::Prim)];

macro_rules! unary {
    ($name:literal, $does:literal) => {
        op($name, documented_unary!($name, $does, SAME), X, &[], same)
    };
}

macro_rules! unary_float {
    ($name:literal, $does:literal) => {
        op($name, documented_unary!($name, $does, SAME_FLOAT), X, &[], same_float)
    };
}

macro_rules! binary {
    ($name:literal, $does:literal) => {
        op($name, documented_binary!($name, $does, ARITHMETIC, "float32"), X1_X2, &[], arithmetic)
    };
}

macro_rules! compare {
    ($name:literal, $does:literal) => {
        op($name, documented_binary!($name, $does, COMPARED, "bool"), X1_X2, &[], comparison)
    };
}

macro_rules! documented_unary {
    ($name:literal, $does:literal, $rule:expr) => {
        documented!(
            $does,
            $rule,
            r#"x: R.Tensor((2, 3), "float32")"#,
            joined_text!("R", spelled($name), "(x)"),
            r#"R.Tensor((2, 3), "float32")"#
        )
    };
}

macro_rules! documented_binary {
    ($name:literal, $does:literal, $rule:expr, $dtype:literal) => {
        documented!(
            $does,
            $rule,
            r#"x1: R.Tensor((2, 3), "float32"), x2: R.Tensor((3,), "float32")"#,
            joined_text!("R", spelled($name), "(x1, x2)"),
            joined_text!("R.Tensor((2, 3), \"", $dtype, "\")")
        )
    };
}

pub(crate) const OPERATORS: &[OpDecl] = &[
    binary!("relax.add", "Sum of two tensors, with broadcasting."),
    binary!("relax.subtract", "Difference of two tensors, with broadcasting."),
    binary!("relax.multiply", "Product of two tensors, element by element, with broadcasting."),
    binary!("relax.divide", "Quotient of two tensors, with broadcasting."),
    binary!("relax.floor_divide", "Quotient rounded down, with broadcasting."),
    binary!("relax.power", "The first tensor to the power of the second, with broadcasting."),
    binary!("relax.mod", "Remainder, with broadcasting."),
    binary!("relax.floor_mod", "Remainder of the floor division, with broadcasting."),
    binary!("relax.maximum", "The larger element of each pair, with broadcasting."),
    binary!("relax.minimum", "The smaller element of each pair, with broadcasting."),
    binary!("relax.log_add_exp", "Logarithm of the sum of the exponentials, with broadcasting."),
    binary!("relax.atan2", "Angle of the point with the two tensors as its coordinates, with broadcasting."),
    binary!("relax.bitwise_and", "Bitwise and, with broadcasting."),
    binary!("relax.bitwise_or", "Bitwise or, with broadcasting."),
    binary!("relax.bitwise_xor", "Bitwise exclusive or, with broadcasting."),
    binary!("relax.left_shift", "Shift left, with broadcasting."),
    binary!("relax.right_shift", "Shift right, with broadcasting."),
    binary!("relax.logical_and", "Logical and, with broadcasting."),
    binary!("relax.logical_or", "Logical or, with broadcasting."),
    binary!("relax.logical_xor", "Logical exclusive or, with broadcasting."),
    compare!("relax.equal", "True where elements are equal."),
    compare!("relax.not_equal", "True where elements differ."),
    compare!("relax.less", "True where elements of the first tensor are less than elements of the second."),
    compare!(
        "relax.less_equal",
        "True where elements of the first tensor are at most equal to elements of the second."
    ),
    compare!("relax.greater", "True where elements of the first tensor are greater than elements of the second."),
    compare!(
        "relax.greater_equal",
        "True where elements of the first tensor are at least equal to elements of the second."
    ),
    unary!("relax.abs", "Absolute value."),
    unary!("relax.negative", "Elements negated."),
    unary!("relax.square", "Elements squared."),
    unary!("relax.sign", "-1, 0 or 1."),
    unary!("relax.ceil", "Elements rounded up."),
    unary!("relax.floor", "Elements rounded down."),
    unary!("relax.round", "Elements rounded to the nearest integer."),
    unary!("relax.trunc", "Elements rounded towards zero."),
    unary!("relax.bitwise_not", "Bitwise not."),
    unary!("relax.logical_not", "Logical not."),
    unary_float!("relax.exp", "Exponential."),
    unary_float!("relax.log", "Natural logarithm."),
    unary_float!("relax.sqrt", "Square root."),
    unary_float!("relax.rsqrt", "One over the square root."),
    unary_float!("relax.sigmoid", "Logistic function."),
    unary_float!("relax.sin", "Sine."),
    unary_float!("relax.cos", "Cosine."),
    unary_float!("relax.tan", "Tangent."),
    unary_float!("relax.sinh", "Hyperbolic sine."),
    unary_float!("relax.cosh", "Hyperbolic cosine."),
    unary_float!("relax.tanh", "Hyperbolic tangent."),
    unary_float!("relax.asin", "Inverse sine."),
    unary_float!("relax.acos", "Inverse cosine."),
    unary_float!("relax.atan", "Inverse tangent."),
    unary_float!("relax.asinh", "Inverse hyperbolic sine."),
    unary_float!("relax.acosh", "Inverse hyperbolic cosine."),
    unary_float!("relax.atanh", "Inverse hyperbolic tangent."),
    unary_float!("relax.erf", "Error function."),
    op(
        "relax.isfinite",
        documented!(
            "True where elements are finite.",
            BOOL,
            r#"x: R.Tensor((2, 3), "float32")"#,
            "R.isfinite(x)",
            r#"R.Tensor((2, 3), "bool")"#
        ),
        X,
        &[],
        to_bool,
    ),
    op(
        "relax.isinf",
        documented!(
            "True where elements are infinite.",
            BOOL,
            r#"x: R.Tensor((2, 3), "float32")"#,
            "R.isinf(x)",
            r#"R.Tensor((2, 3), "bool")"#
        ),
        X,
        &[],
        to_bool,
    ),
    op(
        "relax.isnan",
        documented!(
            "True where elements are NaN.",
            BOOL,
            r#"x: R.Tensor((2, 3), "float32")"#,
            "R.isnan(x)",
            r#"R.Tensor((2, 3), "bool")"#
        ),
        X,
        &[],
        to_bool,
    ),
    op(
        "relax.nn.relu",
        documented!(
            "Elements, with negative elements replaced by 0.",
            SAME,
            r#"data: R.Tensor((2, 3), "float32")"#,
            "R.nn.relu(data)",
            r#"R.Tensor((2, 3), "float32")"#
        ),
        DATA,
        &[],
        same,
    ),
    op(
        "relax.nn.gelu",
        documented!(
            "Gaussian error linear unit.",
            SAME_FLOAT,
            r#"data: R.Tensor((2, 3), "float32")"#,
            "R.nn.gelu(data)",
            r#"R.Tensor((2, 3), "float32")"#
        ),
        DATA,
        &[],
        same_float,
    ),
    op(
        "relax.nn.gelu_tanh",
        documented!(
            "Gaussian error linear unit, approximated with tanh.",
            SAME_FLOAT,
            r#"data: R.Tensor((2, 3), "float32")"#,
            "R.nn.gelu_tanh(data)",
            r#"R.Tensor((2, 3), "float32")"#
        ),
        DATA,
        &[],
        same_float,
    ),
    op(
        "relax.nn.silu",
        documented!(
            "Sigmoid linear unit.",
            SAME_FLOAT,
            r#"data: R.Tensor((2, 3), "float32")"#,
            "R.nn.silu(data)",
            r#"R.Tensor((2, 3), "float32")"#
        ),
        DATA,
        &[],
        same_float,
    ),
    op(
        "relax.nn.selu",
        documented!(
            "Scaled exponential linear unit.",
            SAME_FLOAT,
            r#"data: R.Tensor((2, 3), "float32")"#,
            "R.nn.selu(data)",
            r#"R.Tensor((2, 3), "float32")"#
        ),
        DATA,
        &[],
        same_float,
    ),
    op(
        "relax.nn.leakyrelu",
        documented!(
            "Elements, with negative elements multiplied by `alpha`.",
            SAME_FLOAT,
            r#"data: R.Tensor((2, 3), "float32")"#,
            "R.nn.leakyrelu(data, alpha=0.2)",
            r#"R.Tensor((2, 3), "float32")"#
        ),
        DATA,
        &[attr_or("alpha", AttrType::Float, DefaultDecl::Float(0.01))],
        same_float,
    ),
    op(
        "relax.nn.softplus",
        documented!(
            "Smooth rectifier: `log(1 + exp(beta * x)) / beta`, linear above `threshold`.",
            SAME_FLOAT,
            r#"data: R.Tensor((2, 3), "float32")"#,
            "R.nn.softplus(data, beta=1.0, threshold=20.0)",
            r#"R.Tensor((2, 3), "float32")"#
        ),
        DATA,
        &[
            attr_or("beta", AttrType::Float, DefaultDecl::Float(1.0)),
            attr_or("threshold", AttrType::Float, DefaultDecl::Float(20.0)),
        ],
        same_float,
    ),
    op(
        "relax.nn.prelu",
        documented!(
            "Elements, with negative elements multiplied by the element of `alpha` for their index along an axis.",
            "the type of `data`, which must have the axis",
            r#"data: R.Tensor((2, 3), "float32"), alpha: R.Tensor((3,), "float32")"#,
            "R.nn.prelu(data, alpha, axis=1)",
            r#"R.Tensor((2, 3), "float32")"#
        ),
        &[arg("data", ArgKind::Tensor), arg("alpha", ArgKind::Tensor)],
        &[attr_or("axis", AttrType::Int, DefaultDecl::Int(1))],
        prelu,
    ),
    op(
        "relax.tril",
        documented!(
            "The lower triangle of matrices, up to diagonal `k`, with zeros elsewhere.",
            TRIANGULAR,
            r#"x: R.Tensor((3, 4), "float32")"#,
            "R.tril(x, 0)",
            r#"R.Tensor((3, 4), "float32")"#
        ),
        TRIANGLE,
        &[],
        triangle,
    ),
    op(
        "relax.triu",
        documented!(
            "The upper triangle of matrices, from diagonal `k`, with zeros elsewhere.",
            TRIANGULAR,
            r#"x: R.Tensor((3, 4), "float32")"#,
            "R.triu(x, 1)",
            r#"R.Tensor((3, 4), "float32")"#
        ),
        TRIANGLE,
        &[],
        triangle,
    ),
    op(
        "relax.clip",
        documented!(
            "Elements clamped between two scalars.",
            SAME,
            r#"x: R.Tensor((2, 3), "float32")"#,
            "R.clip(x, 0, 6)",
            r#"R.Tensor((2, 3), "float32")"#
        ),
        &[arg("x", ArgKind::Tensor), arg("min", ArgKind::Prim), arg("max", ArgKind::Prim)],
        &[],
        same,
    ),
    op(
        "relax.astype",
        documented!(
            "Elements converted to `dtype`.",
            "the shape of `x`, with elements of `dtype`",
            r#"x: R.Tensor((2, 3), "float32")"#,
            r#"R.astype(x, dtype="int8")"#,
            r#"R.Tensor((2, 3), "int8")"#
        ),
        X,
        &[attr("dtype", AttrType::DType)],
        astype,
    ),
    op(
        "relax.where",
        documented!(
            "Elements of `x1` where the condition is true, and of `x2` elsewhere, with broadcasting.",
            "the data type of `x1` and `x2`, in the shape to which all three broadcast; the condition has data type bool",
            r#"condition: R.Tensor((2, 1), "bool"), x1: R.Tensor((2, 3), "float32"), x2: R.Tensor((3,), "float32")"#,
            "R.where(condition, x1, x2)",
            r#"R.Tensor((2, 3), "float32")"#
        ),
        &[arg("condition", ArgKind::Tensor), arg("x1", ArgKind::Tensor), arg("x2", ArgKind::Tensor)],
        &[],
        select,
    ),
    op(
        "relax.ewise_fma",
        documented!(
            "`x1 * x2 + x3`, element by element.",
            "the type of the three tensors, which must have the same shape and data type",
            r#"x1: R.Tensor((2, 3), "float32"), x2: R.Tensor((2, 3), "float32"), x3: R.Tensor((2, 3), "float32")"#,
            "R.ewise_fma(x1, x2, x3)",
            r#"R.Tensor((2, 3), "float32")"#
        ),
        &[arg("x1", ArgKind::Tensor), arg("x2", ArgKind::Tensor), arg("x3", ArgKind::Tensor)],
        &[],
        fused_multiply_add,
    ),
];

fn same(call: Call<'_>) -> Inferred {
    tensor(call, 0).map(Type::Tensor)
}

fn same_float(call: Call<'_>) -> Inferred {
    let x = tensor(call, 0)?;
    needs_float(x.dtype)?;
    Ok(Type::Tensor(x))
}

fn to_bool(call: Call<'_>) -> Inferred {
    Ok(with_dtype(tensor(call, 0)?, DType::BOOL))
}

fn astype(call: Call<'_>) -> Inferred {
    Ok(with_dtype(tensor(call, 0)?, out_dtype(call, "dtype", DType::VOID)))
}

fn prelu(call: Call<'_>) -> Inferred {
    let x = tensor(call, 0)?;
    axis(int(call, "axis").unwrap_or(1), x.ndim)?;
    Ok(Type::Tensor(x))
}

fn triangle(call: Call<'_>) -> Inferred {
    let x = tensor(call, 0)?;
    match x.ndim {
        0 | 1 => wrong(format!("needs a tensor of at least 2 dimensions, found {}", x.ndim)),
        _ => Ok(Type::Tensor(x)),
    }
}

/// Returns the type of a tensor operand; a scalar counts as a tensor with 0 dimensions.
fn operand(call: Call<'_>, i: usize) -> Result<TensorType, InferError> {
    match argument(call, i)?.ty().to_owned() {
        Type::Prim { dtype, .. } => Ok(TensorType { dtype, ndim: 0, shape: Some(Vec::new()), vdevice: None }),
        Type::Tensor(t) => Ok(t),
        Type::DTensor(t) => Ok(t.tensor),
        other => wrong(format!("argument {i} must be a tensor or a scalar, found {}", kind_name(&other))),
    }
}

fn arithmetic(call: Call<'_>) -> Inferred {
    let (a, b) = (operand(call, 0)?, operand(call, 1)?);
    broadcast_tensors(&a, &b, same_dtype(a.dtype, b.dtype)?)
}

/// Infers a comparison. The data types may differ, because TVM compares tensors of any two data
/// types.
fn comparison(call: Call<'_>) -> Inferred {
    broadcast_tensors(&operand(call, 0)?, &operand(call, 1)?, DType::BOOL)
}

fn select(call: Call<'_>) -> Inferred {
    let (condition, a, b) = (tensor(call, 0)?, tensor(call, 1)?, tensor(call, 2)?);
    if condition.dtype.is_known() && condition.dtype != DType::BOOL {
        return wrong(format!("the condition must have data type bool, found {}", condition.dtype));
    }
    let dtype = same_dtype(a.dtype, b.dtype)?;
    match broadcast_tensors(&a, &b, dtype)? {
        Type::Tensor(both) => broadcast_tensors(&condition, &both, dtype),
        other => Ok(other),
    }
}

/// Infers `a * b + c`. All three operands must have the same shape; nothing is broadcast.
fn fused_multiply_add(call: Call<'_>) -> Inferred {
    let all = [tensor(call, 0)?, tensor(call, 1)?, tensor(call, 2)?];
    let [a, b, c] = &all;
    let dtype = if [a, b, c].iter().all(|t| t.dtype.is_known()) {
        same_dtype(same_dtype(a.dtype, b.dtype)?, c.dtype)?
    } else {
        DType::VOID
    };
    let ndim = a.ndim.max(b.ndim).max(c.ndim);
    if let Some(other) = all.iter().find(|t| t.ndim >= 0 && t.ndim != ndim) {
        return wrong(format!(
            "found tensors of {} and {ndim} dimensions; all three must have the same shape",
            other.ndim
        ));
    }
    let shape = match (&a.shape, &b.shape, &c.shape) {
        (Some(x), Some(y), Some(z)) => {
            if same_shape(x, y) != Some(true) || same_shape(x, z) != Some(true) {
                return wrong(
                    "the three tensors must have the same shape, which cannot be proved for these".to_string(),
                );
            }
            Some(x.clone())
        }
        _ => None,
    };
    Ok(with_shape(&TensorType { dtype, ..a.clone() }, ndim, shape))
}
