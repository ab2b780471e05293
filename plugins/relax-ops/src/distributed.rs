//! Tensors over device meshes and workers, transformed layouts, and sampling.

use crate::declare::*;
use plugin_api::arith::fold;
use plugin_api::ir::records::prim::{ADD, FLOORDIV, FLOORMOD, MUL, SUB};
use plugin_api::ir::{Attr, Call, DType, Dim, DimExpr, Sym, TensorType, Type};
use plugin_api::meta::{ArgKind, AttrType};
use plugin_api::op::{ArgDecl, AttrDecl, DefaultDecl, OpDecl};

const INPUT: &[ArgDecl] = &[arg("input", ArgKind::Tensor)];
const FUNC_ARGS: &[ArgDecl] = &[arg("func", ArgKind::Function), arg("args", ArgKind::Tuple)];
const DATA_SIZE: &[ArgDecl] = &[arg("data", ArgKind::Tensor), arg("size", ArgKind::Shape)];
const SAMPLING: &[ArgDecl] =
    &[arg("prob", ArgKind::Tensor), arg("uniform_sample", ArgKind::Tensor), arg("sample_indices", ArgKind::Tensor)];
const SHARDING: &[AttrDecl] = &[attr("device_mesh", AttrType::Str), attr("placement", AttrType::Str)];
const WORKERS: &[AttrDecl] = &[attr("num_workers", AttrType::Int), attr("axis", AttrType::Int)];
const INDEX_MAP: &[AttrDecl] =
    &[attr("index_map", AttrType::Any), attr_or("pad_value", AttrType::Any, DefaultDecl::None)];

pub(crate) const OPERATORS: &[OpDecl] = &[
    op("relax.dist.annotate_sharding", "Says how a tensor lies on a device mesh.", INPUT, SHARDING, |call| {
        Ok(Type::Tensor(tensor(call, 0)?))
    }),
    op("relax.dist.call_tir_local_view", "Calls a PrimFunc on the part of each device.", FUNC_ARGS, &[], |call| {
        Ok(call.type_args().next().map_or(Type::Object, |ty| ty.to_owned()))
    }),
    op("relax.dist.redistribute_replica_to_shard", "The part of each worker along an axis.", INPUT, WORKERS, shard),
    op("relax.layout_transform", "Rearranged by a map of indices.", X, INDEX_MAP, layout_transform),
    op(
        "relax.image.affine_grid",
        "The places of the pixels of transformed images.",
        DATA_SIZE,
        &[attr_or("align_corners", AttrType::Bool, DefaultDecl::Bool(true))],
        affine_grid,
    ),
    op(
        "relax.multinomial_from_uniform",
        "Samples of distributions.",
        SAMPLING,
        &[attr_or("dtype", AttrType::DType, DefaultDecl::Str("int64"))],
        |call| {
            let dtype = out_dtype(call, "dtype", DType::I64);
            Ok(with_dtype(tensor(call, 2)?, dtype))
        },
    ),
];

fn shard(call: Call<'_>) -> Inferred {
    let x = tensor(call, 0)?;
    let (workers, at) = (int(call, "num_workers").unwrap_or(1), axis(int(call, "axis").unwrap_or(0), x.ndim)?);
    if workers < 1 {
        return wrong(format!("num_workers must be positive, found {workers}"));
    }
    let Some((mut dims, at)) = x.shape.clone().zip(at) else { return Ok(with_shape(&x, x.ndim, None)) };
    match dims[at].as_int() {
        Some(size) if size % workers != 0 => {
            wrong(format!("axis {at} has {size} elements, which {workers} workers cannot share evenly"))
        }
        Some(size) => {
            dims[at] = Dim::Int(size / workers);
            Ok(with_shape(&x, x.ndim, Some(dims)))
        }
        None => Ok(with_shape(&x, x.ndim, None)),
    }
}

fn affine_grid(call: Call<'_>) -> Inferred {
    let (data, (ndim, size)) = (tensor(call, 0)?, shape(call, 1)?);
    if data.ndim >= 0 && data.ndim != 3 {
        return wrong(format!("data must have 3 dimensions, found {}", data.ndim));
    }
    if ndim >= 0 && ndim != 2 {
        return wrong(format!("the size has {ndim} dimensions; it must have 2"));
    }
    let dims = data.shape.clone().zip(size).map(|(data, size)| {
        let front = data.into_iter().take(2);
        front.chain(size).collect()
    });
    Ok(with_shape(&data, 4, dims))
}

/// The variables of an index map, and the new indices.
fn index_map(call: Call<'_>) -> Option<(Vec<Sym>, Vec<Dim>)> {
    let map = call.attr("index_map").filter(|map| map.object_name() == Some("T.index_map"))?;
    let (variables, results) = (map.items().next()?, map.items().nth(1)?);
    let variables = variables.items().map(|item| match item.to_owned() {
        Attr::Dim(Dim::Var(sym)) => Some(sym),
        _ => None,
    });
    let results = results.items().map(|item| match item.to_owned() {
        Attr::Dim(dim) => Some(dim),
        Attr::Int(value) => Some(Dim::Int(value)),
        _ => None,
    });
    Some((variables.collect::<Option<_>>()?, results.collect::<Option<_>>()?))
}

fn layout_transform(call: Call<'_>) -> Inferred {
    let x = tensor(call, 0)?;
    let Some((variables, results)) = index_map(call) else {
        return wrong("index_map must be a function of indices: T.index_map(lambda i: (i // 4, i % 4))".to_string());
    };
    if x.ndim >= 0 && x.ndim as usize != variables.len() {
        return wrong(format!("the map takes {} indices, the tensor has {} dimensions", variables.len(), x.ndim));
    }
    let dims = x.shape.as_ref().and_then(|shape| {
        let size = |result: &Dim| match result {
            // An index that stays as it is.
            Dim::Var(sym) => variables.iter().position(|known| known == sym).map(|at| shape[at].clone()),
            other => match range(other, &variables, shape) {
                Some((0, last)) => last.checked_add(1).map(Dim::Int),
                _ => None,
            },
        };
        results.iter().map(size).collect::<Option<Vec<Dim>>>()
    });
    let like = TensorType { shape: None, ..x };
    Ok(with_shape(&like, results.len() as i32, dims))
}

/// The smallest and the largest value of an index; `None` where that is not known.
fn range(index: &Dim, variables: &[Sym], shape: &[Dim]) -> Option<(i64, i64)> {
    match index {
        Dim::Int(value) => Some((*value, *value)),
        Dim::Var(sym) => {
            let size = shape[variables.iter().position(|known| known == sym)?].as_int()?;
            (size > 0).then_some((0, size - 1))
        }
        Dim::Expr(e) => match &**e {
            DimExpr::Int(value, _) => Some((*value, *value)),
            DimExpr::Binary(op, _, a, b) => {
                let (a, b) = (range(a, variables, shape)?, range(b, variables, shape)?);
                combined(*op, a, b)
            }
            _ => None,
        },
    }
}

fn combined(op: u16, a: (i64, i64), b: (i64, i64)) -> Option<(i64, i64)> {
    let both = |x, y| fold(op, x, y);
    match op {
        ADD => Some((both(a.0, b.0)?, both(a.1, b.1)?)),
        SUB => Some((both(a.0, b.1)?, both(a.1, b.0)?)),
        MUL => {
            let ends = [both(a.0, b.0)?, both(a.0, b.1)?, both(a.1, b.0)?, both(a.1, b.1)?];
            Some((*ends.iter().min()?, *ends.iter().max()?))
        }
        FLOORDIV if b.0 == b.1 && b.0 > 0 => Some((both(a.0, b.0)?, both(a.1, b.0)?)),
        // Within one period the remainder grows with the index; else it takes all values.
        FLOORMOD if b.0 == b.1 && b.0 > 0 => {
            let same = fold(FLOORDIV, a.0, b.0)? == fold(FLOORDIV, a.1, b.0)?;
            if same { Some((both(a.0, b.0)?, both(a.1, b.0)?)) } else { Some((0, b.0 - 1)) }
        }
        _ => None,
    }
}
