//! Operators that rearrange elements without changing them.

use crate::declare::*;
use crate::split::split;
use crate::type_rules::*;
use plugin_api::arith::{apply, prove_equal, simplify};
use plugin_api::ir::{Call, DType, Dim, TensorType, Type};
use plugin_api::metadata::{ArgKind, AttrType};
use plugin_api::scalar::PrimOp;
use plugin_api::typing::operators::{ArgDecl, AttrDecl, DefaultDecl, InferError, OpDecl};

const X_SHAPE: &[ArgDecl] = &[arg("x", ArgKind::Tensor), arg("shape", ArgKind::Shape)];
const DATA_SHAPE: &[ArgDecl] = &[arg("data", ArgKind::Tensor), arg("shape", ArgKind::Shape)];
const TENSORS: &[ArgDecl] = &[arg("tensors", ArgKind::Tuple)];
const AXIS0: &[AttrDecl] = &[attr_or("axis", AttrType::OptInt, DefaultDecl::Int(0))];
const OPT_AXES: &[AttrDecl] = &[attr_or("axis", AttrType::OptIntList, DefaultDecl::None)];

pub(crate) const OPERATORS: &[OpDecl] = &[
    op(
        "relax.reshape",
        documented!(
            "The same elements in a different shape.",
            "the data type of `x`, in the given shape; one dimension may be -1, which is inferred",
            r#"x: R.Tensor((2, 6), "float32")"#,
            "R.reshape(x, R.shape([3, 4]))",
            r#"R.Tensor((3, 4), "float32")"#
        ),
        X_SHAPE,
        &[],
        reshape,
    ),
    op(
        "relax.broadcast_to",
        documented!(
            "Elements repeated along axes of length 1, to a shape.",
            "the data type of `x`, in the given shape",
            r#"x: R.Tensor((2, 1), "float32")"#,
            "R.broadcast_to(x, R.shape([4, 2, 3]))",
            r#"R.Tensor((4, 2, 3), "float32")"#
        ),
        X_SHAPE,
        &[],
        broadcast_to,
    ),
    op(
        "relax.expand_dims",
        documented!(
            "A tensor with axes of length 1 inserted.",
            "the type of `x`, with an axis of length 1 at each given position of the result",
            r#"x: R.Tensor((2, 3), "float32")"#,
            "R.expand_dims(x, axis=[0, 2])",
            r#"R.Tensor((1, 2, 1, 3), "float32")"#
        ),
        X,
        &[attr("axis", AttrType::IntList)],
        expand_dims,
    ),
    op(
        "relax.squeeze",
        documented!(
            "A tensor with axes of length 1 removed.",
            "the type of `x` without the given axes, or without all axes of length 1",
            r#"x: R.Tensor((1, 2, 1, 3), "float32")"#,
            "R.squeeze(x, axis=[0])",
            r#"R.Tensor((2, 1, 3), "float32")"#
        ),
        X,
        OPT_AXES,
        squeeze,
    ),
    op(
        "relax.permute_dims",
        documented!(
            "A tensor with its axes in a different order, by default reversed.",
            "the type of `x`, with its axes in the given order",
            r#"x: R.Tensor((2, 3, 4), "float32")"#,
            "R.permute_dims(x, axes=[2, 0, 1])",
            r#"R.Tensor((4, 2, 3), "float32")"#
        ),
        X,
        &[attr_or("axes", AttrType::OptIntList, DefaultDecl::None)],
        permute_dims,
    ),
    op(
        "relax.concat",
        documented!(
            "Tensors concatenated along an axis.",
            "the type of the tensors, with the sum of their lengths along the axis",
            r#"a: R.Tensor((2, 3), "float32"), b: R.Tensor((2, 5), "float32")"#,
            "R.concat((a, b), axis=1)",
            r#"R.Tensor((2, 8), "float32")"#
        ),
        TENSORS,
        AXIS0,
        concat,
    ),
    op(
        "relax.stack",
        documented!(
            "Tensors stacked along a new axis.",
            "the type of the tensors, with a new axis as long as the tuple",
            r#"a: R.Tensor((2, 3), "float32"), b: R.Tensor((2, 3), "float32")"#,
            "R.stack((a, b), axis=1)",
            r#"R.Tensor((2, 2, 3), "float32")"#
        ),
        TENSORS,
        AXIS0,
        stack,
    ),
    op(
        "relax.split",
        documented!(
            "Parts along an axis: a number of equal parts, or the parts between successive indices.",
            "a tuple of tensors: as many as requested, or one more than there are indices",
            r#"x: R.Tensor((6, 4), "float32")"#,
            "R.split(x, indices_or_sections=[1, 4], axis=0)",
            r#"R.Tuple(R.Tensor((1, 4), "float32"), R.Tensor((3, 4), "float32"), R.Tensor((2, 4), "float32"))"#
        ),
        X,
        &[attr("indices_or_sections", AttrType::Any), attr_or("axis", AttrType::Int, DefaultDecl::Int(0))],
        split,
    ),
    op(
        "relax.flatten",
        documented!(
            "A tensor flattened to one dimension.",
            "one dimension with all elements of `x`",
            r#"x: R.Tensor((2, 3, 4), "float32")"#,
            "R.flatten(x)",
            r#"R.Tensor((24,), "float32")"#
        ),
        X,
        &[],
        flatten,
    ),
    op(
        "relax.nn.batch_flatten",
        documented!(
            "A tensor flattened to two dimensions, of which the first is unchanged.",
            "the first dimension of `data`, and the product of all other dimensions",
            r#"data: R.Tensor((2, 3, 4), "float32")"#,
            "R.nn.batch_flatten(data)",
            r#"R.Tensor((2, 12), "float32")"#
        ),
        DATA,
        &[],
        batch_flatten,
    ),
    op(
        "relax.collapse_sum_to",
        documented!(
            "Sums over the axes that broadcasting would expand, for a given shape.",
            "the data type of `data`, in the given shape",
            r#"data: R.Tensor((4, 2, 3), "float32")"#,
            "R.collapse_sum_to(data, R.shape([2, 1]))",
            r#"R.Tensor((2, 1), "float32")"#
        ),
        DATA_SHAPE,
        &[],
        collapse_sum_to,
    ),
    op(
        "relax.collapse_sum_like",
        documented!(
            "Sums over the axes that broadcasting would expand, for the shape of a second tensor.",
            "the data type of `data`, in the shape of the second tensor",
            r#"data: R.Tensor((4, 2, 3), "float32"), target: R.Tensor((2, 1), "float32")"#,
            "R.collapse_sum_like(data, target)",
            r#"R.Tensor((2, 1), "float32")"#
        ),
        &[arg("data", ArgKind::Tensor), arg("collapse_target", ArgKind::Tensor)],
        &[],
        collapse_sum_like,
    ),
    op(
        "relax.flip",
        documented!(
            "Elements in reverse order along an axis.",
            ALONG,
            r#"data: R.Tensor((2, 3), "float32")"#,
            "R.flip(data, axis=1)",
            r#"R.Tensor((2, 3), "float32")"#
        ),
        DATA,
        &[attr("axis", AttrType::Int)],
        flip,
    ),
    op(
        "relax.repeat",
        documented!(
            "Each element repeated several times, along an axis or in the flattened tensor.",
            "the type of `data`, with the axis multiplied by the factor; without an axis, one dimension",
            r#"data: R.Tensor((2, 3), "float32")"#,
            "R.repeat(data, repeats=2, axis=1)",
            r#"R.Tensor((2, 6), "float32")"#
        ),
        DATA,
        &[attr("repeats", AttrType::Int), attr_or("axis", AttrType::OptInt, DefaultDecl::None)],
        repeat,
    ),
    op(
        "relax.tile",
        documented!(
            "The whole tensor repeated several times along axes.",
            "the type of `data`, with each axis multiplied by its factor, counted from the last axis",
            r#"data: R.Tensor((2, 3), "float32")"#,
            "R.tile(data, repeats=[2, 1, 3])",
            r#"R.Tensor((2, 2, 9), "float32")"#
        ),
        DATA,
        &[attr("repeats", AttrType::IntList)],
        tile,
    ),
    op(
        "relax.nn.pad",
        documented!(
            "A tensor padded before and after each axis.",
            "the type of `data`, with each axis extended by its padding",
            r#"data: R.Tensor((2, 3), "float32")"#,
            "R.nn.pad(data, pad_width=[0, 0, 1, 2])",
            r#"R.Tensor((2, 6), "float32")"#
        ),
        DATA,
        &[
            attr("pad_width", AttrType::IntList),
            by_name(attr_or("pad_value", AttrType::Float, DefaultDecl::Float(0.0))),
            attr_or("pad_mode", AttrType::Str, DefaultDecl::Str("constant")),
        ],
        pad,
    ),
    op(
        "relax.nn.pixel_shuffle",
        documented!(
            "Channels moved to the last two axes, which grow by a factor.",
            "the type of `data`, with the channels divided by the square of the factor, and the last two axes multiplied by the factor",
            r#"data: R.Tensor((1, 8, 3, 5), "float32")"#,
            "R.nn.pixel_shuffle(data, upscale_factor=2)",
            r#"R.Tensor((1, 2, 6, 10), "float32")"#
        ),
        DATA,
        &[attr("upscale_factor", AttrType::Int)],
        pixel_shuffle,
    ),
    op(
        "relax.meshgrid",
        documented!(
            "Vectors repeated over the grid that they span.",
            "a tuple: for each vector a tensor over the whole grid",
            r#"a: R.Tensor((3,), "float32"), b: R.Tensor((4,), "float32")"#,
            r#"R.meshgrid((a, b), indexing="ij")"#,
            r#"R.Tuple(R.Tensor((3, 4), "float32"), R.Tensor((3, 4), "float32"))"#
        ),
        TENSORS,
        &[attr_or("indexing", AttrType::OptStr, DefaultDecl::Str("ij"))],
        meshgrid,
    ),
];

/// Infers `reshape`. As in TVM and ONNX, 0 in the shape keeps the dimension of the tensor, and -1 is inferred.
fn reshape(call: Call<'_>) -> Inferred {
    let (x, (ndim, dims)) = (tensor(call, 0)?, shape(call, 1)?);
    let dims = match dims {
        Some(dims) => Some(worked_out(x.shape.as_deref(), kept(x.shape.as_deref(), dims)?)?),
        None => None,
    };
    if let (Some(from), Some(to)) = (&x.shape, &dims) {
        let (a, b) = (elements(from)?, elements(to)?);
        if prove_equal(&a, &b) == Some(false) {
            return wrong(format!("{} elements cannot be reshaped to a shape of {}", show(&a), show(&b)));
        }
    }
    Ok(with_shape(&x, ndim, dims))
}

/// Replaces each 0 in a new shape by the tensor's dimension at the same position. If the tensor is empty, 0 can also
/// be a length: this interpretation is used if the other does not fit.
fn kept(from: Option<&[Dim]>, mut dims: Vec<Dim>) -> Result<Vec<Dim>, InferError> {
    let is_zero = |dim: &Dim| dim.as_int() == Some(0);
    let Some(axis) = dims.iter().position(is_zero) else { return Ok(dims) };
    let Some(from) = from else {
        let message = "which keeps the dimension of the tensor, but the shape of the tensor is unknown";
        return wrong(format!("dimension {axis} of the shape is 0, {message}"));
    };
    let is_empty = from.iter().any(is_zero);
    let given = dims.clone();
    for (axis, dim) in dims.iter_mut().enumerate().filter(|(_, dim)| is_zero(dim)) {
        match from.get(axis) {
            Some(same) => *dim = same.clone(),
            None if is_empty => return Ok(given),
            None => {
                return wrong(format!(
                    "dimension {axis} of the shape is 0, but the tensor has {} dimensions",
                    from.len()
                ));
            }
        }
    }
    let fits = dims.iter().any(|dim| is_zero(dim) || dim.as_int() == Some(-1));
    Ok(if is_empty && !fits { given } else { dims })
}

/// Infers the dimension that is -1 in a new shape from the number of elements and the other dimensions.
fn worked_out(from: Option<&[Dim]>, mut dims: Vec<Dim>) -> Result<Vec<Dim>, InferError> {
    let is_open = |dim: &Dim| dim.as_int() == Some(-1);
    if let Some((axis, dim)) = dims.iter().enumerate().find(|(_, dim)| dim.as_int().is_some_and(|dim| dim < -1)) {
        return wrong(format!("dimension {axis} of the shape is {}; it must be a length, 0 or -1", show(dim)));
    }
    let Some(open) = dims.iter().position(is_open) else { return Ok(dims) };
    if dims[open + 1..].iter().any(is_open) {
        return wrong("two dimensions of the shape are -1; only one can be inferred".to_string());
    }
    let Some(from) = from else {
        return wrong("a dimension of the shape is -1, but the shape of the tensor is unknown".to_string());
    };
    let others: Vec<Dim> = dims.iter().filter(|dim| !is_open(dim)).cloned().collect();
    let (all, known) = (elements(from)?, elements(&others)?);
    let rest = match (all.as_int(), known.as_int()) {
        (_, Some(0)) => {
            return wrong(format!("dimension {open} of the shape is -1, which cannot be inferred next to a 0"));
        }
        (Some(all), Some(known)) if all % known != 0 => {
            return wrong(format!("{all} elements are not a multiple of {known}, the product of the known dimensions"));
        }
        _ => simplify(&apply(PrimOp::FloorDiv, &all, &known)),
    };
    dims[open] = rest;
    Ok(dims)
}

fn broadcast_to(call: Call<'_>) -> Inferred {
    let (x, (ndim, dims)) = (tensor(call, 0)?, shape(call, 1)?);
    not_negative(dims.as_deref())?;
    if let (Some(from), Some(to)) = (&x.shape, &dims) {
        if from.len() > to.len() {
            return wrong(format!("{} dimensions do not broadcast to {}", from.len(), to.len()));
        }
        for (a, b) in from.iter().rev().zip(to.iter().rev()) {
            let differs = prove_equal(a, b) == Some(false) || b.as_int().is_some_and(|b| b < 0);
            if a.as_int() != Some(1) && differs {
                return wrong(
                    "a dimension must be 1, or equal to the dimension of the target shape, to broadcast".to_string(),
                );
            }
        }
    }
    Ok(with_shape(&x, ndim, dims))
}

fn expand_dims(call: Call<'_>) -> Inferred {
    let x = tensor(call, 0)?;
    let given = ints(call, "axis").unwrap_or_default();
    if x.ndim < 0 {
        return Ok(with_shape(&x, -1, None));
    }
    let ndim = x.ndim + given.len() as i32;
    let at = axes(&given, ndim)?.unwrap_or_default();
    let Some(dims) = &x.shape else { return Ok(with_shape(&x, ndim, None)) };
    let mut rest = dims.iter();
    let mut out = Vec::with_capacity(ndim as usize);
    for i in 0..ndim as usize {
        out.push(if at.contains(&i) { Dim::Int(1) } else { rest.next().cloned().unwrap_or(Dim::Int(1)) });
    }
    Ok(with_shape(&x, ndim, Some(out)))
}

fn squeeze(call: Call<'_>) -> Inferred {
    let x = tensor(call, 0)?;
    let given = ints(call, "axis");
    let Some(given) = given else {
        let Some(dims) = x.shape.as_ref().filter(|dims| dims.iter().all(|dim| dim.as_int().is_some())) else {
            return Ok(with_shape(&x, -1, None));
        };
        let out = dims.iter().filter(|dim| dim.as_int() != Some(1)).cloned().collect();
        return Ok(with_shape(&x, -1, Some(out)));
    };
    let Some(at) = axes(&given, x.ndim)? else { return Ok(with_shape(&x, -1, None)) };
    let Some(dims) = &x.shape else { return Ok(with_shape(&x, x.ndim - at.len() as i32, None)) };
    let goes = |i: usize, dim: &Dim| at.contains(&i) && may_be_squeezed(dim);
    let keep = dims.iter().enumerate().filter(|(i, dim)| !goes(*i, dim));
    Ok(with_shape(&x, -1, Some(keep.map(|(_, dim)| dim.clone()).collect())))
}

/// Returns false for an axis that `R.squeeze` keeps although the call names it. As in TVM, this is an axis that is
/// known to be longer than 1.
pub(crate) fn may_be_squeezed(dim: &Dim) -> bool {
    dim.as_int().is_none_or(|size| size == 1)
}

fn permute_dims(call: Call<'_>) -> Inferred {
    let x = tensor(call, 0)?;
    let given = match ints(call, "axes") {
        Some(given) => given,
        None if x.ndim >= 0 => (0..i64::from(x.ndim)).rev().collect(),
        None => return Ok(with_shape(&x, -1, None)),
    };
    let Some(order) = axes(&given, x.ndim)? else { return Ok(with_shape(&x, given.len() as i32, None)) };
    if order.len() as i32 != x.ndim {
        return wrong(format!("{} axes were given for a tensor of {} dimensions; name each once", order.len(), x.ndim));
    }
    let dims = x.shape.as_ref().map(|dims| order.iter().map(|i| dims[*i].clone()).collect());
    Ok(with_shape(&x, x.ndim, dims))
}

/// Returns the common data type and number of dimensions of tensors, or an error if known values differ. The data
/// type is unknown if that of a tensor is unknown.
fn common(items: &[TensorType]) -> Result<TensorType, InferError> {
    let Some(first) = items.first() else { return wrong("needs at least one tensor".to_string()) };
    let mut out = TensorType { shape: None, ..first.clone() };
    let mut dtype: Option<DType> = None;
    for item in items {
        if item.dtype.is_known() {
            match dtype {
                Some(dtype) => same_dtype(dtype, item.dtype)?,
                None => *dtype.insert(item.dtype),
            };
        } else {
            out.dtype = DType::VOID;
        }
        if out.ndim >= 0 && item.ndim >= 0 && out.ndim != item.ndim {
            return wrong(format!("tensors have {} and {} dimensions; the numbers must be equal", out.ndim, item.ndim));
        }
        out.ndim = out.ndim.max(item.ndim);
        out.vdevice = same_device(&out, item)?;
    }
    Ok(out)
}

fn concat(call: Call<'_>) -> Inferred {
    let items = tensors(call, 0)?;
    let out = common(&items)?;
    let at = match int(call, "axis") {
        Some(at) => axis(at, out.ndim)?,
        None if out.ndim > 1 => {
            return wrong(format!(
                "axis=None requires a tensor of one dimension, found {}; specify the axis",
                out.ndim
            ));
        }
        None => Some(0),
    };
    let shapes: Option<Vec<&Vec<Dim>>> = items.iter().map(|item| item.shape.as_ref()).collect();
    let (Some(at), Some(shapes)) = (at, shapes) else { return Ok(Type::Tensor(out)) };
    let Some(mut dims) = shapes.first().map(|dims| (*dims).clone()) else { return Ok(Type::Tensor(out)) };
    let mut known = true;
    for other in &shapes[1..] {
        for (i, dim) in other.iter().enumerate() {
            if i == at {
                continue;
            }
            match prove_equal(&dims[i], dim) {
                Some(true) => {}
                None => known = false,
                Some(false) => {
                    let (a, b) = (show(&dims[i]), show(dim));
                    return wrong(format!(
                        "tensors have {a} and {b} elements along axis {i}, but may differ only along axis {at}"
                    ));
                }
            }
        }
    }
    let lengths: Vec<&Dim> = shapes.iter().map(|dims| &dims[at]).collect();
    dims[at] = joint_length(&lengths);
    Ok(with_shape(&out, out.ndim, known.then_some(dims)))
}

/// Returns the length of concatenated tensors. As in TVM, equal symbolic lengths are multiplied: a sum would double in
/// size with each concatenation of a tensor with itself.
fn joint_length(lengths: &[&Dim]) -> Dim {
    let [first, others @ ..] = lengths else { return Dim::Int(0) };
    if !others.is_empty() && first.as_int().is_none() && others.iter().all(|length| length == first) {
        return Dim::binary(PrimOp::Mul, (*first).clone(), Dim::int(lengths.len() as i64, first.dtype()));
    }
    others.iter().fold((*first).clone(), |sum, length| plain_sum(&sum, length))
}

/// Adds two dimensions without simplification: TVM does not simplify the lengths of concatenated tensors, and passes
/// preserve them.
fn plain_sum(a: &Dim, b: &Dim) -> Dim {
    match (a.as_int(), b.as_int()) {
        (Some(0), _) => b.clone(),
        (_, Some(0)) => a.clone(),
        (Some(_), Some(_)) => apply(PrimOp::Add, a, b),
        _ => Dim::binary(PrimOp::Add, a.clone(), b.clone()),
    }
}

fn stack(call: Call<'_>) -> Inferred {
    let items = tensors(call, 0)?;
    let out = common(&items)?;
    if out.ndim < 0 {
        return Ok(Type::Tensor(out));
    }
    let Some(at) = axis(int(call, "axis").unwrap_or(0), out.ndim + 1)? else { return Ok(Type::Tensor(out)) };
    let mut known: Option<Vec<Dim>> = items.first().and_then(|item| item.shape.clone());
    for item in &items[1..] {
        match (&known, &item.shape) {
            (Some(dims), Some(other)) => match same_shape(dims, other) {
                Some(true) => {}
                None => known = None,
                Some(false) => return wrong("tensors of different shapes cannot be stacked".to_string()),
            },
            _ => known = None,
        }
    }
    if let Some(dims) = &mut known {
        dims.insert(at, Dim::Int(items.len() as i64));
    }
    Ok(with_shape(&out, out.ndim + 1, known))
}

fn flatten(call: Call<'_>) -> Inferred {
    let x = tensor(call, 0)?;
    let length = x.shape.as_deref().map(elements).transpose()?;
    Ok(with_shape(&x, 1, length.map(|length| vec![length])))
}

fn batch_flatten(call: Call<'_>) -> Inferred {
    let x = tensor(call, 0)?;
    if x.ndim >= 0 && x.ndim < 2 {
        return wrong(format!("needs a tensor of at least 2 dimensions, found {}", x.ndim));
    }
    let Some((first, rest)) = x.shape.as_deref().and_then(|dims| dims.split_first()) else {
        return Ok(with_shape(&x, 2, None));
    };
    Ok(with_shape(&x, 2, Some(vec![first.clone(), elements(rest)?])))
}

/// Checks that broadcasting the target shape provably gives the shape of `from`.
fn collapses(from: &TensorType, to: Option<&[Dim]>, ndim: i32) -> Result<(), InferError> {
    if from.ndim >= 0 && ndim > from.ndim {
        return wrong(format!("a tensor of {} dimensions cannot be summed to {ndim} dimensions", from.ndim));
    }
    let (Some(from), Some(to)) = (&from.shape, to) else { return Ok(()) };
    for (i, (a, b)) in from.iter().rev().zip(to.iter().rev()).enumerate() {
        if b.as_int() != Some(1) && prove_equal(a, b) != Some(true) {
            let (i, a, b) = (to.len() - 1 - i, show(a), show(b));
            return wrong(format!(
                "axis {i} of {a} elements cannot be summed to {b}; its length must stay the same, or become 1"
            ));
        }
    }
    Ok(())
}

fn collapse_sum_to(call: Call<'_>) -> Inferred {
    let (x, (ndim, dims)) = (tensor(call, 0)?, shape(call, 1)?);
    collapses(&x, dims.as_deref(), ndim)?;
    Ok(with_shape(&x, ndim, dims))
}

fn collapse_sum_like(call: Call<'_>) -> Inferred {
    let (x, like) = (tensor(call, 0)?, tensor(call, 1)?);
    collapses(&x, like.shape.as_deref(), like.ndim)?;
    Ok(with_shape(&x, like.ndim, like.shape))
}

fn flip(call: Call<'_>) -> Inferred {
    let x = tensor(call, 0)?;
    axis(int(call, "axis").unwrap_or(0), x.ndim)?;
    Ok(Type::Tensor(x))
}

fn repeat(call: Call<'_>) -> Inferred {
    let x = tensor(call, 0)?;
    let times = times(int(call, "repeats").unwrap_or(1))?;
    let Some(at) = int(call, "axis") else {
        let length = x.shape.as_deref().map(elements).transpose()?;
        return Ok(with_shape(&x, 1, length.map(|length| vec![apply(PrimOp::Mul, &length, &times)])));
    };
    let at = axis(at, x.ndim)?;
    let dims = x.shape.clone().zip(at).map(|(mut dims, at)| {
        dims[at] = apply(PrimOp::Mul, &dims[at], &times);
        dims
    });
    Ok(with_shape(&x, x.ndim, dims))
}

fn tile(call: Call<'_>) -> Inferred {
    let x = tensor(call, 0)?;
    let repeats = ints(call, "repeats").unwrap_or_default();
    let repeats = repeats.into_iter().map(times).collect::<Result<Vec<Dim>, _>>()?;
    if x.ndim < 0 {
        return Ok(with_shape(&x, -1, None));
    }
    let ndim = (x.ndim as usize).max(repeats.len());
    let dims = x.shape.as_ref().map(|dims| {
        let one = Dim::Int(1);
        let at = |i: usize| (i + dims.len()).checked_sub(ndim).map_or(&one, |i| &dims[i]);
        let times = |i: usize| (i + repeats.len()).checked_sub(ndim).map_or(&one, |i| &repeats[i]);
        (0..ndim).map(|i| apply(PrimOp::Mul, at(i), times(i))).collect()
    });
    Ok(with_shape(&x, ndim as i32, dims))
}

fn pad(call: Call<'_>) -> Inferred {
    let x = tensor(call, 0)?;
    let width = ints(call, "pad_width").unwrap_or_default();
    if x.ndim >= 0 && width.len() != 2 * x.ndim as usize {
        let (found, ndim) = (width.len(), x.ndim);
        return wrong(format!("pad_width has {found} values; it must have {}, two for each of {ndim} axes", 2 * ndim));
    }
    let add = |(dim, sides): (&Dim, &[i64])| {
        sides.iter().fold(dim.clone(), |dim, side| apply(PrimOp::Add, &dim, &Dim::Int(*side)))
    };
    let dims: Option<Vec<Dim>> = x.shape.as_ref().map(|dims| dims.iter().zip(width.chunks(2)).map(add).collect());
    not_negative(dims.as_deref())?;
    Ok(with_shape(&x, x.ndim, dims))
}

fn pixel_shuffle(call: Call<'_>) -> Inferred {
    let x = tensor(call, 0)?;
    let factor = int(call, "upscale_factor").unwrap_or(1);
    if x.ndim >= 0 && x.ndim < 3 {
        return wrong(format!("needs a tensor of at least 3 dimensions, found {}", x.ndim));
    }
    let Some(square) = factor.checked_mul(factor).filter(|_| factor > 0) else {
        return wrong(format!("upscale_factor must be positive, found {factor}"));
    };
    let Some(dims) = &x.shape else { return Ok(with_shape(&x, x.ndim, None)) };
    let channel = dims.len() - 3;
    if let Some(channels) = dims[channel].as_int().filter(|channels| channels % square != 0) {
        return wrong(format!("{channels} channels are not a multiple of the square of the factor, {square}"));
    }
    let mut out = dims.clone();
    out[channel] = apply(PrimOp::FloorDiv, &dims[channel], &Dim::Int(square));
    for dim in &mut out[channel + 1..] {
        *dim = apply(PrimOp::Mul, dim, &Dim::Int(factor));
    }
    Ok(with_shape(&x, x.ndim, Some(out)))
}

fn meshgrid(call: Call<'_>) -> Inferred {
    let items = tensors(call, 0)?;
    let out = common(&items)?;
    if let Some(item) = items.iter().find(|item| item.ndim != 1) {
        return wrong(format!("needs vectors, found a tensor of {} dimensions", item.ndim));
    }
    let dims: Option<Vec<Dim>> = items.iter().map(|item| item.shape.as_ref()?.first().cloned()).collect();
    let one = with_shape(&out, items.len() as i32, dims);
    Ok(Type::tuple(vec![one; items.len()]))
}
