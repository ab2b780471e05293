//! Sets, searches, and slices that are read or written by index tensors and scalars.

use crate::create::scalar;
use crate::declare::*;
use plugin_api::arith::prove_equal;
use plugin_api::ir::{Call, DType, Dim, TensorType, Type};
use plugin_api::metadata::{ArgKind, AttrType};
use plugin_api::typing::operators::{ArgDecl, DefaultDecl, InferError, OpDecl};

const UNIQUE: &[ArgDecl] = &[
    arg("x", ArgKind::Tensor),
    arg("sorted", ArgKind::Prim),
    arg("return_index", ArgKind::Prim),
    arg("return_inverse", ArgKind::Prim),
    arg("return_counts", ArgKind::Prim),
    ArgDecl { name: "axis", kind: ArgKind::Prim, optional: true },
];
const BUCKETIZE: &[ArgDecl] = &[arg("input_tensor", ArgKind::Tensor), arg("boundaries", ArgKind::Tensor)];
const INDEX_TENSOR: &[ArgDecl] = &[arg("data", ArgKind::Tensor), arg("indices", ArgKind::Tuple)];
const SLICE_SCATTER: &[ArgDecl] = &[
    arg("input_tensor", ArgKind::Tensor),
    arg("src", ArgKind::Tensor),
    arg("start", ArgKind::Prim),
    arg("end", ArgKind::Prim),
    arg("step", ArgKind::Prim),
];

pub(crate) const OPERATORS: &[OpDecl] = &[
    op(
        "relax.unique",
        documented!(
            "Each distinct element or slice along an axis, and optionally its indices, inverse and counts.",
            "the data type of `x`, of unknown length; a tuple if more than the elements are requested",
            r#"x: R.Tensor((8,), "float32")"#,
            "R.unique(x, True, False, False, False)",
            r#"R.Tensor(dtype="float32", ndim=1)"#
        ),
        UNIQUE,
        &[],
        unique,
    ),
    op(
        "relax.bucketize",
        documented!(
            "The index of the interval between boundaries that contains each element.",
            "the shape of the first tensor; the data type is int64, or int32 with `out_int32`",
            r#"x: R.Tensor((2, 3), "float32"), boundaries: R.Tensor((5,), "float32")"#,
            "R.bucketize(x, boundaries, out_int32=True)",
            r#"R.Tensor((2, 3), "int32")"#
        ),
        BUCKETIZE,
        &[
            attr_or("out_int32", AttrType::Bool, DefaultDecl::Bool(false)),
            attr_or("right", AttrType::Bool, DefaultDecl::Bool(false)),
        ],
        bucketize,
    ),
    op(
        "relax.index_tensor",
        documented!(
            "Slices at indices, given as one tensor for each axis.",
            "the shape to which the indices broadcast, then the axes of `data` that are not indexed",
            r#"data: R.Tensor((4, 5, 6), "float32"), rows: R.Tensor((3,), "int64"), columns: R.Tensor((3,), "int64")"#,
            "R.index_tensor(data, (rows, columns))",
            r#"R.Tensor((3, 6), "float32")"#
        ),
        INDEX_TENSOR,
        &[],
        index_tensor,
    ),
    op(
        "relax.slice_scatter",
        documented!(
            "The first tensor, with the second tensor written to a range along an axis.",
            "the type of the first tensor",
            r#"x: R.Tensor((8, 9), "float32"), src: R.Tensor((3, 9), "float32")"#,
            "R.slice_scatter(x, src, 1, 4, 1, axis=0)",
            r#"R.Tensor((8, 9), "float32")"#
        ),
        SLICE_SCATTER,
        &[attr_or("axis", AttrType::Int, DefaultDecl::Int(0))],
        slice_scatter,
    ),
];

fn unique(call: Call<'_>) -> Inferred {
    let x = tensor(call, 0)?;
    let wanted = |i| match scalar(call, i)?.and_then(|value| value.as_int()) {
        Some(value) => Ok(value != 0),
        None => wrong(format!("argument {i} must be True or False")),
    };
    let by_axis = call.arg(5).is_some();
    if let Some(at) = if by_axis { scalar(call, 5)? } else { None }.and_then(|at| at.as_int()) {
        axis(at, x.ndim)?;
    }
    let one = || Some(vec![Dim::Int(1)]);
    let values = match x.ndim {
        0 => with_shape(&x, 1, one()),
        ndim => with_shape(&x, if by_axis { ndim } else { 1 }, None),
    };
    let places = TensorType { dtype: DType::I64, ..x.clone() };
    let places = with_shape(&places, 1, if x.ndim == 0 { one() } else { None });
    let mut results = vec![values];
    for i in 2..5 {
        results.extend(wanted(i)?.then(|| places.clone()));
    }
    Ok(if results.len() == 1 { results.swap_remove(0) } else { Type::tuple(results) })
}

fn bucketize(call: Call<'_>) -> Inferred {
    let (x, boundaries) = (tensor(call, 0)?, tensor(call, 1)?);
    if boundaries.ndim >= 0 && boundaries.ndim != 1 {
        return wrong(format!("boundaries must be a vector, found {} dimensions", boundaries.ndim));
    }
    Ok(with_dtype(x, if flag(call, "out_int32") { DType::I32 } else { DType::I64 }))
}

/// Infers `index_tensor`: the broadcast shape of the indices replaces the axes that they index.
fn index_tensor(call: Call<'_>) -> Inferred {
    let (x, indices) = (tensor(call, 0)?, tensors(call, 1)?);
    if indices.is_empty() {
        return wrong("needs at least one tensor of indices".to_string());
    }
    if let Some(index) = indices.iter().find(|index| index.dtype.is_known() && index.dtype.code() != 0) {
        return wrong(format!("indices must be signed integers, found {}; convert them with R.astype", index.dtype));
    }
    let taken = indices.len();
    if x.ndim >= 0 && taken > x.ndim as usize {
        return wrong(format!("{taken} tensors of indices are too many for a tensor of {} dimensions", x.ndim));
    }
    let Some(front) = together(&indices)? else { return Ok(with_shape(&x, -1, None)) };
    let ndim = if x.ndim < 0 { -1 } else { front.len() as i32 + x.ndim - taken as i32 };
    let dims = x.shape.as_ref().map(|dims| front.iter().chain(&dims[taken..]).cloned().collect());
    Ok(with_shape(&x, ndim, dims))
}

/// Returns the broadcast shape of all indices, or `None` if it is unknown.
fn together(indices: &[TensorType]) -> Result<Option<Vec<Dim>>, InferError> {
    let mut out = Some(Vec::new());
    for index in indices {
        out = match (out, &index.shape) {
            (Some(front), Some(dims)) => broadcast(&front, dims)?,
            _ => None,
        };
    }
    Ok(out)
}

fn slice_scatter(call: Call<'_>) -> Inferred {
    let (x, src) = (tensor(call, 0)?, tensor(call, 1)?);
    if x.ndim < 0 {
        return Ok(with_shape(&x, -1, None));
    }
    let at = axis(int(call, "axis").unwrap_or(0), x.ndim)?;
    if src.ndim >= 0 && src.ndim != x.ndim {
        return wrong(format!("the input has {} dimensions, but src has {}", x.ndim, src.ndim));
    }
    same_dtype(x.dtype, src.dtype)?;
    let (start, end, step) = (scalar(call, 2)?, scalar(call, 3)?, scalar(call, 4)?);
    if let Some(step) = step.as_ref().and_then(Dim::as_int).filter(|step| *step < 1) {
        return wrong(format!("step must be at least 1, found {step}"));
    }
    if let Some((start, end)) = start.as_ref().and_then(Dim::as_int).zip(end.as_ref().and_then(Dim::as_int))
        && end < start
    {
        return wrong(format!("the end is {} before the start", start.abs_diff(end)));
    }
    let by = step.as_ref().and_then(Dim::as_int);
    let length = start.zip(end).zip(by).map(|((start, end), by)| steps_between((&start, &end), by));
    if let (Some(dims), Some(put), Some(at), Some(length)) = (&x.shape, &src.shape, at, length) {
        for (i, (dim, put)) in dims.iter().zip(put).enumerate() {
            let (what, dim) = if i == at { ("the range", &length) } else { ("the input", dim) };
            if prove_equal(dim, put) == Some(false) {
                return wrong(format!("axis {i} of src has {} elements, but {what} has {}", show(put), show(dim)));
            }
        }
    }
    Ok(Type::Tensor(x))
}
