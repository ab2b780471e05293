//! Operators that read or write elements at indices, and slices.

use crate::declare::*;
use crate::type_rules::*;
use plugin_api::arith::{apply, prove_equal};
use plugin_api::ir::{Call, DType, Dim, Expr, TensorType, Type, Value};
use plugin_api::metadata::{ArgKind, AttrType};
use plugin_api::scalar::PrimOp;
use plugin_api::typing::operators::{ArgDecl, AttrDecl, DefaultDecl, InferError, OpDecl};

const TAKE: &[ArgDecl] = &[arg("x", ArgKind::Tensor), arg("indices", ArgKind::Any)];
const GATHER: &[ArgDecl] = &[arg("data", ArgKind::Tensor), arg("indices", ArgKind::Tensor)];
const SCATTER: &[ArgDecl] =
    &[arg("data", ArgKind::Tensor), arg("indices", ArgKind::Tensor), arg("updates", ArgKind::Tensor)];
const SLICE: &[ArgDecl] = &[
    arg("x", ArgKind::Tensor),
    arg("axes", ArgKind::Tuple),
    arg("begin", ArgKind::Tuple),
    arg("end", ArgKind::Tuple),
    ArgDecl { name: "strides", kind: ArgKind::Tuple, optional: true },
];
const DYNAMIC_SLICE: &[ArgDecl] = &[
    arg("x", ArgKind::Tensor),
    arg("begin", ArgKind::Tensor),
    arg("end", ArgKind::Tensor),
    arg("strides", ArgKind::Tensor),
];
const AXIS0: AttrDecl = attr_or("axis", AttrType::Int, DefaultDecl::Int(0));
const REDUCTION: AttrDecl = attr_or("reduction", AttrType::Str, DefaultDecl::Str("update"));

pub(crate) const OPERATORS: &[OpDecl] = &[
    op(
        "relax.take",
        documented!(
            "Elements at indices, along an axis or of the flattened tensor.",
            TAKEN,
            r#"x: R.Tensor((4, 5), "float32"), indices: R.Tensor((2, 3), "int64")"#,
            "R.take(x, indices, axis=0)",
            r#"R.Tensor((2, 3, 5), "float32")"#
        ),
        TAKE,
        &[
            attr_or("axis", AttrType::OptInt, DefaultDecl::None),
            attr_or("mode", AttrType::Str, DefaultDecl::Str("fast")),
        ],
        take,
    ),
    op(
        "relax.strided_slice",
        documented!(
            "A slice along some axes, with a stride.",
            "the type of `x`, with each axis as long as its range",
            r#"x: R.Tensor((8, 9), "float32")"#,
            "R.strided_slice(x, (1,), (0,), (9,), (2,))",
            r#"R.Tensor((8, 5), "float32")"#
        ),
        SLICE,
        &[attr_or("assume_inbound", AttrType::Bool, DefaultDecl::Bool(false))],
        strided_slice,
    ),
    op(
        "relax.dynamic_strided_slice",
        documented!(
            "Slices along all axes, with bounds known only at run time.",
            "the data type and the number of dimensions of `x`",
            r#"x: R.Tensor((8, 9), "float32"), begin: R.Tensor((2,), "int64"), end: R.Tensor((2,), "int64"), strides: R.Tensor((2,), "int64")"#,
            "R.dynamic_strided_slice(x, begin, end, strides)",
            r#"R.Tensor(dtype="float32", ndim=2)"#
        ),
        DYNAMIC_SLICE,
        &[],
        dynamic_slice,
    ),
    op(
        "relax.gather_elements",
        documented!(
            "Elements at indices along an axis, in the shape of the indices.",
            "the data type of `data`, in the shape of `indices`",
            r#"data: R.Tensor((4, 5), "float32"), indices: R.Tensor((2, 5), "int64")"#,
            "R.gather_elements(data, indices, axis=0)",
            r#"R.Tensor((2, 5), "float32")"#
        ),
        GATHER,
        &[AXIS0],
        gather_elements,
    ),
    op(
        "relax.gather_nd",
        documented!(
            "Slices at tuples of indices.",
            "the shape of `indices` without its last axis, then the axes of `data` that are not indexed",
            r#"data: R.Tensor((4, 5, 6), "float32"), indices: R.Tensor((3, 2), "int64")"#,
            "R.gather_nd(data, indices)",
            r#"R.Tensor((3, 6), "float32")"#
        ),
        GATHER,
        &[attr_or("batch_dims", AttrType::Int, DefaultDecl::Int(0))],
        gather_nd,
    ),
    op(
        "relax.scatter_elements",
        documented!(
            "The data, with updates written at indices along an axis.",
            "the type of `data`",
            r#"data: R.Tensor((4, 5), "float32"), indices: R.Tensor((2, 2), "int64"), updates: R.Tensor((2, 2), "float32")"#,
            "R.scatter_elements(data, indices, updates, axis=1)",
            r#"R.Tensor((4, 5), "float32")"#
        ),
        SCATTER,
        &[AXIS0, REDUCTION],
        scatter_elements,
    ),
    op(
        "relax.index_put",
        documented!(
            "The tensor with new elements at the given positions.\n\n \
             `indices` contains the index along each axis; negative indices count from the end. Indices are broadcast \
             together, and `values` to them. If a position occurs more than once, its last value is stored; with \
             `accumulate`, all its values are added to the element",
            SAME,
            r#"data: R.Tensor((4, 5), "float32"), i: R.Tensor((3,), "int64"), j: R.Tensor((3,), "int64"), values: R.Tensor((3,), "float32")"#,
            "R.index_put(data, (i, j), values, accumulate=True)",
            r#"R.Tensor((4, 5), "float32")"#
        ),
        &[arg("data", ArgKind::Tensor), arg("indices", ArgKind::Any), arg("values", ArgKind::Tensor)],
        &[attr_or("accumulate", AttrType::Bool, DefaultDecl::Bool(false))],
        index_put,
    ),
    op(
        "relax.reverse_sequence",
        documented!(
            "The tensor, with the first elements along an axis in reverse order; `seq_lengths` contains their number for each index of the batch axis.",
            SAME,
            r#"data: R.Tensor((4, 5), "float32"), lengths: R.Tensor((4,), "int64")"#,
            "R.reverse_sequence(data, lengths, seq_axis=1, batch_axis=0)",
            r#"R.Tensor((4, 5), "float32")"#
        ),
        &[arg("data", ArgKind::Tensor), arg("seq_lengths", ArgKind::Tensor)],
        &[
            attr_or("seq_axis", AttrType::Int, DefaultDecl::Int(1)),
            attr_or("batch_axis", AttrType::Int, DefaultDecl::Int(0)),
        ],
        reverse_sequence,
    ),
    op(
        "relax.scatter_nd",
        documented!(
            "The data, with updates written at tuples of indices.",
            "the type of `data`",
            r#"data: R.Tensor((8,), "float32"), indices: R.Tensor((4, 1), "int64"), updates: R.Tensor((4,), "float32")"#,
            "R.scatter_nd(data, indices, updates)",
            r#"R.Tensor((8,), "float32")"#
        ),
        SCATTER,
        &[REDUCTION],
        scatter_nd,
    ),
    op(
        "relax.one_hot",
        documented!(
            "One value at the index, and a second value elsewhere, along a new axis.",
            "the shape of `indices` with one more axis of length `depth`; elements of the data type of the two values",
            r#"indices: R.Tensor((3,), "int32")"#,
            "R.one_hot(indices, R.prim_value(T.float32(1.0)), R.prim_value(T.float32(0.0)), depth=10, axis=-1)",
            r#"R.Tensor((3, 10), "float32")"#
        ),
        &[arg("indices", ArgKind::Tensor), arg("on_value", ArgKind::Prim), arg("off_value", ArgKind::Prim)],
        &[attr("depth", AttrType::Int), attr_or("axis", AttrType::Int, DefaultDecl::Int(-1))],
        one_hot,
    ),
];

/// Returns the type of the indices. A scalar index selects one slice and removes the axis.
fn indices(call: Call<'_>) -> Result<TensorType, InferError> {
    let indices = match argument(call, 1)?.ty().to_owned() {
        Type::Prim { dtype, .. } => TensorType { dtype, ndim: 0, shape: Some(Vec::new()), vdevice: None },
        Type::Tensor(t) => t,
        other => return wrong(format!("indices must be a tensor or a scalar, found {}", kind_name(&other))),
    };
    needs_int(indices.dtype, "indices")?;
    Ok(indices)
}

fn take(call: Call<'_>) -> Inferred {
    let (x, indices) = (tensor(call, 0)?, indices(call)?);
    let at = match int(call, "axis") {
        Some(at) => axis(at, x.ndim)?,
        None if x.ndim != 1 => {
            let found = if x.ndim < 0 { "an unknown number".to_string() } else { x.ndim.to_string() };
            return wrong(format!("axis=None requires a tensor of one dimension, found {found}; specify the axis"));
        }
        None => Some(0),
    };
    let ndim = if x.ndim < 0 || indices.ndim < 0 { -1 } else { x.ndim + indices.ndim - 1 };
    let dims = match (&x.shape, &indices.shape, at) {
        (Some(dims), Some(inner), Some(at)) if at < dims.len() => {
            Some(dims[..at].iter().chain(inner).chain(&dims[at + 1..]).cloned().collect())
        }
        _ => None,
    };
    Ok(with_shape(&x, ndim, dims))
}

/// Returns the integers of a tuple argument, or `None` if one of them is known only at run time.
fn tuple_dims(call: Call<'_>, i: usize) -> Result<Option<Vec<Dim>>, InferError> {
    let value = argument(call, i)?;
    let of = |item: Value<'_>| match (item.dim(), item.ty().to_owned()) {
        (Some(dim), _) => Some(dim),
        (None, Type::Prim { value, .. }) => value,
        _ => None,
    };
    if let Expr::Tuple(tuple) = value.view() {
        return Ok(tuple.operands().map(of).collect());
    }
    match value.ty().to_owned() {
        Type::Tuple(fields) => Ok(fields
            .into_iter()
            .map(|field| match field {
                Type::Prim { value, .. } => value,
                _ => None,
            })
            .collect()),
        other => wrong(format!("argument {i} must be a tuple of integers, found {}", kind_name(&other))),
    }
}

fn strided_slice(call: Call<'_>) -> Inferred {
    let x = tensor(call, 0)?;
    let lists = (tuple_dims(call, 1)?, tuple_dims(call, 2)?, tuple_dims(call, 3)?);
    let (Some(given), Some(begin), Some(end)) = lists else { return Ok(with_shape(&x, x.ndim, None)) };
    let strides = match call.arg(4) {
        Some(_) => tuple_dims(call, 4)?,
        None => Some(vec![Dim::Int(1); given.len()]),
    };
    let lengths = (begin.len(), end.len(), strides.as_ref().map_or(given.len(), Vec::len));
    if lengths != (given.len(), given.len(), given.len()) {
        return wrong(format!("begin, end and strides must have one value for each of the {} axes", given.len()));
    }
    let Some(given) = given.iter().map(Dim::as_int).collect::<Option<Vec<i64>>>() else {
        return wrong("axes must be integer constants".to_string());
    };
    let at = axes(&given, x.ndim)?;
    let (Some(at), Some(dims), Some(strides)) = (at, &x.shape, strides) else {
        return Ok(with_shape(&x, x.ndim, None));
    };
    let inbound = flag(call, "assume_inbound");
    let mut out = dims.clone();
    for (k, axis) in at.into_iter().enumerate() {
        let Some(stride) = strides[k].as_int() else { return Ok(with_shape(&x, x.ndim, None)) };
        if stride == 0 {
            return wrong("the stride must not be 0".to_string());
        }
        out[axis] = slice_length(&dims[axis], &begin[k], &end[k], stride, inbound);
    }
    Ok(with_shape(&x, x.ndim, Some(out)))
}

/// Returns the length of a slice; 0 if the end is before the start. Negative bounds count from the end, and out-of-range bounds
/// are clamped, unless `inbound` is set.
fn slice_length(size: &Dim, begin: &Dim, end: &Dim, stride: i64, inbound: bool) -> Dim {
    let forward = stride > 0;
    let by = if forward { stride } else { stride.saturating_neg() };
    if inbound {
        return steps_between(if forward { (begin, end) } else { (end, begin) }, by);
    }
    // Two bounds that count from the same end have the same order at any size.
    if let (Some(from), Some(to)) = (begin.as_int(), end.as_int())
        && (from < 0) == (to < 0)
        && (if forward { to <= from } else { from <= to })
    {
        return Dim::Int(0);
    }
    let (begin, end) = (bound_within(begin, size, forward), bound_within(end, size, forward));
    steps_between(if forward { (&begin, &end) } else { (&end, &begin) }, by)
}

/// Returns a bound of a slice within an axis of this size: a negative constant counts from the end, and a bound out of range is
/// clamped.
pub(crate) fn bound_within(bound: &Dim, size: &Dim, forward: bool) -> Dim {
    let bound = match bound.as_int() {
        Some(value) if value < 0 => apply(PrimOp::Add, bound, size),
        _ => bound.clone(),
    };
    // A bound of 0 needs no clamping, because dimensions are never negative.
    if forward && bound.as_int() == Some(0) {
        return bound;
    }
    let (low, high) = if forward { (0, 0) } else { (-1, -1) };
    let below = apply(PrimOp::Min, &bound, &apply(PrimOp::Add, size, &Dim::Int(high)));
    // The minimum of a nonnegative constant and a size needs no lower bound, because dimensions are never negative.
    let inside = below.as_int().is_none() && bound.as_int().is_some_and(|bound| bound >= 0);
    if inside { below } else { apply(PrimOp::Max, &below, &Dim::Int(low)) }
}

fn dynamic_slice(call: Call<'_>) -> Inferred {
    let x = tensor(call, 0)?;
    for (i, arg) in DYNAMIC_SLICE.iter().enumerate().skip(1) {
        let bound = tensor(call, i)?;
        needs_int(bound.dtype, arg.name)?;
        if bound.ndim >= 0 && bound.ndim != 1 {
            return wrong(format!("{} must be a vector, found {} dimensions", arg.name, bound.ndim));
        }
    }
    Ok(with_shape(&x, x.ndim, None))
}

fn gather_elements(call: Call<'_>) -> Inferred {
    let (x, indices) = (tensor(call, 0)?, indices(call)?);
    axis(int(call, "axis").unwrap_or(0), x.ndim)?;
    if x.ndim < 0 || indices.ndim < 0 {
        return Ok(with_shape(&x, -1, None));
    }
    if x.ndim != indices.ndim {
        return wrong(format!("data has {} dimensions, but indices have {}", x.ndim, indices.ndim));
    }
    Ok(with_shape(&x, x.ndim, indices.shape))
}

fn gather_nd(call: Call<'_>) -> Inferred {
    let (x, indices) = (tensor(call, 0)?, indices(call)?);
    let batch = int(call, "batch_dims").unwrap_or(0);
    if batch < 0 || (x.ndim >= 0 && batch > i64::from(x.ndim)) {
        return wrong(format!("batch_dims is {batch}; it must be from 0 to the number of dimensions"));
    }
    if x.ndim < 0 || indices.ndim < 1 {
        return Ok(with_shape(&x, -1, None));
    }
    // The last dimension of the indices is the number of axes that an index tuple selects.
    let taken = indices.shape.as_ref().and_then(|dims| dims.last()?.as_int());
    let Some(taken) = taken else { return Ok(with_shape(&x, -1, None)) };
    let used = batch + taken;
    if used > i64::from(x.ndim) {
        let ndim = x.ndim;
        return wrong(format!(
            "{taken} indices after {batch} batch axes are too many for a tensor of {ndim} dimensions"
        ));
    }
    let ndim = indices.ndim - 1 + x.ndim - used as i32;
    let dims = indices
        .shape
        .zip(x.shape.as_ref())
        .map(|(inner, dims)| inner[..inner.len() - 1].iter().chain(&dims[used as usize..]).cloned().collect());
    Ok(with_shape(&x, ndim, dims))
}

fn scattered(call: Call<'_>) -> Result<(TensorType, TensorType, TensorType), InferError> {
    let (x, indices, updates) = (tensor(call, 0)?, indices(call)?, tensor(call, 2)?);
    same_dtype(x.dtype, updates.dtype)?;
    Ok((x, indices, updates))
}

fn scatter_elements(call: Call<'_>) -> Inferred {
    let (x, indices, updates) = scattered(call)?;
    axis(int(call, "axis").unwrap_or(0), x.ndim)?;
    for (what, t) in [("indices", &indices), ("updates", &updates)] {
        if x.ndim >= 0 && t.ndim >= 0 && x.ndim != t.ndim {
            return wrong(format!("data has {} dimensions, but {what} have {}", x.ndim, t.ndim));
        }
    }
    if let (Some(a), Some(b)) = (&indices.shape, &updates.shape)
        && same_shape(a, b) == Some(false)
    {
        return wrong("indices and updates must have the same shape".to_string());
    }
    Ok(Type::Tensor(x))
}

fn index_put(call: Call<'_>) -> Inferred {
    let (x, values) = (tensor(call, 0)?, tensor(call, 2)?);
    let indices = match argument(call, 1)?.ty() {
        ty if matches!(ty.to_owned(), Type::Tuple(_)) => tensors(call, 1)?,
        _ => vec![tensor(call, 1)?],
    };
    if x.ndim < 0 {
        return Ok(Type::Tensor(x));
    }
    for (k, index) in indices.iter().enumerate() {
        needs_int(index.dtype, "indices")?;
        if index.ndim == 0 {
            return wrong(format!("index {k} must have at least one dimension"));
        }
    }
    if indices.len() != x.ndim as usize {
        return wrong(format!("{} indices were given for {} dimensions", indices.len(), x.ndim));
    }
    same_dtype(x.dtype, values.dtype)?;
    Ok(Type::Tensor(x))
}

fn reverse_sequence(call: Call<'_>) -> Inferred {
    let (x, lengths) = (tensor(call, 0)?, tensor(call, 1)?);
    if lengths.ndim >= 0 && lengths.ndim != 1 {
        return wrong(format!("seq_lengths must have one dimension, found {}", lengths.ndim));
    }
    if lengths.dtype.is_known() && ![DType::I32, DType::I64].contains(&lengths.dtype) {
        return wrong(format!("seq_lengths must be int32 or int64, found {}", lengths.dtype));
    }
    axis(int(call, "seq_axis").unwrap_or(1), x.ndim)?;
    let batch = axis(int(call, "batch_axis").unwrap_or(0), x.ndim)?;
    if let (Some(dims), Some(at), Some([n])) = (&x.shape, batch, lengths.shape.as_deref())
        && prove_equal(&dims[at], n) == Some(false)
    {
        return wrong(format!("{} lengths were given for {} batches", show(n), show(&dims[at])));
    }
    Ok(Type::Tensor(x))
}

/// Infers `scatter_nd`. The updates have the shape of the indices without their last axis, followed by the unselected
/// axes of the data.
fn scatter_nd(call: Call<'_>) -> Inferred {
    let (x, indices, updates) = scattered(call)?;
    let (Some(dims), Some(inner), Some(found)) = (&x.shape, &indices.shape, &updates.shape) else {
        return Ok(Type::Tensor(x));
    };
    let Some((taken, outer)) = inner.split_last() else {
        return wrong("indices must have at least one dimension".to_string());
    };
    let Some(taken) = taken.as_int() else { return Ok(Type::Tensor(x)) };
    let Some(rest) = usize::try_from(taken).ok().and_then(|taken| dims.get(taken..)) else {
        return wrong(format!("{taken} indices are too many for a tensor of {} dimensions", dims.len()));
    };
    let expected: Vec<Dim> = outer.iter().chain(rest).cloned().collect();
    match same_shape(&expected, found) {
        Some(false) => wrong(
            "updates must have the shape of the indices without their last axis, followed by the shape of a slice of the data"
                .to_string(),
        ),
        _ => Ok(Type::Tensor(x)),
    }
}

fn one_hot(call: Call<'_>) -> Inferred {
    let indices = tensor(call, 0)?;
    needs_int(indices.dtype, "indices")?;
    let depth = int(call, "depth").unwrap_or(0);
    if depth < 1 {
        return wrong(format!("depth must be positive, found {depth}"));
    }
    let dtype = argument(call, 1)?.ty().dtype();
    let ndim = if indices.ndim < 0 { -1 } else { indices.ndim + 1 };
    let at = axis(int(call, "axis").unwrap_or(-1), ndim)?;
    let dims = indices.shape.clone().zip(at).map(|(mut dims, at)| {
        dims.insert(at, Dim::Int(depth));
        dims
    });
    Ok(with_shape(&TensorType { dtype, ..indices }, ndim, dims))
}
