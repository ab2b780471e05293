//! Operators that create tensors and shapes from shapes, scalars and other tensors' types.

use crate::declare::*;
use crate::type_rules::*;
use plugin_api::ir::{Call, DType, Dim, TensorType, Type};
use plugin_api::metadata::{ArgKind, AttrType};
use plugin_api::typing::operators::{ArgDecl, AttrDecl, DefaultDecl, InferError, OpDecl};

const SHAPE: &[ArgDecl] = &[arg("shape", ArgKind::Shape)];
const FULL: &[ArgDecl] = &[arg("shape", ArgKind::Shape), arg("fill_value", ArgKind::Tensor)];
const FULL_LIKE: &[ArgDecl] = &[arg("x", ArgKind::Tensor), arg("fill_value", ArgKind::Tensor)];
const RANGE: &[ArgDecl] = &[arg("start", ArgKind::Prim), arg("end", ArgKind::Prim), arg("step", ArgKind::Prim)];
const EYE: &[ArgDecl] = &[arg("n", ArgKind::Prim), arg("m", ArgKind::Prim), arg("k", ArgKind::Prim)];
const EYE_LIKE: &[ArgDecl] = &[arg("x", ArgKind::Tensor), arg("k", ArgKind::Prim)];
const TO_SHAPE: &[ArgDecl] = &[arg("expr", ArgKind::Tensor)];
const EYE_DTYPE: &[AttrDecl] = &[attr_or("dtype", AttrType::DType, DefaultDecl::Str("float32"))];
const WINDOW: &[ArgDecl] = &[
    arg("window_size", ArgKind::Prim),
    arg("periodic", ArgKind::Prim),
    arg("alpha", ArgKind::Prim),
    arg("beta", ArgKind::Prim),
];
/// TVM derives the data type from the arguments while it parses; text that it prints always includes the data type.
const RANGE_DTYPE: &[AttrDecl] = &[attr("dtype", AttrType::DType)];
const DTYPE: &[AttrDecl] = &[attr_or("dtype", AttrType::DType, DefaultDecl::None)];

pub(crate) const OPERATORS: &[OpDecl] = &[
    op(
        "relax.zeros",
        documented!(
            "A tensor of zeros.",
            FILLED,
            r#"R.zeros(R.shape([2, 3]), dtype="float32")"#,
            r#"R.Tensor((2, 3), "float32")"#
        ),
        SHAPE,
        DTYPE,
        filled,
    ),
    op(
        "relax.ones",
        documented!(
            "A tensor of ones.",
            FILLED,
            r#"R.ones(R.shape([2, 3]), dtype="float32")"#,
            r#"R.Tensor((2, 3), "float32")"#
        ),
        SHAPE,
        DTYPE,
        filled,
    ),
    op(
        "relax.full",
        documented!(
            "A tensor of one value.",
            "the given shape, with elements of `dtype`, by default of the value's data type",
            r#"value: R.Tensor((), "float32")"#,
            "R.full(R.shape([2, 3]), value)",
            r#"R.Tensor((2, 3), "float32")"#
        ),
        FULL,
        DTYPE,
        full,
    ),
    op(
        "relax.zeros_like",
        documented!(
            "Zeros in the shape of a given tensor.",
            LIKE,
            r#"x: R.Tensor((2, 3), "float32")"#,
            "R.zeros_like(x)",
            r#"R.Tensor((2, 3), "float32")"#
        ),
        X,
        DTYPE,
        like,
    ),
    op(
        "relax.ones_like",
        documented!(
            "Ones in the shape of a given tensor.",
            LIKE,
            r#"x: R.Tensor((2, 3), "float32")"#,
            r#"R.ones_like(x, dtype="int32")"#,
            r#"R.Tensor((2, 3), "int32")"#
        ),
        X,
        DTYPE,
        like,
    ),
    op(
        "relax.full_like",
        documented!(
            "One value in the shape of a given tensor.",
            LIKE,
            r#"x: R.Tensor((2, 3), "float32"), value: R.Tensor((), "float32")"#,
            "R.full_like(x, value)",
            r#"R.Tensor((2, 3), "float32")"#
        ),
        FULL_LIKE,
        DTYPE,
        full_like,
    ),
    op(
        "relax.arange",
        documented!(
            "Numbers in steps from a start up to, but excluding, an end.",
            "one dimension with an element for each step; elements of `dtype`",
            r#"R.arange(0, 10, 3, dtype="int64")"#,
            r#"R.Tensor((4,), "int64")"#
        ),
        RANGE,
        RANGE_DTYPE,
        arange,
    ),
    op(
        "relax.eye",
        documented!(
            "A matrix with ones on a diagonal and zeros elsewhere.",
            "`n` rows and `m` columns, with elements of `dtype`",
            r#"R.eye(3, 4, 0, dtype="float32")"#,
            r#"R.Tensor((3, 4), "float32")"#
        ),
        EYE,
        EYE_DTYPE,
        eye,
    ),
    op(
        "relax.eye_like",
        documented!(
            "Ones on a diagonal and zeros elsewhere, in the shape of a given matrix.",
            LIKE,
            r#"x: R.Tensor((3, 4), "float32")"#,
            "R.eye_like(x, 0)",
            r#"R.Tensor((3, 4), "float32")"#
        ),
        EYE_LIKE,
        DTYPE,
        eye_like,
    ),
    op(
        "relax.hamming_window",
        documented!(
            "The weights of a Hamming window.",
            "one dimension of the window's size, with elements of `dtype`",
            r#"R.hamming_window(10, True, T.float64(0.5), T.float64(0.25), dtype="float32")"#,
            r#"R.Tensor((10,), "float32")"#
        ),
        WINDOW,
        &[attr("dtype", AttrType::DType)],
        hamming_window,
    ),
    op(
        "relax.shape_of",
        documented!(
            "The shape of a tensor.",
            "a shape with the dimensions of the tensor",
            r#"x: R.Tensor((2, 3), "float32")"#,
            "R.shape_of(x)",
            "R.Shape([2, 3])"
        ),
        TO_SHAPE,
        &[],
        shape_of,
    ),
    op(
        "relax.size",
        documented!(
            "The number of elements of a tensor.",
            "a scalar of int64",
            r#"x: R.Tensor((2, 3), "float32")"#,
            "R.size(x)",
            r#"R.Tensor((), "int64")"#
        ),
        TO_SHAPE,
        &[],
        size,
    ),
    op(
        "relax.shape_to_tensor",
        documented!(
            "A shape converted to a tensor of int64.",
            "one dimension of int64, as long as the shape",
            "R.shape_to_tensor(R.shape([2, 3]))",
            r#"R.Tensor((2,), "int64")"#
        ),
        &[arg("expr", ArgKind::Shape)],
        &[],
        shape_to_tensor,
    ),
    op(
        "relax.tensor_to_shape",
        documented!(
            "A tensor of int64 converted to a shape.",
            "a shape with as many dimensions as the tensor has elements",
            r#"x: R.Tensor((3,), "int64")"#,
            "R.tensor_to_shape(x)",
            "R.Shape(ndim=3)"
        ),
        TO_SHAPE,
        &[],
        tensor_to_shape,
    ),
];

fn filled(call: Call<'_>) -> Inferred {
    let (ndim, dims) = shape(call, 0)?;
    not_negative(dims.as_deref())?;
    let Some(dtype) = asked_dtype(call, "dtype") else {
        return wrong("needs a data type, such as dtype=\"float32\"".to_string());
    };
    Ok(Type::Tensor(TensorType { dtype, ndim, shape: dims, vdevice: None }))
}

/// Returns the type of the scalar that fills a tensor.
fn fill(call: Call<'_>) -> Result<TensorType, InferError> {
    let value = tensor(call, 1)?;
    match value.ndim {
        0 => Ok(value),
        -1 => {
            wrong("fill_value must be a tensor without dimensions, but its number of dimensions is unknown".to_string())
        }
        n => wrong(format!("fill_value must be a tensor without dimensions, found {n}")),
    }
}

fn full(call: Call<'_>) -> Inferred {
    let ((ndim, dims), value) = (shape(call, 0)?, fill(call)?);
    not_negative(dims.as_deref())?;
    let dtype = out_dtype(call, "dtype", value.dtype);
    Ok(Type::Tensor(TensorType { dtype, ndim, shape: dims, vdevice: None }))
}

fn like(call: Call<'_>) -> Inferred {
    let x = tensor(call, 0)?;
    let dtype = out_dtype(call, "dtype", x.dtype);
    Ok(with_dtype(x, dtype))
}

fn full_like(call: Call<'_>) -> Inferred {
    fill(call)?;
    like(call)
}

/// Returns a scalar argument, or `None` if its value is unknown.
pub(crate) fn scalar(call: Call<'_>, i: usize) -> Result<Option<Dim>, InferError> {
    let value = argument(call, i)?;
    if let Some(dim) = value.dim() {
        return Ok(Some(dim));
    }
    match value.ty().to_owned() {
        Type::Prim { value, .. } => Ok(value),
        other => wrong(format!("argument {i} must be a scalar, found {}", kind_name(&other))),
    }
}

fn arange(call: Call<'_>) -> Inferred {
    let (start, end, step) = (scalar(call, 0)?, scalar(call, 1)?, scalar(call, 2)?);
    let Some(dtype) = asked_dtype(call, "dtype") else {
        return wrong("attribute `dtype` must be a data type, such as \"int64\"".to_string());
    };
    let length = match (start, end, step) {
        (Some(start), Some(end), Some(step)) => steps(&start, &end, &step)?,
        _ => None,
    };
    Ok(Type::Tensor(TensorType { dtype, ndim: 1, shape: length.map(|n| vec![n]), vdevice: None }))
}

/// Returns the number of steps from `start` (inclusive) to `end` (exclusive), or `None` for unknown floats.
fn steps(start: &Dim, end: &Dim, step: &Dim) -> Result<Option<Dim>, InferError> {
    if let (true, Some(start), Some(end), Some(step)) =
        ([start, end, step].iter().any(|dim| dim.dtype().is_float()), number(start), number(end), number(step))
    {
        let count = ((end - start) / step).ceil();
        if !count.is_finite() || count >= 2f64.powi(62) {
            return wrong(format!(
                "the range from {start} to {end} in steps of {step} does not have a valid number of elements"
            ));
        }
        return Ok(Some(Dim::Int(count.max(0.0) as i64)));
    }
    let integers = [start, end, step].iter().all(|dim| dim.dtype().is_int());
    let Some(step) = step.as_int().filter(|_| integers) else { return Ok(None) };
    if step == 0 {
        return wrong("the step must not be 0".to_string());
    }
    let bounds = if step > 0 { (start, end) } else { (end, start) };
    Ok(Some(steps_between(bounds, if step > 0 { step } else { step.saturating_neg() })))
}

fn hamming_window(call: Call<'_>) -> Inferred {
    let dtype = out_dtype(call, "dtype", DType::F32);
    needs_float(dtype)?;
    let size = scalar(call, 0)?;
    if let Some(size) = size.as_ref().and_then(Dim::as_int).filter(|size| *size < 1) {
        return wrong(format!("window_size must be positive, found {size}"));
    }
    Ok(Type::Tensor(TensorType { dtype, ndim: 1, shape: size.map(|size| vec![size]), vdevice: None }))
}

fn eye(call: Call<'_>) -> Inferred {
    let dtype = out_dtype(call, "dtype", DType::F32);
    let dims = scalar(call, 0)?.zip(scalar(call, 1)?).map(|(n, m)| vec![n, m]);
    not_negative(dims.as_deref())?;
    Ok(Type::Tensor(TensorType { dtype, ndim: 2, shape: dims, vdevice: None }))
}

fn eye_like(call: Call<'_>) -> Inferred {
    let x = tensor(call, 0)?;
    if x.ndim != 2 {
        return wrong("needs a matrix: a tensor of 2 dimensions".to_string());
    }
    like(call)
}

fn shape_of(call: Call<'_>) -> Inferred {
    let x = tensor(call, 0)?;
    Ok(Type::Shape { ndim: x.ndim, dims: x.shape })
}

fn size(call: Call<'_>) -> Inferred {
    let x = tensor(call, 0)?;
    Ok(Type::Tensor(TensorType { dtype: DType::I64, ndim: 0, shape: Some(Vec::new()), vdevice: x.vdevice }))
}

fn shape_to_tensor(call: Call<'_>) -> Inferred {
    let (ndim, _) = shape(call, 0)?;
    let dims = (ndim >= 0).then(|| vec![Dim::Int(i64::from(ndim))]);
    Ok(Type::Tensor(TensorType { dtype: DType::I64, ndim: 1, shape: dims, vdevice: None }))
}

fn tensor_to_shape(call: Call<'_>) -> Inferred {
    let x = tensor(call, 0)?;
    if x.ndim != 1 {
        return wrong(format!("needs a vector of int64, found {} dimensions (-1: unknown)", x.ndim));
    }
    if x.dtype.is_known() && x.dtype != DType::I64 {
        return wrong(format!("needs a vector of int64, found {}", x.dtype));
    }
    let n = x.shape.as_ref().and_then(|dims| dims.first()?.as_int());
    let n = n.and_then(|n| i32::try_from(n).ok()).unwrap_or(-1);
    Ok(Type::Shape { ndim: n, dims: None })
}
