//! Operators that move elements without changing them.

use crate::declare::*;
use plugin_api::arith::{apply, product, prove_equal};
use plugin_api::ir::records::prim::{ADD, FLOORDIV};
use plugin_api::ir::{Call, DType, Dim, TensorType, Type};
use plugin_api::meta::{ArgKind, AttrType};
use plugin_api::op::{ArgDecl, AttrDecl, DefaultDecl, OpDecl};

const X_SHAPE: &[ArgDecl] = &[arg("x", ArgKind::Tensor), arg("shape", ArgKind::Shape)];
const TENSORS: &[ArgDecl] = &[arg("tensors", ArgKind::Tuple)];
const SHAPE: &[ArgDecl] = &[arg("shape", ArgKind::Shape)];
const FULL: &[ArgDecl] = &[arg("shape", ArgKind::Shape), arg("fill_value", ArgKind::Tensor)];
const TAKE: &[ArgDecl] = &[arg("x", ArgKind::Tensor), arg("indices", ArgKind::Tensor)];
const AXIS0: &[AttrDecl] = &[attr_or("axis", AttrType::OptInt, DefaultDecl::Int(0))];
const OPT_AXES: &[AttrDecl] = &[attr_or("axis", AttrType::OptIntList, DefaultDecl::None)];
const DTYPE: &[AttrDecl] = &[attr_or("dtype", AttrType::DType, DefaultDecl::None)];

pub(crate) const OPERATORS: &[OpDecl] = &[
    op("relax.reshape", "The same elements in another shape.", X_SHAPE, &[], reshape),
    op("relax.broadcast_to", "Repeated along axes of length 1, to a shape.", X_SHAPE, &[], broadcast_to),
    op("relax.expand_dims", "With axes of length 1 inserted.", X, &[attr("axis", AttrType::IntList)], expand_dims),
    op("relax.squeeze", "Without axes of length 1.", X, OPT_AXES, squeeze),
    op(
        "relax.permute_dims",
        "With axes in another order; reversed where none is given.",
        X,
        &[attr_or("axes", AttrType::OptIntList, DefaultDecl::None)],
        permute_dims,
    ),
    op("relax.concat", "Tensors one after the other along an axis.", TENSORS, AXIS0, concat),
    op("relax.stack", "Tensors side by side along a new axis.", TENSORS, AXIS0, stack),
    op(
        "relax.split",
        "Parts along an axis: a number of equal ones, or cut at indices.",
        X,
        &[attr("indices_or_sections", AttrType::Any), attr_or("axis", AttrType::Int, DefaultDecl::Int(0))],
        split,
    ),
    op("relax.flatten", "In one dimension.", X, &[], flatten),
    op(
        "relax.take",
        "Elements (along an axis) at indices.",
        TAKE,
        &[
            attr_or("axis", AttrType::OptInt, DefaultDecl::None),
            attr_or("mode", AttrType::Str, DefaultDecl::Str("fast")),
        ],
        take,
    ),
    op("relax.zeros", "A tensor of zeros.", SHAPE, DTYPE, filled),
    op("relax.ones", "A tensor of ones.", SHAPE, DTYPE, filled),
    op("relax.full", "A tensor of one value.", FULL, DTYPE, full),
    op("relax.zeros_like", "Zeros in the shape of a tensor.", X, DTYPE, like),
    op("relax.ones_like", "Ones in the shape of a tensor.", X, DTYPE, like),
    op("relax.shape_of", "The shape of a tensor.", X, &[], shape_of),
    op("relax.shape_to_tensor", "A shape as a tensor of int64.", &[arg("input", ArgKind::Shape)], &[], shape_to_tensor),
    op("relax.tensor_to_shape", "A tensor of int64 as a shape.", &[arg("input", ArgKind::Tensor)], &[], tensor_to_shape),
];

fn reshape(call: Call<'_>) -> Inferred {
    let (x, (ndim, dims)) = (tensor(call, 0)?, shape(call, 1)?);
    if let (Some(from), Some(to)) = (&x.shape, &dims) {
        let (a, b) = (product(from), product(to));
        if prove_equal(&a, &b) == Some(false) {
            let count = |dim: &Dim| dim.as_int().map_or("a symbolic number of".to_string(), |v| v.to_string());
            return wrong(format!("{} elements do not fit a shape of {}", count(&a), count(&b)));
        }
    }
    Ok(with_shape(&x, ndim, dims))
}

fn broadcast_to(call: Call<'_>) -> Inferred {
    let (x, (ndim, dims)) = (tensor(call, 0)?, shape(call, 1)?);
    if let (Some(from), Some(to)) = (&x.shape, &dims) {
        if from.len() > to.len() {
            return wrong(format!("{} dimensions do not broadcast to {}", from.len(), to.len()));
        }
        for (a, b) in from.iter().rev().zip(to.iter().rev()) {
            if a.as_int() != Some(1) && prove_equal(a, b) == Some(false) {
                return wrong("a dimension that is neither 1 nor that of the shape does not broadcast".to_string());
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
    let ndim = x.ndim - at.len() as i32;
    let Some(dims) = &x.shape else { return Ok(with_shape(&x, ndim, None)) };
    if let Some(i) = at.iter().find(|i| dims[**i].as_int().is_some_and(|size| size != 1)) {
        return wrong(format!("axis {i} has {} elements; only an axis of 1 can go", dims[*i].as_int().unwrap_or(0)));
    }
    let keep = dims.iter().enumerate().filter(|(i, _)| !at.contains(i));
    Ok(with_shape(&x, ndim, Some(keep.map(|(_, dim)| dim.clone()).collect())))
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
        return wrong(format!("{} axes for a tensor of {} dimensions; name each once", order.len(), x.ndim));
    }
    let dims = x.shape.as_ref().map(|dims| order.iter().map(|i| dims[*i].clone()).collect());
    Ok(with_shape(&x, x.ndim, dims))
}

/// Data type and number of dimensions that tensors have in common; an error if known ones differ.
fn common(items: &[TensorType]) -> Result<TensorType, plugin_api::op::InferError> {
    let Some(first) = items.first() else { return wrong("needs at least one tensor".to_string()) };
    let mut out = TensorType { shape: None, ..first.clone() };
    for item in &items[1..] {
        out.dtype = if out.dtype.is_known() { same_dtype(out.dtype, item.dtype)? } else { out.dtype };
        if out.ndim >= 0 && item.ndim >= 0 && out.ndim != item.ndim {
            return wrong(format!("tensors of {} and of {} dimensions", out.ndim, item.ndim));
        }
        out.ndim = out.ndim.max(item.ndim);
    }
    Ok(out)
}

fn concat(call: Call<'_>) -> Inferred {
    let items = tensors(call, 0)?;
    let out = common(&items)?;
    let at = axis(int(call, "axis").unwrap_or(0), out.ndim)?;
    let shapes: Option<Vec<&Vec<Dim>>> = items.iter().map(|item| item.shape.as_ref()).collect();
    let (Some(at), Some(shapes)) = (at, shapes) else { return Ok(Type::Tensor(out)) };
    let mut dims = shapes[0].clone();
    for other in &shapes[1..] {
        for (i, dim) in other.iter().enumerate() {
            if i == at {
                dims[i] = apply(ADD, &dims[i], dim);
            } else if prove_equal(&dims[i], dim) == Some(false) {
                return wrong(format!("tensors differ along axis {i}, but only axis {at} may differ"));
            }
        }
    }
    Ok(with_shape(&out, out.ndim, Some(dims)))
}

fn stack(call: Call<'_>) -> Inferred {
    let items = tensors(call, 0)?;
    let out = common(&items)?;
    if out.ndim < 0 {
        return Ok(Type::Tensor(out));
    }
    let Some(at) = axis(int(call, "axis").unwrap_or(0), out.ndim + 1)? else { return Ok(Type::Tensor(out)) };
    let known = items.iter().find_map(|item| item.shape.clone());
    let agree = |dims: &Vec<Dim>| {
        items.iter().all(|item| {
            item.shape.as_ref().is_none_or(|other| {
                other.iter().zip(dims).all(|(a, b)| prove_equal(a, b) != Some(false))
            })
        })
    };
    match known {
        Some(dims) if !agree(&dims) => wrong("tensors of different shapes cannot be stacked".to_string()),
        Some(mut dims) => {
            dims.insert(at, Dim::Int(items.len() as i64));
            Ok(with_shape(&out, out.ndim + 1, Some(dims)))
        }
        None => Ok(with_shape(&out, out.ndim + 1, None)),
    }
}

fn split(call: Call<'_>) -> Inferred {
    let x = tensor(call, 0)?;
    let at = axis(int(call, "axis").unwrap_or(0), x.ndim)?;
    let part = |size: Option<Dim>| match (&x.shape, at, size) {
        (Some(dims), Some(at), Some(size)) => {
            let mut dims = dims.clone();
            dims[at] = size;
            with_shape(&x, x.ndim, Some(dims))
        }
        _ => with_shape(&x, x.ndim, None),
    };
    let size = x.shape.as_ref().zip(at).map(|(dims, at)| dims[at].clone());
    if let Some(sections) = int(call, "indices_or_sections") {
        if sections < 1 {
            return wrong(format!("{sections} parts; the number must be positive"));
        }
        let known = size.as_ref().and_then(Dim::as_int);
        let each = match known {
            Some(size) => Some(Dim::Int((size + sections - 1) / sections)),
            None => size.as_ref().map(|size| apply(FLOORDIV, size, &Dim::Int(sections))),
        };
        let mut parts = vec![part(each.clone()); sections as usize];
        if let (Some(size), Some(each)) = (known, each.and_then(|each| each.as_int()))
            && let Some(last) = parts.last_mut()
        {
            *last = part(Some(Dim::Int((size - each * (sections - 1)).max(0))));
        }
        return Ok(Type::Tuple(parts));
    }
    let Some(cuts) = ints(call, "indices_or_sections") else {
        return wrong("indices_or_sections must be an integer or a list of integers".to_string());
    };
    let size = size.and_then(|size| size.as_int());
    let mut parts = Vec::with_capacity(cuts.len() + 1);
    let mut start = 0;
    for cut in cuts.iter().copied().map(Some).chain([size]) {
        let end = cut.map(|cut| size.map_or(cut, |size| cut.min(size)));
        parts.push(part(end.map(|end| Dim::Int((end - start).max(0)))));
        start = end.unwrap_or(start).max(start);
    }
    Ok(Type::Tuple(parts))
}

fn flatten(call: Call<'_>) -> Inferred {
    let x = tensor(call, 0)?;
    let dims = x.shape.as_ref().map(|dims| vec![product(dims)]);
    Ok(with_shape(&x, 1, dims))
}

fn take(call: Call<'_>) -> Inferred {
    let (x, indices) = (tensor(call, 0)?, tensor(call, 1)?);
    if indices.dtype.is_known() && !indices.dtype.is_int() {
        return wrong(format!("indices must be integers, found {}", indices.dtype));
    }
    let at = match int(call, "axis") {
        Some(at) => axis(at, x.ndim)?,
        None if x.ndim > 1 => return wrong("a tensor of several dimensions needs `axis`".to_string()),
        None => Some(0),
    };
    let ndim = if x.ndim < 0 || indices.ndim < 0 { -1 } else { x.ndim + indices.ndim - 1 };
    let dims = match (&x.shape, &indices.shape, at) {
        (Some(dims), Some(inner), Some(at)) => {
            Some(dims[..at].iter().chain(inner).chain(&dims[at + 1..]).cloned().collect())
        }
        _ => None,
    };
    Ok(with_shape(&x, ndim, dims))
}

fn filled(call: Call<'_>) -> Inferred {
    let (ndim, dims) = shape(call, 0)?;
    let dtype = out_dtype(call, "dtype", DType::VOID);
    Ok(Type::Tensor(TensorType { dtype, ndim, shape: dims, vdevice: None }))
}

fn full(call: Call<'_>) -> Inferred {
    let ((ndim, dims), value) = (shape(call, 0)?, tensor(call, 1)?);
    let dtype = out_dtype(call, "dtype", value.dtype);
    Ok(Type::Tensor(TensorType { dtype, ndim, shape: dims, vdevice: None }))
}

fn like(call: Call<'_>) -> Inferred {
    let x = tensor(call, 0)?;
    Ok(Type::Tensor(TensorType { dtype: out_dtype(call, "dtype", x.dtype), ..x }))
}

fn shape_of(call: Call<'_>) -> Inferred {
    let x = tensor(call, 0)?;
    Ok(Type::Shape { ndim: x.ndim, dims: x.shape })
}

fn shape_to_tensor(call: Call<'_>) -> Inferred {
    let (ndim, _) = shape(call, 0)?;
    let dims = (ndim >= 0).then(|| vec![Dim::Int(i64::from(ndim))]);
    Ok(Type::Tensor(TensorType { dtype: DType::I64, ndim: 1, shape: dims, vdevice: None }))
}

fn tensor_to_shape(call: Call<'_>) -> Inferred {
    let x = tensor(call, 0)?;
    let n = x.shape.as_ref().and_then(|dims| dims.first()?.as_int());
    Ok(Type::Shape { ndim: n.map_or(-1, |n| n as i32), dims: None })
}
