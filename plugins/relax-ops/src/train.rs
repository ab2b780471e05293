//! Gradients of operators, markers of what to compute again, and communication between workers.

use crate::declare::*;
use plugin_api::arith::apply;
use plugin_api::ir::records::prim::{FLOORDIV, MUL};
use plugin_api::ir::{Call, Dim, Type};
use plugin_api::metadata::{ArgKind, AttrType};
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
    attr_or("pool_size", AttrType::IntList, DefaultDecl::Ints(&[1, 1])),
    attr_or("strides", AttrType::IntList, DefaultDecl::Ints(&[1, 1])),
    attr_or("dilation", AttrType::IntList, DefaultDecl::Ints(&[1, 1])),
    attr_or("padding", AttrType::IntList, DefaultDecl::Ints(&[0, 0, 0, 0])),
    attr_or("ceil_mode", AttrType::Bool, DefaultDecl::Bool(false)),
    attr_or("count_include_pad", AttrType::Bool, DefaultDecl::Bool(false)),
    attr_or("layout", AttrType::Str, DefaultDecl::Str("NCHW")),
    attr_or("out_layout", AttrType::OptStr, DefaultDecl::None),
];
const IN_GROUP: AttrDecl = attr_or("in_group", AttrType::Bool, DefaultDecl::Bool(true));

pub(crate) const OPERATORS: &[OpDecl] = &[
    op("relax.grad.no_grad", "Has no gradient.", ONE, &[], same),
    op("relax.grad.start_checkpoint", "Starts what is computed again for gradients.", ONE, &[], same),
    op("relax.grad.end_checkpoint", "Ends what is computed again for gradients.", ONE, &[], same),
    op("relax.grad.max_pool2d_backward", "Gradient of max_pool2d.", GRAD_DATA, POOL, like_second),
    op("relax.grad.avg_pool2d_backward", "Gradient of avg_pool2d.", GRAD_DATA, POOL, like_second),
    op(
        "relax.grad.take_backward",
        "Gradient of take.",
        TAKE,
        &[
            attr_or("axis", AttrType::OptInt, DefaultDecl::None),
            attr_or("mode", AttrType::Str, DefaultDecl::Str("fast")),
        ],
        like_second,
    ),
    op(
        "relax.grad.nll_loss_backward",
        "Gradient of nll_loss.",
        NLL,
        &[
            attr_or("reduction", AttrType::Str, DefaultDecl::Str("mean")),
            attr_or("ignore_index", AttrType::Int, DefaultDecl::Int(-100)),
        ],
        like_second,
    ),
    op(
        "relax.ccl.allreduce",
        "Reduced over all workers.",
        X,
        &[attr_or("op_type", AttrType::Str, DefaultDecl::Str("sum")), IN_GROUP],
        tensor_same,
    ),
    op(
        "relax.ccl.allgather",
        "The tensors of all workers one after the other.",
        X,
        &[attr("num_workers", AttrType::Int), IN_GROUP],
        |call| scaled(call, MUL, 0),
    ),
    op("relax.ccl.broadcast_from_worker0", "The tensor of the first worker.", X, &[], tensor_same),
    op(
        "relax.ccl.scatter_from_worker0",
        "The part of the first worker's tensor that is this worker's.",
        X,
        &[attr("num_workers", AttrType::Int), attr_or("axis", AttrType::Int, DefaultDecl::Int(0))],
        |call| scaled(call, FLOORDIV, int(call, "axis").unwrap_or(0)),
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

/// An axis multiplied with the number of workers, or divided by it.
fn scaled(call: Call<'_>, by: u16, at: i64) -> Inferred {
    let x = tensor(call, 0)?;
    let workers = int(call, "num_workers").unwrap_or(1);
    if workers < 1 {
        return wrong(format!("num_workers must be positive, found {workers}"));
    }
    let Some(at) = axis(at, x.ndim)? else { return Ok(Type::Tensor(x)) };
    let Some(mut dims) = x.shape.clone() else { return Ok(Type::Tensor(x)) };
    if let Some(size) = dims[at].as_int().filter(|size| by == FLOORDIV && size % workers != 0) {
        return wrong(format!("{workers} workers do not divide {size} elements along axis {at}"));
    }
    dims[at] = apply(by, &dims[at], &Dim::Int(workers));
    Ok(with_shape(&x, x.ndim, Some(dims)))
}
