//! Normalization, softmax and dropout.

use crate::declare::*;
use plugin_api::arith::prove_equal;
use plugin_api::ir::{Call, Type};
use plugin_api::meta::{ArgKind, AttrType};
use plugin_api::op::{ArgDecl, AttrDecl, DefaultDecl, OpDecl};

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
        "Normalized over all axes but one; gives the result, and mean and variance after the update.",
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
        "Normalized over axes.",
        LAYER,
        &[attr("axes", AttrType::IntList), EPSILON, CENTER, SCALE],
        layer_norm,
    ),
    op(
        "relax.nn.dropout",
        "Elements set to 0 at random; gives the result and the mask.",
        DATA,
        &[attr_or("rate", AttrType::Float, DefaultDecl::Float(0.5))],
        dropout,
    ),
    op("relax.nn.softmax", "Exponentials that sum up to 1 along an axis.", DATA, AXIS_LAST, along_axis),
    op("relax.nn.log_softmax", "Logarithm of the softmax along an axis.", DATA, AXIS_LAST, along_axis),
];

fn batch_norm(call: Call<'_>) -> Inferred {
    let data = tensor(call, 0)?;
    let at = axis(int(call, "axis").unwrap_or(1), data.ndim)?;
    for (i, arg) in BATCH.iter().enumerate().skip(1) {
        let scale = tensor(call, i)?;
        if scale.ndim >= 0 && scale.ndim != 1 {
            return wrong(format!("{} must have one dimension, found {}", arg.name, scale.ndim));
        }
        if let (Some(dims), Some(at), Some([size])) = (&data.shape, at, scale.shape.as_deref())
            && prove_equal(&dims[at], size) == Some(false)
        {
            return wrong(format!("{} does not have one element for each of the {} channels", arg.name, at));
        }
    }
    let (mean, var) = (tensor(call, 3)?, tensor(call, 4)?);
    Ok(Type::Tuple(vec![Type::Tensor(data), Type::Tensor(mean), Type::Tensor(var)]))
}

fn layer_norm(call: Call<'_>) -> Inferred {
    let data = tensor(call, 0)?;
    axes(&ints(call, "axes").unwrap_or_default(), data.ndim)?;
    Ok(Type::Tensor(data))
}

fn dropout(call: Call<'_>) -> Inferred {
    let data = Type::Tensor(tensor(call, 0)?);
    Ok(Type::Tuple(vec![data.clone(), data]))
}

fn along_axis(call: Call<'_>) -> Inferred {
    let data = tensor(call, 0)?;
    axis(int(call, "axis").unwrap_or(-1), data.ndim)?;
    Ok(Type::Tensor(data))
}
