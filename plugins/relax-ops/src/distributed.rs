//! Tensors distributed over device meshes and workers, layout transformations, and sampling.

use crate::declare::*;
use crate::type_rules::*;
use plugin_api::ir::{Attr, Call, DTensorType, DType, Dim, Sym, TensorType, Type};
use plugin_api::metadata::{ArgKind, AttrType};
use plugin_api::typing::operators::{ArgDecl, AttrDecl, DefaultDecl, InferError, OpDecl};

const VALUE: &[ArgDecl] = &[arg("value", ArgKind::Tensor)];
const FUNC_ARGS: &[ArgDecl] = &[arg("func", ArgKind::Function), arg("args", ArgKind::Tuple)];
const DATA_SIZE: &[ArgDecl] = &[arg("data", ArgKind::Tensor), arg("size", ArgKind::Shape)];
const SAMPLING: &[ArgDecl] =
    &[arg("prob", ArgKind::Tensor), arg("uniform_sample", ArgKind::Tensor), arg("sample_indices", ArgKind::Tensor)];
const SHARDING: &[AttrDecl] = &[attr("device_mesh", AttrType::Str), attr("placement", AttrType::Str)];
const WORKERS: &[AttrDecl] = &[attr("num_workers", AttrType::Int), attr("axis", AttrType::Int)];
const INDEX_MAP: &[AttrDecl] =
    &[attr("index_map", AttrType::Any), attr_or("pad_value", AttrType::Any, DefaultDecl::None)];

pub(crate) const OPERATORS: &[OpDecl] = &[
    op(
        "relax.dist.annotate_sharding",
        documented!(
            "Annotates how a tensor is distributed over a device mesh.",
            SAME,
            r#"input: R.Tensor((8, 3), "float32")"#,
            r#"R.dist.annotate_sharding(input, device_mesh="mesh[0]", placement="S[0]")"#,
            r#"R.Tensor((8, 3), "float32")"#
        ),
        VALUE,
        SHARDING,
        |call| {
            // A pass reads the mesh and placement from the attributes; the type is unchanged here.
            tensor(call, 0)?;
            Ok(argument(call, 0)?.ty().to_owned())
        },
    ),
    op(
        "relax.dist.redistribute",
        documented!(
            "A tensor redistributed to a different device mesh or placement.",
            "the type of the tensor, with the given device mesh and placement",
            r#"x: R.DTensor((8, 3), "float32", "mesh[0]", "R")"#,
            r#"R.dist.redistribute(x, device_mesh="mesh[0]", placement="S[0]")"#,
            r#"R.DTensor((8, 3), "float32", "mesh[0]", "S[0]")"#
        ),
        VALUE,
        SHARDING,
        redistribute,
    ),
    op(
        "relax.dist.call_tir_local_view",
        documented!(
            "Calls a PrimFunc on the part of each device.",
            GIVEN,
            r#"x: R.Tensor((2, 3), "float32")"#,
            r#"R.dist.call_tir_local_view(cls.f, (x,), out_ty=R.Tensor((2, 3), "float32"))"#,
            r#"R.Tensor((2, 3), "float32")"#
        ),
        FUNC_ARGS,
        &[],
        |call| Ok(call.type_args().next().map_or(Type::Object, |ty| ty.to_owned())),
    ),
    op(
        "relax.dist.redistribute_replica_to_shard",
        documented!(
            "The part of each worker along an axis.",
            "the type of the tensor, with the axis divided by the number of workers; a distributed tensor keeps its shape, and its placement is the axis",
            r#"input: R.Tensor((8, 3), "float32")"#,
            "R.dist.redistribute_replica_to_shard(input, num_workers=4, axis=0)",
            r#"R.Tensor((2, 3), "float32")"#
        ),
        VALUE,
        WORKERS,
        shard,
    ),
    op(
        "relax.layout_transform",
        documented!(
            "A tensor rearranged by an index map.",
            "the data type of `x`, in the shape that the map computes from its shape",
            r#"x: R.Tensor((8, 12), "float32")"#,
            "R.layout_transform(x, index_map=T.index_map(lambda i, j: (i, j // 4, j % 4)))",
            r#"R.Tensor((8, 3, 4), "float32")"#
        ),
        X,
        INDEX_MAP,
        layout_transform,
    ),
    op(
        "relax.image.affine_grid",
        documented!(
            "The coordinates from which an affine transformation takes each pixel of images.",
            "two coordinates for each pixel: batch, 2, height, width",
            r#"data: R.Tensor((1, 2, 3), "float32")"#,
            "R.image.affine_grid(data, R.shape([16, 20]))",
            r#"R.Tensor((1, 2, 16, 20), "float32")"#
        ),
        DATA_SIZE,
        &[attr_or("align_corners", AttrType::Bool, DefaultDecl::Bool(true))],
        affine_grid,
    ),
    op(
        "relax.multinomial_from_uniform",
        documented!(
            "Samples of distributions.",
            "the shape of `sample_indices`, with elements of `dtype`",
            r#"probabilities: R.Tensor((3, 5), "float32"), samples: R.Tensor((6, 1), "float32"), rows: R.Tensor((6, 1), "int64")"#,
            r#"R.multinomial_from_uniform(probabilities, samples, rows, dtype="int64")"#,
            r#"R.Tensor((6, 1), "int64")"#
        ),
        SAMPLING,
        &[attr_or("dtype", AttrType::DType, DefaultDecl::Str("int64"))],
        |call| {
            let dtype = out_dtype(call, "dtype", DType::I64);
            Ok(with_dtype(tensor(call, 2)?, dtype))
        },
    ),
];

/// Returns the type of an argument that is distributed over a mesh.
fn on_mesh(call: Call<'_>) -> Option<DTensorType> {
    match call.arg(0)?.ty().to_owned() {
        Type::DTensor(t) => Some(t),
        _ => None,
    }
}

fn redistribute(call: Call<'_>) -> Inferred {
    let Some(x) = on_mesh(call) else {
        return wrong("needs a tensor on a device mesh; use R.dist.annotate_sharding for other tensors".to_string());
    };
    let mesh = text(call, "device_mesh").unwrap_or("");
    let number = mesh.strip_prefix("mesh[").and_then(|rest| rest.strip_suffix(']')?.parse().ok());
    let Some(number) = number else {
        return wrong(format!("device_mesh must have a form like \"mesh[0]\", found {mesh:?}"));
    };
    let placement = placement(text(call, "placement").unwrap_or(""))?;
    Ok(Type::DTensor(DTensorType { mesh: number, placement, ..x }))
}

/// Parses a placement such as `S[0], R`. For each mesh axis, returns the tensor axis that is sharded along it, or
/// `None` if it is replicated.
fn placement(text: &str) -> Result<Vec<Option<u32>>, InferError> {
    let axis = |part: &str| match part.trim() {
        "R" => Some(None),
        part => part.strip_prefix("S[")?.strip_suffix(']')?.parse().ok().map(Some),
    };
    let all = text.split(',').map(axis).collect::<Option<Vec<_>>>();
    all.ok_or_else(|| InferError::wrong(format!("placement must have a form like \"S[0], R\", found {text:?}")))
}

fn shard(call: Call<'_>) -> Inferred {
    let x = tensor(call, 0)?;
    let (workers, at) = (int(call, "num_workers").unwrap_or(1), axis(int(call, "axis").unwrap_or(0), x.ndim)?);
    if workers < 1 {
        return wrong(format!("num_workers must be positive, found {workers}"));
    }
    if let Some(on) = on_mesh(call) {
        // The shape in a distributed type is the global shape; the placement determines the local part.
        let whole = at.zip(x.shape.as_ref()).and_then(|(at, dims)| dims[at].as_int());
        return match (whole, at) {
            (Some(size), Some(at)) if size % workers != 0 => uneven(at, size, workers),
            (_, None) => wrong("the number of dimensions must be known".to_string()),
            (_, Some(at)) => Ok(Type::DTensor(DTensorType { placement: vec![Some(at as u32)], ..on })),
        };
    }
    let Some((mut dims, at)) = x.shape.clone().zip(at) else { return Ok(with_shape(&x, x.ndim, None)) };
    match dims[at].as_int() {
        Some(size) if size % workers != 0 => uneven(at, size, workers),
        Some(size) => {
            dims[at] = Dim::Int(size / workers);
            Ok(with_shape(&x, x.ndim, Some(dims)))
        }
        None => Ok(with_shape(&x, x.ndim, None)),
    }
}

fn uneven(at: usize, size: i64, workers: i64) -> Inferred {
    wrong(format!("the {size} elements of axis {at} are not divisible by {workers} workers"))
}

/// Infers the grid of a linear map of `n` axes: a matrix of `n` rows and `n + 1` columns for each batch.
fn affine_grid(call: Call<'_>) -> Inferred {
    let (data, (ndim, size)) = (tensor(call, 0)?, shape(call, 1)?);
    if data.ndim >= 0 && data.ndim != 3 {
        return wrong(format!("data must have 3 dimensions, found {}", data.ndim));
    }
    if !matches!(ndim, 2 | 3) {
        return wrong(format!("the size must have 2 or 3 dimensions, found {ndim}"));
    }
    let [rows, columns] = [i64::from(ndim), i64::from(ndim) + 1];
    let is_not = |dim: &Dim, n: i64| dim.as_int().is_some_and(|dim| dim != n);
    if let Some([_, height, width]) = data.shape.as_deref()
        && (is_not(height, rows) || is_not(width, columns))
    {
        return wrong(format!("data must be matrices of {rows} rows and {columns} columns"));
    }
    let dims = data.shape.as_ref().zip(size).map(|(data, size)| {
        let front = [data[0].clone(), Dim::Int(rows)];
        front.into_iter().chain(size).collect()
    });
    Ok(with_shape(&data, ndim + 2, dims))
}

/// Returns the variables of an index map and its new indices.
pub(crate) fn index_map(call: Call<'_>) -> Option<(Vec<Sym>, Vec<Dim>)> {
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
    let dims = x.shape.as_ref().and_then(|shape| crate::index_map::mapped(&results, &variables, shape));
    let like = TensorType { shape: None, ..x };
    Ok(with_shape(&like, results.len() as i32, dims))
}
