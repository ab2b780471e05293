//! Normalization, softmax and dropout.

use crate::declare::*;
use crate::type_rules::*;
use plugin_api::arith::prove_equal;
use plugin_api::ir::{Call, TensorType, Type};
use plugin_api::metadata::{ArgKind, AttrType};
use plugin_api::typing::operators::{ArgDecl, AttrDecl, DefaultDecl, InferError, OpDecl};

const BATCH: &[ArgDecl] = &[
    arg("data", ArgKind::Tensor),
    arg("gamma", ArgKind::Tensor),
    arg("beta", ArgKind::Tensor),
    arg("moving_mean", ArgKind::Tensor),
    arg("moving_var", ArgKind::Tensor),
];
const LAYER: &[ArgDecl] = &[arg("data", ArgKind::Tensor), arg("gamma", ArgKind::Tensor), arg("beta", ArgKind::Tensor)];
const EPSILON: AttrDecl = attr_or("epsilon", AttrType::Float, DefaultDecl::Float(1e-5));
const CENTER: AttrDecl = attr_or("center", AttrType::Bool, DefaultDecl::Bool(true));
const SCALE: AttrDecl = attr_or("scale", AttrType::Bool, DefaultDecl::Bool(true));
const AXIS_LAST: &[AttrDecl] = &[attr_or("axis", AttrType::Int, DefaultDecl::Int(-1))];

pub(crate) const OPERATORS: &[OpDecl] = &[
    op(
        "relax.nn.batch_norm",
        documented!(
            "Normalization over all axes except one; returns the result, and the updated mean and variance.",
            "a tuple: the type of `data`, then the types of `moving_mean` and `moving_var`",
            r#"data: R.Tensor((2, 3, 8, 8), "float32"), channels: R.Tensor((3,), "float32")"#,
            "R.nn.batch_norm(data, channels, channels, channels, channels, axis=1)",
            r#"R.Tuple(R.Tensor((2, 3, 8, 8), "float32"), R.Tensor((3,), "float32"), R.Tensor((3,), "float32"))"#
        ),
        BATCH,
        &[
            attr("axis", AttrType::Int),
            EPSILON,
            CENTER,
            SCALE,
            attr_or("momentum", AttrType::Float, DefaultDecl::Float(0.1)),
            attr_or("training", AttrType::Bool, DefaultDecl::Bool(true)),
        ],
        batch_norm,
    ),
    op(
        "relax.nn.layer_norm",
        documented!(
            "Normalization over axes.",
            NORMALIZED,
            r#"data: R.Tensor((2, 3), "float32"), gamma: R.Tensor((3,), "float32"), beta: R.Tensor((3,), "float32")"#,
            "R.nn.layer_norm(data, gamma, beta, axes=[-1])",
            r#"R.Tensor((2, 3), "float32")"#
        ),
        LAYER,
        &[attr("axes", AttrType::IntList), EPSILON, CENTER, SCALE],
        layer_norm,
    ),
    op(
        "relax.nn.group_norm",
        documented!(
            "Normalization within groups of channels.",
            NORMALIZED,
            r#"data: R.Tensor((2, 4, 5, 5), "float32"), gamma: R.Tensor((4,), "float32"), beta: R.Tensor((4,), "float32")"#,
            "R.nn.group_norm(data, gamma, beta, num_groups=2, channel_axis=1, axes=[2, 3])",
            r#"R.Tensor((2, 4, 5, 5), "float32")"#
        ),
        LAYER,
        &[
            attr("num_groups", AttrType::Int),
            attr("channel_axis", AttrType::Int),
            attr("axes", AttrType::IntList),
            EPSILON,
            CENTER,
            SCALE,
        ],
        group_norm,
    ),
    op(
        "relax.nn.instance_norm",
        documented!(
            "Normalization over axes, separately for each channel of each sample.",
            NORMALIZED,
            r#"data: R.Tensor((2, 4, 5, 5), "float32"), gamma: R.Tensor((4,), "float32"), beta: R.Tensor((4,), "float32")"#,
            "R.nn.instance_norm(data, gamma, beta, channel_axis=1, axes=[2, 3])",
            r#"R.Tensor((2, 4, 5, 5), "float32")"#
        ),
        LAYER,
        &[attr("channel_axis", AttrType::Int), attr("axes", AttrType::IntList), EPSILON, CENTER, SCALE],
        instance_norm,
    ),
    op(
        "relax.nn.rms_norm",
        documented!(
            "Elements divided by the root of the mean square over axes.",
            NORMALIZED,
            r#"data: R.Tensor((2, 3), "float32"), weight: R.Tensor((3,), "float32")"#,
            "R.nn.rms_norm(data, weight, axes=[-1])",
            r#"R.Tensor((2, 3), "float32")"#
        ),
        &[arg("data", ArgKind::Tensor), arg("weight", ArgKind::Tensor)],
        &[attr_or("axes", AttrType::IntList, DefaultDecl::Ints(&[-1])), EPSILON],
        |call| Ok(Type::Tensor(normalized(call, 1, &ints(call, "axes").unwrap_or_default())?)),
    ),
    op(
        "relax.nn.dropout",
        documented!(
            "Elements set to 0 at random; returns the result and the mask.",
            "a tuple: the type of `data` twice",
            r#"data: R.Tensor((2, 3), "float32")"#,
            "R.nn.dropout(data, rate=0.5)",
            r#"R.Tuple(R.Tensor((2, 3), "float32"), R.Tensor((2, 3), "float32"))"#
        ),
        DATA,
        &[attr_or("rate", AttrType::Float, DefaultDecl::Float(0.5))],
        dropout,
    ),
    op(
        "relax.nn.softmax",
        documented!(
            "Exponentials, scaled to add up to 1 along an axis.",
            ALONG,
            r#"data: R.Tensor((2, 3), "float32")"#,
            "R.nn.softmax(data, axis=-1)",
            r#"R.Tensor((2, 3), "float32")"#
        ),
        DATA,
        AXIS_LAST,
        along_axis,
    ),
    op(
        "relax.nn.log_softmax",
        documented!(
            "Logarithm of the softmax along an axis.",
            ALONG,
            r#"data: R.Tensor((2, 3), "float32")"#,
            "R.nn.log_softmax(data, axis=-1)",
            r#"R.Tensor((2, 3), "float32")"#
        ),
        DATA,
        AXIS_LAST,
        along_axis,
    ),
];

/// Performs the checks that normalizations share, and returns the type of the data: floats of one data type, and
/// parameters whose shape is that of the data along `given`. If the shapes cannot be compared, the shape of the result
/// is unknown.
fn normalized(call: Call<'_>, parameters: usize, given: &[i64]) -> Result<TensorType, InferError> {
    let data = tensor(call, 0)?;
    needs_float(data.dtype)?;
    let at = axes(given, data.ndim)?;
    let mut known = true;
    for i in 1..=parameters {
        let parameter = tensor(call, i)?;
        if parameter.dtype != data.dtype {
            return wrong(format!(
                "argument {i} has data type {}, but the data has {}; they must be equal",
                parameter.dtype, data.dtype
            ));
        }
        if parameter.ndim != given.len() as i32 {
            let (found, n) = (parameter.ndim, given.len());
            return wrong(format!("argument {i} has {found} dimensions; it must have {n}, one for each axis"));
        }
        let (Some(at), Some(dims), Some(sizes)) = (&at, &data.shape, &parameter.shape) else { continue };
        for (axis, size) in at.iter().zip(sizes) {
            match prove_equal(&dims[*axis], size) {
                Some(true) => {}
                None => known = false,
                Some(false) => {
                    let (data, found) = (show(&dims[*axis]), show(size));
                    return wrong(format!(
                        "argument {i} has {found} elements for axis {axis}, but the data has {data}"
                    ));
                }
            }
        }
    }
    let shape = data.shape.filter(|_| known);
    Ok(TensorType { shape, ..data })
}

fn batch_norm(call: Call<'_>) -> Inferred {
    let data = normalized(call, 4, &[int(call, "axis").unwrap_or(1)])?;
    let unknown = data.shape.is_none() && tensor(call, 0)?.shape.is_some();
    let moved = |i| {
        let t = tensor(call, i)?;
        Ok(if unknown { with_shape(&t, t.ndim, None) } else { Type::Tensor(t) })
    };
    Ok(Type::tuple([Type::Tensor(data), moved(3)?, moved(4)?]))
}

fn layer_norm(call: Call<'_>) -> Inferred {
    Ok(Type::Tensor(normalized(call, 2, &ints(call, "axes").unwrap_or_default())?))
}

fn group_norm(call: Call<'_>) -> Inferred {
    let data = tensor(call, 0)?;
    let (Some(channel), Some(_)) = (
        axis(int(call, "channel_axis").unwrap_or(1), data.ndim)?,
        axes(&ints(call, "axes").unwrap_or_default(), data.ndim)?,
    ) else {
        return Ok(Type::Tensor(data));
    };
    let groups = int(call, "num_groups").unwrap_or(1);
    let size = data.shape.as_ref().map(|dims| dims[channel].clone());
    if let Some(size) = size.and_then(|size| size.as_int())
        && (groups < 1 || size % groups != 0)
    {
        return wrong(format!("{size} channels are not divisible by {groups} groups"));
    }
    channels_fit(call, &data, channel)?;
    Ok(Type::Tensor(data))
}

fn instance_norm(call: Call<'_>) -> Inferred {
    let data = tensor(call, 0)?;
    axes(&ints(call, "axes").unwrap_or_default(), data.ndim)?;
    if let Some(channel) = axis(int(call, "channel_axis").unwrap_or(1), data.ndim)? {
        channels_fit(call, &data, channel)?;
    }
    Ok(Type::Tensor(data))
}

/// Checks that gamma and beta have one element per channel, and the data type of the data.
fn channels_fit(call: Call<'_>, data: &TensorType, channel: usize) -> Result<(), InferError> {
    needs_float(data.dtype)?;
    for (i, name) in [(1, "gamma"), (2, "beta")] {
        let scale = tensor(call, i)?;
        same_dtype(data.dtype, scale.dtype)?;
        if scale.ndim >= 0 && scale.ndim != 1 {
            return wrong(format!("{name} must have one dimension, found {}", scale.ndim));
        }
        if let (Some(dims), Some([size])) = (&data.shape, scale.shape.as_deref())
            && prove_equal(&dims[channel], size) == Some(false)
        {
            return wrong(format!("{name} has {} elements for {} channels", show(size), show(&dims[channel])));
        }
    }
    Ok(())
}

fn dropout(call: Call<'_>) -> Inferred {
    let data = Type::Tensor(tensor(call, 0)?);
    Ok(Type::tuple([data.clone(), data]))
}

fn along_axis(call: Call<'_>) -> Inferred {
    let data = tensor(call, 0)?;
    axis(int(call, "axis").unwrap_or(-1), data.ndim)?;
    needs_float(data.dtype)?;
    Ok(Type::Tensor(data))
}
