//! Reductions over axes.

use crate::declare::*;
use crate::type_rules::*;

use plugin_api::ir::{Call, DType, Dim, TensorType, Type};
use plugin_api::metadata::AttrType;
use plugin_api::typing::operators::{AttrDecl, DefaultDecl, OpDecl};

const AXES: &[AttrDecl] = &[
    attr_or("axis", AttrType::OptIntList, DefaultDecl::None),
    attr_or("keepdims", AttrType::Bool, DefaultDecl::Bool(false)),
];
const AXIS: &[AttrDecl] = &[
    attr_or("axis", AttrType::OptInt, DefaultDecl::None),
    attr_or("keepdims", AttrType::Bool, DefaultDecl::Bool(false)),
];

const SO_FAR: &[AttrDecl] = &[
    attr_or("axis", AttrType::OptInt, DefaultDecl::None),
    attr_or("dtype", AttrType::DType, DefaultDecl::None),
    attr_or("exclusive", AttrType::Bool, DefaultDecl::Bool(false)),
];

macro_rules! reduction {
    ($name:literal, $does:literal) => {
        op(
            $name,
            documented!(
                $does,
                REDUCED,
                r#"x: R.Tensor((2, 3, 4), "float32")"#,
                joined_text!("R", spelled($name), "(x, axis=[1], keepdims=False)"),
                r#"R.Tensor((2, 4), "float32")"#
            ),
            X,
            AXES,
            reduce,
        )
    };
}

pub(crate) const OPERATORS: &[OpDecl] = &[
    reduction!("relax.sum", "Sum over axes."),
    reduction!("relax.mean", "Mean over axes."),
    reduction!("relax.prod", "Product over axes."),
    reduction!("relax.max", "The largest element over axes."),
    reduction!("relax.min", "The smallest element over axes."),
    reduction!("relax.std", "Standard deviation over axes."),
    reduction!("relax.variance", "Variance over axes."),
    op(
        "relax.median",
        documented!(
            "The median over axes; over one axis, also the index of the median.",
            "as for `relax.max`; over one axis, a tuple of the medians and their int64 indices",
            r#"x: R.Tensor((2, 3, 4), "float32")"#,
            "R.median(x, axis=[1])",
            r#"R.Tuple(R.Tensor((2, 4), "float32"), R.Tensor((2, 4), "int64"))"#
        ),
        X,
        AXES,
        median,
    ),
    op(
        "relax.cumsum",
        documented!(
            "Cumulative sums along an axis, or of the flattened tensor.",
            ACCUMULATED,
            r#"data: R.Tensor((2, 3), "float32")"#,
            "R.cumsum(data, axis=1)",
            r#"R.Tensor((2, 3), "float32")"#
        ),
        DATA,
        SO_FAR,
        so_far,
    ),
    op(
        "relax.cumprod",
        documented!(
            "Cumulative products along an axis, or of the flattened tensor.",
            ACCUMULATED,
            r#"data: R.Tensor((2, 3), "float32")"#,
            "R.cumprod(data)",
            r#"R.Tensor((6,), "float32")"#
        ),
        DATA,
        SO_FAR,
        so_far,
    ),
    op(
        "relax.argmax",
        documented!(
            "The index of the largest element over one axis.",
            ARG_REDUCED,
            r#"x: R.Tensor((2, 3, 4), "float32")"#,
            "R.argmax(x, axis=1)",
            r#"R.Tensor((2, 4), "int64")"#
        ),
        X,
        AXIS,
        arg_reduce,
    ),
    op(
        "relax.argmin",
        documented!(
            "The index of the smallest element over one axis.",
            ARG_REDUCED,
            r#"x: R.Tensor((2, 3, 4), "float32")"#,
            "R.argmin(x, axis=1, keepdims=True)",
            r#"R.Tensor((2, 1, 4), "int64")"#
        ),
        X,
        AXIS,
        arg_reduce,
    ),
];

fn reduce(call: Call<'_>) -> Inferred {
    reduced(&tensor(call, 0)?, ints(call, "axis").as_deref(), flag(call, "keepdims"))
}

fn arg_reduce(call: Call<'_>) -> Inferred {
    let x = TensorType { dtype: DType::I64, ..tensor(call, 0)? };
    let axis = int(call, "axis").map(|axis| vec![axis]);
    reduced(&x, axis.as_deref(), flag(call, "keepdims"))
}

/// Infers a median. Along a single axis (or none, as in TVM), the indices of the medians are also returned.
fn median(call: Call<'_>) -> Inferred {
    let x = tensor(call, 0)?;
    let given = ints(call, "axis");
    let values = reduced(&x, given.as_deref(), flag(call, "keepdims"))?;
    match (given, values) {
        (Some(given), Type::Tensor(values)) if given.len() < 2 => {
            let indices = with_dtype(values.clone(), DType::I64);
            Ok(Type::tuple([Type::Tensor(values), indices]))
        }
        (_, values) => Ok(values),
    }
}

fn so_far(call: Call<'_>) -> Inferred {
    let x = tensor(call, 0)?;
    let like = TensorType { dtype: out_dtype(call, "dtype", x.dtype), ..x };
    match int(call, "axis") {
        Some(at) => {
            axis(at, like.ndim)?;
            Ok(Type::Tensor(like))
        }
        None => {
            let length = like.shape.as_deref().map(elements).transpose()?;
            Ok(with_shape(&like, 1, length.map(|length| vec![length])))
        }
    }
}

/// Returns the reduced type; by default, all axes are reduced.
fn reduced(x: &TensorType, given: Option<&[i64]>, keepdims: bool) -> Inferred {
    let Some(given) = given else {
        let n = if keepdims { x.ndim } else { 0 };
        let shape = (n >= 0).then(|| vec![Dim::Int(1); n as usize]);
        return Ok(with_shape(x, n, shape));
    };
    let Some(given) = axes(given, x.ndim)? else { return Ok(with_shape(x, -1, None)) };
    let ndim = if keepdims { x.ndim } else { x.ndim - given.len() as i32 };
    let Some(dims) = &x.shape else { return Ok(with_shape(x, ndim, None)) };
    let mut out = Vec::with_capacity(dims.len());
    for (i, dim) in dims.iter().enumerate() {
        match (given.contains(&i), keepdims) {
            (true, true) => out.push(Dim::Int(1)),
            (true, false) => {}
            (false, _) => out.push(dim.clone()),
        }
    }
    Ok(with_shape(x, ndim, Some(out)))
}
