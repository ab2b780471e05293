//! Sorting and searching.

use crate::declare::*;
use plugin_api::ir::{Call, DType, Dim, TensorType, Type};
use plugin_api::metadata::AttrType;
use plugin_api::typing::operators::{AttrDecl, DefaultDecl, OpDecl};

const AXIS: AttrDecl = attr_or("axis", AttrType::Int, DefaultDecl::Int(-1));
const DESCENDING: AttrDecl = attr_or("descending", AttrType::Bool, DefaultDecl::Bool(false));
const INDEX_DTYPE: AttrDecl = attr_or("dtype", AttrType::DType, DefaultDecl::Str("int32"));

pub(crate) const OPERATORS: &[OpDecl] = &[
    op("relax.sort", "Sorted along an axis.", DATA, &[AXIS, DESCENDING], sort),
    op("relax.argsort", "Indices that sort along an axis.", DATA, &[AXIS, DESCENDING, INDEX_DTYPE], argsort),
    op(
        "relax.topk",
        "The `k` largest or smallest elements along an axis, their indices, or both.",
        DATA,
        &[
            attr_or("k", AttrType::Int, DefaultDecl::Int(1)),
            AXIS,
            attr_or("ret_type", AttrType::Str, DefaultDecl::Str("both")),
            attr_or("largest", AttrType::Bool, DefaultDecl::Bool(true)),
            INDEX_DTYPE,
        ],
        topk,
    ),
    op("relax.nonzero", "Indices of the elements that are not 0, one row for each axis.", X, &[], nonzero),
];

fn sort(call: Call<'_>) -> Inferred {
    let x = tensor(call, 0)?;
    axis(int(call, "axis").unwrap_or(-1), x.ndim)?;
    Ok(Type::Tensor(x))
}

fn argsort(call: Call<'_>) -> Inferred {
    let x = tensor(call, 0)?;
    axis(int(call, "axis").unwrap_or(-1), x.ndim)?;
    let dtype = out_dtype(call, "dtype", DType::I32);
    Ok(with_dtype(x, dtype))
}

fn topk(call: Call<'_>) -> Inferred {
    let x = tensor(call, 0)?;
    let at = axis(int(call, "axis").unwrap_or(-1), x.ndim)?;
    let k = int(call, "k").unwrap_or(1);
    let dims = x.shape.clone().zip(at).map(|(mut dims, at)| {
        // Less than 1 means all of them.
        if k >= 1 && dims[at].as_int().is_none_or(|size| k <= size) {
            dims[at] = Dim::Int(k);
        }
        dims
    });
    let values = with_shape(&x, x.ndim, dims);
    let dtype = out_dtype(call, "dtype", DType::I32);
    let indices = match &values {
        Type::Tensor(t) => with_dtype(t.clone(), dtype),
        other => other.clone(),
    };
    match text(call, "ret_type") {
        Some("both") => Ok(Type::tuple([values, indices])),
        Some("values") => Ok(values),
        Some("indices") => Ok(indices),
        other => {
            wrong(format!("ret_type is \"{}\"; it must be \"both\", \"values\" or \"indices\"", other.unwrap_or("")))
        }
    }
}

/// How many there are is known when run.
fn nonzero(call: Call<'_>) -> Inferred {
    let x = tensor(call, 0)?;
    Ok(Type::Tensor(TensorType { dtype: DType::I64, ndim: 2, shape: None, vdevice: x.vdevice }))
}
