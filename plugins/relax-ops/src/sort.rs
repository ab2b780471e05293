//! Sorting and searching.

use crate::declare::*;
use crate::type_rules::*;
use plugin_api::ir::{Call, DType, Dim, TensorType, Type};
use plugin_api::metadata::AttrType;
use plugin_api::typing::operators::{AttrDecl, DefaultDecl, OpDecl};

const AXIS: AttrDecl = attr_or("axis", AttrType::Int, DefaultDecl::Int(-1));
const DESCENDING: AttrDecl = attr_or("descending", AttrType::Bool, DefaultDecl::Bool(false));
const INDEX_DTYPE: AttrDecl = attr_or("dtype", AttrType::DType, DefaultDecl::Str("int32"));

pub(crate) const OPERATORS: &[OpDecl] = &[
    op(
        "relax.sort",
        documented!(
            "Elements sorted along an axis.",
            ALONG,
            r#"data: R.Tensor((2, 3), "float32")"#,
            "R.sort(data, axis=-1, descending=True)",
            r#"R.Tensor((2, 3), "float32")"#
        ),
        X,
        &[AXIS, DESCENDING],
        sort,
    ),
    op(
        "relax.argsort",
        documented!(
            "Indices that sort along an axis.",
            "the shape of `data`, with elements of `dtype`",
            r#"data: R.Tensor((2, 3), "float32")"#,
            r#"R.argsort(data, axis=-1, dtype="int64")"#,
            r#"R.Tensor((2, 3), "int64")"#
        ),
        DATA,
        &[AXIS, DESCENDING, INDEX_DTYPE],
        argsort,
    ),
    op(
        "relax.topk",
        documented!(
            "The `k` largest or smallest elements along an axis, their indices, or both.",
            "a tuple of values and indices, of length `k` along the axis, or only one of the two, depending on `ret_type`",
            r#"data: R.Tensor((2, 8), "float32")"#,
            "R.topk(data, k=3, axis=-1)",
            r#"R.Tuple(R.Tensor((2, 3), "float32"), R.Tensor((2, 3), "int32"))"#
        ),
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
    op(
        "relax.nonzero",
        documented!(
            "Indices of the elements that are not 0, one row for each axis.",
            "int64, with one row for each axis of `x`; the number of columns is known only at run time",
            r#"x: R.Tensor((2, 3), "float32")"#,
            "R.nonzero(x)",
            r#"R.Tensor(dtype="int64", ndim=2)"#
        ),
        X,
        &[],
        nonzero,
    ),
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
        // A `k` below 1 selects all elements.
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

/// Infers `nonzero`, whose number of columns is known only at run time.
fn nonzero(call: Call<'_>) -> Inferred {
    let x = tensor(call, 0)?;
    Ok(Type::Tensor(TensorType { dtype: DType::I64, ndim: 2, shape: None, vdevice: x.vdevice }))
}
