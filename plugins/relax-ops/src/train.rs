//! Gradient operators, recomputation markers, and communication between workers.

use crate::declare::*;
use crate::type_rules::*;
use plugin_api::arith::apply;
use plugin_api::ir::{Call, Dim, Type};
use plugin_api::metadata::{ArgKind, AttrType};
use plugin_api::scalar::PrimOp;
use plugin_api::typing::operators::{ArgDecl, AttrDecl, DefaultDecl, OpDecl};

const ONE: &[ArgDecl] = &[arg("input", ArgKind::Any)];
const GRAD_DATA: &[ArgDecl] = &[arg("output_grad", ArgKind::Tensor), arg("data", ArgKind::Tensor)];
const TAKE: &[ArgDecl] =
    &[arg("output_grad", ArgKind::Tensor), arg("x", ArgKind::Tensor), arg("indices", ArgKind::Tensor)];
const NLL: &[ArgDecl] = &[
    arg("output_grad", ArgKind::Tensor),
    arg("predictions", ArgKind::Tensor),
    arg("targets", ArgKind::Tensor),
    ArgDecl { name: "weights", kind: ArgKind::Tensor, optional: true },
];
const POOL: &[AttrDecl] = &[
    attr_or("pool_size", AttrType::RepeatedInts, DefaultDecl::Ints(&[1, 1])),
    attr_or("strides", AttrType::RepeatedInts, DefaultDecl::Ints(&[1, 1])),
    by_name(attr_or("dilation", AttrType::RepeatedInts, DefaultDecl::Ints(&[1, 1]))),
    attr_or("padding", AttrType::RepeatedInts, DefaultDecl::Ints(&[0, 0, 0, 0])),
    attr_or("ceil_mode", AttrType::Bool, DefaultDecl::Bool(false)),
    attr_or("count_include_pad", AttrType::Bool, DefaultDecl::Bool(false)),
    attr_or("layout", AttrType::Str, DefaultDecl::Str("NCHW")),
    attr_or("out_layout", AttrType::OptStr, DefaultDecl::SameAs("layout")),
];
const IN_GROUP: AttrDecl = attr_or("in_group", AttrType::Bool, DefaultDecl::Bool(true));

pub(crate) const OPERATORS: &[OpDecl] = &[
    op(
        "relax.grad.no_grad",
        documented!(
            "Stops gradients at a value.",
            SAME,
            r#"x: R.Tensor((2, 3), "float32")"#,
            "R.grad.no_grad(x)",
            r#"R.Tensor((2, 3), "float32")"#
        ),
        ONE,
        &[],
        same,
    ),
    op(
        "relax.grad.start_checkpoint",
        documented!(
            "Marks the start of a part that is recomputed for gradients.",
            SAME,
            r#"x: R.Tensor((2, 3), "float32")"#,
            "R.grad.start_checkpoint(x)",
            r#"R.Tensor((2, 3), "float32")"#
        ),
        ONE,
        &[],
        same,
    ),
    op(
        "relax.grad.end_checkpoint",
        documented!(
            "Marks the end of a part that is recomputed for gradients.",
            SAME,
            r#"x: R.Tensor((2, 3), "float32")"#,
            "R.grad.end_checkpoint(x)",
            r#"R.Tensor((2, 3), "float32")"#
        ),
        ONE,
        &[],
        same,
    ),
    op(
        "relax.grad.max_pool2d_backward",
        documented!(
            "Gradient of max_pool2d.",
            SECOND,
            r#"gradient: R.Tensor((1, 4, 4, 4), "float32"), data: R.Tensor((1, 4, 8, 8), "float32")"#,
            "R.grad.max_pool2d_backward(gradient, data, pool_size=[2, 2], strides=[2, 2])",
            r#"R.Tensor((1, 4, 8, 8), "float32")"#
        ),
        GRAD_DATA,
        POOL,
        like_second,
    ),
    op(
        "relax.grad.avg_pool2d_backward",
        documented!(
            "Gradient of avg_pool2d.",
            SECOND,
            r#"gradient: R.Tensor((1, 4, 4, 4), "float32"), data: R.Tensor((1, 4, 8, 8), "float32")"#,
            "R.grad.avg_pool2d_backward(gradient, data, pool_size=[2, 2], strides=[2, 2])",
            r#"R.Tensor((1, 4, 8, 8), "float32")"#
        ),
        GRAD_DATA,
        POOL,
        like_second,
    ),
    op(
        "relax.grad.take_backward",
        documented!(
            "Gradient of take.",
            SECOND,
            r#"gradient: R.Tensor((3, 5), "float32"), x: R.Tensor((4, 5), "float32"), indices: R.Tensor((3,), "int64")"#,
            "R.grad.take_backward(gradient, x, indices, axis=0)",
            r#"R.Tensor((4, 5), "float32")"#
        ),
        TAKE,
        &[attr_or("axis", AttrType::OptInt, DefaultDecl::None), attr_or("mode", AttrType::Str, DefaultDecl::Str(""))],
        like_second,
    ),
    op(
        "relax.grad.nll_loss_backward",
        documented!(
            "Gradient of nll_loss.",
            SECOND,
            r#"gradient: R.Tensor((), "float32"), predictions: R.Tensor((8, 10), "float32"), targets: R.Tensor((8,), "int64"), weights: R.Tensor((10,), "float32")"#,
            "R.grad.nll_loss_backward(gradient, predictions, targets, weights)",
            r#"R.Tensor((8, 10), "float32")"#
        ),
        NLL,
        &[
            attr_or("reduction", AttrType::Str, DefaultDecl::Str("mean")),
            attr_or("ignore_index", AttrType::Int, DefaultDecl::Int(-100)),
        ],
        like_second,
    ),
    op(
        "relax.ccl.allreduce",
        documented!(
            "Elements reduced over all workers.",
            SAME,
            r#"x: R.Tensor((2, 3), "float32")"#,
            r#"R.ccl.allreduce(x, op_type="sum")"#,
            r#"R.Tensor((2, 3), "float32")"#
        ),
        X,
        &[attr_or("op_type", AttrType::Str, DefaultDecl::Str("sum")), IN_GROUP],
        tensor_same,
    ),
    op(
        "relax.ccl.allgather",
        documented!(
            "The tensors of all workers, concatenated.",
            "the type of `x`, with the first axis multiplied by the number of workers",
            r#"x: R.Tensor((2, 3), "float32")"#,
            "R.ccl.allgather(x, num_workers=4)",
            r#"R.Tensor((8, 3), "float32")"#
        ),
        X,
        &[attr("num_workers", AttrType::Int), IN_GROUP],
        |call| scaled(call, PrimOp::Mul, 0),
    ),
    op(
        "relax.ccl.broadcast_from_worker0",
        documented!(
            "The tensor of the first worker.",
            SAME,
            r#"x: R.Tensor((2, 3), "float32")"#,
            "R.ccl.broadcast_from_worker0(x)",
            r#"R.Tensor((2, 3), "float32")"#
        ),
        X,
        &[],
        tensor_same,
    ),
    op(
        "relax.ccl.scatter_from_worker0",
        documented!(
            "The part of the first worker's tensor that belongs to this worker.",
            "the type of `x`, with the axis divided by the number of workers",
            r#"x: R.Tensor((8, 3), "float32")"#,
            "R.ccl.scatter_from_worker0(x, num_workers=4, axis=0)",
            r#"R.Tensor((2, 3), "float32")"#
        ),
        X,
        &[attr("num_workers", AttrType::Int), attr_or("axis", AttrType::Int, DefaultDecl::Int(0))],
        |call| scaled(call, PrimOp::FloorDiv, int(call, "axis").unwrap_or(0)),
    ),
];

fn same(call: Call<'_>) -> Inferred {
    Ok(argument(call, 0)?.ty().to_owned())
}

fn tensor_same(call: Call<'_>) -> Inferred {
    Ok(Type::Tensor(tensor(call, 0)?))
}

fn like_second(call: Call<'_>) -> Inferred {
    Ok(Type::Tensor(tensor(call, 1)?))
}

/// Infers a tensor with one axis multiplied or divided by the number of workers.
fn scaled(call: Call<'_>, by: PrimOp, at: i64) -> Inferred {
    let x = tensor(call, 0)?;
    let workers = int(call, "num_workers").unwrap_or(1);
    if workers < 1 {
        return wrong(format!("num_workers must be positive, found {workers}"));
    }
    let Some(at) = axis(at, x.ndim)? else { return Ok(Type::Tensor(x)) };
    let Some(mut dims) = x.shape.clone() else { return Ok(Type::Tensor(x)) };
    if let Some(size) = dims[at].as_int().filter(|size| by == PrimOp::FloorDiv && size % workers != 0) {
        return wrong(format!("the {size} elements along axis {at} are not divisible by {workers} workers"));
    }
    dims[at] = apply(by, &dims[at], &Dim::Int(workers));
    Ok(with_shape(&x, x.ndim, Some(dims)))
}
