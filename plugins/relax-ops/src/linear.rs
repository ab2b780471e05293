//! Matrix products.

use crate::declare::*;
use plugin_api::arith::prove_equal;
use plugin_api::ir::{Call, Dim, TensorType};
use plugin_api::metadata::{ArgKind, AttrType};
use plugin_api::typing::operators::{DefaultDecl, OpDecl};
use std::collections::BTreeMap;

pub(crate) const OPERATORS: &[OpDecl] = &[
    op(
        "relax.matmul",
        documented!(
            "Matrix product of the last two axes, with broadcasting of the others; one axis counts as a vector.",
            "the broadcast leading axes, then the rows of `x1` and the columns of `x2`; elements of `out_dtype`, else of the operands",
            r#"x1: R.Tensor((8, 2, 3), "float32"), x2: R.Tensor((3, 4), "float32")"#,
            "R.matmul(x1, x2)",
            r#"R.Tensor((8, 2, 4), "float32")"#
        ),
        X1_X2,
        &[attr_or("out_dtype", AttrType::DType, DefaultDecl::None)],
        matmul,
    ),
    op(
        "relax.outer",
        documented!(
            "Products of each element of one vector with each of another.",
            "the lengths of both vectors, with their data type",
            r#"x1: R.Tensor((4,), "float32"), x2: R.Tensor((5,), "float32")"#,
            "R.outer(x1, x2)",
            r#"R.Tensor((4, 5), "float32")"#
        ),
        X1_X2,
        &[],
        outer,
    ),
    op(
        "relax.einsum",
        documented!(
            "Sum of products, with the dimensions named by letters.",
            "the dimensions of the letters after `->`, or of those that appear once",
            r#"a: R.Tensor((2, 3), "float32"), b: R.Tensor((3, 4), "float32")"#,
            r#"R.einsum((a, b), subscripts="ij,jk->ik")"#,
            r#"R.Tensor((2, 4), "float32")"#
        ),
        &[arg("operands", ArgKind::Tuple)],
        &[attr("subscripts", AttrType::Str)],
        einsum,
    ),
];

fn matmul(call: Call<'_>) -> Inferred {
    let (a, b) = (tensor(call, 0)?, tensor(call, 1)?);
    let dtype = match asked_dtype(call, "out_dtype") {
        Some(dtype) => dtype,
        None => same_dtype(a.dtype, b.dtype)?,
    };
    let vdevice = same_device(&a, &b)?;
    if a.ndim == 0 || b.ndim == 0 {
        return wrong("a tensor without dimensions has no matrix product".to_string());
    }
    let ndim = match (a.ndim, b.ndim) {
        (x, y) if x < 0 || y < 0 => -1,
        (1, 1) => 0,
        (1, n) | (n, 1) => n - 1,
        (x, y) => x.max(y),
    };
    let like = TensorType { dtype, ndim, shape: None, vdevice };
    let unknown = with_shape(&like, ndim, None);
    let (Some(x), Some(y)) = (&a.shape, &b.shape) else { return Ok(unknown) };
    let (rows, inner) = match x.as_slice() {
        [inner] => (None, inner),
        [.., rows, inner] => (Some(rows), inner),
        [] => return Ok(unknown),
    };
    let (inner2, columns) = match y.as_slice() {
        [inner] => (inner, None),
        [.., inner, columns] => (inner, Some(columns)),
        [] => return Ok(unknown),
    };
    if prove_equal(inner, inner2) == Some(false) {
        return wrong(format!(
            "columns of the first ({}) and rows of the second ({}) differ",
            show(inner),
            show(inner2)
        ));
    }
    let outer = |dims: &'_ [Dim]| dims[..dims.len().saturating_sub(2)].to_vec();
    let Some(mut dims) = broadcast(&outer(x), &outer(y))? else { return Ok(unknown) };
    dims.extend(rows.into_iter().chain(columns).cloned());
    Ok(with_shape(&like, ndim, Some(dims)))
}

fn outer(call: Call<'_>) -> Inferred {
    let (a, b) = (tensor(call, 0)?, tensor(call, 1)?);
    if a.ndim != 1 || b.ndim != 1 {
        return wrong(format!("needs two vectors, found {} and {} dimensions", a.ndim, b.ndim));
    }
    let like = TensorType { dtype: same_dtype(a.dtype, b.dtype)?, ndim: 2, shape: None, vdevice: same_device(&a, &b)? };
    let dims = a.shape.zip(b.shape).map(|(a, b)| a.into_iter().chain(b).collect());
    Ok(with_shape(&like, 2, dims))
}

/// Each letter stands for one dimension; without `->` the result has the letters that occur once, in order.
fn einsum(call: Call<'_>) -> Inferred {
    let operands = tensors(call, 0)?;
    let subscripts: String = text(call, "subscripts").unwrap_or_default().chars().filter(|c| *c != ' ').collect();
    let (inputs, output) = subscripts.split_once("->").map_or((subscripts.as_str(), None), |(i, o)| (i, Some(o)));
    let terms: Vec<&str> = inputs.split(',').collect();
    if terms.len() != operands.len() {
        return wrong(format!("\"{subscripts}\" names {} operands, found {}", terms.len(), operands.len()));
    }
    let Some(first) = operands.first() else { return wrong("needs at least one tensor".to_string()) };
    let mut dtype = first.dtype;
    let mut sizes: BTreeMap<char, Dim> = BTreeMap::new();
    let mut known = true;
    for (term, t) in terms.iter().zip(&operands) {
        dtype = same_dtype(dtype, t.dtype)?;
        if term.contains('.') {
            return Ok(with_shape(&TensorType { dtype, ..first.clone() }, -1, None));
        }
        if t.ndim >= 0 && t.ndim as usize != term.len() {
            return wrong(format!("\"{term}\" stands for {} dimensions, found {}", term.len(), t.ndim));
        }
        let Some(dims) = &t.shape else {
            known = false;
            continue;
        };
        for (letter, dim) in term.chars().zip(dims) {
            match sizes.get(&letter).map(|size| (size, prove_equal(size, dim))) {
                Some((size, Some(false))) if size.as_int() != Some(1) && dim.as_int() != Some(1) => {
                    return wrong(format!("`{letter}` is {} in one operand and {} in another", show(size), show(dim)));
                }
                Some((size, _)) if size.as_int() != Some(1) => {}
                _ => {
                    sizes.insert(letter, dim.clone());
                }
            }
        }
    }
    let implied: String = sizes.keys().filter(|letter| inputs.matches(**letter).count() == 1).collect();
    let output = output.unwrap_or(&implied);
    let ndim = output.len() as i32;
    let dims = if known { output.chars().map(|letter| sizes.get(&letter).cloned()).collect() } else { None };
    Ok(with_shape(&TensorType { dtype, ..first.clone() }, ndim, dims))
}
